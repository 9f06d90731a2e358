"""tools/check_layers.py: which includes and imports it refuses."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from tests.python.tools.loading import load_tool


@pytest.fixture
def tool(tmp_path: Path) -> ModuleType:
    """The tool with an empty source tree, an empty Python package and a small LAYERS for each."""
    module = load_tool("check_layers")
    module.SOURCE = tmp_path
    layers = "support:\nlayout: support\nruntime: support layout\nir: support layout\nbackends: support runtime ir\n"
    (tmp_path / "LAYERS").write_text(layers)
    module.PYTHON = tmp_path / "python"
    module.PYTHON.mkdir()
    (module.PYTHON / "LAYERS").write_text("_base:\n_values: _base\n_session: _base _values\nquadrants: _base\nmath: quadrants\n")
    module.PYTHON_EXCEPTIONS = {}
    return module


@pytest.mark.parametrize(
    ("file", "line", "part_of_message"),
    [
        ("layout/tree.cpp", '#include "runtime/buffer.h"', "layout may not include runtime/buffer.h"),
        ("runtime/pool.cpp", "#include <mlir/IR/Builders.h>", "loaded without LLVM"),
        ("runtime/pool.cpp", "#include <Python.h>", "Python is seen in"),
        ("backends/cpu/device.cpp", '#include "ir/dialect.h"', "the run-time half may not include ir/dialect.h"),
        ("ir/ops.cpp", 'auto *x = getenv("QD_X");', "environment variables are read in support/ only"),
        ("elsewhere/a.cpp", "", "is not in src/LAYERS"),
        ("ir/ops.cpp", "#include <llvm/IR/IntrinsicsNVPTX.h>", "NVPTX is a word of one backend"),
        ("backends/optimize.cpp", "// for the lanes of a warp", "warp is a word of one backend"),
    ],
)
def test_refused(tool: ModuleType, tmp_path: Path, file: str, line: str, part_of_message: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / file
    path.parent.mkdir(parents=True)
    path.write_text(line + "\n")
    assert tool.main() == 1
    assert part_of_message in capsys.readouterr().out


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("layout/tree.cpp", '#include "support/error.h"'),
        ("layout/tree.cpp", '#include "layout/tree.h"'),
        ("support/hash.cpp", '#include "llvm/Support/BLAKE3.h"'),
        ("backends/cpu/target.cpp", '#include "ir/dialect.h"'),
        ("ir/ops.cpp", '#include "mlir/IR/Builders.h"'),
        ("support/options.cpp", 'auto *x = getenv("QD_X");'),
        ("backends/cuda/target.cpp", "#include <llvm/IR/IntrinsicsNVPTX.h>"),
        ("support/options.def", "// CUDA"),
    ],
)
def test_accepted(tool: ModuleType, tmp_path: Path, file: str, line: str) -> None:
    path = tmp_path / file
    path.parent.mkdir(parents=True)
    path.write_text(line + "\n")
    assert tool.main() == 0


def test_layers_may_only_name_what_stands_above(tool: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "LAYERS").write_text("layout: support\nsupport:\n")
    with pytest.raises(SystemExit, match="layout names support"):
        tool.main()


@pytest.mark.parametrize(
    ("file", "line", "part_of_message"),
    [
        ("_values/types.py", "from .._session.init import get", "_values may not import quadrants._session.init.get"),
        ("_values/types.py", "def f():\n    from .. import math", "types.py:2: _values may not import quadrants.math"),
        ("_values/types.py", 'importlib.import_module("..math", __package__)', "_values may not import quadrants.math"),
        ("_values/types.py", "import quadrants as qd", "_values may not import quadrants"),
        ("__init__.py", "from ._values import types", "quadrants may not import quadrants._values"),
        ("other.py", "", "other is not in python/quadrants/LAYERS"),
    ],
)
def test_refused_import(tool: ModuleType, file: str, line: str, part_of_message: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = tool.PYTHON / file
    path.parent.mkdir(exist_ok=True)
    path.write_text(line + "\n")
    assert tool.main() == 1
    assert part_of_message in capsys.readouterr().out


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("_values/types.py", "from . import other\nfrom .. import _runtime\nfrom .._base.errors import Error\nimport numpy"),
        ("__init__.py", "from ._base.errors import Error"),
        ("math.py", "import quadrants as qd\nfrom quadrants import field"),
    ],
)
def test_accepted_import(tool: ModuleType, file: str, line: str) -> None:
    path = tool.PYTHON / file
    path.parent.mkdir(exist_ok=True)
    path.write_text(line + "\n")
    assert tool.main() == 0


def test_exceptions_are_used(tool: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    tool.PYTHON_EXCEPTIONS = {("_base/errors.py", "_values"): "reason"}
    (tool.PYTHON / "_base").mkdir()
    module = tool.PYTHON / "_base" / "errors.py"
    module.write_text("from .._values import types\n")
    assert tool.main() == 0
    module.write_text("")
    assert tool.main() == 1
    assert "the exception for _values in tools/check_layers.py is unused" in capsys.readouterr().out


def test_imports_in_a_circle_are_refused(tool: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tool.PYTHON / "_base"
    folder.mkdir()
    (folder / "one.py").write_text("from .two import x\n")
    (folder / "two.py").write_text("from . import three\nimport quadrants\n")
    (folder / "three.py").write_text("")
    (tool.PYTHON / "__init__.py").write_text("from ._base import one\n")
    assert not list(tool.check_cycles())
    (folder / "three.py").write_text("def f():\n    from .one import y\n")
    assert tool.main() == 1
    assert "imports in a circle" in capsys.readouterr().out

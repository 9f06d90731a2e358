#!/usr/bin/env python3
"""Writes the stubs in python/quadrants: the public names for type checkers, which see neither the names that the package adds at import nor
the types of functions in the kernel language.

Run it after a change of the public names; `--check` only reports whether the files are up to date.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent / "python" / "quadrants"
sys.path.append(str(PACKAGE.parent))

import quadrants as qd  # noqa: E402
from quadrants._base import dtypes as _dtypes  # noqa: E402
from quadrants._containers import axes  # noqa: E402
from quadrants._language.builtins import TABLE, Builtin  # noqa: E402
from quadrants._language.func import Func  # noqa: E402
from quadrants._values.types import MatrixType  # noqa: E402


def declare(name: str, function: Builtin | Func) -> str:
    """Returns the declaration of a function under this name."""
    if isinstance(function, Builtin):
        given = re.sub(
            r"(\w+)(?:=None)?", lambda word: f"{word[1]}: Any" + " = ..." * ("=" in word[0]), str(inspect.signature(function))[1:-1]
        )
    else:
        given = ", ".join(f"{p.name}: Any" + (" = ..." if p.has_default else "") for p in function.parameters)
    return f"def {name}({given}) -> Any: ..."


def make_stub() -> str:
    """Returns the text of the stub."""
    source = (PACKAGE / "__init__.py").read_text()
    imports = re.findall(r"^ *from (\.[\w.]*) import (?:\(([^)]*)\)|([^(#\n]*))", source, re.M)
    lines = ["# Written by tools/write_stub.py.", "# ruff: noqa", "from . import _runtime as _runtime"]
    lines += ["from typing import Any", "from ._base.options import Config"]
    lines += [f"from .types import {name} as {name}" for name in (*_dtypes.__all__, "Template", "template")]
    for module, block, line in imports:
        names = [name.strip() for name in (block or line).split(",") if name.strip()]
        names = importlib.import_module(module, "quadrants").__all__ if names == ["*"] and module != "._base.dtypes" else names
        public = [f"{name} as {name}" for name in names if name in qd.__all__ and name not in ("Template", "template")]
        lines += [f"from {module} import {name}" for name in public]
    lines += [f"from . import {name} as {name}" for name in qd._MODULES]
    lines += [f"from .{module} import {name} as {name}" for name, module in sorted(qd._LAZY.items())]
    lines += ["from ._containers.axes import Axis", *(f"{name}: list[Axis]" for name in axes.AXES)]
    lines += [f"{arch.name}: Arch" for arch in qd.Arch] + ["x86_64: Arch", "cfg: Config | None"]
    lines += [declare(name, builtin) for name, builtin in TABLE.items() if isinstance(getattr(qd, name, None), Builtin)]
    return "\n".join(lines) + "\n"


# Data types and annotations for type checkers: a parameter of type f32 is a float, and an array is anything that can be indexed. mypy,
# which accepts numbers in brackets only for Any, reads the first definition; pyright reads the reachable one.
ANNOTATIONS = """
if False:
    NDArray: Any
else:
    class NDArray(Protocol):  # type: ignore[no-redef]
        def __class_getitem__(cls, items: Any) -> Any: ...
        @property
        def shape(self) -> Any: ...
        def __getitem__(self, index: Any, /) -> Any: ...
        def __setitem__(self, index: Any, value: Any, /) -> None: ...
        def __iter__(self) -> Any: ...
        def __len__(self) -> int: ...
Template: TypeAlias = Any
def template(element_type: Any = ..., ndim: int | None = ...) -> Any: ...
def ndarray(dtype: Any = ..., ndim: int | None = ..., element_dim: int | None = ..., element_shape: Any = ..., field_dim: int | None = ...,
            needs_grad: bool | None = ..., boundary: str = ..., shape: Any = ...) -> Any: ...
"""


def make_types_stub() -> str:
    """Returns the stub of `quadrants.types`."""
    lines = [
        "# Written by tools/write_stub.py.",
        "# ruff: noqa",
        "from typing import Any, Protocol, TypeAlias",
    ]
    for name in _dtypes.__all__:
        dtype = getattr(_dtypes, name)
        kind = "bool" if dtype is _dtypes.u1 else "float" if dtype.is_real else "int"
        lines.append(f"{name}: TypeAlias = {kind}")
    for name in sorted(set(qd.types.__all__) - {"NDArray", "Template", "ndarray", "primitive_types", "quant", "template"}):
        lines.append(f"from {getattr(qd.types, name).__module__.replace('quadrants', '.', 1)} import {name} as {name}")
    return "\n".join([*lines, "from . import primitive_types as primitive_types", "from . import quant as quant"]) + ANNOTATIONS


def make_library_stub(name: str) -> str:
    """Returns the stub of a module in the kernel language."""
    module = importlib.import_module(f"quadrants.{name}")
    lines = ["# Written by tools/write_stub.py.", "# ruff: noqa", "from typing import Any", "from ._values.types import MatrixType"]
    for key, value in vars(module).items():
        if key.startswith("_"):
            continue
        if isinstance(value, (Builtin, Func)):
            lines.append(declare(key, value))
        elif isinstance(value, (MatrixType, float)):
            lines.append(f"{key}: {type(value).__name__}")
    lazy = getattr(module, "_MODULES", {})  # classes that are loaded at their first use
    lines += [f"from ._solvers.{lazy[key]} import {key} as {key}" for key in sorted(lazy)]
    return "\n".join(lines) + "\n"


def make_algorithms_stub() -> str:
    """Returns the stub of `quadrants.algorithms`: functions of Python by their modules, those of kernels by their parameters."""
    lines = ["# Written by tools/write_stub.py.", "# ruff: noqa", "from typing import Any"]
    for name in qd.algorithms.__all__:
        value = getattr(qd.algorithms, name)
        if not isinstance(value, Func):
            lines.append(f"from .{value.__module__.rpartition('.')[2]} import {name} as {name}")
        elif hasattr(value, "host"):  # Python calls it with fewer arguments than kernels
            lines.append(f"def {name}(*arguments: Any, **options: Any) -> Any: ...")
        else:
            lines.append(declare(name, value))
    return "\n".join(lines) + "\n"


def main() -> int:
    """Writes or compares the stubs."""
    stubs = {
        PACKAGE / "__init__.pyi": make_stub(),
        PACKAGE / "types" / "__init__.pyi": make_types_stub(),
        PACKAGE / "algorithms" / "__init__.pyi": make_algorithms_stub(),
        **{PACKAGE / f"{name}.pyi": make_library_stub(name) for name in ("linalg", "math")},
    }
    if "--check" in sys.argv:
        return int(any(not path.exists() or path.read_text() != text for path, text in stubs.items()))
    for path, text in stubs.items():
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Writes the stubs in python/quadrants: the public names for type checkers, which see neither the names that the package adds at import nor
the types of functions in the kernel language.

Run it after a change of the public names; `--check` only says whether the files are up to date.
"""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent / "python" / "quadrants"
sys.path.append(str(PACKAGE.parent))

import quadrants as qd  # noqa: E402
from quadrants import _dtypes, _snode  # noqa: E402
from quadrants._builtins import TABLE, Builtin  # noqa: E402
from quadrants._func import Func  # noqa: E402
from quadrants._types import MatrixType  # noqa: E402


def make_stub() -> str:
    """The text of the stub."""
    source = (PACKAGE / "__init__.py").read_text()
    imports = re.findall(r"^from (\.[\w.]*) import (?:\(([^)]*)\)|([^(#\n]*))", source, re.M)
    lines = ["# Written by tools/write_stub.py.", "# ruff: noqa", "from . import _runtime as _runtime"]
    lines += ["from ._builtins import Builtin", "from ._options import Config"]
    lines += [f"from ._dtypes import {name} as {name}" for name in _dtypes.__all__]
    for module, block, line in imports:
        names = [name.strip() for name in (block or line).split(",") if name.strip()]
        public = [f"{name} as {name}" for name in names if name in qd.__all__]
        lines += [f"from {module} import {name}" for name in public]
    lines += [f"from . import {name} as {name}" for name in qd._MODULES]
    lines += [f"from .{module} import {name} as {name}" for name, module in sorted(qd._LAZY.items())]
    lines += ["from ._snode import Axis", *(f"{name}: list[Axis]" for name in _snode.AXES)]
    lines += [f"{arch.name}: Arch" for arch in qd.Arch] + ["x86_64: Arch", "cfg: Config | None"]
    lines += [f"{name}: Builtin" for name in TABLE if isinstance(getattr(qd, name, None), Builtin)]
    return "\n".join(lines) + "\n"


def make_library_stub(name: str) -> str:
    """The stub of a module in the kernel language."""
    module = importlib.import_module(f"quadrants.{name}")
    lines = ["# Written by tools/write_stub.py.", "# ruff: noqa", "from typing import Any", "from ._builtins import Builtin"]
    lines.append("from ._types import MatrixType")
    for key, value in vars(module).items():
        if key.startswith("_"):
            continue
        if isinstance(value, Func):
            given = ", ".join(f"{p.name}: Any" + (" = ..." if p.has_default else "") for p in value.parameters)
            lines.append(f"def {key}({given}) -> Any: ...")
        elif isinstance(value, (Builtin, MatrixType, float)):
            lines.append(f"{key}: {type(value).__name__}")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Writes or compares."""
    stubs = {PACKAGE / "__init__.pyi": make_stub(), **{PACKAGE / f"{name}.pyi": make_library_stub(name) for name in ("linalg", "math")}}
    if "--check" in sys.argv:
        return int(any(not path.exists() or path.read_text() != text for path, text in stubs.items()))
    for path, text in stubs.items():
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())

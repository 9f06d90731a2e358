#!/usr/bin/env python3
"""Writes python/quadrants/__init__.pyi: the public names for type checkers, which cannot see the names that the package adds at import.

Run it after a change of the public names; `--check` only says whether the file is up to date.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent / "python" / "quadrants"
sys.path.insert(0, str(PACKAGE.parent))

import quadrants as qd  # noqa: E402
from quadrants import _dtypes  # noqa: E402
from quadrants._builtins import TABLE, Builtin  # noqa: E402


def make_stub() -> str:
    """The text of the stub."""
    source = (PACKAGE / "__init__.py").read_text()
    imports = re.findall(r"^from (\.[\w.]*) import (?:\(([^)]*)\)|([^(#\n]*))", source, re.M)
    lines = ["# Written by tools/write_stub.py.", "# ruff: noqa", "from ._builtins import Builtin", "from ._options import Config"]
    lines += [f"from ._dtypes import {name} as {name}" for name in _dtypes.__all__]
    for module, block, line in imports:
        names = [name.strip() for name in (block or line).split(",") if name.strip()]
        public = [f"{name} as {name}" for name in names if name in qd.__all__]
        lines += [f"from {module} import {name}" for name in public]
    lines += [f"from . import {name} as {name}" for name in qd._MODULES]
    lines += [f"from .{module} import {name} as {name}" for name, module in sorted(qd._LAZY.items())]
    lines += [f"{arch.name}: Arch" for arch in qd.Arch] + ["x86_64: Arch", "cfg: Config | None"]
    lines += [f"{name}: Builtin" for name in TABLE if isinstance(getattr(qd, name, None), Builtin)]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Writes or compares."""
    path, text = PACKAGE / "__init__.pyi", make_stub()
    if "--check" in sys.argv:
        return int(not path.exists() or path.read_text() != text)
    path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())

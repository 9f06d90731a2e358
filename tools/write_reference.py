#!/usr/bin/env python3
"""Writes the reference pages of the package: from its docstrings, the table of operators, and the table of options.

Usage: write_reference.py FOLDER. `./dev docs` makes the pages on demand; they are never committed.
"""

from __future__ import annotations

import enum
import importlib
import inspect
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "python"))

import quadrants as qd  # noqa: E402
from quadrants import _runtime  # noqa: E402
from quadrants._base import options as _options  # noqa: E402
from quadrants._language.builtins import Builtin  # noqa: E402
from quadrants._language.func import Func  # noqa: E402

MODULES = ("qd", "qd.ad", "qd.algorithms", "qd.gui", "qd.linalg", "qd.math", "qd.memory", "qd.sparse", "qd.tools", "qd.types")
_OPERANDS = {
    "Any": "integers and floats",
    "Real": "floats; integers are converted",
    "Integer": "integers",
    "Numeric": "integers and floats",
}


def get_module(name: str) -> Any:
    """Returns the module with the public name `qd` or `qd.name`."""
    return importlib.import_module(name.replace("qd", "quadrants", 1))


def list_names(module: str) -> list[str]:
    """Returns the names that a module exports: those in `__all__`, else its own."""
    found = get_module(module)
    if hasattr(found, "__all__"):
        return sorted(found.__all__)
    own = [name for name, value in vars(found).items() if not name.startswith("_") and _is_own(found, value)]
    return sorted(own)


def _is_own(module: Any, value: Any) -> bool:
    if isinstance(value, Builtin):
        return True
    inner = getattr(value, "function", value)
    return not inspect.ismodule(value) and getattr(inner, "__module__", module.__name__) == module.__name__ and value is not qd


def is_described(value: Any) -> bool:
    """Whether the value has a docstring of its own: true for functions, classes and modules, not for constants."""
    return isinstance(value, (Builtin, Func, type)) or inspect.isroutine(value) or inspect.ismodule(value)


def get_doc(value: Any) -> str:
    """The docstring of a function, class or module, without what it inherits."""
    return inspect.cleandoc(getattr(value, "__doc__", None) or "")


def get_signature(name: str, value: Any) -> str:
    """Returns the call in the form that users write."""
    if isinstance(value, Func):
        shown = [parameter for parameter in value.parameters if not (parameter.is_named and parameter.is_placed)]
        given = [parameter.name + ("=..." if parameter.has_default else "") for parameter in shown]
        return f"{name}({', '.join(given)})"
    if isinstance(value, Builtin):
        return f"{name}{inspect.signature(value)}"
    if isinstance(value, type) and issubclass(value, enum.Enum):
        return " ".join(f"{name}.{member}" for member in value.__members__)
    try:
        return name + re.sub(r"'([\w\[\], |.]+)'", r"\1", str(inspect.signature(value)))
    except (TypeError, ValueError):
        return name


def describe(name: str, value: Any) -> Iterator[str]:
    """Yields the lines of one entry."""
    if not is_described(value):
        yield f"### {name}\n\n`{value!r}`\n"
        return
    yield f"### {name}\n\n```\n{get_signature(name, value)}\n```\n\n{get_doc(value)}\n"
    if isinstance(value, type) and not issubclass(value, (enum.Enum, BaseException)):
        for member, inner in inspect.getmembers(value):
            if not member.startswith("_") and (get_doc(inner) if not callable(inner) else inspect.isroutine(inner)):
                first = get_doc(inner).partition("\n\n")[0].replace("\n", " ")
                yield f"- `{get_signature(member, inner) if callable(inner) else member}`: {first}"
        yield ""


def describe_operators() -> Iterator[str]:
    """Yields a table row for each operator of builtins.def."""
    yield "# Operators and elementary functions\n\n| name | operands | NumPy | meaning |\n| --- | --- | --- | --- |"
    for row in _runtime.OPERATORS.splitlines():
        kind, name, operand, _, numpy, doc = row.split("\t")
        shown = f"atomic {name}" if kind == "atomic" else name
        yield f"| {shown} | {_OPERANDS[operand]} | `{numpy}` | {doc} |"


def find_pages() -> dict[str, list[Path]]:
    """Returns the pages whose tested code uses a name of the package: "qd.field", "qd.math.mix"."""
    found: dict[str, list[Path]] = {}
    for page in [ROOT / "README.md", *sorted((ROOT / "docs" / "guide").glob("*.md"))]:
        code = "\n".join(re.findall(r"^```python[^\n]*\n(.*?)^```", page.read_text(), re.M | re.S))
        for module, names in re.findall(r"^from quadrants(?:\.(\w+))? import (.+)$", code, re.M):
            prefix = f"qd.{module}." if module else "qd."
            code += "".join(f"\n{prefix}{name.strip()}" for name in names.split(","))
        code += re.sub(r"(?<![.\w])algorithms\.", "qd.algorithms.", code)
        names = set(re.findall(r"\bqd\.\w+(?:\.\w+)?", code))
        for name in sorted(names | {".".join(name.split(".")[:2]) for name in names}):
            found.setdefault(name, []).append(page)
    return found


def write(folder: Path, root: Path = ROOT) -> None:
    """Writes all pages and their index; `root` is the folder that has the pages of the guide in docs/guide."""
    folder.mkdir(parents=True, exist_ok=True)
    pages = find_pages()
    index = ["# Reference\n"]
    for module in MODULES:
        lines = [f"# {module}\n", get_doc(get_module(module)) + "\n"]
        for name in list_names(module):
            lines += describe(f"{module}.{name}", getattr(get_module(module), name))
            if used := pages.get(f"{module}.{name}"):
                lines.append(
                    "Used in "
                    + ", ".join(f"[{page.stem}]({os.path.relpath(root / page.relative_to(ROOT), folder)})" for page in used)
                    + ".\n"
                )
        (folder / f"{module}.md").write_text("\n".join(lines))
        index.append(f"- [{module}]({module}.md)")
    (folder / "operators.md").write_text("\n".join(describe_operators()) + "\n")
    (folder / "options.md").write_text("# Options of `qd.init`\n\n" + re.sub(r"^    ", "- ", _options.describe(), flags=re.M) + "\n")
    (folder / "README.md").write_text("\n".join([*index, "- [operators](operators.md)", "- [options](options.md)", ""]))


if __name__ == "__main__":
    write(Path(sys.argv[1]))

"""`python -m quadrants port file.py`: renames what programs for Taichi call otherwise, and lists what needs a hand.

Programs for Numba and Warp are not renamed, because their kernels index threads by hand; each of their names is listed with what to write.
"""

from __future__ import annotations

import ast
import difflib
import functools
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import quadrants as qd

from .pages import find_folder

PACKAGES = {"taichi": "ti", "numba": "numba", "warp": "wp"}
"""Packages, and the alias under which names are listed."""


class Finding(NamedTuple):
    """A place that needs a hand."""

    line: int
    name: str
    advice: str


@functools.cache
def read_advice(package: str) -> dict[str, str]:
    """Returns the table of the guide's page about the package: names, and what to write instead."""
    page = (find_folder("guide") / f"from_{package}.md").read_text("utf-8")
    return dict(re.findall(rf"^\| `{PACKAGES[package]}\.([\w.]+)` \| (.*) \|$", page, re.MULTILINE))


class _Imports(NamedTuple):
    """What a program imports of one package: `modules` are names of modules, `names` those of their members, with their paths in it;
    `lines` has the lines of the latter.
    """

    modules: dict[str, str]
    names: dict[str, str]
    lines: dict[str, int]


def _find_imports(tree: ast.AST, package: str) -> _Imports:
    found = _Imports({}, {}, {})
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for each in node.names:
                top, _, rest = each.name.partition(".")
                if top == package:
                    found.modules[each.asname or top] = rest if each.asname else ""
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == package and not node.level:
            prefix = (node.module or "").partition(".")[2]
            for each in node.names:
                if each.name != "*":
                    found.names[each.asname or each.name] = f"{prefix}.{each.name}".lstrip(".")
                    found.lines[each.asname or each.name] = each.lineno
    return found


def _list_uses(tree: ast.AST, imports: _Imports) -> Iterator[tuple[int, str]]:
    """Yields line and path of each name of the package that is imported or used, the longest path of each use."""
    yield from ((imports.lines[name], path) for name, path in imports.names.items())
    inner: set[int] = set()
    for node in ast.walk(tree):
        parts, base = [], node
        while isinstance(base, ast.Attribute):
            parts.append(base.attr)
            base = base.value
        if not isinstance(base, ast.Name) or id(base) in inner:
            continue
        inner.add(id(base))  # trees are walked from outside: the first path is the longest
        path = imports.modules.get(base.id, imports.names.get(base.id))
        if path is not None and (parts or base.id in imports.names):
            yield node.lineno, ".".join([*([path] if path else []), *reversed(parts)])  # type: ignore[attr-defined]


def _find_missing(path: str) -> str | None:
    """Returns the shortest beginning of a path that Quadrants does not have; members of functions and objects are not looked up."""
    found: Any = qd
    parts = path.split(".")
    for count, part in enumerate(parts, 1):
        try:
            found = getattr(found, part)
        except AttributeError:
            return ".".join(parts[:count])
        except ImportError:
            return None
        if not isinstance(found, type) and not hasattr(found, "__path__") and type(found) is not type(qd):
            return None
    return None


def _advise(name: str) -> str:
    last, advice = name.rpartition(".")[2], read_advice("taichi")
    for each in (name, name.split(".")[0], last):
        if each in advice:
            return advice[each]
    near = difflib.get_close_matches(last, dir(qd), 1, 0.7)
    return f"there is no such name; similar: qd.{near[0]}" if near else "there is no such name"


def _rename(text: str, tree: ast.AST) -> str:
    """Returns the text with the imports and the usual alias of Taichi renamed. Columns in trees count bytes."""
    places: list[tuple[int, int, bytes, bytes]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for each in node.names:
                if each.name.split(".")[0] == "taichi":
                    places.append((each.lineno, each.col_offset, b"taichi", b"quadrants"))
                    if each.asname == "ti":
                        places.append((each.end_lineno or each.lineno, (each.end_col_offset or 0) - 2, b"ti", b"qd"))
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "taichi":
            places.append((node.lineno, node.col_offset + len("from "), b"taichi", b"quadrants"))
        elif isinstance(node, ast.Name) and node.id in ("ti", "taichi"):
            places.append((node.lineno, node.col_offset, node.id.encode(), b"qd" if node.id == "ti" else b"quadrants"))
    lines = text.encode().splitlines(keepends=True)
    for line, column, old, new in sorted(set(places), reverse=True):
        row = lines[line - 1]
        start = row.find(old, column)
        lines[line - 1] = row[:start] + new + row[start + len(old) :]
    return b"".join(lines).decode()


def port(text: str) -> tuple[str, list[Finding]]:
    """Returns the text of a program with Taichi's names renamed, and what needs a hand. Raises `SyntaxError` if it is no Python."""
    tree = ast.parse(text)
    findings = []
    imports = _find_imports(tree, "taichi")
    for line, path in _list_uses(tree, imports):
        missing = _find_missing(path)
        if missing is not None:
            findings.append(Finding(line, f"ti.{missing}", _advise(missing)))
    for package, alias in PACKAGES.items():
        if package != "taichi":
            for line, path in _list_uses(tree, _find_imports(tree, package)):
                words = [path, path.rpartition(".")[2], path.split(".")[0]]
                table = read_advice(package)
                advice = next((table[word] for word in words if word in table), "there is no counterpart in the table")
                findings.append(Finding(line, f"{alias}.{path}", advice))
    ported = _rename(text, tree) if imports.modules or imports.names else text
    return ported, sorted(set(findings))

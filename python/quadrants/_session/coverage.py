"""Records which lines of kernels and funcs have run: QD_KERNEL_COVERAGE=1 (see docs/guide/debugging.md).

The compiler gets a syntax tree with probes: statements that set a byte of `hits`. A probe stands where execution is conditional and
reports all lines that run whenever it runs. The beginning of a kernel needs none, and loops remain tasks.
"""

from __future__ import annotations

import ast
import atexit
import contextlib
import os
import sqlite3
import sys
import threading
import warnings
from collections.abc import Iterator
from typing import Any

from .._base.errors import PACKAGE
from .._base.source import copy_tree
from .._containers.field import field
from .._runtime import u8

hits: Any = None
"""A byte for each probe, in the memory of the current runtime."""
_paused = threading.local()  # its attribute `by` is set while probes are disabled
_NAME = "_qd_cov"  # the name of this module in the globals of functions with probes
_SCHEMA = """
CREATE TABLE coverage_schema (version integer);
CREATE TABLE meta (key text, value text, unique (key));
CREATE TABLE file (id integer primary key, path text, unique (path));
CREATE TABLE context (id integer primary key, context text, unique (context));
CREATE TABLE line_bits (file_id integer, context_id integer, numbits blob, unique (file_id, context_id));
CREATE TABLE arc (file_id integer, context_id integer, fromno integer, tono integer, unique (file_id, context_id, fromno, tono));
CREATE TABLE tracer (file_id integer primary key, tracer text);
"""
_SCHEMA_VERSION = 7

Arc = tuple[int, int]  # from line to line; from 0: other arcs report the origin
_lock = threading.Lock()
_probes: list[tuple[str, list[set[Arc]]]] = []  # for each probe: its file, and the arcs that it reports
_kernels: list[tuple[str, set[Arc]]] = []  # for each compiled kernel: the arcs that run whenever it runs
_seen: dict[str, set[Arc]] = {}
_folder = ""
_is_full = False


def begin() -> None:
    """Allocates the probes of a new runtime."""
    global hits, _folder
    if not _folder:
        _folder = os.getcwd()
        atexit.register(write)
    hits = field(u8, _capacity(), name=_NAME)


def _capacity() -> int:
    return int(os.environ.get("QD_COVERAGE_MAX_PROBES", "100000"))


def harvest() -> None:
    """Stores the results of the probes of the current runtime."""
    global hits
    if hits is None:
        return
    reported = [_probes[probe] for probe in hits.to_numpy()[: len(_probes)].nonzero()[0]]
    for file, steps in [*reported, *((file, [arcs]) for file, arcs in _kernels)]:
        _seen.setdefault(file, set()).update(*steps)
    hits = None


def write() -> None:
    """Writes `_qd_kcov.<process>`, a data file of coverage.py, into the working directory of the first runtime's start."""
    harvest()
    if not _seen:
        return
    path = os.path.join(_folder, f"_qd_kcov.{os.getpid()}")
    if os.path.exists(path):
        os.remove(path)
    has_arcs = os.environ.get("_QD_KCOV_ARC", "0") not in ("", "0")
    data = sqlite3.connect(path)
    data.executescript(_SCHEMA)
    data.execute("INSERT INTO coverage_schema VALUES (?)", (_SCHEMA_VERSION,))
    data.executemany("INSERT INTO meta VALUES (?, ?)", [("has_arcs", str(int(has_arcs))), ("sys_argv", str(sys.argv))])
    data.execute("INSERT INTO context VALUES (1, '')")
    for number, (file, arcs) in enumerate(sorted(_seen.items()), 1):
        data.execute("INSERT INTO file VALUES (?, ?)", (number, file))
        if has_arcs:
            data.executemany("INSERT INTO arc VALUES (?, 1, ?, ?)", [(number, *arc) for arc in sorted(arcs) if arc[0]])
        else:
            data.execute("INSERT INTO line_bits VALUES (?, 1, ?)", (number, _to_bits({to for _, to in arcs if to > 0})))
    data.commit()
    data.close()


def _to_bits(lines: set[int]) -> bytes:
    return sum(1 << line for line in lines).to_bytes(max(lines, default=0) // 8 + 1, "little")


def with_probes(function: Any, tree: ast.FunctionDef, file: str, is_kernel: bool) -> ast.FunctionDef:
    """Returns the tree of a function with probes, the same object at each call; files of this package have no probes."""
    if hits is None or getattr(_paused, "by", False) or file.startswith(PACKAGE):
        return tree
    function.__globals__.setdefault(_NAME, sys.modules[__name__])
    with _lock:
        made = getattr(tree, "_qd_with_probes", None)
        if made is None:
            made = copy_tree(tree)  # the compiler distinguishes names by identity
            first = min([tree.lineno, *(decorator.lineno for decorator in tree.decorator_list)])
            always: set[Arc] | None = set() if is_kernel else None
            made.body = _Placing(file, first).block(made.body, -first, -first, always)
            if always is not None:
                _kernels.append((file, always))
            tree._qd_with_probes = made  # type: ignore[attr-defined]
    return made


@contextlib.contextmanager
def without_probes() -> Iterator[None]:
    """Disables probes for derivatives, whose lines repeat the lines of their kernels."""
    before, _paused.by = getattr(_paused, "by", False), True
    try:
        yield
    finally:
        _paused.by = before


class _Placing:
    """Places the probes of one function, whose first line is `first`: as in coverage.py, -first stands for its callers."""

    def __init__(self, file: str, first: int) -> None:
        self.file, self.first = file, first
        self.loops: list[Arc] = []  # of the loops around: the line of each, and the line after it
        self.unreported: list[set[Arc]] = []  # arcs that the next probe reports

    def probe(self, at: ast.stmt, arcs: set[Arc]) -> list[ast.stmt]:
        """Returns the statement that sets the next byte of `hits`; no statement if they are used up."""
        global _is_full
        if len(_probes) >= _capacity():
            text = f"the {_capacity()} probes for lines of kernels are used up: set QD_COVERAGE_MAX_PROBES to a larger number"
            if not _is_full:
                warnings.warn(text, RuntimeWarning, stacklevel=2)
            _is_full = True
            return []
        self.unreported.append(arcs)
        _probes.append((self.file, self.unreported))
        self.unreported = []
        place = ast.parse(f"{_NAME}.hits[{len(_probes) - 1}] = 1").body[0]
        for node in ast.walk(place):
            ast.copy_location(node, at)
        return [place]

    def block(self, body: list[ast.stmt], before: int, after: int, arcs: set[Arc] | None = None) -> list[ast.stmt]:
        """Returns the statements of a block with probes; execution comes from line `before` and continues in line `after`.

        Arcs that run whenever the block runs are added to `arcs`, or get a probe.
        """
        out: list[ast.stmt] = []
        if arcs is None:
            arcs = set()
            if _holds_loops_only(body):  # they may be tasks: a probe in the body of the first one reports it
                self.unreported.append(arcs)
            else:
                out += self.probe(body[0], arcs)
        for position, statement in enumerate(body):
            following = body[position + 1].lineno if position + 1 < len(body) else after
            arcs.add((before, statement.lineno))
            before = self.inside(statement, arcs, following)
            out.append(statement)
            if position + 1 < len(body) and _may_leave(statement):
                arcs = set()
                out += self.probe(body[position + 1], arcs)
        if before:
            arcs.add((before, after))
        return out

    def inside(self, statement: ast.stmt, arcs: set[Arc], following: int) -> int:
        """Places probes inside a statement. Returns the line from which execution continues; 0 if `arcs` of other probes report it."""
        line = statement.lineno
        if isinstance(statement, ast.If):
            statement.body = self.block(statement.body, line, following)
            if statement.orelse:
                statement.orelse = self.block(statement.orelse, line, following)
            elif not _holds_loops_only(statement.body):
                statement.orelse = self.probe(statement, {(line, following)})
        elif isinstance(statement, (ast.For, ast.While)):
            self.loops.append((line, following))
            statement.body = self.block(statement.body, line, line)
            self.loops.pop()
            if not statement.orelse:
                return line
            statement.orelse = self.block(statement.orelse, line, following)
        elif isinstance(statement, ast.With):
            statement.body = self.block(statement.body, line, following, arcs)
        elif isinstance(statement, ast.Return):
            arcs.add((line, -self.first))
        elif isinstance(statement, (ast.Break, ast.Continue)) and self.loops:
            arcs.add((line, self.loops[-1][isinstance(statement, ast.Break)]))
        else:
            if isinstance(statement, ast.FunctionDef):
                statement.body = _Placing(self.file, line).block(statement.body, -line, -line)
            return line
        return 0


def _holds_loops_only(body: list[ast.stmt]) -> bool:
    return all(isinstance(statement, (ast.For, ast.Expr)) for statement in body) and any(isinstance(item, ast.For) for item in body)


def _may_leave(statement: ast.stmt, is_in_loop: bool = False) -> bool:
    """Whether the statements after a statement may be skipped."""
    if isinstance(statement, (ast.Break, ast.Continue)):
        return not is_in_loop
    if isinstance(statement, ast.FunctionDef):
        return False
    is_loop = isinstance(statement, (ast.For, ast.While))
    return isinstance(statement, ast.Return) or any(
        _may_leave(inner, is_in_loop or is_loop) for part in ("body", "orelse") for inner in getattr(statement, part, ())
    )

"""Small kernels from expressions, for tests that go through tables."""

import itertools
import linecache
from typing import Any

import numpy as np
import pytest

import quadrants as qd

_numbers = itertools.count()

INTEGERS = ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")
FLOATS = ("f16", "f32", "f64")
DTYPES = ("u1", *INTEGERS, *FLOATS)
NUMPY = {"u1": np.bool_, **{name: np.dtype(f"{name[0]}{int(name[1:]) // 8}").type for name in DTYPES[1:]}}


def define(source: str, **names: Any) -> dict[str, Any]:
    """Runs the text of a module that has `qd`; gives its globals. Kernels find their source through `linecache`."""
    file = f"<language test {next(_numbers)}>"
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    module = {"qd": qd, "np": np, "__name__": "language_test", **names}
    exec(compile(source, file, "exec"), module)
    return module


def leave_out_long(iterations: int) -> None:
    """Skips a test whose loops the interpreter would take minutes for."""
    if qd.cfg is None and iterations > 60_000:  # interpreted
        pytest.skip("takes the interpreter long")


def run(body: str, returns: str | None = "qd.i32", preamble: str = "", **arguments: tuple[str, Any]) -> Any:
    """Calls a kernel with this body. An argument is a pair of annotation and value."""
    parameters = ", ".join(f"{name}: {annotation}" for name, (annotation, _) in arguments.items())
    arrow = f" -> {returns}" if returns else ""
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    module = define(f"{preamble}\n@qd.kernel\ndef k({parameters}){arrow}:\n{lines}")
    return module["k"](*(value for _, value in arguments.values()))


def evaluate(expression: str, returns: str = "qd.i32", **arguments: tuple[str, Any]) -> Any:
    """The value of one expression of run-time operands."""
    return run(f"return {expression}", returns, **arguments)


def edge_values(name: str) -> np.ndarray:
    """Values of a dtype at which operators go wrong."""
    if name == "u1":
        return np.array([False, True])
    dtype = np.dtype(NUMPY[name])
    if dtype.kind == "f":
        return np.array([0.0, 1.0, -1.0, 0.5, -2.5, 3.0, 7.25, -100.0, 2000.0], dtype)
    info = np.iinfo(dtype)
    values = [0, 1, 2, 3, 7, 100, info.max, info.max - 1, info.min] + ([-1, -7, -100] if info.min else [])
    return np.array(sorted({value for value in values if info.min <= value <= info.max}), dtype)


def pairs(left: str, right: str) -> tuple[np.ndarray, np.ndarray]:
    """All pairs of edge values of two dtypes, as two arrays."""
    grid = np.meshgrid(edge_values(left), edge_values(right), indexing="ij")
    return grid[0].ravel(), grid[1].ravel()

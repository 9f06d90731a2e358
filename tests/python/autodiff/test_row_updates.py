"""Kernels that read and update elements of one row, at columns that the compiler knows or not: a tape has the values that were read."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from autodiff_support import check, numbers, scalar_loss

import quadrants as qd
from quadrants._base import options as _options

pytestmark = pytest.mark.usefixtures("on_every_backend")


class Rows:
    """Containers of a program: each iteration has its number of `x`, its row of `rows`, and an integer."""

    def __init__(self, rows: Any) -> None:
        self.start = numbers([0.5, 0.7, 0.9])
        self.x, self.y, self.rows, self.loss = numbers(np.zeros(3)), numbers(np.zeros(3)), rows, scalar_loss()
        self.at = qd.field(qd.i32, shape=3)
        self.at.from_numpy(np.array([0, 2, 1], np.int32))

    def check(self, update: Any) -> None:
        start, x, y, rows, loss = self.start, self.x, self.y, self.rows, self.loss

        @qd.kernel
        def begin():
            for i in start:
                x[i] = start[i]
                y[i] = 0.5 + 0.1 * start[i]
                for j in range(3):
                    rows[i, j] = 0.4 + 0.2 * start[i] * (j + 1)

        @qd.kernel
        def finish():
            for i in y:
                loss[None] += y[i] * (i + 1)
                for j in range(3):
                    loss[None] += rows[i, j] * rows[i, j] * (j + 1)

        def program() -> None:
            begin()
            update()
            finish()

        check(program, loss, start, forward=False)


def make_rows(kind: str) -> Any:
    if kind == "field":
        return numbers(np.zeros((3, 3)))
    return qd.ndarray(qd.f64, (3, 3), needs_grad=True)


def make_update(of: Rows, body: str) -> Any:
    names = {"qd": qd, "x": of.x, "y": of.y, "t": of.rows, "at": of.at}
    lines = "".join(f"        {line}\n" for line in body.split("\n"))
    return qd.kernel_from_source(f"def update():\n    for i in x:\n{lines}", names)


# Some elements have values from before the kernel, others are written before they are read.
KNOWN_COLUMNS = {
    "a branch after a store": "t[i, 0] = x[i]\nif x[i] > 0.6:\n    t[i, 1] *= qd.tanh(t[i, 0])\ny[i] += t[i, 1]",
    "a branch that stores": "if x[i] > 0.6:\n    t[i, 0] = x[i]\n    t[i, 1] = qd.sin(t[i, 1]) * x[i]\ny[i] += x[i] * t[i, 0]",
    "both branches": "if x[i] > 0.6:\n    t[i, 0] *= t[i, 1]\nelse:\n    t[i, 1] *= t[i, 2] * x[i]\ny[i] += t[i, 0] * t[i, 1]",
    "a loop after a store": "t[i, 0] = x[i]\nfor j in range(at[i] + 1):\n    t[i, 1] *= qd.tanh(t[i, 0])\ny[i] += t[i, 1]",
}
UNKNOWN_COLUMNS = {
    "a sum": "for j in range(at[i] + 1):\n    y[i] = t[i, j] * x[i]\n    t[i, 0] += x[i]",
    "a sum of its own elements": "for j in range(at[i] + 1):\n    y[i] = t[i, j] * x[i]\n    t[i, 0] += t[i, j]",
    "a constant": "for j in range(at[i] + 1):\n    y[i] += t[i, j] * x[i]\n    t[i, 0] += 1.0",
    "a running sum": "for j in range(1, 3):\n    t[i, j] += t[i, j - 1] * x[i]",
    "a shift": "for j in range(2):\n    t[i, j] = t[i, j + 1] * x[i]",
    "a shift of some": "for j in range(at[i]):\n    t[i, j] = t[i, j + 1] * x[i]",
    "columns in opposite orders": "for j in range(3):\n    y[i] += t[i, 2 - j] * x[i]\n    t[i, j] = x[i]",
    "a column of the run time": "t[i, at[i]] *= x[i]\ny[i] += t[i, 0] * x[i]\nt[i, 2 - at[i]] *= t[i, 1]",
}


@pytest.mark.parametrize("body", (KNOWN_COLUMNS | UNKNOWN_COLUMNS).values(), ids=KNOWN_COLUMNS | UNKNOWN_COLUMNS)
def test_rows_of_known_size(body: str):
    of = Rows(make_rows("field"))
    of.check(make_update(of, body))


@pytest.mark.parametrize("body", KNOWN_COLUMNS.values(), ids=KNOWN_COLUMNS)
def test_known_columns_of_rows_of_any_size(body: str):
    of = Rows(make_rows("ndarray"))
    of.check(make_update(of, body))


@pytest.mark.parametrize("body", UNKNOWN_COLUMNS.values(), ids=UNKNOWN_COLUMNS)
def test_unknown_columns_of_rows_of_any_size_are_right_or_refused(body: str):
    """Nothing bounds the number of values that would have to be saved."""
    of = Rows(make_rows("ndarray"))
    try:
        of.check(make_update(of, body))
    except qd.QuadrantsRuntimeError as error:
        assert "overwritten" in str(error)


def test_a_warning_tells_which_elements_are_taken_to_be_different(on_every_backend: Any):
    on_every_backend(debug=True)  # for `kernel.grad()`
    of = Rows(make_rows("ndarray"))
    update = make_update(of, "t[i, at[i]] = x[i]\nfor j in range(at[i]):\n    y[i] += t[i, j] * x[i]\nt[i, 2 - at[i]] = x[i]")
    if _options.get("arch") == "python":
        return of.check(update)
    with pytest.warns(UserWarning, match="element of 't' that is read here.*indices do not tell") as seen, qd.ad.Tape(of.loss):
        update()
    assert seen[0].lineno == 5
    with pytest.warns(UserWarning, match="indices do not tell"):
        make_update(of, "for j in range(at[i]):\n    y[i] += t[i, j] * x[i]\nt[i, at[i]] = x[i]").grad()

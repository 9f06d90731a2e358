"""Loops that are no outermost loops run in order: those under an `if`, and those of plain Python functions."""

import numpy as np
import pytest
from language_support import define

import quadrants as qd

pytestmark = pytest.mark.usefixtures("on_every_backend")

PREAMBLE = """
f = qd.field(qd.i32, 1000)
flag = qd.field(qd.i32, ())
flag[None] = 1
C = 1

@qd.kernel
def k(n: qd.i32) -> qd.i32:
    total = 0
    c = qd.static(C)
    {condition}
        for i in range(1, 1000):
            f[i] = f[i - 1] + 1
            if i == 500:
                break
            total = total + i
    {other}
    return total
"""

CONDITIONS = ["n > 0", "flag[None]", "C", "True", "c", "not qd.static(C == 2)", "isinstance(C, int)"]
OTHERS = ["pass", "else: total = 5", "elif n > 3: total = 7"]
STATEMENTS = [(f"if {condition}:", other) for condition in CONDITIONS for other in OTHERS[: 3 if condition == "n > 0" else 2]]


@pytest.mark.parametrize("condition, other", [*STATEMENTS, ("while total == 0:", "pass")])
def test_a_loop_under_an_if_keeps_its_order_and_may_be_left(condition, other):
    module = define(PREAMBLE.format(condition=condition, other=other))
    assert module["k"](1) == sum(range(500))
    assert module["f"].to_numpy()[[499, 500, 501]].tolist() == [499, 500, 0]


@pytest.mark.parametrize("n, expected", [(6, 999), (2, 1998), (0, 0), (-1, 2997)])
def test_the_loops_of_all_branches_keep_their_order(n, expected):
    f = qd.field(qd.i32, 1000)

    @qd.func
    def count(step):
        if step > 0:
            for i in range(1, 1000):
                f[i] = f[i - 1] + step

    @qd.kernel
    def k(n: qd.i32):
        if n > 5:
            count(1)
        elif n > 0:
            for i in range(1, 1000):
                f[i] = f[i - 1] + 2
        elif n < 0:
            count(3)

    k(n)
    assert f[999] == expected


def test_every_form_of_loop_under_an_if_keeps_its_order():
    f = qd.field(qd.i32, (4, 5))
    seen = qd.field(qd.i32, 100)

    @qd.kernel
    def k(n: qd.i32, x: qd.types.ndarray()) -> qd.i32:
        at = 0
        if n > 0:
            for i, j in f:
                seen[at] = i * 10 + j
                at = at + 1
            for I in qd.grouped(qd.ndrange(2, 3)):
                seen[at] = I[0] * 10 + I[1]
                at = at + 1
            for i in x:
                if i == 2:
                    continue
                seen[at] = i
                at += 1
        return at

    assert k(1, np.zeros(4, np.int32)) == 29
    expected = [i * 10 + j for i in range(4) for j in range(5)] + [i * 10 + j for i in range(2) for j in range(3)] + [0, 1, 3]
    assert seen.to_numpy()[:29].tolist() == expected


def test_only_qd_static_leaves_a_loop_outermost():
    wants = True

    @qd.kernel
    def k():
        if qd.static(wants):
            for i in range(10):
                if i == 3:
                    break

    with pytest.raises(qd.QuadrantsSyntaxError, match="Cannot break in the outermost loop"):
        k()


def polynomial(x, n):
    r = 0.0
    for i in range(n):
        r = r + x * i
    return r


@pytest.mark.filterwarnings("ignore:Calling non-quadrants function")
def test_loops_of_a_plain_python_function_keep_their_order():
    def first_above(values, limit):
        found = -1
        for i in range(values.shape[0]):
            values[i] = values[i] + values[qd.max(i - 1, 0)]
            if values[i] > limit:
                found = i
                break
        return found

    @qd.kernel
    def k(x: qd.f32, n: qd.i32, values: qd.types.ndarray()) -> qd.f32:
        return polynomial(x, n) + 100 * first_above(values, n + 1)

    assert k(3, 4, np.ones(10, np.int32)) == 18 + 400
    assert k(1, 1000, np.ones(3, np.int32)) == sum(range(1000)) - 100


def test_a_plain_python_function_with_known_arguments_keeps_its_order():
    @qd.kernel
    def k() -> qd.f32:
        return polynomial(3, 4)

    assert k() == 18

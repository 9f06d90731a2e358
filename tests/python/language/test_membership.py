"""`in` and `not in` with values of the run time, and `is None` for arguments that were left out."""

import enum
import warnings

import numpy as np
import pytest
from language_support import DTYPES, define, edge_values, evaluate, run

import quadrants as qd

pytestmark = pytest.mark.usefixtures("on_every_backend")
Numbers = qd.types.NDArray[qd.i32, 1]


class Kind(enum.IntEnum):
    LOW = 3
    HIGH = 7


@pytest.mark.parametrize("items", ["(1, 2, 3)", "[5]", "()", "{4, 1}", "{2: 0, 9: 0}", "range(2, 9, 3)", "range(9, 2, -2)", "range(-3, 4)"])
def test_membership_of_known_items(items):
    found = {"LIST": eval(items)}
    body = f"for i in range(x.shape[0]):\n    o[i] = (x[i] in {items}) + 2 * (x[i] not in {items}) + 4 * (x[i] in LIST)"
    body = body.replace("\n", "\n    ")
    module = define(f"@qd.kernel\ndef k(x: Numbers, o: Numbers):\n    {body}", Numbers=Numbers, **found)
    numbers = np.arange(-5, 12, dtype=np.int32)
    result = np.zeros_like(numbers)
    module["k"](numbers, result)
    assert result.tolist() == [5 if number in found["LIST"] else 2 for number in numbers.tolist()]


@pytest.mark.parametrize("dtype", [name for name in DTYPES if name != "f16"])
@pytest.mark.parametrize("items", ["(1, 7)", "range(-7, 8)", "range(-101, 4, 3)"])
def test_membership_of_every_type(dtype, items):
    for value in edge_values(dtype).tolist():
        assert evaluate(f"n in {items}", n=(f"qd.{dtype}", value)) == (value in eval(items))


def test_items_of_the_run_time():
    @qd.kernel
    def count(x: Numbers, a: qd.i32, b: qd.i32) -> qd.i32:
        result = 0
        for i in range(x.shape[0]):
            if x[i] in (a, b, a + b):
                result += 1
            if 3 in [x[i], a]:
                result += 100
            if x[i] in range(a, b):
                result += 10000
        return result

    assert count(np.arange(12, dtype=np.int32), 2, 4) == 20103


def test_vectors_as_items_and_as_containers():
    @qd.kernel
    def k(x: qd.i32) -> qd.i32:
        v = qd.Vector([1, 5, x])
        pair = qd.Vector([1, 2])
        return (x in v) + 10 * (5 in v) + 100 * (6 not in v) + 1000 * (pair in (qd.Vector([x, 2]), qd.Vector([3, 4])))

    assert [k(1), k(6)] == [1111, 11]


def test_operands_are_evaluated_once_and_in_chains():
    body = "i = 0\nfound = (i := i + 1) in (5, 1, 1)\nreturn i * 10 + found + 100 * (0 < n in (2, 3))"
    assert [run(body, n=("qd.i32", value)) for value in (2, 4, -2)] == [111, 11, 11]


def test_enumerations_and_floats():
    module = define("@qd.kernel\ndef k(n: qd.i32) -> qd.i32:\n    return n in (Kind.LOW, Kind.HIGH)", Kind=Kind)
    assert [module["k"](value) for value in (3, 4)] == [1, 0]
    assert [evaluate("n in range(5)", n=("qd.f32", value)) for value in (2.0, 2.5, 5.0, -1.0)] == [1, 0, 0, 0]


def test_objects_decide_with_contains():
    @qd.data_oriented
    class Interval:
        def __init__(self, low, high):
            self.low, self.high = low, high

        def __contains__(self, x):
            return self.low <= x and x < self.high

    known = Interval(2, 5)

    @qd.kernel
    def k(x: qd.i32) -> qd.i32:
        made = Interval(x, x + 2)
        return (x in known) + 10 * (3 in made) + 100 * (x not in made)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert [k(2), k(7)] == [11, 0]


def test_arguments_that_are_left_out():
    @qd.func
    def add(a, b=None, c=None):
        if b is None and c is None:
            return a
        if c is not None:
            return a + c
        offset = b if b is not None else 1000
        return a + offset

    @qd.kernel
    def k(x: qd.i32) -> qd.i32:
        return add(x) + 10 * add(x, x) + 100 * add(x, c=5) + 1000 * add(x, None)

    assert k(2) == 2 + 40 + 700 + 2000


def test_vectors_structs_and_tuples_are_not_none():
    pair = qd.types.struct(a=qd.i32, b=qd.i32)

    @qd.func
    def is_given(x=None):
        return 1 if qd.static(x is not None) else 0

    @qd.kernel
    def k(n: qd.i32) -> qd.i32:
        return is_given() + 10 * is_given(qd.Vector([n, n])) + 100 * is_given(pair(n, n)) + 1000 * is_given((n, n)) + 10000 * is_given(n)

    assert k(2) == 11110

"""Python's own containers and functions in kernels: what is known while compiling, and what is refused where it is not (spec 1 S1, S4)."""

import pytest
from language_support import run

import quadrants as qd

pytestmark = pytest.mark.usefixtures("on_every_backend")

N = {"n": ("qd.i32", 3)}


@pytest.mark.parametrize(
    "expression, expected",
    [
        ("len({x % 2 for x in (1, 2, 3)})", 2),
        ("len({1, 1, 2})", 2),
        ("sum({4, 4, 5})", 9),
        ("qd.i32(3 in {1, 3})", 1),
        ("int(3.7) + int(-3.7) + int('5') + int()", 5),
        ("qd.i32(None is None)", 1),
        ("qd.i32(None is not None or qd is None)", 0),
        ("sum(map(lambda x: x + n, (1, 2)))", 9),
        ("sum(map(lambda x, y: x * y, (1, 2), [n, 5]))", 13),
        ("sum(filter(None, (1, 0, 2)))", 3),
        ("sum([sum(map(lambda x: x * k, (n, 2))) for k in (1, 2)])", 15),
        ("min(x * k for k in (1, 2) for x in (n, 7)) * 10 + max(x for x in (n, 2))", 33),
        ("(n if 3 > 2 else 2.5) // 2", 1),  # a condition that is known chooses an operand as it is
        ("((3 > 2) and n) // 2 + ((1 > 2) or n) // 2", 2),
        ("((2147483647 if n > 2 else 0) + 1) // 2", -(2**30)),  # one of the run time gives a typed value
        ("(1 if n > 2 else 2) << 33", 2),
        ("1 if 3 > 2 else None.missing", 1),
        ("3 > 2 or n.missing", 1),
    ],
)
def test_values_known_while_compiling_are_pythons(expression, expected):
    assert run(f"return {expression}", **N) == expected


@pytest.mark.parametrize(
    "expression, message",
    [
        ("len({n, n})", "the items of a set must be known while compiling"),
        ("len({n % 2 for x in (1, 2)})", "the items of a set must be known while compiling"),
        ("{1: 2}[n]", "known while compiling"),
        ("len({n: 2})", "the keys of a dict must be known while compiling"),
        ("sum([x for x in (1, 2) if x > n])", "the filter of a comprehension must be known while compiling"),
        ("sum(filter(lambda x: x > n, (1, 2)))", r"what filter\(\) asks for must be known while compiling"),
        ("qd.i32(n is None)", 'Operator "is" in Quadrants scope is not supported'),
        ("qd.i32(n in (1, 2))", '"In" is only supported inside `qd.static`'),
        ("qd.Vector([1, 2, 3])[n:].sum()", "does not support variables in slice now"),
        ("len([1, 2, 3][n : n + 1])", "does not support variables in slice now"),
        ("sum([i for i in range(n)])", "range"),
        ("len(list(qd.ndrange(n, 2)))", "range"),
        ("sum(range(n))", "range"),
        ("sorted([3, n], key=lambda x: -x)[0]", r"sorted\(\) got an unexpected keyword argument 'key'"),
        ("1 if n > 2 else None", "NoneType"),
    ],
)
def test_values_of_the_run_time_are_refused(expression, message):
    with pytest.raises(qd.QuadrantsCompilationError, match=message):
        run(f"return {expression}", **N)


@pytest.mark.parametrize(
    "header, message",
    [
        ("for i in reversed(range(n)):", "range"),
        ("for i, x in enumerate(range(n)):", "range"),
        ("for i, x in zip(range(n), (1, 2)):", "range"),
        ("for i in [1, 2] if n > 1 else [3, 4]:", "Using non static inlined if statement"),
    ],
)
def test_ranges_of_the_run_time_are_looped_over_only(header, message):
    with pytest.raises(qd.QuadrantsCompilationError, match=message):
        run(f"s = 0\n{header}\n    s += i\nreturn s", **N)

"""Python's own containers and functions in kernels: what is known while compiling, and what is refused where it is not (spec 1 S1, S4)."""

import pytest
from language_support import define, run

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


OPTIONAL = """
import dataclasses

@dataclasses.dataclass
class Group:
    array: qd.types.NDArray[qd.i32, 1] | None

@qd.data_oriented
class Solver:
    def __init__(self, array):
        self.array = array

    @qd.kernel
    def has_array(self) -> qd.i32:
        return 0 if qd.static(self.array is None) else 1

@qd.kernel
def of_tensor(array: qd.Tensor | None) -> qd.i32:
    return 1 if qd.static(array is not None) else 0

@qd.kernel
def of_template(array: qd.template()) -> qd.i32:
    return 0 if qd.static(array is None) else 1

@qd.kernel
def of_array(array: qd.types.NDArray[qd.i32, 1] | None) -> qd.i32:
    return qd.static(0 if array is None else 1)

@qd.kernel
def of_group(group: Group) -> qd.i32:
    return 0 if qd.static(group.array is None) else 1

@qd.kernel
def are_same(first: qd.Tensor, second: qd.Tensor) -> qd.i32:
    return 1 if qd.static(first is second) else 0

@qd.kernel
def is_field(array: qd.Tensor) -> qd.i32:
    return 1 if qd.static(isinstance(array, qd.Field)) else 0
"""


@pytest.mark.parametrize("given", [(1, 0, 1, 0), (0, 1, 0, 1)])
def test_a_container_that_is_only_looked_at_is_remembered(given):
    module = define(OPTIONAL)
    arrays = [qd.ndarray(qd.i32, 2) if wanted else None for wanted in given]
    fields = [qd.field(qd.i32, 2) if wanted else None for wanted in given]
    solver = module["Solver"](None)
    for array, field, wanted in zip(arrays, fields, given, strict=True):
        solver.array = array
        launches = [module["of_tensor"](array), module["of_template"](field), module["of_array"](array), solver.has_array()]
        assert [*launches, module["of_tensor"](field), module["of_group"](module["Group"](array))] == [wanted] * 6


def test_containers_are_told_apart_by_identity_and_class():
    module = define(OPTIONAL)
    one, other, field = qd.ndarray(qd.i32, 2), qd.ndarray(qd.i32, 2), qd.field(qd.i32, 2)
    assert [module["are_same"](*pair) for pair in ((one, one), (one, other), (other, other), (one, other))] == [1, 0, 1, 0]
    assert [module["is_field"](container) for container in (one, field, one)] == [0, 1, 0]


def test_specialisations_are_listed():
    kernel = define("@qd.kernel\ndef k(a: qd.template(), n: qd.i32, x: qd.types.ndarray()):\n    x[0] = n + a\n")["k"]
    array = qd.ndarray(qd.i32, 2)
    for value in (1, True, 1.0, 1, float("nan"), float("nan"), 0.0, -0.0):
        kernel(value, 3, array)
    assert len(kernel.specializations()) == 6
    assert [version["argument x"] for version in kernel.specializations()] == ["array of i32 (any,)"] * 6
    assert {version["argument n"] for version in kernel.specializations()} == {"i32"}

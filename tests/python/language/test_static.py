"""Compile-time evaluation."""

import numpy as np
import pytest
from language_support import run

import quadrants as qd

pytestmark = pytest.mark.usefixtures("on_every_backend")


def test_static_if_compiles_one_branch():
    assert run("if qd.static(2 > 1):\n    return n\nelse:\n    return undefined_name", n=("qd.i32", 4)) == 4


def test_static_elif_may_be_a_run_time_condition():
    body = "r = 0\nif qd.static(False):\n    r = undefined_name\nelif n > 3:\n    r = 1\nelse:\n    r = 2\nreturn r"
    assert run(body, n=("qd.i32", 4)) == 1
    assert run(body, n=("qd.i32", 3)) == 2


@pytest.mark.parametrize(
    "iterable, target, value",
    [
        ("range(3)", "i", "i"),
        ("range(6, 0, -2)", "i", "i"),
        ("[1, 5, 7]", "i", "i"),
        ("zip([1, 2], (3, 4))", "(a, b)", "a * b"),
        ("enumerate([5, 6])", "(i, a)", "i * a"),
        ("qd.ndrange(2, 3)", "(i, j)", "i * 10 + j"),
        ("qd.grouped(qd.ndrange(2, 3))", "I", "I[0] * 10 + I[1]"),
    ],
)
def test_static_loops_unroll(iterable, target, value):
    expected = sum(eval(f"[{value} for {target} in {iterable}]", {"qd": qd}))
    assert run(f"s = n\nfor {target.strip('()')} in qd.static({iterable}):\n    s += {value}\nreturn s", n=("qd.i32", 0)) == expected


def test_static_loop_variables_are_compile_time():
    body = """s = 0
for i in qd.static(range(4)):
    if qd.static(i % 2 == 0):
        continue
    v = qd.Vector([0] * i)
    s += v.n
return s"""
    assert run(body) == 4


def test_static_break_ends_the_unrolling():
    assert run("s = 0\nfor i in qd.static(range(10)):\n    if qd.static(i == 3):\n        break\n    s += 1\nreturn s") == 3


def test_static_values_index_matrices_and_lists():
    body = (
        "m = qd.Matrix([[1, 2], [3, 4]])\nw = [10, 100]\ns = 0\nfor i, j in qd.static(qd.ndrange(2, 2)):\n    s += m[i, j] * w[j]\nreturn s"
    )
    assert run(body) == 1 * 10 + 2 * 100 + 3 * 10 + 4 * 100


def test_several_static_values_make_a_list():
    assert run("a, b = qd.static(1, 2)\nreturn a * 10 + b") == 12


def test_static_accepts_any_compile_time_object():
    assert run("s = 0\nif qd.static('a' in 'abc'):\n    s += 1\nif qd.static(len({1, 2}) == 2):\n    s += 10\nreturn s") == 11


def test_static_scope_skips_operands_like_python():
    assert run("s = 0\nif qd.static(False and undefined_name):\n    s = 1\nx = qd.static(1 if True else undefined_name)\nreturn s + x") == 1


def test_static_assert_passes_and_fails():
    assert run("qd.static_assert(1 < 2, 'fine')\nreturn 1") == 1
    with pytest.raises(qd.QuadrantsCompilationError, match="not enough"):
        run("qd.static_assert(1 > 2, 'not enough')\nreturn 1")


def test_static_print_prints_once(capfd):
    run("qd.static_print('compiling', 3)\nreturn 1")
    assert capfd.readouterr().out.count("compiling 3") == 1


@pytest.mark.parametrize("count", [4, 100])
def test_loops_beyond_max_unroll_stay_loops(count):
    assert run(f"s = 0\nfor i in qd.static(range({count}), max_unroll=8):\n    s += i\nreturn s") == sum(range(count))


def test_identity_tests_in_static_scope():
    @qd.kernel
    def work(a: qd.template(), b: qd.template()) -> qd.i32:
        s = 0
        if qd.static(a is None):
            s += 1
        if qd.static(b is not None):
            s += 10
        return s

    assert work(None, 5) == 11
    assert work(3, None) == 0


def test_functions_chosen_at_compile_time():
    @qd.func
    def double(x):
        return x * 2

    @qd.func
    def square(x):
        return x * x

    @qd.kernel
    def work(x: qd.i32) -> qd.i32:
        s = 0
        for f in qd.static([double, square]):
            s = s * 100 + f(x)
        return s

    assert work(5) == 1025


def test_names_of_the_taken_branch_are_known_afterwards():
    assert run("if qd.static(True):\n    y = n * 2\nelse:\n    y = undefined_name\nreturn y", n=("qd.i32", 4)) == 8


def test_the_name_of_a_static_number_stands_for_the_number():
    """Only qd.static itself makes a name static: another one that takes its value is a variable."""
    assert run("t = qd.static(3)\ny = t\ny += n\nreturn y", n=("qd.i32", 4)) == 7
    assert run("t = qd.static(3)\ny = n\nif n > 0:\n    y = t\nreturn y", n=("qd.i32", 4)) == 3


def test_the_runtime_is_asked_about_its_options():
    body = "r = 0\nif qd.static(qd.lang.impl.get_runtime().default_fp == qd.f32):\n    r = 1\nreturn r + n"
    assert run(body, n=("qd.i32", 0)) == 1


def test_components_of_static_vectors_index_lists():
    loop = "for I in qd.static(qd.grouped(qd.ndrange(2, 2))):\n    s += w[I[0]][I[1]]\nreturn s"
    assert run(f"w = [qd.Vector([n, 2]), qd.Vector([3, 5 * n])]\ns = 0\n{loop}", n=("qd.i32", 1)) == 11
    loop = "for I in qd.static(qd.grouped(qd.ndrange(2))):\n    s += t[I[0]]\nreturn s"
    assert run(f"t = [4, 6]\ns = n\n{loop}", n=("qd.i32", 1)) == 11


def test_components_of_the_index_of_a_static_grouped_ndrange_are_static():
    x = qd.field(qd.i32, shape=(3, 3))
    table, weights = [1, 2, 3], np.arange(9).reshape(3, 3)

    @qd.func
    def put(place: qd.template(), value):
        if qd.static(place[0] < place[1]):
            x[place] += value

    @qd.kernel
    def k() -> qd.i32:
        total = 0
        for I in qd.static(qd.grouped(qd.ndrange(3, (0, 3)))):
            if qd.static(I[0] == I[1]):
                x[I] = 5
            elif qd.static(I[0] >= 2 and I[1] >= 1):
                x[I] = table[I[0]] + qd.static(int(weights[I[0], I[1]])) + weights[tuple(I)]
            put(I, 7)
            i, j = I
            total += (I + i).sum() + j - qd.static(table[I[0]])
        return total

    assert k() == 9 + 9 + 18 + 9 - 18
    assert x.to_numpy().tolist() == [[5, 7, 7], [0, 5, 7], [0, 3 + 7 + 7, 5]]


def test_an_ndrange_without_axes_has_one_index_without_components():
    x, y = qd.field(qd.i32, shape=()), qd.field(qd.i32, shape=2)

    @qd.kernel
    def k():
        for I in qd.static(qd.grouped(qd.ndrange())):
            x[I] += 3
            y[0] += 1
        for I in qd.grouped(qd.ndrange()):
            x[I] += 4
            y[1] += 1

    k()
    assert (x[None], y.to_numpy().tolist()) == (7, [1, 1])


def test_several_static_values_at_once():
    @qd.kernel
    def first_of_second() -> qd.f64:
        a = qd.Matrix([[1.0, 2.0], [3.0, 4.0]], qd.f64)
        n, dtype = qd.static(a.n), qd.static(a.dtype)
        b = qd.Matrix.zero(dtype, n, 3)
        for k in qd.static(range(n)):
            b[k, 2] = a[k, 0]
        return b[1, 2]

    assert first_of_second() == 3.0

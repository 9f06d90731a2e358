"""`print`, `assert`, and the run-time checks of debug mode."""

import pytest
from language_support import run

import quadrants as qd


def printed(capfd, body, **arguments):
    run(body, None, **arguments)
    qd.sync()
    return capfd.readouterr().out


@pytest.mark.parametrize(
    "body, expected",
    [
        ("print(n, x)", "3 1.500000\n"),
        ("print('a', n, sep='-', end='!')", "a-3!"),
        ("print(n > 2, -n)", "1 -3\n"),
        ("print(qd.Vector([n, 2]))", "[3, 2]\n"),
        ("print(qd.Matrix([[n, 2], [3, 4]]))", "[[3, 2], [3, 4]]\n"),
        ("print(f'{n} and {x}')", "3 and 1.500000\n"),
        ("print(f'{x:.2f}|{n:4d}|{n:04d}')", "1.50|   3|0003\n"),
        ("print('{} {}'.format(n, x))", "3 1.500000\n"),
        ("print('{1} {0} {name:>4}'.format(n, x, name=n))", "1.500000 3    3\n"),
        ("print('{:{}d}|{:{w}d}'.format(n, 4, n, w=3))", "   3|  3\n"),
        ("print(f'{n:{4}d}|{n:z>3}|{n:<3}|{n:+d}|{n:#x}|{n:b}')", "   3|zz3|3  |+3|0x3|11\n"),
        ("print('%d %.2f%% {}' % (n, x))", "3 1.50% {}\n"),
        ("print('%s' % n)", "3\n"),
        ("print(f'{n=}')", "n=3\n"),
        ("print(f'{n!r:>3}', '{!r} {!s:>3} {!r}'.format(n, 'a', 'b'))", "  3 3   a 'b'\n"),
        ("print(f'{n}' if qd.static(True) else n, f'{n}' if qd.static(n is None) else x)", "3 1.500000\n"),
        ("print(n, n, sep=None, end=None, flush=True)", "3 3\n"),
        ("print(qd.f32, None, 'text')", "f32 None text\n"),
        ("v = qd.Vector([x, x])\nprint(f'{v:.1f}')", "[1.5, 1.5]\n"),
        ("print(*qd.Vector([n, 2]), sep='')", "32\n"),
        ("print()", "\n"),
        ("print(f'{True} {1.23} {1e-20} {7}', '{} {}'.format(False, 2.5), True, 1.25)", "True 1.23 1e-20 7 False 2.5 1 1.250000\n"),
        ("print(f'{1.23:.1f}|{True:3d}|{qd.static(2.5)}')", "1.2|  1|2.5\n"),
        ("y = qd.cast(n, qd.f64) / 7\nprint(y, f'{y} {y:.3f}', qd.Vector([y]))", "0.428571428571 0.428571428571 0.429 [0.428571428571]\n"),
    ],
)
def test_print_formats(on_every_backend, capfd, body, expected):
    assert printed(capfd, body, n=("qd.i32", 3), x=("qd.f32", 1.5)) == expected


@pytest.mark.parametrize("spec", ["i", "d", ".2d", "4x", "u"])
@pytest.mark.parametrize("value", ["x", "qd.Vector([x, x])"])
def test_a_format_of_integers_does_not_suit_a_float(on_every_backend, spec, value):
    with pytest.raises(qd.QuadrantsTypeError, match=f"'{spec}' doesn't match 'f32'"):
        run(f"v = {value}\nprint(f'{{v:{spec}}}')", None, x=("qd.f32", 1.5))


def test_print_writes_to_stderr(on_every_backend, capfd):
    run("print('wrong', n, file=sys.stderr)\nprint('right')", None, "import sys", n=("qd.i32", 3))
    qd.sync()
    assert capfd.readouterr() == ("right\n", "wrong 3\n")


def test_print_obeys_redirection(on_every_backend, capsys):
    assert printed(capsys, "print(n)", n=("qd.i32", 3)) == "3\n"


@pytest.mark.parametrize(
    "message, text",
    [
        ("", "n > 5"),
        (", 'too small'", "too small"),
        (", f'n is {n}'", "n is 3"),
        (", 'n is %d' % n", "n is 3"),
        (", 'n is {}'.format(n)", "n is 3"),
    ],
)
def test_assert_raises_in_debug_mode(on_every_backend, message, text):
    on_every_backend(debug=True)
    with pytest.raises(qd.QuadrantsAssertionError, match=text) as caught:
        run(f"assert n > 5{message}", None, n=("qd.i32", 3))
    assert isinstance(caught.value, AssertionError) and isinstance(caught.value, RuntimeError)
    assert run("return 7") == 7


def test_failed_assertions_name_the_iteration(on_every_backend):
    on_every_backend(debug=True)
    with pytest.raises(qd.QuadrantsAssertionError, match=r"j != n \(i = 2, j = 3\)"):
        run("for i in range(2, 3):\n    for j in range(9):\n        assert j != n", None, n=("qd.i32", 3))


def test_assert_has_no_effect_without_debug(on_every_backend):
    assert run("assert n > 5\nreturn n", n=("qd.i32", 3)) == 3


@pytest.mark.parametrize("debug", [False, True])
def test_the_condition_of_an_assertion_is_always_evaluated(on_every_backend, debug):
    on_every_backend(debug=debug)
    x = qd.field(qd.i32, shape=4)

    @qd.func
    def add(i, v):
        x[i] += v
        return 0

    @qd.real_func
    def add_apart(v: qd.i32) -> qd.i32:
        x[1] += v
        assert qd.atomic_add(x[3], 1) >= 0
        return 0

    @qd.kernel
    def k(n: qd.i32):
        assert add(0, 15) == 0
        assert add_apart(n) == 0, f"{n}"
        assert add(2, 1) == 0 and add(2, 2) == 0
        assert add(2, 1) == 0 or add(2, 4) == 0
        for i in range(n):
            assert add(0, i) == 0
        assert (m := n + 1) > 0
        x[1] += m

    k(5)
    assert x.to_numpy().tolist() == [25, 11, 4, 1]


def test_field_access_out_of_bounds_raises(on_every_backend):
    on_every_backend(debug=True)
    x = qd.field(qd.i32, shape=(4, 3))

    @qd.kernel
    def work(i: qd.i32):
        x[i, 1] = 5

    work(3)
    with pytest.raises(qd.QuadrantsAssertionError, match=r"\(kernel=work\) Accessing field .*of size \(4, 3\) with indices \(9, 1\)"):
        work(9)
    with pytest.raises(qd.QuadrantsAssertionError, match=r"with indices \(-1, 1\)"):
        work(-1)
    work(0)
    assert x[0, 1] == 5


def test_array_access_out_of_bounds_raises(on_every_backend):
    on_every_backend(check_out_of_bound=True)

    @qd.func
    def store(x, i):
        x[i] = 5

    @qd.kernel
    def work(x: qd.types.ndarray(dtype=qd.i32, ndim=1), i: qd.i32):
        store(x, i)

    expected = r"\[kernel=work\] Out of bound access to ndarray at arg 0 with indices \[9\] of shape \[4\]"
    with pytest.raises(qd.QuadrantsAssertionError, match=expected):
        work(qd.ndarray(qd.i32, shape=4), 9)


def test_vector_access_out_of_bounds_raises(on_every_backend):
    on_every_backend(debug=True)
    with pytest.raises(qd.QuadrantsAssertionError, match=r"Out of bound access to a \[2\] matrix with index \[5\]"):
        run("v = qd.Vector([1, 2])\nreturn v[i]", i=("qd.i32", 5))


def test_failed_check_names_the_line(on_every_backend):
    on_every_backend(debug=True)
    with pytest.raises(qd.QuadrantsAssertionError, match=r"(?s)line 5, in k:.*y = v\[i\]"):
        run("v = qd.Vector([1, 2])\ny = v[i]", None, i=("qd.i32", 5))


def test_division_by_zero_raises_in_debug_mode(on_every_backend):
    on_every_backend(debug=True)
    with pytest.raises(qd.QuadrantsAssertionError, match="zero"):
        run("return a // b", a=("qd.i32", 5), b=("qd.i32", 0))


@pytest.mark.parametrize(
    "body, operands, message",
    [
        ("return a / b", (0.0, 0.0), r"NaN from 0\.000000 / 0\.000000"),
        ("return a - b", (float("inf"), float("inf")), "NaN from inf - inf"),
        ("return qd.sqrt(a) + b", (-1.0, 1.0), r"NaN from sqrt\(-1\.000000\)"),
        ("return qd.max(qd.acos(a), b)", (2.0, 1.0), r"NaN from acos\(2\.000000\)"),
        ("return (qd.Vector([a, b]) * qd.Vector([b, a]))[0]", (float("inf"), 0.0), r"NaN from \[inf, 0\.000000\] \* \[0\.000000, inf\]"),
    ],
)
def test_operations_that_make_a_nan_raise_with_check_nan(on_every_backend, body, operands, message):
    on_every_backend(check_nan=True)
    a, b = (("qd.f32", value) for value in operands)
    with pytest.raises(qd.QuadrantsAssertionError, match=message) as caught:
        run(body, "qd.f32", a=a, b=b)
    assert body in str(caught.value)
    on_every_backend()
    assert run(body, "qd.f32", a=a, b=b) == 1.0 or "max" not in body


def test_a_nan_that_comes_in_is_passed_on_with_check_nan(on_every_backend):
    on_every_backend(check_nan=True)
    nan = ("qd.f32", float("nan"))
    assert run("return qd.math.isnan(a + 1.0) and qd.math.isnan(qd.sqrt(a))", "qd.u1", a=nan)
    assert run("return b != 0.0 and a / b > 1.0", "qd.u1", a=("qd.f32", 0.0), b=("qd.f32", 0.0)) == 0


@pytest.mark.parametrize("expression", ["n < 2147483647 and n + 1 > 5", "(n + 1 if n < 2147483647 else 0) > 5"])
def test_what_and_or_a_ternary_skips_is_not_checked(on_every_backend, expression):
    on_every_backend(debug=True, overflow="raise")
    assert run(f"return {expression}", "qd.u1", n=("qd.i32", 2147483647)) == 0
    assert run(f"return {expression}", "qd.u1", n=("qd.i32", 2147483646)) == 1


RACES = {
    "one element": ("for i in range(n):\n    x[0] = i", r"Data race: x\[0\] is written by iteration \(\d+\)"),
    "neighbors": ("for i in range(n):\n    x[i] = 1\n    x[i + 1] = 2", r"Data race: x\[\d+\] is written by iteration \(\d+\)"),
    "an axis": ("for i, j in qd.ndrange(n, n):\n    y[i][1] = j", r"Data race: y\[\d+\] is written by iteration \(\d+, \d+\)"),
    "a vector and its component": ("for i in range(n):\n    y[i] = 1\n    y[i ^ 1][1] = 2", r"Data race: y\[\d+\]"),
    "a store and an update": (
        "for i in range(n):\n    if i == 0:\n        x[5] = 1\n    if i == 1:\n        qd.atomic_add(x[5], 1)",
        r"Data race: x\[5\] is (written|updated) by iteration \([01]\)",
    ),
    "an outer variable": (
        "s = 1\nfor i in range(n):\n    s = s * 3 + i\nx[0] = s",
        r"Data race: a variable from outside of the loop is written by iteration",
    ),
    "two names": ("for i in range(n):\n    z[n - 1 - i] = 1\n    x[i] = 2", r"Data race: [xz]\[\d+\]"),
}
NO_RACES = [
    "for i in range(n):\n    x[i] = 1\n    x[i] = 2",
    "for i in range(n):\n    x[0] += 1\n    qd.atomic_max(x[1], i)",
    "for i in range(n):\n    x[i] = 1\n    x[i] += 2",
    "for i in range(n):\n    x[i] += 2\n    x[i] = 1",
    "s, m = 0, 0\nfor i in range(n):\n    s = s + i\n    m = max(m, i)\n    t = i\n    t = t + 1\nx[0] = s + m",
    "for i, j in qd.ndrange(n, 2):\n    y[i][j] = 1",
    "for i in range(n):\n    x[i] = 1\nfor i in range(n):\n    x[n - 1 - i] = 1",
    "qd.loop_config(serialize=True)\nfor i in range(n):\n    x[0] = i",
]


def run_on_arrays(body):
    """What a kernel leaves in the arrays x, y and z, where x and z are the same memory."""
    source = "@qd.kernel\ndef k(x: qd.types.NDArray[qd.i32, 1], y: qd.types.ndarray(), z: qd.types.NDArray[qd.i32, 1], n: qd.i32):\n"
    kernel = qd.kernel_from_source(source + "".join(f"    {line}\n" for line in body.splitlines()), {"qd": qd})
    x, y = qd.ndarray(qd.i32, 33), qd.Vector.ndarray(2, qd.f32, 32)
    kernel(x, y, x, 32)
    return x.to_numpy().tolist(), y.to_numpy().tolist()


@pytest.mark.host_memory
@pytest.mark.parametrize("name", RACES)
def test_two_iterations_that_write_one_element_raise_with_check_races(name):
    body, message = RACES[name]
    qd.init(arch=qd.cpu, check_races=True)
    with pytest.raises(qd.QuadrantsAssertionError, match=message) as caught:
        run_on_arrays(body)
    assert "by another one" in str(caught.value) and "line" in str(caught.value)
    qd.init(arch=qd.cpu, debug=True)
    run_on_arrays(body)


@pytest.mark.host_memory
@pytest.mark.parametrize("body", NO_RACES)
def test_writes_of_one_iteration_and_atomic_updates_are_no_races(body):
    qd.init(arch=qd.cpu, check_races=True)
    checked = run_on_arrays(body)
    qd.init(arch=qd.cpu)
    assert checked == run_on_arrays(body)


def test_checks_give_no_advice_about_compile_time_mistakes(on_every_backend):
    on_every_backend(debug=True)
    with pytest.raises(qd.QuadrantsAssertionError, match="Shift count out of range") as caught:
        run("return 5 << n", n=("qd.i32", 40))
    assert "help:" not in str(caught.value)

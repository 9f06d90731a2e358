"""Types of values: literals, promotion, variables, assignment."""

import numpy as np
import pytest
from language_support import evaluate, run

import quadrants as qd

pytestmark = pytest.mark.usefixtures("on_every_backend")


@pytest.mark.parametrize(
    "expression, arguments, expected",
    [
        ("a + 1", {"a": ("qd.i8", 127)}, 128),
        ("a + b", {"a": ("qd.i8", 100), "b": ("qd.i8", 100)}, -56),
        ("a + b", {"a": ("qd.i8", -1), "b": ("qd.u8", 0)}, 255),
        ("a + b", {"a": ("qd.i8", -1), "b": ("qd.u16", 0)}, 65535),
        ("a - 5", {"a": ("qd.u32", 0)}, 2**32 - 5),
        ("a + b", {"a": ("qd.i64", -1), "b": ("qd.u32", 0)}, -1),
        ("a + b", {"a": ("qd.i32", -1), "b": ("qd.u32", 0)}, 2**32 - 1),
        ("a * a", {"a": ("qd.i32", 2**20)}, 0),
        ("-a", {"a": ("qd.u32", 1)}, 2**32 - 1),
        ("abs(a)", {"a": ("qd.i32", -(2**31))}, -(2**31)),
        ("(a < 0) + (a < 1) + (a < 2)", {"a": ("qd.i32", -3)}, 3),
        ("(a < 0) + b", {"a": ("qd.i32", -3), "b": ("qd.i8", 127)}, -128),
        ("-(a < 0)", {"a": ("qd.i32", -3)}, -1),
        ("~(a < 0)", {"a": ("qd.i32", -3)}, 0),
        ("a ** b", {"a": ("qd.i8", 2), "b": ("qd.i64", 7)}, -128),
        ("a << b", {"a": ("qd.i8", 1), "b": ("qd.i64", 7)}, -128),
        ("(a < b) * 10", {"a": ("qd.i32", -1), "b": ("qd.u32", 1)}, 0),
    ],
)
def test_integer_result_has_the_promoted_type(expression, arguments, expected):
    assert evaluate(f"qd.cast({expression}, qd.i64)", "qd.i64", **arguments) == expected


@pytest.mark.parametrize(
    "expression, arguments, expected",
    [
        ("a + b", {"a": ("qd.f16", 0.1), "b": ("qd.i64", 1)}, np.float16(0.1) + np.float16(1)),
        ("a * 2", {"a": ("qd.f16", 0.1)}, np.float16(0.1) * np.float16(2)),
        ("a * 1.5", {"a": ("qd.f16", 0.1)}, np.float32(np.float16(0.1)) * np.float32(1.5)),
        ("a / b", {"a": ("qd.i32", 1), "b": ("qd.i32", 3)}, np.float32(1) / np.float32(3)),
        ("a / b", {"a": ("qd.i64", 1), "b": ("qd.f64", 3)}, 1 / 3),
        ("a / b", {"a": ("qd.f16", 1), "b": ("qd.f16", 3)}, np.float16(1) / np.float16(3)),
        ("a / b", {"a": ("qd.f16", 1), "b": ("qd.i32", 3)}, np.float32(1) / np.float32(3)),
        ("a + 0.1", {"a": ("qd.f64", 0)}, np.float32(0.1)),
        ("qd.sqrt(a)", {"a": ("qd.i64", 2)}, np.sqrt(np.float32(2))),
        ("0.1", {}, np.float32(0.1)),
        ("qd.f64(0.1)", {}, 0.1),
    ],
)
def test_float_result_has_the_promoted_type(expression, arguments, expected):
    assert evaluate(f"qd.cast({expression}, qd.f64)", "qd.f64", **arguments) == float(expected)


def test_default_types_follow_init(on_every_backend):
    on_every_backend(default_ip=qd.i64, default_fp=qd.f64)
    assert evaluate("2147483647 + a", "qd.i64", a=("int", 1)) == 2**31
    assert evaluate("a / b", "qd.f64", a=("int", 1), b=("int", 3)) == 1 / 3
    assert evaluate("a + 0.1", "float", a=("float", 0.2)) == 0.1 + 0.2


def test_typed_literals_have_their_full_range():
    assert evaluate("qd.i64(3000000000) * 2", "qd.i64") == 6000000000
    assert evaluate("qd.cast(qd.u64(2**64 - 1) >> qd.u64(1), qd.i64)", "qd.i64") == 2**63 - 1
    assert evaluate("qd.f32(1) / 3", "qd.f32") == float(np.float32(1) / np.float32(3))


def test_large_literal_takes_the_type_of_a_64_bit_operand():
    assert run("x = qd.i64(0)\nx = x + 2**31\nreturn x", "qd.i64") == 2**31
    assert run("x: qd.u32 = 2891336453\nreturn qd.cast(x, qd.i64)", "qd.i64") == 2891336453


@pytest.mark.parametrize(
    "expression, expected",
    [
        ("a if a > 3 else 2**41", 2**41),
        ("2**41 if a < 3 else a", 2**41),
        ("qd.select(a > 3, 2**41, a)", 1),
        ("qd.Vector([2**40, 1], qd.i64).sum()", 2**40 + 1),
        ("qd.Vector([2**40, a]).sum()", 2**40 + 1),
        ("qd.Matrix([[2**40, 1], [2, a]], qd.i64).sum()", 2**40 + 4),
        ("(qd.Vector([a, 3]) + [2**40, 2]).sum()", 2**40 + 6),
        ("[2**40, a][a - 1]", 2**40),
        ("qd.math.clamp(a, 2**40, 2**41)", 2**40),
        ("scaled(a, 2**40)", 2**40 + 1),
    ],
)
def test_large_literals_take_the_type_of_what_they_meet(expression, expected):
    preamble = "@qd.func\ndef scaled(x, y):\n    return x + y"
    assert run(f"return {expression}", "qd.i64", preamble, a=("qd.i64", 1)) == expected
    assert run("f.fill(2**40)\nreturn f[2]", "qd.i64", "f = qd.field(qd.i64, 3)") == 2**40
    with pytest.raises(qd.QuadrantsTypeError, match="exceeded the range of default_ip"):
        run("return scaled(a, 2**40)", "qd.i64", preamble, a=("qd.i32", 1))


@pytest.mark.parametrize("name", ["i8", "u16", "i64", "f32", "u1"])
def test_a_power_of_a_truth_value_has_the_type_of_its_exponent(name):
    body = f"p = (a > 0) ** b\nreturn qd.static(p.dtype == qd.{'i32' if name == 'u1' else name})"
    assert run(body, "qd.u1", a=("qd.i32", 3), b=(f"qd.{name}", 1))


@pytest.mark.parametrize(
    "dtype, wrapped", [("i32", -1640531527), ("u8", 0xB9), ("i64", 0x9E3779B9), ("u64", 0x9E3779B9), ("f64", 0x9E3779B9)]
)
def test_large_constants_take_the_type_that_they_are_assigned_to(dtype, wrapped):
    field = f"f = qd.field(qd.{dtype}, 2)"
    assert run("f[0] = 0x9E3779B9\nreturn f[0]", "qd.f64", preamble=field) == wrapped
    assert run(f"x: qd.{dtype} = 0x9E3779B9\nreturn x", "qd.f64") == wrapped
    assert run(f"x = qd.{dtype}(1)\nx = 0x9E3779B9\nreturn x", "qd.f64") == wrapped
    assert run(f"v = qd.Vector([1, 2], qd.{dtype})\nv[1] = 0x9E3779B9\nreturn v[1]", "qd.f64") == wrapped


def test_compile_time_arithmetic_is_exact():
    assert evaluate("2**40 // 2**38") == 4
    assert evaluate("1 / 2", "qd.f32") == 0.5
    assert evaluate("7 // 2 * 2.0 + (-7) % 4", "qd.f32") == 7.0


@pytest.mark.parametrize("operator", ["+", "-", "*", "//", "%", "<", "==", "&", "<<"])
def test_variables_initialized_by_literals_compute_like_arguments(operator):
    for left, right in [(-7, 2), (7, 2), (-7, 3), (2**31 - 1, 2), (5, 31)]:
        from_literals = run(f"x = {left}\ny = {right}\nreturn x {operator} y")
        assert from_literals == evaluate(f"a {operator} b", a=("qd.i32", left), b=("qd.i32", right))


def test_variable_keeps_the_type_of_its_first_assignment():
    assert run("x = 1\nx = 2.9\nreturn x", "qd.f32") == 2.0
    assert run("x = 1.5\nx = 2\nreturn x / 4", "qd.f32") == 0.5
    assert run("x: qd.i8 = a\nreturn x", a=("qd.i32", 300)) == 44


@pytest.mark.parametrize(
    "statement, expected",
    [("x += 1.9", 8), ("x -= 0.5", 7), ("x /= 2", 3), ("x *= 1.5", 10), ("x //= 2", 3), ("x %= 4", 3), ("x **= 2", 49), ("x <<= 2", 28)],
)
def test_augmented_assignment_keeps_the_type_of_its_target(statement, expected):
    assert run(f"x = 7\n{statement}\nreturn x") == expected


def test_stores_convert_to_the_type_of_the_element():
    x = qd.field(qd.i32, shape=2)
    u = qd.field(qd.u8, shape=2)

    @qd.kernel
    def store(value: qd.f32):
        x[0] = value
        x[1] += value
        u[0] = 300
        u[1] = -1

    store(2.9)
    assert x.to_numpy().tolist() == [2, 2]
    assert u.to_numpy().tolist() == [44, 255]


@pytest.mark.parametrize(
    "source, value, target, expected",
    [
        ("f32", 300.0, "i8", 44),
        ("f32", 300.0, "u8", 44),
        ("f32", -1.5, "u32", 4294967295),
        ("f32", -1.9, "i32", -1),
        ("f32", 0.25, "u1", 1),
        ("i32", 256, "u1", 1),
        ("i32", -1, "u8", 255),
        ("i64", 2**40 + 5, "i32", 5),
        ("u1", 1, "f32", 1),
    ],
)
def test_cast_converts_values(source, value, target, expected):
    assert evaluate(f"qd.cast(qd.cast(a, qd.{target}), qd.f64)", "qd.f64", a=(f"qd.{source}", value)) == expected


def test_python_type_names_cast_to_the_defaults():
    assert evaluate("int(a) + int(-a)", a=("qd.f32", 2.9)) == 0
    assert evaluate("float(a) / 2", "qd.f32", a=("qd.i32", 3)) == 1.5
    assert evaluate("bool(a) + 1", a=("qd.f32", 0.5)) == 2


def test_bit_cast_keeps_the_bits():
    assert evaluate("qd.bit_cast(a, qd.i32)", a=("qd.f32", 1.0)) == 0x3F800000
    assert evaluate("qd.bit_cast(a, qd.f64)", "qd.f64", a=("qd.i64", 0x4000000000000000)) == 2.0


def test_half_precision_rounds_each_operation():
    expected = np.float16(np.float16(0.1) + np.float16(0.2)) * np.float16(3)
    assert evaluate("(a + b) * c", "qd.f16", a=("qd.f16", 0.1), b=("qd.f16", 0.2), c=("qd.f16", 3)) == float(expected)


def test_results_are_python_numbers():
    assert evaluate("a", "qd.u64", a=("qd.u64", 2**64 - 1)) == 2**64 - 1
    assert evaluate("a > 1", "bool", a=("qd.i32", 3)) is True
    assert evaluate("a", "qd.f32", a=("qd.f32", 0.1)) == float(np.float32(0.1))


@pytest.mark.parametrize("op", ["+", "-", "*", "|", "&", "^"])
@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("second", [0, 1, 2])
def test_truth_values_are_updated_as_numbers(op, first, second):
    """`u1` counts as a number in arithmetic, and as the truth of the result when it is stored: on elements, too, where it is atomic."""
    body = f"f[0] = n\nf[0] {op}= {second}\nx = n > 0\nx {op}= {second}\nreturn f[0] * 10 + x"
    result = run(body, preamble="f = qd.field(qd.u1, 2)", n=("qd.i32", first))
    truth = bool(eval(f"{first} {op} {int(second != 0)}"))
    assert result == 11 * truth
    name = {"+": "add", "-": "sub", "*": "mul", "|": "or", "&": "and", "^": "xor"}[op]
    atomic = f"f[0] = n\nold = qd.atomic_{name}(f[0], {second})\nreturn f[0] * 10 + old"
    assert run(atomic, preamble="f = qd.field(qd.u1, 2)", n=("qd.i32", first)) == 10 * truth + first


@pytest.mark.parametrize("dtype", ["i32", "u32", "i64", "u64"])
def test_integers_beyond_f16_become_infinite(dtype):
    sign = -1 if dtype[0] == "i" else 1
    for number in (0, 2049, 65504, 65519, 65520, 65535, 65536, sign * 65519, sign * 65520, sign * 2**31):
        assert evaluate("qd.cast(a, qd.f16)", "qd.f32", a=(f"qd.{dtype}", number)) == float(np.float32(number).astype(np.float16))
    for shift, expected in ((15, 2.0**15), (16, np.inf), (20, np.inf), (31, sign * np.inf if dtype == "i32" else np.inf)):
        assert evaluate(f"qd.cast(a << {shift}, qd.f16)", "qd.f32", a=(f"qd.{dtype}", 1)) == expected

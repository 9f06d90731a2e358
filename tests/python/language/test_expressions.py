"""Operators and scalar functions beyond the table: chains, logic, choices, folds."""

import math

import numpy as np
import pytest
from language_support import NUMPY, define, edge_values, evaluate, run

import quadrants as qd

pytestmark = pytest.mark.usefixtures("on_every_backend")


@pytest.mark.parametrize("left, right", [(7, 2), (-7, 2), (7, -2), (-7, -2)])
def test_integer_division_rounds_down(left, right):
    arguments = {"a": ("qd.i32", left), "b": ("qd.i32", right)}
    assert evaluate("a // b", **arguments) == left // right
    assert evaluate("a % b", **arguments) == left % right
    assert evaluate("qd.raw_div(a, b)", **arguments) == math.trunc(left / right)
    assert evaluate("qd.raw_mod(a, b)", **arguments) == math.fmod(left, right)


def test_division_by_zero_and_overflow_are_defined():
    assert evaluate("a // b", a=("qd.i32", 5), b=("qd.i32", 0)) == 0
    assert evaluate("a % b", a=("qd.i32", 5), b=("qd.i32", 0)) == 0
    assert evaluate("a // b", a=("qd.i32", -(2**31)), b=("qd.i32", -1)) == -(2**31)
    assert evaluate("a % b", a=("qd.i32", -(2**31)), b=("qd.i32", -1)) == 0


def test_float_division_and_remainder_round_down():
    assert evaluate("a // b", "qd.f32", a=("qd.f32", -7.5), b=("qd.f32", 2)) == -4.0
    assert evaluate("a % b", "qd.f32", a=("qd.f32", -7.5), b=("qd.f32", 2)) == 0.5
    assert evaluate("a // b", "qd.f32", a=("qd.f32", 1), b=("qd.f32", 0)) == math.inf


def test_integer_power_wraps_and_knows_negative_exponents():
    assert evaluate("a ** b", a=("qd.i32", 2), b=("qd.i32", 31)) == -(2**31)
    assert evaluate("a ** b", a=("qd.i32", 0), b=("qd.i32", 0)) == 1
    assert evaluate("a ** b", a=("qd.i32", 2), b=("qd.i32", -1)) == 0
    assert evaluate("a ** b", a=("qd.i32", -1), b=("qd.i32", -3)) == -1
    assert evaluate("pow(a, 3)", "qd.f32", a=("qd.f32", -2)) == -8.0


def test_shifts_take_the_count_modulo_the_width():
    assert evaluate("a << b", a=("qd.i32", 1), b=("qd.i32", 40)) == 256
    assert evaluate("a >> b", a=("qd.i32", -8), b=("qd.i32", 1)) == -4
    assert evaluate("qd.bit_shr(a, b)", a=("qd.i32", -8), b=("qd.i32", 1)) == 2147483644
    assert evaluate("qd.cast(a >> b, qd.i64)", "qd.i64", a=("qd.u32", 2**32 - 8), b=("qd.i32", 1)) == 2147483644


@pytest.mark.parametrize("a, b, c", [(1, 2, 3), (2, 2, 3), (1, 3, 3), (3, 2, 1)])
def test_comparisons_chain(a, b, c):
    arguments = {"a": ("qd.i32", a), "b": ("qd.i32", b), "c": ("qd.i32", c)}
    assert evaluate("a < b < c", **arguments) == (a < b < c)
    assert evaluate("a <= b != c > 0", **arguments) == (a <= b != c > 0)


@pytest.mark.parametrize("a, left_over", [(0, 10), (5, 112), (9, 11)])
def test_links_behind_one_that_fails_are_not_evaluated(a, left_over):
    body = "x = 10\nif 1 < a < qd.atomic_add(x, 1) > a + 1 != qd.atomic_add(x, 1) - 100:\n    x += 100\nreturn x"
    assert run(body, a=("qd.i32", a)) == left_over


@pytest.mark.parametrize("expression, expected", [("2 and 4", 4), ("3 and 0", 0), ("4 or 2", 4), ("0 or 2", 2), ("0 and 5", 0)])
def test_logic_has_the_value_of_an_operand(expression, expected):
    left, word, right = expression.split()
    assert evaluate(f"a {word} b", a=("qd.i32", int(left)), b=("qd.i32", int(right))) == expected


def test_logic_skips_the_right_operand():
    body = """n = 0
if a != 0 and qd.atomic_add(n, 1) >= 0:
    n += 10
if a == 0 or qd.atomic_add(n, 100) >= 0:
    n += 1000
return n"""
    assert run(body, a=("qd.i32", 0)) == 1000
    assert run(body, a=("qd.i32", 1)) == 1111


def test_without_short_circuit_both_sides_are_computed(on_every_backend):
    on_every_backend(short_circuit_operators=False)
    assert evaluate("a and b", a=("qd.i32", 2), b=("qd.i32", 4)) == 0
    assert run("n = 0\nx = a != 0 and qd.atomic_add(n, 1) >= 0\nreturn n", a=("qd.i32", 0)) == 1


def test_ternary_computes_one_arm_in_the_common_type():
    assert evaluate("a if a > 3 else 2.5", "qd.f32", a=("qd.i32", 1)) == 2.5
    assert evaluate("(1 if a > 3 else 2.5) / 2", "qd.f32", a=("qd.i32", 5)) == 0.5
    assert run("n = 0\nx = qd.atomic_add(n, 1) if a > 0 else qd.atomic_add(n, 10)\nreturn n", a=("qd.i32", 1)) == 1


def test_select_computes_both_sides():
    assert evaluate("qd.select(a, 10, 20.5)", "qd.f32", a=("qd.i32", 2)) == 10.0
    assert run("n = 0\nx = qd.select(a, qd.atomic_add(n, 1), qd.atomic_add(n, 10))\nreturn n", a=("qd.i32", 1)) == 11


@pytest.mark.parametrize("condition", ["if a:", "while a:"])
def test_conditions_accept_floats(condition):
    body = f"n = 0\n{condition}\n    n = 1\n    {'break' if condition.startswith('while') else 'pass'}\nreturn n"
    assert run(body, a=("qd.f32", 0.25)) == 1
    assert run(body, a=("qd.f32", 0.0)) == 0


def test_not_gives_a_truth_value():
    assert evaluate("(not a) + 1", a=("qd.i32", 5)) == 1
    assert evaluate("(not a) + 1", a=("qd.f32", 0.0)) == 2


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_large_floats_are_rounded_too(dtype):
    most = 2.0 ** np.finfo(NUMPY[dtype]).nmant
    sizes = [0.0, 0.3, 0.5, 0.75, 1.5, 2.5, 1e6 + 0.5, 2.0**24 + 1.5, 3e8 + 0.25, most / 4 + 0.75, most / 2 - 0.5, most, 4 * most, np.inf]
    x = np.array([*sizes, *(-size for size in sizes)], NUMPY[dtype])
    out = np.zeros((len(x), 4), NUMPY[dtype])
    module = define(f"""
@qd.kernel
def k(x: qd.types.ndarray(qd.{dtype}, 1), out: qd.types.ndarray(qd.{dtype}, 2)):
    for i in x:
        out[i, 0] = qd.floor(x[i])
        out[i, 1] = qd.ceil(x[i])
        out[i, 2] = qd.trunc(x[i])
        out[i, 3] = qd.round(x[i])
""")
    module["k"](x, out)
    with np.errstate(invalid="ignore"):
        away = np.copysign(np.trunc(np.abs(x)) + (np.abs(x) - np.trunc(np.abs(x)) >= 0.5), x)
    away[np.isinf(x)] = x[np.isinf(x)]
    np.testing.assert_array_equal(out, np.stack([np.floor(x), np.ceil(x), np.trunc(x), away], 1))


@pytest.mark.parametrize("name", ["floor", "ceil", "round", "trunc"])
def test_integers_that_are_rounded_to_integers_are_exact(on_every_backend, name):
    assert evaluate(f"qd.{name}(a, qd.i32) * 2 + qd.{name}(qd.Vector([a, 1]), int)[0]", a=("qd.i32", 2**24 + 1)) == 3 * (2**24 + 1)
    assert getattr(qd, name)(2**24 + 1, qd.i32) == 2**24 + 1


def test_max_and_min_take_any_number_of_operands(on_every_backend):
    assert evaluate("max(a) * 100 + qd.min(a) + qd.max(qd.Vector([a, 9]))[0] * 10 + max([a, 9])", a=("qd.i32", 1)) == 120
    assert (qd.max(3), qd.min(2.5), list(qd.max(qd.Vector([1, 5]))), qd.max(1, 4, 2)) == (3, 2.5, [1, 5], 4)
    assert evaluate("max(a, b, 2.5)", "qd.f32", a=("qd.i32", 1), b=("qd.i32", 2)) == 2.5
    assert evaluate("qd.min(a, b, -4)", a=("qd.i32", 1), b=("qd.i32", 2)) == -4
    assert evaluate("max(a, b)", "qd.f32", a=("qd.f32", math.nan), b=("qd.f32", 1.0)) == 1.0
    assert evaluate("min(b, a)", "qd.f32", a=("qd.f32", math.nan), b=("qd.f32", 1.0)) == 1.0


@pytest.mark.parametrize("wide", ["i16", "i32", "i64"])
@pytest.mark.parametrize("narrow", ["i8", "u8", "i16", "u16", "i32", "u32"])
def test_extremes_of_a_widened_number_that_is_used_elsewhere_too(narrow, wide):
    if int(narrow[1:]) >= int(wide[1:]):
        pytest.skip("not wider")
    module = define(f"""
@qd.kernel
def widen(out: qd.types.ndarray(qd.{wide}, 2), x: qd.types.ndarray(qd.{narrow}, 1)):
    for i in x:
        a = qd.cast(x[i], qd.{wide})
        out[i, 0] = a
        out[i, 1] = abs(a)
        out[i, 2] = max(a, 3)
        out[i, 3] = min(a, 100)
        out[i, 4] = max(min(a, 5), -7)
""")
    x = edge_values(narrow)
    out = np.zeros((len(x), 5), NUMPY[wide])
    module["widen"](out, x)
    assert out.tolist() == [[a, abs(a), max(a, 3), min(a, 100), max(min(a, 5), -7)] for a in x.tolist()]


@pytest.mark.parametrize("value, expected", [(0.5, 1), (1.5, 2), (2.5, 3), (-0.5, -1), (-2.5, -3), (0.49999997, 0), (8388609.0, 8388609)])
def test_round_moves_halves_away_from_zero(value, expected):
    assert evaluate("qd.round(a)", "qd.f32", a=("qd.f32", value)) == expected
    assert evaluate("qd.round(a, qd.i32)", a=("qd.f32", value)) == expected


def test_functions_convert_integers_to_the_default_float():
    assert evaluate("qd.sin(a)", "qd.f32", a=("qd.i32", 1)) == pytest.approx(math.sin(1), rel=1e-6)
    assert evaluate("qd.rsqrt(a)", "qd.f32", a=("qd.i32", 4)) == pytest.approx(0.5, rel=2**-22)
    assert evaluate("qd.floor(a)", "qd.f32", a=("qd.i32", 4)) == 4.0


def test_frexp_unpacks():
    assert run("m, e = qd.frexp(a)\nreturn m * 100 + e", "qd.f32", a=("qd.f32", 1.4)) == pytest.approx(71.0)


def test_zero_and_one_have_the_type_of_their_operand():
    assert evaluate("qd.one(a) / 3 + qd.zero(a)", "qd.f64", a=("qd.f64", 5)) == 1 / 3


def test_python_builtins_work_on_run_time_values():
    assert run("q, r = divmod(a, 4)\nreturn q * 10 + r", a=("qd.i32", -7)) == -19
    assert evaluate("round(a) + abs(-3) + len([1, 2])", a=("qd.f32", 2.5)) == 8
    assert evaluate("sum([a, 2, 3])", a=("qd.i32", 1)) == 6


def test_sum_adds_one_item_to_the_other():
    arguments = {"a": ("qd.i8", -1), "b": ("qd.u16", 3), "c": ("qd.i32", 7)}
    assert evaluate("sum([a, b, c])", **arguments) == (65535 + 3) % 65536 + 7
    assert evaluate("sum(qd.Vector([a, b]), c)", "qd.i64", **arguments) == 7 + 65535 + 3
    assert evaluate("sum([c > 0]) / 2", "qd.f32", **arguments) == 0.5


@pytest.mark.parametrize(
    "expression, expected",
    [
        ("sorted([a, 1, 2])[2]", 3),
        ("sorted([a, 5, 1, 4], reverse=True)[1]", 4),
        ("sorted(qd.Vector([a, 1, 2]))[0]", 1),
        ("a.bit_count()", 2),
        ("(-a).bit_count()", 2),
        ("int(qd.Vector([a, 2.75]))[1]", 2),
        ("int(2.75)", 2),
        ("[i * 10 + x for i, x in enumerate([a, 4], 1)][1]", 24),
    ],
)
def test_more_python_builtins_work_on_run_time_values(expression, expected):
    assert evaluate(expression, a=("qd.i32", 3)) == expected


def test_operands_are_evaluated_from_left_to_right():
    assert run("n = 0\nreturn qd.atomic_add(n, 1) * 100 + qd.atomic_add(n, 5) * 10 + n") == 16


def test_random_numbers_have_their_range_and_mean():
    x = qd.field(qd.f32, shape=4096)
    n = qd.field(qd.i32, shape=4096)

    @qd.kernel
    def draw():
        for i in x:
            x[i] = qd.random()
            n[i] = qd.random(qd.i32)

    draw()
    values = x.to_numpy()
    assert values.min() >= 0 and values.max() < 1 and abs(values.mean() - 0.5) < 0.03
    assert len(np.unique(values)) > 4000 and n.to_numpy().min() < 0 < n.to_numpy().max()


@pytest.mark.parametrize("bits", [0x7FF8 << 48, 0xFFF8 << 48, 0x7FF4 << 48, 0xFFF4 << 48], ids=hex)
def test_max_and_min_ignore_quiet_and_signaling_nans(on_every_backend, bits):
    @qd.kernel
    def clamp(bits: qd.u64) -> qd.types.vector(3, qd.f64):
        x = qd.bit_cast(bits, qd.f64)
        return [qd.max(qd.min(x, 2.5), -2.5), qd.min(2.5, x), qd.max(-2.5, x)]

    assert clamp(bits).to_list() == [2.5, 2.5, -2.5]


def test_random_numbers_begin_anew_with_a_seed(on_every_backend):
    @qd.kernel
    def draw() -> qd.types.vector(2, qd.u64):
        return [qd.random(qd.u64), qd.random(qd.u64)]

    on_every_backend(random_seed=5)
    first = [draw().to_list() for _ in range(3)]
    assert len({number for numbers in first for number in numbers}) == 6
    for seed in (5, -6, 5):
        qd.random_seed(seed)
        assert ([draw().to_list() for _ in range(3)] == first) == (seed == 5)
    assert qd.cfg is None or qd.cfg.random_seed == 5
    with pytest.raises(TypeError, match="random_seed takes a value of type int"):
        qd.random_seed(1.5)
    qd.reset()
    with pytest.raises(RuntimeError, match="forgot to call"):
        qd.random_seed(1)


def test_nan_is_unequal_to_itself(on_every_backend):
    on_every_backend(fast_math=False)
    assert evaluate("(a == a) + 2 * (a != a)", a=("qd.f32", math.nan)) == 2


def test_items_of_a_tuple_of_run_time_values_keep_their_types():
    assert run("return divmod(a, b)[1] - 200", "qd.i64", a=("qd.u8", 7), b=("qd.u8", 9)) == -193
    assert run("return qd.cast(divmod(a, b)[1] - a - a, qd.u64)", "qd.u64", a=("qd.u8", 7), b=("qd.u8", 9)) == 249


def test_a_walrus_gives_the_value_of_a_variable_that_atomics_change():
    body = """
if (y := a + 1) > 0:
    qd.atomic_add(y, 5)
return y
"""
    assert run(body, a=("qd.i32", 1)) == 7


def test_containers_have_a_length():
    preamble = "f = qd.field(qd.i32, (3, 2))\ns = qd.types.struct(a=qd.i32).field(shape=4)"
    a = ("qd.types.ndarray()", qd.ndarray(qd.i32, (5, 2)))
    assert run("return len(f) * 100 + len(a) * 10 + len(a[1:3]) + qd.static(len(f))", preamble=preamble, a=a) == 355
    with pytest.raises(TypeError, match="when calling `len`"):
        run("return len(n)", n=("qd.i32", 1))


@pytest.mark.parametrize("op", ["==", "!=", "<", "<=", ">", ">="])
@pytest.mark.parametrize("left, right", [("(n, 2)", "(1, 2)"), ("(1, 2)", "(n, m)"), ("[n, m]", "[2, 2]"), ("(n, (m, 3))", "(2, (1, n))"),
                                         ("(n,)", "(2, m)"), ("(n, m)", "(2,)"), ("PAIR", "(n, m)")])  # fmt: skip
def test_tuples_are_compared_as_in_python(left, right, op):
    module = define(f"PAIR = (2, 1)\n@qd.kernel\ndef k(n: qd.i32, m: qd.i32) -> qd.i32:\n    return 1 if {left} {op} {right} else 0")
    for n, m in [(1, 2), (2, 1), (2, 2), (3, 0)]:
        assert module["k"](n, m) == eval(f"{left} {op} {right}", {"n": n, "m": m, "PAIR": (2, 1)}), (n, m)


def test_text_times_a_number_is_repeated():
    assert evaluate("len('ab' * 3) * 10 + len('a' + 'bc')") == 63


@pytest.mark.parametrize("expression", ["n | 0xF0000000", "(n & 0xFF) | 0xF0000000 | 5 << 3", "max(n, 0xF0000000)"])
def test_large_literals_are_of_the_type_of_the_other_operand(expression):
    assert evaluate(expression, "qd.u32", n=("qd.u32", 3)) == eval(expression, {"n": 3})

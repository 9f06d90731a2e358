"""Variables from outside of a parallel loop: what its iterations may do with them."""

import itertools
import warnings

import numpy as np
import pytest
from language_support import define

import quadrants as qd

pytestmark = pytest.mark.usefixtures("on_every_backend")

N = 20000
VALUES = (np.arange(N, dtype=np.int64) * 7919 % 2003 - 1000).astype(np.int32)


FUNCTIONS = """
@qd.func
def half(v):
    return v // 2

@qd.func
def update(a, j):
    a[j] += 1
    return a[j]
"""


def compile_loop(first, body, loop="for i in y:", dtype="qd.i32", result="s", preamble=""):
    """A kernel with a variable s, and how many warnings there are."""
    lines = "".join(f"        {line}\n" for line in body.splitlines())
    source = f"{preamble}\n@qd.kernel\ndef k(y: qd.types.ndarray()) -> {dtype}:\n    s = {first}\n    {loop}\n{lines}    return {result}\n"
    return define(source + FUNCTIONS)["k"]


def call(kernel, values=VALUES):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = kernel(values)
    return result, [warning for warning in caught if warning.category is UserWarning]


total, largest, least = int(VALUES.sum()), int(VALUES.max()), int(VALUES.min())
REDUCTIONS = [
    ("0", "s = s + y[i]", total),
    ("0", "s = y[i] + s", total),
    ("0", "s = s - y[i]", -total),
    ("0", "s = s + y[i] * 3 - 1 - y[i]", 2 * total - N),
    ("0", "s = 1 + (y[i] + s)", total + N),
    ("1", "s = s * (2 * y[i] + 1)", np.multiply.reduce(2 * VALUES + 1, dtype=np.int32)),
    ("0", "s = s | y[i]", np.bitwise_or.reduce(VALUES)),
    ("-1", "s = y[i] & s", np.bitwise_and.reduce(VALUES)),
    ("0", "s = s ^ y[i]", np.bitwise_xor.reduce(VALUES)),
    ("-5000", "s = max(s, y[i])", largest),
    ("-5000", "s = qd.max(y[i], s)", largest),
    ("5000", "s = min(s, y[i], y[i] + 1)", least),
    ("-5000", "if y[i] > s: s = y[i]", largest),
    ("-5000", "if y[i] >= s: s = y[i]", largest),
    ("5000", "if y[i] < s: s = y[i]", least),
    ("-5000", "if s < y[i]: s = y[i]", largest),
    ("5000", "v = y[i]\nif s >= v: s = v", least),
    ("-5000", "s = qd.select(y[i] > s, y[i], s)", largest),
    ("5000", "v = y[i]\ns = s if v > s else v", least),
    ("5000", "v = qd.cast(qd.cast(y[i], qd.i16), qd.i32)\nif s > v: s = v", least),
    ("5000", "if qd.cast(y[i], qd.i16) <= s: s = qd.cast(y[i], qd.i16)", least),
    ("-5000", "v = qd.cast(qd.cast(y[i], qd.i64), qd.i32)\ns = v if v > s else s", largest),
    ("0", "v = qd.cast(y[i], qd.u8)\ns = qd.select(v > s, v, s)", 255),
    ("-5000", "s = s if s > y[i] else y[i]", largest),
    ("-5000", "s = y[i] if y[i] >= s else s", largest),
    ("5000", "s = s if not (s > y[i]) else y[i]", least),
    ("5000", "s = y[i] * 2 if y[i] * 2 < s else s", 2 * least),
    ("-5000", "s = half(y[i]) if s < half(y[i]) else s", largest // 2),
    ("-5000", "if half(y[i]) > s: s = half(y[i])", largest // 2),
    ("-5000", "if not y[i] <= s: s = y[i]", largest),
    ("-5000", "if y[i] <= s: pass\nelse: s = y[i]", largest),
    ("5000", "if y[i] < s: s = y[i]\nelse: s = s", least),
    ("-5000", "if y[i] > s and y[i] < 100: s = y[i]", 99),
    ("-5000", "if i % 2 == 0 and y[i] > s: s = y[i]", int(VALUES[::2].max())),
    ("-5000", "if not (y[i] <= s or y[i] > 100): s = y[i]", 100),
    ("-5000", "if y[i] > s:\n    if y[i] < 100: s = y[i]", 99),
    ("-5000", "s = (y[i] if y[i] < 9 else 2) if (y[i] if y[i] < 9 else 2) > s else s", 8),
    (
        "5000",
        "if s > (y[i] if y[i] > 9 else i + y[i]): s = y[i] if y[i] > 9 else i + y[i]",
        int(np.where(VALUES > 9, VALUES, np.arange(N) + VALUES).min()),
    ),
    ("5000", "s = y[i] if y[i] < s and i > 7 and i % 3 == 0 else s", int(VALUES[9::3].min())),
    ("-5000", "v = y[i]\ns = v if v > s and v < 100 else s", 99),
    ("5000", "s = (s if s < y[i] else y[i]) if y[i] > 0 else s", 1),
    ("0", "s = s + 2 if y[i] > 0 else s - 1", int(3 * (VALUES > 0).sum()) - N),
    ("0", "if y[i] % 2 == 0: s = s + y[i]\nelse: s = s - 1", int(VALUES[VALUES % 2 == 0].sum() - (VALUES % 2 != 0).sum())),
    ("0", "t = s + 1\ns = t + y[i]", total + N),
    ("0", "for k in qd.static(range(3)): s = s + k * y[i]", 3 * total),
    ("0", "for k in range(4):\n    s = s + k", 6 * N),
    ("0", "s += 2\ns = s + 1", 3 * N),
    ("0", "if y[i] > 0: s = 1", 1),
    ("0", "y[qd.atomic_add(s, 1) * 0] = 3", N),
]


@pytest.mark.parametrize("first, body, expected", REDUCTIONS)
def test_reductions_are_exact_however_they_are_written(first, body, expected):
    kernel = compile_loop(first, body)
    for _ in range(2):
        result, caught = call(kernel, VALUES.copy())
        assert (result, caught) == (expected, [])


@pytest.mark.parametrize("loop", ["for i in range(N):", "for i, j in qd.ndrange(N // 8, 8):", "for I in qd.grouped(z):", "for i in z:"])
def test_every_form_of_loop_reduces(loop):
    kernel = compile_loop("0", "s = s + 2", loop, preamble=f"N = {N}\nz = qd.field(qd.i32, N)")
    assert call(kernel) == (2 * N, [])


def test_several_variables_vectors_and_structs_are_reduced_apart():
    kernel = define("""
@qd.func
def add(s: qd.template(), v):
    s = s + v

@qd.func
def add_twice(s: qd.template(), v):
    add(s, v)
    if v > 0:
        add(s, 1)

@qd.kernel
def k(y: qd.types.ndarray()) -> qd.types.vector(8, qd.i32):
    low, high, count = 5000, -5000, 0
    v = qd.Vector([0, 0])
    p = qd.Struct(a=0, b=1)
    items = [0, 0]
    by_reference = 0
    for i in range(y.shape[0]):
        if y[i] < low:
            low = y[i]
        if y[i] > high:
            high = y[i]
        count = count + 1
        v = v + qd.Vector([y[i], 2])
        v[1] = v[1] - 1
        p.a = p.a + y[i]
        items[1] = items[1] - y[i]
        add_twice(by_reference, y[i])
    return qd.Vector([low, high, count, v[0], v[1], p.a, items[1], by_reference])
""")["k"]
    result, caught = call(kernel)
    expected = [least, largest, N, total, N, total, -total, total + int((VALUES > 0).sum())]
    assert (list(result), caught) == (expected, [])


@pytest.mark.parametrize(
    "update",
    [
        "v[j] = v[j] if v[j] > y[i] + j else y[i] + j",
        "v[0] = v[0] if v[0] > y[i] else y[i]\nif y[i] < 90 and y[i] + 1 > v[1]: v[1] = y[i] + 1",
    ],
)
def test_components_of_a_vector_are_compared_apart(update):
    lines = "".join(f"\n    {line}" for line in update.splitlines())
    kernel = compile_loop("0\n    v = qd.Vector([-5000.0, -5000.0])", f"for j in range(2):{lines}", dtype="qd.math.vec2", result="v")
    result, caught = call(kernel)
    assert (list(result), caught) == ([largest, largest + 1 if "j" in update else 90], [])


COMPARISONS = [
    "s = s if s > y[i] else y[i]",
    "s = y[i] if s < y[i] else s",
    "s = y[i] if y[i] <= s else s",
    "if y[i] > s: s = y[i]",
    "if not (y[i] <= s): s = y[i]",
    "if not (y[i] >= s) and y[i] != 3: s = y[i]",
    "if y[i] < s and y[i] != 3: s = y[i]",
    "s = max(s, y[i])",
    "s = min(y[i], s)",
]


@pytest.mark.parametrize("first", ["y[y.shape[0] - 1]", "0.0"])
@pytest.mark.parametrize("update", COMPARISONS)
def test_comparisons_with_nan_and_zeros_reduce_as_in_some_order(update, first):
    nan = np.nan
    options = {} if qd.cfg is None else {"fast_math": False, "arch": qd.cfg.arch}
    if options:
        qd.init(**options)
    loop = "for i in range(y.shape[0] - 1):"
    kernel = compile_loop(first, update, loop, dtype="qd.f32")

    def fold(choose):
        return lambda *pair: choose((v for v in pair if v == v), key=lambda v: (v, not np.signbit(v)), default=nan)

    serial = {}
    exec(f"def run(y):\n    s = {first}\n    {loop}\n        {update}\n    return s", {"max": fold(max), "min": fold(min)}, serial)

    def describe(value):
        return "nan" if np.isnan(value) else (float(value), bool(np.signbit(value)))

    for values in [(nan, 3), (nan,), (1, nan, -2), (0.0, -0.0), (-0.0,), (), (-np.inf,), (5, 2, 3), (-3, -4)]:
        for last in (nan, 10, -10, 0.0, -0.0, -np.inf, np.inf):
            orders = [np.array([*order, last], np.float32) for order in itertools.permutations(values)]
            result, caught = call(kernel, orders[0])
            assert caught == []
            assert describe(result) in {describe(serial["run"](order)) for order in orders}


@pytest.mark.parametrize("size", [1, 3])
def test_extrema_of_elements_keep_nan_where_they_meet_nothing_else(size):
    def compare(low: qd.types.ndarray(), high: qd.types.ndarray(), y: qd.types.ndarray()):
        for i in y:
            qd.atomic_min(low[i % size], y[i])
            qd.atomic_max(high[i % size], y[i])

    values = np.full(N, np.nan, np.float32)
    values[size - 1 :: 2 * size] = VALUES[size - 1 :: 2 * size]
    low, high = (np.full(size, np.nan, np.float32) for _ in range(2))
    qd.kernel(compare)(low, high, values)
    kept = [np.nan] * (size - 1)
    np.testing.assert_equal([*low, *high], [*kept, np.nanmin(values), *kept, np.nanmax(values)])


def test_components_of_a_vector_are_reduced_apart():
    body = "v[0] = v[0] + y[i]\nv[1] = max(v[1], y[i])\nif y[i] < v.z: v.z = y[i]\nv[3] += 1"
    kernel = compile_loop("0\n    v = qd.Vector([0, -5000, 5000, 0])", body, dtype="qd.types.vector(4, qd.i32)", result="v")
    result, caught = call(kernel)
    assert (list(result), caught) == ([total, largest, least, N], [])


@qd.kernel
def add_to_both(y: qd.types.ndarray(), a: qd.types.ndarray(ndim=0), b: qd.types.ndarray(ndim=0)):
    for i in y:
        a[None] += y[i]
        b[None] += 3 * y[i]


def test_arrays_without_axes_are_reduced_apart():
    a, b = qd.ndarray(qd.i32, ()), qd.ndarray(qd.i32, ())
    add_to_both(VALUES, a, b)
    assert (a[None], b[None]) == (total, 3 * total)
    add_to_both(VALUES, a, a)
    assert a[None] == 5 * total


@pytest.mark.parametrize("index", ["0", "i % 2"])
def test_fields_with_two_names_are_reduced_apart(index):
    f, g = qd.field(qd.i32, 2), qd.field(qd.i32, 2)
    body = "".join(f"        {name}[{index}] += {step}\n" for name, step in (("a", 1), ("b", 10), ("f", 100), ("g", 1000)))
    source = f"@qd.kernel\ndef k(a: qd.template(), b: qd.template()):\n    for i in range(1000):\n{body}"
    define(source, f=f, g=g)["k"](f, g)
    assert (f.to_numpy().sum(), g.to_numpy().sum()) == (101_000, 1_010_000)


@pytest.mark.parametrize("dtype, first", [("qd.i8", "qd.cast(0, qd.i8)"), ("qd.i64", "qd.i64(0)"), ("qd.u16", "qd.cast(0, qd.u16)")])
def test_sums_of_other_widths_wrap_as_assignments_do(dtype, first):
    kernel = compile_loop(first, "s = s + y[i]", dtype="qd.i64", result="qd.cast(s, qd.i64)")
    width = {"qd.i8": np.int8, "qd.i64": np.int64, "qd.u16": np.uint16}[dtype]
    assert call(kernel) == (int(np.array(total).astype(width)), [])


def test_sums_of_floats_do_not_depend_on_threads():
    kernel = compile_loop("0.0", "s = s + y[i] * 0.1", dtype="qd.f32")
    again = compile_loop("0.0", "s += y[i] * 0.1", dtype="qd.f32")
    assert call(kernel)[0] == call(kernel)[0] == call(again)[0]
    assert call(kernel)[0] == pytest.approx(total * 0.1, rel=1e-4)


@pytest.mark.parametrize("dtype", [qd.f16, qd.bf16])
def test_partial_sums_of_16_bit_floats_are_not_rounded(dtype):
    if qd.cfg is None:
        pytest.skip("iterations one after the other add to the rounded sum")
    count = 100_000
    x, total, product = qd.field(dtype, shape=count), qd.field(dtype, shape=()), qd.field(dtype, shape=())
    pairs, sums = qd.Vector.field(2, dtype, shape=count), qd.Vector.field(2, dtype, shape=())
    x.fill(0.25)
    pairs.fill(0.125)
    product[None] = 1

    @qd.kernel
    def add() -> dtype:
        s = qd.cast(0, dtype)
        for i in x:
            s += x[i]
            total[None] += x[i]
            sums[None] += pairs[i]
            product[None] *= 1 + x[i] * qd.cast(i < 30, qd.f32) * 0.125
        return s

    spacing = {qd.f16: 2.0**-10, qd.bf16: 2.0**-7}[dtype]
    assert add() == pytest.approx(count / 4, rel=spacing / 2)
    assert total[None] == pytest.approx(count / 4, rel=spacing / 2)
    assert list(sums[None]) == pytest.approx([count / 8] * 2, rel=spacing / 2)
    assert product[None] == pytest.approx(1.03125**30, rel=spacing / 2)


ORDERED = {
    "s = s + 1\ny[i] = s": 2,
    "s = y[i]\ny[i] = s * 2": 1,
    "s = s * 2 + y[i]": 1,
    "s = s + s": 1,
    "s = y[i] - s": 1,
    "s //= 2": 1,
    "s += 1\ns *= 2": 1,
    "s += 1\ny[i] = s": 1,
    "if y[i] > s:\n    s = y[i]\n    y[i] = 0": 2,
    "if y[i] > s: s = y[i] + 1": 1,
    "s = y[i] if y[i] > s and s != 7 else s": 1,
    "s = s if s > y[i] else (s if s > y[i] * 2 else y[i] * 2)": 1,
    "if y[i] > s:\n    if y[i] < 100: s = y[i]\n    y[i] = 0": 2,
    "if y[i] > s and y[i] < 100: s = y[i]\ns = max(s, i)": 1,
    "s = update(y, i) if update(y, i) > s else s": 1,
    "v = qd.cast(y[i], qd.i64) * 5000000\nif v > s: s = qd.cast(v, qd.i32)": 2,
    "v = qd.cast(y[i], qd.u32)\ns = qd.cast(qd.max(v, s), qd.i32)": 1,
    "v = qd.cast(y[i], qd.u32)\nif v > s: s = qd.cast(v, qd.i32)": 2,
    "t = s\ns = s + 1\ns = t + 2": 2,
    "t = s + 1\ns = t\ny[i] = t": 2,
}


@pytest.mark.needs("races")
@pytest.mark.parametrize("body", ORDERED)
def test_what_depends_on_the_order_of_iterations_is_warned_of_once_with_its_line(body):
    kernel = compile_loop("1", body)
    _, caught = call(kernel, VALUES.copy())
    assert len(caught) == 1
    assert caught[0].lineno - 5 in range(len(body.splitlines()) + 1)
    assert "a parallel loop read and write 's', which is declared outside of it" in str(caught[0].message)
    assert "serialize=True" in str(caught[0].message)
    assert call(kernel, VALUES.copy())[1] == []


@pytest.mark.parametrize(
    "loop",
    [
        "for _ in range(1):\n        for i in range(9):",
        "qd.loop_config(serialize=True)\n    for i in range(9):",
        "if s:\n      for i in range(9):",
    ],
)
def test_loops_in_order_may_do_anything(loop):
    kernel = compile_loop("1", "    s = s * 2 + i", loop)
    expected = 1
    for i in range(9):
        expected = expected * 2 + i
    assert call(kernel) == (expected, [])

"""Bounds of loops at the ends of their types, and loops that end at different times in iterations that run side by side."""

import itertools

import numpy as np
import pytest
from language_support import INTEGERS, NUMPY, define

import quadrants as qd

pytestmark = pytest.mark.usefixtures("on_every_backend")

MOST_ROUNDS = 100


def count_steps(first: int, last: int, step: int) -> int:
    """As `len` of a range, which has no room for the longest ones."""
    return max(0, -((first - last) // step))


def list_bounds(name: str, step: int) -> np.ndarray:
    """Pairs of bounds at and near the ends of the type whose loops are short; many are empty, with the ends the wrong way round."""
    info = np.iinfo(NUMPY[name])
    near = {info.min, info.min + 1, info.min + 5, 0, 1, 60, info.max - 70, info.max - 5, info.max - 1, info.max}
    largest = min(info.max, 2**63 - 1)
    near |= {largest - 70, largest - 5, largest - 1, largest}
    values = sorted(value for value in near if info.min <= value <= largest)
    chosen = [(a, b) for a, b in itertools.product(values, values) if count_steps(a, b, step) <= MOST_ROUNDS]
    np.random.default_rng(5).shuffle(chosen)
    return np.array(chosen, NUMPY[name])


def count_rounds(source: str, bounds: np.ndarray, step: int, name: str) -> None:
    """Compares the number of rounds of each iteration, and what they add up, with those of Python's `range`."""
    low, high = np.ascontiguousarray(bounds[:, 0]), np.ascontiguousarray(bounds[:, 1])
    count, total = np.zeros(len(bounds), np.int32), np.zeros(len(bounds), np.int64)
    array = f"qd.types.ndarray(dtype=qd.{name}, ndim=1)"
    text = f"""
@qd.kernel
def visit(count: qd.types.ndarray(dtype=qd.i32, ndim=1), total: qd.types.ndarray(dtype=qd.i64, ndim=1),
          low: {array}, high: {array}, step: qd.i32, of: {array}):
{source}
"""
    define(text)["visit"](count, total, low, high, step, np.full(len(bounds), abs(step), NUMPY[name]))
    ranges = [range(int(a), int(b), step) for a, b in bounds]
    np.testing.assert_array_equal(count, [len(r) for r in ranges])
    np.testing.assert_array_equal(total, np.array([sum(r) % 2**64 for r in ranges], np.uint64).astype(np.int64))


ROUND = """
            count[j] += 1
            total[j] += qd.cast(i, qd.i64)
"""
STEPS = {
    "1": (1, ""),
    "7": (7, ", 7"),
    "-1": (-1, ", -1"),
    "-7": (-7, ", -7"),
    "run time 3": (3, ", qd.cast(step, {})"),
    "run time -3": (-3, ", qd.cast(step, {})"),
    "of its own": (3, ", of[j]"),
}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("name", INTEGERS)
def test_a_loop_that_has_ended_stays_ended_beside_others_that_go_on(name, step):
    length, text = STEPS[step]
    if name[0] == "u" and length < 0:
        pytest.skip("an unsigned step is positive")
    source = f"    for j in count:\n        for i in range(low[j], high[j]{text.format('qd.' + name)}):{ROUND}"
    count_rounds(source, list_bounds(name, length), length, name)


@pytest.mark.parametrize("loop", ["serial", "widened"])
@pytest.mark.parametrize("name", ["i32", "i64", "u32", "u64"])
def test_serial_loops_end_at_the_ends_of_their_type(name, loop):
    source = f"    qd.loop_config(serialize=True)\n    for j in range(count.shape[0]):\n        for i in range(low[j], high[j]):{ROUND}"
    if loop == "serial":  # not independent: elements of another iteration
        source = source.replace("total[j] +=", "total[j] += 0 * total[0] +")
    count_rounds(source, list_bounds(name, 1), 1, name)


def test_nested_bounds_and_departures_do_not_bring_back_what_has_ended():
    source = """
    for j in count:
        for i in range(low[j], high[j]):
            if total[j] % 5 == 9:
                break
            if i == 2**31 - 1:
                continue
            for k in range(low[j], i):
                for m in range(k, low[j]):
                    count[j] += 1000000
            count[j] += 1
            total[j] += i
"""
    count_rounds(source, list_bounds("i32", 1), 1, "i32")


def test_axes_of_an_inner_ndrange_end_at_the_ends_of_their_type():
    bounds = list_bounds("i32", 1)
    source = f"    for j in count:\n        for r, i, s in qd.ndrange(1, (low[j], high[j]), (j * 0, 1)):{ROUND}"
    count_rounds(source, bounds, 1, "i32")
    source = f"    for j in count:\n        for r, i in qd.ndrange((0, of[j]), (low[j], high[j])):{ROUND}"
    count_rounds(source, bounds, 1, "i32")


@pytest.mark.parametrize("top", [2**31 - 1, 2**31 - 2, 2**31 - 17])
def test_bounds_that_go_from_iteration_to_iteration_in_one_step(top):
    lanes = np.arange(40)
    for sign in (1, -1):
        low, high = top - 60 + sign * lanes, np.minimum(top - 30 + lanes % 7, 2**31 - 1)
        source = f"    for j in count:\n        for i in range({top - 60} + {sign} * j, high[j]):{ROUND}"
        count_rounds(source, np.stack([low, high], 1).astype(np.int32), 1, "i32")
        source = f"    for j in count:\n        for i in range({top - 60} + {sign} * j, {top}):{ROUND}"
        count_rounds(source, np.stack([low, np.full(40, top)], 1).astype(np.int32), 1, "i32")
        low, high = -top + 60 + sign * lanes, np.full(40, -top - 1)
        source = f"    for j in count:\n        for i in range({-top + 60} + {sign} * j, {-top - 1}, -1):{ROUND}"
        count_rounds(source, np.stack([low, high], 1).astype(np.int32), -1, "i32")


def test_an_empty_range_writes_nothing():
    module = define("""
@qd.kernel
def visit(count: qd.types.ndarray(), low: qd.types.ndarray(), high: qd.types.ndarray(), x: qd.types.ndarray()):
    for j in count:
        for i in range(low[j], high[j]):
            x[i] = 1.0
            count[j] += 1
""")
    low, high, x = np.zeros(16, np.int32), np.full(16, 100, np.int32), np.zeros(100, np.float32)
    low[3], high[3] = 2**31 - 1, 0
    count = np.zeros(16, np.int32)
    module["visit"](count, low, high, x)
    assert count.tolist() == [100 * (j != 3) for j in range(16)] and x.sum() == 100


@pytest.mark.parametrize(
    "bounds", [(-(2**63), 2**63 - 1, 2**62), (2**63 - 1, -(2**63), -(2**62)), (-(2**31), 2**31 - 1, 2**30), (0, 2**63 - 1, 2**61)]
)
def test_parallel_loops_over_a_whole_type_have_the_rounds_of_a_range(bounds):
    module = define("""
@qd.kernel
def visit(total: qd.types.ndarray(), low: qd.i64, high: qd.i64, step: qd.i64) -> qd.i32:
    n = 0
    for i in range(low, high, step):
        n += 1
        total[0] += i
    return n
""")
    total = np.zeros(1, np.int64)
    assert module["visit"](total, *bounds) == len(range(*bounds))
    assert int(total[0]) % 2**64 == sum(range(*bounds)) % 2**64


def test_counters_of_a_product_are_as_wide_as_the_widest_of_its_bounds():
    module = define("""
outside = qd.ndrange((2**33, 2**33 + 2), 2)

@qd.kernel
def visit(a: qd.u64, b: qd.u32, c: qd.i64, d: qd.i8, t: qd.types.ndarray(qd.i64, 1)):
    qd.loop_config(serialize=True)
    for i, j in qd.ndrange((a, a + 3), (-1, d, 2)):
        t[0] += i * (j + 3)
    qd.loop_config(serialize=True)
    for I in qd.grouped(qd.ndrange((c, c + 3), (-1, 2))):
        t[1] += I[0] * 3 + I[1] * 2147483647
    qd.loop_config(serialize=True)
    for i, j in outside:
        t[2] += i * 3 + j
    qd.loop_config(serialize=True)
    for i, j in qd.ndrange(b, (0, d)):
        t[3] += i * 2147483647 + j * 2147483647
    qd.loop_config(serialize=True)
    for i, j in qd.ndrange(d, 2):
        t[4] += i * 2147483647 + j
    qd.loop_config(serialize=True)
    for i in range(0, 4 * b, 2**33):
        t[5] += (i + 2) * 2147483647
""")
    t = np.zeros(6, np.int64)
    a, b, c, d = 2**63 - 1, 3, -(2**40), 5
    module["visit"](a, b, c, d, t)

    def wrapped(number, bits):
        return (number + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1)

    most = 2**31 - 1
    expected = [
        wrapped(sum(i * (j + 3) for i in range(a, a + 3) for j in range(-1, d, 2)), 64),
        sum(i * 3 + j * most for i in range(c, c + 3) for j in range(-1, 2)),
        sum(i * 3 + j for i in range(2**33, 2**33 + 2) for j in range(2)),
        sum(i * most + j * most for i in range(b) for j in range(d)),
        sum(wrapped(i * most + j, 32) for i in range(d) for j in range(2)),
        2 * most,
    ]
    assert t.tolist() == expected


@pytest.mark.parametrize("dtype", ["qd.i32", "qd.i64"])
def test_more_iterations_than_can_be_counted_are_refused_at_run_time_unless_an_axis_is_empty(dtype):
    module = define(f"""
@qd.kernel
def visit(low: {dtype}, high: {dtype}, more: {dtype}) -> qd.i32:
    count = 0
    for i, j, k in qd.ndrange((low, high), more, more):
        count += 1
    return count
""")
    visit, top = module["visit"], 2**31 - 1
    refusals = (qd.QuadrantsAssertionError, qd.QuadrantsRuntimeError)  # of the code, and of the host before a grid is launched
    assert (visit(-1, 3, 2), visit(-5, -5, top), visit(5, 3, top), visit(-top, top, 0), visit(-top, top, -top)) == (16, 0, 0, 0, 0)
    with pytest.raises(refusals, match=r"a loop has at most 2\*\*63 - 1 iterations, and these bounds give more"):
        visit(-top, top, top)
    assert visit(0, 2, 1) == 2
    if dtype == "qd.i64":
        with pytest.raises(refusals, match="at most"):
            visit(0, 2**32, 2**16)  # 2**64, which is 0 in 64 bits


# Where loops begin to look whether the launch was given up, of one loop and of two, and beyond.
LENGTHS = [0, 1, 2, 15, 16, 17, 31, 33, 90, 129, 400, 1025, pytest.param(70000, marks=pytest.mark.needs("long loops"))]


@pytest.mark.parametrize("length", LENGTHS)
def test_short_and_long_nests_have_all_rounds(length, request):
    if "python" in request.node.name and length > 100:
        pytest.skip("the interpreter takes long")
    kernels = define("""
@qd.kernel
def visit(out: qd.types.ndarray(dtype=qd.i64, ndim=2), rows: qd.i32, n: qd.i32):
    for i in range(out.shape[0]):
        up = qd.i64(0)
        for a in range(-rows, rows + 1):
            for b in range(n * 2 - n):
                up += a * 3 + b
        down = qd.i64(0)
        for b in range(n, 0, -3):
            down += b * 2 + i
        axes = qd.i64(0)
        for a, b in qd.ndrange((1, rows), (-2, n - 2)):
            axes = axes * 3 + a * 7 + b
        own = qd.i64(0)
        for b in range(i, n + i):
            if b == n:
                break
            own += b
        out[i, 0] += up
        out[i, 1] += down
        out[i, 2] += axes
        out[i, 3] += own

@qd.kernel
def visit_in_order(out: qd.types.ndarray(dtype=qd.i64, ndim=2), rows: qd.i32, n: qd.i32):
    qd.loop_config(serialize=True)
    for b in range(n):
        for a in range(rows):
            out[0, 0] = out[0, 0] * 3 + a * 7 + b
""")
    rows, out = 3, np.zeros((21, 4), np.int64)
    kernels["visit"](out, rows, length)
    wrap = 2**64
    axes = 0
    for a, b in itertools.product(range(1, rows), range(-2, length - 2)):
        axes = (axes * 3 + a * 7 + b) % wrap
    for i in range(len(out)):
        up = sum(3 * a * length + length * (length - 1) // 2 for a in range(-rows, rows + 1))
        down = sum(2 * b + i for b in range(length, 0, -3))
        own = sum(range(i, length if i <= length else length + i))
        assert [value % wrap for value in out[i].tolist()] == [up % wrap, down % wrap, axes, own]
    out[:] = 0
    kernels["visit_in_order"](out, rows, length)
    in_order = 0
    for b, a in itertools.product(range(length), range(rows)):
        in_order = (in_order * 3 + a * 7 + b) % wrap
    assert int(out[0, 0]) % wrap == in_order

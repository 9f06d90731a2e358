"""Sorts: a quicksort where loops that compact run in lanes, otherwise a radix sort; compared with NumPy."""

import numpy as np
import pytest

import quadrants as qd
from quadrants import algorithms
from quadrants.algorithms import _network

TYPES = [np.int8, np.uint16, np.int32, np.uint32, np.int64, np.uint64, np.float16, np.float32, np.float64]
COUNTS = [0, 1, 2, 15, 16, 17, 127, 128, 129, 255, 256, 257, 1000, 2049, 2500, 4097, 32768, 32769, 65536, 65537, 150001]
KINDS = ["random", "ascending", "descending", "few", "sixteen", "seventeen", "equal", "outliers", "organ pipe"]


@pytest.fixture(autouse=True)
def runtime():
    qd.init(arch=qd.cpu)
    yield
    qd.reset()


def make(kind, dtype, n):
    rng = np.random.default_rng(n)
    if np.dtype(dtype).kind == "f":
        keys = rng.standard_normal(n).astype(dtype)
    else:
        limits = np.iinfo(dtype)
        keys = rng.integers(limits.min, limits.max, n, dtype, endpoint=True)
    if kind == "few":
        keys = rng.integers(0, 5, n).astype(dtype)
    elif kind in ("sixteen", "seventeen"):
        keys = rng.choice(keys[: {"sixteen": 16, "seventeen": 17}[kind]], n) if n else keys
    elif kind == "equal":
        keys[:] = keys[:1]
    elif kind == "outliers":
        keys = np.where(rng.random(n) < 0.01, keys, keys[:1])
    elif kind != "random":
        keys = np.sort(keys)
        keys = {"ascending": keys, "descending": keys[::-1], "organ pipe": np.concatenate([keys[::2], keys[1::2][::-1]])}[kind]
    return np.ascontiguousarray(keys)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("kind", KINDS)
def test_sizes_around_thresholds(kind, dtype):
    for n in COUNTS:
        keys = make(kind, dtype, n)
        expected = np.sort(keys, kind="stable")  # the quicksort of NumPy 2.4 errs for some f16
        algorithms.sort(keys)
        np.testing.assert_array_equal(keys, expected, err_msg=str(n))


@pytest.mark.parametrize("dtype", [np.int16, np.int32, np.float32, np.uint64, np.float64])
@pytest.mark.parametrize("kind", KINDS)
def test_values_move_along_and_equal_keys_stay_in_order(kind, dtype):
    for number, n in enumerate([1, 2, 17, 127, 128, 129, 300, 5000, 32769, 70000]):
        value_dtype = [np.int32, np.float64, np.uint8, np.int16, np.float32][number % 5]
        keys = make(kind, dtype, n)
        values = np.random.default_rng(n).integers(0, 1000, n).astype(value_dtype)
        order = np.argsort(keys, kind="stable")
        expected, moved = keys[order], values[order]
        algorithms.sort(keys, values)
        np.testing.assert_array_equal(keys, expected, err_msg=str(n))
        np.testing.assert_array_equal(values, moved, err_msg=str(n))


@pytest.mark.parametrize("word", [np.uint32, np.uint64])
@pytest.mark.parametrize("low_bits", [3, 7, 9])
def test_values_of_keys_that_differ_in_the_highest_and_the_lowest_bits(low_bits, word):
    rng = np.random.default_rng(low_bits)
    for n in (100, 128, 1000, 40000):
        keys = rng.integers(0, 1 << low_bits, n).astype(word) | (rng.integers(0, 2, n).astype(word) << word(8 * word().itemsize - 1))
        values = np.arange(n, dtype=np.int32)
        order = np.argsort(keys, kind="stable")
        expected = keys[order]
        algorithms.sort(keys, values)
        np.testing.assert_array_equal(keys, expected)
        np.testing.assert_array_equal(values, order)


def sort_by_bits(keys, word):
    bits, sign = keys.view(word), word(1) << word(8 * keys.itemsize - 1)
    order = np.sort(np.where(bits >= sign, ~bits, bits | sign))
    return np.where(order >= sign, order ^ sign, ~order)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype, word", [(np.float32, np.uint32), (np.float64, np.uint64)])
def test_floats_are_in_the_order_of_their_bits(dtype, word, descending):
    rng = np.random.default_rng(3)
    special = np.array([np.nan, -np.nan, 0.0, -0.0, np.inf, -np.inf, np.finfo(dtype).smallest_subnormal], dtype)
    keys = np.where(rng.random(5000) < 0.5, rng.choice(special, 5000), rng.standard_normal(5000).astype(dtype))
    expected = sort_by_bits(keys, word)
    algorithms.sort(keys, descending=descending)
    np.testing.assert_array_equal(keys.view(word), expected[::-1] if descending else expected)


@pytest.mark.parametrize("n", [100, 5000, 70000])
def test_keys_apart_in_memory_and_in_fields_with_offsets(n):
    keys = make("random", np.int32, 2 * n)
    expected = np.sort(keys[::2])
    algorithms.sort(keys[::2])
    np.testing.assert_array_equal(keys[::2], expected)
    field = qd.field(qd.i32, n, offset=-5)
    field.from_numpy(keys[1::2].copy())
    algorithms.sort(field)
    np.testing.assert_array_equal(field.to_numpy(), np.sort(keys[1::2]))


@pytest.mark.parametrize("kinds", [1, 2, 3, 40])
@pytest.mark.parametrize("dtype", [np.int32, np.uint64, np.float32])
def test_few_kinds_of_keys_with_the_least_and_the_greatest_bits(dtype, kinds):
    if dtype is np.float32:
        chosen = np.array([0xFFFFFFFF, 0x7FFFFFFF, 0], np.uint32).view(dtype)  # NaN, negative and positive
    else:
        chosen = np.array([np.iinfo(dtype).max, np.iinfo(dtype).min, 7], dtype)
    chosen = np.concatenate([chosen, np.arange(100, 137).astype(dtype)])[:kinds]
    for n in (300, 5000, 70000, 150001):
        keys = np.random.default_rng(n).choice(chosen, n)
        expected = sort_by_bits(keys, np.uint32) if dtype is np.float32 else np.sort(keys).view(np.uint8)
        algorithms.sort(keys)
        np.testing.assert_array_equal(keys.view(expected.dtype), expected)


@pytest.mark.parametrize("rows, lanes", [(16, 8), (16, 16), (8, 32)])
def test_the_network_sorts_zeros_and_ones(rows, lanes):
    """A network that sorts these sorts all keys (Knuth, The Art of Computer Programming, volume 3, 5.3.4)."""
    steps, owners = _network._plan(rows, lanes)
    numbers = np.arange(lanes)
    for ones in range(rows * lanes + 1):
        held = np.random.default_rng(ones).permutation(np.arange(rows * lanes) < ones).reshape(rows, lanes)
        for x, y in _network._sort_columns(rows):
            held[x], held[y] = held[x] & held[y], held[x] | held[y]
        for step in steps:
            before, stays = held.copy(), numbers & step.lane == 0
            for x in (x for x in range(rows) if not x & step.row):
                y = x ^ step.row
                a = np.where(stays, before[x], before[y][numbers ^ step.lane])
                b = np.where(stays, before[x ^ step.rows][numbers ^ step.lanes], before[y ^ step.rows][numbers ^ step.lanes ^ step.lane])
                held[x], held[y] = (a & b, a | b) if step.compares else (a, b)
        found = np.empty_like(held)
        found[owners] = held
        np.testing.assert_array_equal(found.ravel(), np.arange(rows * lanes) >= rows * lanes - ones)


@pytest.mark.parametrize("sign", [1, -1])
def test_an_input_that_spoils_pivots(sign):
    """The keys that pivots are chosen from are the least or the greatest ones of their range, again and again."""
    n = 1 << 13
    keys, order, rank = np.zeros(n, np.int32), list(range(n)), 0
    while len(order) > 256:
        step = len(order) // 9
        chosen = [(len(order) - 8 * step) // 2 + k * step for k in range(9)]
        for place in chosen:
            keys[order[place]] = rank
            rank += 1
        order = [index for place, index in enumerate(order) if place not in set(chosen)]
    keys[order] = np.arange(rank, rank + len(order))
    keys *= sign
    expected = np.sort(keys)
    algorithms.sort(keys)
    np.testing.assert_array_equal(keys, expected)


def check_stable_order(keys, has_values, message):
    """Sorts the keys, alone or with their numbers as values."""
    values, order = np.arange(len(keys), dtype=np.int32), np.argsort(keys, kind="stable")
    expected = keys[order]
    algorithms.sort(keys, values) if has_values else algorithms.sort(keys)
    np.testing.assert_array_equal(keys, expected, err_msg=message)
    if has_values:
        np.testing.assert_array_equal(values, order, err_msg=message)


@pytest.mark.parametrize("has_values", [False, True])
@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.uint32, np.float32, np.int64, np.float64])
def test_keys_that_are_in_order_but_for_one_place(dtype, has_values):
    """One key is elsewhere, or two pieces have changed places; at both ends, and around the bounds of what is compared at a time."""
    for n in (2, 3, 17, 18, 300, 5000, 70000, 150001):
        for place in {p for p in (1, 2, 15, 16, 17, 255, 256, 257, 16383, 16384, 16385, 65536, n // 2, n - 2, n - 1) if 0 < p < n}:
            in_order = np.sort(make("random", dtype, n))
            one, begin, end = in_order.copy(), place // 2, min(n - 1, place // 2 + 100)
            one[place] = one[n - 1 - place]
            size = min(place - begin, n - end)  # of the second piece, which moves to the front of the first one
            pieces = np.concatenate([in_order[:begin], in_order[end : end + size], in_order[begin:end], in_order[end + size :]])
            for keys in (in_order, one, pieces, in_order[::-1].copy(), one[::-1].copy(), pieces[::-1].copy()):
                check_stable_order(keys, has_values, f"{n} {place}")


@pytest.mark.parametrize("has_values", [False, True])
@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int32, np.float32, np.uint64, np.float64])
def test_a_few_kinds_and_some_other_keys(dtype, has_values):
    """Kinds that begin late, other keys in some chunks only, and keys that fall with equal ones among them."""
    rng = np.random.default_rng(5)
    for n in (100, 2500, 66000, 150001):
        for number in (1, 2, 7, 15, 16):
            kinds = make("random", dtype, 16 + number)[-number:]
            begins_late = kinds[np.minimum(rng.integers(0, number, n), np.arange(n) * number // n)]
            with_others = np.where(rng.random(n) < 3 / n, make("random", dtype, n), rng.choice(kinds, n))
            in_some_chunks = np.where(np.arange(n) % 40000 < 30000, rng.choice(kinds, n), make("random", dtype, n))
            for keys in (begins_late, with_others, in_some_chunks, np.sort(begins_late)[::-1].copy()):
                check_stable_order(keys, has_values, f"{n} {number}")


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype, word", [(np.float32, np.uint32), (np.float64, np.uint64)])
def test_special_floats_that_are_in_order(dtype, word, descending):
    """-0.0 is before 0.0, and NaN at both ends, also where keys are in order by their values or are counted."""
    special = np.array([np.nan, -np.nan, 0.0, -0.0, np.inf, -np.inf, np.finfo(dtype).smallest_subnormal], dtype)
    for n in (7, 500, 70000, 150001):
        chosen = np.random.default_rng(n).choice(special, n)
        for keys in (chosen, np.sort(chosen), np.sort(chosen)[::-1].copy(), sort_by_bits(chosen, word).view(dtype)):
            expected = sort_by_bits(keys, word)
            algorithms.sort(keys, descending=descending)
            np.testing.assert_array_equal(keys.view(word), expected[::-1] if descending else expected, err_msg=str(n))


@pytest.mark.parametrize("is_apart", [False, True])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint16, np.int16, np.float16])
def test_short_keys_are_counted(dtype, is_apart):
    """Around the numbers of keys from which on they are counted in one or several parts, with few, many or no keys of a value."""
    word = f"u{np.dtype(dtype).itemsize}"
    for n in (2047, 2048, 2049, 32769, 524287, 524288, 524289, 900001):
        bits = np.random.default_rng(n).integers(0, 1 << 8 * np.dtype(dtype).itemsize, n)
        for chosen in (bits, bits // 16 * 16, bits % 256 + 200, np.minimum(bits, 40), np.where(bits % 1000 == 0, bits, 7), bits * 0 - 1):
            keys = chosen.astype(word).view(dtype)
            expected = sort_by_bits(keys, np.uint16) if dtype is np.float16 else np.sort(keys, kind="stable").view(word)
            given = np.repeat(keys, 2)[::2] if is_apart else keys
            algorithms.sort(given)
            np.testing.assert_array_equal(np.ascontiguousarray(given).view(word), expected, err_msg=str(n))

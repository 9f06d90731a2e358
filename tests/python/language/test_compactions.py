"""Loops that store side by side what some of their iterations choose, which run in lanes on processors with an instruction for it.

Each loop is compared with NumPy or with the same loop in Python, for numbers of iterations around those of vectors.
"""

from collections.abc import Iterator

import numpy as np
import pytest

import quadrants as qd

ARRAY = qd.types.ndarray(ndim=1)
COUNTS = [0, 1, 7, 8, 15, 16, 17, 33, 64, 100, 1000]
TYPES = [np.int8, np.uint8, np.int16, np.int32, np.uint32, np.int64, np.float16, np.float32, np.float64]


@pytest.fixture(autouse=True)
def on_cpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Vectors are the processor's."""
    monkeypatch.delenv("QD_ARCH", raising=False)
    qd.init(arch=qd.cpu, offline_cache=False)
    yield
    qd.reset()


@qd.kernel
def keep(x: ARRAY, out: ARRAY, n: qd.i32, least: qd.f32) -> qd.i32:
    count = 0
    qd.loop_config(serialize=True)
    for i in range(n):
        if qd.f32(x[i]) >= least:
            out[count] = x[i]
            count += 1
    return count


@qd.func
def part(x, spare, begin, end, pivot):
    left, right = begin, begin
    for i in range(begin, end):
        value = x[i]
        if value < pivot:
            x[left] = value
            left += 1
        else:
            spare[right] = value
            right += 1
    for i in range(begin, right):
        x[left + (i - begin)] = spare[i]
    return left


@qd.kernel
def part_rows(x: ARRAY, spare: ARRAY, places: ARRAY, size: qd.i32, pivot: qd.i32):
    for row in range(places.shape[0]):
        places[row] = part(x, spare, row * size, row * size + size, pivot)


@qd.kernel
def keep_short(x: ARRAY, out: ARRAY, n: qd.i32, least: ARRAY) -> qd.i32:
    count = 0
    qd.loop_config(serialize=True)
    for i in range(n):
        if x[i] >= least[0]:  # not converted to a longer word
            out[count] = x[i]
            count += 1
    return count


def make(n, dtype=np.int32, seed=1):
    return np.random.default_rng(seed).integers(0, 100, n).astype(dtype)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("n", COUNTS)
def test_kept_elements_are_in_order(n, dtype):
    x, out = make(n + 3, dtype), np.full(n + 3, 101, dtype)
    count = keep(x, out, n, 40)
    expected = x[:n][x[:n] >= 40]
    assert count == len(expected)
    np.testing.assert_array_equal(out[:count], expected)
    assert (out[count:] == 101).all()  # nothing behind them is written


@qd.kernel
def keep_others(x: ARRAY, others: ARRAY, out: ARRAY, n: qd.i32) -> qd.i32:
    count = 0
    qd.loop_config(serialize=True)
    for i in range(n):
        if x[i] >= 40:
            out[count] = others[i]
            count += 1
    return count


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16, np.float16])
@pytest.mark.parametrize("n", [*COUNTS, 31, 32, 63, 65, 127])
@pytest.mark.parametrize("least", [0, 40, 99, 100])
def test_vectors_of_short_words(least, n, dtype):
    """All are kept, some or none."""
    x, out = make(n + 3, dtype), np.full(n + 3, 101, dtype)
    count = keep_short(x, out, n, np.array([least], dtype))
    expected = x[:n][x[:n] >= least]
    assert count == len(expected)
    np.testing.assert_array_equal(out[:count], expected)
    assert (out[count:] == 101).all()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("chosen_by", [np.int8, np.float64])
def test_elements_are_chosen_by_those_of_another_type(chosen_by, dtype):
    """Vectors of f64 have so few lanes that those of 8 bits do not fill the least register."""
    x, others, out = make(1000, chosen_by), np.arange(1000).astype(dtype), np.zeros(1000, dtype)
    count = keep_others(x, others, out, 1000)
    np.testing.assert_array_equal(out[:count], others[x >= 40])


@qd.kernel
def part_loosely(x: ARRAY, out: ARRAY, n: qd.i32, least: qd.f32) -> qd.i32:
    count, rest = 0, 0
    qd.loop_config(serialize=True, clobbers=True)
    for i in range(n):
        if qd.f32(x[i]) >= least:
            out[count] = x[i]
            count += 1
        else:
            x[rest] = x[i]
            rest += 1
    return count


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("n", COUNTS)
def test_what_is_clobbered_is_behind_the_counter_and_within_the_iterations(n, dtype):
    x, out = make(n + 70, dtype), np.full(n + 70, 101, dtype)
    kept, others, tail = x[:n][x[:n] >= 40], x[:n][x[:n] < 40], x[n:].copy()
    assert part_loosely(x, out, n, 40) == len(kept)
    np.testing.assert_array_equal(out[: len(kept)], kept)
    np.testing.assert_array_equal(x[: len(others)], others)
    np.testing.assert_array_equal(x[n:], tail)
    assert (out[n:] == 101).all()


@pytest.mark.parametrize("n", COUNTS)
def test_elements_are_removed_in_place(n):
    x = make(n)
    expected = x[x >= 40]
    assert keep(x, x, n, 40) == len(expected)
    np.testing.assert_array_equal(x[: len(expected)], expected)


@pytest.mark.parametrize("shift", [-5, -1, 1, 5, 16])
def test_containers_that_overlap(shift):
    """The loop reads what it has written before."""
    memory = make(200)
    expected = memory.copy()
    x, out = memory[20:120], memory[20 + shift : 120 + shift]
    others = expected[20:120], expected[20 + shift : 120 + shift]
    count = 0
    for i in range(100):
        if others[0][i] >= 40:
            others[1][count] = others[0][i]
            count += 1
    assert keep(x, out, 100, 40) == count
    np.testing.assert_array_equal(memory, expected)


@pytest.mark.parametrize("size", [1, 5, 16, 40, 257])
def test_parts_of_rows(size):
    x, places = make(13 * size), np.zeros(13, np.int32)
    before = x.copy().reshape(13, size)
    part_rows(x, np.zeros_like(x), places, size, 50)
    for row, (given, found) in enumerate(zip(before, x.reshape(13, size), strict=True)):
        assert places[row] == row * size + (given < 50).sum()
        np.testing.assert_array_equal(found, np.concatenate([given[given < 50], given[given >= 50]]))


@pytest.mark.parametrize("first", [0, 3, 40])
def test_a_counter_that_is_ahead(first):
    """Elements that the loop has written are read by later iterations."""

    @qd.kernel
    def spread(x: ARRAY, n: qd.i32, begin: qd.i32) -> qd.i32:
        count = begin
        qd.loop_config(serialize=True)
        for i in range(n):
            value = x[i]
            if value >= 40:
                x[count] = value + 1
                count += 1
        return count

    x = make(400)
    expected, count = x.copy(), first
    for i in range(100):
        if expected[i] >= 40:
            expected[count] = expected[i] + 1
            count += 1
    assert spread(x, 100, first) == count
    np.testing.assert_array_equal(x, expected)


def test_fields_with_offsets_and_two_stores():
    x, values, places = qd.field(qd.f32, 100, offset=-7), qd.field(qd.f32, 130, offset=5), qd.field(qd.i32, 100)
    data = make(100, np.float32)
    x.from_numpy(data)

    @qd.kernel
    def find() -> qd.i64:
        count = qd.i64(10)
        total = 0
        qd.loop_config(serialize=True)
        for i in range(-7, 93):
            if x[i] >= 40:
                values[count] = x[i]
                places[count - 10] = i
                count += 1
                total += i
        return count * 1000 + total

    chosen = np.flatnonzero(data >= 40)
    assert find() == (10 + len(chosen)) * 1000 + (chosen - 7).sum()
    np.testing.assert_array_equal(values.to_numpy()[5 : 5 + len(chosen)], data[chosen])
    np.testing.assert_array_equal(places.to_numpy()[: len(chosen)], chosen - 7)


def test_neighbors_of_points():
    """An inner loop of a parallel one, whose rows are those of a matrix; its condition calls a function."""
    points = qd.Vector.ndarray(3, qd.f32, 70)
    data = np.random.default_rng(2).random((70, 3), np.float32)
    points.from_numpy(data)
    near, counts = qd.ndarray(qd.i32, (70, 70)), qd.ndarray(qd.i32, 70)

    @qd.func
    def distance(a, b):
        return (a - b).norm()

    @qd.kernel
    def find(points: qd.types.ndarray(), near: qd.types.ndarray(), counts: qd.types.ndarray()):
        for i in range(70):
            count = 0
            for k in range(70):
                if distance(points[i], points[k]) < 0.4:
                    near[i, count] = k
                    count += 1
            counts[i] = count

    find(points, near, counts)
    for i in range(70):
        expected = np.flatnonzero(np.linalg.norm(data[i] - data, axis=1) < np.float32(0.4))
        np.testing.assert_array_equal(near.to_numpy()[i, : counts[i]], expected)


def test_lanes_exchange_parts_of_arrays():
    """Lanes read what other lanes have in an array of the code around, in an order that is known."""
    x, out = qd.ndarray(qd.i32, 32), qd.ndarray(qd.i32, 32)
    data = make(32)
    x.from_numpy(data)

    @qd.kernel
    def exchange(x: ARRAY, out: ARRAY, kept: ARRAY) -> qd.i32:
        count = 0
        for _ in range(1):
            rows, turned = qd.Vector.zero(qd.i32, 32), qd.Vector.zero(qd.i32, 32)
            for lane in range(16):
                for row in qd.static((0, 16)):
                    rows[row + lane] = x[row + lane]
            for lane in range(16):
                turned[lane] = rows[16 + (lane ^ 5)]
                turned[16 + lane] = rows[15 - lane]
            for lane in range(16):
                out[lane] = turned[lane]
            for lane in range(16):
                out[16 + lane] = turned[16 + lane]
            for i in range(32):
                if x[i] < 50:
                    kept[count] = x[i]
                    count += 1
        return count

    kept = qd.ndarray(qd.i32, 32)
    assert exchange(x, out, kept) == (data < 50).sum()
    np.testing.assert_array_equal(out.to_numpy(), np.concatenate([data[16:][np.arange(16) ^ 5], data[:16][::-1]]))
    np.testing.assert_array_equal(kept.to_numpy()[: (data < 50).sum()], data[data < 50])

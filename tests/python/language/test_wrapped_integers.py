"""Integers that lose bits: a compiler must not take `x << 1 < k` for `x < k >> 1`, or a widened `x << 31` for `x * -2**31`."""

from typing import Any

import numpy as np
import pytest

import quadrants as qd

DTYPES = [np.int32, np.int64, np.uint32, np.uint64]
WRAPPING = [
    lambda x: x << 1,
    lambda x: x << 3,
    lambda x: x << 31,
    lambda x: (x << 24) >> 24,
    lambda x: (x << 4) >> 4,
    lambda x: abs(x),
    lambda x: abs(x << 1),
    lambda x: x + x,
    lambda x: x * 2,
    lambda x: x * 6,
    lambda x: x * 9,
    lambda x: x + 7,
    lambda x: x - 7,
    lambda x: 7 - x,
    lambda x: (x + 5) * 4,
    lambda x: (x - 3) << 2,
    lambda x: x * x,
    lambda x: (x >> 1) << 2,
]
OF_64_BITS = [
    lambda x: x << 32,
    lambda x: x << 56,
    lambda x: x << 63,
    lambda x: (x << 56) >> 56,
    lambda x: (x << 48) >> 48,
    lambda x: (x << 32) >> 32,
    lambda x: (x << 40) >> 38,
]
BOUNDS = [0, 1, 5, 8, 1 << 30]


@pytest.fixture(autouse=True)
def runtime(on_every_backend: Any) -> None:
    on_every_backend()


def get_values(dtype: Any) -> np.ndarray:
    info = np.iinfo(dtype)
    near = [0, 1, 2, 3, 5, 127, 128, 255, 32767, 32768, 65535, info.max // 2, info.max // 2 + 1, info.max // 4 + 1, info.max - 1, info.max]
    near += [-1, -2, -4, -5, -128, -129, info.min // 2, info.min // 2 - 1, info.min] if info.min else []
    random = np.random.default_rng(3).integers(info.min, info.max, 40, dtype, endpoint=True)
    return np.concatenate([np.array(near, dtype), random])


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.__name__)
def test_conditions_on_wrapped_integers(dtype: Any) -> None:
    functions = WRAPPING + OF_64_BITS * (np.iinfo(dtype).bits == 64)
    compiled = [qd.func(function) for function in functions]
    bounds = BOUNDS + [-8, -1, -(1 << 30)] * (np.iinfo(dtype).min < 0)
    type_ = getattr(qd, ("u" if np.iinfo(dtype).min == 0 else "i") + str(np.iinfo(dtype).bits))

    @qd.kernel
    def find(values: qd.types.ndarray(type_, 1), found: qd.types.ndarray(qd.i32, 3)):
        for i in values:
            for f in qd.static(range(len(functions))):
                for b in qd.static(range(len(bounds))):
                    y = compiled[f](values[i])
                    if y < qd.cast(bounds[b], type_):
                        found[i, f, b] += 1
                    if y <= qd.cast(bounds[b], type_):
                        found[i, f, b] += 2
                    if y > qd.cast(bounds[b], type_):
                        found[i, f, b] += 4
                    if y >= qd.cast(bounds[b], type_):
                        found[i, f, b] += 8
                    if y == qd.cast(bounds[b], type_):
                        found[i, f, b] += 16

    values = get_values(dtype)
    found = np.zeros((len(values), len(functions), len(bounds)), np.int32)
    find(values, found)
    with np.errstate(over="ignore"):
        wrapped = np.stack([function(values) for function in functions], axis=1)[:, :, None]
    bounds = np.array(bounds, dtype)
    pairs = [(wrapped < bounds, 1), (wrapped <= bounds, 2), (wrapped > bounds, 4), (wrapped >= bounds, 8), (wrapped == bounds, 16)]
    np.testing.assert_array_equal(found, sum(condition.astype(np.int32) * bit for condition, bit in pairs))


@pytest.mark.parametrize("count", [1, 7, 30, 31, 32, 33, 63])
def test_widened_integers_that_are_shifted(count: int) -> None:
    @qd.kernel
    def shift(values: qd.types.ndarray(qd.i32, 1), shifted: qd.types.ndarray(qd.i64, 1), sums: qd.types.ndarray(qd.f64, 1)):
        for i in values:
            wide = qd.cast(values[i], qd.i64)
            shifted[i] = wide << count
            sums[i] = qd.cast((wide << count) + wide * 3, qd.f64)

    values = get_values(np.int32)
    shifted, sums = np.zeros(len(values), np.int64), np.zeros(len(values))
    shift(values, shifted, sums)
    expected = values.astype(np.int64) << count
    np.testing.assert_array_equal(shifted, expected)
    np.testing.assert_array_equal(sums, (expected + values.astype(np.int64) * 3).astype(np.float64))


@pytest.mark.parametrize("size", [9, 17, 33])
def test_remainders_of_64_bits_as_indices(size: int) -> None:
    @qd.kernel
    def pick(
        values: qd.types.ndarray(qd.u64, 1),
        table: qd.types.ndarray(qd.u8, 1),
        pairs: qd.types.ndarray(qd.f32, 2),
        found: qd.types.ndarray(qd.f32, 2),
    ):
        for i in values:
            index = (values[i] ^ qd.cast(table[3] >> (table[1] & 7), qd.u64)) % size
            found[i, 0] = qd.cast(table[index], qd.f32)
            found[i, 1] = pairs[index, 1]

    values = get_values(np.uint64)
    table, pairs = np.arange(size, dtype=np.uint8) * 5, np.arange(2 * size, dtype=np.float32).reshape(size, 2)
    found = np.zeros((len(values), 2), np.float32)
    pick(values, table, pairs, found)
    index = (values ^ np.uint64(table[3] >> (table[1] & 7))) % np.uint64(size)
    np.testing.assert_array_equal(found, np.stack([table[index], pairs[index, 1]], axis=1))

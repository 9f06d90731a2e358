"""Indices that a border keeps inside: clamped, wrapped around, or chosen. Lanes that it does not change are neighbors in memory."""

from collections.abc import Iterator

import numpy as np
import pytest

import quadrants as qd


@pytest.fixture(autouse=True)
def _runtime() -> Iterator[None]:
    qd.init(arch=qd.cpu, offline_cache=False)
    yield
    qd.reset()


FORMS = {
    "clamp": lambda at, n: np.clip(at, 0, n - 1),
    "wrap": lambda at, n: np.mod(at, n),
    "choose": lambda at, n: np.where(at < 0, 0, np.where(at >= n, n - 1, at)),
    "assign": lambda at, n: np.clip(at, 0, n - 1),
    "mirror": lambda at, n: np.where(at < 0, -at, np.where(at >= n, 2 * n - 2 - at, at)),
}


@pytest.mark.parametrize("columns", [5, 32, 64, 70])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", [qd.f32, qd.f64, qd.i8])
def test_elements_at_indices_that_stay_inside(dtype, form, columns):
    rows = 6
    source, target, masked = (qd.field(dtype, (rows, columns)) for _ in range(3))
    vectors = qd.Vector.field(3, dtype, (rows, columns))
    numbers = np.random.default_rng(columns).integers(0, 30, (rows, columns)).astype(source.to_numpy().dtype)

    @qd.func
    def inside(at, n):
        if qd.static(form == "clamp"):
            return qd.max(qd.min(at, n - 1), 0)
        elif qd.static(form == "wrap"):
            return at % n
        elif qd.static(form == "choose"):
            return 0 if at < 0 else n - 1 if at >= n else at
        elif qd.static(form == "assign"):
            kept = at
            if kept < 0:
                kept = 0
            if kept > n - 1:
                kept = n - 1
            return kept
        else:
            return -at if at < 0 else 2 * n - 2 - at if at >= n else at

    @qd.kernel
    def run(array: qd.types.ndarray(), width: qd.i32, down: qd.i32):
        for i, j in source:
            above = inside(i + down, rows)
            target[i, j] = source[above, inside(j - 1, columns)] + source[i, inside(j + 3, columns)] * 2 + array[i, inside(j - 2, width)]
            if (i + j) % 3 != 0:
                masked[i, j] = source[i, inside(j + 1, columns)]
            vectors[i, j] = vectors[i, j] + qd.Vector([source[inside(i - 1, rows), j], source[i, inside(j - 1, width)], 1])

    source.from_numpy(numbers)
    run(numbers, columns, -1)
    i, j = np.indices(numbers.shape)

    def at(down, right):
        return numbers[FORMS[form](i + down, rows), FORMS[form](j + right, columns)]

    np.testing.assert_array_equal(target.to_numpy(), at(-1, -1) + at(0, 3) * 2 + at(0, -2))
    np.testing.assert_array_equal(masked.to_numpy(), np.where((i + j) % 3 != 0, at(0, 1), 0))
    np.testing.assert_array_equal(vectors.to_numpy(), np.stack([at(-1, 0), at(0, -1), np.ones_like(numbers)], axis=-1))


def test_bounds_that_most_lanes_reach():
    table, result = qd.Vector.field(2, qd.f32, 40), qd.Vector.field(2, qd.f32, 300)
    table.from_numpy(np.arange(80, dtype=np.float32).reshape(40, 2))

    @qd.kernel
    def read(first: qd.i32, last: qd.i32, mask: qd.i32):
        for i in result:
            at = qd.max(first, qd.min(i - 7, last))
            result[i] = table[at] + table[i & 31] * 100 + table[(i * 7) & mask] * 10000

    read(3, 39, 15)
    i = np.arange(300)
    at = np.stack([np.clip(i - 7, 3, 39), i & 31, (i * 7) & 15])
    numbers = 2 * at[..., None] + np.arange(2)
    np.testing.assert_array_equal(result.to_numpy(), (numbers * np.array([1, 100, 10000])[:, None, None]).sum(axis=0))

"""Algorithms over arrays and a linear system, for type checkers."""

from __future__ import annotations

import numpy as np

import quadrants as qd

qd.init(arch=qd.cpu, random_seed=1, offline_cache=False)


@qd.kernel(graph=True)
def histogram(keys: qd.types.NDArray[qd.i32, 1], counts: qd.types.NDArray[qd.i32, 1], bins: qd.i32) -> None:
    for i in range(bins):
        counts[i] = 0
    for i in keys:
        qd.atomic_add(counts[keys[i] % bins], 1)


def summarize(size: int) -> tuple[int, float]:
    keys = qd.ndarray(qd.i32, size)
    keys.from_numpy(np.random.randint(0, 100, size).astype(np.int32))
    counts = np.zeros(10, np.int32)
    histogram(keys, counts, 10)
    qd.algorithms.sort(keys)
    total = qd.algorithms.reduce(keys, "add")
    starts = qd.algorithms.scan(counts, inclusive=False)
    return int(starts[9]), float(total)


view = np.from_dlpack(qd.ndarray(qd.f32, (3, 4)))
joined = qd.from_dlpack(view)
shape: tuple[int, ...] = joined.shape
info: int = qd.cache_info().entries
builder = qd.linalg.SparseMatrixBuilder(4, 4, max_num_triplets=16)

"""Loops over a fully active sparse grid in blocks, beside the same loops over a dense field, by turns in one process.

    python bench/sparse_loops.py [--module quadrants] [--arch cpu] [--size 128] [--blocks 8 4 5 6] [--out out.json]

Figures are millions of cells per second, best of 40, and the ratio of sparse to dense. Runs on any implementation of the API.
"""

from __future__ import annotations

import argparse
import importlib
import json
import time
from pathlib import Path
from typing import Any


def make_kernels(qd: Any, size: int, block: int | None) -> list[Any]:
    """Returns the kernels over two new fields, whose cells are all active: in blocks, or dense."""
    x, y = qd.field(qd.f32), qd.field(qd.f32)
    if block:
        qd.root.pointer(qd.ijk, size // block).dense(qd.ijk, block).place(x, y)
    else:
        qd.root.dense(qd.ijk, size).place(x)
        qd.root.dense(qd.ijk, size).place(y)

    @qd.kernel
    def fill():
        for i, j, k in qd.ndrange(size, size, size):
            x[i, j, k] = 1.0
            y[i, j, k] = 2.0

    @qd.kernel
    def scale():
        for i, j, k in x:
            y[i, j, k] = x[i, j, k] * 0.5 + 1.0

    @qd.kernel
    def indices():
        for i, j, k in x:
            y[i, j, k] = i + j

    @qd.kernel
    def all_indices():
        for i, j, k in x:
            y[i, j, k] = x[i, j, k] + (i * 2 + j * 3 + k)

    @qd.kernel
    def neighbor():
        for i, j, k in x:
            y[i, j, k] = x[qd.min(i + 1, size - 1), j, k]

    @qd.kernel
    def stencil():
        for I in qd.grouped(x):  # noqa: E741
            if I.min() > 0 and I.max() < size - 1:
                near = x[I] * -6.0
                for axis in qd.static(range(3)):
                    step = qd.Vector([int(axis == other) for other in range(3)])
                    near += x[I + step] + x[I - step]
                y[I] = near

    fill()
    return [scale, indices, all_indices, neighbor, stencil]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--module", default="quadrants")
    parser.add_argument("--arch", default="cpu")
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--blocks", type=int, nargs="+", default=[8, 4, 5, 6])
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    qd = importlib.import_module(options.module)
    qd.init(arch=getattr(qd, options.arch), log_level="error")

    def measure(kernel: Any, cells: int) -> float:
        start = time.perf_counter()
        kernel()
        qd.sync()
        return cells / (time.perf_counter() - start) / 1e6

    figures = {}
    for block in options.blocks:
        size = options.size // block * block
        for pair in zip(*(make_kernels(qd, size, which) for which in (block, None)), strict=True):
            rounds = [[measure(kernel, size**3) for kernel in pair] for _ in range(40)]
            sparse, dense = (max(values) for values in zip(*rounds, strict=True))
            name = f"{pair[0].__name__} {block}"
            figures[name] = {"sparse": sparse, "dense": dense, "ratio": sparse / dense}
            print(f"{name:16} sparse {sparse:8.0f}  dense {dense:8.0f}  ratio {sparse / dense:.2f}")
    if options.out:
        options.out.write_text(json.dumps(figures, indent=1))


main()

"""The works of the comparison: what they read, and how many elements they have.

Each `with_PACKAGE.py` writes all of them in one package: `make(inputs)` returns, for each name in WORKS, a pair of functions. The first
runs the work and returns when it is done, the second returns its result as an array of NumPy.
"""

import mmap

import numpy as np

Inputs = dict[str, np.ndarray]

MANDELBROT_SIDE, MANDELBROT_ROUNDS = 512, 256
KEPLER_TOLERANCE = 1e-5
WALK_END = 1 << 12  # a walk ends at an element below this: one of sixteen

# name: (what it computes, the allowed difference of results). Results of iterations that amplify rounding may differ in a hundredth of the
# elements.
WORKS: dict[str, tuple[str, float]] = {
    "map_f32": ("exp(-x) + log(x), 2^20 elements", 1e-5),
    "map_f64": ("exp(-x) + log(x), 2^20 elements", 1e-12),
    "softplus_f32": ("log(1 + exp(x)) * exp(-x / 2), 2^20 elements", 1e-4),
    "nbody_f32": ("accelerations of 4,096 bodies", 1e-3),
    "nbody_f64": ("accelerations of 2,048 bodies", 1e-9),
    "collatz_u32": ("steps of 2^17 Collatz sequences", 0),
    "collatz_i64": ("steps of 2^17 Collatz sequences", 0),
    "mandelbrot_f32": ("512 x 512 points, 256 rounds at most", 0),
    "mandelbrot_f64": ("512 x 512 points, 256 rounds at most", 0),
    "kepler_f32": ("Newton's method with sin and cos until it converges, 2^18 orbits", 1e-3),
    "search_f32": ("binary search for 2^18 keys among 2^16", 0),
    "walk_i32": ("2^18 walks x = next[x] of different lengths among 2^16 elements", 0),
    "gather_f32": ("2^20 random elements of 2^16", 0),
    "gather_f64": ("2^20 random elements of 2^16", 0),
    "gather_far_f32": ("2^20 random elements of 2^24", 0),
    "interpolate_f32": ("linear interpolation in a table of 2^12, 2^20 elements", 1e-4),
    "stencil_f32": ("sums of the six neighbors of 128^3 cells, three nested loops", 1e-5),
    "filter_f32": ("a filter of 5 x 5 on 1024^2 elements, four nested loops", 1e-4),
    "product_f32": ("the product of matrices of 384^2, loops over i, k, j", 1e-3),
    "softmax_f32": ("softmax of 2,048 rows of 512", 1e-4),
    "row_sums_f64": ("sums of 2,048 rows of 1,024", 1e-9),
    "running_f32": ("running sums of 2,048 rows of 1,024", 1e-4),
    "lengths_f32": ("lengths of 2^18 vectors, an array of shape (n, 3)", 1e-5),
    "bins_f32": ("2^18 numbers added to 2^16 bins", 1e-4),
    "pairs_f32": ("1 / (1 + d^2) of 2,048^2 pairs, added to the second of each", 1e-3),
}
# What arrays of Dr.Jit express in another way than loops over rows.
OF_ROWS = {"stencil_f32", "filter_f32", "product_f32", "softmax_f32", "row_sums_f64", "running_f32", "lengths_f32"}
MISSING = {"drjit": OF_ROWS | {"bins_f32", "pairs_f32"}}


def allocate(values: np.ndarray) -> np.ndarray:
    """Returns a copy in memory that is aligned to pages, and in huge pages if it is large, as that of Quadrants is."""
    memory = mmap.mmap(-1, max(values.nbytes, 1))
    if values.nbytes >= 1 << 22:
        memory.madvise(mmap.MADV_HUGEPAGE)
    copy = np.frombuffer(memory, values.dtype, values.size).reshape(values.shape)
    copy[...] = values
    return copy


def make_inputs() -> Inputs:
    """Returns the same numbers in every process."""
    generator = np.random.default_rng(1)
    side = np.linspace(-1, 1, MANDELBROT_SIDE)
    real, imaginary = np.broadcast_arrays(1.5 * side - 0.5, 1.2 * side[:, None])
    inputs = {
        "x": generator.uniform(0.1, 10.0, 1 << 20),
        "position": generator.random((3, 4096)),
        "start": np.arange(1, (1 << 17) + 1),
        "real": real.ravel(),
        "imaginary": imaginary.ravel(),
        "anomaly": generator.uniform(0.0, 3.0, 1 << 18),
        "eccentricity": generator.uniform(0.0, 0.95, 1 << 18),
        "sorted": np.sort(generator.random(1 << 16)),
        "key": generator.random(1 << 18),
        "next": generator.permutation(1 << 16),
        "first": generator.integers(0, 1 << 16, 1 << 18),
        "index": generator.integers(0, 1 << 16, 1 << 20),
        "table": generator.random(1 << 16),
        "far_index": generator.integers(0, 1 << 24, 1 << 20),
        "far_table": generator.random(1 << 24, np.float32),
        "curve": generator.random((1 << 12) + 1),
        "at": generator.random(1 << 20),
        "cells": generator.random((128, 128, 128)),
        "image": generator.random((1024, 1024)),
        "weights": generator.random((5, 5)),
        "left": generator.random((384, 384)),
        "right": generator.random((384, 384)),
        "rows": generator.random((2048, 1024)),
        "vectors": generator.random((1 << 18, 3)),
    }
    return {name: allocate(values) for name, values in inputs.items()}


def read_bodies(inputs: Inputs, dtype: type) -> list[np.ndarray]:
    """Returns the coordinates of the bodies: half as many of f64."""
    count = inputs["position"].shape[1] // (2 if dtype == np.float64 else 1)
    return [allocate(coordinate[:count].astype(dtype)) for coordinate in inputs["position"]]


def read(inputs: Inputs, name: str, dtype: type) -> np.ndarray:
    """Returns an input as numbers of a type."""
    return allocate(inputs[name].astype(dtype))

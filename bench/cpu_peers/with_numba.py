"""The works in Numba: prange, fastmath."""

import numba as nb
import numpy as np
from works import KEPLER_TOLERANCE, MANDELBROT_ROUNDS, WALK_END, Inputs, allocate, read, read_bodies

compiled = nb.njit(parallel=True, fastmath=True)


def start(threads: int) -> None:
    nb.set_num_threads(threads)


@compiled
def map_numbers(y, x):
    for i in nb.prange(y.size):
        y[i] = np.exp(-x[i]) + np.log(x[i])


@compiled
def softplus(y, x):
    one, half = np.float32(1), np.float32(-0.5)
    for i in nb.prange(y.size):
        y[i] = np.log(one + np.exp(x[i])) * np.exp(half * x[i])


@compiled
def attract(acceleration, x, y, z, one, softening):
    for i in nb.prange(x.size):
        ax = ay = az = one - one
        for j in range(x.size):
            dx = x[j] - x[i]
            dy = y[j] - y[i]
            dz = z[j] - z[i]
            inverse = one / np.sqrt(dx * dx + dy * dy + dz * dz + softening)
            weight = inverse * inverse * inverse
            ax += dx * weight
            ay += dy * weight
            az += dz * weight
        acceleration[0, i], acceleration[1, i], acceleration[2, i] = ax, ay, az


@compiled
def collatz(steps, start):
    for i in nb.prange(steps.size):
        x, n = start[i], 0
        while x > 1:
            x = x // start.dtype.type(2) if x % start.dtype.type(2) == 0 else start.dtype.type(3) * x + start.dtype.type(1)
            n += 1
        steps[i] = n


@compiled
def mandelbrot(rounds, a, b, two):
    for i in nb.prange(rounds.size):
        x, y, n = a[i], b[i], 0
        while x * x + y * y < two + two and n < MANDELBROT_ROUNDS:
            x, y = x * x - y * y + a[i], two * x * y + b[i]
            n += 1
        rounds[i] = n


@compiled
def kepler(result, anomaly, eccentricity):
    one, tolerance = np.float32(1), np.float32(KEPLER_TOLERANCE)
    for i in nb.prange(result.size):
        angle, change, n = anomaly[i], one, 0
        while abs(change) > tolerance and n < 50:
            change = (angle - eccentricity[i] * np.sin(angle) - anomaly[i]) / (one - eccentricity[i] * np.cos(angle))
            angle -= change
            n += 1
        result[i] = angle


@compiled
def search(found, numbers, key):
    for i in nb.prange(found.size):
        low, high = 0, numbers.size
        while low < high:
            middle = (low + high) // 2
            if numbers[middle] < key[i]:
                low = middle + 1
            else:
                high = middle
        found[i] = low


@compiled
def walk(steps, next, first):
    for i in nb.prange(steps.size):
        x, n = first[i], 0
        while x >= WALK_END:
            x = next[x]
            n += 1
        steps[i] = n


@compiled
def gather(y, table, index):
    for i in nb.prange(y.size):
        y[i] = table[index[i]]


@compiled
def interpolate(y, curve, at):
    for i in nb.prange(y.size):
        x = at[i] * np.float32(curve.size - 1)
        k = np.int32(x)
        y[i] = curve[k] + (x - np.float32(k)) * (curve[k + 1] - curve[k])


@compiled
def stencil(y, x):
    for i in nb.prange(1, x.shape[0] - 1):
        for j in range(1, x.shape[1] - 1):
            for k in range(1, x.shape[2] - 1):
                y[i, j, k] = x[i - 1, j, k] + x[i + 1, j, k] + x[i, j - 1, k] + x[i, j + 1, k] + x[i, j, k - 1] + x[i, j, k + 1]


@compiled
def filter_image(y, x, weights):
    for i in nb.prange(x.shape[0] - 4):
        for j in range(x.shape[1] - 4):
            total = np.float32(0)
            for k in range(5):
                for m in range(5):
                    total += x[i + k, j + m] * weights[k, m]
            y[i, j] = total


@compiled
def multiply(c, a, b):
    for i in nb.prange(c.shape[0]):
        for j in range(c.shape[1]):
            c[i, j] = 0
        for k in range(b.shape[0]):
            factor = a[i, k]
            for j in range(c.shape[1]):
                c[i, j] += factor * b[k, j]


@compiled
def softmax(y, x):
    for i in nb.prange(y.shape[0]):
        most = x[i, 0]
        for j in range(y.shape[1]):
            most = max(most, x[i, j])
        total = np.float32(0)
        for j in range(y.shape[1]):
            y[i, j] = np.exp(x[i, j] - most)
            total += y[i, j]
        for j in range(y.shape[1]):
            y[i, j] /= total


@compiled
def sum_rows(y, x):
    for i in nb.prange(x.shape[0]):
        total = 0.0
        for j in range(x.shape[1]):
            total += x[i, j]
        y[i] = total


@compiled
def add_along(y, x):
    for i in nb.prange(x.shape[0]):
        total = np.float32(0)
        for j in range(x.shape[1]):
            total += x[i, j]
            y[i, j] = total


@compiled
def measure(y, x):
    for i in nb.prange(x.shape[0]):
        y[i] = np.sqrt(x[i, 0] * x[i, 0] + x[i, 1] * x[i, 1] + x[i, 2] * x[i, 2])


@nb.njit(fastmath=True)
def add_to_bins(y, x, index):
    y[:] = 0
    for i in range(index.size):
        y[index[i]] += x[i]


@compiled
def add_pairs(y, x):
    for j in nb.prange(y.size):
        total = np.float32(0)
        for i in range(y.size):
            d = x[i] - x[j]
            total += np.float32(1) / (np.float32(1) + d * d)
        y[j] = total


def make(inputs: Inputs) -> dict:
    works = {}

    def add(name: str, function, shape, dtype: type, *arguments) -> None:
        output = allocate(np.zeros(shape, dtype))
        works[name] = (lambda: function(output, *arguments), lambda: output)

    for name, dtype in {"f32": np.float32, "f64": np.float64}.items():
        x, table, bodies = read(inputs, "x", dtype), read(inputs, "table", dtype), read_bodies(inputs, dtype)
        a, b, index = read(inputs, "real", dtype), read(inputs, "imaginary", dtype), read(inputs, "index", np.int32)
        add(f"map_{name}", map_numbers, x.size, dtype, x)
        add(f"nbody_{name}", attract, (3, bodies[0].size), dtype, *bodies, dtype(1), dtype(1e-4))
        add(f"mandelbrot_{name}", mandelbrot, a.size, np.int32, a, b, dtype(2))
        add(f"gather_{name}", gather, index.size, dtype, table, index)
    for name, dtype in {"u32": np.uint32, "i64": np.int64}.items():
        numbers = read(inputs, "start", dtype)
        add(f"collatz_{name}", collatz, numbers.size, np.int32, numbers)
    x, anomaly, key, at = (read(inputs, key, np.float32) for key in ("x", "anomaly", "key", "at"))
    first, far_index = read(inputs, "first", np.int32), read(inputs, "far_index", np.int32)
    add("softplus_f32", softplus, x.size, np.float32, x)
    add("kepler_f32", kepler, anomaly.size, np.float32, anomaly, read(inputs, "eccentricity", np.float32))
    add("search_f32", search, key.size, np.int32, read(inputs, "sorted", np.float32), key)
    add("walk_i32", walk, first.size, np.int32, read(inputs, "next", np.int32), first)
    add("gather_far_f32", gather, far_index.size, np.float32, inputs["far_table"], far_index)
    add("interpolate_f32", interpolate, at.size, np.float32, read(inputs, "curve", np.float32), at)
    cells, image, left = (read(inputs, key, np.float32) for key in ("cells", "image", "left"))
    add("stencil_f32", stencil, cells.shape, np.float32, cells)
    add("filter_f32", filter_image, image.shape, np.float32, image, read(inputs, "weights", np.float32))
    add("product_f32", multiply, left.shape, np.float32, left, read(inputs, "right", np.float32))
    add("softmax_f32", softmax, (2048, 512), np.float32, read(inputs, "rows", np.float32))
    add("row_sums_f64", sum_rows, 2048, np.float64, read(inputs, "rows", np.float64))
    add("running_f32", add_along, (2048, 1024), np.float32, read(inputs, "rows", np.float32))
    add("lengths_f32", measure, 1 << 18, np.float32, read(inputs, "vectors", np.float32))
    add("bins_f32", add_to_bins, 1 << 16, np.float32, x, first)
    add("pairs_f32", add_pairs, 2048, np.float32, x)
    return works

"""The works in Quadrants."""

import numpy as np
from works import KEPLER_TOLERANCE, MANDELBROT_ROUNDS, WALK_END, Inputs, read, read_bodies

import quadrants as qd

TYPES = {np.float32: qd.f32, np.float64: qd.f64, np.int32: qd.i32, np.int64: qd.i64, np.uint32: qd.u32}
array = qd.types.NDArray


def start(threads: int) -> None:
    qd.init(arch=qd.cpu, cpu_max_num_threads=threads, offline_cache=False, log_level="error")


def make_real_kernels(real) -> tuple:
    """Returns the kernels that compute with numbers of this type."""

    @qd.kernel
    def map_numbers(y: array[real, 1], x: array[real, 1]):
        for i in y:
            y[i] = qd.exp(-x[i]) + qd.log(x[i])

    @qd.kernel
    def attract(acceleration: array[real, 2], x: array[real, 1], y: array[real, 1], z: array[real, 1]):
        for i in x:
            sum = qd.Vector.zero(real, 3)
            for j in range(x.shape[0]):
                d = qd.Vector([x[j] - x[i], y[j] - y[i], z[j] - z[i]])
                inverse = 1.0 / qd.sqrt(d.dot(d) + real(1e-4))
                sum += d * (inverse * inverse * inverse)
            for k in qd.static(range(3)):
                acceleration[k, i] = sum[k]

    @qd.kernel
    def mandelbrot(rounds: array[qd.i32, 1], a: array[real, 1], b: array[real, 1]):
        for i in rounds:
            x, y, n = a[i], b[i], 0
            while x * x + y * y < 4.0 and n < MANDELBROT_ROUNDS:
                x, y = x * x - y * y + a[i], 2.0 * x * y + b[i]
                n += 1
            rounds[i] = n

    @qd.kernel
    def gather(y: array[real, 1], table: array[real, 1], index: array[qd.i32, 1]):
        for i in y:
            y[i] = table[index[i]]

    return map_numbers, attract, mandelbrot, gather


def make_collatz(integer):
    @qd.kernel
    def collatz(steps: array[qd.i32, 1], start: array[integer, 1]):
        for i in steps:
            x, n = start[i], 0
            while x > 1:
                x = x // 2 if x % 2 == 0 else 3 * x + 1
                n += 1
            steps[i] = n

    return collatz


def make(inputs: Inputs) -> dict:
    works = {}

    def fill(values: np.ndarray) -> qd.Ndarray:
        container = qd.ndarray(TYPES[values.dtype.type], values.shape)
        container.from_numpy(values)
        return container

    def give(name: str, dtype: type) -> qd.Ndarray:
        return fill(read(inputs, name, dtype))

    def add(name: str, kernel, output: qd.Ndarray, *arguments) -> None:
        works[name] = (lambda: kernel(output, *arguments), output.to_numpy)

    @qd.kernel
    def softplus(y: array[qd.f32, 1], x: array[qd.f32, 1]):
        for i in y:
            y[i] = qd.log(1.0 + qd.exp(x[i])) * qd.exp(-0.5 * x[i])

    @qd.kernel
    def kepler(result: array[qd.f32, 1], anomaly: array[qd.f32, 1], eccentricity: array[qd.f32, 1]):
        for i in result:
            angle, change, n = anomaly[i], 1.0, 0
            while abs(change) > KEPLER_TOLERANCE and n < 50:
                change = (angle - eccentricity[i] * qd.sin(angle) - anomaly[i]) / (1.0 - eccentricity[i] * qd.cos(angle))
                angle -= change
                n += 1
            result[i] = angle

    @qd.kernel
    def search(found: array[qd.i32, 1], numbers: array[qd.f32, 1], key: array[qd.f32, 1]):
        for i in found:
            low, high = 0, numbers.shape[0]
            while low < high:
                middle = (low + high) // 2
                if numbers[middle] < key[i]:
                    low = middle + 1
                else:
                    high = middle
            found[i] = low

    @qd.kernel
    def walk(steps: array[qd.i32, 1], next: array[qd.i32, 1], first: array[qd.i32, 1]):
        for i in steps:
            x, n = first[i], 0
            while x >= WALK_END:
                x = next[x]
                n += 1
            steps[i] = n

    @qd.kernel
    def interpolate(y: array[qd.f32, 1], curve: array[qd.f32, 1], at: array[qd.f32, 1]):
        for i in y:
            x = at[i] * (curve.shape[0] - 1)
            k = qd.cast(x, qd.i32)
            y[i] = curve[k] + (x - k) * (curve[k + 1] - curve[k])

    @qd.kernel
    def stencil(y: array[qd.f32, 3], x: array[qd.f32, 3]):
        for i in range(1, x.shape[0] - 1):
            for j in range(1, x.shape[1] - 1):
                for k in range(1, x.shape[2] - 1):
                    y[i, j, k] = x[i - 1, j, k] + x[i + 1, j, k] + x[i, j - 1, k] + x[i, j + 1, k] + x[i, j, k - 1] + x[i, j, k + 1]

    @qd.kernel
    def filter_image(y: array[qd.f32, 2], x: array[qd.f32, 2], weights: array[qd.f32, 2]):
        for i in range(x.shape[0] - 4):
            for j in range(x.shape[1] - 4):
                total = 0.0
                for k in range(5):
                    for m in range(5):
                        total += x[i + k, j + m] * weights[k, m]
                y[i, j] = total

    @qd.kernel
    def multiply(c: array[qd.f32, 2], a: array[qd.f32, 2], b: array[qd.f32, 2]):
        for i in range(c.shape[0]):
            for j in range(c.shape[1]):
                c[i, j] = 0.0
            for k in range(b.shape[0]):
                for j in range(c.shape[1]):
                    c[i, j] += a[i, k] * b[k, j]

    @qd.kernel
    def softmax(y: array[qd.f32, 2], x: array[qd.f32, 2]):
        for i in range(y.shape[0]):
            most = x[i, 0]
            for j in range(y.shape[1]):
                most = max(most, x[i, j])
            total = 0.0
            for j in range(y.shape[1]):
                y[i, j] = qd.exp(x[i, j] - most)
                total += y[i, j]
            for j in range(y.shape[1]):
                y[i, j] /= total

    @qd.kernel
    def sum_rows(y: array[qd.f64, 1], x: array[qd.f64, 2]):
        for i in range(x.shape[0]):
            total = qd.f64(0)
            for j in range(x.shape[1]):
                total += x[i, j]
            y[i] = total

    @qd.kernel
    def add_along(y: array[qd.f32, 2], x: array[qd.f32, 2]):
        for i in range(x.shape[0]):
            total = 0.0
            for j in range(x.shape[1]):
                total += x[i, j]
                y[i, j] = total

    @qd.kernel
    def measure(y: array[qd.f32, 1], x: array[qd.f32, 2]):
        for i in range(x.shape[0]):
            y[i] = qd.sqrt(x[i, 0] * x[i, 0] + x[i, 1] * x[i, 1] + x[i, 2] * x[i, 2])

    @qd.kernel
    def add_to_bins(y: array[qd.f32, 1], x: array[qd.f32, 1], index: array[qd.i32, 1]):
        for i in y:
            y[i] = 0.0
        for i in index:
            y[index[i]] += x[i]

    @qd.kernel
    def add_pairs(y: array[qd.f32, 1], x: array[qd.f32, 1]):
        for i in y:
            y[i] = 0.0
        for i in range(y.shape[0]):
            for j in range(y.shape[0]):
                d = x[i] - x[j]
                y[j] += 1.0 / (1.0 + d * d)

    for name, dtype in {"f32": np.float32, "f64": np.float64}.items():
        real = TYPES[dtype]
        map_numbers, attract, mandelbrot, gather = make_real_kernels(real)
        x, a, b, index = give("x", dtype), give("real", dtype), give("imaginary", dtype), give("index", np.int32)
        bodies = [fill(coordinate) for coordinate in read_bodies(inputs, dtype)]
        add(f"map_{name}", map_numbers, qd.ndarray(real, x.shape), x)
        add(f"nbody_{name}", attract, qd.ndarray(real, (3, *bodies[0].shape)), *bodies)
        add(f"mandelbrot_{name}", mandelbrot, qd.ndarray(qd.i32, a.shape), a, b)
        add(f"gather_{name}", gather, qd.ndarray(real, index.shape), give("table", dtype), index)
        if name == "f32":
            add("gather_far_f32", gather, qd.ndarray(real, index.shape), give("far_table", dtype), give("far_index", np.int32))
    for name, dtype in {"u32": np.uint32, "i64": np.int64}.items():
        numbers = give("start", dtype)
        add(f"collatz_{name}", make_collatz(TYPES[dtype]), qd.ndarray(qd.i32, numbers.shape), numbers)
    x, at = give("x", np.float32), give("at", np.float32)
    anomaly, key, first = give("anomaly", np.float32), give("key", np.float32), give("first", np.int32)
    add("softplus_f32", softplus, qd.ndarray(qd.f32, x.shape), x)
    add("kepler_f32", kepler, qd.ndarray(qd.f32, anomaly.shape), anomaly, give("eccentricity", np.float32))
    add("search_f32", search, qd.ndarray(qd.i32, key.shape), give("sorted", np.float32), key)
    add("walk_i32", walk, qd.ndarray(qd.i32, first.shape), give("next", np.int32), first)
    add("interpolate_f32", interpolate, qd.ndarray(qd.f32, at.shape), give("curve", np.float32), at)
    cells, image, left = give("cells", np.float32), give("image", np.float32), give("left", np.float32)
    add("stencil_f32", stencil, qd.ndarray(qd.f32, cells.shape), cells)
    add("filter_f32", filter_image, qd.ndarray(qd.f32, image.shape), image, give("weights", np.float32))
    add("product_f32", multiply, qd.ndarray(qd.f32, left.shape), left, give("right", np.float32))
    add("softmax_f32", softmax, qd.ndarray(qd.f32, (2048, 512)), give("rows", np.float32))
    add("row_sums_f64", sum_rows, qd.ndarray(qd.f64, 2048), give("rows", np.float64))
    add("running_f32", add_along, qd.ndarray(qd.f32, (2048, 1024)), give("rows", np.float32))
    add("lengths_f32", measure, qd.ndarray(qd.f32, 1 << 18), give("vectors", np.float32))
    add("bins_f32", add_to_bins, qd.ndarray(qd.f32, 1 << 16), x, first)
    add("pairs_f32", add_pairs, qd.ndarray(qd.f32, 2048), x)
    return works

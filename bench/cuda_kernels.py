"""Kernels of many kinds on one GPU: ours, the same text in CUDA C, and another package, by turns.

    python bench/cuda_kernels.py bench/results/MACHINE_kernels.json [--reference FOLDER] [--only name,name] [--small]

Prints and stores milliseconds per launch (medians of alternated rounds) and the sum of each result, which must agree. CUDA C
(cuda_kernels.cu) is compiled by nvcc with --use_fast_math and loaded by CuPy; without them its figures are left out. FOLDER holds the
package `quadrants` that is the reference; without it there is none. --small checks the program with small sizes, on `arch=qd.cpu`, too.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROUNDS = 7
SMALL = "QD_BENCH_SMALL" in os.environ
CASES = {}  # name -> function that returns (launch, result): the result is an array of NumPy


def case(function):
    CASES[function.__name__] = function
    return function


def size(full, small):
    return small if SMALL else full


# --- Kernels of the language; `qd` is the package of the worker ---


def make_cases(qd, np):
    """Fills CASES with the kernels of this package."""
    array = qd.types.ndarray
    generator = np.random.default_rng(1)

    def make(dtype, shape, values=None):
        made = qd.ndarray(dtype, shape)
        if values is not None:
            made.from_numpy(values)
        return made

    @case
    def unrolled_chain():
        n = size(256, 32)
        x, y = make(qd.f32, (n, n), np.full((n, n), 0.5, np.float32)), make(qd.f32, (n, n))

        @qd.kernel
        def chain(x: array(qd.f32, 2), y: array(qd.f32, 2), a: qd.f32):
            for i, j in y:
                y[i, j] = 0.0
                for _ in qd.static(range(256)):
                    y[i, j] = y[i, j] * a + x[i, j]

        return lambda: chain(x, y, 0.9), y

    @case
    def matrix_product():
        n, tile = size(2048, 64), 16
        values = generator.random((2, n, n), np.float32)
        a, b, c = make(qd.f32, (n, n), values[0]), make(qd.f32, (n, n), values[1]), make(qd.f32, (n, n))

        @qd.kernel
        def multiply(a: array(qd.f32, 2), b: array(qd.f32, 2), c: array(qd.f32, 2)):
            qd.loop_config(block_dim=256)
            for flat in range(n * n):
                row, column, block = flat % 256 // 16, flat % 16, flat // 256
                i, j = block // (n // 16) * 16 + row, block % (n // 16) * 16 + column
                left = qd.simt.block.SharedArray((16, 16), qd.f32)
                right = qd.simt.block.SharedArray((16, 16), qd.f32)
                total = 0.0
                for step in range(n // 16):
                    left[row, column] = a[i, step * 16 + column]
                    right[row, column] = b[step * 16 + row, j]
                    qd.simt.block.sync()
                    for k in range(16):
                        total += left[row, k] * right[k, column]
                    qd.simt.block.sync()
                c[i, j] = total

        return lambda: multiply(a, b, c), c

    @case
    def transposition():
        n = size(16384, 100)
        a, b = qd.field(qd.f32, (n, n)), qd.field(qd.f32, (n, n))

        @qd.kernel
        def fill():
            for i, j in a:
                a[i, j] = qd.f32((i * 7 + j * 3) % 101)

        @qd.kernel
        def transpose():
            for i, j in b:
                b[i, j] = a[j, i]

        fill()
        return transpose, b

    @case
    def stencil_3d_f64():
        n = size(512, 20)
        a, b = qd.field(qd.f64, (n, n, n)), qd.field(qd.f64, (n, n, n))

        @qd.kernel
        def fill():
            for i, j, k in a:
                a[i, j, k] = qd.f64((i * 7 + j * 3 + k * 5) % 101)

        @qd.kernel
        def diffuse(c: qd.f64):
            for i, j, k in qd.ndrange((1, n - 1), (1, n - 1), (1, n - 1)):
                around = a[i - 1, j, k] + a[i + 1, j, k] + a[i, j - 1, k] + a[i, j + 1, k] + a[i, j, k - 1] + a[i, j, k + 1]
                b[i, j, k] = a[i, j, k] + c * (around - 6.0 * a[i, j, k])

        fill()
        return lambda: diffuse(0.1), b

    @case
    def nested_stencil():
        n = size(512, 20)
        a, b = make(qd.f64, (n, n, n)), make(qd.f64, (n, n, n))

        @qd.kernel
        def fill(a: array(qd.f64, 3)):
            for i, j, k in a:
                a[i, j, k] = qd.f64((i * 7 + j * 3 + k * 5) % 101)

        @qd.kernel
        def diffuse(a: array(qd.f64, 3), b: array(qd.f64, 3), c: qd.f64, n: qd.i32):
            for i in range(1, n - 1):
                for j in range(1, n - 1):
                    for k in range(1, n - 1):
                        around = a[i - 1, j, k] + a[i + 1, j, k] + a[i, j - 1, k] + a[i, j + 1, k] + a[i, j, k - 1] + a[i, j, k + 1]
                        b[i, j, k] = a[i, j, k] + c * (around - 6.0 * a[i, j, k])

        fill(a)
        return lambda: diffuse(a, b, 0.1, n), b

    @case
    def softmax_of_rows():
        rows, columns = size(1 << 15, 20), 1024
        a, b = make(qd.f32, (rows, columns), generator.random((rows, columns), np.float32)), make(qd.f32, (rows, columns))

        @qd.kernel
        def normalize(a: array(qd.f32, 2), b: array(qd.f32, 2), rows: qd.i32, columns: qd.i32):
            for i in range(rows):
                largest, total = a[i, 0], 0.0
                for j in range(1, columns):
                    largest = qd.max(largest, a[i, j])
                for j in range(columns):
                    power = qd.exp(a[i, j] - largest)
                    b[i, j] = power
                    total += power
                for j in range(columns):
                    b[i, j] = b[i, j] / total

        return lambda: normalize(a, b, rows, columns), b

    @case
    def divergent_loop():
        n = size(1 << 24, 1 << 10)
        x, y = make(qd.f32, n, generator.random(n, np.float32) * 3 - 2), make(qd.i32, n)

        @qd.kernel
        def escape(x: array(qd.f32, 1), y: array(qd.i32, 1), limit: qd.i32):
            for i in x:
                re, im, count = 0.0, 0.0, 0
                while re * re + im * im < 4.0 and count < limit:
                    re, im = re * re - im * im + x[i], 2.0 * re * im + 0.3
                    count += 1
                y[i] = count

        return lambda: escape(x, y, 200), y

    @case
    def scatter():
        n, cells = size(1 << 26, 1 << 10), size(1 << 20, 1 << 8)
        index, total = make(qd.i32, n, generator.integers(0, cells, n, np.int32)), make(qd.f32, cells)

        @qd.kernel
        def add(index: array(qd.i32, 1), total: array(qd.f32, 1)):
            for i in index:
                total[index[i]] += 1.0

        def launch():
            add(index, total)

        return launch, None

    @case
    def branch():
        n = size(1 << 26, 1 << 10)
        x, y = make(qd.f32, n, generator.random(n, np.float32) - 0.5), make(qd.f32, n)

        @qd.kernel
        def double_positive(x: array(qd.f32, 1), y: array(qd.f32, 1)):
            for i in x:
                if x[i] > 0:
                    y[i] = 2 * x[i]

        return lambda: double_positive(x, y), y

    @case
    def function_of_rows():
        n = size(1 << 13, 1 << 5)
        a, b = make(qd.f32, (n, n), generator.random((n, n), np.float32)), make(qd.f32, (n, n))

        @qd.kernel
        def exponential(a: array(qd.f32, 2), b: array(qd.f32, 2)):
            for i, j in a:
                b[i, j] = qd.exp(-a[i, j])

        return lambda: exponential(a, b), b

    @case
    def gather():
        n = size(1 << 26, 1 << 10)
        index, x = make(qd.i32, n, generator.integers(0, n, n, np.int32)), make(qd.f32, n, generator.random(n, np.float32))
        y = make(qd.f32, n)

        @qd.kernel
        def read(index: array(qd.i32, 1), x: array(qd.f32, 1), y: array(qd.f32, 1)):
            for i in index:
                y[i] = x[index[i]]

        return lambda: read(index, x, y), y

    @case
    def matrices():
        n = size(1 << 22, 1 << 8)
        a, b, c = (qd.Matrix.field(4, 4, qd.f32, n) for _ in range(3))

        @qd.kernel
        def fill():
            for i in a:
                for r, s in qd.static(qd.ndrange(4, 4)):
                    a[i][r, s] = qd.f32((i + r * 5 + s) % 17)
                    b[i][r, s] = qd.f32((i * 3 + r + s * 7) % 13)

        @qd.kernel
        def multiply():
            for i in a:
                c[i] = a[i] @ b[i]

        fill()
        return multiply, c

    @case
    def block_sums():
        n = size(1 << 26, 1 << 10)
        x, y = make(qd.f32, n, generator.random(n, np.float32)), make(qd.f32, n // 256)

        @qd.kernel
        def add_up(x: array(qd.f32, 1), y: array(qd.f32, 1)):
            qd.loop_config(block_dim=256)
            for i in range(n):
                part = qd.simt.block.SharedArray((256,), qd.f32)
                thread = i % 256
                part[thread] = x[i]
                qd.simt.block.sync()
                width = 128
                while width > 0:
                    if thread < width:
                        part[thread] += part[thread + width]
                    qd.simt.block.sync()
                    width //= 2
                if thread == 0:
                    y[i // 256] = part[0]

        return lambda: add_up(x, y), y

    @case
    def cholesky():
        worlds, order = size(4096, 16), 32
        values = generator.random((worlds, order, order), np.float32) * 0.1
        values = values @ values.transpose(0, 2, 1) + 4 * np.eye(order, dtype=np.float32)
        a, factor = make(qd.f32, (worlds, order, order), values), make(qd.f32, (worlds, order, order))

        @qd.kernel
        def factorize(a: array(qd.f32, 3), factor: array(qd.f32, 3), n: qd.i32):
            for w in range(a.shape[0]):
                for i in range(n):
                    for j in range(i + 1):
                        total = a[w, i, j]
                        for k in range(j):
                            total -= factor[w, i, k] * factor[w, j, k]
                        if i == j:
                            factor[w, i, i] = qd.sqrt(total)
                        else:
                            factor[w, i, j] = total / factor[w, j, j]

        return lambda: factorize(a, factor, order), factor

    @case
    def lattice_boltzmann():
        n = size(4096, 32)
        weights = [4 / 9] + [1 / 9] * 4 + [1 / 36] * 4
        steps = [(0, 0), (1, 0), (0, 1), (-1, 0), (0, -1), (1, 1), (-1, 1), (-1, -1), (1, -1)]
        f, g = qd.Vector.field(9, qd.f32, (n, n)), qd.Vector.field(9, qd.f32, (n, n))

        @qd.kernel
        def fill():
            for i, j in f:
                for k in qd.static(range(9)):
                    f[i, j][k] = weights[k] * (1.0 + 0.01 * qd.f32((i * 3 + j * 5 + k) % 7))

        @qd.kernel
        def relax(rate: qd.f32):
            for i, j in qd.ndrange((1, n - 1), (1, n - 1)):
                density, across, along = 0.0, 0.0, 0.0
                for k in qd.static(range(9)):
                    part = f[i - steps[k][0], j - steps[k][1]][k]
                    density += part
                    across += steps[k][0] * part
                    along += steps[k][1] * part
                across /= density
                along /= density
                square = across * across + along * along
                for k in qd.static(range(9)):
                    part = f[i - steps[k][0], j - steps[k][1]][k]
                    product = steps[k][0] * across + steps[k][1] * along
                    rest = weights[k] * density * (1.0 + 3.0 * product + 4.5 * product * product - 1.5 * square)
                    g[i, j][k] = part + rate * (rest - part)

        fill()
        return lambda: relax(0.6), g

    @case
    def serial_loop():
        n, count = 512, size(2000, 200)
        grid, points = qd.field(qd.i32, (n, n)), qd.Vector.field(2, qd.f32, 100_000)

        @qd.kernel
        def sample(wanted: qd.i32):
            for i, j in grid:
                grid[i, j] = -1
            for _ in range(1):
                filled, first, state = 1, 0, qd.u32(12345)
                radius = 1.4142135 / n
                points[0] = qd.Vector([0.5, 0.5])
                grid[n // 2, n // 2] = 0
                while first < filled and first < wanted:
                    center = points[first]
                    first += 1
                    for trial in range(40):
                        state = state * qd.u32(1664525) + qd.u32(1013904223)
                        angle = qd.f32(state >> qd.u32(8)) * (6.2831853 / 16777216.0)
                        state = state * qd.u32(1664525) + qd.u32(1013904223)
                        far = (1.0 + qd.f32(state >> qd.u32(8)) / 16777216.0) * radius
                        at = center + qd.Vector([qd.cos(angle), qd.sin(angle)]) * far
                        x, y = qd.cast(qd.floor(at[0] * n), qd.i32), qd.cast(qd.floor(at[1] * n), qd.i32)
                        if 0 <= x and x < n and 0 <= y and y < n:
                            is_free = True
                            for i in range(qd.max(0, x - 2), qd.min(n, x + 3)):
                                for j in range(qd.max(0, y - 2), qd.min(n, y + 3)):
                                    if grid[i, j] != -1:
                                        if (points[grid[i, j]] - at).norm() < radius - 1e-6:
                                            is_free = False
                            if is_free and filled < wanted:
                                points[filled] = at
                                grid[x, y] = filled
                                filled += 1

        return lambda: sample(count), None


# --- Workers ---


def work(kind):
    """Answers lines with the name of a case: seconds per launch; "sum NAME": the sum of the result."""
    import numpy as np

    if kind == "cuda":
        cases, synchronize = make_cuda_cases(np)
    else:
        import quadrants as qd

        qd.init(arch=qd.cpu if SMALL and "QD_BENCH_CPU" in os.environ else qd.cuda, log_level="error")
        make_cases(qd, np)
        cases, synchronize = CASES, qd.sync
    made = {}
    print("ready", flush=True)
    for line in sys.stdin:
        *wanted, name = line.split()
        try:
            if name not in made:
                made.clear()  # one case's memory at a time
                launch, result = cases[name]()
                for _ in range(3):  # the first ones compile, and make a graph
                    begin = time.perf_counter()
                    launch()
                    synchronize()
                    once = time.perf_counter() - begin
                made[name] = launch, result, max(1, min(200, int(0.02 / max(once, 1e-6))))
            launch, result, repeats = made[name]
            if wanted:
                answer = 0.0 if result is None else float(to_numpy(result, np).astype(np.float64).sum())
            else:
                begin = time.perf_counter()
                for _ in range(repeats):
                    launch()
                synchronize()
                answer = (time.perf_counter() - begin) / repeats
        except Exception as problem:  # the others go on
            print("failed", type(problem).__name__, str(problem).replace("\n", " ")[:200], flush=True)
            continue
        print(answer, flush=True)


def to_numpy(result, np):
    return result.get() if hasattr(result, "get") and not hasattr(result, "to_numpy") else result.to_numpy()


def make_cuda_cases(np):
    """The kernels of cuda_kernels.cu on the same data."""
    import cupy

    module = cupy.RawModule(path=os.environ["QD_BENCH_CUBIN"])
    generator = np.random.default_rng(1)

    def start(name, grid, block, *arguments):
        kernel = module.get_function(name)
        typed = [np.int32(a) if isinstance(a, int) else np.float32(a) if isinstance(a, float) else a for a in arguments]
        return lambda: kernel(grid, block, tuple(typed))

    def flat(count, block=128):
        return ((count + block - 1) // block,), (block,)

    def unrolled_chain():
        n = 256
        x, y = cupy.full((n, n), 0.5, cupy.float32), cupy.zeros((n, n), cupy.float32)
        return start("chain", *flat(n * n), x, y, 0.9, n * n), y

    def matrix_product():
        n = 2048
        values = generator.random((2, n, n), np.float32)
        a, b, c = cupy.asarray(values[0]), cupy.asarray(values[1]), cupy.zeros((n, n), cupy.float32)
        return start("multiply", (n // 16, n // 16), (16, 16), a, b, c, n), c

    def transposition(name="transpose_tiles"):
        n = 16384
        i, j = cupy.arange(n, dtype=cupy.int32)[:, None], cupy.arange(n, dtype=cupy.int32)[None]
        a, b = ((i * 7 + j * 3) % 101).astype(cupy.float32), cupy.empty((n, n), cupy.float32)
        return start(name, (n // 32, n // 32), (32, 8), a, b, n), b

    def stencil_3d_f64():
        n = 512
        i = cupy.arange(n, dtype=cupy.int32)
        a = ((i[:, None, None] * 7 + i[None, :, None] * 3 + i * 5) % 101).astype(cupy.float64)
        b = cupy.zeros_like(a)
        return start("diffuse", ((n + 31) // 32, (n + 3) // 4, n), (32, 4), a, b, np.float64(0.1), n), b

    def nested_stencil():
        return stencil_3d_f64()

    def softmax_of_rows():
        rows, columns = 1 << 15, 1024
        a = cupy.asarray(generator.random((rows, columns), np.float32))
        b = cupy.zeros_like(a)
        return start("normalize", *flat(rows * 32), a, b, rows, columns), b

    def divergent_loop():
        n = 1 << 24
        x, y = cupy.asarray(generator.random(n, np.float32) * 3 - 2), cupy.zeros(n, cupy.int32)
        return start("escape_", *flat(n), x, y, 200, n), y

    def scatter():
        n, cells = 1 << 26, 1 << 20
        index, total = cupy.asarray(generator.integers(0, cells, n, np.int32)), cupy.zeros(cells, cupy.float32)
        return start("scatter_add", *flat(n), index, total, n), None

    def branch():
        n = 1 << 26
        x, y = cupy.asarray(generator.random(n, np.float32) - 0.5), cupy.zeros(n, cupy.float32)
        return start("double_positive", *flat(n, 256), x, y, n), y

    def function_of_rows():
        n = 1 << 13
        a = cupy.asarray(generator.random((n, n), np.float32))
        b = cupy.zeros_like(a)
        return start("exponential", *flat(n * n, 256), a, b, n * n), b

    def gather():
        n = 1 << 26
        index, x = cupy.asarray(generator.integers(0, n, n, np.int32)), cupy.asarray(generator.random(n, np.float32))
        y = cupy.zeros(n, cupy.float32)
        return start("gather_read", *flat(n), index, x, y, n), y

    def matrices():
        n = 1 << 22
        i, r, s = cupy.arange(n)[:, None, None], cupy.arange(4)[:, None], cupy.arange(4)
        a, b = ((i + r * 5 + s) % 17).astype(cupy.float32), ((i * 3 + r + s * 7) % 13).astype(cupy.float32)
        c = cupy.zeros_like(a)
        return start("multiply_small", *flat(n), a, b, c, n), c

    def block_sums():
        n = 1 << 26
        x, y = cupy.asarray(generator.random(n, np.float32)), cupy.zeros(n // 256, cupy.float32)
        return start("block_sums", (n // 256,), (256,), x, y), y

    def cholesky():
        worlds, order = 4096, 32
        values = generator.random((worlds, order, order), np.float32) * 0.1
        values = values @ values.transpose(0, 2, 1) + 4 * np.eye(order, dtype=np.float32)
        a, factor = cupy.asarray(values), cupy.zeros((worlds, order, order), cupy.float32)
        return start("factorize", *flat(worlds), a, factor, order, worlds), factor

    def lattice_boltzmann():
        n = 4096
        weights = cupy.asarray([4 / 9] + [1 / 9] * 4 + [1 / 36] * 4, cupy.float32)
        i, j, k = cupy.arange(n)[:, None, None], cupy.arange(n)[:, None], cupy.arange(9)
        f = (weights * (1.0 + 0.01 * ((i * 3 + j * 5 + k) % 7).astype(cupy.float32))).astype(cupy.float32)
        g = cupy.zeros_like(f)
        return start("relax", ((n + 127) // 128, n), (128,), f, g, 0.6, n), g

    def serial_loop():
        n = 512
        grid, points = cupy.full((n, n), -1, cupy.int32), cupy.zeros((100_000, 2), cupy.float32)
        sample = start("sample", (1,), (1,), grid, points, n, 2000)

        def launch():
            grid.fill(-1)
            sample()

        return launch, None

    cases = {name: function for name, function in locals().items() if name in NAMES}
    return cases, cupy.cuda.Device().synchronize


NAMES = (
    "unrolled_chain",
    "matrix_product",
    "transposition",
    "stencil_3d_f64",
    "nested_stencil",
    "softmax_of_rows",
    "divergent_loop",
    "scatter",
    "branch",
    "function_of_rows",
    "gather",
    "matrices",
    "block_sums",
    "cholesky",
    "lattice_boltzmann",
    "serial_loop",
)


# --- The program ---


class Worker:
    def __init__(self, kind, environment):
        command, pipe = [sys.executable, __file__, "--worker", kind], subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env={**os.environ, **environment})
        while self.process.stdout.readline().strip() != "ready":
            if self.process.poll() is not None:
                raise SystemExit(f"the worker '{kind}' did not start")

    def ask(self, question):
        self.process.stdin.write(question + "\n")
        self.process.stdin.flush()
        while True:
            answer = self.process.stdout.readline()
            if answer.startswith("failed") or not answer:
                print(question, answer.strip(), file=sys.stderr)
                return None
            try:
                return float(answer)
            except ValueError:
                continue  # what a package prints itself


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out", nargs="?")
    parser.add_argument("--reference")
    parser.add_argument("--before", help="folder with another build of this package, measured as `before`")
    parser.add_argument("--only", default=",".join(NAMES))
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--no-cuda", action="store_true")
    parser.add_argument("--worker")
    options = parser.parse_args()
    if options.worker:
        return work(options.worker)
    environment = {"QD_BENCH_SMALL": "1"} if options.small else {}
    workers = {"ours": Worker("ours", environment)}
    for name, folder in (("before", options.before), ("reference", options.reference)):
        if folder:
            workers[name] = Worker(name, {**environment, "PYTHONPATH": folder})
    with tempfile.TemporaryDirectory() as folder:
        if shutil.which("nvcc") and not options.small and not options.no_cuda:
            cubin = os.path.join(folder, "kernels.cubin")
            source = str(HERE / "cuda_kernels.cu")
            subprocess.run(["nvcc", "-arch=native", "-O3", "-use_fast_math", "-cubin", "-o", cubin, source], check=True)
            workers["cuda"] = Worker("cuda", {"QD_BENCH_CUBIN": cubin})
        results = {}
        for name in options.only.split(","):
            sums = {kind: worker.ask("sum " + name) for kind, worker in workers.items()}
            known = [value for value in sums.values() if value is not None]
            if known and max(known) - min(known) > 1e-3 * max(1.0, abs(known[0])):
                print(f"{name}: results differ: {sums}", file=sys.stderr)
            times = {kind: [] for kind, value in sums.items() if value is not None}
            for _ in range(ROUNDS):
                for kind in times:
                    times[kind].append(workers[kind].ask(name))
            results[name] = {kind: round(1e3 * statistics.median(list(filter(None, own)) or [0.0]), 5) for kind, own in times.items()}
            print(name, results[name], flush=True)
    if options.out:
        query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
        gpu = subprocess.run(query, capture_output=True, text=True).stdout.strip()
        Path(options.out).write_text(json.dumps({"machine": gpu, "milliseconds per launch": results}, indent=1) + "\n")
    for worker in workers.values():
        worker.process.stdin.close()


if __name__ == "__main__":
    main()

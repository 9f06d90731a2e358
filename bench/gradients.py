"""Measures the cost of gradients: (forward + gradient) / forward of several kinds of loops, launches, and compilation.

    python bench/gradients.py [--scale 1.0] [--rounds 15] [--arch cpu] [--shared]

Each line has the figure and its limit. A stencil adds to the gradients of neighbors; a matrix product and a potential of pairs add to
gradients that many iterations share. Loops have 32 steps on 2^20 elements times the scale. Forward and gradient alternate, and the best
times count, so that a machine whose speed drifts favors neither. `compile` is the time of the first call of a gradient kernel
relative to its kernel, without the disk cache, for the pointwise kernel and the loop. `--shared` measures the times of kernels and
gradients that add to elements which many iterations share, in microseconds, and nothing else.
"""

from __future__ import annotations

import argparse
import ctypes
import math
import time
from collections.abc import Callable
from typing import Any

import quadrants as qd

STEPS = 32
COMPILATIONS = 3  # per kernel; the fastest counts


def make_kernels(x: Any, loss: Any, steps: Any) -> dict[str, tuple[Callable[..., None], tuple[Any, ...], float]]:
    """Returns kernels, their arguments, and the largest allowed ratio."""

    @qd.kernel
    def pointwise():
        for i in x:
            v = x[i]
            loss[None] += qd.sin(v) * qd.exp(-v * v) + v * v * v

    @qd.kernel
    def constant():
        for i in x:
            v = x[i]
            for _ in range(STEPS):
                v = v * 0.99 + qd.sin(v) * 0.01
            loss[None] += v

    @qd.kernel
    def argument(count: int):
        for i in x:
            v = x[i]
            for _ in range(count):
                v = v * 0.99 + qd.sin(v) * 0.01
            loss[None] += v

    @qd.kernel
    def from_field():
        for i in x:
            v = x[i]
            for _ in range(steps[None]):
                v = v * 0.99 + qd.sin(v) * 0.01
            loss[None] += v

    @qd.kernel
    def while_loop():
        for i in x:
            v = x[i]
            k = 0
            while k < steps[None]:
                v = v * 0.99 + qd.sin(v) * 0.01
                k += 1
            loss[None] += v

    side = math.isqrt(x.shape[0])
    cells = qd.field(qd.f32, shape=(side, side), needs_grad=True)

    @qd.kernel
    def stencil():
        for i in range(1, side - 1):
            for j in range(1, side - 1):
                r = cells[i + 1, j] + cells[i - 1, j] + cells[i, j + 1] + cells[i, j - 1] - 4.0 * cells[i, j]
                loss[None] += r * r

    order = max(round((x.shape[0] * 32) ** (1 / 3)), 8)
    a, b = (qd.field(qd.f32, shape=(order, order), needs_grad=True) for _ in range(2))

    @qd.kernel
    def matrix_product():
        for i in range(order):
            for j in range(order):
                s = 0.0
                for k in range(order):
                    s += a[i, k] * b[k, j]
                loss[None] += s

    count = 2 * side
    points = qd.Vector.field(3, qd.f32, shape=count, needs_grad=True)

    @qd.kernel
    def pairs():
        for i in range(count):
            for j in range(count):
                if i != j:
                    r = points[i] - points[j]
                    loss[None] += 1.0 / qd.sqrt(r.norm_sqr() + 1e-3)

    return {
        "stencil in nested loops": (stencil, (), 10.0),
        "matrix product": (matrix_product, (), 5.0),
        "potential of pairs": (pairs, (), 6.0),
        "pointwise": (pointwise, (), 2.0),
        f"{STEPS} constant steps": (constant, (), 3.5),
        "bound as an argument": (argument, (STEPS,), 3.5),
        "bound in a field": (from_field, (), 4.0),
        "while": (while_loop, (), 5.0),
    }


def measure(function: Callable[[], None], calls: int = 1) -> float:
    """Returns the seconds of one of several consecutive calls."""
    begin = time.perf_counter()
    for _ in range(calls):
        function()
    qd.sync()
    return (time.perf_counter() - begin) / calls


def show(name: str, value: str, wanted: str) -> None:
    """Prints one line."""
    print(f"{name:34} {value:>22}   {wanted}")


def compare_loops(elements: int, rounds: int) -> None:
    """Prints the ratios of a tape, and of the gradient kernel with its forward kernel, to the forward kernel."""
    x = qd.field(qd.f32, shape=elements, needs_grad=True)
    loss, steps = qd.field(qd.f32, shape=(), needs_grad=True), qd.field(qd.i32, shape=())
    steps[None] = STEPS
    fresh = [make_kernels(x, loss, steps) for _ in range(COMPILATIONS)]
    for name, (kernel, arguments, most) in fresh[0].items():

        def forward(kernel: Any = kernel, arguments: Any = arguments) -> None:
            kernel(*arguments)

        def tape(kernel: Any = kernel, arguments: Any = arguments) -> None:
            with qd.ad.Tape(loss):
                kernel(*arguments)

        def gradient(kernel: Any = kernel, arguments: Any = arguments) -> None:
            kernel.grad(*arguments)

        colds = [[measure(lambda run=run: run(*arguments)) for run in (kernels[name][0], kernels[name][0].grad)] for kernels in fresh]
        cold = [min(column) for column in zip(*colds, strict=True)]
        functions = (forward, tape, gradient)
        times = [[measure(function) for function in functions] for _ in range(rounds)]
        best = [min(column) for column in zip(*times, strict=True)]
        show(f"tape, {name}", f"{best[1] / best[0]:.2f}", f"<= {most}")
        show(f"kernel.grad, {name}", f"{1 + best[2] / best[0]:.2f}", "")
        show(f"compile, {name}", f"{cold[1] / cold[0]:.2f} ({cold[0] * 1e3:.0f} ms)", "<= 2.5")


def measure_launches(rounds: int) -> None:
    """Prints microseconds of the smallest tape and gradient kernel."""
    x, loss = qd.field(qd.f32, shape=64, needs_grad=True), qd.field(qd.f32, shape=(), needs_grad=True)

    @qd.kernel
    def tiny():
        for i in x:
            loss[None] += x[i] * x[i]

    def tape() -> None:
        with qd.ad.Tape(loss):
            tiny()

    for name, function, most in (("tiny tape, µs", tape, 10), ("kernel.grad, µs", tiny.grad, 1)):
        measure(function, 200)
        show(name, f"{1e6 * min(measure(function, 500) for _ in range(rounds)):.2f}", f"<= {most}")


def make_shared(n: int) -> dict[str, tuple[Callable[..., None], tuple[Any, ...]]]:
    """Returns kernels that add to shared elements, or whose gradients do, and their arguments."""
    a, b, c, bias = (qd.field(qd.f32, shape, needs_grad=True) for shape in [(n, n)] * 3 + [n])
    points, charges, sums = (
        qd.Vector.field(3, qd.f32, n, needs_grad=True),
        qd.field(qd.f32, n, needs_grad=True),
        qd.field(qd.f32, n, needs_grad=True),
    )
    energy = qd.field(qd.f32, (), needs_grad=True)
    for container in (a, b, bias, points, charges):
        container.fill(0.5)

    @qd.kernel
    def product():
        for i, j, k in qd.ndrange(n, n, n):
            c[i, j] += a[i, k] * b[k, j]

    @qd.kernel
    def product_inside():
        for i, j in c:
            s = 0.0
            for k in range(n):
                s += a[i, k] * b[k, j]
            c[i, j] = s

    @qd.kernel
    def product_of_arrays(x: qd.types.ndarray(), y: qd.types.ndarray(), z: qd.types.ndarray()):
        for i, j in z:
            for k in range(x.shape[1]):
                z[i, j] += x[i, k] * y[k, j]

    @qd.kernel
    def sums_of_pairs():
        for i, j in qd.ndrange(n, n):
            sums[i] += charges[j] * qd.exp(-(points[i] - points[j]).norm_sqr())

    @qd.kernel
    def potential():
        for i, j in qd.ndrange(n, n):
            if i != j:
                energy[None] += 1.0 / qd.sqrt((points[i] - points[j]).norm_sqr() + 1e-3)

    @qd.kernel
    def potential_inside():
        for i in range(n):
            s = 0.0
            for j in range(n):
                s += charges[j] / qd.sqrt((points[i] - points[j]).norm_sqr() + 1e-3)
            sums[i] = s

    @qd.kernel
    def layer():
        for i, j in c:
            s = bias[j]
            for k in range(n):
                s += a[i, k] * b[k, j]
            c[i, j] = qd.tanh(s)

    @qd.kernel
    def layer_of_vector():
        for i in sums:
            s = 0.0
            for k in range(n):
                s += a[i, k] * charges[k]
            sums[i] = qd.tanh(s)

    @qd.kernel
    def columns():
        for i, j in a:
            bias[j] += a[i, j]

    arrays = tuple(qd.ndarray(qd.f32, (n, n), needs_grad=True) for _ in range(3))
    own = {"product of matrices": product, "product, inner loop": product_inside, "layer with tanh, inner loop": layer}
    pairs = {"sums over pairs": sums_of_pairs, "potential of pairs": potential, "potential, inner loop": potential_inside}
    kernels = {**(own if n <= 1024 else {}), **pairs, "sums of columns": columns, "layer of a vector": layer_of_vector}
    return {name: (kernel, ()) for name, kernel in kernels.items()} | (
        {"product of arrays": (product_of_arrays, arrays)} if n <= 1024 else {}
    )


def measure_shared(rounds: int) -> None:
    """Prints the microseconds of kernels with shared updates, and of their gradients."""
    for n in (16, 256, 1024, 4096):
        for name, (kernel, arguments) in make_shared(n).items():
            for suffix, run in (("", kernel), (", gradient", kernel.grad)):

                def call(run: Any = run, arguments: Any = arguments) -> None:
                    run(*arguments)

                call()  # compiles
                calls = max(1, min(100, int(0.02 / measure(call))))
                best = min(measure(call, calls) for _ in range(rounds))
                show(f"{name} {n}{suffix}", f"{1e6 * best:.1f}", "")


def read_free_memory() -> int:
    """Returns the free memory of the first CUDA device in bytes."""
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    qd.sync()
    failed = ctypes.CDLL("libcuda.so.1").cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
    if failed:
        raise RuntimeError(f"cuMemGetInfo failed with {failed}")
    return free.value


def measure_memory(elements: int) -> None:
    """Prints the device memory that tapes around the loops need beyond containers and code: that of the kernels' own threads."""
    x = qd.field(qd.f32, shape=elements, needs_grad=True)
    loss, steps = qd.field(qd.f32, shape=(), needs_grad=True), qd.field(qd.i32, shape=())
    steps[None] = STEPS
    x.grad.fill(0)
    before = read_free_memory()
    for kernel, arguments, _ in make_kernels(x, loss, steps).values():
        for _ in range(2):  # the last call of a second tape may be fused with its gradient
            with qd.ad.Tape(loss):
                kernel(*arguments)
    show(f"memory of tapes on {elements / 1e6:.1f} M, MB", f"{(before - read_free_memory()) / 1e6:.1f}", "<= 2000")


def main() -> None:
    """Prints all figures."""
    parser = argparse.ArgumentParser(description="What gradients cost.")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--arch", default="cpu")
    parser.add_argument("--shared", action="store_true")
    given = parser.parse_args()
    qd.init(arch=getattr(qd, given.arch), offline_cache=False, log_level="error")
    if given.shared:
        return measure_shared(given.rounds)
    measure_launches(given.rounds)
    compare_loops(int(2**20 * given.scale), given.rounds)
    if given.arch == "cuda":
        measure_memory(2**23)


if __name__ == "__main__":
    main()

"""The works in Dr.Jit, on its LLVM backend: symbolic loops, frozen functions."""

import drjit as dr
import numpy as np
from drjit import llvm
from works import KEPLER_TOLERANCE, MANDELBROT_ROUNDS, WALK_END, Inputs, read, read_bodies


def start(threads: int) -> None:
    dr.set_thread_count(threads)


@dr.syntax
def attract(x, y, z, positions, real):
    ax, ay, az = real(0), real(0), real(0)
    j = llvm.UInt32(0)
    while j < dr.width(x):
        dx = dr.gather(real, positions[0], j) - x
        dy = dr.gather(real, positions[1], j) - y
        dz = dr.gather(real, positions[2], j) - z
        inverse = dr.rsqrt(dx * dx + dy * dy + dz * dz + real(1e-4))
        weight = inverse * inverse * inverse
        ax += dx * weight
        ay += dy * weight
        az += dz * weight
        j += 1
    return ax, ay, az


@dr.syntax
def collatz(x):
    n = llvm.Int32(0)
    while x > 1:
        x = dr.select(x & 1 == 0, x >> 1, 3 * x + 1)
        n += 1
    return n


@dr.syntax
def mandelbrot(a, b):
    x, y, n = type(a)(a), type(b)(b), llvm.Int32(0)
    while (x * x + y * y < 4) & (n < MANDELBROT_ROUNDS):
        x, y = x * x - y * y + a, 2 * x * y + b
        n += 1
    return n


@dr.syntax
def kepler(anomaly, eccentricity):
    angle, change, n = llvm.Float32(anomaly), llvm.Float32(1), llvm.Int32(0)
    while (dr.abs(change) > KEPLER_TOLERANCE) & (n < 50):
        sine, cosine = dr.sincos(angle)
        change = (angle - eccentricity * sine - anomaly) / (1 - eccentricity * cosine)
        angle -= change
        n += 1
    return angle


@dr.syntax
def search(numbers, key):
    low, high = llvm.Int32(0), llvm.Int32(dr.width(numbers))
    while low < high:
        middle = (low + high) >> 1
        is_below = dr.gather(llvm.Float32, numbers, middle) < key
        low = dr.select(is_below, middle + 1, low)
        high = dr.select(is_below, high, middle)
    return low


@dr.syntax
def walk(next, first):
    x, n = llvm.Int32(first), llvm.Int32(0)
    while x >= WALK_END:
        x = dr.gather(llvm.Int32, next, x)
        n += 1
    return n


def interpolate(curve, at):
    x = at * (dr.width(curve) - 1)
    k = llvm.Int32(x)
    low, high = dr.gather(llvm.Float32, curve, k), dr.gather(llvm.Float32, curve, k + 1)
    return low + (x - llvm.Float32(k)) * (high - low)


def make(inputs: Inputs) -> dict:
    works = {}
    types = {np.float32: llvm.Float32, np.float64: llvm.Float64, np.int32: llvm.Int32, np.int64: llvm.Int64, np.uint32: llvm.UInt32}

    def give(name: str, dtype: type):
        return types[dtype](read(inputs, name, dtype))

    def add(name: str, function, *arguments) -> None:
        frozen, last = dr.freeze(function), []

        def run() -> None:
            last[:] = [frozen(*arguments)]
            dr.eval(last)
            dr.sync_thread()

        def get() -> np.ndarray:
            return np.stack([component.numpy() for component in last[0]]) if isinstance(last[0], tuple) else last[0].numpy()

        works[name] = (run, get)

    for name, dtype in {"f32": np.float32, "f64": np.float64}.items():
        real, index = types[dtype], give("index", np.int32)
        x, y, z = (real(coordinate) for coordinate in read_bodies(inputs, dtype))
        add(f"map_{name}", lambda x: dr.exp(-x) + dr.log(x), give("x", dtype))
        add(f"nbody_{name}", lambda x, y, z, real=real: attract(x, y, z, (x, y, z), real), x, y, z)
        add(f"mandelbrot_{name}", mandelbrot, give("real", dtype), give("imaginary", dtype))
        add(f"gather_{name}", lambda table, index, real=real: dr.gather(real, table, index), give("table", dtype), index)
    for name, dtype in {"u32": np.uint32, "i64": np.int64}.items():
        add(f"collatz_{name}", collatz, give("start", dtype))
    add("softplus_f32", lambda x: dr.log(1 + dr.exp(x)) * dr.exp(-0.5 * x), give("x", np.float32))
    add("kepler_f32", kepler, give("anomaly", np.float32), give("eccentricity", np.float32))
    add("search_f32", search, give("sorted", np.float32), give("key", np.float32))
    add("walk_i32", walk, give("next", np.int32), give("first", np.int32))
    far_table, far_index = give("far_table", np.float32), give("far_index", np.int32)
    add("gather_far_f32", lambda table, index: dr.gather(llvm.Float32, table, index), far_table, far_index)
    add("interpolate_f32", interpolate, give("curve", np.float32), give("at", np.float32))
    return works

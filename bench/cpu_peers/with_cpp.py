"""The works in C++ with OpenMP (with_cpp.cpp), compiled by clang or, with CXX, by another compiler."""

import ctypes
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np
from works import KEPLER_TOLERANCE, MANDELBROT_ROUNDS, WALK_END, Inputs, allocate, read, read_bodies


def start(threads: int) -> None:
    os.environ["OMP_NUM_THREADS"] = str(threads)


def build() -> ctypes.CDLL:
    """Compiles the library with the first compiler that has OpenMP."""
    source = Path(__file__).with_name("with_cpp.cpp")
    constants = {"MANDELBROT_ROUNDS": MANDELBROT_ROUNDS, "KEPLER_TOLERANCE": KEPLER_TOLERANCE, "WALK_END": WALK_END}
    flags = ["-O3", "-march=native", "-ffast-math", "-fopenmp", "-std=c++20", "-shared", "-fPIC"]
    flags += [f"-D{name}={value}" for name, value in constants.items()]
    with tempfile.TemporaryDirectory() as folder:
        for compiler in filter(shutil.which, [os.environ.get("CXX", ""), "g++", "clang++-22", "clang++"]):
            library = os.path.join(folder, "works.so")
            if subprocess.run([compiler, *flags, str(source), "-o", library], capture_output=True).returncode == 0:
                return ctypes.CDLL(library)
    raise ImportError("no compiler with OpenMP")


def make(inputs: Inputs) -> dict:
    library, works = build(), {}

    def add(name: str, shape, dtype: type, *arguments) -> None:
        output, function = allocate(np.zeros(shape, dtype)), library[name]
        given = [argument.ctypes.data_as(ctypes.c_void_p) if isinstance(argument, np.ndarray) else argument for argument in arguments]
        count, data = ctypes.c_int64(output.shape[-1]), output.ctypes.data_as(ctypes.c_void_p)
        keep = arguments
        works[name] = (lambda: function(count, data, *given), lambda keep=keep: output)

    for name, dtype in {"f32": np.float32, "f64": np.float64}.items():
        x, table, bodies = read(inputs, "x", dtype), read(inputs, "table", dtype), read_bodies(inputs, dtype)
        a, b, index = read(inputs, "real", dtype), read(inputs, "imaginary", dtype), read(inputs, "index", np.int32)
        add(f"map_{name}", x.size, dtype, x)
        add(f"nbody_{name}", (3, bodies[0].size), dtype, *bodies)
        add(f"mandelbrot_{name}", a.size, np.int32, a, b)
        add(f"gather_{name}", index.size, dtype, table, index)
    for name, dtype in {"u32": np.uint32, "i64": np.int64}.items():
        numbers = read(inputs, "start", dtype)
        add(f"collatz_{name}", numbers.size, np.int32, numbers)
    x, anomaly, key, at = (read(inputs, key, np.float32) for key in ("x", "anomaly", "key", "at"))
    numbers, curve = read(inputs, "sorted", np.float32), read(inputs, "curve", np.float32)
    first, far_index = read(inputs, "first", np.int32), read(inputs, "far_index", np.int32)
    add("softplus_f32", x.size, np.float32, x)
    add("kepler_f32", anomaly.size, np.float32, anomaly, read(inputs, "eccentricity", np.float32))
    add("search_f32", key.size, np.int32, numbers, key, ctypes.c_int64(numbers.size))
    add("walk_i32", first.size, np.int32, read(inputs, "next", np.int32), first)
    add("gather_far_f32", far_index.size, np.float32, inputs["far_table"], far_index)
    add("interpolate_f32", at.size, np.float32, curve, at, ctypes.c_int64(curve.size))
    cells, image, left = (read(inputs, key, np.float32) for key in ("cells", "image", "left"))
    add("stencil_f32", cells.shape, np.float32, cells)
    add("filter_f32", image.shape, np.float32, image, read(inputs, "weights", np.float32))
    add("product_f32", left.shape, np.float32, left, read(inputs, "right", np.float32))
    add("softmax_f32", (2048, 512), np.float32, read(inputs, "rows", np.float32), ctypes.c_int64(1024))
    add("row_sums_f64", 2048, np.float64, read(inputs, "rows", np.float64), ctypes.c_int64(1024))
    add("running_f32", (2048, 1024), np.float32, read(inputs, "rows", np.float32), ctypes.c_int64(2048))
    add("lengths_f32", 1 << 18, np.float32, read(inputs, "vectors", np.float32))
    add("bins_f32", 1 << 16, np.float32, x, first, ctypes.c_int64(first.size))
    add("pairs_f32", 2048, np.float32, x)
    return works

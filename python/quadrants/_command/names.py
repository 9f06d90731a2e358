"""Names of other packages with what to write instead: for `port`, and for the tables of the guide (docs/guide/from_*.md)."""

from __future__ import annotations

PACKAGES = {"taichi": "ti", "numba": "numba", "warp": "wp"}
"""Packages, and the alias under which `port` lists their names."""

ADVICE: dict[str, dict[str, str]] = {
    "taichi": {
        "ui": "draw in two dimensions with qd.GUI; scenes go to other programs with qd.tools.PLYWriter",
        "Texture": "use a field, and interpolate between its elements",
        "aot": "use kernel.export(path, *types): code, a manifest and a C header",
        "graph": "a kernel with graph=True repeats its loops in one launch", "opengl": "use qd.gpu or qd.cpu", "cc": "use qd.cpu",
        "dx11": "use qd.gpu or qd.cpu", "Tape": "use qd.ad.Tape(loss)",
        "clear_all_gradients": "use qd.ad.Tape, which zeroes gradients, or x.grad.fill(0)",
        "any_arr": "annotate with qd.types.NDArray[dtype, ndim]", "ext_arr": "annotate with qd.types.NDArray[dtype, ndim]",
        "VideoManager": "use qd.tools.VideoWriter(filename, fps)",
        "print_kernel_profile_info": "use qd.profiler.print_kernel_profiler_info()",
        "kernel_profiler_print": "use qd.profiler.print_kernel_profiler_info()",
        "sparse_matrix_builder": "annotate with qd.types.sparse_matrix_builder()", "core": "internal to Taichi",
    },
    "numba": {
        "njit": "@qd.kernel for the function that Python calls, @qd.func for those that it calls; annotate the parameters",
        "jit": "@qd.kernel for the function that Python calls, @qd.func for those that it calls; annotate the parameters",
        "prange": "range: an outermost loop is parallel; qd.loop_config(serialize=True) before it makes it serial",
        "vectorize": "a @qd.kernel with a loop over the array",
        "guvectorize": "a @qd.kernel with a loop over the leading axes; x[i, :] is a view",
        "stencil": "a @qd.kernel that reads neighbors, x[i - 1, j]",
        "cuda.jit": "@qd.kernel after qd.init(arch=qd.cuda); the loop replaces the grid",
        "cuda.grid": "for i in range(n): the loop is distributed over the threads",
        "cuda.to_device": "qd.ndarray and from_numpy, or pass the NumPy array itself", "cuda.device_array": "qd.ndarray(dtype, shape)",
        "cuda.shared.array": "qd.simt.block.SharedArray(shape, dtype)", "cuda.syncthreads": "qd.simt.block.sync()",
        "cuda.atomic.add": "x[i] += value, or qd.atomic_add(x[i], value)", "cuda.synchronize": "qd.sync()",
        "set_num_threads": "qd.init(cpu_max_num_threads=n)",
        "typed.List": "a field or an ndarray, and a counter that qd.atomic_add advances",
        "typed.Dict": "arrays of keys and values, sorted with qd.algorithms.sort", "float32": "qd.f32", "float64": "qd.f64",
        "int32": "qd.i32", "int64": "qd.i64",
    },
    "warp": {
        "init": "qd.init(arch=qd.gpu)", "kernel": "@qd.kernel with a loop inside: it is launched by a plain call", "func": "@qd.func",
        "struct": "@qd.dataclass", "launch": "a plain call: kernel(x, y, n)",
        "tid": "the variable of an outermost loop: for i in range(n), for i, j in qd.ndrange(m, n)",
        "array": "qd.types.NDArray[dtype, ndim] as an annotation; qd.ndarray and from_numpy to make one",
        "array2d": "qd.types.NDArray[dtype, 2]", "zeros": "qd.ndarray(dtype, shape)", "empty": "qd.ndarray(dtype, shape)",
        "from_numpy": "x.from_numpy(array), or pass the NumPy array itself", "from_torch": "pass the torch tensor itself",
        "to_torch": "x.to_torch(copy=False)", "vec2": "qd.math.vec2", "vec3": "qd.math.vec3", "mat33": "qd.math.mat3",
        "quat": "qd.math.vec4 and functions of your own", "Tape": "qd.ad.Tape(loss)",
        "atomic_add": "qd.atomic_add(x[i], value), or x[i] += value", "static": "qd.static",
        "constant": "a Python variable: kernels read it at each launch", "rand_init": "nothing: qd.random() needs no state",
        "randf": "qd.random()", "HashGrid": "cells with a counting sort: qd.algorithms.sort and qd.algorithms.scan",
        "Mesh": "arrays of corners and triangles, and a tree of your own", "ScopedTimer": "qd.profiler",
        "capture_begin": "a kernel with graph=True repeats its loops in one launch", "synchronize": "qd.sync()", "float32": "qd.f32",
        "int32": "qd.i32", "sin": "qd.sin", "dot": "a.dot(b) or qd.math.dot(a, b)", "length": "a.norm() or qd.math.length(a)",
        "normalize": "a.normalized() or qd.math.normalize(a)",
    },
}  # fmt: skip

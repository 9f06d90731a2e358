"""Times of the functions that kernels call, one line each, beside NumPy's and torch's: bench/functions.py [--arch cuda] [--only bits,simt]

A line has microseconds of ours and of both peers for as many elements, and the faster peer's time by ours; each figure is the median of
calls that alternate, wait for the end included. Results are compared, and a line with a wrong one ends with "WRONG". On a CUDA device torch
computes there, and NumPy does not run. With `--worst 1` only lines below that ratio are printed; `--out F` writes all of them.
"""

import argparse
import itertools
import json
import os
import platform
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np

import quadrants as qd

COUNT = 1 << 20
ONE_NUMBER = "acos asin asinh atan atanh ceil cos cosh exp exp2 expm1 floor log log10 log1p log2 sign sin sinh sqrt tan tanh trunc"
# Name: our expression, NumPy's, torch's (None: the text of NumPy's; "": it has none); x, y, z are f32 in (0, 1).
MATH = {
    **{name: (f"qd.math.{name}(x[i])", f"np.{name}(x)", None) for name in ONE_NUMBER.split()},
    "acosh": ("qd.math.acosh(x[i] + 1)", "np.arccosh(x + 1)", "np.acosh(x + 1)"),
    "abs": ("abs(x[i] - 0.5)", "np.abs(x - np.float32(0.5))", "np.abs(x - 0.5)"),
    "atan2": ("qd.atan2(x[i], y[i])", "np.arctan2(x, y)", "np.atan2(x, y)"),
    "cbrt": ("qd.math.cbrt(x[i])", "np.cbrt(x)", "x ** (1 / 3)"),
    "clamp": ("qd.math.clamp(x[i], 0.25, 0.5)", "np.clip(x, np.float32(0.25), np.float32(0.5))", "np.clamp(x, 0.25, 0.5)"),
    "copysign": ("qd.math.copysign(x[i], y[i])", "np.copysign(x, y)", None),
    "degrees": ("qd.math.degrees(x[i])", "np.degrees(x)", "np.rad2deg(x)"),
    "erf": ("qd.math.erf(x[i])", "special.erf(x)", "np.erf(x)"),
    "erfc": ("qd.math.erfc(x[i])", "special.erfc(x)", "np.erfc(x)"),
    "fma": ("qd.math.fma(x[i], y[i], z[i])", "x * y + z", "np.addcmul(z, x, y)"),
    "fract": ("qd.math.fract(x[i])", "x - np.floor(x)", "np.frac(x)"),
    "hypot": ("qd.math.hypot(x[i], y[i])", "np.hypot(x, y)", None),
    "isinf": ("qd.math.isinf(x[i])", "np.isinf(x)", None),
    "isnan": ("qd.math.isnan(x[i])", "np.isnan(x)", None),
    "ldexp": ("qd.math.ldexp(x[i], qd.i32(8 * y[i]))", "np.ldexp(x, (8 * y).astype(np.int32))", "np.ldexp(x, (8 * y).int())"),
    "max, min": ("qd.max(x[i], qd.min(y[i], z[i]))", "np.maximum(x, np.minimum(y, z))", None),
    "mix, lerp": ("qd.math.mix(x[i], y[i], z[i])", "x + z * (y - x)", "np.lerp(x, y, z)"),
    "mod": ("qd.math.mod(x[i], y[i] + 0.01)", "np.mod(x, y + np.float32(0.01))", "np.remainder(x, y + 0.01)"),
    "pow": ("qd.pow(x[i], y[i])", "np.power(x, y)", "np.pow(x, y)"),
    "radians": ("qd.math.radians(x[i])", "np.radians(x)", "np.deg2rad(x)"),
    "raw_div, raw_mod": (
        "qd.raw_mod(x[i], y[i] + 0.5) + qd.raw_div(x[i], y[i] + 0.5)",
        "np.fmod(x, y + np.float32(0.5)) + x / (y + np.float32(0.5))",
        "np.fmod(x, y + 0.5) + x / (y + 0.5)",
    ),
    "round": ("qd.round(x[i])", "np.round(x)", None),
    "rsqrt": ("qd.rsqrt(x[i])", "1 / np.sqrt(x)", "np.rsqrt(x)"),
    "saturate": ("qd.math.saturate(x[i] * 2)", "np.clip(x * 2, 0, 1)", "np.clamp(x * 2, 0, 1)"),
    "select": ("qd.select(x[i] < y[i], x[i], z[i])", "np.where(x < y, x, z)", None),
    "smoothstep": (
        "qd.math.smoothstep(0.25, 0.75, x[i])",
        "(t := np.clip((x - np.float32(0.25)) * 2, 0, 1)) * t * (3 - 2 * t)",
        "(t := np.clamp((x - 0.25) * 2, 0, 1)) * t * (3 - 2 * t)",
    ),
    "step": ("qd.math.step(0.5, x[i]) * 1.0", "np.heaviside(x - np.float32(0.5), np.float32(1))", "(x >= 0.5).float()"),
    "bit_cast": (
        "qd.bit_cast(qd.bit_cast(x[i], qd.i32) + 1, qd.f32)",
        "(x.view(np.int32) + 1).view(np.float32)",
        "(x.view(np.int32) + 1).view(np.float32)",
    ),
    "cast to f16": ("qd.f32(qd.f16(x[i]))", "x.astype(np.float16).astype(np.float32)", "x.half().float()"),
    "cast to bf16": ("qd.f32(qd.bf16(x[i]))", "", "x.bfloat16().float()"),
}  # fmt: skip
# a is u32, for which torch has few functions.
BITS = {
    "popcnt": ("qd.math.popcnt(a[i])", "np.bitwise_count(a)", ""),
    "clz": ("qd.math.clz(a[i])", "31 - np.floor(np.log2(a.astype(np.float64)))", ""),
    "ctz": ("qd.math.ctz(a[i])", "np.bitwise_count((a & (~a + np.uint32(1))) - np.uint32(1))", ""),
    "ffs": ("qd.math.ffs(a[i])", "np.bitwise_count((a & (~a + np.uint32(1))) - np.uint32(1)) + 1", ""),
    "rotl, rotr": ("qd.math.rotl(a[i], 5) ^ qd.math.rotr(a[i], 3)", "(a << 5 | a >> 27) ^ (a >> 3 | a << 29)", ""),
    "bit_reverse": (
        "qd.math.bit_reverse(a[i]) >> 1",
        "np.packbits(np.unpackbits(a.view(np.uint8), bitorder='little').reshape(-1, 32)[:, ::-1], "
        "bitorder='little').view(np.uint32) >> 1",
        "",
    ),
    "bit_shr": ("qd.bit_shr(a[i], 3)", "a >> 3", ""),
}  # fmt: skip
# u and v are vectors of 3, p and q are unit quaternions (SciPy has their real part last), c and d complex numbers.
VECTORS = {
    "dot": ("qd.math.dot(u[i], v[i])", "np.einsum('ij,ij->i', u, v)", "(u * v).sum(1)"),
    "cross": ("qd.math.cross(u[i], v[i])", "np.cross(u, v)", "np.linalg.cross(u, v)"),
    "length": ("qd.math.length(u[i])", "np.linalg.norm(u, axis=1)", "np.linalg.norm(u, dim=1)"),
    "distance": ("qd.math.distance(u[i], v[i])", "np.linalg.norm(u - v, axis=1)", "np.linalg.norm(u - v, dim=1)"),
    "normalize": ("qd.math.normalize(u[i])", "u / np.linalg.norm(u, axis=1, keepdims=True)", "np.nn.functional.normalize(u, dim=1)"),
    "reflect": (
        "qd.math.reflect(u[i], v[i])",
        "u - 2 * np.einsum('ij,ij->i', u, v)[:, None] * v",
        "u - 2 * (u * v).sum(1, keepdim=True) * v",
    ),
    "outer": ("qd.math.outer(u[i], v[i])", "u[:, :, None] * v[:, None, :]", None),
    "quat_rotate": (
        "qd.math.quat_rotate(p[i], u[i])",
        "u + 2 * np.cross(p[:, 1:], np.cross(p[:, 1:], u) + p[:, :1] * u)",
        "u + 2 * np.linalg.cross(p[:, 1:], np.linalg.cross(p[:, 1:], u) + p[:, :1] * u)",
    ),
    "quat_mul": (
        "qd.math.quat_mul(p[i], q[i])",
        "(Rotation.from_quat(p[:, XYZW]) * Rotation.from_quat(q[:, XYZW])).as_quat()[:, WXYZ]",
        "np.cat([p[:, :1] * q[:, :1] - (p[:, 1:] * q[:, 1:]).sum(1, keepdim=True), "
        "p[:, :1] * q[:, 1:] + q[:, :1] * p[:, 1:] + np.linalg.cross(p[:, 1:], q[:, 1:])], 1)",
    ),
    "quat_to_matrix": (
        "qd.math.quat_to_matrix(p[i])",
        "Rotation.from_quat(p[:, XYZW]).as_matrix()",
        "(lambda w, x, y, z: np.stack([1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y), 2 * (x * y + w * z), "
        "1 - 2 * (x * x + z * z), 2 * (y * z - w * x), 2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)], 1)"
        ".reshape(-1, 3, 3))(*p.T)",
    ),
    "quat_from_axis_angle": (
        "qd.math.quat_from_axis_angle(u[i], x[i])",
        "np.concatenate([np.cos(x / 2)[:, None], u * (np.sin(x / 2) / np.linalg.norm(u, axis=1))[:, None]], 1)",
        "np.cat([np.cos(x / 2)[:, None], u * (np.sin(x / 2) / np.linalg.norm(u, dim=1))[:, None]], 1)",
    ),
    "quat_from_matrix, quat_to_matrix": (
        "qd.math.quat_from_matrix(qd.math.quat_to_matrix(p[i]))",
        "Rotation.from_matrix(Rotation.from_quat(p[:, XYZW]).as_matrix()).as_quat(canonical=True)[:, WXYZ]",
        "",
    ),
    "cmul": (
        "qd.math.cmul(c[i], d[i])",
        "(c.view(np.complex64) * d.view(np.complex64)).view(np.float32)",
        "np.view_as_real(np.view_as_complex(c) * np.view_as_complex(d))",
    ),
    "cdiv": (
        "qd.math.cdiv(c[i], d[i])",
        "(c.view(np.complex64) / d.view(np.complex64)).view(np.float32)",
        "np.view_as_real(np.view_as_complex(c) / np.view_as_complex(d))",
    ),
    "cexp": ("qd.math.cexp(c[i])", "np.exp(c.view(np.complex64)).view(np.float32)", "np.view_as_real(np.exp(np.view_as_complex(c)))"),
    "clog": ("qd.math.clog(c[i])", "np.log(c.view(np.complex64)).view(np.float32)", "np.view_as_real(np.log(np.view_as_complex(c)))"),
    "csqrt": ("qd.math.csqrt(c[i])", "np.sqrt(c.view(np.complex64)).view(np.float32)", "np.view_as_real(np.sqrt(np.view_as_complex(c)))"),
}  # fmt: skip
# m are well conditioned matrices of 3 by 3, s symmetric positive definite ones.
MATRICES = {
    "determinant": ("qd.math.determinant(m[i])", "np.linalg.det(m)", None),
    "inverse": ("qd.math.inverse(m[i])", "np.linalg.inv(m)", None),
    "solve": ("qd.solve(m[i], e[i])", "np.linalg.solve(m, e[..., None])[..., 0]", "np.linalg.solve(m, e)"),
    "solve_spd": (
        "qd.solve_spd(s[i], e[i])",
        "np.linalg.solve(s, e[..., None])[..., 0]",
        "np.cholesky_solve(e[..., None], np.linalg.cholesky(s))[..., 0]",
    ),
    "cholesky": ("qd.linalg.cholesky(s[i])", "np.linalg.cholesky(s)", None),
    "lu": ("qd.lu(m[i])[1] @ qd.lu(m[i])[2]", "", "(f := np.linalg.lu(m))[1] @ f[2]"),
    "qr": ("qd.qr(m[i])[0] @ qd.qr(m[i])[1]", "(f := np.linalg.qr(m))[0] @ f[1]", None),
    "svd": ("qd.svd(m[i])[1] @ qd.Vector([1.0, 1.0, 1.0])", "np.linalg.svd(m)[1]", None),
    "sym_eig": ("qd.sym_eig(s[i])[0]", "np.linalg.eigh(s)[0]", None),
    "polar_decompose": (
        "qd.polar_decompose(m[i])[1]",
        "(f := np.linalg.svd(m))[2].transpose(0, 2, 1) @ (f[1][:, :, None] * f[2])",
        "(f := np.linalg.svd(m))[2].transpose(1, 2) @ (f[1][:, :, None] * f[2])",
    ),
    "make_spd": (
        "qd.make_spd(s[i])",
        "((f := np.linalg.eigh(s))[1] * np.maximum(f[0], 0)[:, None]) @ f[1].transpose(0, 2, 1)",
        "((f := np.linalg.eigh(s))[1] * np.clamp(f[0], min=0)[:, None]) @ f[1].transpose(1, 2)",
    ),
    "matrix product": ("m[i] @ s[i]", "m @ s", None),
}  # fmt: skip
# Updates of 4096 places at random, of 64 elements each.
UPDATES = {
    "atomic_add": ("qd.atomic_add(t[k[i]], b[i])", "np.add.at(t, k, b)", "t.index_add_(0, k, b)"),
    "atomic_sub": ("qd.atomic_sub(t[k[i]], b[i])", "np.subtract.at(t, k, b)", "t.index_add_(0, k, b, alpha=-1)"),
    "atomic_min": ("qd.atomic_min(t[k[i]], b[i])", "np.minimum.at(t, k, b)", "t.index_reduce_(0, k, b, 'amin')"),
    "atomic_max": ("qd.atomic_max(t[k[i]], b[i])", "np.maximum.at(t, k, b)", "t.index_reduce_(0, k, b, 'amax')"),
    "atomic_mul": ("qd.atomic_mul(t[k[i]], b[i])", "np.multiply.at(t, k, b)", "t.index_reduce_(0, k, b, 'prod')"),
    "atomic_and": ("qd.atomic_and(t[k[i]], b[i])", "np.bitwise_and.at(t, k, b)", ""),
    "atomic_or": ("qd.atomic_or(t[k[i]], b[i])", "np.bitwise_or.at(t, k, b)", ""),
    "atomic_xor": ("qd.atomic_xor(t[k[i]], b[i])", "np.bitwise_xor.at(t, k, b)", ""),
    "atomic_exchange": ("qd.atomic_exchange(t[k[i]], 7)", "t.__setitem__(k, 7)", None),
    "atomic_cas": ("qd.atomic_cas(t[k[i]], 0, 7)", "t.__setitem__(k, np.where(t[k] == 0, 7, t[k]))", None),
}  # fmt: skip
# Threads of a block; b is i32. `w` are its rows of a subgroup, `g` those of a block.
SIMT = {
    "block.reduce_all_add": ("block.reduce_all_add(b[i], 128, qd.i32)", "np.repeat(g.sum(1), 128)", "g.sum(1).repeat_interleave(128)"),
    "block.reduce_all_min": ("block.reduce_all_min(b[i], 128, qd.i32)", "np.repeat(g.min(1), 128)", "g.amin(1).repeat_interleave(128)"),
    "block.inclusive_add": ("block.inclusive_add(b[i], 128, qd.i32)", "np.cumsum(g, 1, dtype=np.int32)", "np.cumsum(g, 1, dtype=np.int32)"),
    "block.inclusive_max": ("block.inclusive_max(b[i], 128, qd.i32)", "np.maximum.accumulate(g, 1)", "np.cummax(g, 1)[0]"),
    "block.exclusive_add": (
        "block.exclusive_add(b[i], 128, qd.i32)",
        "np.cumsum(g, 1, dtype=np.int32) - g",
        "np.cumsum(g, 1, dtype=np.int32) - g",
    ),
    "block.sync_count_nonzero": (
        "block.sync_count_nonzero(b[i] > 0)",
        "np.repeat((g > 0).sum(1), 128)",
        "(g > 0).sum(1).repeat_interleave(128)",
    ),
    "subgroup.reduce_all_add": ("subgroup.reduce_all_add(b[i])", "np.repeat(w.sum(1), W)", "w.sum(1).repeat_interleave(W)"),
    "subgroup.reduce_all_max": ("subgroup.reduce_all_max(b[i])", "np.repeat(w.max(1), W)", "w.amax(1).repeat_interleave(W)"),
    "subgroup.inclusive_add": ("subgroup.inclusive_add(b[i])", "np.cumsum(w, 1, dtype=np.int32)", "np.cumsum(w, 1, dtype=np.int32)"),
    "subgroup.exclusive_max": ("qd.max(subgroup.exclusive_max(b[i]), b[i])", "np.maximum.accumulate(w, 1)", "np.cummax(w, 1)[0]"),
    "subgroup.shuffle": ("subgroup.shuffle(b[i], 3)", "np.repeat(w[:, 3], W)", "w[:, 3].repeat_interleave(W)"),
    "subgroup.shuffle_xor": ("subgroup.shuffle_xor(b[i], 1)", "w.reshape(-1, 2)[:, ::-1]", "w.reshape(-1, 2).flip(1)"),
    "subgroup.ballot": ("qd.math.popcnt(subgroup.ballot(b[i] > 0))", "np.repeat((w > 0).sum(1), W)", "(w > 0).sum(1).repeat_interleave(W)"),
    "subgroup.all_equal": (
        "subgroup.all_equal(b[i])",
        "np.repeat((w == w[:, :1]).all(1), W)",
        "(w == w[:, :1]).all(1).repeat_interleave(W)",
    ),
    "subgroup.match_any": (
        "qd.math.popcnt(subgroup.match_any(b[i] & 3))",
        "((w & 3)[:, :, None] == (w & 3)[:, None, :]).sum(2)",
        "((w & 3)[:, :, None] == (w & 3)[:, None, :]).sum(2)",
    ),
    "subgroup.bitonic_sort_kv": ("subgroup.bitonic_sort_kv(b[i], i)[0]", "np.sort(w, 1)", "np.sort(w, 1)[0]"),
    "subgroup.segmented_reduce_add": (
        "subgroup.segmented_reduce_add(b[i], subgroup.invocation_id() % 8 == 0)",
        "np.cumsum(b.reshape(-1, 8), 1, dtype=np.int32)",
        "np.cumsum(b.reshape(-1, 8), 1, dtype=np.int32)",
    ),
}  # fmt: skip
# Each block copies its elements to shared memory, and stores them in reverse order.
COPY_KERNEL = """
@qd.kernel
def k(b: qd.types.ndarray(), out: qd.types.ndarray()):
    qd.loop_config(block_dim=128)
    for i in range(b.shape[0]):
        near = block.SharedArray(128, qd.i32)
        COPY
        block.sync()
        out[i] = near[127 - block.thread_idx()]
"""
COPIES = {
    "block.copy_async": "block.copy_async(near[block.thread_idx()], b[i]); block.wait_copies()",
    "block.SharedArray": "near[block.thread_idx()] = b[i]",
}
TILE_KERNEL = """
@qd.kernel
def k(m: qd.types.ndarray(), s: qd.types.ndarray(), out: qd.types.ndarray()):
    qd.loop_config(block_dim=128)
    for i in range(16 * m.shape[0]):
        a = Tile16x16.zeros()
        b = Tile16x16.zeros()
        a[:] = m[i // 16, :, :]
        b[:] = s[i // 16, :, :]
        WORK
        out[i // 16, :, :] = a
"""
TILES = {
    "matmul_": ("a.matmul_(a, b)", "m @ s", None),
    "cholesky_, solve_triangular_": (
        "b.cholesky_(1e-12); b.solve_triangular_(a)",
        "np.linalg.solve(np.linalg.cholesky(s), m.transpose(0, 2, 1)).transpose(0, 2, 1)",
        "np.linalg.solve_triangular(np.linalg.cholesky(s), m.mT, upper=False).mT",
    ),
    "transpose_": ("a.transpose_()", "np.ascontiguousarray(m.transpose(0, 2, 1))", "m.mT.contiguous()"),
    "outer": ("a -= qd.outer(m[i // 16, :, 3], m[i // 16, :, 5])", "m - m[:, :, 3, None] * m[:, None, :, 5]", None),
}  # fmt: skip
ALGORITHMS = {
    "argmax": ("algorithms.argmax(x)", "np.argmax(x)", "np.argmax(x).item()"),
    "argmin": ("algorithms.argmin(x)", "np.argmin(x)", "np.argmin(x).item()"),
    "argmax of 1,000": ("algorithms.argmax(few)", "np.argmax(few)", "np.argmax(few).item()"),
    "reduce of 1,000": ("algorithms.reduce(few)", "np.sum(few)", "np.sum(few).item()"),
    "scan of 1,000": ("algorithms.scan(few)", "np.cumsum(few)", "np.cumsum(few, 0)"),
    "sort of 1,000": ("algorithms.sort(few)", "np.sort(few)", "np.sort(few)"),
    "scan max of f32": ("algorithms.scan(x, 'max')", "np.maximum.accumulate(x)", "np.cummax(x, 0)"),
    "reduce min": ("algorithms.reduce(b, 'min')", "np.min(b)", "np.min(b).item()"),
    "scan max": ("algorithms.scan(b, 'max')", "np.maximum.accumulate(b)", "np.cummax(b, 0)"),
    "scan min, exclusive": ("algorithms.scan(b, 'min', inclusive=False)", "np.minimum.accumulate(b)", "np.cummin(b, 0)"),
    "scan of u8": ("algorithms.scan(h)", "np.cumsum(h, dtype=np.uint8)", "np.cumsum(h, 0, dtype=np.uint8)"),
    "sort of u8": ("algorithms.sort(h)", "np.sort(h)", "np.sort(h)"),
    "histogram": ("algorithms.histogram(x, 64, (0.0, 1.0))", "np.histogram(x, 64, (0.0, 1.0))", "np.histc(x, 64, 0.0, 1.0)"),
    "unique": ("algorithms.unique(k)", "np.unique(k)", None),
    "segmented_reduce": ("algorithms.segmented_reduce(b, o)", "np.add.reduceat(b, np.arange(0, len(b), 64))", "b.reshape(-1, 64).sum(1)"),
    "segmented_reduce max": (
        "algorithms.segmented_reduce(x, o, 'max')",
        "np.maximum.reduceat(x, np.arange(0, len(x), 64))",
        "x.reshape(-1, 64).amax(1)",
    ),
}  # fmt: skip
SHAPES = {"x": (), "y": (), "z": (), "u": (3,), "v": (3,), "p": (4,), "q": (4,), "c": (2,), "d": (2,)}


EXPORTED_KERNEL = """
@qd.kernel
def k(x: qd.types.ndarray(qd.f32, 1), y: qd.types.ndarray(qd.f32, 1)):
    for i in x:
        y[i] = x[i] * NUMBER + qd.sqrt(x[i])
"""
EXPORTED_CPP = """
#include <cmath>
extern "C" void k(const float *__restrict x, float *__restrict y, long n) {
#pragma omp parallel for simd
    for (long i = 0; i < n; ++i) y[i] = x[i] * 1.5f + std::sqrt(x[i]);
}
"""
COMPILER = next(filter(shutil.which, ("clang++-22", "clang++", "g++")), None)


def compile_cpp():
    """Makes a shared library of a loop in C++."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "k.cpp").write_text(EXPORTED_CPP)
        flags = ["-O3", "-march=native", "-fno-math-errno", "-fopenmp-simd", "-shared", "-fPIC"]
        subprocess.run([COMPILER, *flags, "-o", f"{folder}/k.so", f"{folder}/k.cpp"], check=True)


def define(source):
    """The kernel of a source text, which may use the names of this package."""
    head = "import quadrants as qd\nfrom quadrants.simt import Tile8x8, Tile16x16, Tile32x32, block, subgroup\n"
    return qd.kernel_from_source(head + source)


def make_kernel(expression, names, block_dim=0):
    """A kernel that stores the expression for each element of `out`, or only computes it; `names` are its arguments."""
    arguments = ", ".join(f"{name}: qd.types.ndarray()" for name in names)
    lines = [f"@qd.kernel\ndef k({arguments}):", f"    for i in range({names[-1]}.shape[0]):"]
    if block_dim:
        lines.insert(1, f"    qd.loop_config(block_dim={block_dim})")
    return define("\n".join([*lines, "        " + ("out[i] = " if names[-1] == "out" else "") + expression]) + "\n")


def store(array):
    """A container with the values of an array, whose further axes are those of vectors or matrices."""
    scalar = {"f": qd.f32, "i": qd.i32, "u": qd.u32, "b": qd.i32}[array.dtype.kind]
    kinds = [lambda: scalar, lambda: qd.types.vector(array.shape[1], scalar), lambda: qd.types.matrix(*array.shape[1:], scalar)]
    made = qd.ndarray(kinds[array.ndim - 1](), array.shape[0])
    made.from_numpy(array.astype({"f": np.float32, "i": np.int32, "u": np.uint32, "b": np.int32}[array.dtype.kind]))
    return made


def make_arrays():
    """The arrays that the expressions name."""
    rng = np.random.default_rng(1)
    arrays = {name: rng.uniform(0.05, 0.95, (COUNT, *shape)).astype(np.float32) for name, shape in SHAPES.items()}
    for name in "pq":
        arrays[name] /= np.linalg.norm(arrays[name], axis=1, keepdims=True)
    arrays["a"] = rng.integers(1, 1 << 32, COUNT, np.uint32)
    arrays["b"] = rng.integers(-1000, 1000, COUNT, np.int32)
    arrays["k"] = rng.integers(0, 4096, COUNT, np.int32)
    arrays["t"] = np.zeros(4096, np.int32)
    few = COUNT // 16
    arrays["m"] = rng.uniform(-0.5, 0.5, (few, 3, 3)).astype(np.float32) + 2 * np.eye(3, dtype=np.float32)
    arrays["s"] = arrays["m"] @ arrays["m"].transpose(0, 2, 1)
    arrays["e"] = arrays["u"][:few]
    return arrays


def time_by_turns(calls, finish, seconds):
    """The median seconds of each call."""
    times = {name: [] for name in calls}
    end = time.perf_counter() + seconds
    while len(times["ours"]) < 5 or (time.perf_counter() < end and len(times["ours"]) < 200):
        for name, call in calls.items():
            finish()
            begin = time.perf_counter()
            call()
            finish()
            times[name].append(time.perf_counter() - begin)
    return {name: sorted(taken)[len(taken) // 2] for name, taken in times.items()}


def list_names(module, arrays):
    """What the text of a peer may name."""
    from scipy import special
    from scipy.spatial.transform import Rotation

    size = qd.simt.subgroup.group_size()
    order = {"XYZW": [1, 2, 3, 0], "WXYZ": [3, 0, 1, 2]}
    return {**arrays, **order, "np": module, "special": special, "Rotation": Rotation, "W": size, "compile_cpp": compile_cpp}


class Bench:
    def __init__(self, options):
        self.options, self.figures, self.modules = options, {}, {}
        on_cuda = options.arch == "cuda"
        if not on_cuda:
            self.modules["NumPy"] = np, lambda array: array
        try:
            import torch
        except ImportError:
            pass
        else:
            # torch indexes with numbers of 64 bits.
            self.modules["torch"] = torch, lambda array: torch.from_numpy(array.copy()).to("cuda" if on_cuda else "cpu")
            self.wait = torch.cuda.synchronize if on_cuda else lambda: None

    def finish(self):
        qd.sync()
        self.wait()

    def compare(self, name, ours, texts, arrays, result=None):
        """One line: our call beside what the peers evaluate with arrays of these names; `result()` is what ours computed."""
        calls, wrong = {"ours": ours}, ""
        ours()
        for (peer, (module, convert)), text in zip(self.modules.items(), texts[-len(self.modules) :], strict=True):
            if not text:
                continue
            names = list_names(module, {key: convert(array) for key, array in arrays.items()})
            code = compile(text, name, "eval")
            try:
                value = eval(code, names)
            except RuntimeError as error:  # torch's solvers refuse large batches on some devices
                print(f"{name}: {peer} fails: {str(error).splitlines()[0][:100]}")
                continue
            if result is not None:
                wanted = np.asarray(value.cpu() if peer == "torch" else value, np.float64)
                wrong = wrong or ("" if np.allclose(result().ravel(), wanted.ravel(), rtol=2e-2, atol=5e-3) else "WRONG")
            calls[peer] = lambda code=code, names=names: eval(code, names)
        times = time_by_turns(calls, self.finish, self.options.seconds)
        ratio = min((took for peer, took in times.items() if peer != "ours"), default=float("nan")) / times["ours"]
        self.figures[name] = {**{peer: float(f"{took:.4g}") for peer, took in times.items()}, "ratio": float(f"{ratio:.3g}")}
        if wrong or not ratio >= self.options.worst > 0:
            columns = "  ".join(f"{peer} {took * 1e6:10.1f}" for peer, took in times.items())
            print(f"{name:30s} {columns}   {ratio:6.2f} {wrong}", flush=True)

    def compare_elements(self, rows, arrays, block_dim=0):
        """Lines of expressions for each element."""
        for name, (expression, own, other) in rows.items():
            used = [key for key in arrays if f"{key}[i]" in expression]
            texts, inputs = [own, own if other is None else other], [store(arrays[key]) for key in used]
            kernel = make_kernel(expression, [*used, "out"], block_dim)
            names = {key: arrays[key] for key in arrays if any(key in (text or "") for text in texts)}
            count, sample = len(arrays[used[0]]), self.find_sample(texts, names)
            out = store(sample.reshape(count, -1).reshape(count, *(sample.shape[1:] if sample.size > count else ())))
            self.compare(name, lambda k=kernel, i=inputs, o=out: k(*i, o), texts, names, out.to_numpy)

    def find_sample(self, texts, arrays):
        """Zeros of the shape and type of a result."""
        module, convert = (np, lambda array: array) if texts[0] else self.modules["torch"]
        value = eval(texts[0] or texts[1], list_names(module, {key: convert(array) for key, array in arrays.items()}))
        return np.zeros_like(np.asarray(value if texts[0] else value.cpu()))

    def compare_updates(self, arrays):
        """Lines of atomic operations, whose results the tests compare."""
        for name, (expression, own, other) in UPDATES.items():
            used = [key for key in ("t", "k", "b") if f"{key}[" in expression]
            used = [*(key for key in used if key != "k"), "k"]
            kernel, inputs = make_kernel(expression, used), [store(arrays[key]) for key in used]
            self.compare(name, lambda k=kernel, i=inputs: k(*i), [own, own if other is None else other], arrays)

    def compare_copies(self, arrays):
        """Lines of copies to shared memory, beside arrays whose rows are reversed."""
        inputs, out = store(arrays["b"]), qd.ndarray(qd.i32, COUNT)
        for name, work in COPIES.items():
            kernel = define(COPY_KERNEL.replace("COPY", work))
            self.compare(name, lambda k=kernel: k(inputs, out), ["np.ascontiguousarray(g[:, ::-1])", "g.flip(1)"], arrays, out.to_numpy)

    def compare_tiles(self):
        """Lines of register tiles of 16 x 16, beside batches of matrices."""
        rng = np.random.default_rng(2)
        m = rng.uniform(-0.5, 0.5, (4096, 16, 16)).astype(np.float32)
        s = m @ m.transpose(0, 2, 1) + 2 * np.eye(16, dtype=np.float32)
        out = qd.ndarray(qd.f32, m.shape)
        inputs = [qd.ndarray(qd.f32, m.shape) for _ in range(2)]
        for container, array in zip(inputs, (m, s), strict=True):
            container.from_numpy(array)
        for name, (work, own, other) in TILES.items():
            kernel = define(TILE_KERNEL.replace("WORK", work))
            self.compare(f"Tile16x16.{name}", lambda k=kernel: k(*inputs, out), [own, other or own], {"m": m, "s": s}, out.to_numpy)

    def compare_algorithms(self, arrays):
        """Lines of algorithms that the host calls."""
        from quadrants import algorithms

        bytes_of_b = (arrays["b"] & 255).astype(np.uint8)
        given = {key: store(arrays[key]) for key in "xbk"} | {"o": store(np.arange(0, COUNT + 1, 64, dtype=np.int32))}
        given["h"] = qd.ndarray(qd.u8, COUNT)
        given["h"].from_numpy(bytes_of_b)
        given["few"] = store(arrays["x"][:1000])
        arrays = {**{key: arrays[key] for key in "xbk"}, "h": bytes_of_b, "few": arrays["x"][:1000]}
        for name, (ours, own, other) in ALGORITHMS.items():
            code = compile(ours, name, "eval")
            self.compare(name, lambda c=code: eval(c, {"algorithms": algorithms, **given}), [own, other or own], arrays)

    def compare_calls(self):
        """Lines of calls of small kernels: one, by a choice of implementations, and twenty as a graph."""
        few = {"x": np.zeros(64, np.float32)}
        x, peer = store(few["x"]), "[np.add(x, 1, out=x) for _ in range(TIMES)]"

        @qd.kernel
        def add_one(x: qd.types.ndarray()):
            for i in x:
                x[i] += 1

        @qd.perf_dispatch(get_geometry_hash=lambda x: x.shape)
        def choose(x): ...

        choose.register(add_one)

        @choose.register
        @qd.kernel
        def add_one_serially(x: qd.types.ndarray()):
            qd.loop_config(serialize=True)
            for i in range(x.shape[0]):
                x[i] += 1

        for _ in range(20):
            choose(x)
        with qd.graph.capture() as replay:
            for _ in range(20):
                add_one(x)
        self.compare("20 calls", lambda: [add_one(x) for _ in range(20)], [peer.replace("TIMES", "20")] * 2, few)
        self.compare("20 calls by perf_dispatch", lambda: [choose(x) for _ in range(20)], [peer.replace("TIMES", "20")] * 2, few)
        self.compare("graph.capture of 20 calls", replay, [peer.replace("TIMES", "20"), self.capture_torch()], few)

    def compare_export(self):
        """The line of new kernels that become shared libraries, beside the compiler of C++ that makes one of the same loop."""
        numbers = itertools.count(1)

        def export():
            kernel = define(EXPORTED_KERNEL.replace("NUMBER", f"{next(numbers)}.5"))
            with tempfile.TemporaryDirectory() as folder:
                kernel.export(f"{folder}/k")

        if self.options.arch == "cpu" and COMPILER:
            self.compare("kernel.export", export, ["compile_cpp()", ""], {})

    def capture_torch(self):
        """The text of a replay of torch's graph of twenty operations, or of these without CUDA."""
        if "torch" not in self.modules or self.options.arch != "cuda":
            return "[np.add(x, 1, out=x) for _ in range(20)]"
        torch = self.modules["torch"][0]
        graph, x = torch.cuda.CUDAGraph(), torch.zeros(64, device="cuda")
        x.add_(1)
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            for _ in range(20):
                x.add_(1)
        torch.recorded = graph
        return "np.recorded.replay()"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", default="cpu")
    parser.add_argument("--only", default="math,bits,vectors,matrices,updates,simt,copies,tiles,algorithms,calls,export")
    parser.add_argument("--seconds", type=float, default=0.3)
    parser.add_argument("--worst", type=float, default=0.0)
    parser.add_argument("--out")
    options = parser.parse_args()
    qd.init(arch=getattr(qd, options.arch), log_level="error")
    bench, arrays = Bench(options), make_arrays()
    rows = arrays["b"].reshape(-1, qd.simt.subgroup.group_size())
    runs = {
        "math": lambda: bench.compare_elements(MATH, {key: arrays[key] for key in "xyz"}),
        "bits": lambda: bench.compare_elements(BITS, {"a": arrays["a"]}),
        "vectors": lambda: bench.compare_elements(VECTORS, {key: arrays[key] for key in "uvpqcdx"}),
        "matrices": lambda: bench.compare_elements(MATRICES, {key: arrays[key] for key in "mse"}),
        "updates": lambda: bench.compare_updates({key: arrays[key] for key in "tkb"}),
        "simt": lambda: bench.compare_elements(SIMT, {"b": arrays["b"], "w": rows, "g": arrays["b"].reshape(-1, 128)}, block_dim=128),
        "copies": lambda: bench.compare_copies({"b": arrays["b"], "g": arrays["b"].reshape(-1, 128)}),
        "tiles": bench.compare_tiles,
        "algorithms": lambda: bench.compare_algorithms(arrays),
        "calls": bench.compare_calls,
        "export": bench.compare_export,
    }
    for name in options.only.split(","):
        runs[name]()
    if options.out:
        head = {"machine": platform.node(), "cores": os.cpu_count(), "arch": options.arch}
        lines = ",\n".join(f" {json.dumps(key)}: {json.dumps(value)}" for key, value in {**head, **bench.figures}.items())
        Path(options.out).write_text(f"{{\n{lines}\n}}\n")


if __name__ == "__main__":
    main()

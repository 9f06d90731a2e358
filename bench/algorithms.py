"""Times of the algorithms beside NumPy's on the processor, and CUB's on a CUDA device:
bench/algorithms.py [--arch cuda] [--torch] [--out F]

CUB runs through bench/peer_cub.cu, built with nvcc if there is no file `peer_cub` beside it. Ours and NumPy run by turns; the figures are
medians in seconds of whole calls, launch and wait for the end included, and `ratio` is the peer's time by ours. `--torch` adds the times of
PyTorch's cumsum, sum, masked_select and sort, which also returns the positions. The program also runs on the reference, which has the same
functions.
"""

import argparse
import json
import os
import platform
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np

import quadrants as qd

TYPES = {"i32": np.int32, "f32": np.float32, "i64": np.int64}  # of the default run
MORE_TYPES = {"u32": np.uint32, "u64": np.uint64, "f64": np.float64, "i16": np.int16, "u16": np.uint16}
HERE = Path(__file__).resolve().parent
BY_KEY = {
    "by_key": ("reduce_by_key_add", np.add),
    "by_key_min": ("reduce_by_key_min", np.minimum),
    "by_key_max": ("reduce_by_key_max", np.maximum),
}


def make_kernels(dtype, n):
    """Kernels of all algorithms for this type and number of elements; their arguments are ndarrays."""
    from quadrants import algorithms

    array, bits = qd.types.ndarray(ndim=1), 8 * np.dtype({**TYPES, **MORE_TYPES}[dtype]).itemsize
    kind = getattr(qd, dtype)

    @qd.kernel
    def scan(arr: array, out: array, scratch: array, count: qd.i32):
        algorithms.exclusive_scan_add(arr, out, scratch, count, kind, 4)

    @qd.kernel
    def reduce(arr: array, out: array, scratch: array, count: qd.i32):
        algorithms.reduce_add(arr, out, scratch, count, kind, 4)

    @qd.kernel
    def select(arr: array, flags: array, out: array, chosen: array, scratch: array, count: qd.i32):
        algorithms.select(arr, flags, out, chosen, scratch, count, 4)

    def make_by_key(fold):
        @qd.kernel
        def by_key(keys: array, arr: array, keys_out: array, out: array, runs: array, scratch: array, count: qd.i32):
            fold(keys, arr, keys_out, out, runs, scratch, count, kind, 4)

        return by_key

    @qd.kernel
    def sort(keys: array, spare: array, values: array, other: array, scratch: array, count: qd.types.ndarray(ndim=0)):
        algorithms.sort(keys, spare, values, other, scratch, count, kind, False, bits, 4)

    @qd.kernel
    def sort_pairs(keys: array, spare: array, values: array, other: array, scratch: array, count: qd.types.ndarray(ndim=0)):
        algorithms.sort(keys, spare, values, other, scratch, count, kind, True, bits, 4)

    return scan, reduce, select, make_by_key, sort, sort_pairs


def make_cases(dtype, n, wanted):
    """Returns for each algorithm a function that calls ours, and one that calls NumPy's; sorts come with what restores the keys."""
    from quadrants import algorithms

    def copy_of(data, like=None):
        made = qd.ndarray(like or getattr(qd, dtype), n if data is None else data.shape)
        if data is not None:
            made.from_numpy(data)
        return made

    rng, kind = np.random.default_rng(n), {**TYPES, **MORE_TYPES}[dtype]
    if dtype.startswith("f"):
        data = rng.standard_normal(n).astype(kind)
    else:
        data = rng.integers(np.iinfo(kind).min, np.iinfo(kind).max, n, dtype=kind)
    flags = rng.integers(0, 2, n, dtype=np.int32)
    runs = np.repeat(np.arange(n // 4 + 1, dtype=np.int32), rng.integers(1, 8, n // 4 + 1))[:n]
    runs = np.concatenate([runs, np.full(n - len(runs), n, np.int32)])
    scan, reduce, select, make_by_key, sort, sort_pairs = make_kernels(dtype, n)
    wide = getattr(qd, "u64" if dtype.endswith("64") else "u32")
    arr, out, one = copy_of(data), copy_of(None), qd.ndarray(getattr(qd, dtype), 1)
    host, result, keys_result = data.copy(), np.empty_like(data), np.empty_like(data)
    cases = {}
    if {"scan", "reduce"} & wanted:
        slots = qd.ndarray(wide, algorithms.exclusive_scan_scratch_slots(n))
        cases["scan"] = lambda: scan(arr, out, slots, n), lambda: np.cumsum(host, dtype=host.dtype, out=result), None
        cases["reduce"] = lambda: reduce(arr, one, slots, n), lambda: np.sum(host, dtype=host.dtype), None
    if {"select", *BY_KEY} & wanted:
        chosen, marks, keys, keys_out = qd.ndarray(qd.i32, 1), copy_of(flags, qd.i32), copy_of(runs, qd.i32), copy_of(None, qd.i32)
        room = qd.ndarray(qd.u32, algorithms.select_scratch_slots(n))
        is_chosen = flags != 0
        cases["select"] = lambda: select(arr, marks, out, chosen, room, n), lambda: host[is_chosen], None
        starts = np.flatnonzero(np.concatenate([[True], runs[1:] != runs[:-1]]))
        for name, (ours, theirs) in BY_KEY.items():
            by_key = make_by_key(getattr(algorithms, ours))
            cases[name] = (
                lambda by_key=by_key: by_key(keys, arr, keys_out, out, chosen, room, n),
                lambda theirs=theirs: theirs.reduceat(host, starts, dtype=host.dtype),
                None,
            )
    if {"sort", "sort_pairs"} & wanted:
        count = qd.ndarray(qd.i32, ())
        count.from_numpy(np.array(n, np.int32))
        counts = qd.ndarray(qd.u32, algorithms.sort_scratch_slots(n))
        fresh, values, other = copy_of(data), copy_of(None, qd.i32), copy_of(None, qd.i32)

        def restore():
            arr.copy_from(fresh)
            keys_result[:] = host

        cases["sort"] = lambda: sort(arr, out, arr, out, counts, count), lambda: keys_result.sort(), restore
        cases["sort_pairs"] = lambda: sort_pairs(arr, out, values, other, counts, count), lambda: np.argsort(host), restore
    return {name: case for name, case in cases.items() if name in wanted}


def measure(case, peer, restore, seconds):
    """Returns the median times of two functions that run by turns, for about so many seconds."""
    times, peers = [], []
    end = time.perf_counter() + seconds
    case(), qd.sync()
    while len(times) < 5 or (time.perf_counter() < end and len(times) < 300):
        for function, taken in ((case, times), (peer, peers)):
            if function is None:
                continue
            if restore:
                restore()
            qd.sync()
            begin = time.perf_counter()
            function()
            qd.sync()
            taken.append(time.perf_counter() - begin)
    return sorted(times)[len(times) // 2], sorted(peers)[len(peers) // 2] if peers else None


def make_torch_cases(dtype, n):
    """Returns what PyTorch calls on its own arrays of this type and number of elements, for some of the algorithms."""
    import torch

    kind = {"i32": torch.int32, "f32": torch.float32, "i64": torch.int64}[dtype]
    make = torch.randn if kind.is_floating_point else lambda size, **more: torch.randint(-(2**31), 2**31 - 1, (size,), **more)
    arr = make(n, dtype=kind, device="cuda")
    out, mask = torch.empty_like(arr), torch.randint(0, 2, (n,), device="cuda").bool()

    def finish(call):
        return lambda: (call(), torch.cuda.synchronize())

    return {
        "scan": finish(lambda: torch.cumsum(arr, 0, dtype=kind, out=out)),
        "reduce": finish(lambda: torch.sum(arr, dtype=kind)),
        "select": finish(lambda: torch.masked_select(arr, mask)),
        "sort_pairs": finish(lambda: torch.sort(arr, stable=True)),
    }


def run_cub():
    """Returns the times of CUB: for each algorithm, type and size."""
    program = HERE / "peer_cub"
    with tempfile.TemporaryDirectory() as folder:
        if not program.exists():
            program = Path(folder) / "peer_cub"
            subprocess.run(["nvcc", "-arch=native", "-O3", "-std=c++17", "-o", program, HERE / "peer_cub.cu"], check=True)
        lines = subprocess.run([program], check=True, capture_output=True, text=True).stdout.splitlines()
    return {name: float(value) for name, value in (line.split() for line in lines)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--arch", default="cpu")
    parser.add_argument("--out")
    parser.add_argument("--only", default=",".join(["scan", "reduce", "select", *BY_KEY, "sort", "sort_pairs"]))
    parser.add_argument("--sizes", default=None)
    parser.add_argument("--types", default=",".join(TYPES), help=f"also {','.join(MORE_TYPES)}")
    parser.add_argument("--threads", type=int, default=0, help="of the processor; 0: all")
    parser.add_argument("--seconds", type=float, default=0.3)
    parser.add_argument("--no-peer", action="store_true")
    parser.add_argument("--torch", action="store_true")
    options = parser.parse_args()
    on_cpu = options.arch == "cpu"
    sizes = [int(size) for size in (options.sizes or ("12,16,20,24" if on_cpu else "10,16,20,26")).split(",")]
    cub = {} if on_cpu or options.no_peer else run_cub()
    qd.init(arch=getattr(qd, options.arch), log_level="error", cpu_max_num_threads=options.threads)
    figures = {}
    if not on_cpu:  # the first calls would be slower: the device raises its clocks
        measure(make_cases("f32", 1 << 20, {"reduce"})["reduce"][0], None, None, 0.5)
    for dtype in options.types.split(","):
        for size in sizes:
            for name, (case, peer, restore) in make_cases(dtype, 1 << size, set(options.only.split(","))).items():
                key = f"{name}.{dtype}.{size}"
                own, theirs = measure(case, peer if on_cpu and not options.no_peer else None, restore, options.seconds)
                theirs = cub.get(key, theirs)
                figures[key] = {"ours": float(f"{own:.4g}")}
                if theirs:
                    figures[key].update({"peer": float(f"{theirs:.4g}"), "ratio": float(f"{theirs / own:.3g}")})
                print(key, figures[key], flush=True)
            for name, case in make_torch_cases(dtype, 1 << size).items() if options.torch else ():
                figures[f"{name}.{dtype}.{size}"]["torch"] = float(f"{measure(case, None, None, options.seconds)[0]:.4g}")
    if options.out:
        rows = {"machine": platform.node(), "cores": os.cpu_count(), "peer": "NumPy" if on_cpu else "CUB", **figures}
        lines = ",\n".join(f" {json.dumps(key)}: {json.dumps(value)}" for key, value in rows.items())
        Path(options.out).write_text(f"{{\n{lines}\n}}\n")


if __name__ == "__main__":
    main()

"""Quantized fields: reads, writes, updates and loops over packs and arrays. Runs on any implementation of the API.

    python bench/quant.py --module quadrants --arch cpu [--out out.json]
    python bench/quant.py --against /path/to/other/python --module quadrants

Figures are millions of elements per second, medians of 7; `--against` runs both interpreters by turns and prints ratios.
"""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

COUNT = 1 << 22


def measure(step, sync) -> float:
    times = []
    for _ in range(8):
        sync()
        start = time.perf_counter()
        step()
        sync()
        times.append(time.perf_counter() - start)
    return COUNT / statistics.median(times[1:]) / 1e6


def run(module: str, arch: str) -> dict[str, float]:
    qd = importlib.import_module(module)
    qd.init(arch=getattr(qd, arch), log_level="error")
    quant = qd.types.quant

    def pack(bits, *types, **options):
        fields = [qd.field(kind) for kind in types]
        made = qd.BitpackedFields(max_num_bits=bits)
        made.place(*fields, **options)
        qd.root.dense(qd.i, COUNT).place(made)
        return fields

    def array(kind, neighbors, bits):
        made = qd.field(kind)
        qd.root.dense(qd.i, COUNT // neighbors).quant_array(qd.i, neighbors, max_num_bits=bits).place(made)
        return made

    a, b, c = pack(32, quant.int(5), quant.int(11, signed=False), quant.int(16))
    x, y = pack(32, quant.fixed(16, max_value=2.0), quant.fixed(16, max_value=2.0))
    u, v = pack(32, quant.float(exp=5, frac=11), quant.float(exp=5, frac=11))
    r, s, t = pack(32, quant.float(exp=5, frac=9), quant.float(exp=5, frac=9), quant.float(exp=5, frac=9), shared_exponent=True)
    bits, other = array(quant.int(1, signed=False), 32, 32), array(quant.int(1, signed=False), 32, 32)
    bytes_ = array(quant.int(8), 4, 32)
    plain, total = qd.field(qd.f32, COUNT), qd.field(qd.f32, ())

    @qd.kernel
    def write_ints():
        for i in range(COUNT):
            a[i] = i
            b[i] = i
            c[i] = i

    @qd.kernel
    def add_ints():
        for i in range(COUNT):
            a[i] += 1
            b[i] += 1

    @qd.kernel
    def read_ints():
        for i in range(COUNT):
            plain[i] = a[i] + b[i] + c[i]

    @qd.kernel
    def step_fixed():
        for i in x:
            x[i] = x[i] * 0.5 + y[i] * 0.25 + 0.1

    @qd.kernel
    def step_float():
        for i in u:
            u[i] = u[i] * 0.5 + v[i] * 0.25 + 0.1

    @qd.kernel
    def step_shared():
        for i in r:
            r[i] = 0.5 * r[i] + 0.25
            s[i] = 0.5 * s[i] + 0.125
            t[i] = 0.5 * t[i] - 0.5

    @qd.kernel
    def write_bits():
        for i in bits:
            bits[i] = (i >> 3) & 1

    @qd.kernel
    def copy_bits():
        qd.loop_config(bit_vectorize=True)
        for i in bits:
            other[i] = bits[i]

    @qd.kernel
    def read_bits():
        for i in range(COUNT):
            plain[i] = bits[i]

    @qd.kernel
    def write_bytes():
        for i in bytes_:
            bytes_[i] = i

    @qd.kernel
    def add_bytes():
        for i in range(COUNT):
            bytes_[i] += 1

    @qd.kernel
    def scatter_bits():
        for i in range(COUNT):
            bits[(i * 7919) % COUNT] = 1

    kernels = [write_ints, add_ints, read_ints, step_fixed, step_float, step_shared, write_bits, copy_bits, read_bits, write_bytes,
               add_bytes, scatter_bits]  # fmt: skip
    found = {}
    for kernel in kernels:
        try:
            found[kernel.__name__] = round(measure(kernel, qd.sync), 1)
        except Exception as problem:
            found[kernel.__name__] = float("nan")
            print(f"{kernel.__name__}: {type(problem).__name__} {problem}", file=sys.stderr)
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--module", default="quadrants")
    parser.add_argument("--arch", default="cpu")
    parser.add_argument("--out")
    parser.add_argument("--against", metavar="PYTHON", help="the interpreter of another implementation, to compare with")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    if not options.against:
        found = run(options.module, options.arch)
        print(json.dumps(found))
        if options.out:
            Path(options.out).write_text(json.dumps(found, indent=1))
        return
    results: dict[str, list[dict[str, float]]] = {sys.executable: [], options.against: []}
    for _ in range(options.rounds):
        for python, rounds in results.items():
            done = subprocess.run([python, __file__, "--arch", options.arch], capture_output=True, text=True, check=True, timeout=600)
            rounds.append(json.loads(done.stdout.splitlines()[-1]))
    for name in results[sys.executable][0]:
        ours, theirs = (statistics.median(each[name] for each in rounds) for rounds in results.values())
        print(f"{name:14} {ours:10.1f} {theirs:10.1f}  {ours / theirs:6.2f}")


if __name__ == "__main__":
    main()

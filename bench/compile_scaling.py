"""Measures compile time and memory of one kernel as its size doubles, up to 100,000 operations.

    python bench/compile_scaling.py [--largest 100000] [--module quadrants]

Each size compiles in a fresh process with an empty cache. The kernel is straight-line code after static unrolling: a chain of products,
sums, branches and stores, so that every stage processes all of it. Prints seconds, the ratio to the previous size, and peak memory.
"""

import argparse
import importlib
import importlib.util
import json
import os
import resource
import subprocess
import sys
import tempfile
import time

OPERATIONS_EACH = 10  # operations of one unrolled stage

SOURCE = """
import {module} as qd

x = qd.field(qd.f32, shape=64)


@qd.kernel
def chain():
    for i in x:
        a = x[i]
        b = a + 1.0
        for k in qd.static(range({stages})):
            c = a * b + k
            d = c - a * 0.5
            if d > b:
                a = d * 0.25 + b
            else:
                b = c * 0.125 - a
            x[i] = a + b
"""


def compile_here(module: str, stages: int) -> None:
    """Compiles one size in this process and prints its figures."""

    quadrants = importlib.import_module(module)
    quadrants.init(arch=quadrants.cpu, offline_cache=False, unrolling_limit=0, log_level="error")
    with tempfile.NamedTemporaryFile("w", suffix=".py") as file:
        file.write(SOURCE.format(module=module, stages=stages))
        file.flush()
        spec = importlib.util.spec_from_file_location("chain_source", file.name)
        program = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(program)
        before = time.perf_counter()
        program.chain()
        quadrants.sync()
        seconds = time.perf_counter() - before
    print("RESULT " + json.dumps({"seconds": seconds, "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--largest", type=int, default=100_000, help="operations of the largest kernel")
    parser.add_argument("--module", default="quadrants")
    parser.add_argument("--stages", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.stages:
        compile_here(args.module, args.stages)
        return
    sizes = [args.largest >> shift for shift in range(7, -1, -1)]
    print(f"{'operations':>10s} {'seconds':>9s} {'ratio':>6s} {'peak MB':>8s}")
    previous = None
    for size in sizes:
        command = [sys.executable, os.path.abspath(__file__), "--module", args.module, "--stages", str(max(1, size // OPERATIONS_EACH))]
        done = subprocess.run(command, capture_output=True, text=True)
        line = next((text for text in done.stdout.splitlines() if text.startswith("RESULT ")), None)
        if line is None:
            sys.exit(done.stderr[-2000:])
        figures = json.loads(line[7:])
        ratio = f"{figures['seconds'] / previous:6.2f}" if previous else "      "
        print(f"{size:10d} {figures['seconds']:9.3f} {ratio} {figures['peak']:8.0f}", flush=True)
        previous = figures["seconds"]


if __name__ == "__main__":
    main()

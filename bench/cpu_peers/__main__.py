"""Compares kernels on the processor with Numba, JAX, Dr.Jit (its LLVM backend) and C++ with OpenMP.

    python bench/cpu_peers [--threads 2] [--rounds 5] [--only map_f32,walk_i32] [--packages numba,drjit,cpp] [--peers PYTHON]
        [--out bench/results/cpu_peers.json]

PYTHON is an interpreter that has the packages (pip install numba 'jax[cpu]' drjit; by default this one); those that are missing are left
out. Dr.Jit finds LLVM by DRJIT_LIBLLVM_PATH. Each package runs in a process of its own, bound to as many processors as there are threads
(the last ones), and the processes take turns at each work. Prints milliseconds, the median over the rounds of the fastest call, and the
ratio of the fastest peer to ours: above 1, Quadrants is faster. Results that differ from ours are reported, and end the program with
status 1.
"""

import argparse
import importlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import works

PEERS = ["numba", "jax", "drjit", "cpp"]
MEASURED_SECONDS = 0.2
FEWEST_CALLS = 5


def measure(run) -> float:
    """Returns the seconds of the fastest call."""
    run()
    fastest, calls, end = float("inf"), 0, time.perf_counter() + MEASURED_SECONDS
    while calls < FEWEST_CALLS or time.perf_counter() < end:
        begin = time.perf_counter()
        run()
        fastest, calls = min(fastest, time.perf_counter() - begin), calls + 1
    return fastest


def serve(package: str, threads: int) -> None:
    """Runs works of a package as the other process asks: reads a name and a file for the result, or `-`, and prints seconds."""
    answers = os.dup(1)
    os.dup2(2, 1)  # what packages print is no answer
    module = importlib.import_module(f"with_{package}")
    module.start(threads)
    made = module.make(works.make_inputs())
    os.write(answers, b"ready\n")
    for line in sys.stdin:
        name, target = line.split()
        run, get = made[name]
        seconds = measure(run)
        if target != "-":
            np.save(target, get())
        os.write(answers, f"{seconds}\n".encode())


class Package:
    """The process of a package."""

    def __init__(self, name: str, python: str, threads: int):
        self.name = name
        processors = set(sorted(os.sched_getaffinity(0))[-threads:])
        command = [python, str(Path(__file__).parent), "--serve", name, "--threads", str(threads)]
        environment = os.environ | ({"NUMBA_NUM_THREADS": str(threads)} if name == "numba" else {})
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            preexec_fn=lambda: os.sched_setaffinity(0, processors),
        )
        self.is_there = self.process.stdout.readline() == "ready\n"

    def run(self, work: str, target: str = "-") -> float:
        time.sleep(0.05)  # threads of the last package may still wait actively
        print(work, target, file=self.process.stdin, flush=True)
        return float(self.process.stdout.readline())

    def end(self) -> None:
        self.process.stdin.close()
        self.process.wait()


def differ(ours: np.ndarray, other: np.ndarray, work: str) -> bool:
    """Whether more than a hundredth of the results differ."""
    tolerance = works.WORKS[work][1]
    scale = np.abs(ours).max() if work.startswith("nbody") else np.abs(ours)
    return bool(np.mean(np.abs(ours.astype(float) - other) > tolerance * np.maximum(scale, 1e-3)) > 0.01)


def compare(packages: list[Package], work: str, rounds: int, times: dict) -> bool:
    """Measures a work in all packages by turns; returns whether the results agree."""
    agree = True
    with tempfile.TemporaryDirectory() as folder:
        results = {}
        packages = [package for package in packages if work not in works.MISSING.get(package.name, ())]
        for package in packages:
            package.run(work, os.path.join(folder, f"{package.name}.npy"))
            results[package.name] = np.load(os.path.join(folder, f"{package.name}.npy"))
            if differ(results["quadrants"].reshape(-1), results[package.name].reshape(-1), work):
                agree = False
                print(f"{work}: the result of {package.name} differs")
    figures: dict[str, list[float]] = {package.name: [] for package in packages}
    for _ in range(rounds):
        for package in packages:
            figures[package.name].append(package.run(work))
    times[work] = {name: 1000 * statistics.median(seconds) for name, seconds in figures.items()}
    return agree


def print_row(work: str, row: dict[str, float], names: list[str]) -> None:
    peers = {name: time for name, time in row.items() if name != "quadrants"}
    best = min(peers, key=peers.get) if peers else None
    ratio = f"{peers[best] / row['quadrants']:7.2f} {best}" if best else ""
    print(f"{work:16s}" + "".join(f"{row[name]:11.3f}" if name in row else f"{'-':>11s}" for name in names) + ratio, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default=",".join(works.WORKS))
    parser.add_argument("--packages", default=",".join(PEERS))
    parser.add_argument("--peers", default=sys.executable)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        serve(args.serve, args.threads)
        return 0
    pythons = {"quadrants": sys.executable} | {name: args.peers for name in args.packages.split(",") if name}
    packages = [package for name, python in pythons.items() if (package := Package(name, python, args.threads)).is_there]
    names, times = [package.name for package in packages], {}
    print(f"{'ms':16s}" + "".join(f"{name:>11s}" for name in names) + "  ratio to the fastest peer", flush=True)
    agree = True
    for work in args.only.split(","):
        agree &= compare(packages, work, args.rounds, times)
        print_row(work, times[work], names)
    for package in packages:
        package.end()
    if args.out:
        command = "python bench/cpu_peers " + " ".join(sys.argv[1:])
        args.out.write_text(json.dumps({"command": command, "threads": args.threads, "milliseconds": times}, indent=1) + "\n")
    return 0 if agree else 1


if __name__ == "__main__":
    sys.exit(main())

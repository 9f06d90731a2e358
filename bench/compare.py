"""Runs the benchmark suite on Quadrants and on its peers, in turn, and prints the ratios.

    python bench/compare.py [--only start,launch,throughput] [--scale 1.0] [--rounds 3] [--reference PYTHON] [--out result.json]

`--reference` is a Python interpreter with the reference package (and, for that column, Numba) installed; by default the environment
variable QD_REFERENCE_PYTHON. Without it, only Quadrants and hand-written C++ run. Every figure is the median over the rounds; rounds
alternate between the sides, so that a machine whose speed drifts does not favor one.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
SHARED = HERE.parents[1] / "shared" / "bench"
SUITE_FOLDER = SHARED if (SHARED / "suite.py").exists() else HERE

Figures = dict[str, float | str]


def run_suite(python: str, only: str, scale: float, package: str | None) -> Figures:
    """Returns the figures of suite.py under one interpreter; `package` is prepended to its module path."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "result.json"
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        if package:
            environment["PYTHONPATH"] = package
        command = [python, str(SUITE_FOLDER / "suite.py"), "--only", only, "--scale", str(scale), "--out", str(out)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=folder)
        if not out.exists():
            return {"suite.error": (done.stdout + done.stderr)[-1500:]}
        return json.loads(out.read_text())


def read_lines(text: str) -> Figures:
    """Parses `name value` lines into figures."""
    pairs = (line.split() for line in text.splitlines())
    return {pair[0]: float(pair[1]) for pair in pairs if len(pair) == 2 and "." in pair[0]}


def build_peer(folder: Path) -> Path | None:
    """Compiles the hand-written C++ cases; returns None if no compiler with OpenMP is available."""
    for compiler in ("g++", "clang++-22", "clang++"):
        if shutil.which(compiler):
            target = folder / "peer"
            command = [compiler, "-O3", "-march=native", "-ffast-math", "-fopenmp", "-std=c++20", str(HERE / "peer.cpp"), "-o", str(target)]
            if subprocess.run(command, capture_output=True).returncode == 0:
                return target
    return None


def median(rounds: list[Figures], name: str) -> float | None:
    values = [figures[name] for figures in rounds if isinstance(figures.get(name), (int, float))]
    return statistics.median(values) if values else None


def is_better_high(name: str) -> bool:
    return name.split(".")[0] in ("gbps", "gelem", "ginter", "melem", "mparticle")


def print_table(sides: dict[str, list[Figures]]) -> dict[str, dict[str, float]]:
    """Prints a row for each figure; a ratio above 1 means that Quadrants is faster."""
    names = sorted({name for figures in sides["ours"] for name in figures if not name.startswith("wall.")})
    others = [side for side in sides if side != "ours" and sides[side]]
    print(f"{'':34s} {'ours':>12s}" + "".join(f" {side:>12s} {'ratio':>7s}" for side in others))
    table: dict[str, dict[str, float]] = {}
    for name in names:
        ours = median(sides["ours"], name)
        if ours is None:
            print(f"{name:34s} {sides['ours'][0].get(name)}")
            continue
        row, line = {"ours": ours}, f"{name:34s} {ours:12.6g}"
        for side in others:
            other = median(sides[side], name)
            if other is None:
                line += f" {'':>12s} {'':>7s}"
                continue
            ratio = ours / other if is_better_high(name) else other / ours
            row[side], row[f"ratio.{side}"] = other, ratio
            line += f" {other:12.6g} {ratio:7.2f}"
        table[name] = row
        print(line)
    for side in others:
        ratios = [row[f"ratio.{side}"] for name, row in table.items() if is_better_high(name) and f"ratio.{side}" in row]
        if ratios:
            print(f"geometric mean of the throughput ratios against {side}: {statistics.geometric_mean(ratios):.2f}")
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="start,launch,throughput")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--reference", default=os.environ.get("QD_REFERENCE_PYTHON"))
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    sides: dict[str, list[Figures]] = {"ours": [], "reference": [], "numba": [], "c++": []}
    with tempfile.TemporaryDirectory() as folder:
        peer = build_peer(Path(folder)) if "throughput" in args.only else None
        for number in range(args.rounds):
            print(f"round {number + 1} of {args.rounds}", file=sys.stderr, flush=True)
            sides["ours"].append(run_suite(sys.executable, args.only, args.scale, os.environ.get("PYTHONPATH")))
            if args.reference:
                sides["reference"].append(run_suite(args.reference, args.only, args.scale, None))
                if "throughput" in args.only and args.scale == 1.0:
                    numba = subprocess.run([args.reference, str(SUITE_FOLDER / "peer_numba.py")], capture_output=True, text=True)
                    sides["numba"].append(read_lines(numba.stdout))
            if peer:
                sides["c++"].append(read_lines(subprocess.run([peer, str(args.scale)], capture_output=True, text=True).stdout))
    table = print_table(sides)
    if args.out:
        args.out.write_text(json.dumps(table, indent=1) + "\n")


if __name__ == "__main__":
    main()

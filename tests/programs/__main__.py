"""A large simulator on this package and on the reference, side by side:
./dev test --programs [scenes] [--simulator VERSION] [--ours-only] [--states-only] [--arch cuda [--profile]] [--out FILE]

The simulator is a consumer's program, installed as it is from PyPI into build-programs/, which takes minutes; the two packages are put in
front of it in turn. For each scene:

- every state at steps 1, 5, 20 and 100 is compared. The tolerance is what the reference itself makes of a displacement of 1e-6 m;
- gradients are compared with central differences of the same package;
- printed are seconds of start and build, cold and warm, steps per processor second, peak memory and exit status of both; --out FILE keeps
  them, with what the reference takes in relation to ours. Warm builds and steps are timed by turns, in two processes at once of which one
  waits, and the middle one of the ratios counts: other users of a machine slow down either by half.

--arch cuda runs scenes in many worlds on a GPU (`boxes4096`: any number) and prints wall seconds of cold builds, steps per second by turns,
and where single steps were slow; --profile adds the times of all kernels, in further processes. --installed takes packages that somebody
unpacked, on a machine without a network.

The simulator compiles functions of its own at their first use and keeps them beside its sources: a run that nobody measures comes first.
Ends with status 1 where a state or a gradient is off, or a process failed or said something at its exit.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import on_gpu
from processes import (
    DISPLACEMENT,
    SIMULATORS,
    TORCH,
    Environment,
    Result,
    check_exit,
    compare_states,
    find_installed,
    make_call,
    make_environment,
    run,
)  # fmt: skip
from scenes import GRADIENTS, SCENES

WARM_BUILDS = 3
TURNS = 11


def time_steps(environment: Environment, caches: Path, scene: str) -> dict[str, list[float]]:
    """Steps per processor second of each package, measured by turns."""
    with tempfile.TemporaryDirectory() as folder:
        processes = {}
        for name in environment.paths:
            call = make_call(environment, name, caches / name / scene, scene, folder, "--turns")
            processes[name] = subprocess.Popen(**call, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            while processes[name].stdout.readline().strip() not in ("ready", ""):
                pass
        rates: dict[str, list[float]] = {name: [] for name in processes}
        for _ in range(TURNS):
            for name, process in processes.items():
                process.stdin.write("go\n")
                process.stdin.flush()
                rates[name].append(float(process.stdout.readline()))
        for process in processes.values():
            process.communicate()
        return rates


def compare_gradients(scene: str, result: Result) -> list[str]:
    """What is off, a line for each; prints the gradient and the differences."""
    gradient = result.states["gradient"][result.states["at"]]
    differences = result.states["differences"]
    print(f"    gradient {gradient}, central differences {differences}")
    error = float(np.max(np.abs(gradient - differences)) / np.max(np.abs(differences)))
    return [] if error < 2e-2 else [f"{scene}: the gradient is off by {error:.1e} of its size"]


def describe(name: str, cold: Result, figures: dict[str, float]) -> str:
    """A line of figures."""
    rate = f"{figures['steps_per_cpu_second']:9.1f} steps/s" if "steps_per_cpu_second" in figures else f"{figures['gradient_cpu']:9.3f} s"
    return (
        f"  {name:9} start {cold.figures['start_cpu']:5.1f}  build cold {figures['build_cpu']:6.1f}  warm {figures['warm_cpu']:5.1f}  "
        f"{rate}  peak {figures['peak_mb']:5.0f} MB  status {cold.status}"
    )


def relate(figures: dict[str, dict[str, float]], by_turns: dict[str, dict[str, list[float]]]) -> dict[str, float]:
    """How many times better than the reference ours is."""
    ours, reference = figures["ours"], figures["reference"]
    found = {name: reference[name] / ours[name] for name in ours.keys() & reference.keys()}
    for name, lists in by_turns.items():
        ratios = [one / other for one, other in zip(lists["ours"], lists["reference"], strict=True)]
        found[name] = statistics.median(ratios) if name == "steps_per_cpu_second" else 1 / statistics.median(ratios)
    return {name: round(value, 2) for name, value in sorted(found.items())}


def measure(environment: Environment, caches: Path, scene: str, cold: dict[str, Result]) -> dict[str, dict[str, float]]:
    """The figures that are kept: processor seconds, steps per processor second, megabytes, and how they relate; prints them."""
    by_turns: dict[str, dict[str, list[float]]] = {"warm_cpu": {name: [] for name in environment.paths}}
    for _ in range(WARM_BUILDS):
        for name in environment.paths:
            warm = run(environment, name, caches / name / scene, scene, "--build-only")
            by_turns["warm_cpu"][name].append(warm.figures["build_cpu"])
    if scene in SCENES:
        by_turns["steps_per_cpu_second"] = time_steps(environment, caches, scene)
    figures: dict[str, dict[str, float]] = {}
    for name, result in cold.items():
        once = {figure: result.figures[figure] for figure in ("build_cpu", "gradient_cpu", "peak_mb") if figure in result.figures}
        middle = {figure: statistics.median(lists[name]) for figure, lists in by_turns.items()}
        figures[name] = {figure: round(value, 3) for figure, value in (once | middle).items()}
        print(describe(name, result, figures[name]), flush=True)
    if len(figures) == 2:
        figures["times_better"] = relate(figures, by_turns)
        print(f"  {figures['times_better']}", flush=True)
    return figures


def run_scene(
    environment: Environment, caches: Path, scene: str, figures: dict[str, dict[str, float]], states_only: bool = False
) -> list[str]:
    """Runs a scene everywhere; gives what is off, and the figures by package."""
    problems: list[str] = []
    results: dict[str, Result] = {}
    print(scene, flush=True)
    if not states_only:
        run(environment, "ours", caches / "unmeasured" / scene, scene, "--build-only")
    for name in environment.paths:
        result = results[name] = run(environment, name, caches / name / scene, scene)
        problems += check_exit(name, scene, result)
        if result.status == 0 and scene in GRADIENTS:
            off = compare_gradients(scene, result)
            problems += off if name == "ours" else []
    if any(result.status != 0 for result in results.values()):
        return problems
    if not states_only:
        figures |= measure(environment, caches, scene, results)
    if len(results) == 2 and scene in SCENES:
        moved = run(environment, "reference", caches / "reference" / scene, scene, "--displacement", str(DISPLACEMENT))
        problems += compare_states(scene, results["ours"], results["reference"], moved)
    return problems


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="./dev test --programs", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("scenes", nargs="*", metavar="scene", help=", ".join([*SCENES, *GRADIENTS]))
    parser.add_argument("--simulator", choices=SIMULATORS, default=next(iter(SIMULATORS)), help="version of the simulator")
    parser.add_argument("--states-only", action="store_true", help="compare, measure nothing")
    parser.add_argument("--ours-only", action="store_true", help="leave the reference out")
    parser.add_argument("--installed", type=Path, metavar="FOLDER", help="where site/ has the simulator and reference/ the reference")
    parser.add_argument("--arch", choices=["cpu", "cuda"], default="cpu", help="cuda: wall seconds, and how long every step took")
    parser.add_argument("--profile", action="store_true", help="with --arch cuda: the times of all kernels")
    parser.add_argument("--out", type=Path, help="JSON file for the figures")
    chosen = parser.parse_args()
    make = find_installed if chosen.installed else make_environment
    environment = make(chosen.installed or chosen.simulator, chosen.ours_only)
    installed = [f"genesis-world=={chosen.simulator}", TORCH, f"quadrants=={SIMULATORS[chosen.simulator]}"]
    problems: list[str] = []
    kept: dict[str, dict[str, dict[str, Any]]] = {}

    def keep() -> None:
        if chosen.out:
            chosen.out.write_text(json.dumps({"packages": installed, "scenes": kept}, indent=1, sort_keys=True) + "\n")

    with tempfile.TemporaryDirectory() as caches:
        if chosen.arch == "cuda":
            problems += on_gpu.measure(environment, Path(caches), chosen.scenes or on_gpu.SCENES, kept, chosen.profile)
            keep()
        else:
            for scene in chosen.scenes or [*SCENES, *GRADIENTS]:
                problems += run_scene(environment, Path(caches), scene, kept.setdefault(scene, {}), chosen.states_only)
                keep()
    print("\n".join(problems) or "all right")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()

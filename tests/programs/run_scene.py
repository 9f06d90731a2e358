"""Runs one scene in this process: python run_scene.py NAME FOLDER [--arch cuda] [--displacement meters] [--build-only | --turns]

FOLDER gets states.npz (arrays "step/name") and figures.json: seconds of import and start, of the build (up to the end of the first step),
peak memory. Processor seconds are those of this process. With --turns it then says "ready", and answers each line of its input with the
steps per processor second of some more steps. On a GPU the answer is "steps" and a JSON object: steps per second of some that nothing waits
for, and the seconds of some more, each of which is waited for. With --profile the kernels of all these steps are timed.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scenes import GRADIENTS, Run, find_scene

COMPARED_STEPS = (1, 5, 20, 100)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scene")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--displacement", type=float, default=0.0)
    parser.add_argument("--arch", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--build-only", action="store_true")
    parser.add_argument("--turns", action="store_true")
    chosen = parser.parse_args()
    if chosen.profile:
        profile_kernels()
    begin = Marks()
    import genesis as gs  # what it takes to start is measured

    gs.init(backend=getattr(gs, chosen.arch), precision="32", logging_level="error", seed=1)
    figures = begin.since("start")
    states: dict[str, np.ndarray] = {}
    if chosen.scene in GRADIENTS:
        figures |= run_gradient(gs, chosen.scene, chosen.displacement, states)
    else:
        run, built = build_and_run(gs, chosen.scene, chosen.displacement, chosen.build_only, states)
        figures |= built
    figures["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    np.savez(chosen.folder / "states.npz", **states)
    (chosen.folder / "figures.json").write_text(json.dumps(figures))
    if chosen.turns:
        take_turns(run, find_scene(chosen.scene).timed_steps, chosen.arch == "cuda", chosen.profile)


def profile_kernels() -> None:
    """Lets the simulator initialize `quadrants` so that it times kernels."""
    import quadrants as qd

    initialize = qd.init
    qd.init = lambda *arguments, **options: initialize(*arguments, **{**options, "kernel_profiler": True})


class Marks:
    """Processor and wall seconds since it was made."""

    def __init__(self) -> None:
        self.processor, self.wall = time.process_time(), time.perf_counter()

    def since(self, name: str) -> dict[str, float]:
        return {f"{name}_cpu": time.process_time() - self.processor, f"{name}_wall": time.perf_counter() - self.wall}


def build_and_run(
    gs: object, name: str, displacement: float, build_only: bool, states: dict[str, np.ndarray]
) -> tuple[Run, dict[str, float]]:
    """Builds the scene and keeps the compared states; the built scene, and what it took."""
    begin = Marks()
    run = find_scene(name).build(gs, displacement)
    run.step()
    figures = begin.since("build")
    for step in range(1, 1 if build_only else COMPARED_STEPS[-1] + 1):
        if step > 1:
            run.step()
        if step in COMPARED_STEPS:
            states |= {f"{step}/{array}": value for array, value in run.read().items()}
    return run, figures


def take_turns(run: Run, steps: int, is_on_gpu: bool, profile: bool) -> None:
    """Times steps when asked."""
    import quadrants as qd

    if profile:
        qd.profiler.clear_kernel_profiler_info()
    print("ready", flush=True)
    for _ in sys.stdin:
        begin = Marks()
        for _ in range(steps):
            run.step()
        if is_on_gpu:
            qd.sync()
            rate = steps / begin.since("")["_wall"]
            print("steps", json.dumps({"rate": rate, "seconds": [time_step(run, qd.sync) for _ in range(steps)]}), flush=True)
        else:
            print(steps / begin.since("")["_cpu"], flush=True)
    if profile:
        qd.profiler.print_kernel_profiler_info()


def time_step(run: Run, synchronize: Callable[[], None]) -> float:
    """Seconds of one step on a GPU."""
    begin = Marks()
    run.step()
    synchronize()
    return begin.since("")["_wall"]


def run_gradient(gs: object, name: str, displacement: float, states: dict[str, np.ndarray]) -> dict[str, float]:
    """The gradient of a scene's loss, with central differences beside it."""
    problem, begin = GRADIENTS[name](gs, displacement), Marks()
    gradient = problem.compute_gradient()
    figures = begin.since("build")
    begin = Marks()
    gradient = problem.compute_gradient()
    figures |= begin.since("gradient")
    differences = np.array([problem.difference(index) for index in problem.indices])
    states |= {"gradient": gradient, "differences": differences, "at": np.array(problem.indices)}
    return figures


if __name__ == "__main__":
    main()

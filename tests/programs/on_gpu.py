"""Scenes in many worlds on a GPU, on this package and on the reference: seconds of builds and steps, and how long every step took.

The processes of both packages stay, so that steps are timed by turns on the same device. Cold builds have neither kernels nor what the
driver assembled; those of this package come one after another, those of the reference, which take minutes, side by side.
"""

from __future__ import annotations

import json
import statistics
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from processes import DISPLACEMENT, Environment, Result, check_exit, compare_states, make_call, run

SCENES = ["boxes4096", "arm4096", "quadruped4096", "mpm"]
TURNS = 5
SLOW = 1.5  # times the median: a slow step


@dataclass
class Worker:
    """A process with a scene that is built, which times steps when asked."""

    process: subprocess.Popen[str]
    folder: Path
    said: list[str] = field(default_factory=list)  # what is no answer

    def wait_for(self, word: str) -> str:
        """The rest of the next line of its output that begins with a word; empty if it ended."""
        for line in self.process.stdout or ():
            if line.startswith(word):
                return line.removeprefix(word).strip() or word
            self.said.append(line)
        return ""

    def time_steps(self) -> dict[str, Any] | None:
        """Steps per second, and seconds of single steps; None if it has ended."""
        try:
            print("go", file=self.process.stdin, flush=True)
        except OSError:
            return None
        answer = self.wait_for("steps")
        return json.loads(answer) if answer else None

    def end(self) -> Result:
        """What it came to."""
        output = "".join([*self.said, self.process.communicate()[0] or ""])
        result = Result(self.process.returncode, output.strip())
        if self.process.returncode == 0:
            result.figures = json.loads((self.folder / "figures.json").read_text())
            result.states = dict(np.load(self.folder / "states.npz"))
        return result


def start(environment: Environment, package: str, caches: Path, scene: str, *options: str, group: str = "measured") -> Worker:
    """Starts a scene on the GPU; each group has caches of its own, but all have the same processed meshes."""
    folder = caches / group / package / scene
    folder.mkdir(parents=True, exist_ok=True)
    call = make_call(environment, package, folder / "cache", scene, str(folder), "--arch", "cuda", "--turns", *options)
    call["env"]["GS_CACHE_FILE_PATH"] = str(caches / "meshes")
    pipe = subprocess.PIPE
    return Worker(subprocess.Popen(**call, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT), folder)


def describe_steps(turns: list[dict[str, Any]]) -> dict[str, float]:
    """Steps per second, and where steps were slow: their number, the longest stretch of them, and the longest step over the middle one."""
    single = np.concatenate([turn["seconds"] for turn in turns])
    middle = float(np.median(single))
    slow = np.flatnonzero(single > SLOW * middle)
    stretches = np.split(slow, np.flatnonzero(np.diff(slow) > 1) + 1)
    longest = max(stretches, key=len)
    return {
        "steps_per_second": round(statistics.median(turn["rate"] for turn in turns), 1),
        "step_us": round(1e6 * middle, 1),
        "slow_steps": len(slow),
        "slow_stretch": len(longest),
        "slow_stretch_at": int(longest[0]) if len(longest) else -1,
        "longest_over_middle": round(float(single.max()) / middle, 2),
    }


def measure(environment: Environment, caches: Path, scenes: list[str], kept: dict[str, Any], profile: bool) -> list[str]:
    """Runs the scenes; adds the figures by scene and package to `kept`, and gives what is off."""
    # Functions that the simulator itself compiles at their first use are not measured.
    for worker in [start(environment, "ours", caches, scene, group="unmeasured") for scene in scenes]:
        worker.end()
    workers: dict[str, dict[str, Worker]] = {scene: {} for scene in scenes}
    for scene in scenes:
        workers[scene]["ours"] = start(environment, "ours", caches, scene)
        workers[scene]["ours"].wait_for("ready")
    others = [(package, scene) for package in environment.paths if package != "ours" for scene in scenes]
    for package, scene in others:
        workers[scene][package] = start(environment, package, caches, scene)
    for package, scene in others:
        workers[scene][package].wait_for("ready")
    problems: list[str] = []
    for scene in scenes:
        print(scene, flush=True)
        kept[scene], off = finish(scene, workers[scene])
        problems += off
    problems += compare(environment, caches, scenes, workers)
    if profile:
        print_profiles(environment, caches, scenes)
    return problems


def print_profiles(environment: Environment, caches: Path, scenes: list[str]) -> None:
    """Prints how long the kernels of some steps took, in processes that time them: events around kernels make steps slower."""
    profiled = [(package, scene) for scene in scenes for package in environment.paths]
    workers = [start(environment, package, caches, scene, "--profile", group="profiled") for package, scene in profiled]
    for worker in workers:
        worker.wait_for("ready")
    for (package, scene), worker in zip(profiled, workers, strict=True):
        worker.time_steps()
        print(f"{scene} on {package}:\n{worker.end().output}", flush=True)


def finish(scene: str, workers: dict[str, Worker]) -> tuple[dict[str, Any], list[str]]:
    """Times the steps of a scene by turns and ends its processes; the figures by package, and what is off."""
    turns: dict[str, list[dict[str, Any]]] = {package: [] for package in workers}
    for _ in range(TURNS):
        for package, worker in workers.items():
            turn = worker.time_steps()
            turns[package] += [turn] if turn else []
    figures: dict[str, Any] = {}
    problems: list[str] = []
    for package, worker in workers.items():
        result = worker.end()
        problems += check_exit(package, scene, result)
        if result.status or not turns[package]:
            continue
        once = {name: round(result.figures[name], 2) for name in ("start_wall", "build_wall", "peak_mb")}
        figures[package] = once | describe_steps(turns[package])
        print(f"  {package:9} {figures[package]}", flush=True)
    return figures, problems


def compare(environment: Environment, caches: Path, scenes: list[str], workers: dict[str, dict[str, Worker]]) -> list[str]:
    """Compares the states of both packages; what is off."""
    problems: list[str] = []
    for scene in scenes:
        folders = {package: worker.folder for package, worker in workers[scene].items() if (worker.folder / "states.npz").exists()}
        if len(folders) < 2:
            continue
        print(scene)
        moved = run(environment, "reference", caches / "reference" / scene, scene, "--arch", "cuda", "--displacement", str(DISPLACEMENT))
        ours, reference = (Result(0, "", {}, dict(np.load(folders[package] / "states.npz"))) for package in ("ours", "reference"))
        problems += check_exit("reference", scene, moved) or compare_states(scene, ours, reference, moved)
    return problems

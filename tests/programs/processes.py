"""Where the simulator and the two packages are installed, a scene in a process of its own, and how its states are compared."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scenes import find_scene

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
FOLDER = Path(os.environ.get("QD_PROGRAMS", ROOT / "build-programs"))
TORCH = "torch==2.13.0"
# Versions of the simulator, each with the version of the reference that it was made for. The first brings its dependencies.
SIMULATORS = {"1.4.5": "1.3.3", "0.4.5": "0.5.2"}
NEWEST = next(iter(SIMULATORS))
DISPLACEMENT = 1e-6
# States that two correct programs may differ by where the reference did not move at all, in their own units.
LEAST_TOLERANCE = 1e-5


@dataclass
class Result:
    """What one process came to."""

    status: int
    output: str
    figures: dict[str, float] = field(default_factory=dict)
    states: dict[str, np.ndarray] = field(default_factory=dict)


@dataclass
class Environment:
    """Where an installed version of the simulator is: its interpreter, and the folders in front of its packages, by `quadrants` package."""

    python: Path
    paths: dict[str, list[Path]]


def make_environment(version: str, ours_only: bool) -> Environment:
    """Installs a version of the simulator and its reference. Older versions lie in folders beside the newest and use its dependencies."""
    python = FOLDER / "simulator" / "bin" / "python"
    install = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    if not (FOLDER / "complete").exists():
        print(f"installing the simulator, {NEWEST}, into {FOLDER}", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", FOLDER / "simulator"], check=True)
        subprocess.run([*install, f"genesis-world=={NEWEST}", TORCH], check=True)
        subprocess.run([*install, "--no-deps", "--target", FOLDER / "reference", f"quadrants=={SIMULATORS[NEWEST]}"], check=True)
        subprocess.run([python, "-m", "pip", "uninstall", "-q", "-y", "quadrants"], check=True)
        (FOLDER / "complete").touch()
    simulator, reference = ([], FOLDER / "reference") if version == NEWEST else ([FOLDER / version], FOLDER / f"reference-{version}")
    if simulator and not (FOLDER / version / "complete").exists():
        print(f"installing the simulator, {version}, into {FOLDER / version}", file=sys.stderr)
        subprocess.run([*install, "--no-deps", "--target", FOLDER / version, f"genesis-world=={version}"], check=True)
        subprocess.run([*install, "--no-deps", "--target", reference, f"quadrants=={SIMULATORS[version]}"], check=True)
        (FOLDER / version / "complete").touch()
    paths = {"ours": [*simulator, ROOT / "python"]}
    return Environment(python, paths if ours_only else paths | {"reference": [*simulator, reference]})


def find_installed(folder: Path, ours_only: bool) -> Environment:
    """What somebody unpacked: the simulator in `folder`/site, the reference in `folder`/reference; the interpreter is this one."""
    paths = {"ours": [folder / "site", ROOT / "python"]}
    return Environment(Path(sys.executable), paths if ours_only else paths | {"reference": [folder / "site", folder / "reference"]})


def make_call(environment: Environment, package: str, caches: Path, scene: str, folder: str, *options: str) -> dict[str, Any]:
    """A scene in a process of its own, as arguments of `subprocess`."""
    variables = {
        "PYTHONPATH": os.pathsep.join(str(path) for path in environment.paths[package]),
        "QD_OFFLINE_CACHE_FILE_PATH": str(caches / "kernels"),
        "GS_CACHE_FILE_PATH": str(caches.parent / "meshes"),
        "CUDA_CACHE_PATH": str(caches / "driver"),
    }
    return {"args": [environment.python, HERE / "run_scene.py", scene, folder, *options], "env": {**os.environ, **variables}, "text": True}


def run(environment: Environment, package: str, caches: Path, scene: str, *options: str) -> Result:
    """Runs a scene."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(**make_call(environment, package, caches, scene, folder, *options), capture_output=True)
        result = Result(done.returncode, (done.stdout + done.stderr).strip())
        if done.returncode == 0:
            result.figures = json.loads((Path(folder) / "figures.json").read_text())
            result.states = dict(np.load(Path(folder) / "states.npz"))
        return result


def compare_states(scene: str, ours: Result, reference: Result, moved: Result) -> list[str]:
    """What is off, a line for each; prints the differences."""
    problems = []
    for name, expected in reference.states.items():
        step, array = name.split("/")
        difference = float(np.max(np.abs(ours.states[name] - expected)))
        sensitivity = float(np.max(np.abs(moved.states[name] - expected)))
        # Contacts amplify what differs in the last bit: after these only what one step makes of it is comparable.
        is_compared = not find_scene(scene).is_chaotic or int(step) <= 1
        tolerance = max(10 * sensitivity, LEAST_TOLERANCE)
        print(f"    step {step:>3} {array:6} differs by {difference:.1e}; the reference, moved by {DISPLACEMENT:g}, by {sensitivity:.1e}")
        if not np.all(np.isfinite(ours.states[name])):
            problems.append(f"{scene}: {array} at step {step} is not finite")
        elif is_compared and not difference <= tolerance:
            problems.append(f"{scene}: {array} at step {step} differs by {difference:.2e}, more than {tolerance:.2e}")
    return problems


def check_exit(name: str, scene: str, result: Result) -> list[str]:
    """What a process should not have done."""
    if result.status != 0:
        return [f"{scene} on {name} ended with status {result.status}:\n{result.output[-2000:]}"]
    return [f"{scene} on {name} said: {result.output[-500:]}"] if result.output and name == "ours" else []

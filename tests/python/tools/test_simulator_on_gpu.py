"""The harness of the simulator on a GPU: how figures come from the times of steps, and how workers answer."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

PROGRAMS = Path(__file__).resolve().parents[2] / "programs"
WORKER = """
import json, pathlib, sys
import numpy as np
folder = pathlib.Path(sys.argv[1])
print("something that a package says")
np.savez(folder / "states.npz", **{"1/pos": np.ones(3)})
(folder / "figures.json").write_text(json.dumps({"build_wall": 2.5}))
print("ready", flush=True)
for _ in sys.stdin:
    print("steps", json.dumps({"rate": 10.0, "seconds": [0.1, 0.2]}), flush=True)
print("a profile")
"""


@pytest.fixture
def on_gpu(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(PROGRAMS))
    return importlib.import_module("on_gpu")


def test_slow_stretches_are_found(on_gpu: ModuleType) -> None:
    turns = [{"rate": rate, "seconds": [1e-3] * 20} for rate in (900.0, 1000.0, 800.0)]
    turns[1]["seconds"][4:7] = [2e-3, 5e-3, 2e-3]
    turns[2]["seconds"][0] = 1.6e-3
    assert on_gpu.describe_steps(turns) == {
        "steps_per_second": 900.0,
        "step_us": 1000.0,
        "slow_steps": 4,
        "slow_stretch": 3,
        "slow_stretch_at": 24,
        "longest_over_middle": 5.0,
    }


def test_even_steps_have_no_slow_stretch(on_gpu: ModuleType) -> None:
    figures = on_gpu.describe_steps([{"rate": 1.0, "seconds": [1e-3, 1.4e-3, 1e-3]}])
    assert (figures["slow_steps"], figures["slow_stretch"], figures["slow_stretch_at"]) == (0, 0, -1)


def make_worker(on_gpu: ModuleType, folder: Path, program: str) -> object:
    pipe = subprocess.PIPE
    process = subprocess.Popen([sys.executable, "-c", program, str(folder)], stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, text=True)
    return on_gpu.Worker(process, folder)


def test_workers_answer(on_gpu: ModuleType, tmp_path: Path) -> None:
    worker = make_worker(on_gpu, tmp_path, WORKER)
    assert worker.wait_for("ready")
    assert worker.time_steps() == {"rate": 10.0, "seconds": [0.1, 0.2]}
    result = worker.end()
    assert (result.status, result.output, result.figures["build_wall"]) == (0, "something that a package says\na profile", 2.5)
    assert list(result.states) == ["1/pos"]


def test_a_worker_that_fails_is_no_answer(on_gpu: ModuleType, tmp_path: Path) -> None:
    worker = make_worker(on_gpu, tmp_path, "print('no driver'); raise SystemExit(3)")
    assert worker.wait_for("ready") == ""
    assert worker.time_steps() is None
    result = worker.end()
    assert (result.status, result.output) == (3, "no driver")


def test_names_of_scenes(on_gpu: ModuleType) -> None:
    scenes = sys.modules["scenes"]
    assert scenes.find_scene("mpm") is scenes.SCENES["mpm"]
    assert scenes.find_scene("boxes4096").is_chaotic
    assert not scenes.find_scene("arm17").is_chaotic
    with pytest.raises(KeyError):
        scenes.find_scene("horse4096")

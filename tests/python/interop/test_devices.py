"""Several GPUs: programs work on the one that they choose, and leave the others alone."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import quadrants as qd


@pytest.fixture(autouse=True)
def torch(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("QD_ARCH", raising=False)
    torch = pytest.importorskip("torch")
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    yield torch
    qd.reset()


@qd.kernel
def add_one(x: qd.types.ndarray(dtype=qd.f32, ndim=1)):
    for i in x:
        x[i] += 1.0


@pytest.mark.parametrize("place", ["argument", "environment"])
def test_chosen_device_holds_the_containers(torch, monkeypatch, place):
    if place == "environment":
        monkeypatch.setenv("QD_VISIBLE_DEVICE", "1")
    qd.init(arch=qd.cuda, **({"device_id": 1} if place == "argument" else {}))
    x, field = qd.ndarray(qd.f32, (1000,)), qd.field(qd.f32, 1000)
    x.from_numpy(np.arange(1000, dtype=np.float32))
    add_one(x)
    field.copy_from(x)
    assert x.__dlpack_device__() == (2, 1) and x.to_torch(copy=False).device == torch.device("cuda:1")
    np.testing.assert_array_equal(field.to_numpy(), np.arange(1, 1001, dtype=np.float32))
    assert torch.cuda.current_device() == 0


def test_tensors_of_the_same_device_are_taken_in_place_and_others_refused(torch):
    qd.init(arch=qd.cuda, device_id=1)
    here, there = torch.zeros(8, device="cuda:1"), torch.zeros(8, device="cuda:0")
    add_one(here)
    for _ in range(2):
        with pytest.raises(ValueError, match="cuda:0.*cuda:1"):
            add_one(there)
    with pytest.raises((ValueError, BufferError), match="cuda:0.*cuda:1"):
        qd.from_dlpack(there)
    add_one(here)
    assert here.tolist() == [2.0] * 8 and there.tolist() == [0.0] * 8


def test_programs_move_from_one_device_to_the_other(torch):
    views = []
    for device in (0, 1, 0):
        qd.init(arch=qd.cuda, device_id=device)
        x = qd.ndarray(qd.f32, (8,))
        add_one(x)
        views.append(x.to_torch(copy=False))
        assert views[-1].device.index == device
    qd.reset()
    assert [view.tolist() for view in views] == [[1.0] * 8] * 3


def test_processes_share_a_device():
    program = """
import quadrants as qd
qd.init(arch=qd.cuda, device_id=1, enable_fallback=False, log_level="error")
x = qd.field(qd.i32, 1 << 20)

@qd.kernel
def count():
    for i in x:
        x[i] += 1

for _ in range(100):
    count()
assert (x.to_numpy() == 100).all()
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    running = [subprocess.Popen([sys.executable, "-c", program], env=environment, stderr=subprocess.PIPE, text=True) for _ in range(4)]
    assert [(process.wait(), process.stderr.read()) for process in running] == [(0, "")] * 4


def test_programs_on_two_gpus_and_the_processor_take_turns(torch):
    programs = [qd.Program(arch=qd.cuda, device_id=0), qd.Program(arch=qd.cuda, device_id=1), qd.Program(arch=qd.cpu)]
    arrays = []
    for program in programs:
        with program:
            arrays.append(qd.ndarray(qd.f32, 1000))
    for _ in range(3):
        for program, array in zip(programs, arrays, strict=True):
            with program:
                add_one(array)
    with programs[0], pytest.raises(ValueError, match="is on cuda:1, and the current program runs on cuda:0"):
        add_one(arrays[1])
    with programs[1]:
        arrays[1].copy_from(arrays[0])
        add_one(arrays[1])
    assert [array[999] for array in arrays] == [3, 4, 3]
    assert torch.cuda.current_device() == 0
    programs[1].close()
    assert arrays[0].to_torch().device.index == 0

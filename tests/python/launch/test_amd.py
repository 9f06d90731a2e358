"""The run half of the backend for AMD GPUs on a stand-in for HIP and an emulator: drivers, memory, failures, exchange."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import amd_emulation
import numpy as np
import pytest

import quadrants as qd

gcn = amd_emulation.import_emulator()
COUNTERS = "bytes_in_use bytes_available allocations pool_allocations launches together graph_launches modules stream_waits device".split()


class Fake(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int64) for name in COUNTERS]


def find_fake(*flags: str) -> Fake:
    return Fake.in_dll(ctypes.CDLL(str(gcn.build.build(*flags))), "fake")


@qd.kernel
def double(x: qd.types.ndarray(qd.f32, 1)) -> None:
    for i in x:
        x[i] = x[i] * 2.0


def run_double() -> None:
    x = qd.ndarray(qd.f32, 100)
    x.from_numpy(np.arange(100, dtype=np.float32))
    double(x)
    np.testing.assert_array_equal(x.to_numpy(), np.arange(100) * 2)


@pytest.mark.parametrize("flags", [(), ("-DOLD",)], ids=["version 6", "version 5"])
def test_both_layouts_of_the_properties(flags: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Machine code of another processor would not run."""
    with amd_emulation.running("gfx1030", monkeypatch, None, *flags):
        run_double()


@pytest.mark.parametrize(
    ("flag", "text"),
    [
        ("-DDEVICES=0", "the AMD driver has no device"),
        ("-DINIT=101", "the AMD driver has no device"),
        ("-DINIT=3", "does not start: hipError"),
    ],
)
def test_drivers_that_cannot_be_used(flag: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RuntimeError, match=f"amdgpu: .*{text}"), amd_emulation.running("gfx942", monkeypatch, None, flag):
        pass


def test_no_driver(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="there is no AMD driver"):
        qd.init(arch=qd.amdgpu, amdgpu_driver=str(tmp_path / "libamdhip64.so"), enable_fallback=False, log_level="error")
    with pytest.raises(RuntimeError, match="enable_amdgpu is off"):
        qd.init(arch=qd.amdgpu, enable_amdgpu=False, enable_fallback=False, log_level="error")


def test_an_old_driver_names_what_it_lacks(tmp_path: Path) -> None:
    library = tmp_path / "libamdhip64.so"
    amd_emulation.compile_library(library, "int hipInit(unsigned flags) { return 0; }")
    with pytest.raises(RuntimeError, match="the AMD driver is too old .*it has no hip"):
        qd.init(arch=qd.amdgpu, amdgpu_driver=str(library), enable_fallback=False, log_level="error")


def test_a_processor_that_nobody_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    with amd_emulation.running("gfx4711", monkeypatch), pytest.raises(ValueError, match="amdgpu: there is no GPU 'gfx4711'"):
        run_double()


def test_pools_of_memory_are_used_where_they_work(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = find_fake()
    before = fake.pool_allocations
    with amd_emulation.running("gfx942", monkeypatch):
        run_double()
        assert fake.pool_allocations > before
    for number, (target, option) in enumerate([("gfx90c", {}), ("gfx942", {"enable_hip_mempool": False})]):
        flags = (f"-DCOPY={number}",)  # a library of its own: memory is opened once for each device of a driver
        with amd_emulation.running(target, monkeypatch, None, *flags, **option):
            run_double()
            assert find_fake(*flags).pool_allocations == 0


def test_out_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = find_fake()
    with amd_emulation.running("gfx942", monkeypatch):
        monkeypatch.setattr(fake, "bytes_available", fake.bytes_in_use + (1 << 20))
        with pytest.raises(MemoryError, match=r"cannot allocate 4000000 bytes on the GPU \(amdgpu\): \d+ of \d+ bytes are free"):
            qd.ndarray(qd.f32, 1_000_000)


def test_sparse_fields_take_the_memory_of_all_their_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    with amd_emulation.running("gfx942", monkeypatch):
        x = qd.field(qd.u8)
        qd.root.pointer(qd.ij, 1 << 12).pointer(qd.ij, 1 << 8).place(x)
        with pytest.raises(MemoryError, match=r"cannot allocate \d+ bytes on the GPU .*\n.*records of pointer"):
            x[0, 0] = 1


def test_an_illegal_access_ends_the_runtime_and_the_next_one_works(monkeypatch: pytest.MonkeyPatch) -> None:
    @qd.kernel
    def kernel(x: qd.types.ndarray(qd.i32, 1), at: qd.i32) -> None:
        for i in range(100):
            x[at + i] = i

    for _ in range(2):
        with amd_emulation.running("gfx1100", monkeypatch):
            x = qd.ndarray(qd.i32, 100)
            kernel(x, 0)
            assert x.to_numpy()[99] == 99
            with pytest.raises(RuntimeError, match="a kernel has faulted: hipErrorIllegalAddress: .* call qd.init"):
                kernel(x, 1 << 28)
                x.to_numpy()


def test_checks_and_prints_are_reported_from_memory_of_the_device(monkeypatch: pytest.MonkeyPatch, capfd: Any) -> None:
    @qd.kernel
    def kernel(n: qd.i32) -> qd.i32:
        total = 0
        for i in range(n):
            print("number", i * 10)
            assert i < 5, "too many"
            total += i
        return total

    with amd_emulation.running("gfx1201", monkeypatch, debug=True):
        assert kernel(3) == 3
        assert sorted(capfd.readouterr().out.splitlines()) == ["number 0", "number 10", "number 20"]
        for _ in range(2):
            with pytest.raises(qd.QuadrantsAssertionError, match="too many"):
                kernel(7)
        assert kernel(2) == 1


def test_grids_whose_blocks_wait_for_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = find_fake()

    @qd.kernel
    def kernel(x: qd.types.ndarray(qd.i32, 1), y: qd.types.ndarray(qd.i32, 1)) -> None:
        qd.loop_config(block_dim=64)
        for i in range(256):
            x[i] = i
            qd.simt.grid.sync()
            y[i] = x[255 - i]

    with amd_emulation.running("gfx90a", monkeypatch):
        x, y = qd.ndarray(qd.i32, 256), qd.ndarray(qd.i32, 256)
        before = fake.together
        kernel(x, y)
        np.testing.assert_array_equal(y.to_numpy(), 255 - np.arange(256))
        assert fake.together == before + 1


def test_graphs_only_where_they_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = find_fake()
    for wanted in (False, True):
        with amd_emulation.running("gfx942", monkeypatch, hip_graph=wanted):
            before = fake.graph_launches
            for _ in range(3):
                run_double()
            assert (fake.graph_launches > before) == wanted


def test_several_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = find_fake()
    with amd_emulation.running("gfx942", monkeypatch, device_id=1):
        x = qd.ndarray(qd.f32, 10)
        assert x.__dlpack_device__() == (10, 1)
        run_double()
        assert fake.device in (0, 1)
    with pytest.raises(RuntimeError, match="there is no GPU number 2: HIP sees 2"):
        with amd_emulation.running("gfx942", monkeypatch, device_id=2):
            pass


@pytest.mark.parametrize("target, hertz", [("gfx942", 1.5e9), ("gfx1100", 1e8)])
def test_kernels_read_a_clock_that_does_not_wrap(target: str, hertz: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """The counter of cycles of gfx11 has 20 bits, the clock that takes its place has another frequency."""
    stamps = qd.types.ndarray(qd.i64, 1)

    @qd.kernel
    def measure(x: stamps) -> None:
        x[0] = qd.clock_counter()
        for _ in range(1):
            x[1] = qd.clock_counter()

    with amd_emulation.running(target, monkeypatch):
        assert qd.clock_freq_hz() == hertz
        x = qd.ndarray(qd.i64, 2)
        measure(x)
        before, after = x.to_numpy()
        assert 1 << 20 < before <= after


class Foreign:
    """An array of another library on a GPU of a DLPack kind."""

    def __init__(self, array: Any, device: tuple[int, int]) -> None:
        self.array, self.device, self.stream = array, device, "none"

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(self, *, stream: Any = None, max_version: Any = None) -> Any:
        self.stream = stream
        return self.array.__dlpack__(max_version=max_version)


def test_arrays_of_other_libraries_on_the_same_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    with amd_emulation.running("gfx942", monkeypatch):
        x = qd.ndarray(qd.f32, 8)
        x.fill(3.0)
        given = Foreign(x, (10, 0))
        double(given)
        assert given.stream == 0, "PyTorch for ROCm refuses CUDA's numbers of the default stream"
        assert (x.to_numpy() == 6).all()
        for device, name in (((10, 1), "rocm:1"), ((2, 0), "cuda:0")):
            with pytest.raises(ValueError, match=f"argument x is on {name}, and kernels run on rocm:0"):
                double(Foreign(x, device))
        with pytest.raises(ValueError, match="stream is None, 0"):
            x.__dlpack__(stream=1)


def test_torch_of_another_vendor_gets_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    if torch.version.hip:
        pytest.skip("torch is made for AMD GPUs")
    with amd_emulation.running("gfx942", monkeypatch):
        x = qd.ndarray(qd.f32, 8)
        x.fill(3.0)
        assert torch.equal(x.to_torch(), torch.full((8,), 3.0)) and torch.equal(x.to_torch(copy=None), torch.full((8,), 3.0))
        with pytest.raises(ValueError, match="Zero-copy not available: this torch does not .* is on the device rocm:0"):
            x.to_torch(copy=False)


def test_streams_and_events(monkeypatch: pytest.MonkeyPatch) -> None:
    with amd_emulation.running("gfx942", monkeypatch):
        stream, event = qd.create_stream(), qd.create_event()
        x = qd.ndarray(qd.f32, 8)
        x.fill(1.0)
        double(x, qd_stream=stream)
        event.record(stream)
        event.synchronize()
        assert (x.to_numpy() == 2).all()


def run_checks_for_cards(*arguments: str) -> subprocess.CompletedProcess[str]:
    root = Path(__file__).parents[3]
    command = [sys.executable, "tests/emulators/gcn/run.py", "gfx1100", "tools/check_amd_card.py", "--small", *arguments]
    return subprocess.run(command, cwd=root, env=os.environ | {"PYTHONPATH": "python"}, capture_output=True, text=True)


def test_checks_for_machines_with_a_card() -> None:
    done = run_checks_for_cards("loader", "order", "approximations", "faults", "memory", "graphs", "devices", "timing")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("  passed\n") == 8
    assert "hipErrorIllegalAddress" in done.stdout


def test_checks_for_cards_that_hang_have_failed() -> None:
    done = run_checks_for_cards("loader", "--seconds", "0")
    assert done.returncode == 1
    assert "FAILED: it hung for 0 s" in done.stdout

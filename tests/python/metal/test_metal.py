"""The Metal backend without Metal: its sources, compiled by clang++, run on the processor (tests/emulators/metal)."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import quadrants as qd
from quadrants._containers import torch_queue
from tests.python.vulkan import control_flow, sequence

ROOT = Path(__file__).parents[3]
EMULATOR = ROOT / "tests/emulators/metal"
sys.path.append(str(EMULATOR))
import metal_build  # noqa: E402

FILES = ["simt/test_blocks.py", "simt/test_subgroups.py", "language/test_loops.py", "language/test_vectors.py"]

pytestmark = pytest.mark.skipif(not metal_build.find_compiler(), reason="clang++ is not installed")


def init(**options: Any) -> None:
    qd.init(arch=qd.metal, enable_fallback=False, offline_cache=False, log_level="error", **options)


@pytest.fixture(autouse=True)
def _driver(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in metal_build.build().items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def device() -> Iterator[None]:
    init()
    yield
    qd.reset()


@pytest.mark.parametrize("name", FILES)
def test_kernels_of_other_suites_are_right(name: str) -> None:
    command = [sys.executable, str(EMULATOR / "run.py"), "-m", "pytest", "-q", "-p", "no:cacheprovider", f"tests/python/{name}"]
    done = subprocess.run(command, cwd=ROOT, env=dict(os.environ), capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]


def test_arrays_and_fields_hold_what_kernels_write(device: None) -> None:
    @qd.kernel
    def saxpy(y: qd.types.NDArray[qd.f32, 1], x: qd.types.NDArray[qd.f32, 1], a: qd.f32) -> None:
        for i in range(x.shape[0]):
            y[i] = y[i] + a * x[i]

    left, right = np.arange(1000, dtype=np.float32), np.ones(1000, np.float32)
    x, y = qd.ndarray(qd.f32, 1000), qd.ndarray(qd.f32, 1000)
    x.from_numpy(left)
    y.from_numpy(right)
    saxpy(y, x, 0.5)
    assert np.array_equal(y.to_numpy(), right + np.float32(0.5) * left)
    saxpy(right, left, 2.0)  # NumPy arrays are copied to the device and back
    assert np.array_equal(right, 1 + 2 * left)
    large = qd.field(qd.i32, shape=(3000, 2000))  # has a buffer of its own
    large.fill(7)

    @qd.kernel
    def number() -> None:
        for i, j in large:
            large[i, j] += i * 2000 + j

    number()
    assert np.array_equal(large.to_numpy().ravel(), np.arange(6_000_000) + 7)


def test_every_type_is_stored_and_computed(device: None) -> None:
    @qd.kernel
    def compute(x: qd.types.ndarray(ndim=1), y: qd.types.ndarray(ndim=1)) -> None:
        for i in range(x.shape[0]):
            y[i] = (x[i] + y[i]) * x[i] - y[i]

    for dtype in (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64, np.float16, np.float32):
        x, y = (np.arange(40) % 7).astype(dtype), (np.arange(40) % 5).astype(dtype)
        expected = (x + y) * x - y
        compute(x, y)
        assert np.array_equal(y, expected), dtype


def test_threads_of_a_block_share_memory(device: None) -> None:
    @qd.kernel
    def reverse(x: qd.types.NDArray[qd.f32, 1]) -> None:
        qd.loop_config(block_dim=64)
        for i in range(x.shape[0]):
            shared = qd.simt.block.SharedArray((64,), qd.f32)
            own = i % 64
            shared[own] = x[i]
            qd.simt.block.sync()
            x[i] = shared[63 - own]

    x = np.arange(256, dtype=np.float32)
    reverse(x)
    assert np.array_equal(x, np.arange(256, dtype=np.float32).reshape(4, 64)[:, ::-1].ravel())


def test_atomic_operations_of_every_size(device: None) -> None:
    @qd.kernel
    def count(x: qd.types.ndarray(ndim=1)) -> None:
        for i in range(1000):
            qd.atomic_add(x[i % 3], 1)
            qd.atomic_max(x[3], i % 100)

    for dtype in (np.int8, np.uint16, np.int32, np.uint32, np.float16, np.float32):
        x = np.zeros(4, dtype)
        count(x)
        assert np.array_equal(x, np.array([334, 333, 333, 99], np.int64).astype(dtype)), dtype


def test_results_are_those_of_the_processor(device: None) -> None:
    @qd.kernel
    def compute(x: qd.types.NDArray[qd.f32, 2]) -> qd.f32:
        total = 0.0
        for i in range(1000):
            angle = qd.random() * 6
            x[i, 0] = angle
            x[i, 1] = qd.sin(angle * 1e6) * qd.exp(-angle)
            x[i, 2] = qd.pow(angle, 1.5) + qd.erfc(angle)
            total += angle
        return total

    there, here = np.zeros((1000, 3), np.float32), np.zeros((1000, 3), np.float32)
    init(random_seed=7)
    sum_there = compute(there)
    qd.init(arch=qd.cpu, offline_cache=False, random_seed=7)
    assert np.isclose(sum_there, compute(here), rtol=1e-5)
    assert np.array_equal(there[:, 0], here[:, 0])
    assert np.allclose(there, here, rtol=1e-5, atol=1e-6)


def test_sources_stay_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reduction of large angles is short, and what computes f64 in integers is a function: inlined, 16,000 lines for each power."""
    monkeypatch.setenv("QD_DUMP", str(tmp_path))
    init()

    @qd.kernel
    def compute(x: qd.types.NDArray[qd.f32, 1]) -> None:
        for i in range(x.shape[0]):
            for k in qd.static(range(20)):
                x[i] = qd.pow(3 + qd.sin(x[i] + k) + qd.cos(x[i] * k), 0.3)

    x = np.linspace(1, 2, 16, dtype=np.float32)
    compute(x)
    assert np.isfinite(x).all()
    (source,) = tmp_path.rglob("4_source.metal")
    assert source.stat().st_size < 800_000


def test_checks_and_prints(capfd: pytest.CaptureFixture[str]) -> None:
    init(debug=True)
    x = qd.field(qd.i32, 5)

    @qd.kernel
    def write(at: qd.i32) -> None:
        print("at", at)
        x[at] = 1

    with pytest.raises(Exception, match="5"):
        write(5)
        qd.sync()
    write(4)
    assert x[4] == 1 and "at 4" in capfd.readouterr().out


def test_reports_hold_floats(capfd: pytest.CaptureFixture[str]) -> None:
    """The host reads them as f64, which the device lacks: the widening is in integers, and exact."""
    init(debug=True, check_nan=True)
    x = qd.field(qd.f32, 5)

    @qd.kernel
    def write(at: qd.i32, value: qd.f32) -> None:
        print("value", value, "half", qd.cast(value, qd.f16), "vector", qd.Vector([value, -value]))
        assert value < 2.0, f"value is {value}"
        x[at] = value

    @qd.kernel
    def divide(a: qd.f32, b: qd.f32) -> qd.f32:
        return a / b

    values = [1.5, -0.1, 1e-42, float("-inf")]
    for value in values:
        write(4, value)
        assert x[4] == np.float32(value)
    there = capfd.readouterr().out
    with pytest.raises(AssertionError, match="value is 2.25"):
        write(0, 2.25)
        qd.sync()
    with pytest.raises(Exception, match="5"):
        write(5, 0.5)
        qd.sync()
    with pytest.raises(Exception, match=r"NaN from 0\.000000 / 0\.000000"):
        divide(0.0, 0.0)
    assert divide(3.0, 2.0) == 1.5
    capfd.readouterr()
    qd.init(arch=qd.cpu, offline_cache=False, log_level="error", debug=True)
    x = qd.field(qd.f32, 5)
    for value in values:
        write(4, value)
    assert there == capfd.readouterr().out and "value 1.5" in there


def test_the_queue_of_torch_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Libraries in place of torch's and Objective-C's."""
    torch = pytest.importorskip("torch")
    assert qd.interop.get_mps_command_queue() == 0  # no device mps
    source = tmp_path / "fake.cpp"
    source.write_text("""
    #include <string.h>
    namespace torch::mps { void *get_command_buffer() { return reinterpret_cast<void *>(0x1230); } }
    extern "C" const char *sel_registerName(const char *name) { return name; }
    extern "C" void *objc_msgSend(char *object, const char *name) { return strcmp(name, "commandQueue") ? nullptr : object + 4; }
    """)
    library = tmp_path / "fake.so"
    subprocess.run([metal_build.find_compiler(), "-shared", "-fPIC", source, "-o", library], check=True, timeout=60)
    load = ctypes.CDLL
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert qd.interop.get_mps_command_queue() == 0  # libraries of macOS are missing
    monkeypatch.setattr(ctypes, "CDLL", lambda path: load(str(library)))
    assert qd.interop.get_mps_command_queue() == 0x1234


@pytest.mark.parametrize("queue", [0, 0x1234])
def test_the_queue_of_torch_is_taken_by_name(queue: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_queue, "get_mps_command_queue", lambda: queue)
    chosen = qd.init(arch=qd.cpu, external_metal_command_queue="torch", _test_mode=True)
    assert chosen.external_metal_command_queue == queue
    assert chosen.external_metal_command_queue_is_torch_queue is bool(queue)
    with pytest.raises(TypeError, match="external_metal_command_queue takes a value of type int, got 'jax'"):
        qd.init(arch=qd.cpu, external_metal_command_queue="jax")


def test_the_half_for_macs_has_no_syntax_errors() -> None:
    words = "-fsyntax-only -x objective-c++ -std=c++20 -fobjc-arc -fobjc-runtime=macosx-15 -Wall -Wextra -Werror".split()
    folders = [f"-I{ROOT / 'src'}", f"-I{EMULATOR / 'apple'}"]
    command = [metal_build.find_compiler(), *words, *folders, str(ROOT / "src/backends/metal/device_metal.mm")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_streams_are_one_sequence(device: None) -> None:
    sequence.check_streams()


def test_memory_is_copied_filled_and_used_again(device: None) -> None:
    sequence.check_memory()


def test_threads_read_while_others_launch(device: None) -> None:
    sequence.check_reads()


def test_programs_side_by_side() -> None:
    sequence.check_programs(qd.metal)


def test_random_control_flow(device: None, tmp_path: Path) -> None:
    problems: list[str] = []
    assert control_flow.run_programs(1000, 12, tmp_path, problems.append) == 0, problems


# Bad input


@pytest.mark.parametrize(("dtype", "text"), [(np.float64, "this device has no f64"), (np.int64, "no atomic operations on 64 bits")])
def test_what_the_device_lacks_is_refused_at_its_line(dtype: type, text: str, device: None) -> None:
    @qd.kernel
    def count(x: qd.types.ndarray(ndim=1)) -> None:
        for i in range(4):
            qd.atomic_max(x[i % 3], i)

    with pytest.raises(qd.QuadrantsCompilationError, match=rf"in count:\n.*atomic_max(.|\n)*{text}"):
        count(np.ones(4, dtype))


def copy_driver(folder: Path) -> str:
    """Returns a driver that this process has not loaded."""
    return shutil.copy(os.environ["QD_METAL_DRIVER"], folder)


@pytest.mark.parametrize(("words", "text"), [("no_devices", "Metal has no device"), ("old", "macOS 15 is needed")])
def test_devices_that_cannot_be_used(words: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_METAL", words)
    with pytest.raises(RuntimeError, match=text):
        init(metal_driver=copy_driver(tmp_path))


def test_no_driver(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="cannot be loaded"):
        init(metal_driver=str(tmp_path / "none.so"))
    with pytest.raises(RuntimeError, match="is no driver in place of Metal"):
        init(metal_driver="libm.so.6")
    with pytest.raises(RuntimeError, match="enable_metal is off"):
        init(enable_metal=False)


def test_memory_that_ends(device: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_METAL", "no_memory")
    with pytest.raises(MemoryError, match=r"cannot allocate \d+ bytes on the GPU \(metal\)"):
        qd.ndarray(qd.f32, 100_000_000)
    monkeypatch.delenv("FAKE_METAL")
    assert qd.ndarray(qd.f32, 10)[9] == 0


def test_a_source_that_is_refused_names_the_task(device: None, monkeypatch: pytest.MonkeyPatch) -> None:
    @qd.kernel
    def fill(x: qd.types.NDArray[qd.f32, 1]) -> None:
        for i in x:
            x[i] = 1

    monkeypatch.setenv("FAKE_METAL", "no_compiler")
    with pytest.raises(RuntimeError, match=r"Metal's compiler: qd_task_0, \d+ bytes of source: .*error"):
        fill(np.zeros(4, np.float32))


def test_pipelines_are_kept_beside_the_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver compiles only what is in the archive that an earlier program has stored."""

    @qd.kernel
    def fill(x: qd.types.NDArray[qd.f32, 1], value: qd.template()) -> None:
        for i in x:
            x[i] = value

    def run(value: float) -> None:
        qd.init(arch=qd.metal, enable_fallback=False, offline_cache=True, offline_cache_file_path=str(tmp_path), log_level="error")
        x = np.zeros(4, np.float32)
        fill(x, value)
        qd.reset()
        assert x[3] == value

    run(1.0)
    monkeypatch.setenv("FAKE_METAL", "only_archive")
    run(1.0)
    with pytest.raises(RuntimeError, match="it is in no archive"):
        run(2.0)


def test_a_lost_device_is_reported_and_the_next_init_works(device: None, monkeypatch: pytest.MonkeyPatch) -> None:
    x = qd.field(qd.i32, 4)
    x.fill(3)
    assert x[0] == 3
    monkeypatch.setenv("FAKE_METAL", "lost")
    with pytest.raises(RuntimeError, match="a kernel has faulted: Metal: "):
        x.fill(0)
        qd.sync()
    monkeypatch.delenv("FAKE_METAL")
    init()
    y = qd.field(qd.i32, 4)
    y.fill(5)
    assert y[3] == 5


def test_threads_that_wait_in_different_places_are_found(device: None) -> None:
    """The driver of the tests is strict where Metal leaves it open."""

    @qd.kernel
    def wait(x: qd.types.NDArray[qd.i32, 1]) -> None:
        qd.loop_config(block_dim=64)
        for i in range(64):
            for _ in range(x[i]):
                qd.simt.block.sync()
                x[i] = 7
            qd.simt.block.sync()
            x[i] += i

    x = qd.ndarray(qd.i32, 64)
    wait(x)
    assert x[63] == 63
    x.fill(0)
    x[3] = 1
    with pytest.raises(RuntimeError, match="wait in different places"):
        wait(x)
        qd.sync()
    init()

"""Memory of Metal that other libraries share with kernels: capsules of a library in place of torch, whose buffers the driver of
tests/emulators/metal makes. Kernels fault at the addresses of buffers that were not given to them."""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import quadrants as qd
from quadrants._containers import torch_queue
from tests.python.launch.test_device_arrays import DELETER, DlTensor, ManagedVersioned, look, new_capsule

sys.path.append(str(Path(__file__).parents[3] / "tests/emulators/metal"))
import metal_build  # noqa: E402

METAL = 8  # DLPack's number
pytestmark = pytest.mark.skipif(not metal_build.find_compiler(), reason="clang++ is not installed")


@pytest.fixture(autouse=True)
def driver(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    for name, value in metal_build.build().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("FAKE_METAL_LOG", str(tmp_path / "log"))
    library = ctypes.CDLL(metal_build.build()["QD_METAL_DRIVER"])
    library.make_foreign.restype, library.make_foreign.argtypes = ctypes.c_void_p, [ctypes.c_size_t, ctypes.c_void_p]
    library.get_contents.restype, library.get_contents.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
    init()
    yield library
    gc.collect()
    init()  # has its own queue again
    qd.reset()


def init(**options: Any) -> None:
    qd.init(arch=qd.metal, enable_fallback=False, offline_cache=False, log_level="error", **options)


def read_log(tmp_path: Path) -> list[str]:
    """What the driver was asked for since the last call."""
    log = tmp_path / "log"
    words = log.read_text().splitlines() if log.exists() else []
    log.unlink(missing_ok=True)
    return words


class Tensor:
    """Floats in a buffer of another library, from an offset on."""

    def __init__(self, library: Any, values: Any, offset: int = 0, of: Tensor | None = None):
        values = np.asarray(values, np.float32)
        contents = ctypes.c_void_p()
        self.handle = of.handle if of else library.make_foreign(1 << 16, ctypes.byref(contents))
        self.contents = of.contents if of else contents.value
        self.offset, self.shape, self.given = offset, values.shape, 0
        self.array = np.ctypeslib.as_array((ctypes.c_float * values.size).from_address(self.contents + offset)).reshape(self.shape)
        self.array[...] = values
        self.kept: list[Any] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return METAL, 0

    def __dlpack__(self, *, stream: Any = None, max_version: Any = None) -> Any:
        assert stream is None
        shape = (ctypes.c_int64 * len(self.shape))(*self.shape)
        tensor = DlTensor(self.handle, METAL, 0, len(self.shape), 2, 32, 1, shape, None, self.offset)
        managed = ManagedVersioned(1, 0, None, DELETER(self._take_back), 0, tensor)
        self.given += 1
        self.kept.append((shape, managed))
        return new_capsule(ctypes.addressof(managed), b"dltensor_versioned", None)

    def _take_back(self, _: int) -> None:
        self.given -= 1


@qd.kernel
def add(x: qd.types.ndarray(dtype=qd.f32, ndim=1), value: qd.f32) -> None:
    for i in range(x.shape[0]):
        x[i] += value


def test_kernels_change_buffers_of_other_libraries(driver: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_METAL", "slow")
    tensor = Tensor(driver, np.arange(10), offset=512)
    other = Tensor(driver, np.ones(5), offset=4096, of=tensor)
    read_log(tmp_path)
    add(tensor, 0.5)
    assert read_log(tmp_path)[-1:] == ["wait"]  # before the library has it again
    assert tensor.array.tolist() == [i + 0.5 for i in range(10)] and tensor.given == 0
    for _ in range(3):
        add(other, 1.0)
        add(tensor, 1.0)
    assert other.array.tolist() == [4.0] * 5 and tensor.array.tolist() == [i + 3.5 for i in range(10)]

    @qd.kernel
    def copy(to: qd.types.ndarray(dtype=qd.f32, ndim=1), source: qd.types.ndarray(dtype=qd.f32, ndim=1)) -> None:
        for i in source:
            to[i] = source[i]

    copy(tensor, other)  # two parts of one buffer
    assert tensor.array.tolist() == [4.0] * 5 + [i + 3.5 for i in range(5, 10)]


def test_ndarrays_on_buffers_of_other_libraries(driver: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for is_private in (False, True):  # the host cannot access the buffer
        monkeypatch.setenv("FAKE_METAL", "private" if is_private else "")
        tensor = Tensor(driver, np.arange(12).reshape(3, 4), offset=64)
        x = qd.from_dlpack(tensor)
        assert tensor.given == 1 and np.array_equal(x.to_numpy(), np.arange(12).reshape(3, 4))
        x[1, 2] = 50
        qd.sync()
        assert tensor.array[1, 2] == 50
        x.fill(3)
        qd.sync()
        assert (tensor.array == 3).all()
        y = qd.ndarray(qd.f32, (3, 4))
        y.from_numpy(tensor)
        assert (y.to_numpy() == 3).all()
        tensor.array[...] = 4
        with pytest.raises(BufferError, match="mps:0|metal:0"):
            x.__dlpack__(dl_device=(2, 0))
        back = look(capsule := x.__dlpack__())
        assert (back.tensor.data, back.tensor.offset) == (tensor.handle, 64)
        del capsule, x
        gc.collect()
        assert tensor.given == 0


def test_containers_are_buffers_with_offsets_in_capsules(driver: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_METAL", "slow")
    x, y = qd.field(qd.i32, (4, 6)), qd.Vector.ndarray(3, qd.f32, 5)
    large = qd.ndarray(qd.i32, 3 << 20)  # has a buffer of its own
    for container, value in ((x, 0x07070707), (y, 0.0), (large, 0x01010101)):
        container.fill(value)
        read_log(tmp_path)
        capsule = container.__dlpack__(max_version=(1, 0))
        assert read_log(tmp_path) == ["submit"]  # and waits, since the consumer has another queue
        tensor = look(capsule, ManagedVersioned).tensor
        assert (tensor.device_type, tensor.device_id) == (METAL, 0)
        kind = ctypes.c_float if container is y else ctypes.c_int32
        shape = tuple(tensor.list("shape"))
        there = np.ctypeslib.as_array((kind * int(np.prod(shape))).from_address(driver.get_contents(tensor.data) + tensor.offset))
        assert (there == value).all()
        there[...] = 1
        assert (container.to_numpy() == 1).all()
    assert look(first := x.__dlpack__()).tensor.data == look(second := y.__dlpack__()).tensor.data  # parts of one block
    copy = look(third := x.__dlpack__(copy=True)).tensor
    assert copy.offset != look(first).tensor.offset
    del first, second, third


def test_an_own_buffer_comes_back(driver: Any) -> None:
    class Passed:
        def __init__(self, container: Any):
            self.container = container

        def __dlpack_device__(self) -> tuple[int, int]:
            return METAL, 0

        def __dlpack__(self, **options: Any) -> Any:
            return self.container.__dlpack__(max_version=(1, 0))

    x = qd.ndarray(qd.f32, 8)
    add(Passed(x), 2.0)
    twin = qd.from_dlpack(Passed(x))
    add(twin, 1.0)
    assert x.to_numpy().tolist() == [3.0] * 8
    del x, twin
    gc.collect()
    y = qd.ndarray(qd.f32, 8)
    assert y.to_numpy().tolist() == [0.0] * 8


def test_a_queue_that_torch_uses_needs_no_waiting(driver: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels are submitted at once, and torch commits or, if it cannot, waits. Without the option both wait."""
    torch = pytest.importorskip("torch")
    calls: list[str] = []
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    monkeypatch.setattr(torch.mps, "synchronize", lambda: calls.append("synchronize"))
    monkeypatch.setattr(torch_queue, "find_function", lambda name: lambda: calls.append(name))
    monkeypatch.setenv("FAKE_METAL", "slow")
    tensor = Tensor(driver, np.zeros(4))
    for is_torch_queue in (True, False):
        init(external_metal_command_queue=0x1230, external_metal_command_queue_is_torch_queue=is_torch_queue)
        assert qd.cfg.external_metal_command_queue_is_torch_queue == is_torch_queue
        x = qd.ndarray(qd.f32, 4)
        add(x, 0.0)
        add(tensor, 1.0)
        calls.clear()
        read_log(tmp_path)
        add(tensor, 1.0)
        capsule = x.__dlpack__()
        words = read_log(tmp_path)
        assert "submit to the program's queue" in words and "submit" not in words
        assert ("wait" in words) != is_torch_queue
        assert calls == (["_ZN5torch3mps6commitEv"] if is_torch_queue else ["synchronize"])
        del capsule
    init()
    add(qd.ndarray(qd.f32, 4), 1.0)
    qd.sync()
    assert "submit" in read_log(tmp_path)  # to an own queue again
    assert tensor.array.tolist() == [4.0] * 4

    def fail(name: str) -> Any:
        raise OSError(name)

    monkeypatch.setattr(torch_queue, "find_function", fail)
    init(external_metal_command_queue=0x1230, external_metal_command_queue_is_torch_queue=True)
    calls.clear()
    add(tensor, 1.0)
    assert calls == ["synchronize"]


def test_torch_gets_views(driver: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")

    def take(container: Any) -> Any:
        tensor = look(capsule := container.__dlpack__()).tensor
        shape = tuple(tensor.list("shape"))
        array = np.ctypeslib.as_array((ctypes.c_float * int(np.prod(shape))).from_address(driver.get_contents(tensor.data) + tensor.offset))
        del capsule
        return torch.from_numpy(array.reshape(shape))

    x = qd.field(qd.f32, (2, 3))
    x.fill(2)
    with pytest.raises(ValueError, match="Zero-copy not available"):
        x.to_torch(copy=False)  # this torch has no device mps
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    monkeypatch.setattr(torch, "from_dlpack", take)
    monkeypatch.setattr(torch, "__version__", "2.9.1")
    with pytest.raises(ValueError, match="Zero-copy not available"):
        x.to_torch(copy=False)  # it ignores offsets
    monkeypatch.setattr(torch, "__version__", "2.10.0a0+git")
    view = x.to_torch(copy=None)
    view[1, 2] = 5
    assert x[1, 2] == 5


def test_arrays_of_metal_are_refused_elsewhere(driver: Any) -> None:
    tensor = Tensor(driver, np.zeros(4))
    qd.init(arch=qd.cpu, offline_cache=False, log_level="error")
    with pytest.raises(ValueError, match="metal:0"):
        add(tensor, 1.0)


def test_a_lost_device_keeps_nothing(driver: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    tensor = Tensor(driver, np.zeros(4))
    x = qd.from_dlpack(tensor)
    monkeypatch.setenv("FAKE_METAL", "lost")
    with pytest.raises(RuntimeError, match="lost"):
        add(x, 1.0)
        qd.sync()
    monkeypatch.setenv("FAKE_METAL", "")
    init()
    del x
    gc.collect()
    assert tensor.given == 0
    add(tensor, 1.0)
    assert tensor.array[0] >= 1

"""Memory of a GPU that goes to other libraries and comes from them, through DLPack and the CUDA array interface, without any
such library: capsules are read by ctypes here, and given by a class."""

from __future__ import annotations

import ctypes
import gc
from typing import Any, ClassVar

import numpy as np
import pytest

import quadrants as qd
from quadrants import _runtime  # type: ignore[attr-defined]


class DlTensor(ctypes.Structure):
    """After the header of DLPack, as is the next one."""

    _fields_ = [
        ("data", ctypes.c_uint64),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("offset", ctypes.c_uint64),
    ]

    def list(self, what: str) -> list[int]:
        return getattr(self, what)[: self.rank]


DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Managed(ctypes.Structure):
    _fields_ = [("tensor", DlTensor), ("context", ctypes.c_void_p), ("delete", DELETER)]


class ManagedVersioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("delete", DELETER),
        ("flags", ctypes.c_uint64),
        ("tensor", DlTensor),
    ]


get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
get_pointer.restype, get_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype, new_capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


def look(capsule: Any, kind: type = Managed) -> Any:
    """What a capsule holds, which stays in it."""
    name = b"dltensor" if kind is Managed else b"dltensor_versioned"
    return kind.from_address(get_pointer(capsule, name))


class Giving:
    """A library that gives away memory of another container, in capsules of either version."""

    given: ClassVar[list[Any]] = []  # what capsules point to lives as long as the process

    def __init__(self, of: Any, is_versioned: bool, copy: bool = False, **changes: Any):
        self.of, self.is_versioned, self.copy, self.changes = of, is_versioned, copy, changes
        self.streams: list[Any] = []
        self.returned = 0
        self.device = (2, 0)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(self, *, stream: Any = None, **options: Any) -> Any:
        if options and not self.is_versioned:
            raise TypeError("unexpected keyword max_version")
        self.streams.append(stream)
        capsule = self.of.__dlpack__(max_version=(1, 0) if self.is_versioned else None, copy=self.copy)
        source = look(capsule, ManagedVersioned if self.is_versioned else Managed)
        managed = type(source).from_buffer_copy(source)  # ours, with the same memory behind it
        managed.delete = DELETER(self._take_back)
        for name, value in self.changes.items():
            setattr(managed if name == "flags" else managed.tensor, name, value)
        self.given.append((capsule, managed, managed.delete))
        return new_capsule(ctypes.addressof(managed), b"dltensor_versioned" if self.is_versioned else b"dltensor", None)

    def _take_back(self, _: int) -> None:
        self.returned += 1


CODES = {
    qd.u1: (6, 8),
    qd.i8: (0, 8),
    qd.i64: (0, 64),
    qd.u16: (1, 16),
    qd.u32: (1, 32),
    qd.f16: (2, 16),
    qd.f64: (2, 64),
    qd.bf16: (4, 16),
}


@pytest.mark.parametrize("dtype", CODES, ids=str)
def test_capsules_say_what_the_memory_is(driver: Any, dtype: Any) -> None:
    x = qd.Vector.ndarray(3, dtype, (4, 5))
    for given in (look(first := x.__dlpack__()).tensor, look(second := x.__dlpack__(max_version=(1, 2)), ManagedVersioned).tensor):
        assert (given.device_type, given.device_id, given.code, given.bits, given.lanes) == (2, 0, *CODES[dtype], 1)
        assert given.list("shape") == [4, 5, 3] and given.list("strides") == [15, 3, 1]
        assert given.data + given.offset == x._address
    versioned = look(second, ManagedVersioned)
    assert (versioned.major, versioned.flags) == (1, 0)
    del first, second


def test_members_leave_with_their_strides(driver: Any) -> None:
    points = qd.Struct.field({"a": qd.f32, "b": qd.f64}, shape=7)
    points.b.from_numpy(np.arange(7.0))
    given = look(capsule := points.b.to_dlpack()).tensor
    assert given.list("strides") == [2] and given.data == points.b._address
    copy = look(twin := points.b.__dlpack__(copy=True, max_version=(1, 0)), ManagedVersioned)
    assert copy.flags == 2 and copy.tensor.data != given.data and copy.tensor.list("strides") == [2]
    taken = qd.from_dlpack(Giving(points.b, True))
    assert list(taken.to_numpy()) == list(range(7))
    del capsule, twin


def test_capsules_keep_the_memory_until_they_go(driver: Any) -> None:
    gc.collect()
    before = driver.bytes_in_use
    capsules = [qd.ndarray(qd.f32, (1 << 20,)).__dlpack__(max_version=version) for version in (None, (1, 0))]
    assert driver.bytes_in_use >= before + (8 << 20)
    del capsules
    assert driver.bytes_in_use == before
    managed = look(capsule := qd.ndarray(qd.f32, (1 << 20,)).__dlpack__())
    ctypes.pythonapi.PyCapsule_SetName(ctypes.py_object(capsule), b"used_dltensor")  # as a library does that takes it
    del capsule
    assert driver.bytes_in_use >= before + (1 << 20)
    managed.delete(ctypes.addressof(managed))
    assert driver.bytes_in_use == before


@pytest.mark.parametrize("is_versioned", [False, True])
def test_what_comes_is_the_same_memory_until_its_last_owner_goes(driver: Any, is_versioned: bool) -> None:
    x = qd.ndarray(qd.i32, (4, 3))
    source = Giving(x, is_versioned)
    taken = qd.from_dlpack(source)
    assert source.streams == [1] and taken.shape == (4, 3) and taken._device == 0
    taken[2, 1] = 5
    assert x[2, 1] == 5
    window = taken[1:3]
    del taken
    gc.collect()
    assert source.returned == 0 and window[1, 1] == 5
    del window
    assert source.returned == 1
    vectors = qd.Tensor.from_dlpack(source, qd.types.vector(3, qd.i32))
    assert vectors[2].to_list() == [0, 5, 0] and type(qd.wrap(source)) is qd.Tensor
    assert qd.BufferView(Giving(x, is_versioned, rank=1))[0] == 0


def test_read_only_memory_stays_so(driver: Any) -> None:
    x = qd.ndarray(qd.f32, (4,))
    taken = qd.from_dlpack(Giving(x, True, flags=1))
    assert look(capsule := taken.__dlpack__(max_version=(1, 0)), ManagedVersioned).flags == 1
    assert taken.__cuda_array_interface__["data"] == (x._address, True)
    with pytest.raises(BufferError, match="read-only"):
        taken.__dlpack__()
    del capsule


def test_copies_for_the_processor(driver: Any) -> None:
    x = qd.ndarray(qd.f32, (4, 2))
    x.from_numpy(np.arange(8, dtype=np.float32).reshape(4, 2))
    assert np.array_equal(np.from_dlpack(x, device="cpu"), x.to_numpy())
    host = look(capsule := x.__dlpack__(dl_device=(1, 0), max_version=(1, 0)), ManagedVersioned)
    assert (host.flags, host.tensor.device_type) == (2, 1)
    with pytest.raises(BufferError, match=r"is on cuda:0, and there is no capsule without a copy for cpu:0"):
        x.__dlpack__(dl_device=(1, 0), copy=False)
    with pytest.raises(BufferError, match=r"no capsule for cuda:1"):
        x.__dlpack__(dl_device=(2, 1))
    with pytest.raises(BufferError, match=r"no capsule for metal:0"):
        x.__dlpack__(dl_device=(8, 0))
    with pytest.raises(ValueError, match="stream is None, 1"):
        x.__dlpack__(stream=0)
    assert x.__dlpack__(stream=2) is not None
    del capsule


def test_windows_that_go_backward(driver: Any) -> None:
    x = qd.ndarray(qd.i32, (6,))
    x.from_numpy(np.arange(6, dtype=np.int32))
    back = x[::-2]
    with pytest.raises(BufferError, match="runs backward"):  # torch would end the process
        back.__dlpack__()
    _, address, device, _, shape, strides, _ = qd._runtime.import_dlpack(back.__dlpack__(copy=True))
    assert address != back._address and device == (2, 0) and shape == (3,) and strides == (4,)
    assert list(back.to_numpy()) == [5, 3, 1] and x[5:4:-1].__dlpack__() is not None
    taken = qd.from_dlpack(Giving(x, True))[::-2]
    taken.fill(7)
    assert list(x.to_numpy()) == [0, 7, 2, 7, 4, 7]


def test_contents_come_from_arrays_of_the_device(driver: Any) -> None:
    x, y = qd.ndarray(qd.f32, (5,)), qd.ndarray(qd.f64, (5,))
    x.from_numpy(np.arange(5, dtype=np.float32))
    y.from_numpy(Giving(x, True))
    y.copy_from(Giving(x, False))
    assert list(y.to_numpy()) == [0, 1, 2, 3, 4]
    z = qd.ndarray(qd.bf16, (5,))
    z.from_numpy(Giving(x, True))
    y.from_torch(Giving(z, True))
    assert list(y.to_numpy()) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(("device", "where"), [((2, 1), "cuda:1"), ((10, 0), "rocm:0"), ((8, 0), "metal:0"), ((99, 3), "device type 99:3")])
def test_arrays_of_other_devices_are_refused(driver: Any, device: tuple[int, int], where: str) -> None:
    source = Giving(qd.ndarray(qd.f32, (4,)), True)
    source.device = device
    for use in (qd.from_dlpack, qd.wrap, qd.ndarray(qd.f32, (4,)).from_numpy):
        with pytest.raises(ValueError, match=rf"is on {where}, and kernels run on cuda:0: pass a copy there"):
            use(source)


def test_arrays_of_a_gpu_are_refused_on_the_cpu(driver: Any) -> None:
    source = Giving(qd.ndarray(qd.f32, (4,)), True)
    source.__dlpack__()
    qd.init(arch=qd.cpu, log_level="error")
    with pytest.raises(ValueError, match=r"obj is on cuda:0, and kernels run on the CPU: pass a copy there"):
        qd.from_dlpack(source)


def test_elements_that_no_kernel_has_are_refused(driver: Any) -> None:
    x = qd.ndarray(qd.f32, (4,))
    for changes in ({"code": 5, "bits": 64}, {"code": 7, "bits": 8}, {"bits": 4}, {"lanes": 4}):
        with pytest.raises((TypeError, ValueError), match="unsupported array dtype|kernels have no elements"):
            qd.from_dlpack(Giving(x, True, **changes))
    with pytest.raises(ValueError, match="not aligned"):
        qd.from_dlpack(Giving(x, True, offset=2))
    used = x.__dlpack__()
    _runtime.import_dlpack(used)
    with pytest.raises(TypeError, match="an unused DLPack capsule is expected"):
        _runtime.import_dlpack(used)


class Interface:
    """A library that has the CUDA array interface alone."""

    def __init__(self, of: Any, **changes: Any):
        self.__cuda_array_interface__ = {**of.__cuda_array_interface__, **changes}


def test_the_cuda_array_interface_both_ways(driver: Any) -> None:
    field = qd.field(qd.i16, shape=(3, 4))
    field.from_numpy(np.arange(12, dtype=np.int16).reshape(3, 4))
    interface = field.__cuda_array_interface__
    assert (interface["shape"], interface["strides"], interface["typestr"]) == ((3, 4), (8, 2), "<i2")
    assert (interface["data"], interface["stream"], interface["version"]) == ((field._address, False), 1, 3)
    assert qd.from_dlpack(Interface(field)).to_numpy()[2, 3] == 11
    waits = driver.stream_waits
    last = qd.from_dlpack(Interface(field, data=(field._address + 22, True), shape=(3,), strides=(-8,), stream=2))
    assert driver.stream_waits == waits + 1  # the other stream's work comes before ours
    assert list(last.to_numpy()) == [11, 7, 3]
    assert qd.tensor(qd.f32, (2,)).__cuda_array_interface__["shape"] == (2,)


def test_containers_of_the_processor_have_no_interface_of_a_gpu() -> None:
    qd.init(arch=qd.cpu, log_level="error")
    for x in (qd.ndarray(qd.f32, (2,)), qd.tensor(qd.f32, (2,))):
        assert not hasattr(x, "__cuda_array_interface__") and x.__dlpack_device__() == (1, 0)
    given = look(capsule := qd.ndarray(qd.bf16, (2, 3)).__dlpack__()).tensor  # without torch
    assert (given.code, given.bits, given.device_type, given.list("strides")) == (4, 16, 1, [3, 1])
    del capsule

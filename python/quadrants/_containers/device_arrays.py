"""Imports and exports arrays on a GPU through DLPack and the CUDA array interface, without depending on any other library."""

from __future__ import annotations

import math
import re
import sys
from contextlib import nullcontext
from copy import deepcopy
from typing import Any

import numpy as np

from .. import _runtime
from .._base import options as _options
from .._base.arch import GPU_NAMES
from .._base.dtypes import BF16_BITS, bf16, to_numpy_dtype
from .._base.errors import QuadrantsRuntimeError
from . import foreign as _foreign
from .axes import row_major_strides

CPU, CUDA, VULKAN, METAL, ROCM = 1, 2, 7, 8, 10  # DLPack's device types
_READABLE = (CPU, 3)  # memory of the processor, and memory that it shares with a GPU
_NAMES_IN_TORCH = {CUDA: "cuda", ROCM: "cuda", METAL: "mps"}
_ON_GPU = (CUDA, 13, ROCM)
_DEVICE_NAMES = {1: "cpu", 2: "cuda", 3: "pinned memory of cuda", 7: "vulkan", 8: "metal", 10: "rocm", 13: "managed memory of cuda"}
_KINDS = {0: "i", 1: "u", 2: "f", 5: "c", 6: "b"}  # DLPack's type codes, with NumPy's names
_LEGACY_STREAM = 1  # the default stream, which orders all of these operations, in the CUDA array interface
_DEFAULT_STREAMS = {CUDA: _LEGACY_STREAM, ROCM: 0}  # in DLPack


class DeviceArray:
    """Elements on the GPU that kernels run on, and the owner of their memory. Strides are in bytes."""

    def __init__(self, address: int, dtype: np.dtype, shape: tuple[int, ...], strides: tuple[int, ...], is_writable: bool, owner: Any):
        self.address, self.dtype, self.shape, self.strides = address, dtype, shape, strides
        self.is_writable, self.owner = is_writable, owner

    @staticmethod
    def get_own_device() -> tuple[int, int]:
        """Returns DLPack's (type, number) of the GPU that kernels run on."""
        return {"amdgpu": ROCM, "vulkan": VULKAN, "metal": METAL}.get(_options.get("arch"), CUDA), _options.get("device_id")

    @staticmethod
    def get_own_name() -> str:
        """Returns the usual name of that GPU, such as cuda:1."""
        return name_device(DeviceArray.get_own_device())

    @staticmethod
    def has_addresses() -> bool:
        """Whether other libraries know memory of that GPU by its address."""
        return DeviceArray.get_own_device()[0] in _DEFAULT_STREAMS

    @staticmethod
    def is_shared_with(torch: Any) -> bool:
        """Whether torch computes on that GPU, too: it is made for the GPUs of one vendor, or for none."""
        kind = DeviceArray.get_own_device()[0]
        if kind == METAL:
            return torch.backends.mps.is_available() and _has_offsets(torch)
        return kind == (ROCM if torch.version.hip else CUDA) and (torch.cuda.is_initialized() or torch.cuda.is_available())

    @staticmethod
    def name_in_torch() -> str:
        """Returns torch's name of that kind of GPU."""
        return _NAMES_IN_TORCH[DeviceArray.get_own_device()[0]]

    def make_stand_in(self) -> np.ndarray:
        """Returns a NumPy array of this type, shape and strides, whose elements must not be read."""
        array = np.lib.stride_tricks.as_strided(np.empty(1, self.dtype), self.shape, self.strides)
        if not self.is_writable:
            array.flags.writeable = False
        return array

    def borrow(self) -> tuple[_runtime.Buffer, int]:
        """Returns the memory as a buffer that references the owner, and the offset of the first element."""
        reach = [step * (extent - 1) for step, extent in zip(self.strides, self.shape, strict=True)] if math.prod(self.shape) else []
        begin = sum(step for step in reach if step < 0)
        end = sum(step for step in reach if step > 0) + self.dtype.itemsize
        return _runtime.Buffer.borrow_device(self.address + begin, end - begin, self.owner, self.is_writable), -begin

    def fetch(self, dtype: _runtime.DataType) -> np.ndarray:
        """Returns a copy of the elements, which have this type, in memory of the processor."""
        container = _runtime.NdarrayBase(dtype, (), self.shape, self.strides, self.dtype.itemsize, *self.borrow())
        return container._fetch()


def name_device(device: tuple[int, int]) -> str:
    """Returns the usual name of a device with DLPack's numbers, such as cuda:1."""
    kind, number = int(device[0]), int(device[1])
    return f"{_DEVICE_NAMES.get(kind, f'device type {kind}')}:{number}"


def get_device(value: Any) -> tuple[int, int] | None:
    """Returns DLPack's (type, number) of the device of another library's array, or None if the array does not report it."""
    if _foreign.is_tensor(value):
        value = _foreign.plain_tensor(value)
        if value.device.type == "mps":
            return METAL, 0
        if value.device.type != "cuda":
            return None  # other devices are distinguished by their names
        return ROCM if sys.modules["torch"].version.hip else CUDA, value.device.index
    if hasattr(value, "__dlpack_device__"):
        kind, number = value.__dlpack_device__()
        return int(kind), int(number)
    return None


def find_device_array(value: Any, name: str) -> DeviceArray | None:
    """Returns an array on the GPU that kernels run on, ordered after the work that its library has queued; None for anything else.

    Raises `ValueError` for an array on another GPU, `TypeError` for unsupported elements, both with the argument's `name`.
    """
    if isinstance(value, DeviceArray):
        return value
    if _options.get("arch") not in GPU_NAMES or isinstance(value, np.ndarray):
        return None
    device = get_device(value)
    own = DeviceArray.get_own_device()
    if device is not None and device[0] in _DEFAULT_STREAMS and device != own:
        raise ValueError(f"argument {name} is on {name_device(device)}, and kernels run on {name_device(own)}: pass a copy there")
    if device is not None and (device[0] in _ON_GPU or device == own == (METAL, 0)) and hasattr(value, "__dlpack__"):
        return _open_capsule(_ask_capsule(value), name)
    array = None if device is not None else getattr(value, "__cuda_array_interface__", None)
    return None if array is None else _open_interface(array, value)


def refuse_device(value: Any, name: str) -> None:
    """Raises `ValueError` for an array that the processor cannot access."""
    device = get_device(value)
    if device is None or device[0] in _READABLE:
        return
    where = name_device(DeviceArray.get_own_device()) if _options.get("arch") in GPU_NAMES else "the CPU"
    raise ValueError(f"argument {name} is on {name_device(device)}, and kernels run on {where}: pass a copy there")


def _ask_capsule(value: Any) -> Any:
    place: Any = nullcontext()
    kind = DeviceArray.get_own_device()[0]
    if kind == METAL:
        _finish_torch()
    if _foreign.is_tensor(value):
        value = _foreign.plain_tensor(value)
        if kind != METAL:
            place = sys.modules["torch"].cuda.device_of(value)  # torch exports only memory of its current device
        elif value.storage_offset() and not _has_offsets(sys.modules["torch"]):
            raise ValueError("this torch does not tell where in its buffer a tensor on mps begins: pass its .clone()")
    stream = _DEFAULT_STREAMS.get(kind)
    with place:
        try:
            return value.__dlpack__(stream=stream, max_version=(1, 0))
        except TypeError:  # a library from before version 1
            return value.__dlpack__(stream=stream)


def _has_offsets(torch: Any) -> bool:
    """Whether torch's capsules of Metal's memory have offsets, as they do from version 2.9.2 on."""
    return tuple(int(part) for part in re.findall(r"\d+", torch.__version__)[:3]) >= (2, 9, 2)


def _finish_torch() -> None:
    """Orders what torch has recorded for Metal before later kernels: waits, or commits it where both use one queue."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.backends.mps.is_available():
        return
    from . import torch_queue  # which only Metal needs

    if not (_is_queue_of_torch() and torch_queue.commit()):
        torch.mps.synchronize()


def _is_queue_of_torch() -> bool:
    return bool(_options.get("external_metal_command_queue") and _options.get("external_metal_command_queue_is_torch_queue"))


def _open_capsule(capsule: Any, name: str) -> DeviceArray:
    owner, address, _, (code, bits), shape, strides, is_writable = _runtime.import_dlpack(capsule)
    if code == 4 and bits == 16:
        dtype = BF16_BITS
    elif code in _KINDS and bits % 8 == 0:
        dtype = np.dtype(f"{_KINDS[code]}{bits // 8}")
    else:
        raise TypeError(f"unsupported array dtype for argument {name}: DLPack's type code {code} with {bits} bits")
    return DeviceArray(address, dtype, shape, strides, is_writable, owner)


def _open_interface(array: dict[str, Any], value: Any) -> DeviceArray:
    dtype, shape = np.dtype(array["typestr"]), tuple(array["shape"])
    stream = array.get("stream")
    if stream is not None and stream != _LEGACY_STREAM:
        _runtime.order_streams(stream, 0)
    address, is_read_only = array["data"]
    strides = array.get("strides") or row_major_strides(shape, dtype.itemsize)
    return DeviceArray(address, dtype, shape, tuple(strides), not is_read_only, value)


def describe_container(container: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Returns shape and strides in bytes of the scalars of a container; raises `BufferError` if there are no strides."""
    layout = container._qd_layout
    if container._cells is not None:
        raise ViewError("Zero-copy not available: a write through the array would activate no cell of the sparse field")
    if layout.tilings:
        raise ViewError("Zero-copy not available: the field lies in tiles, along which there is no stride")
    shape = layout.element_shape
    inner = tuple(layout.component_stride * math.prod(shape[axis + 1 :]) for axis in range(len(shape)))
    return layout.extents + shape, layout.strides + inner


class ViewError(ValueError, BufferError, QuadrantsRuntimeError):
    """Another library can have no view of the memory of a container."""


def export_capsule(container: Any, stream: Any, max_version: Any, dl_device: Any, copy: bool | None) -> Any:
    """Returns a DLPack capsule of the elements of a container, as the array API defines it; of a copy if requested or
    for another device.
    """
    own = container.__dlpack_device__()
    wanted = own if dl_device is None else (int(dl_device[0]), int(dl_device[1]))
    is_versioned = max_version is not None and int(max_version[0]) >= 1
    if wanted != own and (wanted[0] != CPU or copy is False):
        raise BufferError(
            f"the {container._noun} of {container.dtype} is on {name_device(own)}, and there is no capsule "
            f"{'without a copy ' if copy is False else ''}for {name_device(wanted)}: ask for one there, or copy with to_torch(device)"
        )
    if wanted != own or (copy and own[0] == CPU):
        array = np.array(container._fetch(), order="C")  # a type that NumPy knows only by its size, so this also works for bf16
        place = (array, array.ctypes.data, (CPU, 0))
        return _runtime.export_dlpack(*place, container.dtype, array.shape, array.strides, is_versioned, False, True)
    if own[0] == VULKAN:  # also in place of a copy there
        raise BufferError(
            f"Zero-copy not available: the {container._noun} is in memory that no other library uses; copy it with to_numpy() or to_torch()"
        )
    shape, strides = describe_container(container)
    if 0 not in shape and any(step < 0 and extent > 1 for extent, step in zip(shape, strides, strict=True)):
        if not copy:  # torch aborts the process when it receives such a capsule
            raise ViewError(
                f"Zero-copy not available: the {container._noun} runs backward, and DLPack's consumers take no negative strides; "
                "np.asarray(x) is a view, to_torch() a copy"
            )
        return export_capsule(deepcopy(container), stream, max_version, dl_device, copy)
    owner, address = _runtime.copy_memory(container) if copy else (container._buffer, container._address)
    capsule = _runtime.export_dlpack(
        owner, address, own, container.dtype, shape, strides, is_versioned, not (copy or container._is_writable), bool(copy)
    )
    if not is_versioned and not (copy or container._is_writable):
        raise BufferError(f"the {container._noun} is read-only, which only capsules of version 1 and later can say")
    if own[0] in _DEFAULT_STREAMS:
        _order_consumer(stream, own[0])
    elif not _is_queue_of_torch():
        _runtime.sync()
    return capsule


def _order_consumer(stream: Any, kind: int) -> None:
    """Orders the work that the consumer queues in its stream after the work that is queued here."""
    if stream in (None, _DEFAULT_STREAMS[kind], -1):
        return
    if kind == ROCM and (not isinstance(stream, int) or stream in (1, 2) or stream < 0):
        raise ValueError(f"stream is None, 0 (the default stream), -1 (no order) or a stream of HIP, got {stream!r}")
    if not isinstance(stream, int) or stream < 0 or stream == 0:
        raise ValueError(f"stream is None, 1 (the default stream), 2 (that of the thread), -1 (no order) or a CUDA stream, got {stream!r}")
    _runtime.order_streams(0, stream)


def describe_interface(container: Any) -> dict[str, Any]:
    """Returns the CUDA array interface, version 3, of a container in the memory of a GPU."""
    shape, strides = describe_container(container)
    return {
        "data": (container._address, not container._is_writable),
        "shape": shape,
        "strides": strides,
        "typestr": "<i2" if container.dtype is bf16 else to_numpy_dtype(container.dtype).str,
        "version": 3,
        "stream": _LEGACY_STREAM,
    }

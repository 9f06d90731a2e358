"""Conversion of containers to and from NumPy, torch and libraries with DLPack. The result is a view of the memory; a
copy is a clone of it.
"""

from __future__ import annotations

import importlib
import math
import sys
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import _runtime
from .._base import dtypes as _dtypes
from .._base.dtypes import BF16_BITS, DataType, bf16, find_dtype, store, to_numbers, to_numpy_dtype
from .._base.imports import load
from .._values.matrix import unwrap
from . import foreign as _foreign
from .device_arrays import DeviceArray, describe_interface, export_capsule, find_device_array, refuse_device

HUGE = 4 << 20  # from this number of bytes on, copies use several threads, and their destination huge pages
_CHUNK = 8 << 20


def copy_array(destination: np.ndarray, source: np.ndarray) -> None:
    """Assigns `destination[...] = source` with the language's conversions, on all threads for large arrays."""

    if not destination.flags.writeable:
        raise ValueError("the memory of the container is read-only")  # an error on another thread would not reach the caller

    def work(to: np.ndarray, of: np.ndarray) -> None:
        np.copyto(to, of) if to.dtype == of.dtype else store(to, ..., of)

    if destination.nbytes < HUGE or destination.ndim == 0:
        work(destination, source)
        return
    if destination.dtype == source.dtype and destination.flags.c_contiguous and source.flags.c_contiguous:
        _runtime.copy(destination, source)
        return
    threads = min(_runtime.statistics()["threads"], len(destination))
    rows = max(1, _CHUNK * len(destination) // destination.nbytes)
    starts = iter(range(0, len(destination), rows))  # `next` on an iterator of a range is atomic

    def run() -> None:
        for start in starts:
            work(destination[start : start + rows], source[start : start + rows])

    import threading  # which only large copies need

    workers = [threading.Thread(target=run, daemon=True) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def new_array(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Returns an uninitialized array; large ones use huge pages, because page faults for small pages cost more than the copy."""
    count = math.prod(shape)
    if count * dtype.itemsize < HUGE:
        return np.empty(shape, dtype)
    size = count * dtype.itemsize
    bytes_ = _runtime.NdarrayBase(_runtime.u8, (), (size,), None, None, _runtime.Buffer(size, True))
    return bytes_.view().view(dtype).reshape(shape)


def find_any_array(value: Any, name: str) -> DeviceArray | np.ndarray | None:
    """Returns an array of another library, on the GPU that kernels run on or in memory of the processor; None if `value` is no array."""
    on_device = find_device_array(value, name)
    return find_array(value, name) if on_device is None else on_device


def find_array(value: Any, name: str) -> np.ndarray | None:
    """Returns an array of another library as a NumPy array of the same memory; None if `value` is no array.

    Raises `ValueError` for tensors on other devices, `TypeError` for layouts and types that NumPy lacks, both with the argument's `name`.
    """
    if isinstance(value, np.ndarray):
        try:
            value = _foreign.plain_array(value)
        except TypeError as problem:
            raise TypeError(f"Invalid type for argument {name}, got {problem}") from None
        return value.view(BF16_BITS) if value.dtype.name == "bfloat16" else value
    if _foreign.is_tensor(value):
        return _view_torch(_foreign.plain_tensor(value), name)
    if value is None or isinstance(value, (int, float, list, tuple, str, bytes, dict, np.generic)):
        return None
    if hasattr(value, "__dlpack__"):
        refuse_device(value, name)
        return _view_capsule(value)
    if hasattr(value, "__array_interface__"):
        return np.asarray(value)
    try:
        return np.asarray(memoryview(value))
    except TypeError:
        return None


def _view_capsule(value: Any) -> np.ndarray:
    """Returns the array that a library exports through DLPack. Raises `BufferError` if the export is a copy."""
    try:
        return np.from_dlpack(value, copy=False)
    except TypeError:  # NumPy before 2.1, or a library from before version 1: neither has the parameter `copy`
        return np.from_dlpack(value)


def _view_torch(tensor: Any, name: str) -> np.ndarray:
    if tensor.device.type != "cpu":
        raise ValueError(f"kernels on the CPU take CPU tensors, got one on {tensor.device} for argument {name}: pass its .cpu()")
    torch = sys.modules["torch"]
    try:
        is_bf16 = tensor.dtype is torch.bfloat16
        array = tensor.view(torch.int16).numpy().view(BF16_BITS) if is_bf16 else tensor.numpy()
    except (TypeError, RuntimeError) as error:
        what = f"{str(tensor.layout).removeprefix('torch.')} tensor of {str(tensor.dtype).removeprefix('torch.')}"
        raise TypeError(
            f"Invalid type for argument {name}, got a {what}: its memory cannot be seen as an array; pass a plain dense tensor "
            "(.to_dense(), .resolve_neg(), .to(torch.float32))"
        ) from error
    if array.size and not tensor.untyped_storage().nbytes():
        raise ValueError(f"the tensor for argument {name} has no memory: its storage was given back (resized to 0 bytes)")
    if array.size and any(step == 0 and extent > 1 for step, extent in zip(array.strides, array.shape, strict=True)):
        array.flags.writeable = False  # an expanded tensor: several elements share one address
    return array


def as_array(value: Any) -> np.ndarray:
    """Returns anything array-like as a NumPy array: containers, host vectors, lists, torch tensors of any device and type."""
    if isinstance(value, (_runtime.FieldBase, _runtime.NdarrayBase)):
        return to_numbers(value._read())  # type: ignore[union-attr]  # every container has the methods below
    if _foreign.is_tensor(value):
        torch, value = sys.modules["torch"], _foreign.plain_tensor(value)
        if value.device.type == "meta":
            raise ValueError("a tensor on the device meta has no elements to copy")
        value = (value if value.layout is torch.strided else value.to_dense()).cpu().resolve_neg()
        return _view_torch(value.float() if value.dtype is torch.bfloat16 else value, "arr")
    if (on_device := find_device_array(value, "the array")) is not None:
        return to_numbers(on_device.fetch(element_dtype(on_device.make_stand_in(), "the array")))
    found = find_array(value, "the array")
    return np.asarray(unwrap(value)) if found is None else found


def load_device_copies() -> Any:
    return load("quadrants._library.device_copies")  # on first use, because its kernels need the whole package


def _as_numbers(bits: np.ndarray, copy: bool | None) -> np.ndarray:
    """Returns the elements of a bf16 array for NumPy: in the type of the package ml_dtypes if that is installed, else a copy as float32."""
    try:
        bfloat16 = importlib.import_module("ml_dtypes").bfloat16  # an optional package, for programs with such elements
    except ImportError:
        if copy is False:
            raise ValueError("Zero-copy not available: NumPy has no bfloat16 without the package ml_dtypes") from None
        return _dtypes.from_bf16(bits)
    return bits.view(bfloat16)


def _as_tensor(torch: Any, array: np.ndarray) -> Any:
    return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16) if array.dtype == BF16_BITS else torch.from_numpy(array)


def _find_default_device(torch: Any) -> Any:
    """Returns torch's default device, None for the processor where that is cheap to know."""
    # A default device is a mode for calls; get_default_device costs several times a small copy.
    count_modes = getattr(torch._C, "_len_torch_function_stack", None)
    return None if count_modes is not None and count_modes() == 0 else torch.get_default_device()


class InteropMethods(_runtime._Container if TYPE_CHECKING else object):
    """Methods of containers for other libraries. All of them use `view`, a NumPy array of the memory that keeps the memory allocated."""

    _noun = "container"
    _name: str  # of a field
    _squeezes_columns = False  # export matrices of one column as vectors
    _may_run_backward = True  # negative strides, which torch lacks
    _cells: Any = None  # those of a field in a sparse node
    _quant: Any = None  # the type of the elements of a quantized field
    _list: Any = None  # the node of a field of lists

    def _shaped_view(self, keep_dims: bool, is_kept: bool = False) -> np.ndarray:
        """Returns the view in the shape of results, with or without the second axis of one-column elements. With `is_kept`, the caller may
        write to it.
        """
        return self._in_shape(self.view() if is_kept else self._read(), keep_dims)

    def _read(self) -> np.ndarray:
        """Returns the elements: a view of memory of the host, else a copy."""
        packed = None if self._device is None else load_device_copies().pack(self)
        return self._fetch() if packed is None else packed._fetch()

    def _in_shape(self, elements: Any, keep_dims: bool) -> Any:
        if len(self.element_shape) == 1 and keep_dims:
            return elements[..., None]
        is_squeezed = self._squeezes_columns and not keep_dims and self.element_shape[1:] == (1,)
        return elements[..., 0] if is_squeezed else elements

    def _export(self, keep_dims: bool, dtype: Any, copy: Any, out: np.ndarray | None = None) -> np.ndarray:
        """The only export: the view if `copy` is None or False and it suits the request, else a packed copy."""
        if copy is True and dtype is None and out is None and (elements := self._copy_out()) is not None:
            return self._in_shape(elements, keep_dims)
        if (copy is False or copy is None) and dtype is None and out is None and self._has_view:  # fast path
            view = self._shaped_view(keep_dims, is_kept=True)
            return _as_numbers(view, copy) if view.dtype == BF16_BITS else view
        if copy is not True and copy is not False and copy is not None:
            raise ValueError(f"copy is True, False or None, got {copy!r}")
        if copy is False or (copy is None and self._has_view):
            self.view()  # raises if there is no view; a caller that holds the view may write to it at any time
        view = self._shaped_view(keep_dims)
        if view.dtype == BF16_BITS and dtype is not BF16_BITS:
            view = _as_numbers(view, copy)
        wanted = view.dtype if dtype in (None, bf16) else to_numpy_dtype(dtype)
        if wanted != view.dtype and copy is False:
            raise self._need_copy(f"copy=False is incompatible with dtype conversion, and {wanted} was asked for")
        is_memory = self._cells is not None  # to which a write would activate no cell
        if wanted == view.dtype and out is None and not self._has_view and not is_memory:
            return np.asarray(view, order="C")  # already a copy
        if wanted == view.dtype and not copy and out is None and not is_memory:
            return view
        if out is None:
            out = new_array(view.shape, wanted)
        elif out.shape != view.shape:
            raise ValueError(f"Mismatch shape: {view.shape} expected, but {out.shape} provided")
        if out.dtype == view.dtype and wanted == view.dtype:
            copy_array(out, view)
        else:
            out[...] = view.astype(wanted)
        return out

    def _need_copy(self, why: str) -> Exception:
        device = "cpu" if self._device is None else DeviceArray.get_own_name()
        return ValueError(f"Zero-copy not available: {why} (the {self._noun} of {self.dtype} is on the device {device})")

    @_runtime.fast_to_numpy
    def to_numpy(
        self, dtype: Any = None, *, copy: bool | None = True, keep_dims: bool = False, out: np.ndarray | None = None
    ) -> np.ndarray:
        """Return the elements as a NumPy array of shape `shape + element_shape`.

        Args:
            dtype: NumPy or Quadrants type to convert to; None: unchanged.
            copy: True returns a new array; False a view of the memory, so that kernels and the array see each other's assignments, or
                raises `ValueError` if no view is possible; None returns a view if possible, else a copy.
            keep_dims: give vector elements a second axis of length one.
            out: an array of the same shape that is filled instead of a new one.

        Warns that the array of a field of lists (`dynamic`) has zeros after the end of each list.
        """
        self._warn_of_lists()
        return self._export(keep_dims, dtype, copy, out)

    def _warn_of_lists(self) -> None:
        """Warns the caller of the method that calls this one."""
        if self._list is not None:
            text = f"the lists of the field {self._name!r} have different lengths: after the end of a list, the array has zeros"
            warnings.warn(text, stacklevel=3)

    @_runtime.fast_to_torch
    def to_torch(self, device: Any = None, *, copy: bool | None = True, keep_dims: bool = False, dtype: Any = None, out: Any = None) -> Any:
        """Return the elements as a torch tensor of shape `shape + element_shape`; `copy`, `keep_dims`, `dtype` and `out` as for `to_numpy`.

        A view is on the device of the memory; a copy is on `device`, or on torch's default device if that is None.
        """
        return self._export_torch(device, copy, keep_dims, dtype, out)

    def _export_torch(self, device: Any, copy: bool | None, keep_dims: bool, dtype: Any, out: Any) -> Any:
        torch = sys.modules.get("torch") or _dtypes.import_torch()
        is_default = device is None and dtype is None and out is None
        if is_default and copy is True and self._device is None and _find_default_device(torch) is None:  # fast path
            if (elements := self._copy_out()) is not None:
                return torch.from_numpy(self._in_shape(elements, keep_dims))
        if is_default and (copy is False or copy is None) and self._has_view:  # fast path
            view = self._shaped_view(keep_dims, is_kept=True)
            if not self._may_run_backward or min(view.strides, default=0) >= 0:
                return torch.from_numpy(view) if self._dtype is not bf16 else _as_tensor(torch, view)
        if self._device is not None and out is None and DeviceArray.is_shared_with(torch):
            return self._torch_on_device(torch, device, copy, keep_dims, dtype)
        if self._device is not None and copy is False and not self._has_view:
            raise self._need_copy("this torch does not compute on the GPU")
        target = torch.device(device) if device is not None else _find_default_device(torch) if copy is True else None
        if target is not None and target.type == "meta":
            raise ValueError("a tensor on the device meta has no elements to copy to")
        leaves = target is not None and target.type != "cpu"
        if leaves and copy is False:
            raise self._need_copy(f"copy=False is incompatible with device transfer, and {target} was asked for")
        dtype = str(dtype).removeprefix("torch.") if type(dtype) is torch.dtype else dtype
        is_bf16 = self._dtype is bf16 and (dtype is None or find_dtype(dtype) is bf16)
        dtype = BF16_BITS if is_bf16 else dtype
        if out is not None:
            return out.copy_(_as_tensor(torch, self._export(keep_dims, dtype, None)))
        array = self._export(keep_dims, dtype, None if leaves else copy)
        if min(array.strides, default=0) < 0:
            if copy is False:
                raise self._need_copy("torch has no negative strides")
            array = array.copy()
        tensor = _as_tensor(torch, array)
        return tensor.to(target) if leaves else tensor

    def _torch_on_device(self, torch: Any, device: Any, copy: bool | None, keep_dims: bool, dtype: Any) -> Any:
        if copy is False and self._quant is not None:
            raise self._need_copy("the elements are parts of words")
        own = DeviceArray.name_in_torch()
        if copy and dtype is None and (made := self._copy_to_tensor(torch, own, device)) is not None:
            return self._in_shape(made, keep_dims)
        # Blocked layouts have no strides, and torch has no negative ones.
        has_view = self._quant is None and not self._qd_layout.tilings and min(self._qd_layout.strides, default=0) >= 0
        if has_view or copy is False:
            view = torch.from_dlpack(self)
        else:
            view = _as_tensor(torch, np.array(self._fetch(), order="C")).to(f"{own}:{self._device}")
        view = self._in_shape(view, keep_dims)
        wanted = view.dtype if dtype is None else dtype if type(dtype) is torch.dtype else _dtypes.to_torch_dtype(dtype)
        target = view.device if device is None else torch.device(device)
        if copy is False and (target.type != own or target.index not in (None, self._device) or wanted != view.dtype):
            raise self._need_copy(f"{wanted} on {target} was asked for")
        result = view.to(target, wanted)
        is_copy = result.data_ptr() != view.data_ptr()
        return result.clone(memory_format=torch.contiguous_format) if copy and not is_copy else result

    def _copy_to_tensor(self, torch: Any, own: str, device: Any) -> Any:
        """Returns a new tensor with the elements on the device of the container; None if another one is asked for, or the copy needs more
        than a kernel.
        """
        if device is not None and not ((target := torch.device(device)).type == own and target.index in (None, self._device)):
            return None
        shape = self._live_shape + self.element_shape
        made = torch.empty(shape, dtype=_dtypes.to_torch_dtype(self._dtype), device=f"{own}:{self._device}")
        return made if self._copy_to(made) or load_device_copies().copy_to_tensor(self, made) else None

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """CUDA array interface, version 3, of the memory on a GPU."""
        if self._device is None or not DeviceArray.has_addresses():
            raise AttributeError(f"the {self._noun} is not in memory that other libraries use on a GPU")
        return describe_interface(self)

    @_runtime.fast_from_numpy
    def from_numpy(self, arr: Any) -> None:
        """Copy the elements of an array of shape `shape + element_shape`, converting like an assignment.

        Accepts NumPy arrays, torch tensors, nested lists, and objects with DLPack, the array interface or the buffer protocol. Raises
        `TypeError` if `arr` is no array of numbers, `ValueError` for a wrong shape.
        """
        if self._try_copy(arr) or (self._device is not None and load_device_copies().copy_from_device(self, arr)):
            return
        if isinstance(arr, (str, bytes)) or arr is None:
            raise TypeError(f"numpy.ndarray or an array-like object expected, got {type(arr).__name__}")
        source, own = as_array(arr), self._live_shape + self.element_shape
        if source.shape != own and not self._is_column(source.shape):
            raise ValueError(
                f"Mismatch shape: {own} expected, but {source.shape} provided "
                f"(the {self._noun} of shape {self.shape} with elements of shape {self.element_shape} does not match the numpy array shape)"
                f": pass an array with {math.prod(own)} numbers in this shape"
            )
        self._overwrite(source.reshape(own))

    def _overwrite(self, source: np.ndarray) -> None:
        """Assigns all elements from an array of the same shape."""
        if self._cells is not None:
            return self._cells.overwrite(self, source)
        if self._device is not None and (self._try_copy(source) or load_device_copies().copy_from_host(self, source)):
            return
        elements = self._fetch(None, True)
        copy_array(elements, source)
        self._flush(elements)

    @_runtime.fast_from_numpy
    def from_torch(self, arr: Any) -> None:
        """Copy the elements of `arr`, a torch tensor; same as `from_numpy`."""
        self.from_numpy(arr)

    def _is_column(self, shape: tuple[int, ...]) -> bool:
        """Whether an array of this shape stores vectors as matrices of one column or row, or matrices of one column as vectors."""
        own = self._live_shape + self.element_shape
        if len(self.element_shape) == 1 and shape == (*own[:-1], 1, own[-1]):
            return True
        return bool(self.element_shape) and (shape == (*own, 1) or (own[-1] == 1 and len(self.element_shape) == 2 and shape == own[:-1]))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """Implements NumPy's conversion: a view of the memory, or a copy if one is requested or the type differs."""
        if dtype is not None and np.dtype(dtype) != to_numpy_dtype(self._dtype) and copy is False:
            raise ValueError("a conversion of the data type needs a copy")
        if self._dtype is bf16:
            return self._export(False, dtype, copy)
        elements = self.view() if copy is False or (self._has_view and not copy) else self._read()
        is_copied = dtype is not None or (copy and self._has_view) or self._cells is not None
        return np.array(elements, dtype) if is_copied else elements

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """NumPy's array interface, version 3, of the memory."""
        if not self._has_view or self._dtype is bf16:
            raise AttributeError(f"the {self._noun} is in the memory of a GPU, in tiles, sparse, or of type bf16")
        return self.view().__array_interface__

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """Return a DLPack capsule of the memory, which it keeps allocated.

        Args:
            stream: for memory on a GPU, the CUDA stream of the consumer, which waits for earlier launches: None or 1 for the default
                stream, 2 for the stream of the thread, -1 for no ordering.
            max_version: the newest version of DLPack that the consumer supports; from (1, 0) on, the capsule has version 1.
            dl_device: (type, number) of the device that the consumer requests: the container's own, or (1, 0) for a copy on the CPU.
            copy: True returns a capsule of a copy; False raises `BufferError` if a copy is needed.
        Raises:
            BufferError: such a capsule is impossible.
        """
        view = self.view() if self._has_view and self._dtype is not bf16 else None
        if view is not None and min(view.strides, default=0) >= 0:
            options = {"stream": stream, "max_version": max_version, "dl_device": dl_device, "copy": copy}
            return view.__dlpack__(**{name: value for name, value in options.items() if value is not None})
        return export_capsule(self, stream, max_version, dl_device, copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return DLPack's (type, number) of the device that holds the memory."""
        return (1, 0) if self._device is None else (DeviceArray.get_own_device()[0], self._device)

    def to_dlpack(self, versioned: bool = False) -> Any:
        """Return a DLPack capsule, of version 1 if `versioned` is set. It keeps the memory allocated until it is consumed or dropped."""
        return self.__dlpack__(max_version=(1, 0) if versioned else None)


def element_dtype(array: np.ndarray, name: str) -> DataType:
    """Returns the data type of an array's elements; raises `TypeError` with the reason if kernels do not support it."""
    found = _dtypes.from_numpy_dtype(array.dtype)
    if found is None:
        order = " (its byte order is not the machine's)" if array.dtype.byteorder in "<>" and array.dtype.kind in "fiu" else ""
        raise TypeError(f"unsupported array dtype {array.dtype}{order} for argument {name}: convert it by .astype(...) to a type of qd")
    return found

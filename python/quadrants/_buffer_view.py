"""Views: windows of ndarrays with one axis, `array[start:stop]`. Kernels read where a view begins and ends at each launch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ._dtypes import find_dtype, store
from ._errors import QuadrantsRuntimeTypeError
from ._matrix import unwrap
from ._ndarray import Ndarray
from ._runtime import TensorBase
from ._types import MatrixType

_BOUNDARIES = ("unsafe", "clamp")


class BufferViewType:
    """Annotation of parameters that take views: `qd.BufferView`, or `qd.BufferView[dtype]` for views of elements of one type."""

    def __init__(self, dtype: Any = None, boundary: str = "unsafe"):
        if boundary not in _BOUNDARIES:
            raise ValueError(f"Invalid boundary argument {boundary!r}: valid options are {', '.join(_BOUNDARIES)}")
        if boundary == "clamp":
            raise ValueError(
                "Invalid boundary argument 'clamp': views of the CPU backend take 'unsafe' only; debug mode checks every index"
            )
        if dtype is not None and not isinstance(dtype, MatrixType) and find_dtype(dtype) is None:
            raise TypeError(f"Invalid data type {dtype!r} of a BufferView")
        self.dtype = dtype if dtype is None or isinstance(dtype, MatrixType) else find_dtype(dtype)

    def __repr__(self) -> str:
        return f"BufferViewType(dtype={self.dtype}, boundary=0)"

    def check(self, name: str, value: Any) -> BufferView:
        """The view given for a parameter; a whole ndarray or an object of another kind is refused, and so is a wrong element type."""
        if not isinstance(value, BufferView):
            raise QuadrantsRuntimeTypeError(f"Argument {name} expects a BufferView, got {type(value).__name__}")
        if self.dtype is not None and value.arr.element_type != self.dtype:
            raise TypeError(f"Expect element type {self.dtype} for argument {name}, but get {value.arr.element_type}")
        return value


class BufferView:
    """A window of an ndarray with one axis: nothing is copied, and the array stays alive. Args: the array, first element, how many."""

    __slots__ = ("arr", "offset", "size")

    def __init__(self, arr: Any, offset: int, size: int):
        arr = arr._impl if isinstance(arr, TensorBase) else arr
        if isinstance(arr, BufferView):
            raise TypeError("Cannot nest BufferView: use subview(offset, size)")
        if not isinstance(arr, Ndarray):
            raise TypeError(f"BufferView takes an ndarray, got {type(arr).__name__}")
        if len(arr.shape) != 1:
            raise TypeError(f"BufferView takes a 1D ndarray, got one with {len(arr.shape)} axes")
        self.arr, self.offset, self.size = arr, int(offset), int(size)
        if self.offset < 0 or self.size < 0 or self.offset + self.size > arr.shape[0]:
            raise ValueError(f"BufferView out of range: offset={self.offset}, size={self.size}, ndarray length={arr.shape[0]}")

    def __class_getitem__(cls, items: Any) -> BufferViewType:
        return BufferViewType(*items) if isinstance(items, tuple) else BufferViewType(items)

    def subview(self, offset: int, size: int) -> BufferView:
        """A window of this window."""
        offset, size = int(offset), int(size)
        if offset < 0 or size < 0 or offset + size > self.size:
            raise ValueError(f"subview out of range: offset={offset}, size={size}, parent size={self.size}")
        return BufferView(self.arr, self.offset + offset, size)

    def get_ndarray(self) -> Ndarray:
        """The array that the view is of."""
        return self.arr

    @property
    def shape(self) -> tuple[int]:
        """(size,)"""
        return (self.size,)

    @property
    def dtype(self) -> Any:
        """Data type of the elements' components."""
        return self.arr.dtype

    @property
    def element_shape(self) -> tuple[int, ...]:
        """Shape of one element: () of numbers."""
        return self.arr.element_shape

    @property
    def grad(self) -> BufferView | None:
        """The same window of the array's gradient."""
        return None if self.arr.grad is None else BufferView(self.arr.grad, self.offset, self.size)

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[Any]:
        return (self[index] for index in range(self.size))

    def _position(self, key: Any) -> int:
        if isinstance(key, bool) or not hasattr(key, "__index__"):
            raise TypeError(f"a BufferView is indexed with an integer or a slice, got {type(key).__name__}")
        index = key.__index__()
        if not -self.size <= index < self.size:
            raise IndexError(f"index {index} is out of range of a view of {self.size} elements")
        return self.offset + index % self.size

    def __getitem__(self, key: Any) -> Any:
        if not isinstance(key, slice):
            return self.arr[self._position(key)]
        start, stop, step = key.indices(self.size)
        if step != 1:
            raise ValueError("slicing a BufferView requires step=1")
        return self.subview(start, max(stop - start, 0))

    def __setitem__(self, key: Any, value: Any) -> None:
        if isinstance(key, slice):
            self[key].fill(value)
        else:
            self.arr[self._position(key)] = value

    def _memory(self) -> np.ndarray:
        return self.arr._fetch()[self.offset : self.offset + self.size]

    def _store(self, value: Any) -> None:
        elements = self.arr._fetch()
        store(elements[self.offset : self.offset + self.size], ..., value)
        self.arr._flush(elements)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self._memory(), dtype, copy=copy)

    def to_numpy(self) -> np.ndarray:
        """The elements as a new NumPy array."""
        return self._memory().copy()

    def from_numpy(self, array: Any) -> None:
        """Write the elements from an array of the same shape."""
        source = np.asarray(array)
        if source.shape != self._memory().shape:
            raise ValueError(f"an array of shape {self._memory().shape} is expected, got {source.shape}")
        self._store(source)

    def fill(self, value: Any) -> None:
        """Set every element."""
        self._store(unwrap(value))

    def copy_from(self, other: Any) -> None:
        """Write the elements from another view or array of the same shape."""
        self.from_numpy(other.to_numpy() if hasattr(other, "to_numpy") else other)

    def __repr__(self) -> str:
        return f"BufferView(dtype={self.arr.element_type}, offset={self.offset}, size={self.size})"

    def __eq__(self, other: object) -> Any:
        if not isinstance(other, BufferView):
            return NotImplemented
        return self.arr is other.arr and (self.offset, self.size) == (other.offset, other.size)

    def __hash__(self) -> int:
        return hash((id(self.arr), self.offset, self.size))


def slice_array(array: Ndarray, key: slice) -> BufferView:
    """`array[start:stop]` of an ndarray with one axis, by Python's rules for slices."""
    start, stop, step = key.indices(array.shape[0])
    if step != 1:
        raise ValueError("slicing an ndarray into a BufferView requires step=1")
    return BufferView(array, start, max(stop - start, 0))


Ndarray._sliced = slice_array

"""Views: subviews of arrays, `array[start:stop, ...]`, on the same memory. Kernels read the address of a view at each launch."""

from __future__ import annotations

from typing import Any

from .. import _runtime
from .._values.types import NdarrayType
from .container import Extents
from .interop import find_any_array
from .ndarray import Ndarray, from_dlpack


class BufferViewType(NdarrayType):
    """Annotation of parameters that accept views: `qd.BufferView`, `qd.BufferView[dtype]`, `qd.BufferView[dtype, ndim]`.

    Args:
        dtype: data type, or vector or matrix type, of the elements; None: that of the argument.
        ndim: number of axes; None: that of the argument.
        boundary: "unsafe", or "clamp" to clamp each index into the view.
    """

    __slots__ = ()

    def __init__(self, dtype: Any = None, ndim: int | str | None = None, boundary: str = "unsafe"):
        if isinstance(ndim, str):
            ndim, boundary = None, ndim
        super().__init__(dtype, ndim, boundary=boundary)

    @property
    def ndarray_type(self) -> NdarrayType:
        """Returns the annotation of the elements."""
        return self

    def __repr__(self) -> str:
        return f"BufferViewType(dtype={self.dtype}, boundary={int(self.boundary == 'clamp')})"


class BufferView(Extents, Ndarray):
    """A subview of an array: no element is copied, and the array stays allocated.

    `array[a:b, ...]` makes one from any container. This constructor makes one of `size` elements, beginning with the element `offset`, from
    anything with one axis: an ndarray, field, tensor, NumPy array, torch tensor or view. Without `size`, and for arrays with more axes, it
    is the whole array.

    Raises `TypeError` if the argument is no array, `ValueError` for elements outside of it.
    """

    arr: Any
    """The array that contains the view."""
    offset: int
    """Number of its first element in `arr`, whose elements are numbered row by row."""
    strides: tuple[int, ...]
    """Distance between the numbers of neighbors, for each axis."""
    _parent: Any
    _key: Any
    __slots__ = ("_key", "_parent", "arr", "offset", "strides")
    _noun = "view"

    def __init__(self, arr: Any, offset: int = 0, size: int | None = None):
        container = arr._impl if isinstance(arr, _runtime.TensorBase) else arr
        if not isinstance(container, (_runtime.FieldBase, _runtime.NdarrayBase)):
            array = None if isinstance(arr, (list, tuple)) else find_any_array(arr, "arr")
            if array is None:
                raise TypeError(f"BufferView takes an array, got {type(arr).__name__}")
            container = from_dlpack(array)
        offset, rank = int(offset), len(container._live_shape)
        if rank != 1 and (offset or size is not None):
            raise TypeError(f"BufferView takes a 1D array with an offset and a size, got one with {rank} axes: slice it instead")
        length = container.shape[0] if rank == 1 else 0
        size = length - offset if size is None else int(size)
        if offset < 0 or size < 0 or offset + size > length:
            raise ValueError(f"BufferView out of range: offset={offset}, size={size}, ndarray length={length}")
        first = offset + (container._offset[0] if rank == 1 and container._offset else 0)
        _runtime.init_subview(self, container, slice(first, first + size) if rank == 1 else ...)
        if container is not arr and not isinstance(arr, _runtime.TensorBase):
            self.arr = arr

    def __class_getitem__(cls, items: Any) -> BufferViewType:
        return BufferViewType(*items) if isinstance(items, tuple) else BufferViewType(items)

    @property
    def _element_type(self) -> Any:  # type: ignore[override]
        return self._parent._element_type

    def subview(self, offset: int, size: int) -> BufferView:
        """Return `size` elements of this view, which has one axis, beginning with the element `offset`. Raises
        `ValueError` outside of it.
        """
        offset, size = int(offset), int(size)
        if len(self.shape) != 1:
            raise TypeError(f"subview is of a 1D view, got one with {len(self.shape)} axes: slice it instead")
        if offset < 0 or size < 0 or offset + size > self.size:
            raise ValueError(f"subview out of range: offset={offset}, size={size}, parent size={self.size}")
        return self[offset : offset + size]

    def subscript(self, *indices: int) -> Any:
        """Return the element at these indices."""
        return self[indices]

    def get_ndarray(self) -> Any:
        """Return the array that contains the view."""
        return self.arr

    def _shadow(self, which: str) -> BufferView | None:
        found = getattr(self._parent, which)
        return None if found is None or not found._is_placed() else found[self._key]

    grad = property(lambda self: self._shadow("grad"), doc="The same part of the array's gradient, or None.")  # type: ignore[assignment]
    dual = property(lambda self: self._shadow("dual"), doc="The same part of the array's tangents, or None.")  # type: ignore[assignment]

    def _has(self, which: str) -> bool:
        return self._parent._has(which)

    def _head(self) -> str:
        place = f"size={self.size}" if self.strides == (1,) else f"shape={self.shape}, strides={self.strides}"
        return f"BufferView(dtype={self._element_type}, offset={self.offset}, {place})"

    __repr__ = _head

    def __eq__(self, other: object) -> Any:
        return self._identity() == other._identity() if isinstance(other, BufferView) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._identity())

    def _identity(self) -> tuple[Any, ...]:
        return (id(self.arr), self.offset, self.shape, self.strides)


_runtime.set_subview_type(BufferView)

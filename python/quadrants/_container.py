"""What fields and ndarrays have in common: filling, copying, and the way to and from NumPy and torch."""

from __future__ import annotations

import math
import os
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from . import _options, _runtime
from ._dtypes import DataType, store, to_dtype, to_numpy_dtype
from ._errors import QuadrantsShapeError
from ._matrix import Matrix, unwrap, view_of
from ._types import MatrixType

_HUGE = 4 << 20  # from here on copies are worth threads, and their destination huge pages
_CHUNK = 8 << 20


def scalar_dtype(element: Any) -> DataType:
    """Data type of the components of an element type."""
    return to_dtype(element.dtype if isinstance(element, MatrixType) else element)


def element_shape_of(element: Any) -> tuple[int, ...]:
    """() of a scalar, (n,) of a vector, (n, m) of a matrix."""
    shape = element.shape if isinstance(element, MatrixType) else ()
    if None in shape:
        raise ValueError(f"the elements of a container need a known shape, got {element!r}")
    return shape


def copy_array(destination: np.ndarray, source: np.ndarray) -> None:
    """`destination[...] = source` with the language's conversions, on all threads when there is much of it."""

    def work(to: np.ndarray, of: np.ndarray) -> None:
        np.copyto(to, of) if to.dtype == of.dtype else store(to, ..., of)

    if destination.nbytes < _HUGE or destination.ndim == 0:
        work(destination, source)
        return
    count = os.cpu_count() or 1
    threads = min(_options.get("cpu_max_num_threads") or count, count, len(destination))
    rows = max(1, _CHUNK * len(destination) // destination.nbytes)
    starts = iter(range(0, len(destination), rows))  # `next` on an iterator of a range is atomic

    def run() -> None:
        for start in starts:
            work(destination[start : start + rows], source[start : start + rows])

    workers = [threading.Thread(target=run, daemon=True) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def new_array(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """An uninitialised array; large ones lie on huge pages, because faulting in small pages costs more than the copy."""
    count = math.prod(shape)
    if count * dtype.itemsize < _HUGE:
        return np.empty(shape, dtype)
    bytes_ = _runtime.NdarrayBase(_runtime.u8, (), (count * dtype.itemsize,))
    return bytes_.view().view(dtype).reshape(shape)


def as_array(value: Any) -> np.ndarray:
    """Anything array-like as a NumPy array, torch tensors and containers included."""
    if isinstance(value, ContainerMethods):
        return value.view()
    if type(value).__module__ == "torch":
        return value.detach().cpu().numpy()
    return np.asarray(unwrap(value))


class ContainerMethods:
    """Methods of every container. The bound base class has the memory (`view`) and the fast element access."""

    _element_type: Any
    _order: tuple[int, ...] | None = None
    _needs_grad = False  # declared so, before there is memory
    _is_soa = False  # components in blocks of their own
    _leaf: Any = None  # the node of a tree that the container is placed in
    _name = ""
    _state: str
    _noun = "container"
    shape: tuple[int, ...]
    element_shape: tuple[int, ...]
    dtype: DataType
    view: Callable[[], np.ndarray]

    @property
    def layout(self) -> tuple[int, ...] | None:
        """Axes from the outermost in memory to the innermost, or None when that is their own order."""
        return self._order

    def has_grad(self) -> bool:
        """Whether gradient storage is allocated."""
        return self._has("grad")

    def has_dual(self) -> bool:
        """Whether tangent storage is allocated."""
        return self._has("dual")

    def _has(self, which: str) -> bool:
        companion = vars(self).get(which)
        return companion is not None and companion._is_placed()

    def _is_placed(self) -> bool:
        return self._leaf is not None or self._state != "unplaced"

    @property
    def snode(self) -> Any:
        """The place of the container in a tree of nodes, or None."""
        return self._leaf

    _snode = snode

    def parent(self, n: int = 1) -> Any:
        """The n-th node above: 1 is the array of cells that hold the elements; None above the root."""
        return None if self._leaf is None else self._leaf.parent(n)

    def _leaves(self) -> Iterator[Any]:
        yield self  # as a struct field, which has several

    def fill(self, val: Any) -> None:
        """Set every element: a number for every component, or one element as a list, vector or matrix."""
        value, view = unwrap(val), self.view()
        if isinstance(value, (list, tuple, np.ndarray)):
            value = np.asarray(value)
            if value.shape not in ((), self.element_shape):
                raise ValueError(f"fill needs a number or an element of shape {self.element_shape}, got one of shape {value.shape}")
        if view.nbytes >= _HUGE:
            element = np.empty(self.element_shape, view.dtype)
            store(element, ..., value)
            copy_array(view, np.broadcast_to(element, view.shape))
        else:
            store(view, ..., value)

    def copy_from(self, other: Any) -> None:
        """Copy the elements of another container, NumPy array or torch tensor of the same shape, converting like an assignment."""
        if isinstance(other, (int, float, str)) or other is None:
            problem = TypeError if self._noun == "field" else AssertionError  # the classes that programs for the reference catch
            raise problem(f"Cannot copy from a non-{self._noun} object ({type(other).__name__})")
        source = as_array(other)
        if source.shape != self.view().shape:
            mine, its = self.view().shape, source.shape
            raise QuadrantsShapeError(f"copy_from shape mismatch: {its} does not match the source {self._noun} shape {mine}")
        copy_array(self.view(), source)

    def to_numpy(self, dtype: Any = None, *, copy: bool | None = True, out: np.ndarray | None = None) -> np.ndarray:
        """Elements as a NumPy array of shape `shape + element_shape`: a new one, `out`, or with `copy=False` a view of the memory."""
        if copy is not None and not isinstance(copy, bool):
            raise ValueError(f"copy is True, False or None (a view where one is possible), got {copy!r}")
        view = self.view()
        wanted = view.dtype if dtype is None else to_numpy_dtype(dtype)
        if copy is False or (copy is None and wanted == view.dtype):
            if wanted != view.dtype:
                raise ValueError(f"copy=False is incompatible with dtype conversion: elements of {view.dtype} cannot be viewed as {wanted}")
            return view
        if out is None:
            out = new_array(view.shape, wanted)
        elif out.shape != view.shape:
            raise ValueError(f"Mismatch shape: {view.shape} expected, but {out.shape} provided")
        if wanted == view.dtype == out.dtype:
            copy_array(out, view)
        else:
            out[...] = view.astype(wanted)
        return out

    def from_numpy(self, arr: Any) -> None:
        """Copy the elements of an array of shape `shape + element_shape`, converting like an assignment."""
        if isinstance(arr, (str, bytes)) or arr is None:
            raise TypeError(f"numpy.ndarray or an array-like object expected, got {type(arr).__name__}")
        source, view = as_array(arr), self.view()
        if source.shape != view.shape and not self._is_column(source.shape):
            raise ValueError(
                f"Mismatch shape: {view.shape} expected, but {source.shape} provided "
                f"(the {self._noun} of shape {self.shape} with elements of shape {self.element_shape} does not match the numpy array shape)"
            )
        copy_array(view, source.reshape(view.shape))

    def to_torch(self, device: Any = None, *, copy: bool | None = True) -> Any:
        """Elements as a torch tensor on `device`."""
        torch = _torch()
        tensor = torch.from_numpy(self.to_numpy(copy=copy))
        return tensor if device is None else tensor.to(device)

    def from_torch(self, arr: Any) -> None:
        """Copy the elements of a torch tensor; as `from_numpy`."""
        self.from_numpy(arr)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.view(), dtype) if copy or dtype is not None else self.view()

    def __str__(self) -> str:
        return str(self.view())

    def __deepcopy__(self, memo: Any) -> Any:
        twin = self._like()
        twin.copy_from(self)
        return twin

    def __copy__(self) -> Any:
        return self.__deepcopy__({})  # sharing the memory would be a second owner that looks like a copy

    def _like(self) -> Any:
        raise NotImplementedError

    def _is_column(self, shape: tuple[int, ...]) -> bool:
        """Whether an array of this shape gives the elements of vectors as n x 1 matrices, or the other way round."""
        own = self.shape + self.element_shape
        return bool(self.element_shape) and (shape == (*own, 1) or (own[-1] == 1 and len(self.element_shape) == 2 and shape == own[:-1]))

    # -- element access beyond scalars; the bound class calls these with an index that it has checked

    def _element(self, index: tuple[int, ...]) -> Matrix:
        """The vector or matrix at `index`: a view that writes through."""
        return view_of(self.view()[index], self.dtype)

    def _set_element(self, index: tuple[int, ...], value: Any) -> None:
        """Assign a whole vector or matrix element; a number is given to every component."""
        item = np.asarray(unwrap(value))
        if item.shape not in ((), self.element_shape):
            raise ValueError(f"an element of shape {self.element_shape} cannot be set to a value of shape {item.shape}")
        store(self.view(), index, item if item.ndim else item[()])

    def _get_item(self, key: Any) -> np.ndarray:
        """Slices and ellipsis: a view of the memory as a NumPy array."""
        return self.view()[self._slices(key)]

    def _set_item(self, key: Any, value: Any) -> None:
        store(self.view(), self._slices(key), unwrap(value))

    def _slices(self, key: Any) -> tuple[Any, ...]:
        items = tuple(key) if isinstance(key, (tuple, list)) else (key,)
        for item in items:
            if not isinstance(item, slice) and item is not Ellipsis and (isinstance(item, bool) or not hasattr(item, "__index__")):
                what = type(item).__name__
                raise TypeError(
                    f"Detected illegal element of type: {what}. Please be aware that slicing a qd.{self._noun} takes integers and slices"
                )
        if self._offset is not None:
            raise TypeError(f"slices of a {self._noun} with an offset are not supported: take them of its to_numpy(copy=False)")
        return items


def _torch() -> Any:
    module = sys.modules.get("torch")
    if module is None:
        import torch as module  # optional: loaded only for programs that ask for torch tensors
    return module

"""Containers of `arch=qd.python` as tensors of torch: its attributes, methods, operators and functions act on the memory of the container.

Programs for the reference use their containers so. A container gets a subclass of its class, with `PyTensor` before it; those of other
processors stay as they are. The subclasses are no `torch.Tensor` for `isinstance`: torch's C++ code reads the fields of every object that
passes this check.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from quadrants import _runtime
from quadrants._base import options as _options
from quadrants._base.dtypes import import_torch, to_dtype, to_shape
from quadrants._containers import container as _container
from quadrants._containers.buffer_view import BufferView
from quadrants._containers.ndarray import make_ndarray
from quadrants._values.matrix import Matrix
from quadrants._values.types import make_element

from .tensor_operators import TensorOperators, compute, find_torch, get_array, is_in_kernel, to_tensor, with_memory


class _Size(int):
    """The number of elements, as the `size` of other containers. A call returns the full shape, or one extent of it."""

    shape: tuple[int, ...]

    def __call__(self, dim: int | None = None) -> Any:
        torch = find_torch()
        return self.shape[dim] if dim is not None else torch.Size(self.shape) if torch else self.shape


class _Memory:
    """An attribute with the memory, as a tensor of torch or as an array; programs may replace it."""

    def __init__(self, convert: Callable[[np.ndarray], Any], is_turned: bool = False):
        self._convert, self._is_turned = convert, is_turned

    def __get__(self, container: Any, owner: Any = None) -> Any:
        if container is None:
            return self
        array, rank = get_array(container), len(container.shape)
        return self._convert(np.moveaxis(array, rank - 1, 0) if self._is_turned and rank > 1 else array)


class PyTensor(TensorOperators):
    """What a container has besides its own methods: the attributes and methods of `torch.Tensor`, on its memory.

    Methods that both have are those of the container, unless they get arguments of torch such as `dim=`.
    """

    __slots__ = ()
    shape: tuple[int, ...]
    element_shape: tuple[int, ...]
    _numbers: Callable[[], np.ndarray]
    _np, _tc = _Memory(np.asarray), _Memory(to_tensor)  # of the full shape
    _T_np, _T_tc = _Memory(np.asarray, True), _Memory(to_tensor, True)  # with the last axis of `shape` in front

    @property
    def size(self) -> _Size:
        """The number of elements; a call returns the full shape, as a `torch.Size`, or one extent of it."""
        shape = with_memory(self)._live_shape
        made = _Size(math.prod(shape))
        made.shape = (*shape, *self.element_shape)
        return made

    def dim(self) -> int:
        """Return the number of axes, with those of elements."""
        return len(self.shape) + len(self.element_shape)

    def numpy(self) -> np.ndarray:
        """Return the memory as a NumPy array of the full shape."""
        return get_array(self)

    def tolist(self) -> Any:
        """Return the numbers as nested lists."""
        return self._numbers().tolist()

    def item(self) -> Any:
        """Return the only number. Raises `ValueError` if there are more."""
        return self._numbers().item()

    def view(self, *shape: Any, **keywords: Any) -> Any:
        """Return the memory as a NumPy array or, with arguments, the result of `torch.Tensor.view`."""
        if shape or keywords:
            return compute(import_torch().Tensor.view, (self, *shape), keywords)
        return super().view()  # type: ignore[misc]

    def __getattr__(self, name: str) -> Any:
        inherited = getattr(super(), "__getattr__", None)
        if name.startswith("_") or hasattr(type(self), name) or is_in_kernel():  # a property may have raised the error
            if inherited is not None:
                return inherited(name)
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        torch = find_torch()
        if torch is None or not hasattr(torch.Tensor, name):
            more = "" if torch else ": those of torch.Tensor need the package torch, which is not installed"
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{more}")
        found = getattr(torch.Tensor, name)
        if not callable(found):
            return getattr(to_tensor(get_array(self)), name)
        return functools.wraps(found)(lambda *arguments, **keywords: compute(found, (self, *arguments), keywords))

    def __getitem__(self, key: Any) -> Any:
        whole = vars(self).get("_exact", self)  # views of views are made from the class that C++ knows
        key = self._to_key(key)
        part = super().__getitem__(key) if whole is self else whole[key]  # type: ignore[misc]
        if type(part) is not BufferView:
            return part
        exact = BufferView.__new__(BufferView)
        _runtime.init_subview(exact, whole, key)
        part.__class__ = _make_class(BufferView)
        vars(part)["_exact"] = exact
        return part

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(self._to_key(key), value)  # type: ignore[misc]

    def _to_key(self, key: Any) -> Any:
        """Returns an index vector as a tuple, and None for the index 0 of a container without axes."""
        if isinstance(key, Matrix):
            return tuple(map(int, key._array))
        return None if type(key) is int and key == 0 and not self.shape else key

    def __len__(self) -> int:
        try:
            return super().__len__()  # type: ignore[misc]
        except TypeError:  # of a field without lists
            if not self.shape:
                raise
            return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        first = (with_memory(self)._offset or (0,))[0]
        return (self[first + place] for place in range(len(self)))

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __reduce__(self) -> Any:
        make, *rest = super().__reduce__()  # type: ignore[misc]
        return getattr(make, "_plain", make), *rest


@functools.cache
def _make_class(plain: type) -> Any:
    """Returns the subclass of a class of containers that answers as a tensor."""
    names = {"__module__": plain.__module__, "__qualname__": plain.__qualname__, "__doc__": plain.__doc__}
    return type(plain.__name__, (PyTensor, plain), {**names, "__slots__": (), "__hash__": plain.__hash__, "_plain": plain})


def adapt(made: Any) -> None:
    """Gives a new container of the interpreter its subclass."""
    is_wrapped = isinstance(made, _runtime.TensorBase)
    if _options.get("arch") == "python" and not isinstance(made, PyTensor) and (not is_wrapped or isinstance(made._impl, PyTensor)):
        made.__class__ = _make_class(type(made))


_container.made_hooks.append(adapt)


def create_tensor(shape: Any, dtype: Any, batch_ndim: int | None = None) -> Any:
    """Return a zero-filled container of the full shape `shape`, whose own shape is its first `batch_ndim` axes, by default all of them.

    The others, at most two, are the axes of its elements. `dtype` is a data type, also of NumPy or torch. Raises `ValueError` for more
    axes.
    """
    extents = to_shape(shape)
    rank = len(extents) if batch_ndim is None else batch_ndim
    if not 0 <= len(extents) - rank <= 2:
        raise ValueError(f"batch_ndim={batch_ndim} leaves {len(extents) - rank} axes of {extents} to an element: it has 0 to 2")
    return make_ndarray(make_element(extents[rank:], to_dtype(dtype)), extents[:rank], _container.ContainerSpec())

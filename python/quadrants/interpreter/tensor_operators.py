"""Operators and functions of torch on containers of `arch=qd.python`, for tensors.py. NumPy computes operators where there is no torch."""

from __future__ import annotations

import operator
import threading
from typing import Any

import numpy as np

from quadrants import _runtime
from quadrants._base.dtypes import import_torch, to_dtype, to_numpy_dtype
from quadrants._containers import interop as _interop
from quadrants._containers.buffer_view import BufferView
from quadrants._values.matrix import Matrix

from .scalars import options

_BINARY = "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift".split()


class TensorOperators:
    """Operators, sums and the like. Those of containers and NumPy arrays are NumPy's, as on other processors."""

    __slots__ = ()

    @classmethod
    def __torch_function__(cls, function: Any, _: Any, arguments: Any = (), keywords: Any = None) -> Any:
        """Calls a function of torch with the memory of containers as tensors."""
        return compute(function, arguments, keywords or {})

    def __contains__(self, value: Any) -> bool:
        return bool((self == value).any())


def find_torch() -> Any:
    """Returns the module, or None if it is not installed."""
    try:
        return import_torch()
    except ModuleNotFoundError:
        return None


def with_memory(tensor: Any) -> Any:
    """Returns the implementation of a `qd.Tensor`, and other containers unchanged."""
    return tensor._impl if isinstance(tensor, _runtime.TensorBase) else tensor


def get_array(tensor: Any) -> np.ndarray:
    """Returns the memory of a container as an array of the full shape. Raises `ValueError` where there is no view."""
    return with_memory(tensor).view()


def to_tensor(array: np.ndarray) -> Any:
    """Returns an array, or one of `get_array`, as a torch tensor of the same memory."""
    return _interop._as_tensor(import_torch(), array)


def is_in_kernel() -> bool:
    """Whether this thread runs a kernel: there, containers are what they are on other processors."""
    return options.thread == threading.get_ident()


def compute(function: Any, arguments: Any, keywords: dict[str, Any]) -> Any:
    """Calls a function with torch tensors in the place of containers; one that changes a container returns the container."""
    views: dict[int, tuple[Any, Any]] = {}

    def convert(value: Any) -> Any:
        if isinstance(value, TensorOperators):
            return views.setdefault(id(value), (value, to_tensor(get_array(value))))[1]
        return type(value)(map(convert, value)) if type(value) in (list, tuple) else _as_operand(value)

    result = function(*map(convert, arguments), **{name: convert(value) for name, value in keywords.items()})
    changes = "out" in keywords or getattr(function, "__name__", "").endswith("_")
    return next((container for container, view in views.values() if changes and view is result and not view.requires_grad), result)


def _as_operand(value: Any) -> Any:
    """Returns a container, host vector or array as a tensor of torch, or as a NumPy array without it; anything else unchanged."""
    if isinstance(value, TensorOperators):
        value = get_array(value)
    elif isinstance(value, Matrix):
        kind = float if value._array.dtype.kind == "f" else int
        value = value._array.astype(to_numpy_dtype(to_dtype(kind if value.dtype is None else value.dtype)))
    return to_tensor(value) if isinstance(value, np.ndarray) and find_torch() else value


def _define_binary(name: str, prefix: str) -> None:
    apply = getattr(operator, f"__{'i' if prefix == 'i' else ''}{name}__")

    def method(self: Any, other: Any) -> Any:
        if prefix == "i":
            apply(_as_operand(self), _as_operand(other))
            return self
        if isinstance(other, (np.ndarray, np.generic)):
            return NotImplemented  # NumPy computes it
        own, value = _as_operand(self), _as_operand(other)
        return apply(value, own) if prefix else apply(own, value)

    setattr(TensorOperators, f"__{prefix}{name}__", method)


def _define_comparison(name: str) -> None:
    def method(self: Any, other: Any) -> Any:
        if isinstance(other, (np.ndarray, np.generic)):
            return NotImplemented
        if name in ("eq", "ne") and (other is None or is_in_kernel() or _is_same_kind(self, other) or not _has_memory(self)):
            return getattr(super(TensorOperators, self), f"__{name}__")(other)
        return getattr(operator, name)(_as_operand(self), _as_operand(other))

    setattr(TensorOperators, f"__{name}__", method)


def _is_same_kind(view: Any, other: Any) -> bool:
    """Whether both are views, which are equal if they select the same part."""
    return isinstance(view, BufferView) and isinstance(other, BufferView)


def _has_memory(tensor: Any) -> bool:
    own = with_memory(tensor)
    return own._state != "dead" and own._is_placed()


def _define_unary(name: str) -> None:
    setattr(TensorOperators, f"__{name}__", lambda self: getattr(operator, name)(_as_operand(self)))


def _define_reduction(name: str) -> None:
    def is_of_torch(value: Any) -> bool:
        return isinstance(value, (bool, TensorOperators)) or type(value).__module__.partition(".")[0] == "torch"

    def method(self: Any, *arguments: Any, **keywords: Any) -> Any:
        if {"dim", "keepdim"} & keywords.keys() or any(map(is_of_torch, (*arguments, *keywords.values()))):
            return compute(getattr(import_torch().Tensor, name), (self, *arguments), keywords)
        return getattr(super(TensorOperators, self), name)(*arguments, **keywords)

    setattr(TensorOperators, name, method)


for _name in _BINARY:
    for _prefix in ("", "r") if _name == "matmul" else ("", "r", "i"):
        _define_binary(_name, _prefix)
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    _define_comparison(_name)
for _name in ("neg", "pos", "invert", "abs"):
    _define_unary(_name)
for _name in ("sum", "mean", "min", "max"):
    _define_reduction(_name)

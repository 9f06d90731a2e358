"""Access to arrays of other libraries by the functions of these libraries themselves: kernels write to the memory of the object that was
passed, regardless of the methods that its subclass overrides."""

from __future__ import annotations

import contextlib
import sys
from typing import Any

import numpy as np


def is_tensor(value: Any) -> bool:
    """Whether `value` is a tensor of torch or of a subclass."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, getattr(torch, "Tensor", ()))


def without_overrides() -> Any:
    """Returns a context in which functions of torch ignore the overrides of subclasses."""
    core = sys.modules["torch"]._C
    stack = contextlib.ExitStack()
    stack.enter_context(getattr(core, "DisableTorchFunctionSubclass", core.DisableTorchFunction)())
    if hasattr(core, "_DisableTorchDispatch"):
        stack.enter_context(core._DisableTorchDispatch())
    return stack


def plain_tensor(tensor: Any) -> Any:
    """Returns a tensor of torch itself on the same memory, without autograd history.

    Raises `ValueError` if a subclass has no memory of its own.
    """
    torch = sys.modules["torch"]
    if type(tensor) is torch.Tensor:
        return tensor.detach()
    with without_overrides():
        plain = torch.Tensor.detach(torch.Tensor.as_subclass(tensor, torch.Tensor))
        is_dense = plain.layout is torch.strided and plain.device.type != "meta" and plain.numel()
        if is_dense and (plain.data_ptr() != torch.Tensor.data_ptr(tensor) or not plain.data_ptr()):
            raise ValueError(f"a {type(tensor).__name__} has no memory of its own: pass the tensor that it wraps")
    return plain


def grad_of(tensor: Any) -> Any:
    """Returns the gradient that torch stores for a tensor, or None."""
    torch = sys.modules["torch"]
    if type(tensor) is torch.Tensor:
        return tensor.grad
    with without_overrides():
        return torch.Tensor.grad.__get__(tensor)


def requires_grad(tensor: Any) -> bool:
    """Whether torch stores a gradient in the tensor: a leaf that requires one, or another tensor that retains it."""
    if not tensor.requires_grad:
        return False
    with without_overrides():
        return tensor.is_leaf or tensor.retains_grad


def make_gradient(tensor: Any) -> None:
    """Allocates a zero gradient for a tensor of torch that requires one and has none."""
    if lacks_gradient(tensor):
        torch = sys.modules["torch"]
        with without_overrides(), torch.no_grad():
            tensor.grad = torch.zeros_like(tensor)


def plain_array(array: np.ndarray) -> np.ndarray:
    """Returns an array of NumPy itself on the same memory. Raises `TypeError` for masked arrays, because kernels ignore masks."""
    if type(array) is np.ndarray:
        return array
    masked = getattr(sys.modules.get("numpy.ma"), "MaskedArray", ())
    if isinstance(array, masked):
        raise TypeError("a masked array: kernels know nothing of its mask; pass its .filled(value), or its .data")
    return np.ndarray.view(array, np.ndarray)


def raise_version(tensor: Any) -> None:
    """Reports to torch that the memory of a tensor has changed (called by launch/tape/saved_memory.cpp)."""
    sys.modules["torch"].autograd.graph.increment_version(tensor)


def lacks_gradient(tensor: Any) -> bool:
    """Whether a tensor requires a gradient and has none (called by launch/containers/external_array.cpp)."""
    return requires_grad(tensor) and grad_of(tensor) is None

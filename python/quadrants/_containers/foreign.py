"""Memory of arrays that belong to other libraries, taken by these libraries' own functions: whatever a subclass of theirs overrides, what
kernels write to is the memory of the object that was passed."""

from __future__ import annotations

import contextlib
import sys
from typing import Any

import numpy as np


def is_tensor(value: Any) -> bool:
    """Whether it is a tensor of torch, of a subclass, too."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, getattr(torch, "Tensor", ()))


def without_overrides() -> Any:
    """A block in which functions of torch are torch's own for subclasses, too."""
    core = sys.modules["torch"]._C
    stack = contextlib.ExitStack()
    stack.enter_context(getattr(core, "DisableTorchFunctionSubclass", core.DisableTorchFunction)())
    if hasattr(core, "_DisableTorchDispatch"):
        stack.enter_context(core._DisableTorchDispatch())
    return stack


def plain_tensor(tensor: Any) -> Any:
    """A tensor of torch itself on the same memory, without a history of gradients.

    Raises `ValueError` where a subclass has no memory of its own.
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
    """The gradient of a tensor of torch as torch has it, or None."""
    torch = sys.modules["torch"]
    if type(tensor) is torch.Tensor:
        return tensor.grad
    with without_overrides():
        return torch.Tensor.grad.__get__(tensor)


def requires_grad(tensor: Any) -> bool:
    """Whether torch keeps a gradient in the tensor: a leaf that requires one, or another one that retains it."""
    if not tensor.requires_grad:
        return False
    with without_overrides():
        return tensor.is_leaf or tensor.retains_grad


def make_gradient(tensor: Any) -> None:
    """Zeros for the gradient of a tensor of torch that is to have one and has none."""
    if lacks_gradient(tensor):
        torch = sys.modules["torch"]
        with without_overrides(), torch.no_grad():
            tensor.grad = torch.zeros_like(tensor)


def plain_array(array: np.ndarray) -> np.ndarray:
    """An array of NumPy itself on the same memory. Raises `TypeError` for masked arrays, of whose mask kernels know nothing."""
    if type(array) is np.ndarray:
        return array
    masked = getattr(sys.modules.get("numpy.ma"), "MaskedArray", ())
    if isinstance(array, masked):
        raise TypeError("a masked array: kernels know nothing of its mask; pass its .filled(value), or its .data")
    return np.ndarray.view(array, np.ndarray)


def raise_version(tensor: Any) -> None:
    """Tells torch that the memory of a tensor has changed (called by launch/saved_memory.cpp)."""
    sys.modules["torch"].autograd.graph.increment_version(tensor)


def lacks_gradient(tensor: Any) -> bool:
    """Whether a tensor is to have a gradient, and has none (called by launch/external_array.cpp)."""
    return requires_grad(tensor) and grad_of(tensor) is None

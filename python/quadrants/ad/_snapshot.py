"""Copies of memory, and gradients of what is overwritten, for tapes (called by launch/undo_log.cpp)."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._containers import foreign as _foreign


def keep(memory: Any) -> Any:
    """The elements of a container, an array or a tensor of torch now."""
    if hasattr(memory, "to_numpy"):
        return memory.to_numpy()
    return _foreign.plain_array(memory).copy() if isinstance(memory, np.ndarray) else _foreign.plain_tensor(memory).clone()


def differs(memory: Any, kept: Any) -> bool:
    """Whether some bit is another one."""
    now = keep(memory)
    return now.shape != kept.shape or not (bool((now == kept).all()) or _bytes(now) == _bytes(kept))


def exchange(memory: Any, kept: Any) -> Any:
    """Writes the kept elements; returns what was there."""
    now = keep(memory)
    if hasattr(memory, "from_numpy"):
        memory.from_numpy(kept)
    elif isinstance(memory, np.ndarray):
        _foreign.plain_array(memory)[...] = kept
    else:
        _foreign.plain_tensor(memory).copy_(kept)
    return now


def has_gradient(memory: Any) -> bool:
    """Whether there is a gradient of a container or a tensor of torch, or is going to be one."""
    return _foreign.requires_grad(memory) if _foreign.is_tensor(memory) else hasattr(memory, "has_grad") and memory.has_grad()


def find_changed(memory: Any, kept: Any) -> Any:
    """Which elements are others than those that were kept."""
    return keep(memory) != kept


def cut_gradient(memory: Any, changed: Any) -> None:
    """Sets elements of a gradient to zero: what they belong to was overwritten by something else than a kernel."""
    if not _foreign.is_tensor(memory):
        gradient = memory.grad.to_numpy()
        gradient[changed] = 0
        memory.grad.from_numpy(gradient)
    elif (gradient := _foreign.grad_of(memory)) is not None:
        _foreign.plain_tensor(gradient)[changed] = 0


def _bytes(values: Any) -> bytes:
    return np.ascontiguousarray(values if isinstance(values, np.ndarray) else values.cpu().numpy()).tobytes()

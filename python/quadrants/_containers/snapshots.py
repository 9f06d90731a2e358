"""Snapshots of memory, and gradients of overwritten elements; for tapes (called by launch/tape/undo_log.cpp)."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _runtime
from . import foreign as _foreign


def keep(memory: Any) -> Any:
    """Returns a copy of the elements of a container, an array or a torch tensor."""
    if hasattr(memory, "to_numpy"):
        return memory.to_numpy()
    return _foreign.plain_array(memory).copy() if isinstance(memory, np.ndarray) else _foreign.plain_tensor(memory).clone()


def differs(memory: Any, saved: Any) -> bool:
    """Whether some bit differs."""
    now = keep(memory)
    return now.shape != saved.shape or not (bool((now == saved).all()) or _bytes(now) == _bytes(saved))


def exchange(memory: Any, saved: Any) -> Any:
    """Writes the copied elements back; returns the previous ones."""
    now = keep(memory)
    restore(memory, saved)
    return now


def restore(memory: Any, saved: Any) -> None:
    """Writes the copied elements back."""
    if hasattr(memory, "from_numpy"):
        memory.from_numpy(saved)
    elif isinstance(memory, np.ndarray):
        _foreign.plain_array(memory)[...] = saved
    else:
        _foreign.plain_tensor(memory).copy_(saved)


def has_gradient(memory: Any) -> bool:
    """Whether a container or torch tensor has a gradient, or will get one."""
    return _foreign.requires_grad(memory) if _foreign.is_tensor(memory) else hasattr(memory, "has_grad") and memory.has_grad()


def find_changed(memory: Any, saved: Any) -> Any:
    """Returns a mask of the elements that differ from the copied ones."""
    return keep(memory) != saved


def cut_gradient(memory: Any, changed: Any) -> None:
    """Sets elements of a gradient to zero whose primals were overwritten by anything else than a kernel."""
    if not _foreign.is_tensor(memory):
        gradient = memory.grad.to_numpy()
        gradient[changed] = 0
        memory.grad.from_numpy(gradient)
    elif (gradient := _foreign.grad_of(memory)) is not None:
        _foreign.plain_tensor(gradient)[changed] = 0


def _bytes(values: Any) -> bytes:
    return np.ascontiguousarray(values if isinstance(values, np.ndarray) else values.cpu().numpy()).tobytes()


class Memories:
    """Snapshot of all containers and of the array arguments of a call, without gradients unless `with_gradients`."""

    def __init__(self, arguments: tuple[Any, ...] = (), with_gradients: bool = False) -> None:
        arrays = {id(value): value for value in arguments if isinstance(value, np.ndarray) or type(value).__module__ == "torch"}.values()
        containers = [row[0] for row in _runtime.list_containers()]
        values = [container for container in containers if with_gradients or getattr(container, "_parent", container)._primal is None]
        self.rows = [(memory, keep(memory)) for memory in (*values, *arrays)]

    def restore(self) -> None:
        """Restores the contents of the containers and arrays."""
        for memory, saved in self.rows:
            restore(memory, saved)

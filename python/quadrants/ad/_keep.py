"""Copies of memory whose elements do not lie together, for tapes (called by launch/journal.cpp)."""

from __future__ import annotations

from typing import Any

import numpy as np


def keep(memory: Any) -> Any:
    """The elements of a container, an array or a tensor of torch now."""
    if hasattr(memory, "to_numpy"):
        return memory.to_numpy()
    return memory.copy() if isinstance(memory, np.ndarray) else memory.detach().clone()


def differs(memory: Any, kept: Any) -> bool:
    """Whether some bit is another one."""
    now = keep(memory)
    return not (bool((now == kept).all()) or _bytes(now) == _bytes(kept))


def exchange(memory: Any, kept: Any) -> Any:
    """Writes the kept elements; returns what was there."""
    now = keep(memory)
    if hasattr(memory, "from_numpy"):
        memory.from_numpy(kept)
    elif isinstance(memory, np.ndarray):
        memory[...] = kept
    else:
        memory.detach().copy_(kept)
    return now


def _bytes(values: Any) -> bytes:
    return np.ascontiguousarray(values if isinstance(values, np.ndarray) else values.cpu().numpy()).tobytes()

"""Axes of trees of nodes, and the extents, offsets and strides along them."""

from __future__ import annotations

import itertools
from typing import Any

from .._base.dtypes import to_shape
from .._base.errors import QuadrantsMemoryError, QuadrantsRuntimeError, QuadrantsSyntaxError

_MAX_AXES = 12


class Axis(int):
    """One axis of the index space: 0 for the first index."""

    def __repr__(self) -> str:
        return f"Axis({int(self)})"


def axes(*numbers: int) -> list[Axis]:
    """Return the axes with these `numbers`. Raises `ValueError` for any that is not in 0 to 11."""
    if not all(0 <= number < _MAX_AXES for number in numbers):
        raise ValueError(f"axes are numbered 0 to {_MAX_AXES - 1}, got {numbers}")
    return [Axis(number) for number in numbers]


AXES = {
    "".join(letters): axes(*("ijkl".index(letter) for letter in letters))
    for count in (1, 2, 3, 4)
    for letters in itertools.combinations("ijkl", count)
}


def row_major_strides(shape: tuple[int, ...], item: int, order: tuple[int, ...] | None = None) -> tuple[int, ...]:
    """Returns the byte strides of items of `item` bytes; `order` lists the axes from the outermost to the innermost.

    Raises:
        QuadrantsMemoryError: the last item has no 64-bit address.
    """
    strides, step = [0] * len(shape), item
    for axis in reversed(order or range(len(shape))):
        strides[axis] = step
        step *= shape[axis]
    if step >= 2**63:
        raise QuadrantsMemoryError(f"cannot allocate {step} bytes: a container of this shape does not fit into memory")
    return tuple(strides)


def check_extents(extents: tuple[int, ...]) -> None:
    """Raises for a negative extent, for an extent beyond the range of indices, and for too many axes."""
    if any(not 0 <= extent <= 2**31 - 1 for extent in extents):
        raise QuadrantsRuntimeError(f"Every dimension of a Quadrants field should be positive and at most 2**31 - 1, got {extents}")
    if len(extents) > _MAX_AXES:
        raise QuadrantsRuntimeError(f"Too many dimensions: a field has at most {_MAX_AXES}, got {len(extents)}")


def to_origin(offset: Any, extents: tuple[int, ...]) -> tuple[int, ...] | None:
    """Returns an `offset` argument as the lowest index of each axis, or None."""
    if offset is None:
        return None
    origin = to_shape(offset)
    if len(origin) != len(extents):
        raise QuadrantsSyntaxError(f"The dimensionality of shape and offset must be the same ({len(extents)} != {len(origin)})")
    if any(first < -(2**31) or first + extent >= 2**31 for first, extent in zip(origin, extents, strict=True)):
        raise QuadrantsRuntimeError(f"Indices of a field are 32-bit integers, got offset {origin} for shape {extents}")
    return origin

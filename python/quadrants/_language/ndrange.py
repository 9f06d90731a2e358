"""`qd.ndrange` and `qd.grouped` in Python scope."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from .._base import options as _options
from .._base.dtypes import i32
from .._base.errors import QuadrantsSyntaxError, QuadrantsTypeError
from .._containers.container import ContainerMethods
from .._containers.struct_field import StructField
from .._values.matrix import Vector


class _Ndrange:
    """The product of ranges: an iterable of index tuples. The last axis varies fastest unless `axes` orders them otherwise."""

    def __init__(self, *dimensions: Any, axes: Any = None):
        self.bounds = [_bound(dimension) for dimension in dimensions]
        self.dimensions = [_count(*bound) for bound in self.bounds]
        self.acc_dimensions = [math.prod(self.dimensions[axis:]) for axis in range(len(self.dimensions))]
        self.axes = _check_axes(axes, len(self.bounds))

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        order = self.axes or tuple(range(len(self.bounds)))
        places = [order.index(axis) for axis in range(len(order))]
        ranges = [range(*self.bounds[axis]) for axis in order]
        # `product` stores all ranges, which may be long beside an empty one.
        for index in itertools.product(*(ranges if all(ranges) else [()])):
            yield tuple(index[place] for place in places)

    def grouped(self) -> GroupedNDRange:
        """Returns the same range with index vectors as elements."""
        return GroupedNDRange(self)


class GroupedNDRange:
    """An `ndrange` whose elements are index vectors."""

    def __init__(self, ndrange: Iterable[tuple[int, ...]]):
        self.r = ndrange

    def __iter__(self) -> Iterator[Vector]:
        return (Vector(list(index), i32) for index in self.r)


def _bound(dimension: Any) -> tuple[int, int, int]:
    items = tuple(dimension) if isinstance(dimension, (tuple, list)) else (0, dimension)
    if len(items) not in (2, 3):
        raise QuadrantsSyntaxError("Every argument of ndrange should be a scalar or a tuple/list like (begin, end)")
    if not all(hasattr(item, "__index__") for item in items):
        raise QuadrantsTypeError("Every argument of ndrange should be an integer scalar or a tuple/list of (int, int)")
    if len(items) == 3 and items[2].__index__() == 0:
        raise QuadrantsSyntaxError("the step of an axis of ndrange must not be zero")
    return items[0].__index__(), items[1].__index__(), items[2].__index__() if len(items) == 3 else 1


def _count(start: int, stop: int, step: int) -> int:
    """Returns the length of a range, which may exceed the limit of `len`."""
    return max(0, -((start - stop) // step))


def _check_axes(axes: Any, rank: int) -> tuple[int, ...] | None:
    if axes is None:
        return None
    for axis in axes:
        if isinstance(axis, bool) or not isinstance(axis, (int, np.integer)):
            raise QuadrantsTypeError(f"qd.ndrange(axes={axes!r}) entries must be Python ints; got {type(axis).__name__} ({axis!r}).")
    order = tuple(int(axis) for axis in axes)
    if len(order) != rank:
        raise QuadrantsSyntaxError(
            f"qd.ndrange(axes={axes!r}) has {len(order)} entries but ndrange was called with {rank} dimension argument(s); they must match"
        )
    if sorted(order) != list(range(rank)):
        raise QuadrantsSyntaxError(f"qd.ndrange(axes={axes!r}) is not a permutation of range({rank})")
    return order


def make_ndrange(*dimensions: Any, axes: Any = None) -> _Ndrange:
    """Returns the index tuples of the product of ranges `n`, `(begin, end)` or `(begin, end, step)`, all integers; `axes` lists the loops
    from the outermost in.
    """
    return _Ndrange(*dimensions, axes=axes)


def grouped(iterable: Any) -> Any:
    """Returns an iterable of index vectors instead of the index tuples of `iterable`."""
    if isinstance(iterable, _Ndrange):
        return iterable.grouped()
    if isinstance(iterable, (ContainerMethods, StructField)):
        if _options.get("arch") == "python" and getattr(iterable, "_cells", None) is None:
            first = iterable._offset or (0,) * len(iterable.shape)
            return _Ndrange(*((start, start + extent) for start, extent in zip(first, iterable.shape, strict=True))).grouped()
        raise NotImplementedError("Struct for is only available in Quadrants scope.")
    raise QuadrantsTypeError(f"qd.grouped takes an ndrange or a container, got {type(iterable).__name__}")

"""Sparse nodes from Python: activity of cells, arrays that are copied into active cells, deactivation of whole trees, occupancy."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

import quadrants as qd

from .._base.errors import QuadrantsAssertionError, QuadrantsTypeError
from .cells import Cells


def check_node(node: Any, count: int | None = None, has_lists: bool = False, has_payload: bool = False) -> None:
    """Raises if there is no such node, if it has no lists or none that can be appended to, or if an index of its cells has another number
    of axes than `count`.
    """
    if getattr(node, "_kind", "place") in ("place", "root", "bit_struct") or not hasattr(node, "_own_shape"):
        raise QuadrantsTypeError(f"a node of a tree is expected, such as x.parent(), got {node!r}")
    if has_lists and node._kind != "dynamic":
        raise QuadrantsTypeError(f"a dynamic node is expected, which has lists, got {node!r}")
    if has_payload and node._payload is None:
        raise QuadrantsTypeError(f"one field or struct is expected in the cells of {node!r} to append to its lists")
    if count not in (None, len(node._own_shape)):
        raise QuadrantsTypeError(f"Expected {len(node._own_shape)} indices for the cells of {node!r}, got {count}")


def _find(node: Any, index: Any, has_lists: bool = False, has_payload: bool = False) -> tuple[Any, int, tuple[int, ...]]:
    """Returns the cells of a node or None, the number of the cell or list at an index, and the index as a tuple."""
    check_node(node, None, has_lists, has_payload)
    qd.sync()  # finalizes the tree
    shape = node._own_shape
    index = tuple(map(operator.index, index if isinstance(index, (tuple, list)) else (index,)))
    if len(index) != len(shape) or any(not 0 <= place < extent for place, extent in zip(index, shape, strict=True)):
        raise IndexError(f"index {list(map(int, index))} is out of range for the cells of {node!r}, of shape {shape}")
    return node._cells, Cells.encode(node._own_digits, index), index


def is_active(node: Any, index: Any) -> bool:
    """Whether a cell is active; for a list, whether it has elements."""
    cells, number, _ = _find(node, index)
    return cells is None or cells.has_content(number)


def activate(node: Any, index: Any) -> None:
    """Activates a cell."""
    cells, number, _ = _find(node, index)
    if cells is not None:
        cells.ensure(number)


def deactivate(node: Any, index: Any) -> None:
    """Deactivates a cell, or empties a list."""
    cells, number, _ = _find(node, index)
    if cells is not None:
        _remove(cells, number)


def length(node: Any, index: Any) -> int:
    """Returns the number of elements of a list."""
    cells, number, _ = _find(node, index, True)
    return cells.length(number)


def append(node: Any, index: Any, val: Any) -> int:
    """Appends an element to a list. Raises `QuadrantsAssertionError` if it is full."""
    cells, number, index = _find(node, index, True, True)
    place = cells.length(number)
    if place == cells.capacity:
        raise QuadrantsAssertionError(f"qd.append() to a list that is full: it has {place} elements")
    node._payload[tuple(place * own + first + (0 if at < 0 else index[at] * step) for own, at, step, first in node._list_axes)] = val
    return place


@qd.kernel
def _remove(cells: qd.Template, n: qd.i64):
    cells.remove(qd.cast(n, qd.static(cells.own_counter)))


@qd.kernel
def _clear(cells: qd.Template):
    cells.refresh()
    for t in range(cells.state[1]):
        cells.clear_block(cells.blocks[t])


def deactivate_all(node: Any) -> None:
    """Deactivates all cells below a node, and gives memory back that was not in use before the previous call either."""
    for cells in find_cells(node):
        counts = [(one, one.observe()) for one in cells.list_below()]
        _clear(cells)
        for one, count in counts:
            one.give_back(count)


def find_cells(node: Any) -> list[Cells]:
    """Returns the cells of the uppermost sparse nodes at or below a node."""
    if node._cells is not None:
        return [node._cells]
    return [cells for child in node._children for cells in find_cells(child)]


def deactivate_all_snodes() -> None:
    """Deactivate all cells of all trees that can be deactivated."""
    qd.sync()  # finalizes the tree
    for root in qd.FieldsBuilder._finalized_roots():
        deactivate_all(root)


def describe(node: Any, indent: str = "") -> str:
    """Returns the nodes of a finalized tree with their occupancy, as text."""
    lines = [f"{indent}{node._kind} {list(node.shape)}"]
    if node._cells is not None:
        what = "elements" if node._kind == "dynamic" else "cells"
        records = sum(array._buffer.count_present() for array in node._cells.list_records())
        lines[0] += f": {node._cells.observe():,} of {math.prod(node.shape):,} {what} active, {records:,} bytes of records"
    if (field := node._field()) is not None:
        lines[0] = f"{indent}{field._name}: {field.dtype}{f' {field.element_shape}' if field.element_shape else ''}"
        if field._state == "alive" and field._buffer is not None:
            lines[0] += f", {field._buffer.count_present():,} bytes"
    return "\n".join([*lines, *(describe(child, indent + "  ") for child in node._children)])


def list_indices(loop: Any) -> list[tuple[int, ...]]:
    """Returns the indices of the cells that a loop visits, for the interpreter."""
    cells = loop.cells.list_numbers().astype(np.int64)
    numbers = (cells[:, None] * loop.below + np.arange(loop.below)).reshape(-1)
    axes = [
        sum(numbers % period // weight % extent * divisor for period, weight, extent, divisor in digits) + first
        for digits, first in zip(loop.decode, loop.origin, strict=True)
    ]
    return list(zip(*(np.broadcast_to(axis, numbers.shape).tolist() for axis in axes), strict=True))

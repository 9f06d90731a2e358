"""Lays out trees with sparse nodes, and what kernels and Python do with the cells of a node: `qd.activate`, `qd.append`, loops, reports."""

from __future__ import annotations

import copy
import math
from typing import Any

import quadrants as qd

from .. import _runtime
from .._base import options as _options
from .._base.errors import QuadrantsMemoryError
from .._containers.axes import row_major_strides
from . import host
from .cells import Cells, make_array
from .lists import Lists
from .masked import Masked

_MAX_BYTES = 2**46  # of addresses that a field may take
_SHORTEST_ROW = 4  # cells of a block along its last axis that are worth a vector


class Digit:
    """One factor of the number of a cell: `extent` steps of `weight` cells along an axis; a step is `divisor` indices long."""

    def __init__(self, axis: int, extent: int, weight: int, period: int):
        self.axis, self.extent, self.weight, self.divisor = axis, extent, weight, 1
        self.period = period  # cells of its node in one cell above, with padding

    def scaled(self, factor: int, divisor: int = 1) -> Digit:
        """Returns the digit in the number of a cell of a node below, or above."""
        made = copy.copy(self)
        made.weight, made.period = self.weight * factor // divisor, self.period * factor // divisor
        return made


class Loop:
    """How a loop visits the cells of a node: the blocks of a list, and the cells in each block."""

    def __init__(self, node: Any, cells: Cells, digits: list[Digit], total: int, origin: tuple[int, ...]):
        self.cells = cells
        self.total = total
        self.below = total // cells.total  # cells of the node in one of `cells`
        self.block = cells.listed * self.below
        self.checks = cells.listed > 1
        self.decode = _decoding(digits, node)
        positions = {axis: position for position, axis in enumerate(node._extents)}
        inner, outer = digits[len(cells.node._digits) :], digits[: len(cells.node._digits)]
        has_rows = cells.listed == 1 and inner and inner[-1].extent >= _SHORTEST_ROW
        self.inner = tuple((positions[d.axis], d.extent, d.weight, d.divisor) for d in inner) if has_rows else ()
        self.outer = _decoding([d.scaled(1, self.below) for d in outer], node)
        self.origin, self.shape = origin, node.shape
        self.counter = qd.i32 if total < 2**31 else qd.i64
        self.encode = _encoding(digits, node, origin, len(cells.node._digits), self.below)


def _decoding(digits: list[Digit], node: Any) -> tuple[tuple[tuple[int, int, int, int], ...], ...]:
    """Returns for each axis of a node (period, weight, extent, divisor) of its digits."""
    return tuple(tuple((d.period, d.weight, d.extent, d.divisor) for d in digits if d.axis == axis) for axis in node._extents)


def _encoding(digits: list[Digit], node: Any, origin: Any, count: int, below: int) -> tuple[tuple[int, ...], ...]:
    """Returns (position, origin, divisor, extent or 0 for the outermost, weight) of the first `count` digits of a node; `below` cells of
    the node are one unit.
    """
    positions = {axis: position for position, axis in enumerate(node._extents)}
    outermost = {d.axis: d for d in reversed(digits)}
    return tuple(
        (positions[d.axis], origin[positions[d.axis]], d.divisor, 0 if outermost[d.axis] is d else d.extent, d.weight // below)
        for d in digits[:count]
    )


def _append(digits: list[Digit], axes: Any, extents: Any, size: int) -> list[Digit]:
    """Returns the digits of the cells of a node below, which has `size` cells in each cell above."""
    inner = [math.prod(extents[k + 1 :]) for k in range(len(extents))]
    return [d.scaled(size) for d in digits] + [Digit(axis, n, step, size) for axis, n, step in zip(axes, extents, inner, strict=True)]


def _set_divisors(digits: list[Digit]) -> None:
    reached: dict[int, int] = {}
    for d in reversed(digits):
        d.divisor = reached.get(d.axis, 1)
        reached[d.axis] = d.divisor * d.extent


def pad(count: int) -> int:
    """Returns the number of cells with padding: units of bits are parts of a word, or whole words."""
    return -(-count // 32) * 32 if count > 32 else 1 << (count - 1).bit_length()


def fit_chunk(extent: int, chunk: int) -> int:
    """Returns the number of elements in a chunk: a divisor of the capacity, near the wanted number."""
    divisors = [k for k in range(min(chunk, extent), 0, -1) if extent % k == 0]
    return divisors[0] if divisors[0] * 4 > chunk or divisors[0] == extent else extent


def build(container: Any) -> None:
    """Lays out the nodes and fields of a container of a root."""
    _number(container, [], 1, None, 1)


def _number(node: Any, digits: list[Digit], total: int, above: Cells | None, lists: int) -> None:
    """Numbers the cells of a node and of those below; `above` are the cells of the next sparse node above."""
    if node._kind == "place":
        return _place(node, digits, total, above)
    axes, extents = node._own_axes, node._dimensions
    count = math.prod(extents)
    if node._kind == "dynamic":
        chunk = fit_chunk(count, node._chunk)
        if any(d.axis == axes[0] for d in digits):
            chunk = count
        lists, blocks = total, count // chunk
        digits = [d.scaled(chunk) for d in digits]
        digits += [Digit(axes[0], blocks, total * chunk, total * count)] if blocks > 1 else []
        digits.append(Digit(axes[0], chunk, 1, chunk))
        total *= count
    else:
        size = pad(count) if node._kind != "dense" else count
        digits, total = _append(digits, axes, extents, size), total * size
    if total > _MAX_BYTES:
        raise QuadrantsMemoryError(f"a tree of {total} cells does not fit into the address space")
    _set_divisors(digits)
    node._digits = digits
    if node._kind in ("pointer", "bitmasked"):
        per_above = total // (above.total if above else 1)
        is_leaf = node._kind == "bitmasked" and all(child._kind == "place" for child in node._children)
        above = Masked(node, above, total, per_above, size, is_leaf)
    elif node._kind == "dynamic":
        above = Lists(node, above, lists, count, chunk, lists // (above.total if above else 1))
        above_axes = list(node._above._extents)
        node._list_axes = tuple(  # for an index of the payload: steps of a place, position in the index of the list, its steps, first index
            (int(axis == axes[0]), above_axes.index(axis) if axis in above_axes else -1, count if axis == axes[0] else 1, first)
            for axis, (first, _) in zip(node._extents, node._box, strict=True)
        )
    node._cells = above if node._kind not in ("dense", "bit_struct") else None
    zeros = (0,) * len(node.shape)
    node._encode = _encoding(digits, node, zeros, len(digits), 1)
    node._own_digits = node._above._encode if node._kind == "dynamic" else node._encode
    if above is not None:
        origin = tuple(first for first, _ in node._box)
        node._loop = Loop(node, above, digits, total, origin)
    for child in node._children:
        _number(child, digits, total, above, lists)


def _place(node: Any, digits: list[Digit], total: int, above: Cells | None) -> None:
    field = node._field()
    if field is None or field._whole is not None:
        return
    if field._quant is not None:  # its words are placed
        field._place_packed(node.shape, node._offset)
        return _attach(field, node, digits, total, above) if above is not None else None
    count = math.prod(field.element_shape)
    cell = field.dtype.size * count
    if total * cell > _MAX_BYTES:
        raise QuadrantsMemoryError(f"the field {field._name!r} takes {total * cell} bytes of addresses, which do not exist")
    field._is_soa = False
    buffer = _runtime.Buffer(max(1, total * cell), False, True)
    is_interpreted = (_options.current or {}).get("arch") == "python"
    if is_interpreted:  # NumPy has no tiles
        strides, tilings = row_major_strides(node.shape, cell), ()
    else:
        levels = [(d.axis, d.extent) for d in digits]
        strides, tilings = node._find_strides(tuple(d.weight * cell for d in digits), levels)
        if above is not None:  # a tile as long as its axis: a version of a kernel for a dense field must not be used for this one
            tilings += (0, node.shape[0], 0)
    field._place(node.shape, strides, field.dtype.size, buffer, 0, node._offset, tilings)
    field._place_declared_parts()
    if above is None:
        return
    _attach(field, node, digits, total, above)
    for part in field.__dict__.get("vars", ()) if count > 1 or field.element_shape else ():
        _attach(part, node, digits, total, above)
    if is_interpreted:
        plain = type(field)(field.dtype, field.element_shape, node.shape, strides, field.dtype.size, buffer, 0, node._offset, tilings)
        plain._element_type, plain._loop = field._element_type, field._loop
        above.plains += (plain,)
    else:
        above.raws += (make_array(above.node, field.dtype, total * count, buffer),)
    above.sizes += ((1 if above.plains else count) * (total // above.total),)


def _attach(field: Any, node: Any, digits: list[Digit], total: int, above: Cells) -> None:
    """Lets writes of a field activate cells."""
    origin = node._offset or (0,) * len(node.shape)
    field._cells = above
    field._cell_digits = _encoding(digits, node, origin, len(above.node._digits), total // above.total)
    shared = node._above._loop
    field._loop = shared if shared.origin == origin else Loop(node._above, above, digits, total, origin)
    holder = node._above._above if node._above._kind == "bit_struct" else node._above
    if holder._kind == "dynamic":
        field._list = _shift(holder, origin) if any(origin) else holder
    field._mark_sparse()


def _shift(node: Any, origin: Any) -> Any:
    """Returns a node whose lists have the indices of a field with an offset, for `x[i].append(v)`."""
    made, axes = copy.copy(node), list(node._extents)
    made._own_first = tuple(0 if axis == node._own_axes[0] else origin[axes.index(axis)] for axis in node._above._extents)
    made._own_digits = tuple((at, start + made._own_first[at], *rest) for at, start, *rest in node._own_digits)
    first = {-1: 0, **dict(enumerate(made._own_first))}
    made._list_axes = tuple((own, at, step, start - first[at]) for own, at, step, start in node._list_axes)
    return made


@qd.func
def number_of(digits: qd.template(), counter: qd.template(), I):  # noqa: E741
    """Returns the number of the cell at an index."""
    number = qd.cast(0, counter)
    for k in qd.static(range(len(digits))):
        steps = qd.cast(I[qd.static(digits[k][0])] - qd.static(digits[k][1]), qd.u32) // qd.static(digits[k][2])
        if qd.static(digits[k][3] > 0):
            steps = steps % qd.static(max(1, digits[k][3]))
        number += qd.cast(steps, counter) * qd.static(digits[k][4])
    return number


@qd.func
def has_cell(node: qd.template(), I):  # noqa: E741
    """Whether the index `I` is within the shape of a node."""
    is_within = True
    for k in qd.static(range(len(node._own_shape))):
        first = qd.static(node._own_first[k] if node._own_first else 0)
        is_within &= first <= I[k] < first + qd.static(node._own_shape[k])
    return is_within


@qd.func
def find(node: qd.template(), I):  # noqa: E741
    """Returns the number of the cell `I` of a node, or of the list at `I`."""
    assert has_cell(node, I), f"an index is out of range for the cells of {node._kind} {node._own_shape}"
    return number_of(node._own_digits, node._cells.own_counter, I)


@qd.func
def find_to_read(node: qd.template(), I):  # noqa: E741
    """Returns what `find` does; for an index out of range -1, outside of debug mode."""
    number = qd.cast(-1, node._cells.own_counter)
    if qd.static(_options.current["check_out_of_bound"]):
        number = find(node, I)
    elif has_cell(node, I):
        number = number_of(node._own_digits, node._cells.own_counter, I)
    return number


@qd.func
def is_active(node: qd.template(), I):  # noqa: E741
    """Return whether the cell `I` of a node, in indices of the node, is active; for a `dynamic` node, whether the list at `I` has
    elements. Cells of dense nodes are.
    """
    qd.static(host.check_node(node, len(I)))
    if qd.static(node._cells is None):
        return True
    number, answer = find_to_read(node, I), False
    if number >= 0:
        answer = node._cells.has_content(number)
    return answer


@qd.func
def activate(node: qd.template(), I):  # noqa: E741
    """Activate the cell `I` of a node, in indices of the node, and the cells above it. What was inactive holds zeros."""
    qd.static(host.check_node(node, len(I)))
    if qd.static(node._cells is not None):
        node._cells.ensure(find(node, I))


@qd.func
def deactivate(node: qd.template(), I):  # noqa: E741
    """Deactivate the cell `I` of a node, in indices of the node, and the cells in it; for a `dynamic` node, empty the list at `I`."""
    qd.static(host.check_node(node, len(I)))
    if qd.static(node._cells is not None):
        node._cells.remove(find(node, I))


@qd.func
def length(node: qd.template(), I):  # noqa: E741
    """Return the number of elements, an i32, of the list at the index `I` of a `dynamic` node, without the axis of the list."""
    qd.static(host.check_node(node, len(I), True))
    number, count = find_to_read(node, I), 0
    if number >= 0:
        count = node._cells.length(number)
    return count


@qd.func
def append(node: qd.template(), I, val):  # noqa: E741
    """Append `val`, an element of the field that is placed in a `dynamic` node, to the list at the index `I`, without the axis of the list.

    Return the position of the new element, an i32. Other iterations may append at the same time. An append to a full list adds nothing,
    and the launch raises `QuadrantsAssertionError`, also without debug=True.
    """
    qd.static(host.check_node(node, len(I), True, True))
    place = node._cells.extend(find(node, I))
    if place >= 0:
        whole = [place * own + first + (I[at] * step if qd.static(at >= 0) else 0) for own, at, step, first in qd.static(node._list_axes)]
        node._payload[whole] = val
    assert place >= 0, f"qd.append() to a list that is full: it has {node._cells.capacity} elements"
    return place


for _function in (is_active, activate, deactivate, length, append):
    _function.host = getattr(host, _function.__name__)

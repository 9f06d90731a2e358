"""Run-time values that are no scalars, and places.

A place can be stored to: a zero-dimensional NumPy array (scalar), a `Vec` or a `StructValue` with its own memory or a view of the memory
of a container. Taking a reference, an element or a member returns a place; reading one copies.
"""

from __future__ import annotations

import copy
import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from quadrants._base.dtypes import BF16_BITS, from_bf16, to_bf16
from quadrants._base.errors import QuadrantsAssertionError
from quadrants._base.imports import load
from quadrants._containers.buffer_view import BufferView
from quadrants._containers.container import WrittenBack
from quadrants._values.matrix import _swizzle as find_swizzle

from . import scalars
from .scalars import NAMES, cast, typed


class Vec:
    """A vector or matrix: an array with its components. The components of a swizzle are a copy of those of `home`.

    With `clamps`, indices are clamped into it: it is an element of a container with that boundary.
    """

    __slots__ = ("data", "home", "clamps")

    def __init__(self, data: np.ndarray, home: tuple[np.ndarray, list[int]] | None = None, clamps: bool = False) -> None:
        self.data, self.home, self.clamps = scalars.adopt(data), home, clamps

    def __repr__(self) -> str:
        return f"{NAMES[self.data.dtype]}{self.data.tolist()}"

    def __len__(self) -> int:
        return self.data.shape[0]

    def __iter__(self) -> Iterator[Any]:
        return (self.data[k] if self.data.ndim == 1 else Vec(self.data[k].copy()) for k in range(len(self)))


class ReadOnlyError(ValueError):
    """A kernel writes to a read-only argument."""


class Rounding(WrittenBack):
    """Elements of type bf16, read as f32. Values that are stored to them, or to a part of them, are rounded to their `bits`."""

    bits: np.ndarray | None = None  # results of arithmetic have none

    @classmethod
    def of(cls, bits: np.ndarray) -> Rounding:
        """Returns the elements of a bf16 array."""
        made = from_bf16(bits).view(cls)
        made.bits, made.flags.writeable = bits, bits.flags.writeable
        return made

    def __getitem__(self, key: Any) -> Any:
        part = super().__getitem__(key)
        if isinstance(part, Rounding) and self.bits is not None:
            part.bits = self.bits[key]
        return part

    def __setitem__(self, key: Any, value: Any) -> None:
        if self.bits is not None:
            self.bits[key] = to_bf16(value)
            value = from_bf16(self.bits[key])
        super().__setitem__(key, value)


class Index(tuple):
    """A compile-time index vector, from an unrolled loop: a tuple for indexing, a vector in arithmetic."""

    __slots__ = ()


class StructValue:
    """A struct: places of its members. Funcs in `methods` get the struct by reference."""

    __slots__ = ("members", "methods")

    def __init__(self, members: dict[str, Any], methods: dict[str, Any] | None = None) -> None:
        self.members = members
        self.methods = methods or {}

    def __repr__(self) -> str:
        return repr(self.members)


def active_indices(loop: Any) -> Iterator[tuple[int, ...]]:
    """Yields the indices of the active cells of a field or node."""
    return iter(load("quadrants._sparse.host").list_indices(loop))


class Tensor:
    """The elements of a container: one array (batch axes first, then element axes), or one `Tensor` for each struct member."""

    __slots__ = ("data", "shape", "label", "methods", "dynamic", "known", "owner", "origin", "clamps")

    def __init__(
        self,
        data: Any,
        shape: tuple[int, ...],
        label: str,
        methods: dict[str, Any] | None = None,
        dynamic: bool = False,
        origin: tuple[int, ...] | None = None,
    ) -> None:
        self.data = data
        self.shape = shape
        self.origin = origin  # the lowest indices of a field with an offset
        self.label = label
        self.methods = methods
        self.dynamic = dynamic  # an array argument: its shape is a run-time value
        self.known: tuple[int | None, ...] | None = None  # extents that are known nevertheless
        self.owner: Any = self  # the container, which has the other attributes
        self.clamps = False  # indices are clamped into it

    def element(self, indices: tuple[int, ...]) -> Any:
        """Returns the place of one element."""
        if getattr(self.owner, "_quant", None) is not None:
            return self._packed_element(indices)
        if (cells := getattr(self.owner, "_cells", None)) is not None:
            return self._sparse_element(cells, indices)
        return self._element(indices)

    def _packed_element(self, indices: tuple[int, ...]) -> Any:
        index = tuple(map(int, indices))
        part = self.owner._fetch(index).view(WrittenBack)

        def flush() -> None:
            if self.owner._cells is not None:
                self.owner._activate(self.whole_index(indices))
            self.owner._flush(np.asarray(part), index)
            np.asarray(part)[...] = self.owner._fetch(index)

        part._flush = flush
        return Vec(part, clamps=self.clamps) if part.ndim else part

    def _sparse_element(self, cells: Any, indices: tuple[int, ...]) -> Any:
        place = self._element(indices)
        memory: Any = place.data if isinstance(place, Vec) else place
        memory = memory if hasattr(memory, "_flush") else memory.view(WrittenBack)
        memory._flush = functools.partial(self.owner._activate, self.whole_index(indices))
        return Vec(memory, clamps=self.clamps) if memory.ndim else memory

    def whole_index(self, indices: Sequence[Any]) -> tuple[int, ...]:
        """Returns the index in the container of an element of this part."""
        return tuple(int(at) + first for at, first in zip(indices, self.origin or (0,) * len(indices), strict=True))

    def _element(self, indices: tuple[int, ...]) -> Any:
        if isinstance(self.data, dict):
            return StructValue({name: member.element(indices) for name, member in self.data.items()}, self.methods)
        part = self.data[(*indices, ...)]
        part = Rounding.of(part) if part.dtype == BF16_BITS else part
        return Vec(part, clamps=self.clamps) if part.ndim else part

    def indices(self) -> Iterator[tuple[int, ...]]:
        """Yields all indices, the last axis fastest, or those in active cells."""
        whole = self
        while isinstance(whole.data, dict):
            whole = next(iter(whole.data.values()))
        if (loop := getattr(whole.owner, "_loop", None)) is not None:
            return active_indices(loop)
        origin = self.origin or (0,) * len(self.shape)
        return itertools.product(*(range(first, first + extent) for first, extent in zip(origin, self.shape, strict=True)))

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def offset(self) -> int:
        """Number of the first element in the array that contains this part."""
        return self.owner.offset if isinstance(self.owner, BufferView) else 0

    @property
    def strides(self) -> tuple[int, ...]:
        """Distances between neighboring scalars along each axis."""
        if isinstance(self.owner, BufferView):
            return self.owner.strides
        return tuple(math.prod(self.shape[axis + 1 :]) for axis in range(len(self.shape)))

    def clamped(self, annotation: Any) -> Tensor:
        """Returns the same elements with the boundary of an annotation."""
        if getattr(annotation, "boundary", None) != "clamp":
            return self
        twin = copy.copy(self)
        twin.clamps = True
        if isinstance(self.data, dict):
            twin.data = {name: member.clamped(annotation) for name, member in self.data.items()}
        return twin


class View(Tensor):
    """A subview of a container that a kernel selected: along each axis an index, or a range by start, count and step."""

    __slots__ = ("parent", "key", "choices")

    def __init__(self, parent: Tensor, key: list[Any], whole: list[Any], choices: list[int | tuple[int, int, int]]) -> None:
        parts = tuple(choice if isinstance(choice, int) else _numpy_slice(*choice) for choice in choices)
        shape = tuple(choice[1] for choice in choices if not isinstance(choice, int))
        super().__init__(parent.data[(*parts, ...)], tuple(max(extent, 0) for extent in shape), parent.label, dynamic=True)
        self.owner, self.parent, self.key, self.choices, self.clamps = parent.owner, parent, key, choices, parent.clamps
        extents = (parent.known or (None,) * len(parent.shape)) if parent.dynamic else parent.shape
        axes = zip(whole, extents, choices, strict=True)
        self.known = tuple(
            choice[1] if _has_known_count(part, extent) else None
            for part, extent, choice in axes
            if isinstance(part, slice) and not isinstance(choice, int)
        )

    def whole_index(self, indices: Sequence[Any]) -> tuple[int, ...]:
        own = iter(indices)
        return self.parent.whole_index([part if isinstance(part, int) else part[0] + part[2] * int(next(own)) for part in self.choices])

    @property
    def offset(self) -> int:
        starts = [choice if isinstance(choice, int) else choice[0] for choice in self.choices]
        return self.parent.offset + sum(start * step for start, step in zip(starts, self.parent.strides, strict=True))

    @property
    def strides(self) -> tuple[int, ...]:
        pairs = zip(self.choices, self.parent.strides, strict=True)
        return tuple(choice[2] * step for choice, step in pairs if not isinstance(choice, int))


def _has_known_count(part: slice, extent: int | None) -> bool:
    """Whether the number of elements that a slice of an axis selects is known at compile time."""
    bounds = (part.start, part.stop, part.step)
    is_backward = part.step is not None and not is_runtime(part.step) and part.step < 0
    is_closed = (part.start if is_backward else part.stop) is not None
    return not any(map(is_runtime, bounds)) and (is_closed or extent is not None)


def _numpy_slice(start: int, count: int, step: int) -> slice:
    stop = start + step * count
    return slice(start, None if stop < 0 else stop, step) if count > 0 else slice(0, 0)


def view_error(what: str, details: str) -> QuadrantsAssertionError:
    """Returns the failure of a check of a view; the launch adds the source location."""
    error = QuadrantsAssertionError(f"{what}: {details}")
    error.report = (what, details)  # type: ignore[attr-defined]
    return error


def subview(tensor: Tensor, offset: Any, size: Any) -> Any:
    """Returns `size` elements of a container with one axis, beginning with the element `offset`."""
    first = tensor.origin[0] if tensor.origin else 0
    return view_of(tensor, [slice(first + int(offset), first + int(offset) + int(size))])


def construct_view(tensor: Tensor, offset: Any, size: Any) -> Any:
    """Evaluates `qd.BufferView(array, offset, size)` in a kernel."""
    if not isinstance(tensor, View) and not 0 <= int(offset) <= int(offset) + int(size) <= len(tensor):
        values = f"offset={int(offset)}, size={int(size)}, ndarray length={len(tensor)}"
        raise QuadrantsAssertionError(f"BufferView construction out of range: {values}.")
    return subview(tensor, offset, size)


def view_of(tensor: Tensor, key: list[Any], lenient: bool = False) -> Any:
    """Returns the part of a container that indices and slices select, missing axes as a whole; for structs, one part per member."""
    if isinstance(tensor.data, dict):
        return StructValue({name: view_of(member, key, lenient) for name, member in tensor.data.items()})
    rank = len(tensor.shape)
    if any(item is Ellipsis for item in key):
        at = next(position for position, item in enumerate(key) if item is Ellipsis)
        key = [*key[:at], *[slice(None)] * (rank + 1 - len(key)), *key[at + 1 :]]
    whole = [*key, *[slice(None)] * (rank - len(key))]
    return View(tensor, key, whole, list(_keys(whole, tensor.shape, lenient, tensor, lambda: _describe(tensor, key), tensor.clamps)))


def _choose(part: slice, parent: int, first: int, lenient: bool) -> tuple[int, int, int]:
    """Returns start, count and step of a slice of an axis with `parent` elements."""
    step = 1 if part.step is None else part.step
    start = (0 if step > 0 else parent - 1) if part.start is None else int(part.start) - first
    stop = (parent if step > 0 else -1) if part.stop is None else int(part.stop) - first
    size, lowest = (stop - start, start) if step > 0 else (start - stop, start + 1)
    if not (0 <= lowest <= parent and 0 <= size <= parent and 0 <= stop + (step < 0) <= parent):
        if lenient:
            return 0, 0, step
        raise view_error("BufferView subview Out Of Range", f"subview offset={start}, subview size={size}, parent size={parent}.")
    return start, -(-size // abs(step)), step


def is_place(value: Any) -> bool:
    """Whether `value` is a reference to a scalar."""
    return isinstance(value, np.ndarray) and value.ndim == 0


def read(value: Any) -> Any:
    """Returns the value of a place; vectors and structs are copied, other values returned unchanged."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        return value[()]
    if isinstance(value, Vec):
        return Vec(value.data.copy())
    if isinstance(value, StructValue):
        return StructValue({name: new_place(member) for name, member in value.members.items()}, value.methods)
    return value


def new_place(value: Any) -> Any:
    """Returns a new place that holds `value`."""
    if isinstance(value, (Vec, StructValue)):
        return read(value)
    if getattr(value, "bits", None) is not None:
        return Rounding.of(value.bits.copy())
    return scalars.place(value[()] if is_place(value) else typed(value))


def is_runtime(value: Any) -> bool:
    """Whether `value` is computed by the kernel; false for Python objects that are known before it runs."""
    return isinstance(value, (np.generic, Vec, StructValue)) or is_place(value)


def write(place: Any, value: Any) -> None:
    """Stores a value to a place, converted to its type."""
    value = value[()] if is_place(value) else as_vector(value)
    if isinstance(place, StructValue):
        given = value if isinstance(value, dict) else value.members
        for name, member in place.members.items():
            write(member, given[name])
        return
    target = place.data if isinstance(place, Vec) else place
    memory = place.home[0] if isinstance(place, Vec) and place.home else target
    if not memory.flags.writeable:
        raise ReadOnlyError("the kernel writes an array that was passed, and it is read-only")
    source = value.data if isinstance(value, Vec) else typed(value, target.dtype)
    target[...] = cast(source, target.dtype)
    if isinstance(place, Vec) and place.home:
        place.home[0][place.home[1]] = target


def as_vector(value: Any, hint: np.dtype | None = None) -> Any:
    """Converts lists and tuples of numbers to vectors, and returns other values unchanged; `hint` is the type of large literals."""
    return make_vector(value, None, hint) if isinstance(value, (list, tuple)) else value


def dtype_of(value: Any) -> np.dtype | None:
    """Returns the type of a run-time scalar or vector, and None for other values."""
    return value.data.dtype if isinstance(value, Vec) else value.dtype if isinstance(value, np.generic) or is_place(value) else None


def make_vector(items: Any, dtype: np.dtype | None, hint: np.dtype | None = None) -> Vec:
    """Returns a vector of scalars, or a matrix of lists or vectors; the elements get their common type."""
    if isinstance(items, Vec):
        return Vec((items.data if dtype is None else cast(items.data, dtype)).copy())
    hint = dtype or hint or next(filter(None, map(dtype_of, items)), None)
    rows = [make_vector(item, dtype, hint).data if isinstance(item, (list, tuple, Vec)) else typed(read(item), hint) for item in items]
    common = dtype or functools.reduce(scalars.promote, (row.dtype for row in rows))
    return Vec(np.stack([cast(row, common) for row in rows]))


def elementwise(function: Callable[..., Any], *operands: Any) -> Any:
    """Applies a function of NumPy scalars or arrays, broadcasting scalars over vectors of one shape."""
    hints = filter(None, map(dtype_of, operands))
    hint = next((dtype for dtype in hints if dtype.itemsize == 8 or dtype.kind == "f" or dtype == np.uint32), None)
    values = [as_vector(value, hint) for value in operands]
    result = function(*(value.data if isinstance(value, Vec) else typed(read(value), hint) for value in values))
    return Vec(result) if isinstance(result, np.ndarray) else result


def as_type_of(target: Any, value: Any) -> Any:
    """Converts a value to the type of the components of `target`."""
    dtype: np.dtype = dtype_of(target)  # type: ignore[assignment]
    if isinstance(value, np.generic):
        return cast(value, dtype)
    return elementwise(lambda x: cast(x, dtype), typed(value, dtype) if scalars.is_number(value) else as_vector(value, dtype))


def unary(name: str, value: Any) -> Any:
    """Evaluates a unary operator of the table on any run-time value."""
    if isinstance(value, np.generic):
        return scalars.unary(name, value)
    if isinstance(value, StructValue):
        return StructValue({key: new_place(unary(name, read(member))) for key, member in value.members.items()}, value.methods)
    return elementwise(lambda operand: scalars.unary(name, operand), value)


def binary(name: str, left: Any, right: Any) -> Any:
    """Evaluates a binary operator of the table on any run-time values; structs member by member."""
    if isinstance(left, np.generic) and isinstance(right, np.generic):
        return scalars.binary(name, left, right)
    if isinstance(left, StructValue) or isinstance(right, StructValue):
        return _struct_binary(name, left, right)
    return elementwise(lambda x, y: scalars.binary(name, x, y), left, right)


def _struct_binary(name: str, left: Any, right: Any) -> Any:
    structs = [value for value in (left, right) if isinstance(value, StructValue)]

    def member(value: Any, key: str) -> Any:
        return read(value.members[key]) if isinstance(value, StructValue) else value

    results = {key: binary(name, member(left, key), member(right, key)) for key in structs[0].members}
    if name in ("eq", "ne"):
        decide = np.all if name == "eq" else np.any
        return np.bool_(decide([decide(result.data if isinstance(result, Vec) else result) for result in results.values()]))
    return StructValue({key: new_place(value) for key, value in results.items()}, structs[0].methods)


# elements and components


def flat_indices(index: Any) -> list[Any]:
    if index is None:
        return []
    items = index if isinstance(index, (tuple, list)) else (index,)
    return [part for item in items for part in (item if isinstance(item, (Vec, Index)) else (item[()] if is_place(item) else item,))]


def _keys(
    flat: list[Any], shape: tuple[int, ...], lenient: bool, tensor: Tensor | None, describe: Callable[[], Exception], clamps: bool
) -> tuple[Any, ...]:
    """Returns checked indices counted from 0; for slices of containers start, count and step.

    With `lenient`, an index out of range becomes 0, because the value is not used.
    """
    keys: list[Any] = []
    origin = tensor.origin if tensor is not None else None
    for item, extent, first in zip(flat, shape, origin or (0,) * len(shape), strict=True):
        if isinstance(item, slice):
            if tensor is not None:
                keys.append(_choose(item, extent, first, lenient))
            else:
                keys.append(_slice_within(item, extent) if clamps and isinstance(item.start, np.generic) else item)
            continue
        number = int(item) - first
        if number < 0 and origin is None and not isinstance(item, np.generic):
            number += extent  # a negative constant counts from the end
        if clamps:
            number = max(min(number, extent - 1), 0)
        elif not 0 <= number < extent and not lenient:
            raise describe()
        keys.append(number if 0 <= number < extent else 0)
    return tuple(keys)


def _slice_within(part: slice, extent: int) -> slice:
    """Returns a slice of the same length, clamped into the vector."""
    length = int(part.stop) - int(part.start)
    start = max(min(int(part.start), extent - length), 0)
    return slice(start, start + length)


def _describe(tensor: Tensor, flat: list[Any]) -> Exception:
    """Returns the error of an index out of the range of a container."""
    shown = [int(item) for item in flat if not isinstance(item, slice)]
    if isinstance(tensor, View) or isinstance(tensor.owner, BufferView):
        index = shown[0] if len(shown) == 1 else tuple(shown)
        extents = f"size={tensor.shape[0]}" if len(tensor.shape) == 1 else f"shape={tensor.shape}"
        return view_error("BufferView Out Of Range", f"got index {index} (offset={tensor.offset}, {extents}).")
    if tensor.dynamic:
        return QuadrantsAssertionError(
            f"Out of bound access to ndarray at arg {tensor.label} with indices {shown} of shape {[*tensor.shape]}"
        )
    sizes = ", ".join(map(str, tensor.shape))
    offset = f" offset ({', '.join(map(str, tensor.origin))})" if tensor.origin else ""
    given = ", ".join(map(str, shown))
    return QuadrantsAssertionError(f"Accessing field ({tensor.label}) of size ({sizes}){offset} with indices ({given})")


def tensor_element(tensor: Tensor, index: Any, lenient: bool) -> Any:
    """Returns the place of an element of a container, or the part of it that slices select."""
    flat = flat_indices(index)
    if any(isinstance(item, slice) or item is Ellipsis for item in flat):
        return view_of(tensor, flat, lenient)
    if lenient and 0 in tensor.shape:
        return Tensor(np.zeros(tensor.data.shape[len(tensor.shape) :], tensor.data.dtype), (), tensor.label).element(())
    return tensor.element(_keys(flat, tensor.shape, lenient, tensor, lambda: _describe(tensor, flat), tensor.clamps))


def component(vec: Vec, index: Any, lenient: bool) -> Any:
    """Returns the place of a component, of a row, or of a slice."""
    flat = flat_indices(index)
    shape = vec.data.shape
    if len(flat) == len(shape) + 1 == 2 and flat[1] == 0:
        flat = flat[:1]

    def describe() -> Exception:
        index = ", ".join(str(int(item)) for item in flat)
        return QuadrantsAssertionError(f"Out of bound access to a [{', '.join(map(str, shape))}] matrix with index [{index}]")

    part = vec.data[(*_keys(flat, shape[: len(flat)], lenient, None, describe, vec.clamps), ...)]
    return part if part.ndim == 0 else Vec(part, clamps=vec.clamps)


def swizzle(vec: Vec, name: str) -> Any:
    """Returns the place of a swizzle such as `x` or `xyz`, or None if `name` is no swizzle."""
    positions = find_swizzle(vec.data, name)
    if positions is None:
        return None
    return vec.data[(positions[0], ...)] if len(positions) == 1 else Vec(vec.data[positions], (vec.data, positions))

"""Run-time values that are no scalars, and the places that hold values.

A place is what can be stored to: a zero-dimensional NumPy array (scalar), a `Vec` or a `StructValue` whose memory is its own or is a view
of a container's. Taking a reference, an element or a member gives a place; reading one copies.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from quadrants._errors import QuadrantsAssertionError, QuadrantsIndexError, QuadrantsSyntaxError, QuadrantsTypeError
from quadrants._matrix import _swizzle as find_swizzle

from . import scalars
from .scalars import NAMES, cast, typed


class Vec:
    """A vector or matrix: an array with its components. Those of a swizzle are a copy; `home` says where they are from."""

    __slots__ = ("data", "home")

    def __init__(self, data: np.ndarray, home: tuple[np.ndarray, list[int]] | None = None) -> None:
        self.data, self.home = data, home

    def __repr__(self) -> str:
        return f"{NAMES[self.data.dtype]}{self.data.tolist()}"

    def __len__(self) -> int:
        return self.data.shape[0]

    def __iter__(self) -> Iterator[Any]:
        return (self.data[k] if self.data.ndim == 1 else Vec(self.data[k].copy()) for k in range(len(self)))

    def tensor_type(self) -> str:
        """How messages call its type."""
        return f"[Tensor ({', '.join(map(str, self.data.shape))}) {NAMES[self.data.dtype]}]"


class Index(tuple):
    """A compile-time index vector, from an unrolled loop: a tuple for indexing, a vector in arithmetic."""

    __slots__ = ()


class RuntimeBound(int):
    """An end of a slice that begins where run time says, and has a length that is known before."""


class RuntimeRange:
    """A range or ndrange with bounds of the run time: it can only be looped over."""

    __slots__ = ("items",)

    def __init__(self, items: Any) -> None:
        self.items = items

    def __iter__(self) -> Iterator[Any]:
        raise QuadrantsTypeError("cannot iterate over a range with bounds of the run time: it can only be looped over")


def check_slice(bounds: slice) -> None:
    """Slices of lists and vectors have bounds that are known before the kernel runs."""
    if any(isinstance(bound, (np.generic, RuntimeBound)) for bound in (bounds.start, bounds.stop, bounds.step)):
        raise QuadrantsSyntaxError("Quadrants does not support variables in slice now, please use constant instead of it.")


class StructValue:
    """A struct: places of its members. Funcs among `methods` are called with the struct by reference."""

    __slots__ = ("members", "methods")

    def __init__(self, members: dict[str, Any], methods: dict[str, Any] | None = None) -> None:
        self.members = members
        self.methods = methods or {}

    def __repr__(self) -> str:
        return repr(self.members)

    def tensor_type(self) -> str:
        """How messages call its type."""
        return f"struct {list(self.members)}"


class Tensor:
    """The elements of a container: one array (batch axes first, then those of the element), or one `Tensor` for each struct member."""

    __slots__ = ("data", "shape", "label", "methods", "dynamic", "known", "owner", "origin")

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
        self.known: tuple[int | None, ...] | None = None  # but for these extents
        self.owner: Any = self  # the container, which knows its other attributes

    def element(self, indices: tuple[int, ...]) -> Any:
        """The place of one element."""
        if isinstance(self.data, dict):
            return StructValue({name: member.element(indices) for name, member in self.data.items()}, self.methods)
        if self.data.ndim > len(self.shape):
            return Vec(self.data[indices])
        return self.data[(*indices, ...)]

    def indices(self) -> Iterator[tuple[int, ...]]:
        """All indices, the last axis fastest."""
        origin = self.origin or (0,) * len(self.shape)
        return itertools.product(*(range(first, first + extent) for first, extent in zip(origin, self.shape, strict=True)))


class View(Tensor):
    """A window of a container with one axis."""

    __slots__ = ("offset",)

    def __init__(self, parent: Tensor, start: Any, size: Any) -> None:
        start, size = int(start), int(size)
        if start < 0 or size < 0 or start + size > parent.shape[0]:
            bounds = f"subview offset={start}, subview size={size}, parent size={parent.shape[0]}"
            raise QuadrantsAssertionError(f"BufferView subview Out Of Range: {bounds}.")
        super().__init__(parent.data[start : start + size], (size,), parent.label, dynamic=True)
        self.owner = parent.owner
        self.offset = start + (parent.offset if isinstance(parent, View) else 0)

    def __len__(self) -> int:
        return self.shape[0]

    def subview(self, offset: Any, size: Any) -> View:
        """A window of this one."""
        return View(self, offset, size)


def _sliced(tensor: Tensor, bounds: slice) -> View:
    if any(type(bound) is int and bound < 0 for bound in (bounds.start, bounds.stop)):
        raise QuadrantsSyntaxError("Negative indices are not supported in Quadrants kernels.")
    if bounds.step not in (None, 1):
        raise QuadrantsSyntaxError("BufferView does not support an explicit step in kernels")
    start = 0 if bounds.start is None else int(bounds.start)
    return View(tensor, start, (tensor.shape[0] if bounds.stop is None else int(bounds.stop)) - start)


def is_place(value: Any) -> bool:
    """True for a reference to a scalar."""
    return isinstance(value, np.ndarray) and value.ndim == 0


def read(value: Any) -> Any:
    """The value in a place; vectors and structs are copied. Anything else is itself."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        return value[()]
    if isinstance(value, Vec):
        return Vec(value.data.copy())
    if isinstance(value, StructValue):
        return StructValue({name: new_place(member) for name, member in value.members.items()}, value.methods)
    return value


def new_place(value: Any) -> Any:
    """A place of its own that holds `value`."""
    if isinstance(value, (Vec, StructValue)):
        return read(value)
    if is_place(value):
        return value.copy()
    return np.array(typed(value))


def is_runtime(value: Any) -> bool:
    """True for what a kernel computes, false for Python objects that are known before it runs."""
    return isinstance(value, (np.generic, Vec, StructValue)) or is_place(value)


def write(place: Any, value: Any) -> None:
    """Stores into a place, converting to its type."""
    value = value[()] if is_place(value) else as_vector(value)
    if isinstance(place, StructValue):
        _write_struct(place, value)
        return
    target = place.data if isinstance(place, Vec) else place
    if not target.flags.writeable:
        raise QuadrantsSyntaxError(
            "Kernel argument is immutable in the kernel. If you want to change its value, please create a new variable."
        )
    if isinstance(value, StructValue) or (isinstance(value, Vec) and value.data.shape != target.shape):
        mine = place.tensor_type() if isinstance(place, Vec) else NAMES[target.dtype]
        raise QuadrantsTypeError(f"cannot assign '{scalars.type_name(value)}' to '{mine}'")
    source = value.data if isinstance(value, Vec) else typed(value, target.dtype)
    target[...] = cast(source, target.dtype)
    if isinstance(place, Vec) and place.home:
        place.home[0][place.home[1]] = target


def _write_struct(place: StructValue, value: Any) -> None:
    if isinstance(value, dict):
        value = StructValue(value)
    if not isinstance(value, StructValue):
        raise QuadrantsTypeError(f"cannot assign '{scalars.type_name(value)}' to '{place.tensor_type()}'")
    if list(place.members) != list(value.members):
        raise QuadrantsTypeError(f"Member mismatch between structs {list(place.members)}, {list(value.members)}")
    for name, member in place.members.items():
        write(member, value.members[name])


def as_vector(value: Any) -> Any:
    """Lists and tuples of numbers act as vectors where a value is needed."""
    return make_vector(value, None) if isinstance(value, (list, tuple)) else value


def make_vector(items: Any, dtype: np.dtype | None) -> Vec:
    """A vector of scalars, or a matrix of lists or vectors; the elements take their common type."""
    if isinstance(items, Vec):
        return Vec((items.data if dtype is None else cast(items.data, dtype)).copy())
    rows = [make_vector(item, dtype).data if isinstance(item, (list, tuple, Vec)) else typed(read(item), dtype) for item in items]
    if not rows:
        raise QuadrantsTypeError("An Matrix/Vector can only be initialized with an array-like object")
    for row in rows:
        if np.shape(row) != np.shape(rows[0]):
            raise QuadrantsSyntaxError("the rows of a matrix must have one length")
    common = dtype or functools.reduce(scalars.promote, (row.dtype for row in rows))
    return Vec(np.stack([cast(row, common) for row in rows]))


def elementwise(function: Callable[..., Any], symbol: str, *operands: Any) -> Any:
    """Applies a function of NumPy scalars or arrays, broadcasting scalars over vectors of one shape."""
    values = [as_vector(operand) for operand in operands]
    shapes = {value.data.shape for value in values if isinstance(value, Vec)}
    if len(shapes) > 1 or any(isinstance(value, StructValue) for value in values):
        names = " and ".join(f"'{scalars.type_name(value)}'" for value in values)
        raise QuadrantsTypeError(f"unsupported operand type(s) for '{symbol}': {names}")
    hints = [value.data.dtype if isinstance(value, Vec) else value.dtype for value in values if isinstance(value, (Vec, np.generic))]
    hint = next((dtype for dtype in hints if dtype.itemsize == 8 or dtype.kind == "f"), None)
    result = function(*(value.data if isinstance(value, Vec) else typed(value, hint) for value in values))
    return Vec(result) if isinstance(result, np.ndarray) else result


def as_type_of(target: Any, symbol: str, value: Any) -> Any:
    """A value converted to the type of the components of `target`."""
    dtype = target.data.dtype if isinstance(target, Vec) else target.dtype
    if isinstance(value, np.generic):
        return cast(value, dtype)
    return elementwise(lambda x: cast(x, dtype), symbol, typed(value, dtype) if scalars.is_number(value) else value)


def unary(name: str, value: Any) -> Any:
    """A unary row of the operator table on any run-time value."""
    if isinstance(value, np.generic):
        return scalars.unary(name, value)
    return elementwise(lambda operand: scalars.unary(name, operand), name, value)


def binary(name: str, left: Any, right: Any) -> Any:
    """A binary row of the operator table on any run-time values; structs member by member."""
    if isinstance(left, np.generic) and isinstance(right, np.generic):
        return scalars.binary(name, left, right)
    symbol = scalars.symbol_of(name)
    if isinstance(left, StructValue) or isinstance(right, StructValue):
        return _struct_binary(name, symbol, left, right)
    return elementwise(lambda x, y: scalars.binary(name, x, y), symbol, left, right)


def _struct_binary(name: str, symbol: str, left: Any, right: Any) -> Any:
    structs = [value for value in (left, right) if isinstance(value, StructValue)]
    if len({tuple(value.members) for value in structs}) > 1 or name not in ("add", "sub", "mul", "div", "eq", "ne"):
        raise QuadrantsTypeError(f"unsupported operand type(s) for {symbol}: '{scalars.type_name(left)}' and '{scalars.type_name(right)}'")

    def member(value: Any, key: str) -> Any:
        return read(value.members[key]) if isinstance(value, StructValue) else value

    results = {key: binary(name, member(left, key), member(right, key)) for key in structs[0].members}
    if name in ("eq", "ne"):
        decide = np.all if name == "eq" else np.any
        return np.bool_(decide([decide(result.data if isinstance(result, Vec) else result) for result in results.values()]))
    return StructValue({key: new_place(value) for key, value in results.items()}, structs[0].methods)


def truth(value: Any) -> bool:
    """The truth of a condition."""
    value = read(value) if is_place(value) else value
    if isinstance(value, (Vec, StructValue)):
        raise QuadrantsTypeError(f"`if` conditions must be an integer; found {value.tensor_type()}")
    if isinstance(value, Tensor) or dataclasses.is_dataclass(value):
        raise QuadrantsTypeError(f"`if` conditions must be an integer; found {type(value)}")
    return bool(value)


# elements and components


def _flat_indices(index: Any) -> list[Any]:
    if index is None:
        return []
    items = index if isinstance(index, (tuple, list)) else (index,)
    return [part for item in items for part in (item if isinstance(item, (Vec, Index)) else (item[()] if is_place(item) else item,))]


def _keys(
    flat: list[Any],
    shape: tuple[int, ...],
    lenient: bool,
    dynamic: bool,
    describe: Callable[[], str],
    origin: tuple[int, ...] | None = None,
) -> tuple[Any, ...]:
    """Indices from 0 that were checked. `lenient` lets one outside be 0: nobody will look at the value."""
    keys: list[Any] = []
    for position, (item, extent) in enumerate(zip(flat, shape, strict=True)):
        if not isinstance(item, (slice, bool, int, np.integer, np.bool_)):
            raise QuadrantsTypeError(f"indices must be integers, however '{scalars.type_name(item)}' is provided as index {position}")
        number: Any = item if isinstance(item, slice) else int(item) - (origin[position] if origin else 0)
        if not isinstance(item, slice) and not 0 <= number < extent:
            if lenient:
                number = 0
            elif isinstance(item, np.generic):
                raise QuadrantsAssertionError(describe())
            elif number < 0 and dynamic:
                raise QuadrantsSyntaxError("Negative indices are not supported in Quadrants kernels.")
            elif number < (0 if origin else -extent) or number >= extent:
                raise QuadrantsIndexError(f"index {int(item)} is out of range for an axis of size {extent}")
        keys.append(number)
    return tuple(keys)


def tensor_element(tensor: Tensor, index: Any, lenient: bool) -> Any:
    """The place of an element of a container."""
    flat = _flat_indices(index)
    if tensor.dynamic and len(tensor.shape) == 1 and len(flat) == 1 and isinstance(flat[0], slice):
        return _sliced(tensor, flat[0])
    if any(isinstance(item, slice) for item in flat):
        raise QuadrantsSyntaxError("Slicing is not supported on qd.field")
    if len(flat) != len(tensor.shape):
        if tensor.dynamic:
            raise QuadrantsIndexError(f"{len(tensor.shape)}d ndarray indexed with {len(flat)}d indices")
        raise QuadrantsIndexError(f"Field with dim {len(tensor.shape)} accessed with indices of dim {len(flat)}")

    def describe() -> str:
        shown = [int(item) for item in flat]
        if isinstance(tensor, View):
            return f"BufferView Out Of Range: got index {shown[0]} (offset={tensor.offset}, size={tensor.shape[0]})."
        if tensor.dynamic:
            return f"Out of bound access to ndarray at arg {tensor.label} with indices {shown}"
        sizes = ", ".join(map(str, tensor.shape))
        offset = f" offset ({', '.join(map(str, tensor.origin))})" if tensor.origin else ""
        return f"Accessing field ({tensor.label}) of size ({sizes}){offset} with indices ({', '.join(map(str, shown))})"

    if lenient and 0 in tensor.shape:
        return Tensor(np.zeros(tensor.data.shape[len(tensor.shape) :], tensor.data.dtype), (), tensor.label).element(())
    return tensor.element(_keys(flat, tensor.shape, lenient, tensor.dynamic, describe, tensor.origin))


def component(vec: Vec, index: Any, lenient: bool) -> Any:
    """The place of a component, of a row, or of a slice."""
    flat = _flat_indices(index)
    shape = vec.data.shape
    for item in flat:
        if isinstance(item, slice) and not isinstance(item.start, RuntimeBound):
            check_slice(item)
    if len(flat) == len(shape) + 1 == 2 and flat[1] == 0:
        flat = flat[:1]
    if len(flat) > len(shape) or not flat:
        raise QuadrantsIndexError(f"Expected {len(shape)} indices, got {len(flat)}.")

    def describe() -> str:
        return f"Out of bound access to a [{', '.join(map(str, shape))}] matrix with index [{', '.join(str(int(item)) for item in flat)}]"

    part = vec.data[(*_keys(flat, shape[: len(flat)], lenient, False, describe), ...)]
    return part if part.ndim == 0 else Vec(part)


def swizzle(vec: Vec, name: str) -> Any:
    """The place named by letters such as `x` or `xyz`, or None where `name` is no swizzle."""
    positions = find_swizzle(vec.data, name)
    if positions is None:
        return None
    return vec.data[(positions[0], ...)] if len(positions) == 1 else Vec(vec.data[positions], (vec.data, positions))

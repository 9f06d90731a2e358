"""Implements the functions of the language for the interpreter: builtins of the package, Python's builtins, and the methods of vectors."""

from __future__ import annotations

import builtins
import functools
import math
import operator
import string
from collections.abc import Callable, Iterable, Set
from types import FunctionType
from typing import Any

import numpy as np

from quadrants import linalg
from quadrants._base import format as _format
from quadrants._base.dtypes import from_numpy_dtype
from quadrants._base.errors import QuadrantsAssertionError
from quadrants._base.operators import ATOMICS, OPERATORS
from quadrants._containers.buffer_view import BufferView
from quadrants._containers.layout_tree import SNode
from quadrants._language.builtins import TABLE as BUILTINS
from quadrants._language.builtins import Builtin
from quadrants._language.ndrange import GroupedNDRange, _Ndrange
from quadrants._values.matrix import Matrix

from . import host_objects, objects, scalars, values
from .scalars import I32, I64, cast, typed
from .values import StructValue, Vec, binary, elementwise, is_place, is_runtime, make_vector, new_place, read, unary

# functions of the package


def atomic(evaluator: Any, name: str, place: Any, *operands: Any, order: str = "relaxed", scope: str = "device") -> Any:
    """Updates a place and returns the old value. `order` and `scope` have no effect, because kernels run in order."""

    old = evaluator.read_for_update(place)
    given = [values.as_type_of(place, operand) for operand in map(read, operands)]
    if name == "atomic_cas":
        new = given[1] if old == given[0] else old
    elif name == "atomic_load":
        return old
    elif name in ("atomic_exchange", "atomic_store"):
        new = given[0]
    else:
        row = ATOMICS[name]
        memory, recorder = place.data if isinstance(place, Vec) else place, scalars.options.recorder
        if row.name in ("max", "min") and recorder is not None and recorder.keeps(memory, given[0]):
            return old
        new = scalars.unchecked(binary, row.name, old, given[0])
    evaluator.write(place, new)
    return None if name == "atomic_store" else old


def _bit_cast(_: Any, value: Any, kind: Any) -> Any:
    dtype = host_objects.dtype_of(kind)
    return elementwise(lambda x: x.view(dtype), typed(value, dtype) if scalars.is_number(value) else value)


def _select(_: Any, condition: Any, first: Any, second: Any) -> Any:
    def choose(c: Any, x: Any, y: Any) -> Any:
        common = scalars.promote(x.dtype, y.dtype)
        return np.where(c != c.dtype.type(0), cast(x, common), cast(y, common))[()]

    if isinstance(first, StructValue) and isinstance(second, StructValue):
        return read(first if condition else second)
    return elementwise(choose, condition, first, second)


def _round_to(name: str, value: Any, dtype: Any) -> Any:
    items = value.data if isinstance(value, Vec) else value
    return host_objects.convert(value if np.asarray(items).dtype.kind in "iub" else unary(name, value), dtype)


def _fold(name: str, takes_items: bool = False) -> Callable[..., Any]:
    def fold(_: Any, *operands: Any) -> Any:
        if len(operands) == 1 and (not takes_items or isinstance(operands[0], np.generic)):
            return values.as_vector(operands[0])
        if len(operands) == 1:
            # a generator can be iterated only once
            items = operands[0] if is_runtime(operands[0]) else list(operands[0])
            is_known = not any(map(is_runtime, [items, *items]))
            operands = (items,) if is_known else tuple(values.as_vector(items).data.reshape(-1))
        kinds = values.Index if len(operands) == 1 else (values.Index, list, tuple)
        if not any(is_runtime(operand) or isinstance(operand, kinds) for operand in operands):
            return host_objects.with_plain_numbers(getattr(builtins, name)(*operands))
        return functools.reduce(functools.partial(binary, name), operands)

    return fold


def _grouped(evaluator: Any, items: Any) -> Any:
    tensor = evaluator.tensor(items)
    if isinstance(items, SNode):
        return GroupedNDRange(host_objects.cells(items))
    return GroupedNDRange(tensor.indices()) if tensor is not None else BUILTINS["grouped"](items)


def _zip(evaluator: Any, *containers: Any) -> Any:
    shapes = [evaluator.tensor(container).shape for container in containers]
    return BUILTINS["ndrange"](*map(min, zip(*shapes, strict=True)))


def _random(evaluator: Any, kind: Any = float) -> Any:
    dtype = host_objects.dtype_of(kind)
    drawn = dtype.type(0) if evaluator.dry else evaluator.random.draw(dtype)
    return drawn if dtype.kind != "f" or scalars.options.recorder is None else scalars.options.recorder.draw(drawn)


def _loop_config(evaluator: Any, **options: Any) -> None:
    evaluator.random.is_serial = bool(options.get("serialize")) or options.get("parallelize") == 1


def _constant_like(number: int) -> Callable[..., Any]:
    return lambda _, value: elementwise(lambda x: np.full_like(x, number)[()], value)


def _vector(_: Any, items: Any, dt: Any = None) -> Vec:
    made = make_vector(items.tolist() if isinstance(items, np.ndarray) else items, host_objects.dtype_of(dt))
    return host_objects.convert(made, dt)


def _struct(_: Any, entries: Any = None, /, **members: Any) -> StructValue:
    known = entries.members if isinstance(entries, StructValue) else entries or {}
    return StructValue({name: new_place(value) for name, value in {**known, **members}.items()})


_WIDE_BOUNDS = (I64, scalars.U64, np.dtype(np.uint32))


def is_wide(bounds: Iterable[Any]) -> bool:
    """Whether a loop with these bounds and steps counts in i64: one has a type that i32 cannot represent, or a larger value."""
    return any(bound.dtype in _WIDE_BOUNDS if isinstance(bound, np.generic) else not scalars.fits(bound, I32) for bound in bounds)


def _with_step(evaluator: Any, bounds: list[Any]) -> list[Any]:
    """Returns the bounds of a range, whose step must not be zero; code that runs for types gets another one."""
    if len(bounds) < 3 or bounds[2]:
        return bounds
    if not evaluator.dry:
        raise QuadrantsAssertionError("range() arg 3 must not be zero")
    return [*bounds[:2], 1]


def _range(evaluator: Any, *bounds: Any) -> Any:
    plain = range(*_with_step(evaluator, [int(bound) for bound in bounds]))
    return map(scalars.as_i64, plain or range(evaluator.dry > 0)) if is_wide(bounds) else plain


def _round(evaluator: Any, value: Any, digits: int | None = None) -> Any:
    if not is_runtime(value):
        return round(value, digits)
    if digits is None:
        return host_objects.convert(unary("round", value), int)
    is_whole = isinstance(value, np.generic) and value.dtype.kind in "iub"
    return value if is_whole else evaluator.binary("div", unary("round", evaluator.binary("mul", value, 10.0**digits)), 10.0**digits)


class TypedNdrange(_Ndrange):
    """An ndrange made by a kernel: `is_wide` is whether its counters are i64."""

    def __init__(self, ends: list[list[Any]], axes: Any) -> None:
        super().__init__(*(axis if len(axis) > 1 else axis[0] for axis in ends), axes=axes)
        self.is_wide = is_wide(bound for axis in ends for bound in axis)


def _ndrange(evaluator: Any, *dimensions: Any, axes: Any = None) -> TypedNdrange:
    ends = [list(map(read, axis)) if isinstance(axis, (tuple, list, Vec)) else [read(axis)] for axis in dimensions]
    ends = [_with_step(evaluator, axis) for axis in ends]
    made = TypedNdrange(ends, axes)
    if not evaluator.dry and math.prod(made.dimensions) >= 2**63:
        raise QuadrantsAssertionError("a loop has at most 2**63 - 1 iterations, and these bounds give more")
    return made


def _print(evaluator: Any, *items: Any, **options: Any) -> None:
    if not evaluator.dry and scalars.options.copies is None:
        print(*(format_value(item, "") for item in items), **options)


def _conversion(kind: type) -> Callable[..., Any]:
    return lambda _, value=0: host_objects.convert(value, kind) if is_runtime(value) else kind(value)


def _sorted(_: Any, items: Any, *, reverse: bool = False, **options: Any) -> Any:
    items = items if isinstance(items, Vec) else list(items)
    if isinstance(items, Vec) or any(map(is_runtime, items)):
        items = list(values.as_vector(items).data)
    return sorted(items, reverse=reverse, **options)


def _reduction(name: str) -> Callable[..., Any]:
    def reduce(evaluator: Any, items: Any, *start: Any) -> Any:
        if isinstance(items, Vec) and not start:
            return vector_attribute(evaluator, items, name)()
        items = [*start, *(items.tolist() if isinstance(items, np.ndarray) else items)]
        if all(objects.is_known(evaluator, item) for item in items):
            return getattr(builtins, name)(items)
        if name == "sum" and len(items) > 1:
            return functools.reduce(functools.partial(evaluator.binary, "add"), items)
        return vector_attribute(evaluator, values.as_vector(items), name)()

    return reduce


def _length(evaluator: Any, items: Any) -> Any:
    if isinstance(items, (dict, Set)) and any(map(is_runtime, items)):
        return np.int32(len(items))
    tensor = evaluator.tensor(items)
    return len(items if tensor is None or not tensor.shape else tensor)


def _is_instance(_: Any, value: Any, kinds: Any, is_pattern: bool = False) -> bool:
    """Python's function; run-time values are numbers, structs and sequences only for patterns of `match`, which pass a third argument."""
    if is_pattern and isinstance(kinds, tuple):
        return isinstance(value, (Vec, *kinds))
    if isinstance(value, StructValue):
        return is_pattern and getattr(kinds, "__match_args__", None) == tuple(value.members)
    # A struct type: an object from outside matches if it has its members.
    if not is_runtime(value) and is_pattern and not isinstance(kinds, type):
        members = value if isinstance(value, dict) else getattr(value, "entries", getattr(value, "__dataclass_fields__", ()))
        return tuple(members) == kinds.__match_args__
    if not is_runtime(value):
        return isinstance(value, kinds)
    numbers = {bool: "b", int: "biu", float: "f"}
    return is_pattern and not isinstance(value, Vec) and value.dtype.kind in numbers.get(kinds, "")


def call_plain(evaluator: Any, function: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """Calls an ordinary Python callable, at compile time; a function that gets run-time values is treated as a func."""
    name = getattr(function, "__name__", repr(function))
    if name in CLASS_METHODS and function is getattr(Matrix, name):
        return CLASS_METHODS[name](*arguments, **keywords)
    is_local = "_qd_factory" in getattr(function, "__qualname__", "")  # defined in the kernel itself
    is_outside = not is_local and not objects.is_own(function) and objects.is_known_call(evaluator, arguments, keywords)
    compares = isinstance(getattr(function, "__self__", None), (list, dict, tuple)) or function in (operator.is_, operator.is_not)
    runs = is_outside or is_local or compares or objects.is_own(function) or objects.is_named_tuple(function) or isinstance(function, type)
    given = (*arguments, *keywords.values())
    if runs or all(objects.is_known(evaluator, value, with_funcs=True) and not objects.is_container(value) for value in given):
        try:
            made = function(*arguments, **keywords)
            return host_objects.constant(host_objects.with_plain_numbers(made) if is_outside else made)
        except QuadrantsAssertionError as error:
            if runs or not objects.calls_func(error):
                raise
    if isinstance(function, FunctionType):
        return objects.call_plain(evaluator, function, arguments, keywords)
    return objects.call_with_operands(evaluator, function, arguments, keywords)


class _Formatter(string.Formatter):
    """Evaluates `"...".format(...)` with the formats of the language."""

    def convert_field(self, value: Any, conversion: Any) -> Any:
        return value if conversion is None else repr(value) if isinstance(value, str) and conversion == "r" else format_field(value, "")

    def format_field(self, value: Any, format_spec: str) -> str:
        return format(value, format_spec) if isinstance(value, str) else format_field(value, format_spec)


def format_text(text: str, *items: Any, **named: Any) -> str:
    """Evaluates `"...".format(...)`."""
    return _Formatter().format(text, *items, **named)


def format_field(value: Any, spec: str) -> str:
    """Formats a value in a text: compile-time numbers as Python does."""
    return str(value) if not spec and type(value) in (bool, int, float) else format_value(value, spec)


def format_value(value: Any, spec: str) -> str:
    """Formats a value as `print` does; `spec` is a C conversion without its percent sign."""
    if is_place(value):
        value = value[()]
    value = value.members if isinstance(value, StructValue) else value
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {format_value(item, spec)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple, Vec)):
        text = ", ".join(format_value(item, spec) for item in value)
        return f"({text}{',' * (len(value) == 1)})" if isinstance(value, tuple) else f"[{text}]"
    if isinstance(value, (bool, int, float)):
        value = typed(value)
    if not isinstance(value, np.generic):
        return format(value, spec)
    return _format.format_value(value.item(), spec, from_numpy_dtype(value.dtype))


def _find_meaning(builtin: Builtin) -> Callable[..., Any]:
    """Returns the meaning of a builtin that has none of its own below: that of its operator, else the one in Python scope."""
    name = builtin.name
    if name not in OPERATORS:
        return lambda _, *arguments, **named: builtin(*arguments, **named)
    if "dtype?" in builtin.parameters:
        return lambda _, value, dtype=None: unary(name, value) if dtype is None else _round_to(name, value, dtype)
    if OPERATORS[name].kind == "unary":
        return lambda _, value: unary(name, value)
    return lambda evaluator, left, right: evaluator.binary(name, left, right)


BY_NAME: dict[str, Callable[..., Any]] = {
    **{name: _find_meaning(builtin) for name, builtin in BUILTINS.items() if builtin.host},
    "max": _fold("max"), "min": _fold("min"), "bit_cast": _bit_cast, "select": _select,
    "ldexp": lambda _, *operands: elementwise(lambda x, n: scalars.binary("ldexp", x, cast(n, scalars.as_float(x.dtype))), *operands),
    "fma": lambda _, *operands: elementwise(scalars.fuse_multiply_add, *operands),
    "volatile_load": lambda _, value: value,
    "cast": lambda _, value, kind: host_objects.convert(value, kind),
    "frexp": lambda _, value: (unary("mantissa", value), unary("exponent", value)),
    "static_print": lambda *_, **__: None,  # the frontend has printed it
    "grouped": _grouped, "ndrange": _ndrange, "zip": _zip, "random": _random, "loop_config": _loop_config,
    "stop_grad": lambda evaluator, field: scalars.options.recorder and scalars.options.recorder.stop(evaluator.tensor(field)),
    "is_differentiated": lambda _: scalars.options.recorder is not None,
    "zero": _constant_like(0), "one": _constant_like(1),
    "Vector": _vector, "Matrix": _vector, "Struct": _struct, "global_thread_idx": lambda _: np.int32(0),
}  # fmt: skip

# Python's builtins that have another meaning for run-time values.
PYTHON: dict[Any, Callable[..., Any]] = {
    abs: lambda evaluator, value: evaluator.unary("abs", value),
    **{kind: _conversion(kind) for kind in (int, float, bool)},
    pow: lambda evaluator, left, right: evaluator.binary("pow", left, right),
    round: _round,
    max: _fold("max", takes_items=True),
    min: _fold("min", takes_items=True),
    range: _range,
    print: _print,
    divmod: lambda evaluator, left, right: (evaluator.binary("floor_div", left, right), evaluator.binary("mod", left, right)),
    **{getattr(builtins, name): _reduction(name) for name in ("sum", "any", "all")},
    reversed: lambda _, items: list(items)[::-1],
    len: _length,
    sorted: _sorted,
    filter: lambda _, function, items: tuple(filter(function, items)),
    isinstance: _is_instance,
    getattr: lambda evaluator, base, *given: (evaluator.member if isinstance(base, StructValue) else getattr)(base, *given),
    BufferView: lambda evaluator, arr, offset, size: values.construct_view(evaluator.tensor(arr), offset, size),
}


def part_attribute(tensor: values.Tensor, name: str) -> Any:
    """Reads an attribute of a container or view about its position in an array; run-time numbers except for fields."""
    if name == "subview":
        return functools.partial(values.subview, tensor)
    if name == "ndim":
        rank, axes = len(tensor.shape), len(tensor.shape) if isinstance(tensor.data, dict) else tensor.data.ndim
        return axes - rank or rank  # for a field of vectors or matrices, the axes of an element
    found = getattr(tensor, name)
    is_known_size = name == "size" and tensor.known is not None and None not in tensor.known
    if not tensor.dynamic or is_known_size:
        return found
    return tuple(map(np.int32, found)) if isinstance(found, tuple) else np.int32(found)


# vectors and matrices


def _sum_of(terms: Any) -> Any:
    """Adds from the first to the last, as compiled code does."""
    return functools.reduce(functools.partial(binary, "add"), terms)


def matmul(left: Any, right: Any) -> Any:
    """Returns the matrix product, or the dot product of two vectors."""
    left, right = values.as_vector(left), values.as_vector(right)
    if left.data.ndim == right.data.ndim == 1:
        return _dot(left, right)
    rows = left.data if left.data.ndim == 2 else left.data[None]
    columns = right.data.T if right.data.ndim == 2 else right.data[None]
    cells = [[_sum_of(binary("mul", Vec(row), Vec(column)).data) for column in columns] for row in rows]
    shape = (*left.data.shape[:-1], *right.data.shape[1:])
    return Vec(np.stack([cell for row in cells for cell in row]).reshape(shape))


def _dot(left: Vec, right: Any) -> Any:
    return _sum_of(binary("mul", left, right).data.reshape(-1))


def _cross(a: Vec, b: Any) -> Any:
    b = values.as_vector(b)

    def minor(i: int, j: int) -> Any:
        return binary("sub", binary("mul", a.data[i], b.data[j]), binary("mul", a.data[j], b.data[i]))

    return minor(0, 1) if a.data.shape == (2,) else make_vector([minor(1, 2), minor(2, 0), minor(0, 1)], None)


def _outer(a: Vec, b: Any) -> Vec:
    return Vec(np.stack([binary("mul", Vec(values.as_vector(b).data), item).data for item in a.data]))


def _transpose(a: Vec) -> Vec:
    return Vec(a.data.T.copy())


def _norm(a: Vec, eps: Any = 0, root: str = "sqrt") -> Any:
    real = host_objects.convert(a, scalars.as_float(a.data.dtype))
    square = _dot(real, real)
    return unary(root, binary("add", square, values.as_type_of(square, eps)))


def _normalized(a: Vec, eps: Any = 0) -> Any:
    norm = _norm(a)
    return binary("div", a, binary("add", norm, values.as_type_of(norm, eps)))


def _total(a: Vec) -> Any:
    flat = list(a.data.reshape(-1))
    return _sum_of(flat) if len(flat) > 1 else cast(flat[0], scalars.without_u1(a.data.dtype))


_VECTOR_METHODS: dict[str, Callable[..., Any]] = {
    "norm": _norm, "norm_inv": functools.partial(_norm, root="rsqrt"), "norm_sqr": lambda a: _dot(a, a), "normalized": _normalized,
    "dot": _dot, "frobenius_inner": _dot, "cross": _cross, "outer_product": _outer, "transpose": _transpose,
    "trace": lambda a: _sum_of(np.diagonal(a.data)), "sum": _total,
    "max": lambda a: functools.reduce(functools.partial(binary, "max"), a.data.reshape(-1)),
    "min": lambda a: functools.reduce(functools.partial(binary, "min"), a.data.reshape(-1)),
    "any": lambda a: np.bool_(np.any(a.data)), "all": lambda a: np.bool_(np.all(a.data)),
    "cast": host_objects.convert, "to_list": lambda a: a.data.tolist(), "get_shape": lambda a: a.data.shape,
}  # fmt: skip


def vector_attribute(evaluator: Any, vec: Vec, name: str) -> Any:
    """Returns a method or property of a vector."""
    shape = vec.data.shape
    properties = {"n": shape[0], "m": shape[1] if len(shape) == 2 else 1, "ndim": len(shape), "shape": shape, "element_shape": shape}
    properties |= {"T": _transpose(vec), "dtype": from_numpy_dtype(vec.data.dtype)}
    if name in properties:
        return properties[name]
    if name == "fill":
        return functools.partial(evaluator.write, vec)
    in_library = getattr(linalg, name) if name in ("determinant", "inverse") else None
    return host_objects.bind(in_library, vec) if in_library else functools.partial(_VECTOR_METHODS[name], vec)


# Static methods of the classes `qd.Vector` and `qd.Matrix` with run-time arguments.
CLASS_METHODS: dict[str, Callable[..., Any]] = {
    "diag": lambda dim, val: make_vector(
        [[val if i == j else cast(typed(0), typed(val).dtype) for j in range(dim)] for i in range(dim)], None
    ),
    "rows": lambda rows: make_vector(rows, None),
    "cols": lambda columns: Vec(make_vector(columns, None).data.T.copy()),
}

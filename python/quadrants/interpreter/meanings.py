"""What the functions of the language mean to the interpreter: the package's own, Python's builtins, and the methods of vectors."""

from __future__ import annotations

import builtins
import functools
import itertools
import string
import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np

from quadrants import _format, _runtime, linalg
from quadrants._buffer_view import BufferView
from quadrants._builtins import TABLE as BUILTINS
from quadrants._dtypes import from_numpy_dtype
from quadrants._errors import (
    QuadrantsAttributeError,
    QuadrantsCompilationError,
    QuadrantsRuntimeError,
    QuadrantsSyntaxError,
    QuadrantsTypeError,
)
from quadrants._matrix import Matrix
from quadrants._ndrange import GroupedNDRange
from quadrants._operators import ATOMICS, OPERATORS
from quadrants._snode import SNode

from . import hosts, notices, scalars, values
from .scalars import I64, cast, typed
from .values import StructValue, Vec, binary, elementwise, is_place, is_runtime, make_vector, new_place, read, truth, unary

_ORDERS, _SCOPES = ("relaxed", "acquire", "release", "acq_rel", "seq_cst"), ("device", "block", "system")

# functions of the package


def atomic(evaluator: Any, name: str, place: Any, *operands: Any, order: str = "relaxed", scope: str = "device") -> Any:
    """A read-modify-write of a place; gives the old value."""
    if order not in _ORDERS or scope not in _SCOPES:
        raise QuadrantsTypeError(f"'order' of {name}() is one of {', '.join(_ORDERS)}, 'scope' one of {', '.join(_SCOPES)}")
    if evaluator.tensor(place) is not None:
        raise QuadrantsSyntaxError(f"cannot use a Field directly as the first operand of '{name}'")
    if not (is_place(place) or isinstance(place, Vec)) or not (place.data if isinstance(place, Vec) else place).flags.writeable:
        raise QuadrantsSyntaxError(f"cannot use a non-writable target as the first operand of '{name}': an lvalue is needed")
    old, dtype = evaluator.read_for_update(place), place.data.dtype if isinstance(place, Vec) else place.dtype
    given = [values.as_type_of(place, name, operand) for operand in map(read, operands)]
    if name == "atomic_cas":
        if isinstance(place, Vec):
            raise QuadrantsTypeError("atomic_cas on tensor (vector / matrix) destinations is not supported")
        new = given[1] if old == given[0] else old
    elif name == "atomic_load":
        return old
    elif name in ("atomic_exchange", "atomic_store"):
        new = given[0]
    else:
        row = ATOMICS[name]
        if row.operand == "Integer" and dtype.kind == "f":
            raise QuadrantsTypeError(f"'{name.replace('atomic_', 'atomic_bit_')}' requires integer operands, got {scalars.NAMES[dtype]}")
        memory, recorder = place.data if isinstance(place, Vec) else place, scalars.options.recorder
        if row.name in ("max", "min") and recorder is not None and recorder.keeps(memory, given[0]):
            return old
        new = scalars.unchecked(binary, row.name, old, given[0])
    evaluator.write(place, new)
    return None if name == "atomic_store" else old


def _bit_cast(_: Any, value: Any, kind: Any) -> Any:
    dtype = hosts.check_dtype(kind)
    return elementwise(lambda x: scalars.bit_cast(x, dtype), "bit_cast", typed(value, dtype) if scalars.is_number(value) else value)


def _rounding(name: str) -> Callable[..., Any]:
    return lambda _, value, dtype=None: unary(name, value) if dtype is None else hosts.convert(unary(name, value), dtype)


def _select(_: Any, condition: Any, first: Any, second: Any) -> Any:
    def choose(c: Any, x: Any, y: Any) -> Any:
        if c.dtype.kind == "f":
            raise QuadrantsTypeError(f"'select' takes integral inputs only, however '{scalars.NAMES[c.dtype]}' is provided")
        common = scalars.promote(x.dtype, y.dtype)
        return np.where(c != c.dtype.type(0), cast(x, common), cast(y, common))[()]

    if isinstance(first, StructValue) and isinstance(second, StructValue):
        return read(first if truth(condition) else second)
    return elementwise(choose, "select", condition, first, second)


def _fma(_: Any, x: Any, y: Any, z: Any) -> Any:
    return elementwise(scalars.fuse_multiply_add, "fma", x, y, z)


def _ldexp(_: Any, x: Any, n: Any) -> Any:
    def compute(value: Any, power: Any) -> Any:
        if power.dtype.kind == "f":
            raise QuadrantsTypeError("qd.ldexp takes an integer as its second argument")
        return scalars.binary("ldexp", value, cast(power, scalars.as_float(value.dtype)))

    return elementwise(compute, "ldexp", x, n)


def _fold(name: str) -> Callable[..., Any]:
    def fold(_: Any, *operands: Any) -> Any:
        if len(operands) == 1:
            # A generator can be gone through once.
            items = operands[0] if is_runtime(operands[0]) else list(operands[0])
            is_known = not any(map(is_runtime, [items, *items]))
            operands = (items,) if is_known else tuple(values.as_vector(items).data.reshape(-1))
        if not any(is_runtime(operand) or isinstance(operand, values.Index) for operand in operands):
            return getattr(builtins, name)(*operands)
        return functools.reduce(lambda x, y: binary(name, x, y), operands)

    return fold


def _unary(name: str) -> Callable[..., Any]:
    return lambda _, value: unary(name, value)


def _binary(name: str) -> Callable[..., Any]:
    return lambda evaluator, left, right: evaluator.binary(name, left, right)


def _static(_: Any, value: Any, *more: Any, max_unroll: int | None = None) -> Any:
    del max_unroll  # a matter of size only
    for item in (value, *more):
        if is_runtime(item):
            text = f"Input to qd.static must be compile-time constants or global pointers, instead of {type(item)}"
            raise QuadrantsCompilationError(f"{text}; assign it with qd.static if it is constant")
    return [value, *more] if more else value


def _static_assert(_: Any, condition: Any, message: Any = None) -> None:
    if is_runtime(condition):
        raise QuadrantsTypeError("Static assert with non-static condition")
    if not condition:
        raise QuadrantsCompilationError(f"AssertionError: {message}" if message is not None else "AssertionError: static assertion failed")


def _grouped(evaluator: Any, items: Any) -> Any:
    if isinstance(items, values.RuntimeRange):
        return values.RuntimeRange(BUILTINS["grouped"](items.items))
    if isinstance(items, GroupedNDRange):
        raise QuadrantsSyntaxError("'qd.grouped' cannot be nested")
    tensor = evaluator.tensor(items)
    if isinstance(items, SNode):
        return GroupedNDRange(hosts.cells(items))
    return GroupedNDRange(tensor.indices()) if tensor is not None else BUILTINS["grouped"](items)


def _ndrange(_: Any, *dimensions: Any, **options: Any) -> Any:
    made = BUILTINS["ndrange"](*dimensions, **options)
    ends = [end for dimension in dimensions for end in (dimension if isinstance(dimension, (tuple, list)) else (dimension,))]
    return values.RuntimeRange(made) if any(map(is_runtime, ends)) else made


def _zip(evaluator: Any, *containers: Any) -> Any:
    shapes = [evaluator.tensor(container).shape for container in containers]
    return BUILTINS["ndrange"](*map(min, zip(*shapes, strict=True)))


def _as_in_python(name: str) -> Callable[..., Any]:
    return lambda _, *arguments, **named: BUILTINS[name](*arguments, **named)


def _static_print(evaluator: Any, *arguments: Any, **named: Any) -> None:
    if evaluator.is_new_version:
        print(*arguments, **named)


def _random(evaluator: Any, kind: Any = float) -> Any:
    dtype, source = hosts.check_dtype(kind), evaluator.random
    if dtype.kind == "f":  # a half could be rounded up to 1
        return dtype.type(source.integers(1 << 11) / (1 << 11) if dtype.itemsize == 2 else source.random(dtype=dtype))
    return np.bool_(source.integers(2)) if dtype == scalars.U1 else np.frombuffer(source.bytes(8), dtype)[0]


def _constant_like(number: int) -> Callable[..., Any]:
    return lambda _, value: elementwise(lambda x: np.full_like(x, number)[()], "zero", value)


def _vector(_: Any, items: Any, dt: Any = None) -> Vec:
    if not isinstance(items, (list, tuple, Vec, np.ndarray)):
        raise QuadrantsTypeError("An Matrix/Vector can only be initialized with an array-like object")
    made = make_vector(items.tolist() if isinstance(items, np.ndarray) else items, None if dt is None else hosts.check_dtype(dt))
    return hosts.convert(made, dt)


def _thread_index(evaluator: Any) -> np.int32:
    if not evaluator.nested:
        raise QuadrantsRuntimeError("qd.global_thread_idx() is only valid within loops")
    return np.int32(0)


def _struct(_: Any, entries: dict[str, Any] | None = None, /, **members: Any) -> StructValue:
    return StructValue({name: new_place(value) for name, value in {**(entries or {}), **members}.items()})


def _range(evaluator: Any, *bounds: Any, **named: Any) -> Any:
    if named or not 1 <= len(bounds) <= 3:
        raise QuadrantsSyntaxError(f"Range should have 1 or 2 arguments, found {len(bounds) + len(named)}")
    if not any(is_runtime(bound) for bound in bounds):
        notices.check_bounds(bounds)
        return range(*(int(bound) for bound in bounds))
    notices.check_bounds(bounds)
    wide = any(np.asarray(bound).dtype == I64 for bound in bounds if isinstance(bound, np.generic))
    plain = range(*(int(bound) for bound in bounds)) or range(evaluator.dry > 0)
    return values.RuntimeRange(map(I64.type, plain) if wide else plain)


def _print(evaluator: Any, *items: Any, sep: str = " ", end: str = "\n", file: Any = None) -> None:
    if not evaluator.dry:
        print(*(format_value(item, "") for item in items), sep=sep, end=end, file=file)


def _conversion(kind: type) -> Callable[..., Any]:
    return lambda _, value=0: hosts.convert(value, kind) if is_runtime(value) else kind(value)


def _python_round(_: Any, value: Any, digits: Any = None) -> Any:
    if is_runtime(value) and digits is not None:
        raise QuadrantsTypeError("TypeError when calling `round`: run-time values are rounded to integers only")
    return hosts.convert(unary("round", value), int) if is_runtime(value) else round(value, digits)


def _stop_grad(evaluator: Any, field: Any) -> None:
    tensor = evaluator.tensor(field)
    if tensor is None:
        raise QuadrantsTypeError(f"qd.stop_grad takes a field or an array, got {scalars.type_name(field)}")
    if scalars.options.recorder is not None:
        scalars.options.recorder.stop(tensor)


def _is_differentiated(_: Any) -> bool:
    return scalars.options.recorder is not None


def _sorted(_: Any, items: Any, *, reverse: bool = False, **options: Any) -> Any:
    items = items if isinstance(items, Vec) else list(items)
    if isinstance(items, Vec) or any(map(is_runtime, items)):
        if options:
            raise QuadrantsTypeError(f"sorted() got an unexpected keyword argument '{next(iter(options))}'")
        items = list(values.as_vector(items).data)
    return sorted(items, reverse=reverse, **options)


def _reduction(name: str) -> Callable[..., Any]:
    def reduce(evaluator: Any, items: Any, *start: Any) -> Any:
        if isinstance(items, Vec) and not start:
            return vector_attribute(evaluator, items, name)()
        items = [*start, *items]
        if not any(map(is_runtime, items)):
            return getattr(builtins, name)(items)
        if name == "sum" and len(items) > 1:
            return functools.reduce(lambda total, item: evaluator.binary("add", total, item), items)
        return vector_attribute(evaluator, values.as_vector(items), name)()

    return reduce


def _length(evaluator: Any, items: Any) -> int:
    tensor = evaluator.tensor(items)
    if tensor is not None and tensor.shape:
        return len(tensor)
    try:
        return len(items)
    except TypeError as error:
        raise QuadrantsTypeError(f"TypeError when calling `len`: {error}") from error


def _filter(evaluator: Any, function: Any, items: Any) -> Any:
    wanted = [evaluator.known("what filter() asks for", item if function is None else function(item)) for item in items]
    return tuple(itertools.compress(items, wanted))


def _is_instance(_: Any, value: Any, kinds: Any, is_pattern: bool = False) -> bool:
    """Python's; run-time values are numbers, structs and sequences only to patterns of `match`, which ask with a third argument."""
    if is_pattern and isinstance(kinds, tuple):
        return isinstance(value, (Vec, *kinds))
    if is_pattern and is_runtime(kinds):
        raise QuadrantsTypeError(f"called match pattern must be a class, got {scalars.type_name(kinds)}")
    if isinstance(value, StructValue):
        return is_pattern and getattr(kinds, "__match_args__", None) == tuple(value.members)
    if not is_runtime(value) and is_pattern and not isinstance(kinds, type):  # a struct type: what is from outside has its members
        members = value if isinstance(value, dict) else getattr(value, "entries", getattr(value, "__dataclass_fields__", ()))
        return tuple(members) == kinds.__match_args__
    if not is_runtime(value):
        return isinstance(value, kinds)
    numbers = {bool: "b", int: "biu", float: "f"}
    return is_pattern and not isinstance(value, Vec) and value.dtype.kind in numbers.get(kinds, "")


def _get_attribute(evaluator: Any, base: Any, name: str, *default: Any) -> Any:
    return evaluator.member(base, name) if isinstance(base, StructValue) else getattr(base, name, *default)


def _is_of_host(function: Any) -> bool:
    """Whether it is a method of a container, or a function of the package that neither makes types nor asks the runtime for options."""
    if isinstance(getattr(function, "__self__", None), hosts.CONTAINERS):
        return function.__name__ not in ("parent", "get_scalar_field", "get_member_field")
    owner = getattr(function, "__module__", None) or ""
    is_allowed = owner in ("quadrants._types", "quadrants._struct", "quadrants._matrix") or owner.startswith("quadrants.lang.")
    return isinstance(function, FunctionType) and owner.startswith("quadrants.") and not is_allowed


def call_plain(evaluator: Any, function: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """A call of an ordinary Python callable, at compile time as it were; a function that gets run-time values is as a func."""
    if isinstance(function, _runtime.Kernel):
        raise QuadrantsSyntaxError("Kernels cannot call other kernels. I.e., nested kernels are not allowed.")
    name = getattr(function, "__name__", repr(function))
    if _is_of_host(function) and not sys._getframe(2).f_globals.get("__name__", "").startswith("quadrants."):
        raise QuadrantsSyntaxError(f"'{name}' is host API and cannot be called in kernels (Quadrants-scope)")
    if name in CLASS_METHODS and function is getattr(Matrix, name):
        return CLASS_METHODS[name](*arguments, **keywords)
    if getattr(function, "__module__", "") in ("math", "numpy") and any(is_runtime(argument) for argument in arguments):
        raise QuadrantsTypeError(
            f"TypeError when calling `{name}`: Did you mean to use `qd.{name}` instead of `{function.__module__}.{name}`?"
        )
    is_local = "_qd_factory" in getattr(function, "__qualname__", "")  # of the kernel itself
    if isinstance(function, FunctionType) and not is_local and any(map(is_runtime, (*arguments, *keywords.values()))):
        text = f'Calling non-quadrants function "{name}". Its body is compiled as if it were decorated with @qd.func.'
        notices.warn(text, SyntaxWarning)
        return hosts.call_func(evaluator, hosts.as_func(function), arguments, keywords)
    try:
        return hosts.constant(function(*arguments, **keywords))
    except TypeError as error:
        if isinstance(error, QuadrantsCompilationError):
            raise
        raise QuadrantsTypeError(f"TypeError when calling `{name}`: {error}") from error


class _Shown:
    """A value inside `"...".format(...)`."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __format__(self, spec: str) -> str:
        return format_value(self.value, spec)


def format_text(text: str, *items: Any, **named: Any) -> str:
    """`"...".format(...)` with the language's formats."""
    return _Formatter().vformat(text, tuple(map(_Shown, items)), {name: _Shown(value) for name, value in named.items()})


class _Formatter(string.Formatter):
    """Python's own, but every argument has a use."""

    def get_value(self, key: int | str, args: Any, kwargs: Any) -> Any:
        if isinstance(key, str) and key not in kwargs:
            raise QuadrantsSyntaxError(f"Keyword '{key}' not found.")
        if isinstance(key, int) and key >= len(args):
            raise QuadrantsSyntaxError(f"Expected {key + 1} positional argument(s), but received {len(args)} instead.")
        return super().get_value(key, args, kwargs)

    def check_unused_args(self, used_args: Any, args: Any, kwargs: Any) -> None:
        count = 1 + max((key for key in used_args if isinstance(key, int)), default=-1)
        if count != len(args):
            raise QuadrantsSyntaxError(f"Expected {count} positional argument(s), but received {len(args)} instead.")
        for name in kwargs:
            if name not in used_args:
                raise QuadrantsSyntaxError(f"Keyword '{name}' not used.")


def format_value(value: Any, spec: str) -> str:
    """A value as `print` shows it; `spec` is a C conversion without its percent sign."""
    if is_place(value):
        value = value[()]
    if isinstance(value, Vec):
        return "[" + ", ".join(format_value(item, spec) for item in value) + "]"
    if isinstance(value, StructValue):
        return "{" + ", ".join(f"{name!r}: {format_value(item, spec)}" for name, item in value.members.items()) + "}"
    if isinstance(value, (list, tuple)):
        text = ", ".join(format_value(item, spec) for item in value)
        return f"[{text}]" if isinstance(value, list) else f"({text},)" if len(value) == 1 else f"({text})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {format_value(item, spec)}" for key, item in value.items()) + "}"
    if isinstance(value, (bool, int, float)):
        value = typed(value)
    if not isinstance(value, np.generic):
        return format(value, spec)
    flags = spec[:-1] if spec.endswith(tuple("diuxXoeEfFgGab")) else spec
    if set(flags[2:] if flags[1:2] in tuple("<>^=") else flags) - set("0123456789.+- #<>^=,_*"):
        raise QuadrantsTypeError(f"'{spec}' doesn't match '{scalars.type_name(value)}'.")
    return _format.format_value(value.item(), spec, from_numpy_dtype(value.dtype))


_AS_IN_PYTHON = "assume_in_range block_local cache_read_only loop_config loop_unique no_activate"

BY_NAME: dict[str, Callable[..., Any]] = {
    **{name: _unary(name) for name, row in OPERATORS.items() if row.kind == "unary"},
    **{name: _rounding(name) for name in ("floor", "ceil", "round")},
    **{name: _binary(name) for name in ("pow", "atan2", "raw_div", "raw_mod", "bit_shr")},
    **{name: _as_in_python(name) for name in _AS_IN_PYTHON.split()},
    "max": _fold("max"), "min": _fold("min"), "bit_cast": _bit_cast, "select": _select, "fma": _fma, "ldexp": _ldexp,
    "volatile_load": lambda _, value: value,
    "cast": lambda _, value, kind: hosts.convert(value, kind if hosts.check_dtype(kind) else None),
    "frexp": lambda _, value: (unary("mantissa", value), unary("exponent", value)),
    "static": _static, "static_print": _static_print, "static_assert": _static_assert, "grouped": _grouped,
    "ndrange": _ndrange, "zip": _zip, "random": _random, "stop_grad": _stop_grad, "is_differentiated": _is_differentiated,
    "zero": _constant_like(0), "one": _constant_like(1),
    "Vector": _vector, "Matrix": _vector, "Struct": _struct, "global_thread_idx": _thread_index,
}  # fmt: skip

# Python's own functions, where run-time values need another meaning.
PYTHON: dict[Any, Callable[..., Any]] = {
    abs: lambda evaluator, value: unary("abs", value) if is_runtime(value) else abs(value),
    **{kind: _conversion(kind) for kind in (int, float, bool)},
    pow: _binary("pow"),
    round: _python_round,
    max: _fold("max"),
    min: _fold("min"),
    range: _range,
    print: _print,
    divmod: lambda evaluator, left, right: (evaluator.binary("floor_div", left, right), evaluator.binary("mod", left, right)),
    **{getattr(builtins, name): _reduction(name) for name in ("sum", "any", "all")},
    reversed: lambda _, items: list(items)[::-1],
    len: _length,
    sorted: _sorted,
    filter: _filter,
    isinstance: _is_instance,
    getattr: _get_attribute,
    BufferView: lambda evaluator, arr, offset, size: values.construct_view(evaluator.tensor(arr), offset, size),
}


def part_attribute(tensor: values.Tensor, name: str) -> Any:
    """What a container or view tells about its place in an array; numbers of the run time but for fields."""
    if name == "subview":
        return functools.partial(values.subview, tensor)
    if name == "ndim":
        rank, axes = len(tensor.shape), len(tensor.shape) if isinstance(tensor.data, dict) else tensor.data.ndim
        return axes - rank or rank  # of a field of vectors or matrices, that of an element
    found = getattr(tensor, name)
    if not tensor.dynamic:
        return found
    return tuple(map(np.int32, found)) if isinstance(found, tuple) else np.int32(found)


# vectors and matrices


def _sum_of(terms: Any) -> Any:
    """Adds from the first to the last, as compiled code does."""
    return functools.reduce(lambda x, y: binary("add", x, y), terms)


def matmul(left: Any, right: Any) -> Any:
    """Matrix product; two vectors give their dot product."""
    left, right = values.as_vector(left), values.as_vector(right)
    if not (isinstance(left, Vec) and isinstance(right, Vec)):
        raise QuadrantsTypeError(f"unsupported operand type(s) for '@': '{scalars.type_name(left)}' and '{scalars.type_name(right)}'")
    if left.data.ndim == right.data.ndim == 1:
        return _dot(None, left, right)
    if left.data.shape[-1] != right.data.shape[0]:
        raise QuadrantsTypeError(f"dimension mismatch between {left.data.shape} and {right.data.shape} for matrix multiplication")
    rows = left.data if left.data.ndim == 2 else left.data[None]
    columns = right.data.T if right.data.ndim == 2 else right.data[None]
    cells = [[_sum_of(binary("mul", Vec(row), Vec(column)).data) for column in columns] for row in rows]
    shape = (*left.data.shape[:-1], *right.data.shape[1:])
    return Vec(np.stack([cell for row in cells for cell in row]).reshape(shape))


def _dot(_: Any, left: Vec, right: Any) -> Any:
    return _sum_of(binary("mul", left, right).data.reshape(-1))


def _cross(_: Any, a: Vec, b: Any) -> Any:
    b = values.as_vector(b)

    def minor(i: int, j: int) -> Any:
        return binary("sub", binary("mul", a.data[i], b.data[j]), binary("mul", a.data[j], b.data[i]))

    if a.data.shape == (2,):
        return minor(0, 1)
    if a.data.shape != (3,):
        raise QuadrantsTypeError(
            f"Cross product is only supported between pairs of 2D/3D vectors: only dimension < 4 is supported, got shape {a.data.shape}"
        )
    return make_vector([minor(1, 2), minor(2, 0), minor(0, 1)], None)


def _outer(_: Any, a: Vec, b: Any) -> Vec:
    return Vec(np.stack([binary("mul", Vec(values.as_vector(b).data), item).data for item in a.data]))


def _transpose(_: Any, a: Vec) -> Vec:
    if a.data.ndim == 1:
        raise QuadrantsTypeError(
            "`transpose()` cannot apply to a vector. If you want something like `a @ b.transpose()`, write `a.outer_product(b)` instead."
        )
    return Vec(a.data.T.copy())


def _norm_sqr(_: Any, a: Vec) -> Any:
    return _dot(None, a, a)


def _norm(_: Any, a: Vec, eps: Any = 0, root: str = "sqrt") -> Any:
    real = hosts.convert(a, scalars.as_float(a.data.dtype))
    square = _dot(None, real, real)
    return unary(root, binary("add", square, values.as_type_of(square, "norm", eps)))


def _norm_inv(_: Any, a: Vec, eps: Any = 0) -> Any:
    return _norm(_, a, eps, "rsqrt")


def _normalized(_: Any, a: Vec, eps: Any = 0) -> Any:
    norm = _norm(_, a)
    return binary("div", a, binary("add", norm, values.as_type_of(norm, "normalized", eps)))


def _square(a: Vec, limit: int) -> int:
    if a.data.ndim != 2 or a.data.shape[0] != a.data.shape[1]:
        raise QuadrantsTypeError(f"expected a square matrix, got shape {a.data.shape}")
    if len(a) > limit:
        raise QuadrantsTypeError(f"only dimension < {limit + 1} is supported, got shape {a.data.shape}")
    return len(a)


def _trace(_: Any, a: Vec) -> Any:
    _square(a, 1 << 30)
    return _sum_of(np.diagonal(a.data))


def _in_library(function: Any) -> Callable[..., Any]:
    return lambda evaluator, a: hosts.call_func(evaluator, function, (a,) * (_square(a, 12) > 0), {})


def _fill(evaluator: Any, a: Vec, value: Any) -> None:
    evaluator.write(a, value)


def _folded(name: str) -> Callable[..., Any]:
    return lambda _, a: functools.reduce(lambda x, y: binary(name, x, y), a.data.reshape(-1))


def _total(_: Any, a: Vec) -> Any:
    flat = list(a.data.reshape(-1))
    return _sum_of(flat) if len(flat) > 1 else cast(flat[0], scalars.without_u1(a.data.dtype))


_VECTOR_METHODS: dict[str, Callable[..., Any]] = {
    "norm": _norm, "norm_inv": _norm_inv, "norm_sqr": _norm_sqr, "normalized": _normalized, "dot": _dot, "cross": _cross,
    "outer_product": _outer, "transpose": _transpose, "fill": _fill,
    "determinant": _in_library(linalg.determinant), "inverse": _in_library(linalg.inverse),
    "trace": _trace,
    "sum": _total, "max": _folded("max"), "min": _folded("min"), "frobenius_inner": _dot,
    "any": lambda _, a: np.bool_(np.any(a.data)), "all": lambda _, a: np.bool_(np.all(a.data)),
    "cast": lambda _, a, kind: hosts.convert(a, kind), "to_list": lambda _, a: a.data.tolist(), "get_shape": lambda _, a: a.data.shape,
}  # fmt: skip


def vector_attribute(evaluator: Any, vec: Vec, name: str) -> Any:
    """A method or property of a vector."""
    shape = vec.data.shape
    properties = {"n": shape[0], "m": shape[1] if len(shape) == 2 else 1, "ndim": len(shape), "shape": shape}
    if name in properties:
        return properties[name]
    if name == "T":
        return _transpose(evaluator, vec)
    if name == "dtype":
        return from_numpy_dtype(vec.data.dtype)
    method = _VECTOR_METHODS.get(name)
    if method is None:
        raise QuadrantsAttributeError(f"{vec.tensor_type()} has no attribute '{name}'")
    return functools.partial(method, evaluator, vec)


# Static methods of the classes `qd.Vector` and `qd.Matrix` that take run-time values.
CLASS_METHODS: dict[str, Callable[..., Any]] = {
    "diag": lambda dim, val: make_vector(
        [[val if i == j else cast(typed(0), typed(val).dtype) for j in range(dim)] for i in range(dim)], None
    ),
    "rows": lambda rows: make_vector(rows, None),
    "cols": lambda columns: Vec(make_vector(columns, None).data.T.copy()),
}

"""Typed scalar arithmetic: what one operator does to NumPy scalars and arrays of the kernel language's types.

A run-time scalar is a NumPy scalar and its class is its type; Python numbers are compile-time values that take a type when they meet one.
Every function works alike on scalars and on arrays of components, so vectors need no rules of their own.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from quadrants._base.dtypes import DATA_TYPES, to_memory_dtype
from quadrants._base.errors import QuadrantsRuntimeError
from quadrants._base.operators import OPERATORS, Operator

NAMES: dict[np.dtype, str] = {to_memory_dtype(dtype): dtype.name for dtype in DATA_TYPES}
U1, I32, I64, U64, F32, F64 = (np.dtype(name) for name in ("?", "i4", "i8", "u8", "f4", "f8"))


# The options of `qd.init` that change what a program means.
options: Any = SimpleNamespace(checks=None, recorder=None)


def unchecked(function: Callable[..., Any], *operands: Any) -> Any:
    """Computes without the checks of debug mode: what is atomic wraps."""
    checks, options.checks = options.checks, None
    try:
        return function(*operands)
    finally:
        options.checks = checks


def is_number(value: Any) -> bool:
    """True for compile-time and run-time scalars."""
    return isinstance(value, (bool, int, float, np.generic))


def typed(value: Any, hint: np.dtype | None = None) -> np.generic:
    """The run-time scalar for a compile-time number; `hint` is the 64-bit type that a large literal may take."""
    if isinstance(value, np.generic):
        return value
    if isinstance(value, bool):
        return np.bool_(value)
    if isinstance(value, int):
        dtype = options.default_ip if hint is None or fits(value, options.default_ip) else hint
        return dtype.type(value)
    return options.default_fp.type(value)


def as_i64(value: int) -> np.int64:
    """An index of a loop with 64-bit bounds; those of a u64 from 2**63 on wrap."""
    return np.int64(value if value < 2**63 else value - 2**64)


def fits(value: int, dtype: np.dtype) -> bool:
    """True when an integer dtype holds `value`."""
    info = np.iinfo(dtype)
    return info.min <= value <= info.max


def promote(left: np.dtype, right: np.dtype) -> np.dtype:
    """The common type of two operands."""
    if left == right:
        return left
    if U1 in (left, right):
        return right if left == U1 else left
    if (left.kind == "f") != (right.kind == "f"):
        return left if left.kind == "f" else right
    if left.itemsize != right.itemsize:
        return left if left.itemsize > right.itemsize else right
    return left if left.kind == "u" else right


def without_u1(dtype: np.dtype) -> np.dtype:
    """Arithmetic never happens in u1."""
    return options.default_ip if dtype == U1 else dtype


def as_float(dtype: np.dtype) -> np.dtype:
    """Floating types stay, integers become the default floating type."""
    return dtype if dtype.kind == "f" else options.default_fp


def cast(value: Any, dtype: np.dtype) -> Any:
    """Converts a NumPy scalar or array as `qd.cast` does."""
    source = value.dtype
    if source == dtype:
        return value
    if dtype == U1:
        return value != source.type(0)
    if source.kind == "f" and dtype.kind in "iu":
        if options.checks:
            options.checks.conversion(value, dtype)
        return _float_to_int(value, dtype)
    return value.astype(dtype)


def _float_to_int(value: Any, dtype: np.dtype) -> Any:
    """Truncates toward zero. Up to 32 bits signed the way goes through i32, saturated; then the low bits are kept; NaN becomes 0."""
    low, high = -(2**63), 2**64 - 1 if dtype == U64 else 2**63 - 1
    if dtype.itemsize < 4 or dtype == I32:
        low, high = -(2**31), 2**31 - 1
    mask = (1 << 8 * dtype.itemsize) - 1
    whole = [int(min(max(number, low), high)) & mask if number == number else 0 for number in np.ravel(value).tolist()]
    return np.array(whole, U64).astype(dtype).reshape(np.shape(value))[()]


def adopt(array: Any) -> Any:
    """An array that becomes a place of the kernel."""
    return array if options.recorder is None else options.recorder.adopt(array)


def memory(array: np.ndarray, container: Any, label: str) -> Any:
    """The memory of a container that the kernel uses."""
    return array if options.recorder is None else options.recorder.memory(array, container, label)


def refuse_gradients() -> None:
    """Raises while a gradient runs: the kernel uses one itself."""
    if options.recorder is not None and options.recorder.reverse:
        raise QuadrantsRuntimeError("Cannot automatically differentiate through a grad tensor")


def place(value: Any) -> Any:
    """A place of its own that holds a NumPy scalar."""
    made = adopt(np.array(value))
    made[...] = value
    return made


# What Python computes between compile-time values; with the symbols of messages.
PYTHON: dict[str, tuple[str, Callable[[Any, Any], Any]]] = {
    "add": ("+", operator.add), "sub": ("-", operator.sub), "mul": ("*", operator.mul), "div": ("/", operator.truediv),
    "floor_div": ("//", operator.floordiv), "mod": ("%", operator.mod), "pow": ("**", operator.pow), "bit_and": ("&", operator.and_),
    "bit_or": ("|", operator.or_), "bit_xor": ("^", operator.xor), "shl": ("<<", operator.lshift), "shr": (">>", operator.rshift),
    "lt": ("<", operator.lt), "le": ("<=", operator.le), "gt": (">", operator.gt), "ge": (">=", operator.ge), "eq": ("==", operator.eq),
    "ne": ("!=", operator.ne), "max": ("max", max), "min": ("min", min),
}  # fmt: skip


def symbol_of(name: str) -> str:
    """How messages call a binary operator."""
    return PYTHON[name][0] if name in PYTHON else name


def operand_types(row: Operator, left: np.dtype, right: np.dtype) -> tuple[np.dtype, np.dtype]:
    """What the operands of a binary operator are converted to."""
    if row.operand == "Real":
        left, right = as_float(left), as_float(right)
    if row.result == "RealPromoted":
        left = promote(left, options.default_fp)
    if row.result == "Power" and left.kind != "f" and right.kind != "f":
        return without_u1(right if left == U1 else left), without_u1(right)
    if row.result == "Left":
        return without_u1(left), without_u1(right)
    common = promote(left, right)
    common = without_u1(common) if row.operand == "Numeric" else common
    return common, common


def binary(name: str, left: Any, right: Any) -> Any:
    """One operator on two NumPy scalars or arrays."""
    row = OPERATORS[name]
    left_type, right_type = operand_types(row, left.dtype, right.dtype)
    return _compute(row, cast(left, left_type), cast(right, right_type))


def unary(name: str, value: Any) -> Any:
    """One operator on a NumPy scalar or array."""
    row = OPERATORS[name]
    if row.operand == "Real":
        value = cast(value, as_float(value.dtype))
    elif row.operand == "Numeric":
        value = cast(value, without_u1(value.dtype))
    return _compute(row, value)


def fuse_multiply_add(x: Any, y: Any, z: Any) -> Any:
    """x * y + z of NumPy scalars or arrays, rounded once."""
    common = functools.reduce(promote, (as_float(operand.dtype) for operand in (x, y, z)))
    return _compute(OPERATORS["fma"], *np.broadcast_arrays(*(cast(operand, common) for operand in (x, y, z))))


def _compute(row: Operator, *operands: Any) -> Any:
    return compute(row, *operands) if options.recorder is None else options.recorder.compute(row, operands)


def compute(row: Operator, *operands: Any) -> Any:
    """One operator on operands of its types."""
    checks = options.checks
    if checks is None:
        return row.compute(*operands)
    checks.operation(row.name, *operands)
    result = row.compute(*operands)
    checks.result(row.name, result, *operands)
    return result

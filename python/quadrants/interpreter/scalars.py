"""Typed scalar arithmetic: the operators on NumPy scalars and arrays of the kernel language's types.

A run-time scalar is a NumPy scalar and its class is its type; Python numbers are compile-time values that get a type from a run-time
operand.
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


# The options of `qd.init` that change the meaning of a program. `copies`: a run on copies of containers keeps them here. `thread`: the one
# that runs a kernel.
options: Any = SimpleNamespace(checks=None, recorder=None, copies=None, thread=None)


def unchecked(function: Callable[..., Any], *operands: Any) -> Any:
    """Computes without the checks of debug mode: atomic operations wrap."""
    checks, options.checks = options.checks, None
    try:
        return function(*operands)
    finally:
        options.checks = checks


def is_number(value: Any) -> bool:
    """Whether `value` is a compile-time or run-time scalar."""
    return isinstance(value, (bool, int, float, np.generic))


def typed(value: Any, hint: np.dtype | None = None) -> np.generic:
    """Returns the run-time scalar for a compile-time number; `hint` is the type that a large literal gets: that to which it is assigned."""
    if isinstance(value, np.generic):
        return value
    if isinstance(value, bool):
        return np.bool_(value)
    if isinstance(value, int):
        dtype = options.default_ip if hint is None or fits(value, options.default_ip) else hint
        return as_i64(value).astype(dtype) if hint is not None and dtype.kind in "iu" else dtype.type(value)
    return options.default_fp.type(value)


def as_i64(value: int) -> np.int64:
    """Returns an index of a loop with 64-bit bounds; u64 values from 2**63 on wrap."""
    return np.int64(value if value < 2**63 else value - 2**64)


def fits(value: int, dtype: np.dtype) -> bool:
    """Whether an integer dtype can represent `value`."""
    info = np.iinfo(dtype)
    return info.min <= value <= info.max


def promote(left: np.dtype, right: np.dtype) -> np.dtype:
    """Returns the common type of two operands."""
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
    """Replaces u1, in which no arithmetic is done."""
    return options.default_ip if dtype == U1 else dtype


def as_float(dtype: np.dtype) -> np.dtype:
    """Returns a floating-point type unchanged, and the default floating-point type for an integer type."""
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
    """Truncates toward zero. Types up to signed 32 bits convert through a saturated i32; then the low bits are used; NaN becomes 0."""
    low, high = -(2**63), 2**64 - 1 if dtype == U64 else 2**63 - 1
    if dtype.itemsize < 4 or dtype == I32:
        low, high = -(2**31), 2**31 - 1
    mask = (1 << 8 * dtype.itemsize) - 1
    whole = [int(min(max(number, low), high)) & mask if number == number else 0 for number in np.ravel(value).tolist()]
    return np.array(whole, U64).astype(dtype).reshape(np.shape(value))[()]


def adopt(array: Any) -> Any:
    """Returns an array as a place of the kernel."""
    return array if options.recorder is None else options.recorder.adopt(array)


def memory(array: np.ndarray, container: Any, label: str) -> Any:
    """Returns the memory of a container that the kernel uses."""
    return array if options.recorder is None else options.recorder.memory(array, container, label)


def refuse_gradients() -> None:
    """Raises while a gradient runs: the kernel uses a gradient itself."""
    if options.recorder is not None and options.recorder.reverse:
        raise QuadrantsRuntimeError("Cannot automatically differentiate through a grad tensor")


def place(value: Any) -> Any:
    """Returns a new place that holds a NumPy scalar."""
    made = adopt(np.array(value))
    made[...] = value
    return made


# Operators that Python computes between compile-time values, and their symbols in messages.
PYTHON: dict[str, tuple[str, Callable[[Any, Any], Any]]] = {
    "add": ("+", operator.add), "sub": ("-", operator.sub), "mul": ("*", operator.mul), "div": ("/", operator.truediv),
    "floor_div": ("//", operator.floordiv), "mod": ("%", operator.mod), "pow": ("**", operator.pow), "bit_and": ("&", operator.and_),
    "bit_or": ("|", operator.or_), "bit_xor": ("^", operator.xor), "shl": ("<<", operator.lshift), "shr": (">>", operator.rshift),
    "lt": ("<", operator.lt), "le": ("<=", operator.le), "gt": (">", operator.gt), "ge": (">=", operator.ge), "eq": ("==", operator.eq),
    "ne": ("!=", operator.ne), "max": ("max", max), "min": ("min", min),
}  # fmt: skip


def symbol_of(name: str) -> str:
    """Returns the symbol of a binary operator in messages."""
    return PYTHON[name][0] if name in PYTHON else name


def operand_types(row: Operator, left: np.dtype, right: np.dtype) -> tuple[np.dtype, np.dtype]:
    """Returns the types to which the operands of a binary operator are converted."""
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
    """Evaluates an operator on two NumPy scalars or arrays."""
    row = OPERATORS[name]
    left_type, right_type = operand_types(row, left.dtype, right.dtype)
    return _compute(row, cast(left, left_type), cast(right, right_type))


def unary(name: str, value: Any) -> Any:
    """Evaluates an operator on a NumPy scalar or array."""
    row = OPERATORS[name]
    if row.operand == "Real":
        value = cast(value, as_float(value.dtype))
    elif row.operand == "Numeric":
        value = cast(value, without_u1(value.dtype))
    return _compute(row, value)


def fuse_multiply_add(x: Any, y: Any, z: Any) -> Any:
    """Returns x * y + z for NumPy scalars or arrays, rounded once."""
    common = functools.reduce(promote, (as_float(operand.dtype) for operand in (x, y, z)))
    return _compute(OPERATORS["fma"], *np.broadcast_arrays(*(cast(operand, common) for operand in (x, y, z))))


def _compute(row: Operator, *operands: Any) -> Any:
    return compute(row, *operands) if options.recorder is None else options.recorder.compute(row, operands)


def compute(row: Operator, *operands: Any) -> Any:
    """Evaluates an operator on operands of its types."""
    checks = options.checks
    if checks is None:
        return row.compute(*operands)
    checks.operation(row.name, *operands)
    result = row.compute(*operands)
    checks.result(row.name, result, *operands)
    return result

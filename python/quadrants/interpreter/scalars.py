"""Typed scalar arithmetic: what one operator does to NumPy scalars and arrays of the kernel language's types.

A run-time scalar is a NumPy scalar and its class is its type; Python numbers are compile-time values that take a type when they meet one.
Every function works alike on scalars and on arrays of components, so vectors need no rules of their own.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from quadrants._errors import QuadrantsTypeError

DTYPES: dict[str, np.dtype] = {
    "u1": np.dtype(np.bool_),
    **{f"{sign}{bits}": np.dtype(f"{sign}{bits // 8}") for sign in "iu" for bits in (8, 16, 32, 64)},
    **{f"f{bits}": np.dtype(f"f{bits // 8}") for bits in (16, 32, 64)},
}
NAMES: dict[np.dtype, str] = {dtype: name for name, dtype in DTYPES.items()}
U1, I32, I64, F64 = DTYPES["u1"], DTYPES["i32"], DTYPES["i64"], DTYPES["f64"]


@dataclass
class Options:
    """The options of `qd.init` that change what a program means."""

    default_ip: np.dtype = I32
    default_fp: np.dtype = DTYPES["f32"]
    debug: bool = False
    short_circuit_operators: bool = True
    strict_conditions: bool = False


options = Options()


def is_number(value: Any) -> bool:
    """True for compile-time and run-time scalars."""
    return isinstance(value, (bool, int, float, np.generic))


def type_name(value: Any) -> str:
    """How messages call the type of a value."""
    if isinstance(value, np.generic):
        return NAMES[value.dtype]
    if hasattr(value, "tensor_type"):
        return value.tensor_type()
    if isinstance(value, (bool, int, float)):
        return NAMES[typed(value).dtype]
    return str(type(value))


def typed(value: Any, hint: np.dtype | None = None) -> np.generic:
    """The run-time scalar for a compile-time number; `hint` is the 64-bit type that a large literal may take."""
    if isinstance(value, np.generic):
        return value
    if isinstance(value, bool):
        return np.bool_(value)
    if isinstance(value, int):
        if fits(value, options.default_ip):
            return options.default_ip.type(value)
        if hint is not None and hint.kind in "iu" and fits(value, hint):
            return hint.type(value)
        if hint is not None and hint.kind == "f":
            return hint.type(value)
        raise QuadrantsTypeError(f"Integer literal {value} exceeded the range of default_ip: {NAMES[options.default_ip]}")
    if isinstance(value, float):
        return options.default_fp.type(value)
    raise QuadrantsTypeError(f"Invalid constant scalar data type: {type(value)}")


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
        return _float_to_int(value, dtype)
    return value.astype(dtype)


def _float_to_int(value: Any, dtype: np.dtype) -> Any:
    """Truncates towards zero. Up to 32 bits signed the way goes through i32, saturated; then the low bits are kept; NaN becomes 0."""
    wide = np.trunc(np.nan_to_num(np.asarray(value, F64), nan=0.0, posinf=np.inf, neginf=-np.inf))
    if dtype.itemsize < 4 or dtype == I32:
        result = np.clip(wide, -(2.0**31), 2.0**31 - 1).astype(I64).astype(dtype)
    elif dtype == DTYPES["u64"]:
        high = np.where(wide >= 2.0**64, np.uint64(2**64 - 1), np.where(wide >= 2.0**63, wide, 0).astype(np.uint64))
        result = np.where(wide >= 2.0**63, high, _saturate_i64(wide).astype(np.uint64))
    else:
        result = _saturate_i64(wide).astype(dtype)
    return result if isinstance(value, np.ndarray) else dtype.type(result[()])


def _saturate_i64(wide: np.ndarray) -> np.ndarray:
    safe = np.where(np.abs(wide) < 2.0**63, wide, 0).astype(I64)
    return np.where(wide >= 2.0**63, np.int64(2**63 - 1), np.where(wide < -(2.0**63), np.int64(-(2**63)), safe))


def bit_cast(value: Any, dtype: np.dtype) -> Any:
    """Reinterprets the bits; both sides have one size."""
    if value.dtype.itemsize != dtype.itemsize or U1 in (value.dtype, dtype):
        raise QuadrantsTypeError(f"bit_cast needs types of one size, got {NAMES[value.dtype]} and {NAMES[dtype]}")
    return value.view(dtype)


def _integers_only(symbol: str, left: np.dtype, right: np.dtype) -> None:
    if "f" in (left.kind, right.kind):
        raise QuadrantsTypeError(f"unsupported operand type(s) for '{symbol}': '{NAMES[left]}' and '{NAMES[right]}'")


def _floor_divide(left: Any, right: Any) -> Any:
    if left.dtype.kind == "f":
        wide = np.result_type(left.dtype, np.float32)  # a half is computed as a single and rounded once
        return np.floor(np.divide(left.astype(wide), right.astype(wide))).astype(left.dtype)
    return np.floor_divide(left, right)


def _modulo(left: Any, right: Any) -> Any:
    if left.dtype.kind == "f":
        wide = np.result_type(left.dtype, np.float32)
        a, b = left.astype(wide), right.astype(wide)
        return np.subtract(a, np.multiply(b, np.floor(np.divide(a, b)))).astype(left.dtype)
    return np.remainder(left, right)


def _truncating_divide(left: Any, right: Any) -> Any:
    if left.dtype.kind == "f":
        return np.divide(left, right)
    return np.floor_divide(np.subtract(left, np.fmod(left, right)), right)


def _power(left: Any, right: Any) -> Any:
    if left.dtype.kind == "f" or right.dtype.kind == "f":
        return np.power(left, right)
    if not isinstance(left, np.ndarray) and not isinstance(right, np.ndarray):
        return _integer_power(left, right)
    pairs = np.broadcast(left, right)
    return np.array([_integer_power(a, b) for a, b in pairs], left.dtype).reshape(pairs.shape)


def _integer_power(base: Any, exponent: Any) -> Any:
    """Exact with wrap; a negative exponent gives the reciprocal truncated towards zero."""
    bits, value, count = base.dtype.itemsize * 8, int(base), int(exponent)
    if count < 0:
        result = value ** (count % 2 or 2) if abs(value) == 1 else 0
    else:
        result = pow(value, count, 1 << bits)
    return np.array(result % (1 << bits), np.uint64).astype(base.dtype)[()]


def _shift(function: Callable, logical: bool = False) -> Callable:
    def shift(left: Any, right: Any) -> Any:
        """The count is taken modulo the width."""
        dtype = left.dtype
        count = np.bitwise_and(right, right.dtype.type(dtype.itemsize * 8 - 1)).astype(dtype)
        if not logical:
            return function(left, count)
        unsigned = np.dtype(f"u{dtype.itemsize}")
        return function(left.astype(unsigned), count.astype(unsigned)).astype(dtype)

    return shift


# Operator -> (symbol of messages, Python's meaning between compile-time values, what NumPy computes, group of the type rule).
BINARY: dict[str, tuple[str, Callable | None, Callable, str]] = {
    "add": ("+", operator.add, np.add, "arithmetic"),
    "sub": ("-", operator.sub, np.subtract, "arithmetic"),
    "mul": ("*", operator.mul, np.multiply, "arithmetic"),
    "div": ("/", operator.truediv, np.divide, "float"),
    "floor_div": ("//", operator.floordiv, _floor_divide, "arithmetic"),
    "mod": ("%", operator.mod, _modulo, "arithmetic"),
    "pow": ("**", operator.pow, _power, "power"),
    "bit_and": ("&", operator.and_, np.bitwise_and, "bits"),
    "bit_or": ("|", operator.or_, np.bitwise_or, "bits"),
    "bit_xor": ("^", operator.xor, np.bitwise_xor, "bits"),
    "shl": ("<<", operator.lshift, _shift(np.left_shift), "shift"),
    "shr": (">>", operator.rshift, _shift(np.right_shift), "shift"),
    "bit_shr": ("bit_shr", None, _shift(np.right_shift, logical=True), "shift"),
    "max": ("max", max, np.fmax, "common"),
    "min": ("min", min, np.fmin, "common"),
    "raw_div": ("raw_div", None, _truncating_divide, "arithmetic"),
    "raw_mod": ("raw_mod", None, np.fmod, "arithmetic"),
    "atan2": ("atan2", None, np.arctan2, "atan2"),
    "lt": ("<", operator.lt, np.less, "common"),
    "le": ("<=", operator.le, np.less_equal, "common"),
    "gt": (">", operator.gt, np.greater, "common"),
    "ge": (">=", operator.ge, np.greater_equal, "common"),
    "eq": ("==", operator.eq, np.equal, "common"),
    "ne": ("!=", operator.ne, np.not_equal, "common"),
}


def operand_types(name: str, left: np.dtype, right: np.dtype) -> tuple[np.dtype, np.dtype]:
    """What the operands of a binary operator are converted to."""
    symbol, _, _, group = BINARY[name]
    if group == "bits":
        _integers_only(symbol, left, right)
    elif group == "shift":
        _integers_only(symbol, left, right)
        return without_u1(left), without_u1(right)
    elif group == "power" and left.kind != "f" and right.kind != "f":
        base = without_u1(left if left != U1 else right)
        return base, without_u1(right)
    elif group == "float":
        left, right = as_float(left), as_float(right)
    elif group == "atan2":
        left, right = promote(as_float(left), options.default_fp), as_float(right)
    common = promote(left, right)
    if group not in ("bits", "common"):
        common = without_u1(common)
    return common, common


def binary(name: str, left: Any, right: Any) -> Any:
    """One operator on two NumPy scalars or arrays."""
    left_type, right_type = operand_types(name, left.dtype, right.dtype)
    return BINARY[name][2](cast(left, left_type), cast(right, right_type))


def _round_half_away(value: Any) -> Any:
    whole = np.trunc(value)
    away = np.abs(np.subtract(value, whole)) >= value.dtype.type(0.5)
    result = np.where(away, np.add(whole, np.copysign(value.dtype.type(1), value)), whole).astype(value.dtype)
    return result if isinstance(value, np.ndarray) else result[()]


def _reciprocal_root(value: Any) -> Any:
    return np.divide(value.dtype.type(1), np.sqrt(value))


def _negate(value: Any) -> Any:
    return np.negative(cast(value, without_u1(value.dtype)))


# Name -> (what NumPy computes, operand: "float" converts integers and keeps its type, "convert" converts too, "integer" refuses floats).
UNARY: dict[str, tuple[Callable, str]] = {
    **{name: (getattr(np, name), "float") for name in ("sin cos tan tanh sinh cosh exp exp2 expm1 log log2 log10 log1p cbrt sqrt").split()},
    **{name: (getattr(np, "arc" + name[1:]), "float") for name in ("asin", "acos", "atan", "asinh", "acosh", "atanh")},
    **{name: (getattr(np, name), "float") for name in ("floor", "ceil", "trunc")},
    "round": (_round_half_away, "float"),
    "rsqrt": (_reciprocal_root, "float"),
    "mantissa": (lambda value: np.frexp(value)[0], "float"),
    "exponent": (lambda value: np.frexp(value)[1].astype(np.int32), "convert"),
    "isnan": (np.isnan, "convert"),
    "isinf": (np.isinf, "convert"),
    "neg": (_negate, "any"),
    "abs": (lambda value: np.abs(cast(value, without_u1(value.dtype))), "any"),
    "bit_not": (np.invert, "integer"),
    "logical_not": (lambda value: np.equal(value, value.dtype.type(0)), "any"),
}


def unary(name: str, value: Any) -> Any:
    """One operator on a NumPy scalar or array."""
    function, operand = UNARY[name]
    if operand == "integer" and value.dtype.kind == "f":
        raise QuadrantsTypeError(f"'{name}' takes integral inputs only, however '{NAMES[value.dtype]}' is provided")
    if operand in ("float", "convert"):
        value = cast(value, as_float(value.dtype))
    result = function(value)
    return result.astype(value.dtype) if operand == "float" else result


def _count_bits(name: str) -> Callable:
    def count(value: Any) -> Any:
        """In the operand's own width, as i32."""
        width = value.dtype.itemsize * 8
        result = np.array([_bit_answer(name, int(x) & ((1 << width) - 1), width) for x in np.ravel(value)], np.int32)
        return result.reshape(value.shape) if isinstance(value, np.ndarray) else result[0]

    return count


def _bit_answer(name: str, bits: int, width: int) -> int:
    if name == "popcnt":
        return bits.bit_count()
    return width - bits.bit_length() if name == "clz" else (bits & -bits).bit_length()


UNARY.update({name: (_count_bits(name), "integer") for name in ("popcnt", "clz", "ffs")})

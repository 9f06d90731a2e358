"""The table `src/ir/builtins.def` in Python: the NumPy function of each operator, for scalars and arrays, and the rules for its types."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import _runtime


class Operator:
    """One operator: a row of the table. The operands of `compute` have the types that follow from `operand` and `result`."""

    def __init__(self, kind: str, name: str, operand: str, result: str, numpy: str, doc: str):
        self.kind, self.name, self.operand, self.result, self.numpy, self.doc = kind, name, operand, result, numpy, doc

    def compute(self, *operands: Any) -> Any:
        """Evaluates the operator."""
        return _find_function(self.name, self.numpy)(*operands)


def _unsigned(dtype: np.dtype) -> np.dtype:
    return np.dtype(f"u{dtype.itemsize}")


def _in_float(function: Callable[[Any, Any], Any], whole: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Applies `function` to floats, where f16 is computed as f32 and rounded once, and `whole` to integers."""

    def apply(x: Any, y: Any) -> Any:
        if x.dtype.kind != "f":
            return whole(x, y)
        wide = np.result_type(x.dtype, np.float32)
        return function(x.astype(wide), y.astype(wide)).astype(x.dtype)

    return apply


def _raw_div(x: Any, y: Any) -> Any:
    return x / y if "f" in (x.dtype.kind, y.dtype.kind) else np.floor_divide(np.subtract(x, np.fmod(x, y)), y)


def _is_real(x: Any) -> bool:
    return x.dtype.kind == "f"


def _power(x: Any, y: Any) -> Any:
    """Integer powers wrap exactly; a negative exponent gives the reciprocal, truncated toward zero."""
    if "f" in (x.dtype.kind, y.dtype.kind):
        with np.errstate(all="ignore"):
            # NumPy computes this power as a square root.
            return np.where((y == 0.5) & (np.isinf(x) | (x == 0)), np.abs(x), np.power(x, y))[()]
    wide = np.power(x.astype(np.uint64), np.maximum(y, 0).astype(np.uint64)).astype(x.dtype)
    return wide if np.min(y, initial=0) >= 0 else np.where(y >= 0, wide, np.where(np.abs(x) == 1, np.where(y & 1, x, 1), 0))[()]


def _shift(function: Callable[[Any, Any], Any], logical: bool = False) -> Callable[[Any, Any], Any]:
    def shift(x: Any, y: Any) -> Any:
        """Shifts by the count modulo the width."""
        dtype = _unsigned(x.dtype) if logical else x.dtype
        return function(x.view(dtype), np.bitwise_and(y, y.dtype.type(x.dtype.itemsize * 8 - 1)).astype(dtype)).view(x.dtype)

    return shift


def _bits(function: Callable[[int, int], int]) -> Callable[[Any], Any]:
    """Applies `function` to the bits, as an unsigned integer, and to the number of bits."""

    def apply(x: Any) -> Any:
        count = 8 * x.dtype.itemsize
        return np.vectorize(lambda bits: function(int(bits), count), otypes=[np.int32])(x.view(_unsigned(x.dtype)))[()]

    return apply


def _in_double(function: Callable[[float], float]) -> Callable[[Any], Any]:
    """Applies `function` to Python numbers, element by element."""
    return lambda x: np.vectorize(function, otypes=[np.float64])(x).astype(x.dtype)[()]


def _fuse_multiply_add(x: Any, y: Any, z: Any) -> Any:
    """Returns x * y + z, rounded once: products are exact in the wider type and the sum is rounded to odd; f64 uses fractions."""
    dtype = np.result_type(x, y, z)
    dtype = dtype if dtype.kind == "f" else np.dtype(float)
    with np.errstate(all="ignore"):
        if dtype == np.float64:
            return np.vectorize(_fuse_doubles, otypes=[np.float64])(x, y, z)[()]
        product, addend = np.multiply(x, y, dtype=np.float64), np.float64(z)
        total = np.asarray(product + addend)
        part = total - product
        error = (product - (total - part)) + (addend - part)
        toward_error = np.nextafter(total, np.copysign(np.inf, error))
        is_even = total.view(np.uint64) & np.uint64(1) == 0
        odd = np.where((error != 0) & np.isfinite(error) & is_even, toward_error, total)
        return odd.astype(dtype)[()]


def _fuse_doubles(x: float, y: float, z: float) -> float:
    if not all(map(math.isfinite, (x, y, z))):
        return x * y + z
    from fractions import Fraction  # takes a tenth of the time of importing the package

    total = Fraction(x) * Fraction(y) + Fraction(z)
    if total == 0:
        return x * y + z  # with the sign of the zero
    try:
        return float(total)
    except OverflowError:
        return math.copysign(math.inf, total)


# Operators for which NumPy has no function, or one that differs for some operands.
_COMPUTE: dict[str, Callable[..., Any]] = {
    "erf": _in_double(math.erf),
    "erfc": _in_double(math.erfc),
    "ldexp": lambda x, n: np.ldexp(x, np.clip(n, -20000, 20000).astype(np.int32)).astype(np.asarray(x).dtype)[()],
    # fmax and fmin of NumPy preserve signaling NaNs and return either of two zeros; here 0.0 is greater than -0.0.
    "max": lambda x, y: np.where((x > y) | (y != y) | ((x == y) & ~np.signbit(x) if _is_real(x) else False), x, y)[()],
    "min": lambda x, y: np.where((x < y) | (y != y) | ((x == y) & np.signbit(x) if _is_real(x) else False), x, y)[()],
    "floor_div": _in_float(lambda x, y: np.floor(x / y), np.floor_divide),
    "mod": _in_float(lambda x, y: x - y * np.floor(x / y), np.remainder),
    "raw_div": _raw_div,
    "pow": _power,
    "shl": _shift(np.left_shift),
    "shr": _shift(np.right_shift),
    "bit_shr": _shift(np.right_shift, logical=True),
    "popcnt": lambda x: np.bitwise_count(x.view(_unsigned(x.dtype))).astype(np.int32),
    "clz": _bits(lambda bits, count: count - bits.bit_length()),
    "ffs": _bits(lambda bits, count: (bits & -bits).bit_length()),
    "fma": _fuse_multiply_add,
}


@functools.cache  # at the first use: to make the functions of all rows is a twentieth of the time of importing the package
def _find_function(name: str, numpy: str) -> Callable[..., Any]:
    direct = re.fullmatch(r"np\.(\w+)\(x(, y)?\)", numpy)
    return _COMPUTE.get(name) or (getattr(np, direct[1]) if direct else eval(f"lambda x: {numpy}", {"np": np}))


ROWS: list[Operator] = [Operator(*line.split("\t")) for line in _runtime.OPERATORS.splitlines()]
OPERATORS: dict[str, Operator] = {row.name: row for row in ROWS if row.kind != "atomic"}
OPERATORS["fma"] = Operator("ternary", "fma", "Real", "Promoted", "", "x * y + z, rounded once.")
ATOMICS: dict[str, Operator] = {f"atomic_{row.name.removeprefix('bit_')}": row for row in ROWS if row.kind == "atomic"}

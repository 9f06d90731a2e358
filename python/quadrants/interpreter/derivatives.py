"""Partial derivatives of the operators of the table, and dual numbers, which hold a value and a derivative.

A partial is written in the operators of the language, so that it accepts arrays and dual numbers alike: second derivatives need no rules
of their own. Conventions at kinks: for equal operands, `min` and `max` follow the first; `abs` has 0 at 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from quadrants._base.operators import OPERATORS


def _operator(name: str, is_swapped: bool = False) -> Callable[..., Any]:
    return lambda *operands: apply(name, *(reversed(operands) if is_swapped else operands))


class Dual:
    """A value and its derivative along one direction (f64 arrays of one shape)."""

    __slots__ = ("value", "tangent")
    __array_ufunc__ = None  # an array operand leaves the operator to this class

    def __init__(self, value: Any, tangent: Any) -> None:
        self.value, self.tangent = value, tangent

    __add__ = __radd__ = _operator("add")
    __mul__ = __rmul__ = _operator("mul")
    __sub__, __rsub__ = _operator("sub"), _operator("sub", is_swapped=True)
    __truediv__, __rtruediv__ = _operator("div"), _operator("div", is_swapped=True)
    __neg__ = _operator("neg")


def value_of(number: Any) -> Any:
    """Returns the value of a dual number, and any other value unchanged."""
    return number.value if isinstance(number, Dual) else number


def _dual(number: Any) -> Dual:
    return number if isinstance(number, Dual) else Dual(number, 0.0)


def apply(name: str, *operands: Any) -> Any:
    """Evaluates an operator of the table on f64 arrays or dual numbers."""
    plain = [np.float64(value) if np.ndim(value := value_of(operand)) == 0 else value for operand in operands]
    result = OPERATORS[name].compute(*plain)
    if not any(isinstance(operand, Dual) for operand in operands):
        return result
    terms = [
        scaled(partial(result, *plain), operand.tangent)
        for partial, operand in zip(PARTIALS.get(name, ()), operands, strict=False)
        if isinstance(operand, Dual)
    ]
    return Dual(result, sum(terms, np.zeros(np.shape(result))))


def scaled(partial: Any, change: Any) -> Any:
    """Returns `partial * change`, zero if one of them is zero, even beside infinity or NaN."""
    if isinstance(partial, Dual) or isinstance(change, Dual):
        first, second = map(_dual, (partial, change))
        return Dual(scaled(first.value, second.value), scaled(first.value, second.tangent) + scaled(first.tangent, second.value))
    return np.where((change == 0) | (partial == 0), 0.0, partial * change)


def _where(condition: Any, chosen: Any, other: Any) -> Any:
    if not (isinstance(chosen, Dual) or isinstance(other, Dual)):
        return np.where(condition, chosen, other)
    first, second = map(_dual, (chosen, other))
    return Dual(np.where(condition, first.value, second.value), np.where(condition, first.tangent, second.tangent))


def _power_of_base(_: Any, x: Any, y: Any) -> Any:
    return _where(value_of(y) == 0, 0.0, y * apply("pow", x, y - 1.0))


def _power_of_exponent(result: Any, x: Any, _: Any) -> Any:
    return _where(value_of(result) == 0, 0.0, result * apply("log", x))


def _follows(before: np.ufunc) -> Callable[[Any, Any, Any], Any]:
    """1 if `min` or `max` returns the first operand, else 0; a NaN is ignored."""
    return lambda _, x, y: 1.0 * (before(value_of(x), value_of(y)) | np.isnan(value_of(y)))


_follows_min, _follows_max = _follows(np.less_equal), _follows(np.greater_equal)
_one = lambda *_: 1.0  # noqa: E731

# For each operand: the partial, as a function of the result and the operands. The derivative of an operator that is missing is zero.
PARTIALS: dict[str, tuple[Callable[..., Any], ...]] = {
    "neg": (lambda r, x: -1.0,),
    "abs": (lambda r, x: np.sign(value_of(x)),),
    "sqrt": (lambda r, x: 0.5 / r,),
    "rsqrt": (lambda r, x: -0.5 * r / x,),
    "sin": (lambda r, x: apply("cos", x),),
    "cos": (lambda r, x: -apply("sin", x),),
    "tan": (lambda r, x: 1.0 + r * r,),
    "asin": (lambda r, x: apply("rsqrt", 1.0 - x * x),),
    "acos": (lambda r, x: -apply("rsqrt", 1.0 - x * x),),
    "atan": (lambda r, x: 1.0 / (1.0 + x * x),),
    "sinh": (lambda r, x: apply("cosh", x),),
    "cosh": (lambda r, x: apply("sinh", x),),
    "tanh": (lambda r, x: 1.0 - r * r,),
    "exp": (lambda r, x: r,),
    "exp2": (lambda r, x: r * math.log(2.0),),
    "log": (lambda r, x: 1.0 / x,),
    "log2": (lambda r, x: 1.0 / (x * math.log(2.0)),),
    "log10": (lambda r, x: 1.0 / (x * math.log(10.0)),),
    "log1p": (lambda r, x: 1.0 / (1.0 + x),),
    "expm1": (lambda r, x: r + 1.0,),
    "asinh": (lambda r, x: apply("rsqrt", 1.0 + x * x),),
    "acosh": (lambda r, x: apply("rsqrt", x * x - 1.0),),
    "atanh": (lambda r, x: 1.0 / (1.0 - x * x),),
    "cbrt": (lambda r, x: 1.0 / (3.0 * r * r),),
    "erf": (lambda r, x: 2.0 / math.sqrt(math.pi) * apply("exp", -(x * x)),),
    "erfc": (lambda r, x: -2.0 / math.sqrt(math.pi) * apply("exp", -(x * x)),),
    "fma": (lambda r, x, y, z: y, lambda r, x, y, z: x, _one),
    "mantissa": (lambda r, x: np.exp2(-1.0 * OPERATORS["exponent"].compute(np.asarray(value_of(x)))),),
    "add": (_one, _one),
    "sub": (_one, lambda r, x, y: -1.0),
    "mul": (lambda r, x, y: y, lambda r, x, y: x),
    "div": (lambda r, x, y: 1.0 / y, lambda r, x, y: -r / y),
    "raw_div": (lambda r, x, y: 1.0 / y, lambda r, x, y: -r / y),
    "mod": (_one, lambda r, x, y: -np.floor(value_of(x) / value_of(y))),
    "raw_mod": (_one, lambda r, x, y: -np.trunc(value_of(x) / value_of(y))),
    "pow": (_power_of_base, _power_of_exponent),
    "atan2": (lambda r, x, y: y / (x * x + y * y), lambda r, x, y: -x / (x * x + y * y)),
    "hypot": (lambda r, x, y: x / r, lambda r, x, y: y / r),
    "copysign": (lambda r, x, y: np.sign(value_of(x)) * np.copysign(1.0, value_of(y)), lambda r, x, y: 0.0),
    "ldexp": (lambda r, x, y: np.ldexp(1.0, np.asarray(value_of(y)).astype(np.int32)), lambda r, x, y: 0.0),
    "min": (_follows_min, lambda *given: 1.0 - _follows_min(*given)),
    "max": (_follows_max, lambda *given: 1.0 - _follows_max(*given)),
}

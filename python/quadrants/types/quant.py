"""`qd.types.quant`: quantized types, the element types of fields whose elements are parts of words."""

from __future__ import annotations

import builtins
from typing import Any

from .._values.quantized import QuantType

__all__ = ["fixed", "float", "int"]
__dir__ = __all__.copy


def int(bits: builtins.int, signed: bool = True, compute: Any = None) -> QuantType:
    """Return the type of integers of a few bits. Larger numbers lose their upper bits, like those of other integer types.

    Args:
        bits: number of bits, 1 to 64.
        signed: whether the highest bit is the sign, in two's complement.
        compute: integer type of the numbers that kernels read. Default: `default_ip`, or its unsigned form if not `signed`.
    Raises:
        ValueError: another number of bits.
    """
    return QuantType("int", builtins.int(bits), bool(signed), compute or (builtins.int if signed else "uint"))


def fixed(
    bits: builtins.int, signed: bool = True, max_value: builtins.float = 1.0, compute: Any = None, scale: builtins.float | None = None
) -> QuantType:
    """Return the type of fixed-point numbers: multiples of one step. A number is rounded to the nearest, or to the lowest or highest.

    Args:
        bits: number of bits, 1 to 64.
        signed: whether there are negative numbers.
        max_value: end of the range; the step is `max_value / 2**(bits - 1)`, or `max_value / 2**bits` if not `signed`.
        compute: floating-point type of the numbers that kernels read. Default: `default_fp`.
        scale: the step, instead of `max_value`.
    Raises:
        ValueError: another number of bits, or a step of 0.
    """
    step = max_value / 2.0 ** (bits - 1 if signed else bits) if scale is None else scale
    return QuantType("fixed", builtins.int(bits), bool(signed), compute or builtins.float, builtins.float(step))


def float(exp: builtins.int, frac: builtins.int, signed: bool = True, compute: Any = None) -> QuantType:
    """Return the type of floating-point numbers of a few bits. A number is rounded to the nearest one; there are no infinities and NaNs.

    Args:
        exp: number of bits of the exponent, 1 to 8.
        frac: number of bits of the fraction, with the sign.
        signed: whether there are negative numbers.
        compute: floating-point type of the numbers that kernels read. Default: `default_fp`.
    Raises:
        ValueError: another number of bits.
    """
    return QuantType("float", builtins.int(frac), bool(signed), compute or builtins.float, exponent=builtins.int(exp))

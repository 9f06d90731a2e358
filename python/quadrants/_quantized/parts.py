"""The place of a quantized number in its word, and the floating-point type that it is converted in."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._base.dtypes import f32, f64, u32, u64
from .._values.quantized import QuantType


class Part(NamedTuple):
    """One number in a word: what reads and writes it, as compile-time data."""

    kind: str
    """"int", "fixed", "float", or "shared" for a float whose exponent others share."""
    shift: int
    """Position of the lowest bit of its digits in the word."""
    digits: int
    signed: bool
    dtype: Any
    """The data type of its value."""
    scale: float
    exponent: int
    exponent_shift: int
    """Position of the lowest bit of the exponent."""
    is_alone: bool
    """Whether the rest of the word is unused."""
    group: tuple[tuple[int, int, bool], ...]
    """Of a shared exponent: shift, digits and sign of each number that it belongs to."""
    member: int
    """Of a shared exponent: the position in the group."""

    @property
    def largest_exponent(self) -> int:
        """The largest exponent, as it is stored; f32 has no numbers beyond 254."""
        return min((1 << self.exponent) - 1, 254)

    @property
    def bias(self) -> int:
        """The exponent of numbers from 1 to 2, as it is stored."""
        return (1 << self.exponent - 1) - 1


class Float(NamedTuple):
    """The floating-point type in which numbers of a type are converted, with the layout of its bits."""

    dtype: Any
    bits: Any
    """The integer type of the same size."""
    size: int
    fraction: int
    """Bits of the fraction."""
    bias: int
    infinity: int
    """The bits of infinity."""

    @property
    def unsigned(self) -> int:
        """All bits but the sign."""
        return (1 << self.size - 1) - 1

    @staticmethod
    def of(dtype: Any) -> Float:
        """Returns f64 or f32 for a data type."""
        return _F64 if dtype.size == 8 else _F32

    def bits_of(self, number: float) -> int:
        """Returns the bits of a number."""
        return int(np.float64(number).view(np.uint64)) if self.size == 64 else int(np.float32(number).view(np.uint32))


_F32 = Float(f32, u32, 32, 23, 127, 0xFF << 23)
_F64 = Float(f64, u64, 64, 52, 1023, 0x7FF << 52)


def make_part(quant: QuantType, shift: int, exponent_shift: int, is_alone: bool, group: Any = (), member: int = 0) -> Part:
    """Returns the part of a word for a number of a quantized type."""
    kind = "shared" if group else quant.kind
    return Part(
        kind, shift, quant.digits, quant.signed, quant.dtype, quant.scale, quant.exponent, exponent_shift, is_alone, tuple(group), member
    )

"""Quantized types: numbers of few bits, which kernels compute with as numbers of an ordinary type."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._base.dtypes import StoredType, bf16, f32, f64, to_dtype, u32, u64


class QuantType(StoredType):
    """A quantized type, made by `qd.types.quant.int`, `fixed` or `float`: the element type of fields that are parts of words."""

    # No dataclass: that takes a millisecond of each import.
    kind: str
    """"int", "fixed" or "float"."""
    digits: int
    """Bits of the number, or of the fraction of a float with its sign."""
    signed: bool
    given: Any
    """The data type that kernels compute with, or what means it."""
    scale: float
    """Of a fixed: the value of one step."""
    exponent: int
    """Bits of the exponent of a float."""

    def __init__(self, kind: str, digits: int, signed: bool, given: Any, scale: float = 1.0, exponent: int = 0) -> None:
        self.__dict__.update(kind=kind, digits=digits, signed=signed, given=given, scale=scale, exponent=exponent)
        if not 1 <= digits <= 64 or (kind == "float" and not 1 <= exponent <= 8):
            bits = f"exp={exponent}, frac={digits}" if exponent else f"bits={digits}"
            raise ValueError(f"a quantized number has 1 to 64 bits, the exponent of a quant.float 1 to 8, got {bits}")
        if kind == "fixed" and not 0 < abs(scale) < float("inf"):
            raise ValueError(f"the step of a quant.fixed is a finite number other than 0, got {scale}")

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"a quantized type cannot be changed: make another one with another {name}")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, QuantType) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash(tuple(self.__dict__.values()))

    @property
    def dtype(self) -> Any:
        """The data type that kernels compute with."""
        found = to_dtype(self.given)
        if found is bf16 or found.is_real != (self.kind != "int"):
            wanted = "an integer type" if self.kind == "int" else "f16, f32 or f64"
            raise ValueError(f"{self!r} is computed with as {wanted}, not as {found}")
        fraction = self.digits - self.signed
        if self.kind == "float" and not 0 <= fraction <= (52 if found.size == 8 else 23):
            raise ValueError(f"{self!r} has more digits than {found}, with which kernels compute")
        return found

    @property
    def bits(self) -> int:
        """Number of bits of one element."""
        return self.digits + self.exponent

    def __repr__(self) -> str:
        if self.kind == "float":
            return f"quant.float(exp={self.exponent}, frac={self.digits}, signed={self.signed})"
        scale = f", scale={self.scale}" if self.kind == "fixed" else ""
        return f"quant.{self.kind}({self.digits}, signed={self.signed}{scale})"


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


def quant_of(element: Any) -> QuantType | None:
    """Returns the quantized type of the components of an element type, or None."""
    scalar = getattr(element, "_dtype", element)
    return scalar if isinstance(scalar, QuantType) else None


def refuse_quantized(element: Any) -> None:
    """Raises for a quantized type of the elements of an ndarray."""
    if quant_of(element) is not None:
        raise ValueError(f"Invalid data type {quant_of(element)!r}: only fields have quantized elements")

"""Quantized types: numbers of few bits, which kernels compute with as numbers of an ordinary type."""

from __future__ import annotations

from typing import Any

from .._base.dtypes import StoredType, bf16, to_dtype


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


def quant_of(element: Any) -> QuantType | None:
    """Returns the quantized type of the components of an element type, or None."""
    scalar = getattr(element, "_dtype", element)
    return scalar if isinstance(scalar, QuantType) else None


def refuse_quantized(element: Any) -> None:
    """Raises for a quantized type of the elements of an ndarray."""
    if quant_of(element) is not None:
        raise ValueError(f"Invalid data type {quant_of(element)!r}: only fields have quantized elements")

"""Numbers of few bits in arrays of words; `kernels.py` has the same conversions for kernels."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._base.dtypes import to_numpy_dtype
from .parts import Float, Part


def _take(words: np.ndarray, shift: int, count: int, signed: bool) -> np.ndarray:
    lifted = words << np.uint64(64 - count - shift)
    return lifted.view(np.int64) >> np.int64(64 - count) if signed else lifted >> np.uint64(64 - count)


def _put(words: np.ndarray, shift: int, count: int, digits: np.ndarray) -> np.ndarray:
    mask = np.uint64((1 << count) - 1)
    return (words & ~(mask << np.uint64(shift))) | ((digits.astype(np.uint64) & mask) << np.uint64(shift))


def _real(part: Part) -> tuple[Float, np.dtype, np.dtype]:
    found = Float.of(part.dtype)
    return found, to_numpy_dtype(found.dtype), to_numpy_dtype(found.bits)


def _size(number: np.ndarray, real: Float, bits: np.dtype) -> np.ndarray:
    """Returns the bits of a number without its sign."""
    return number.view(bits) & bits.type(real.unsigned)


def _round(number: np.ndarray, count: int, signed: bool) -> np.ndarray:
    """Returns the nearest integers of `count` bits, ties away from zero, or the lowest or highest ones."""
    whole = np.trunc(number)
    whole += (number - whole >= 0.5).astype(number.dtype) - (number - whole <= -0.5)
    end = 1 << (count - signed)
    start = -end if signed else 0
    integer = np.int64 if signed else np.uint64
    inside = np.where((whole < end) & (whole > start), whole, 0).astype(integer)
    return np.where(whole >= end, integer(end - 1), np.where(whole <= start, integer(start), inside))


def _exponent_of(number: np.ndarray, fraction: int, part: Part) -> np.ndarray:
    """Returns exponents of numbers that are rounded to `fraction` bits after the first, as they are stored; 0 for zero."""
    real, _, bits = _real(part)
    size = _size(number, real, bits)
    exponent = ((size + bits.type(1 << real.fraction - fraction >> 1)) >> bits.type(real.fraction)).astype(np.int64)
    return np.where(size == 0, 0, np.clip(exponent - (real.bias - part.bias), 1, part.largest_exponent))


def _read_group(words: np.ndarray, part: Part, index: int, exponent: np.ndarray) -> np.ndarray:
    shift, count, signed = part.group[index]
    digits = _take(words, shift, count, signed).astype(_real(part)[1])
    return np.ldexp(digits, (exponent - (part.bias + count - signed - 1)).astype(np.int32))


def decode(words: np.ndarray, part: Part, offset: int = 0) -> np.ndarray:
    """Returns the values of a part of each word; `offset` is added to its position."""
    wide, dtype = np.asarray(words, np.uint64), to_numpy_dtype(part.dtype)
    if part.kind == "int":
        return _take(wide, offset + part.shift, part.digits, part.signed).astype(dtype)
    real, kind, bits = _real(part)
    if part.kind == "fixed":
        digits = _take(wide, offset + part.shift, part.digits, part.signed)
        return (digits.astype(kind) * kind.type(part.scale)).astype(dtype)
    exponent = _take(wide, offset + part.exponent_shift, part.exponent, False).astype(np.int64)
    if part.kind == "shared":
        return _read_group(wide, part, part.member, exponent).astype(dtype)
    fraction = part.digits - part.signed
    found = (exponent + real.bias - part.bias).astype(bits) << bits.type(real.fraction)
    if fraction:
        found |= _take(wide, offset + part.shift, fraction, False).astype(bits) << bits.type(real.fraction - fraction)
    if part.signed:
        found |= _take(wide, offset + part.shift + fraction, 1, False).astype(bits) << bits.type(real.size - 1)
    return np.where(exponent == 0, bits.type(0), found).view(kind).astype(dtype)


def encode(words: np.ndarray, values: np.ndarray, part: Part, offset: int = 0) -> np.ndarray:
    """Returns the words with new values of a part of each; `offset` is added to its position."""
    wide = np.asarray(words, np.uint64)
    shift = offset + part.shift
    if part.kind == "int":
        return _put(wide, shift, part.digits, values).astype(words.dtype)
    real, kind, bits = _real(part)
    with np.errstate(all="ignore"):
        number = np.asarray(values, kind)
        number = np.where(np.isnan(number), kind.type(0), number)
        if part.kind == "fixed":
            result = _put(wide, shift, part.digits, _round(number * kind.type(1.0 / part.scale), part.digits, part.signed))
        elif part.kind == "shared":
            result = _write_group(wide, part, number)
        else:
            result = _write_float(wide, shift, offset, part, number)
    return result.astype(words.dtype)


def _write_group(words: np.ndarray, part: Part, value: np.ndarray) -> np.ndarray:
    """Returns words with new values of one number; the others of its group get the exponent that the largest needs."""
    before = _take(words, part.exponent_shift, part.exponent, False).astype(np.int64)
    numbers = [value if k == part.member else _read_group(words, part, k, before) for k in range(len(part.group))]
    exponents = [_exponent_of(n, count - signed - 1, part) for n, (_, count, signed) in zip(numbers, part.group, strict=True)]
    exponent = np.max(exponents, axis=0)
    for number, (shift, count, signed) in zip(numbers, part.group, strict=True):
        limit = (1 << (count - signed)) - 1
        scaled = np.ldexp(number, (part.bias + count - signed - 1 - exponent).astype(np.int32))
        words = _put(words, shift, count, _round(np.clip(scaled, -limit if signed else 0, limit), count, signed))
    return _put(words, part.exponent_shift, part.exponent, exponent)


def _write_float(words: np.ndarray, shift: int, offset: int, part: Part, number: np.ndarray) -> np.ndarray:
    real, _, bits = _real(part)
    fraction = part.digits - part.signed
    sign, size = number.view(bits) >> bits.type(real.size - 1), _size(number, real, bits)
    rounded = size + bits.type(1 << real.fraction - fraction >> 1)
    exponent = (rounded >> bits.type(real.fraction)).astype(np.int64) - (real.bias - part.bias)
    highest: Any = bits.type((1 << fraction) - 1)
    digits = (rounded >> bits.type(real.fraction - fraction)) & highest
    is_large, is_small = exponent > part.largest_exponent, exponent < 1
    nearest = size >= bits.type(real.bits_of(0.5**part.bias))
    digits = np.where(is_small, bits.type(0), np.where(is_large, highest, digits))
    exponent = np.where(is_small, nearest, np.where(is_large, part.largest_exponent, exponent))
    if part.signed:
        digits = digits | (np.where(exponent == 0, bits.type(0), sign) << bits.type(fraction))
    else:
        exponent = np.where(sign == 1, 0, exponent)
    return _put(_put(words, shift, part.digits, digits), offset + part.exponent_shift, part.exponent, exponent)

"""Numbers of few bits in words: how kernels read and write an element of a quantized field. The frontend calls `read` and `write`.

A word is read as u32 or u64. `codec.py` runs these functions on arrays, too, so they have no control flow that depends on values.
`parts.py` has the meaning of a `Part`.
"""

import functools

import quadrants as qd

from .parts import Float, Part


@functools.cache
def make_part(part: Part) -> Part:
    """Returns one object for equal parts, so that functions are compiled once for them."""
    return part


def _unsigned(dtype):
    return qd.u64 if dtype.size == 8 else qd.u32


def _signed(dtype):
    return qd.i64 if dtype.size == 8 else qd.i32


def _bits(dtype):
    return 8 * dtype.size


def _range(count, signed):
    """Returns the lowest integer of `count` bits, and the end of the range."""
    return (-(1 << count - 1), 1 << count - 1) if signed else (0, 1 << count)


def _as_float(number):
    return float(number)


@qd.func
def _take(word, shift, count: qd.template(), signed: qd.template()):
    """Returns `count` bits of a word from the position `shift` on as an integer of the size of the word."""
    unused = qd.static(_bits(word.dtype) - count)
    # Other bits are removed before they are shifted out, which checks of overflow would report.
    lifted = (word & (qd.cast(qd.static((1 << count) - 1), word.dtype) << shift)) << (unused - shift)
    return (qd.cast(lifted, _signed(word.dtype)) if qd.static(signed) else lifted) >> unused


@qd.func
def _put(word, shift, count: qd.template(), digits):
    """Returns the word with the lowest `count` bits of an integer at the position `shift`."""
    mask = qd.cast(qd.static((1 << count) - 1), word.dtype)
    return (word & ~(mask << shift)) | ((qd.cast(digits, word.dtype) & mask) << shift)


@qd.func
def _number(value, real: qd.template()):
    """Returns a value of type `part.dtype` as an f32 or f64; 0 for a NaN."""
    number = qd.cast(value, real.dtype)
    size = qd.bit_cast(number, real.bits) & qd.static(real.unsigned)
    return qd.select(size > qd.static(real.infinity), qd.cast(0, real.dtype), number)


@qd.func
def _round(number, count: qd.template(), signed: qd.template(), integer: qd.template()):
    """Returns the nearest integer of `count` bits, ties away from zero, or the lowest or highest one."""
    whole = qd.trunc(number)
    rest = number - whole
    whole += qd.cast(rest >= 0.5, number.dtype) - qd.cast(rest <= -0.5, number.dtype)
    start, end = qd.static(_range(count, signed))
    highest, lowest = integer(qd.static(end - 1)), integer(start)
    is_high, is_low = whole >= qd.static(_as_float(end)), whole <= qd.static(_as_float(start))
    # What is out of range is not converted, which checks of overflow would report.
    digits = qd.cast(qd.select(is_high | is_low, qd.cast(0, number.dtype), whole), integer)
    return qd.select(is_low, lowest, qd.select(is_high, highest, digits))


@qd.func
def _read_shared(word, member: qd.template(), exponent, part: qd.template()):
    """Returns the value of a number whose exponent others share."""
    digits = _take(word, qd.static(member[0]), qd.static(member[1]), qd.static(member[2]))
    return qd.ldexp(qd.cast(digits, Float.of(part.dtype).dtype), exponent - qd.static(part.bias + member[1] - member[2] - 1))


@qd.func
def _exponent_of(number, fraction: qd.template(), part: qd.template()):
    """Returns the exponent of a number that is rounded to `fraction` bits after the first, as it is stored; 0 for zero."""
    real = qd.static(Float.of(part.dtype))
    size = qd.bit_cast(number, real.bits) & qd.static(real.unsigned)
    rounded = size + qd.cast(qd.static(1 << real.fraction - fraction >> 1), real.bits)
    exponent = qd.cast(rounded >> qd.static(real.fraction), qd.i32) - qd.static(real.bias - part.bias)
    return qd.select(size == 0, 0, qd.max(1, qd.min(exponent, qd.static(part.largest_exponent))))


@qd.func
def _write_shared(word, part: qd.template(), value):
    """Returns the word with a new value of one number; the others of its group get the exponent that the largest needs."""
    real = qd.static(Float.of(part.dtype))
    result = word
    before = qd.cast(_take(word, part.exponent_shift, part.exponent, False), qd.i32)
    exponent = 0
    for k in qd.static(range(len(part.group))):
        number = value if qd.static(k == part.member) else _read_shared(word, qd.static(part.group[k]), before, part)
        exponent = qd.max(exponent, _exponent_of(number, qd.static(part.group[k][1] - part.group[k][2] - 1), part))
    for k in qd.static(range(len(part.group))):
        shift, count, signed = qd.static(part.group[k])
        number = value if qd.static(k == part.member) else _read_shared(word, qd.static(part.group[k]), before, part)
        scaled = qd.ldexp(number, qd.static(part.bias + count - signed - 1) - exponent)
        # Digits are symmetric, so that the lowest number is minus the highest one.
        limit = qd.cast(qd.static((1 << (count - signed)) - 1), real.dtype)
        scaled = qd.max(qd.min(scaled, limit), -limit if qd.static(signed) else 0.0 * limit)
        result = _put(result, shift, count, _round(scaled, count, signed, _signed(word.dtype)))
    return _put(result, part.exponent_shift, part.exponent, exponent)


@qd.func
def _read_float(word, offset, part: qd.template()):
    real = qd.static(Float.of(part.dtype))
    fraction = qd.static(part.digits - part.signed)
    exponent = qd.cast(_take(word, offset + part.exponent_shift, part.exponent, False), real.bits)
    bits = (exponent + qd.cast(qd.static(real.bias - part.bias), real.bits)) << qd.static(real.fraction)
    if qd.static(fraction > 0):
        bits |= qd.cast(_take(word, offset + part.shift, fraction, False), real.bits) << qd.static(real.fraction - fraction)
    if qd.static(part.signed):
        sign = _take(word, offset + qd.static(part.shift + fraction), 1, False)
        bits |= qd.cast(sign, real.bits) << qd.static(real.size - 1)
    return qd.bit_cast(qd.select(exponent == 0, qd.cast(0, real.bits), bits), real.dtype)


@qd.func
def _write_float(word, offset, part: qd.template(), number):
    real = qd.static(Float.of(part.dtype))
    fraction = qd.static(part.digits - part.signed)
    bits = qd.bit_cast(number, real.bits)
    sign = bits >> qd.static(real.size - 1)
    size = bits & qd.static(real.unsigned)
    rounded = size + qd.cast(qd.static(1 << real.fraction - fraction >> 1), real.bits)
    exponent = qd.cast(rounded >> qd.static(real.fraction), qd.i32) - qd.static(real.bias - part.bias)
    digits = (rounded >> qd.static(real.fraction - fraction)) & qd.cast(qd.static((1 << fraction) - 1), real.bits)
    is_large = exponent > qd.static(part.largest_exponent)
    digits = qd.select(is_large, qd.cast(qd.static((1 << fraction) - 1), real.bits), digits)
    # Below the smallest number there is only zero.
    is_small = exponent < 1
    nearest = qd.cast(size >= qd.static(real.bits_of(0.5**part.bias)), qd.i32)
    exponent = qd.select(is_large, qd.static(part.largest_exponent), qd.select(is_small, nearest, exponent))
    digits = qd.select(is_small, qd.cast(0, real.bits), digits)
    if qd.static(part.signed):
        digits |= qd.select(exponent == 0, qd.cast(0, real.bits), sign) << qd.static(fraction)
    else:
        exponent = qd.select(sign == 1, 0, exponent)
    return _put(_put(word, offset + part.shift, part.digits, digits), offset + part.exponent_shift, part.exponent, exponent)


@qd.func
def read(stored, offset, part: qd.template()):
    """Returns the value of a part of a word; `offset` is added to its position."""
    word = qd.cast(stored, _unsigned(stored.dtype))
    if qd.static(part.kind == "shared"):
        exponent = qd.cast(_take(word, part.exponent_shift, part.exponent, False), qd.i32)
        return qd.cast(_read_shared(word, qd.static(part.group[part.member]), exponent, part), part.dtype)
    if qd.static(part.kind == "float"):
        return qd.cast(_read_float(word, offset, part), part.dtype)
    digits = _take(word, offset + part.shift, part.digits, part.signed)
    if qd.static(part.kind == "fixed"):
        real = qd.static(Float.of(part.dtype))
        return qd.cast(qd.cast(digits, real.dtype) * qd.cast(part.scale, real.dtype), part.dtype)
    return qd.cast(digits, part.dtype)


@qd.func
def write(stored, value, offset, part: qd.template()):
    """Returns the word with a new value of a part; `offset` is added to its position."""
    word = qd.cast(stored, _unsigned(stored.dtype))
    if qd.static(part.kind == "int"):
        return qd.cast(_put(word, offset + part.shift, part.digits, value), stored.dtype)
    real = qd.static(Float.of(part.dtype))
    number = _number(value, real)
    if qd.static(part.kind == "shared"):
        return qd.cast(_write_shared(word, part, number), stored.dtype)
    if qd.static(part.kind == "float"):
        return qd.cast(_write_float(word, offset, part, number), stored.dtype)
    scaled = number * qd.cast(qd.static(1.0 / part.scale), real.dtype)
    integer = qd.static(_signed(word.dtype) if part.signed else _unsigned(word.dtype))
    digits = _round(scaled, part.digits, part.signed, integer)
    return qd.cast(_put(word, offset + part.shift, part.digits, digits), stored.dtype)

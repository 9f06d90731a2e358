"""Formats the text of prints and of failed checks: C's printf formats for numbers, and the parts of Python's formats that printf lacks."""

from __future__ import annotations

import ctypes
import linecache
import math
import re
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._runtime import DataType

# [[fill]<>=^][flags - + space # 0][width][,][.precision][type]
_SPEC = re.compile(r"(?:(.?)([<>=^]))?([-+ #0]*)(\d*)(,?)(?:\.(\d*))?(.?).*", re.DOTALL)
_PREFIXES = {"x": "0x", "X": "0X", "o": "0", "b": "0b"}
_WIDE = {"f": np.float64, "i": np.int64, "u": np.uint64}

Fragment = tuple[str, DataType | None, tuple[int, ...]]
"""Literal text, or the format spec of an operand with its data type and shape."""


def format_value(value: Any, spec: str, dtype: DataType) -> str:
    """Formats a number, or nested lists of numbers, of a data type by a spec. A spec for another kind of type converts the value."""
    if isinstance(value, list):
        return "[" + ", ".join(format_value(item, spec, dtype) for item in value) + "]"
    match = _SPEC.fullmatch(spec)
    assert match is not None  # the pattern matches every text
    fill, align, flags, width, comma, digits, kind = match.groups()
    precision = None if digits is None else min(int(digits or 0), 100)
    as_real = kind in tuple("eEfFgGaA")
    if as_real or dtype.is_real:
        if precision is None and not as_real and dtype.size == 8:
            precision = 12
        is_negative, may_zero, prefix = math.copysign(1, value) < 0 and value == value, math.isfinite(value), ""
        text = _format_real(abs(value), kind if as_real else "f", precision, "#" in flags, comma)
    else:
        number = int(value)
        if dtype.is_signed and kind in tuple("xXobu"):
            number &= (1 << 8 * dtype.size) - 1  # bit patterns with the width of the type
        is_negative, may_zero, prefix = number < 0, precision is None, _PREFIXES.get(kind, "") if "#" in flags else ""
        text = format(abs(number), comma + (kind if kind in _PREFIXES else "d")).rjust(precision or 0, "0")
    sign = ("-" if is_negative else "+" if "+" in flags else " " if " " in flags else "") + prefix
    size = min(int(width or 0), 10000)
    align = "<" if "-" in flags else align
    if align == "=" or (not align and may_zero and "0" in flags):
        return sign + text.rjust(size - len(sign), (fill or " ") if align else "0")
    return format(sign + text, f"{fill or ' '}{align or '>'}{size}")


def _format_real(value: float, kind: str, precision: int | None, is_alternate: bool, comma: str) -> str:
    if kind not in "aA":
        return format(value, f"{'#' if is_alternate else ''}{comma}{'' if precision is None else f'.{precision}'}{kind}")
    buffer = ctypes.create_string_buffer(256)
    form = f"%{'' if precision is None else f'.{precision}'}{kind}".encode()
    ctypes.CDLL(None).snprintf(buffer, len(buffer), form, ctypes.c_double(value))
    return buffer.value.decode()


def format_site(fragments: list[Fragment], words: bytes) -> str:
    """Returns the text of a print or of a failed check; `words` has 64 bits for each component of the operands (floats as f64)."""
    text, position = "", 0
    for part, dtype, shape in fragments:
        if dtype is not None:
            end = position + 8 * math.prod(shape)
            values = np.frombuffer(words[position:end], _WIDE[dtype.name[0]]).reshape(shape).tolist()
            part, position = format_value(values, part, dtype), end
        text += part
    return text


def source_line(file: str, line: int) -> str:
    """Returns the source line as it stands below a report; empty if there is no source."""
    text = linecache.getline(file, line).strip()
    return f"    {text}\n" if text else ""


def write_printed(prints: list[tuple[bool, tuple[list[Fragment], bytes], Sequence[Any] | None]]) -> None:
    """Writes the output of a kernel to `sys.stdout`, or to `sys.stderr` if the flag of a print is set.

    An entry with frames is the report of a check: the source line of the innermost frame follows.
    """
    for to_error, stream in ((False, sys.stdout), (True, sys.stderr)):
        text = "".join(
            format_site(*site) + (source_line(frames[-1][0], frames[-1][2]) if frames else "")
            for is_error, site, frames in prints
            if is_error == to_error
        )
        if text and stream is not None:
            stream.write(text)

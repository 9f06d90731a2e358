"""Detects integer overflow in debug mode, and with `check_nan` NaNs that result from numbers.

The checks are those of `src/passes/checks/check_arithmetic.cpp` and `check_nans.cpp` for compiled kernels.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from quadrants._base import format as _format
from quadrants._base.dtypes import from_numpy_dtype
from quadrants._base.errors import QuadrantsAssertionError

from .scalars import options, symbol_of

_WORDS = {
    "add": ("Addition", "+"), "sub": ("Subtraction", "-"), "mul": ("Multiplication", "*"), "shl": ("Shift left", "<<"),
    "shr": ("Shift right", ">>"), "bit_shr": ("Shift right", ">>"), "floor_div": ("Division", "//"), "raw_div": ("Division", "//"),
    "pow": ("Power", "**"), "mod": ("Modulo", "%"), "raw_mod": ("Modulo", "%"), "neg": ("Negation", ""), "abs": ("Absolute value", ""),
}  # fmt: skip
_EXACT: dict[str, Callable[..., Any]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "shl": operator.lshift, "floor_div": operator.floordiv,
    "raw_div": operator.floordiv, "pow": operator.pow, "neg": operator.neg, "abs": abs,
}  # fmt: skip


class Checks:
    """The checks of one launch. `evaluator.dry` marks code that is evaluated only for its type; `overflow` and `check_nan` are options."""

    def __init__(self, evaluator: Any, overflow: str, check_nan: bool) -> None:
        self.evaluator, self.overflow, self.check_nan = evaluator, overflow, check_nan
        self.reported: set[tuple[str, str]] = set()

    def operation(self, name: str, *operands: Any) -> None:
        """Checks an operator of the table on integers of one type, or on vectors of them."""
        if not options.debug or self.evaluator.dry or name not in _WORDS or operands[0].dtype.kind not in "iu":
            return
        word, sign = _WORDS[name]
        shown = f" {sign} ".join(map(_show, operands))
        dtype, right = operands[0].dtype, operands[-1]
        bits = 8 * dtype.itemsize
        if "div" in name or "mod" in name:
            self.require(bool(np.all(right)), f"{word} by zero: {shown}")
        elif name == "pow":
            self.require(right.dtype.kind == "f" or bool(np.all(right >= 0)), f"Negative exponent in pow(int, int) is not allowed: {shown}")
        elif name in ("shl", "shr", "bit_shr"):
            self.require(bool(np.all((right >= 0) & (right < bits))), f"Shift count out of range for {bits} bits: {shown}")
        if name in _EXACT and self.overflow != "ignore" and (len(operands) > 1 or dtype.kind == "i"):
            info = np.iinfo(dtype)
            columns = (side.reshape(-1).tolist() for side in np.broadcast_arrays(*operands))
            if not all(info.min <= _EXACT[name](*numbers) <= info.max for numbers in zip(*columns, strict=True)):
                self.report(word, f"{shown} does not fit {from_numpy_dtype(dtype).name}")

    def result(self, name: str, result: Any, *operands: Any) -> None:
        """Checks that an operator does not turn numbers into a NaN."""
        if self.evaluator.dry or not self.check_nan or result.dtype.kind != "f" or not np.isnan(result).any():
            return
        texts, sign = [_show(operand) for operand in operands], symbol_of(name)
        shown = f" {sign} ".join(texts) if sign != name else f"{name}({', '.join(texts)})"
        self.require(any(np.isnan(operand).any() for operand in operands), f"NaN from {shown}")

    def conversion(self, value: Any, dtype: np.dtype) -> None:
        """Checks a float that is converted to an integer."""
        info = np.iinfo(dtype)
        isgood = all(number == number and info.min - 1 < number < info.max + 1 for number in np.ravel(value).tolist())
        if options.debug and not self.evaluator.dry and not isgood:
            self.require(False, f"Conversion out of range of {from_numpy_dtype(dtype).name}: {_show(value)}")

    def require(self, holds: bool, text: str) -> None:
        """Raises unless the condition holds."""
        if not holds:
            raise QuadrantsAssertionError(text)

    def report(self, word: str, text: str) -> None:
        """Reports an overflow: by an exception, or by a line of text once for each source location."""
        self.require(self.overflow == "print", f"{word} overflow: {text}")
        places = ", called from ".join(find_places())
        if (word, places) not in self.reported:
            self.reported.add((word, places))
            frame = next(_find_frames())
            source = _format.source_line(frame.f_code.co_filename, frame.f_lineno)
            print(f"{word} overflow detected in {places}: {text}\n{source}", end="")


def _show(value: Any) -> str:
    return _format.format_value(value.tolist(), "", from_numpy_dtype(value.dtype))


def _find_frames() -> Iterator[Any]:
    frame: Any = sys._getframe()
    while frame := frame.f_back:
        if "_qd" in frame.f_code.co_freevars:
            yield frame


def find_places() -> Iterator[str]:
    """Yields the current source locations of the kernel, as `File "k.py", line 7, in k`, the innermost function first."""
    for frame in _find_frames():
        yield f'File "{frame.f_code.co_filename}", line {frame.f_lineno}, in {frame.f_code.co_name}'

"""Warnings of the compiler, which interpreted kernels give too: each once for a place, until the next `qd.init`."""

from __future__ import annotations

import sys
import warnings
from typing import Any

from quadrants import _options, _runtime

from .scalars import NAMES, options, symbol_of

_given: set[tuple[str, int, str]] = set()
_SIGNED = frozenset(("floor_div", "mod", "raw_div", "raw_mod", "lt", "le", "gt", "ge", "min", "max"))


def restart() -> None:
    """Forgets what was said, and asks whether the log wants notes."""
    _given.clear()
    options.notes = _runtime.is_logged("debug")


def _is_new(text: str) -> tuple[str, int] | None:
    """The user's file and line, unless this was said there before."""
    frame = sys._getframe(2)
    while frame is not None and "_qd" not in frame.f_code.co_freevars:
        frame = frame.f_back  # type: ignore[assignment]
    if frame is None:
        return None
    place = (frame.f_code.co_filename, frame.f_lineno)
    if (*place, text) in _given:
        return None
    _given.add((*place, text))
    return place


def warn(text: str, category: type[Warning]) -> None:
    """A warning of Python."""
    if place := _is_new(text):
        warnings.warn_explicit(text, category, *place)


def note_signs(name: str, left: Any, right: Any) -> None:
    """A line of the log where two operands of one width differ in their signs. A literal says what it means."""
    found = [getattr(value, "dtype", None) or getattr(getattr(value, "data", None), "dtype", None) for value in (left, right)]
    types = [dtype for dtype in found if dtype is not None]
    if name not in _SIGNED or {dtype.kind for dtype in types} != {"i", "u"} or types[0].itemsize != types[1].itemsize:
        return
    both = " and ".join(f"'{NAMES[dtype]}'" for dtype in types)
    text = f"'{symbol_of(name)}' of {both}: both are taken as unsigned, so a negative operand counts as a large one"
    if place := _is_new(text):
        _runtime.log("debug", text, f"{place[0]}:{place[1]}")


def check_bounds(bounds: Any) -> None:
    """Warns of bounds of a range that are floats."""
    for bound in bounds:
        dtype = options.default_fp if isinstance(bound, float) and not hasattr(bound, "dtype") else getattr(bound, "dtype", None)
        if dtype is not None and dtype.kind == "f":
            text = f"Casting range_for boundary values from {NAMES[dtype]} to i32, which may cause numerical issues"
            warn(text, Warning)


def check_direction(bounds: Any) -> None:
    """Warns in debug mode of constant bounds between which there is nothing; `bounds` are triples."""
    for low, high, step in bounds:
        if options.debug and (low > high if step > 0 else low < high):
            warn(f"the range from {low} to {high} is empty: a loop downwards has a step of -1", SyntaxWarning)


def check_count(items: Any) -> None:
    """Warns of long loops that are written out."""
    limit = int(_options.get("unrolling_limit"))
    if limit > 0 and hasattr(items, "__len__") and len(items) > limit:
        text = f"You are unrolling more than {limit} iterations, so the compile time may be extremely long."
        warn(text, SyntaxWarning)

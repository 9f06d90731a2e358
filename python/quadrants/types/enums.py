"""Enumerations."""

from __future__ import annotations

import enum

from .._types import Layout

__all__ = ["AutodiffMode", "Layout", "SNodeGradType"]


class AutodiffMode(enum.IntEnum):
    """What of a kernel runs.

    Itself, checks of what it overwrites, tangents (forward mode), adjoints (reverse mode), tangents of adjoints, adjoints under a tape,
    which has what the kernel overwrites, or the kernel together with its adjoints.
    """

    NONE = 0
    VALIDATION = 1
    FORWARD = 2
    REVERSE = 3
    SECOND = 4
    REPLAY = 5
    JOINED = 6


class SNodeGradType(enum.IntEnum):
    """What a container holds: values, adjoints (`.grad`), tangents (`.dual`), or marks of what was read."""

    PRIMAL = 0
    ADJOINT = 1
    DUAL = 2
    ADJOINT_CHECKBIT = 3

"""The kernels that are derived from one function."""

from __future__ import annotations

import enum


class AutodiffMode(enum.IntEnum):
    """Which derivative of a kernel runs.

    The primal, checks of overwritten primals, tangents (forward mode), adjoints (reverse mode), tangents of adjoints, adjoints under a
    tape, which provides overwritten primals, or the kernel fused with its adjoints. The values are those of `support/autodiff_mode.h`.
    """

    NONE = 0
    VALIDATION = 1
    FORWARD = 2
    REVERSE = 3
    SECOND = 4
    REPLAY = 5
    FUSED = 6

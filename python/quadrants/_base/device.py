"""Numbers of the device that kernels run on. Kernels read them as compile-time constants, so they depend on their values."""

from __future__ import annotations

from .. import _runtime
from . import options as _options
from .dtypes import u32, u64

SUBGROUP_SIZE = 32
LOG2_SUBGROUP_SIZE = 5
MASK = u32  # has a bit for each lane of a subgroup
SHARED_BYTES = 0  # memory that the threads of a block share; 0: without a limit of the device
HAS_GRIDS = False  # blocks run on the many threads of a device
BLOCKS_PROGRESS = False  # a block that has started goes on while others wait for it
HAS_CHECKS = False  # assertions are checked


def update() -> None:
    """Reads the numbers of the current device, after it has changed."""
    global SUBGROUP_SIZE, LOG2_SUBGROUP_SIZE, MASK, SHARED_BYTES, HAS_GRIDS, BLOCKS_PROGRESS, HAS_CHECKS
    given = _options.current or {"debug": False}
    SUBGROUP_SIZE, SHARED_BYTES, progress = _runtime.device_limits() if _options.current else (32, 0, False)
    LOG2_SUBGROUP_SIZE = SUBGROUP_SIZE.bit_length() - 1
    MASK = u64 if SUBGROUP_SIZE > 32 else u32
    HAS_GRIDS = SHARED_BYTES > 0
    # A thread whose check fails ends before it has told the others its result.
    BLOCKS_PROGRESS = progress and not given["debug"]
    HAS_CHECKS = bool(given["debug"])

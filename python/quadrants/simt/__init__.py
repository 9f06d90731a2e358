"""`qd.simt`: threads that work together in blocks, with memory that they share and barriers at which they wait for each other.

On CUDA a block is a block of the device. On the CPU the threads of a block take turns on one thread of the processor: results are the same.
"""

from __future__ import annotations

from . import block, grid, subgroup, warp
from ._tiles import Tile8x8, Tile16x16, Tile32x32

__all__ = ["Tile16x16", "Tile32x32", "Tile8x8", "block", "grid", "subgroup", "warp"]


def __dir__() -> list[str]:
    """The public names."""
    return __all__

"""`qd.simt`: threads that cooperate in blocks, with shared memory and barriers.

On CUDA a block is a block of the device. On the CPU the threads of a block alternate on one thread of the processor, with the same results.
"""

from __future__ import annotations

from . import block, grid, subgroup, warp
from ._tiles import Tile8x8, Tile16x16, Tile32x32, Tile64x64

__all__ = ["Tile16x16", "Tile32x32", "Tile64x64", "Tile8x8", "block", "grid", "subgroup", "warp"]


__dir__ = __all__.copy

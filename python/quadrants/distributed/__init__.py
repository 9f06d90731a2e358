"""`qd.distributed`: one program in several processes, on the engines that connect them: torch.distributed and MPI.

`init` binds a process to its device and its engine, `Decomposition` cuts a box into parts, `Halo` exchanges the borders of the parts.
docs/guide/many.md is the introduction. A single process needs no engine, and runs the same program.
"""

from __future__ import annotations

from .decomposition import Decomposition
from .halo import Halo
from .world import World, get_world, init

__all__ = ["Decomposition", "Halo", "World", "get_world", "init"]
__dir__ = __all__.copy

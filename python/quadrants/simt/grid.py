"""`qd.simt.grid`: operations on all threads of a launch."""

import quadrants as qd

from .._base.compat import warn_deprecated
from ._primitives import grid_mem_fence as mem_fence
from ._primitives import grid_sync as sync

__all__ = ["mem_fence", "memfence", "sync"]


@qd.func
def memfence():
    """Deprecated name of `mem_fence`."""
    qd.static(warn_deprecated("qd.simt.grid.memfence", "qd.simt.grid.mem_fence"))
    mem_fence()


__dir__ = __all__.copy

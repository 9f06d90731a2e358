"""Sparse trees, written in the kernel language; loaded with the first sparse node. `docs/design/sparse.md` has the idea."""

from .host import deactivate_all, describe, length
from .trees import build

__all__ = ["build", "deactivate_all", "describe", "length"]

"""Loops over whole tasks, for kernels made with `@qd.kernel(graph=True)`: what a launch repeats without coming back to Python."""

from __future__ import annotations

from ._builtins import TABLE

__all__ = ["do_while"]

do_while = TABLE["graph_do_while"]

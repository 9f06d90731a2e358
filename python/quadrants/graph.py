"""Parts of kernels made with `@qd.kernel(graph=True)`: what a launch repeats by itself, and what may run side by side."""

from __future__ import annotations

from ._builtins import TABLE

__all__ = ["do_while", "parallel", "parallel_context"]

do_while = TABLE["graph_do_while"]
parallel = TABLE["graph_parallel"]
parallel_context = TABLE["graph_parallel_context"]

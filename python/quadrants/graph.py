"""Statements of kernels made with `@qd.kernel(graph=True)`: loops of a launch around its tasks, and tasks that may run concurrently."""

from ._language.builtins import TABLE as _builtins

__all__ = ["do_while", "parallel", "parallel_context"]

do_while = _builtins["graph_do_while"]
parallel = _builtins["graph_parallel"]
parallel_context = _builtins["graph_parallel_context"]


__dir__ = __all__.copy

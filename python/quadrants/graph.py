"""Parts of kernels made with `@qd.kernel(graph=True)`: what a launch repeats by itself, and what may run side by side."""

from ._language.builtins import TABLE as _builtins

__all__ = ["do_while", "parallel", "parallel_context"]

do_while = _builtins["graph_do_while"]
parallel = _builtins["graph_parallel"]
parallel_context = _builtins["graph_parallel_context"]


def __dir__() -> list[str]:
    """The public names."""
    return __all__

"""Former decorators of the language."""

from __future__ import annotations

from typing import TypeVar

from .._base.errors import QuadrantsTypeError, warn
from .._language.kernel import Kernel

__all__ = ["pure"]
K = TypeVar("K")


def pure(kernel: K) -> K:
    """A former spelling of `@qd.kernel(fastcache=True)` above `@qd.kernel`: warns, declares the kernel pure, and returns it.

    Raises:
        QuadrantsTypeError: `kernel` is no kernel.
    """
    if not isinstance(kernel, Kernel):
        raise QuadrantsTypeError(f"@qd.pure stands above @qd.kernel, got {kernel!r}")
    warn("@qd.pure is deprecated. Please use @qd.kernel(fastcache=True).", DeprecationWarning)
    kernel.is_pure = True
    return kernel


__dir__ = __all__.copy

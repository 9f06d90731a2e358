"""Former decorators of the language, and helpers of the reference's tests."""

from __future__ import annotations

from typing import Any, TypeVar

from .._base.errors import QuadrantsRuntimeError, QuadrantsTypeError, warn
from .._language.kernel import Kernel
from .._session.init import get_config, init

__all__ = ["init_same_arch", "pure"]
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


def init_same_arch(**options: Any) -> None:
    """Calls `qd.init` with `options` and the processor of the current runtime; raises `QuadrantsRuntimeError` before `qd.init`."""
    config = get_config()
    if config is None:
        raise QuadrantsRuntimeError("there is no runtime whose processor could be used: call qd.init first")
    init(arch=config.arch, **options)


__dir__ = __all__.copy

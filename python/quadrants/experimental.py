"""Former names of what is now part of the language."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ._base.errors import warn
from ._language.func import Func, attempt, make_func

__all__ = ["real_func"]

F = TypeVar("F", bound=Callable[..., Any])


def real_func(fn: F) -> F:
    """Return the func of `fn`, or raise, as `qd.real_func` does, with a `DeprecationWarning`."""
    warn("qd.experimental.real_func is deprecated because it is no longer experimental.", DeprecationWarning)
    if isinstance(made := attempt(make_func, fn, Func, True), Exception):
        raise made
    return made


__dir__ = __all__.copy

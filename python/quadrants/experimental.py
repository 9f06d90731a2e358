"""Former names of what is now part of the language."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ._base.errors import warn
from ._language.func import Func, make_func

__all__ = ["real_func"]

F = TypeVar("F", bound=Callable[..., Any])


def real_func(fn: F) -> F:
    """Same as `qd.real_func`, with a `DeprecationWarning`."""
    warn("qd.experimental.real_func is deprecated because it is no longer experimental.", DeprecationWarning)
    return make_func(Func, fn, True, 2)


def __dir__() -> list[str]:
    """Lists the public names."""
    return __all__

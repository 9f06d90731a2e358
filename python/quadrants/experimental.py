"""Names that programs knew before they were part of the language."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, TypeVar

from ._func import Func, make_func

__all__ = ["real_func"]

F = TypeVar("F", bound=Callable[..., Any])


def real_func(fn: F) -> F:
    """The same as `qd.real_func`, with a `DeprecationWarning`."""
    text = "qd.experimental.real_func is deprecated because it is no longer experimental."
    warnings.warn(text, DeprecationWarning, stacklevel=2)
    return make_func(Func, fn, True, 2)

"""Alternative names of parameters, for programs that were written for the reference."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def also_named(**names: str) -> Callable[[F], F]:
    """Lets the decorated function accept alternative names of its parameters: `also_named(alternative="own")`."""

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def call(*arguments: Any, **named: Any) -> Any:
            for further in names.keys() & named.keys():
                if names[further] in named:
                    raise TypeError(f"{function.__name__}() got {further!r} and {names[further]!r}, which are one parameter")
                named[names[further]] = named.pop(further)
            return function(*arguments, **named)

        return call  # type: ignore[return-value]

    return decorate

"""Functions with replaced gradients."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from .. import _runtime
from .._base.errors import QuadrantsRuntimeError
from .._language.kernel import Kernel
from ._tape import Tape

F = TypeVar("F", bound=Callable[..., Any])


def grad_replaced(func: F) -> F:
    """Hide the kernels that a Python function calls from tapes: the function that `grad_for` registers computes its gradient.

    Useful, for instance, for a function that stores less than a tape of its kernels would, and recomputes values. It may be a method.

    Args:
        func: the function; arguments and results are passed through.
    Returns:
        The decorated function.
    """

    @functools.wraps(func)
    def replaced(*arguments: Any, **keywords: Any) -> Any:
        tape = _runtime.current_tape()
        if not isinstance(tape, Tape):
            return func(*arguments, **keywords)
        tape.hide()
        try:
            result = func(*arguments, **keywords)
        finally:
            tape.show()
        tape.record(replaced, arguments, keywords)
        return result

    replaced.grad = None  # type: ignore[attr-defined]
    return replaced  # type: ignore[return-value]


def grad_for(primal: Any) -> Callable[[F], F]:
    """Register the decorated function as the gradient of `primal`, which `grad_replaced` decorates.

    A tape calls it with the arguments of the recorded call. It must add to the gradients of the containers that `primal` reads, computed
    from the gradients of those that it writes. Returns a decorator. Raises `QuadrantsRuntimeError` if `primal` is a kernel, is not
    decorated, or already has a gradient.
    """
    primal = getattr(primal, "__func__", primal)
    if isinstance(primal, Kernel):
        raise QuadrantsRuntimeError(
            "Primal function must be a **python** function instead of a quadrants kernel: call the kernel from one that is decorated by "
            "qd.ad.grad_replaced"
        )
    if not hasattr(primal, "grad"):
        raise QuadrantsRuntimeError(f"Primal function `{primal.__name__}` must be decorated by qd.ad.grad_replaced")
    if primal.grad is not None:
        raise QuadrantsRuntimeError(f"`{primal.__name__}` has a gradient already: {primal.grad.__name__}")

    def register(func: F) -> F:
        primal.grad = func
        return func

    return register


def no_grad(func: F) -> F:
    """Hide the kernels that a Python function `func` calls from tapes: its effects have no gradient. Returns the decorated function."""
    replaced = grad_replaced(func)
    replaced.grad = lambda *_, **__: None  # type: ignore[attr-defined]
    return replaced

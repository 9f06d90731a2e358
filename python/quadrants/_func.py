"""Functions of the kernel language: `func`, `real_func`, `pyfunc`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, overload

from ._errors import QuadrantsAssertionError, QuadrantsSyntaxError
from ._parameters import Parameter, check_undecorated, parse_parameters, parse_results


class Func:
    """A function that kernels call. It is compiled with its caller and cannot be called from Python."""

    def __init__(self, function: Callable[..., Any], is_real_function: bool = False, depth: int = 1):
        check_undecorated(function, "func")
        self.function = function
        self.is_real_function = is_real_function
        self.name = function.__qualname__
        self.parameters: list[Parameter] = parse_parameters(function, "functions", depth + 1, typed=is_real_function)
        self.results: list[Any] | None = self._parse_results(depth + 2)
        functools.update_wrapper(self, function)

    def _parse_results(self, depth: int) -> list[Any] | None:
        try:
            return parse_results(self.function, depth)[0]
        except QuadrantsSyntaxError:
            if self.is_real_function:
                raise
            return None  # an annotation for readers, such as the name of a class

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else BoundFunc(self, instance)

    def __call__(self, *_: Any, **__: Any) -> Any:
        raise QuadrantsAssertionError(f"'{self.name}' is a qd.func and cannot be called from Python scope: call it in a kernel")

    def __repr__(self) -> str:
        return f"<qd.func {self.name}>"


class PyFunc(Func):
    """A function that both kernels and Python call."""

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self.function(*arguments, **named)


class BoundFunc:
    """A `func` together with the object whose method it is."""

    __slots__ = ("func", "instance")

    def __init__(self, func: Func, instance: Any):
        self.func, self.instance = func, instance

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self.func(self.instance, *arguments, **named)


F = TypeVar("F", bound=Callable[..., Any])


@overload
def func(fn: F) -> F: ...
@overload
def func(*, is_real_function: bool = False, requires_top_level: bool = False) -> Callable[[F], F]: ...
def func(fn: Any = None, *, is_real_function: bool = False, requires_top_level: bool = False) -> Any:
    """Mark a function as callable from kernels; it is compiled as part of its callers, or on its own with `is_real_function`."""
    if requires_top_level:
        raise QuadrantsSyntaxError("qd.func(requires_top_level=True) is not supported")
    if fn is None:
        return lambda function: _make(Func, function, is_real_function, 2)
    return _make(Func, fn, is_real_function, 2)


def real_func(fn: F) -> F:
    """Mark a function as callable from kernels and compiled on its own: recursion and early returns are allowed."""
    return _make(Func, fn, True, 2)


def pyfunc(fn: F) -> F:
    """Mark a function as callable from kernels and, as it stands, from Python."""
    return _make(PyFunc, fn, False, 2)


def _make(kind: type[Func], function: Any, is_real_function: bool, depth: int) -> Any:
    if isinstance(function, (staticmethod, classmethod)):
        return type(function)(kind(function.__func__, is_real_function, depth))
    return kind(function, is_real_function, depth)

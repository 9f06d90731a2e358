"""Calls on a tape."""

from __future__ import annotations

import copy
import importlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from .. import _runtime
from .._errors import QuadrantsRuntimeError
from .._matrix import Matrix

_CONSTANT = (bool, int, float, str, bytes, type(None), np.generic, _runtime.FieldBase, _runtime.NdarrayBase, _runtime.TensorBase)
_NUMBERS = (bool, int, float, str, np.generic)


def call(kernel: Any, arguments: tuple[Any, ...], keywords: dict[str, Any] | None) -> Any:
    """A kernel or function with its arguments."""
    return kernel(*arguments, **keywords) if keywords else kernel(*arguments)


def call_validated(kernel: Any, arguments: tuple[Any, ...], keywords: dict[str, Any] | None) -> Any:
    """A call of a kernel, interpreted.

    Raises `QuadrantsAssertionError` where it overwrites an element that it has read, in a container that has a gradient.
    """
    interpreter = importlib.import_module("..interpreter", __package__)  # few programs need it
    return interpreter.run(kernel, arguments, keywords or {}, validates=True)


class Recorded:
    """A call of a kernel, or of a function with a gradient of its own, and the numbers that its arguments held."""

    __slots__ = ("function", "arguments", "keywords", "numbers")

    def __init__(self, function: Any, arguments: tuple[Any, ...], keywords: dict[str, Any] | None) -> None:
        self.function, self.arguments, self.keywords = function, arguments, keywords
        self.numbers = [_numbers_in(value) for value in arguments] if any(not isinstance(value, _CONSTANT) for value in arguments) else None

    def again(self) -> None:
        """The same call."""
        call(self.function, self.arguments, self.keywords)

    def backward(self) -> None:
        """The gradient of the call.

        Raises `QuadrantsRuntimeError` where there is none, or where numbers in the arguments are not those of the call.
        """
        gradient, name = self.function.grad, self.function.__name__
        if gradient is None:
            raise QuadrantsRuntimeError(
                f"{name} has no gradient: give it one with @qd.ad.grad_for({name}), or decorate it with qd.ad.no_grad"
            )
        for position, before in enumerate(self.numbers or ()):
            if before is not None and before != _numbers_in(self.arguments[position]):
                raise QuadrantsRuntimeError(
                    f"argument {position} of {name} was changed after the call was recorded; its gradient needs the old one: pass a copy"
                )
        call(gradient, self.arguments, self.keywords)


class HostWrite:
    """A write to a container from Python, between recorded calls: the calls before it saw what was there.

    Where a kernel on the tape has written to the container, too, the gradient of what is overwritten does not reach that kernel.
    """

    __slots__ = ("container", "index", "old", "new", "is_intermediate")

    def __init__(self, container: Any, index: Any, first_launch: int) -> None:
        self.container, self.index = container, index
        self.old, self.new = self._read(), None
        self.is_intermediate = container._last_launch > first_launch

    def again(self) -> None:
        """The same write."""
        self._write(self.container, self.new)

    def backward(self) -> None:
        """Brings back what was there."""
        self.new = self._read()
        self._write(self.container, self.old)
        if self.is_intermediate and self.container.has_grad():
            self._write(self.container.grad, np.zeros_like(self.old) if self.index is None else self.old * 0)

    def _read(self) -> Any:
        return self.container.to_numpy() if self.index is None else copy.copy(self.container[self.index])

    def _write(self, container: Any, value: Any) -> None:
        if self.index is None:
            container.from_numpy(value)
        else:
            container[self.index] = value


def _numbers_in(value: Any) -> Any:
    """The numbers in a Python container that a kernel may read; None for anything else."""
    if isinstance(value, _CONSTANT):
        return None
    if isinstance(value, Matrix):
        return value._array.tobytes()
    items = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, (list, tuple)) else _members_of(value)
    return [(name, item) for name, item in items if isinstance(item, _NUMBERS)]


def _members_of(value: Any) -> Any:
    return getattr(value, "__dict__", {}).items() if hasattr(value, "_data_oriented") or hasattr(value, "__dataclass_fields__") else ()

"""Values with derivatives: the numbers of a kernel while the interpreter differentiates it.

Numbers are NumPy scalars and arrays of subclasses with two more arrays: `nodes`, the position of each component on the tape of the
reverse mode (0: a constant), and `tangents`, its derivative in forward mode. `Memory` holds the memory of a container, its gradient and
its tangent; reading it returns a value, and slicing it slices all of them.

NumPy functions that only move components (`_MOVING`) move all these arrays alike; operators are computed by `Recorder.compute`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

_MOVING = frozenset((np.stack, np.where, np.broadcast_arrays, np.diagonal, np.resize, np.reshape, np.transpose, np.copy))
Shadows = tuple[np.ndarray | None, ...]


def plain(value: Any) -> Any:
    """Returns a value without its derivatives."""
    if isinstance(value, Tracked):
        return value.view(np.ndarray)
    return value.dtype.type(value.item()) if type(value) in _SCALAR_TYPES else value


def _mapped(function: Callable[[Any], Any], argument: Any) -> Any:
    """Applies `function` to each number in an argument of a NumPy function."""
    if isinstance(argument, (list, tuple)):
        return type(argument)(_mapped(function, item) for item in argument)
    return function(argument)


def _of(number: Any, which: int, dtype: Any) -> Any:
    """Returns one of the shadows of a number, zero if it has none."""
    shadows = getattr(number, "shadows", None)
    if shadows is not None:
        return shadows[which]
    is_real = isinstance(number, (np.ndarray, np.generic)) and number.dtype.kind == "f"
    return np.zeros(np.shape(number), dtype) if is_real else number


def _loaded(number: Any) -> Any:
    return number.copy() if isinstance(number, Memory) else number


def _shadows_in(argument: Any) -> Shadows | None:
    """Returns the shadows of any number in an argument of a NumPy function."""
    if isinstance(argument, (list, tuple)):
        return next((found for item in argument if (found := _shadows_in(item)) is not None), None)
    return getattr(argument, "shadows", None)


def _call(function: Any, arguments: Any, keywords: Any) -> Any:
    """Calls a NumPy function on tracked numbers."""
    arguments = _mapped(_loaded, arguments)
    result = function(*_mapped(plain, arguments), **keywords)
    known = _shadows_in(arguments) if function in _MOVING else None
    if known is None:
        return result

    def move(which: int, part: np.ndarray) -> Any:
        return function(*_mapped(lambda number: _of(number, which, part.dtype), arguments), **keywords)

    moved = [None if part is None else move(which, part) for which, part in enumerate(known)]
    if isinstance(result, (list, tuple)):
        parts = zip(*(part if part is not None else [None] * len(result) for part in moved), strict=True)
        return type(result)(make(item, part) for item, part in zip(result, parts, strict=True))
    return make(result, tuple(moved))


def make(value: Any, shadows: Shadows | None) -> Any:
    """Returns a number or array with its shadows, which have its shape; only real numbers have shadows."""
    if value.dtype.kind != "f" or not shadows:
        return value
    if isinstance(value, np.ndarray):
        made: Any = value.view(Value)
    else:
        made = SCALARS[value.dtype](value)
    made.shadows = shadows
    return made


_OF_SCALARS: dict[str, Any] = {
    "shadows": None,
    "astype": lambda number, dtype: make(plain(number).astype(dtype), number.shadows),
    "__array_function__": lambda _, function, __, arguments, keywords: _call(function, arguments, keywords),
}

# A scalar class of NumPy must be the only base.
SCALARS: dict[np.dtype, type] = {
    np.dtype(kind): type(f"Tracked{kind.__name__}", (kind,), dict(_OF_SCALARS)) for kind in (np.float16, np.float32, np.float64)
}
_SCALAR_TYPES = frozenset(SCALARS.values())


class Tracked(np.ndarray):
    """An array with shadows; a view of it has views of the shadows."""

    shadows: Shadows | None = None

    def _moved(self, function: Any) -> Any:
        """Applies `function` to the array and to each shadow."""
        result: Any = function(self.view(np.ndarray)).view(type(self))
        if self.shadows is not None:
            result.shadows = tuple(None if part is None else function(part) for part in self.shadows)
        return result

    def __getitem__(self, key: Any) -> Any:
        items = key if isinstance(key, tuple) else (key,)
        found = self._moved(lambda array: array[(*items, ...)] if Ellipsis not in items else array[items])
        return found.number() if found.ndim == 0 and Ellipsis not in items else found

    def number(self) -> Any:
        """Returns the scalar in an array of one element, without axes."""
        shadows = self.shadows and tuple(None if part is None else part[()] for part in self.shadows)
        return make(self.view(np.ndarray)[()], shadows)

    def reshape(self, *shape: Any, **_: Any) -> Any:
        return self._moved(lambda array: array.reshape(*shape))

    @property
    def T(self) -> Any:
        return self._moved(lambda array: array.T)

    def __array_function__(self, function: Any, _: Any, arguments: Any, keywords: Any) -> Any:
        return _call(function, arguments, keywords)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **keywords: Any) -> Any:
        return getattr(ufunc, method)(*(plain(_loaded(number)) for number in inputs), **keywords)


class Value(Tracked):
    """Numbers of the kernel: `shadows` are (nodes, tangents), None if that mode is off."""

    def copy(self, order: Any = "C") -> Any:
        return self._moved(lambda array: array.copy())

    def astype(self, dtype: Any, *_: Any, **__: Any) -> Any:
        return make(self.view(np.ndarray).astype(dtype), self.shadows)

    def __setitem__(self, key: Any, value: Any) -> None:
        self.view(np.ndarray)[key] = plain(value)
        for which, part in enumerate(self.shadows or ()):
            if part is not None:
                part[key] = _of(value, which, part.dtype)


class Memory(Tracked):
    """Numbers of a container: `shadows` are (gradient, tangent, tangent of the gradient), None without such memory."""

    recorder: Any = None
    label, container = "", 0  # the container's name in messages, and its identity
    _flush: Callable[[], None] | None = None  # activates the cell of an element of a sparse field

    def _moved(self, function: Any) -> Any:
        result = super()._moved(function)
        result.recorder, result.label, result.container, result._flush = self.recorder, self.label, self.container, self._flush
        return result

    def __getitem__(self, key: Any) -> Any:
        return np.stack([self[position] for position in key]) if isinstance(key, list) else super().__getitem__(key)

    def number(self) -> Any:
        return self.recorder.load(self)[()]

    def copy(self, order: Any = "C") -> Any:
        return self.recorder.load(self)

    def astype(self, dtype: Any, *_: Any, **__: Any) -> Any:
        return self.recorder.load(self).astype(dtype)

    def __setitem__(self, key: Any, value: Any) -> None:
        if isinstance(key, list):
            for position, item in zip(key, value, strict=True):
                self[(position, ...)] = item
            return
        target = self._moved(lambda array: array[(*(key if isinstance(key, tuple) else (key,)), ...)] if key is not ... else array)
        self.recorder.store(target, value)
        if self._flush is not None:
            self._flush()

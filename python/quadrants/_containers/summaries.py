"""Containers at prompts and in notebooks: their values as text and as HTML, sums and means, functions and operators of NumPy."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from .interop import as_array

_SHOWN = 1000  # elements that a text shows in full, as NumPy does
_FETCHED = 1 << 20  # bytes that a text copies from a GPU
_EDGE = 4  # rows and columns at each end of a long table
# Functions of NumPy that change their first argument.
_CHANGES_FIRST = {"copyto", "fill_diagonal", "place", "put", "put_along_axis", "putmask"}
_OPERATORS = {"add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**", "matmul": "@"}
_COMPARISONS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_UNARY_OPERATORS = {"neg": "-{}", "pos": "+{}", "invert": "~{}", "abs": "abs({})"}


def to_text(container: Any, indent: str) -> str:
    """Returns the values of a container as NumPy prints them; an empty text if it has no memory, or they are many on another device."""
    if container._state != "alive" or _is_expensive(container):
        return ""
    return np.array2string(as_array(container), threshold=_SHOWN, prefix=indent)


def _is_expensive(container: Any) -> bool:
    """Whether the values have to be copied, and are many."""
    count = math.prod(container._live_shape) * math.prod(container.element_shape)
    return not container._has_view and count * container.dtype.size > _FETCHED


class ArrayOperands:
    """Containers as operands of NumPy's functions; Python's operators are refused."""

    _part = ""  # of a struct: the path of a member that NumPy can compute with

    def _numbers(self) -> np.ndarray:
        return as_array(getattr(self, "_impl", self))

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, out: tuple[Any, ...] = (), **options: Any) -> Any:
        """Computes with the elements as a NumPy array; results are arrays, and a container that is given as `out` receives them."""
        changed = inputs[:1] if method == "at" else out
        return _call(getattr(ufunc, method), ufunc.__name__, changed, inputs, {**options, "out": out} if out else options)

    def __array_function__(self, function: Any, _: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """Calls a function of NumPy with the elements as arrays; a container that it changes, or that is `out`, receives them."""
        changed = (keywords.get("out"), *arguments[: function.__name__ in _CHANGES_FIRST])
        return _call(function, function.__name__, changed, arguments, keywords)


def _call(function: Any, name: str, changed: tuple[Any, ...], arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """Calls a function of NumPy with the elements of containers as arrays. Those in `changed` receive results, and stand for them."""
    copies = {id(each): (each, np.array(each._numbers())) for each in changed if isinstance(each, ArrayOperands)}

    def convert(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return (tuple if isinstance(value, tuple) else list)(map(convert, value))
        if not isinstance(value, ArrayOperands):
            return value
        if id(value) in copies:
            return copies[id(value)][1]
        array = value._numbers().view()
        array.flags.writeable = False  # NumPy refuses to write where the container would not notice
        return array

    def find_container(result: Any) -> Any:
        return next((target for target, array in copies.values() if array is result), result)

    with _explained(name, [*arguments, *keywords.values()]):
        result = function(*map(convert, arguments), **{key: convert(value) for key, value in keywords.items()})
    for target, array in copies.values():
        target.from_numpy(array)  # type: ignore[attr-defined]
    return tuple(map(find_container, result)) if type(result) is tuple else find_container(result)


class Summaries(ArrayOperands):
    """What containers and tensors have in common with arrays of NumPy."""

    _head: Callable[[], str]  # kind, data type and shape

    def sum(self, axis: Any = None, dtype: Any = None, out: Any = None, **options: Any) -> Any:
        """Return the sum of all elements, or along `axis`, as `np.sum` does; so are `dtype`, `out` and further `options`.

        The elements of a container on a GPU are copied first; `qd.algorithms.reduce` adds them there.
        """
        return np.sum(self._numbers(), axis, dtype, out, **options)

    def mean(self, axis: Any = None, dtype: Any = None, out: Any = None, **options: Any) -> Any:
        """Return the mean of all elements, or along `axis`; `dtype`, `out` and `options` as for `np.mean`."""
        return np.mean(self._numbers(), axis, dtype, out, **options)

    def min(self, axis: Any = None, out: Any = None, **options: Any) -> Any:
        """Return the least element, or those along `axis`; `out` and `options` as for `np.min`."""
        return np.min(self._numbers(), axis, out, **options)

    def max(self, axis: Any = None, out: Any = None, **options: Any) -> Any:
        """Return the largest element, or those along `axis`; `out` and `options` as for `np.max`."""
        return np.max(self._numbers(), axis, out, **options)

    def _repr_html_(self) -> str:
        """Returns a table of the values of scalars along one or two axes, and their text else, below the data type and the shape."""
        head = escape(self._head())
        inner: Any = getattr(self, "_impl", self)
        is_alive = getattr(inner, "_state", "") == "alive"
        if not is_alive or inner.element_shape or len(inner.shape) not in (1, 2) or 0 in inner.shape:
            return f"<pre>{escape(repr(self))}</pre>"
        if _is_expensive(inner):
            return f"<p><code>{head}</code></p>"
        values = np.atleast_2d(self._numbers())
        rows, columns = ([*range(_EDGE), None, *range(n - _EDGE, n)] if n > 2 * _EDGE + 1 else [*range(n)] for n in values.shape)
        lines = [_to_row("th", ["", *columns])]
        for row in rows:
            cells = [None if row is None or column is None else values[row, column] for column in columns]
            lines.append(_to_row("td", [row if len(inner.shape) == 2 else "", *cells]))
        return f"<p><code>{head}</code></p><table>{''.join(lines)}</table>"


@contextlib.contextmanager
def _explained(function: str, operands: Iterable[Any]) -> Iterator[None]:
    """Lets the error of a function that cannot change a container, or compute with structs, say what to write."""
    name = f"np.{function}"
    try:
        yield
    except (TypeError, ValueError) as error:
        parts = _list_parts(operands)
        # np.dot has the ValueError.
        if parts and (isinstance(error, TypeError) or "not available for this type" in str(error)):
            raise TypeError(f"{name} cannot compute with structs: call it for each member, as in {name}(x{parts[0]})") from None
        if isinstance(error, TypeError) or "read-only" not in str(error):
            raise
        part = [*parts, ""][0]
        how = f"x{part}.from_numpy({name}(x{part}.to_numpy()))"
        raise ValueError(f"{name} cannot change a container here: pass it as out=, or {how}") from None


def _list_parts(operands: Iterable[Any]) -> list[str]:
    """Returns the paths of a member of each struct among the operands."""
    parts = []
    for each in operands:
        if isinstance(each, (list, tuple)):
            parts += _list_parts(each)
        elif isinstance(each, ArrayOperands) and each._part:
            parts.append(each._part)
    return parts


def escape(text: str) -> str:
    """Returns a text for HTML; the module of the standard library for it takes longer to load than this package's own modules."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _to_row(tag: str, cells: list[Any]) -> str:
    shown = [f"{cell:.6g}" if isinstance(cell, np.floating) else str(cell) for cell in cells]
    texts = ["…" if text == "None" else text for text in shown]
    return f"<tr>{''.join(f'<{tag}>{text}</{tag}>' for text in texts)}</tr>"


def _refuse(symbol: str, is_reflected: bool = False) -> Callable[[Any, Any], Any]:
    def operator(self: Any, other: Any) -> Any:
        if isinstance(other, (np.ndarray, np.generic)):
            return NotImplemented  # NumPy computes it, in the same order of the operands
        names = [type(self).__name__, type(other).__name__]
        left, right = names[::-1] if is_reflected else names
        raise TypeError(
            f"unsupported operand type(s) for {symbol}: {left!r} and {right!r}: containers have no arithmetic of their own; write a kernel,"
            f" or compute with NumPy: x{self._part}.to_numpy() {symbol} 1"
        )

    return operator


def _refuse_unary(form: str) -> Callable[[Any], Any]:
    def operator(self: Any) -> Any:
        raise TypeError(
            f"bad operand type for {form.format('x')}: {type(self).__name__!r}: containers have no arithmetic of their own; write a kernel,"
            f" or compute with NumPy: {form.format(f'x{self._part}.to_numpy()')}"
        )

    return operator


for _name, _symbol in _OPERATORS.items():
    setattr(ArrayOperands, f"__{_name}__", _refuse(_symbol))
    setattr(ArrayOperands, f"__r{_name}__", _refuse(_symbol, is_reflected=True))
for _name, _symbol in _COMPARISONS.items():
    setattr(ArrayOperands, f"__{_name}__", _refuse(_symbol))
for _name, _form in _UNARY_OPERATORS.items():
    setattr(ArrayOperands, f"__{_name}__", _refuse_unary(_form))

"""Represents run-time values while Python's own code computes with them: their operators emit code."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NoReturn

BINARY = {
    "add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "floordiv": "floor_div", "mod": "mod", "pow": "pow",
    "lshift": "shl", "rshift": "shr", "and": "bit_and", "or": "bit_or", "xor": "bit_xor", "matmul": "matmul", "divmod": "divmod",
}  # fmt: skip
_OTHERS = ("lt", "le", "gt", "ge", "eq", "ne", "neg", "pos", "invert", "abs", "round")


class Operand:
    """A run-time value. `apply` emits an operator, given its name; `index` is the number of the value in the compiler."""

    __slots__ = ("_apply", "_text", "index")
    __array_ufunc__ = None  # NumPy must not treat it as an element of an object array
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, apply: Callable[..., Any], index: Any, text: str):
        self._apply, self.index, self._text = apply, index, text

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._apply("getattr", self, name)

    def __getitem__(self, index: Any) -> Any:
        return self._apply("getitem", self, index)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self._apply("call", self, *arguments, **named)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._apply("iter", self))

    def __len__(self) -> int:
        return self._apply("len", self)

    def __bool__(self) -> NoReturn:
        raise TypeError(
            f"a value of the run time ({self._text}) has no truth value while Python runs this code: "
            "mark the function with @qd.func, so that it is compiled"
        )

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError(f"a value of the run time ({self._text}) is no number while compiling")

    __int__ = __float__ = __complex__ = __index__ = __array__ = _refuse

    def __repr__(self) -> str:
        return self._text


def call_with_operand(function: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any] | None:
    """Calls `function` at compile time if an argument is a run-time value, and returns the result in a tuple; otherwise returns None."""
    if Operand not in map(type, arguments) and Operand not in map(type, named.values()):
        return None
    operand = next(value for value in (*arguments, *named.values()) if type(value) is Operand)
    return (operand._apply("call", function, *arguments, **named),)


def _define(method: str, name: str, is_reflected: bool = False) -> None:
    def apply(self: Operand, *others: Any) -> Any:
        return self._apply(name, *(*others, self) if is_reflected else (self, *others))

    setattr(Operand, f"__{'r' if is_reflected else ''}{method}__", apply)


for _method, _name in BINARY.items():
    _define(_method, _name)
    _define(_method, _name, is_reflected=True)
for _name in _OTHERS:
    _define(_name, _name)

"""Parses the signature of a kernel or func into one `Parameter` for each parameter, and checks it when the decorator is applied."""

from __future__ import annotations

import contextlib
import enum
import inspect
import types
import typing
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from .._base.dtypes import DataType, find_dtype
from .._base.errors import Frame, QuadrantsSyntaxError, add_help, compile_error
from .._base.namespaces import is_dataclass
from .._base.source import all_arguments, caller_locals, evaluate_annotation, get_source, list_captured
from .._containers.buffer_view import BufferView, BufferViewType
from .._runtime import TensorBase
from .._values.struct import StructType
from .._values.types import MatrixType, NdarrayType, OptionalType, StructTypeBase, Template, find_element, ref

EMPTY = inspect.Parameter.empty


class Parameter:
    """One parameter of a kernel or func.

    `kind` is "scalar", "matrix", "struct", "array", "tensor", "view", "template" or "dataclass"; for funcs also "ref" or "value" (plain).
    `is_named`: keyword-only. `is_placed`: positional-only. Neither: by position or name. Both: no argument is accepted, except by `*args`
    (1 in `stars`) and `**kwargs` (2), whose arguments have the kind.
    """

    __slots__ = ("annotation", "default", "has_default", "is_named", "is_placed", "kind", "name", "optional", "stars")

    def __init__(self, name: str, kind: str, annotation: Any, default: Any = EMPTY, optional: bool = False, is_named: bool = False):
        self.name, self.kind, self.annotation, self.optional = name, kind, annotation, optional
        self.is_named, self.is_placed, self.stars = is_named, False, 0
        self.has_default = default is not EMPTY
        self.default = default if self.has_default else None

    @property
    def dtype(self) -> DataType | None:
        """The data type of a scalar; `int` and `float` follow the defaults of the current `init`."""
        return find_dtype(self.annotation) if self.kind == "scalar" else None

    def __repr__(self) -> str:
        shown = self.dtype if self.kind == "scalar" else self.annotation
        return f"{self.name} : {shown if shown is not None else self.kind}"


def check_undecorated(function: Any, what: str) -> None:
    """Raises if another decorator stands between the decorator `what` and the function."""
    if hasattr(function, "__wrapped__"):
        raise QuadrantsSyntaxError(
            f"Cant put {what} in front of other annotations: it must be the innermost decorator (error code: KERNEL_ANNOTATION_ORDER)"
        )
    if not isinstance(function, types.FunctionType):
        raise QuadrantsSyntaxError(f"qd.{what} decorates functions written with `def`, got {type(function).__name__}")


def _mistake(text: str, at: str) -> QuadrantsSyntaxError:
    """Returns the error of a parameter, or of the annotation "return"; `attempt` adds the source line."""
    error = QuadrantsSyntaxError(text)
    error.at = at  # type: ignore[attr-defined]
    return error


def attempt(make: Callable[..., Any], function: Any, *rest: Any) -> Any:
    """Returns what a decorator makes of a function, or the error for the decorator to raise, so that no other frames of ours are shown."""
    try:
        return make(function, *rest)
    except QuadrantsSyntaxError as error:
        return _show_mistake(error, getattr(function, "__func__", function)).with_traceback(None)


def _show_mistake(error: QuadrantsSyntaxError, function: Any) -> Exception:
    """Returns the error of a decorated function with the source line, and carets below the mistake."""
    at = getattr(error, "at", None)
    if at is None or not isinstance(function, types.FunctionType):
        return add_help(error)
    code = function.__code__
    frame: Frame = (code.co_filename, function.__qualname__, code.co_firstlineno, 0, code.co_firstlineno, 0)
    with contextlib.suppress(Exception):  # the text of the function may be unavailable
        source = get_source(function)
        node: Any = source.tree.returns if at == "return" else next(item for item in all_arguments(source.tree.args) if item.arg == at)
        frame = (source.file, function.__qualname__, node.lineno, node.col_offset, node.end_lineno, node.end_col_offset)
    return compile_error("QuadrantsSyntaxError", str(error), [frame])


def is_method(function: Callable[..., Any]) -> bool:
    """Whether a function is defined directly in a class."""
    holder = function.__qualname__.rpartition(".")[0]
    return bool(holder) and not holder.endswith("<locals>")


def parse_parameters(function: Callable[..., Any], what: str, depth: int, typed: bool = True) -> list[Parameter]:
    """Returns the parameters of a kernel (`typed`) or func; `depth` is the number of calls between this function and the decorated code."""
    parameters: list[Parameter] = []
    annotations = _Annotations(function, depth + 1)
    for position, parameter in enumerate(inspect.signature(function).parameters.values()):
        stars = 2 if parameter.kind is inspect.Parameter.VAR_KEYWORD else int(parameter.kind is inspect.Parameter.VAR_POSITIONAL)
        if stars and typed:
            form = ("positional parameters (i.e., *args)", "keyword parameters (i.e., **kwargs)")[stars - 1]
            raise _mistake(f"Quadrants {what} do not support variable {form}: give each argument a parameter", parameter.name)
        annotation = annotations.resolve(parameter.annotation, parameter.name)
        if annotation is EMPTY or (annotation is Any and not typed):  # what type checkers want for values of any type
            if typed and not (position == 0 and is_method(function)):
                text = f"Quadrants kernels parameters must be type annotated ({parameter.name!r} of {function.__qualname__} is not)"
                raise _mistake(text, parameter.name)
            kind = "template" if position == 0 and is_method(function) else "value"
            made = Parameter(parameter.name, kind, None, parameter.default)
        else:
            kind, annotation, optional = _classify(annotation, parameter.name)
            if kind is None or (kind == "ref" and what == "kernels"):
                where = f"{function.__qualname__}, parameter {parameter.name!r}"
                text = f"Invalid type annotation (argument {position}) of Quadrants kernel: {annotation!r} ({where})"
                raise _mistake(text, parameter.name)
            made = Parameter(parameter.name, kind, annotation, parameter.default, optional)
        made.stars = stars
        made.is_named = bool(stars) or parameter.kind is inspect.Parameter.KEYWORD_ONLY
        made.is_placed = bool(stars) or parameter.kind is inspect.Parameter.POSITIONAL_ONLY
        parameters.append(made)
    return parameters


def parse_results(function: Callable[..., Any], depth: int) -> tuple[list[Any] | None, bool]:
    """Returns the types of the returned values (None: no value), and whether the annotation is a tuple. `int` and
    `float` stay unresolved.
    """
    annotation = _Annotations(function, depth + 1).resolve(function.__annotations__.get("return", EMPTY), "return")
    if annotation is EMPTY or annotation is None or annotation is type(None):
        return None, False
    is_tuple = isinstance(annotation, tuple) or typing.get_origin(annotation) is tuple
    items = list(annotation if isinstance(annotation, tuple) else typing.get_args(annotation)) if is_tuple else [annotation]
    if Ellipsis in items:
        raise _mistake("Ellipsis is not supported in return type annotations", "return")
    items = [StructType.of_dataclass(item) if is_dataclass(item) else item for item in items]
    for item in items:
        if find_element(item) is None:
            is_union = typing.get_origin(item) in (typing.Union, types.UnionType)
            why = (
                "values of one type, to which what stands behind `return` is converted"
                if is_union
                else "numbers, vectors, structs and tuples"
            )
            raise _mistake(
                f"Invalid data type {item!r} in the return annotation of {function.__qualname__}: kernels return {why}", "return"
            )
    return items, is_tuple


def bind(parameters: list[Parameter], arguments: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[Any, ...]:
    """Returns the values of all parameters in order; raises one error that lists all mistakes of a call, missing arguments first."""
    placed = [parameter for parameter in parameters if not parameter.is_named]
    values: dict[str, Any] = {parameter.name: value for parameter, value in zip(placed, arguments, strict=False)}
    named = {parameter.name for parameter in parameters if not parameter.is_placed}
    starred = {parameter.stars: parameter.name for parameter in parameters if parameter.stars}
    needed = (p.name for p in parameters if p.name not in values and not p.has_default and not p.stars)
    problems = [f"Missing argument '{name}'." for name in needed if not (name in keywords and name in named)]
    only_placed = {parameter.name for parameter in parameters} - named
    problems += [
        f"Unexpected argument '{name}'." + " It is given by position, without its name." * (name in only_placed)
        for name in keywords
        if name not in named and 2 not in starred
    ]
    problems += [f"Multiple values for argument '{name}'." for name in keywords if name in values and name in named]
    if len(arguments) > len(placed) and 1 not in starred:
        expected = ", ".join(map(repr, placed))
        problems.append(f"Too many arguments. Expected ({expected}), got ({', '.join(map(repr, arguments))}).")
    if problems:
        raise QuadrantsSyntaxError("\n".join(problems))
    values.update((name, value) for name, value in keywords.items() if name in named)
    others = {name: value for name, value in keywords.items() if name not in named}
    values.update((name, others if stars == 2 else tuple(arguments[len(placed) :])) for stars, name in starred.items())
    return tuple(values[p.name] if p.name in values else p.default for p in parameters)


class RuntimeValue:
    """Represents a run-time value while Python's own code handles it during compilation."""

    __slots__ = ("index", "text")

    def __init__(self, index: int, text: str):
        self.index, self.text = index, text

    def __eq__(self, other: object) -> bool:
        raise TypeError(f"a value known at run time ({self.text}) cannot be compared while compiling")

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return self.text


class _Annotations:
    """Evaluates annotations that are strings, in the scope that defines the function."""

    def __init__(self, function: Callable[..., Any], depth: int):
        self._function = function
        self._locals = caller_locals(depth + 1) if any(isinstance(a, str) for a in function.__annotations__.values()) else {}

    def resolve(self, annotation: Any, at: str) -> Any:
        if not isinstance(annotation, str):
            return annotation
        try:
            return evaluate_annotation(annotation, self._function.__globals__, {**self._locals, **list_captured(self._function)})
        except Exception as error:
            text = f"the annotation {annotation!r} of {self._function.__qualname__} cannot be evaluated: {error}"
            raise _mistake(text, at) from error


_KINDS: list[tuple[type, str]] = [
    (MatrixType, "matrix"), (StructTypeBase, "struct"), (BufferViewType, "view"), (NdarrayType, "array"), (ref, "ref"),
]  # fmt: skip
_BARE: dict[Any, tuple[str, Any]] = {
    NdarrayType: ("array", NdarrayType()),
    Template: ("template", None),
    BufferView: ("view", BufferViewType()),
}


_hints: weakref.WeakKeyDictionary[type, dict[str, Any]] = weakref.WeakKeyDictionary()


def get_hints(cls: type) -> dict[str, Any]:
    """Returns `typing.get_type_hints`, evaluated once per class; nothing while a name is not defined, which the launch resolves."""
    if cls not in _hints:
        try:
            _hints[cls] = typing.get_type_hints(cls)
        except Exception:  # a local name of the defining function, or one that only type checkers import
            return {}
    return _hints[cls]


def _check_dataclass(cls: Any, outer: tuple[Any, ...]) -> bool:
    """Whether a dataclass has members that are compile-time constants; raises if it, or a class that contains it, cannot have them."""
    import dataclasses  # imported only for such classes

    hints, has_constants = get_hints(cls), False
    for field in dataclasses.fields(cls):
        hint, where = hints.get(field.name), f"{cls.__name__}.{field.name}"
        if hint is typing.Final or typing.get_origin(hint) is typing.Final:
            kinds = typing.get_args(hint)
            if not kinds or not isinstance(kinds[0], type) or not issubclass(kinds[0], (bool, int, float, str, enum.Enum)):
                raise TypeError(
                    f"{where} cannot be baked as a Quadrants compile-time constant: Final[T] takes bool, int, float, str and enums"
                )
            has_constants = True
        elif is_dataclass(hint) and hint not in outer:
            has_constants |= _check_dataclass(hint, (*outer, cls))
    if has_constants and not (cls.__dataclass_params__.frozen or cls.__dataclass_params__.unsafe_hash):
        raise TypeError(f"{cls.__name__} is not frozen, and has compile-time constants: declare it with dataclass(frozen=True)")
    return has_constants


def find_object_member(cls: Any, where: str, outer: tuple[Any, ...] = ()) -> str | None:
    """Returns the path of a dataclass member whose class is data_oriented, or None: a launch cannot split such a member."""
    for name, hint in get_hints(cls).items():
        place = f"{where}.{name}"
        if getattr(hint, "_data_oriented", False):
            return place
        is_nested = is_dataclass(hint) and hint not in outer
        found = find_object_member(hint, place, (*outer, cls)) if is_nested else None
        if found is not None:
            return found
    return None


def array_members(owner: Any, name: str) -> Iterator[tuple[Parameter, Any]]:
    """Yields the members of a dataclass argument, nested ones included, that are annotated as arrays or views: parameter and value."""
    if not is_dataclass(type(owner)):
        return
    import dataclasses

    hints = get_hints(type(owner))
    for field in dataclasses.fields(owner):
        hint, value, where = without_none(hints.get(field.name)), getattr(owner, field.name, None), f"{name}.{field.name}"
        if is_dataclass(hint) and isinstance(value, hint):
            yield from array_members(value, where)
        elif isinstance(hint, (NdarrayType, BufferViewType)) or hint is NdarrayType or hint is BufferView:
            kind, annotation, _ = _classify(hint)
            yield Parameter(where, str(kind), annotation), value


def without_none(annotation: Any) -> Any:
    """Returns T for the annotation `T | None`, and any other annotation as it is."""
    if isinstance(annotation, OptionalType):
        return annotation.inner
    is_union = typing.get_origin(annotation) in (typing.Union, types.UnionType)
    kept = [item for item in typing.get_args(annotation) if item is not type(None)] if is_union else []
    return kept[0] if len(kept) == 1 else annotation


def _classify(annotation: Any, at: str = "") -> tuple[str | None, Any, bool]:
    """Returns the kind of a parameter, its annotation without `| None`, and whether None is allowed."""
    inner = without_none(annotation)
    if typing.get_origin(inner) in (typing.Union, types.UnionType):
        raise _mistake("Quadrants kernels only support optional annotations of the form 'T | None'", at)
    if inner is not annotation:
        return *_classify(inner, at)[:2], True
    for cls, kind in _KINDS:
        if isinstance(annotation, cls):
            return kind, annotation, False
    if isinstance(annotation, Template):
        return "template", None, False
    if isinstance(annotation, type) and annotation in _BARE:
        return *_BARE[annotation], False
    if isinstance(annotation, type) and issubclass(annotation, TensorBase):
        return "tensor", None, False
    if is_dataclass(annotation):
        _check_dataclass(annotation, ())
        return "dataclass", annotation, False
    if not isinstance(annotation, str) and find_dtype(annotation) is not None:
        return "scalar", annotation if annotation in (int, float) else find_dtype(annotation), False
    return None, annotation, False

"""Objects of the user's classes that kernels make, and calls of objects that are no funcs."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from types import FunctionType, MethodType
from typing import Any

from quadrants import _runtime
from quadrants._language import func as _func
from quadrants._language.operands import BINARY, Operand
from quadrants._values.struct import value_type_of

from . import host_objects, values
from .values import StructValue, Tensor, Vec, is_runtime, read

_MISSING = dataclasses.MISSING

# Methods of operators, for the left operand and for the right one.
_METHODS = {name: (f"__{word}__", f"__r{word}__") for word, name in BINARY.items()}
_MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}
_METHODS |= {name: (f"__{name}__", f"__{word}__") for name, word in _MIRRORED.items()}
_UNARY_METHODS = {"neg": "__neg__", "pos": "__pos__", "bit_not": "__invert__", "abs": "__abs__"}


def is_known(evaluator: Any, value: Any, with_funcs: bool = False) -> bool:
    """Whether Python's own code may compute with a value: it contains no run-time value and, unless `with_funcs`, no func."""
    if isinstance(value, (list, tuple)):
        return all(is_known(evaluator, item, with_funcs) for item in value)
    if isinstance(value, dict):
        return all(is_known(evaluator, item, with_funcs) for item in value.values())
    if isinstance(value, MethodType) and not host_objects.is_func(value):
        return is_known(evaluator, value.__self__, with_funcs)
    return not (is_runtime(value) or id(value) in evaluator.made or (host_objects.is_func(value) and not with_funcs))


def is_known_call(evaluator: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> bool:
    """Whether Python may call a function: all arguments are known, and none is a container, whose elements are not."""
    return all(is_known(evaluator, value) and not is_container(value) for value in (*arguments, *keywords.values()))


def is_container(value: Any) -> bool:
    """Whether a value is a container, as kernels or Python see it."""
    return isinstance(value, (Tensor, _runtime.TensorBase, _runtime.FieldBase, _runtime.NdarrayBase))


def calls_func(error: Exception) -> bool:
    """Whether an error comes from a call of a func by Python's own code."""
    return "is a qd.func and cannot be called from Python scope" in str(error)


def is_plain(value: Any) -> bool:
    """Whether a value is a number, a text or the like, or a list or tuple of these; objects and containers are not."""
    if isinstance(value, (list, tuple)):
        return all(map(is_plain, value))
    return not is_runtime(value) and isinstance(value, (int, float, str, bytes, type(None), range))


def is_class_of_user(value: Any) -> bool:
    """Whether kernels construct objects of this class themselves."""
    if not isinstance(value, type) or (value.__module__.partition(".")[0] == "quadrants" and not hasattr(value, "_data_oriented")):
        return False
    return value.__new__ is object.__new__ and bool(value.__flags__ & (1 << 9)) and type(value).__call__ is type.__call__


_is_class_of_user = functools.cache(is_class_of_user)


def has_own_operators(value: Any) -> bool:
    """Whether the class of a value may define methods for operators."""
    return _is_class_of_user(type(value)) or (isinstance(value, StructValue) and bool(value.methods))


def is_named_tuple(value: Any) -> bool:
    """Whether a class is a named tuple."""
    return isinstance(value, type) and issubclass(value, tuple) and hasattr(value, "_fields")


def construct(evaluator: Any, cls: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """Constructs an object of the user's class with run-time members."""
    made = cls.__new__(cls)
    evaluator.made[id(made)] = made
    init = inspect.getattr_static(cls, "__init__")
    if dataclasses.is_dataclass(cls) and init.__code__.co_filename == "<string>":
        for name, value in bind_fields(cls, arguments, keywords).items():
            set_member(evaluator, made, name, value)
        if hasattr(cls, "__post_init__"):
            call_method(evaluator, inspect.getattr_static(cls, "__post_init__"), made, (), {})
    else:
        call_method(evaluator, init, made, arguments, keywords)
    return made


def bind_fields(cls: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> dict[str, Any]:
    """Returns the fields of a dataclass with the values of a call."""
    fields = dataclasses.fields(cls)
    given = {**dict(zip([field.name for field in fields if field.init], arguments, strict=False)), **keywords}
    for field in fields:
        if field.name not in given and field.default is not _MISSING:
            given[field.name] = field.default
        elif field.name not in given and field.default_factory is not _MISSING:
            given[field.name] = field.default_factory()
    return given


def set_member(evaluator: Any, base: Any, name: str, value: Any) -> None:
    """Evaluates `base.name = value` for an object that the kernel has made: its members are variables."""
    known = vars(base).get(name)
    if is_runtime(known):
        evaluator.write(known, value)
    elif not evaluator.dry or known is None:
        setattr(base, name, values.new_place(value) if is_runtime(value) else value)


def member(evaluator: Any, base: Any, name: str) -> Any:
    """Reads an attribute of such an object, or of its class."""
    if name in vars(base):
        return vars(base)[name]
    found = inspect.getattr_static(type(base), name)
    return call_method(evaluator, found.fget, base, (), {}) if isinstance(found, property) else getattr(base, name)


def call_method(evaluator: Any, function: Any, owner: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """Calls a func or plain function with its object."""
    if isinstance(function, FunctionType):
        return call_plain(evaluator, function, (owner, *arguments), keywords)
    return evaluator.call(host_objects.bind(function, owner), *arguments, **keywords)


def call_special(evaluator: Any, value: Any, name: str, *operands: Any) -> Any:
    """Calls a method such as `__add__`; returns NotImplemented if there is none."""
    if not has_own_operators(value):
        return NotImplemented
    found = value.methods.get(name) if isinstance(value, StructValue) else inspect.getattr_static(type(value), name, None)
    if not (isinstance(found, FunctionType) or host_objects.is_func(found)):
        return NotImplemented
    return call_method(evaluator, found, value, tuple(map(read, operands)), {})


def call_operator(evaluator: Any, name: str, left: Any, right: Any) -> Any:
    """Evaluates a binary operator with an object of the user's class; returns NotImplemented if the class has none."""
    own, reflected = _METHODS[name]
    both = [(left, own, right), (right, reflected, left)]
    if type(right) is not type(left) and issubclass(type(right), type(left)):
        both.reverse()
    elif type(right) is type(left) and own == reflected:
        both.pop()
    for value, method, other in both:
        if (result := call_special(evaluator, value, method, other)) is not NotImplemented:
            return result
    if name != "ne":
        return NotImplemented
    is_equal = call_operator(evaluator, "eq", left, right)
    return is_equal if is_equal is NotImplemented else evaluator.unary("logical_not", is_equal)


def call_in_place(evaluator: Any, name: str, target: Any, value: Any) -> Any:
    """Evaluates `target op= value` and returns the new target."""
    result = call_special(evaluator, target, f"__i{_METHODS[name][0][2:]}", value)
    return evaluator.binary(name, target, value) if result is NotImplemented else result


def call_unary(evaluator: Any, name: str, value: Any) -> Any:
    """Evaluates a unary operator on an object of the user's class."""
    if name == "logical_not":
        return evaluator.unary(name, truth_of(evaluator, value))
    return call_special(evaluator, value, _UNARY_METHODS[name])


def truth_of(evaluator: Any, value: Any) -> Any:
    """Returns the truth value of an object of the user's class."""
    for method in ("__bool__", "__len__"):
        if (result := call_special(evaluator, value, method)) is not NotImplemented:
            return result
    return True


def call_plain(evaluator: Any, function: FunctionType, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """Calls a Python function with run-time values."""
    func = host_objects.as_func(function)
    if func is None:
        return call_with_operands(evaluator, function, arguments, keywords)
    return host_objects.call_func(evaluator, func, arguments, keywords)


def call_wrapped(evaluator: Any, callee: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[Any] | None:
    """Calls an object that wraps another callable and returns the result in a tuple; None for other callables."""
    if is_own(callee):
        return None
    if isinstance(callee, functools.partial):
        return (evaluator.call(callee.func, *callee.args, *arguments, **{**callee.keywords, **keywords}),)
    if is_known(evaluator, callee) and is_known_call(evaluator, arguments, keywords):
        return None
    if isinstance(callee, MethodType):
        if is_named_tuple(type(callee.__self__)) and callee.__func__.__module__ == "collections":
            return (callee(*arguments, **keywords),)
        return (call_method(evaluator, callee.__func__, callee.__self__, arguments, keywords),)
    if isinstance(callee, staticmethod):
        return (evaluator.call(callee.__func__, *arguments, **keywords),)
    if isinstance(callee, (type, FunctionType)):
        return None
    behind = getattr(callee, "__wrapped__", None)
    if isinstance(behind, FunctionType):  # functools.cache
        return (evaluator.call(behind, *arguments, **keywords),)
    own = inspect.getattr_static(type(callee), "__call__", None)
    return (call_method(evaluator, own, callee, arguments, keywords),) if isinstance(own, FunctionType) else None


def is_own(function: Any) -> bool:
    """Whether a callable belongs to the package, whose functions accept run-time values directly."""
    while isinstance(function, functools.partial):
        function = function.func
    is_function = isinstance(function, (FunctionType, MethodType))
    return is_function and str(getattr(function, "__module__", "")).startswith("quadrants.") and not host_objects.is_func(function)


def declare_func(function: Any) -> Any:
    """Evaluates `qd.func(function)` in a kernel."""
    is_local = "_qd_factory" in getattr(function, "__qualname__", "")
    return function if is_local else host_objects.as_func(function)


def decorates(function: Any) -> bool:
    """Whether a callable is a decorator of funcs."""
    return function in (_func.func, _func.pyfunc, _func.real_func)


def call_with_operands(evaluator: Any, function: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """Runs Python code with operands whose operators are those of the language."""

    def box(value: Any) -> Any:
        if type(value) in (list, tuple):
            return type(value)(map(box, value))
        if type(value) is dict:
            return {key: box(item) for key, item in value.items()}
        if is_container(value):
            return Operand(apply, value, "a container")
        return value if is_known(evaluator, value) else Operand(apply, read(value), type(value).__name__)

    def unbox(value: Any) -> Any:
        if type(value) in (list, tuple):
            return type(value)(map(unbox, value))
        return value.index if isinstance(value, Operand) else value

    def apply(name: str, *given: Any, **named: Any) -> Any:
        operands = tuple(map(unbox, given))
        return box(_apply(evaluator, name, operands, {key: unbox(value) for key, value in named.items()}))

    return unbox(function(*map(box, arguments), **{key: box(value) for key, value in keywords.items()}))


def _apply(evaluator: Any, name: str, operands: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    if name == "call":
        return evaluator.call(*operands, **keywords)
    if name == "getattr":
        return read(evaluator.member(*operands))
    if name == "getitem":
        return read(evaluator.element(*operands))
    if name == "iter":
        items = operands[0].data if isinstance(operands[0], Vec) else operands[0].members.values()
        return tuple(Vec(item.copy()) if getattr(item, "ndim", 0) else read(item) for item in items)
    if name in ("neg", "pos", "invert"):
        return evaluator.unary("bit_not" if name == "invert" else name, operands[0])
    if name in ("len", "abs", "round", "divmod"):
        return evaluator.call({"len": len, "abs": abs, "round": round, "divmod": divmod}[name], *operands)
    return evaluator.binary(name, *operands)


def is_instance_class(cls: type, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> bool:
    """Whether a call of a class makes an object with run-time members."""
    if not is_class_of_user(cls) or all(map(is_plain, (*arguments, *keywords.values()))):
        return False
    if not dataclasses.is_dataclass(cls):
        return True
    is_object = hasattr(cls, "_data_oriented") or hasattr(cls, "__post_init__")
    return is_object and value_type_of(cls) is None

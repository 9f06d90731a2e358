"""Functions of the kernel language: `func`, `real_func`, `pyfunc`."""

from __future__ import annotations

import ast
import functools
import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar, overload

from .._base.errors import QuadrantsAssertionError, QuadrantsSyntaxError
from .._base.source import FunctionSource, all_arguments, copy_tree, get_source, lambda_body, list_captured, note_text
from .operands import call_with_operand
from .parameters import Parameter, attempt, check_undecorated, parse_parameters, parse_results


class Func:
    """A function that kernels call. It is compiled with its caller; Python calls it only with arch=qd.python."""

    _qd_func = True  # a mark for modules below this one
    source: FunctionSource | None = None  # set for a function inside another one; others are read from their files
    requires_top_level = False
    host: Callable[..., Any] | None = None  # what a call from Python does
    _interpret: Callable[..., tuple[Any] | None] = staticmethod(lambda *_: None)  # the same with arch=qd.python, whose module replaces it
    __qualname__: str

    def __init__(self, function: Callable[..., Any], is_real_function: bool = False, depth: int = 1):
        check_undecorated(function, "func")
        note_text(function.__code__)
        self.function = function
        self.is_real_function = is_real_function
        self.name = function.__qualname__
        self.parameters: list[Parameter] = parse_parameters(function, "functions", depth + 1, typed=is_real_function)
        self.results: list[Any] | None = self._parse_results(depth + 2)
        functools.update_wrapper(self, function)

    def _parse_results(self, depth: int) -> list[Any] | None:
        try:
            results = parse_results(self.function, depth)[0]
            # A returned dataclass remains an instance of its class, with its methods.
            is_dataclass = any(getattr(kind, "host", None) for kind in results or ())
            return None if is_dataclass and not self.is_real_function else results
        except QuadrantsSyntaxError:
            if self.is_real_function:
                raise
            return None  # an annotation that is no type, such as the name of a class

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else BoundFunc(self, instance)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        if (result := call_with_operand(self, arguments, named)) is not None:
            return result[0]
        if self.host is not None:
            return self.host(*arguments, **named)
        if (result := self._interpret(self, arguments, named)) is not None:
            return result[0]
        raise QuadrantsAssertionError(f"'{self.name}' is a qd.func and cannot be called from Python scope: call it in a kernel")

    def __reduce__(self) -> str:
        return self.__qualname__  # pickled by reference, like functions

    def __repr__(self) -> str:
        return f"<qd.func {self.name}>"


class PyFunc(Func):
    """A function that kernels and Python can call."""

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        result = call_with_operand(self, arguments, named)
        return self.function(*arguments, **named) if result is None else result[0]


class LocalFunc(Func):
    """A `def` or `lambda` inside a kernel or func; `captured` are the outer variables that it reads, passed as further parameters."""

    def __init__(self, outer: FunctionSource, node: Any, captured: list[str]):
        self.name = "<lambda>" if isinstance(node, ast.Lambda) else node.name
        body = lambda_body(node) if isinstance(node, ast.Lambda) else node.body
        returns = None if isinstance(node, ast.Lambda) else node.returns
        header = copy_tree(node.args)
        header.defaults = [ast.Constant(None)] * len(header.defaults)  # the frontend evaluates them
        header.kw_defaults = [default and ast.Constant(None) for default in header.kw_defaults]
        shell = _define(outer, ast.FunctionDef(self.name, header, [ast.Pass()], [], returns), node)
        self.function, self.is_real_function = outer.function, False
        self.parameters = parse_parameters(shell, "functions", 1, typed=False)
        self.parameters += [Parameter(name, "template", None, is_named=True) for name in captured]
        self.results = parse_results(shell, 1)[0]
        arguments = ast.arguments([], [*all_arguments(node.args), *map(ast.arg, captured)], None, [], [], None, [])
        tree = ast.copy_location(ast.FunctionDef(self.name, arguments, body, [], None), node)
        self.source = FunctionSource(outer.function, tree, outer.file, outer.lines, self.name)


def _define(outer: FunctionSource, header: ast.FunctionDef, node: ast.AST) -> Any:
    """Returns a function with the parameters and annotations of the header, evaluated in the scope of the module."""
    scope = list_captured(outer.function)
    module = ast.fix_missing_locations(ast.Module([ast.copy_location(header, node)], []))
    try:
        exec(compile(module, outer.file, "exec", dont_inherit=True), outer.function.__globals__, scope)
    except NameError as error:
        raise QuadrantsSyntaxError(f"the annotations of '{header.name}' must be known while compiling: {error}") from error
    return scope[header.name]


def free_names(node: ast.AST) -> list[str]:
    """Returns the names that an inner function reads and does not assign."""
    names = [item for item in ast.walk(node) if isinstance(item, ast.Name)]
    own = {item.arg for item in ast.walk(node) if isinstance(item, ast.arg)}
    own |= {name.id for name in names if not isinstance(name.ctx, ast.Load)}
    own |= {item.name for item in ast.walk(node) if isinstance(item, ast.FunctionDef)}
    return sorted({name.id for name in names} - own)


class BoundFunc:
    """A `func` together with the object that it is a method of."""

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
    """Mark a function `fn` as callable from kernels. It is compiled as part of its callers, or separately with `is_real_function`.

    Args:
        fn: the function.
        is_real_function: whether it is compiled separately, as by `qd.real_func`.
        requires_top_level: whether calls are allowed only where the loops of the function are tasks of the kernel, so not under a run-time
            `if`, `for` or `while`.
    Returns:
        The func or, called with keywords only, a decorator.
    Raises:
        QuadrantsSyntaxError: `fn` is no function written with `def`.
    """

    if fn is None:
        return functools.partial(func, is_real_function=is_real_function, requires_top_level=requires_top_level)
    if isinstance(made := attempt(make_func, fn, Func, is_real_function), Exception):
        raise made
    if requires_top_level:
        made.requires_top_level = True
    return made


def real_func(fn: F) -> F:
    """Mark a function `fn` as callable from kernels and compiled separately: recursion and early returns are allowed.

    Returns the func. Raises `QuadrantsSyntaxError` if a parameter has no valid annotation.
    """
    if isinstance(made := attempt(make_func, fn, Func, True), Exception):
        raise made
    return made


def pyfunc(fn: F) -> F:
    """Mark a function `fn` as callable from kernels and, unchanged, from Python. Returns the func, or raises as `qd.func` does."""
    if isinstance(made := attempt(make_func, fn, PyFunc, False), Exception):
        raise made
    return made


def make_func(function: Any, kind: type[Func], is_real_function: bool) -> Any:
    """Returns a func of the class `kind`, for a decorator that calls this function by `attempt`."""
    made = kind(getattr(function, "__func__", function), is_real_function, 3)
    return type(function)(made) if isinstance(function, (staticmethod, classmethod)) else made


def as_func(function: FunctionType) -> Func | None:
    """Returns a Python function as a func, or None if Python has to run it: with `*args`, without source text, or behind a decorator."""
    takes_any = function.__code__.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
    if takes_any or hasattr(function, "__wrapped__"):
        return None
    try:
        get_source(function)
    except OSError:
        return None
    try:
        return Func(function)
    except QuadrantsSyntaxError:  # its annotations are no types
        code, given = function.__code__, (function.__globals__, function.__name__, function.__defaults__, function.__closure__)
        plain = FunctionType(code, *given)
        plain.__kwdefaults__, plain.__qualname__, plain.__module__ = function.__kwdefaults__, function.__qualname__, function.__module__
        return Func(plain)


def specialize(general: Func, name: str, doc: str, **fixed: Any) -> Any:
    """Returns the func `general` under the name `name`, with fixed values for some parameters, which callers cannot pass."""
    plain: Any = general.function
    # A separate function object: its captured values distinguish it in caches from functions with the same code.
    function = FunctionType(plain.__code__, plain.__globals__, name, plain.__defaults__, plain.__closure__)
    function.__kwdefaults__ = {**(plain.__kwdefaults__ or {}), **fixed}
    function.__annotations__, function.__module__, function.__doc__ = plain.__annotations__, plain.__module__, doc
    made = Func(function)
    made.requires_top_level = general.requires_top_level
    for parameter in made.parameters:
        if parameter.name in function.__kwdefaults__:
            parameter.default, parameter.has_default = function.__kwdefaults__[parameter.name], True
            parameter.is_named = parameter.is_placed = True
    return made

"""`@qd.kernel` and `@qd.data_oriented`."""

from __future__ import annotations

import ast
import copyreg
import functools
import linecache
import math
import sys
import weakref
from collections.abc import Callable, Iterator
from types import MethodType
from typing import TYPE_CHECKING, Any, TypeVar, overload

import numpy as np

from .. import _runtime
from .._base import options as _options
from .._base.autodiff_mode import AutodiffMode
from .._base.compat import read_kernel_options
from .._base.dtypes import find_dtype, i64, to_numpy_dtype
from .._base.errors import QuadrantsRuntimeError, QuadrantsSyntaxError
from .._base.imports import load
from .._base.source import note_text, store_text
from .._values.matrix import view_of
from .._values.struct import Struct, StructType
from .._values.types import MatrixType
from .parameters import Parameter, attempt, check_undecorated, is_method, parse_parameters, parse_results

Kernel = _runtime.Kernel
__all__ = ["Kernel", "Parameter", "data_oriented", "kernel"]


if TYPE_CHECKING:
    from .._runtime import P, R, TypedKernel


@overload
def kernel(fn: Callable[P, R]) -> TypedKernel[P, R]: ...
@overload
def kernel(
    *, pure: bool | None = None, fastcache: bool = False, graph: bool = False, checkpoints: bool = False, gpu_graph: bool | None = None
) -> Callable[[Callable[P, R]], TypedKernel[P, R]]: ...
def kernel(
    fn: Any = None,
    *,
    pure: bool | None = None,
    fastcache: bool = False,
    graph: bool = False,
    checkpoints: bool = False,
    gpu_graph: bool | None = None,
) -> Any:
    """Mark a function `fn` as a kernel. It is compiled at its first call, and its outermost loops run in parallel.

    Args:
        fn: the function.
        pure: former name of `fastcache`.
        fastcache: accepted without effect: every kernel is cached by its dependencies.
        graph: whether the kernel may use `qd.graph.do_while` and other statements of `qd.graph`.
        checkpoints: whether the kernel may use `qd.checkpoint`; a call then returns a `qd.GraphStatus`. Needs `graph=True`.
        gpu_graph: former name of `graph`.
    Returns:
        The kernel or, called with keywords only, a decorator.
    Raises:
        QuadrantsSyntaxError: `checkpoints=True` without `graph=True`, or a parameter without a valid annotation.
    """
    graph, fastcache = read_kernel_options(graph, gpu_graph, fastcache, pure)
    if checkpoints and not graph:
        raise QuadrantsSyntaxError("@qd.kernel(checkpoints=True) requires graph=True")

    if fn is None:
        return functools.partial(kernel, fastcache=fastcache, graph=graph, checkpoints=checkpoints)
    if isinstance(made := attempt(_make_kernel, fn, fastcache, graph, checkpoints, 2), Exception):
        raise made
    return made


def _make_kernel(function: Any, declared_pure: bool, use_graph: bool, has_checkpoints: bool, depth: int) -> Any:
    if isinstance(function, staticmethod):
        return staticmethod(_make_kernel(function.__func__, declared_pure, use_graph, has_checkpoints, depth + 1))
    check_undecorated(function, "kernel")
    note_text(function.__code__)
    parameters = parse_parameters(function, "kernels", depth + 1)
    results, is_tuple = parse_results(function, depth + 1)
    if has_checkpoints:
        parameters.append(_checkpoints().make_parameter(i64))
    made = Kernel(function, parameters, results, function.__qualname__)
    functools.update_wrapper(made, function)
    made.is_pure, made.use_graph, made.has_checkpoints = declared_pure, use_graph, has_checkpoints
    made._is_classkernel = is_method(function)
    if results is not None and (is_tuple or isinstance(results[0], (MatrixType, StructType))):
        made.build_result = functools.partial(_build_result, results, is_tuple)
    if has_checkpoints:
        made.build_result = functools.partial(_checkpoints().read_status, made, vars(made).get("build_result"))
    return made


def _checkpoints() -> Any:
    return load("quadrants._language.checkpoints")  # only kernels with checkpoints need it


def kernel_from_source(text: str, namespace: dict[str, Any] | None = None) -> Kernel:
    """Return the kernel that a text defines: the last function in it, which needs no decorator.

    Args:
        text: Python code with the kernel and everything that it needs.
        namespace: the globals in which the text runs; it gets `qd` if it has no such name.
    Raises:
        QuadrantsSyntaxError: the text defines no function.
    """
    scope = {} if namespace is None else namespace
    scope.setdefault("qd", sys.modules["quadrants"])
    file = store_text("qd.kernel_from_source", text)
    names = [node.name for node in ast.parse(text, file).body if isinstance(node, ast.FunctionDef)]
    if not names:
        raise QuadrantsSyntaxError("qd.kernel_from_source needs the text of a function")
    exec(compile(text, file, "exec", dont_inherit=True), scope)
    found = scope[names[-1]]
    kernel = found if isinstance(found, Kernel) else _make_kernel(found, False, False, False, 1)
    weakref.finalize(kernel.function.__code__, linecache.cache.pop, file, None).atexit = False  # frees the text together with the code
    return kernel


def _reduce(kernel: Kernel) -> str:
    """Kernels are copied and pickled by reference: by their name in their module."""
    if kernel.mode == AutodiffMode.NONE:
        return kernel.__qualname__
    is_tangent = kernel.mode in (AutodiffMode.FORWARD, AutodiffMode.SECOND)
    name = "_tangent" if is_tangent else "_replayed" if kernel.mode == AutodiffMode.REPLAY else "grad"
    return f"{_reduce(kernel.primal)}.{name}"


copyreg.pickle(Kernel, _reduce)


class BoundKernel:
    """A kernel together with the object that it is a method of, as `object.kernel`; a call passes the object as the first argument."""

    # Class members that are methods: a call reaches them without a Python frame.
    __slots__ = ("__call__", "__func__", "__self__")

    def __init__(self, function: Any, instance: Any):
        self.__func__, self.__self__ = function, instance
        self.__call__ = MethodType(function, instance)

    def __getattr__(self, name: str) -> Any:
        if name in BoundKernel.__slots__:
            raise AttributeError(name)
        found = getattr(self.__func__, name)
        return BoundKernel(found, self.__self__) if isinstance(found, Kernel) and name != "primal" else found

    def resume(self, *arguments: Any, **keywords: Any) -> Any:
        """Resume the kernel from a checkpoint, as `Kernel.resume`."""
        return self.__func__.resume(self.__self__, *arguments, **keywords)

    def export(self, path: Any, *arg_types: Any, arch: Any = None) -> Any:
        """Write the kernel, with the object as a compile-time value, to files, as `Kernel.export`."""
        return self.__func__.export(path, self.__self__, *arg_types, arch=arch)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BoundKernel) and other.__func__ is self.__func__ and other.__self__ is self.__self__

    def __hash__(self) -> int:
        return hash((id(self.__func__), id(self.__self__)))

    def __reduce__(self) -> Any:
        return BoundKernel, (self.__func__, self.__self__)


def derive(primal: Any, mode: int) -> Kernel:
    """Returns the derivative of the kernel `primal`, with the same parameters; `mode` is an `AutodiffMode`.

    Kernels of adjoints return nothing. Their tangents exist; there are no other second derivatives.
    """
    is_of_adjoint = primal.mode in (AutodiffMode.REVERSE, AutodiffMode.REPLAY)
    if primal.mode != AutodiffMode.NONE and not (is_of_adjoint and mode == AutodiffMode.FORWARD):
        raise QuadrantsRuntimeError(f"{primal.name} is a derivative: of these, only a gradient has derivatives, in forward mode")
    if primal.has_checkpoints:
        raise QuadrantsRuntimeError(f"{primal.name} was declared with checkpoints=True: it has no derivative")
    suffix = "dual" if mode == AutodiffMode.FORWARD else "grad"
    mode = AutodiffMode.SECOND if is_of_adjoint else mode
    made = Kernel(primal.function, primal.parameters, primal.results, f"{primal.name}.{suffix}", mode)
    functools.update_wrapper(made, primal.function)
    made.is_pure, made._is_classkernel, made.use_graph = primal.is_pure, primal._is_classkernel, primal.use_graph
    made.has_checkpoints = False
    made.primal = primal
    if mode == AutodiffMode.FORWARD and (build := vars(primal).get("build_result")):
        made.build_result = build
    return made


def _build_result(results: list[Any], as_tuple: bool, flat: tuple[Any, ...]) -> Any:
    """Assembles the returned value from its scalars in order."""
    scalars = iter(flat)
    values = tuple(_build_value(kind, scalars) for kind in results)
    return values if as_tuple else values[0]


def _build_value(kind: Any, scalars: Iterator[Any]) -> Any:
    if isinstance(kind, StructType):
        members = {name: _build_value(member, scalars) for name, member in kind.members.items()}
        return Struct._of(kind, members) if kind.host is None else kind.host(**members)
    if isinstance(kind, MatrixType):
        array = np.array([next(scalars) for _ in range(math.prod(kind.shape))], to_numpy_dtype(kind.dtype or find_dtype(float)))
        return view_of(array.reshape(kind.shape), kind.dtype)
    return next(scalars)


_stable: dict[int, tuple[Any, Any, dict[str, Any]]] = {}  # objects of classes with `stable_members`: runtime, containers in them


def require_stable(owner: Any, name: str) -> None:
    """Raises `QuadrantsRuntimeError` if a container in an object was replaced after a launch with debug=True."""
    key, member = id(owner), getattr(owner, name)
    if key not in _stable or _stable[key][1] is not _options.current:
        _stable[key] = (weakref.ref(owner, lambda _: _stable.pop(key, None)), _options.current, {})
    if _stable[key][2].setdefault(name, member) is not member:
        text = f"'{name}' of a {type(owner).__name__} was replaced after a launch, but the class is declared with stable_members=True"
        raise QuadrantsRuntimeError(f"{text}: write into the container, or declare the class without it")


C = TypeVar("C", bound=type)


@overload
def data_oriented(cls: C) -> C: ...
@overload
def data_oriented(*, template_primitives: bool = True, stable_members: bool = False) -> Callable[[C], C]: ...
def data_oriented(cls: type | None = None, *, template_primitives: bool = True, stable_members: bool = False) -> Any:
    """Mark a class `cls` whose methods are kernels and funcs: `self` is a compile-time argument, and its members are captured.

    With `template_primitives=False`, number members are read at each launch and are never part of the code. `stable_members` promises that
    kernels always find the containers that they found first: with `debug=True`, a launch raises `QuadrantsRuntimeError` if one was
    replaced; without, it uses the new one. Returns the class.
    """

    def mark(target: type) -> type:
        if not isinstance(target, type):
            raise QuadrantsSyntaxError(f"qd.data_oriented decorates classes, got {type(target).__name__}")
        target._data_oriented = True  # type: ignore[attr-defined]
        target._qd_template_primitives = template_primitives  # type: ignore[attr-defined]
        if stable_members:
            target._qd_stable_members = True  # type: ignore[attr-defined]
        return target

    return mark if cls is None else mark(cls)

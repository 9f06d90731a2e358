"""`arch=qd.python`: runs kernels in plain Python, one statement after the other, on the memory of the containers.

It is the oracle of the compiler: integers and strictly rounded floats agree bit for bit. It is also a debugger: kernels run under pdb, with
breakpoints, coverage and prints, because the rewritten code has the line numbers of the user's file.

The compiler's frontend first checks each version of a kernel: it reports mistakes and warnings, so the interpreter runs only valid kernels.
`rewrite` turns a function into Python that calls the `Evaluator`; `scalars` implements arithmetic, `values` vectors, structs and elements,
`intrinsics` the builtins, and `host_objects` converts the objects of the package. `host_calls` calls funcs from Python scope, where
`tensors` lets containers answer as torch tensors.
"""

from __future__ import annotations

import builtins
import contextlib
import dataclasses
import sys
import threading
import traceback
import types
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np

from quadrants import _runtime
from quadrants._base import errors as _errors
from quadrants._base import options as _options
from quadrants._base.arch import GPU_NAMES as _GPU_NAMES
from quadrants._base.autodiff_mode import AutodiffMode
from quadrants._base.source import get_kernel_source
from quadrants._containers import foreign as _foreign
from quadrants._containers.interop import find_array
from quadrants._language import checkpoints
from quadrants._language import func as _func
from quadrants._language import parameters as _parameters
from quadrants._session import prepare as _prepare

from . import host_calls, host_objects, scalars
from .checks import Checks
from .evaluator import Evaluator
from .recorder import Recorder, list_addresses
from .tensors import PyTensor as PyTensor  # containers answer as torch tensors from here on

_RECURSION = 20_000
_lock = threading.RLock()
_evaluator = Evaluator()
_versions: weakref.WeakKeyDictionary[Any, list[tuple[dict[str, str], bool]]] = weakref.WeakKeyDictionary()
tapes: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
"""Tapes that record interpreted calls, and their threads. `foreign` of a tape receives what the kernels of other threads write."""


def run(kernel: Any, arguments: tuple[Any, ...], keywords: dict[str, Any], validates: bool = False) -> Any:
    """Calls a kernel; `validates` raises if it overwrites an element that it has read, in containers that have a gradient.

    Raises `QuadrantsRuntimeError` if containers are in the memory of a GPU.
    """
    if _options.get("arch") in _GPU_NAMES:
        raise _errors.QuadrantsRuntimeError("the derivative of a gradient is interpreted, which does not reach a GPU: use arch=qd.cpu")
    tapes_of_others = [tape for tape, thread in list(tapes.items()) if thread != threading.get_ident() and not tape.gradient_evaluated]
    if tapes_of_others and not kernel.mode:
        try:
            stored = record(kernel._replayed, arguments, keywords, checks=False).stored
            places: set[int | None] = {address for memory, _ in stored.values() for address in list_addresses(memory)}
        except Exception:  # what it writes before it fails, or without a derivative, is unknown
            places = {None}
        for tape in tapes_of_others:
            tape.foreign.update(dict.fromkeys(places, kernel.__qualname__))
    prepared = _prepare.prepare(kernel, _parameters.bind(kernel.parameters, arguments, keywords))
    arrays = [] if kernel.mode else _keep_saved(prepared)
    flat = launch(kernel, prepared, validates)
    for memory, before in arrays:
        if not np.array_equal(memory, before):
            _runtime.note_saved_write(memory)
    if flat is None:
        return None
    build = getattr(kernel, "build_result", None)  # a single scalar needs none
    return flat[0] if build is None else build(flat)


def validate(kernel: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> None:
    """Raises if a kernel overwrites an element that it has read, in containers that have a gradient: runs it on copies of all containers,
    without what it prints.
    """
    with _lock:
        scalars.options.copies = {}
        try:
            launch(kernel, _prepare.prepare(kernel, _parameters.bind(kernel.parameters, arguments, keywords)), validates=True)
        finally:
            scalars.options.copies = None


def _keep_saved(arguments: tuple[Any, ...]) -> list[tuple[np.ndarray, np.ndarray]]:
    """Returns array arguments whose values torch may need for a gradient, with copies of these values."""
    if not _runtime.has_saved():
        return []
    found = (find_array(value, "") if _foreign.is_tensor(value) or isinstance(value, np.ndarray) else None for value in arguments)
    return [(memory, memory.copy()) for memory in found if memory is not None]


def record(kernel: Any, arguments: tuple[Any, ...], keywords: dict[str, Any], checks: bool = True) -> Recorder:
    """Runs a gradient kernel without propagation: `propagate` of the result computes the gradients. `checks`: raises if it cannot."""
    if _options.get("arch") in _GPU_NAMES:
        raise _errors.QuadrantsRuntimeError("this gradient is interpreted, which does not reach the memory of a GPU: use arch=qd.cpu")
    bound = _parameters.bind(kernel.parameters, arguments, keywords)
    return launch(kernel, _prepare.prepare(kernel, bound), defers=True, checks=checks)


def launch(kernel: Any, arguments: tuple[Any, ...], validates: bool = False, defers: bool = False, checks: bool = True) -> Any:
    """Runs a kernel; `arguments` are in the order of its parameters. Returns the argument of `build_result`, or None; with `defers`,
    returns the recording of a gradient kernel. `checks`: raises if the gradient needs an overwritten primal.
    """
    with _lock, _running(kernel):
        recorder = Recorder(_evaluator, kernel, validates) if validates or kernel.mode else None
        scalars.options.recorder = recorder
        given = [host_objects.argument(parameter, *item) for parameter, item in zip(kernel.parameters, enumerate(arguments), strict=True)]
        if kernel.has_checkpoints:
            _evaluator.awaited = None if arguments[-1] == checkpoints.START else arguments[-1]
        draws = _check_version(kernel, arguments, given)
        if _runtime.takes_launch(kernel):
            return None  # a graph is being captured
        _evaluator.random.begin(draws and not defers)
        try:
            for parameter, argument in zip(kernel.parameters, given, strict=True):
                if parameter.kind != "template" and dataclasses.is_dataclass(argument):
                    _evaluator.owners[id(argument)] = (argument, "annotated")
            value = host_objects.executable(kernel.__wrapped__, kernel.parameters, "fixed", _evaluator)(*given)
            if recorder is not None and recorder.reverse:
                if checks:
                    recorder.check()
                if defers:
                    return recorder
                recorder.propagate()
            values = None if kernel.results is None else host_objects.result(value, kernel.results)
            return (_evaluator.status(), *(values or ())) if kernel.has_checkpoints else values
        except (_errors.QuadrantsCompilationError, _errors.QuadrantsRuntimeError) as error:
            raise _with_frames(error) from None
        except Exception as error:
            *_, (frame, _) = traceback.walk_tb(error.__traceback__)
            is_of_user = not ("_qd" in frame.f_code.co_freevars or frame.f_code.co_filename.startswith(_errors.PACKAGE))
            _check(kernel, arguments, is_of_user)  # captured values may have changed
            raise
        finally:
            scalars.options.recorder = None
            if recorder is not None:
                recorder.undo()


def call(func: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[Any] | None:
    """Calls a func from Python scope and returns its value in a tuple; None on other processors, and in Python code that a kernel calls."""
    if _options.get("arch") != "python" or scalars.options.thread == threading.get_ident():
        return None
    with _lock, _running(func):
        _evaluator.random.begin(draws=True)
        try:
            return (host_calls.call(_evaluator, func, arguments, keywords),)
        except (_errors.QuadrantsCompilationError, _errors.QuadrantsRuntimeError) as error:
            raise _with_frames(error) from None


_func.Func._interpret = staticmethod(call)


@contextlib.contextmanager
def _running(called: Any) -> Iterator[None]:
    """Prepares the evaluator for a kernel or func."""
    _evaluator.reset()
    _evaluator.kernel = called
    outer, limit = scalars.options.thread, sys.getrecursionlimit()
    vars(scalars.options).update({name: _options.get(name) for name in ("debug", "short_circuit_operators")})
    checks_nans = bool(_options.get("check_nan"))
    is_checked = scalars.options.debug or checks_nans
    scalars.options.checks = Checks(_evaluator, str(_options.get("overflow")), checks_nans) if is_checked else None
    vars(scalars.options).update(default_ip=host_objects.dtype_of(int), default_fp=host_objects.dtype_of(float))
    scalars.options.thread = threading.get_ident()
    sys.setrecursionlimit(max(limit, _RECURSION))
    try:
        with np.errstate(all="ignore"):
            yield
    finally:
        scalars.options.thread = outer
        sys.setrecursionlimit(limit)


def _check(kernel: Any, arguments: tuple[Any, ...], lets_python_raise: bool = True) -> bool:
    """Raises the errors that the compiler finds in a kernel, and issues its warnings; errors of Python code are left to the run itself.

    Returns whether the kernel draws random numbers.
    """
    source = get_kernel_source(kernel)
    mode = min(kernel.mode, AutodiffMode.REVERSE)  # tangents of gradients have the same source
    options = _options.plain(_options.current or {})
    with _without_debugger():
        try:
            return _prepare._load_compiler().frontend_ir(source, kernel.parameters, arguments, kernel.results, options, mode)[1]
        except (_errors.QuadrantsCompilationError, _errors.QuadrantsRuntimeError) as error:
            called = str(error).partition(" when calling `")[2].partition("`")[0]
            is_of_python = type(error) is _errors.QuadrantsCompilationError and called and not hasattr(builtins, called)
            if not (is_of_python and lets_python_raise):
                raise
        except Exception:
            pass  # an error of Python code that is no function
        return False


@contextlib.contextmanager
def _without_debugger() -> Iterator[None]:
    """Disables the debugger: breakpoints in Python code that the frontend calls are for the run itself."""
    trace, hook, bdb = sys.gettrace(), sys.breakpointhook, sys.modules.get("bdb")
    stop = bdb and bdb.Bdb.set_trace
    sys.settrace(None)
    sys.breakpointhook = lambda *_, **__: None
    if bdb:
        bdb.Bdb.set_trace = lambda *_, **__: None
    try:
        yield
    finally:
        sys.breakpointhook = hook
        if bdb:
            bdb.Bdb.set_trace = stop
        sys.settrace(trace)


def _check_version(kernel: Any, arguments: tuple[Any, ...], given: list[Any]) -> bool:
    """Checks a kernel once per combination of argument types and compile-time values. Returns whether it draws random numbers."""
    reads = {f"argument {each.name}": host_objects.describe(each, value) for each, value in zip(kernel.parameters, given, strict=True)}
    known = _versions.setdefault(kernel, [])
    found = next((draws for version, draws in known if version == reads), None)
    if found is None:
        known.append((reads, found := _check(kernel, arguments)))
    return found


def list_versions(kernel: Any) -> list[dict[str, str]]:
    """Implements `kernel.specializations()`: one dictionary for each combination of arguments that differ in more than run-time values."""
    return [reads for reads, _ in _versions.get(kernel, ())]


def forget() -> None:
    """Forgets which kernels ran."""
    _versions.clear()


def seed(number: int) -> None:
    """Resets the random numbers."""
    _evaluator.random.seed(number)


def _with_frames(error: Exception) -> Exception:
    """Returns the same error with the user's lines, outermost first: the frames of rewritten functions in its traceback."""
    text = str(error.args[0] if error.args else "")
    frames: list[_errors.Frame] = []
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if "_qd" in code.co_freevars:
            frames.append((code.co_filename, code.co_name, *_position(code, trace)))
        trace = trace.tb_next
    if report := getattr(error, "report", None):
        text = f"{report[0]}: kernel[{frames[0][1]}] tid=0, {report[1]}" + _errors.call_stack(frames)
    return _errors.compile_error(type(error).__name__, _errors.name_kernel(text, frames), frames)


def _position(code: types.CodeType, trace: types.TracebackType) -> tuple[int, int, int, int]:
    if sys.version_info < (3, 11):  # code knows its lines only
        return trace.tb_lineno, 0, trace.tb_lineno, 0
    line, end_line, column, end_column = list(code.co_positions())[trace.tb_lasti // 2]
    first = line or trace.tb_lineno
    return first, column or 0, end_line or first, end_column or 0

"""`arch=qd.python`: runs kernels in plain Python, one statement after the other, on the memory of the containers.

It is the oracle of the compiler: integers and strictly rounded floats agree bit for bit. And it is a debugger: kernels run under pdb, with
breakpoints, coverage and prints, because the rewritten code keeps the lines of the user's file.

`rewrite` turns a function into Python that calls the `Evaluator`; `scalars` has the arithmetic, `values` vectors, structs and elements,
`meanings` the language's functions, and `hosts` knows the objects of the package.
"""

from __future__ import annotations

import dataclasses
import linecache
import sys
import threading
import types
import weakref
from typing import Any

import numpy as np

from quadrants import _compile, _errors, _options, _parameters

from . import hosts, notices, scalars
from .checks import Checks
from .evaluator import Evaluator
from .recorder import Recorder
from .values import ReadOnlyError

_RECURSION = 20_000
_lock = threading.RLock()
_evaluator = Evaluator()
_versions: weakref.WeakKeyDictionary[Any, list[dict[str, str]]] = weakref.WeakKeyDictionary()


def run(kernel: Any, arguments: tuple[Any, ...], keywords: dict[str, Any], validates: bool = False) -> Any:
    """A call of a kernel; `validates` refuses to overwrite what it has read, in containers that have a gradient.

    Raises `QuadrantsRuntimeError` where containers are in the memory of a GPU.
    """
    if _options.get("arch") == "cuda":
        what = "validation" if validates else "the derivative of a gradient"
        raise _errors.QuadrantsRuntimeError(f"{what} interprets kernels, which do not reach the memory of a GPU: use arch=qd.cpu")
    flat = launch(kernel, _compile.prepare(kernel, _parameters.bind(kernel.parameters, arguments, keywords)), validates)
    if flat is None:
        return None
    build = getattr(kernel, "build_result", None)  # a single scalar needs none
    return flat[0] if build is None else build(flat)


def launch(kernel: Any, arguments: tuple[Any, ...], validates: bool = False) -> Any:
    """Runs a kernel; `arguments` stand in the order of its parameters. Gives what `build_result` takes, or None."""
    with _lock, np.errstate(all="ignore"):
        _evaluator.reset()
        _evaluator.is_graph, _evaluator.kernel = kernel.use_graph, kernel
        vars(scalars.options).update({name: _options.get(name) for name in _LANGUAGE_OPTIONS})
        checks_nans = bool(_options.get("check_nan"))
        is_checked = scalars.options.debug or checks_nans
        scalars.options.checks = Checks(_evaluator, str(_options.get("overflow")), checks_nans) if is_checked else None
        vars(scalars.options).update(default_ip=hosts.check_dtype(int), default_fp=hosts.check_dtype(float))
        recorder = Recorder(_evaluator, kernel, validates) if validates or kernel.mode else None
        scalars.options.recorder = recorder
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(max(limit, _RECURSION))
        try:
            pairs = enumerate(zip(kernel.parameters, arguments, strict=False))
            given = [hosts.argument(parameter, position, value) for position, (parameter, value) in pairs]
            for parameter, argument in zip(kernel.parameters, given, strict=True):
                if parameter.kind != "template" and dataclasses.is_dataclass(argument):
                    _evaluator.owners[id(argument)] = (argument, "annotated")
            _evaluator.is_new_version = _note_version(kernel, given)
            value = hosts.executable(kernel.__wrapped__, kernel.parameters, "parameter", _evaluator)(*given)
            if recorder is not None:
                recorder.finish()
            return hosts.result(value, kernel.results)
        except (_errors.QuadrantsCompilationError, _errors.QuadrantsRuntimeError) as error:
            raise _with_frames(error, str(error.args[0] if error.args else "")) from None
        except _OF_PYTHON as error:
            is_of_source = isinstance(error, OSError) and error.errno is None  # a function without text
            if isinstance(error, ReadOnlyError) or is_of_source or _is_of_python_code(error):
                raise
            raise _with_frames(error, f"{type(error).__name__}: {error}") from error
        finally:
            scalars.options.recorder = None
            if recorder is not None:
                recorder.undo()
            sys.setrecursionlimit(limit)


def _note_version(kernel: Any, given: list[Any]) -> bool:
    """Remembers the types of arguments, and the values of those that are known while compiling; False when they are known already."""
    reads = {f"argument {each.name}": hosts.describe(each, value) for each, value in zip(kernel.parameters, given, strict=True)}
    known = _versions.setdefault(kernel, [])
    if reads in known:
        return False
    known.append(reads)
    return True


def list_versions(kernel: Any) -> list[dict[str, str]]:
    """What `kernel.specializations()` gives: a dictionary for each combination of arguments that differ in more than run-time values."""
    return list(_versions.get(kernel, ()))


def forget() -> None:
    """Forgets which warnings were given and which kernels ran."""
    notices.restart()
    _versions.clear()


def seed(number: int) -> None:
    """Begins the random numbers anew."""
    _evaluator.random = np.random.Generator(np.random.Philox(number % 2**64))


def _is_of_python_code(error: Exception) -> bool:
    """Whether a function that is neither a kernel nor of this package raised the error: it knows best what it says."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    code = trace.tb_frame.f_code if trace is not None else None
    return code is not None and "_qd" not in code.co_freevars and not code.co_filename.startswith(_errors.PACKAGE)


_LANGUAGE_OPTIONS = ("debug", "short_circuit_operators", "strict_conditions", "raise_on_templated_floats")
_OF_PYTHON = (ArithmeticError, AttributeError, EOFError, LookupError, NameError, NotImplementedError, OSError, TypeError, ValueError)
_FOREIGN = {
    TypeError: "QuadrantsTypeError",
    IndexError: "QuadrantsIndexError",
    NameError: "QuadrantsNameError",
    AttributeError: "QuadrantsAttributeError",
}


def _with_frames(error: Exception, text: str) -> Exception:
    """The same error with the user's lines, outermost first: the frames of rewritten functions on the way to it."""
    frames: list[_errors.Frame] = []
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if "_qd" in code.co_freevars:
            frames.append((code.co_filename, code.co_name, *_position(code, trace)))
        trace = trace.tb_next
    mistake = getattr(error, "_qd_frame", None)
    if mistake is not None:
        frames.append(mistake)
    if report := getattr(error, "report", None):
        text = f"{report[0]}: kernel[{frames[0][1]}] tid=0, {report[1]}" + _errors.call_stack(frames)
    return _errors.compile_error(_FOREIGN.get(type(error), type(error).__name__), text, frames)


def _position(code: types.CodeType, trace: types.TracebackType) -> tuple[int, int, int, int]:
    if sys.version_info < (3, 11):  # knows lines only
        text = linecache.getline(code.co_filename, trace.tb_lineno).rstrip()
        return trace.tb_lineno, len(text) - len(text.lstrip()), trace.tb_lineno, len(text.encode())
    line, end_line, column, end_column = list(code.co_positions())[trace.tb_lasti // 2]
    first = line or trace.tb_lineno
    return first, column or 0, end_line or first, end_column or 0

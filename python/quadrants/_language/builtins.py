"""The builtins of the kernel language, and what they compute in Python scope."""

from __future__ import annotations

import contextlib
import functools
import itertools
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from .._base import options as _options
from .._base.dtypes import to_dtype, to_numpy_dtype
from .._base.errors import QuadrantsCompilationError, QuadrantsRuntimeError, QuadrantsSyntaxError, QuadrantsTypeError
from .._base.operators import ATOMICS, OPERATORS
from .._values.matrix import Matrix, cast, unwrap, view_of, wrap
from .ndrange import grouped as _grouped
from .ndrange import make_ndrange
from .operands import call_with_operand


class Builtin:
    """A builtin of the kernel language. Calling it from Python returns the result of NumPy.

    `parameters` lists their names, for the frontend, the interpreter, stubs and `inspect.signature`: "x dtype?" has one optional parameter,
    "*args" takes any number of arguments, "* name" and "*args name" have a keyword-only one. `host` computes it in Python scope; None: it
    has a meaning in kernels only.
    """

    def __init__(self, name: str, parameters: str, doc: str, host: Callable[..., Any] | None = None):
        self.name = self.__name__ = self._qd_builtin = name
        self.parameters, self.__doc__, self.host = parameters, doc, host

    @property
    def __signature__(self) -> Any:
        import inspect  # imported only when the signature is read

        made = []
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        for word in self.parameters.split():
            if word.startswith("*"):
                kind = inspect.Parameter.KEYWORD_ONLY
                made += [inspect.Parameter(word[1:], inspect.Parameter.VAR_POSITIONAL)] if word[1:] else []
            else:
                default = None if word.endswith("?") else inspect.Parameter.empty
                made.append(inspect.Parameter(word.removesuffix("?"), kind, default=default))
        return inspect.Signature(made)

    def place(self, operands: tuple[Any, ...], named: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Returns the operands in the order of the parameters, and the other keyword arguments."""
        rest = dict(named)
        names = itertools.takewhile(lambda word: not word.startswith("*"), self.parameters.replace("?", "").split())
        for name in list(names)[len(operands) :]:
            if name not in rest:
                break
            operands = (*operands, rest.pop(name))
        return operands, rest

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        if (result := call_with_operand(self, arguments, named)) is not None:
            return result[0]
        if self.host is None:
            raise QuadrantsRuntimeError(f"qd.{self.name} has a meaning in kernels only and cannot be called in Python-scope")
        if named:
            arguments, named = self.place(arguments, named)
        least, most = sum("?" not in word for word in self.parameters.split()), len(self.parameters.split())
        # NumPy would write into a further argument. Of a wrong keyword, `host` tells the name.
        if "*" not in self.parameters and (len(arguments) > most or (len(arguments) < least and not named)):
            raise TypeError(f"qd.{self.name}{self.__signature__} takes {most} arguments, got {len(arguments)}")
        return self.host(*arguments, **named)

    def __reduce__(self) -> Any:
        return (find_builtin, (self.name,))

    def __repr__(self) -> str:
        return f"<qd.{self.name}>"


def elementwise(function: Callable[..., Any]) -> Callable[..., Any]:
    """Applies `function` to numbers, NumPy arrays, vectors and matrices."""

    def apply(*operands: Any, **named: Any) -> Any:
        count, operands = len(operands), (*operands, *named.values())
        arrays = [np.asarray(unwrap(operand)) for operand in operands]
        others = [array.dtype for array, operand in zip(arrays, operands, strict=True) if type(operand) is not float]
        if reals := [dtype for dtype in others if dtype.kind == "f"]:  # Python's floats take their type, as in NumPy
            arrays = [np.asarray(unwrap(x), np.result_type(*reals) if type(x) is float else None) for x in operands]
        shapes = {array.shape for array in arrays if array.ndim}
        if len(shapes) > 1:
            raise QuadrantsTypeError(f"operands of shapes {', '.join(map(str, shapes))} do not go together")
        with np.errstate(all="ignore"):
            result = function(*arrays[:count], **dict(zip(named, arrays[count:], strict=True)))
        if not any(isinstance(operand, Matrix) for operand in operands):
            return result[()] if isinstance(result, np.ndarray) and result.ndim == 0 else result
        return wrap(result, *operands)

    return apply


def _with_dtype(function: Callable[..., Any]) -> Callable[..., Any]:
    plain = elementwise(lambda x: function(_default_real(x)))
    return lambda x, dtype=None: plain(x) if dtype is None else cast(x if np.asarray(unwrap(x)).dtype.kind in "iub" else plain(x), dtype)


def _fold(function: Callable[..., Any]) -> Callable[..., Any]:
    pair = elementwise(function)

    return lambda *operands: functools.reduce(pair, operands)


def _frexp(x: Any) -> tuple[Any, Any]:
    mantissa, exponent = np.frexp(unwrap(x))
    return (view_of(mantissa, x.dtype), view_of(exponent, to_dtype("i32"))) if isinstance(x, Matrix) else (mantissa, exponent)


def _bit_cast(x: Any, dtype: Any) -> Any:
    source, target = np.asarray(unwrap(x)), to_dtype(dtype)
    if source.dtype.itemsize == 8 and target.size == 4 and not isinstance(x, (np.generic, np.ndarray, Matrix)):
        source = source.astype(np.float32 if source.dtype.kind == "f" else np.uint32)  # Python numbers take the requested width
    if source.dtype.itemsize != target.size:
        raise QuadrantsTypeError(f"bit_cast needs types of equal size, got {source.dtype} and {target}")
    result = source.view(to_numpy_dtype(target))
    return view_of(result, target) if isinstance(x, Matrix) else result[()]


def _random_number(dtype: Any = float) -> Any:
    raise QuadrantsSyntaxError("qd.random draws numbers in kernels and cannot be called in Python-scope: use a generator of NumPy")


def _static(x: Any, *more: Any, max_unroll: int | None = None) -> Any:
    return [x, *more] if more else x


def _static_assert(condition: Any, message: Any = None) -> None:
    if not condition:
        raise QuadrantsCompilationError(f"static assertion failed: {message}" if message is not None else "static assertion failed")


_LOOP_OPTIONS = "block_dim parallelize grid_dim min_blocks max_registers serialize persistent clobbers".split()
_LOOP_OPTIONS += "block_dim_adaptive bit_vectorize name".split()


def _mark_section() -> contextlib.AbstractContextManager[None]:
    return contextlib.nullcontext()


def _nothing(*_: Any, **__: Any) -> None:
    return None


def _default_real(x: np.ndarray) -> np.ndarray:
    return x if x.dtype.kind == "f" else x.astype(to_numpy_dtype(_options.get("default_fp") or float))


# Operators that are called by name; the others have symbols. Their documentation and meaning are those of builtins.def.
_OPERATORS = {
    "x": "abs sqrt rsqrt cbrt sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh exp exp2 expm1 log log2 log10 log1p erf "
    "erfc isnan isinf popcnt clz ffs", "x dtype?": "floor ceil round trunc", "x1 x2": "atan2 hypot copysign raw_div raw_mod bit_shr",
    "base exponent": "pow", "x n": "ldexp", "x y z": "fma", "*args": "max min",
}  # fmt: skip

_select = elementwise(lambda c, x, y: np.where(c != 0, x, y))
# Name, parameters, meaning in Python scope, documentation.
_FUNCTIONS: list[tuple[str, str, Callable[..., Any] | None, str]] = [
    ("frexp", "x", _frexp, "Mantissa in [0.5, 1) and exponent."),
    ("select", "cond x1 x2", _select, "`x1` where the condition holds, else `x2`; both are evaluated."),
    ("cast", "obj dtype", cast, "The value converted to a data type."),
    ("bit_cast", "obj dtype", _bit_cast, "The value's bits read as another data type of the same size."),
    ("zero", "x", elementwise(np.zeros_like), "0 of the type and shape of the operand."),
    ("one", "x", elementwise(np.ones_like), "1 of the type and shape of the operand."),
    ("random", "dtype?", _random_number, "A random number: floats in [0, 1), integers over their full range."),
    ("clock_counter", "", lambda: np.int64(time.perf_counter_ns()),
     "Counter of the processor that runs the code, an i64, read between the statements before and behind it; `qd.clock_freq_hz()` is its "
     "frequency. In Python scope and on qd.python: nanoseconds."),
    ("static", "x *xs max_unroll?", _static,
     "A compile-time value: `if qd.static(...)` compiles one branch, `for ... in qd.static(...)` unrolls loops of at most `max_unroll` "
     "iterations."),
    ("static_assert", "cond msg?", _static_assert, "Stops compilation with a message unless a compile-time condition holds."),
    ("static_print", "*args sep? end? file?", print, "Prints while the kernel is compiled."),
    ("ndrange", "*args axes?", make_ndrange, make_ndrange.__doc__ or ""),
    ("grouped", "x", _grouped, _grouped.__doc__ or ""),
    ("zip", "*args", zip,
     "Containers of equal shape to loop over together: `for i, j in qd.zip(x, y)` gives the indices of their elements."),
    ("loop_config", f"* {' '.join(name + '?' for name in _LOOP_OPTIONS)}", _nothing,
     f"Options of the next loop: {', '.join(_LOOP_OPTIONS)}."),
    ("stream_parallel", "", _mark_section,
     "`with qd.stream_parallel():` at the top level of a kernel: consecutive blocks of this kind may run concurrently on a GPU."),
    ("assume_in_range", "val base low high", lambda val, base, low, high: val,
     "The value, promised to lie in [base + low, base + high)."),
    ("loop_unique", "val covers?", lambda val, covers=None: val, "The value, promised to differ between iterations."),
    ("block_local", "*args", _nothing, "Hint that tensors are read by neighboring iterations."),
    ("cache_read_only", "*args", _nothing, "Hint that tensors are only read."),
    ("no_activate", "*args", _nothing, "Hint that all accessed cells are active."),
    ("is_differentiated", "", lambda: False, "True in the kernels that compute derivatives, known while compiling."),
    ("stop_grad", "x", _nothing, "No gradient flows into the container from the loop that this stands in."),
    ("atomic_cas", "x expected desired * order? scope?", None,
     "Stores to a place if it holds the expected value, atomically; returns the old value."),
    ("atomic_load", "x * order? scope?", None, "Reads a place atomically, never from a register."),
    ("atomic_store", "x y * order? scope?", None, "Stores to a place atomically."),
    ("volatile_load", "target", None, "Reads a place, never from a register."),
    ("graph_do_while", "flag", None,
     "`while qd.graph.do_while(flag):` runs its body once, and again while the 0-d integer array is not zero."),
    ("checkpoint", "cp_id yield_on", lambda cp_id, yield_on: _mark_section(),
     "`with qd.checkpoint(label, yield_on=flag):` at the top level of a kernel with `checkpoints=True` suspends the launch if the 0-d "
     "integer array is not zero behind it."),
    ("graph_parallel_context", "", _mark_section,
     "`with qd.graph.parallel_context():` holds sections that may run at the same time."),
    ("graph_parallel", "", _mark_section,
     "`with qd.graph.parallel():` is one of the sections of a `qd.graph.parallel_context()`."),
    ("global_thread_idx", "", None, "Number of the thread that runs."),
]  # fmt: skip


def _make_operator(name: str, parameters: str) -> Builtin:
    row = OPERATORS[name]
    meaning = {"x dtype?": _with_dtype, "*args": _fold}.get(parameters, elementwise)
    return Builtin(name, parameters, row.doc, meaning(row.compute))


TABLE: dict[str, Builtin] = {
    **{name: _make_operator(name, parameters) for parameters, names in _OPERATORS.items() for name in names.split()},
    **{name: Builtin(name, "x y * order? scope?", f"Changes a place atomically. {row.doc}") for name, row in ATOMICS.items()},
    **{name: Builtin(name, parameters, doc, host) for name, parameters, host, doc in _FUNCTIONS},
}


ATOMIC_NAMES = frozenset({*ATOMICS, "atomic_cas", "atomic_store"})
"""Builtins that change a place."""


def find_builtin(name: str) -> Builtin:
    """Returns the builtin of this name; builtins are pickled as names."""
    return TABLE[name]

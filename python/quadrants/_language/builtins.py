"""The builtins of the kernel language, and what they compute in Python scope."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from .._base import options as _options
from .._base.dtypes import find_dtype, to_dtype, to_numpy_dtype
from .._base.errors import QuadrantsCompilationError, QuadrantsRuntimeError, QuadrantsSyntaxError, QuadrantsTypeError
from .._base.operators import ATOMICS, OPERATORS
from .._values.matrix import Matrix, cast, unwrap, view_of, wrap
from .ndrange import grouped as _grouped
from .ndrange import make_ndrange
from .operands import call_with_operand


class Builtin:
    """A builtin of the kernel language. Calling it from Python returns the result of NumPy.

    `parameters` has their names, as in the frontend: "x dtype?" has one optional parameter, "*args" takes any number of arguments, "* name"
    is a keyword-only parameter.
    """

    def __init__(self, name: str, doc: str, host: Callable[..., Any] | None, parameters: str = "*args"):
        self.name, self.__doc__, self._host, self._parameters = name, doc, host, parameters

    @property
    def __signature__(self) -> Any:
        import inspect  # imported only when the signature is read

        made = []
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        for word in self._parameters.split():
            if word == "*":
                kind = inspect.Parameter.KEYWORD_ONLY
            elif word.startswith("*"):
                made.append(inspect.Parameter(word[1:], inspect.Parameter.VAR_POSITIONAL))
            else:
                default = None if word.endswith("?") else inspect.Parameter.empty
                made.append(inspect.Parameter(word.removesuffix("?"), kind, default=default))
        return inspect.Signature(made)

    @property
    def _qd_builtin(self) -> str:
        return self.name

    @property
    def __name__(self) -> str:
        return self.name

    def place(self, operands: tuple[Any, ...], named: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Returns the operands in the order of the parameters, and the other keyword arguments."""
        rest = dict(named)
        names = itertools.takewhile(lambda word: not word.startswith("*"), self._parameters.replace("?", "").split())
        for name in list(names)[len(operands) :]:
            if name not in rest:
                break
            operands = (*operands, rest.pop(name))
        return operands, rest

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        if (result := call_with_operand(self, arguments, named)) is not None:
            return result[0]
        if self._host is None:
            raise QuadrantsRuntimeError(f"qd.{self.name} has a meaning in kernels only and cannot be called in Python-scope")
        if named:
            arguments, named = self.place(arguments, named)
        return self._host(*arguments, **named)

    def __reduce__(self) -> Any:
        return (find_builtin, (self.name,))

    def __repr__(self) -> str:
        return f"<qd.{self.name}>"


def _elementwise(function: Callable[..., Any]) -> Callable[..., Any]:
    """Applies `function` to numbers, NumPy arrays, vectors and matrices."""

    def apply(*operands: Any) -> Any:
        arrays = [np.asarray(unwrap(operand)) for operand in operands]
        shapes = {array.shape for array in arrays if array.ndim}
        if len(shapes) > 1:
            raise QuadrantsTypeError(f"operands of shapes {', '.join(map(str, shapes))} do not go together")
        with np.errstate(all="ignore"):
            result = function(*arrays)
        if not any(isinstance(operand, Matrix) for operand in operands):
            return result[()] if isinstance(result, np.ndarray) and result.ndim == 0 else result
        return wrap(result, *operands)

    return apply


def _with_dtype(function: Callable[..., Any]) -> Callable[..., Any]:
    plain = _elementwise(lambda x: function(_default_real(x)))
    return lambda x, dtype=None: plain(x) if dtype is None else cast(plain(x), dtype)


def _fold(function: Callable[..., Any]) -> Callable[..., Any]:
    pair = _elementwise(function)

    def apply(*operands: Any) -> Any:
        if len(operands) < 2:
            raise TypeError(f"at least two operands are expected, got {len(operands)}")
        result = operands[0]
        for operand in operands[1:]:
            result = pair(result, operand)
        return result

    return apply


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
    import random  # imported on demand: it takes a millisecond to load

    kind = find_dtype(dtype)
    if kind is None:
        raise ValueError(f"Invalid data type {dtype!r}")
    return float(to_numpy_dtype(kind).type(random.random())) if kind.is_real else cast(random.getrandbits(8 * kind.size), kind)


def _static(x: Any, *more: Any) -> Any:
    return [x, *more] if more else x


def _static_assert(condition: Any, message: Any = None) -> None:
    if not condition:
        raise QuadrantsCompilationError(f"static assertion failed: {message}" if message is not None else "static assertion failed")


_LOOP_OPTIONS = ("block_dim", "serialize", "parallelize", "block_dim_adaptive", "bit_vectorize", "name")


def _loop_config(**options: Any) -> None:
    for name in options:
        if name not in _LOOP_OPTIONS:
            raise QuadrantsTypeError(f"loop_config() got an unexpected keyword argument {name!r} (known: {', '.join(_LOOP_OPTIONS)})")
    size = options.get("block_dim")
    if size is not None and size not in range(1, 1025):
        raise QuadrantsSyntaxError(f"block_dim must be an integer between 1 and 1024, got {size!r}")


def _stream_parallel() -> contextlib.AbstractContextManager[None]:
    """`with qd.stream_parallel():` at the top level of a kernel: consecutive blocks of this kind may run concurrently on a GPU."""
    return contextlib.nullcontext()


def _nothing(*_: Any, **__: Any) -> None:
    return None


def _default_real(x: np.ndarray) -> np.ndarray:
    return x if x.dtype.kind == "f" else x.astype(to_numpy_dtype(_options.get("default_fp") or float))


_TABLE: list[tuple[str, str, Callable[..., Any] | None, str]] = [
    ("frexp", "x", _frexp, "Mantissa in [0.5, 1) and exponent."),
    (
        "select",
        "cond x1 x2",
        _elementwise(lambda c, x, y: np.where(c != 0, x, y)),
        "`x` where the condition holds, else `y`; both are evaluated.",
    ),
    ("cast", "obj dtype", cast, "The value converted to a data type."),
    ("bit_cast", "obj dtype", _bit_cast, "The value's bits read as another data type of the same size."),
    ("zero", "x", _elementwise(np.zeros_like), "0 of the type and shape of the operand."),
    ("one", "x", _elementwise(np.ones_like), "1 of the type and shape of the operand."),
    ("random", "dtype?", _random_number, "A random number: floats in [0, 1), integers over their full range."),
    ("static", "x *xs", _static, "A compile-time value: `if qd.static(...)` compiles one branch, `for ... in qd.static(...)` unrolls."),
    ("static_assert", "cond msg?", _static_assert, "Stops compilation with a message unless a compile-time condition holds."),
    ("static_print", "*args", print, "Prints while the kernel is compiled."),
    ("ndrange", "*args * axes?", make_ndrange, make_ndrange.__doc__ or ""),
    ("grouped", "x", _grouped, _grouped.__doc__ or ""),
    (
        "zip",
        "*args",
        zip,
        "Containers of equal shape to loop over together: `for i, j in qd.zip(x, y)` gives the indices of their elements.",
    ),
    (
        "loop_config",
        "* block_dim? serialize? parallelize? block_dim_adaptive? bit_vectorize? name?",
        _loop_config,
        "Options of the next loop: block_dim, serialize, parallelize, block_dim_adaptive, bit_vectorize, name.",
    ),
    ("stream_parallel", "", _stream_parallel, _stream_parallel.__doc__ or ""),
    ("assume_in_range", "val base low high", lambda val, base, low, high: val, "The value, promised to lie in [base + low, base + high)."),
    ("loop_unique", "val covers?", lambda val, covers=None: val, "The value, promised to differ between iterations."),
    ("block_local", "*args", _nothing, "Hint that tensors are read by neighboring iterations."),
    ("cache_read_only", "*args", _nothing, "Hint that tensors are only read."),
    ("no_activate", "*args", _nothing, "Hint that all accessed cells are active."),
    ("is_differentiated", "", lambda: False, "True in the kernels that compute derivatives, known while compiling."),
    ("stop_grad", "x", _nothing, "No gradient flows into the container from the loop that this stands in."),
    (
        "atomic_cas",
        "x expected desired * order? scope?",
        None,
        "Stores to a place if it holds the expected value, atomically; returns the old value.",
    ),
    ("atomic_load", "x * order? scope?", None, "Reads a place atomically, never from a register."),
    ("atomic_store", "x y * order? scope?", None, "Stores to a place atomically."),
    ("volatile_load", "target", None, "Reads a place, never from a register."),
    (
        "graph_do_while",
        "flag",
        None,
        "`while qd.graph.do_while(flag):` runs its body once, and again while the 0-d integer array is not zero.",
    ),
    ("graph_parallel_context", "", _stream_parallel, "`with qd.graph.parallel_context():` holds sections that may run at the same time."),
    ("graph_parallel", "", _stream_parallel, "`with qd.graph.parallel():` is one of the sections of a `qd.graph.parallel_context()`."),
    ("global_thread_idx", "", None, "Number of the thread that runs."),
]

_SPECIAL: dict[str, Callable[[Any], Any]] = {"floor": _with_dtype, "ceil": _with_dtype, "round": _with_dtype, "max": _fold, "min": _fold}
_NAMED = """abs sqrt rsqrt sin cos tan asin acos atan sinh cosh tanh exp exp2 log log2 erf erfc floor ceil round trunc isnan isinf
    popcnt clz ffs pow ldexp fma atan2 max min raw_div raw_mod bit_shr"""  # operators that are called by name; the others have symbols

_PARAMETERS = {"pow": "base exponent", "fma": "x y z", "ldexp": "x n", "max": "*args", "min": "*args"}
_PARAMETERS |= dict.fromkeys(("floor", "ceil", "round", "trunc"), "x dtype?")


def _make_operator(name: str) -> Builtin:
    row = OPERATORS[name]
    parameters = _PARAMETERS.get(name) or ("x" if row.kind == "unary" else "x1 x2")
    return Builtin(name, row.doc, _SPECIAL.get(name, _elementwise)(row.compute), parameters)


TABLE: dict[str, Builtin] = {
    **{name: _make_operator(name) for name in _NAMED.split()},
    **{name: Builtin(name, f"Changes a place atomically. {row.doc}", None, "x y * order? scope?") for name, row in ATOMICS.items()},
    **{name: Builtin(name, doc, host, parameters) for name, parameters, host, doc in _TABLE},
}


def find_builtin(name: str) -> Builtin:
    """Returns the builtin of this name; builtins are pickled as names."""
    return TABLE[name]

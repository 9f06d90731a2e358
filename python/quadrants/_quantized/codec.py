"""Numbers of few bits in arrays of words: the functions of `kernels.py`, which Python runs on NumPy arrays in place of run-time values."""

from __future__ import annotations

from types import FunctionType, SimpleNamespace
from typing import Any

import numpy as np

from .._base.dtypes import DATA_TYPES, i32, to_numpy_dtype
from . import kernels
from .parts import Part

_TYPES = {dtype: to_numpy_dtype(dtype) for dtype in DATA_TYPES}


def _cast(value: Any, dtype: Any) -> np.ndarray:
    # With an axis: NumPy 1 lets an array without one take the type of a Python integer.
    array = value if isinstance(value, np.ndarray) else np.atleast_1d(value)
    return array.astype(_TYPES.get(dtype, dtype), copy=False)


# What the functions use of `quadrants`, for arrays, and the words, which are u64 here.
_names: dict[str, Any] = {
    **vars(kernels),
    "qd": SimpleNamespace(
        static=lambda value: value,
        cast=_cast,
        bit_cast=lambda value, dtype: value.view(_TYPES[dtype]),
        select=np.where,
        trunc=np.trunc,
        ldexp=np.ldexp,
        min=np.minimum,
        max=np.maximum,
        i32=i32,
    ),
    "_unsigned": lambda _: np.uint64,
    "_signed": lambda _: np.int64,
    "_bits": lambda _: 64,
}
for _name, _function in vars(kernels).items():
    if isinstance(_plain := getattr(_function, "function", None), FunctionType):
        _names[_name] = FunctionType(_plain.__code__, _names, _name)


def decode(words: np.ndarray, part: Part, offset: int = 0) -> np.ndarray:
    """Returns the values of a part of each word; `offset` is added to its position."""
    return _names["read"](np.atleast_1d(words), offset, part).reshape(np.shape(words))


def encode(words: np.ndarray, values: np.ndarray, part: Part, offset: int = 0) -> np.ndarray:
    """Returns the words with new values of a part of each; `offset` is added to its position."""
    with np.errstate(all="ignore"):
        return _names["write"](np.atleast_1d(words), np.atleast_1d(values), offset, part).reshape(np.shape(words))

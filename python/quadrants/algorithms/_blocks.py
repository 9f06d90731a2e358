"""Divides arrays into blocks for the algorithms, and defines the initial values of folds.

One iteration folds each block in the order of its elements, and one iteration then folds the results of the blocks. So equal n gives the
same bits on every machine. There are at most 1024 blocks: enough for every core, few enough for a single iteration.
"""

import math
from typing import Any

import quadrants as qd

from .._base.dtypes import find_dtype
from .._language.fold_operators import BY_NAME
from .._language.func import specialize
from ._scratch import check_depth

Constant = qd.template()  # annotation of compile-time arguments
MAX_BLOCKS = 1024
_FOLD_TYPES = ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f16", "f32", "f64")


def check_fold(dtype: Any, log256_max_n: Any, **given: Any) -> None:
    """Raise NotImplementedError unless data of this type can be folded, TypeError or ValueError unless the depth is valid, and ValueError
    unless all arrays, given by name as their data types, hold such data.
    """
    check_depth(log256_max_n)
    kind = find_dtype(dtype)
    if kind is None or kind.name not in _FOLD_TYPES:
        raise NotImplementedError(f"dtype must be one of {', '.join(_FOLD_TYPES)}, got {dtype!r}")
    check_types(dtype, **given)


def check_types(dtype: Any, **given: Any) -> None:
    """Raises ValueError unless all arrays, given by name as their data types, hold elements of `dtype`."""
    for name, found in given.items():
        if find_dtype(found) is not find_dtype(dtype):
            raise ValueError(f"{name} holds elements of {found}, and {dtype} is expected")


def identity(op: Any, dtype: Any) -> Any:
    """Returns the neutral element of a fold: 0 for sums, the largest value for minima, the smallest for maxima."""
    kind = find_dtype(dtype)
    if op is BY_NAME["add"][0]:
        return 0
    is_minimum = op is BY_NAME["min"][0]
    if kind.is_real:
        return math.inf if is_minimum else -math.inf
    bits = 8 * kind.size - kind.is_signed
    return (1 << bits) - 1 if is_minimum else -(1 << bits) * kind.is_signed


def carrier(dtype: Any) -> Any:
    """Returns the unsigned type of the same size, in which scratch memory stores a value."""
    return qd.u64 if find_dtype(dtype).size == 8 else qd.u32


def specialize_folds(general: Any, name: str, doc: str | None = None, **fixed: Any) -> list[Any]:
    """Returns the funcs for sums, minima and maxima of a func with `op`; its docstring has gaps for {what} it computes, and for {empty}
    input.
    """
    empty = {"add": "0", "min": "the largest value of the type (+inf)", "max": "the smallest value of the type (-inf)"}
    return [
        specialize(
            general, name.format(key), (doc or general.__doc__).format(what=BY_NAME[key][1], empty=text), op=BY_NAME[key][0], **fixed
        )
        for key, text in empty.items()
    ]


@qd.func
def at(arr, i):
    """Returns the index of element i of an array: fields may have an offset."""
    return i + qd.static(arr._offset[0])


@qd.func
def block_size(n):
    """Returns the number of elements of a block: 256, or more if that gives more than MAX_BLOCKS blocks."""
    return qd.max((n + (MAX_BLOCKS - 1)) // MAX_BLOCKS, 256)


@qd.func
def block_count(n):
    """Returns the number of blocks of an array of n elements; at least one."""
    size = block_size(n)
    return qd.max((n + size - 1) // size, 1)

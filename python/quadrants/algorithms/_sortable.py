"""Maps keys to unsigned integers of the same order, for sorts."""

from typing import Any

import quadrants as qd

from .._base.dtypes import find_dtype
from ._blocks import Constant


def unsigned_of(dtype: Any) -> Any:
    """Returns the unsigned type of the same size."""
    return {1: qd.u8, 2: qd.u16, 4: qd.u32, 8: qd.u64}[find_dtype(dtype).size]


@qd.func
def _spread_sign(bits, dtype: Constant):
    """Returns as many copies of the highest bit."""
    signed = qd.static({2: qd.i16, 4: qd.i32, 8: qd.i64}[find_dtype(dtype).size])
    return qd.cast(qd.bit_cast(bits, signed) >> qd.static(8 * find_dtype(dtype).size - 1), qd.static(unsigned_of(dtype)))


@qd.func
def to_sortable(key, dtype: Constant):
    """Maps keys to unsigned integers of the same order: -0.0 before 0.0, NaN last, negative NaN first."""
    unsigned = qd.static(unsigned_of(dtype))
    bits = qd.bit_cast(key, unsigned)
    sign = unsigned(qd.static(1 << (8 * find_dtype(dtype).size - 1)))
    if qd.static(find_dtype(dtype).is_real):
        bits ^= _spread_sign(bits, dtype) | sign
    elif qd.static(find_dtype(dtype).is_signed):
        bits ^= sign
    return bits


@qd.func
def from_sortable(bits, dtype: Constant):
    """Returns the key that `to_sortable` mapped to bits."""
    sign = qd.static(unsigned_of(dtype))(qd.static(1 << (8 * find_dtype(dtype).size - 1)))
    if qd.static(find_dtype(dtype).is_real):
        bits ^= ~_spread_sign(bits, dtype) | sign
    elif qd.static(find_dtype(dtype).is_signed):
        bits ^= sign
    return qd.bit_cast(bits, dtype)

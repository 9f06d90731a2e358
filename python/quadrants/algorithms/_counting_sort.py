"""A sort of keys of 8 or 16 bits for processors: it counts the keys of each value, and stores as many of them."""

from typing import Any

import quadrants as qd

from .._base.dtypes import find_dtype
from ._blocks import Constant, at
from ._sortable import from_sortable, to_sortable, unsigned_of

_RANGES = 256  # of values, each for one thread
_TOGETHER = 32  # keys that are stored at once, because most values have fewer


def least_count(dtype: Any) -> int:
    """Returns the number of keys from which on no other sort is as fast."""
    return 1 << 19 if find_dtype(dtype).size == 2 else 2048


@qd.func(requires_top_level=True)
def sort_by_counts(keys, scratch, n, dtype: Constant):
    """Sorts n keys. Scratch memory has a table for each part of the keys; the first one gets the sums of all.

    The first value of a range has the place of the range instead of its count.
    """
    values, width = qd.static((1 << 8 * dtype.size, (1 << 8 * dtype.size) // _RANGES))
    parts = qd.min(qd.max(n // qd.static(max(least_count(dtype) // 2, 16384)), qd.min(n, 1)), 32)
    size = (n - 1) // qd.max(parts, 1) + 1
    for part in range(parts):
        for value in range(values):
            scratch[at(scratch, part * values + value)] = 0
        for i in range(part * size, qd.min(n - part * size, size) + part * size):
            slot = at(scratch, part * values + qd.i32(to_sortable(keys[at(keys, i)], dtype)))
            scratch[slot] = qd.volatile_load(scratch[slot]) + 1  # see _pass_of_chunks
    for value in range(qd.min(parts, 1) * values):
        count = qd.u32(0)
        for part in range(parts):
            count += scratch[at(scratch, part * values + value)]
        scratch[at(scratch, value)] = count
    for _ in range(qd.min(parts, 1)):
        place = qd.u32(0)
        for first in range(0, values, width):
            count = qd.u32(0)
            for value in range(first, first + width):
                count += qd.volatile_load(scratch[at(scratch, value)])
            scratch[at(scratch, first)] = place
            place += count
    for number in range(qd.min(parts, 1) * _RANGES):
        first, begin, end = number * width, qd.i32(scratch[at(scratch, number * width)]), n
        if number + 1 < _RANGES:
            end = qd.i32(scratch[at(scratch, first + width)])
        for k in range(1, width):
            value = first + width - k
            key, place = from_sortable(qd.cast(value, qd.static(unsigned_of(dtype))), dtype), end - qd.i32(scratch[at(scratch, value)])
            if end - begin >= _TOGETHER:  # those that are too many will be overwritten
                for i in range(_TOGETHER):
                    keys[keys._offset[0] + (end - _TOGETHER + i)] = key
                end -= _TOGETHER
            for i in range(place, end):
                keys[keys._offset[0] + i] = key
            end = place
        key = from_sortable(qd.cast(first, qd.static(unsigned_of(dtype))), dtype)
        for i in range(begin, end):
            keys[keys._offset[0] + i] = key

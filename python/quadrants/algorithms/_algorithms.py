"""The older functions that Python calls."""

from __future__ import annotations

from typing import Any

import quadrants as qd

from .._errors import QuadrantsRuntimeTypeError, warn
from .._field import Field
from ._radix_sort import sort
from ._scan import inclusive_scan_add
from ._scratch import exclusive_scan_scratch_slots, least_depth, sort_scratch_slots

_Array = qd.template()


@qd.kernel
def _sort(
    keys: _Array, tmp_keys: _Array, values: _Array, tmp_values: _Array, scratch: _Array, count: _Array, has_values: _Array, depth: _Array
):
    sort(keys, tmp_keys, values, tmp_values, scratch, count, keys.dtype, has_values, qd.static(8 * keys.dtype.size), depth)


@qd.kernel
def _prefix_sum(field: _Array, scratch: _Array, length: qd.i32, depth: _Array):
    inclusive_scan_add(field, field, scratch, length, field.dtype, depth)


def parallel_sort(keys: Any, values: Any = None) -> None:
    """Sort `keys`, a 1-D field of i32, u32, f32, i64, u64 or f64 ascending, in place, and move the elements of the field `values` along.

    Deprecated: call `sort` in a kernel. Raises QuadrantsRuntimeTypeError for anything but fields, NotImplementedError for other types.
    """
    warn("qd.algorithms.parallel_sort is deprecated: call qd.algorithms.sort in a kernel", DeprecationWarning)
    for given in (keys, values):
        if given is not None and not isinstance(given, Field):
            raise QuadrantsRuntimeTypeError(f"parallel_sort takes fields, got {type(given).__name__}")
    length = keys.shape[0]
    tmp_keys = qd.field(keys.dtype, length)
    tmp_values = tmp_keys if values is None else qd.field(values.dtype, length)
    scratch = qd.field(qd.u32, sort_scratch_slots(length))
    count = qd.field(qd.i32, ())
    count[None] = length
    _sort(keys, tmp_keys, keys if values is None else values, tmp_values, scratch, count, values is not None, least_depth(length))


class PrefixSumExecutor:
    """In-place inclusive prefix sums of 1-D fields with `length` elements.

    Deprecated: call `exclusive_scan_add` or `inclusive_scan_add` in a kernel.
    """

    def __init__(self, length: int):
        warn("qd.algorithms.PrefixSumExecutor is deprecated: call qd.algorithms.exclusive_scan_add in a kernel", DeprecationWarning)
        self._length, self._depth = length, least_depth(length)

    def run(self, field: Any) -> None:
        """Replace each element of a field of i32, u32, f32, i64, u64 or f64 by the sum of those up to it."""
        slots = exclusive_scan_scratch_slots(self._length)
        _prefix_sum(field, qd.field(qd.u64 if field.dtype.size == 8 else qd.u32, slots), self._length, self._depth)

"""Deprecated algorithms that Python calls."""

from typing import Any

import quadrants as qd

from .._base.dtypes import to_shape
from .._base.errors import QuadrantsRuntimeTypeError, warn
from .._containers.field import Field, ScalarField
from ._blocks import check_fold
from ._radix_sort import check_sort, sort
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


def _check_numbers(name: str, field: Any) -> int:
    """Returns the number of elements of a 1-D field of scalars that can be ordered and added."""
    if not isinstance(field, ScalarField):
        what = f"elements of shape {field.element_shape}" if isinstance(field, Field) else type(field).__name__
        raise (ValueError if isinstance(field, Field) else QuadrantsRuntimeTypeError)(f"{name} takes fields of scalars, got {what}")
    if len(field.shape) != 1:
        raise ValueError(f"{name} takes a field with one axis, got one of shape {field.shape}")
    check_fold(field.dtype, 1)
    return field.shape[0]


def parallel_sort(keys: Any, values: Any = None) -> None:
    """Sort `keys`, a 1-D field of i32, u32, f32, i64, u64 or f64 in ascending order, in place, and move the elements of the field `values`
    along.

    Deprecated: call `sort` in a kernel. Raises QuadrantsRuntimeTypeError for anything but fields, NotImplementedError for other types,
    ValueError for other shapes and for `values` of another shape than `keys`.
    """
    warn("qd.algorithms.parallel_sort is deprecated: call qd.algorithms.sort in a kernel", DeprecationWarning)
    for given in (keys, values):
        if given is not None and not isinstance(given, Field):
            raise QuadrantsRuntimeTypeError(f"parallel_sort takes fields, got {type(given).__name__}")
    length = _check_numbers("parallel_sort", keys)
    check_sort(keys.dtype, 8 * keys.dtype.size, 1)
    if values is not None and values.shape != keys.shape:
        raise ValueError(f"parallel_sort takes values of the shape of the keys: {keys.shape} expected, got {values.shape}")
    if length == 0:
        return
    tmp_keys = qd.field(keys.dtype, length)
    tmp_values = tmp_keys if values is None else qd.field(values._element_type, length)
    scratch = qd.field(qd.u32, sort_scratch_slots(length))
    count = qd.field(qd.i32, ())
    count[None] = length
    _sort(keys, tmp_keys, keys if values is None else values, tmp_values, scratch, count, values is not None, least_depth(length))


class PrefixSumExecutor:
    """In-place inclusive prefix sums of the first `length` elements of 1-D fields.

    Deprecated: call `exclusive_scan_add` or `inclusive_scan_add` in a kernel. Raises TypeError for a length that is no integer, ValueError
    for a negative one.
    """

    def __init__(self, length: int):
        warn("qd.algorithms.PrefixSumExecutor is deprecated: call qd.algorithms.exclusive_scan_add in a kernel", DeprecationWarning)
        (self._length,) = to_shape(length)
        if self._length < 0:
            raise ValueError(f"PrefixSumExecutor takes a number of elements, got {length}")
        self._depth = least_depth(self._length)

    def run(self, input_arr: Any) -> None:
        """Replace each element of `input_arr`, a 1-D field of i32, u32, f32, i64, u64 or f64 by the sum of the elements up to it.

        Raises QuadrantsRuntimeTypeError for anything but fields, NotImplementedError for other types, ValueError for other shapes and for
        fields with fewer elements than the executor was made for.
        """
        if _check_numbers("PrefixSumExecutor.run", input_arr) < self._length:
            raise ValueError(f"this PrefixSumExecutor is for {self._length} elements, got a field of shape {input_arr.shape}")
        if self._length:
            scratch = qd.field(qd.u64 if input_arr.dtype.size == 8 else qd.u32, exclusive_scan_scratch_slots(self._length))
            _prefix_sum(input_arr, scratch, self._length, self._depth)

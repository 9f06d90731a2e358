"""Deprecated algorithms that Python calls."""

from typing import Any

from .._base.dtypes import to_shape
from .._base.errors import QuadrantsRuntimeTypeError, warn
from .._containers.field import Field, ScalarField
from ._blocks import check_fold
from ._host import scan
from ._radix_sort import sort


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
    _check_numbers("parallel_sort", keys)
    if not isinstance(values, (Field, type(None))):
        raise QuadrantsRuntimeTypeError(f"parallel_sort takes fields, got {type(values).__name__}")
    sort(keys, values)


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

    def run(self, input_arr: Any) -> None:
        """Replace each element of `input_arr`, a 1-D field of i32, u32, f32, i64, u64 or f64 by the sum of the elements up to it.

        Raises QuadrantsRuntimeTypeError for anything but fields, NotImplementedError for other types, ValueError for other shapes and for
        fields with fewer elements than the executor was made for.
        """
        if _check_numbers("PrefixSumExecutor.run", input_arr) < self._length:
            raise ValueError(f"this PrefixSumExecutor is for {self._length} elements, got a field of shape {input_arr.shape}")
        part = input_arr[:][: self._length]  # counted from 0, also in a field with an offset
        scan(part, out=part)

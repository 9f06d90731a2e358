"""Algorithms that Python calls with whole containers; they launch kernels with the algorithms of this package."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import quadrants as qd

from .._base import device as _device
from .._base.dtypes import find_dtype, to_dtype
from .._containers.device_arrays import describe_container
from .._containers.field import Field
from .._containers.ndarray import Ndarray
from .._containers.struct_field import StructField
from .._containers.tensor import Tensor
from .._language.fold_operators import BY_NAME
from ..simt import block, subgroup
from ..simt._primitives import thread_idx
from ._blocks import Constant, at, carrier, check_fold, identity
from ._radix_sort import sort as _sort_in_kernel
from ._radix_sort import sort_elements
from ._reduce import reduce_add, reduce_max, reduce_min
from ._reduce_by_key import reduce_by_key_add
from ._scan import _scan
from ._scratch import most_slots, reduce_by_key_scratch_slots
from ._sortable import from_sortable, to_sortable
from ._tiles import BLOCK, count_tiles

_Array = qd.types.ndarray(ndim=1)
_REDUCTIONS = {"add": reduce_add, "min": reduce_min, "max": reduce_max}
# On the processor, lanes read neighboring elements of a tile, and of a segment if segments are long on average.
_LANES, _TILE, _LONG = 16, 2048, 32
# On a grid, a block counts so many bins in shared memory, of at least so many elements; more blocks than that take elements in turn.
_SHARED_BINS, _PER_BLOCK, _MOST_BLOCKS = 2048, 2048, 1024


@qd.kernel
def _reduce_kernel(arr: _Array, out: _Array, scratch: _Array, n: qd.i32, algorithm: Constant, dtype: Constant):
    algorithm(arr, out, scratch, n, dtype, 4)


@qd.kernel
def _scan_kernel(arr: _Array, out: _Array, scratch: _Array, n: qd.i32, op: Constant, inclusive: Constant, dtype: Constant):
    _scan(arr, out, scratch, n, dtype, 4, op, inclusive)


@qd.func
def _reverse(key, dtype: Constant):
    """Maps keys to keys of the opposite order, and back."""
    return from_sortable(~to_sortable(key, dtype), dtype)


@qd.kernel
def _sort_kernel(
    keys: _Array, tmp_keys: _Array, values: _Array, tmp_values: _Array, scratch: _Array, n: qd.i32, has_values: Constant,
    descending: Constant, dtype: Constant
):  # fmt: skip
    if qd.static(descending):
        for i in range(n):
            keys[at(keys, i)] = _reverse(keys[at(keys, i)], dtype)
    sort_elements(keys, tmp_keys, values, tmp_values, scratch, n, dtype, has_values, qd.static(8 * dtype.size))
    if qd.static(descending):
        for i in range(n):
            keys[at(keys, i)] = _reverse(keys[at(keys, i)], dtype)


@qd.kernel
def _permute(values: _Array, spare: _Array, order: _Array):
    for i in range(order.shape[0]):
        spare[i] = values[order[i]]
    for i in range(order.shape[0]):
        values[i] = spare[i]


@qd.kernel
def _runs_kernel(keys: _Array, ones: _Array, keys_out: _Array, counts: _Array, runs: _Array, scratch: _Array, n: qd.i32):
    reduce_by_key_add(keys, ones, keys_out, counts, runs, scratch, n, qd.i32, 4)


@qd.func
def _fold_lane(arr, begin, end, lane, dtype: Constant, op: Constant):
    """Folds every `_LANES`-th element of a range, from `begin + lane` on; four of them do not wait for each other."""
    parts = qd.Vector([dtype(qd.static(identity(op, dtype)))] * 4)
    whole, last = end - (end - begin) % qd.static(4 * _LANES), end - (end - begin) % _LANES
    for i in range(begin, whole, qd.static(4 * _LANES)):
        for k in qd.static(range(4)):
            parts[k] = op(parts[k], arr[i + qd.static(k * _LANES) + lane])
    total = op(op(parts[0], parts[1]), op(parts[2], parts[3]))
    for i in range(whole, last, _LANES):
        total = op(total, arr[i + lane])
    if last + lane < end:
        total = op(total, arr[last + lane])
    return total


@qd.kernel
def _find_on_threads(arr: _Array, best: _Array, n: qd.i32, op: Constant, update: Constant, dtype: Constant) -> qd.i32:
    for tile, lane in qd.ndrange(best.shape[0], _LANES):
        update(best[tile], _fold_lane(arr, tile * _TILE, qd.min((tile + 1) * _TILE, n), lane, dtype, op))
    wanted, place = best[0], n
    qd.loop_config(serialize=True)
    for tile in range(1, best.shape[0]):
        wanted = op(wanted, best[tile])
    qd.loop_config(serialize=True)
    for tile in range(best.shape[0]):
        if best[tile] == wanted:
            for i in range(tile * _TILE, qd.min((tile + 1) * _TILE, n)):
                if arr[i] == wanted:
                    place = i
                    break
            break
    return place


@qd.kernel
def _find_on_grid(arr: _Array, wanted: _Array, scratch: _Array, n: qd.i32, algorithm: Constant, dtype: Constant) -> qd.i32:
    algorithm(arr, wanted, scratch, n, dtype, 4)
    place = n
    for i in range(n):
        if arr[i] == wanted[0]:
            qd.atomic_min(place, i)
    return place


@qd.func
def _find_bin(value, edges, bins):
    """Returns the number of the interval that contains a value, -1 if none does."""
    number = -1
    if edges[0] <= value <= edges[bins]:
        number = qd.min(qd.i32((value - edges[0]) / (edges[bins] - edges[0]) * bins), bins - 1)
        # Rounding may be off by one bin: the edges decide.
        if value < edges[number]:
            number -= 1
        elif number < bins - 1 and value >= edges[number + 1]:
            number += 1
    return number


@qd.kernel
def _histogram_kernel(arr: _Array, edges: _Array, counts: _Array, n: qd.i32, bins: qd.i32):
    for i in range(n):
        number = _find_bin(qd.f64(arr[at(arr, i)]), edges, bins)
        if number >= 0:
            counts[number] += 1


@qd.func
def _count_threads(n):
    return qd.min(count_tiles(n, _PER_BLOCK), _MOST_BLOCKS) * BLOCK


@qd.kernel
def _histogram_on_grid(arr: _Array, edges: _Array, counts: _Array, n: qd.i32, bins: qd.i32):
    """Each block counts in shared memory, which has room for the bins."""
    qd.loop_config(block_dim=BLOCK)
    for i in range(_count_threads(n)):
        own = block.SharedArray((_SHARED_BINS,), qd.i32)
        for number in range(thread_idx(), bins, BLOCK):
            own[number] = 0
        block.sync()
        for k in range(i, n, _count_threads(n)):
            number = _find_bin(qd.f64(arr[at(arr, k)]), edges, bins)
            if number >= 0:
                own[number] += 1
        block.sync()
        for number in range(thread_idx(), bins, BLOCK):
            if own[number] != 0:
                counts[number] += own[number]


@qd.func(requires_top_level=True)
def _reduce_segments_on_grid(arr, offsets, out, segments, dtype: Constant, op: Constant):
    """A subgroup folds a segment, so that its lanes read neighboring elements."""
    qd.loop_config(block_dim=qd.static(4 * _device.SUBGROUP_SIZE))
    for thread in range(segments * _device.SUBGROUP_SIZE):
        total = dtype(qd.static(identity(op, dtype)))
        segment = thread // qd.static(_device.SUBGROUP_SIZE)
        begin, end = offsets[at(offsets, segment)], offsets[at(offsets, segment + 1)]
        for i in range(begin + subgroup.invocation_id(), end, qd.static(_device.SUBGROUP_SIZE)):
            total = op(total, arr[at(arr, i)])
        total = subgroup._reduce_all(total, None, op)
        if subgroup.invocation_id() == 0:
            out[at(out, segment)] = total


@qd.kernel
def _segments_kernel(arr: _Array, offsets: _Array, out: _Array, segments: qd.i32, op: Constant, update: Constant, dtype: Constant):
    if qd.static(_device.HAS_GRIDS):
        _reduce_segments_on_grid(arr, offsets, out, segments, dtype, op)
    elif qd.static(update is not None):
        for segment in range(segments):
            out[segment] = dtype(qd.static(identity(op, dtype)))
        for segment, lane in qd.ndrange(segments, _LANES):
            update(out[segment], _fold_lane(arr, offsets[segment], offsets[segment + 1], lane, dtype, op))
    else:
        for segment in range(segments):
            total = dtype(qd.static(identity(op, dtype)))
            for i in range(offsets[at(offsets, segment)], offsets[at(offsets, segment + 1)]):
                total = op(total, arr[at(arr, i)])
            out[at(out, segment)] = total


def _view(given: Any, name: str, writes: bool = False) -> Any:
    """Returns a container that kernels take as an argument: of fields a view, of lists and what else NumPy reads an array."""
    container = given._unwrap() if isinstance(given, Tensor) else given
    if isinstance(container, Field):
        container = container[:]
    if not hasattr(container, "shape"):
        if writes:
            raise TypeError(f"{name} must be a field, an ndarray or an array, got {type(given).__name__}")
        container = np.asarray(container)
    if len(container.shape) != 1:
        raise ValueError(f"{name} must have one axis, got the shape {tuple(container.shape)}")
    if container.shape[0] >= 1 << 31:
        raise ValueError(f"{name} must have less than 2**31 elements, got {container.shape[0]}")
    return container


def _fold(container: Any, op: str, dtype: Any) -> Any:
    """Returns an ndarray with the sum, the least or the greatest of the elements."""
    length = container.shape[0]
    out = qd.ndarray(dtype, 1)
    scratch = qd.ndarray(carrier(dtype), most_slots(length)) if _device.HAS_GRIDS or _device.HAS_CHECKS else out
    _reduce_kernel(container, out, scratch, length, _REDUCTIONS[op], dtype)
    return out


def _dtype_of(container: Any, name: str) -> Any:
    """Returns the type of the elements, which must be numbers that algorithms can fold."""
    if getattr(container, "element_shape", ()) != ():
        raise TypeError(f"{name} must have scalar elements, got elements of shape {container.element_shape}")
    dtype = find_dtype(container.dtype)
    if dtype is None:
        raise TypeError(f"{name} must be of a data type of qd, got {container.dtype}")
    check_fold(dtype, 1)
    return dtype


def _find_memory(container: Any, size: int) -> tuple[int, int]:
    """Returns the address of the first element and the distance of two elements, in bytes, of an array of elements of this size."""
    if isinstance(container, Ndarray):
        return container._address, container._qd_layout.strides[0]
    if hasattr(container, "data_ptr"):
        return container.data_ptr(), container.stride(0) * size
    name = "__cuda_array_interface__" if _device.HAS_GRIDS and not isinstance(container, np.ndarray) else "__array_interface__"
    interface = getattr(container, name, None)
    if interface is None:  # memory of a device that no other library reads
        return container._address, describe_container(container)[1][0]
    return interface["data"][0], (interface.get("strides") or (size,))[0]


def _check_out(arr: Any, out: Any, size: int) -> None:
    """Raises ValueError if an array shares elements with another one of the same length and type, unless both are the same."""
    (first, step), (second, other_step) = _find_memory(arr, size), _find_memory(out, size)
    last, other_last = first + (arr.shape[0] - 1) * step, second + (arr.shape[0] - 1) * other_step
    if (first, step) == (second, other_step) or arr.shape[0] == 0:
        return
    low, high, other_low, other_high = min(first, last), max(first, last), min(second, other_last), max(second, other_last)
    are_interleaved = step != 0 and step == other_step and size <= (second - first) % abs(step) <= abs(step) - size
    if other_low < high + size and low < other_high + size and not are_interleaved:
        raise ValueError("out must be arr or share no memory with it")


def _operator(op: Any) -> str:
    if op not in _REDUCTIONS:
        raise ValueError(f"op must be one of {', '.join(map(repr, _REDUCTIONS))}, got {op!r}")
    return op


def _make_like(container: Any, dtype: Any, length: int) -> Any:
    """Returns an array of the type and library of `container`: of NumPy, torch or an ndarray."""
    if isinstance(container, np.ndarray):
        return np.empty(length, container.dtype)
    if type(container).__module__.split(".")[0] == "torch":
        return container.new_empty(length)
    return qd.ndarray(dtype, length)


def reduce(arr: Any, op: str = "add") -> Any:
    """Return the sum, minimum or maximum of all elements of an array, a number.

    Args: `arr`: a field, ndarray, tensor, torch tensor or NumPy array with one axis, of i8…i64, u8…u64, f16, f32 or f64. Sums have
    its type. `op`: "add", "min" or "max". Of no elements the result is 0, the largest or the smallest value of the type.
    The order of additions depends on the number of elements only. Raises TypeError and NotImplementedError for other elements, ValueError
    for other shapes and operators.
    """
    container = _view(arr, "arr")
    dtype = _dtype_of(container, "arr")
    return _fold(container, _operator(op), dtype)[0]


def scan(arr: Any, op: str = "add", *, inclusive: bool = True, out: Any = None) -> Any:
    """Return the running sums, minima or maxima of an array (Merrill and Garland, 2016; see `exclusive_scan_add`).

    Args: `arr`, `op`: as for `reduce`. `inclusive`: whether an element counts to its own result. `out`: where the results go, of the shape
    and type of `arr`, which it may be; default: a new array of the same library (of fields, tensors and lists: an ndarray).
    Raises as `reduce`, and ValueError for an `out` of another shape or type, or that shares memory with another part of `arr`.
    """
    container = _view(arr, "arr")
    dtype, length = _dtype_of(container, "arr"), container.shape[0]
    if out is None:
        out = target = _make_like(container, dtype, length)
    else:
        target = _view(out, "out", writes=True)
        if target.shape[0] != length or _dtype_of(target, "out") is not dtype:
            raise ValueError(f"out must have {length} elements of {dtype}, got {target.shape[0]} of {target.dtype}")
        if target is not container:
            _check_out(container, target, dtype.size)
    scratch = qd.ndarray(carrier(dtype), most_slots(length))
    _scan_kernel(container, target, scratch, length, BY_NAME[_operator(op)][0], bool(inclusive), dtype)
    return out


def _sort(keys: Any, values: Any = None, *, stable: bool = True, descending: bool = False) -> None:
    """Sorts containers in place; see `sort`. The sort is stable, whatever `stable` says."""
    container = _view(keys, "keys", writes=True)
    dtype, length = _dtype_of(container, "keys"), container.shape[0]
    moved = container if values is None else _view(values, "values", writes=True)
    if moved.shape[0] != length:
        raise ValueError(f"values must have as many elements as keys: {length} expected, got {moved.shape[0]}")
    if length < 2:
        return
    if isinstance(moved, StructField):
        order = qd.ndarray(qd.i32, length)
        order.from_numpy(np.arange(length, dtype=np.int32))
        _sort(container, order, descending=descending)
        _permute_members(moved, order)
        return
    spare = qd.ndarray(dtype, length)
    other = spare if values is None else qd.ndarray(_element_of(moved), length)
    scratch = qd.ndarray(qd.u32, length + 255 + most_slots(length + 255))
    _sort_kernel(container, spare, moved, other, scratch, length, values is not None, bool(descending), dtype)


_sort_in_kernel.host = _sort


def _permute_members(values: StructField, order: Any) -> None:
    """Moves the elements `order[i]` of each member to `i`."""
    for key in values.keys:
        member = values.get_member_field(key)
        if isinstance(member, StructField):
            _permute_members(member, order)
        else:
            _permute(_view(member, key), qd.ndarray(_element_of(member), order.shape[0]), order)


def _element_of(container: Any) -> Any:
    return getattr(container, "_element_type", None) or to_dtype(find_dtype(container.dtype))


def _find(arr: Any, op: str) -> int:
    container = _view(arr, "arr")
    dtype, length = _dtype_of(container, "arr"), container.shape[0]
    if length == 0:
        raise ValueError("an array without elements has no least or greatest one")
    if _device.HAS_GRIDS:
        scratch = qd.ndarray(carrier(dtype), most_slots(length))
        return _find_on_grid(container, qd.ndarray(dtype, 1), scratch, length, _REDUCTIONS[op], dtype)
    best = qd.ndarray(dtype, -(-length // _TILE))
    best.fill(identity(BY_NAME[op][0], dtype))
    return _find_on_threads(container, best, length, BY_NAME[op][0], getattr(qd, f"atomic_{op}"), dtype)


def argmin(arr: Any) -> int:
    """Return the index, counted from 0, of the first least element of `arr`, an array as for `reduce`.

    Raises as `reduce`, and ValueError for an array without elements. An array with NaN has its length as result if no number equals the
    minimum.
    """
    return _find(arr, "min")


def argmax(arr: Any) -> int:
    """Return the index, counted from 0, of the first greatest element of `arr`, an array as for `reduce`. Raises as `argmin`."""
    return _find(arr, "max")


def unique(arr: Any, *, return_counts: bool = False) -> Any:
    """Return the distinct elements of an array in ascending order, and how often each occurs if `return_counts`: ndarrays, counts of i32.

    Args: `arr`: as for `sort`; it is unchanged. Raises as `reduce`. Every NaN is distinct.
    """
    container = _view(arr, "arr")
    dtype, length = _dtype_of(container, "arr"), container.shape[0]
    keys, found, ones, counts = (qd.ndarray(kind, length) for kind in (dtype, dtype, qd.i32, qd.i32))
    ones.fill(1)
    keys.from_numpy(container)
    _sort(keys)
    runs = qd.ndarray(qd.i32, 1)
    _runs_kernel(keys, ones, found, counts, runs, qd.ndarray(qd.u32, reduce_by_key_scratch_slots(length)), length)
    number = int(runs[0])
    return (found[:number], counts[:number]) if return_counts else found[:number]


def histogram(arr: Any, bins: int = 10, range: tuple[float, float] | None = None) -> tuple[Any, Any]:
    """Return how many elements of an array fall into each of `bins` intervals of equal width, an ndarray of i32, and the edges of the
    intervals, a NumPy array of f64.

    Args: `arr`: as for `reduce`. `bins`: at least 1. `range`: the first and the last edge; default: the least and the greatest element. An
    interval contains its lower edge, and the last one its upper edge, too; other elements and NaN do not count, as in `numpy.histogram`.
    Raises as `reduce`, and ValueError for other numbers of bins and for a range that is no range of finite numbers.
    """
    container = _view(arr, "arr")
    _dtype_of(container, "arr")
    if bins < 1:
        raise ValueError(f"bins must be at least 1, got {bins}")
    if range is None:
        range = (reduce(arr, "min"), reduce(arr, "max")) if container.shape[0] else (0, 1)
    low, high = map(float, range)
    if not (low <= high and math.isfinite(low) and math.isfinite(high)):
        raise ValueError(f"range must be two finite numbers in order, got {low} and {high}")
    edges = np.linspace(*((low - 0.5, high + 0.5) if low == high else (low, high)), bins + 1)
    given, counts = qd.ndarray(qd.f64, bins + 1), qd.ndarray(qd.i32, bins)
    given.from_numpy(edges)
    kernel = _histogram_on_grid if _device.HAS_GRIDS and 0 < container.shape[0] and bins <= _SHARED_BINS else _histogram_kernel
    kernel(container, given, counts, container.shape[0], bins)
    return counts, edges


def segmented_reduce(arr: Any, offsets: Any, op: str = "add") -> Any:
    """Return the sum, minimum or maximum of each segment of an array: of `arr[offsets[s]:offsets[s + 1]]` for every s.

    Args: `arr`, `op`: as for `reduce`. `offsets`: one integer more than there are segments, in ascending order, up to the length of `arr`;
    their values are not checked. The result is a new array of the library of `arr`. Raises as `reduce`, and ValueError for offsets without
    elements.
    """
    container, limits = _view(arr, "arr"), _view(offsets, "offsets")
    dtype, segments = _dtype_of(container, "arr"), limits.shape[0] - 1
    if segments < 0:
        raise ValueError("offsets must have at least one element")
    out = _make_like(container, dtype, segments)
    update = getattr(qd, f"atomic_{_operator(op)}") if container.shape[0] >= _LONG * segments else None
    _segments_kernel(container, limits, out, segments, BY_NAME[op][0], update, dtype)
    return out

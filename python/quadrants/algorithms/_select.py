"""Compaction: copies the elements with a flag to consecutive positions."""

import operator

import quadrants as qd

from .._base import device as _device
from .._base.dtypes import find_dtype
from ..simt import block, subgroup
from ..simt._primitives import thread_idx
from ._blocks import Constant, at, block_count, block_size, check_types
from ._scan import scan_counts
from ._scratch import check_depth, check_length, check_selection
from ._tiles import BLOCK, before_tile, clear_words, count_tiles, count_votes, fold_before, load_rows, row_place, rows_of, take_tile

_ROWS = 23, 15  # see rows_of
_BLOCKS = 4  # on a multiprocessor at a time


@qd.func(requires_top_level=True)
def _select_in_one_pass(arr, flags, out, num_out, scratch, n, is_scalar: Constant, rows: Constant):
    size = qd.static(BLOCK * rows)
    clear_words(scratch, 8 * ((n - 1) // size) + qd.min((n - 1) // size, 1))
    qd.loop_config(block_dim=BLOCK, min_blocks=_BLOCKS)
    for _ in range(qd.max((n - 1) // size + 1, 1) * BLOCK):
        tiles = qd.max(count_tiles(n, size), 1)
        tile = take_tile(scratch, 0, tiles)
        left = n - tile * size
        if qd.static(is_scalar):  # loads that wait together with those of the flags
            values = load_rows(arr, tile * size, left, arr.dtype(0), rows, arr.dtype)
        marks = load_rows(flags, tile * size, left, flags.dtype(0), rows, flags.dtype)
        chosen = 0  # a bit for each of the thread's elements
        count = 0
        for k in qd.static(range(rows)):
            chosen |= qd.i32(marks[k] != 0) << k
            count += qd.i32(qd.math.popcnt(_device.MASK(subgroup.ballot(marks[k] != 0))))
        place, total = fold_before(count, qd.i32, operator.add)
        if qd.static(is_scalar):  # collects them in shared memory, so that neighboring threads store neighbors
            room = block.SharedArray((size,), arr.dtype)
            for k in qd.static(range(rows)):
                lower, all_chosen = count_votes(_device.MASK(subgroup.ballot(chosen >> k & 1)))
                if chosen >> k & 1 != 0:
                    room[place + lower] = values[k]
                place += all_chosen
        earlier = before_tile(scratch, tile, tiles, total, qd.i32, operator.add)
        if qd.static(is_scalar):
            for k in qd.static(range(rows)):
                if thread_idx() < total - k * BLOCK:
                    out[at(out, earlier + (k * BLOCK + thread_idx()))] = room[k * BLOCK + thread_idx()]
        else:
            place += earlier
            for k in qd.static(range(rows)):
                lower, all_chosen = count_votes(_device.MASK(subgroup.ballot(chosen >> k & 1)))
                if chosen >> k & 1 != 0:
                    out[at(out, place + lower)] = arr[at(arr, tile * size + row_place(rows, k))]
                place += all_chosen
        if thread_idx() == 0 and tile == tiles - 1:
            num_out[at(num_out, 0)] = earlier + total


@qd.func(requires_top_level=True)
def _select_in_two_passes(arr, flags, out, num_out, scratch, n):
    # The indices are written out: the compiler does not look for counters in calls, and runs these loops in lanes (docs/design/lanes.md).
    for number in range(block_count(n)):
        count = qd.u32(0)
        for i in range(number * block_size(n), qd.min((number + 1) * block_size(n), n)):
            count += qd.u32(flags[flags._offset[0] + i] != 0)
        scratch[at(scratch, number)] = count
    num_out[at(num_out, 0)] = qd.i32(scan_counts(scratch, n))
    for number in range(block_count(n)):
        position = qd.i32(scratch[at(scratch, number)])
        for i in range(number * block_size(n), qd.min((number + 1) * block_size(n), n)):
            if flags[flags._offset[0] + i] != 0:
                out[out._offset[0] + position] = arr[arr._offset[0] + i]
                position += 1


@qd.func(requires_top_level=True)
def select(arr, flags, out, num_out, scratch, n, log256_max_n: Constant):
    """Copy those of the first n elements of `arr` whose flag is non-zero to the beginning of `out`, in order, and their number to
    `num_out`.

    Args: `arr`, `out`: 1-D arrays of one type, scalars or structs, that do not overlap; the rest of `out` is unchanged. `flags`: 1-D array
    of integers. `num_out`: 1-D array of i32, whose first element is set. `scratch`: 1-D array of u32 of `select_scratch_slots(n)` elements.
    `n`: i32, at most 256^log256_max_n. `log256_max_n`: compile-time integer, 1…4; raises ValueError or TypeError for others.
    """
    qd.static(check_depth(log256_max_n))
    qd.static(isinstance(arr, qd.StructField) or check_types(arr.dtype, out=out.dtype))
    qd.static(check_types(qd.u32, scratch=scratch.dtype))
    if qd.static(_device.HAS_CHECKS):
        check_selection("select", scratch, n, log256_max_n)
        check_length("select", "arr", arr, n)
        check_length("select", "flags", flags, n)
    if qd.static(_device.BLOCKS_PROGRESS and isinstance(arr, qd.StructField)):
        _select_in_one_pass(arr, flags, out, num_out, scratch, n, False, _ROWS[0])
    elif qd.static(_device.BLOCKS_PROGRESS):
        rows = qd.static(rows_of(*_ROWS, find_dtype(arr.dtype), find_dtype(flags.dtype)))
        _select_in_one_pass(arr, flags, out, num_out, scratch, n, qd.static(arr.element_shape == ()), rows)
    else:
        _select_in_two_passes(arr, flags, out, num_out, scratch, n)

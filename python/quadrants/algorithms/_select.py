"""Compaction: copies the elements with a flag to consecutive positions."""

import operator

import quadrants as qd

from .._base import device as _device
from ..simt import subgroup
from ..simt._primitives import thread_idx
from ._blocks import Constant, at, block_count, block_size
from ._scan import scan_counts
from ._scratch import check_depth
from ._tiles import BLOCK, before_tile, clear_words, count_tiles, count_votes, fold_before, load_rows, row_place, take_tile

_ROWS = 16


@qd.func(requires_top_level=True)
def _select_in_one_pass(arr, flags, out, num_out, scratch, n, is_scalar: Constant):
    size = qd.static(BLOCK * _ROWS)
    clear_words(scratch, 8 * ((n - 1) // size) + qd.min((n - 1) // size, 1))
    qd.loop_config(block_dim=BLOCK)
    for _ in range(qd.max((n - 1) // size + 1, 1) * BLOCK):
        tiles = qd.max(count_tiles(n, size), 1)
        tile = take_tile(scratch, 0, tiles)
        left = n - tile * size
        if qd.static(is_scalar):  # loads that wait together with those of the flags
            values = load_rows(arr, tile * size, left, arr.dtype(0), _ROWS, arr.dtype)
        marks = load_rows(flags, tile * size, left, flags.dtype(0), _ROWS, flags.dtype)
        positions = qd.Vector.zero(qd.i32, _ROWS)
        count = 0
        for k in qd.static(range(_ROWS)):
            is_chosen = marks[k] != 0
            before, chosen = count_votes(_device.MASK(subgroup.ballot(is_chosen)))
            positions[k] = qd.select(is_chosen, count + before, -1)
            count += chosen
        before, total = fold_before(count, qd.i32, operator.add)
        earlier = before_tile(scratch, tile, tiles, total, qd.i32, operator.add)
        for k in qd.static(range(_ROWS)):
            if positions[k] >= 0:
                if qd.static(is_scalar):
                    out[at(out, earlier + before + positions[k])] = values[k]
                else:
                    out[at(out, earlier + before + positions[k])] = arr[at(arr, tile * size + row_place(_ROWS, k))]
        if thread_idx() == 0 and tile == tiles - 1:
            num_out[at(num_out, 0)] = earlier + total


@qd.func(requires_top_level=True)
def _select_in_two_passes(arr, flags, out, num_out, scratch, n):
    for block in range(block_count(n)):
        count = qd.u32(0)
        for i in range(block * block_size(n), qd.min((block + 1) * block_size(n), n)):
            count += qd.u32(flags[at(flags, i)] != 0)
        scratch[at(scratch, block)] = count
    num_out[at(num_out, 0)] = qd.i32(scan_counts(scratch, n))
    for block in range(block_count(n)):
        position = qd.i32(scratch[at(scratch, block)])
        for i in range(block * block_size(n), qd.min((block + 1) * block_size(n), n)):
            if flags[at(flags, i)] != 0:
                out[at(out, position)] = arr[at(arr, i)]
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
    if qd.static(_device.BLOCKS_PROGRESS and isinstance(arr, qd.StructField)):
        _select_in_one_pass(arr, flags, out, num_out, scratch, n, False)
    elif qd.static(_device.BLOCKS_PROGRESS):
        _select_in_one_pass(arr, flags, out, num_out, scratch, n, qd.static(arr.element_shape == ()))
    else:
        _select_in_two_passes(arr, flags, out, num_out, scratch, n)

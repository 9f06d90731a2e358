"""Prefix sums, minima and maxima."""

import operator

import quadrants as qd

from .._base import device as _device
from .._base.dtypes import find_dtype
from ..simt import block
from ..simt._primitives import thread_idx
from ._blocks import Constant, at, block_count, carrier, check_fold, check_types, identity, specialize_folds
from ._scratch import check_count, check_fold_scratch, check_length
from ._tiles import (
    BLOCK,
    before_tile,
    clear_words,
    copy_rows,
    count_tiles,
    fold_before,
    from_word,
    get_rows,
    peek,
    publish,
    rows_of,
    scan_lanes,
    scan_totals,
    store_rows,
    take_tile,
    to_word,
    wait,
)

# See rows_of. Long tiles look back seldom; those of two passes fit into 32 KB.
_ROWS, _LONG_ROWS = (23, 13), (23, 21)
_BLOCKS = 4  # on a multiprocessor at a time
# Of a chunk, and their elements; elements of a group. Runs do not begin at multiples of 4 KB, which would share a few lines of a cache.
_RUNS, _RUN, _GROUP = 4, 4128, 4


@qd.func
def _fold_thread(room, rows: Constant, op: Constant):
    """Returns the fold of a thread's elements in shared memory."""
    total = room[thread_idx() * rows]
    for k in qd.static(range(1, rows)):
        total = op(total, room[thread_idx() * rows + k])
    return total


@qd.func
def _scan_thread(room, before, rows: Constant, op: Constant, inclusive: Constant):
    """Replaces a thread's elements in shared memory by the running folds; `before`: the fold of all elements before them."""
    running = before
    for k in qd.static(range(rows)):
        following = op(running, room[thread_idx() * rows + k])
        room[thread_idx() * rows + k] = following if qd.static(inclusive) else running
        running = following


@qd.func(requires_top_level=True)
def _scan_in_one_pass(arr, out, scratch, n, dtype: Constant, op: Constant, inclusive: Constant):
    rows = qd.static(rows_of(*_LONG_ROWS, dtype))
    size = qd.static(BLOCK * rows_of(*_LONG_ROWS, dtype))
    clear_words(scratch, 8 * ((n - 1) // size) + qd.min((n - 1) // size, 1))
    qd.loop_config(block_dim=BLOCK, min_blocks=_BLOCKS)
    for _ in range(((n - 1) // size + 1) * BLOCK):
        room = block.SharedArray((size,), dtype)
        tiles = count_tiles(n, size)
        tile = take_tile(scratch, 0, tiles)
        # While a block waits for others, its elements are in shared memory, so that registers suffice for many blocks.
        copy_rows(arr, room, tile * size, n - tile * size, dtype(qd.static(identity(op, dtype))), rows)
        of_lanes, whole = scan_lanes(_fold_thread(room, rows, op), dtype, op)
        of_subgroups, total = fold_before(whole, dtype, op)
        before = op(op(before_tile(scratch, tile, tiles, total, dtype, op), of_subgroups), of_lanes)
        _scan_thread(room, before, rows, op, inclusive)
        store_rows(out, get_rows(room, rows, dtype), tile * size, n - tile * size, rows)


@qd.func(requires_top_level=True)
def _scan_in_two_passes(arr, out, scratch, n, dtype: Constant, op: Constant, inclusive: Constant):
    rows = qd.static(rows_of(*_ROWS, dtype))
    size = qd.static(BLOCK * rows_of(*_ROWS, dtype))
    none = dtype(qd.static(identity(op, dtype)))
    qd.loop_config(block_dim=BLOCK)
    for i in range(((n - 1) // size + 1) * BLOCK):
        room = block.SharedArray((size,), dtype)
        tile = i // BLOCK
        copy_rows(arr, room, tile * size, n - tile * size, none, rows)
        _, whole = scan_lanes(_fold_thread(room, rows, op), dtype, op)
        _, total = fold_before(whole, dtype, op)
        if thread_idx() == 0:
            scratch[at(scratch, tile)] = to_word(total, dtype)
    scan_totals(scratch, (n - 1) // size + 1, dtype, op)
    qd.loop_config(block_dim=BLOCK)
    for i in range(((n - 1) // size + 1) * BLOCK):
        room = block.SharedArray((size,), dtype)
        tile = i // BLOCK
        copy_rows(arr, room, tile * size, n - tile * size, none, rows)
        of_lanes, whole = scan_lanes(_fold_thread(room, rows, op), dtype, op)
        of_subgroups, _ = fold_before(whole, dtype, op)
        before = op(op(from_word(scratch[at(scratch, tile)], dtype), of_subgroups), of_lanes)
        _scan_thread(room, before, rows, op, inclusive)
        store_rows(out, get_rows(room, rows, dtype), tile * size, n - tile * size, rows)


@qd.func
def _scan_run(arr, out, first, end, before, dtype: Constant, op: Constant, inclusive: Constant):
    """Scans neighboring elements, and returns the fold of all of them and what was before.

    Except for sums of floats, which show their order, small groups are scanned first, which do not wait for each other: only one operation
    of a group follows that of the last.
    """
    running, begin = before, first
    if qd.static(op is not operator.add or not find_dtype(dtype).is_real):
        begin += (end - first) // _GROUP * _GROUP
        for group in range((end - first) // _GROUP):
            i = qd.i64(first) + _GROUP * qd.i64(group)
            folds = qd.Vector([arr[at(arr, i + k)] for k in qd.static(range(_GROUP))])
            for k in qd.static(range(1, _GROUP)):
                folds[k] = op(folds[k - 1], folds[k])
            for k in qd.static(range(_GROUP)):
                if qd.static(inclusive):
                    out[at(out, i + k)] = op(running, folds[k])
                else:
                    out[at(out, i + k)] = op(running, folds[k - 1]) if qd.static(k > 0) else running
            running = op(running, folds[_GROUP - 1])
    for i in range(begin, end):
        value = arr[at(arr, i)]
        if qd.static(inclusive):
            running = op(running, value)
            out[at(out, i)] = running
        else:
            out[at(out, i)] = running
            running = op(running, value)
    return running


@qd.func(requires_top_level=True)
def _scan_on_threads(arr, out, scratch, n, dtype: Constant, op: Constant, inclusive: Constant):
    """Each thread takes the next chunk, which its cache holds: it folds the chunk, waits for the fold of those before, and scans it.

    A chunk is cut into runs that are scanned side by side, so that a processor has several additions under way. One of integers, in which
    no order of the additions shows, is scanned without a fold of its own if that of the chunks before is there.
    """
    size = qd.static(_RUNS * _RUN)
    clear_words(scratch, qd.select(n > size, 2 * ((n - 1) // size) + 3, 0))
    qd.loop_config(block_dim=1)
    for _ in range((n - 1) // size + 1):
        chunk = 0
        if n > size:
            chunk = qd.i32(qd.atomic_add(scratch[at(scratch, 0)], 1))
        first = chunk * size
        left = n - first
        before = dtype(qd.static(identity(op, dtype)))
        is_next = chunk == 0
        if qd.static(not find_dtype(dtype).is_real):
            if chunk > 0:
                low, high = peek(scratch, 2 * chunk - 1, True, dtype)
                is_next = low != 0 and high != 0
        if is_next or left < size:
            if chunk > 0:
                before = wait(scratch, 2 * chunk - 1, dtype)
            before = _scan_run(arr, out, first, first + qd.min(left, size), before, dtype, op, inclusive)
            if left > size:
                publish(scratch, 2 * chunk + 1, before, dtype)
        else:
            place = qd.i64(first)  # with 64 bits the distances of the runs are constants in the addresses
            running = qd.Vector.zero(dtype, _RUNS)
            for k in qd.static(range(_RUNS)):
                running[k] = before
            for i in range(_RUN):
                for k in qd.static(range(_RUNS)):
                    running[k] = op(running[k], arr[at(arr, place + (qd.static(k * _RUN) + i))])
            before = wait(scratch, 2 * chunk - 1, dtype)
            for k in qd.static(range(_RUNS)):
                own = running[k]
                running[k] = before
                before = op(before, own)
            publish(scratch, 2 * chunk + 1, before, dtype)
            for i in range(_RUN):
                for k in qd.static(range(_RUNS)):
                    value = arr[at(arr, place + (qd.static(k * _RUN) + i))]
                    if qd.static(inclusive):
                        running[k] = op(running[k], value)
                        out[at(out, place + (qd.static(k * _RUN) + i))] = running[k]
                    else:
                        out[at(out, place + (qd.static(k * _RUN) + i))] = running[k]
                        running[k] = op(running[k], value)


@qd.func(requires_top_level=True)
def _scan(arr, out, scratch, n, dtype: Constant, log256_max_n: Constant, op: Constant, inclusive: Constant):
    """Store in `out[i]` the {what} of {elements}, for all i < n; {empty} if there are none. `out` is `arr` or does not overlap it.

    Args: `arr`, `out`: 1-D arrays of `dtype` (i8…i64, u8…u64, f16, f32, f64). `scratch`: 1-D array of u32, of u64 for eight-byte types, of
    `exclusive_scan_scratch_slots(n)` elements. `n`: i32, at most 256^log256_max_n. `log256_max_n`: compile-time integer, 1…4.
    The order of the additions depends on n only. Raises NotImplementedError for other types, ValueError and TypeError for other depths.
    """
    qd.static(check_fold(dtype, log256_max_n, arr=arr.dtype, out=out.dtype))
    qd.static(check_types(carrier(dtype), scratch=scratch.dtype))
    if qd.static(_device.HAS_CHECKS):
        check_count("scan", n, log256_max_n)
        check_length("scan", "arr", arr, n)
        check_length("scan", "out", out, n)
        check_fold_scratch("scan", scratch, n)
    if qd.static(not _device.HAS_GRIDS):
        _scan_on_threads(arr, out, scratch, n, dtype, op, inclusive)
    elif qd.static(_device.BLOCKS_PROGRESS):
        _scan_in_one_pass(arr, out, scratch, n, dtype, op, inclusive)
    else:
        _scan_in_two_passes(arr, out, scratch, n, dtype, op, inclusive)


def _specialize(kind, inclusive, elements):
    doc = _scan.__doc__.replace("{elements}", elements)
    return specialize_folds(_scan, kind + "_scan_{}", doc, inclusive=inclusive)


exclusive_scan_add, exclusive_scan_min, exclusive_scan_max = _specialize("exclusive", False, "`arr[0:i]`")
inclusive_scan_add, inclusive_scan_min, inclusive_scan_max = _specialize("inclusive", True, "`arr[0:i + 1]`")


@qd.func(requires_top_level=True)
def scan_counts(scratch, n):
    """Replaces the counts of the blocks in scratch by the sums of the counts before them; returns the sum of all."""
    total = qd.u32(0)
    qd.loop_config(serialize=True)
    for number in range(block_count(n)):
        slot = at(scratch, number)
        count = scratch[slot]
        scratch[slot] = total
        total += count
    return total

"""Reductions of runs of equal keys."""

import operator
from typing import Any

import quadrants as qd

from .._base import device as _device
from .._base.dtypes import find_dtype
from ..simt import block, subgroup
from ..simt._primitives import block_sync, shuffle, thread_idx
from ._blocks import Constant, at, block_count, block_size, carrier, check_fold, check_types, identity, specialize_folds
from ._scan import scan_counts
from ._scratch import check_length, check_selection
from ._tiles import BLOCK, clear_words, copy_rows, count_tiles, from_word, last_lane, scan_lanes, take_tile, to_word

_ROWS = {8: 21, 12: 15, 16: 11}  # see _tiles.rows_of; by the bytes of a key and a value, at most, which shared memory holds
_BLOCKS = 4  # on a multiprocessor at a time


@qd.func
def _starts_run(keys, i):
    """Whether element i begins a run. A NaN equals nothing, so it is a run of its own."""
    result = True
    if i > 0:
        result = keys[at(keys, i)] != keys[at(keys, i - 1)]
    return result


def _rows_of(key: Any, value: Any) -> int:
    size = find_dtype(key).size + find_dtype(value).size
    return next(rows for most, rows in _ROWS.items() if size <= most)


def _is_wide(dtype: Any) -> bool:
    return find_dtype(dtype).size == 8


def _entry_words(dtype: Any) -> int:
    """Returns the number of words in which a tile publishes its number of runs, and the value of its last one in parts of 16 bits."""
    return 5 if _is_wide(dtype) else 3


@qd.func
def _store(scratch, slot, value, dtype: Constant):
    """Stores a value in scratch memory of u32, in one word, or two if it has eight bytes."""
    if qd.static(_is_wide(dtype)):
        bits = to_word(value, dtype)
        scratch[at(scratch, slot)] = qd.u32(bits & qd.u64(0xFFFFFFFF))
        scratch[at(scratch, slot + 1)] = qd.u32(bits >> 32)
    else:
        scratch[at(scratch, slot)] = to_word(value, dtype)


@qd.func
def _load(scratch, slot, dtype: Constant):
    if qd.static(_is_wide(dtype)):
        return qd.bit_cast(qd.u64(scratch[at(scratch, slot)]) | qd.u64(scratch[at(scratch, slot + 1)]) << 32, dtype)
    return from_word(scratch[at(scratch, slot)], dtype)


# A tile's result, and that of several tiles: the number of runs that begin in them, and the fold of the values from the last such beginning
# on, or of all values if no run begins.


@qd.func
def _publish_entry(scratch, slot, runs, value, dtype: Constant):
    scratch[at(scratch, slot)] = qd.u32(runs) | qd.u32(1 << 31)
    bits = qd.u64(to_word(value, dtype))
    for part in qd.static(range(_entry_words(dtype) - 1)):
        scratch[at(scratch, slot + qd.static(1 + part))] = qd.u32(bits >> qd.static(16 * part) & 0xFFFF) | qd.u32(1 << 31)


@qd.func
def _peek(scratch, slot, is_there, dtype: Constant):
    """Returns the words of an entry as they are now; 0 if no entry `is_there`. See _tiles.peek."""
    words = qd.Vector.zero(qd.u32, qd.static(_entry_words(dtype)))
    if is_there:
        for part in qd.static(range(_entry_words(dtype))):
            words[part] = qd.volatile_load(scratch[at(scratch, slot + part)])
    return words


@qd.func
def _is_ready(words: Constant, dtype: Constant):
    ready = words[0]
    for part in qd.static(range(1, _entry_words(dtype))):
        ready &= words[part]
    return ready >> 31 != 0


@qd.func
def _finish(scratch, slot, peeked, dtype: Constant):
    """Waits until all words of an entry are there, and returns the number of runs and the value."""
    words = peeked
    while not _is_ready(words, dtype):
        words = _peek(scratch, slot, True, dtype)
    bits = qd.u64(0)
    for part in qd.static(range(_entry_words(dtype) - 1)):
        bits |= qd.u64(words[part + 1] & 0xFFFF) << qd.static(16 * part)
    return qd.i32(words[0] & 0x7FFFFFFF), from_word(qd.static(carrier(dtype))(bits), dtype)


@qd.func
def _fold_entries(scratch, slot, count, peeked, dtype: Constant, op: Constant):
    """Returns the result of `count` tiles or groups together, less than a subgroup has lanes; all lanes of a subgroup call it with what a
    peek at the lane's entry has found."""
    lane = subgroup.invocation_id()
    runs = 0
    value = dtype(qd.static(identity(op, dtype)))
    if lane < count:
        runs, value = _finish(scratch, slot + lane * qd.static(_entry_words(dtype)), peeked, dtype)
    if _device.MASK(subgroup.ballot(runs > 0)) & subgroup.lanemask_gt(lane) != 0:
        value = dtype(qd.static(identity(op, dtype)))
    return subgroup.reduce_all_add(runs), subgroup._reduce_all(value, None, op)


@qd.func
def _look_back(scratch, tile, tiles, runs, value, dtype: Constant, op: Constant):
    """Returns the result of the tiles before this one; all lanes of one subgroup call it with the result of their tile, which the block has
    published (see _tiles.py)."""
    size = qd.static(_device.SUBGROUP_SIZE)
    words = qd.static(_entry_words(dtype))
    groups = (tiles - 1) // size + 1
    group = tile // size
    outer = group // size
    of_groups = 1 + words * tiles
    of_outer = of_groups + words * groups
    lane = subgroup.invocation_id()
    is_first = lane == 0
    first, first_group, last_outer = 1 + words * (group * size), of_groups + words * (outer * size), of_outer + words * (outer - 1)
    own = _peek(scratch, first + words * lane, lane < tile % size, dtype)
    of_group = _peek(scratch, first_group + words * lane, lane < group % size, dtype)
    last = _peek(scratch, last_outer, outer > 0, dtype)
    runs_before, before = _fold_entries(scratch, first, tile % size, own, dtype, op)
    if is_first and tile % size == size - 1:
        joined = qd.select(runs > 0, value, op(before, value))
        _publish_entry(scratch, of_groups + words * group, runs_before + runs, joined, dtype)
    subgroup.sync()
    runs_of_groups, of_earlier = _fold_entries(scratch, first_group, group % size, of_group, dtype, op)
    before = qd.select(runs_before > 0, before, op(of_earlier, before))
    runs_before += runs_of_groups
    if outer > 0:
        runs_of_outer, of_others = _finish(scratch, last_outer, last, dtype)
        before = qd.select(runs_before > 0, before, op(of_others, before))
        runs_before += runs_of_outer
    if is_first and tile % size == size - 1 and group % size == size - 1:
        joined = qd.select(runs > 0, value, op(before, value))
        _publish_entry(scratch, of_outer + words * outer, runs_before + runs, joined, dtype)
    return runs_before, before


@qd.func
def _fold_subgroups(own_runs, own_value, dtype: Constant, op: Constant):
    """Returns the result of the subgroups before the thread's own, and of the whole block."""
    parts_runs = block.SharedArray((BLOCK // _device.SUBGROUP_SIZE,), qd.i32)
    parts = block.SharedArray((BLOCK // _device.SUBGROUP_SIZE,), dtype)
    group = thread_idx() // _device.SUBGROUP_SIZE
    if subgroup.invocation_id() == 0:
        parts_runs[group] = own_runs
        parts[group] = own_value
    block_sync()
    runs = 0
    value = dtype(qd.static(identity(op, dtype)))
    all_runs = 0
    whole = value
    for part in qd.static(range(BLOCK // _device.SUBGROUP_SIZE)):
        if part == group:
            runs = all_runs
            value = whole
        all_runs += parts_runs[part]
        whole = qd.select(parts_runs[part] > 0, parts[part], op(whole, parts[part]))
    return runs, value, all_runs, whole


@qd.func
def _before_tile(scratch, tile, tiles, runs, value, dtype: Constant, op: Constant):
    """Returns the result of the tiles before this one, on all threads of the block."""
    shared_runs = block.SharedArray((1,), qd.i32)
    shared = block.SharedArray((1,), dtype)
    if thread_idx() < _device.SUBGROUP_SIZE:
        earlier_runs, earlier = _look_back(scratch, tile, tiles, runs, value, dtype, op)
        if thread_idx() == 0:
            shared_runs[0] = earlier_runs
            shared[0] = earlier
    block_sync()
    return shared_runs[0], shared[0]


@qd.func
def _scan_run_parts(value, starts, op: Constant):
    """Returns the folds of a row's values from the beginning of their run on, or of the row."""
    lane = subgroup.invocation_id()
    up_to = starts & subgroup.lanemask_le(lane)
    length = lane
    if up_to != 0:
        length = lane - last_lane(up_to)
    result = value
    for step in qd.static(range(_device.LOG2_SUBGROUP_SIZE)):
        other = shuffle(result, (lane - qd.static(1 << step)) & qd.static(_device.SUBGROUP_SIZE - 1))
        if length >= qd.static(1 << step):
            result = op(other, result)
    return result


@qd.func
def _load_around(keys, tile, left, rows: Constant):
    """Returns the key before those of a subgroup, on its first lane, and the key behind them, on its last one, where there are any."""
    place = (thread_idx() - subgroup.invocation_id()) * rows
    before = keys.dtype(0)
    behind = keys.dtype(0)
    first = tile * qd.static(BLOCK * rows)
    if subgroup.invocation_id() == 0 and first + place > 0 and place <= left:
        before = keys[at(keys, first + place - 1)]
    if subgroup.invocation_id() == qd.static(_device.SUBGROUP_SIZE - 1) and place + qd.static(rows * _device.SUBGROUP_SIZE) < left:
        behind = keys[at(keys, first + place + qd.static(rows * _device.SUBGROUP_SIZE))]
    return before, behind


@qd.func
def _fold_own(keys, values, key_before, key_behind, tile, left, rows: Constant, op: Constant):
    """Returns a bit for each of a thread's keys and the key behind them: whether it begins a run; and the fold of the thread's values from
    the last such beginning on.

    `keys`, `values`: those of the tile, in shared memory; `key_before`, `key_behind`: those around the subgroup's keys.
    """
    place = thread_idx() * rows
    previous = key_before
    following = key_behind
    if subgroup.invocation_id() > 0:
        previous = keys[place - 1]
    if subgroup.invocation_id() < qd.static(_device.SUBGROUP_SIZE - 1):
        following = keys[place + rows]
    first = keys[place]
    fold = values[place]
    starts = qd.i32(first != previous or (tile == 0 and place == 0))
    previous = first
    for k in qd.static(range(1, rows)):
        key = keys[place + k]
        value = values[place + k]
        is_start = key != previous
        starts |= qd.select(is_start, qd.static(1 << k), 0)
        fold = qd.select(is_start, value, op(fold, value))
        previous = key
    starts |= qd.select(following != previous, qd.static(1 << rows), 0)
    # No run begins behind the last element. There the fold is of no use.
    return starts & ((1 << qd.min(qd.max(left - place, 0), qd.static(rows + 1))) - 1), fold


@qd.func(requires_top_level=True)
def _reduce_in_one_pass(keys_in, values_in, keys_out, values_out, num_runs, scratch, n, dtype: Constant, op: Constant):
    rows = qd.static(_rows_of(keys_in.dtype, dtype))
    size = qd.static(BLOCK * _rows_of(keys_in.dtype, dtype))
    none = dtype(qd.static(identity(op, dtype)))
    clear_words(scratch, qd.static(4 * _entry_words(dtype) + 1) * ((n - 1) // size))
    qd.loop_config(block_dim=BLOCK, min_blocks=_BLOCKS)
    for _ in range(qd.max((n - 1) // size + 1, 1) * BLOCK):
        key_room = block.SharedArray((size,), keys_in.dtype)
        value_room = block.SharedArray((size + 1,), dtype)
        bounds = block.SharedArray((2,), qd.i32)
        tiles = qd.max(count_tiles(n, size), 1)
        tile = take_tile(scratch, 0, tiles)
        left = n - tile * size
        place = thread_idx() * rows
        lane = subgroup.invocation_id()
        key_before, key_behind = _load_around(keys_in, tile, left, rows)
        copy_rows(keys_in, key_room, tile * size, left, keys_in.dtype(0), rows)
        copy_rows(values_in, value_room, tile * size, left, none, rows)
        starts, fold = _fold_own(key_room, value_room, key_before, key_behind, tile, left, rows, op)
        # The fold from the last beginning of a run on, also of the lanes before, then of the tile before the thread.
        count = qd.i32(qd.math.popcnt(starts & qd.static((1 << rows) - 1)))
        lanes = _device.MASK(subgroup.ballot(count > 0))
        fold = _scan_run_parts(fold, lanes, op)
        runs, runs_of_subgroup = scan_lanes(count, qd.i32, operator.add)
        last_fold = shuffle(fold, qd.static(_device.SUBGROUP_SIZE - 1))
        run, before, runs_of_tile, whole = _fold_subgroups(runs_of_subgroup, last_fold, dtype, op)
        if thread_idx() == 0 and tiles > 1:
            _publish_entry(scratch, 1 + qd.static(_entry_words(dtype)) * tile, runs_of_tile, whole, dtype)
        run += runs
        fold = shuffle(fold, (lane - 1) & qd.static(_device.SUBGROUP_SIZE - 1))
        if lane == 0:
            fold = before
        elif lanes & subgroup.lanemask_lt(lane) == 0:
            fold = op(before, fold)
        # Keys and values go to shared memory, so that neighboring threads store neighbors: the value of the run that the tile continues,
        # and those of its own runs; the first or the last may belong to another tile. Meanwhile the tiles before publish their results.
        ends = starts >> 1
        if place < left and left - place <= rows:
            ends |= 1 << (left - place - 1)
        keys = qd.Vector.zero(keys_in.dtype, rows)
        for k in qd.static(range(rows)):
            keys[k] = key_room[place + k]
        block_sync()
        number = run
        for k in qd.static(range(rows)):
            if starts >> k & 1 != 0:
                key_room[number] = keys[k]
                number += 1
        values = qd.Vector.zero(dtype, rows)
        for k in qd.static(range(rows)):
            values[k] = value_room[place + k]
        block_sync()
        for k in qd.static(range(rows)):
            if starts >> k & 1 != 0:
                run += 1
                fold = values[k]
            else:
                fold = op(fold, values[k])
            if ends >> k & 1 != 0:
                value_room[run] = fold
        last = qd.min(left, size) - 1  # the last element of the tile
        if thread_idx() == 0:
            bounds[0] = starts & 1
        if (place <= last and last < place + rows) or (thread_idx() == 0 and left <= 0):
            bounds[1] = runs_of_tile + (ends >> qd.max(last - place, 0) & 1)
        begin, earlier = _before_tile(scratch, tile, tiles, runs_of_tile, whole, dtype, op)
        for i in range(thread_idx(), bounds[1], BLOCK):
            if i < runs_of_tile:
                keys_out[at(keys_out, begin + i)] = key_room[i]
            if i >= bounds[0]:
                value = value_room[i]
                if i == 0:
                    value = op(earlier, value)
                values_out[at(values_out, begin - 1 + i)] = value
        if thread_idx() == 0 and tile == tiles - 1:
            num_runs[at(num_runs, 0)] = begin + runs_of_tile
        block_sync()  # the shared memory is free again


@qd.func(requires_top_level=True)
def _reduce_in_two_passes(keys_in, values_in, keys_out, values_out, num_runs, scratch, n, value_dtype: Constant, op: Constant):
    for number in range(block_count(n)):
        count = qd.u32(0)
        for i in range(number * block_size(n), qd.min((number + 1) * block_size(n), n)):
            count += qd.u32(_starts_run(keys_in, i))
        scratch[at(scratch, number)] = count
    num_runs[at(num_runs, 0)] = qd.i32(scan_counts(scratch, n))
    # The part of a run in a block that continues an earlier block's run waits in scratch memory, behind the counts. A single block needs
    # none.
    for number in range(block_count(n)):
        run = qd.i32(scratch[at(scratch, number)]) - 1
        total = value_dtype(qd.static(identity(op, value_dtype)))
        is_carried = number > 0
        for i in range(number * block_size(n), qd.min((number + 1) * block_size(n), n)):
            if _starts_run(keys_in, i):
                if is_carried:
                    _store(scratch, block_count(n) + 2 * number, total, value_dtype)
                elif run >= 0:
                    values_out[at(values_out, run)] = total
                is_carried = False
                run += 1
                keys_out[at(keys_out, run)] = keys_in[at(keys_in, i)]
                total = values_in[at(values_in, i)]
            else:
                total = op(total, values_in[at(values_in, i)])
        if is_carried:
            _store(scratch, block_count(n) + 2 * number, total, value_dtype)
        elif n > 0:
            values_out[at(values_out, run)] = total
    qd.loop_config(serialize=True)
    for number in range(1, block_count(n)):
        run = qd.i32(scratch[at(scratch, number)]) - 1
        values_out[at(values_out, run)] = op(values_out[at(values_out, run)], _load(scratch, block_count(n) + 2 * number, value_dtype))


@qd.func(requires_top_level=True)
def _reduce_by_key(
    keys_in, values_in, keys_out, values_out, num_runs, scratch, n, value_dtype: Constant, log256_max_n: Constant, op: Constant
):
    """Compute the {what} of the values of each run of equal neighboring keys: one key and one value per run; their number in `num_runs[0]`.

    Args: `keys_in`, `keys_out`: 1-D arrays of one scalar type; a NaN is a run of its own. `values_in`, `values_out`: 1-D arrays of
    `value_dtype` (i8…i64, u8…u64, f16, f32, f64). `num_runs`: 1-D array of i32. `scratch`: 1-D array of u32 of
    `reduce_by_key_scratch_slots(n)` elements. `n`: i32, at most 256^log256_max_n. `log256_max_n`: compile-time integer, 1…4.
    The order of the additions depends on n only. Raises NotImplementedError for other types, ValueError and TypeError for other depths.
    """
    qd.static(check_fold(value_dtype, log256_max_n, values_in=values_in.dtype, values_out=values_out.dtype))
    qd.static(check_types(keys_in.dtype, keys_out=keys_out.dtype))
    qd.static(check_types(qd.u32, scratch=scratch.dtype))
    if qd.static(_device.HAS_CHECKS):
        check_selection("reduce_by_key", scratch, n, log256_max_n)
        check_length("reduce_by_key", "keys_in", keys_in, n)
        check_length("reduce_by_key", "values_in", values_in, n)
    if qd.static(_device.BLOCKS_PROGRESS):
        _reduce_in_one_pass(keys_in, values_in, keys_out, values_out, num_runs, scratch, n, value_dtype, op)
    else:
        _reduce_in_two_passes(keys_in, values_in, keys_out, values_out, num_runs, scratch, n, value_dtype, op)


reduce_by_key_add, reduce_by_key_min, reduce_by_key_max = specialize_folds(_reduce_by_key, "reduce_by_key_{}")

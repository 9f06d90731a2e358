"""Reductions of runs of equal keys."""

from typing import Any

import quadrants as qd

from .._base import device as _device
from .._base.dtypes import find_dtype
from ..simt import block, subgroup
from ..simt._primitives import block_sync, shuffle, thread_idx
from ._blocks import Constant, at, block_count, block_size, check_fold, identity, specialize_folds
from ._scan import scan_counts
from ._tiles import BLOCK, clear_words, count_tiles, count_votes, from_word, load_rows, row_place, rows_of, take_tile, to_word


@qd.func
def _starts_run(keys, i):
    """Whether element i begins a run. A NaN equals nothing, so it is a run of its own."""
    result = True
    if i > 0:
        result = keys[at(keys, i)] != keys[at(keys, i - 1)]
    return result


def _is_wide(dtype: Any) -> bool:
    return find_dtype(dtype).size == 8


def _entry_words(dtype: Any) -> int:
    """Returns the number of words in which a tile publishes its number of runs, and the value of its last one in parts of 16 bits."""
    return 5 if _is_wide(dtype) else 3


@qd.func
def _store(scratch, slot, value, dtype: Constant):
    """Stores a value in scratch memory of u32, in one word, or two if it has eight bytes."""
    if qd.static(_is_wide(dtype)):
        bits = qd.bit_cast(value, qd.u64)
        scratch[at(scratch, slot)] = qd.u32(bits & qd.u64(0xFFFFFFFF))
        scratch[at(scratch, slot + 1)] = qd.u32(bits >> 32)
    else:
        scratch[at(scratch, slot)] = to_word(value, dtype)


@qd.func
def _bits_of(value, dtype: Constant):
    return qd.u64(qd.bit_cast(value, qd.static({1: qd.u8, 2: qd.u16, 4: qd.u32, 8: qd.u64}[find_dtype(dtype).size])))


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
    bits = _bits_of(value, dtype)
    for part in qd.static(range(_entry_words(dtype) - 1)):
        scratch[at(scratch, slot + qd.static(1 + part))] = qd.u32(bits >> qd.static(16 * part) & 0xFFFF) | qd.u32(1 << 31)


@qd.func
def _wait_for_word(scratch, slot):
    word = qd.volatile_load(scratch[at(scratch, slot)])
    while word == 0:
        word = qd.volatile_load(scratch[at(scratch, slot)])
    return word & qd.u32(0x7FFFFFFF)


@qd.func
def _wait_for_entry(scratch, slot, dtype: Constant):
    runs = qd.i32(_wait_for_word(scratch, slot))
    bits = qd.u64(0)
    for part in qd.static(range(_entry_words(dtype) - 1)):
        bits |= qd.u64(_wait_for_word(scratch, slot + qd.static(1 + part))) << qd.static(16 * part)
    unsigned = qd.static({1: qd.u8, 2: qd.u16, 4: qd.u32, 8: qd.u64}[find_dtype(dtype).size])
    return runs, qd.bit_cast(unsigned(bits), dtype)


@qd.func
def _fold_entries(scratch, slot, count, dtype: Constant, op: Constant):
    """Returns the result of `count` tiles or groups together, less than a subgroup has lanes; all lanes of a subgroup call it."""
    lane = subgroup.invocation_id()
    runs = 0
    value = dtype(qd.static(identity(op, dtype)))
    if lane < count:
        runs, value = _wait_for_entry(scratch, slot + lane * qd.static(_entry_words(dtype)), dtype)
    if _device.MASK(subgroup.ballot(runs > 0)) & subgroup.lanemask_gt(lane) != 0:
        value = dtype(qd.static(identity(op, dtype)))
    return subgroup.reduce_all_add(runs), subgroup._reduce_all(value, None, op)


@qd.func
def _look_back(scratch, tile, tiles, runs, value, dtype: Constant, op: Constant):
    """Returns the result of the tiles before this one; all lanes of one subgroup call it with the result of their tile (see _tiles.py)."""
    size = qd.static(_device.SUBGROUP_SIZE)
    words = qd.static(_entry_words(dtype))
    groups = (tiles - 1) // size + 1
    group = tile // size
    outer = group // size
    of_groups = 1 + words * tiles
    of_outer = of_groups + words * groups
    is_first = subgroup.invocation_id() == 0
    if is_first and tiles > 1:
        _publish_entry(scratch, 1 + words * tile, runs, value, dtype)
    subgroup.sync()
    runs_before, before = _fold_entries(scratch, 1 + words * (group * size), tile % size, dtype, op)
    if is_first and tile % size == size - 1:
        joined = qd.select(runs > 0, value, op(before, value))
        _publish_entry(scratch, of_groups + words * group, runs_before + runs, joined, dtype)
    subgroup.sync()
    runs_of_groups, of_earlier = _fold_entries(scratch, of_groups + words * (outer * size), group % size, dtype, op)
    before = qd.select(runs_before > 0, before, op(of_earlier, before))
    runs_before += runs_of_groups
    if outer > 0:
        runs_of_outer, of_others = _wait_for_entry(scratch, of_outer + words * (outer - 1), dtype)
        before = qd.select(runs_before > 0, before, op(of_others, before))
        runs_before += runs_of_outer
    if is_first and tile % size == size - 1 and group % size == size - 1:
        joined = qd.select(runs > 0, value, op(before, value))
        _publish_entry(scratch, of_outer + words * outer, runs_before + runs, joined, dtype)
    return runs_before, before


@qd.func
def _before_tile(scratch, tile, tiles, own_runs, own_value, dtype: Constant, op: Constant):
    """Returns the result of everything before a subgroup's own rows, and the number of runs up to the end of the tile."""
    parts_runs = block.SharedArray((BLOCK // _device.SUBGROUP_SIZE,), qd.i32)
    parts = block.SharedArray((BLOCK // _device.SUBGROUP_SIZE,), dtype)
    shared_runs = block.SharedArray((1,), qd.i32)
    shared = block.SharedArray((1,), dtype)
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
    if group == 0:
        earlier_runs, earlier = _look_back(scratch, tile, tiles, all_runs, whole, dtype, op)
        if thread_idx() == 0:
            shared_runs[0] = earlier_runs
            shared[0] = earlier
    block_sync()
    value = qd.select(runs > 0, value, op(shared[0], value))
    return runs + shared_runs[0], value, all_runs + shared_runs[0]


@qd.func
def _scan_run_parts(value, starts, op: Constant):
    """Returns the folds of a row's values from the beginning of their run on, or of the row."""
    lane = subgroup.invocation_id()
    up_to = starts & subgroup.lanemask_le(lane)
    length = lane
    if up_to != 0:
        length = lane - qd.static(_device.SUBGROUP_SIZE - 1) + qd.i32(qd.math.clz(up_to))
    result = value
    for step in qd.static(range(_device.LOG2_SUBGROUP_SIZE)):
        other = shuffle(result, (lane - qd.static(1 << step)) & qd.static(_device.SUBGROUP_SIZE - 1))
        if length >= qd.static(1 << step):
            result = op(other, result)
    return result


@qd.func
def _find_starts(keys, first, left, own, rows: Constant):
    """Returns a mask for each of a subgroup's rows: the lanes whose keys begin runs. `own`: the thread's keys."""
    lane = subgroup.invocation_id()
    starts = qd.Vector.zero(_device.MASK, rows)
    previous = own[0]  # of lane 0: the key before the row
    if first + row_place(rows, 0) > 0 and row_place(rows, 0) < left:
        previous = keys[at(keys, first + row_place(rows, 0) - 1)]
    for k in qd.static(range(rows)):
        before = shuffle(own[k], (lane - 1) & qd.static(_device.SUBGROUP_SIZE - 1))
        is_start = qd.select(lane > 0, before, previous) != own[k]
        if qd.static(k == 0):
            is_start = is_start or first + row_place(rows, k) == 0
        starts[k] = _device.MASK(subgroup.ballot(is_start and row_place(rows, k) < left))
        previous = shuffle(own[k], qd.static(_device.SUBGROUP_SIZE - 1))
    return starts


@qd.func(requires_top_level=True)
def _reduce_in_one_pass(keys_in, values_in, keys_out, values_out, num_runs, scratch, n, dtype: Constant, op: Constant):
    rows = qd.static(rows_of(dtype))
    size = qd.static(BLOCK * rows_of(dtype))
    clear_words(scratch, qd.static(4 * _entry_words(dtype) + 1) * ((n - 1) // size))
    qd.loop_config(block_dim=BLOCK)
    for _ in range(qd.max((n - 1) // size + 1, 1) * BLOCK):
        tiles = qd.max(count_tiles(n, size), 1)
        tile = take_tile(scratch, 0, tiles)
        first = tile * size
        left = n - first
        none = dtype(qd.static(identity(op, dtype)))
        keys = load_rows(keys_in, first, left, keys_in.dtype(0), rows, keys_in.dtype)
        folds = load_rows(values_in, first, left, none, rows, dtype)
        starts = _find_starts(keys_in, first, left, keys, rows)
        upper = subgroup.lanemask_le(subgroup.invocation_id())
        carried = none
        count = 0
        for k in qd.static(range(rows)):
            folds[k] = _scan_run_parts(folds[k], starts[k], op)
            if starts[k] & upper == 0:
                folds[k] = op(carried, folds[k])
            carried = shuffle(folds[k], qd.static(_device.SUBGROUP_SIZE - 1))
            count += qd.i32(qd.math.popcnt(starts[k]))
        runs_before, before, all_runs = _before_tile(scratch, tile, tiles, count, carried, dtype, op)
        # The last lane of a subgroup's last row looks at the next key; others see in the masks whether a run ends with their element.
        ends = False
        last = row_place(rows, qd.static(rows - 1))
        if last + 1 < left:
            ends = _starts_run(keys_in, first + last + 1)
        run = runs_before
        is_open = True  # no run has begun in the subgroup's rows
        for k in qd.static(range(rows)):
            own, whole = count_votes(starts[k])
            is_start = starts[k] & subgroup.lanemask_eq(subgroup.invocation_id()) != 0
            next_starts = starts[k] >> 1
            if qd.static(k < rows - 1):
                next_starts |= (starts[k + 1] & 1) << qd.static(_device.SUBGROUP_SIZE - 1)
            is_end = next_starts & subgroup.lanemask_eq(subgroup.invocation_id()) != 0
            if qd.static(k == rows - 1):
                is_end = is_end or (ends and subgroup.invocation_id() == qd.static(_device.SUBGROUP_SIZE - 1))
            is_end = is_end or row_place(rows, k) + 1 == left
            number = run + own + qd.i32(is_start) - 1
            if is_start:
                keys_out[at(keys_out, number)] = keys[k]
            if is_end:
                values_out[at(values_out, number)] = qd.select(is_open and own + qd.i32(is_start) == 0, op(before, folds[k]), folds[k])
            run += whole
            is_open = is_open and whole == 0
        if thread_idx() == 0 and tile == tiles - 1:
            num_runs[at(num_runs, 0)] = all_runs


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
    qd.static(check_fold(value_dtype, log256_max_n))
    if qd.static(_device.BLOCKS_PROGRESS):
        _reduce_in_one_pass(keys_in, values_in, keys_out, values_out, num_runs, scratch, n, value_dtype, op)
    else:
        _reduce_in_two_passes(keys_in, values_in, keys_out, values_out, num_runs, scratch, n, value_dtype, op)


reduce_by_key_add, reduce_by_key_min, reduce_by_key_max = specialize_folds(_reduce_by_key, "reduce_by_key_{}")

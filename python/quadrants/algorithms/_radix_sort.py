"""A stable radix sort, eight bits at a time from the lowest.

On devices with grids one pass is one sweep over the keys (Adinets and Merrill, Onesweep: A Faster Least Significant Digit Radix Sort for
GPUs, 2022): a block ranks the keys of a tile by their digits in shared memory, looks back for the number of keys with each digit in the
tiles before, and moves the keys. On processors a pass counts the digits of each chunk, converts the counts to positions, and moves the
elements; a row of counts belongs to a chunk, and one iteration sums a column, so that neighboring iterations read neighboring elements.
"""

import operator
from typing import Any

import quadrants as qd

from .._base import device as _device
from .._base.dtypes import find_dtype
from ..simt import block, subgroup
from ..simt._primitives import block_sync, pin, shuffle, thread_idx
from ._blocks import Constant, at, check_fold, check_types
from ._counting_sort import least_count, sort_by_counts
from ._quicksort import sort_in_lanes
from ._scratch import check_count, check_length, check_scratch, needed_levels
from ._scratch import least_depth as _min_log256_for_n  # noqa: F401  (programs import it from here)
from ._sortable import from_sortable, to_sortable, unsigned_of
from ._tiles import BLOCK, fold_before, from_word, is_in_row, last_lane, load_rows, row_place, scan_lanes, take_tile, to_word

_DIGITS = 256
_CHUNK = 16384  # keys that one iteration moves on a processor
_COUNTERS = 1024  # blocks that count the digits of all keys
_BLOCKS = 2  # that move tiles, on a multiprocessor at a time
_THREADS = 512  # of a block that sorts all keys
_FEW, _MANY = 2, 8  # keys of each of its threads, half as many of eight bytes; see `_most_rows`


def _has_small_blocks() -> bool:
    """Whether the blocks of the device have little shared memory."""
    return 0 < _device.SHARED_BYTES < 40 << 10


def _most_rows(dtype: Any) -> int:
    """Returns how many keys a thread of a block has that sorts all keys.

    Two tiles of wide keys need as much scratch memory as there is for 3072 keys. Small blocks have tiles of 2048 keys, so one of them sorts
    what would need two tiles and has less scratch memory.
    """
    if find_dtype(dtype).size < 8:
        return _MANY
    return 6 if _has_small_blocks() else _MANY // 2


def shape_of_tile(*dtypes: Any) -> tuple[int, int]:
    """Returns how many threads move a tile, and how many keys each: registers and shared memory hold the keys and one value for each.

    Blocks of `BLOCK` threads count the digits of tiles, so it divides their number of keys.
    """
    is_wide = any(find_dtype(dtype).size == 8 for dtype in dtypes)
    if _has_small_blocks():
        return 256, 8 if is_wide else 16
    if is_wide:
        return 384, 12
    return (512, 16) if len(dtypes) == 1 else (384, 16)


def check_sort(dtype: Any, end_bit: Any, log256_max_n: Any, **given: Any) -> None:
    check_fold(dtype, log256_max_n, **given)
    bits = 8 * find_dtype(dtype).size
    if end_bit % 8 or not 8 <= end_bit <= bits:
        raise ValueError(f"end_bit must be a multiple of 8 from 8 to the {bits} bits of the keys, got {end_bit}")


def value_dtypes(has_values: bool, dtype: Any) -> tuple[Any, ...]:
    """Returns the types of the values that threads exchange: none where they exchange positions."""
    return (dtype,) if has_values and dtype is not None else ()


def _is_wide(dtype: Any, has_values: bool, value_dtype: Any) -> bool:
    """Whether threads exchange keys or values of eight bytes."""
    return any(find_dtype(kind).size == 8 for kind in (dtype, *value_dtypes(has_values, value_dtype)))


@qd.func
def _digit(key, dtype: Constant, bit: Constant):
    return qd.i32(to_sortable(key, dtype) >> bit & 255)


# --- Grids ---
# Scratch memory: for each pass the number of keys with each digit, then their positions; for each pass the number of tiles that are taken;
# two tables with a word for each tile and digit, which passes use in turn, while they clear the other one. Words are 0 first, then 1 + the
# keys with the digit in the tile, then, with the highest bit set, those in all tiles up to this one.


@qd.func
def _put(room, place, word, size: Constant, is_wide: Constant):
    """Stores a word in shared memory, one of eight bytes in two halves."""
    if qd.static(is_wide):
        room[place] = qd.u32(word & qd.u64(0xFFFFFFFF))
        room[size + place] = qd.u32(word >> 32)
    else:
        room[place] = qd.u32(word)


@qd.func
def _get(room, place, size: Constant, is_wide: Constant):
    if qd.static(is_wide):
        return qd.u64(room[place]) | qd.u64(room[size + place]) << 32
    return room[place]


@qd.func
def _sum_before(count):
    """Returns the sum of the counts of the threads before this one, on threads with a digit."""
    running, whole = scan_lanes(count, qd.u32, operator.add)
    before, _ = fold_before(whole, qd.u32, operator.add, _DIGITS)
    return before + running


@qd.func
def _match(digit):
    """Returns a bit for each lane of the subgroup that has the same digit."""
    same = _device.MASK(qd.static((1 << _device.SUBGROUP_SIZE) - 1))
    for bit in qd.static(range(8)):
        # LLVM does not see that it is one bit, for which it would compute a mask with more instructions than the selection.
        is_clear = pin(digit & qd.static(1 << bit)) == 0
        votes = _device.MASK(subgroup.ballot(is_clear))
        same &= qd.select(is_clear, votes, ~votes)
    return same


@qd.func
def _load_bits(keys, first, left, dtype: Constant, rows: Constant, threads: Constant):
    """Returns a thread's keys of a tile as unsigned integers, the largest ones behind the last key."""
    own = load_rows(keys, first, left, dtype(0), rows, dtype, threads)
    bits = qd.Vector.zero(qd.static(unsigned_of(dtype)), rows)
    for k in qd.static(range(rows)):
        bits[k] = to_sortable(own[k], dtype)
        if not is_in_row(rows, k, left):
            bits[k] = ~qd.zero(bits[k])
    return bits


# A block ranks keys with a table in shared memory, a row of counts for each of its teams: one subgroup, or as many small ones as have 32
# lanes together, which take turns. Before the ranks are known, each team counts its digits, so that other blocks need not wait for them.


def team_size() -> int:
    """Returns how many threads count in one row of a table. More rows than these would take more shared memory than small devices have."""
    return max(_device.SUBGROUP_SIZE, 32)


@qd.func
def _count_digits(bits, bit, table, rows: Constant, threads: Constant):
    """Fills the table, and returns the number of the block's keys with the thread's digit, 0 on threads without one."""
    own = thread_idx() // qd.static(team_size()) * _DIGITS
    for k in qd.static(range(_DIGITS // team_size())):
        table[own + qd.static(k * team_size()) + (thread_idx() & qd.static(team_size() - 1))] = 0
    if qd.static(team_size() == _device.SUBGROUP_SIZE):
        subgroup.sync()
    else:
        block_sync()
    for k in qd.static(range(rows)):
        qd.atomic_add(table[own + qd.i32(bits[k] >> bit & 255)], 1)
    block_sync()
    total = qd.u32(0)
    if thread_idx() < _DIGITS:
        for group in qd.static(range(threads // team_size())):
            total += table[qd.static(group * _DIGITS) + thread_idx()]
    return total


@qd.func
def _take_places(ranks: Constant, bits, bit, table, rows: Constant):
    """Gives a thread's keys their places. Row by row the last of the lanes with the same digit takes places for all of them."""
    own = thread_idx() // qd.static(team_size()) * _DIGITS
    lane = subgroup.invocation_id()
    for k in qd.static(range(rows)):
        digit = pin(qd.i32(bits[k] >> bit & 255))  # computed again, because registers are few
        same = _match(digit)
        up_to = qd.i32(qd.math.popcnt(same & subgroup.lanemask_le(lane)))
        last = last_lane(same)
        place = qd.u32(0)
        if lane == last:
            place = qd.atomic_add(table[own + digit], qd.u32(up_to))
        ranks[k] = qd.i32(shuffle(place, last)) + up_to - 1


@qd.func
def _rank_rows(bits, bit, table, start, rows: Constant, threads: Constant):
    """Returns the places of a thread's keys in the order of their digits; `start`: the place of the first key with the thread's digit.

    The table becomes the place of each team's next key with a digit.
    """
    if thread_idx() < _DIGITS:
        place = start
        for group in qd.static(range(threads // team_size())):
            count = table[qd.static(group * _DIGITS) + thread_idx()]
            table[qd.static(group * _DIGITS) + thread_idx()] = place
            place += count
    block_sync()
    ranks = qd.Vector.zero(qd.i32, rows)
    if qd.static(team_size() == _device.SUBGROUP_SIZE):
        _take_places(ranks, bits, bit, table, rows)
    else:
        # The keys of a subgroup come before those of the next one.
        for turn in range(qd.static(team_size() // _device.SUBGROUP_SIZE)):
            if turn == thread_idx() % qd.static(team_size()) // _device.SUBGROUP_SIZE:
                _take_places(ranks, bits, bit, table, rows)
            block_sync()
    block_sync()
    return ranks


@qd.func
def _sort_in_block(keys, values, tmp_values, room, n, dtype: Constant, has_values: Constant, passes: Constant, rows: Constant):
    """Sorts all keys, as many as a block of `_THREADS` threads with so many rows has; positions of values move along."""
    size = qd.static(_THREADS * rows)
    is_wide = qd.static(dtype.size == 8)
    bits = _load_bits(keys, 0, n, dtype, rows, _THREADS)
    order = qd.Vector.zero(qd.i32, rows)
    for k in qd.static(range(rows)):
        order[k] = row_place(rows, k)
    for p in range(passes):
        start = _sum_before(_count_digits(bits, 8 * p, room, rows, _THREADS))
        ranks = _rank_rows(bits, 8 * p, room, start, rows, _THREADS)
        for k in qd.static(range(rows)):
            _put(room, ranks[k], bits[k], size, is_wide)
        block_sync()
        for k in qd.static(range(rows)):
            bits[k] = qd.cast(_get(room, row_place(rows, k), size, is_wide), qd.static(unsigned_of(dtype)))
        block_sync()
        if qd.static(has_values):
            for k in qd.static(range(rows)):
                room[ranks[k]] = qd.u32(order[k])
            block_sync()
            for k in qd.static(range(rows)):
                order[k] = qd.i32(room[row_place(rows, k)])
            block_sync()
    for k in qd.static(range(rows)):
        if is_in_row(rows, k, n):
            keys[at(keys, row_place(rows, k))] = from_sortable(bits[k], dtype)
            if qd.static(has_values):
                tmp_values[at(tmp_values, row_place(rows, k))] = values[at(values, order[k])]
    if qd.static(has_values):
        block_sync()
        for k in qd.static(range(rows)):
            if is_in_row(rows, k, n):
                values[at(values, row_place(rows, k))] = tmp_values[at(tmp_values, row_place(rows, k))]


@qd.func(requires_top_level=True)
def _prepare(keys, values, tmp_values, scratch, n, words, threads, dtype: Constant, has_values: Constant, passes: Constant):
    """Sorts all keys if one block can, and clears words of scratch memory otherwise."""
    few, many = qd.static(_FEW * 4 // max(dtype.size, 4)), qd.static(_most_rows(dtype))
    qd.loop_config(block_dim=_THREADS)
    for i in range(threads):
        room = block.SharedArray((_THREADS * max(many * max(dtype.size, 4) // 4, _DIGITS // team_size()),), qd.u32)
        if n <= few * _THREADS:
            _sort_in_block(keys, values, tmp_values, room, n, dtype, has_values, passes, few)
        elif n <= many * _THREADS:
            _sort_in_block(keys, values, tmp_values, room, n, dtype, has_values, passes, many)
        elif i < words:
            scratch[at(scratch, i)] = 0


@qd.func(requires_top_level=True)
def _count_all(keys, scratch, n, others, threads, dtype: Constant, passes: Constant, size: Constant):
    """Counts the digits of all keys, if there are `others`: tiles behind the first one."""
    rows = qd.static(size // BLOCK)
    qd.loop_config(block_dim=BLOCK)
    for i in range(threads):
        counts = block.SharedArray((_DIGITS * passes,), qd.i32)
        for p in qd.static(range(passes)):
            counts[p * _DIGITS + thread_idx()] = 0
        block_sync()
        for tile in range(i // BLOCK, others + 1, qd.min(others, _COUNTERS)):
            left = n - tile * size
            own = load_rows(keys, tile * size, left, dtype(0), rows, dtype)
            for k in qd.static(range(rows)):
                if is_in_row(rows, k, left):
                    for p in qd.static(range(passes)):
                        qd.atomic_add(counts[p * _DIGITS + _digit(own[k], dtype, qd.static(8 * p))], 1)
        block_sync()
        for p in qd.static(range(passes)):
            qd.atomic_add(scratch[at(scratch, p * _DIGITS + thread_idx())], qd.u32(counts[p * _DIGITS + thread_idx()]))


@qd.func
def _wait_for_count(scratch, slot):
    word = qd.volatile_load(scratch[at(scratch, slot)])
    while word == 0:
        word = qd.volatile_load(scratch[at(scratch, slot)])
    return word


@qd.func
def _look_back(scratch, table, tile):
    """Returns where a thread's digit of a tile begins in the order of all keys. `table`: the slot of tile 0."""
    ready = qd.u32(1 << 31)
    before = qd.u32(0)
    other = tile - 1
    word = _wait_for_count(scratch, table + other * _DIGITS)
    while word < ready:
        before += word - 1
        other -= 1
        word = _wait_for_count(scratch, table + other * _DIGITS)
    return before + (word - ready)


@qd.func
def _move_tile(
    keys, to_keys, values, to_values, scratch, tile, tiles, n, dtype: Constant, has_values: Constant, value_dtype: Constant, bit: Constant,
    passes: Constant, threads: Constant, rows: Constant, waits: Constant
):  # fmt: skip
    """Moves the keys of a tile to their places of a pass, and the values along; None is the type of values that are no scalars."""
    size = qd.static(threads * rows)
    first = tile * size
    left = n - first
    is_wide = qd.static(_is_wide(dtype, has_values, value_dtype))
    ready = qd.u32(1 << 31)
    offsets = block.SharedArray((_DIGITS,), qd.i32)
    room = block.SharedArray((max(size * (1 + is_wide), _DIGITS * threads // team_size()),), qd.u32)
    has_digit = thread_idx() < _DIGITS
    tables = qd.static((_DIGITS + 1) * passes) + thread_idx()
    table = tables + qd.static(bit // 8 % 2) * (tiles * _DIGITS)
    bits = _load_bits(keys, first, left, dtype, rows, threads)
    count = _count_digits(bits, bit, room, rows, threads)
    begin = qd.u32(0)
    if qd.static(waits):
        if tile == 0 and tiles > 1:
            whole = qd.u32(0)
            if has_digit:
                whole = scratch[at(scratch, qd.static(bit // 8 * _DIGITS) + thread_idx())]
            begin = _sum_before(whole)
        if has_digit and tiles > 1:
            scratch[at(scratch, table + tile * _DIGITS)] = qd.select(tile == 0, ready + begin, qd.u32(1)) + count
            scratch[at(scratch, tables + qd.static(1 - bit // 8 % 2) * (tiles * _DIGITS) + tile * _DIGITS)] = 0
    start = _sum_before(count)
    ranks = _rank_rows(bits, bit, room, start, rows, threads)
    for k in qd.static(range(rows)):
        _put(room, ranks[k], bits[k], size, qd.static(dtype.size == 8))
    if has_digit:
        if tiles == 1:
            begin = start
        elif qd.static(not waits):
            begin = scratch[at(scratch, table + tile * _DIGITS)]
        elif tile > 0:
            begin = _look_back(scratch, table, tile)
            scratch[at(scratch, table + tile * _DIGITS)] = ready + (begin + count)
        offsets[thread_idx()] = qd.i32(begin - start)
    block_sync()
    places = qd.Vector.zero(qd.i32, rows)
    for k in qd.static(range(rows)):
        place = k * threads + thread_idx()
        is_inside = thread_idx() < left - k * threads  # see is_in_row
        key = _get(room, place, size, qd.static(dtype.size == 8))
        places[k] = offsets[qd.i32(key >> bit & 255)] + place
        if is_inside:
            to_keys[at(to_keys, places[k])] = from_sortable(qd.cast(key, qd.static(unsigned_of(dtype))), dtype)
    if qd.static(has_values):
        if qd.static(value_dtype is not None):
            moved = load_rows(values, first, left, value_dtype(0), rows, value_dtype, threads)
        block_sync()
        for k in qd.static(range(rows)):
            if qd.static(value_dtype is None):
                room[ranks[k]] = qd.u32(row_place(rows, k))
            else:
                _put(room, ranks[k], to_word(moved[k], value_dtype), size, qd.static(value_dtype.size == 8))
        block_sync()
        for k in qd.static(range(rows)):
            place = k * threads + thread_idx()
            if thread_idx() < left - k * threads:
                if qd.static(value_dtype is None):
                    to_values[at(to_values, places[k])] = values[at(values, first + qd.i32(room[place]))]
                else:
                    word = _get(room, place, size, qd.static(value_dtype.size == 8))
                    to_values[at(to_values, places[k])] = from_word(word, value_dtype)


@qd.func(requires_top_level=True)
def _sweep(
    keys, to_keys, values, to_values, scratch, n, tiles, dtype: Constant, has_values: Constant, value_dtype: Constant, bit: Constant,
    passes: Constant, threads: Constant, rows: Constant
):  # fmt: skip
    """One pass over all tiles, in the order in which blocks begin."""
    qd.loop_config(block_dim=threads, min_blocks=_BLOCKS)
    for _ in range(tiles * threads):
        tile = take_tile(scratch, qd.static(_DIGITS * passes + bit // 8), tiles)
        _move_tile(
            keys, to_keys, values, to_values, scratch, tile, tiles, n, dtype, has_values, value_dtype, bit, passes, threads, rows, True
        )


@qd.func(requires_top_level=True)
def _pass_of_tiles(
    keys, to_keys, values, to_values, scratch, n, tiles, dtype: Constant, has_values: Constant, value_dtype: Constant, bit: Constant,
    passes: Constant, threads: Constant, rows: Constant
):  # fmt: skip
    """One pass where blocks cannot wait for each other: counts the digits of each tile, sums the counts, and moves the tiles."""
    size = qd.static(threads * rows)
    rows_of_counts = qd.static(size // BLOCK)
    several = qd.select(tiles > 1, tiles, 0)
    table = qd.static((_DIGITS + 1) * passes) + qd.static(bit // 8 % 2) * (several * _DIGITS)
    qd.loop_config(block_dim=BLOCK)
    for i in range(several * BLOCK):
        tile = i // BLOCK
        counts = block.SharedArray((_DIGITS,), qd.i32)
        counts[thread_idx()] = 0
        block_sync()
        own = load_rows(keys, tile * size, n - tile * size, dtype(0), rows_of_counts, dtype)
        for k in qd.static(range(rows_of_counts)):
            if is_in_row(rows_of_counts, k, n - tile * size):
                qd.atomic_add(counts[_digit(own[k], dtype, bit)], 1)
        block_sync()
        scratch[at(scratch, table + i)] = qd.u32(counts[thread_idx()])
    qd.loop_config(block_dim=BLOCK)
    for digit in range(qd.min(several, 1) * BLOCK):
        position = _sum_before(scratch[at(scratch, qd.static(bit // 8 * _DIGITS) + digit)])
        for tile in range(several):
            slot = at(scratch, table + tile * _DIGITS + digit)
            count = scratch[slot]
            scratch[slot] = position
            position += count
    qd.loop_config(block_dim=threads)
    for i in range(tiles * threads):
        _move_tile(
            keys, to_keys, values, to_values, scratch, i // threads, tiles, n, dtype, has_values, value_dtype, bit, passes, threads, rows,
            False
        )  # fmt: skip


@qd.func(requires_top_level=True)
def _sort_on_grid(
    keys, tmp_keys, values, tmp_values, scratch, count, dtype: Constant, has_values: Constant, value_dtype: Constant, end_bit: Constant
):
    passes = qd.static(end_bit // 8)
    threads, rows = qd.static(shape_of_tile(dtype, *value_dtypes(has_values, value_dtype)))
    size = qd.static(threads * rows)
    one_pass = qd.static(_sweep if _device.BLOCKS_PROGRESS else _pass_of_tiles)
    # All numbers of iterations first: they are one task then.
    is_small = count <= qd.static(_THREADS * _most_rows(dtype))  # one block sorts the keys
    tiles = qd.select(is_small, 0, (count - 1) // size + 1)
    words = qd.select(tiles > 1, tiles * _DIGITS + qd.static((_DIGITS + 1) * passes), 0)  # counts of digits and tiles, and a table
    blocks = qd.select(is_small, qd.i32(count > 1), (words + (_THREADS - 1)) // _THREADS)
    counters = qd.min(qd.max(tiles - 1, 0), _COUNTERS)
    _prepare(keys, values, tmp_values, scratch, count, words, blocks * _THREADS, dtype, has_values, passes)
    _count_all(keys, scratch, count, tiles - 1, counters * BLOCK, dtype, passes, size)
    for bit in qd.static(range(0, end_bit, 8)):
        if qd.static(bit % 16 == 0):
            one_pass(keys, tmp_keys, values, tmp_values, scratch, count, tiles, dtype, has_values, value_dtype, bit, passes, threads, rows)
        else:
            one_pass(tmp_keys, keys, tmp_values, values, scratch, count, tiles, dtype, has_values, value_dtype, bit, passes, threads, rows)
    _finish(keys, tmp_keys, values, tmp_values, qd.select(is_small, 0, count), has_values, end_bit)


@qd.func(requires_top_level=True)
def _finish(keys, tmp_keys, values, tmp_values, n, has_values: Constant, end_bit: Constant):
    """Moves back what an odd number of passes left in the spare arrays."""
    if qd.static(end_bit % 16 != 0):
        for i in range(n):
            keys[at(keys, i)] = tmp_keys[at(tmp_keys, i)]
            if qd.static(has_values):
                values[at(values, i)] = tmp_values[at(tmp_values, i)]


# --- Processors ---


@qd.func(requires_top_level=True)
def _pass_of_chunks(keys, to_keys, values, to_values, scratch, n, dtype: Constant, has_values: Constant, bit: Constant):
    chunks = (n - 1) // _CHUNK + 1
    for chunk in range(chunks):
        row = chunk * _DIGITS
        for digit in range(_DIGITS):
            scratch[at(scratch, row + digit)] = 0
        for i in range(chunk * _CHUNK, qd.min(n - chunk * _CHUNK, _CHUNK) + chunk * _CHUNK):
            slot = at(scratch, row + _digit(keys[at(keys, i)], dtype, bit))
            # No other iteration writes there: the addition need not be atomic. The volatile load keeps the loop out of lanes, whose chunks
            # would be far apart.
            scratch[slot] = qd.volatile_load(scratch[slot]) + 1
    # Sums each column: how many keys have the digit in the chunks up to this one. The last row holds all of them, and then their first
    # position.
    for digit in range(qd.min(chunks, 1) * _DIGITS):
        count = qd.u32(0)
        for chunk in range(chunks):
            slot = at(scratch, chunk * _DIGITS + digit)
            count += scratch[slot]
            scratch[slot] = count
    begin = qd.u32(0)
    qd.loop_config(serialize=True)
    for digit in range(qd.min(chunks, 1) * _DIGITS):
        slot = at(scratch, (chunks - 1) * _DIGITS + digit)
        count = scratch[slot]
        scratch[slot] = begin
        begin += count
    for digit in range(qd.min(chunks, 1) * _DIGITS):
        first = scratch[at(scratch, (chunks - 1) * _DIGITS + digit)]
        for step in range(1, chunks):
            slot = at(scratch, (chunks - step) * _DIGITS + digit)
            scratch[slot] = first + scratch[slot - _DIGITS]
        scratch[at(scratch, digit)] = first
    for chunk in range(chunks):
        for i in range(chunk * _CHUNK, qd.min(n - chunk * _CHUNK, _CHUNK) + chunk * _CHUNK):
            slot = at(scratch, chunk * _DIGITS + _digit(keys[at(keys, i)], dtype, bit))
            position = qd.i32(qd.volatile_load(scratch[slot]))
            scratch[slot] = qd.u32(position + 1)
            to_keys[at(to_keys, position)] = keys[at(keys, i)]
            if qd.static(has_values):
                to_values[at(to_values, position)] = values[at(values, i)]


@qd.func(requires_top_level=True)
def sort_elements(keys, tmp_keys, values, tmp_values, scratch, count, key_dtype: Constant, has_values: Constant, end_bit: Constant):
    """Same as `sort`, with a number of elements, and without checks."""
    is_scalar = qd.static(has_values and not isinstance(values, qd.StructField) and values.element_shape == ())
    if qd.static(_device.HAS_GRIDS):
        value_dtype = qd.static(values.dtype if is_scalar else None)
        _sort_on_grid(keys, tmp_keys, values, tmp_values, scratch, count, key_dtype, has_values, value_dtype, end_bit)
    elif qd.static(
        end_bit == 8 * key_dtype.size >= 16
        and keys._compacts
        and tmp_keys._compacts
        and (not has_values or (is_scalar and values._compacts and tmp_values._compacts))
    ):
        sort_in_lanes(keys, tmp_keys, values, tmp_values, scratch, count, has_values, key_dtype)
    else:
        left = count
        if qd.static(end_bit == 8 * key_dtype.size <= 16 and not has_values):
            left = qd.select(count < qd.static(least_count(key_dtype)), count, 0)
            sort_by_counts(keys, scratch, count - left, key_dtype)
        for bit in qd.static(range(0, end_bit, 8)):
            if qd.static(bit % 16 == 0):
                _pass_of_chunks(keys, tmp_keys, values, tmp_values, scratch, left, key_dtype, has_values, bit)
            else:
                _pass_of_chunks(tmp_keys, keys, tmp_values, values, scratch, left, key_dtype, has_values, bit)
        _finish(keys, tmp_keys, values, tmp_values, left, has_values, end_bit)


@qd.func(requires_top_level=True)
def sort(
    keys, tmp_keys, values, tmp_values, scratch, n, key_dtype: Constant, has_values: Constant, end_bit: Constant, log256_max_n: Constant
):
    """Sort the first n elements of `keys` in place, ascending and stable, and move those of `values` along.

    Floats are ordered by their bits: -0.0 before 0.0, NaN at the end, negative NaN at the beginning.

    From Python: `sort(keys, values=None, *, stable=True, descending=False)` sorts whole containers with one axis in place: fields,
    ndarrays, tensors, torch tensors and NumPy arrays.

    Args: `keys`, `tmp_keys`: 1-D arrays of `key_dtype` (i8…i64, u8…u64, f16, f32, f64). `values`, `tmp_values`: 1-D
    arrays of one type; with `has_values=False`, pass the keys again. `scratch`: 1-D array of u32 of `sort_scratch_slots(n)` elements.
    `n`: 0-d array of i32, at most 256^log256_max_n. `end_bit`: sorts only by the bits below it; a multiple of 8. `log256_max_n`:
    compile-time integer, 1…4.
    Raises NotImplementedError for other types of keys, ValueError and TypeError for other numbers, shapes and elements.
    """
    qd.static(check_sort(key_dtype, end_bit, log256_max_n, keys=keys.dtype, tmp_keys=tmp_keys.dtype))
    qd.static(not has_values or isinstance(values, qd.StructField) or check_types(values.dtype, tmp_values=tmp_values.dtype))
    qd.static(check_types(qd.u32, scratch=scratch.dtype))
    if qd.static(_device.HAS_CHECKS):
        check_count("sort", n[()], log256_max_n)
        counts = (n[()] + 255) // 256 * 256
        check_scratch("sort", scratch, counts + needed_levels(counts))
        for what, arr in qd.static([("keys", keys), ("tmp_keys", tmp_keys), ("values", values), ("tmp_values", tmp_values)]):
            check_length("sort", what, arr, n[()])
    sort_elements(keys, tmp_keys, values, tmp_values, scratch, n[()], key_dtype, has_values, end_bit)

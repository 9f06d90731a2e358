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
from ..simt._primitives import block_sync, thread_idx
from ._blocks import Constant, at, carrier, check_fold
from ._scratch import least_depth as _min_log256_for_n  # noqa: F401  (programs import it from here)
from ._tiles import (
    BLOCK,
    clear_words,
    count_tiles,
    count_votes,
    fold_before,
    from_word,
    load_rows,
    row_place,
    scan_rows,
    take_tile,
    to_word,
)

_DIGITS = 256
_CHUNK = 16384  # keys that one iteration moves on a processor
_TILE = 16 * BLOCK  # keys that a block moves on a device with grids; its shared memory holds the keys, or one value for each of them
_COUNTERS = 1024  # blocks that count the digits of all keys


def check_sort(dtype: Any, end_bit: Any, log256_max_n: Any) -> None:
    check_fold(dtype, log256_max_n)
    bits = 8 * find_dtype(dtype).size
    if bits < 16:
        raise NotImplementedError(f"dtype must have 16 bits at least, got {dtype!r}")
    if end_bit % 16 or not 16 <= end_bit <= bits:
        raise ValueError(f"end_bit must be a multiple of 16 from 16 to the {bits} bits of the keys, got {end_bit}")


def _unsigned(dtype: Any) -> Any:
    return {2: qd.u16, 4: qd.u32, 8: qd.u64}[find_dtype(dtype).size]


def value_dtypes(has_values: bool, dtype: Any) -> tuple[Any, ...]:
    """Returns the types of the values that threads exchange: none where they exchange positions."""
    return (dtype,) if has_values and dtype is not None else ()


def _exchanged(*dtypes: Any) -> Any:
    """Returns the type of the words in which threads exchange keys and values."""
    return qd.u64 if any(find_dtype(dtype).size == 8 for dtype in dtypes) else qd.u32


@qd.func
def to_sortable(key, dtype: Constant):
    """Maps keys to unsigned integers of the same order: -0.0 before 0.0, NaN last, negative NaN first."""
    unsigned = qd.static(_unsigned(dtype))
    bits = qd.bit_cast(key, unsigned)
    sign = unsigned(qd.static(1 << (8 * find_dtype(dtype).size - 1)))
    if qd.static(find_dtype(dtype).is_real):
        bits = qd.select(bits >= sign, ~bits, bits | sign)
    elif qd.static(find_dtype(dtype).is_signed):
        bits ^= sign
    return bits


@qd.func
def from_sortable(bits, dtype: Constant):
    """Returns the key that `to_sortable` mapped to bits."""
    sign = qd.static(_unsigned(dtype))(qd.static(1 << (8 * find_dtype(dtype).size - 1)))
    if qd.static(find_dtype(dtype).is_real):
        bits = qd.select(bits >= sign, bits ^ sign, ~bits)
    elif qd.static(find_dtype(dtype).is_signed):
        bits ^= sign
    return qd.bit_cast(bits, dtype)


@qd.func
def _digit(key, dtype: Constant, bit: Constant):
    return qd.i32(to_sortable(key, dtype) >> bit & 255)


# --- Grids ---
# Scratch memory: for each pass the number of keys with each digit, then their positions; for each pass the number of tiles that are taken;
# two tables with a word for each tile and digit, which passes use in turn, while they clear the other one. Words are 0 first, then 1 + the
# keys with the digit in the tile, then, with the highest bit set, those in all tiles up to this one.


@qd.func(requires_top_level=True)
def _count_all(keys, scratch, n, dtype: Constant, passes: Constant, size: Constant):
    """Counts the digits of all keys, if there are several tiles, and replaces the counts by the positions where the digits begin."""
    rows = qd.static(size // BLOCK)
    others = (n - 1) // size  # tiles behind the first one; without them no pass needs these counts
    clear_words(scratch, qd.min(others, 1) * qd.static((_DIGITS + 1) * passes + _DIGITS) + others * _DIGITS)
    qd.loop_config(block_dim=BLOCK)
    for i in range(qd.min(others, _COUNTERS) * BLOCK):
        counts = block.SharedArray((_DIGITS * passes,), qd.i32)
        for p in qd.static(range(passes)):
            counts[p * _DIGITS + thread_idx()] = 0
        block_sync()
        for tile in range(i // BLOCK, others + 1, qd.min(others, _COUNTERS)):
            left = n - tile * size
            own = load_rows(keys, tile * size, left, dtype(0), rows, dtype)
            for k in qd.static(range(rows)):
                if row_place(rows, k) < left:
                    for p in qd.static(range(passes)):
                        qd.atomic_add(counts[p * _DIGITS + _digit(own[k], dtype, qd.static(8 * p))], 1)
        block_sync()
        for p in qd.static(range(passes)):
            qd.atomic_add(scratch[at(scratch, p * _DIGITS + thread_idx())], qd.u32(counts[p * _DIGITS + thread_idx()]))
    qd.loop_config(block_dim=BLOCK)
    for thread in range(qd.min(others, 1) * BLOCK):
        for p in qd.static(range(passes)):
            slot = at(scratch, p * _DIGITS + thread)
            scratch[slot] = qd.u32(_sum_before(qd.i32(scratch[slot])))
            block_sync()


@qd.func
def _sum_before(count):
    """Returns the sum of the counts of the threads before this one."""
    running, whole = scan_rows(qd.Vector([count], qd.i32), 1, qd.i32, operator.add, False)
    before, _ = fold_before(whole, qd.i32, operator.add)
    return before + running[0]


@qd.func
def _wait_for_count(scratch, slot):
    word = qd.volatile_load(scratch[at(scratch, slot)])
    while word == 0:
        word = qd.volatile_load(scratch[at(scratch, slot)])
    return word


@qd.func
def _look_back(scratch, own, tile, count, begin):
    """Returns where a thread's digit begins in the order of all keys: `begin` and the keys of earlier tiles. `own`: the slot of tile 0."""
    ready = qd.u32(1 << 31)
    before = begin
    if tile > 0:
        scratch[at(scratch, own + tile * _DIGITS)] = qd.u32(count + 1)
        block_sync()
        before = qd.u32(0)
        other = tile - 1
        word = _wait_for_count(scratch, own + other * _DIGITS)
        while word < ready:
            before += word - 1
            other -= 1
            word = _wait_for_count(scratch, own + other * _DIGITS)
        before += word - ready
    scratch[at(scratch, own + tile * _DIGITS)] = ready + (before + qd.u32(count))
    return before


@qd.func
def _match(digit):
    """Returns a bit for each lane of the subgroup that has the same digit."""
    same = _device.MASK(qd.static((1 << _device.SUBGROUP_SIZE) - 1))
    for bit in qd.static(range(8)):
        is_set = digit & qd.static(1 << bit) != 0
        votes = _device.MASK(subgroup.ballot(is_set))
        same &= qd.select(is_set, votes, ~votes)
    return same


@qd.func
def _rank_rows(bits, bit: Constant, rows: Constant):
    """Returns the number of a block's keys with each digit, how many have a smaller one, and the place of a thread's keys in their order.

    Each subgroup counts digits, row by row: of the lanes with the same digit the first one adds their number.
    """
    counts = block.SharedArray((BLOCK // _device.SUBGROUP_SIZE, _DIGITS), qd.i32)
    starts = block.SharedArray((_DIGITS,), qd.i32)
    group = thread_idx() // _device.SUBGROUP_SIZE
    ranks = qd.Vector.zero(qd.i32, rows)
    for other in qd.static(range(BLOCK // _device.SUBGROUP_SIZE)):
        counts[other, thread_idx()] = 0
    block_sync()
    for k in qd.static(range(rows)):
        digit = qd.i32(bits[k] >> bit & 255)
        lower, matching = count_votes(_match(digit))
        before = counts[group, digit]
        subgroup.sync()
        if lower == 0:
            counts[group, digit] = before + matching
        subgroup.sync()
        ranks[k] = before + lower
    block_sync()
    total = 0
    for other in qd.static(range(BLOCK // _device.SUBGROUP_SIZE)):
        own = counts[other, thread_idx()]
        counts[other, thread_idx()] = total
        total += own
    start = _sum_before(total)
    starts[thread_idx()] = start
    block_sync()
    for k in qd.static(range(rows)):
        digit = qd.i32(bits[k] >> bit & 255)
        ranks[k] += starts[digit] + counts[group, digit]
    return total, start, ranks


@qd.func
def _move_tile(
    keys, to_keys, values, to_values, scratch, tile, tiles, n, dtype: Constant, has_values: Constant, value_dtype: Constant, bit: Constant,
    passes: Constant, size: Constant, waits: Constant
):  # fmt: skip
    """Moves the keys of a tile to their places of a pass, and the values along; None is the type of values that are no scalars."""
    rows = qd.static(size // BLOCK)
    first = tile * size
    left = n - first
    word = qd.static(_exchanged(dtype, *value_dtypes(has_values, value_dtype)))
    offsets = block.SharedArray((_DIGITS,), qd.i32)
    exchanged = block.SharedArray((size,), word)
    own = load_rows(keys, first, left, dtype(0), rows, dtype)
    bits = qd.Vector.zero(qd.static(_unsigned(dtype)), rows)
    for k in qd.static(range(rows)):
        bits[k] = to_sortable(own[k], dtype)
        if row_place(rows, k) >= left:
            bits[k] = ~qd.zero(bits[k])  # behind the last key
    count, start, ranks = _rank_rows(bits, bit, rows)
    for k in qd.static(range(rows)):
        exchanged[ranks[k]] = word(bits[k])
    begin = qd.u32(start)
    if tiles > 1:
        tables = qd.static((_DIGITS + 1) * passes) + thread_idx()
        table = tables + qd.static(bit // 8 % 2) * (tiles * _DIGITS)
        if qd.static(waits):
            scratch[at(scratch, tables + qd.static(1 - bit // 8 % 2) * (tiles * _DIGITS) + tile * _DIGITS)] = 0
            begin = _look_back(scratch, table, tile, count, scratch[at(scratch, qd.static(bit // 8 * _DIGITS) + thread_idx())])
        else:
            begin = scratch[at(scratch, table + tile * _DIGITS)]
    offsets[thread_idx()] = qd.i32(begin) - start
    block_sync()
    places = qd.Vector.zero(qd.i32, rows)
    for k in qd.static(range(rows)):
        place = k * BLOCK + thread_idx()
        key = exchanged[place]
        places[k] = offsets[qd.i32(key >> bit & 255)] + place
        if place < left:
            to_keys[at(to_keys, places[k])] = from_sortable(qd.cast(key, qd.static(_unsigned(dtype))), dtype)
    if qd.static(has_values):
        block_sync()
        for k in qd.static(range(rows)):
            if row_place(rows, k) < left:
                if qd.static(value_dtype is None):
                    exchanged[ranks[k]] = word(row_place(rows, k))
                else:
                    exchanged[ranks[k]] = word(to_word(values[at(values, first + row_place(rows, k))], value_dtype))
        block_sync()
        for k in qd.static(range(rows)):
            place = k * BLOCK + thread_idx()
            if place < left:
                if qd.static(value_dtype is None):
                    to_values[at(to_values, places[k])] = values[at(values, first + qd.i32(exchanged[place]))]
                else:
                    moved = qd.cast(exchanged[place], qd.static(carrier(value_dtype)))
                    to_values[at(to_values, places[k])] = from_word(moved, value_dtype)


@qd.func(requires_top_level=True)
def _sweep(
    keys, to_keys, values, to_values, scratch, n, dtype: Constant, has_values: Constant, value_dtype: Constant, bit: Constant,
    passes: Constant, size: Constant
):  # fmt: skip
    """One pass over all tiles, in the order in which blocks begin."""
    qd.loop_config(block_dim=BLOCK)
    for _ in range(((n - 1) // size + 1) * BLOCK):
        tiles = count_tiles(n, size)
        tile = take_tile(scratch, qd.static(_DIGITS * passes + bit // 8), tiles)
        _move_tile(keys, to_keys, values, to_values, scratch, tile, tiles, n, dtype, has_values, value_dtype, bit, passes, size, True)


@qd.func(requires_top_level=True)
def _pass_of_tiles(
    keys, to_keys, values, to_values, scratch, n, dtype: Constant, has_values: Constant, value_dtype: Constant, bit: Constant,
    passes: Constant, size: Constant
):  # fmt: skip
    """One pass where blocks cannot wait for each other: counts the digits of each tile, sums the counts, and moves the tiles."""
    rows = qd.static(size // BLOCK)
    several = qd.select(n > size, (n - 1) // size + 1, 0)
    table = qd.static((_DIGITS + 1) * passes) + qd.static(bit // 8 % 2) * (several * _DIGITS)
    qd.loop_config(block_dim=BLOCK)
    for i in range(several * BLOCK):
        tile = i // BLOCK
        counts = block.SharedArray((_DIGITS,), qd.i32)
        counts[thread_idx()] = 0
        block_sync()
        own = load_rows(keys, tile * size, n - tile * size, dtype(0), rows, dtype)
        for k in qd.static(range(rows)):
            if row_place(rows, k) < n - tile * size:
                qd.atomic_add(counts[_digit(own[k], dtype, bit)], 1)
        block_sync()
        scratch[at(scratch, table + i)] = qd.u32(counts[thread_idx()])
    for digit in range(qd.min(several, 1) * _DIGITS):
        position = scratch[at(scratch, qd.static(bit // 8 * _DIGITS) + digit)]
        for tile in range(several):
            slot = at(scratch, table + tile * _DIGITS + digit)
            count = scratch[slot]
            scratch[slot] = position
            position += count
    qd.loop_config(block_dim=BLOCK)
    for i in range(((n - 1) // size + 1) * BLOCK):
        _move_tile(
            keys, to_keys, values, to_values, scratch, i // BLOCK, count_tiles(n, size), n, dtype, has_values, value_dtype, bit, passes,
            size, False
        )  # fmt: skip


@qd.func(requires_top_level=True)
def _sort_on_grid(
    keys, tmp_keys, values, tmp_values, scratch, n, dtype: Constant, has_values: Constant, value_dtype: Constant, end_bit: Constant
):
    passes = qd.static(end_bit // 8)
    size = qd.static(_TILE)
    one_pass = qd.static(_sweep if _device.BLOCKS_PROGRESS else _pass_of_tiles)
    count = n[()]
    _count_all(keys, scratch, count, dtype, passes, size)
    for bit in qd.static(range(0, end_bit, 16)):
        one_pass(keys, tmp_keys, values, tmp_values, scratch, count, dtype, has_values, value_dtype, bit, passes, size)
        one_pass(tmp_keys, keys, tmp_values, values, scratch, count, dtype, has_values, value_dtype, qd.static(bit + 8), passes, size)


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
def sort(
    keys, tmp_keys, values, tmp_values, scratch, n, key_dtype: Constant, has_values: Constant, end_bit: Constant, log256_max_n: Constant
):
    """Sort the first n elements of `keys` in place, ascending and stable, and move those of `values` along.

    Floats are ordered by their bits: -0.0 before 0.0, NaN at the end, negative NaN at the beginning.

    From Python: `sort(keys, values=None, *, stable=True, descending=False)` sorts whole containers with one axis in place: fields,
    ndarrays, tensors, torch tensors and NumPy arrays.

    Args: `keys`, `tmp_keys`: 1-D arrays of `key_dtype` (i16, i32, i64, u16, u32, u64, f16, f32, f64). `values`, `tmp_values`: 1-D
    arrays of one type; with `has_values=False`, pass the keys again. `scratch`: 1-D array of u32 of `sort_scratch_slots(n)` elements.
    `n`: 0-d array of i32, at most 256^log256_max_n. `end_bit`: sorts only by the bits below it; a multiple of 16. `log256_max_n`:
    compile-time integer, 1…4.
    Raises NotImplementedError for other types of keys, ValueError and TypeError for other numbers, shapes and elements.
    """
    qd.static(check_sort(key_dtype, end_bit, log256_max_n))
    if qd.static(_device.HAS_GRIDS):
        if qd.static(not has_values or isinstance(values, qd.StructField)):
            _sort_on_grid(keys, tmp_keys, values, tmp_values, scratch, n, key_dtype, has_values, None, end_bit)
        elif qd.static(values.element_shape == ()):
            _sort_on_grid(keys, tmp_keys, values, tmp_values, scratch, n, key_dtype, has_values, values.dtype, end_bit)
        else:
            _sort_on_grid(keys, tmp_keys, values, tmp_values, scratch, n, key_dtype, has_values, None, end_bit)
    else:
        count = n[()]
        for bit in qd.static(range(0, end_bit, 16)):
            _pass_of_chunks(keys, tmp_keys, values, tmp_values, scratch, count, key_dtype, has_values, bit)
            _pass_of_chunks(tmp_keys, keys, tmp_values, values, scratch, count, key_dtype, has_values, qd.static(bit + 8))

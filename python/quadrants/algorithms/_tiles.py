"""What the algorithms share on devices with grids: tiles of an array, one for each block, and what blocks tell each other.

A subgroup reads rows of neighboring elements, one for each lane; a thread keeps one element of each of its rows in registers.

Blocks take tiles in order, and look back at the results of the tiles before theirs (decoupled look-back: Merrill and Garland, Single-pass
Parallel Prefix Scan with Decoupled Look-back, 2016). A result is stored in words of which each holds half of the bits and a mark, so that
a reader needs no fences. Where the sums of all tiles would be a chain, here they are a tree of a fixed shape: tiles publish their results,
the last one of a group of tiles (as many as a subgroup has lanes) that of the group, and the last one of a group of groups that of all
tiles up to it. So a tile waits for at most three results per lane, and the order of the additions depends on n only.
"""

from typing import Any

import quadrants as qd

from .._base import device as _device
from ..simt import block, subgroup
from ..simt._primitives import block_sync, shuffle, thread_idx
from ._blocks import Constant, at, carrier, identity

BLOCK = 256  # threads


def rows_of(rows: int, rows_if_wide: int, *dtypes: Any) -> int:
    """Returns the first number of elements that a thread keeps, the second one if any has eight bytes.

    Odd numbers let the threads of a subgroup that read their own elements in shared memory find them in different banks.
    """
    return rows_if_wide if any(dtype.size == 8 for dtype in dtypes) else rows


def half_bits(dtype: Any) -> int:
    """Returns how many bits of a value one word of scratch memory holds."""
    return 4 * carrier(dtype).size


@qd.func
def count_tiles(n, size: Constant):
    """Returns the number of tiles of n elements."""
    return (n - 1) // size + 1


@qd.func
def find_lane(rows: Constant):
    """Returns the position in its tile of a thread's first element."""
    lane = subgroup.invocation_id()
    return (thread_idx() - lane) * rows + lane


@qd.func
def row_place(rows: Constant, k: Constant):
    """Returns the position in its tile of a thread's element in row k."""
    return find_lane(rows) + qd.static(k * _device.SUBGROUP_SIZE)


@qd.func
def is_in_row(rows: Constant, k: Constant, left):
    """Whether a thread's element in row k is among the first `left` ones of its tile.

    The sum is on the side that differs from tile to tile: on the other side it would take a register for each row.
    """
    return find_lane(rows) < left - qd.static(k * _device.SUBGROUP_SIZE)


@qd.func
def count_votes(votes):
    """Returns the number of lanes before this one that voted, and of all."""
    before = qd.i32(qd.math.popcnt(votes & subgroup.lanemask_lt(subgroup.invocation_id())))
    return before, qd.i32(qd.math.popcnt(votes))


@qd.func
def last_lane(votes):
    """Returns the last lane that voted; some lane has."""
    return qd.static(8 * _device.MASK.size - 1) - qd.i32(qd.math.clz(votes))


@qd.func
def load_rows(arr, first, left, fill, rows: Constant, dtype: Constant, threads: Constant = BLOCK):
    """Returns a thread's elements of a tile that begins at `first`, of which `left` elements are in the array, and `fill` for others."""
    values = qd.Vector.zero(dtype, rows)
    place = find_lane(rows)
    own = qd.i64(first) + place  # with 64 bits the distances of the rows are constants in the addresses
    if left >= qd.static(threads * rows):
        for k in qd.static(range(rows)):
            values[k] = arr[at(arr, own + qd.static(k * _device.SUBGROUP_SIZE))]
    else:
        for k in qd.static(range(rows)):
            values[k] = fill
            if place < left - qd.static(k * _device.SUBGROUP_SIZE):
                values[k] = arr[at(arr, own + qd.static(k * _device.SUBGROUP_SIZE))]
    return values


@qd.func
def store_rows(arr, values, first, left, rows: Constant):
    """Stores a thread's elements of a tile."""
    place = find_lane(rows)
    own = qd.i64(first) + place
    if left >= qd.static(BLOCK * rows):
        for k in qd.static(range(rows)):
            arr[at(arr, own + qd.static(k * _device.SUBGROUP_SIZE))] = values[k]
    else:
        for k in qd.static(range(rows)):
            if place < left - qd.static(k * _device.SUBGROUP_SIZE):
                arr[at(arr, own + qd.static(k * _device.SUBGROUP_SIZE))] = values[k]


@qd.func
def copy_rows(arr, room, first, left, fill, rows: Constant):
    """Copies the rows of a subgroup to shared memory, in the order of the elements: those of a thread are neighbors. `room` has a place for
    each element of the tile. No value stays in a register, so that many blocks can run at a time."""
    place = find_lane(rows)
    own = qd.i64(first) + place
    if left >= qd.static(BLOCK * rows):
        for k in qd.static(range(rows)):
            room[place + qd.static(k * _device.SUBGROUP_SIZE)] = arr[at(arr, own + qd.static(k * _device.SUBGROUP_SIZE))]
    else:
        for k in qd.static(range(rows)):
            value = fill
            if place < left - qd.static(k * _device.SUBGROUP_SIZE):
                value = arr[at(arr, own + qd.static(k * _device.SUBGROUP_SIZE))]
            room[place + qd.static(k * _device.SUBGROUP_SIZE)] = value
    subgroup.sync()


@qd.func
def get_rows(room, rows: Constant, dtype: Constant):
    """Returns what the rows of a subgroup are in shared memory."""
    subgroup.sync()
    values = qd.Vector.zero(dtype, rows)
    for k in qd.static(range(rows)):
        values[k] = room[row_place(rows, k)]
    return values


@qd.func
def scan_lanes(value, dtype: Constant, op: Constant):
    """Returns the fold of the values of the lanes before this one, and the fold of all lanes."""
    lane = subgroup.invocation_id()
    whole = subgroup._scan(value, None, op)
    before = shuffle(whole, (lane - 1) & qd.static(_device.SUBGROUP_SIZE - 1))
    before = qd.select(lane > 0, before, dtype(qd.static(identity(op, dtype))))
    return before, shuffle(whole, qd.static(_device.SUBGROUP_SIZE - 1))


@qd.func
def fold_before(total, dtype: Constant, op: Constant, threads: Constant = BLOCK):
    """Returns the fold of the values of the subgroups before the thread's own, and of all; `total` is one value for each subgroup.

    Subgroups behind the first `threads` threads have no value, and no result.
    """
    parts = block.SharedArray((threads // _device.SUBGROUP_SIZE,), dtype)
    group = thread_idx() // _device.SUBGROUP_SIZE
    if subgroup.invocation_id() == 0 and thread_idx() < threads:
        parts[group] = total
    block_sync()
    before = dtype(qd.static(identity(op, dtype)))
    every = before
    for part in qd.static(range(threads // _device.SUBGROUP_SIZE)):
        if part == group:
            before = every
        every = op(every, parts[part])
    return before, every


@qd.func
def publish(scratch, slot, value, dtype: Constant):
    """Stores a value for the blocks that wait for it, in two words."""
    word = qd.static(carrier(dtype))
    bits = to_word(value, dtype)
    for part in qd.static(range(2)):
        half = (bits >> qd.static(part * half_bits(dtype))) & word(qd.static((1 << half_bits(dtype)) - 1))
        scratch[at(scratch, slot + part)] = half | word(qd.static(1 << half_bits(dtype)))


@qd.func
def to_word(value, dtype: Constant):
    """Returns the bits of a value as a word of scratch memory."""
    if qd.static(dtype.size < 4):
        return qd.u32(qd.bit_cast(value, qd.static(qd.u16 if dtype.size == 2 else qd.u8)))
    return qd.bit_cast(value, qd.static(carrier(dtype)))


@qd.func
def from_word(bits, dtype: Constant):
    """Returns the value that `to_word` made to bits."""
    if qd.static(dtype.size < 4):
        return qd.bit_cast(qd.cast(bits, qd.static(qd.u16 if dtype.size == 2 else qd.u8)), dtype)
    return qd.bit_cast(bits, dtype)


@qd.func
def peek(scratch, slot, is_there, dtype: Constant):
    """Returns the two words of a value that another block publishes, as they are now; 0 if no value `is_there`.

    Nothing waits for these loads until `finish` uses the words.
    """
    low = qd.static(carrier(dtype))(0)
    high = qd.static(carrier(dtype))(0)
    if is_there:
        low = qd.volatile_load(scratch[at(scratch, slot)])
        high = qd.volatile_load(scratch[at(scratch, slot + 1)])
    return low, high


@qd.func
def finish(scratch, slot, low, high, dtype: Constant):
    """Waits until both words of a value are there, and returns it."""
    while (low & high) >> qd.static(half_bits(dtype)) == 0:
        low = qd.volatile_load(scratch[at(scratch, slot)])
        high = qd.volatile_load(scratch[at(scratch, slot + 1)])
    half = low & qd.static(carrier(dtype))(qd.static((1 << half_bits(dtype)) - 1))
    return from_word(half | (high << qd.static(half_bits(dtype))), dtype)


@qd.func
def wait(scratch, slot, dtype: Constant):
    """Waits for a value that another block publishes, and returns it."""
    low, high = peek(scratch, slot, True, dtype)
    return finish(scratch, slot, low, high, dtype)


@qd.func
def fold_waiting(scratch, slot, count, low, high, dtype: Constant, op: Constant):
    """Returns the fold of `count` values, less than a subgroup has lanes, that other blocks publish; all lanes of a subgroup call it.
    `low`, `high`: what a peek at the lane's value has found."""
    lane = subgroup.invocation_id()
    value = dtype(qd.static(identity(op, dtype)))
    if lane < count:
        value = finish(scratch, slot + 2 * lane, low, high, dtype)
    return subgroup._reduce_all(value, None, op)


@qd.func
def look_back(scratch, tile, tiles, total, dtype: Constant, op: Constant):
    """Returns the fold of the tiles before this one; all lanes of one subgroup call it with the fold of their tile."""
    size = qd.static(_device.SUBGROUP_SIZE)
    groups = (tiles - 1) // size + 1
    group = tile // size
    outer = group // size
    of_groups = 1 + 2 * tiles
    of_outer = of_groups + 2 * groups
    lane = subgroup.invocation_id()
    is_first = lane == 0
    if is_first and tiles > 1:
        publish(scratch, 1 + 2 * tile, total, dtype)
    subgroup.sync()
    # All loads first: most results of groups are there by now, and so take no time of their own.
    first, first_group, last_outer = 1 + 2 * (group * size), of_groups + 2 * (outer * size), of_outer + 2 * (outer - 1)
    low, high = peek(scratch, first + 2 * lane, lane < tile % size, dtype)
    group_low, group_high = peek(scratch, first_group + 2 * lane, lane < group % size, dtype)
    outer_low, outer_high = peek(scratch, last_outer, outer > 0, dtype)
    before = fold_waiting(scratch, first, tile % size, low, high, dtype, op)
    if is_first and tile % size == size - 1:
        publish(scratch, of_groups + 2 * group, op(before, total), dtype)
    subgroup.sync()
    before = op(fold_waiting(scratch, first_group, group % size, group_low, group_high, dtype, op), before)
    if outer > 0:
        before = op(finish(scratch, last_outer, outer_low, outer_high, dtype), before)
    if is_first and tile % size == size - 1 and group % size == size - 1:
        publish(scratch, of_outer + 2 * outer, op(before, total), dtype)
    return before


@qd.func
def take_tile(scratch, slot, tiles):
    """Returns the number of the next tile, the same for all threads of a block; a word of scratch memory counts them."""
    number = block.SharedArray((1,), qd.i32)
    if thread_idx() == 0:
        number[0] = 0
        if tiles > 1:
            number[0] = qd.i32(qd.atomic_add(scratch[at(scratch, slot)], 1))
    block_sync()
    return number[0]


@qd.func
def before_tile(scratch, tile, tiles, total, dtype: Constant, op: Constant):
    """Returns the fold of the tiles before this one, on all threads of the block; `total` is the fold of the block's tile."""
    shared = block.SharedArray((1,), dtype)
    if thread_idx() < _device.SUBGROUP_SIZE:
        before = look_back(scratch, tile, tiles, total, dtype, op)
        if thread_idx() == 0:
            shared[0] = before
    block_sync()
    return shared[0]


@qd.func(requires_top_level=True)
def clear_words(scratch, count):
    """Sets the first words of scratch memory to 0. Nine for the second tile and at least three for each further one suffice `look_back`."""
    for i in range(count):
        scratch[at(scratch, i)] = 0


@qd.func(requires_top_level=True)
def scan_totals(scratch, tiles, dtype: Constant, op: Constant):
    """Replaces the values of the tiles in scratch memory by the folds of the values before them, in one block."""
    qd.loop_config(block_dim=BLOCK)
    for thread in range(BLOCK):
        share = (tiles - 1) // BLOCK + 1
        total = dtype(qd.static(identity(op, dtype)))
        for tile in range(thread * share, qd.min((thread + 1) * share, tiles)):
            total = op(total, from_word(scratch[at(scratch, tile)], dtype))
        running, whole = scan_lanes(total, dtype, op)
        before, _ = fold_before(whole, dtype, op)
        total = op(before, running)
        for tile in range(thread * share, qd.min((thread + 1) * share, tiles)):
            value = from_word(scratch[at(scratch, tile)], dtype)
            scratch[at(scratch, tile)] = to_word(total, dtype)
            total = op(total, value)

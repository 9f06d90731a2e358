"""A network that sorts a few keys in registers: rows of keys, whose columns are sorted first and merged then.

Some bits of a key's number are the number of its row, the others that of its lane. A step compares keys whose numbers differ in one bit
(Batcher, Sorting Networks and their Applications, 1968), so it compares rows if that is a bit of the row. Otherwise it changes places with
that bit of the row which is compared again last (Belady, A Study of Replacement Algorithms for a Virtual-Storage Computer, 1966): two rows
exchange half of their lanes. So a step takes at most a permutation and a comparison of each row.
"""

from typing import Any, NamedTuple

import quadrants as qd

from .._base.dtypes import find_dtype
from ._blocks import Constant, at
from ._sortable import from_sortable, to_sortable, unsigned_of


class _Step(NamedTuple):
    row: int  # bit of the rows: those without it get the less keys of comparisons
    lane: int  # bit of the lanes that rows with and without the bit exchange first; 0: none
    rows: int  # bits in which a row and the row that it is compared with differ
    lanes: int  # the same of lanes
    compares: bool


def lanes_of(dtype: Any, has_values: bool) -> int:
    return 64 // word_of(dtype, has_values).size


def rows_of(lanes: int) -> int:
    return 8 if lanes == 32 else 16  # more steps, as more keys take, would be more code than a function may have


def few_of(dtype: Any, has_values: bool) -> int:
    """Returns the number of keys that the network sorts."""
    lanes = lanes_of(dtype, has_values)
    return rows_of(lanes) * lanes


def word_of(dtype: Any, has_values: bool) -> Any:
    """Returns the type that the network compares."""
    return bits_of(dtype) if has_values else unsigned_of(dtype)


def _sort_columns(rows: int) -> list[tuple[int, int]]:
    """Returns the rows that are compared to sort columns (Batcher's odd-even merge sort)."""
    pairs = []
    for half in (1 << bit for bit in range(rows.bit_length() - 1)):
        for step in (half >> bit for bit in range(half.bit_length())):
            for first in range(step % half, rows - step, 2 * step):
                last = min(first + step, rows - step)
                pairs += [(x, x + step) for x in range(first, last) if x // (2 * half) == (x + step) // (2 * half)]
    return pairs


def _merge_columns(rows: list[int], lanes: list[int]) -> list[_Step]:
    """Returns the steps that merge columns. The lists say which bits of a key's number are the bits of its row and lane, and change."""
    first, last = len(rows), len(rows) + len(lanes)
    compared = [(bit, 1 << bit if bit < size else (2 << size) - 1) for size in range(first, last) for bit in range(size, -1, -1)]
    wanted = compared + [(bit, 1 << bit) for bit in range(len(lanes), last)]  # in the end rows lie side by side
    steps = []
    for k, (bit, flips) in enumerate(wanted):
        masks = [sum(1 << place for place, held in enumerate(bits) if flips >> held & 1) for bits in (rows, lanes)]
        lane = 1 << lanes.index(bit) if bit in lanes else 0
        if lane:
            rest = [later for later, _ in wanted[k + 1 :]]
            place = max(range(first), key=lambda r: rest.index(rows[r]) if rows[r] in rest else len(rest) + (rows[r] < len(lanes)))
            lanes[lanes.index(bit)], rows[place] = rows[place], bit
        if lane or k < len(compared):
            steps.append(_Step(1 << rows.index(bit), lane, *masks, k < len(compared)))
    return steps


def _plan(row_count: int, lane_count: int) -> tuple[list[_Step], list[int]]:
    """Returns the steps that merge columns, and where the rows lie then."""
    row_bits, lane_bits = row_count.bit_length() - 1, lane_count.bit_length() - 1
    rows, lanes = list(range(row_bits)), list(range(row_bits, row_bits + lane_bits))
    _merge_columns(rows, lanes)
    rows, lanes = list(range(row_bits)), [row_bits + lanes.index(bit) for bit in range(lane_bits)]  # so that the lanes end in order
    steps = _merge_columns(rows, lanes)
    return steps, [sum((row >> k & 1) << (bit - lane_bits) for k, bit in enumerate(rows)) for row in range(row_count)]


def bits_of(dtype: Any) -> Any:
    """Returns the type of the bits of keys in registers."""
    return qd.u64 if find_dtype(dtype).size == 8 else qd.u32


@qd.func
def to_bits(key, dtype: Constant):
    return qd.cast(to_sortable(key, dtype), qd.static(bits_of(dtype)))


@qd.func
def from_bits(bits, dtype: Constant):
    return from_sortable(qd.cast(bits, qd.static(unsigned_of(dtype))), dtype)


@qd.func
def _repair(keys, values, begin, end, dtype: Constant):
    """Sorts a few keys that are almost in order, by insertion."""
    wrong = 0
    for i in range(begin, end - 1):
        key, other = keys[keys._offset[0] + i], keys[keys._offset[0] + (i + 1)]
        wrong += qd.select(to_bits(key, dtype) > to_bits(other, dtype), 1, 0)
    if wrong > 0:
        for i in range(begin + 1, end):
            key, value, place = keys[at(keys, i)], values[at(values, i)], i
            while place > begin and to_bits(keys[at(keys, place - 1)], dtype) > to_bits(key, dtype):
                keys[at(keys, place)] = keys[at(keys, place - 1)]
                values[at(values, place)] = values[at(values, place - 1)]
                place -= 1
            keys[at(keys, place)] = key
            values[at(values, place)] = value


@qd.func
def sort_few(
    keys, spare, values, other, first, begin, count, is_spare, least, greatest, has_values: Constant, dtype: Constant
):  # fmt: skip
    """Sorts up to `few_of` keys, from `first` on of `keys` or of `spare`, to `keys`, from `begin` on, and moves `values` along.

    With values, the network sorts words of a key's distance from `least`, or its highest bits, and the key's number; no key is above
    `greatest`.
    """
    lanes, word = qd.static((lanes_of(dtype, has_values), word_of(dtype, has_values)))
    rows, few = qd.static((rows_of(lanes), few_of(dtype, has_values)))
    number_bits = qd.static(few.bit_length() - 1)
    even, shift = qd.Vector.zero(word, few), word(0)
    odd = even
    if qd.static(has_values):
        own_bits, own_values = even, qd.Vector.zero(values.dtype, few)
        while greatest - least >> shift >> qd.static(8 * word.size - number_bits) > 0:
            shift += 1
    if is_spare:
        if qd.static(has_values):
            for i in range(few):
                if i < count:
                    own_bits[i] = to_bits(spare[spare._offset[0] + (first + i)], dtype)
                    own_values[i] = other[other._offset[0] + (first + i)]
        else:
            for lane in range(lanes):
                for x in qd.static(range(0, few, lanes)):
                    bits = ~word(0)
                    if lane < count - x:
                        bits = to_sortable(spare[spare._offset[0] + (first + x + lane)], dtype)
                    odd[x + lane] = bits
    else:
        if qd.static(has_values):
            for i in range(few):
                if i < count:
                    own_bits[i] = to_bits(keys[keys._offset[0] + (first + i)], dtype)
                    own_values[i] = values[values._offset[0] + (first + i)]
        else:
            for lane in range(lanes):
                for x in qd.static(range(0, few, lanes)):
                    bits = ~word(0)
                    if lane < count - x:
                        bits = to_sortable(keys[keys._offset[0] + (first + x + lane)], dtype)
                    odd[x + lane] = bits
    if qd.static(has_values):
        for lane in range(lanes):
            for x in qd.static(range(0, few, lanes)):
                bits = ~word(0)
                if lane < count - x:
                    bits = (own_bits[x + lane] - least >> shift << number_bits) + qd.cast(x + lane, word)
                odd[x + lane] = bits
    for lane in range(lanes):
        column = qd.Vector.zero(word, rows)
        for x in qd.static(range(rows)):
            column[x] = odd[qd.static(x * lanes) + lane]
        for x, y in qd.static(_sort_columns(rows)):
            column[x], column[y] = qd.min(column[x], column[y]), qd.max(column[x], column[y])
        for x in qd.static(range(rows)):
            even[qd.static(x * lanes) + lane] = column[x]
    steps, owners = qd.static(_plan(rows, lanes))
    for number, step in qd.static(list(enumerate(steps))):  # from one array to the other
        pairs = qd.static([(x * lanes, (x ^ step.row) * lanes) for x in range(rows) if not x & step.row])
        swap, far = qd.static((step.lanes ^ step.lane, step.rows * lanes))
        if qd.static(number % 2 == 0):
            for lane in range(lanes):
                stays = lane & step.lane == 0
                for x, y in qd.static(pairs):
                    if qd.static(step.lane > 0):
                        a = qd.select(stays, even[x + lane], even[y + (lane ^ step.lane)])
                        b = qd.select(stays, even[qd.static(x ^ far) + (lane ^ step.lanes)], even[qd.static(y ^ far) + (lane ^ swap)])
                    else:
                        a, b = even[x + lane], even[qd.static(x ^ far) + (lane ^ step.lanes)]
                    odd[x + lane] = qd.min(a, b) if qd.static(step.compares) else a
                    odd[y + lane] = qd.max(a, b) if qd.static(step.compares) else b
        else:
            for lane in range(lanes):
                stays = lane & step.lane == 0
                for x, y in qd.static(pairs):
                    if qd.static(step.lane > 0):
                        a = qd.select(stays, odd[x + lane], odd[y + (lane ^ step.lane)])
                        b = qd.select(stays, odd[qd.static(x ^ far) + (lane ^ step.lanes)], odd[qd.static(y ^ far) + (lane ^ swap)])
                    else:
                        a, b = odd[x + lane], odd[qd.static(x ^ far) + (lane ^ step.lanes)]
                    even[x + lane] = qd.min(a, b) if qd.static(step.compares) else a
                    even[y + lane] = qd.max(a, b) if qd.static(step.compares) else b
    for x in qd.static(range(rows)):
        for lane in range(lanes):
            bits = odd[qd.static(x * lanes) + lane] if qd.static(len(steps) % 2) else even[qd.static(x * lanes) + lane]
            if lane < count - qd.static(owners[x] * lanes):
                place = begin + qd.static(owners[x] * lanes) + lane
                if qd.static(has_values):
                    number = qd.i32(bits & qd.static(few - 1))
                    key = from_bits((bits >> number_bits) + least, dtype)
                    if shift > 0:
                        key = from_bits(own_bits[number], dtype)
                    keys[keys._offset[0] + place] = key
                    values[values._offset[0] + place] = own_values[number]
                else:
                    keys[keys._offset[0] + place] = from_bits(bits, dtype)
    if qd.static(has_values):
        if shift > 0:
            _repair(keys, values, begin, begin + count, dtype)

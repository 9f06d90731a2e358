"""A sort of keys without values for processors with instructions for compaction: the compiler runs the loops of `_partition` in lanes.

A quicksort (Bramas, A Novel Hybrid Quicksort Algorithm Vectorized using AVX-512, 2017; Wassenberg, Blacher, Giesen and Sanders, Vectorized
and Performance-Portable Quicksort, 2022). Threads first part chunks of the keys by the same splitters (Sanders and Winkel, Super Scalar
Sample Sort, 2004) and gather the pieces between two splitters, then each takes ranges between splitters. Equal keys are the same bits, so
their order does not matter.
"""

import quadrants as qd

from ._blocks import Constant, at
from ._sortable import from_sortable, to_sortable, unsigned_of

FEW = 128  # keys that a network sorts
_LANES = 16
_ALONE = 4096  # keys that one thread sorts
_CHUNK = 65536  # the most keys that a thread parts at a time
_TABLE = 64  # words of scratch memory before the tables: two for each bucket's pivot
_PATIENCE = 48  # partitions of all keys after which pivots halve the range of the keys, which ends for all inputs


@qd.func
def _middle(a, b, c):
    return qd.max(qd.min(a, b), qd.min(qd.max(a, b), c))


@qd.func
def _partition(keys, spare, begin, end, pivot, dtype: Constant):
    """Moves the keys of a range below the pivot before the others, and returns where the others begin."""
    left = begin
    right = begin
    for i in range(begin, end):
        key = keys[keys._offset[0] + (i)]
        if to_sortable(key, dtype) < pivot:
            keys[keys._offset[0] + (left)] = key
            left += 1
        else:
            spare[spare._offset[0] + (right)] = key
            right += 1
    for i in range(begin, right):
        keys[keys._offset[0] + (left + (i - begin))] = spare[spare._offset[0] + (i)]
    return left


@qd.func
def _find_pivot(keys, begin, end, dtype: Constant):
    """Returns the middle one of three middle ones of three keys."""
    step = (end - begin) // 9
    chosen = qd.Vector.zero(qd.static(unsigned_of(dtype)), 9)
    for k in qd.static(range(9)):
        chosen[k] = to_sortable(keys[keys._offset[0] + (begin + step // 2 + k * step)], dtype)
    return _middle(*[_middle(chosen[k], chosen[k + 3], chosen[k + 6]) for k in qd.static(range(3))])


@qd.func
def _halve(keys, begin, end, dtype: Constant):
    """Returns a pivot in the middle of the least and the greatest key, or the least one if all are equal."""
    low = ~qd.static(unsigned_of(dtype))(0)
    high = ~low
    for i in range(begin, end):
        key = to_sortable(keys[keys._offset[0] + (i)], dtype)
        low = qd.min(low, key)
        high = qd.max(high, key)
    return high - (high - low) // 2


def _list_steps() -> list[int]:
    """Returns for each step of a network the bits in which the numbers of two keys that it compares differ."""
    steps = []
    for size in (1 << bits for bits in range(1, FEW.bit_length())):
        steps += [size - 1, *(size >> bits for bits in range(2, size.bit_length()))]
    return steps


@qd.func
def _sort_few(keys, begin, end, dtype: Constant):
    """Sorts a range of at most `FEW` keys by a bitonic network (Batcher, Sorting Networks and their Applications, 1968).

    Lanes have rows of keys. A step stores to one array what it compares of the other one; in rows that it compares from both ends, the
    greater keys are reversed, which the next steps do not mind.
    """
    unsigned = qd.static(unsigned_of(dtype))
    even, odd = qd.Vector.zero(unsigned, FEW), qd.Vector.zero(unsigned, FEW)
    for lane in range(_LANES):
        for row in qd.static(range(0, FEW, _LANES)):
            key = ~unsigned(0)
            if lane < end - begin - row:
                key = to_sortable(keys[keys._offset[0] + (begin + row + lane)], dtype)
            even[row + lane] = key
    for number, flip in qd.static(list(enumerate(_list_steps()))):
        for lane in range(_LANES):
            for row in qd.static(range(0, FEW, _LANES)):
                other = qd.static(row ^ flip & -_LANES)
                if qd.static(other >= row):
                    if qd.static(number % 2 == 0):
                        a, b = even[row + lane], even[other + (lane ^ qd.static(flip % _LANES))]
                    else:
                        a, b = odd[row + lane], odd[other + (lane ^ qd.static(flip % _LANES))]
                    low, high = qd.min(a, b), qd.max(a, b)
                    if qd.static(other == row):
                        low = qd.select(lane & qd.static(1 << flip.bit_length() - 1) == 0, low, high)
                    if qd.static(number % 2 == 0):
                        odd[row + lane] = low
                        if qd.static(other > row):
                            odd[other + lane] = high
                    else:
                        even[row + lane] = low
                        if qd.static(other > row):
                            even[other + lane] = high
    for lane in range(_LANES):
        for row in qd.static(range(0, FEW, _LANES)):
            if lane < end - begin - row:
                keys[keys._offset[0] + (begin + row + lane)] = from_sortable(even[row + lane], dtype)


@qd.func
def _sort_range(keys, spare, first, last, least, dtype: Constant):
    """Sorts a range of keys that are not below `least`, the bits of a key."""
    begin, end, low = first, last, least
    stack = qd.Vector.zero(qd.i32, 64)  # ranges that are not sorted yet: of two parts the larger one, so each is less than half of another
    lows = qd.Vector.zero(qd.static(unsigned_of(dtype)), 32)
    top = 0
    left = qd.i64(last - first) * _PATIENCE
    is_open = True
    while is_open:
        if end - begin > FEW:
            pivot = _find_pivot(keys, begin, end, dtype)
            left -= end - begin
            if left < 0:
                pivot = _halve(keys, begin, end, dtype)
            # If no key is below the pivot, those that equal it are put before the others, and are sorted.
            is_least, is_greatest = pivot == low, ~pivot == 0
            place = _partition(keys, spare, begin, end, pivot + qd.select(is_least and not is_greatest, 1, 0), dtype)
            if is_least or place == begin:
                begin, low = qd.select(is_least and is_greatest, end, place), pivot
            else:
                is_left_less = place - begin < end - place
                stack[2 * top] = qd.select(is_left_less, place, begin)
                stack[2 * top + 1] = qd.select(is_left_less, end, place)
                lows[top] = qd.select(is_left_less, pivot, low)
                top += 1
                begin, end = qd.select(is_left_less, begin, place), qd.select(is_left_less, place, end)
                low = qd.select(is_left_less, low, pivot)
        else:
            _sort_few(keys, begin, end, dtype)
            is_open = top > 0
            if is_open:
                top -= 1
                begin, end, low = stack[2 * top], stack[2 * top + 1], lows[top]


@qd.func
def _load_pivot(scratch, bucket, dtype: Constant):
    bits = qd.u64(scratch[at(scratch, 2 * bucket)]) | qd.u64(scratch[at(scratch, 2 * bucket + 1)]) << 32
    return qd.cast(bits, qd.static(unsigned_of(dtype)))


@qd.func
def _part(keys, spare, scratch, begin, end, table, buckets, dtype: Constant):
    """Parts a range into buckets; a table in scratch memory gets the limits of the buckets."""
    scratch[at(scratch, table)] = qd.u32(begin)
    scratch[at(scratch, table + buckets)] = qd.u32(end)
    step = buckets
    while step > 1:
        for bucket in range(0, buckets, step):
            pivot = _load_pivot(scratch, bucket + step // 2, dtype)
            place = qd.i32(scratch[at(scratch, table + bucket)])
            if pivot != _load_pivot(scratch, bucket, dtype):  # otherwise no key is below it
                place = _partition(keys, spare, place, qd.i32(scratch[at(scratch, table + bucket + step)]), pivot, dtype)
            scratch[at(scratch, table + bucket + step // 2)] = qd.u32(place)
        step //= 2


@qd.func
def _choose_pivots(keys, spare, scratch, n, buckets, dtype: Constant):
    """Stores a pivot for each bucket; no key is below that of the first one."""
    for i in range(FEW):
        spare[at(spare, i)] = keys[at(keys, i * (n // FEW) + n // (2 * FEW))]
    _sort_few(spare, 0, FEW, dtype)
    for bucket in range(buckets):
        pivot = qd.select(bucket > 0, qd.u64(to_sortable(spare[at(spare, bucket * (FEW // buckets))], dtype)), 0)
        scratch[at(scratch, 2 * bucket)] = qd.u32(pivot & 0xFFFFFFFF)
        scratch[at(scratch, 2 * bucket + 1)] = qd.u32(pivot >> 32)


@qd.func(requires_top_level=True)
def sort_keys(keys, spare, scratch, n, dtype: Constant):
    """Sorts n keys; `scratch` has a word for each of them."""
    buckets = qd.select(n <= _ALONE, 1, qd.select(n <= _CHUNK, 8, 32))
    size = qd.select(n <= _CHUNK, n, qd.min(qd.max(n // 32, 4096), _CHUNK))
    chunks = qd.select(n <= _ALONE, 0, (n - 1) // size + 1)
    moved = qd.select(n <= _CHUNK, 0, chunks)
    for _ in range(qd.min(chunks, 1)):
        _choose_pivots(keys, spare, scratch, n, buckets, dtype)
    for chunk in range(chunks):
        last = qd.min(n - chunk * size, size) + chunk * size
        _part(keys, spare, scratch, chunk * size, last, _TABLE + chunk * (2 * buckets + 2), buckets, dtype)
    for _ in range(qd.min(moved, 1)):
        place = qd.u32(0)
        for bucket in range(buckets):
            for chunk in range(chunks):
                table = _TABLE + chunk * (2 * buckets + 2) + bucket
                scratch[at(scratch, table + buckets + 1)] = place
                place += scratch[at(scratch, table + 1)] - scratch[at(scratch, table)]
        scratch[at(scratch, _TABLE + 2 * buckets + 1)] = place
    for chunk in range(moved):
        for bucket in range(buckets):
            table = _TABLE + chunk * (2 * buckets + 2) + bucket
            place, first = qd.i32(scratch[at(scratch, table + buckets + 1)]), qd.i32(scratch[at(scratch, table)])
            for i in range(first, qd.i32(scratch[at(scratch, table + 1)])):
                spare[spare._offset[0] + (place + (i - first))] = keys[keys._offset[0] + i]
    for bucket in range(buckets):
        first, last, low = 0, n, qd.select(buckets > 1, _load_pivot(scratch, bucket, dtype), 0)
        if buckets > 1:
            table = _TABLE + qd.select(moved > 0, buckets + 1, 0) + bucket
            first, last = qd.i32(scratch[at(scratch, table)]), qd.i32(scratch[at(scratch, table + 1)])
        for i in range(first, qd.select(moved > 0, last, first)):
            keys[keys._offset[0] + i] = spare[spare._offset[0] + i]
        _sort_range(keys, spare, first, last, low, dtype)

"""A sort of keys without values for processors with instructions for compaction: the compiler runs the loops of `_split` in lanes.

A quicksort (Bramas, A Novel Hybrid Quicksort Algorithm Vectorized using AVX-512, 2017; Wassenberg, Blacher, Giesen and Sanders, Vectorized
and Performance-Portable Quicksort, 2022). Where there are several threads, they first part chunks of the keys by the same splitters
(Sanders and Winkel, Super Scalar Sample Sort, 2004) and gather the pieces between two splitters, then each takes ranges between splitters.
Equal keys are the same bits, so their order does not matter.
"""

import quadrants as qd

from ._blocks import Constant, at
from ._counting_sort import least_count, sort_by_counts
from ._network import bits_of, few_of, from_bits, sort_few, to_bits
from ._shortcuts import DOWN, KINDS, UP, count_kinds, guess_order, is_in_order, reverse, seem_few
from ._sortable import to_sortable, unsigned_of

_SAMPLE = 128  # keys that splitters are chosen from
_ALONE = 1 << 18  # bytes of keys and values that one thread sorts, before another one wakes up
_BUCKETS = 32
_CHUNK = 65536  # the most keys that a thread parts at a time
# Words of scratch memory: the pivots of the buckets, the order in which all keys are, then a table for each chunk.
_ORDER, _FIRST, _TABLE = 2 * _BUCKETS, 2 * _BUCKETS + 1, 2 * _BUCKETS + 2
_PATIENCE = 40  # partitions of all keys, or ranges that wait, after which pivots halve the range of the keys, which ends for all inputs


@qd.func
def _middle(a, b, c):
    return qd.max(qd.min(a, b), qd.min(qd.max(a, b), c))


@qd.func
def _split(source, target, values, other, begin, room, count, limit, moves_less: Constant, has_values: Constant, dtype: Constant):
    """Moves the keys of a range below the limit, or those that are not, to another container, and packs the others; all stay in order.

    Returns the number of keys below the limit.
    """
    moved = 0
    kept = 0
    limit_key, limit_bits = from_bits(limit, dtype), qd.cast(limit, qd.static(unsigned_of(dtype)))
    qd.loop_config(clobbers=True)
    for i in range(count):
        key = source[source._offset[0] + (begin + i)]
        value = values[values._offset[0] + (begin + i)] if qd.static(has_values) else key
        is_less = to_sortable(key, dtype) < limit_bits if qd.static(dtype.is_real or has_values) else key < limit_key
        if is_less if qd.static(moves_less) else not is_less:
            target[target._offset[0] + (room + moved)] = key
            if qd.static(has_values):
                other[other._offset[0] + (room + moved)] = value
            moved += 1
        else:
            source[source._offset[0] + (begin + kept)] = key
            if qd.static(has_values):
                values[values._offset[0] + (begin + kept)] = value
            kept += 1
    return moved if qd.static(moves_less) else kept


@qd.func
def _choose_pivot(keys, begin, end, low, high, is_hard, dtype: Constant):
    """Returns the middle one of three middle ones of three keys, what no key is below or above, and how many of the nine equal it.

    If keys are hard to divide or seem to be equal, it finds the least and the greatest one; the pivot of hard ones is between these.
    """
    step = (end - begin) // 9
    chosen = qd.Vector.zero(qd.static(bits_of(dtype)), 9)
    for k in qd.static(range(9)):
        place = begin + (end - begin - 8 * step) // 2 + k * step  # the fifth one is in the middle, which halves keys that are in order
        chosen[k] = to_bits(keys[keys._offset[0] + place], dtype)
    pivot = _middle(*[_middle(chosen[k], chosen[k + 3], chosen[k + 6]) for k in qd.static(range(3))])
    least, greatest, equal = low, high, qd.static(bits_of(dtype))(0)
    for k in qd.static(range(9)):
        equal += qd.select(chosen[k] == pivot, 1, 0)
    if is_hard or (pivot == chosen[0] and pivot == chosen[8]):
        least, greatest = high, low
        for i in range(begin, end):
            key = to_bits(keys[keys._offset[0] + i], dtype)
            least = qd.min(least, key)
            greatest = qd.max(greatest, key)
        if is_hard:
            pivot = greatest - (greatest - least) // 2
    return qd.Vector([pivot, least, greatest, equal])


@qd.func
def _move(source, target, first, place, count):
    for i in range(count):
        target[target._offset[0] + (place + i)] = source[source._offset[0] + (first + i)]


@qd.func
def _fill(keys, begin, end, bits, dtype: Constant):
    for i in range(begin, end):
        keys[keys._offset[0] + i] = from_bits(bits, dtype)


@qd.func
def _place_equal(keys, values, other, source, room, begin, end, is_spare, bits, has_values: Constant, dtype: Constant):
    """Stores keys that are all equal to their places, and moves their values there."""
    _fill(keys, begin, end, bits, dtype)
    if qd.static(has_values):
        if is_spare:
            _move(other, values, source, begin, end - begin)
        elif source < begin:
            _move(values, other, source, room, end - begin)
            _move(other, values, room, begin, end - begin)


@qd.func
def _sort_range(keys, spare, values, other, first, last, starts_in_spare, least, greatest, has_values: Constant, dtype: Constant):
    """Sorts a range of `keys` or `spare`, whose keys are between `least` and `greatest`, bits of keys, to the same range of `keys`.

    Keys below a pivot go to the other container and wait. All that waits in a container is in front of the range that is sorted, and that
    is in front of its place in `keys`, so nothing that waits is overwritten. Values are in `values` and `other` like the keys.
    """
    source, room, begin, end, low, high, is_spare = first, first, first, last, least, greatest, starts_in_spare
    depth = qd.static(_PATIENCE + 8 * bits_of(dtype).size)
    sources = qd.Vector.zero(qd.u32, depth)  # of ranges that wait: twice the index, and whether it is one of `spare`
    rooms = qd.Vector.zero(qd.i32, depth)  # index in the other container
    begins = rooms  # of the places in `keys`; their complement if all keys are equal
    lows = qd.Vector.zero(qd.static(bits_of(dtype)), depth)
    top = 0
    left = qd.i64(last - first) * _PATIENCE
    is_open = True
    while is_open:
        count = end - begin
        if count > 0 and low == high:
            _place_equal(keys, values, other, source, room, begin, end, is_spare, low, has_values, dtype)
            end = begin
        elif count > qd.static(few_of(dtype, has_values)):
            left -= count
            is_hard = left < 0 or top >= _PATIENCE
            chosen, less, number = qd.Vector([low, low, low, low]), 0, 0
            if is_spare:
                chosen = _choose_pivot(spare, source, source + count, low, high, is_hard, dtype)
            else:
                chosen = _choose_pivot(keys, source, source + count, low, high, is_hard, dtype)
            pivot, lowest, high = chosen[0], chosen[1], chosen[2]
            is_least = pivot == lowest  # then those that equal it are parted from the others
            if qd.static(not has_values):
                if chosen[3] > 1 and not (is_spare or (is_least and pivot == high)):
                    kinds, counts = qd.Vector.zero(qd.static(bits_of(dtype)), KINDS), qd.Vector.zero(qd.i32, KINDS)
                    number = count_kinds(kinds, counts, keys, source, source + count, dtype)
                    place = begin
                    for k in range(number):
                        _fill(keys, place, place + counts[k], kinds[k], dtype)
                        place += counts[k]
            if is_least and pivot == high:
                _place_equal(keys, values, other, source, room, begin, end, is_spare, pivot, has_values, dtype)
                end = begin
            elif number > 0:
                end = begin
            else:
                low = pivot + qd.select(is_least, 1, 0)
                if is_spare:
                    less = _split(spare, keys, other, values, source, room, count, low, True, has_values, dtype)
                else:
                    less = _split(keys, spare, values, other, source, room, count, low, True, has_values, dtype)
                if less > 0:
                    sources[top] = qd.u32(room) * 2 + qd.select(is_spare, 0, 1)
                    rooms[top] = source
                    begins[top] = qd.select(is_least, ~begin, begin)
                    lows[top] = lowest
                    top += 1
                    room += less
                    begin += less
        else:
            if count > 0:
                sort_few(keys, spare, values, other, source, begin, count, is_spare, low, high, has_values, dtype)
                end = begin
            is_open = top > 0
            if is_open:
                top -= 1
                high = low - 1  # of the keys that were sorted last
                source, room, begin, low = qd.i32(sources[top] >> 1), rooms[top], begins[top], lows[top]
                is_spare = sources[top] & 1 == 1
                if begin < 0:
                    begin = ~begin
                    _place_equal(keys, values, other, source, room, begin, end, is_spare, low, has_values, dtype)
                    end = begin


@qd.func
def _load_pivot(scratch, bucket, dtype: Constant):
    bits = qd.u64(scratch[at(scratch, 2 * bucket)]) | qd.u64(scratch[at(scratch, 2 * bucket + 1)]) << 32
    return qd.cast(bits, qd.static(bits_of(dtype)))


@qd.func
def _store_pivot(scratch, bucket, pivot):
    scratch[at(scratch, 2 * bucket)] = qd.u32(pivot & 0xFFFFFFFF)
    scratch[at(scratch, 2 * bucket + 1)] = qd.u32(pivot >> 32)


@qd.func
def _find_greatest(scratch, bucket, dtype: Constant):
    """Returns what no key of a bucket is above."""
    bound = qd.static(bits_of(dtype))(0)
    if bucket + 1 < _BUCKETS:
        bound = _load_pivot(scratch, bucket + 1, dtype)
    return bound - 1


@qd.func
def _choose_pivots(keys, spare, scratch, n, dtype: Constant):
    """Stores a pivot for each bucket; no key is below that of the first one. The keys between equal pivots get a bucket of their own."""
    for i in range(_SAMPLE):
        spare[at(spare, i)] = keys[at(keys, i * (n // _SAMPLE) + n // (2 * _SAMPLE))]
    for i in range(_SAMPLE):
        own, rank = to_bits(spare[at(spare, i)], dtype), 0
        for k in range(i):
            rank += qd.select(to_bits(spare[spare._offset[0] + k], dtype) <= own, 1, 0)
        for k in range(i + 1, _SAMPLE):
            rank += qd.select(to_bits(spare[spare._offset[0] + k], dtype) < own, 1, 0)
        bucket = rank // qd.static(_SAMPLE // _BUCKETS)
        if rank % qd.static(_SAMPLE // _BUCKETS) == 0:
            _store_pivot(scratch, bucket, qd.select(bucket > 0, qd.u64(own), 0))
    for k in range(2, _BUCKETS):
        bucket = _BUCKETS + 1 - k
        pivot = _load_pivot(scratch, bucket, dtype)
        if pivot == _load_pivot(scratch, bucket - 1, dtype) and ~pivot != 0:
            _store_pivot(scratch, bucket, qd.u64(pivot) + 1)


@qd.func
def _count_chunk(keys, scratch, begin, end, table, has_values: Constant, dtype: Constant):
    """Stores the limits of the buckets of a range with keys of a few kinds, in order if they have no values. Returns whether it is one."""
    kinds, counts = qd.Vector.zero(qd.static(bits_of(dtype)), KINDS), qd.Vector.zero(qd.i32, KINDS)
    has_equal, number = False, 0
    for bucket in range(_BUCKETS):
        has_equal |= _load_pivot(scratch, bucket, dtype) == _find_greatest(scratch, bucket, dtype)
    if has_equal:
        number = count_kinds(kinds, counts, keys, begin, end, dtype)
    place, k = begin, 0
    for bucket in range(qd.select(number > 0, _BUCKETS, 0)):
        low, high = _load_pivot(scratch, bucket, dtype), _find_greatest(scratch, bucket, dtype)
        scratch[at(scratch, table + bucket)] = qd.u32(place)
        while k < number and kinds[qd.min(k, KINDS - 1)] <= high:
            if qd.static(not has_values):
                if low < high:
                    _fill(keys, place, place + counts[k], kinds[k], dtype)
            place += counts[k]
            k += 1
    return number > 0


@qd.func
def _part(keys, spare, values, other, scratch, begin, end, table, has_values: Constant, dtype: Constant):
    """Parts a range into buckets; a table in scratch memory gets the limits of the buckets."""
    is_counted = _count_chunk(keys, scratch, begin, end, table, has_values, dtype)
    scratch[at(scratch, table)] = qd.u32(begin)
    scratch[at(scratch, table + _BUCKETS)] = qd.u32(end)
    step = qd.select(is_counted and not has_values, 1, _BUCKETS)
    while step > 1:
        for bucket in range(0, _BUCKETS, step):
            pivot = _load_pivot(scratch, bucket + step // 2, dtype)
            first, last = qd.i32(scratch[at(scratch, table + bucket)]), qd.i32(scratch[at(scratch, table + bucket + step)])
            place, is_mixed = first, False
            if is_counted:
                place = qd.i32(scratch[at(scratch, table + bucket + step // 2)])
                is_mixed = first < place < last
            elif pivot - 1 == _find_greatest(scratch, bucket + step - 1, dtype):
                place = last  # all keys are below it
            else:
                is_mixed = pivot != _load_pivot(scratch, bucket, dtype)  # otherwise no key is
            if is_mixed:
                place = first + _split(keys, spare, values, other, first, first, last - first, pivot, False, has_values, dtype)
                _move(spare, keys, first, place, last - place)
                if qd.static(has_values):
                    _move(other, values, first, place, last - place)
            scratch[at(scratch, table + bucket + step // 2)] = qd.u32(place)
        step //= 2


@qd.func(requires_top_level=True)
def sort_in_lanes(keys, spare, values, other, scratch, n, has_values: Constant, dtype: Constant):
    """Sorts n keys, and moves values along; `scratch` has a word for each of them.

    A table in scratch memory for each chunk has the limits of the buckets in the chunk, then their places among all keys.
    """
    alone = qd.static(_ALONE // (dtype.size + (values.dtype.size if has_values else 0)))
    size = qd.min(qd.max(n // 32, 16384), _CHUNK)
    chunks = qd.select(n <= alone, 0, (n - 1) // size + 1)
    size = qd.select(n <= alone, n, size)
    pieces, order = qd.max(chunks, 1), UP
    if n > 1:
        order = guess_order(keys, n, has_values, dtype)
        scratch[at(scratch, _ORDER)] = qd.u32(order)
    for piece in range(qd.select(order > 0 and n > 1, pieces, 0)):
        last = qd.min(n - piece * size, size + 1) + piece * size
        if not is_in_order(keys, piece * size, last, order, has_values, dtype):
            scratch[at(scratch, _ORDER)] = 0
    if n > 1:
        order = qd.i32(scratch[at(scratch, _ORDER)])
    if qd.static(dtype.size == 2 and not has_values):
        counted = 0
        if order == 0 and n >= qd.static(least_count(dtype)):
            if not seem_few(keys, n, dtype):
                counted, order = n, UP
        sort_by_counts(keys, scratch, counted, dtype)
    chunks = qd.select(order == 0, chunks, 0)
    pieces = qd.select(order == DOWN, pieces, chunks)
    for _ in range(qd.min(chunks, 1)):
        _choose_pivots(keys, spare, scratch, n, dtype)
    for piece in range(pieces):
        first, last = piece * size, qd.min(n - piece * size, size) + piece * size
        if order == 0:
            _part(keys, spare, values, other, scratch, first, last, _FIRST + piece * _TABLE, has_values, dtype)
        else:
            reverse(keys, spare, first, last, n)
            if qd.static(has_values):
                reverse(values, other, first, last, n)
    for _ in range(qd.min(chunks, 1)):
        place = qd.u32(0)
        for bucket in range(_BUCKETS):
            for chunk in range(chunks):
                table = _FIRST + chunk * _TABLE + bucket
                scratch[at(scratch, table + (_BUCKETS + 1))] = place
                place += scratch[at(scratch, table + 1)] - scratch[at(scratch, table)]
        scratch[at(scratch, qd.static(_FIRST + 2 * _BUCKETS + 1))] = place
    for piece in range(pieces):
        if order == DOWN:
            count = qd.min(n - piece * size, size)
            _move(spare, keys, piece * size, piece * size, count)
            if qd.static(has_values):
                _move(other, values, piece * size, piece * size, count)
        for bucket in range(qd.select(order == DOWN, 0, _BUCKETS)):
            table = _FIRST + piece * _TABLE + bucket
            place, first = qd.i32(scratch[at(scratch, table + (_BUCKETS + 1))]), qd.i32(scratch[at(scratch, table)])
            count = qd.i32(scratch[at(scratch, table + 1)]) - first
            if qd.static(has_values):
                _move(values, other, first, place, count)
            elif _load_pivot(scratch, bucket, dtype) == _find_greatest(scratch, bucket, dtype):
                count = 0  # equal keys are not moved but filled in
            _move(keys, spare, first, place, count)
    for bucket in range(qd.select(order > 0, 0, qd.select(chunks > 0, _BUCKETS, 1))):
        first, last, low, high = 0, n, qd.static(bits_of(dtype))(0), ~qd.static(bits_of(dtype))(0)
        if chunks > 0:
            table = qd.static(_FIRST + _BUCKETS + 1) + bucket
            first, last = qd.i32(scratch[at(scratch, table)]), qd.i32(scratch[at(scratch, table + 1)])
            low = _load_pivot(scratch, bucket, dtype)
            high = _find_greatest(scratch, bucket, dtype)
        _sort_range(keys, spare, values, other, first, last, chunks > 0, low, high, has_values, dtype)

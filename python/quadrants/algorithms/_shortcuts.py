"""What a sort on processors looks for first: keys that are in order already, and keys of a few kinds, which are counted and not moved."""

import quadrants as qd

from ._blocks import Constant, at
from ._network import bits_of, from_bits, to_bits
from ._sortable import unsigned_of

_BLOCK = 2048  # keys that are looked at before it is known whether one of them ends that
KINDS = 16
UP, DOWN = 1, 2  # orders of keys; 0: none


@qd.func
def _contradict(key, other, order, is_stable: Constant, dtype: Constant):
    """Whether two neighbors are not in an order. Stable sorts do not reverse equal keys."""
    bits, others = to_bits(key, dtype), to_bits(other, dtype)
    return qd.select(order == DOWN, bits <= others if qd.static(is_stable) else bits < others, bits > others)


@qd.func
def guess_order(keys, n, is_stable: Constant, dtype: Constant):
    """Returns the order of the first and the last one of n keys, 0 if the first few contradict it."""
    order = qd.select(to_bits(keys[at(keys, 0)], dtype) > to_bits(keys[at(keys, n - 1)], dtype), DOWN, UP)
    i = 0
    while i < qd.min(n - 1, 16):
        if _contradict(keys[at(keys, i)], keys[at(keys, i + 1)], order, is_stable, dtype):
            order, i = 0, n
        i += 1
    return order


@qd.func
def is_in_order(keys, begin, end, order, is_stable: Constant, dtype: Constant):
    place, wrong = begin, 0
    while place < end - 1 and wrong == 0:
        stop = qd.min(end - 1 - place, _BLOCK) + place
        for i in range(place, stop):
            is_wrong = _contradict(keys[keys._offset[0] + i], keys[keys._offset[0] + (i + 1)], order, is_stable, dtype)
            wrong += qd.select(is_wrong, 1, 0)
        place = stop
    return wrong == 0


@qd.func
def reverse(source, target, begin, end, n):
    """Stores a range of the reversed order of n elements."""
    for i in range(begin, end):
        target[target._offset[0] + i] = source[source._offset[0] + (n - 1 - i)]


@qd.func
def seem_few(keys, n, dtype: Constant):
    """Whether two of nine keys are equal."""
    chosen, found = qd.Vector.zero(qd.static(bits_of(dtype)), 9), False
    for k in qd.static(range(9)):
        chosen[k] = to_bits(keys[at(keys, k * (n // 9))], dtype)
        for other in qd.static(range(k)):
            found |= chosen[other] == chosen[k]
    return found


@qd.func
def count_kinds(kinds: Constant, counts: Constant, keys, begin, end, dtype: Constant):
    """Counts the keys of each kind, in their order. Returns the number of kinds; 0 if there are more than `KINDS`."""
    number, place = 0, begin
    while place < end and number <= KINDS:
        stop = qd.min(end - place, qd.select(number == 0, 64, _BLOCK)) + place  # few at first: keys of many kinds end it there
        left, unseen, k = stop - place, place, 0
        while left > 0 and number <= KINDS:
            if k == number:  # the other keys are of other kinds
                key, is_known = to_bits(keys[keys._offset[0] + unseen], dtype), False
                for other in range(number):
                    is_known |= kinds[other] == key
                unseen += 1
                if not is_known:
                    if number < KINDS:
                        kinds[number] = key
                    number += 1
            if k < qd.min(number, KINDS):
                bits, count = qd.bit_cast(from_bits(kinds[k], dtype), qd.static(unsigned_of(dtype))), 0
                for i in range(place, stop):
                    count += qd.select(qd.bit_cast(keys[keys._offset[0] + i], qd.static(unsigned_of(dtype))) == bits, 1, 0)
                counts[k] += count
                left -= count
                k += 1
        place = stop
    number = qd.select(number > KINDS, 0, number)
    for k in range(1, number):
        kind, count, slot = kinds[k], counts[k], k
        while slot > 0 and kinds[qd.max(slot - 1, 0)] > kind:
            kinds[slot], counts[slot] = kinds[slot - 1], counts[slot - 1]
            slot -= 1
        kinds[slot], counts[slot] = kind, count
    return number

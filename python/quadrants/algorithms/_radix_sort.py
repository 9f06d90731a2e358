"""A stable radix sort, eight bits at a time from the lowest.

One pass counts the digits of each block, converts the counts to positions, and moves the elements. The counts of a block are a row of
scratch memory; one iteration sums a column, one digit in all blocks, so that neighboring iterations read neighboring elements.
"""

from typing import Any

import quadrants as qd

from .._base.dtypes import find_dtype
from ._blocks import Constant, at, carrier, check_fold
from ._scratch import least_depth as _min_log256_for_n  # noqa: F401  (programs import it from here)

_DIGITS = 256
_BLOCK = 1024  # keys that one iteration moves; their counts take a quarter of the memory of the keys


def _check_sort(dtype: Any, end_bit: Any, log256_max_n: Any) -> None:
    check_fold(dtype, log256_max_n)
    bits = 8 * find_dtype(dtype).size
    if end_bit % 16 or not 16 <= end_bit <= bits:
        raise ValueError(f"end_bit must be a multiple of 16 from 16 to the {bits} bits of the keys, got {end_bit}")


@qd.func
def _to_sortable(key, dtype: Constant):
    """Maps keys to unsigned integers of the same order: -0.0 before 0.0, NaN last, negative NaN first."""
    unsigned = qd.static(carrier(dtype))
    bits = qd.bit_cast(key, unsigned)
    sign = unsigned(qd.static(1 << (8 * find_dtype(dtype).size - 1)))
    if qd.static(find_dtype(dtype).is_real):
        bits = qd.select(bits >= sign, ~bits, bits | sign)
    elif qd.static(find_dtype(dtype).is_signed):
        bits ^= sign
    return bits


@qd.func
def _digit(key, dtype: Constant, bit: Constant):
    return qd.i32(_to_sortable(key, dtype) >> bit & 255)


@qd.func(requires_top_level=True)
def _pass(keys, to_keys, values, to_values, scratch, n, dtype: Constant, has_values: Constant, bit: Constant):
    blocks = (n + (_BLOCK - 1)) // _BLOCK
    digits = qd.min(blocks, 1) * _DIGITS  # without keys there are no counts: the scratch memory has no space for them
    for block in range(blocks):
        for digit in range(_DIGITS):
            scratch[at(scratch, block * _DIGITS + digit)] = 0
        for i in range(block * _BLOCK, qd.min((block + 1) * _BLOCK, n)):
            slot = at(scratch, block * _DIGITS + _digit(keys[at(keys, i)], dtype, bit))
            scratch[slot] = scratch[slot] + 1  # no other iteration writes there: the addition need not be atomic
    # Sums each column: how many keys have the digit in the blocks up to this one. The last row holds all of them, and then their first
    # position.
    for digit in range(digits):
        count = qd.u32(0)
        for block in range(blocks):
            slot = at(scratch, block * _DIGITS + digit)
            count += scratch[slot]
            scratch[slot] = count
    begin = qd.u32(0)
    qd.loop_config(serialize=True)
    for digit in range(digits):
        slot = at(scratch, (blocks - 1) * _DIGITS + digit)
        count = scratch[slot]
        scratch[slot] = begin
        begin += count
    for digit in range(digits):
        first = scratch[at(scratch, (blocks - 1) * _DIGITS + digit)]
        for step in range(1, blocks):
            slot = at(scratch, (blocks - step) * _DIGITS + digit)
            scratch[slot] = first + scratch[slot - _DIGITS]
        scratch[at(scratch, digit)] = first
    for block in range(blocks):
        for i in range(block * _BLOCK, qd.min((block + 1) * _BLOCK, n)):
            slot = at(scratch, block * _DIGITS + _digit(keys[at(keys, i)], dtype, bit))
            position = qd.i32(scratch[slot])
            scratch[slot] = scratch[slot] + 1
            to_keys[at(to_keys, position)] = keys[at(keys, i)]
            if qd.static(has_values):
                to_values[at(to_values, position)] = values[at(values, i)]


@qd.func(requires_top_level=True)
def sort(
    keys, tmp_keys, values, tmp_values, scratch, n, key_dtype: Constant, has_values: Constant, end_bit: Constant, log256_max_n: Constant
):
    """Sort the first n elements of `keys` in place, ascending and stable, and move those of `values` along.

    Floats are ordered by their bits: -0.0 before 0.0, NaN at the end, negative NaN at the beginning.

    Args: `keys`, `tmp_keys`: 1-D arrays of `key_dtype` (i32, u32, f32, i64, u64, f64). `values`, `tmp_values`: 1-D arrays of one type;
    with `has_values=False`, pass the keys again. `scratch`: 1-D array of u32 of `sort_scratch_slots(n)` elements. `n`: 0-d array
    of i32, at most 256^log256_max_n. `end_bit`: sorts only by the bits below it; a multiple of 16. `log256_max_n`: compile-time
    integer, 1…4.
    Raises NotImplementedError for other types of keys, ValueError and TypeError for other numbers.
    """
    qd.static(_check_sort(key_dtype, end_bit, log256_max_n))
    for bit in qd.static(range(0, end_bit, 16)):
        _pass(keys, tmp_keys, values, tmp_values, scratch, n[()], key_dtype, has_values, bit)
        _pass(tmp_keys, keys, tmp_values, values, scratch, n[()], key_dtype, has_values, qd.static(bit + 8))

"""Prefix sums, minima and maxima."""

import quadrants as qd

from ._blocks import Constant, at, block_count, block_size, carrier, check_fold, identity, specialize_folds
from ._reduce import fold_blocks


@qd.func(requires_top_level=True)
def scan_counts(scratch, n):
    """Replaces the counts of the blocks in scratch by the sums of the counts before them; returns the sum of all."""
    total = qd.u32(0)
    qd.loop_config(serialize=True)
    for block in range(block_count(n)):
        slot = at(scratch, block)
        count = scratch[slot]
        scratch[slot] = total
        total += count
    return total


@qd.func(requires_top_level=True)
def _scan(arr, out, scratch, n, dtype: Constant, log256_max_n: Constant, op: Constant, inclusive: Constant):
    """Store in `out[i]` the {what} of {elements}, for all i < n; {empty} if there are none. `out` may be `arr`.

    Args: `arr`, `out`: 1-D arrays of `dtype` (i32, u32, f32, i64, u64, f64). `scratch`: 1-D array of u32, of u64 for eight-byte types, of
    `exclusive_scan_scratch_slots(n)` elements. `n`: i32, at most 256^log256_max_n. `log256_max_n`: compile-time integer, 1…4.
    The order of the additions depends on n only. Raises NotImplementedError for other types, ValueError and TypeError for other depths.
    """
    qd.static(check_fold(dtype, log256_max_n))
    fold_blocks(arr, scratch, n, dtype, op)
    total = dtype(qd.static(identity(op, dtype)))
    qd.loop_config(serialize=True)
    for block in range(block_count(n)):
        value = qd.bit_cast(scratch[at(scratch, block)], dtype)
        scratch[at(scratch, block)] = qd.bit_cast(total, qd.static(carrier(dtype)))
        total = op(total, value)
    for block in range(block_count(n)):
        running = qd.bit_cast(scratch[at(scratch, block)], dtype)
        for i in range(block * block_size(n), qd.min((block + 1) * block_size(n), n)):
            value = arr[at(arr, i)]
            if qd.static(inclusive):
                running = op(running, value)
                out[at(out, i)] = running
            else:
                out[at(out, i)] = running
                running = op(running, value)


def _specialize(kind, inclusive, elements):
    doc = _scan.__doc__.replace("{elements}", elements)
    return specialize_folds(_scan, kind + "_scan_{}", doc, inclusive=inclusive)


exclusive_scan_add, exclusive_scan_min, exclusive_scan_max = _specialize("exclusive", False, "`arr[0:i]`")
inclusive_scan_add, inclusive_scan_min, inclusive_scan_max = _specialize("inclusive", True, "`arr[0:i + 1]`")

"""Compaction: the elements with a flag, one after another."""

from __future__ import annotations

import quadrants as qd

from ._blocks import block_count, block_size
from ._scan import scan_counts
from ._scratch import check_depth


@qd.func(requires_top_level=True)
def select(arr, flags, out, num_out, scratch, n, log256_max_n: qd.template()):
    """Copy the elements `arr[i]`, i < n, whose flag is 1 to the beginning of `out`, in their order, and store their number in `num_out[0]`.

    Args: `arr`, `out`: 1-D arrays of one type, scalars or structs; the rest of `out` keeps its values. `flags`: 1-D array of i32, 0 or 1.
    `num_out`: 1-D array of i32. `scratch`: 1-D array of u32 of `select_scratch_slots(n)` elements. `n`: i32, at most 256^log256_max_n.
    `log256_max_n`: compile-time integer, 1…4; else ValueError or TypeError.
    """
    qd.static(check_depth(log256_max_n))
    for block in range(block_count(n)):
        count = qd.u32(0)
        for i in range(block * block_size(n), qd.min((block + 1) * block_size(n), n)):
            count += qd.u32(flags[i])
        scratch[block] = count
    num_out[0] = qd.i32(scan_counts(scratch, n))
    for block in range(block_count(n)):
        position = qd.i32(scratch[block])
        for i in range(block * block_size(n), qd.min((block + 1) * block_size(n), n)):
            if flags[i] == 1:
                out[position] = arr[i]
                position += 1

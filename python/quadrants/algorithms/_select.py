"""Compaction: copies the elements with a flag to consecutive positions."""

import quadrants as qd

from ._blocks import at, block_count, block_size
from ._scan import scan_counts
from ._scratch import check_depth


@qd.func(requires_top_level=True)
def select(arr, flags, out, num_out, scratch, n, log256_max_n: qd.template()):
    """Copy those of the first n elements of `arr` whose flag is non-zero to the beginning of `out`, in order, and their number to
    `num_out`.

    Args: `arr`, `out`: 1-D arrays of one type, scalars or structs; the rest of `out` is unchanged. `flags`: 1-D array of integers.
    `num_out`: 1-D array of i32, whose first element is set. `scratch`: 1-D array of u32 of `select_scratch_slots(n)` elements.
    `n`: i32, at most 256^log256_max_n. `log256_max_n`: compile-time integer, 1…4; raises ValueError or TypeError for others.
    """
    qd.static(check_depth(log256_max_n))
    for block in range(block_count(n)):
        count = qd.u32(0)
        for i in range(block * block_size(n), qd.min((block + 1) * block_size(n), n)):
            count += qd.u32(flags[at(flags, i)] != 0)
        scratch[at(scratch, block)] = count
    num_out[at(num_out, 0)] = qd.i32(scan_counts(scratch, n))
    for block in range(block_count(n)):
        position = qd.i32(scratch[at(scratch, block)])
        for i in range(block * block_size(n), qd.min((block + 1) * block_size(n), n)):
            if flags[at(flags, i)] != 0:
                out[at(out, position)] = arr[at(arr, i)]
                position += 1

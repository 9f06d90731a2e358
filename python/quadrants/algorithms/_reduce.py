"""Reductions of an array to one value."""

import quadrants as qd

from ._blocks import Constant, at, block_count, block_size, carrier, check_fold, identity, specialize_folds
from ._scratch import least_depth as _reduce_depth_for_n  # noqa: F401  (programs import it from here)


@qd.func(requires_top_level=True)
def fold_blocks(arr, scratch, n, dtype: Constant, op: Constant):
    """Folds each block of the first n elements of `arr` into the block's element of scratch."""
    for block in range(block_count(n)):
        total = dtype(qd.static(identity(op, dtype)))
        for i in range(block * block_size(n), qd.min((block + 1) * block_size(n), n)):
            total = op(total, arr[at(arr, i)])
        scratch[at(scratch, block)] = qd.bit_cast(total, qd.static(carrier(dtype)))


@qd.func(requires_top_level=True)
def _reduce(arr, out, scratch, n, dtype: Constant, log256_max_n: Constant, op: Constant):
    """Store the {what} of the first n elements of `arr` in the first element of `out`; {empty} for n = 0.

    Args: `arr`, `out`: 1-D arrays of `dtype` (i32, u32, f32, i64, u64, f64). `scratch`: 1-D array of u32, of u64 for eight-byte types, of
    `reduce_scratch_slots(n)` elements. `n`: i32, at most 256^log256_max_n. `log256_max_n`: compile-time integer, 1…4.
    The order of the additions depends on n only. Raises NotImplementedError for other types, ValueError and TypeError for other depths.
    """
    qd.static(check_fold(dtype, log256_max_n))
    fold_blocks(arr, scratch, n, dtype, op)
    total = dtype(qd.static(identity(op, dtype)))
    qd.loop_config(serialize=True)
    for block in range(block_count(n)):
        total = op(total, qd.bit_cast(scratch[at(scratch, block)], dtype))
    out[at(out, 0)] = total


reduce_add, reduce_min, reduce_max = specialize_folds(_reduce, "reduce_{}")

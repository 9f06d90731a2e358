"""Reductions of runs of equal keys."""

from typing import Any

import quadrants as qd

from .._base.dtypes import find_dtype
from ._blocks import Constant, at, block_count, block_size, check_fold, identity, specialize_folds
from ._scan import scan_counts


@qd.func
def _starts_run(keys, i):
    """Whether element i begins a run. A NaN equals nothing, so it is a run of its own."""
    result = True
    if i > 0:
        result = keys[at(keys, i)] != keys[at(keys, i - 1)]
    return result


def _is_wide(dtype: Any) -> bool:
    return find_dtype(dtype).size == 8


@qd.func
def _store(scratch, slot, value, dtype: Constant):
    """Stores a value of four or eight bytes in scratch memory of u32."""
    if qd.static(_is_wide(dtype)):
        bits = qd.bit_cast(value, qd.u64)
        scratch[at(scratch, slot)] = qd.u32(bits & qd.u64(0xFFFFFFFF))
        scratch[at(scratch, slot + 1)] = qd.u32(bits >> 32)
    else:
        scratch[at(scratch, slot)] = qd.bit_cast(value, qd.u32)


@qd.func
def _load(scratch, slot, dtype: Constant):
    if qd.static(_is_wide(dtype)):
        return qd.bit_cast(qd.u64(scratch[at(scratch, slot)]) | qd.u64(scratch[at(scratch, slot + 1)]) << 32, dtype)
    return qd.bit_cast(scratch[at(scratch, slot)], dtype)


@qd.func(requires_top_level=True)
def _reduce_by_key(
    keys_in, values_in, keys_out, values_out, num_runs, scratch, n, value_dtype: Constant, log256_max_n: Constant, op: Constant
):
    """Compute the {what} of the values of each run of equal neighboring keys: one key and one value per run; their number in `num_runs[0]`.

    Args: `keys_in`, `keys_out`: 1-D arrays of one scalar type; a NaN is a run of its own. `values_in`, `values_out`: 1-D arrays of
    `value_dtype` (i32, u32, f32, i64, u64, f64). `num_runs`: 1-D array of i32. `scratch`: 1-D array of u32 of
    `reduce_by_key_scratch_slots(n)` elements. `n`: i32, at most 256^log256_max_n. `log256_max_n`: compile-time integer, 1…4.
    The order of the additions depends on n only. Raises NotImplementedError for other types, ValueError and TypeError for other depths.
    """
    qd.static(check_fold(value_dtype, log256_max_n))
    for block in range(block_count(n)):
        count = qd.u32(0)
        for i in range(block * block_size(n), qd.min((block + 1) * block_size(n), n)):
            count += qd.u32(_starts_run(keys_in, i))
        scratch[at(scratch, block)] = count
    num_runs[at(num_runs, 0)] = qd.i32(scan_counts(scratch, n))
    # The part of a run in a block that continues an earlier block's run waits in scratch memory, behind the counts. A single block needs
    # none.
    for block in range(block_count(n)):
        run = qd.i32(scratch[at(scratch, block)]) - 1
        total = value_dtype(qd.static(identity(op, value_dtype)))
        is_carried = block > 0
        for i in range(block * block_size(n), qd.min((block + 1) * block_size(n), n)):
            if _starts_run(keys_in, i):
                if is_carried:
                    _store(scratch, block_count(n) + 2 * block, total, value_dtype)
                elif run >= 0:
                    values_out[at(values_out, run)] = total
                is_carried = False
                run += 1
                keys_out[at(keys_out, run)] = keys_in[at(keys_in, i)]
                total = values_in[at(values_in, i)]
            else:
                total = op(total, values_in[at(values_in, i)])
        if is_carried:
            _store(scratch, block_count(n) + 2 * block, total, value_dtype)
        elif n > 0:
            values_out[at(values_out, run)] = total
    qd.loop_config(serialize=True)
    for block in range(1, block_count(n)):
        run = qd.i32(scratch[at(scratch, block)]) - 1
        values_out[at(values_out, run)] = op(values_out[at(values_out, run)], _load(scratch, block_count(n) + 2 * block, value_dtype))


reduce_by_key_add, reduce_by_key_min, reduce_by_key_max = specialize_folds(_reduce_by_key, "reduce_by_key_{}")

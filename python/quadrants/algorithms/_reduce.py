"""Reductions of an array to one value."""

import quadrants as qd

from .._base import device as _device
from ..simt import subgroup
from ..simt._primitives import thread_idx
from ._blocks import Constant, at, carrier, check_fold, check_types, identity, specialize_folds
from ._scratch import check_count, check_fold_scratch, check_length
from ._scratch import least_depth as _reduce_depth_for_n  # noqa: F401  (programs import it from here)
from ._tiles import BLOCK, fold_before, from_word, load_rows, to_word

_BLOCKS = 1024  # of a grid at most; each takes every `_BLOCKS`-th tile


@qd.func(requires_top_level=True)
def _reduce_on_grid(arr, out, scratch, n, dtype: Constant, op: Constant):
    """Blocks fold tiles into scratch memory, and one block folds their results."""
    rows = qd.static(4 if dtype.size == 8 else 8)
    size = qd.static(BLOCK * (4 if dtype.size == 8 else 8))
    qd.loop_config(block_dim=BLOCK)
    for i in range(qd.min((n - 1) // size + 1, _BLOCKS) * BLOCK):
        total = dtype(qd.static(identity(op, dtype)))
        for tile in range(i // BLOCK, (n - 1) // size + 1, _BLOCKS):
            values = load_rows(arr, tile * size, n - tile * size, dtype(qd.static(identity(op, dtype))), rows, dtype)
            for k in qd.static(range(rows)):
                total = op(total, values[k])
        _, whole = fold_before(subgroup._reduce_all(total, None, op), dtype, op)
        if thread_idx() == 0:
            scratch[at(scratch, i // BLOCK)] = to_word(whole, dtype)
    qd.loop_config(block_dim=BLOCK)
    for thread in range(BLOCK):
        total = dtype(qd.static(identity(op, dtype)))
        for number in range(thread, qd.min((n - 1) // size + 1, _BLOCKS), BLOCK):
            total = op(total, from_word(scratch[at(scratch, number)], dtype))
        _, whole = fold_before(subgroup._reduce_all(total, None, op), dtype, op)
        if thread == 0:
            out[at(out, 0)] = whole


@qd.func(requires_top_level=True)
def _reduce_on_threads(arr, out, n, dtype: Constant, op: Constant):
    total = dtype(qd.static(identity(op, dtype)))
    for i in range(n):
        total = op(total, arr[at(arr, i)])
    out[at(out, 0)] = total


@qd.func(requires_top_level=True)
def _reduce(arr, out, scratch, n, dtype: Constant, log256_max_n: Constant, op: Constant):
    """Store the {what} of the first n elements of `arr` in the first element of `out`; {empty} for n = 0.

    Args: `arr`, `out`: 1-D arrays of `dtype` (i8…i64, u8…u64, f16, f32, f64). `scratch`: 1-D array of u32, of u64 for eight-byte types, of
    `reduce_scratch_slots(n)` elements. `n`: i32, at most 256^log256_max_n. `log256_max_n`: compile-time integer, 1…4.
    The order of the additions depends on n only. Raises NotImplementedError for other types, ValueError and TypeError for other depths.
    """
    qd.static(check_fold(dtype, log256_max_n, arr=arr.dtype, out=out.dtype))
    if qd.static(_device.HAS_CHECKS):
        check_count("reduce", n, log256_max_n)
        check_length("reduce", "arr", arr, n)
        check_fold_scratch("reduce", scratch, n)
    if qd.static(_device.HAS_GRIDS):
        qd.static(check_types(carrier(dtype), scratch=scratch.dtype))
        _reduce_on_grid(arr, out, scratch, n, dtype, op)
    else:
        _reduce_on_threads(arr, out, n, dtype, op)


reduce_add, reduce_min, reduce_max = specialize_folds(_reduce, "reduce_{}")

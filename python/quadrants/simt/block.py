"""`qd.simt.block`: operations on all threads of a block.

A loop with `qd.loop_config(block_dim=n)` runs in blocks of n iterations, one thread each; `n` must divide the number of iterations.
Functions with `block_dim` require the same number, a compile-time multiple of the subgroup size, and calls by all threads of the block.
"""
# ruff: noqa: F401, F811 (the module offers what is imported here, and parameters have such names, too)

import operator

import quadrants as qd

from .._base import device as _device
from .._base.compat import warn_deprecated
from .._base.namespaces import list_public as _list_public
from .._language.fold_operators import BY_NAME as _OPERATORS
from .._language.func import specialize
from . import _primitives
from ._primitives import SharedArray, block_dim, block_idx, copy_async, global_thread_idx, num_blocks, thread_idx, wait_copies
from ._primitives import block_mem_fence as mem_fence
from ._primitives import block_sync as sync
from ._primitives import group_sync as subgroup_sync
from .subgroup import _reduce_all, _scan, ballot, invocation_id, lanemask_lt


@qd.func
def mem_sync():
    """Deprecated name of `mem_fence`."""
    qd.static(warn_deprecated("qd.simt.block.mem_sync", "qd.simt.block.mem_fence"))
    mem_fence()


@qd.func
def sync_count_nonzero(predicate):
    """Wait for all threads of the block and return the number of threads whose predicate is non-zero, i32."""
    count = SharedArray((1,), qd.i32)
    if thread_idx() == 0:
        count[0] = 0
    sync()
    if predicate != 0:
        qd.atomic_add(count[0], 1)
    sync()
    result = count[0]
    sync()
    return result


@qd.func
def sync_any_nonzero(predicate):
    """Wait for all threads of the block and return 1 if the predicate of some thread is non-zero, else 0; i32."""
    return qd.i32(sync_count_nonzero(predicate) != 0)


@qd.func
def sync_all_nonzero(predicate):
    """Wait for all threads of the block and return 1 if the predicates of all threads are non-zero, else 0; i32."""
    return qd.i32(sync_count_nonzero(predicate == 0) == 0)


@qd.func
def reduce(value, block_dim: qd.template(), op: qd.template(), dtype: qd.template()):
    """Return, on thread 0, all values of the block combined with the func `op(a, b)` in the order of the threads; `dtype` is their data
    type.
    """
    qd.static(_primitives.check_block(block_dim), _primitives.check_values(value.dtype, dtype))
    _primitives.require_block(block_dim)
    result = qd.cast(value, dtype)
    if qd.static(op in _primitives.COMBINED):
        result = _reduce_all(result, None, op)
    else:
        for step in qd.static(range(_device.LOG2_SUBGROUP_SIZE)):
            result = op(result, _primitives.shuffle(result, (invocation_id() + qd.static(1 << step)) & (_device.SUBGROUP_SIZE - 1)))
    if qd.static(block_dim > _device.SUBGROUP_SIZE):
        parts = SharedArray((block_dim // _device.SUBGROUP_SIZE,), dtype)
        if invocation_id() == 0:
            parts[thread_idx() // _device.SUBGROUP_SIZE] = result
        sync()
        if thread_idx() == 0:
            for part in range(1, qd.static(block_dim // _device.SUBGROUP_SIZE)):
                result = op(result, parts[part])
        sync()
    return result


@qd.func
def reduce_all(value, block_dim: qd.template(), op: qd.template(), dtype: qd.template()):
    """Return, on every thread, all values of the block combined with the func `op(a, b)` in the order of the threads; `dtype` is their
    data type.
    """
    whole = SharedArray((1,), dtype)
    result = reduce(value, block_dim, op, dtype)
    if thread_idx() == 0:
        whole[0] = result
    sync()
    result = whole[0]
    sync()
    return result


@qd.func
def inclusive_scan(value, block_dim: qd.template(), op: qd.template(), dtype: qd.template()):
    """Return the values of the threads up to this one, combined with the func `op(a, b)` in their order; `dtype` is their data type."""
    qd.static(_primitives.check_block(block_dim), _primitives.check_values(value.dtype, dtype))
    _primitives.require_block(block_dim)
    result = _scan(qd.cast(value, dtype), _device.LOG2_SUBGROUP_SIZE, op)
    if qd.static(block_dim > _device.SUBGROUP_SIZE):
        parts = SharedArray((block_dim // _device.SUBGROUP_SIZE,), dtype)
        group = thread_idx() // _device.SUBGROUP_SIZE
        if invocation_id() == _device.SUBGROUP_SIZE - 1:
            parts[group] = result
        sync()
        if group > 0:
            before = parts[0]
            for part in range(1, group):
                before = op(before, parts[part])
            result = op(before, result)
        sync()
    return result


@qd.func
def exclusive_scan(value, block_dim: qd.template(), op: qd.template(), identity, dtype: qd.template()):
    """Return the values of the threads before this one, combined with the func `op(a, b)` in their order; on thread 0 `identity`.

    `dtype` is the data type of the values.
    """
    every = SharedArray((block_dim,), dtype)
    every[thread_idx()] = inclusive_scan(value, block_dim, op, dtype)
    sync()
    result = qd.cast(identity, dtype)
    if thread_idx() > 0:
        result = every[thread_idx() - 1]
    sync()
    return result


@qd.func
def _exclusive(value, block_dim: qd.template(), dtype: qd.template(), op: qd.template(), identity: qd.template()):
    return exclusive_scan(value, block_dim, op, identity(qd.cast(0, dtype)), dtype)


for _name, _identity, _first in (
    ("add", qd.zero, "0"), ("min", _primitives.largest, "the largest value of the type"),
    ("max", _primitives.smallest, "the smallest value of the type"),
):  # fmt: skip
    _op, _what = _OPERATORS[_name]
    for _general, _family, _more, _place in (
        (reduce, "reduce", {}, "of the block, on thread 0"),
        (reduce_all, "reduce_all", {}, "of the block, on every thread"),
        (inclusive_scan, "inclusive", {}, "of the threads up to this one"),
        (_exclusive, "exclusive", {"identity": _identity}, f"of the threads before this one; {_first} on thread 0"),
    ):
        globals()[f"{_family}_{_name}"] = specialize(_general, f"{_family}_{_name}", f"The {_what} {_place}.", op=_op, **_more)


@qd.func
def radix_rank_match_atomic_or(
    key, block_dim: qd.template(), radix_bits: qd.template(), bit_start, num_bits: qd.template(), bins, excl_prefix
):
    """Return the rank of a thread's key in the block, ordered by the digit of `num_bits` bits from `bit_start` on and then by thread; i32.

    `bins` and `excl_prefix`, shared arrays of 2**radix_bits i32, receive how many keys have each digit, and how many have a smaller one.
    `key` is a u32. `block_dim` is 2**radix_bits.
    """
    qd.static(_primitives.check_block(block_dim))
    _primitives.require_block(block_dim)
    qd.static(_primitives.check_digits(block_dim, radix_bits, num_bits))
    # A row of counts for each subgroup, or for several that have 32 lanes together and take turns: small devices have no memory for more.
    team = qd.static(max(_device.SUBGROUP_SIZE, min(block_dim, 32)))
    counts = SharedArray((block_dim // team, block_dim), qd.i32)
    thread = thread_idx()
    group = thread // team
    for other in range(qd.static(block_dim // team)):
        counts[other, thread] = 0
    sync()
    digit = qd.i32((key >> qd.u32(bit_start)) & qd.u32(qd.static((1 << num_bits) - 1)))
    same = _device.MASK(qd.static((1 << _device.SUBGROUP_SIZE) - 1))
    for bit in qd.static(range(num_bits)):
        votes = _device.MASK(ballot((digit >> bit) & 1))
        same &= qd.select(((digit >> bit) & 1) != 0, votes, ~votes)
    lower = qd.i32(qd.math.popcnt(same & lanemask_lt(invocation_id())))
    if qd.static(team == _device.SUBGROUP_SIZE):
        if lower == 0:
            counts[group, digit] = qd.i32(qd.math.popcnt(same))
    else:
        first = lower == 0
        for turn in range(qd.static(team // _device.SUBGROUP_SIZE)):
            if turn == thread % team // _device.SUBGROUP_SIZE:
                lower += counts[group, digit]
                subgroup_sync()
                if first:
                    counts[group, digit] += qd.i32(qd.math.popcnt(same))
            sync()
    sync()
    total = 0
    for other in range(qd.static(block_dim // team)):
        own = counts[other, thread]
        counts[other, thread] = total
        total += own
    bins[thread] = total
    excl_prefix[thread] = exclusive_scan(total, block_dim, operator.add, 0, qd.i32)
    sync()
    rank = excl_prefix[digit] + counts[group, digit] + lower
    sync()
    return rank


__all__ = _list_public(globals(), *"ballot invocation_id lanemask_lt operator specialize subgroup_sync warn_deprecated".split())
__dir__ = __all__.copy

"""`qd.simt.warp`: former names of operations on a group of 32 threads.

Those threads work together that a mask of u32 has, among them the caller. If a subgroup has 64 threads, the mask stands for both halves.
"""

import quadrants as qd

from .._base import device as _device
from .._base.namespaces import list_public as _list_public
from .._language.func import specialize
from . import subgroup


@qd.func
def _spread(mask):
    return qd.u64(mask) | qd.u64(mask) << 32 if qd.static(_device.SUBGROUP_SIZE > 32) else qd.u64(mask)


@qd.func
def all_nonzero(mask, predicate):
    """Return 1 if the predicate is non-zero on all lanes, else 0; i32."""
    return qd.i32(subgroup.ballot(predicate == 0, _spread(mask)) == 0)


@qd.func
def any_nonzero(mask, predicate):
    """Return 1 if the predicate is non-zero on some lane, else 0; i32."""
    return qd.i32(subgroup.ballot(predicate, _spread(mask)) != 0)


@qd.func
def unique(mask, predicate):
    """Return 1 if the predicate is non-zero on all lanes or on none, else 0; i32."""
    votes = subgroup.ballot(predicate, _spread(mask))
    return qd.i32(votes == 0 or subgroup.ballot(predicate == 0, _spread(mask)) == 0)


@qd.func
def ballot(predicate):
    """Return a bit for each lane, i32: whether its predicate is non-zero."""
    return qd.i32(subgroup.ballot(predicate))


@qd.func
def _shfl_sync(mask, value, lane, dtype: qd.template()):
    """Return the value of lane `lane`."""
    return subgroup.shuffle(dtype(value), lane, _spread(mask))


@qd.func
def _shfl_up(mask, value, delta, dtype: qd.template()):
    """Return the value of lane `lane - delta`, or the lane's own if there is no such lane."""
    return subgroup.shuffle_up(dtype(value), delta, _spread(mask))


@qd.func
def _shfl_down(mask, value, delta, dtype: qd.template()):
    """Return the value of lane `lane + delta`, or the lane's own if there is no such lane."""
    return subgroup.shuffle_down(dtype(value), delta, _spread(mask))


@qd.func
def _shfl_xor(mask, value, lanemask, dtype: qd.template()):
    """Return the value of lane `lane ^ lanemask`."""
    return subgroup.shuffle_xor(dtype(value), lanemask, _spread(mask))


for _dtype in (qd.i32, qd.f32):
    for _general in (_shfl_sync, _shfl_up, _shfl_down, _shfl_xor):
        _name = f"{_general.name[1:]}_{_dtype}"
        globals()[_name] = specialize(_general, _name, _general.__doc__, dtype=_dtype)


@qd.func
def match_any(mask, value):
    """Return the lanes that have this lane's value, one bit each; u32."""
    return qd.u32(subgroup.match_any(value, _spread(mask)))


@qd.func
def match_all(mask, value):
    """Return all lanes, one bit each, if they have one value, else 0; u32."""
    return qd.u32(subgroup.match_all(value, _spread(mask)))


@qd.func
def active_mask():
    """Return the active lanes, one bit each; u32."""
    return qd.u32(subgroup.active_mask())


@qd.func
def sync(mask):
    """Wait for the lanes of the mask and make their stores visible. Statements outside of parallel loops wait for nothing."""
    subgroup.sync(_spread(mask))


__all__ = _list_public(globals(), "specialize")


__dir__ = __all__.copy

"""`qd.simt.warp`: the older names of what a group of 32 threads does together. Masks are those of all lanes; others are not looked at."""

from __future__ import annotations

import quadrants as qd

from .._base.namespaces import list_public as _list_public
from .._language.func import specialize
from . import subgroup


@qd.func
def all_nonzero(mask, predicate):
    """1 where the predicate is not 0 on any lane, else 0; i32."""
    return subgroup.all_true(predicate)


@qd.func
def any_nonzero(mask, predicate):
    """1 where the predicate is not 0 on some lane, else 0; i32."""
    return subgroup.any_true(predicate)


@qd.func
def unique(mask, predicate):
    """1 where the predicate is 0 on all lanes or on none, else 0; i32."""
    return subgroup.all_equal(predicate != 0)


@qd.func
def ballot(predicate):
    """A bit for each lane, i32."""
    return qd.i32(subgroup.ballot(predicate))


@qd.func
def _shfl_sync(mask, value, lane, dtype: qd.template()):
    """The value of lane `lane`."""
    return subgroup.shuffle(dtype(value), lane)


@qd.func
def _shfl_up(mask, value, delta, dtype: qd.template()):
    """The value of lane `lane - delta`; its own where there is none."""
    return subgroup.shuffle_up(dtype(value), delta)


@qd.func
def _shfl_down(mask, value, delta, dtype: qd.template()):
    """The value of lane `lane + delta`; its own where there is none."""
    return subgroup.shuffle_down(dtype(value), delta)


@qd.func
def _shfl_xor(mask, value, lanemask, dtype: qd.template()):
    """The value of lane `lane ^ lanemask`."""
    return subgroup.shuffle_xor(dtype(value), lanemask)


for _dtype in (qd.i32, qd.f32):
    for _general in (_shfl_sync, _shfl_up, _shfl_down, _shfl_xor):
        _name = f"{_general.name[1:]}_{_dtype}"
        globals()[_name] = specialize(_general, _name, _general.__doc__, dtype=_dtype)


@qd.func
def match_any(mask, value):
    """The lanes that have this lane's value, a bit for each; u32."""
    lanes = qd.u32(0)
    for lane in range(qd.static(subgroup.group_size())):
        lanes |= qd.u32(subgroup.shuffle(value, lane) == value) << qd.u32(lane)
    return lanes


@qd.func
def match_all(mask, value):
    """All lanes, a bit for each, where they have one value; else 0; u32."""
    return qd.select(subgroup.all_equal(value) != 0, qd.u32(subgroup.ballot(1)), qd.u32(0))


@qd.func
def active_mask():
    """The lanes that take part, a bit for each; u32."""
    return qd.u32(subgroup.ballot(1))


@qd.func
def sync(mask):
    """Waits for all lanes, and sees what they have written."""
    subgroup.sync()


__all__ = _list_public(globals(), "specialize")


def __dir__() -> list[str]:
    """The public names."""
    return __all__

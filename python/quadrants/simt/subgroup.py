"""`qd.simt.subgroup`: operations on the neighboring threads of a subgroup: 32, or `group_size()` of them.

All lanes of the subgroup must call a function of this module together. With `lanes`, a mask, those of the mask do, among them the caller,
all with the same mask; so lanes in a branch work together: `active_mask()` returns them. A function whose name ends in `_tiled` splits the
subgroup into aligned tiles of 2**log2_size lanes that work independently; `log2_size` is a compile-time integer in
[0, `log2_group_size()`]. Values are scalars; shuffles take vectors and structs, too. Masks that functions return are u32, or u64 if a
subgroup has more than 32 threads.
"""

import quadrants as qd

from .._base import device as _device
from .._base.compat import warn_deprecated
from .._base.namespaces import list_public as _list_public
from .._language.fold_operators import BY_NAME as _OPERATORS
from .._language.func import specialize
from ._primitives import COMBINED, ballot, combine, count_steps, is_word, largest, reshuffle, shuffle, smallest, thread_idx
from ._primitives import active_mask as active_mask
from ._primitives import group_mem_fence as mem_fence
from ._primitives import group_sync as sync


def group_size() -> int:
    """Returns the number of lanes of a subgroup, a compile-time constant in kernels."""
    return _device.SUBGROUP_SIZE


def log2_group_size() -> int:
    """Returns the logarithm of `group_size()` to base 2."""
    return _device.LOG2_SUBGROUP_SIZE


@qd.func
def invocation_id():
    """Return the lane of the thread, i32."""
    return thread_idx() & (_device.SUBGROUP_SIZE - 1)


@qd.func
def _lane_in_tile(log2_size: qd.template()):
    return invocation_id() & qd.static((1 << count_steps(log2_size)) - 1)


@qd.func
def elect():
    """Return 1 on lane 0, else 0; i32."""
    return qd.i32(invocation_id() == 0)


@qd.func
def shuffle_xor(value, mask, lanes: qd.template() = None):
    """Return the value of lane `lane ^ mask`."""
    return shuffle(value, invocation_id() ^ qd.i32(mask), lanes)


@qd.func
def shuffle_up(value, delta, lanes: qd.template() = None):
    """Return the value of lane `lane - delta`, or the lane's own if there is no such lane."""
    source = invocation_id() - qd.i32(delta)
    return shuffle(value, qd.select(source < 0, invocation_id(), source), lanes)


@qd.func
def shuffle_down(value, delta, lanes: qd.template() = None):
    """Return the value of lane `lane + delta`, or the lane's own if there is no such lane."""
    source = invocation_id() + qd.i32(delta)
    return shuffle(value, qd.select(source >= _device.SUBGROUP_SIZE, invocation_id(), source), lanes)


@qd.func
def broadcast(value, lane):
    """Return the value of one lane on all lanes."""
    return shuffle(value, lane)


@qd.func
def broadcast_first(value):
    """Return the value of lane 0 on all lanes."""
    return shuffle(value, 0)


@qd.func
def ballot_first_n(predicate, n: qd.template()):
    """Return a bit for each of the first `n` lanes: whether its predicate is non-zero. `n` is a compile-time integer."""
    return _device.MASK(ballot(predicate)) & _device.MASK(qd.static((1 << n) - 1))


@qd.func
def _tile_votes(predicate, log2_size: qd.template()):
    first = invocation_id() - _lane_in_tile(log2_size)
    return (_device.MASK(ballot(predicate)) >> _device.MASK(first)) & _device.MASK(qd.static((1 << (1 << count_steps(log2_size))) - 1))


@qd.func
def all_true_tiled(predicate, log2_size: qd.template()):
    """Return 1 if the predicate is non-zero on all lanes of the tile, else 0; i32."""
    return qd.i32(_tile_votes(predicate, log2_size) == _device.MASK(qd.static((1 << (1 << count_steps(log2_size))) - 1)))


@qd.func
def any_true_tiled(predicate, log2_size: qd.template()):
    """Return 1 if the predicate is non-zero on some lane of the tile, else 0; i32."""
    return qd.i32(_tile_votes(predicate, log2_size) != _device.MASK(0))


@qd.func
def all_equal_tiled(value, log2_size: qd.template()):
    """Return 1 if all lanes of the tile have one value (by `==`), else 0; i32."""
    return all_true_tiled(value == shuffle(value, invocation_id() - _lane_in_tile(log2_size)), log2_size)


@qd.func
def match_any(value, lanes: qd.template() = None):
    """Return a bit for each lane (of `lanes`) that has this lane's value (by `==`)."""
    same = _device.MASK(shuffle(value, 0, lanes) == value)
    for lane in qd.static(range(1, _device.SUBGROUP_SIZE)):
        same |= _device.MASK(reshuffle(value, lane, lanes) == value) << _device.MASK(lane)
    if qd.static(lanes is not None):
        same &= _device.MASK(lanes)
    return same


@qd.func
def match_all(value, lanes: qd.template() = None):
    """Return a bit for each lane of the subgroup (or of `lanes`) if all have one value (by `==`), else 0."""
    there = _device.MASK(ballot(1, lanes))
    same = value == shuffle(value, qd.math.ffs(there) - 1, lanes)
    return qd.select(_device.MASK(ballot(same, lanes)) == there, there, _device.MASK(0))


# (factor << lane) - less
_MASKS = {
    "lt": (1, 1, "below bit `lane`"), "le": (2, 1, "up to bit `lane`"), "eq": (1, 0, "that are bit `lane`"),
    "gt": (-2, 0, "above bit `lane`"), "ge": (-1, 0, "from bit `lane` on"),
}  # fmt: skip


@qd.func
def _lanemask(lane, factor: qd.template(), less: qd.template(), kind: qd.template() = None):
    mask = qd.static(_device.MASK if kind is None else kind)
    return (mask(qd.static(factor % (1 << 8 * mask.size))) << mask(lane)) - mask(less)


@qd.func
def _reduce_all(value, log2_size: qd.template(), op: qd.template()):
    result = value
    if qd.static(is_word(value) and count_steps(log2_size) == _device.LOG2_SUBGROUP_SIZE):
        result = combine(value, qd.static(COMBINED[op]), qd.static(1 << count_steps(log2_size)))
    else:
        for step in qd.static(range(count_steps(log2_size))):
            result = op(result, shuffle(result, invocation_id() ^ qd.static(1 << step)))
    return result


@qd.func
def _scan(value, log2_size: qd.template(), op: qd.template()):
    lane = _lane_in_tile(log2_size)
    result = value
    for step in qd.static(range(count_steps(log2_size))):
        other = shuffle(result, (invocation_id() - qd.static(1 << step)) & (_device.SUBGROUP_SIZE - 1))
        if lane >= qd.static(1 << step):
            result = op(other, result)
    return result


@qd.func
def _exclusive(value, log2_size: qd.template(), op: qd.template(), identity: qd.template()):
    before = shuffle(_scan(value, log2_size, op), (invocation_id() - 1) & (_device.SUBGROUP_SIZE - 1))
    return qd.select(_lane_in_tile(log2_size) == 0, identity(value), before)


@qd.func
def _segmented(value, head_flag, log2_size: qd.template(), op: qd.template()):
    lane = _lane_in_tile(log2_size)
    result = value
    is_closed = qd.i32(head_flag != 0)
    for step in qd.static(range(count_steps(log2_size))):
        source = (invocation_id() - qd.static(1 << step)) & (_device.SUBGROUP_SIZE - 1)
        other = shuffle(result, source)
        other_closed = shuffle(is_closed, source)
        if lane >= qd.static(1 << step):
            if is_closed == 0:
                result = op(other, result)
            is_closed |= other_closed
    return result


@qd.func
def bitonic_sort_kv_tiled(key, value, log2_size: qd.template()):
    """Sorts the pairs of the tile in ascending order, by key, then by value, and returns this lane's pair."""
    lane = _lane_in_tile(log2_size)
    own_key, own_value = key, value
    for stage in qd.static(range(1, count_steps(log2_size) + 1)):
        for step in qd.static(range(stage - 1, -1, -1)):
            other_key = shuffle_xor(own_key, qd.static(1 << step))
            other_value = shuffle_xor(own_value, qd.static(1 << step))
            is_less = other_key < own_key or (other_key == own_key and other_value < own_value)
            is_greater = own_key < other_key or (own_key == other_key and own_value < other_value)
            takes_smaller = ((lane >> step) & 1) == ((lane >> stage) & 1)
            if (takes_smaller and is_less) or (not takes_smaller and is_greater):
                own_key = other_key
                own_value = other_value
    return own_key, own_value


@qd.func
def barrier():
    """Deprecated name of `sync`."""
    qd.static(warn_deprecated("qd.simt.subgroup.barrier", "qd.simt.subgroup.sync"))
    sync()


@qd.func
def memory_barrier():
    """Deprecated name of `mem_fence`."""
    qd.static(warn_deprecated("qd.simt.subgroup.memory_barrier", "qd.simt.subgroup.mem_fence"))
    mem_fence()


@qd.func
def ballot_full_subgroup(predicate):
    """Deprecated name of `ballot`."""
    qd.static(warn_deprecated("qd.simt.subgroup.ballot_full_subgroup", "qd.simt.subgroup.ballot"))
    return ballot(predicate)


@qd.func
def _all_bits(value):
    return ~qd.zero(value)


def _offer(general, name, doc, **fixed):
    """Adds to the module a func for tiles and, without the suffix of its name, one for the whole subgroup."""
    for suffix, lanes, more in (("_tiled", "the tile", {}), ("", "the subgroup", {"log2_size": None})):
        globals()[name + suffix] = specialize(general, name + suffix, doc.replace("the tile", lanes), **fixed, **more)


for _func in (all_true_tiled, any_true_tiled, all_equal_tiled, bitonic_sort_kv_tiled):
    _offer(_func, _func.__name__.removesuffix("_tiled"), _func.__doc__)
for _name, (_factor, _less, _which) in _MASKS.items():
    for _suffix, _type, _fixed in (("", "u32, or u64 if a subgroup has more than 32 lanes", {}), ("_u64", "u64", {"kind": qd.u64})):
        _mask = f"lanemask_{_name}{_suffix}"
        globals()[_mask] = specialize(_lanemask, _mask, f"Bits {_which}; {_type}.", factor=_factor, less=_less, **_fixed)
_IDENTITIES = {"add": qd.zero, "mul": qd.one, "min": largest, "max": smallest, "and": _all_bits, "or": qd.zero, "xor": qd.zero}
for _name, (_op, _what) in _OPERATORS.items():
    _offer(_scan, f"inclusive_{_name}", f"The {_what} of the lanes of the tile up to this one.", op=_op)
    _before = f"The {_what} of the lanes of the tile before this one; on its first lane what changes nothing."
    _offer(_exclusive, f"exclusive_{_name}", _before, op=_op, identity=_IDENTITIES[_name])
    if _name in ("add", "min", "max"):
        _offer(_reduce_all, f"reduce_all_{_name}", f"The {_what} of the tile, on all lanes.", op=_op)
        _offer(_reduce_all, f"reduce_{_name}", f"The {_what} of the tile, on its first lane.", op=_op)
        _since = f"The {_what} from the last lane with a flag up to this one; the first lane of the tile counts as flagged."
        _offer(_segmented, f"segmented_reduce_{_name}", _since, op=_op)


_HELPERS = "COMBINED combine count_steps is_word reshuffle largest smallest specialize thread_idx warn_deprecated".split()
__all__ = _list_public(globals(), *_HELPERS)


__dir__ = __all__.copy

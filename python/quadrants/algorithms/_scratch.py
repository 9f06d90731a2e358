"""Sizes of the scratch memory of the algorithms."""

from typing import Any

import quadrants as qd

_LEVEL = 256  # number of elements that one level folds into one
_MAX_DEPTH = 4


def least_depth(n: int) -> int:
    """Returns the least d ≥ 1 with 256^d ≥ n."""
    depth = 1
    while _LEVEL**depth < n:
        depth += 1
    return depth


def check_depth(log256_max_n: Any) -> int:
    """Returns a valid depth. Raises TypeError unless it is an integer, ValueError unless it is 1…4."""
    if isinstance(log256_max_n, bool) or not hasattr(log256_max_n, "__index__"):
        raise TypeError(f"log256_max_n must be an integer, got {log256_max_n!r}")
    depth = int(log256_max_n)
    if not 1 <= depth <= _MAX_DEPTH:
        raise ValueError(f"log256_max_n must be 1, 2, 3 or 4, got {depth}")
    return depth


def _depth_of(n: Any) -> int:
    if isinstance(n, int):
        return check_depth(least_depth(n))
    raise TypeError("log256_max_n has to be given where n is known at run time only")


@qd.pyfunc
def _level_slots(n, depth: qd.template()):
    """Returns the number of elements of the levels above n elements: ceil(n / 256), then ceil(… / 256), and so on, `depth` - 1 times."""
    total = 0
    count = n
    for _ in qd.static(range(depth - 1)):
        count = (count + 255) // 256
        total += count
    return total


@qd.pyfunc
def reduce_scratch_slots(n, log256_max_n: qd.template() = None):
    """Return the number of elements of scratch memory that `reduce_add` and similar functions need for `n` elements.

    `log256_max_n` is the depth passed to them (1…4); the default is the least that `n`, a Python integer, needs. In kernels `n` may be a
    run-time value, together with a depth. Raises TypeError for a depth that is no integer and ValueError for one outside 1…4; in kernels a
    QuadrantsCompilationError quotes them.
    """
    return max(_level_slots(n, qd.static(_depth_of(n) if log256_max_n is None else check_depth(log256_max_n))), 1)


def most_slots(n: int) -> int:
    """Returns a number that is no less than `reduce_scratch_slots(n)`, and found without loops."""
    return n // (_LEVEL - 1) + _MAX_DEPTH


@qd.pyfunc
def exclusive_scan_scratch_slots(n, log256_max_n: qd.template() = None):
    """Return the number of elements of scratch memory that scans need for `n` elements; `log256_max_n` and errors as for
    `reduce_scratch_slots`.
    """
    return reduce_scratch_slots(n, log256_max_n)


@qd.pyfunc
def sort_scratch_slots(n, log256_max_n: qd.template() = None):
    """Return the number of elements of scratch memory that `sort` needs for `n` elements; `log256_max_n` and errors as for
    `reduce_scratch_slots`.
    """
    counts = 256 * ((n + 255) // 256)
    return max(counts + _level_slots(counts, qd.static(_depth_of(n) if log256_max_n is None else check_depth(log256_max_n))), 1)


@qd.pyfunc
def needed_levels(n):
    """Returns the number of elements of those levels above n elements that have more than one; the least depth has no others."""
    total = 0
    count = n
    for _ in qd.static(range(_MAX_DEPTH)):
        count = (count + 255) // 256
        total += count * (count > 1)
    return total


def select_scratch_slots(n: int) -> int:
    """Return the number of elements of scratch memory that `select` needs for `n` elements."""
    blocks = (max(n, 0) + 255) // 256
    return max(max(n, 0) + blocks + needed_levels(blocks), 1)


def reduce_by_key_scratch_slots(n: int) -> int:
    """Return the number of elements of scratch memory that `reduce_by_key_add` needs for `n` elements."""
    return max(n, 1) if n <= _LEVEL else select_scratch_slots(n)


# Checks of debug mode (_device.HAS_CHECKS).


@qd.func
def check_length(name: qd.template(), what: qd.template(), arr, n):
    assert n <= arr.shape[0], f"{name}: {what} has {arr.shape[0]} elements, but n is {n}"


@qd.func
def check_count(name: qd.template(), n, log256_max_n: qd.template()):
    assert n >= 0, f"{name}: n is {n}, less than 0"
    if qd.static(log256_max_n < _MAX_DEPTH):
        assert n <= qd.static(_LEVEL**log256_max_n), f"{name}: n is {n}, more than 256**{log256_max_n}"


@qd.func
def check_scratch(name: qd.template(), scratch, slots):
    assert slots <= scratch.shape[0], f"{name}: scratch has {scratch.shape[0]} elements, and needs {slots}"


@qd.func
def check_fold_scratch(name: qd.template(), scratch, n):
    check_scratch(name, scratch, qd.max(needed_levels(n), 1))


@qd.func
def check_selection(name: qd.template(), scratch, n, log256_max_n: qd.template()):
    """The checks of selections and runs."""
    check_count(name, n, log256_max_n)
    blocks = (n + 255) // 256
    check_scratch(name, scratch, qd.select(n > _LEVEL, n + blocks + needed_levels(blocks), n))

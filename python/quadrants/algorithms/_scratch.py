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


def select_scratch_slots(n: int) -> int:
    """Return the number of elements of scratch memory that `select` needs for `n` elements."""
    n = max(n, 0)
    level = (n + _LEVEL - 1) // _LEVEL
    slots = n + level
    while (level := (level + _LEVEL - 1) // _LEVEL) > 1:
        slots += level
    return max(slots, 1)


def reduce_by_key_scratch_slots(n: int) -> int:
    """Return the number of elements of scratch memory that `reduce_by_key_add` needs for `n` elements."""
    return max(n, 1) if n <= _LEVEL else select_scratch_slots(n)

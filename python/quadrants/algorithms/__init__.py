"""Parallel algorithms over one-dimensional arrays, written in the kernel language: reductions, scans, compaction, sorting.

`reduce`, `scan`, `sort`, `argmin`, `argmax`, `unique`, `histogram` and `segmented_reduce` are called from Python, with whole containers.
The others, and `sort` with more arguments, are called in kernels, at the top level, where their loops become tasks of the kernel. Their
scratch memory is an array of `u32` (`u64` for reductions and scans of eight-byte data) with at least the number of elements that the
function `*_scratch_slots` returns.
"""

# ruff: noqa: F401 (what is imported here is what the package offers)

from ._algorithms import PrefixSumExecutor, parallel_sort
from ._host import argmax, argmin, histogram, reduce, scan, segmented_reduce, unique
from ._radix_sort import sort
from ._reduce import reduce_add, reduce_max, reduce_min
from ._reduce_by_key import reduce_by_key_add, reduce_by_key_max, reduce_by_key_min
from ._scan import exclusive_scan_add, exclusive_scan_max, exclusive_scan_min, inclusive_scan_add, inclusive_scan_max, inclusive_scan_min
from ._scratch import (
    exclusive_scan_scratch_slots,
    reduce_by_key_scratch_slots,
    reduce_scratch_slots,
    select_scratch_slots,
    sort_scratch_slots,
)
from ._select import select

__all__ = sorted(name for name in globals() if not name.startswith("_"))


__dir__ = __all__.copy

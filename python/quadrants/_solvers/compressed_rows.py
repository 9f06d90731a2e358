"""Compressed sparse rows (CSR): triplets to rows, and products with vectors, as kernels."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import quadrants as qd

Array = qd.types.ndarray()
CHUNKS = 64  # parts of the triplets that different threads count
# Logarithms of the maximum number of buckets: a thread of a processor writes to all of them, one of a GPU sorts one.
BUCKET_BITS, BUCKET_BITS_OF_GPU = 7, 10
SHORT_ROW = 24  # rows up to this length are sorted by insertion


class Rows(NamedTuple):
    """A matrix by rows: entries `offsets[i]` to `offsets[i + 1]` of `columns` (ascending, i32) and `values` are row i."""

    offsets: Any
    columns: Any
    values: Any

    @classmethod
    def empty(cls, height: int, dtype: Any) -> Rows:
        """Returns the rows of a matrix without entries."""
        return cls(qd.ndarray(qd.i32, height + 1), qd.ndarray(qd.i32, 0), qd.ndarray(dtype, 0))

    def to_scipy(self, copy: bool) -> tuple[np.ndarray, ...]:
        """Returns what the constructors of SciPy's matrices take: values, columns and offsets."""
        return tuple(part.to_numpy(copy=True if copy else None) for part in reversed(self))


@qd.kernel
def _count_buckets(
    rows: Array, columns: Array, counts: Array, count: qd.i32, chunk: qd.i32, shift: qd.i32, height: qd.i32, width: qd.i32
) -> qd.i32:
    """Counts the triplets of each chunk in each bucket of rows; returns the number of triplets outside of the matrix."""
    chunks = (count + chunk - 1) // chunk
    outside = 0
    for part in range(chunks):
        missing = 0
        for t in range(part * chunk, qd.min((part + 1) * chunk, count)):
            if 0 <= rows[t] < height and 0 <= columns[t] < width:
                slot = (rows[t] >> shift) * chunks + part
                counts[slot] = qd.volatile_load(counts[slot]) + 1  # only this iteration writes there
            else:
                missing += 1
        outside += missing
    return outside


@qd.kernel
def _scatter_to_buckets(
    rows: Array, columns: Array, values: Array, slots: Array, to_rows: Array, to_columns: Array, to_values: Array,
    count: qd.i32, chunk: qd.i32, shift: qd.i32,
):  # fmt: skip
    """Moves each triplet to its bucket. `slots` has the first free slot of each chunk in each bucket."""
    chunks = (count + chunk - 1) // chunk
    for part in range(chunks):
        for t in range(part * chunk, qd.min((part + 1) * chunk, count)):
            counter = (rows[t] >> shift) * chunks + part
            slot = qd.volatile_load(slots[counter])
            slots[counter] = slot + 1
            to_rows[slot] = rows[t]
            to_columns[slot] = columns[t]
            to_values[slot] = values[t]


@qd.kernel
def _scatter_to_rows(
    ends: Array, rows: Array, columns: Array, values: Array, offsets: Array, fill: Array, to_columns: Array, to_values: Array,
    chunks: qd.i32, shift: qd.i32,
):  # fmt: skip
    """Moves the triplets of each bucket to their rows, and stores the first entry of each row in `offsets`, the last one in `fill`."""
    height = offsets.shape[0] - 1
    for bucket in range((height + (1 << shift) - 1) >> shift):
        begin = ends[bucket * chunks - 1] if bucket > 0 else 0
        end = ends[(bucket + 1) * chunks - 1]
        last = qd.min((bucket + 1) << shift, height)
        for t in range(begin, end):
            fill[rows[t]] = qd.volatile_load(fill[rows[t]]) + 1
        entry = begin
        for row in range(bucket << shift, last):
            offsets[row] = entry
            entry += fill[row]
            fill[row] = offsets[row]
        for t in range(begin, end):
            slot = qd.volatile_load(fill[rows[t]])
            fill[rows[t]] = slot + 1
            to_columns[slot] = columns[t]
            to_values[slot] = values[t]
        if last == height:
            offsets[height] = end


@qd.func
def _comes_before(columns, values, a, b):
    """Whether entry a comes before entry b: by column, then by value, so that sums do not depend on the order of arrival."""
    return columns[a] < columns[b] or (columns[a] == columns[b] and values[a] < values[b])


@qd.func
def _swap(columns, values, a, b):
    columns[a], columns[b] = columns[b], columns[a]
    values[a], values[b] = values[b], values[a]


@qd.func
def _insertion_sort(columns, values, begin, end):
    for i in range(begin + 1, end):
        column, value = columns[i], values[i]
        at = i
        while at > begin and (columns[at - 1] > column or (columns[at - 1] == column and values[at - 1] > value)):
            columns[at] = columns[at - 1]
            values[at] = values[at - 1]
            at -= 1
        columns[at] = column
        values[at] = value


@qd.func
def _sift_down(columns, values, begin, root, count):
    """Moves an entry of a heap below its larger children."""
    at = root
    while 2 * at + 1 < count:
        child = 2 * at + 1
        if child + 1 < count and _comes_before(columns, values, begin + child, begin + child + 1):
            child += 1
        if not _comes_before(columns, values, begin + at, begin + child):
            break
        _swap(columns, values, begin + at, begin + child)
        at = child


@qd.func
def _heap_sort(columns, values, begin, end):
    count = end - begin
    for i in range(count // 2):
        _sift_down(columns, values, begin, count // 2 - 1 - i, count)
    for i in range(count - 1):
        _swap(columns, values, begin, begin + count - 1 - i)
        _sift_down(columns, values, begin, 0, count - 1 - i)


@qd.kernel
def _merge_rows(offsets: Array, columns: Array, values: Array, lengths: Array):
    """Sorts each row, and adds up values of equal columns; `lengths[i + 1]` becomes the number of entries of row i."""
    for row in range(offsets.shape[0] - 1):
        begin, end = qd.volatile_load(offsets[row]), offsets[row + 1]  # one lane: a sort is too irregular for several
        if end - begin <= qd.static(SHORT_ROW):
            _insertion_sort(columns, values, begin, end)
        else:
            _heap_sort(columns, values, begin, end)
        last = begin
        for i in range(begin + 1, end):
            if columns[i] == columns[last]:
                values[last] += values[i]
            else:
                last += 1
                columns[last] = columns[i]
                values[last] = values[i]
        lengths[row + 1] = qd.min(last + 1, end) - begin


@qd.kernel
def _pack(offsets: Array, columns: Array, values: Array, to_offsets: Array, to_columns: Array, to_values: Array):
    """Copies the merged entries of each row to where the result has them."""
    for row in range(offsets.shape[0] - 1):
        shift = offsets[row] - to_offsets[row]
        for i in range(to_offsets[row], to_offsets[row + 1]):
            to_columns[i] = columns[i + shift]
            to_values[i] = values[i + shift]


def compress(rows: Any, columns: Any, values: Any, count: int, height: int, width: int, staged: list[Any] | None = None) -> Rows:
    """Returns the rows of a matrix from its first `count` triplets; raises `IndexError` if an index is outside of the matrix.

    The triplets are moved twice: to buckets of neighboring rows, which fit into the caches, and back, to their rows. So the arrays are
    overwritten, and new memory, which costs as much as the moves, is only allocated for the result. `staged` keeps the buckets' memory
    for the next call with arrays of this size; without it the result may lie in the arrays.
    """
    if count == 0:
        return Rows.empty(height, values.dtype)
    chunk = -(-count // CHUNKS)
    chunks = -(-count // chunk)
    shift = max((height - 1).bit_length() - (BUCKET_BITS if rows._device is None else BUCKET_BITS_OF_GPU), 0)
    buckets = ((height - 1) >> shift) + 1
    counts = qd.ndarray(qd.i32, buckets * chunks + 1)
    outside = _count_buckets(rows, columns, counts, count, chunk, shift, height, width)
    if outside:
        raise IndexError(f"{outside} of {count} triplets are outside of the {height}x{width} matrix")
    qd.algorithms.scan(counts, inclusive=False, out=counts)
    buffers = [] if staged is None else staged
    if not buffers:
        buffers.extend(qd.ndarray(array.dtype, array.shape) for array in (rows, columns, values))
    _scatter_to_buckets(rows, columns, values, counts, *buffers, count, chunk, shift)
    offsets, fill = qd.ndarray(qd.i32, height + 1), qd.ndarray(qd.i32, height + 1)
    _scatter_to_rows(counts, *buffers, offsets, fill, columns, values, chunks, shift)
    lengths = qd.ndarray(qd.i32, height + 1)
    _merge_rows(offsets, columns, values, lengths)
    qd.algorithms.scan(lengths, out=lengths)
    total = int(lengths[height])
    if staged is None and total == columns.shape[0]:  # nothing was merged
        return Rows(offsets, columns, values)
    result = Rows(lengths, qd.ndarray(qd.i32, total), qd.ndarray(values.dtype, total))
    _pack(offsets, columns, values, *result)
    return result


@qd.kernel
def multiply(offsets: Array, columns: Array, values: Array, x: Array, y: Array):
    """Stores the product of the matrix and the vector x in y."""
    for row in range(offsets.shape[0] - 1):
        total = qd.zero(y[row])
        for i in range(offsets[row], offsets[row + 1]):
            total += values[i] * x[columns[i]]
        y[row] = total


@qd.kernel
def count_unsorted(offsets: Array, columns: Array) -> qd.i32:
    """Returns the number of entries that do not come behind the one before them in their row."""
    found = 0
    for row in range(offsets.shape[0] - 1):
        for i in range(offsets[row] + 1, offsets[row + 1]):
            if columns[i] <= columns[i - 1]:
                found += 1
    return found


@qd.func
def _find_entry(offsets, columns, values, row, column):
    """Returns an entry, 0 if it is not stored."""
    begin, end = offsets[row], offsets[row + 1]
    while begin < end:
        middle = begin + (end - begin) // 2
        if columns[middle] < column:
            begin = middle + 1
        else:
            end = middle
    found = values.dtype(0)
    if begin < offsets[row + 1] and columns[begin] == column:
        found = values[begin]
    return found


@qd.kernel
def _measure_symmetry(offsets: Array, columns: Array, values: Array, found: Array):
    """Stores the largest absolute value of an entry, of a difference between the matrix and its transpose, and a number of others."""
    for row in range(offsets.shape[0] - 1):
        largest, difference, strange = values.dtype(0), values.dtype(0), values.dtype(0)
        for i in range(offsets[row], offsets[row + 1]):
            value = values[i]
            if qd.math.isnan(value) or qd.math.isinf(value):
                strange += 1
            largest = qd.max(largest, qd.abs(value))
            if columns[i] != row:
                difference = qd.max(difference, qd.abs(value - _find_entry(offsets, columns, values, columns[i], row)))
        qd.atomic_max(found[0], largest)
        qd.atomic_max(found[1], difference)
        qd.atomic_add(found[2], strange)


def measure_symmetry(rows: Rows) -> tuple[float, float, float]:
    """Returns the largest absolute value of a square matrix, of its difference from its transpose, and the number of infinities and NaN."""
    found = qd.ndarray(rows.values.dtype, 3)
    _measure_symmetry(*rows, found)
    largest, difference, strange = found.to_numpy().tolist()
    return largest, difference, strange

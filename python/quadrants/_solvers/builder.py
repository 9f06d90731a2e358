"""Collects the entries of a sparse matrix in kernels."""

from __future__ import annotations

from typing import Any

import quadrants as qd

from .._base import options as _options
from .._base.errors import QuadrantsRuntimeError, QuadrantsSyntaxError, QuadrantsTypeError
from .compressed_rows import compress
from .sparse_matrix import SparseMatrix, check_dtype, check_extents, check_format

MAX_TRIPLETS = 2**31 - 1


@qd.data_oriented
class Entry:
    """The entry of a builder at a row and column, while a kernel adds to it."""

    def __init__(self, builder, row, column):
        self.builder, self.row, self.column = builder, row, column

    @qd.func
    def __iadd__(self, value):
        self.builder._insert(self.row, self.column, value)
        return self

    @qd.func
    def __isub__(self, value):
        self.builder._insert(self.row, self.column, -value)
        return self


def _refuse_assignment() -> None:
    raise QuadrantsSyntaxError("an entry of a sparse matrix builder cannot be assigned: add to it with `+=` or `-=`")


def _check_indices(count: Any) -> None:
    if count != 2:
        raise QuadrantsSyntaxError(f"an entry of a sparse matrix builder has two indices, a row and a column, got {count}")


@qd.data_oriented
class SparseMatrixBuilder:
    """Collect values for a sparse matrix in kernels: `builder[row, column] += value`, from any thread; equal indices add up.

    A kernel's parameter is annotated `qd.types.sparse_matrix_builder()`. Indices are not checked before `build`.

    Args:
        num_rows: number of rows, at least 1.
        num_cols: number of columns; by default as many.
        max_num_triplets: number of additions that fit until `build`, at most 2^31 - 1.
        dtype: type of the values, f32 or f64.
        storage_format: "col_major" or "row_major", for programs that name one; the matrix is stored by rows.
    Raises:
        RuntimeError: another dtype.
        QuadrantsTypeError: another storage format.
        ValueError: sizes that are not positive, or too many triplets.
    """

    def __init__(
        self,
        num_rows: int | None = None,
        num_cols: int | None = None,
        max_num_triplets: int = 0,
        dtype: Any = qd.f32,
        storage_format: str = "col_major",
    ):
        self.num_rows, self.num_cols = check_extents(num_rows, num_cols or num_rows)
        self.dtype = check_dtype(dtype)
        check_format(storage_format)
        if not 0 <= max_num_triplets <= MAX_TRIPLETS:
            raise ValueError(f"max_num_triplets must be between 0 and {MAX_TRIPLETS}, got {max_num_triplets}")
        self._size = max_num_triplets
        self._count = qd.ndarray(qd.u32 if _options.get("arch") == "metal" else qd.i64, 1)  # Metal has no atomic operations on 64 bits
        self._rows = qd.ndarray(qd.i32, max_num_triplets)
        self._columns = qd.ndarray(qd.i32, max_num_triplets)
        self._values = qd.ndarray(self.dtype, max_num_triplets)
        self._staged: list[Any] = []  # the same memory again, from the first matrix on

    @qd.func
    def __getitem__(self, index):
        qd.static(_check_indices(len(index)))
        return Entry(self, index[0], index[1])

    @qd.func
    def __setitem__(self, index, value):
        if qd.static(not isinstance(value, Entry)):
            qd.static(_refuse_assignment())

    @qd.func
    def _insert(self, row, column, value):
        """Adds a value to an entry; what `builder[row, column] += value` calls."""
        slot = qd.atomic_add(self._count[0], 1)
        if slot < qd.cast(self._rows.shape[0], self._count.dtype):  # compared before it is an index, which would be negative
            self._rows[qd.cast(slot, qd.i32)] = row
            self._columns[qd.cast(slot, qd.i32)] = column
            self._values[qd.cast(slot, qd.i32)] = value

    def _read_count(self) -> int:
        """Returns the number of triplets; raises if there were more than fit."""
        count = int(self._count[0])
        if count > self._size:
            self._count[0] = 0
            raise QuadrantsRuntimeError(
                f"{count} triplets were added to a sparse matrix builder with max_num_triplets={self._size}: make it larger"
            )
        return count

    def build(self, dtype: Any = None, _format: str = "CSR") -> SparseMatrix:
        """Return the matrix of the collected values as a `SparseMatrix`, and empty the builder.

        Sums do not depend on the order of the additions: the values of an entry are added in ascending order. `dtype`, by default that of
        the builder, is the type of the result, f32 or f64; `_format` is "CSR". Raises `QuadrantsRuntimeError` if more than
        `max_num_triplets` values were added, `QuadrantsTypeError` for another format, and `IndexError` for an index outside of the matrix.
        """
        if _format != "CSR":
            raise QuadrantsTypeError(f"the format of a sparse matrix is CSR, got {_format!r}")
        kind = self.dtype if dtype is None else check_dtype(dtype)
        count = self._read_count()
        self._count[0] = 0
        rows = compress(self._rows, self._columns, self._values, count, self.num_rows, self.num_cols, self._staged)
        matrix = SparseMatrix(self.num_rows, self.num_cols, dtype=self.dtype, rows=rows)
        return matrix if kind is self.dtype else matrix.astype(kind)

    def print_triplets(self) -> None:
        """Print the collected values, one line for each, in the order of their arrival."""
        count = self._read_count()
        print(f"n={self.num_rows}, m={self.num_cols}, num_triplets={count} (max={self._size})")
        columns = self._columns.to_numpy()
        for row, column, value in zip(self._rows.to_numpy()[:count], columns, self._values.to_numpy(), strict=False):
            print(f"[{row}, {column}] = {value:.6g}")

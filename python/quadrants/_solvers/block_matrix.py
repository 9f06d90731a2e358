"""Sparse matrices of small dense blocks (BSR), such as the 3x3 blocks of systems whose unknowns are points."""

from __future__ import annotations

from typing import Any

import numpy as np

import quadrants as qd

from .._base.errors import QuadrantsShapeError, QuadrantsTypeError
from .compressed_rows import Rows
from .matrix_free import LinearOperator
from .sparse_matrix import SparseMatrix, check_dtype, check_matrix, import_scipy, make_rows

Array = qd.types.ndarray()
MAX_BLOCK = 8  # the loops over a block are unrolled


@qd.func
def _merge_rows(offsets, columns, values, first, at, count, to_columns, to_values, size: qd.template(), is_stored: qd.template()):
    """Merges the rows of a row of blocks, beginning with block `at`; returns the number of its blocks."""
    heads = qd.Vector([offsets[first + a] for a in qd.static(range(size))])
    found = 0
    while True:
        column = count
        for a in qd.static(range(size)):
            if heads[a] < offsets[first + a + 1]:
                column = qd.min(column, columns[heads[a]] // size)
        if column == count:
            break
        for a in qd.static(range(size)):
            while heads[a] < offsets[first + a + 1] and columns[qd.min(heads[a], columns.shape[0] - 1)] // size == column:
                if qd.static(is_stored):
                    to_values[at + found, a, columns[heads[a]] % size] = values[heads[a]]
                heads[a] += 1
        if qd.static(is_stored):
            to_columns[at + found] = column
        found += 1
    return found


@qd.kernel
def _count_blocks(offsets: Array, columns: Array, values: Array, ends: Array, width: qd.i32, size: qd.template()):
    for row in range(ends.shape[0] - 1):
        ends[row + 1] = _merge_rows(offsets, columns, values, row * size, 0, width, columns, values, size, False)


@qd.kernel
def _fill_blocks(
    offsets: Array, columns: Array, values: Array, starts: Array, to_columns: Array, to_values: Array, width: qd.i32, size: qd.template()
):
    for row in range(starts.shape[0] - 1):
        _merge_rows(offsets, columns, values, row * size, starts[row], width, to_columns, to_values, size, True)


@qd.kernel
def _multiply_blocks(offsets: Array, columns: Array, values: Array, x: Array, y: Array, size: qd.template()):
    for row in range(offsets.shape[0] - 1):
        total = qd.Vector([values.dtype(0) for _ in qd.static(range(size))])
        for i in range(offsets[row], offsets[row + 1]):
            for a in qd.static(range(size)):
                for b in qd.static(range(size)):
                    total[a] += values[i, a, b] * x[columns[i] * size + b]
        for a in qd.static(range(size)):
            y[row * size + a] = total[a]


class BlockSparseMatrix(LinearOperator):
    """A sparse matrix of dense blocks. Its product reads one index per block; it is an operator for `MatrixFreeCG` with 1-D ndarrays.

    `rows.offsets` and `rows.columns` say where the blocks are, and `rows.values` has the shape (number of blocks, block, block).

    Args:
        A: the `SparseMatrix` whose entries are stored in blocks. Its numbers of rows and columns are multiples of `block`.
        block: the number of rows and columns of a block, from 1 to 8.
    Raises:
        QuadrantsTypeError: A is no `SparseMatrix`.
        ValueError: another block size.
        QuadrantsShapeError: blocks do not divide the matrix.
    """

    def __init__(self, A: SparseMatrix, block: int = 3):
        check_matrix(A)
        if not isinstance(block, int) or not 1 <= block <= MAX_BLOCK:
            raise ValueError(f"the block size is between 1 and {MAX_BLOCK}, got {block!r}")
        if A.n % block or A.m % block:
            raise QuadrantsShapeError(f"a {A.n}x{A.m} matrix is not divisible into blocks of {block}x{block}")
        height, width = A.n // block, A.m // block
        ends = qd.ndarray(qd.i32, height + 1)
        if A.nnz:
            _count_blocks(*A.rows, ends, width, block)
            qd.algorithms.scan(ends, out=ends)
        count = int(ends[height])
        rows = Rows(ends, qd.ndarray(qd.i32, count), qd.ndarray(A.dtype, (count, block, block)))
        if count:
            _fill_blocks(*A.rows, ends, rows.columns, rows.values, width, block)
        self._set(A.shape, A.dtype, block, rows)

    def _set(self, shape: tuple[int, int], dtype: Any, block: int, rows: Rows) -> None:
        self.n, self.m = self.shape = shape
        self.dtype, self.block, self.rows = dtype, block, rows
        super().__init__(self._store_product)

    def _store_product(self, x: Any, product: Any) -> None:
        _multiply_blocks(*self.rows, x, product, self.block)

    @classmethod
    def from_scipy(cls, matrix: Any, copy: bool = True) -> BlockSparseMatrix:
        """Return the matrix with the blocks of `matrix`, a `bsr_matrix` of `scipy.sparse` with square blocks in f32 or f64; with `copy`
        (a bool) False it shares the memory of its arrays where the device allows.

        Raises `ValueError` for blocks that are not square or too large, `RuntimeError` for other types.
        """
        size, other = getattr(matrix, "blocksize", (0, 0))
        if size != other or not 1 <= size <= MAX_BLOCK:
            raise ValueError(f"the matrix must be a bsr_matrix with square blocks of 1 to {MAX_BLOCK} rows, got {matrix!r}")
        dtype = check_dtype(matrix.dtype)
        made = cls.__new__(cls)
        rows = make_rows(matrix.indptr, matrix.indices, matrix.data, dtype, copy)
        made._set(tuple(map(int, matrix.shape)), dtype, int(size), rows)
        return made

    def to_scipy(self, copy: bool = True) -> Any:
        """Return the matrix as `scipy.sparse.bsr_matrix`; with `copy` (a bool) False it shares the memory of this matrix if the device
        allows. Raises `ImportError` without SciPy.
        """
        return import_scipy("BlockSparseMatrix.to_scipy").bsr_matrix(self.rows.to_scipy(copy), shape=self.shape, copy=False)

    @property
    def nnz(self) -> int:
        """The number of stored entries, zeros in blocks included."""
        return self.rows.columns.shape[0] * self.block**2

    def __matmul__(self, other: Any) -> Any:
        """The product with a vector of the same dtype, an ndarray for an ndarray and a NumPy array for a NumPy array."""
        if not isinstance(other, (qd.Ndarray, np.ndarray)):
            raise QuadrantsTypeError(f"the product takes an ndarray or a NumPy array, got {type(other)}")
        if tuple(other.shape) != (self.m,):
            raise QuadrantsShapeError(f"Dimension mismatch: a {self.n}x{self.m} matrix and a vector of the shape {tuple(other.shape)}")
        result: Any = np.zeros(self.n, other.dtype) if isinstance(other, np.ndarray) else qd.ndarray(self.dtype, self.n)
        self._store_product(other, result)
        return result

    def __repr__(self) -> str:
        blocks = self.rows.columns.shape[0]
        return f"<{self.n}x{self.m} sparse matrix of {self.dtype}, {blocks} blocks of {self.block}x{self.block}>"

"""Preconditioners: operators that approximate the inverse of a matrix, for `SparseCG` and `MatrixFreeCG`."""

from __future__ import annotations

from typing import Any

import quadrants as qd

from .._base.errors import QuadrantsRuntimeError, QuadrantsTypeError
from .matrix_free import LinearOperator, Vector, make_like
from .sparse_matrix import SparseMatrix, check_square

Array = qd.types.ndarray()


@qd.kernel
def _copy_blocks(offsets: Array, columns: Array, values: Array, blocks: Array):
    """Stores the diagonal blocks of a matrix; behind the last row they continue as the identity."""
    for row in range(blocks.shape[0] * blocks.shape[1]):
        block, own = row // blocks.shape[1], row % blocks.shape[1]
        if row < offsets.shape[0] - 1:
            for i in range(offsets[row], offsets[row + 1]):
                if columns[i] // blocks.shape[1] == block:
                    blocks[block, own, columns[i] % blocks.shape[1]] = values[i]
        else:
            blocks[block, own, own] = 1


@qd.kernel
def _invert_blocks(blocks: Array) -> qd.i32:
    """Inverts each block in place by the exchange method; returns how many have a pivot that is not positive."""
    size = blocks.shape[1]
    refused = 0
    for b in range(blocks.shape[0]):
        is_positive = True
        for k in range(size):
            pivot = blocks[b, k, k]
            if not pivot > 0:
                is_positive = False
            for j in range(size):
                if j != k:
                    blocks[b, k, j] /= pivot
            for i in range(size):
                if i != k:
                    factor = blocks[b, i, k]
                    for j in range(size):
                        if j != k:
                            blocks[b, i, j] -= factor * blocks[b, k, j]
                    blocks[b, i, k] = -factor / pivot
            blocks[b, k, k] = 1 / pivot
        if not is_positive:
            refused += 1
    return refused


@qd.kernel
def _apply_blocks(blocks: Array, x: Array, product: Array):
    for row in range(x.shape[0]):
        block = row // blocks.shape[1]
        first = block * blocks.shape[1]
        total = qd.zero(product[row])
        for j in range(qd.min(blocks.shape[1], x.shape[0] - first)):
            total += blocks[block, row - first, j] * x[first + j]
        product[row] = total


class BlockJacobi(LinearOperator):
    """The inverses of the diagonal blocks of a matrix, a preconditioner for `SparseCG` and `MatrixFreeCG` of 1-D ndarrays.

    Blocks of the unknowns of one node, such as the three coordinates of a vertex, need fewer iterations than the diagonal alone.

    Args:
        A: a square `SparseMatrix`, symmetric and positive definite.
        size: the number of rows of a block, at least 1; the last block may have fewer. With 1, the inverse of the diagonal.
    Raises:
        QuadrantsTypeError: A is no `SparseMatrix`.
        QuadrantsShapeError: A is not square.
        QuadrantsRuntimeError: a block is not positive definite.

    Source: Saad, "Iterative Methods for Sparse Linear Systems" (2003), chapter 4.1. The blocks are inverted by the exchange method of
    Stiefel, "Note on Jordan elimination, linear programming and Tchebycheff approximation" (1960).
    """

    def __init__(self, A: SparseMatrix, size: int = 1):
        check_square(A)
        if not isinstance(size, int) or not 1 <= size <= A.n:
            raise ValueError(f"the size of blocks of a {A.n}x{A.m} matrix is between 1 and {A.n}, got {size!r}")
        blocks = qd.ndarray(A.dtype, (-(-A.n // size), size, size))
        _copy_blocks(*A.rows, blocks)
        if refused := _invert_blocks(blocks):
            raise QuadrantsRuntimeError(f"{refused} of {blocks.shape[0]} diagonal blocks are not positive definite")
        self.blocks = blocks
        super().__init__(lambda x, product: _apply_blocks(blocks, x, product))


class Jacobi(LinearOperator):
    """The inverse of a diagonal, a preconditioner for `MatrixFreeCG`, and of a matrix's diagonal for `SparseCG`.

    Args:
        diagonal: the diagonal of the operator: a scalar field or ndarray like the right side. Or a `SparseMatrix`, whose diagonal is used.
    Raises:
        QuadrantsTypeError: another argument.
        QuadrantsRuntimeError: an element of a matrix's diagonal is not positive.
    """

    def __init__(self, diagonal: Any):
        if isinstance(diagonal, SparseMatrix):
            blocks = BlockJacobi(diagonal)
            super().__init__(blocks.matvec)
            return
        if not isinstance(diagonal, (qd.ScalarField, qd.Ndarray)):
            raise QuadrantsTypeError(f"the diagonal must be a scalar field, an ndarray or a SparseMatrix, got {type(diagonal)}")
        inverse = make_like(diagonal)
        _invert_elements(diagonal, inverse)
        super().__init__(lambda x, product: _multiply_elements(inverse, x, product))


@qd.kernel
def _invert_elements(x: Vector, inverse: Vector):
    for at in qd.grouped(x):
        inverse[at] = 1 / x[at]


@qd.kernel
def _multiply_elements(factor: Vector, x: Vector, product: Vector):
    for at in qd.grouped(x):
        product[at] = factor[at] * x[at]

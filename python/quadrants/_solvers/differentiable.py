"""`solve_sparse`: solutions of sparse systems with gradients, for torch and for tapes."""

from __future__ import annotations

import functools
from typing import Any

import quadrants as qd

from .._base.dtypes import import_torch
from .._base.errors import QuadrantsShapeError, QuadrantsTypeError
from .solvers import SparseSolver
from .sparse_matrix import SparseMatrix, check_matrix

Array = qd.types.ndarray()


def solve_sparse(A: SparseMatrix, b: Any, values: Any = None, solver_type: str = "LU") -> Any:
    """Return x with A x = b, differentiable with respect to the right side and to the entries of the matrix.

    The gradient solves the adjoint system with the same factors. For torch tensors, x is a tensor with autograd. For ndarrays under
    `qd.ad.Tape`, the call is recorded. With an engine for CUDA (see `SparseSolver`) vectors stay on the device.

    Args:
        A: a square `SparseMatrix`.
        b: the right side: an ndarray or torch tensor of n elements, of the matrix's dtype.
        values: the entries of the matrix in the order of `A.rows.values`, which they replace: an ndarray or tensor, which may need a
            gradient. By default the entries of A, which get none.
        solver_type: "LU", "LDLT" or "LLT", as for `SparseSolver`.
    Returns:
        x, like b; an ndarray has a gradient if b or values has one.
    Raises:
        QuadrantsTypeError: another right side, or values of another kind than b.
        QuadrantsShapeError: shapes that do not fit.
        QuadrantsRuntimeError: the matrix has no factors.

    Source: Giles, "An extended collection of matrix derivative results for forward and reverse mode algorithmic differentiation" (2008).
    """
    check_matrix(A)
    is_array = isinstance(b, qd.Ndarray)
    if not is_array and type(b).__module__.partition(".")[0] != "torch":
        raise QuadrantsTypeError(f"the right side must be an ndarray or a torch tensor, got {type(b)}")
    if values is not None and type(values) is not type(b) and is_array != isinstance(values, qd.Ndarray):
        raise QuadrantsTypeError(f"the values must be of the same kind as the right side, got {type(values)} and {type(b)}")
    if tuple(b.shape) != (A.n,):
        raise QuadrantsShapeError(f"Dimension mismatch: a {A.n}x{A.m} matrix and a right side of the shape {tuple(b.shape)}")
    if values is not None and tuple(values.shape) != (A.nnz,):
        raise QuadrantsShapeError(f"the matrix has {A.nnz} entries, got values of the shape {tuple(values.shape)}")
    if not is_array:
        return _make_operator().apply(_System(A, solver_type), b, values)
    x = qd.ndarray(A.dtype, A.n, needs_grad=any(one is not None and one.grad is not None for one in (b, values)))
    _record(_System(A, solver_type), b, values, x)
    return x


class _System:
    """A matrix whose entries may be replaced, and its factors."""

    def __init__(self, matrix: SparseMatrix, solver_type: str):
        self.matrix, self.solver_type = matrix, solver_type
        self.solver: Any = None

    def copy(self, values: Any) -> Any:
        """Returns a copy of an ndarray or tensor as an ndarray of the matrix's dtype, made on the device if it is there."""
        made = qd.ndarray(self.matrix.dtype, tuple(values.shape))
        made.copy_from(values) if isinstance(values, qd.Ndarray) else made.from_torch(values.detach())
        return made

    def solve(self, b: Any, values: Any) -> Any:
        """Factorizes, and returns x as an ndarray."""
        matrix = self.matrix
        if values is not None:
            matrix = SparseMatrix(matrix.n, matrix.m, dtype=matrix.dtype, rows=matrix.rows._replace(values=self.copy(values)))
        self.solver = SparseSolver(matrix.dtype, self.solver_type)
        self.solver.compute(matrix)
        return self.solver.solve(self.copy(b))

    def solve_adjoint(self, gradient: Any) -> Any:
        """Returns the gradient of the right side, as an ndarray."""
        return self.solver.solve_transposed(self.copy(gradient))

    def find_entry_gradients(self, adjoint: Any, x: Any) -> Any:
        """Returns the gradients of the entries: the entry (i, j) multiplies x[j] in row i."""
        rows, out = self.matrix.rows, qd.ndarray(self.matrix.dtype, self.matrix.nnz)
        _multiply_at_entries(rows.offsets, rows.columns, adjoint, self.copy(x), out)
        return out


@qd.kernel
def _multiply_at_entries(offsets: Array, columns: Array, adjoint: Array, x: Array, out: Array):
    for row in range(offsets.shape[0] - 1):
        for i in range(offsets[row], offsets[row + 1]):
            out[i] = -adjoint[row] * x[columns[i]]


# --- Tapes


@qd.ad.grad_replaced
def _record(system: _System, b: Any, values: Any, x: Any) -> None:
    x.copy_from(system.solve(b, values))


@qd.ad.grad_for(_record)
def _add_gradients(system: _System, b: Any, values: Any, x: Any) -> None:
    adjoint = system.solve_adjoint(x.grad)
    if b.grad is not None:
        _add_elements(b.grad, adjoint)
    if values is not None and values.grad is not None:
        _add_elements(values.grad, system.find_entry_gradients(adjoint, x))


@qd.kernel
def _add_elements(to: Array, added: Array):
    for i in range(to.shape[0]):
        to[i] += added[i]


# --- Torch


@functools.cache
def _make_operator() -> Any:
    torch = import_torch()

    class SolveSparse(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, system: _System, b: Any, values: Any) -> Any:
            x = system.solve(b, values).to_torch().to(b.device)
            ctx.system = system
            ctx.save_for_backward(x)
            return x

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx: Any, gradient: Any) -> Any:
            (x,) = ctx.saved_tensors
            adjoint = ctx.system.solve_adjoint(gradient)
            entries = ctx.system.find_entry_gradients(adjoint, x) if ctx.needs_input_grad[2] else None
            return None, *(None if part is None else part.to_torch().to(x.device) for part in (adjoint, entries))

    return SolveSparse

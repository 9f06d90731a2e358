"""Direct and iterative solvers for sparse matrices."""

from __future__ import annotations

import functools
import importlib
from typing import Any

import numpy as np

import quadrants as qd

from .._base.dtypes import to_numpy_dtype
from .._base.errors import QuadrantsRuntimeError, QuadrantsShapeError, QuadrantsTypeError
from .compressed_rows import multiply
from .matrix_free import LinearOperator, conjugate_gradients, find_product
from .sparse_matrix import SparseMatrix, check_dtype, import_scipy, read_vector

SOLVER_TYPES = ("LLT", "LDLT", "LU")
ORDERINGS = {"AMD": "MMD_AT_PLUS_A", "COLAMD": "COLAMD"}
"""Names of orderings, and what SuperLU offers of their kind."""


def read_right_side(matrix: SparseMatrix, b: Any) -> np.ndarray:
    """Returns the right side of a system as a NumPy array; raises if its shape does not fit."""
    vector = read_vector(b)
    if vector is None:
        raise QuadrantsTypeError(f"the right side must be a scalar field, an ndarray, a NumPy array or a torch tensor, got {type(b)}")
    values = vector.to_numpy() if isinstance(vector, qd.Ndarray) else np.asarray(vector)
    if values.ndim not in (1, 2) or values.shape[0] != matrix.n:
        raise QuadrantsShapeError(f"Dimension mismatch: a {matrix.n}x{matrix.m} matrix and a right side of the shape {values.shape}")
    return values


class SparseSolver:
    """Solve systems with a sparse matrix by factorization: `compute(A)`, then `solve(b)` for any number of right sides.

    SuperLU, a part of SciPy, factorizes; "LLT" and "LDLT" use CHOLMOD if the package scikit-sparse is installed, and otherwise factorize
    without pivots, with the ordering of the matrix.

    Args:
        dtype: type of the entries, f32 or f64; that of the matrix.
        solver_type: "LLT" for symmetric positive definite matrices, "LDLT" for symmetric ones, "LU" for all.
        ordering: "AMD" or "COLAMD": how rows and columns are permuted to keep the factors sparse.
    Raises:
        QuadrantsRuntimeError: another solver type or ordering.
    """

    def __init__(self, dtype: Any = qd.f32, solver_type: str = "LLT", ordering: str = "AMD"):
        if solver_type not in SOLVER_TYPES or ordering not in ORDERINGS:
            raise QuadrantsRuntimeError(
                f"The solver type {solver_type} with {ordering} is not supported for "
                f"now. Only {list(SOLVER_TYPES)} with {list(ORDERINGS)} are supported."
            )
        self.dtype = check_dtype(dtype)
        self.solver_type, self.ordering = solver_type, ordering
        self._matrix: SparseMatrix | None = None
        self._solve: Any = None
        self._solve_transposed: Any = None  # None: as `_solve`
        self._failure = ""

    def analyze_pattern(self, sparse_matrix: SparseMatrix) -> None:
        """Check that the solver takes `sparse_matrix`, a square `SparseMatrix` of its dtype; `factorize` then computes the factors.

        Raises `QuadrantsTypeError` for another type, `QuadrantsRuntimeError` for another dtype or a matrix that is not square.
        """
        if not isinstance(sparse_matrix, SparseMatrix):
            raise QuadrantsTypeError(f"the matrix must be a SparseMatrix, got {type(sparse_matrix)}")
        if sparse_matrix.dtype is not self.dtype:
            raise QuadrantsRuntimeError(
                f"The SparseSolver's dtype {self.dtype} is not consistent with the SparseMatrix's dtype {sparse_matrix.dtype}."
            )
        if sparse_matrix.n != sparse_matrix.m:
            raise QuadrantsRuntimeError(f"only square matrices can be factorized, got {sparse_matrix.n}x{sparse_matrix.m}")

    def factorize(self, sparse_matrix: SparseMatrix) -> None:
        """Compute the factors of `sparse_matrix`, a `SparseMatrix`. A matrix without them is no error: `info` returns False then, and
        `solve` raises.

        Raises `QuadrantsRuntimeError` if the dtype is another one, or if the matrix is not square, not finite or, for LLT and LDLT, not
        symmetric, and `ImportError` without SciPy.
        """
        self.analyze_pattern(sparse_matrix)
        import_scipy("SparseSolver")
        compressed = sparse_matrix.to_scipy().tocsc()
        if not np.isfinite(compressed.data).all():
            raise QuadrantsRuntimeError("the matrix has entries that are not finite")
        is_symmetric = self.solver_type != "LU"
        if is_symmetric and not _is_symmetric(compressed):
            raise QuadrantsRuntimeError(f"{self.solver_type} needs a symmetric matrix: use solver_type='LU'")
        self._matrix, self._failure, self._solve_transposed = sparse_matrix, "", None
        try:
            self._solve = self._find_cholmod(compressed) if is_symmetric else None
            self._solve = self._solve or self._factorize_with_superlu(compressed)
        except RuntimeError as error:  # what SuperLU raises for a singular matrix
            self._solve, self._failure = None, f"the matrix is singular: {error}"

    compute = factorize

    def _find_cholmod(self, compressed: Any) -> Any:
        """Returns the solving function of CHOLMOD, or None without it."""
        try:
            cholmod = importlib.import_module("sksparse.cholmod")
        except ImportError:
            return None
        try:
            factor = cholmod.cholesky(compressed, mode="auto" if self.solver_type == "LDLT" else "supernodal")
        except cholmod.CholmodNotPositiveDefiniteError:
            return self._fail_definite()
        return lambda b: factor(b).astype(b.dtype)

    def _fail_definite(self) -> None:
        self._failure = "the matrix is not positive definite: use solver_type='LDLT' or 'LU'"

    def _factorize_with_superlu(self, compressed: Any) -> Any:
        if self._failure:
            return None
        from scipy.sparse.linalg import splu

        if self.solver_type != "LLT":
            factors = splu(compressed, permc_spec=ORDERINGS[self.ordering])
            self._solve_transposed = functools.partial(factors.solve, trans="T")
            return factors.solve
        factors = splu(compressed, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
        # Without row exchanges U has the pivots of the symmetric elimination, which are positive for such matrices only.
        if (factors.perm_r != factors.perm_c).any() or (factors.U.diagonal() <= 0).any():
            return self._fail_definite()
        return factors.solve

    def info(self) -> bool:
        """Return whether the last factorization succeeded."""
        return self._solve is not None

    def solve(self, b: Any) -> Any:
        """Return x with A x = b, where `b` is a vector, or a matrix of right sides in columns: an ndarray for an ndarray, else a NumPy
        array.

        Raises `QuadrantsRuntimeError` before `compute`, and if the factorization failed.
        """
        return self._apply(b, self._solve)

    def solve_transposed(self, b: Any) -> Any:
        """Return x with Aᵀ x = b, from the same factors; `b`, the result and what is raised are those of `solve`."""
        return self._apply(b, self._solve_transposed or self._solve)

    def _apply(self, b: Any, solve: Any) -> Any:
        if self._matrix is None:
            raise QuadrantsRuntimeError("Please call compute() before calling solve().")
        if self._solve is None:
            raise QuadrantsRuntimeError(f"the system cannot be solved: {self._failure}")
        x = solve(read_right_side(self._matrix, b).astype(to_numpy_dtype(self.dtype)))
        if not isinstance(b, qd.Ndarray):
            return x
        result = qd.ndarray(self.dtype, x.shape)
        result.from_numpy(np.ascontiguousarray(x))
        return result


def _is_symmetric(compressed: Any) -> bool:
    """Whether a matrix equals its transpose but for rounding errors."""
    difference = abs(compressed - compressed.T)
    largest = abs(compressed).max() if compressed.nnz else 0.0
    return difference.nnz == 0 or difference.max() <= 8 * np.finfo(compressed.dtype).eps * largest


class SparseCG:
    """Solve A x = b with a symmetric positive definite `SparseMatrix` by conjugate gradients.

    Args:
        A: the matrix.
        b: right side: a NumPy array, ndarray, scalar field or torch tensor of n elements.
        x0: where the iteration begins, like b; by default zero.
        max_iter: maximum number of iterations.
        atol: the residual |b - A x| at which the iteration ends.
        preconditioner: an operator close to the inverse of A, such as `Jacobi(A)` or `BlockJacobi(A, 3)`.
    Raises:
        QuadrantsTypeError: an argument of another type.
        QuadrantsShapeError: shapes that do not fit.
    """

    def __init__(
        self,
        A: SparseMatrix,
        b: Any,
        x0: Any = None,
        max_iter: int = 50,
        atol: float = 1e-6,
        preconditioner: LinearOperator | None = None,
    ):
        if not isinstance(A, SparseMatrix):
            raise QuadrantsTypeError(f"the matrix must be a SparseMatrix, got {type(A)}")
        if A.n != A.m:
            raise QuadrantsShapeError(f"the matrix of a system must be square, got {A.n}x{A.m}")
        self._matrix, self._given = A, b
        self._b = self._to_ndarray(read_right_side(A, b))
        self._x = self._to_ndarray(read_right_side(A, x0) if x0 is not None else np.zeros(A.n))
        self._max_iter, self._atol = max_iter, atol
        self._precondition = None if preconditioner is None else find_product(preconditioner, "preconditioner")

    def _to_ndarray(self, values: np.ndarray) -> Any:
        if values.ndim != 1:
            raise QuadrantsShapeError(f"the right side must be a vector, got the shape {values.shape}")
        made = qd.ndarray(self._matrix.dtype, values.shape[0])
        made.from_numpy(np.ascontiguousarray(values, to_numpy_dtype(self._matrix.dtype)))
        return made

    def solve(self) -> tuple[Any, bool]:
        """Return x, an ndarray if b is one, else a NumPy array, and whether the residual is at most `atol`."""
        rows = self._matrix.rows

        def apply(v: Any, product: Any) -> None:
            multiply(rows.offsets, rows.columns, rows.values, v, product)

        converged = conjugate_gradients(apply, self._b, self._x, self._atol, self._max_iter, precondition=self._precondition)
        return self._x if isinstance(self._given, qd.Ndarray) else self._x.to_numpy(), converged

"""Direct and iterative solvers for sparse matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

import quadrants as qd

from .._base.dtypes import to_numpy_dtype
from .._base.errors import QuadrantsRuntimeError, QuadrantsShapeError, QuadrantsTypeError
from .compressed_rows import measure_symmetry, multiply
from .engines import ENGINES, ORDERINGS, Engine, NoFactors, choose_engine
from .matrix_free import LinearOperator, conjugate_gradients, find_product
from .sparse_matrix import SparseMatrix, check_dtype, check_matrix, check_square, make_part, read_vector

SOLVER_TYPES = ("LLT", "LDLT", "LU")


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

    A library factorizes: on CUDA devices cuDSS (packages nvmath-python and torch), else CuPy for "LDLT" and "LU". On the processor, and on
    GPUs without these, CHOLMOD (scikit-sparse) for "LLT", else SuperLU, a part of SciPy. The attribute `engine` has its name.

    Args:
        dtype: type of the entries, f32 or f64; that of the matrix.
        solver_type: "LLT" for symmetric positive definite matrices, "LDLT" for symmetric ones, "LU" for all.
        ordering: "AMD" or "COLAMD": how rows and columns are permuted to keep the factors sparse. cuDSS and CHOLMOD have their own.
        engine: the library: "cudss", "cholmod", "superlu" or "cupy"; by default the first of them that is installed and fits.
    Raises:
        QuadrantsRuntimeError: another solver type or ordering, or an engine that does not fit.
        ValueError: no such engine.
        ImportError: the engine is not installed.
    """

    def __init__(self, dtype: Any = qd.f32, solver_type: str = "LLT", ordering: str = "AMD", *, engine: str | None = None):
        if solver_type not in SOLVER_TYPES or ordering not in ORDERINGS:
            raise QuadrantsRuntimeError(
                f"The solver type {solver_type} with {ordering} is not supported for "
                f"now. Only {list(SOLVER_TYPES)} with {list(ORDERINGS)} are supported."
            )
        if engine is not None and engine not in (names := [each.name for each in ENGINES]):
            raise ValueError(f"engine must be one of {', '.join(map(repr, names))}, got {engine!r}")
        self.dtype = check_dtype(dtype)
        self.solver_type, self.ordering = solver_type, ordering
        self.engine = None if engine is None else choose_engine(engine, solver_type).name
        self._engine: Engine | None = None
        self._matrix: SparseMatrix | None = None
        self._failure = ""

    def analyze_pattern(self, sparse_matrix: SparseMatrix) -> None:
        """Check that the solver takes `sparse_matrix`, a square `SparseMatrix` of its dtype, and analyze where it has entries.

        Raises `QuadrantsTypeError` for another type, `QuadrantsRuntimeError` for another dtype or a matrix that is not square, and
        `ImportError` without SciPy or another engine.
        """
        self._check(sparse_matrix)
        self._make_engine().analyze(sparse_matrix)

    def _make_engine(self) -> Engine:
        if self._engine is None:
            chosen = choose_engine(self.engine, self.solver_type)
            self.engine, self._engine = chosen.name, chosen(self.solver_type, self.ordering)
        return self._engine

    def _check(self, sparse_matrix: SparseMatrix) -> None:
        check_matrix(sparse_matrix)
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
        symmetric, and `ImportError` without SciPy or another engine.
        """
        self._check(sparse_matrix)
        engine = self._make_engine()
        largest, difference, strange = measure_symmetry(sparse_matrix.rows)
        if strange:
            raise QuadrantsRuntimeError("the matrix has entries that are not finite")
        if self.solver_type != "LU" and difference > 8 * np.finfo(to_numpy_dtype(self.dtype)).eps * largest:
            raise QuadrantsRuntimeError(f"{self.solver_type} needs a symmetric matrix: use solver_type='LU'")
        self._matrix, self._failure = sparse_matrix, ""
        try:
            engine.factorize(sparse_matrix)
        except NoFactors as problem:
            self._failure = str(problem)

    compute = factorize

    def info(self) -> bool:
        """Return whether the last factorization succeeded."""
        return self._matrix is not None and not self._failure

    def solve(self, b: Any) -> Any:
        """Return x with A x = b, where `b` is a vector, or a matrix of right sides in columns: an ndarray for an ndarray, else a NumPy
        array.

        Raises `QuadrantsRuntimeError` before `compute`, and if the factorization failed.
        """
        return self._apply(b, is_transposed=False)

    def solve_transposed(self, b: Any) -> Any:
        """Return x with Aᵀ x = b, from the same factors; `b`, the result and what is raised are those of `solve`."""
        return self._apply(b, is_transposed=True)

    def _apply(self, b: Any, is_transposed: bool) -> Any:
        if self._matrix is None or self._engine is None:
            raise QuadrantsRuntimeError("Please call compute() before calling solve().")
        if self._failure:
            raise QuadrantsRuntimeError(f"the system cannot be solved: {self._failure}")
        if not self._engine.is_for_cuda:
            x = self._engine.solve(read_right_side(self._matrix, b).astype(to_numpy_dtype(self.dtype)), is_transposed)
            return make_part(self.dtype, x) if isinstance(b, qd.Ndarray) else x
        is_ready = isinstance(b, qd.Ndarray) and b.dtype is self.dtype and not b.element_shape and b.shape == (self._matrix.n,)
        x = self._engine.solve(b if is_ready else make_part(self.dtype, read_right_side(self._matrix, b)), is_transposed)
        return x if isinstance(b, qd.Ndarray) else x.to_numpy()


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
        self, A: SparseMatrix, b: Any, x0: Any = None, max_iter: int = 50, atol: float = 1e-6, preconditioner: LinearOperator | None = None
    ):
        check_square(A)
        self._matrix, self._given = A, b
        self._b = self._to_ndarray(read_right_side(A, b))
        self._x = self._to_ndarray(read_right_side(A, x0) if x0 is not None else np.zeros(A.n))
        self._max_iter, self._atol = max_iter, atol
        self._precondition = None if preconditioner is None else find_product(preconditioner, "preconditioner")

    def _to_ndarray(self, values: np.ndarray) -> Any:
        if values.ndim != 1:
            raise QuadrantsShapeError(f"the right side must be a vector, got the shape {values.shape}")
        return make_part(self._matrix.dtype, values)

    def solve(self) -> tuple[Any, bool]:
        """Return x, an ndarray if b is one, else a NumPy array, and whether the residual is at most `atol`."""

        def apply(v: Any, product: Any) -> None:
            multiply(*self._matrix.rows, v, product)

        converged = conjugate_gradients(apply, self._b, self._x, self._atol, self._max_iter, precondition=self._precondition)
        return self._x if isinstance(self._given, qd.Ndarray) else self._x.to_numpy(), converged

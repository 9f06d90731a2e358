"""Libraries that factorize sparse matrices: a table of engines with one interface.

An engine has `factorize(matrix)`, which raises `NoFactors`, `solve(b, is_transposed)`, and `analyze(matrix)` if the library separates the
pattern from the values. Engines for the processor solve with NumPy arrays. Those for CUDA solve with ndarrays, and share the memory of
ndarrays with their library.
"""

from __future__ import annotations

import importlib
import weakref
from typing import Any, ClassVar

import numpy as np

import quadrants as qd

from .._base import options as _options
from .._base.errors import QuadrantsRuntimeError
from .sparse_matrix import SparseMatrix

ORDERINGS = {"AMD": "MMD_AT_PLUS_A", "COLAMD": "COLAMD"}
"""Names of orderings, and what SuperLU offers of their kind."""
NOT_DEFINITE = "the matrix is not positive definite: use solver_type='LDLT' or 'LU'"
NEEDS_EXCHANGES = "the matrix is singular, or rows must be exchanged, which CHOLMOD does not do: use engine='superlu'"


class NoFactors(Exception):
    """A matrix has no factors of the kind that was asked for. The text says why."""


def check_solution(residual: Any, problem: str) -> None:
    """Raises if the residual of a system with a right side of numbers up to 1 shows that it is not solved."""
    if not bool(abs(residual).max() <= 1e-3):
        raise NoFactors(problem)


class Engine:
    """A library, and the factors that it computed."""

    name: ClassVar[str]
    packages: ClassVar[str]  # what to install
    modules: ClassVar[tuple[str, ...]]  # what is imported
    solver_types: ClassVar[tuple[str, ...]] = ("LLT", "LDLT", "LU")
    default_types: ClassVar[tuple[str, ...]] = solver_types  # for which it is chosen without being named
    is_for_cuda: ClassVar[bool] = False

    def __init__(self, solver_type: str, ordering: str):
        self.solver_type, self.ordering = solver_type, ordering

    def analyze(self, matrix: SparseMatrix) -> None:
        """Prepares factorizations of matrices with this pattern."""

    def factorize(self, matrix: SparseMatrix) -> None:
        """Computes the factors."""
        raise NotImplementedError

    def solve(self, b: Any, is_transposed: bool) -> Any:
        """Returns x with A x = b, or Aᵀ x = b; b has the dtype of the matrix and one or two axes."""
        raise NotImplementedError


class SuperLu(Engine):
    """SuperLU, a part of SciPy."""

    name, packages, modules = "superlu", "scipy", ("scipy.sparse.linalg",)

    def factorize(self, matrix: SparseMatrix) -> None:
        """Computes the factors; those of a positive definite matrix without row exchanges."""
        splu = importlib.import_module("scipy.sparse.linalg").splu
        compressed = matrix.to_scipy(copy=False).tocsc()
        is_definite = self.solver_type == "LLT"
        options = {"diag_pivot_thresh": 0.0, "options": {"SymmetricMode": True}} if is_definite else {}
        try:
            self._factors = splu(compressed, permc_spec=ORDERINGS["AMD" if is_definite else self.ordering], **options)
        except RuntimeError as error:
            raise NoFactors(f"the matrix is singular: {error}") from None
        # Without row exchanges U has the pivots of the symmetric elimination, which are positive for such matrices only.
        if is_definite and ((self._factors.perm_r != self._factors.perm_c).any() or (self._factors.U.diagonal() <= 0).any()):
            raise NoFactors(NOT_DEFINITE)

    def solve(self, b: np.ndarray, is_transposed: bool) -> np.ndarray:
        """Solves on one thread."""
        return self._factors.solve(b, "T" if is_transposed else "N")


class Cholmod(Engine):
    """CHOLMOD, through scikit-sparse 0.4 or 0.5. It exchanges no rows, so of LDLT it is not the default."""

    name, packages, modules = "cholmod", "scikit-sparse", ("scipy.sparse", "sksparse.cholmod")
    solver_types, default_types = ("LLT", "LDLT"), ("LLT",)

    def factorize(self, matrix: SparseMatrix) -> None:
        """Computes the factors of a symmetric matrix."""
        cholmod = importlib.import_module("sksparse.cholmod")
        columns = matrix.to_scipy(copy=False).T  # the same arrays, as compressed columns of the equal transpose
        is_definite = self.solver_type == "LLT"
        try:
            if hasattr(cholmod, "cho_factor"):  # 0.5
                self._solve = (cholmod.cho_factor if is_definite else cholmod.ldl_factor)(columns).solve
            else:
                self._solve = cholmod.cholesky(columns, mode="supernodal" if is_definite else "simplicial")
        except cholmod.CholmodNotPositiveDefiniteError:
            raise NoFactors(NOT_DEFINITE if is_definite else NEEDS_EXCHANGES) from None
        if not is_definite:
            b = np.cos(np.arange(matrix.n))
            check_solution(columns @ self._solve(b) - b, NEEDS_EXCHANGES)

    def solve(self, b: np.ndarray, is_transposed: bool) -> np.ndarray:
        """Solves; the matrix is its own transpose."""
        return self._solve(b).astype(b.dtype)


class CuDss(Engine):
    """cuDSS, through nvmath-python; torch describes the memory of matrix and vectors to it."""

    name, packages, modules = "cudss", "nvmath-python[cu12] or nvmath-python[cu13], and torch", ("nvmath.sparse.advanced", "torch")
    is_for_cuda = True
    _rows: Any = None
    _free: Any = None
    _transposed: Any = None

    def analyze(self, matrix: SparseMatrix) -> None:
        """Reorders the matrix and finds the pattern of its factors."""
        library, self._torch = (importlib.import_module(name) for name in self.modules)
        kinds = library.DirectSolverMatrixType
        kind = {"LLT": kinds.SPD, "LDLT": kinds.SYMMETRIC, "LU": kinds.GENERAL}[self.solver_type]
        if self._free is not None:
            self._free()
        self._rows, self._csr = matrix.rows, matrix.to_torch(copy=False)
        self._b = self._torch.ones(matrix.n, dtype=self._csr.dtype, device=self._csr.device)
        self._solver = library.DirectSolver(self._csr, self._b, options=library.DirectSolverOptions(sparse_system_type=kind))
        self._free = weakref.finalize(self, self._solver.free)
        self._solver.plan()

    def factorize(self, matrix: SparseMatrix) -> None:
        """Computes the factors; the analysis holds while the matrix has the same arrays."""
        if matrix.rows is not self._rows:
            self.analyze(matrix)
        self._matrix, self._transposed = matrix, None
        found = self._solver.factorize()
        if int(found.info) != 0:
            raise NoFactors(NOT_DEFINITE if self.solver_type == "LLT" else "the matrix is singular")
        if int(found.npivots) != 0:
            # cuDSS replaces pivots that are too small, which a regular matrix may have, too.
            b = self._torch.arange(len(self._b), device=self._b.device).cos().to(self._b.dtype)
            check_solution(self._csr @ self._run(b) - b, "the matrix is singular")

    def _run(self, b: Any) -> Any:
        # The library takes columns, and plans for the shape of the right side.
        columns = b if b.ndim == 1 else b.T.contiguous().T
        solutions = []
        for column in [columns] if b.ndim == 1 else columns.unbind(1):
            self._solver.reset_operands(b=column)
            solutions.append(self._solver.solve())
        return solutions[0] if b.ndim == 1 else self._torch.stack(solutions, 1)

    def solve(self, b: Any, is_transposed: bool) -> Any:
        """Solves on the GPU. The transpose of a matrix that is not symmetric gets factors of its own."""
        if is_transposed and self.solver_type == "LU":
            if self._transposed is None:
                self._transposed = CuDss("LU", self.ordering)
                self._transposed.factorize(self._matrix.transpose())
            return self._transposed.solve(b, False)
        return qd.from_dlpack(self._run(b.to_torch(copy=False)))


class CuPy(Engine):
    """SuperLU and cuSPARSE, through CuPy: factors are computed on the processor, and the triangular systems solved on the GPU."""

    name, packages, modules = "cupy", "cupy-cuda12x and scipy", ("cupyx.scipy.sparse.linalg", "cupy")
    solver_types = default_types = ("LDLT", "LU")
    is_for_cuda = True

    def factorize(self, matrix: SparseMatrix) -> None:
        """Computes the factors with row exchanges."""
        library, self._cupy = (importlib.import_module(name) for name in self.modules)
        try:
            self._factors = library.splu(matrix.to_cupy(), permc_spec=ORDERINGS[self.ordering])
        except RuntimeError as error:
            raise NoFactors(f"the matrix is singular: {error}") from None

    def solve(self, b: Any, is_transposed: bool) -> Any:
        """Solves on the GPU."""
        x = self._factors.solve(self._cupy.from_dlpack(b), "T" if is_transposed else "N")
        return qd.from_dlpack(self._cupy.ascontiguousarray(x))


ENGINES: tuple[type[Engine], ...] = (CuDss, Cholmod, SuperLu, CuPy)
"""In the order of preference: the first that is installed and knows the solver type is chosen, those for CUDA only there."""


def is_on_cuda() -> bool:
    """Whether matrices are in the memory of a CUDA device."""
    return _options.get("arch") == "cuda"


def _is_installed(engine: type[Engine]) -> bool:
    try:
        for name in engine.modules:
            importlib.import_module(name)
    except ImportError:
        return False
    return True


def choose_engine(name: str | None, solver_type: str) -> type[Engine]:
    """Returns the engine of this name, or the first that fits. Raises `ImportError` if it is not installed."""
    if name is None:
        fitting = (each for each in ENGINES if solver_type in each.default_types and (is_on_cuda() or not each.is_for_cuda))
        for engine in fitting:
            if _is_installed(engine):
                return engine
        raise ImportError("SparseSolver needs SciPy: pip install 'quadrants[solvers]'")
    engine = next(each for each in ENGINES if each.name == name)
    if solver_type not in engine.solver_types:
        raise QuadrantsRuntimeError(f"the engine {name!r} has no {solver_type}, only {', '.join(engine.solver_types)}")
    if engine.is_for_cuda and not is_on_cuda():
        raise QuadrantsRuntimeError(f"the engine {name!r} needs a matrix on a CUDA device: use qd.init(arch=qd.cuda)")
    if not _is_installed(engine):
        raise ImportError(f"the engine {name!r} is not installed: install {engine.packages}")
    return engine

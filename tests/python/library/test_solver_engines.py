"""Which library factorizes, and what its engine hands to it; stand-ins with the functions of the libraries compute with SciPy."""

import enum
import importlib
import sys
import types

import numpy as np
import pytest

import quadrants as qd
from quadrants import linalg
from quadrants._solvers import engines

sparse = pytest.importorskip("scipy.sparse", reason="SciPy factorizes")
scipy_linalg = pytest.importorskip("scipy.sparse.linalg")


def is_importable(name):
    try:
        return bool(importlib.import_module(name))
    except ImportError:
        return False


is_importable("torch")  # now: its first import fails while modules are hidden
# Libraries that are installed are tested, too, those for CUDA with QD_ARCH=cuda.
LIBRARIES = {"cholmod": "sksparse.cholmod", "cudss": "nvmath.sparse.advanced", "cupy": "cupyx.scipy.sparse.linalg"}
INSTALLED = {engine for engine, name in LIBRARIES.items() if is_importable(name)}
MODULES = {name: module for name, module in sys.modules.items() if name.split(".")[0] in {"sksparse", "nvmath", "cupy", "cupyx"}}


@pytest.fixture(autouse=True)
def runtime(request, monkeypatch):
    if "real" not in request.node.name:  # stand-ins compute on the processor
        monkeypatch.delenv("QD_ARCH", raising=False)
    qd.init(arch=qd.cpu, offline_cache=False, log_level="error")
    yield
    qd.reset()


@pytest.fixture
def install(monkeypatch):
    """Makes modules importable by their names, or, with None, not importable."""

    def add(name, members):
        module = None
        if members is not None:
            module = types.ModuleType(name)
            vars(module).update(members)
        monkeypatch.setitem(sys.modules, name, module)

    for name in ("nvmath", "nvmath.sparse", "nvmath.sparse.advanced", "cupy", "cupyx", "sksparse", "sksparse.cholmod"):
        add(name, None)
    return add


@pytest.fixture
def on_cuda(monkeypatch):
    monkeypatch.setattr(engines, "is_on_cuda", lambda: True)


class MatrixType(enum.IntEnum):
    GENERAL = 0
    SYMMETRIC = 1
    SPD = 3


class DirectSolver:
    """As cuDSS: small pivots are replaced and counted, and a pivot that is not positive is an error of the type SPD only."""

    made, freed = [], []

    def __init__(self, a, b, *, options):
        self.a, self.b, self.kind, self.plans = a, b, options.sparse_system_type, 0
        assert a.crow_indices().dtype is a.col_indices().dtype and str(a.col_indices().dtype) == "torch.int32"
        self.made.append(self)

    def plan(self):
        self.plans += 1

    def factorize(self):
        assert self.plans
        dense = self.a.to_dense().numpy().astype(np.float64)
        if self.kind == MatrixType.SPD and np.linalg.eigvalsh(dense)[0] <= 0:
            return types.SimpleNamespace(info=2, npivots=0)
        replaced = int(np.linalg.matrix_rank(dense) < len(dense)) or int((np.diag(dense) == 0).any())
        self.inverse = np.linalg.pinv(dense)
        return types.SimpleNamespace(info=0, npivots=replaced)

    def reset_operands(self, *, b):
        assert b.shape == self.b.shape and b.stride() == self.b.stride()
        self.b = b

    def solve(self):
        import torch

        return torch.from_numpy((self.inverse @ self.b.numpy()).astype(self.b.numpy().dtype))

    def free(self):
        self.freed.append(self)


@pytest.fixture
def nvmath(install):
    pytest.importorskip("torch")
    DirectSolver.made, DirectSolver.freed = [], []
    install("nvmath", {})
    install("nvmath.sparse", {})
    install("nvmath.sparse.advanced", {
        "DirectSolver": DirectSolver, "DirectSolverOptions": types.SimpleNamespace, "DirectSolverMatrixType": MatrixType,
    })  # fmt: skip


@pytest.fixture
def cupy(install):
    def csr_matrix(parts, shape):
        return sparse.csr_matrix(parts, shape)

    def splu(matrix, permc_spec):
        return scipy_linalg.splu(matrix.tocsc(), permc_spec)

    install("cupy", {"from_dlpack": np.from_dlpack, "ascontiguousarray": np.ascontiguousarray})
    install("cupyx", {})
    install("cupyx.scipy", {})
    install("cupyx.scipy.sparse", {"csr_matrix": csr_matrix})
    install("cupyx.scipy.sparse.linalg", {"splu": splu})


class NotDefinite(Exception):
    pass


class Factor:
    """As CHOLMOD: rows are eliminated in their order, and a pivot that is zero, or not positive for LLT, is an error."""

    def __init__(self, matrix, is_definite):
        left, rest = np.eye(matrix.shape[0]), matrix.toarray().astype(np.float64)
        for k, row in enumerate(rest):
            if row[k] == 0 or (is_definite and row[k] < 0):
                raise NotDefinite
            left[k + 1 :, k] = rest[k + 1 :, k] / row[k]
            rest[k + 1 :] -= np.outer(left[k + 1 :, k], row)
        self.left, self.right = left, rest

    def __call__(self, b):
        return np.linalg.solve(self.right, np.linalg.solve(self.left, b))

    solve = __call__


def install_cholmod(install, **functions):
    install("sksparse", {})
    install("sksparse.cholmod", {"CholmodNotPositiveDefiniteError": NotDefinite, **functions})


@pytest.fixture
def cholmod(install):
    install_cholmod(install, cholesky=lambda matrix, mode: Factor(matrix, {"supernodal": True, "simplicial": False}[mode]))


@pytest.fixture
def cholmod_of_scikit_sparse_05(install):
    install_cholmod(install, cho_factor=lambda matrix: Factor(matrix, True), ldl_factor=lambda matrix: Factor(matrix, False))


@pytest.fixture
def real(request, install, monkeypatch):
    """Makes the installed library importable again."""
    engine = request.node.callspec.params.get("engine", "cholmod")
    if engine not in INSTALLED or (engine != "cholmod" and qd.cfg.arch != qd.cuda):
        pytest.skip(f"{LIBRARIES[engine]} is not installed, or there is no GPU")
    for name, module in MODULES.items():
        monkeypatch.setitem(sys.modules, name, module)


def find_engine(solver_type):
    solver = linalg.SparseSolver(qd.f64, solver_type)
    solver.compute(MATRICES[solver_type]())
    return solver.engine


def from_dense(rows, kind=np.float64):
    return linalg.SparseMatrix.from_scipy(sparse.csr_matrix(np.array(rows, kind)))


MATRICES = {
    "LLT": lambda: from_dense([[2, -1, 0], [-1, 2, -1], [0, -1, 2]]),
    "LDLT": lambda: from_dense([[0, 1, 0], [1, 0, 2], [0, 2, -3]]),
    "LU": lambda: from_dense([[1, 2, 0], [0, 3, 0], [4, 0, 5]]),
    "LDLT without exchanges": lambda: from_dense([[1, 2, 0], [2, 1, 2], [0, 2, -3]]),
}
KINDS = ("LLT", "LDLT", "LU")


def test_the_order_of_engines_on_the_processor(request, install):
    assert [find_engine(kind) for kind in KINDS] == ["superlu"] * 3
    for name in ("nvmath", "cupy", "cholmod"):
        request.getfixturevalue(name)
    assert [find_engine(kind) for kind in KINDS] == ["cholmod", "superlu", "superlu"]


def test_the_order_of_engines_on_cuda(request, install, on_cuda):
    assert [find_engine(kind) for kind in KINDS] == ["superlu"] * 3
    request.getfixturevalue("cupy")
    assert [find_engine(kind) for kind in KINDS] == ["superlu"] * 3  # whose triangular systems are faster
    request.getfixturevalue("cholmod")
    assert [find_engine(kind) for kind in KINDS] == ["cholmod", "superlu", "superlu"]
    request.getfixturevalue("nvmath")
    assert [find_engine(kind) for kind in KINDS] == ["cudss"] * 3


ENGINES = [
    ("nvmath", "cudss", "LLT LDLT LU"),
    ("cupy", "cupy", "LDLT LU"),
    ("cholmod", "cholmod", "LLT LDLT"),
    ("cholmod_of_scikit_sparse_05", "cholmod", "LLT LDLT"),
    ("real", "cholmod", "LLT LDLT"),
    ("real", "cudss", "LLT LDLT LU"),
    ("real", "cupy", "LDLT LU"),
    ("scipy", "superlu", "LLT LU"),
]
CASES = [(fixture, engine, kind) for fixture, engine, kinds in ENGINES for kind in kinds.split()]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("fixture, engine, kind", CASES)
def test_solutions(request, install, on_cuda, fixture, engine, kind, dtype):
    if fixture != "scipy":
        request.getfixturevalue(fixture)
    element = qd.f32 if dtype is np.float32 else qd.f64
    matrix = MATRICES["LDLT without exchanges" if (engine, kind) == ("cholmod", "LDLT") else kind]().astype(element)
    solver = linalg.SparseSolver(element, kind, engine=engine)
    solver.analyze_pattern(matrix)
    solver.factorize(matrix)
    assert solver.info() and solver.engine == engine
    dense, b = matrix.to_numpy(), np.array([[1, 2], [-3, 4], [5, 0.5]], dtype)
    vector, columns, field = qd.ndarray(element, 3), qd.ndarray(element, (3, 2)), qd.field(element, 3)
    vector.from_numpy(b[:, 0].copy())
    field.from_numpy(b[:, 0].copy())
    columns.from_numpy(b)
    tolerance = {"rtol": 1e-5 if dtype is np.float32 else 1e-12, "atol": 1e-6}
    for transposed, solve in ((False, solver.solve), (True, solver.solve_transposed)):
        expected = np.linalg.solve(dense.T if transposed else dense, b)
        for given, wanted in (
            (b, expected),
            (columns, expected),
            (b[:, 0], expected[:, 0]),
            (vector, expected[:, 0]),
            (field, expected[:, 0]),
        ):
            x = solve(given)
            assert isinstance(x, qd.Ndarray if given is vector or given is columns else np.ndarray)
            x = x.to_numpy() if isinstance(x, qd.Ndarray) else x
            assert x.dtype == dtype
            np.testing.assert_allclose(x, wanted, **tolerance)
    assert np.array_equal(vector.to_numpy(), b[:, 0]) and np.array_equal(columns.to_numpy(), b)


@pytest.mark.parametrize("fixture, engine, kind", CASES)
def test_singular_matrices(request, install, on_cuda, fixture, engine, kind):
    if fixture != "scipy":
        request.getfixturevalue(fixture)
    solver = linalg.SparseSolver(qd.f64, kind, engine=engine)
    solver.compute(from_dense([[1, 2], [2, 4]]))
    assert not solver.info()
    with pytest.raises(qd.QuadrantsRuntimeError, match="not positive definite|singular" if kind == "LLT" else "singular"):
        solver.solve(np.ones(2))
    solver.compute(from_dense([[2, 1], [1, 4]]))
    np.testing.assert_allclose(solver.solve(np.ones(2)), [3 / 7, 1 / 7])


@pytest.mark.parametrize("fixture", ["cholmod", "cholmod_of_scikit_sparse_05", "real"])
@pytest.mark.parametrize("pivot", [0.0, 1e-20])
def test_matrices_that_cholmod_cannot_factorize_without_exchanges(request, install, fixture, pivot):
    request.getfixturevalue(fixture)
    matrix = from_dense([[pivot, 1], [1, 0]])
    solver = linalg.SparseSolver(qd.f64, "LDLT", engine="cholmod")
    solver.compute(matrix)
    with pytest.raises(qd.QuadrantsRuntimeError, match="rows must be exchanged, which CHOLMOD does not do: use engine='superlu'"):
        solver.solve(np.ones(2))
    solver = linalg.SparseSolver(qd.f64, "LDLT")  # takes SuperLU
    solver.compute(matrix)
    np.testing.assert_allclose(solver.solve(np.array([1.0, 2.0])), [2, 1])


def test_indefinite_matrices_for_llt(nvmath, cholmod, on_cuda):
    for engine in ("cudss", "cholmod", "superlu"):
        solver = linalg.SparseSolver(qd.f64, "LLT", engine=engine)
        solver.compute(MATRICES["LDLT"]())
        assert not solver.info()
        with pytest.raises(qd.QuadrantsRuntimeError, match="not positive definite: use solver_type='LDLT' or 'LU'"):
            solver.solve(np.ones(3))


def test_one_analysis_serves_changed_values(nvmath, on_cuda):
    matrix = MATRICES["LU"]()
    solver = linalg.SparseSolver(qd.f64, "LU")
    solver.analyze_pattern(matrix)
    for factor in (1.0, 2.0):
        matrix[0, 0] = factor
        solver.factorize(matrix)
        np.testing.assert_allclose(matrix.to_numpy() @ solver.solve(np.ones(3)), 1)
    (made,) = DirectSolver.made
    assert made.plans == 1 and made.kind is MatrixType.GENERAL
    matrix[0, 0] = 3.0
    assert made.a.values()[0] == 3  # the library sees the memory of the matrix
    solver.compute(MATRICES["LU"]())
    assert len(DirectSolver.made) == 2 and DirectSolver.freed == [made]


def test_engines_that_do_not_fit(install, monkeypatch):
    with pytest.raises(ValueError, match="engine must be one of 'cudss', 'cholmod', 'superlu', 'cupy', got 'mumps'"):
        linalg.SparseSolver(engine="mumps")
    with pytest.raises(qd.QuadrantsRuntimeError, match=r"'cudss' needs a matrix on a CUDA device: use qd.init\(arch=qd.cuda\)"):
        linalg.SparseSolver(engine="cudss")
    with pytest.raises(qd.QuadrantsRuntimeError, match="'cholmod' has no LU, only LLT, LDLT"):
        linalg.SparseSolver(solver_type="LU", engine="cholmod")
    with pytest.raises(ImportError, match="'cholmod' is not installed: install scikit-sparse"):
        linalg.SparseSolver(engine="cholmod")
    monkeypatch.setattr(engines, "is_on_cuda", lambda: True)
    with pytest.raises(ImportError, match=r"'cudss' is not installed: install nvmath-python\[cu12\] or nvmath-python\[cu13\], and torch"):
        linalg.SparseSolver(engine="cudss")


@pytest.mark.parametrize("kind", KINDS)
def test_bad_matrices(install, kind):
    solver = linalg.SparseSolver(qd.f64, kind)
    for bad in (np.nan, np.inf):
        with pytest.raises(qd.QuadrantsRuntimeError, match="not finite"):
            solver.compute(from_dense([[1, 0], [0, bad]]))
    for rows in ([[1, 2], [0, 4]], [[1, 0], [1e-12, 4]]):
        if kind == "LU":
            solver.compute(from_dense(rows))
            continue
        with pytest.raises(qd.QuadrantsRuntimeError, match=f"{kind} needs a symmetric matrix"):
            solver.compute(from_dense(rows))
    nearly = from_dense([[1, 0.1], [0.1 + 1e-17, 4]])  # as sums in another order
    solver.compute(nearly)
    assert solver.info()


def test_a_differentiable_solution_stays_in_the_memory_of_the_device(nvmath, on_cuda, monkeypatch):
    import torch

    dense = 2 * np.eye(5) - np.eye(5, k=1) - np.eye(5, k=-1)
    matrix, right = from_dense(dense), np.arange(1.0, 6)
    b, values = torch.tensor(right, requires_grad=True), matrix.rows.values.to_torch().requires_grad_()
    copied, copy = [], qd.Ndarray.to_numpy
    monkeypatch.setattr(qd.Ndarray, "to_numpy", lambda array, *rest, **more: copied.append(array.shape) or copy(array, *rest, **more))
    x = linalg.solve_sparse(matrix, b, values, "LDLT")
    x.sum().backward()
    assert (matrix.n,) not in copied and (matrix.nnz,) not in copied
    np.testing.assert_allclose(x.detach(), np.linalg.solve(dense, right))
    np.testing.assert_allclose(b.grad, np.linalg.solve(dense, np.ones(5)))
    rows, columns = matrix.to_scipy().nonzero()
    np.testing.assert_allclose(values.grad, -(b.grad[rows] * x.detach()[columns]))

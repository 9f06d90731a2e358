"""Sparse matrices and solvers, against SciPy and dense NumPy."""

import sys

import numpy as np
import pytest

import quadrants as qd
from quadrants import linalg

sparse = pytest.importorskip("scipy.sparse", reason="SciPy factorizes")

TYPES = {"f32": (qd.f32, np.float32, 2e-4), "f64": (qd.f64, np.float64, 1e-9)}


@pytest.fixture(params=["cpu", "python"], autouse=True)
def backend(request):
    qd.init(arch=getattr(qd, request.param), offline_cache=False, log_level="error")
    yield request.param
    qd.reset()


@qd.kernel
def add_triplets(
    builder: qd.types.sparse_matrix_builder(), rows: qd.types.ndarray(), columns: qd.types.ndarray(), values: qd.types.ndarray()
):
    for t in range(values.shape[0]):
        builder[rows[t], columns[t]] += values[t]


@qd.kernel
def subtract_diagonal(builder: qd.types.sparse_matrix_builder(), count: qd.i32):
    for i in range(count):
        builder[i, i] -= 1.5


def build(rows, columns, values, shape, dtype=qd.f64):
    builder = linalg.SparseMatrixBuilder(*shape, max_num_triplets=len(values), dtype=dtype)
    add_triplets(builder, rows.astype(np.int32), columns.astype(np.int32), values)
    return builder.build()


def random_triplets(seed, count, shape, dtype=np.float64):
    rng = np.random.default_rng(seed)
    return rng.integers(0, shape[0], count), rng.integers(0, shape[1], count), rng.standard_normal(count).astype(dtype)


@pytest.mark.parametrize("shape, count", [((1, 1), 3), ((5, 7), 40), ((300, 200), 900), ((40, 3000), 4000), ((3, 2), 0)])
def test_equal_indices_add_up(shape, count):
    rows, columns, values = random_triplets(1, count, shape)
    matrix = build(rows, columns, values, shape)
    expected = sparse.coo_matrix((values, (rows, columns)), shape=shape).tocsr()
    found = matrix.to_scipy()
    assert matrix.shape == shape and found.has_sorted_indices
    assert np.array_equal(found.indptr, expected.indptr) and np.array_equal(found.indices, expected.indices)
    np.testing.assert_allclose(found.data, expected.data, rtol=1e-12, atol=1e-12)


def test_a_long_row_of_equal_columns():
    columns = np.repeat(np.arange(100)[::-1], 7)
    matrix = build(np.zeros(700, int), columns, np.arange(700.0), (2, 100))
    assert matrix.nnz == 100
    assert [matrix[0, j] for j in (0, 99)] == [sum(range(693, 700)), sum(range(7))]


def test_sums_do_not_depend_on_the_order_of_the_additions():
    rows, columns, values = random_triplets(2, 500, (4, 4), np.float32)
    first = build(rows, columns, values, (4, 4), qd.f32).to_numpy()
    order = np.random.default_rng(3).permutation(500)
    assert np.array_equal(first, build(rows[order], columns[order], values[order], (4, 4), qd.f32).to_numpy())


def test_a_builder_is_empty_after_build(capsys):
    builder = linalg.SparseMatrixBuilder(2, 3, max_num_triplets=4)
    subtract_diagonal(builder, 2)
    builder.print_triplets()
    assert capsys.readouterr().out == "n=2, m=3, num_triplets=2 (max=4)\n[0, 0] = -1.5\n[1, 1] = -1.5\n"
    assert np.array_equal(builder.build().to_numpy(), [[-1.5, 0, 0], [0, -1.5, 0]])
    assert not builder.build().to_numpy().any()
    assert builder.build(dtype=qd.f64).dtype is qd.f64


def test_more_additions_than_an_index_has_values():
    builder = linalg.SparseMatrixBuilder(5, 5, max_num_triplets=3)
    builder._count[0] = 2**31 + 7
    subtract_diagonal(builder, 5)  # at positions that would be negative
    with pytest.raises(qd.QuadrantsRuntimeError, match=f"{2**31 + 12} triplets were added"):
        builder.build()


def test_more_triplets_than_announced():
    builder = linalg.SparseMatrixBuilder(5, 5, max_num_triplets=3)
    subtract_diagonal(builder, 5)
    with pytest.raises(qd.QuadrantsRuntimeError, match="5 triplets were added .* max_num_triplets=3"):
        builder.build()
    subtract_diagonal(builder, 3)  # the builder is usable again
    assert builder.build().nnz == 3


@pytest.mark.parametrize("row, column", [(5, 0), (-1, 0), (0, 4), (0, -1), (2**31 - 1, 0)])
def test_indices_outside_of_the_matrix(row, column):
    with pytest.raises(IndexError, match="1 of 2 triplets are outside of the 5x4 matrix"):
        build(np.array([row, 1]), np.array([column, 1]), np.ones(2), (5, 4))


def test_entries_of_a_builder_are_only_added_to(backend):
    @qd.kernel
    def assign(builder: qd.types.sparse_matrix_builder()):
        builder[0, 0] = 1.0

    @qd.kernel
    def three(builder: qd.types.sparse_matrix_builder()):
        builder[0, 0, 0] += 1.0

    builder = linalg.SparseMatrixBuilder(2, max_num_triplets=2)
    with pytest.raises(qd.QuadrantsSyntaxError, match="cannot be assigned"):
        assign(builder)
    with pytest.raises(qd.QuadrantsSyntaxError, match="two indices"):
        three(builder)


@pytest.mark.parametrize(
    "make, kind, text",
    [
        (lambda: linalg.SparseMatrix(2, dtype=qd.i32), RuntimeError, "Unsupported sparse matrix data type: i32"),
        (lambda: linalg.SparseMatrix(2, storage_format="csr"), qd.QuadrantsTypeError, "storage_format"),
        (lambda: linalg.SparseMatrix(), ValueError, "rows"),
        (lambda: linalg.SparseMatrixBuilder(0), ValueError, "rows"),
        (lambda: linalg.SparseMatrixBuilder(2, max_num_triplets=2**31), ValueError, "max_num_triplets"),
        (lambda: linalg.SparseMatrix(2).build_from_ndarray(np.zeros(4)), qd.QuadrantsRuntimeError, "divisible by 3"),
        (lambda: linalg.SparseMatrix(2, 3) + linalg.SparseMatrix(3, 2), AssertionError, "Dimension mismatch between sparse matrices"),
        (lambda: linalg.SparseMatrix(2, 3) @ linalg.SparseMatrix(2, 3), AssertionError, "Dimension mismatch"),
        (lambda: linalg.SparseMatrix(2) @ "x", qd.QuadrantsRuntimeError, "does not support <class 'str'>"),
        (lambda: linalg.SparseMatrix(2) @ np.ones(3), ValueError, "Dimension mismatch"),
        (lambda: linalg.SparseMatrix(2)[2, 0], IndexError, "row 2"),
        (lambda: linalg.SparseSolver(solver_type="QR"), qd.QuadrantsRuntimeError, "The solver type QR with AMD is not supported"),
        (lambda: linalg.SparseSolver(ordering="X"), qd.QuadrantsRuntimeError, "The solver type LLT with X is not supported"),
        (lambda: linalg.SparseSolver().solve(np.ones(2)), qd.QuadrantsRuntimeError, r"Please call compute\(\) before calling solve\(\)"),
        (lambda: linalg.SparseSolver(qd.f64).compute(linalg.SparseMatrix(2)), qd.QuadrantsRuntimeError, "is not consistent with"),
        (lambda: linalg.SparseSolver().compute(linalg.SparseMatrix(2, 3)), qd.QuadrantsRuntimeError, "square"),
        (lambda: linalg.SparseSolver().compute(np.eye(2)), qd.QuadrantsTypeError, "SparseMatrix"),
        (lambda: linalg.SparseCG(linalg.SparseMatrix(2), np.ones(3)), ValueError, "Dimension mismatch"),
        (lambda: linalg.SparseCG(linalg.SparseMatrix(2, 3), np.ones(2)), ValueError, "square"),
    ],
)
def test_misuse(make, kind, text):
    with pytest.raises(kind, match=text):
        make()


def test_entries_and_text():
    matrix = linalg.SparseMatrix(2, 3)
    matrix.build_from_ndarray(np.array([0, 0, 1.5, 1, 2, -2.0, 0, 0, 0.25], np.float32))
    assert str(matrix) == "[1.75,    0,    0]\n[   0,    0,   -2]"
    assert repr(matrix) == "<2x3 sparse matrix of f32, 2 entries>"
    assert matrix[0, 0] == 1.75 and matrix[1, 0] == 0
    matrix[0, 0] = 4
    matrix[1, 0] = 5
    assert matrix.nnz == 3 and np.array_equal(matrix.to_numpy(), [[4, 0, 0], [5, 0, -2]])


def test_arithmetic():
    shape = (30, 20)
    A, B = (build(*random_triplets(seed, 100, shape), shape) for seed in (4, 5))
    a, b = A.to_numpy(), B.to_numpy()
    before = a.copy()
    for found, expected in (
        (A + B, a + b), (A - B, a - b), (-A, -a), (A * 2, a * 2), (2.5 * A, a * 2.5), (A * B, a * b), (A.transpose(), a.T),
        (A @ B.transpose(), a @ b.T), (A.astype(qd.f32), a.astype(np.float32)), (linalg.SparseMatrix(sm=A), a),
    ):  # fmt: skip
        assert isinstance(found, linalg.SparseMatrix)
        np.testing.assert_allclose(found.to_numpy(), expected, rtol=1e-12, atol=1e-12)
    assert np.array_equal(A.to_numpy(), before)
    C = A
    C += B
    np.testing.assert_allclose(C.to_numpy(), a + b, atol=1e-12)
    with pytest.raises(TypeError):
        A + 1


@pytest.mark.parametrize("name", TYPES)
def test_products_with_vectors(name):
    dtype, numpy_type, tolerance = TYPES[name]
    A = build(*random_triplets(6, 200, (40, 30), numpy_type), (40, 30), dtype)
    x = np.random.default_rng(7).standard_normal(30).astype(numpy_type)
    field, array = qd.field(dtype, 30, offset=3), qd.ndarray(dtype, 30)
    field.from_numpy(x)
    array.from_numpy(x)
    expected = A.to_scipy() @ x
    for vector in (x, field, array):
        result = A @ vector
        assert isinstance(result, qd.Ndarray if vector is array else np.ndarray)
        result = result.to_numpy() if vector is array else result
        assert result.dtype == numpy_type
        np.testing.assert_allclose(result, expected, atol=tolerance)


def test_exchange_with_scipy_and_torch():
    source = sparse.random(20, 10, 0.2, "csc", np.float32, 1)
    matrix = linalg.SparseMatrix.from_scipy(source)
    assert matrix.dtype is qd.f32 and (matrix.to_scipy() != source).nnz == 0
    torch = pytest.importorskip("torch")
    assert torch.equal(matrix.to_torch().to_dense().cpu(), torch.from_numpy(source.toarray()))


@pytest.mark.host_memory
def test_a_view_for_scipy_shares_the_memory(backend):
    matrix = linalg.SparseMatrix.from_scipy(sparse.eye(3))
    matrix.to_scipy(copy=False).data[1] = 7
    assert matrix[1, 1] == 7
    matrix.to_scipy().data[1] = 8
    assert matrix[1, 1] == 7


def laplacian(size, dtype, wind=0.0):
    """A 2-D Laplacian; with `wind` it is not symmetric."""
    one = sparse.diags([-1.0 - wind, 2.0 + wind, -1.0], [-1, 0, 1], shape=(size, size))
    return sparse.kronsum(one, one).astype(dtype).tocsr()


@pytest.mark.parametrize("ordering", ["AMD", "COLAMD"])
@pytest.mark.parametrize("kind", ["LLT", "LDLT", "LU"])
@pytest.mark.parametrize("name", TYPES)
def test_factorizations(backend, name, kind, ordering):
    dtype, numpy_type, _ = TYPES[name]
    size = 64 if backend == "cpu" else 10  # the interpreter checks the symmetry
    source = laplacian(size, numpy_type, 0.3 if kind == "LU" else 0)
    solver = linalg.SparseSolver(dtype, kind, ordering)
    matrix = linalg.SparseMatrix.from_scipy(source)
    solver.analyze_pattern(matrix)
    solver.factorize(matrix)
    assert solver.info()
    b = np.random.default_rng(8).standard_normal(size * size).astype(numpy_type)
    array = qd.ndarray(dtype, size * size)
    array.from_numpy(b)
    x = solver.solve(b)
    # the reference's own acceptance: residual 1e-5 in f32 relative to the right side, 1e-10 in f64
    assert x.dtype == numpy_type and np.linalg.norm(source @ x - b) <= (1e-5 if name == "f32" else 1e-10) * np.linalg.norm(b) * 4
    assert np.array_equal(solver.solve(array).to_numpy(), x)
    # With two right sides SuperLU calls another routine of BLAS, which adds in another order on some processors.
    assert np.allclose(solver.solve(np.stack([b, 2 * b], 1))[:, 0], x, 1e-3 if name == "f32" else 1e-9, 1e-4 if name == "f32" else 1e-11)


def test_matrices_without_factors():
    indefinite = linalg.SparseMatrix.from_scipy(sparse.diags([1.0, -1.0, 2.0]))
    solver = linalg.SparseSolver(qd.f64, "LLT")
    solver.compute(indefinite)
    assert not solver.info()
    with pytest.raises(qd.QuadrantsRuntimeError, match="not positive definite"):
        solver.solve(np.ones(3))
    ldlt = linalg.SparseSolver(qd.f64, "LDLT")
    ldlt.compute(indefinite)
    assert np.array_equal(ldlt.solve(np.ones(3)), [1, -1, 0.5])
    lu = linalg.SparseSolver(qd.f64, "LU")
    lu.compute(linalg.SparseMatrix.from_scipy(sparse.csr_matrix(np.array([[1.0, 2.0], [2.0, 4.0]]))))
    with pytest.raises(qd.QuadrantsRuntimeError, match="singular"):
        lu.solve(np.ones(2))
    with pytest.raises(qd.QuadrantsRuntimeError, match="symmetric"):
        solver.compute(linalg.SparseMatrix.from_scipy(sparse.csr_matrix(np.array([[1.0, 2.0], [0.0, 4.0]]))))
    with pytest.raises(qd.QuadrantsRuntimeError, match="not finite"):
        solver.compute(linalg.SparseMatrix.from_scipy(sparse.diags([1.0, np.nan])))


def test_without_scipy(monkeypatch):
    matrix = linalg.SparseMatrix.from_scipy(sparse.eye(3))
    for name in [name for name in sys.modules if name.partition(".")[0] == "scipy"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "scipy", None)
    monkeypatch.setitem(sys.modules, "scipy.sparse", None)
    with pytest.raises(ImportError, match=r"SparseSolver needs SciPy: pip install 'quadrants\[solvers\]'"):
        linalg.SparseSolver(qd.f64).compute(matrix)
    assert linalg.SparseCG(matrix, np.ones(3)).solve()[1]  # needs no SciPy


@pytest.mark.parametrize("name", TYPES)
def test_conjugate_gradients_of_a_sparse_matrix(name):
    dtype, numpy_type, _ = TYPES[name]
    source = laplacian(24, numpy_type)
    b = np.random.default_rng(9).standard_normal(24 * 24).astype(numpy_type)
    array = qd.ndarray(dtype, 24 * 24)
    array.from_numpy(b)
    atol = 1e-4 if name == "f32" else 1e-10
    matrix = linalg.SparseMatrix.from_scipy(source)
    x, converged = linalg.SparseCG(matrix, b, max_iter=500, atol=atol).solve()
    assert converged and np.linalg.norm(source @ x - b) <= 4 * atol
    y, converged = linalg.SparseCG(matrix, array, x0=x, max_iter=500, atol=4 * atol).solve()
    assert converged and isinstance(y, qd.Ndarray)
    assert not linalg.SparseCG(matrix, b, max_iter=2, atol=atol).solve()[1]


@pytest.mark.parametrize("method", [linalg.MatrixFreeCG, linalg.MatrixFreeBICGSTAB])
@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("container", ["field", "ndarray"])
def test_matrix_free_solvers(method, rank, container):
    size, wind = {1: 50, 2: 12, 3: 6}[rank], 0.4 if method is linalg.MatrixFreeBICGSTAB else 0.0

    @qd.kernel
    def apply(x: qd.Tensor, product: qd.Tensor):
        for I in qd.grouped(x):
            total = qd.static(2.0 * rank) * x[I]
            for axis in qd.static(range(rank)):
                step = qd.Vector([qd.static(int(axis == k)) for k in range(rank)])
                if I[axis] > 0:
                    total -= (1.0 + wind) * x[I - step]
                if I[axis] < size - 1:
                    total -= x[I + step]
            product[I] = total

    make = qd.field if container == "field" else qd.ndarray
    b, x, product = (make(qd.f64, (size,) * rank) for _ in range(3))
    b.from_numpy(np.random.default_rng(10).standard_normal((size,) * rank))
    operator = linalg.LinearOperator(apply)
    assert method(operator, b, x, tol=1e-9, maxiter=400)
    operator.matvec(x, product)
    assert np.linalg.norm(product.to_numpy() - b.to_numpy()) <= 1e-8
    assert method(operator, b, x, tol=1e-7, maxiter=0)  # begins with the solution
    x.fill(0)
    assert not method(operator, b, x, tol=1e-9, maxiter=1)


def test_progress_and_breakdown(capsys):
    @qd.kernel
    def zero(x: qd.Tensor, product: qd.Tensor):
        for i in x:
            product[i] = 0.0 * x[i]

    b, x = qd.field(qd.f32, 4, offset=2), qd.field(qd.f32, 4, offset=2)
    b.fill(1)
    for method in (linalg.MatrixFreeCG, linalg.MatrixFreeBICGSTAB):
        assert not method(linalg.LinearOperator(zero), b, x, maxiter=100, quiet=False)
        assert capsys.readouterr().out.startswith("iteration 0: residual 2.000000e+00\n")
        assert not x.to_numpy().any()


def test_misuse_of_matrix_free_solvers():
    @qd.kernel
    def copy(x: qd.Tensor, product: qd.Tensor):
        for I in qd.grouped(x):
            product[I] = x[I]

    operator = linalg.LinearOperator(copy)
    b, vector = qd.field(qd.f32, 4), qd.Vector.field(2, qd.f32, 4)
    with pytest.raises(qd.QuadrantsTypeError, match="Dtype mismatch"):
        linalg.MatrixFreeCG(operator, b, qd.field(qd.f64, 4))
    with pytest.raises(qd.QuadrantsRuntimeError, match="Dimension mismatch"):
        linalg.MatrixFreeBICGSTAB(operator, b, qd.field(qd.f32, 5))
    with pytest.raises(qd.QuadrantsTypeError, match="LinearOperator"):
        linalg.MatrixFreeCG(copy, b, b)
    for wrong in (vector, np.ones(4, np.float32), qd.field(qd.i32, 4)):
        with pytest.raises(qd.QuadrantsTypeError, match="the vectors of a solver"):
            linalg.MatrixFreeCG(operator, wrong, wrong)


def stiff_laplacian(size, kind=np.float64):
    """A matrix whose diagonal spans six orders of magnitude."""
    scales = 10.0 ** np.random.default_rng(3).uniform(0, 3, size * size)
    return sparse.csr_matrix(sparse.diags(scales) @ laplacian(size, np.float64) @ sparse.diags(scales)).astype(kind)


@pytest.mark.parametrize("size", [None, 1, 3, 7])
def test_preconditioned_gradients_need_fewer_iterations(size):
    source = stiff_laplacian(16)
    b = source @ np.ones(256)
    matrix = linalg.SparseMatrix.from_scipy(source)
    preconditioner = linalg.Jacobi(matrix) if size is None else linalg.BlockJacobi(matrix, size)
    x, converged = linalg.SparseCG(matrix, b, max_iter=120, atol=1e-6 * np.linalg.norm(b), preconditioner=preconditioner).solve()
    assert converged and np.linalg.norm(source @ x - b) <= 2e-6 * np.linalg.norm(b)
    assert not linalg.SparseCG(matrix, b, max_iter=120, atol=1e-6 * np.linalg.norm(b)).solve()[1]


@pytest.mark.parametrize("size", [1, 4, 7])
def test_block_jacobi_inverts_the_diagonal_blocks(size):
    source = stiff_laplacian(5)
    operator = linalg.BlockJacobi(linalg.SparseMatrix.from_scipy(source), size)
    dense, expected = source.toarray(), np.zeros((25, 25))
    for begin in range(0, 25, size):
        part = slice(begin, min(begin + size, 25))
        expected[part, part] = np.linalg.inv(dense[part, part])
    x, product = qd.ndarray(qd.f64, 25), qd.ndarray(qd.f64, 25)
    x.from_numpy(np.random.default_rng(4).standard_normal(25))
    operator.matvec(x, product)
    np.testing.assert_allclose(product.to_numpy(), expected @ x.to_numpy(), rtol=1e-9)


@pytest.mark.parametrize("container", ["field", "ndarray"])
def test_a_diagonal_preconditions_an_operator(container):
    make = qd.field if container == "field" else qd.ndarray
    b, x, weight, diagonal = (make(qd.f64, (9, 7)) for _ in range(4))
    weight.from_numpy(10.0 ** np.random.default_rng(5).uniform(0, 3, (9, 7)))
    diagonal.from_numpy(2.0 * weight.to_numpy() ** 2)
    b.fill(1.0)

    @qd.kernel
    def apply(v: qd.Tensor, product: qd.Tensor):
        for i, j in v:
            total = 2.0 * weight[i, j] * v[i, j]
            if i > 0:
                total -= weight[i - 1, j] * v[i - 1, j]
            if i < 8:
                total -= weight[i + 1, j] * v[i + 1, j]
            product[i, j] = weight[i, j] * total

    operator = linalg.LinearOperator(apply)
    assert linalg.MatrixFreeCG(operator, b, x, tol=1e-8, maxiter=30, preconditioner=linalg.Jacobi(diagonal))
    operator.matvec(x, diagonal)
    np.testing.assert_allclose(diagonal.to_numpy(), 1.0, atol=1e-7)
    x.fill(0)
    assert not linalg.MatrixFreeCG(operator, b, x, tol=1e-8, maxiter=30)


def test_misuse_of_preconditioners():
    matrix = linalg.SparseMatrix.from_scipy(sparse.diags([1.0, -2.0, 0.0]))
    with pytest.raises(qd.QuadrantsRuntimeError, match="2 of 3 diagonal blocks are not positive definite"):
        linalg.Jacobi(matrix)
    for make, text in (
        (lambda: linalg.Jacobi(np.ones(3)), "the diagonal must be"),
        (lambda: linalg.BlockJacobi(1), "must be a SparseMatrix"),
    ):
        with pytest.raises(qd.QuadrantsTypeError, match=text):
            make()
    with pytest.raises(ValueError, match="between 1 and 3, got 4"):
        linalg.BlockJacobi(matrix, 4)
    with pytest.raises(AssertionError, match="square"):
        linalg.BlockJacobi(linalg.SparseMatrix(3, 2))
    with pytest.raises(qd.QuadrantsTypeError, match="preconditioner must be a LinearOperator"):
        linalg.SparseCG(matrix, np.ones(3), preconditioner=matrix)


def unsymmetric(count=8):
    rng = np.random.default_rng(6)
    return sparse.csr_matrix(np.eye(count) * 4 + rng.standard_normal((count, count)) * (rng.random((count, count)) < 0.4))


def difference_quotients(loss, x, step=1e-6):
    gradient = np.zeros_like(x)
    for i in range(x.size):
        moved = [x.copy(), x.copy()]
        moved[0][i] += step
        moved[1][i] -= step
        gradient[i] = (loss(moved[0]) - loss(moved[1])) / (2 * step)
    return gradient


@pytest.mark.parametrize("solver_type", ["LU", "LDLT", "LLT"])
def test_gradients_of_solutions_in_torch(solver_type):
    torch = pytest.importorskip("torch")
    source = unsymmetric() if solver_type == "LU" else sparse.csr_matrix(laplacian(3, np.float64))
    matrix = linalg.SparseMatrix.from_scipy(source)
    b = np.random.default_rng(7).standard_normal(matrix.n)
    weight = np.arange(1.0, matrix.n + 1)

    right, values = torch.tensor(b, requires_grad=True), torch.tensor(matrix.rows.values.to_numpy(), requires_grad=True)
    x = linalg.solve_sparse(matrix, right, values, solver_type)
    np.testing.assert_allclose(source @ x.detach().numpy(), b, atol=1e-10)
    (x**2 @ torch.tensor(weight)).backward()

    def loss(b, entries):
        moved = sparse.csr_matrix((entries, source.indices, source.indptr), source.shape).toarray()
        return weight @ np.linalg.solve(moved, b) ** 2

    entries = values.detach().numpy()
    np.testing.assert_allclose(right.grad, difference_quotients(lambda b: loss(b, entries), b), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(values.grad, difference_quotients(lambda e: loss(b, e), entries), rtol=1e-5, atol=1e-6)
    again = linalg.solve_sparse(matrix, right, solver_type=solver_type)
    assert torch.equal(again, x) and torch.autograd.grad(again.sum(), right)[0].shape == (matrix.n,)


def test_gradients_of_solutions_under_a_tape():
    source = unsymmetric()
    matrix = linalg.SparseMatrix.from_scipy(source)
    b, values = qd.ndarray(qd.f64, 8, needs_grad=True), qd.ndarray(qd.f64, matrix.nnz, needs_grad=True)
    scale, loss = qd.ndarray(qd.f64, (), needs_grad=True), qd.ndarray(qd.f64, (), needs_grad=True)
    scale[()] = 2.0

    @qd.kernel
    def fill(b: qd.types.ndarray(), scale: qd.types.ndarray()):
        for i in range(8):
            b[i] = scale[None] * (i + 1)

    @qd.kernel
    def add_up(x: qd.types.ndarray(), loss: qd.types.ndarray()):
        for i in range(8):
            loss[None] += x[i] ** 2

    values.from_numpy(matrix.rows.values.to_numpy())
    with qd.ad.Tape(loss):
        fill(b, scale)
        x = linalg.solve_sparse(matrix, b, values)
        add_up(x, loss)

    def expected(entries):
        moved = sparse.csr_matrix((entries, source.indices, source.indptr), source.shape).toarray()
        return (np.linalg.solve(moved, 2.0 * np.arange(1, 9)) ** 2).sum()

    entries = values.to_numpy()
    np.testing.assert_allclose(loss[()], expected(entries))
    np.testing.assert_allclose(scale.grad[()], loss[()], rtol=1e-9)  # the loss is quadratic in the scale of 2
    np.testing.assert_allclose(values.grad.to_numpy(), difference_quotients(expected, entries), rtol=1e-5, atol=1e-6)


def test_misuse_of_differentiable_solutions():
    matrix = linalg.SparseMatrix.from_scipy(sparse.eye(3))
    array = qd.ndarray(qd.f64, 3)
    with pytest.raises(qd.QuadrantsTypeError, match="an ndarray or a torch tensor"):
        linalg.solve_sparse(matrix, np.ones(3))
    with pytest.raises(qd.QuadrantsTypeError, match="must be a SparseMatrix"):
        linalg.solve_sparse(np.eye(3), array)
    with pytest.raises(AssertionError, match="right side of the shape"):
        linalg.solve_sparse(matrix, qd.ndarray(qd.f64, 4))
    with pytest.raises(AssertionError, match="3 entries"):
        linalg.solve_sparse(matrix, array, qd.ndarray(qd.f64, 4))
    with pytest.raises(qd.QuadrantsRuntimeError, match="singular"):
        linalg.solve_sparse(linalg.SparseMatrix(3, dtype=qd.f64), array)

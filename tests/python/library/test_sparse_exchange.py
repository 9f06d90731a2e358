"""Sparse matrices of blocks, and the exchange of sparse matrices with other libraries, with and without copies."""

import sys
import types

import numpy as np
import pytest

import quadrants as qd
from quadrants import linalg

sparse = pytest.importorskip("scipy.sparse", reason="the reference is SciPy")


@pytest.fixture(params=["cpu", "python"], autouse=True)
def backend(request):
    qd.init(arch=getattr(qd, request.param), offline_cache=False, log_level="error")
    yield request.param
    qd.reset()


def random_csr(shape, density=0.2, kind=np.float64, seed=1):
    return sparse.random(*shape, density, "csr", kind, np.random.default_rng(seed))


@pytest.mark.parametrize("shape, block", [((9, 9), 3), ((12, 6), 3), ((6, 6), 1), ((16, 24), 8), ((10, 20), 5), ((3, 3), 3)])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_blocks_are_those_of_scipy(shape, block, kind):
    source = random_csr(shape, 0.15, kind)
    matrix = linalg.BlockSparseMatrix(linalg.SparseMatrix.from_scipy(source), block)
    expected = source.tobsr((block, block))
    expected.sort_indices()
    found = matrix.to_scipy()
    assert matrix.shape == shape and matrix.nnz == expected.nnz and found.blocksize == (block, block)
    for name in ("indptr", "indices", "data"):
        assert np.array_equal(getattr(found, name), getattr(expected, name))
    x = np.random.default_rng(2).standard_normal(shape[1]).astype(kind)
    array = qd.ndarray(qd.f32 if kind is np.float32 else qd.f64, shape[1])
    array.from_numpy(x)
    tolerance = 1e-5 if kind is np.float32 else 1e-12
    for product in (matrix @ x, (matrix @ array).to_numpy(), linalg.BlockSparseMatrix.from_scipy(expected) @ x):
        assert product.dtype == kind
        np.testing.assert_allclose(product, expected @ x, rtol=tolerance, atol=tolerance)


def test_a_matrix_without_blocks():
    matrix = linalg.BlockSparseMatrix(linalg.SparseMatrix(6, 3, dtype=qd.f64))
    assert repr(matrix) == "<6x3 sparse matrix of f64, 0 blocks of 3x3>" and not (matrix @ np.ones(3)).any()
    assert matrix.to_scipy().nnz == 0


def test_blocks_solve_a_system():
    chain = sparse.diags([-1.0, 2.1, -1.0], [-1, 0, 1], shape=(8, 8))
    source = sparse.kron(chain, np.array([[4.0, 1, 0], [1, 3, 1], [0, 1, 2]])).tocsr()
    plain = linalg.SparseMatrix.from_scipy(source)
    b, x = qd.ndarray(qd.f64, 24), qd.ndarray(qd.f64, 24)
    b.from_numpy(np.random.default_rng(3).standard_normal(24))
    for preconditioner in (None, linalg.BlockJacobi(plain, 3)):
        x.fill(0)
        operator = linalg.BlockSparseMatrix(plain)
        assert linalg.MatrixFreeCG(operator, b, x, tol=1e-10, maxiter=200, preconditioner=preconditioner)
        np.testing.assert_allclose(source @ x.to_numpy(), b.to_numpy(), atol=1e-9)


@pytest.mark.parametrize(
    "make, kind, text",
    [
        (lambda: linalg.BlockSparseMatrix(np.eye(3)), qd.QuadrantsTypeError, "must be a SparseMatrix"),
        (lambda: linalg.BlockSparseMatrix(linalg.SparseMatrix(9), 9), ValueError, "between 1 and 8, got 9"),
        (lambda: linalg.BlockSparseMatrix(linalg.SparseMatrix(6, 4)), AssertionError, "6x4 matrix is not divisible into blocks of 3x3"),
        (lambda: linalg.BlockSparseMatrix(linalg.SparseMatrix(3)) @ np.ones(4), AssertionError, "Dimension mismatch"),
        (lambda: linalg.BlockSparseMatrix(linalg.SparseMatrix(3)) @ [1, 2, 3], qd.QuadrantsTypeError, "takes an ndarray"),
        (lambda: linalg.BlockSparseMatrix.from_scipy(sparse.eye(4).tobsr((2, 4))), ValueError, "square blocks"),
        (lambda: linalg.BlockSparseMatrix.from_scipy(sparse.eye(4).tocsr()), ValueError, "bsr_matrix"),
        (lambda: linalg.BlockSparseMatrix.from_scipy(sparse.eye(4, dtype=int).tobsr((2, 2))), RuntimeError, "Unsupported"),
    ],
)
def test_misuse_of_blocks(make, kind, text):
    with pytest.raises(kind, match=text):
        make()


def test_matrices_with_duplicates_are_summed_and_left_alone():
    source = sparse.csr_matrix((np.array([1.0, 2, 4, 8]), np.array([2, 0, 2, 1]), np.array([0, 3, 4])), (2, 3))
    matrix = linalg.SparseMatrix.from_scipy(source, copy=False)
    assert np.array_equal(matrix.to_numpy(), [[2, 0, 5], [0, 8, 0]]) and matrix.nnz == 3
    assert source.data.tolist() == [1, 2, 4, 8] and source.indices.tolist() == [2, 0, 2, 1] and source.nnz == 4


@pytest.mark.host_memory
def test_views_of_matrices_of_scipy():
    source = random_csr((8, 6))
    shared, copied = (linalg.SparseMatrix.from_scipy(source, copy=copy) for copy in (False, True))
    before, source.data[0] = source.data[0], 7.0
    assert shared.rows.values[0] == 7 and copied.rows.values[0] == before
    back = shared.to_scipy(copy=False)
    for name in ("data", "indices", "indptr"):
        assert np.shares_memory(getattr(back, name), getattr(source, name))
    blocks = source.tobsr((2, 2))
    assert np.shares_memory(linalg.BlockSparseMatrix.from_scipy(blocks, copy=False).to_scipy(copy=False).data, blocks.data)


def test_other_types_and_long_indices_are_converted():
    source = sparse.csr_matrix(np.array([[1, 0], [2, 3]], np.int16))
    source.indices = source.indices.astype(np.int64)
    matrix = linalg.SparseMatrix.from_scipy(source, copy=False)
    assert matrix.dtype is qd.f64 and np.array_equal(matrix.to_numpy(), [[1, 0], [2, 3]])
    source = random_csr((4, 4))
    source.data.flags.writeable = False
    assert np.array_equal(linalg.SparseMatrix.from_scipy(source, copy=False).to_numpy(), source.toarray())


@pytest.mark.host_memory
def test_views_of_tensors():
    torch = pytest.importorskip("torch")
    dense = torch.tensor([[1.0, 0, 2], [0, 0, 3]])
    tensor = dense.to_sparse_csr()
    assert np.array_equal(linalg.SparseMatrix.from_torch(tensor, copy=False).to_numpy(), dense)  # the indices are i64
    parts = tensor.crow_indices().int(), tensor.col_indices().int(), tensor.values()
    tensor = torch.sparse_csr_tensor(*parts, size=(2, 3), check_invariants=False)
    shared, copied = (linalg.SparseMatrix.from_torch(tensor, copy=copy) for copy in (False, True))
    tensor.values()[0] = 9
    assert shared[0, 0] == 9 and copied[0, 0] == 1
    shared.to_torch(copy=False).values()[1] = 5
    assert tensor.values()[1] == 5
    with pytest.raises(qd.QuadrantsTypeError, match="to_sparse_csr"):
        linalg.SparseMatrix.from_torch(dense)
    with pytest.raises(RuntimeError, match="Unsupported sparse matrix data type"):
        linalg.SparseMatrix.from_torch(dense.half().to_sparse_csr())


@pytest.mark.host_memory
def test_views_of_matrices_of_cupy(monkeypatch):
    cupyx = types.ModuleType("cupyx.scipy.sparse")  # a stand-in: arrays of NumPy have DLPack, too
    cupyx.csr_matrix = lambda parts, shape: sparse.csr_matrix(parts, shape)
    for name, module in (("cupy", np), ("cupyx", types), ("cupyx.scipy", types), ("cupyx.scipy.sparse", cupyx)):
        monkeypatch.setitem(sys.modules, name, module)
    source = random_csr((5, 5))
    shared = linalg.SparseMatrix.from_cupy(source, copy=False)
    back = shared.to_cupy()
    assert np.shares_memory(back.data, source.data) and (back != source).nnz == 0
    source.indices[:2] = source.indices[1::-1]
    source.indptr[:] = [0, *([source.nnz] * 5)]
    with pytest.raises(ValueError, match="must ascend"):
        linalg.SparseMatrix.from_cupy(source)

"""The decompositions of `quadrants.linalg`, called from Python, against NumPy."""

import numpy as np
import pytest

import quadrants as qd

RANDOM = np.random.default_rng(5)


def matrices(n):
    q, r = (np.linalg.qr(RANDOM.standard_normal((n, n)))[0] for _ in range(2))
    plain = [RANDOM.standard_normal((n, n)) for _ in range(20)]
    graded = [q @ np.diag([10.0 ** (-e * i) for i in range(n)]) @ r for e in (1, 3, 6)]
    special = [np.zeros((n, n)), np.eye(n), -np.eye(n), np.ones((n, n)), np.diag(np.arange(n)), 1e12 * np.eye(n)[::-1]]
    return plain + graded + special


@pytest.mark.parametrize("dtype, tolerance", [(qd.f32, 1e-5), (qd.f64, 1e-12)])
@pytest.mark.parametrize("n", [2, 3])
def test_svd(n, dtype, tolerance):
    for A in matrices(n):
        U, S, V = (np.asarray(x) for x in qd.svd(qd.Matrix(A), dtype))
        scale = max(1.0, abs(A).max())
        assert abs(U @ S @ V.T - A).max() <= tolerance * scale
        assert abs(U.T @ U - np.eye(n)).max() <= tolerance and abs(V.T @ V - np.eye(n)).max() <= tolerance
        assert abs(abs(np.diag(S)) - np.linalg.svd(A)[1]).max() <= tolerance * scale
        assert (np.diff(np.diag(S)) <= tolerance * scale).all()
        if n == 3:
            assert np.linalg.det(U) > 0 and np.linalg.det(V) > 0
        else:
            assert (np.diag(S) >= 0).all()


@pytest.mark.parametrize("n", [2, 3])
def test_polar_decomposition(n):
    for A in matrices(n):
        R, P = (np.asarray(x) for x in qd.polar_decompose(qd.Matrix(A), qd.f64))
        scale = max(1.0, abs(A).max())
        assert abs(R @ P - A).max() <= 1e-12 * scale and abs(P - P.T).max() <= 1e-12 * scale
        assert abs(R.T @ R - np.eye(n)).max() <= 1e-12


@pytest.mark.parametrize("n", range(1, 9))
def test_symmetric_eigenvalues(n):
    for A in matrices(n)[:23]:
        A = A + A.T
        w, Q = (np.asarray(x) for x in qd.sym_eig(qd.Matrix(A), qd.f64))
        assert abs(w - np.linalg.eigvalsh(A)).max() <= 1e-12 * max(1.0, abs(A).max()) * n
        assert abs(Q @ np.diag(w) @ Q.T - A).max() <= 1e-11 and abs(Q.T @ Q - np.eye(n)).max() <= 1e-12


def test_make_spd_keeps_definite_matrices_and_zeroes_negative_ones():
    A = np.array([[2.0, 1], [1, 3]])
    assert np.allclose(np.asarray(qd.make_spd(qd.Matrix(A), qd.f64)), A, atol=1e-12)
    assert abs(np.asarray(qd.make_spd(qd.Matrix(-A), qd.f64))).max() == 0


@pytest.mark.parametrize(
    "A", [[[1, 0], [0, 2]], [[1, 2], [-3, 1]], [[2, 1], [1, 3]], [[1, 0], [5, 1]], [[3, 0], [0, 3]], [[1, 2], [-3, 1]]]
)
def test_eigenvalues_of_two_by_two(A):
    w, v = (np.asarray(x) for x in qd.eig(qd.Matrix(A), qd.f64))
    for j in range(2):
        vector, value = v[0::2, j] + 1j * v[1::2, j], complex(*w[j])
        assert abs(np.array(A) @ vector - value * vector).max() < 1e-12 and abs(np.linalg.norm(vector) - 1) < 1e-12
    assert (w[0, 0], w[0, 1]) >= (w[1, 0], w[1, 1])


@pytest.mark.parametrize("n", [2, 3, 4, 6])
def test_solve(n):
    for _ in range(10):
        A, b = RANDOM.standard_normal((n, n)), RANDOM.standard_normal(n)
        assert np.allclose(np.asarray(qd.solve(qd.Matrix(A), qd.Vector(b), qd.f64)), np.linalg.solve(A, b), rtol=1e-9)
    swap = qd.Matrix([[0.0, 1.0], [1.0, 0.0]])
    assert qd.solve(swap, qd.Vector([1.0, 2.0])).to_list() == [2, 1]


@pytest.mark.parametrize("n", [5, 8, 12])
def test_elimination(n):
    A = RANDOM.standard_normal((n, n))
    M = qd.Matrix(A, qd.f64)
    assert np.isclose(qd.linalg.determinant(M), np.linalg.det(A), rtol=1e-9)
    assert np.allclose(np.asarray(qd.linalg.inverse(M)), np.linalg.inv(A), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize(
    "call, text",
    [
        (lambda: qd.svd(qd.Matrix([[1.0] * 7] * 7)), "SVD only supports 2×2 and 3×3 matrices"),
        (lambda: qd.polar_decompose(qd.Matrix([[1.0, 2.0]])), "Polar decomposition only supports 2×2 and 3×3 matrices"),
        (lambda: qd.eig(qd.Matrix([[1.0] * 7] * 7)), "Eigen solver only supports 2×2 matrices"),
        (lambda: qd.sym_eig(qd.Matrix([[1.0] * 13] * 13)), "up to 6"),
        (lambda: qd.solve(qd.Matrix([[1.0, 2.0]]), qd.Vector([1.0])), "Only square matrix is supported"),
        (lambda: qd.solve(qd.Matrix([[1.0, 2.0], [3.0, 4.0]]), qd.Vector([1.0])), "Matrix and Vector dimension dismatch"),
    ],
)
def test_unsupported_sizes_are_refused(call, text):
    with pytest.raises(qd.QuadrantsCompilationError, match=text):
        call()


def test_numbers_divide_by_zero_as_in_kernels():
    m, v = qd.math, qd.Vector([0.0, 1.0, 2.0], qd.f32)
    assert all(map(np.isnan, (m.mod(3, 0), m.mod(-3.0, 0.0), m.mod(x=1, y=0), *m.mod(v, 0.0))))
    assert m.mod(7, -3) == -2 and type(m.mod(7, 3)) is np.float64
    assert [m.smoothstep(1, 1, x) for x in (0, 1, 2)] == [0, 0, 1] == m.smoothstep(1.0, edge1=1.0, x=v).to_list()
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'y'"):
        m.mod(3)


def test_floats_take_the_type_of_the_other_operands():
    v, h = qd.Vector([1.0, 2.0], qd.f32), np.ones(2, np.float16)
    for result in (qd.max(v, 1.5), qd.atan2(1.0, v), qd.select(v > 1, v, 0.5), qd.math.smoothstep(0.0, 3.0, v), qd.fma(v, 2.0, 1.0)):
        assert result.dtype is qd.f32
    assert qd.max(h, 2.0).dtype == np.float16 and qd.max(h, np.float64(2)).dtype == np.float64 == qd.max(np.ones(2, int), 2.5).dtype
    assert qd.max(1.5, 2.0) == 2


def test_math_library():
    m = qd.math
    assert m.mix(1.0, 3.0, 0.5) == 2 and m.clamp(5, 0, 1) == 1 and m.step(0.5, 0.5) == 1 and m.smoothstep(0.0, 1.0, 0.25) == 0.15625
    assert m.sign(-3.0) == -1 and m.sign(0.0) == 0 and m.fract(1.25) == 0.25 and m.mod(-1.0, 3.0) == 2
    assert m.vec3(1).to_list() == [1, 1, 1] and m.mat2(1, 2, 3, 4).to_list() == [[1, 2], [3, 4]] and m.uvec2(1).dtype is qd.u32
    assert m.reflect(qd.Vector([1.0, -1.0]), qd.Vector([0.0, 1.0])).to_list() == [1, 1] and m.eye(2).to_list() == [[1, 0], [0, 1]]

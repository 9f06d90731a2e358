"""Small linear algebra and random numbers in kernels, on every backend, against NumPy."""

import numpy as np
import pytest

import quadrants as qd

SEED = 11
RANDOM = np.random.default_rng(SEED)


@pytest.fixture(params=["cpu", "python"])
def count(request):
    """Starts the runtime on a backend; gives how many matrices to try (the interpreter is slow). Each test draws the same numbers."""
    global RANDOM
    RANDOM = np.random.default_rng(SEED)
    qd.init(arch=getattr(qd, request.param), offline_cache=False, log_level="error")
    yield 1000 if request.param == "cpu" else 4
    qd.reset()


def matrices(n, count, dtype):
    A = RANDOM.standard_normal((count, n, n))
    A[0], A[1], A[2] = np.zeros((n, n)), np.eye(n), np.ones((n, n))
    return A.astype(dtype.to_string().replace("f", "float"))


def transposed(A):
    return np.swapaxes(A, 1, 2)


@pytest.mark.parametrize("dtype, tolerance", [(qd.f32, 1e-5), (qd.f64, 1e-12)], ids=str)
@pytest.mark.parametrize("n", [2, 3, 4, 6])
def test_svd_of_every_element(count, n, dtype, tolerance):
    F, U, S, V = (qd.Matrix.field(n, n, dtype, shape=count) for _ in range(4))
    A = matrices(n, count, dtype)
    F.from_numpy(A)

    @qd.kernel
    def run():
        for i in F:
            U[i], S[i], V[i] = qd.svd(F[i])

    run()
    u, s, v = (x.to_numpy().astype(np.float64) for x in (U, S, V))
    assert abs(u @ s @ transposed(v) - A).max() < 5 * tolerance  # entries are up to 5
    assert abs(transposed(u) @ u - np.eye(n)).max() < tolerance and abs(transposed(v) @ v - np.eye(n)).max() < tolerance
    assert abs(abs(np.diagonal(s, axis1=1, axis2=2)) - np.linalg.svd(A.astype(np.float64))[1]).max() < 5 * tolerance


@pytest.mark.parametrize("n", [3, 5])
def test_polar_decomposition_of_every_element(count, n):
    F, R, P = (qd.Matrix.field(n, n, qd.f64, shape=count) for _ in range(3))
    A = matrices(n, count, qd.f64)
    F.from_numpy(A)

    @qd.kernel
    def run():
        for i in F:
            R[i], P[i] = qd.polar_decompose(F[i])

    run()
    r, p = R.to_numpy(), P.to_numpy()
    assert abs(r @ p - A).max() < 1e-11 and abs(np.linalg.det(r) - 1).max() < 1e-11 and abs(p - transposed(p)).max() < 1e-11


@pytest.mark.parametrize("n", [2, 3, 5])
def test_symmetric_eigenvalues_of_every_element(count, n):
    F, Q = qd.Matrix.field(n, n, qd.f64, shape=count), qd.Matrix.field(n, n, qd.f64, shape=count)
    w = qd.Vector.field(n, qd.f64, shape=count)
    A = matrices(n, count, qd.f64)
    A = A + transposed(A)
    F.from_numpy(A)

    @qd.kernel
    def run():
        for i in F:
            w[i], Q[i] = qd.sym_eig(F[i])

    run()
    values, vectors = w.to_numpy(), Q.to_numpy()
    assert abs(values - np.linalg.eigvalsh(A)).max() < 1e-11
    assert abs(vectors * values[:, None, :] @ transposed(vectors) - A).max() < 1e-10


@pytest.mark.parametrize("n", [2, 3])
def test_solving_for_every_element(count, n):
    F, b, x = qd.Matrix.field(n, n, qd.f64, shape=count), qd.Vector.field(n, qd.f64, shape=count), qd.Vector.field(n, qd.f64, shape=count)
    A = matrices(n, count, qd.f64) + 10 * np.eye(n)
    F.from_numpy(A)
    b.from_numpy(RANDOM.standard_normal((count, n)))

    @qd.kernel
    def run():
        for i in F:
            x[i] = qd.solve(F[i], b[i])

    run()
    assert np.allclose(np.einsum("nij,nj->ni", A, x.to_numpy()), b.to_numpy(), atol=1e-10)


def test_eigenvalues_of_two_by_two(count):
    @qd.kernel
    def real_parts(a: float, b: float, c: float, d: float) -> qd.types.vector(2, float):
        values, _ = qd.eig(qd.Matrix([[a, b], [c, d]]))
        return qd.Vector([values[0, 0], values[1, 0]])

    assert np.allclose(np.asarray(real_parts(2, 1, 1, 3)), [3.618034, 1.381966], atol=1e-6)
    assert np.allclose(np.asarray(real_parts(1, 0, 0, 2)), [2, 1]) and np.allclose(np.asarray(real_parts(0, -1, 1, 0)), 0)


@pytest.mark.parametrize("dtype", [qd.f32, qd.f64], ids=str)
@pytest.mark.parametrize("n", [3, 4, 6])
def test_eigenvalues_of_general_matrices(count, n, dtype):
    count = min(count, 200)
    A = matrices(n, max(count, 9), dtype)
    A[3] = np.triu(np.ones((n, n)))  # defective
    A[4] = np.roll(np.eye(n), 1, axis=0)  # the roots of one
    A[5] = np.diag(np.arange(n) + 1.0)
    A[6], A[7] = A[6] * 1e-6, A[7] * 1e6
    F, w, V = (qd.Matrix.field(*shape, dtype, shape=len(A)) for shape in ((n, n), (n, 2), (2 * n, n)))
    F.from_numpy(A)

    @qd.kernel
    def run():
        for i in F:
            w[i], V[i] = qd.eig(F[i])

    run()
    parts, components = w.to_numpy().astype(np.float64), V.to_numpy().astype(np.float64)
    values, vectors = parts[..., 0] + 1j * parts[..., 1], components[:, ::2] + 1j * components[:, 1::2]
    A = A.astype(np.float64)
    size, epsilon = np.maximum(abs(A).max(axis=(1, 2)), 1e-30), np.finfo(dtype.to_string().replace("f", "float")).eps
    assert (abs(A @ vectors - vectors * values[:, None]).max(axis=(1, 2)) / size).max() < 50 * epsilon
    assert abs(np.linalg.norm(vectors, axis=1) - 1).max() < 10 * epsilon
    assert (np.diff(values.real, axis=1) <= 100 * epsilon * size[:, None]).all()
    for k in range(8, len(A)):  # the others have values that rounding changes much
        expected = np.linalg.eigvals(A[k])
        assert max(abs(expected - value).min() for value in values[k]) < 5000 * epsilon * size[k]
    assert (values[2].imag == 0).all() and (components[5][1::2] == 0).all()


def test_solving_says_whether_it_could(count):
    @qd.kernel
    def run(a: float) -> qd.types.vector(3, float):
        x, is_regular = qd.solve(qd.Matrix([[a, 2.0], [2.0, 4.0]]), qd.Vector([1.0, 0.0]), check=True)
        return qd.Vector([x[0], x[1], is_regular])

    assert np.allclose(np.asarray(run(2.0)), [1, -0.5, 1]) and run(1.0)[2] == 0


@pytest.mark.parametrize("n", [4, 5, 8, 16])
def test_determinants_and_inverses(count, n):
    count = min(count, 50)
    F, G, d = qd.Matrix.field(n, n, qd.f64, shape=count), qd.Matrix.field(n, n, qd.f64, shape=count), qd.field(qd.f64, shape=count)
    A = RANDOM.standard_normal((count, n, n))
    F.from_numpy(A)

    @qd.kernel
    def run():
        for i in F:
            G[i] = F[i].inverse()
            d[i] = F[i].determinant()

    run()
    assert np.allclose(d.to_numpy(), np.linalg.det(A), rtol=1e-8)
    assert np.allclose(G.to_numpy() @ A, np.eye(n), atol=1e-6)


def test_unsupported_sizes_are_compile_errors(count):
    @qd.kernel
    def run():
        U, S, V = qd.svd(qd.Matrix([[1.0] * 7] * 7))

    with pytest.raises(qd.QuadrantsCompilationError, match="SVD only supports 2×2 and 3×3 matrices, and as an extension up to 6×6."):
        run()


def test_normal_random_numbers(count):
    x = qd.field(qd.f32, shape=count * 100)

    @qd.kernel
    def run():
        for i in x:
            x[i] = qd.randn()

    run()
    values = x.to_numpy()
    assert np.isfinite(values).all() and abs(values.mean()) < 5 / np.sqrt(len(values)) and abs(values.std() - 1) < 5 / np.sqrt(len(values))


def test_shading_functions(count):
    m = qd.math

    @qd.kernel
    def run() -> qd.types.vector(8, float):
        r = m.reflect(m.vec2(1.0, -1.0), m.vec2(0.0, 1.0))
        return qd.Vector(
            [
                m.mix(1.0, 3.0, 0.5),
                m.clamp(5.0, 0.0, 1.0),
                m.step(0.5, 0.25),
                m.smoothstep(0.0, 1.0, 0.25),
                m.sign(-3.0),
                m.fract(-0.25),
                r[0],
                r[1],
            ]
        )

    assert np.asarray(run()).tolist() == [2, 1, 0, 0.15625, -1, 0.75, 1, 1]


def test_a_kernel_may_have_the_name_of_a_function_that_it_calls(count):
    @qd.kernel
    def clamp(x: float) -> float:
        return qd.math.clamp(x, 0.0, 1.0)

    assert clamp(5) == 1 and clamp(-5) == 0


def test_loops_of_the_library_run_in_order_at_the_top_of_a_kernel(count):
    A = np.random.default_rng(5).integers(-9, 9, (5, 5)).astype(np.float32)
    F, I5, U, S, V, Q = (qd.Matrix.field(n, n, float, shape=()) for n in (5, 5, 3, 3, 3, 3))
    F.from_numpy(A)

    @qd.kernel
    def run() -> qd.f32:
        M = F[None][0:3, 0:3]
        U[None], S[None], V[None] = qd.svd(M)
        _, Q[None] = qd.sym_eig(M + M.transpose())
        I5[None] = F[None].inverse()
        return F[None].determinant()

    # Each entry is a sum of n products, and rounds by n epsilons of its size a few times; an inverse by the condition of A times as much.
    eps, size, condition = 4 * 2.0**-23, np.linalg.norm(A[:3, :3], 2), float(np.linalg.cond(A))
    assert run() == pytest.approx(np.linalg.det(A.astype(np.float64)), rel=5 * eps * condition)
    np.testing.assert_allclose(I5.to_numpy() @ A, np.eye(5), atol=5 * eps * condition)
    np.testing.assert_allclose(U.to_numpy() @ S.to_numpy() @ V.to_numpy().T, A[:3, :3], atol=3 * eps * size)
    np.testing.assert_allclose(Q.to_numpy() @ Q.to_numpy().T, np.eye(3), atol=3 * eps)


@qd.kernel
def multiply(x: qd.types.ndarray(), factor: qd.f32, out: qd.types.ndarray()):
    for i in x:
        out[i] = x[i] * factor


def flushes_subnormal_numbers(count):
    """Whether this thread, or one that runs kernels, takes subnormal numbers for zeros. Libraries switch to that for the thread that loads
    them, which may be while a test runs, and threads inherit it.
    """
    x = np.full(65 * count, 71362, np.uint32).view(np.float32)  # given as bits, which no conversion can flush
    out = np.zeros_like(x)
    multiply(x, 1.0, out)
    return any((product.view(np.uint32) != 71362).any() for product in (out, x * np.float32(1)))


@pytest.mark.parametrize("dtype, sizes", [(qd.f32, (1e-38, 1e-40, 1e-42)), (qd.f64, (1e-307, 1e-310, 1e-312))], ids=str)
@pytest.mark.parametrize("n", [2, 3])
def test_factors_of_subnormal_matrices(count, n, dtype, sizes):
    F = qd.Matrix.field(n, n, dtype, shape=len(sizes))
    U, S, V, R, P, Q, T, L, W, A, G = (qd.Matrix.field(n, n, dtype, shape=len(sizes)) for _ in range(11))
    values = qd.Vector.field(n, dtype, shape=len(sizes))
    pairs = qd.Matrix.field(n, 2, dtype, shape=len(sizes))
    whole = np.array([[1.0, 0.3, -0.2], [0.4, -0.7, 0.5], [0.1, 0.6, 0.2]])[:n, :n]
    F.from_numpy(np.array([whole * size for size in sizes]).astype(dtype.to_string().replace("f", "float")))

    @qd.kernel
    def run():
        for i in F:
            U[i], S[i], V[i] = qd.svd(F[i])
            R[i], P[i] = qd.polar_decompose(F[i])
            Q[i], T[i] = qd.linalg.qr(F[i])
            A[i], L[i], W[i] = qd.linalg.lu(F[i])
            values[i], G[i] = qd.sym_eig(F[i] + F[i].transpose())
            pairs[i], _ = qd.eig(F[i] + F[i].transpose())

    flushed = flushes_subnormal_numbers(count)
    run()
    if flushed or flushes_subnormal_numbers(count):
        pytest.skip("a library of this process has switched subnormal numbers off")
    u, s, v, r, p, q, t, lower, w, a = (x.to_numpy().astype(np.float64) for x in (U, S, V, R, P, Q, T, L, W, A))
    start = F.to_numpy().astype(np.float64)
    for i, size in enumerate(sizes):
        step = 1e-5 if size in (1e-38, 1e-307) else 20 * float(np.nextafter(dtype_of(dtype)(0), dtype_of(dtype)(1))) / size
        for product in (u @ s @ transposed(v), r @ p, q @ t, a @ lower @ w):
            assert abs(product[i] - start[i]).max() <= step * size
        expected = np.linalg.eigvalsh((start[i] + start[i].T) / size) * size
        assert abs(values.to_numpy()[i] - expected).max() <= step * size
        assert abs(np.sort(pairs.to_numpy()[i, :, 0]) - expected).max() <= step * size


def dtype_of(dtype):
    return {4: np.float32, 8: np.float64}[dtype.size]

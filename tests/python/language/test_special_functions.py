"""`fma`, `ldexp`, `erf`, `erfc`, `qr` and `lu` against exact arithmetic, mpmath and NumPy."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from language_support import NUMPY

import quadrants as qd


@pytest.fixture(autouse=True)
def strict(on_every_backend):
    """Fast mathematics may contract and reassociate."""
    on_every_backend(fast_math=False)


def nearest(value: Fraction, dtype: np.dtype) -> float:
    """The float of a type that is nearest to a fraction, halves to even: found among the neighbors of a guess."""
    guess = dtype.type(float(value))
    candidates = [guess, np.nextafter(guess, dtype.type(np.inf)), np.nextafter(guess, dtype.type(-np.inf))]
    bits = np.dtype(f"u{dtype.itemsize}")
    return min(candidates, key=lambda float_: (abs(Fraction(float(float_)) - value), int(float_.view(bits)) & 1))


@pytest.mark.parametrize("kind", ["f16", "f32", "f64"])
def test_fma_rounds_once(kind):
    dtype = np.dtype(NUMPY[kind])

    @qd.kernel
    def compute(x: qd.types.ndarray(), y: qd.types.ndarray(), z: qd.types.ndarray(), out: qd.types.ndarray()):
        for i in range(x.shape[0]):
            out[i] = qd.fma(x[i], y[i], z[i])

    random = np.random.default_rng(5)
    x, y = (random.uniform(0.5, 4, 400).astype(dtype) for _ in range(2))
    z = (-(x.astype(np.float64) * y) * random.choice([1.0, 1 + 1e-3, 0.5, 3.0], 400)).astype(dtype)
    out = np.empty_like(x)
    compute(x, y, z, out)
    exact = [nearest(Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c)), dtype) for a, b, c in zip(x, y, z, strict=True)]
    np.testing.assert_array_equal(out, np.array(exact, dtype))
    assert np.any(out != (x * y + z).astype(dtype))  # these operands tell the two apart


def test_fma_takes_vectors_integers_and_what_is_not_finite():
    @qd.kernel
    def vectors() -> qd.types.vector(2, qd.f32):
        return qd.fma(qd.Vector([1.0, 2.0]), 3, qd.Vector([0.5, 0.25]))

    @qd.kernel
    def compute(x: qd.f32, y: qd.f32, z: qd.f32) -> qd.f32:
        return qd.fma(x, y, z)

    assert list(vectors()) == [3.5, 6.25]
    assert np.isnan(compute(np.inf, 0.0, 1.0)) and compute(np.inf, 2.0, -1.0) == np.inf and compute(3e38, 10.0, -3e38) == np.inf
    assert np.signbit(compute(-0.0, 1.0, -0.0)) and not np.signbit(compute(-1.0, 1.0, 1.0))


SUBNORMALS = pytest.mark.needs("f32 subnormals")


@pytest.mark.parametrize("kind", [pytest.param("f32", marks=SUBNORMALS), "f64"])
def test_ldexp_rounds_once(kind):
    dtype = NUMPY[kind]
    info = np.finfo(dtype)

    @qd.kernel
    def compute(x: qd.types.ndarray(), n: qd.types.ndarray(), out: qd.types.ndarray()):
        for i in range(x.shape[0]):
            out[i] = qd.ldexp(x[i], n[i])

    values = [
        1.0,
        -1.5,
        1 + info.eps,
        0.0,
        -0.0,
        np.inf,
        -np.inf,
        info.max,
        info.tiny,
        info.smallest_subnormal,
        3 * info.smallest_subnormal,
    ]
    edge = -info.minexp + info.nmant
    near = [0, 1, -1, info.maxexp, -info.maxexp, edge, -edge, 1 - edge, -1 - edge, -2 - edge]
    powers = [*near, 2 * edge, -2 * edge, 5 * edge, 2**31 - 1, -(2**31)]
    x, n = (part.ravel() for part in np.meshgrid(np.array(values, dtype), np.array(powers, np.int32)))
    out = np.empty_like(x)
    compute(x, n, out)
    with np.errstate(all="ignore"):
        expected = np.ldexp(x, np.clip(n, -10000, 10000))
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(np.signbit(out), np.signbit(expected))


def test_ldexp_takes_an_integer():
    @qd.kernel
    def compute(x: qd.f32) -> qd.f32:
        return qd.ldexp(x, 1.5)

    with pytest.raises(qd.QuadrantsTypeError, match=r"qd\.ldexp takes an integer"):
        compute(1.0)


@pytest.mark.parametrize("kind, bound", [pytest.param("f32", 2.0, marks=SUBNORMALS), ("f64", 1.0)])
@pytest.mark.parametrize("name", ["erf", "erfc"])
def test_error_function_stays_within_its_ulp_bound(name, kind, bound, request):
    bound = 6.0 if "python" in request.node.name else bound  # the interpreter has what the C library gives
    dtype = NUMPY[kind]
    function = getattr(qd, name)

    @qd.kernel
    def compute(x: qd.types.ndarray(), out: qd.types.ndarray()):
        for i in range(x.shape[0]):
            out[i] = function(x[i])

    random = np.random.default_rng(3)
    parts = [random.uniform(-1.2, 1.2, 400), random.uniform(-6, 6, 400), random.uniform(0, 27, 400), 10.0 ** random.uniform(-40, 0, 100)]
    x = np.concatenate([*parts, [0.0, -0.0, 0.5, 1.0, -1.0, 30.0, -30.0, np.inf, -np.inf]]).astype(dtype)
    out = np.empty_like(x)
    compute(x, out)
    with mpmath.workdps(40):
        exact = [getattr(mpmath, name)(mpmath.mpf(float(value))) for value in x]
        info = np.finfo(dtype)
        for value, got, wanted in zip(x, out, exact, strict=True):
            exponent = max(mpmath.frexp(wanted)[1] - 1, info.minexp) if wanted else info.minexp
            assert abs(mpmath.mpf(float(got)) - wanted) <= bound * mpmath.ldexp(1, exponent - info.nmant), (value, got, wanted)
    np.testing.assert_array_equal(np.signbit(out), np.signbit(x) if name == "erf" else False)


def test_error_function_of_a_nan_is_one():
    @qd.kernel
    def compute(x: qd.f64) -> qd.types.vector(2, qd.f64):
        return qd.Vector([qd.erf(x), qd.erfc(x)])

    assert np.isnan(list(compute(np.nan))).all()


def test_functions_work_in_python():
    assert qd.fma(3.0, 4.0, -12.0) == 0.0 and qd.fma(0.1, 10.0, -1.0) == 2.0**-54
    assert qd.ldexp(1.5, 4) == 24.0 and abs(qd.erf(0.5) + qd.erfc(0.5) - 1) < 1e-15
    assert list(qd.math.outer(qd.Vector([1.0, 2.0]), qd.Vector([3.0, 4.0]))[1, :]) == [6.0, 8.0]
    assert qd.math.any(qd.Vector([0, 1])) and not qd.math.all(qd.Vector([0, 1]))


@pytest.mark.parametrize(
    "name", "atan sinh cosh exp2 log2 trunc asinh acosh atanh log10 expm1 log1p cbrt hypot copysign fma erf ldexp".split()
)
def test_functions_have_their_names_in_both_places(name):
    assert getattr(qd, name) is getattr(qd.math, name)


@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (3, 3), (5, 5), (6, 4), (3, 5), (12, 12)])
def test_qr(shape):
    n, m = shape

    @qd.kernel
    def compute(a: qd.types.ndarray(element_dim=2), q: qd.types.ndarray(element_dim=2), r: qd.types.ndarray(element_dim=2)):
        for i in range(a.shape[0]):
            q[i], r[i] = qd.qr(a[i])

    a = np.random.default_rng(n + m).standard_normal((5, n, m))
    a[1], a[2], a[3] = 0.0, 1.0, a[3] * 1e200
    q, r = np.empty((5, n, n)), np.empty((5, n, m))
    compute(a, q, r)
    scale = np.abs(a).max(axis=(1, 2), keepdims=True) + (np.abs(a).max(axis=(1, 2), keepdims=True) == 0)
    np.testing.assert_allclose((q @ r) / scale, a / scale, atol=1e-14)
    np.testing.assert_allclose(np.swapaxes(q, 1, 2) @ q, np.broadcast_to(np.eye(n), q.shape), atol=1e-14)
    assert np.array_equal(r, np.triu(r)) and (np.diagonal(r, axis1=1, axis2=2) >= 0).all()


@pytest.mark.parametrize("n", [1, 2, 3, 5, 12])
def test_lu(n):
    @qd.kernel
    def compute(
        a: qd.types.ndarray(element_dim=2),
        p: qd.types.ndarray(element_dim=2),
        lower: qd.types.ndarray(element_dim=2),
        upper: qd.types.ndarray(element_dim=2),
    ):
        for i in range(a.shape[0]):
            p[i], lower[i], upper[i] = qd.lu(a[i])

    a = np.random.default_rng(n).standard_normal((4, n, n))
    a[1], a[2] = 0.0, 1.0
    p, lower, upper = (np.empty_like(a) for _ in range(3))
    compute(a, p, lower, upper)
    np.testing.assert_allclose(p @ lower @ upper, a, atol=1e-13)
    assert np.array_equal(lower, np.tril(lower)) and (np.diagonal(lower, axis1=1, axis2=2) == 1).all() and np.abs(lower).max() <= 1
    assert np.array_equal(upper, np.triu(upper))
    assert np.isin(p, (0, 1)).all() and (p.sum(axis=1) == 1).all() and (p.sum(axis=2) == 1).all()


def test_shapes_that_are_too_large_are_refused():
    @qd.kernel
    def factor():
        qd.lu(qd.Matrix.zero(qd.f32, 17, 17))

    with pytest.raises(qd.QuadrantsCompilationError, match="LU decomposition supports sizes up to 16×16"):
        factor()


@pytest.mark.parametrize("kind", ["f16", "f32", "f64"])
@pytest.mark.parametrize("fast", [True, False])
def test_sine_and_cosine_of_one_angle_have_the_bits_of_each(on_every_backend, fast, kind):
    on_every_backend(fast_math=fast)

    @qd.kernel
    def sines(x: qd.types.ndarray(), sine: qd.types.ndarray()):
        for i in range(x.shape[0]):
            sine[i] = qd.sin(x[i] * 0.5)

    @qd.kernel
    def cosines(x: qd.types.ndarray(), cosine: qd.types.ndarray()):
        for i in range(x.shape[0]):
            cosine[i] = qd.cos(x[i] * 0.5)

    @qd.kernel
    def both(x: qd.types.ndarray(), sine: qd.types.ndarray(), cosine: qd.types.ndarray(), turned: qd.types.ndarray()):
        for i in range(x.shape[0]):
            angle = x[i] * 0.5
            sine[i] = qd.sin(angle)
            cosine[i] = qd.cos(angle)
            for j in range(2):  # the second angle is another one
                turned[i, j] = qd.cos(angle + j) - qd.sin(angle + j)

    dtype = np.dtype(NUMPY[kind])
    random = np.random.default_rng(3)
    ends = [0.0, -0.0, np.inf, -np.inf, np.nan, np.finfo(dtype).max, -np.finfo(dtype).max]
    exponents = random.uniform(-10, np.finfo(dtype).maxexp - 1, 60)
    x = np.concatenate([ends, random.uniform(-10, 10, 300), 2**exponents, random.uniform(-1e4, 1e4, 30)]).astype(dtype)
    sine, cosine, alone, other = (np.empty_like(x) for _ in range(4))
    turned = np.empty((x.size, 2), dtype)
    both(x, sine, cosine, turned)
    sines(x, alone)
    cosines(x, other)
    bits = np.dtype(f"u{dtype.itemsize}")
    numbers = ~np.isnan(alone)
    for got, wanted, function in [(sine, alone, np.sin), (cosine, other, np.cos)]:
        np.testing.assert_array_equal(np.isnan(got), ~np.isfinite(x))
        np.testing.assert_array_equal(got[numbers].view(bits), wanted[numbers].view(bits))
        exact = function((x * dtype.type(0.5)).astype(np.longdouble)[numbers])
        np.testing.assert_allclose(got[numbers].astype(np.longdouble), exact, rtol=2.0 * np.finfo(dtype).eps)
    np.testing.assert_allclose(turned[numbers, 0], (cosine - sine)[numbers], atol=4 * np.finfo(dtype).eps)

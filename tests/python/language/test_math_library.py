"""Functions of qd.math and qd.linalg that are composed of others, against NumPy."""

import numpy as np
import pytest

import quadrants as qd
from quadrants._base import options as _options

pytestmark = pytest.mark.usefixtures("on_every_backend")

POSITIVE = [1e-12, 1e-3, 0.1, 0.399, 0.4, 0.5, 0.9, 1.0, 1.5, 3.0, 1e3, 1e8, 1e9, 1e15, 1e30, np.inf]
SIGNED = [*POSITIVE, 0.0, -0.0, *(-x for x in POSITIVE), np.nan]
POINTS = {
    "log1p": [x for x in SIGNED if not x < -0.95], "expm1": SIGNED, "log10": [0.0, *POSITIVE], "asinh": SIGNED,
    "acosh": [x for x in SIGNED if x != 0], "atanh": [x for x in SIGNED if abs(x) <= 1], "cbrt": SIGNED,
}  # fmt: skip
REFERENCE = {
    "log1p": np.log1p, "expm1": np.expm1, "log10": np.log10, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh, "cbrt": np.cbrt,
}  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", POINTS)
def test_elementary_functions(name, dtype):
    function = getattr(qd.math, name)

    @qd.kernel
    def compute(x: qd.types.ndarray(), y: qd.types.ndarray()):
        for i in range(x.shape[0]):
            y[i] = function(x[i])

    x = np.array(POINTS[name], dtype)
    y = np.empty_like(x)
    compute(x, y)
    with np.errstate(all="ignore"):
        expected = REFERENCE[name](x.astype(np.float64))
        np.testing.assert_allclose(y, expected.astype(dtype), rtol=8 * np.finfo(dtype).eps)
    np.testing.assert_array_equal(np.signbit(y[x == 0]), np.signbit(expected[x == 0]))


def test_pairs_of_numbers():
    @qd.kernel
    def compute(x: qd.types.ndarray(), y: qd.types.ndarray(), out: qd.types.ndarray()):
        for i in range(x.shape[0]):
            out[0, i] = qd.math.hypot(x[i], y[i])
            out[1, i] = qd.math.copysign(x[i], y[i])

    x, y = (part.ravel() for part in np.meshgrid([0.0, -0.0, 3.0, -4e300, 1e-300, np.inf], [0.0, -0.0, 4.0, 3e300, -1.0]))
    out = np.empty((2, len(x)))
    compute(x, y, out)
    np.testing.assert_allclose(out[0], np.hypot(x, y), rtol=1e-15)
    np.testing.assert_array_equal(out[1], np.copysign(x, y))
    np.testing.assert_array_equal(np.signbit(out[1]), np.signbit(y))


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int32, np.uint32, np.int64, np.uint64])
@pytest.mark.parametrize("name", [*REFERENCE, "hypot", "copysign"])
def test_integers_become_floats(name, dtype):
    function, has_two = getattr(qd.math, name), name in ("hypot", "copysign")

    @qd.kernel
    def compute(x: qd.types.ndarray(), y: qd.types.ndarray()):
        for i in range(x.shape[0]):
            y[i] = function(x[i], x[0]) if qd.static(has_two) else function(x[i])

    limits = np.iinfo(dtype)
    x = np.array([limits.max // 2 + 1, limits.min, limits.max, 0, 1, 5, 100], dtype)
    y = np.empty(len(x))
    compute(x, y)
    wide = x.astype(np.float64)
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(wide, wide[0]) if has_two else REFERENCE[name](wide)
        np.testing.assert_allclose(y, expected.astype(np.float32), rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.uint32, np.int64])
def test_bits(dtype):
    @qd.kernel
    def compute(x: qd.types.ndarray(), n: qd.i32, moved: qd.types.ndarray(), zeros: qd.types.ndarray()):
        for i in range(x.shape[0]):
            moved[0, i] = qd.math.rotl(x[i], n)
            moved[1, i] = qd.math.rotr(x[i], n)
            moved[2, i] = qd.math.bit_reverse(x[i])
            zeros[i] = qd.math.ctz(x[i])

    width, mask = np.dtype(dtype).itemsize * 8, (1 << np.dtype(dtype).itemsize * 8) - 1
    values = [0, 1, 2, 0x35, 0x80, mask, mask >> 1, 1 << (width - 1)]
    unsigned = np.dtype(f"u{np.dtype(dtype).itemsize}")
    x = np.array(values, unsigned).view(dtype)
    for n in (0, 1, 5, width - 1, width + 2):
        moved, zeros = np.empty((3, len(x)), dtype), np.empty(len(x), np.int32)
        compute(x, n, moved, zeros)
        k = n % width
        assert moved[0].view(unsigned).tolist() == [(v << k | v >> (width - k)) & mask for v in values]
        assert moved[1].view(unsigned).tolist() == [(v >> k | v << (width - k)) & mask for v in values]
        assert moved[2].view(unsigned).tolist() == [int(f"{v:0{width}b}"[::-1], 2) for v in values]
        assert zeros.tolist() == [(v & -v).bit_length() - 1 if v else width for v in values]


def test_rotations_agree():
    @qd.kernel
    def compute(axis: qd.types.vector(3, qd.f64), angle: qd.f64, out: qd.types.ndarray()):
        q = qd.math.quat_from_axis_angle(axis, angle)
        m = qd.math.rot_axis_angle(axis, angle)
        for i, j in qd.static(qd.ndrange(3, 3)):
            out[i, j] = m[i, j]
            out[3, i] = qd.math.quat_rotate(q, qd.Vector([1.0, 2.0, 3.0], qd.f64))[i]
        back = qd.math.quat_from_matrix(m)
        twice = qd.math.quat_mul(q, q)
        double = qd.math.quat_from_axis_angle(axis, 2 * angle)
        sign = qd.select(q[0] < 0, -1.0, 1.0)
        out[4, 0] = (back - sign * q).norm()
        out[4, 1] = (twice - double).norm()
        out[4, 2] = (qd.math.quat_mul(q, qd.math.quat_conjugate(q)) - qd.Vector([1.0, 0.0, 0.0, 0.0], qd.f64)).norm()

    for axis in ([0, 0, 2.0], [1.0, -2.0, 0.5], [-3.0, 0, 0]):
        for angle in (0.3, 1.5707963267948966, 3.0, -2.5):
            out = np.zeros((5, 3))
            compute(qd.Vector(axis, qd.f64), angle, out)
            n = np.array(axis) / np.linalg.norm(axis)
            cross = np.cross(np.eye(3), n)
            expected = np.eye(3) + np.sin(angle) * cross + (1 - np.cos(angle)) * cross @ cross
            np.testing.assert_allclose(out[:3], expected, atol=1e-14)
            np.testing.assert_allclose(out[3], expected @ [1, 2, 3], atol=1e-14)
            np.testing.assert_allclose(out[4], 0, atol=1e-14)


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 12])
def test_cholesky_and_what_it_solves(n):
    @qd.kernel
    def compute(a: qd.types.ndarray(element_dim=2), b: qd.types.ndarray(element_dim=1), lower: qd.types.ndarray(element_dim=2)):
        for i in range(a.shape[0]):
            lower[i] = qd.linalg.cholesky(a[i])
            b[i] = qd.linalg.solve_spd(a[i], b[i])

    rng = np.random.default_rng(n)
    roots = rng.standard_normal((4, n, n))
    a = roots @ np.swapaxes(roots, 1, 2) + np.eye(n)
    b = rng.standard_normal((4, n))
    x, lower = b.copy(), np.zeros_like(a)
    compute(a, x, lower)
    np.testing.assert_allclose(lower, np.linalg.cholesky(a), atol=1e-12)
    np.testing.assert_allclose(x, np.linalg.solve(a, b[:, :, None])[:, :, 0], atol=1e-11)


@pytest.mark.parametrize("dtype", [qd.f16, qd.f32, qd.f64])
def test_extrema_of_a_converted_integer_and_a_nan_are_the_number(dtype):
    qd.init(arch=_options.get("arch"), fast_math=False, offline_cache=False, log_level="error")

    @qd.kernel
    def choose(n: qd.i32, x: qd.f32) -> qd.types.vector(4, qd.f32):
        whole, other, is_one = qd.cast(n, dtype), qd.cast(x, dtype), qd.cast(n == 1, dtype)
        return qd.Vector([qd.min(whole, other), qd.max(other, whole), qd.min(is_one, other), qd.max(other, is_one)])

    assert list(choose(3, np.nan)) == [3, 3, 0, 0]
    assert list(choose(1, 0.5)) == [0.5, 1, 0.5, 1]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_extrema_order_zeros_and_prefer_numbers(dtype):
    qd.init(arch=_options.get("arch"), fast_math=False, offline_cache=False, log_level="error")

    @qd.kernel
    def compute(x: qd.types.ndarray(), y: qd.types.ndarray(), out: qd.types.ndarray()):
        for i in range(x.shape[0]):
            out[0, i] = qd.max(x[i], y[i])
            out[1, i] = qd.min(x[i], y[i])
            out[2, i] = qd.max(0, x[i])
            out[3, i] = qd.min(x[i], -0.0)

    points = np.array([0.0, -0.0, 1.0, -2.0, np.inf, -np.inf, np.nan], dtype)
    x, y = (part.ravel() for part in np.meshgrid(points, points))
    out = np.empty((4, len(x)), dtype)
    compute(x, y, out)
    zeros = np.zeros_like(x)
    for choose, left, right, found in [(max, x, y, out[0]), (min, x, y, out[1]), (max, zeros, x, out[2]), (min, x, -zeros, out[3])]:
        for *pair, result in zip(left, right, found, strict=True):
            numbers = [(number, not np.signbit(number)) for number in pair if not np.isnan(number)]
            assert np.isnan(result) if not numbers else (result, not np.signbit(result)) == choose(numbers)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_square_roots_as_powers(dtype):
    @qd.kernel
    def compute(x: qd.types.ndarray(), y: qd.types.ndarray(), out: qd.types.ndarray()):
        for i in range(x.shape[0]):
            out[0, i] = x[i] ** y[i]
            out[1, i] = x[i] ** 0.5

    x = np.array([0.0, -0.0, np.inf, -np.inf, 4.0], dtype)
    out = np.empty((2, len(x)), dtype)
    compute(x, np.full_like(x, 0.5), out)
    assert out.tolist() == [[0.0, 0.0, np.inf, np.inf, 2.0]] * 2
    assert not np.signbit(out).any()

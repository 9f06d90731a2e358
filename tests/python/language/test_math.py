"""The functions of `qd.math` that are written in the kernel language, in kernels and in Python scope."""

import cmath
import math

import numpy as np
import pytest
from language_support import evaluate

import quadrants as qd

pytestmark = pytest.mark.usefixtures("on_every_backend")


def components(value):
    return np.array(value.to_list())


@pytest.mark.parametrize(
    "base, offset, expected",
    [(0, 1, 0), (0, 3, 3), (0, 4, None), (3, -2, 1), (1, 0, 1), (2, 0, None), (40, 1, None), (40, 0, None), (1, 1, 1), (2, -1, 1)],
)
def test_fns_finds_set_bits(base, offset, expected):
    wanted = 0xFFFFFFFF if expected is None else expected
    assert evaluate(f"qd.math.fns(qd.u32(11), qd.u32({base}), n)", "qd.u32", n=("qd.i32", offset)) == wanted
    assert qd.math.fns(11, base, offset) == wanted


Z, W = complex(1.5, -2.0), complex(-0.5, 3.0)


@pytest.mark.parametrize(
    "expression, expected",
    [
        ("qd.math.cmul(z, w)", Z * W),
        ("qd.math.cdiv(z, w)", Z / W),
        ("qd.math.cconj(z)", Z.conjugate()),
        ("qd.math.cinv(z)", 1 / Z),
        ("qd.math.cexp(z)", cmath.exp(Z)),
        ("qd.math.clog(z)", cmath.log(Z)),
        ("qd.math.cpow(z, 2.5)", Z**2.5),
        ("qd.math.cpow(z * 0, 2.0)", 0j),
        ("qd.math.csqrt(w)", cmath.sqrt(W)),
    ],
)
def test_complex_functions(expression, expected):
    vectors = "(qd.Vector([a, -2.0]), qd.Vector([-0.5, 3.0]))"
    body = expression.replace("z", f"{vectors}[0]").replace("w", f"{vectors}[1]").replace(f"cpo{vectors}[1]", "cpow")
    got = components(evaluate(body, "qd.math.vec2", a=("qd.f32", 1.5)))
    assert got == pytest.approx([expected.real, expected.imag], abs=1e-5)


def rotation(axis, angle):
    x, y, z = np.array(axis) / np.linalg.norm(axis)
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.eye(3) + math.sin(angle) * cross + (1 - math.cos(angle)) * cross @ cross


def test_matrices_of_transforms():
    a = ("qd.f32", 0.7)
    matrix = "qd.math.mat4"
    got = components(evaluate("qd.math.rot_by_axis(qd.Vector([1.0, -2.0, 0.5]), a)", matrix, a=a))
    assert got[:3, :3] == pytest.approx(rotation([1, -2, 0.5], 0.7).T, abs=1e-5)
    yaw, pitch, roll = (rotation(axis, angle) for axis, angle in (([0, 1, 0], 0.7), ([1, 0, 0], 0.3), ([0, 0, 1], -0.4)))
    got = components(evaluate("qd.math.rot_yaw_pitch_roll(a, 0.3, -0.4)", matrix, a=a))
    assert got[:3, :3] == pytest.approx((yaw @ pitch @ roll).T, abs=1e-5)
    assert components(evaluate("qd.math.rotation3d(0.3, -0.4, a)", matrix, a=a)) == pytest.approx(got, abs=1e-6)
    got = components(evaluate("qd.math.rotation2d(a)", "qd.math.mat2", a=a))
    assert got == pytest.approx(rotation([0, 0, 1], 0.7)[:2, :2], abs=1e-6)
    got = components(
        evaluate("qd.math.translate(a, 2.0, 3.0) @ qd.math.scale(2.0, 3.0, a) @ qd.Vector([1.0, 1.0, 1.0, 1.0])", "qd.math.vec4", a=a)
    )
    assert got == pytest.approx([2.7, 5.0, 3.7, 1.0], abs=1e-6)
    assert got[3] == 1.0


def test_reciprocal_square_root_of_single_numbers():
    x, y = qd.field(qd.f32, shape=5000), qd.field(qd.f32, shape=5000)
    x.from_numpy(np.linspace(1, 4, 5000, dtype=np.float32))

    @qd.kernel
    def run():
        qd.loop_config(serialize=True)
        for i in x:
            y[i] = qd.rsqrt(x[i])

    run()
    expected = 1 / np.sqrt(x.to_numpy().astype(np.float64))
    # Estimates of processors differ: 1.6 from Intel's, 1.74 from AMD's.
    assert (abs(y.to_numpy() - expected) / np.spacing(expected.astype(np.float32))).max() < 1.8 and y[0] == 1


@pytest.mark.parametrize("kind", ["rsqrt", "quotient"])
def test_reciprocal_square_root_of_f64_in_lanes(kind):
    generator = np.random.default_rng(1)
    special = [0.0, -0.0, np.inf, -1.0, np.nan, 5e-324, 1e-310, 1.7976931348623157e308, 4.0]
    values = np.concatenate([10.0 ** generator.uniform(-307, 308, 20000), generator.uniform(0, 10, 20000), special])
    x, y = qd.ndarray(qd.f64, values.size), qd.ndarray(qd.f64, values.size)
    x.from_numpy(values)

    @qd.kernel
    def run(y: qd.types.NDArray[qd.f64, 1], x: qd.types.NDArray[qd.f64, 1]):
        for i in y:
            if qd.static(kind == "rsqrt"):
                y[i] = qd.rsqrt(x[i])
            else:
                y[i] = 1.0 / qd.sqrt(x[i])

    run(y, x)
    with np.errstate(all="ignore"):
        exact = 1 / np.sqrt(values.astype(np.longdouble))
    expected = exact.astype(np.float64)
    regular = np.isfinite(expected) & (expected > 0)
    errors = np.abs(y.to_numpy()[regular] - exact[regular]) / np.spacing(expected[regular])
    assert errors.max() < 1.5  # a root and a quotient, each rounded: 1.43
    np.testing.assert_array_equal(y.to_numpy()[~regular], expected[~regular])

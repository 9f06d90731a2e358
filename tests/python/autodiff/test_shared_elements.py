"""Gradients of elements that many iterations read: they are summed up in loops of their own (passes/gather_updates.cpp)."""

import numpy as np
import pytest
from language_support import leave_out_long

import quadrants as qd

SIZES = [(20, 30, 25), (40, 300, 7), (1, 3, 2), (150, 130, 120)]


def draw(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).random(shape)


def fill(container, values: np.ndarray):
    container.from_numpy(values)
    return container


@pytest.mark.parametrize("shape", SIZES)
def test_matrix_products(shape, on_every_backend):
    n, m, k = shape
    leave_out_long(n * m * k)
    a, b, c, d = (qd.field(qd.f64, size, needs_grad=True) for size in ((n, k), (k, m), (n, m), (n, m)))

    @qd.kernel
    def multiply():
        for i in range(n):
            for j in range(m):
                s = 0.0
                for at in range(k):
                    s += a[i, at] * b[at, j]
                c[i, j] = s
        for i, j, at in qd.ndrange(n, m, k):
            d[i, j] += a[i, at] * b[at, j] * 0.5

    fill(a, draw(n, k)), fill(b, draw(k, m))
    multiply()
    change = draw(n, m)
    c.grad.from_numpy(change)
    d.grad.from_numpy(change * 3)
    a.grad.fill(1.0)
    multiply.grad()
    np.testing.assert_allclose(a.grad.to_numpy(), 1 + change @ b.to_numpy().T * 2.5, rtol=1e-12)
    np.testing.assert_allclose(b.grad.to_numpy(), a.to_numpy().T @ change * 2.5, rtol=1e-12)


@pytest.mark.parametrize("shape", SIZES)
def test_matrix_products_of_arrays(shape, on_every_backend):
    n, m, k = shape
    leave_out_long(n * m * k)
    a, b, c = (qd.ndarray(qd.f64, size, needs_grad=True) for size in ((n, k), (k, m), (n, m)))

    @qd.kernel
    def multiply(x: qd.types.ndarray(), y: qd.types.ndarray(), z: qd.types.ndarray()):
        for i, j in z:
            s = 0.0
            for at in range(x.shape[1]):
                s += x[i, at] * y[at, j]
            z[i, j] = qd.exp(0.1 * s)

    fill(a, draw(n, k)), fill(b, draw(k, m))
    multiply(a, b, c)
    change = draw(n, m)
    c.grad.from_numpy(change)
    multiply.grad(a, b, c)
    inner = 0.1 * change * np.exp(0.1 * a.to_numpy() @ b.to_numpy())
    np.testing.assert_allclose(a.grad.to_numpy(), inner @ b.to_numpy().T, rtol=1e-12)
    np.testing.assert_allclose(b.grad.to_numpy(), a.to_numpy().T @ inner, rtol=1e-12)


@pytest.mark.parametrize("n", [300, 12, 1200])
def test_pairs(n, on_every_backend):
    leave_out_long(n * n)
    p, q = qd.Vector.field(3, qd.f64, n, needs_grad=True), qd.field(qd.f64, n, needs_grad=True)
    energy, most = qd.field(qd.f64, (), needs_grad=True), qd.field(qd.f64, n, needs_grad=True)

    @qd.kernel
    def potential():
        for i in range(n):
            s = 0.0
            for j in range(n):
                if i != j:
                    r = p[i] - p[j]
                    energy[None] += q[i] * q[j] / (r.norm_sqr() + 0.1)
                s += q[j] * p[j][0]
            most[i] = s * q[i]

    x, w = draw(n, 3), draw(n)
    fill(p, x), fill(q, w)
    potential()
    energy.grad[None] = 2.0
    change = draw(n, 1)[:, 0]
    most.grad.from_numpy(change)
    potential.grad()
    r = x[:, None] - x[None]
    d = (r**2).sum(-1) + 0.1
    product = w[:, None] * w[None] * (1 - np.eye(n))
    inner = (change * w).sum()
    of_p = -8 * (product[..., None] * r / d[..., None] ** 2).sum(1)
    of_p[:, 0] += inner * w
    of_q = 4 * ((1 - np.eye(n)) * w / d).sum(1) + inner * x[:, 0] + change * (w @ x[:, 0])
    np.testing.assert_allclose(p.grad.to_numpy(), of_p, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(q.grad.to_numpy(), of_q, rtol=1e-9)


def test_recurrences_keep_their_order(on_every_backend):
    """A loop whose adjoint depends on the iteration behind it must not count up."""
    x, y = qd.field(qd.f64, (20, 300), needs_grad=True), qd.field(qd.f64, 20, needs_grad=True)

    @qd.kernel
    def fold():
        for i in range(20):
            s = 1.0
            for j in range(300):
                s = s * 0.9 + x[i, j]
            y[i] = s

    fold()
    y.grad.fill(1.0)
    fold.grad()
    np.testing.assert_allclose(x.grad.to_numpy(), np.tile(0.9 ** np.arange(299, -1, -1), (20, 1)), rtol=1e-12)


@pytest.mark.parametrize("shape", [(1, 1), (7, 5), (1, 300), (300, 1), (3, 1000), (257, 129), (64, 15), (200, 1500)])
@pytest.mark.parametrize("dtype", [qd.f32, qd.f64])
def test_layers(shape, dtype, on_every_backend):
    """Each row adds a multiple of itself to the gradient of the input, by a factor that depends on all of the row."""
    n, m = shape
    leave_out_long(40 * n * m)

    @qd.func
    def compute(i, w: qd.template(), x: qd.template(), y: qd.template()):
        s = qd.cast(0, dtype)
        for j in range(m):
            s += w[i, j] * x[j]
        y[i] = qd.tanh(s)

    w, x, y = (qd.field(dtype, size, needs_grad=True) for size in ((n, m), m, n))
    arrays = [qd.ndarray(dtype, size, needs_grad=True) for size in ((n, m), (m,), (n,))]

    @qd.kernel
    def of_fields():
        for i in range(n):
            compute(i, w, x, y)

    @qd.kernel
    def of_arrays(w: qd.types.ndarray(), x: qd.types.ndarray(), y: qd.types.ndarray()):
        for i in range(w.shape[0]):
            s = qd.cast(0, dtype)
            for j in range(w.shape[1]):
                s += w[i, j] * x[j]
            y[i] = qd.tanh(s)

    weights, inputs, change = draw(n, m) / m, draw(m, 1)[:, 0], draw(n, 2)[:, 0]
    inner = (1 - np.tanh(weights @ inputs) ** 2) * change
    tolerance, scalar = (1e-12, np.float64) if dtype == qd.f64 else (1e-4, np.float32)
    for containers, kernel, arguments in (((w, x, y), of_fields, ()), (arrays, of_arrays, arrays)):
        for container, values in zip(containers, (weights, inputs), strict=False):
            container.from_numpy(values.astype(scalar))
        containers[2].grad.from_numpy(change.astype(scalar))
        containers[1].grad.fill(1.0)
        kernel.grad(*arguments)
        np.testing.assert_allclose(containers[1].grad.to_numpy(), 1 + weights.T @ inner, rtol=tolerance)
        np.testing.assert_allclose(containers[0].grad.to_numpy(), np.outer(inner, inputs), rtol=tolerance)

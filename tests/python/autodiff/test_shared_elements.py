"""Gradients of elements that many iterations read: they are summed up in loops of their own (passes/gather_updates.cpp)."""

import numpy as np
import pytest
from autodiff_support import define_layer, make_layer_arrays
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


@pytest.mark.parametrize("shape", [(20, 30, 25), (1, 1, 1), (70, 80, 33), (150, 130, 120), (600, 300, 5), (3, 1000, 400), (0, 4, 5)])
@pytest.mark.parametrize("activation", ["tanh", "relu", "scaled"])
def test_layers_of_batches(shape, activation, on_every_backend):
    """What the gradients of all three operands share is computed once for each result, and kept for the sums."""
    batch, n, m = shape
    leave_out_long(40 * batch * n * m)

    @qd.func
    def activate(s, k):
        result = qd.tanh(s)
        if qd.static(activation == "relu"):
            result = qd.max(s - 0.3, 0.0)
        if qd.static(activation == "scaled"):
            result = k * qd.exp(-s)
        return result

    x, w, y, k = (qd.ndarray(qd.f64, size, needs_grad=True) for size in ((batch, m), (n, m), (batch, n), (n,)))
    fields = [qd.field(qd.f64, size, needs_grad=True) for size in ((batch, m), (n, m), (batch, n), (n,))] if batch else []

    @qd.kernel
    def of_arrays(x: qd.types.ndarray(), w: qd.types.ndarray(), y: qd.types.ndarray(), k: qd.types.ndarray()):
        for b, i in y:
            s = 0.0
            for j in range(w.shape[1]):
                s += w[i, j] * x[b, j]
            y[b, i] = activate(s, k[i])

    @qd.kernel
    def of_fields():
        x, w, y, k = qd.static(fields)
        for b in range(batch):
            for i in range(n):
                s = 0.0
                for j in range(m):
                    s += w[i, j] * x[b, j]
                y[b, i] = activate(s, k[i])

    inputs, weights, factors, change = draw(batch, m), draw(n, m) / m, draw(n, 1)[:, 0], draw(batch, n)
    sums = inputs @ weights.T
    slope = {"tanh": 1 - np.tanh(sums) ** 2, "relu": sums > 0.3, "scaled": -factors * np.exp(-sums)}[activation] * change
    for containers, kernel, arguments in (((x, w, y, k), of_arrays, (x, w, y, k)), (fields, of_fields, ())):
        if not containers:
            continue
        for container, values in zip(containers, (inputs, weights, 0 * change, factors), strict=True):
            container.from_numpy(values)
        for _ in range(2):  # the memory of the first launch serves the second, too
            containers[2].grad.from_numpy(change)
            for at in (0, 1, 3):
                containers[at].grad.fill(1.0)
            kernel.grad(*arguments)
            np.testing.assert_allclose(containers[0].grad.to_numpy(), 1 + slope @ weights, rtol=1e-12, atol=1e-14)
            np.testing.assert_allclose(containers[1].grad.to_numpy(), 1 + slope.T @ inputs, rtol=1e-12, atol=1e-14)
            of_k = (np.exp(-sums) * change).sum(0) if activation == "scaled" else 0
            np.testing.assert_allclose(containers[3].grad.to_numpy(), 1 + of_k, rtol=1e-12)


def test_layers_grow(on_every_backend):
    """One version of a kernel, launches of several sizes in any order."""
    leave_out_long(1_000_000)
    layer = define_layer()
    for batch, n, m in [(40, 50, 60), (200, 100, 90), (9, 70, 80), (200, 300, 20)]:
        arrays = make_layer_arrays(batch, n, m)
        values = draw(batch, m), draw(n, m) / m, draw(batch, n)
        for container, value in zip((*arrays[:2], arrays[2].grad), values, strict=True):
            container.from_numpy(value)
        layer.grad(*arrays)
        slope = (1 - np.tanh(values[0] @ values[1].T) ** 2) * values[2]
        np.testing.assert_allclose(arrays[0].grad.to_numpy(), slope @ values[1], rtol=1e-12)
        np.testing.assert_allclose(arrays[1].grad.to_numpy(), slope.T @ values[0], rtol=1e-12)


def test_layers_under_tapes(on_every_backend):
    """Two layers, where one's result is the other's input; the tape runs the second gradient first."""
    n = 60
    leave_out_long(40 * n**3)
    x, h, y = (qd.field(qd.f64, (n, n), needs_grad=True) for _ in range(3))
    v, w = (qd.field(qd.f64, (n, n), needs_grad=True) for _ in range(2))
    loss = qd.field(qd.f64, (), needs_grad=True)

    @qd.kernel
    def layer(x: qd.template(), w: qd.template(), y: qd.template()):
        for b, i in y:
            s = 0.0
            for j in range(n):
                s += w[i, j] * x[b, j]
            y[b, i] = qd.tanh(s)

    @qd.kernel
    def total():
        for b, i in y:
            loss[None] += y[b, i] ** 2

    values = [draw(n, n), draw(n, n + 1)[:, :n] / n, draw(n, n + 2)[:, :n] / n]
    for container, value in zip((x, v, w), values, strict=True):
        container.from_numpy(value)
    with qd.ad.Tape(loss):
        layer(x, v, h)
        layer(h, w, y)
        total()
    hidden = np.tanh(values[0] @ values[1].T)
    result = np.tanh(hidden @ values[2].T)
    outer = 2 * result * (1 - result**2)
    inner = (outer @ values[2]) * (1 - hidden**2)
    np.testing.assert_allclose(w.grad.to_numpy(), outer.T @ hidden, rtol=1e-11)
    np.testing.assert_allclose(v.grad.to_numpy(), inner.T @ values[0], rtol=1e-11)
    np.testing.assert_allclose(x.grad.to_numpy(), inner @ values[1], rtol=1e-11)


def test_layers_in_captured_graphs(on_every_backend):
    """Each call in a graph keeps its own values; other sizes in between change nothing."""
    leave_out_long(1_000_000)
    layer = define_layer()

    def make(batch: int, n: int, m: int):
        arrays = make_layer_arrays(batch, n, m)
        values = draw(batch, m), draw(n, m) / m, draw(batch, n)
        for container, value in zip(arrays[:2], values, strict=False):
            container.from_numpy(value)
        return arrays, (1 - np.tanh(values[0] @ values[1].T) ** 2) * values[2], values

    made = [make(150, 130, 60), make(300, 200, 30)]
    with qd.graph.capture() as graph:
        for arrays, _, _ in made:
            layer.grad(*arrays)
    other = make(100, 90, 80)[0]
    for _ in range(3):
        for arrays, _, values in made:
            arrays[0].grad.fill(0.0), arrays[1].grad.fill(0.0)
            arrays[2].grad.from_numpy(values[2])
        graph()
        layer.grad(*other)
        for arrays, slope, values in made:
            np.testing.assert_allclose(arrays[0].grad.to_numpy(), slope @ values[1], rtol=1e-12)
            np.testing.assert_allclose(arrays[1].grad.to_numpy(), slope.T @ values[0], rtol=1e-12)

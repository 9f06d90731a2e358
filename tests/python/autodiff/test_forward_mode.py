"""Forward mode, and derivatives of second order by nesting."""

from __future__ import annotations

import numpy as np
import pytest
from autodiff_support import numbers, scalar_loss

import quadrants as qd

pytestmark = pytest.mark.usefixtures("on_every_backend")


def test_tangent_is_the_jacobian_times_the_seed():
    x, y = numbers([1.0, 2.0, 3.0]), numbers([0.0, 0.0])

    @qd.kernel
    def run():
        for i in range(2):
            y[i] = x[i] * x[i + 1]

    with qd.ad.FwdMode(loss=y, param=x, seed=[1.0, 0.0, 10.0]):
        run()
    assert y.to_numpy().tolist() == [2.0, 6.0]
    assert y.dual.to_numpy().tolist() == [2.0, 20.0]
    assert x.dual.to_numpy().tolist() == [0.0, 0.0, 0.0]  # the seed is taken back


def test_seed_of_a_single_number_is_one():
    x, loss = numbers(3.0), scalar_loss()

    @qd.kernel
    def run():
        loss[None] = x[None] ** 2

    with qd.ad.FwdMode(loss, x):
        run()
    assert loss.dual[None] == 6.0


def test_seed_is_needed_otherwise():
    with pytest.raises(RuntimeError, match="`seed` is not set for non 0-D field"), qd.ad.FwdMode(scalar_loss(), numbers([1.0, 2.0])):
        pass


def test_seed_has_a_number_for_each_component():
    with pytest.raises(AssertionError), qd.ad.FwdMode(scalar_loss(), numbers([1.0, 2.0]), seed=[1.0]):
        pass


def test_loss_is_a_container():
    with pytest.raises(AssertionError):
        qd.ad.FwdMode(3.0, numbers([1.0]))


def test_entered_once():
    mode = qd.ad.FwdMode(scalar_loss(), numbers(1.0))
    with mode:
        pass
    with pytest.raises(AssertionError, match="Forward mode manager can be entered only once"):
        mode.__enter__()


def test_tangents_need_memory():
    with pytest.raises(RuntimeError, match="needs_dual"), qd.ad.FwdMode(scalar_loss(), qd.field(qd.f64, shape=())):
        pass


def test_several_parameters_have_a_seed_each():
    x, y, loss = numbers(2.0), numbers([3.0, 4.0]), scalar_loss()

    @qd.kernel
    def run():
        loss[None] = x[None] * y[0] * y[1]

    with qd.ad.FwdMode(loss, {x: [1.0], y: np.array([0.0, 1.0])}):
        run()
    assert loss.dual[None] == 12.0 + 6.0


def test_ndarrays_vectors_and_matrices():
    kind = qd.types.matrix(2, 2, qd.f64)
    x = qd.ndarray(qd.types.vector(2, qd.f64), 1, needs_dual=True)
    y = qd.ndarray(kind, 1, needs_dual=True)

    @qd.kernel
    def run(a: qd.types.ndarray(), b: qd.types.ndarray()):
        for i in a:
            b[i] = a[i].outer_product(a[i])

    x.from_numpy(np.array([[2.0, 3.0]]))
    with qd.ad.FwdMode(y, x, seed=[[1.0, 0.0]]):
        run(x, y)
    assert y.dual.to_numpy()[0].tolist() == [[4.0, 3.0], [3.0, 0.0]]


def test_arrays_without_axes():
    x, loss = qd.ndarray(qd.f64, 3, needs_dual=True), qd.ndarray(qd.f64, (), needs_dual=True)

    @qd.kernel
    def run(a: qd.types.ndarray(), b: qd.types.ndarray()):
        for i in a:
            b[None] += a[i] ** 2

    x.from_numpy(np.array([1.0, 2.0, 3.0]))
    with qd.ad.FwdMode(loss, x, seed=[1.0, 0.0, 1.0]):
        run(x, loss)
    assert (loss[None], loss.dual[None]) == (14.0, 8.0)


def test_loops_of_every_kind():
    x, loss = numbers([0.5]), scalar_loss()

    @qd.kernel
    def run(count: int):
        value = x[0]
        steps = 0
        while True:
            steps += 1
            if steps > count:
                break
            if steps == 2:
                continue
            value *= x[0]
        for k in range(count):
            value += qd.sin(x[0]) * k
        loss[None] = value

    with qd.ad.FwdMode(loss, x, [1.0]):
        run(4)
    np.testing.assert_allclose(loss.dual[None], 4 * 0.5**3 + 6 * np.cos(0.5))


def test_entry_clears_tangents_unless_told():
    x, y, loss = numbers(2.0), numbers(1.0), scalar_loss()

    @qd.kernel
    def run():
        loss[None] = x[None] * y[None]

    y.dual[None] = 5.0
    with qd.ad.FwdMode(loss, x, clear_gradients=False):
        run()
    assert loss.dual[None] == 1.0 + 10.0
    with qd.ad.FwdMode(loss, x):
        run()
    assert loss.dual[None] == 1.0


@pytest.mark.host_memory
def test_forward_over_reverse_gives_hessian_times_seed():
    x, loss = numbers([0.5, 2.0]), scalar_loss()

    @qd.kernel
    def run():
        loss[None] += qd.exp(x[0]) * x[1] ** 3

    with qd.ad.FwdMode(loss, x, seed=[1.0, 2.0]), qd.ad.Tape(loss):
        run()
    a, b = 0.5, 2.0
    hessian = np.exp(a) * np.array([[b**3, 3 * b**2], [3 * b**2, 6 * b]])
    np.testing.assert_allclose(x.grad.dual.to_numpy(), hessian @ [1.0, 2.0])
    np.testing.assert_allclose(x.grad.to_numpy(), np.exp(a) * np.array([b**3, 3 * b**2]))

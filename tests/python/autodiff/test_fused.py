"""The last call of a tape may run together with its gradient: what all others see stays what it is without (launch/tape/fused_launch.h)."""

import numpy as np
import pytest
from autodiff_support import numbers, scalar_loss

import quadrants as qd

pytestmark = pytest.mark.usefixtures("_joins_all")


@pytest.fixture
def _joins_all(monkeypatch):
    """However short the calls are."""
    monkeypatch.setattr("quadrants.ad._tape._LEAST_MICROSECONDS", 0)
    qd.init(arch=qd.cpu, offline_cache=False, log_level="error", default_fp=qd.f64)
    yield
    qd.reset()


def is_joined(kernel):
    return kernel._ends_tapes is True and kernel._fused.specialization_count > 0


def tape_twice(run, loss, between=lambda: None):
    """The second time a kernel that ended the first tape is fused."""
    for _ in range(2):
        with qd.ad.Tape(loss):
            run()
            between()


def test_gradient_of_each_element_is_overwritten():
    x, loss = numbers(np.arange(40.0)), scalar_loss()

    @qd.kernel
    def square():
        for i in x:
            loss[None] += x[i] * x[i]

    for round_ in range(3):
        x[0] = round_
        tape_twice(square, loss)
        assert is_joined(square)
        np.testing.assert_array_equal(x.grad.to_numpy(), 2 * x.to_numpy())
        assert loss[None] == (x.to_numpy() ** 2).sum()
        assert loss.grad[None] == 1


def test_gradients_that_several_iterations_add_to():
    x, weights, loss = numbers(np.arange(6.0)), numbers([2.0, 3.0]), scalar_loss()

    @qd.kernel
    def run():
        for i in range(5):
            if x[i] > 1:
                loss[None] += weights[i % 2] * (x[i + 1] - x[i]) ** 2
        loss[None] -= weights[0]

    tape_twice(run, loss)
    assert is_joined(run)
    np.testing.assert_array_equal(x.grad.to_numpy(), [0.0, 0.0, -4.0, -2.0, 2.0, 4.0])
    np.testing.assert_array_equal(weights.grad.to_numpy(), [1.0, 1.0])


def test_loops_functions_vectors_and_arrays():
    points, loss = numbers(np.linspace(0.0, 1.0, 24).reshape(8, 3), qd.types.vector(3, qd.f64)), scalar_loss()
    scales = qd.ndarray(qd.f64, shape=(4, 2), needs_grad=True)
    scales.from_numpy(np.arange(8.0).reshape(4, 2))

    @qd.func
    def bend(v, steps):
        for _ in range(steps):
            v = v * 0.9 + qd.sin(v) * 0.1
        return v.norm_sqr()

    @qd.kernel
    def run(scales: qd.types.ndarray(), steps: int):
        for i in points:
            loss[None] += bend(points[i], steps)
        for i, j in scales:
            loss[None] += qd.exp(scales[i, j]) * scales[i, j]

    with qd.ad.Tape(loss):
        run(scales, 5)
    alone = points.grad.to_numpy(), scales.grad.to_numpy()
    assert np.abs(alone[0]).max() > 0.1
    for _ in range(2):
        with qd.ad.Tape(loss):
            run(scales, 5)
        np.testing.assert_allclose(points.grad.to_numpy(), alone[0], rtol=1e-14)
        np.testing.assert_allclose(scales.grad.to_numpy(), alone[1], rtol=1e-14)
    assert is_joined(run)


def make_square(x, loss):
    @qd.kernel
    def square():
        for i in x:
            loss[None] += x[i] * x[i]

    return square


def test_gradient_is_zero_until_the_tape_ends():
    x, loss = numbers([1.0, 2.0]), scalar_loss()
    seen = numbers([0.0, 0.0])
    square = make_square(x, loss)

    @qd.kernel
    def look():
        for i in x:
            seen[i] = 1 + x.grad[i]

    looks = [
        lambda: x.grad.to_numpy().tolist() == [0.0, 0.0],
        lambda: x.grad[1] == 0.0,
        lambda: x.grad.to_torch().tolist() == [0.0, 0.0] if pytest.importorskip("torch") else True,
        lambda: not hasattr(x.grad, "__array_interface__") or np.asarray(memoryview(x.grad)).tolist() == [0.0, 0.0],
    ]
    for look_at in looks:
        square._ends_tapes = None
        tape_twice(square, loss)
        with qd.ad.Tape(loss):
            square()
            assert look_at()
        assert x.grad.to_numpy().tolist() == [2.0, 4.0]
    with qd.ad.Tape(loss):
        qd.ad.no_grad(look)()
        square()
    assert seen.to_numpy().tolist() == [1.0, 1.0]
    assert x.grad.to_numpy().tolist() == [2.0, 4.0]


@pytest.mark.parametrize("later", ["same", "other", "write", "loss", "gradient"])
def test_something_follows_the_call(later):
    x, y, loss = numbers([1.0, 2.0]), numbers([3.0]), scalar_loss()
    square = make_square(x, loss)

    @qd.kernel
    def double():
        loss[None] *= 2.0
        x[0] = y[0]

    @qd.kernel
    def raise_gradient():
        for i in x:
            x.grad[i] += 1

    def follow():
        if later == "same":
            square()
        elif later == "other":
            double()
        elif later == "write":
            x[0] = 7.0
        elif later == "loss":
            loss[None] = 0.0
        else:
            qd.ad.no_grad(raise_gradient)()

    expected = {"same": [4.0, 8.0], "other": [4.0, 8.0], "loss": [0.0, 0.0], "gradient": [3.0, 5.0]}.get(later, [2.0, 4.0])
    tape_twice(square, loss)
    assert is_joined(square)
    x[0] = 1.0
    with qd.ad.Tape(loss):
        square()
        follow()
    assert x.grad.to_numpy().tolist() == expected
    assert not is_joined(square)


def test_calls_before_the_last_one():
    x, y, loss = numbers([1.0, 2.0]), numbers([0.0, 0.0]), scalar_loss()
    square = make_square(y, loss)

    @qd.kernel
    def prepare():
        for i in x:
            y[i] = 3.0 * x[i]

    def run():
        prepare()
        square()

    for _ in range(3):
        tape_twice(run, loss)
        assert x.grad.to_numpy().tolist() == [18.0, 36.0]
        assert y.grad.to_numpy().tolist() == [0.0, 0.0]
    assert is_joined(square)


def test_exception_in_the_block_leaves_zeros():
    x, loss = numbers([1.0, 2.0]), scalar_loss()
    square = make_square(x, loss)
    tape_twice(square, loss)
    with pytest.raises(KeyError), qd.ad.Tape(loss):
        square()
        raise KeyError
    assert x.grad.to_numpy().tolist() == [0.0, 0.0]
    tape_twice(square, loss)
    assert x.grad.to_numpy().tolist() == [2.0, 4.0]


@pytest.mark.host_memory
def test_who_has_a_view_of_the_gradient_sees_it():
    x, loss = numbers([1.0, 2.0]), scalar_loss()
    square = make_square(x, loss)
    tape_twice(square, loss)
    view = x.grad.to_numpy(copy=False)
    x[0] = 5.0
    tape_twice(square, loss, lambda: np.testing.assert_array_equal(view, [0.0, 0.0]))
    assert view.tolist() == [10.0, 4.0]


def test_gradients_kept_from_before_are_added_to():
    x, loss = numbers([1.0, 2.0]), scalar_loss()
    square = make_square(x, loss)
    tape_twice(square, loss)
    with qd.ad.Tape(loss, clear_gradients=False):
        square()
    assert x.grad.to_numpy().tolist() == [4.0, 8.0]


def test_one_container_under_two_names():
    x, loss = numbers([1.0, 2.0]), scalar_loss()

    @qd.kernel
    def dot(a: qd.template(), b: qd.template(), out: qd.template()):
        for i in a:
            out[None] += a[i] * b[i] * b[i]

    y = numbers([3.0, 4.0])
    tape_twice(lambda: dot(x, y, loss), loss)
    assert is_joined(dot)
    with qd.ad.Tape(loss):
        dot(x, x, loss)
    assert x.grad.to_numpy().tolist() == [3.0, 12.0]
    with qd.ad.Tape(loss):
        dot(x, y, loss)
    assert x.grad.to_numpy().tolist() == [9.0, 16.0]
    assert y.grad.to_numpy().tolist() == [6.0, 16.0]


def test_gradients_that_share_a_block_of_memory():
    x, y = qd.field(qd.f64, needs_grad=True), qd.field(qd.f64, needs_grad=True)
    qd.root.dense(qd.i, 4).place(x, y, x.grad, y.grad)
    loss = scalar_loss()
    x.fill(2.0)
    y.fill(3.0)

    @qd.kernel
    def run():
        for i in x:
            loss[None] += x[i] * y[i]

    for _ in range(3):
        tape_twice(run, loss)
        assert x.grad.to_numpy().tolist() == [3.0] * 4
        assert y.grad.to_numpy().tolist() == [2.0] * 4


def test_effects_that_are_no_sum_are_not_joined():
    x, loss, count = numbers([1.0, 2.0]), scalar_loss(), qd.field(qd.i32, shape=())

    @qd.kernel
    def counted():
        for i in x:
            count[None] += 1
            loss[None] += x[i]

    @qd.kernel
    def stored():
        loss[None] = x[0] * x[1]

    @qd.kernel
    def summed_in_a_loop():
        for i in x:
            for _ in range(3):
                loss[None] += x[i]

    for kernel, expected in ((counted, [1.0, 1.0]), (stored, [2.0, 1.0]), (summed_in_a_loop, [3.0, 3.0])):
        tape_twice(kernel, loss)
        tape_twice(kernel, loss)
        assert x.grad.to_numpy().tolist() == expected
        assert not is_joined(kernel)
    assert count[None] == 8


def test_runtime_ends_with_hidden_gradients():
    x, loss = numbers([1.0, 2.0]), scalar_loss()
    square = make_square(x, loss)
    tape_twice(square, loss)
    with pytest.raises(RuntimeError), qd.ad.Tape(loss):
        square()
        qd.reset()
    with pytest.raises(RuntimeError):
        x.grad.to_numpy()

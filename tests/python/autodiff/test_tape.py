"""Tapes: recording, clearing, evaluation, and what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from autodiff_support import numbers, scalar_loss

import quadrants as qd
from quadrants._base.arch import GPU_NAMES

pytestmark = pytest.mark.usefixtures("on_every_backend")


def _squares(x: Any, loss: Any) -> Any:
    @qd.kernel
    def squares():
        for i in x:
            loss[None] += x[i] * x[i]

    return squares


def test_gradient_of_the_loss_reaches_what_a_kernel_read():
    x, loss = numbers([1.0, 2.0, -3.0]), scalar_loss()
    squares = _squares(x, loss)
    with qd.ad.Tape(loss):
        squares()
    assert loss[None] == 14.0
    assert x.grad.to_numpy().tolist() == [2.0, 4.0, -6.0]


def test_gradients_of_several_kernels_run_from_the_last_to_the_first():
    x, y, loss = numbers([0.5, 2.0]), numbers([0.0, 0.0]), scalar_loss()

    @qd.kernel
    def first():
        for i in x:
            y[i] = qd.sin(x[i])

    @qd.kernel
    def second(factor: qd.f64):
        for i in y:
            loss[None] += factor * y[i] * y[i]

    with qd.ad.Tape(loss):
        first()
        second(3.0)
    np.testing.assert_allclose(x.grad.to_numpy(), 6 * np.sin([0.5, 2.0]) * np.cos([0.5, 2.0]))
    assert y.grad.to_numpy().tolist() == [0.0, 0.0]  # a store uses the gradient up
    assert loss.grad[None] == 1.0


def test_entry_clears_gradients_and_the_loss():
    x, loss = numbers([1.0]), scalar_loss()
    squares = _squares(x, loss)
    for _ in range(3):
        with qd.ad.Tape(loss):
            squares()
    assert (x.grad[0], loss[None]) == (2.0, 1.0)


def test_gradients_add_up_without_clearing():
    x, loss = numbers([1.0]), scalar_loss()
    squares = _squares(x, loss)
    for _ in range(3):
        with qd.ad.Tape(loss, clear_gradients=False):
            squares()
    assert x.grad[0] == 6.0


def test_gradients_of_ndarrays_are_cleared_too():
    x, loss = qd.ndarray(qd.f64, 2, needs_grad=True), qd.ndarray(qd.f64, 1, needs_grad=True)
    x.fill(3.0)

    @qd.kernel
    def squares(a: qd.types.ndarray(), total: qd.types.ndarray()):
        for i in a:
            total[0] += a[i] * a[i]

    for _ in range(2):
        with qd.ad.Tape(loss):
            squares(x, total=loss)
    assert x.grad.to_numpy().tolist() == [6.0, 6.0]


@pytest.mark.host_memory
def test_what_the_user_wrote_into_a_gradient_is_cleared():
    x, loss = numbers([1.0]), scalar_loss()
    squares = _squares(x, loss)
    view = x.grad.to_numpy(copy=False)
    for _ in range(2):
        view[0] = 100.0
        with qd.ad.Tape(loss):
            squares()
        assert x.grad[0] == 2.0


def test_nothing_is_evaluated_when_the_block_raises():
    x, loss = numbers([1.0]), scalar_loss()
    squares = _squares(x, loss)
    with pytest.raises(KeyError), qd.ad.Tape(loss):
        squares()
        raise KeyError
    assert x.grad[0] == 0.0


def test_host_writes_are_allowed_in_the_block():
    x, loss = numbers([1.0]), scalar_loss()
    squares = _squares(x, loss)
    with qd.ad.Tape(loss):
        x[0] = 5.0
        squares()
    assert x.grad[0] == 10.0


def test_loss_may_be_given_later():
    x, loss = numbers([1.0]), scalar_loss()
    squares = _squares(x, loss)
    with qd.ad.Tape() as tape:
        squares()
    tape.loss = loss
    tape.grad()
    assert x.grad[0] == 2.0
    with pytest.raises(AssertionError, match="evaluated only once"):
        tape.grad()


def test_grad_needs_an_entry_and_a_loss():
    with pytest.raises(AssertionError, match="must be entered"):
        qd.ad.Tape(scalar_loss()).grad()
    with qd.ad.Tape() as tape:
        pass
    with pytest.raises(AssertionError, match="needs a loss"):
        tape.grad()


def test_tape_is_entered_once():
    with qd.ad.Tape(scalar_loss()) as tape:
        pass
    with pytest.raises(AssertionError, match="Tape can be entered only once"):
        tape.__enter__()


def test_nested_tapes_each_have_their_own_gradients_at_their_end():
    x, inner, outer = numbers([2.0]), scalar_loss(), scalar_loss()

    @qd.kernel
    def square():
        for i in x:
            inner[None] += x[i] * x[i]

    @qd.kernel
    def cube():
        outer[None] += 5.0 * inner[None] * inner[None]

    with qd.ad.Tape(outer):
        with qd.ad.Tape(inner):
            square()
        assert x.grad[0] == 4.0
        cube()
    assert x.grad[0] == 5 * 4 * 2.0**3


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: qd.field(qd.f64, shape=2, needs_grad=True), "The loss of `Tape` must be a 0-D field, i.e. scalar"),
        (lambda: qd.field(qd.f64, shape=()), "Gradients of loss are not allocated, please use qd.field"),
        (lambda: qd.ndarray(qd.f64, 2, needs_grad=True), "The loss of `Tape` must be an ndarray with only one element"),
        (lambda: qd.ndarray(qd.f64, 1), "please set needs_grad=True for all ndarrays"),
        (lambda: 3.0, "must be a 0-D field"),
    ],
)
def test_wrong_losses_are_refused(make: Any, message: str):
    with pytest.raises(RuntimeError, match=message), qd.ad.Tape(make()):
        pass


def test_wrong_torch_losses_are_refused():
    torch = pytest.importorskip("torch")
    with pytest.raises(RuntimeError, match="must be a tensor only contains one element"), qd.ad.Tape(torch.zeros(2, requires_grad=True)):
        pass
    with pytest.raises(RuntimeError, match="set requires_grad=True"), qd.ad.Tape(torch.zeros(1)):
        pass


def test_streams_are_refused():
    x, loss = numbers([1.0]), scalar_loss()
    squares = _squares(x, loss)
    with pytest.raises(RuntimeError, match="not compatible with autograd Tape"), qd.ad.Tape(loss):
        squares(qd_stream=object())


def test_changed_numbers_of_an_argument_are_those_of_the_call():
    x, loss = numbers([1.0]), scalar_loss()

    @qd.data_oriented
    class Model:
        def __init__(self) -> None:
            self.factor = 2.0

        @qd.kernel
        def run(self):
            for i in x:
                loss[None] += self.factor * x[i]

    model = Model()
    with qd.ad.Tape(loss):
        model.run()
        model.factor = 3.0
    assert x.grad[0] == 2.0


def test_gradient_check_passes_and_leaves_memory_alone():
    x, y, loss = numbers([0.5, 2.0]), numbers([0.0, 0.0]), scalar_loss()

    @qd.kernel
    def run():
        for i in x:
            y[i] = qd.exp(x[i])

    @qd.kernel
    def add():
        for i in y:
            loss[None] += y[i] * x[i]

    with qd.ad.Tape(loss, grad_check=[x]):
        run()
        add()
    assert x.to_numpy().tolist() == [0.5, 2.0]
    np.testing.assert_allclose(loss[None], np.sum(np.exp([0.5, 2.0]) * [0.5, 2.0]))


def test_gradient_check_finds_a_wrong_gradient():
    x, loss = numbers([0.5, 2.0]), scalar_loss()
    squares = _squares(x, loss)

    @qd.ad.grad_replaced
    def run() -> None:
        squares()

    @qd.ad.grad_for(run)
    def wrong() -> None:
        x.grad.fill(3.0)

    with pytest.raises(AssertionError, match="Grad check failed: Not all variables pass grad check"), qd.ad.Tape(loss, grad_check=[x]):
        run()


def test_gradient_check_takes_a_list():
    with pytest.raises(AssertionError):
        qd.ad.Tape(scalar_loss(), grad_check=scalar_loss())


def test_validation_finds_an_element_that_is_overwritten_after_it_was_read():
    x, loss = numbers([0.5, 2.0]), scalar_loss()

    @qd.kernel
    def run():
        for i in x:
            loss[None] += x[i]
            x[i] = 1.0

    with (
        pytest.raises(qd.QuadrantsAssertionError, match="(?s)kernel=run.*Breaks the global data access rule. Snode .* overwritten unexp"),
        qd.ad.Tape(loss, validation=True),
    ):
        run()


def test_validation_lets_sums_pass():
    x, loss = numbers([0.5, 2.0]), scalar_loss()
    squares = _squares(x, loss)
    with qd.ad.Tape(loss, validation=True):
        squares()
    assert x.grad.to_numpy().tolist() == [1.0, 4.0]


def test_validation_calls_kernels_once(capfd):
    x, loss, count = numbers([2.0]), scalar_loss(), qd.field(qd.i32, shape=())
    array = np.zeros(1, np.int32)

    @qd.kernel
    def run(a: qd.types.ndarray(dtype=qd.i32, ndim=1)):
        for i in x:
            loss[None] += x[i] * x[i]
            count[None] += 1
            a[0] += 1
        print("ran")

    with qd.ad.Tape(loss, validation=True):
        run(array)
    qd.sync()
    assert (count[None], array[0], loss[None], x.grad[0]) == (1, 1, 4.0, 4.0)
    is_compiled = qd.cfg is not None and qd.cfg.arch.name in GPU_NAMES  # an interpreted gradient runs the kernel again
    assert capfd.readouterr().out.count("ran") == (1 if is_compiled else 2)


def test_validation_of_vectors_that_are_arguments():
    x, loss = qd.Vector.ndarray(2, qd.f32, shape=3, needs_grad=True), scalar_loss()

    @qd.kernel
    def run(x: qd.types.ndarray(dtype=qd.types.vector(2, qd.f32), ndim=1), place: qd.i32):
        for i in range(3):
            loss[None] += x[i][1]
        for i in range(1):
            x[place][1] = 2.0

    with pytest.raises(qd.QuadrantsAssertionError, match="overwritten"), qd.ad.Tape(loss, validation=True):
        run(x, 2)


def test_clear_all_gradients():
    x = numbers([1.0, 2.0])
    x.grad.fill(3.0)
    x.dual.fill(4.0)
    qd.ad.clear_all_gradients()
    assert (x.grad.to_numpy().tolist(), x.dual.to_numpy().tolist()) == ([0.0, 0.0], [4.0, 4.0])
    qd.ad.clear_all_gradients(qd.types.enums.SNodeGradType.DUAL)
    assert x.dual.to_numpy().tolist() == [0.0, 0.0]


def test_clear_all_gradients_needs_a_runtime():
    qd.reset()
    with pytest.raises(qd.QuadrantsRuntimeError, match="qd.init"):
        qd.ad.clear_all_gradients()


def test_what_the_program_writes_between_calls_is_there_for_the_gradients_of_each():
    x, time, loss = numbers([2.0]), numbers(0.0), scalar_loss()

    @qd.kernel
    def step():
        loss[None] += x[0] ** time[None]

    with qd.ad.Tape(loss):
        for exponent in (1.0, 2.0, 3.0):
            time[None] = exponent
            step()
        time.fill(7.0)
    assert x.grad[0] == 1.0 + 2 * 2.0 + 3 * 2.0**2
    assert time[None] == 7.0


def test_whole_containers_that_are_overwritten_between_calls_come_back():
    x, loss = numbers([2.0, 3.0]), scalar_loss()
    squares = _squares(x, loss)
    with qd.ad.Tape(loss):
        squares()
        x.from_numpy(np.array([10.0, 20.0]))
        squares()
        x[0] = 100.0
    assert x.grad.to_numpy().tolist() == [4.0 + 20.0, 6.0 + 40.0]
    assert x.to_numpy().tolist() == [100.0, 20.0]

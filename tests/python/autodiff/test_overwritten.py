"""What is overwritten between recorded calls: gradients run on what each call has read (promise P4)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from autodiff_support import numbers, scalar_loss

import quadrants as qd
from quadrants._base import options as _options

pytestmark = pytest.mark.usefixtures("on_every_backend")


def _adds_squares(x: Any, loss: Any) -> Any:
    @qd.kernel
    def add_squares():
        for i in x:
            loss[None] += x[i] * x[i]

    return add_squares


@qd.kernel
def double(a: qd.types.ndarray()):
    for i in a:
        a[i] = 2.0 * a[i]


def test_kernel_overwrites_what_an_earlier_one_has_read():
    x, y, loss = numbers([1.0, 2.0]), numbers([3.0, 5.0]), scalar_loss()
    add_squares = _adds_squares(x, loss)

    @qd.kernel
    def overwrite():
        for i in x:
            x[i] = y[i] * y[i]

    with qd.ad.Tape(loss):
        add_squares()
        overwrite()
        add_squares()
    assert x.grad.to_numpy().tolist() == [2.0, 4.0]
    np.testing.assert_allclose(y.grad.to_numpy(), 4 * np.array([3.0, 5.0]) ** 3)
    assert x.to_numpy().tolist() == [9.0, 25.0]


def test_kernel_overwrites_what_it_has_read_itself_in_an_earlier_call():
    x, loss = numbers([1.5, -0.5]), scalar_loss()

    @qd.kernel
    def cube():
        for i in x:
            loss[None] += x[i] ** 3

    @qd.kernel
    def move():
        for i in x:
            x[i] += 0.5

    with qd.ad.Tape(loss):
        for _ in range(3):
            cube()
            move()
    start = np.array([1.5, -0.5])
    np.testing.assert_allclose(x.grad.to_numpy(), sum(3 * (start + 0.5 * n) ** 2 for n in range(3)))
    assert x.to_numpy().tolist() == [3.0, 1.0]


@pytest.mark.parametrize("hide", [qd.ad.no_grad, qd.ad.grad_replaced])
def test_hidden_kernels_are_seen(hide: Any):
    x, loss = numbers([1.0, 2.0]), scalar_loss()
    add_squares = _adds_squares(x, loss)

    @qd.kernel
    def clear():
        for i in x:
            x[i] = 0.0

    @hide
    def hidden() -> None:
        clear()

    if hide is qd.ad.grad_replaced:
        qd.ad.grad_for(hidden)(lambda: x.grad.fill(0))
    with qd.ad.Tape(loss):
        add_squares()
        hidden()
    assert x.grad.to_numpy().tolist() == [2.0, 4.0]
    assert x.to_numpy().tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    "write",
    [
        lambda x: x.fill(7.0),
        lambda x: x.from_numpy(np.array([7.0, 8.0])),
        lambda x: x.copy_from(numbers([7.0, 8.0])),
        lambda x: x.__setitem__(1, 7.0),
        pytest.param(lambda x: x.to_numpy(copy=False).__setitem__(0, 7.0), marks=pytest.mark.host_memory),
    ],
)
@pytest.mark.needs("exported memory")
def test_python_overwrites_what_a_kernel_has_read(write: Callable[[Any], None]):
    x, loss = numbers([1.0, 2.0]), scalar_loss()
    add_squares = _adds_squares(x, loss)
    x.__dlpack__()
    with qd.ad.Tape(loss):
        add_squares()
        write(x)
    assert x.grad.to_numpy().tolist() == [2.0, 4.0]
    assert 7.0 in x.to_numpy()


def test_arrays_of_numpy_may_change_between_calls():
    x, factors, loss = numbers([1.0, 2.0]), np.array([3.0, 4.0]), scalar_loss()

    @qd.kernel
    def add(a: qd.types.ndarray()):
        for i in x:
            loss[None] += a[i] * x[i]

    with qd.ad.Tape(loss):
        add(factors)
        factors[0] = 10.0
        add(factors)
        double(factors)
        add(factors)
        factors[:] = 0
    assert x.grad.to_numpy().tolist() == [3.0 + 10.0 + 20.0, 4.0 + 4.0 + 8.0]
    assert factors.tolist() == [0.0, 0.0]


def test_strided_arrays_of_numpy_may_change_between_calls():
    x, whole, loss = numbers([1.0, 2.0]), np.array([[3.0, 0.0], [4.0, 0.0]]), scalar_loss()
    factors = whole[:, 0]

    @qd.kernel
    def add(a: qd.types.ndarray()):
        for i in x:
            loss[None] += a[i] * x[i]

    with qd.ad.Tape(loss):
        add(factors)
        whole[:, 0] = 10.0
        whole[:, 1] = 5.0
        add(factors)
    assert x.grad.to_numpy().tolist() == [13.0, 14.0]
    assert whole.tolist() == [[10.0, 5.0], [10.0, 5.0]]


def test_tensors_of_torch_may_change_between_calls():
    torch = pytest.importorskip("torch")
    x, loss = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True), scalar_loss()

    @qd.kernel
    def add(a: qd.types.ndarray()):
        for i in a:
            loss[None] += a[i] * a[i]

    with qd.ad.Tape(loss):
        add(x)
        with torch.no_grad():
            x.mul_(10)
    assert x.grad.tolist() == [2.0, 4.0]
    assert x.tolist() == [10.0, 20.0]


def test_members_that_interleave_come_back_without_their_neighbors():
    x, loss = qd.field(qd.f64), scalar_loss()
    qd.root.dense(qd.i, 3).place(x, x.grad)
    x.from_numpy(np.array([1.0, 2.0, 3.0]))
    add_squares = _adds_squares(x, loss)
    with qd.ad.Tape(loss):
        add_squares()
        x.fill(9.0)
    assert x.grad.to_numpy().tolist() == [2.0, 4.0, 6.0]
    assert x.to_numpy().tolist() == [9.0] * 3


def test_integers_that_choose_elements_come_back():
    x, choice, loss = numbers([1.0, 2.0]), qd.field(qd.i32, shape=()), scalar_loss()

    @qd.kernel
    def add():
        loss[None] += x[choice[None]] ** 2

    @qd.kernel
    def choose(n: qd.i32):
        choice[None] = n

    with qd.ad.Tape(loss):
        for n in range(2):
            choose(n)
            add()
    assert x.grad.to_numpy().tolist() == [2.0, 4.0]


def test_nested_tapes_see_the_writes_of_each_other():
    x, inner, loss = numbers([1.0, 2.0]), scalar_loss(), scalar_loss()
    add_squares, add_inner = _adds_squares(x, loss), _adds_squares(x, inner)
    with qd.ad.Tape(loss):
        add_squares()
        with qd.ad.Tape(inner):
            x.fill(5.0)
            add_inner()
            x.fill(6.0)
        assert x.grad.to_numpy().tolist() == [10.0, 10.0]
        add_squares()
    # Of what Python wrote there is no gradient of its own: it adds up in that of the container.
    assert x.grad.to_numpy().tolist() == [2.0 + 12.0, 4.0 + 12.0]
    assert x.to_numpy().tolist() == [6.0, 6.0]


def test_what_is_overwritten_before_the_gradients_run_comes_back_too():
    x, loss = numbers([1.0, 2.0]), scalar_loss()
    add_squares = _adds_squares(x, loss)
    with qd.ad.Tape() as tape:
        add_squares()
    x.fill(5.0)
    tape.loss = loss
    tape.grad()
    assert x.grad.to_numpy().tolist() == [2.0, 4.0]


def test_steps_of_a_simulation_keep_what_they_overwrite_only():
    """Time is the first axis: nothing that a step has read is overwritten by a later one."""
    if _options.get("arch") == "python":
        pytest.skip("the interpreter keeps what changes")
    steps, count = 50, 1000
    x, loss = qd.field(qd.f64, shape=(steps + 1, count), needs_grad=True), scalar_loss()
    x.fill(0.9)

    @qd.func
    def force(t: int, i: int):
        return x[t, i] * x[t, (i + 1) % count]

    @qd.kernel
    def step(t: qd.i32):
        for i in range(count):
            x[t + 1, i] = 0.5 * force(t, i)

    @qd.kernel
    def finish():
        for i in range(count):
            loss[None] += x[steps, i]

    with qd.ad.Tape(loss) as tape:
        for t in range(steps):
            step(t)
        finish()
        assert tape._context.position == 0
        x[0, 0] = 1.0
        assert tape._context.position == 1


def test_sums_keep_nothing():
    if _options.get("arch") == "python":
        pytest.skip("the interpreter keeps what changes")
    x, loss = numbers([1.0, 2.0]), scalar_loss()
    add_squares = _adds_squares(x, loss)
    with qd.ad.Tape(loss) as tape:
        for _ in range(10):
            add_squares()
        assert tape._context.position == 0
    assert x.grad.to_numpy().tolist() == [20.0, 40.0]

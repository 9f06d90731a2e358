"""Arrays of torch and NumPy that change between recorded calls, whoever writes to them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from autodiff_support import numbers, scalar_loss

import quadrants as qd

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.usefixtures("on_every_backend"), pytest.mark.host_memory]

F64 = qd.types.ndarray(dtype=qd.f64)


@qd.kernel
def fill(a: F64, value: qd.f64):
    for i in range(a.shape[0]):
        a[i] = value


WRITERS: dict[str, Callable[[Any, float], Any]] = {
    "torch": lambda a, value: a.fill_(value),
    "numpy": lambda a, value: a.numpy().fill(value),
    "part": lambda a, value: [a[1:].fill_(value), a[:1].fill_(value)],
    "kernel": fill,
}


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("make", [lambda: torch.zeros(3, dtype=torch.float64), lambda: torch.zeros(6, dtype=torch.float64)[::2]])
def test_weights_that_change_between_calls(make: Any, writer: str):
    if writer == "kernel" and make().stride() != (1,):
        pytest.skip("strided arrays are arguments of their own kind")
    weights, x, loss = make(), qd.ndarray(qd.f64, shape=3, needs_grad=True), scalar_loss()
    x.fill(1.0)

    @qd.kernel
    def add(a: F64, w: F64):
        for i in range(3):
            loss[None] += a[i] * w[i]

    for _ in range(2):  # the first call of a kernel comes to its arguments by another way than later ones
        with qd.ad.Tape(loss):
            for step in range(5):
                WRITERS[writer](weights, 10.0**step)
                add(x, weights)
        assert loss[None] == 33333.0
        assert x.grad.to_numpy().tolist() == [11111.0] * 3
        assert weights.tolist() == [10000.0] * 3


@pytest.mark.parametrize("of", [lambda a: a, torch.from_numpy])
def test_views_made_anew_for_each_call(of: Any):
    memory, x, loss = np.zeros(4), numbers([1.0, 1.0]), scalar_loss()

    @qd.kernel
    def add(w: F64):
        for i in x:
            loss[None] += x[i] * x[i] * w[i]

    with qd.ad.Tape(loss):
        for step in range(1, 4):
            memory[:] = step
            add(of(memory[1:3]))
    assert x.grad.to_numpy().tolist() == [12.0, 12.0]
    assert memory.tolist() == [3.0] * 4


def test_indices_that_change_between_calls():
    order, x, loss = torch.zeros(2, dtype=torch.int32), numbers([1.0, 2.0, 3.0]), scalar_loss()

    @qd.kernel
    def add(ix: qd.types.ndarray(dtype=qd.i32)):
        for i in range(2):
            loss[None] += x[ix[i]] ** (i + 1)

    with qd.ad.Tape(loss):
        for step in range(3):
            order[0], order[1] = step, (step + 1) % 3
            add(order)
    assert x.grad.to_numpy().tolist() == [3.0, 5.0, 7.0]


def test_parameter_that_changes_between_calls():
    x, loss = torch.full((3,), 1.0, dtype=torch.float64, requires_grad=True), scalar_loss()

    @qd.kernel
    def add(a: F64):
        for i in range(3):
            loss[None] += a[i] ** 2

    with qd.ad.Tape(loss):
        for _ in range(3):
            add(x)
            with torch.no_grad():
                x.mul_(2)
    assert x.grad.tolist() == [2.0 + 4.0 + 8.0] * 3


def test_gradient_ends_where_torch_overwrites_what_a_kernel_computed():
    x, loss = numbers([1.0, 2.0]), scalar_loss()
    y = torch.zeros(2, dtype=torch.float64, requires_grad=True)

    @qd.kernel
    def compute(y: F64):
        for i in x:
            y[i] = 3.0 * x[i]

    @qd.kernel
    def add(y: F64):
        for i in x:
            loss[None] += y[i] ** 2

    with qd.ad.Tape(loss):
        compute(y)
        add(y)
        with torch.no_grad():
            y[1] = 5.0
        add(y)
    assert loss[None] == 9.0 + 36.0 + 9.0 + 25.0
    assert x.grad.to_numpy().tolist() == [2 * 2 * 9.0 * 1.0, 2 * 9.0 * 2.0]


def test_memory_that_is_replaced_is_refused_or_right():
    x, loss = numbers([1.0, 1.0]), scalar_loss()
    weights = torch.full((2,), 3.0, dtype=torch.float64)

    @qd.kernel
    def add(w: F64):
        for i in x:
            loss[None] += x[i] * w[i]

    with qd.ad.Tape(loss):
        add(weights)
        weights.data = torch.full((2,), 5.0, dtype=torch.float64)
        add(weights)
    assert x.grad.to_numpy().tolist() == [8.0, 8.0]
    try:
        with qd.ad.Tape(loss):
            add(weights)
            weights.data = torch.full((3,), 7.0, dtype=torch.float64)
    except qd.QuadrantsRuntimeError:
        return
    assert x.grad.to_numpy().tolist() == [5.0, 5.0]


def test_calls_give_tensors_zero_gradients():
    @qd.kernel
    def run(x: qd.types.ndarray(), y: qd.types.ndarray()):
        for i in range(3):
            y[0] += x[i] * 2

    for _ in range(2):
        x, y = torch.ones(3, dtype=torch.float64, requires_grad=True), torch.zeros(1, dtype=torch.float64, requires_grad=True)
        run(x, y)
        assert x.grad.tolist() == [0.0] * 3
        y.grad.fill_(1.0)
        run.grad(x, y)
        assert x.grad.tolist() == [2.0] * 3
    constant = torch.ones(3, dtype=torch.float64)
    run(constant, y)
    assert constant.grad is None


def test_parameter_without_gradient_among_others():
    @qd.kernel
    def run(x: qd.types.ndarray(needs_grad=False), y: qd.types.ndarray()):
        for i in range(3):
            y[0] += x[i] * 2

    x, y = torch.ones(3, dtype=torch.float64, requires_grad=True), torch.zeros(1, dtype=torch.float64, requires_grad=True)
    run(x, y)
    assert (x.grad.tolist(), y.grad.tolist()) == ([0.0] * 3, [0.0])
    y.grad.fill_(1.0)
    run.grad(x, y)
    assert (x.grad.tolist(), y.grad.tolist()) == ([0.0] * 3, [1.0])


@qd.kernel
def square(a: F64, b: F64):
    for i in range(a.shape[0]):
        b[i] = a[i] * a[i]


@qd.kernel
def double(a: F64, b: F64):
    for i in range(a.shape[0]):
        b[i] += 2 * a[i]


@qd.kernel
def square_next(a: F64, b: F64):
    for i in range(2):
        b[i + 2] = a[i] * a[i]


@qd.kernel
def total(a: F64, loss: F64):
    for i in range(a.shape[0]):
        loss[0] += a[i]


@pytest.mark.parametrize("step", [square, double, square_next])
@pytest.mark.parametrize("steps", [1, 2])
def test_an_array_for_two_parameters_has_the_right_gradient_or_none(step: Any, steps: int):
    x, loss = (qd.ndarray(qd.f64, shape=size, needs_grad=True) for size in (4, 1))
    x.fill(1.5)
    derivative = np.ones(4)
    for done in reversed(range(steps)):
        if step is square:
            derivative *= 2 * 1.5 ** (2**done)
        elif step is double:
            derivative *= 3
        else:
            derivative[:2], derivative[2:] = derivative[:2] + 3 * derivative[2:], 0
    try:
        with qd.ad.Tape(loss):
            for _ in range(steps):
                step(x, x)
            total(x, loss)
    except qd.QuadrantsRuntimeError as error:
        assert step is square and "'a' and 'b' of kernel square share memory" in str(error)
        return
    np.testing.assert_allclose(x.grad.to_numpy(), derivative)


@qd.kernel
def square_from(a: F64, b: F64, start: qd.i32):
    for i in range(2):
        b[start + i] = a[i] * a[i]


@qd.kernel
def add_products(a: F64, b: F64, loss: F64):
    for i in range(a.shape[0]):
        loss[0] += a[i] * b[i]


def make_filled(kind: str, size: int):
    if kind == "torch":
        torch = pytest.importorskip("torch")
        x = torch.full((size,), 1.5, dtype=torch.float64, requires_grad=True)
        x.grad = torch.ones(size, dtype=torch.float64)
        return x
    x = qd.ndarray(qd.f64, shape=size, needs_grad=True)
    x.fill(1.5)
    x.grad.fill(1.0)
    return x


def refused(text: str):
    """The interpreter runs the kernel again, so it knows where a value is that the kernel has overwritten."""
    return pytest.raises(qd.QuadrantsRuntimeError, match=text) if qd.cfg else contextlib.suppress(qd.QuadrantsRuntimeError)


@pytest.mark.parametrize("kind", ["ndarray", "torch"])
def test_gradients_without_a_tape_are_right_or_refused_with_an_array_for_two_parameters(kind: str):
    x, loss = make_filled(kind, 4), make_filled(kind, 1)
    add_products(x, x, loss)
    add_products.grad(x, x, loss)
    np.testing.assert_allclose([float(x.grad[i]) for i in range(4)], [1 + 3] * 4)
    x = make_filled(kind, 4)
    square_from(x, x, 2)
    square_from.grad(x, x, 2)
    np.testing.assert_allclose([float(x.grad[i]) for i in range(4)], [1 + 3, 1 + 3, 0, 0])
    for start in (1, 0):
        x = make_filled(kind, 4)
        square_from(x, x, start)
        with refused("'a' and 'b' of kernel square_from share memory"):
            square_from.grad(x, x, start)


def test_gradients_without_a_tape_take_members_of_one_buffer_for_two_containers():
    members = qd.Struct.field({"a": qd.f64, "b": qd.f64}, shape=3, needs_grad=True)
    members.a.fill(1.5)
    halves = make_filled("ndarray", 4)

    @qd.kernel
    def step(a: qd.template(), b: qd.template()):
        for i in a:
            b[i] = a[i] * a[i]

    step(members.a, members.b)
    members.b.grad.fill(1.0)
    step.grad(members.a, members.b)
    np.testing.assert_allclose(members.a.grad.to_numpy(), [3] * 3)
    square(halves[:2], halves[2:])
    square.grad(halves[:2], halves[2:])
    np.testing.assert_allclose(halves.grad.to_numpy(), [1 + 3, 1 + 3, 0, 0])
    with refused("share memory"):
        square.grad(halves[:3], halves[1:])


def test_a_field_for_two_template_parameters_has_the_right_gradient_or_none():
    x, loss = qd.field(qd.f64, 3, needs_grad=True), scalar_loss()
    x.fill(1.5)

    @qd.kernel
    def step(a: qd.template(), b: qd.template()):
        for i in a:
            b[i] = a[i] * a[i]

    @qd.kernel
    def end():
        for i in x:
            loss[None] += x[i]

    try:
        with qd.ad.Tape(loss):
            step(x, x)
            step(x, x)
            end()
    except qd.QuadrantsRuntimeError as error:
        assert "share memory" in str(error)
        return
    np.testing.assert_allclose(x.grad.to_numpy(), 4 * 1.5**3)

"""Functions with gradients of their own, and `qd.stop_grad`."""

from __future__ import annotations

from typing import Any

import pytest
from autodiff_support import numbers, scalar_loss

import quadrants as qd

pytestmark = pytest.mark.usefixtures("on_every_backend")


@pytest.fixture
def program() -> Any:
    x, loss = numbers([2.0]), scalar_loss()

    @qd.kernel
    def add(factor: float):
        for i in x:
            loss[None] += factor * x[i]

    return x, loss, add


def test_registered_gradient_takes_the_place_of_the_kernels(program: Any):
    x, loss, add = program

    @qd.ad.grad_replaced
    def forward(factor: float, *, offset: float = 0.0) -> float:
        add(factor)
        return factor + offset

    @qd.ad.grad_for(forward)
    def backward(factor: float, *, offset: float = 0.0) -> None:
        x.grad[0] += 100 * factor + offset

    with qd.ad.Tape(loss):
        assert forward(3.0, offset=0.5) == 3.5
        add(1.0)
    assert x.grad[0] == 1.0 + 300.5


def test_methods(program: Any):
    x, loss, add = program

    class Model:
        factor = 4.0

        @qd.ad.grad_replaced
        def forward(self) -> None:
            add(self.factor)

        @qd.ad.grad_for(forward)
        def backward(self) -> None:
            add.grad(10 * self.factor)

    with qd.ad.Tape(loss):
        Model().forward()
    assert x.grad[0] == 40.0


def test_no_grad_hides_kernels(program: Any):
    x, loss, add = program

    @qd.ad.no_grad
    def hidden() -> None:
        add(5.0)

    with qd.ad.Tape(loss):
        hidden()
        add(1.0)
    assert (x.grad[0], loss[None]) == (1.0, 12.0)


def test_nested_replacement_hides_the_inner_one(program: Any):
    x, loss, add = program
    calls: list[str] = []

    @qd.ad.no_grad
    def inner() -> None:
        add(1.0)

    @qd.ad.grad_replaced
    def outer() -> None:
        inner()
        add(2.0)

    @qd.ad.grad_for(outer)
    def backward() -> None:
        calls.append("outer")

    with qd.ad.Tape(loss):
        outer()
    assert (calls, x.grad[0]) == (["outer"], 0.0)


def test_without_a_tape_it_is_an_ordinary_function(program: Any):
    _, loss, add = program

    @qd.ad.grad_replaced
    def forward() -> None:
        add(1.0)

    forward()
    assert loss[None] == 2.0


def test_missing_gradient_names_the_function(program: Any):
    _, loss, add = program

    @qd.ad.grad_replaced
    def forward() -> None:
        add(1.0)

    with pytest.raises(RuntimeError, match="forward has no gradient"), qd.ad.Tape(loss):
        forward()


def test_gradient_is_registered_once_and_for_a_decorated_python_function(program: Any):
    _, _, add = program

    def plain() -> None: ...

    @qd.ad.grad_replaced
    def forward() -> None: ...

    with pytest.raises(RuntimeError, match="Primal function `plain` must be decorated by qd.ad.grad_replaced"):
        qd.ad.grad_for(plain)
    with pytest.raises(RuntimeError, match=r"Primal function must be a \*\*python\*\* function"):
        qd.ad.grad_for(add)
    qd.ad.grad_for(forward)(plain)
    with pytest.raises(RuntimeError, match="`forward` has a gradient already"):
        qd.ad.grad_for(forward)


def test_stop_grad_concerns_its_loop_only():
    x, loss = numbers([2.0, 3.0]), scalar_loss()

    @qd.kernel
    def run():
        for i in x:
            qd.stop_grad(x)
            loss[None] += x[i] * x[i]
        for i in x:
            loss[None] += 5.0 * x[i]

    with qd.ad.Tape(loss):
        run()
    assert x.grad.to_numpy().tolist() == [5.0, 5.0]


def test_function_with_a_gradient_of_its_own_overwrites_what_a_kernel_computed():
    x, y, loss = numbers([1.0, 2.0]), numbers([0.0, 0.0]), scalar_loss()

    @qd.kernel
    def compute():
        for i in x:
            y[i] = 3.0 * x[i]

    @qd.kernel
    def double():
        for i in y:
            y[i] = 2.0 * y[i]

    @qd.kernel
    def double_gradient():
        for i in y:
            y.grad[i] = 2.0 * y.grad[i]

    @qd.kernel
    def add():
        for i in y:
            loss[None] += y[i] * y[i]

    @qd.ad.grad_replaced
    def doubled():
        double()

    @qd.ad.grad_for(doubled)
    def _():
        double_gradient()

    with qd.ad.Tape(loss):
        compute()
        doubled()
        add()
    assert x.grad.to_numpy().tolist() == [2 * 36.0, 2 * 72.0]

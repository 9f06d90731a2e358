"""Elements that a kernel updates in place: under a tape the gradient has what they were before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from autodiff_support import check, differences, numbers, scalar_loss

import quadrants as qd

pytestmark = pytest.mark.usefixtures("on_every_backend")


class Updates:
    """Containers of a program that updates `x` in place, and a copy of where it starts."""

    def __init__(self) -> None:
        self.start, self.y = numbers([0.4, 0.9, 1.3]), numbers([1.1, 0.7, -0.5])
        self.x, self.v, self.loss = numbers(np.zeros(3)), numbers(np.zeros(3)), scalar_loss()

    def check(self, update: Any, times: int = 1) -> None:
        """Compares the gradient of `update`, called `times` times, with differences."""
        start, x, y, v, loss = self.start, self.x, self.y, self.v, self.loss

        @qd.kernel
        def begin():
            for i in x:
                x[i] = start[i]
                v[i] = 0.3 * y[i]

        @qd.kernel
        def finish():
            for i in x:
                loss[None] += qd.sin(x[i]) * (i + 1) + v[i] * v[i]

        def program() -> None:
            begin()
            for _ in range(times):
                update()
            finish()

        check(program, loss, start, y, forward=False)


def test_product_of_an_element_with_itself():
    of = Updates()
    x = of.x

    @qd.kernel
    def update():
        for i in x:
            x[i] = x[i] * x[i]

    of.check(update, times=3)


def test_augmented_product():
    of = Updates()
    x, y = of.x, of.y

    @qd.kernel
    def update():
        for i in x:
            x[i] *= y[i]

    of.check(update, times=2)


def test_augmented_difference_and_quotient():
    of = Updates()
    x, y = of.x, of.y

    @qd.kernel
    def update():
        for i in x:
            x[i] -= 0.1 * x[i] * x[i]
            x[i] /= 2.0 + y[i] * y[i]

    of.check(update)


def test_a_step_in_time_updates_places_and_velocities():
    """The velocity is needed as it is after its update, the place as it was before."""
    of = Updates()
    x, v = of.x, of.v

    @qd.kernel
    def update():
        for i in x:
            v[i] = v[i] * v[i] - 0.1 * qd.sin(x[i])
            x[i] = x[i] + 0.2 * v[i] * x[i]

    of.check(update, times=4)


def test_a_branch_decides_which_elements_change():
    of = Updates()
    x = of.x

    @qd.kernel
    def update():
        for i in x:
            if x[i] > 0.5:
                x[i] = x[i] ** 3
            else:
                x[i] = qd.exp(x[i])

    of.check(update, times=2)


def test_a_serial_loop_over_its_own_elements():
    of = Updates()
    x = of.x

    @qd.kernel
    def update():
        for _ in range(1):
            for i in range(3):
                x[i] = x[i] * x[i] * 0.7

    of.check(update)


def test_another_loop_reads_what_is_overwritten_later():
    of = Updates()
    x, v = of.x, of.v

    @qd.kernel
    def update():
        for i in x:
            v[i] += x[i] * x[i]
        for i in x:
            x[i] += 0.5

    of.check(update, times=2)


def test_a_function_updates_an_element():
    of = Updates()
    x = of.x

    @qd.func
    def squared(i: int):
        x[i] = x[i] * x[i]

    @qd.kernel
    def update():
        for i in x:
            squared(i)

    of.check(update)


def test_arrays_of_numpy_that_are_updated_in_place():
    x, factors, loss = numbers([1.0, 2.0]), np.array([3.0, 4.0]), scalar_loss()

    @qd.kernel
    def add(a: qd.types.ndarray()):
        for i in x:
            loss[None] += a[i] * x[i]
            a[i] = a[i] * a[i]

    with qd.ad.Tape(loss):
        add(factors)
        factors[0] = 10.0
        add(factors)
    assert x.grad.to_numpy().tolist() == [3.0 + 10.0, 4.0 + 16.0]
    assert factors.tolist() == [100.0, 256.0]


@pytest.mark.parametrize(
    "body",
    [
        "for i in x:\n        for k in range(3):\n            x[i] = x[i] * x[i]",
        "for i in x:\n        x[i] = x[i] * x[i]\n    for i in x:\n        x[i] = x[i] * x[i]",
        "for k in range(2):\n        x[k + 1] = x[k] * x[k + 1]",
        "for k in range(3):\n        x[0] = 0.9 * x[0]\n        x[1] += x[0] * x[0]",
        "for k in range(3):\n        for i in range(2):\n            x[i] = x[i] * x[i + 1]",
        "for k in range(3):\n        n = 1\n        n += 1\n        for i in range(n):\n            x[i] = x[i] * x[i + 1]",
    ],
)
def test_values_between_two_updates_are_right_or_refused(body: str):
    x, loss = numbers([0.5, 0.7, 0.9]), scalar_loss()
    source = f"def run():\n    qd.loop_config(serialize=True)\n    {body}\n"
    run = qd.kernel_from_source(source, {"x": x, "qd": qd})
    start = x.to_numpy()

    @qd.kernel
    def add():
        for i in x:
            loss[None] += x[i]

    def program() -> None:
        run()
        add()

    slopes = differences(program, loss, x)
    x.from_numpy(start)
    assert _agrees_or_is_refused(program, loss, x, slopes)


def _agrees_or_is_refused(program: Callable[[], None], loss: Any, x: Any, slopes: np.ndarray) -> bool:
    try:
        with qd.ad.Tape(loss):
            program()
    except qd.QuadrantsCompilationError as error:
        return "overwritten" in str(error)
    return bool(np.allclose(x.grad.to_numpy(), slopes, atol=1e-6))


def test_rows_that_each_iteration_of_a_serial_loop_has_for_itself():
    x, loss = numbers([[0.5, 0.7], [0.9, 1.1], [1.3, 1.5]]), scalar_loss()
    squared = numbers(np.zeros((3, 2)))
    first = qd.field(qd.i32, shape=3)
    first.from_numpy(np.array([0, 1, 3], np.int32))

    @qd.func
    def add(i: int, column: int):
        squared[i, column] = x[i, column] * x[i, column]
        loss[None] += squared[i, column] * squared[i, column]

    @qd.kernel
    def run():
        qd.loop_config(serialize=True)
        for row, column in qd.ndrange(2, 2):
            begin = first[row]
            for i in range(begin, first[row + 1]):
                add(i, column)

    with qd.ad.Tape(loss):
        run()
    np.testing.assert_allclose(x.grad.to_numpy(), 4 * x.to_numpy() ** 3)

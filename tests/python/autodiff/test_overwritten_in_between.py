"""Elements that a kernel writes, reads and overwrites: gradients have each value that was read, with and without a tape."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from autodiff_support import numbers, run_before_gradient, scalar_loss

import quadrants as qd

pytestmark = pytest.mark.usefixtures("on_every_backend")


class Containers:
    """`x` is given; kernels write the rest."""

    def __init__(self) -> None:
        self.x = numbers([0.7, 1.2, -0.6])
        self.y, self.loss = numbers(np.zeros((3, 4))), scalar_loss()
        self.v = numbers(np.zeros((3, 4, 2)), qd.types.vector(2, qd.f64))
        self.m = numbers(np.zeros((3, 2, 2)), qd.types.matrix(2, 2, qd.f64))
        self.s = qd.Struct.field({"a": qd.f64, "b": qd.f64}, shape=3, needs_grad=True)
        self.count = qd.field(qd.i32, shape=3)
        self.order = qd.field(qd.i32, shape=3)
        self.order.from_numpy(np.arange(3, dtype=np.int32))
        self.reset()

    def reset(self) -> None:
        self.count.from_numpy(np.array([1, 2, 3], np.int32))


def check_both(of: Containers, kernel: Any) -> None:
    """Compares `kernel.grad()` and a tape with differences."""
    slopes = run_before_gradient(kernel, of.reset, of.loss, of.x)
    kernel.grad()
    np.testing.assert_allclose(of.x.grad.to_numpy(), slopes, rtol=2e-6, atol=2e-6)
    with qd.ad.Tape(of.loss):
        of.reset()
        kernel()
    np.testing.assert_allclose(of.x.grad.to_numpy(), slopes, rtol=2e-6, atol=2e-6)


def test_a_function_that_writes_an_element_and_returns_it():
    of = Containers()
    x, y, loss = of.x, of.y, of.loss

    @qd.func
    def put(f: qd.template(), i: int, value: float):
        f[i, 1] = value
        return f[i, 1]

    @qd.func
    def put_twice(f: qd.template(), i: int, value: float):
        old = put(f, i, value)
        return put(f, i, old * x[i])

    @qd.kernel
    def kernel():
        for i in range(3):
            a = put_twice(y, i, x[i] * x[i])
            b = put(y, i, a * x[i])
            loss[None] += b * a

    check_both(of, kernel)


def test_an_element_that_is_passed_by_reference():
    of = Containers()
    x, y, loss = of.x, of.y, of.loss

    @qd.func
    def scale(place: qd.template(), factor: float):
        place = place * factor
        return place

    @qd.kernel
    def kernel():
        for i in range(3):
            y[i, 0] = x[i]
            a = scale(y[i, 0], x[i])
            loss[None] += a * scale(y[i, 0], a)

    check_both(of, kernel)


def test_the_variables_of_loops_are_elements():
    of = Containers()
    x, y, v, count, loss = of.x, of.y, of.v, of.count, of.loss

    @qd.kernel
    def kernel():
        for i in range(3):
            y[i, 0] = x[i]
            y[i, 1] = 0.5 * x[i]
            v[i, 2] = qd.Vector([x[i], 0.3])
            t = 0
            while t < count[i] * 3:
                a = y[i, 0]
                y[i, 0] = qd.sin(y[i, 1]) * 1.1 + 0.1
                v[i, 2] = v[i, 2] * a
                v[i, 2][1] += y[i, 0]
                y[i, 1] = a * 0.9 + v[i, 2][0]
                t += 1
            for j in range(count[i] * 40):  # more than states are kept
                y[i, 0] = qd.sin(y[i, 0]) * 1.1 + 0.1
            loss[None] += y[i, 0] * y[i, 1] + v[i, 2].norm_sqr()

    check_both(of, kernel)


def test_each_iteration_of_an_inner_loop_has_an_element():
    of = Containers()
    x, y, count, loss = of.x, of.y, of.count, of.loss

    @qd.kernel
    def kernel():
        for i in range(3):
            for j in range(count[i]):
                y[i, j] = x[i] * (j + 1)
                a = y[i, j]
                y[i, j] = a * a * x[i]
                loss[None] += y[i, j] * a

    check_both(of, kernel)


@pytest.mark.parametrize("is_dynamic", [False, True])
def test_loops_pass_over_a_row_again_and_again(is_dynamic: bool):
    of = Containers()
    x, y, count, loss = of.x, of.y, of.count, of.loss

    @qd.kernel
    def kernel():
        for i in range(3):
            end = count[i] if qd.static(is_dynamic) else 4
            for j in range(end):
                y[i, j] = x[i] * (j + 1)
            for j in range(end):
                a = y[i, j]
                y[i, j] = a * a
            for j in range(end):
                loss[None] += y[i, j] * y[i, j]
            for j in range(end):
                y[i, j] = 0.0

    check_both(of, kernel)


def test_indices_of_the_run_time_choose_among_a_row():
    of = Containers()
    x, y, count, loss = of.x, of.y, of.count, of.loss

    @qd.kernel
    def kernel():
        for i in range(3):
            for j in qd.static(range(4)):
                y[i, j] = x[i] * (j + 1)
            for j in range(10):
                a = y[i, j % 4]
                y[i, (j + count[i]) % 4] = a * 0.5 * y[i, (j + 1) % 4]
            for j in range(4):
                loss[None] += y[i, j] * y[i, j]

    check_both(of, kernel)


def test_two_indices_are_the_same_at_run_time():
    of = Containers()
    x, y, order, loss = of.x, of.y, of.order, of.loss

    @qd.kernel
    def kernel():
        for i in range(3):
            j = i
            if order[i] < 10:
                j = order[i]
            y[j, 0] = x[i] * x[i]
            y[order[i], 0] = y[j, 0] * x[i]
            a = y[j, 0]
            y[i, 0] = a * a
            loss[None] += y[j, 0] * a

    check_both(of, kernel)


def test_elements_decide_branches():
    of = Containers()
    x, y, count, loss = of.x, of.y, of.count, of.loss

    @qd.kernel
    def kernel():
        for i in range(3):
            count[i] = i
            if count[i] > 1:
                y[i, 0] = x[i] * x[i]
            else:
                y[i, 0] = x[i]
            a = y[i, 0]
            if a > 1.3:
                y[i, 0] = a * a
            for j in range(5):
                if count[i] % 2 == 0 and y[i, 0] < 3.0:
                    y[i, 0] = y[i, 0] * x[i]
                count[i] += 1
            loss[None] += y[i, 0] * a

    check_both(of, kernel)


def test_matrices_and_members():
    of = Containers()
    x, m, s, loss = of.x, of.m, of.s, of.loss

    @qd.kernel
    def kernel():
        for i in range(3):
            m[i] = qd.Matrix([[x[i], 1.0], [0.5, x[i]]])
            s[i].a, s[i].b = x[i], 2.0 * x[i]
            for j in range(3):
                m[i] = m[i] @ m[i]
                m[i][0, 1] = 0.3 * m[i][1, 1] * s[i].a
                s[i].a = s[i].b * s[i].a
                s[i].b = qd.sin(s[i].b)
            loss[None] += m[i].trace() * s[i].a

    check_both(of, kernel)


def test_statements_outside_of_loops():
    of = Containers()
    x, y, loss = of.x, of.y, of.loss

    @qd.kernel
    def kernel():
        y[0, 0] = x[0] * x[1]
        y[0, 0] = y[0, 0] * y[0, 0]
        for i in range(3):
            loss[None] += y[0, 0] * x[i]
        y[1, 0] = x[2]
        y[1, 0] = y[1, 0] * y[1, 0]
        y[1, 0] *= x[1]
        loss[None] += y[1, 0] * y[1, 0]

    check_both(of, kernel)


def test_products_of_elements_that_one_iteration_updates():
    of = Containers()
    x, y, loss = of.x, of.y, of.loss

    @qd.kernel
    def kernel():
        for i in range(3):
            y[i, 0] = x[i]
            for j in range(3):
                y[i, 0] *= qd.cos(x[i])
            y[i, 0] += x[i]
            loss[None] += y[i, 0] * y[i, 0]

    check_both(of, kernel)


def test_arrays_of_unknown_extents():
    x, y, loss = qd.ndarray(qd.f64, shape=3, needs_grad=True), qd.ndarray(qd.f64, shape=3, needs_grad=True), scalar_loss()
    x.from_numpy(np.array([0.7, 1.2, -0.6]))

    @qd.kernel
    def kernel(x: qd.types.ndarray(), y: qd.types.ndarray()):
        for i in x:
            y[i] = x[i] * x[i]
            y[i] = y[i] * y[i]
            loss[None] += y[i] * x[i]

    kernel(x, y)
    loss.grad[None] = 1.0
    kernel.grad(x, y)
    np.testing.assert_allclose(x.grad.to_numpy(), 5 * x.to_numpy() ** 4)


def test_what_a_container_without_gradient_passes_on_is_a_constant():
    x, y, loss = numbers([0.7, 1.2, -0.6]), qd.field(qd.f64, shape=3), scalar_loss()

    @qd.kernel
    def kernel():
        for i in x:
            y[i] = x[i] * x[i]
            a = y[i]
            y[i] = a * a
            loss[None] += y[i] * a * x[i]

    with qd.ad.Tape(loss):
        kernel()
    np.testing.assert_allclose(x.grad.to_numpy(), x.to_numpy() ** 6)


def test_what_was_there_before_the_kernel_is_known_under_a_tape_only():
    f, x, loss = numbers([1.0, -1.0, 2.0]), numbers([0.7, 1.2, -0.6]), scalar_loss()

    @qd.kernel
    def kernel():
        for i in x:
            if f[i] > 0:
                loss[None] += x[i] * x[i]
            f[i] = -f[i] * x[i]

    kernel()
    loss.grad[None] = 1.0
    with pytest.raises((qd.QuadrantsCompilationError, qd.QuadrantsRuntimeError), match="overwritten"):
        kernel.grad()
    f.from_numpy(np.array([1.0, -1.0, 2.0]))
    with qd.ad.Tape(loss):
        kernel()
    np.testing.assert_allclose(x.grad.to_numpy(), [2 * 0.7, 0.0, -2 * 0.6])

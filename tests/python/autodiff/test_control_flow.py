"""Gradients through loops, branches, functions and early exits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from autodiff_support import check, numbers, scalar_loss

import quadrants as qd

pytestmark = pytest.mark.usefixtures("on_every_backend")


@pytest.fixture
def x() -> Any:
    return numbers(np.linspace(0.4, 1.3, 5))


@pytest.fixture
def loss() -> Any:
    return scalar_loss()


@pytest.mark.parametrize("count", [0, 1, 7, 64, 65, 200])
def test_loop_of_any_length(x, loss, count):
    @qd.kernel
    def run(n: qd.i32):
        for i in x:
            v = x[i]
            for k in range(n):
                v = v * 0.99 + qd.sin(v) * 0.01 * x[i] + 0.001 * k
            loss[None] += v

    check(lambda: run(count), loss, x)


@pytest.mark.needs("long loops")  # the reverse sweep computes iterations again
def test_loop_longer_than_all_slots_of_its_trail(x, loss):
    @qd.kernel
    def run(n: qd.i32):
        for i in range(2):
            v = x[i]
            for _ in range(n):
                v = v + 0.001 * qd.sin(v * 3.0)
            loss[None] += v

    check(lambda: run(1500), loss, x)


def test_bounds_that_differ_between_iterations(x, loss):
    count = qd.field(qd.i32, shape=5)
    count.from_numpy(np.array([0, 70, 3, 1, 130], np.int32))

    @qd.kernel
    def run():
        for i in x:
            v = x[i]
            for _ in range(count[i]):
                v = v * 0.98 + qd.sin(v) * 0.02
            loss[None] += v * v

    check(run, loss, x)


def test_steps_up_and_down(x, loss):
    @qd.kernel
    def run():
        for i in x:
            v = x[i]
            for k in range(9, 1, -3):
                v = qd.sin(v) * k
            for k in range(2, 9, 3):
                v = qd.cos(v) + v * k
            loss[None] += v

    check(run, loss, x)


def test_nested_loops_of_dependent_length(x, loss):
    @qd.kernel
    def run(n: qd.i32):
        for i in x:
            v = x[i]
            s = 0.0
            for a in range(n):
                w = v
                for _ in range(a):
                    w = qd.sin(w) + v * 0.1
                    s += w * w
                v = v * 0.9 + w * 0.1
            loss[None] += s * v

    check(lambda: run(6), loss, x)


def test_box_inside_an_iteration(x, loss):
    @qd.kernel
    def run():
        for i in x:
            v = x[i]
            for a, b in qd.ndrange(3, 4):
                v = v * 0.9 + qd.sin(v) * 0.1 * a + b * 0.01
            loss[None] += v

    check(run, loss, x)


def test_while(x, loss):
    @qd.kernel
    def run():
        for i in x:
            v = x[i]
            while v < 30.0:
                v = v * 1.1 + 0.01 * x[i]
            loss[None] += v * v

    check(run, loss, x)


def test_while_of_many_iterations(x, loss):
    @qd.kernel
    def run():
        for i in range(2):
            v = x[i]
            n = 0
            while n < 700:
                v = v + 0.001 * qd.sin(v * 3.0)
                n += 1
            loss[None] += v

    check(run, loss, x)


def test_break_and_continue(x, loss):
    @qd.kernel
    def run(n: qd.i32):
        for i in x:
            v = x[i]
            s = 0.0
            for k in range(n):
                if k % 3 == 1:
                    continue
                v = v * 1.2
                if v > 5.0:
                    break
                s += v * v
            loss[None] += s

    check(lambda: run(100), loss, x)


def test_function_with_early_returns(x, loss):
    @qd.func
    def piecewise(a: qd.f64) -> qd.f64:
        if a > 0.9:
            return a * a
        b = qd.sin(a)
        if b > 0.5:
            return b * a
        return qd.cos(b) * a

    @qd.kernel
    def run():
        for i in x:
            loss[None] += piecewise(x[i]) * piecewise(piecewise(x[i]))

    check(run, loss, x)


def test_function_that_leaves_a_loop_by_return(x, loss):
    @qd.real_func
    def grow(a: qd.f64, n: qd.i32) -> qd.f64:
        r = a
        for _ in range(n):
            r = r * (1.0 + a)
            if r > 3.0:
                return r * r
        return r

    @qd.kernel
    def run():
        for i in x:
            loss[None] += grow(x[i], 4)

    check(run, loss, x)


def test_sum_over_a_loop_used_nonlinearly(x, loss):
    @qd.kernel
    def run():
        total = 0.0
        for i in x:
            total += x[i] * x[i]
        loss[None] += total * total

    check(run, loss, x)


def test_linear_update_in_place(x, loss):
    @qd.kernel
    def run():
        for i in x:
            x[i] = x[i] * 3.0

    run()
    x.grad.fill(1.0)
    run.grad()
    assert x.grad.to_numpy().tolist() == [3.0] * 5


def test_components_of_a_vector_that_was_read_change_in_a_loop():
    """Twice: what was read, and what was stored, stays what it was."""
    v = numbers([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], qd.types.vector(3, qd.f64))
    w, loss = numbers(np.zeros((2, 3)), qd.types.vector(3, qd.f64)), scalar_loss()

    @qd.kernel
    def run():
        for i in v:
            a = v[i]
            for k in range(4):
                a[k % 3] = a[(k + 1) % 3] * a[k % 3]
            w[i] = a
            a[0] = 0.0
            b = a * a
            a[1] = 7.0
            loss[None] += b.sum() + a.sum()

    @qd.kernel
    def finish():
        for i in w:
            loss[None] += w[i].dot(w[i])

    def both() -> None:
        run()
        finish()

    check(both, loss, v)


def test_reductions_into_variables_from_outside_of_the_loop(x, loss):
    @qd.kernel
    def run():
        total, product, largest, least = 0.0, 1.0, 0.0, 9.0
        powers = qd.Vector([0.0, 0.0])
        for i in x:
            total = total + x[i] * x[i] - 0.5 * x[i]
            powers = powers + qd.Vector([x[i], x[i] ** 3])
        for i in x:
            product = product * (x[i] + 0.3)
        for i in x:
            if x[i] * 2 > largest:
                largest = x[i] * 2
            least = min(least, x[i])
        for i, j in qd.ndrange(1, 5):
            j = (j + 2) % 5
            total = x[j] * j + total
        loss[None] += total * total + product * largest + least * powers.norm_sqr()

    check(run, loss, x)


@pytest.mark.parametrize("n", [0, 1, 3])
def test_loops_under_an_if_run_in_order(x, loss, n):
    @qd.func
    def damp(s, value):
        return s * 0.5 + value * s * s

    @qd.kernel
    def run(n: qd.i32):
        s = 0.3
        if n > 0:
            for i in x:
                if i > n:
                    break
                s = damp(s, x[i])
        elif x[0] > 0:
            for i in range(4):
                s = s * x[i] + 0.1
        loss[None] += s * s

    check(lambda: run(n), loss, x)

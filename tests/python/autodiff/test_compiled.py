"""What only compiled kernels do: refuse a gradient whose values are gone; components in loops."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from autodiff_support import check, numbers, scalar_loss

import quadrants as qd


@pytest.fixture
def compiled() -> Iterator[tuple[Any, Any]]:
    qd.init(arch=qd.cpu, default_fp=qd.f64, offline_cache=False, log_level="error")
    yield numbers(np.linspace(0.4, 1.3, 5)), scalar_loss()
    qd.reset()


def refuses(kernel: Any, message: str) -> None:
    with pytest.raises(qd.QuadrantsCompilationError, match=message):
        kernel()


def test_random_numbers_whose_value_matters(compiled):
    x, loss = compiled

    @qd.kernel
    def run():
        for i in x:
            loss[None] += x[i] * x[i] * qd.random(qd.f64)

    refuses(run.grad, "random numbers cannot be drawn again")


def test_elements_that_are_overwritten_in_the_same_iteration(compiled):
    x, _ = compiled

    @qd.kernel
    def run():
        for i in x:
            x[i] = qd.sin(x[i])

    refuses(run.grad, "'x' is read here and overwritten later")


def test_elements_that_a_later_loop_overwrites(compiled):
    x, loss = compiled

    @qd.kernel
    def run():
        for i in x:
            loss[None] += x[i] * x[i]
        for i in x:
            x[i] += 1.0

    refuses(run.grad, "'x' is read here and overwritten later")


@pytest.mark.parametrize("is_result", [False, True])
def test_overwritten_elements_that_no_gradient_needs_may_cross_calls(compiled, is_result):
    x, loss = compiled
    label = qd.field(qd.i32, shape=x.shape)

    @qd.func
    def add(i: qd.i32, value: qd.f64, mark: qd.i32):
        loss[None] += value * value
        label[i] = mark + 1

    @qd.func
    def read(i: qd.i32):
        return x[i], label[i]

    @qd.kernel
    def run():
        for _ in qd.static(range(2)):
            for i in x:
                if qd.static(is_result):
                    value, mark = read(i)
                    loss[None] += value * value
                    label[i] = mark + 1
                else:
                    add(i, x[i], label[i])

    check(run, loss, x)


def test_products_of_all_iterations(compiled):
    x, loss = compiled

    @qd.kernel
    def run():
        for i in x:
            qd.atomic_mul(loss[None], x[i])

    refuses(run.grad, "an atomic mul of something that has a gradient")


def test_variables_that_a_parallel_loop_reads_and_updates(compiled):
    x, loss = compiled

    @qd.kernel
    def run():
        total = 0.0
        for i in x:
            total += x[i]
            loss[None] += total * total

    refuses(run.grad, "a parallel loop both reads and updates")


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("name", ["max", "min", "mul"])
def test_tangents_of_extrema_and_products_over_iterations(compiled, name, inside):
    _, loss = compiled
    atomic, start = getattr(qd, f"atomic_{name}"), 0.9
    x = numbers(np.linspace(0.5, 1.4, 300))

    @qd.func
    def take(value):
        atomic(loss[None], value)

    @qd.kernel
    def run():
        loss[None] = start
        for i in x:
            if qd.static(inside):
                take(qd.sin(3 * x[i]))
            else:
                atomic(loss[None], qd.sin(3 * x[i]))

    values, direction = x.to_numpy(), np.random.default_rng(0).standard_normal(300)
    with qd.ad.FwdMode(loss, x, seed=list(direction)):
        run()
    found = np.sin(3 * values)
    changes = 3 * np.cos(3 * values) * direction
    if name == "mul":
        expected = start * found.prod() * (changes / found).sum()
    else:
        place = found.argmax() if name == "max" else found.argmin()
        expected = changes[place]
    np.testing.assert_allclose(loss.dual[None], expected, rtol=1e-9)


def test_components_overwritten_in_a_loop(compiled):
    _, loss = compiled
    v = numbers(np.linspace(0.4, 1.3, 6).reshape(2, 3), qd.types.vector(3, qd.f64))

    @qd.kernel
    def run():
        for i in v:
            a = v[i]
            for k in range(4):
                a[k % 3] = a[k % 3] * a[(k + 1) % 3]
                a = qd.sin(a) + a * 0.1
            loss[None] += a.sum() * a[0]

    check(run, loss, v)

"""Reads of elements that the iteration may overwrite, which only indices of the run time tell: `kernel.grad()` looks, a tape knows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from autodiff_support import numbers, run_before_gradient, scalar_loss

import quadrants as qd
from quadrants._base import options as _options

pytestmark = pytest.mark.usefixtures("on_every_backend")

Kernel = Callable[[], None]


class Containers:
    """`x` and `y` are given; `at` says which element an iteration touches."""

    def __init__(self, at: list[int]) -> None:
        self.x, self.y, self.loss = numbers([0.7, 1.2, -0.6]), numbers([1.1, 0.4, 0.9]), scalar_loss()
        self.z = numbers(np.arange(12.0).reshape(3, 4) * 0.1)
        self.at = qd.field(qd.i32, shape=3)
        self.at.from_numpy(np.array(at, np.int32))
        self.kept = [(container, container.to_numpy()) for container in (self.y, self.z)]

    def reset(self) -> None:
        for container, values in self.kept:
            container.from_numpy(values)


def read_first(of: Containers) -> Any:
    x, y, at, loss = of.x, of.y, of.at, of.loss

    @qd.kernel
    def kernel():
        for i in x:
            if at[i] >= 0:
                a = y[at[i]] * x[i]
                loss[None] += a * a
                y[i] = x[i]

    return kernel


def read_beside_a_function(of: Containers) -> Any:
    """The gradient reports the place of the read; the kernel itself reports none."""
    x, z, at, loss = of.x, of.z, of.at, of.loss

    @qd.func
    def square(value):
        return value * value

    @qd.kernel
    def kernel():
        for i in x:
            z[i, 0] = square(x[i])
            if at[i] < 0:
                z[i, 1] *= z[i, 0]
            loss[None] += z[i, 0] * x[i]

    return kernel


def read_what_may_be_written(of: Containers) -> Any:
    x, y, at, loss = of.x, of.y, of.at, of.loss

    @qd.kernel
    def kernel():
        for i in x:
            if at[i] >= 0:
                y[at[i]] = x[i] * x[i]
                a = y[i]
                y[i] = 0.5
                loss[None] += a * a * x[i]

    return kernel


def read_a_row(of: Containers) -> Any:
    x, z, at, loss = of.x, of.z, of.at, of.loss

    @qd.kernel
    def kernel():
        for i in x:
            for j in range(at[i]):
                z[i, j] = x[i] * (j + 1)
            for j in range(3):
                if at[i] > 0:
                    a = z[i, j]
                    z[i, j] = a * a * x[i]
                    loss[None] += z[i, j] * a

    return kernel


def check(make: Callable[[Containers], Any], at: list[int], is_known_afterwards: bool) -> None:
    """Compares a tape, and `kernel.grad()` where that can be, with differences; each is run by itself."""
    of = Containers(at)
    kernel = make(of)
    slopes = run_before_gradient(kernel, of.reset, of.loss, of.x)
    if is_known_afterwards:
        kernel.grad()
        np.testing.assert_allclose(of.x.grad.to_numpy(), slopes, rtol=2e-6, atol=2e-6)
    else:
        with pytest.raises(qd.QuadrantsRuntimeError, match=r"(?s)overwritten.*QD951"):
            kernel.grad()
    of.reset()
    with qd.ad.Tape(of.loss):
        kernel()
    np.testing.assert_allclose(of.x.grad.to_numpy(), slopes, rtol=2e-6, atol=2e-6)


PROGRAMS = [
    (read_first, [0, 1, 2], False),
    (read_first, [0, -1, 2], False),
    (read_beside_a_function, [0, 1, 2], True),
    (read_what_may_be_written, [0, 1, 2], True),
    (read_what_may_be_written, [0, -1, 2], True),
    (read_a_row, [3, 4, 3], True),
    (read_a_row, [3, 1, 0], False),
]


@pytest.mark.parametrize(("make", "at", "is_known_afterwards"), PROGRAMS)
def test_reads_of_what_the_iteration_may_overwrite(make: Callable[[Containers], Any], at: list[int], is_known_afterwards: bool):
    check(make, at, is_known_afterwards)


def test_only_reads_that_the_gradient_needs_are_checked():
    x, y, at, loss = numbers([0.7, 1.2, -0.6]), numbers([1.1, 0.4, 0.9]), qd.field(qd.i32, shape=3), scalar_loss()
    at.from_numpy(np.arange(3, dtype=np.int32))

    @qd.kernel
    def kernel():
        for i in x:
            a = y[at[i]]
            y[i] = x[i] * x[i]
            loss[None] += 3.0 * a + y[i] * y[i]

    kernel()
    loss.grad[None] = 1.0
    kernel.grad()
    np.testing.assert_allclose(x.grad.to_numpy(), 4 * x.to_numpy() ** 3)


def test_the_failed_check_names_the_place():
    of = Containers([0, 1, 2])
    kernel = read_first(of)
    kernel()
    of.loss.grad[None] = 1.0
    with pytest.raises(qd.QuadrantsRuntimeError) as error:
        kernel.grad()
    if _options.get("arch") != "python":
        assert error.value.code == "QD951"
        assert error.value.source[error.value.col : error.value.end_col] == "y[at[i]] * x[i]"


def test_copies_of_elements_onto_themselves_overwrite_nothing():
    """`center[link] = center[root]`, where a root is its own root: the value that was read stays."""
    roots, root, ends = (qd.field(qd.i32, shape=len(given)) for given in ([0, 2], [0, 0, 2, 2], [2, 2, 4, 4]))
    for field, given in ((roots, [0, 2]), (root, [0, 0, 2, 2]), (ends, [2, 2, 4, 4])):
        field.from_numpy(np.array(given, np.int32))
    place, center, out = (qd.Vector.ndarray(3, qd.f64, (4, 2), needs_grad=True) for _ in range(3))
    values = np.arange(24.0).reshape(4, 2, 3) * 0.1
    place.from_numpy(values)

    @qd.func
    def use_center(link, world, place, center, out):
        center[link, world] = center[root[link], world]
        out[link, world] = place[link, world] * center[link, world] * center[link, world]

    @qd.kernel
    def find_centers(place: qd.types.ndarray(), center: qd.types.ndarray(), out: qd.types.ndarray()):
        qd.loop_config(serialize=True)
        for r, world in qd.ndrange(roots.shape[0], place.shape[1]):
            first = roots[r]
            center[first, world] = qd.Vector([0.0, 0.0, 0.0])
            for link in range(first, ends[first]):
                center[first, world] += place[link, world] * 0.5
            for link in range(first, ends[first]):
                use_center(link, world, place, center, out)

    find_centers(place, center, out)
    out.grad.fill(1.0)
    find_centers.grad(place, center, out)
    middle = np.repeat(values.reshape(2, 2, 2, 3).mean(axis=1), 2, axis=0)
    through_middle = np.repeat((values * middle).reshape(2, 2, 2, 3).sum(axis=1), 2, axis=0)
    np.testing.assert_allclose(place.grad.to_numpy(), middle**2 + through_middle, rtol=1e-12)


def test_a_condition_on_an_element_that_is_overwritten_is_known_to_a_tape_only():
    of = Containers([0, 1, 2])
    x, y, loss = of.x, of.y, of.loss

    @qd.kernel
    def triple():
        for i in x:
            if y[i] < 1.0:
                y[i] = 3 * x[i]

    @qd.kernel
    def total():
        for i in y:
            loss[None] += y[i]

    with qd.ad.Tape(loss):
        triple()
        total()
    # y was [1.1, 0.4, 0.9], and is [1.1, 3.6, -1.8]: its new values would say that the first and last element come from x.
    np.testing.assert_array_equal(x.grad.to_numpy(), [0, 3, 3])
    with pytest.raises((qd.QuadrantsCompilationError, qd.QuadrantsRuntimeError), match="overwritten"):
        triple.grad()

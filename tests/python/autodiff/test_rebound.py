"""What calls were called with is rebound before gradients run: each gradient is that of what its call has used."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from autodiff_support import numbers, scalar_loss

import quadrants as qd
from quadrants._base import options as _options

pytestmark = pytest.mark.usefixtures("on_every_backend")

Kernel = Callable[[], None]
F64 = qd.types.ndarray(dtype=qd.f64)
SOURCE = SINK = SCALE = TOTAL = None
EIGHTH_POWER = 8 * 1.1**7  # the derivative of x^8 at 1.1


@qd.data_oriented
class Buffers:
    """Two buffers: `begin` copies x, `step` squares from one to the other, `end` adds to a loss."""

    def __init__(self) -> None:
        self.start, self.source, self.sink = numbers([1.1]), numbers([0.0]), numbers([0.0])

    @qd.kernel
    def begin(self):
        for i in self.start:
            self.source[i] = self.start[i]

    @qd.kernel
    def step(self):
        for i in self.start:
            self.sink[i] = self.source[i] * self.source[i]

    @qd.kernel
    def end(self, loss: qd.template(), weight: float):
        for i in self.start:
            loss[None] += weight * self.source[i]

    def swap(self) -> None:
        self.source, self.sink = self.sink, self.source


class Swaps:
    """x^8 in calls between which two buffers are swapped: `begin` copies x, `step` squares, `end` adds to the loss."""

    def __init__(self, begin: Kernel, step: Kernel, swap: Kernel, end: Kernel) -> None:
        self.begin, self.step, self.swap, self.end = begin, step, swap, end

    def run(self) -> None:
        self.begin()
        for _ in range(3):
            self.step()
            self.swap()
        self.end()

    def check(self, x: Any, loss: Any) -> None:
        for _ in range(3):  # the last call of the second tape runs together with its gradient
            with qd.ad.Tape(loss):
                self.run()
            np.testing.assert_allclose(x.grad[0], EIGHTH_POWER)
            self.swap()


def test_swapped_members_of_an_object():
    buffers, loss = Buffers(), scalar_loss()
    Swaps(buffers.begin, buffers.step, buffers.swap, lambda: buffers.end(loss, 1.0)).check(buffers.start, loss)


def test_swapped_members_of_a_dataclass_argument():
    @dataclasses.dataclass
    class Buffers:
        source: F64
        sink: F64

    x, source, sink = (qd.ndarray(qd.f64, shape=1, needs_grad=True) for _ in range(3))
    buffers, loss = Buffers(source, sink), scalar_loss()
    x.fill(1.1)

    @qd.kernel
    def begin(x: F64, buffers: Buffers):
        for i in range(1):
            buffers.source[i] = x[i]

    @qd.kernel
    def step(buffers: Buffers):
        for i in range(1):
            buffers.sink[i] = buffers.source[i] ** 2

    @qd.kernel
    def end(buffers: Buffers):
        for i in range(1):
            loss[None] += buffers.source[i]

    def swap() -> None:
        buffers.source, buffers.sink = buffers.sink, buffers.source

    Swaps(lambda: begin(x, buffers), lambda: step(buffers), swap, lambda: end(buffers)).check(x, loss)


def test_swapped_globals():
    global SOURCE, SINK, TOTAL
    x, SOURCE, SINK, TOTAL = numbers([1.1]), numbers([0.0]), numbers([0.0]), scalar_loss()

    @qd.kernel
    def begin():
        for i in SOURCE:
            SOURCE[i] = x[i]

    @qd.kernel
    def step():
        for i in SOURCE:
            SINK[i] = SOURCE[i] * SOURCE[i]

    @qd.kernel
    def end():
        for i in SOURCE:
            TOTAL[None] += SOURCE[i]

    def swap() -> None:
        global SOURCE, SINK
        SOURCE, SINK = SINK, SOURCE

    Swaps(begin, step, swap, end).check(x, TOTAL)


@pytest.mark.host_memory
def test_swapped_variables_of_a_closure():
    x, source, sink, loss = numbers([1.1]), numbers([0.0]), numbers([0.0]), scalar_loss()

    @qd.kernel
    def step():
        for i in source:
            sink[i] = source[i] * source[i]

    @qd.kernel
    def begin():
        for i in source:
            source[i] = x[i]

    @qd.kernel
    def end():
        for i in source:
            loss[None] += source[i]

    def swap() -> None:
        nonlocal source, sink
        source, sink = sink, source

    swaps = Swaps(begin, step, swap, end)
    swaps.check(x, loss)
    with qd.ad.FwdMode(loss, x, [1.0]), qd.ad.Tape(loss):
        swaps.run()
    np.testing.assert_allclose(x.grad[0], EIGHTH_POWER)
    np.testing.assert_allclose(x.grad.dual[0], 56 * 1.1**6)


def test_array_that_is_rebound_for_each_call():
    global SOURCE
    x, loss = numbers([2.0]), scalar_loss()

    @qd.kernel
    def add():
        for i in x:
            loss[None] += x[i] * SOURCE[i]

    with qd.ad.Tape(loss):
        for weight in (1.0, 3.0, 6.0):
            SOURCE = numbers([weight])
            add()
    assert x.grad[0] == 10.0


@pytest.mark.parametrize("kind", ["global", "closure", "member", "list", "vector"])
def test_number_that_changes(kind: str):
    global SCALE
    x, loss = numbers([2.0]), scalar_loss()
    scale = 0.0

    @qd.data_oriented
    class Holder:
        def __init__(self):
            self.scale, self.scales, self.vector = 0.0, [0.0, 0.0], qd.Vector([0.0, 0.0])

        @qd.kernel
        def add(self):
            for i in x:
                if qd.static(kind == "member"):
                    loss[None] += x[i] * self.scale
                elif qd.static(kind == "list"):
                    loss[None] += x[i] * self.scales[1]
                elif qd.static(kind == "vector"):
                    loss[None] += x[i] * self.vector[1]
                elif qd.static(kind == "global"):
                    loss[None] += x[i] * SCALE
                else:
                    loss[None] += x[i] * scale

    holder = Holder()
    with qd.ad.Tape(loss):
        for number in (1.0, 3.0, 6.0):
            SCALE = scale = holder.scale = holder.scales[1] = holder.vector[1] = number
            holder.add()
    assert x.grad[0] == 10.0


def test_numbers_of_arguments_that_change():
    @dataclasses.dataclass
    class Settings:
        scale: qd.f64

    x, loss, settings, vector = numbers([2.0]), scalar_loss(), Settings(0.0), qd.Vector([0.0, 0.0], dt=qd.f64)

    @qd.kernel
    def add(settings: Settings, vector: qd.types.vector(2, qd.f64)):
        for i in x:
            loss[None] += x[i] * (settings.scale + vector[0])

    with qd.ad.Tape(loss):
        for number in (1.0, 3.0, 6.0):
            settings.scale, vector[0] = number, 10 * number
            add(settings, vector)
    assert x.grad[0] == 110.0


def test_function_that_is_rebound():
    x, loss = numbers([2.0]), scalar_loss()

    @qd.func
    def square(a):
        return a * a

    @qd.func
    def cube(a):
        return a * a * a

    power = square

    @qd.kernel
    def add():
        for i in x:
            loss[None] += power(x[i])

    with qd.ad.Tape(loss):
        add()
        power = cube
        add()
        power = square
    assert x.grad[0] == 4.0 + 12.0


def test_container_of_another_shape_and_type():
    global SOURCE
    x, loss = numbers([2.0, 3.0, 4.0]), scalar_loss()
    wide = qd.field(qd.f32, shape=(2, 3))
    wide.fill(5.0)

    @qd.kernel
    def add():
        for i in x:
            if qd.static(len(SOURCE.shape) == 2):
                loss[None] += x[i] * SOURCE[1, i]
            else:
                loss[None] += x[i] * SOURCE[i]

    with qd.ad.Tape(loss):
        SOURCE = numbers([1.0, 2.0, 3.0])
        add()
        SOURCE = wide
        add()
        SOURCE = None
    assert x.grad.to_numpy().tolist() == [6.0, 7.0, 8.0]


def test_items_of_python_containers():
    @qd.data_oriented
    class Chain:
        def __init__(self):
            self.cells = [numbers([0.0]) for _ in range(2)]
            self.nested = [[numbers([1.0])]]

        @qd.kernel
        def step(self):
            for i in self.cells[0]:
                self.cells[1][i] = self.cells[0][i] * self.nested[0][0][i]

        @qd.kernel
        def end(self):
            for i in self.cells[0]:
                loss[None] += self.cells[0][i]

    loss, x = scalar_loss(), numbers([3.0])
    chain = Chain()
    chain.cells[0] = x
    scales = [numbers([value]) for value in (2.0, 5.0, 7.0)]
    with qd.ad.Tape(loss):
        for scale in scales:
            chain.nested[0] = [scale]
            chain.step()
            chain.cells.reverse()
            chain.cells[1] = numbers([0.0])
        chain.end()
    assert x.grad[0] == 70.0
    assert [scale.grad[0] for scale in scales] == [105.0, 42.0, 30.0]


def test_object_that_is_an_argument_and_is_rebound_inside_another():
    loss = scalar_loss()

    @qd.data_oriented
    class Inner:
        def __init__(self, field: Any, scale: float):
            self.field, self.scale = field, scale

    @qd.data_oriented
    class Outer:
        def __init__(self):
            self.inner = Inner(numbers([2.0]), 3.0)

        @qd.kernel
        def add(self, power: int):
            for i in range(1):
                loss[None] += self.inner.field[i] ** power * self.inner.scale

    outer = Outer()
    first = outer.inner
    second = Inner(numbers([5.0]), 7.0)
    with qd.ad.Tape(loss):
        outer.add(2)
        outer.inner = second
        outer.add(3)
        outer.inner = None
    assert (first.field.grad[0], second.field.grad[0]) == (2 * 2.0 * 3.0, 3 * 25.0 * 7.0)


def test_nested_tapes():
    buffers, inner, outer = Buffers(), scalar_loss(), scalar_loss()

    def step() -> None:
        buffers.step()
        buffers.swap()

    def end() -> None:
        buffers.end(inner, 1.0)
        buffers.end(outer, 2.0)

    with qd.ad.Tape(outer):
        buffers.begin()
        with qd.ad.Tape(inner, clear_gradients=False):
            step()
            end()
        step()
        end()
    np.testing.assert_allclose(buffers.start.grad[0], 4.0 * 1.1 + 8.0 * 1.1**3)


def test_differences_are_taken_of_what_was_called():
    if _options.get("arch") == "python":
        pytest.skip("what is called again is called with what is bound then")
    buffers, loss = Buffers(), scalar_loss()
    with qd.ad.Tape(loss, grad_check=[buffers.start]):
        buffers.begin()
        for _ in range(2):
            buffers.step()
            buffers.swap()
        buffers.end(loss, 1.0)
    np.testing.assert_allclose(buffers.start.grad[0], 4 * 1.1**3)

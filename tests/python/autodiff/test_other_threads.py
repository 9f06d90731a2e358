"""Kernels and writes of other threads while a tape records."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable
from typing import Any

import pytest
from autodiff_support import numbers, scalar_loss

import quadrants as qd

pytestmark = pytest.mark.needs("f64")


@pytest.fixture(params=[os.environ["QD_ARCH"]] if os.environ.get("QD_ARCH") else ["cpu", "python"], autouse=True)
def arch(request: pytest.FixtureRequest):
    qd.init(arch=getattr(qd, request.param), offline_cache=False, log_level="error", default_fp=qd.f64)
    yield request.param
    qd.reset()


def on_another_thread(work: Callable[..., Any], *arguments: Any) -> None:
    thread = threading.Thread(target=work, args=arguments)
    thread.start()
    thread.join()


def make(constant_has_gradient: bool = False):
    x, y, loss = numbers([1.0, 2.0, 3.0]), numbers([0.0] * 3), scalar_loss()
    c = qd.field(qd.f64, shape=(), needs_grad=constant_has_gradient)
    c[None] = 1.0

    @qd.kernel
    def square():
        for i in x:
            y[i] = c[None] * x[i] ** 2

    @qd.kernel
    def set_constant(value: qd.f64):
        c[None] = value

    @qd.kernel
    def total():
        for i in y:
            loss[None] += y[i] + c[None]

    return x, y, c, loss, square, set_constant, total


@pytest.mark.parametrize("has_gradient", [False, True])
@pytest.mark.parametrize("is_kernel", [False, True])
def test_what_another_thread_overwrites_is_kept(is_kernel: bool, has_gradient: bool):
    x, _, c, loss, square, set_constant, _ = make(has_gradient)

    @qd.kernel
    def add():
        for i in x:
            loss[None] += c[None] * x[i] ** 2

    with qd.ad.Tape(loss):
        add()
        on_another_thread(set_constant, 7.0) if is_kernel else on_another_thread(c.fill, 7.0)
    assert x.grad.to_numpy().tolist() == [2.0, 4.0, 6.0]
    assert c[None] == 7.0


def test_constant_of_another_thread_that_later_calls_read():
    x, _, _, loss, square, set_constant, total = make()
    with qd.ad.Tape(loss):
        square()
        on_another_thread(set_constant, 7.0)
        total()
    assert x.grad.to_numpy().tolist() == [2.0, 4.0, 6.0]
    assert loss[None] == 14.0 + 21.0


def test_what_another_thread_computes_has_no_gradient_here():
    _, _, _, loss, square, _, total = make()
    with pytest.raises(qd.QuadrantsRuntimeError, match=r"kernel .*square has written to it on another thread"), qd.ad.Tape(loss):
        on_another_thread(square)
        total()


def test_updates_of_another_thread_have_no_gradient_here():
    """Another thread writes to one element of two, in components and in full."""
    x, y, loss = numbers([1.0, 2.0]), qd.Vector.field(2, qd.f64, 2, needs_grad=True), scalar_loss()

    @qd.kernel
    def change():
        y[1] = qd.Vector([x[0], x[1]])
        y[1][0] += 1.0

    @qd.kernel
    def total():
        loss[None] += y[1][1] * x[0]

    with pytest.raises(qd.QuadrantsRuntimeError, match=r"kernel .*change has written to it on another thread"), qd.ad.Tape(loss):
        on_another_thread(change)
        total()


def test_host_write_of_another_thread_to_what_a_call_computed(arch: str):
    x, y, _, loss, square, _, total = make()
    is_refused = contextlib.nullcontext() if arch == "python" else pytest.raises(qd.QuadrantsRuntimeError, match="on another thread")
    with is_refused, qd.ad.Tape(loss):
        square()
        on_another_thread(y.fill, 3.0)
        total()
    assert arch != "python" or x.grad.to_numpy().tolist() == [0.0] * 3


def test_host_write_of_another_thread_to_an_input():
    x, _, _, loss, square, _, total = make()
    with qd.ad.Tape(loss):
        on_another_thread(x.fill, 3.0)
        square()
        total()
    assert x.grad.to_numpy().tolist() == [6.0] * 3


def test_tapes_of_several_threads_have_nothing_to_do_with_each_other():
    models = [make() for _ in range(3)]
    ready = threading.Barrier(3)

    def train(x, y, c, loss, square, set_constant, total):
        ready.wait()
        for _ in range(20):
            with qd.ad.Tape(loss, clear_gradients=False):
                square()
                set_constant(2.0)
                total()
                set_constant(1.0)

    threads = [threading.Thread(target=train, args=model) for model in models]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for x, *_ in models:
        assert x.grad.to_numpy().tolist() == [40.0, 80.0, 120.0]


@pytest.mark.parametrize("has_ended", [False, True])
def test_gradients_that_another_thread_runs(has_ended: bool):
    """The thread that recorded the tape has ended, or goes on without it."""
    x, _, _, loss, square, _, total = make()
    tapes: list[qd.ad.Tape] = []
    is_recorded, is_left = threading.Event(), threading.Event()

    def record() -> None:
        with qd.ad.Tape() as tape:
            square()
            total()
        tapes.append(tape)
        del tape
        is_recorded.set()
        if not has_ended:
            is_left.wait()
            total()

    recorder = threading.Thread(target=record)
    recorder.start()
    recorder.join() if has_ended else is_recorded.wait()
    tape = tapes.pop()
    tape.loss = loss
    tape.grad()
    del tape
    for _ in range(20):  # these may take the memory of the tape that is gone
        qd.ad.Tape()
    is_left.set()
    recorder.join()
    assert x.grad.to_numpy().tolist() == [2.0, 4.0, 6.0]
    assert loss[None] == (17.0 if has_ended else 34.0)

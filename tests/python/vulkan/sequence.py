"""Streams, events and programs on devices whose streams are one sequence of commands (src/backends/gpu/device_sequential.h)."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

import quadrants as qd


@qd.kernel
def add(x: qd.types.NDArray[qd.i32, 1], more: qd.i32) -> None:
    for i in x:
        x[i] += more


def check_streams() -> None:
    """Launches of several streams and events between them."""
    x = qd.ndarray(qd.i32, 1000)
    with qd.create_stream() as first, qd.create_stream() as second:
        begin, end = qd.create_event(), qd.create_event()
        begin.record(first)
        for _ in range(600):  # more than a batch
            add(x, 1, qd_stream=first)
        end.record(first)
        second.wait_event(end)
        add(x, 10, qd_stream=second)
        end.synchronize()
        second.synchronize()
        assert first.query() and second.query()
        assert begin.elapsed_ms(end) > 0
        begin.destroy()
        end.destroy()
    assert np.array_equal(x.to_numpy(), np.full(1000, 610))


def check_memory() -> None:
    """Copies and fills of every size, memory that is used again while commands that were recorded still use it."""
    rng = np.random.default_rng(1)
    for size in (1, 3, 100, 70_000, 300_000, 3_000_000):
        values = rng.integers(0, 100, size, np.uint8)
        x, y = qd.ndarray(qd.u8, size), qd.ndarray(qd.u8, size)
        x.from_numpy(values)
        y.copy_from(x)
        x.fill(7)
        assert np.array_equal(y.to_numpy(), values) and (x.to_numpy() == 7).all()
    for round_ in range(50):
        x = qd.ndarray(qd.i32, 100_000)
        x.fill(round_ * 1_000_003)
        add(x, round_)
        last = x
    assert (last.to_numpy() == 49 * 1_000_004).all()


@qd.kernel
def count(x: qd.types.NDArray[qd.i32, 1], at: qd.i32) -> qd.i32:
    x[at] += 1
    return x[at]


def check_reads() -> None:
    """Each thread reads what its launches return, and an element, while another thread's launches come between."""
    rounds, x = 300, qd.ndarray(qd.i32, 100)
    wrong: list[tuple[int, int, int]] = []

    def run(at: int) -> None:
        for expected in range(1, rounds + 1):
            returned, read = count(x, at), x[at]
            add(y, 1)
            if (returned, read) != (expected, expected):
                wrong.append((expected, returned, read))

    y = qd.ndarray(qd.i32, 10)
    threads = [threading.Thread(target=run, args=[at]) for at in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert y[3] == 3 * rounds
    for value in range(5):  # writes of an idle device and of one at work
        x[value] = value
        add(x, 1)
    assert x.to_numpy()[:5].tolist() == [5, 5, 5, 5, 5]


def check_programs(arch: Any) -> None:
    """A program on the device beside one on the processor, and beside another one on the device."""
    qd.init(arch=arch, enable_fallback=False, offline_cache=False, log_level="error")
    outer = qd.ndarray(qd.i32, 10)
    for inner_arch in (qd.cpu, arch):
        with qd.Program(arch=inner_arch, offline_cache=False, log_level="error"):
            inner = qd.ndarray(qd.i32, 10)
            add(inner, 5)
            assert inner.to_numpy().tolist() == [5] * 10
        add(outer, 1)
    assert outer.to_numpy().tolist() == [2] * 10

"""`python -m quadrants bench`: what this machine does, in a few seconds, next to NumPy in the same process."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import quadrants as qd

_SIZE = 1 << 22
_Array = qd.types.NDArray[qd.f32, 1]


@qd.kernel
def _nothing():
    pass


@qd.kernel
def _scale_and_add(x: _Array, y: _Array, a: qd.f32):
    for i in x:
        y[i] = a * x[i] + y[i]


@qd.kernel
def _total(x: _Array) -> qd.f32:
    total = 0.0
    for i in x:
        total += x[i] * x[i]
    return total


@qd.kernel
def _waves(x: _Array, y: _Array):
    for i in x:
        y[i] = qd.sin(x[i]) * qd.exp(-x[i])


def measure(run: Callable[[], Any], repeats: int = 5) -> float:
    """Returns the least seconds of several runs, after one that is not counted."""
    run()
    qd.sync()
    seconds = []
    for _ in range(repeats):
        begin = time.perf_counter()
        run()
        qd.sync()
        seconds.append(time.perf_counter() - begin)
    return min(seconds)


def report(arch: str) -> Iterator[str]:
    """Yields the lines of a table; the first one names the processor, which may be another one than asked for."""
    begin = time.perf_counter()
    qd.init(arch=getattr(qd, arch), log_level="warn", offline_cache=False)
    started = time.perf_counter()
    yield f"arch={qd.cfg.arch.name if qd.cfg else arch}"
    _nothing()
    yield f"{'qd.init':34} {(started - begin) * 1e3:9.1f} ms"
    yield f"{'first kernel, with the compiler':34} {(time.perf_counter() - started) * 1e3:9.1f} ms"
    calls = 20_000
    yield f"{'call of an empty kernel':34} {measure(lambda: [_nothing() for _ in range(calls)]) / calls * 1e6:9.3f} µs"
    n = np.linspace(0, 1, _SIZE, dtype=np.float32)
    m, x, y = n.copy(), qd.ndarray(qd.f32, _SIZE), qd.ndarray(qd.f32, _SIZE)
    x.from_numpy(n)
    y.from_numpy(n)
    cases: list[tuple[str, Callable[[], Any], Callable[[], Any], int]] = [
        ("y = 2 x + y", lambda: _scale_and_add(x, y, 2.0), lambda: np.add(np.multiply(n, np.float32(2)), m, out=m), 12),
        ("sum of x * x", lambda: _total(x), lambda: np.dot(n, n), 4),
        ("y = sin(x) exp(-x)", lambda: _waves(x, y), lambda: np.multiply(np.sin(n), np.exp(-n), out=m), 8),
    ]
    yield f"\n{f'{_SIZE} elements, f32':34} {'quadrants':>12} {'NumPy':>12} {'GB/s':>8}"
    for name, ours, theirs, width in cases:
        own, other = measure(ours), measure(theirs)
        yield f"{name:34} {own * 1e3:9.2f} ms {other * 1e3:9.2f} ms {width * _SIZE / own / 1e9:8.1f}"

"""Ctrl-C while a kernel runs that would never end."""

import os
import signal
import threading

import numpy as np
import pytest

import quadrants as qd


@qd.kernel
def count_for_ever() -> qd.i32:
    n = 0
    while n >= 0:
        n = (n + 1) % 1000
    return n


@qd.kernel
def count_for_ever_everywhere(a: qd.types.ndarray(dtype=qd.i32, ndim=1)):
    for i in a:
        n = i
        while n >= 0:
            n = (n + 1) % 1000
        a[i] = n


@qd.kernel
def five() -> qd.i32:
    return 5


@pytest.mark.parametrize("launch", [count_for_ever, lambda: count_for_ever_everywhere(np.zeros(100, np.int32))], ids=["serial", "parallel"])
def test_endless_kernel_is_interrupted_and_the_next_launch_works(launch):
    qd.init(arch=qd.cpu, offline_cache=False, log_level="error")
    assert five() == 5
    timer = threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            launch()
    finally:
        timer.join()
    assert five() == 5


def test_compiling_is_interrupted_at_the_next_statement():
    def stop(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGUSR1, stop)
    try:
        qd.init(arch=qd.cpu, offline_cache=False, log_level="error")
        reached = []

        @qd.kernel
        def work():
            qd.static(os.kill(os.getpid(), signal.SIGUSR1))
            qd.static(reached.append(1))

        with pytest.raises(KeyboardInterrupt):
            work()
        assert not reached
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert five() == 5

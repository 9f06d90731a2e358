"""Ctrl-C while a kernel runs that would never end, and while one is compiled."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from hand_made import HandMade, Task

import quadrants as qd

FIVE = """
void five(const QdGpuLaunch *launch, unsigned blocks, unsigned threads, unsigned shared) { *(int32_t *)launch->result = 5; }
"""


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


LONG_KERNEL = """
import os, signal, threading, time
import quadrants as qd

def interrupt_soon():
    # Not during the frontend, which ends with the kernel's last statement.
    threading.Timer(0.1, lambda: os.kill(os.getpid(), signal.SIGINT)).start()

interrupt = [interrupt_soon]

@qd.kernel
def take_long(a: qd.types.ndarray(dtype=qd.f32, ndim=1)):
    for i in a:
        x = a[i]
        for k in qd.static(range(2000)):
            if x > k:
                x = x * 0.5 - k
            else:
                x += 1.0
        a[i] = x
    qd.static(interrupt.pop()() if interrupt else None)
"""


def test_compiling_is_interrupted_before_it_ends(tmp_path, monkeypatch):
    (tmp_path / "long_kernel.py").write_text(LONG_KERNEL)
    monkeypatch.syspath_prepend(tmp_path)
    import long_kernel

    qd.init(arch=qd.cpu, offline_cache=False, unrolling_limit=0, log_level="error")
    assert five() == 5
    a = np.zeros(3, np.float32)
    with pytest.raises(KeyboardInterrupt):
        long_kernel.take_long(a)
        time.sleep(1)  # where the signal comes when the compile was quicker
    assert "qd-compile\n" in [thread.read_text() for thread in Path("/proc/self/task").glob("*/comm")]
    assert five() == 5
    long_kernel.take_long(a)
    assert list(a) == [reference_of_take_long()] * 3


def reference_of_take_long() -> np.float32:
    x = np.float32(0)
    for k in range(2000):
        x = x * np.float32(0.5) - np.float32(k) if x > k else x + np.float32(1)
    return x


@pytest.mark.parametrize("before_the_end", ["", "qd.reset()", "qd.init(offline_cache=False)"])
def test_process_ends_while_an_interrupted_compile_runs_out(tmp_path, before_the_end):
    (tmp_path / "long_kernel.py").write_text(LONG_KERNEL)
    program = f"""
import signal, time
import numpy as np
import quadrants as qd
import long_kernel
signal.signal(signal.SIGINT, signal.default_int_handler)
qd.init(arch=qd.cpu, offline_cache=False, unrolling_limit=0, log_level="error")
try:
    long_kernel.take_long(np.zeros(3, np.float32))
    time.sleep(1)
except KeyboardInterrupt:
    print("interrupted")
{before_the_end}
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)])}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stdout, done.stderr) == (0, "interrupted\n", "")


@pytest.mark.parametrize("wait", ["result", "sync", "read", "stream", "reset", "init"])
def test_waits_for_a_grid_end_with_ctrl_c(wait, compiler, driver):
    compiler.attach(five, HandMade(FIVE, results=[("i32", (), 0)], tasks=[Task("five", 1)]))
    x, stream = qd.ndarray(qd.i32, 10), qd.create_stream()
    waits = {"result": five, "sync": qd.sync, "read": lambda: x[3], "stream": stream.synchronize, "reset": qd.reset}
    waits["init"] = lambda: qd.init(arch=qd.cuda, log_level="error")
    driver.busy = 1 << 60
    timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            waits[wait]()
    finally:
        timer.join()
        driver.busy = 0
    assert five() == 5 and x[3] == 0

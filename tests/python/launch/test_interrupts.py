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


LONG_LOOPS = {
    "nested": """
    for i in x:
        for j in range(m):
            for k in range(m):
                x[i] = x[i] * 3 + k
""",
    "constant bounds": """
    for i in x:
        for j in range(2**31 - 1):
            for k in range(2**31 - 1):
                x[i] = x[i] * 3 + k
""",
    "many short ones": """
    for i in x:
        for j in range(m):
            for k in range(3000):
                for l in range(3000):
                    x[i] = x[i] * 3 + l
""",
    "ends of their own": """
    for i in x:
        for j in range(i, m - x[i] % 2):
            for k in range(x[i] % 2, m):
                x[i] = x[i] * 2 + k
""",
    "steps": """
    for i in x:
        for j in range(m, -m, -3):
            for k in range(0, m, n):
                for l in range(qd.i64(0), qd.i64(m) * m, 5):
                    x[i] = x[i] * 3 + j
""",
    "ndrange": """
    for i in x:
        for j, k, l in qd.ndrange(m, 1000, 1000):
            x[i] = x[i] * 3 + k
""",
    "departures": """
    for i in x:
        for j in range(m):
            for k in range(m):
                if x[i] == k + 5:
                    continue
                if x[i] == 3 and k == 0:
                    break
                x[i] = x[i] * 2 + 4
""",
    "real func": """
    for i in x:
        x[i] = count(m)
""",
    "recursion": """
    for i in x:
        x[i] = calls(90)
""",
    "serial": """
    qd.loop_config(serialize=True)
    for i in range(1000):
        for j in range(m):
            x[i % 5] = x[(i + 1) % 5] * 3 + j
""",
    "widened": """
    qd.loop_config(serialize=True)
    for i in range(x.shape[0]):
        for j in range(m):
            for k in range(m):
                x[i] = x[i] * 3 + k
""",
    "many iterations": """
    for i, j, k in qd.ndrange(m, 1000, 1000):
        x[k % 7] += 1
""",
    "block": """
    qd.loop_config(block_dim=32)
    for i in range(64):
        s = qd.simt.block.SharedArray((32,), qd.i32)
        for j in range(m):
            for k in range(m):
                s[i % 32] = s[i % 32] * 3 + k
        qd.simt.block.sync()
        x[i] = s[i % 32]
""",
}

LONG_LOOP = """
import os, signal, threading
import numpy as np
import quadrants as qd
qd.init(arch=qd.cpu, offline_cache=False, log_level="error")
A = qd.types.ndarray(dtype=qd.i32, ndim=1)

@qd.real_func
def count(m: qd.i32) -> qd.i32:
    s = 0
    for j in range(m):
        for k in range(m):
            s = s * 3 + k
    return s

@qd.real_func
def calls(n: qd.i32) -> qd.i32:
    s = n
    if n > 1:
        s = calls(n - 1) + calls(n - 2)
    return s

@qd.kernel
def run(x: A, m: qd.i32, n: qd.i32):
{loop}

@qd.kernel
def five() -> qd.i32:
    return 5

assert five() == 5
for _ in range(2):
    threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    try:
        run(np.zeros(100, np.int32), 2**31 - 1, 1)
        print("ran to its end")
    except KeyboardInterrupt:
        print("interrupted", five())
"""


def skip_blocks_under_sanitizers(name: str) -> None:
    if name == "block" and "SANITIZED_BUILD" in os.environ:
        pytest.skip("sanitizers say on stderr that the stacks of threads of blocks are none of theirs")


@pytest.mark.parametrize("name", LONG_LOOPS)
def test_long_loops_are_interrupted(name, tmp_path):
    skip_blocks_under_sanitizers(name)
    (tmp_path / "program.py").write_text(LONG_LOOP.replace("{loop}", LONG_LOOPS[name]))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, str(tmp_path / "program.py")], capture_output=True, text=True, env=environment, timeout=60)
    assert (done.stdout, done.stderr) == ("interrupted 5\n" * 2, "")


@pytest.mark.parametrize("name", ["nested", "many short ones", "real func", "serial", "widened", "block"])
def test_a_launch_that_is_long_for_the_first_time_is_interrupted(name, tmp_path):
    skip_blocks_under_sanitizers(name)
    program = LONG_LOOP.replace("{loop}", LONG_LOOPS[name])
    long = "    try:\n"
    assert long in program
    # One thread: nobody waits for another one meanwhile.
    program = program.replace('log_level="error"', 'log_level="error", cpu_max_num_threads=1')
    program = program.replace(long, f"{long}        [run(np.zeros(100, np.int32), 2, 1) for _ in range(3)]\n")
    (tmp_path / "program.py").write_text(program)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, str(tmp_path / "program.py")], capture_output=True, text=True, env=environment, timeout=60)
    assert (done.stdout, done.stderr) == ("interrupted 5\n" * 2, "")


HANDLERS = """
import signal
import quadrants as qd
qd.init(arch=qd.cpu, offline_cache=False, log_level="error", cpu_max_num_threads=1)

@qd.kernel
def count(m: qd.i32) -> qd.i32:
    n = 0
    while n != m:
        n = (n + 1) % 1000
    return n

def note(*_):
    handled.append(1)
    if len(handled) == 3:
        signal.setitimer(signal.ITIMER_REAL, 0)
        raise InterruptedError

handled = []
for _ in range(3):
    count(5)
signal.signal(signal.SIGALRM, note)
signal.setitimer(signal.ITIMER_REAL, 0.2, 0.1)
try:
    count(-1)
except InterruptedError:
    print(handled, count(7))
"""


def test_a_launch_goes_on_after_handlers_that_raise_nothing(tmp_path):
    (tmp_path / "program.py").write_text(HANDLERS)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, str(tmp_path / "program.py")], capture_output=True, text=True, env=environment, timeout=60)
    assert (done.stdout, done.stderr) == ("[1, 1, 1] 7\n", "")


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


def test_a_long_grid_without_a_signal_ends_with_its_result(compiler, driver):
    compiler.attach(five, HandMade(FIVE, results=[("i32", (), 0)], tasks=[Task("five", 1)]))
    for _ in range(3):
        assert five() == 5
    is_done = []
    driver.busy = 1 << 60

    def finish():
        is_done.append(True)
        driver.busy = 0

    timer = threading.Timer(0.4, finish)  # the watchdog has asked for a look at signals by then
    timer.start()
    assert five() == 5 and is_done
    timer.join()

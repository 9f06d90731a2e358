"""Updates are atomic between launches of several threads, though a launch that has the process to itself leaves the locks out."""

import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import quadrants as qd

SCRIPT = textwrap.dedent("""
    import sys, threading, time
    import numpy as np
    import quadrants as qd

    qd.init(arch=qd.cpu, cpu_max_num_threads=int(sys.argv[1]), offline_cache=False)
    LENGTH = 1 << 20

    @qd.kernel
    def add(x: qd.types.ndarray(), total: qd.types.ndarray(), rounds: qd.i32):
        for i in range(LENGTH):
            for k in range(rounds):
                total[x[i]] += 1.0
                qd.atomic_cas(total[7], 0.0, 0.0)

    x = np.arange(LENGTH, dtype=np.int32) % 3
    total = np.zeros(8)
    add(x, total, 1)
    add(x, total, 1)

    def later():
        time.sleep(0.05)  # in the midst of the launch of the main thread
        for _ in range(10):
            add(x, total, 5)

    thread = threading.Thread(target=later)
    thread.start()
    add(x, total, 50)
    thread.join()
    print(int(total.sum()) == LENGTH * (2 + 50 + 50), total[:3].tolist() == [np.count_nonzero(x == k) * 102 for k in range(3)])
""")


@pytest.mark.parametrize("threads", [1, 2])
def test_launches_of_two_threads_lose_no_update(threads, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = subprocess.run([sys.executable, script, str(threads)], capture_output=True, text=True, env={**os.environ}, check=False)
    assert done.stdout == "True True\n", done.stderr


SIGNAL = SCRIPT[: SCRIPT.index("def later")] + textwrap.dedent("""
    import signal

    signal.signal(signal.SIGALRM, lambda number, frame: add(x, total, 20))
    signal.setitimer(signal.ITIMER_REAL, 0.05)  # in the midst of the launch
    add(x, total, 50)
    print(int(total.sum()) == LENGTH * (2 + 50 + 20), total[:3].tolist() == [np.count_nonzero(x == k) * 72 for k in range(3)])
""")


@pytest.mark.parametrize("threads", [1, 2])
def test_launches_of_a_handler_of_signals_lose_no_update(threads, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SIGNAL)
    done = subprocess.run([sys.executable, script, str(threads)], capture_output=True, text=True, check=False, timeout=100)
    assert done.stdout == "True True\n", done.stderr


@pytest.mark.parametrize("dtype", [qd.i32, qd.u8, qd.f32, qd.f64, qd.f16], ids=str)
@pytest.mark.parametrize("length", [50, 100_000])
def test_old_values_are_those_of_an_order(dtype, length):
    """Short loops run on their caller alone, long ones on all threads."""
    qd.init(arch=qd.cpu, cpu_max_num_threads=2, offline_cache=False)
    cells = qd.field(dtype, shape=4)
    old = qd.field(dtype, shape=length)
    positions = qd.field(qd.i32, shape=length)
    positions.from_numpy((np.arange(length) * 7 % 4).astype(np.int32))
    many = 200 if dtype in (qd.u8, qd.f16) else length

    @qd.kernel
    def count():
        for i in old:
            if i < many:
                old[i] = qd.atomic_add(cells[positions[i]], 1)

    count()
    for cell in range(4):
        mine = old.to_numpy()[:many][positions.to_numpy()[:many] == cell]
        assert np.array_equal(np.sort(mine), np.arange(len(mine))) and cells[cell] == len(mine)

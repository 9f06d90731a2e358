"""Threads that wait in kernels: they give the processor away; and the number of threads where processors are few."""

import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import quadrants as qd

Flags = qd.types.ndarray(qd.i32, 1)


@qd.kernel
def wait(flags: Flags) -> qd.i32:
    qd.loop_config(serialize=True)
    for _ in range(1):
        while qd.volatile_load(flags[0]) == 0:
            pass
    return flags[1]


def test_a_thread_that_waits_long_sleeps_without_the_gil() -> None:
    qd.init(arch=qd.cpu)
    for _ in range(20):
        wait(np.ones(2, np.int32))  # launches of a kernel that has been short keep the GIL
    flags, used, results = np.zeros(2, np.int32), [], []

    def work() -> None:
        begin = time.thread_time()
        results.append(wait(flags))
        used.append(time.thread_time() - begin)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    time.sleep(0.5)
    flags[1] = 7
    flags[0] = 1
    thread.join(10)
    assert results == [7]
    assert used[0] < 0.25


SHOW = "import quadrants as qd; qd.init(arch=qd.cpu); print(qd._runtime.statistics()['threads'])"
SPLIT = "mkdir /sys/fs/cgroup/cpu && cd /sys/fs/cgroup/cpu && echo 100000 > cpu.cfs_period_us && "


@pytest.mark.parametrize(
    ("quota", "limit"),
    [
        ("echo 50000 100000 > /sys/fs/cgroup/cpu.max", 1),
        ("echo 150000 100000 > /sys/fs/cgroup/cpu.max", 2),
        ("echo max 100000 > /sys/fs/cgroup/cpu.max", None),
        (SPLIT + "echo 100000 > cpu.cfs_quota_us", 1),
        (SPLIT + "echo -1 > cpu.cfs_quota_us", None),
    ],
)
def test_a_quota_limits_the_threads(quota: str, limit: int | None) -> None:
    def run(*command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, capture_output=True, text=True, check=False)

    groups = ["unshare", "-rm", "sh", "-c"]
    if run(*groups, "mount -t tmpfs none /sys/fs/cgroup").returncode:
        pytest.skip("this system lets no process mount a folder of control groups")
    if quota.startswith(SPLIT) and not any("cpu" in line.split(":")[1].split(",") for line in Path("/proc/self/cgroup").open()):
        pytest.skip("this system has one hierarchy of control groups for all controllers")
    result = run(*groups, f'mount -t tmpfs none /sys/fs/cgroup && {quota} && cd / && exec "$0" -c "$1"', sys.executable, SHOW)
    every = int(run(sys.executable, "-c", SHOW).stdout)
    assert int(result.stdout) == min(every, limit or every), result.stderr

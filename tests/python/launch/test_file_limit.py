"""Kernels in processes that may make no files, not even in memory, or whose memory cannot become code after it was written."""

import os
import subprocess
import sys

import pytest

# prctl(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN), which services with MemoryDenyWriteExecute have.
NO_NEW_CODE = "__import__('ctypes').CDLL(None).prctl(65, 1, 0, 0, 0)"
LIMITS = {"files": "resource.setrlimit(resource.RLIMIT_FSIZE, (2048, 2048))", "code": f"assert {NO_NEW_CODE} == 0"}

PROGRAM = """
import resource
import numpy as np
import quadrants as qd
{limit}
qd.init(arch=qd.cpu, log_level="error", offline_cache_file_path={folder!r})

@qd.kernel
def work(x: qd.types.ndarray(dtype=qd.f32, ndim=1)) -> qd.f32:
    total = 0.0
    for i in x:
        x[i] = qd.sin(x[i]) + qd.exp(x[i]) * qd.random() * 0
        total += x[i]
    assert total < 1000
    return total

for k in range(3):
    x = np.zeros(100, np.float32)
    print(work(x))

kernels = []
for k in range(50):
    @qd.kernel
    def count(x: qd.types.ndarray(dtype=qd.f64, ndim=1)) -> qd.i32:
        n = 0
        for i in x:
            x[i] += k
            n += 1
        return n + k
    kernels.append(count)
print(sum(count(np.zeros(7)) for count in kernels))
del kernels
qd.reset()

pages = [line.split() for line in open("/proc/self/maps")]
print([line for line in pages if "w" in line[1] and "x" in line[1]])
"""


@pytest.mark.parametrize("limit", LIMITS)
def test_kernels_run_where_files_or_new_code_are_limited(tmp_path, limit):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    if limit == "code" and subprocess.run([sys.executable, "-c", f"raise SystemExit({NO_NEW_CODE} != 0)"], check=False).returncode:
        pytest.skip("this system cannot forbid new code")
    path = tmp_path / "program.py"
    path.write_text(PROGRAM.format(folder=str(tmp_path / "cache"), limit=LIMITS[limit]))
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, env=environment, timeout=100)
    assert done.stderr == ""
    assert done.stdout == f"0.0\n0.0\n0.0\n{50 * (7 + 49)}\n[]\n"

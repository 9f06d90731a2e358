"""Kernels where the process may make no files, not even in memory."""

import os
import subprocess
import sys

PROGRAM = """
import resource
import numpy as np
import quadrants as qd
resource.setrlimit(resource.RLIMIT_FSIZE, (2048, 2048))
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


def test_kernels_run_where_files_are_limited_to_a_few_bytes(tmp_path):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    path = tmp_path / "program.py"
    path.write_text(PROGRAM.format(folder=str(tmp_path / "cache")))
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, env=environment, timeout=100)
    assert done.stderr == ""
    assert done.stdout == f"0.0\n0.0\n0.0\n{50 * (7 + 49)}\n[]\n"

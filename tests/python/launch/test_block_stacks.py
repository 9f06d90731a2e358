"""Stacks of the threads of a block on the processor."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

LARGE_PAGES = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <unistd.h>

long sysconf(int name) {
  long (*real)(int) = (long (*)(int))dlsym(RTLD_NEXT, "sysconf");
  return name == _SC_PAGE_SIZE ? 65536 : real(name);
}
"""
PROGRAM = """
import quadrants as qd

qd.init(arch=qd.cpu, offline_cache=False, cpu_max_num_threads=1)
x = qd.field(qd.i32, shape=64)


@qd.kernel
def rotate():
    qd.loop_config(block_dim=64)
    for i in x:
        shared = qd.simt.block.SharedArray((64,), qd.i32)
        shared[(i + 1) % 64] = i
        qd.simt.block.sync()
        x[i] = shared[i]


for _ in range(3):  # the first launch may run on a thread of its own, which takes its stacks with it
    rotate()
assert x[0] == 63 and x[1] == 0
maps = []
for line in open("/proc/self/maps"):
    span, access = line.split()[:2]
    begin, end = (int(number, 16) for number in span.split("-"))
    maps.append((begin, end, access))
stacks = 0
for (begin, end, access), (next_begin, next_end, next_access) in zip(maps, maps[1:]):
    is_stack = access == "---p" and next_access == "rw-p" and next_begin == end and next_end - begin == 256 << 10
    stacks += is_stack and end - begin == 65536
print(stacks)
"""


@pytest.mark.skipif(shutil.which("clang-22") is None, reason="clang compiles what says that pages have 64 KiB")
def test_a_stack_ends_with_a_whole_page(tmp_path: Path) -> None:
    source, library = tmp_path / "pages.c", tmp_path / "pages.so"
    source.write_text(LARGE_PAGES)
    subprocess.run(["clang-22", "-shared", "-fPIC", source, "-o", library], check=True)
    variables = {**os.environ, "LD_PRELOAD": f"{os.environ.get('LD_PRELOAD', '')} {library}".strip()}  # behind a sanitizer
    (tmp_path / "program.py").write_text(PROGRAM)
    result = subprocess.run([sys.executable, tmp_path / "program.py"], capture_output=True, text=True, env=variables, timeout=120)
    assert result.returncode == 0 and int(result.stdout) >= 60, result.stdout + result.stderr

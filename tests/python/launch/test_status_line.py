"""The line on the terminal while a compile takes long."""

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import time
import quadrants as qd

qd.init(arch=qd.cpu, offline_cache=False, unrolling_limit=0, log_level={level!r})
x = qd.field(qd.f32, shape=4)

@qd.kernel
def work():
    qd.static(time.sleep({seconds}))
    for i in x:
        value = x[i]
        for k in qd.static(range({steps})):
            if value > k:
                value = value * 0.5 - k
            else:
                value += 1.0
        x[i] = value

work()
"""


def compile_on_terminal(folder: Path, seconds: float, steps: int, level: str = "info") -> str:
    """What a program writes on a terminal that is its stderr."""
    program = folder / "program.py"
    program.write_text(PROGRAM.format(seconds=seconds, steps=steps, level=level))
    ours, theirs = pty.openpty()
    process = subprocess.Popen([sys.executable, program], stderr=theirs)
    os.close(theirs)
    written = b""
    try:
        while part := os.read(ours, 4096):
            written += part
    except OSError:
        pass  # the other end is closed
    os.close(ours)
    assert process.wait() == 0, written
    return written.decode()


def test_long_compile_shows_kernel_stage_and_time_and_erases_them(tmp_path):
    *lines, blanks, end = compile_on_terminal(tmp_path, 1.1, steps=1500).removeprefix("\r").split("\r")
    assert lines[0].startswith("compiling work: frontend, 1.")
    assert all(re.fullmatch(r"compiling work: [a-zA-Z ]+, \d+\.\d s *", line) for line in lines)
    assert "compiling work: machine code, " in "".join(lines)
    assert (blanks, end) == (" " * len(lines[-1].rstrip()), "")


@pytest.mark.parametrize(("seconds", "steps", "level"), [(0, 1, "info"), (1.1, 500, "warn")])
def test_nothing_is_written_for_short_compiles_and_quiet_programs(tmp_path, seconds, steps, level):
    assert compile_on_terminal(tmp_path, seconds, steps, level) == ""


def test_nothing_is_written_where_stderr_is_no_terminal(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.format(seconds=1.1, steps=500, level="info"))
    done = subprocess.run([sys.executable, program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")

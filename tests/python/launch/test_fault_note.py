"""A line on stderr when the code of a kernel touches memory that is not there, before whoever handles the signal."""

import os
import signal
import subprocess
import sys

import pytest

PROGRAM = """
import ctypes, faulthandler, os, signal, sys, threading
import numpy as np
import quadrants as qd
{before}
qd.init(arch=qd.cpu, offline_cache=False, log_level="error")
{after}
@qd.kernel
def spoil(x: qd.types.ndarray(dtype=qd.i32, ndim=1), at: qd.i64):
    for i in range(1000):
        x[at + i] = 1

@qd.kernel
def spoil_in_order(x: qd.types.ndarray(dtype=qd.i32, ndim=1), at: qd.i64):
    x[at] = 1

spoil(np.zeros(1000, np.int32), 0)
spoil_in_order(np.zeros(1000, np.int32), 0)
{crash}
"""
pytestmark = pytest.mark.skipif("SANITIZED_BUILD" in os.environ, reason="sanitizers handle faults themselves")
NOTE = "quadrants: segmentation fault in the kernel {}: most likely an index outside of an array. Run with qd.init(debug=True), "
CRASHES = {
    "serial": ("spoil_in_order(np.zeros(9, np.int32), 2**44)", "spoil_in_order"),
    "parallel": ("spoil(np.zeros(9, np.int32), 2**44)", "spoil"),
    "thread": ("t = threading.Thread(target=lambda: spoil(np.zeros(9, np.int32), 2**44)); t.start(); t.join()", "spoil"),
}
HANDLERS = {
    "none": ("", ""),
    "faulthandler before": ("faulthandler.enable()", ""),
    "faulthandler after": ("", "faulthandler.enable()"),
    "second init": ("", "qd.init(arch=qd.cpu, offline_cache=False, log_level='error')"),
}


def run(before: str, after: str, crash: str) -> subprocess.CompletedProcess[str]:
    program = PROGRAM.format(before=before, after=after, crash=crash)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, timeout=60)


@pytest.mark.parametrize("handlers", HANDLERS)
@pytest.mark.parametrize("crash", ["serial", "parallel", "thread"])
def test_a_fault_in_a_kernel_is_told_of_once_and_handed_over(crash, handlers):
    text, kernel = CRASHES[crash]
    done = run(*HANDLERS[handlers], text)
    assert done.returncode == -signal.SIGSEGV
    assert done.stderr.count(NOTE.format(kernel)) == done.stderr.count("quadrants: ") == 1
    assert ("Fatal Python error" in done.stderr) == ("faulthandler" in handlers)


def test_a_fault_in_a_forked_child_is_told_of():
    crash = "child = os.fork()\nif not child:\n    spoil(np.zeros(9, np.int32), 2**44)\nprint(os.waitpid(child, 0)[1] & 0x7f)"
    done = run("", "", crash)
    assert (done.returncode, done.stdout) == (0, f"{int(signal.SIGSEGV)}\n") and done.stderr.count(NOTE.format("spoil")) == 1


@pytest.mark.parametrize("handlers", HANDLERS)
@pytest.mark.parametrize("crash", ["ctypes.string_at(0)", "os.kill(os.getpid(), signal.SIGSEGV)"])
def test_nothing_is_said_of_faults_elsewhere(crash, handlers):
    done = run(*HANDLERS[handlers], crash)
    assert done.returncode == -signal.SIGSEGV and "quadrants: " not in done.stderr
    assert ("Fatal Python error" in done.stderr) == ("faulthandler" in handlers)


def test_a_handler_of_the_program_gets_the_signal():
    done = run(
        "", "signal.signal(signal.SIGSEGV, lambda *_: os._exit(3))", "os.kill(os.getpid(), signal.SIGSEGV)\nimport time; time.sleep(5)"
    )
    assert (done.returncode, done.stderr) == (3, "")

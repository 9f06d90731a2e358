"""Running kernels: chunks and threads, failures, prints, interruption, fork."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from typing import Any

import numpy as np
import pytest
from hand_made import DYNAMIC, HandMade, Input

import quadrants as qd

# Counts every iteration up; 3 arguments: array, chunk size, greatest number of threads.
COUNT_ITERATIONS = """
static void task(QdKernelContext *c, int64_t begin, int64_t end, int64_t chunk) {
  const QdTensorArgument *x = (const QdTensorArgument *)c->arguments;
  for (int64_t i = begin; i < end; ++i)
    ((int64_t *)x->data)[i] += 1 + chunk;
}
void qd_kernel(QdKernelContext *c) {
  const QdTensorArgument *x = (const QdTensorArgument *)c->arguments;
  const int64_t *more = (const int64_t *)(c->arguments + 16);
  c->api->parallel_for(c, task, x->extents_and_strides[0], more[0], (int32_t)more[1]);
}
"""
# Spins for argument 0 nanoseconds in each of 1,000,000 chunks.
SPIN = """
#include <time.h>
static long now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1000000000L + t.tv_nsec; }
static void task(QdKernelContext *c, int64_t begin, int64_t end, int64_t chunk) {
  for (long until = now() + *(const int64_t *)c->arguments; now() < until;) {}
}
void qd_kernel(QdKernelContext *c) { c->api->parallel_for(c, task, ((const int64_t *)c->arguments)[1], 1, 0); }
"""


@qd.kernel
def count(x: qd.types.ndarray(dtype=qd.i64, ndim=1), chunk_size: qd.i64, threads: qd.i64) -> None:
    pass


@qd.kernel
def spin(nanoseconds: qd.i64, chunks: qd.i64) -> None:
    pass


@pytest.fixture
def running(compiler: Any) -> Any:
    array = Input((0,), 0, "i64", extents=(DYNAMIC,), component_stride=8)
    compiler.attach(count, HandMade(COUNT_ITERATIONS, [array, Input((1,), 16, "i64"), Input((2,), 24, "i64")]))
    compiler.attach(spin, HandMade(SPIN, [Input((0,), 0, "i64"), Input((1,), 8, "i64")]))
    return compiler


@pytest.mark.parametrize("threads", [1, 2, 7])
def test_every_iteration_runs_once_in_chunks_of_the_problem(running: Any, threads: int) -> None:
    qd.init(offline_cache=False, cpu_max_num_threads=threads)
    expected = 1 + np.arange(10_007) // 100
    for limit in (0, 1, 3):
        for _ in range(20):
            array = np.zeros(10_007, np.int64)
            count(array, 100, limit)
            assert np.array_equal(array, expected)


def test_threads_keep_the_processors_of_the_process(running: Any) -> None:
    qd.init(offline_cache=False, cpu_max_num_threads=7)
    array = np.zeros(10_007, np.int64)
    for _ in range(50):
        count(array, 100, 0)
        time.sleep(0.001)  # the threads sleep and are woken beside this one, whose processor they leave
    assert all(os.sched_getaffinity(int(thread)) == os.sched_getaffinity(0) for thread in os.listdir("/proc/self/task"))


def test_loops_of_several_python_threads_run_at_once(running: Any) -> None:
    qd.init(offline_cache=False, cpu_max_num_threads=3)
    wrong = []

    def work() -> None:
        for size in range(1, 300):
            array = np.zeros(size * 7, np.int64)
            count(array, 16, 0)
            if not np.array_equal(array, 1 + np.arange(size * 7) // 16):
                wrong.append(size)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_other_python_threads_run_during_a_long_kernel(running: Any) -> None:
    spin(1, 1)
    spin(1, 1)  # short launches keep the lock
    ticks = 0
    stop = threading.Event()

    def tick() -> None:
        nonlocal ticks
        while not stop.wait(0.001):
            ticks += 1

    thread = threading.Thread(target=tick)
    thread.start()
    spin(1_000_000, 400)
    counted = ticks
    stop.set()
    thread.join()
    assert counted >= 3


def test_interrupt_ends_a_long_kernel_and_the_next_launch_works(running: Any) -> None:
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        spin(1_000_000, 100_000)
    assert time.monotonic() - began < 5
    array = np.zeros(100, np.int64)
    count(array, 10, 0)
    assert array.sum() == (1 + np.arange(100) // 10).sum()


def test_interrupt_ends_a_serial_kernel_that_looks_for_it(compiler: Any) -> None:
    @qd.kernel
    def forever() -> None:
        pass

    compiler.attach(forever, HandMade("void qd_kernel(QdKernelContext *c) { while (!c->failed) {} }"))
    for _ in range(2):
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        began = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            forever()
        assert time.monotonic() - began < 5


def test_reset_during_a_long_kernel_leaves_its_memory_alone(running: Any) -> None:
    array = qd.ndarray(qd.i64, (1 << 16,))
    view = array.view()
    source = SPIN.replace("void qd_kernel", "static void spin_first") + (
        "void qd_kernel(QdKernelContext *c) { spin_first(c); **(int64_t **)(c->arguments + 16) = 5; }"
    )

    @qd.kernel
    def slow(nanoseconds: qd.i64, chunks: qd.i64, x: qd.types.ndarray(dtype=qd.i64, ndim=1)) -> None:
        pass

    inputs = [Input((0,), 0, "i64"), Input((1,), 8, "i64"), Input((2,), 16, "i64", extents=(DYNAMIC,), component_stride=8)]
    running.attach(slow, HandMade(source, inputs))
    slow(1, 1, array)
    view[0] = 0
    thread = threading.Thread(target=slow, args=(1_000_000, 400, array))
    thread.start()
    time.sleep(0.1)
    qd.reset()
    del array
    thread.join()
    assert view[0] == 5


def test_failed_check_raises_with_its_operands_and_the_next_launch_works(compiler: Any) -> None:
    @qd.kernel
    def check(x: qd.i32) -> None:
        pass

    source = """
    void qd_kernel(QdKernelContext *c) {
      int32_t x = *(const int32_t *)c->arguments;
      uint64_t values[2] = {(uint64_t)(int64_t)x, 0};
      double half = x / 2.0;
      __builtin_memcpy(&values[1], &half, 8);
      if (x > 3) c->api->fail(c, 0, values);
    }"""
    site = ("assert", ["x = ", ("", "i32", ()), ", half ", (".2f", "f64", ())], [(__file__, "check", 1, 0, 1, 3)])
    compiler.attach(check, HandMade(source, [Input((0,), 0, "i32")], sites=[site]))
    check(3)
    with pytest.raises(qd.QuadrantsAssertionError, match=r"x = 5, half 2\.50") as caught:
        check(5)
    assert isinstance(caught.value, AssertionError)
    assert caught.value.line == 1  # type: ignore[attr-defined]
    check(1)


def test_first_failure_of_all_threads_wins(compiler: Any) -> None:
    @qd.kernel
    def fail_everywhere() -> None:
        pass

    source = """
    static void task(QdKernelContext *c, int64_t begin, int64_t end, int64_t chunk) {
      uint64_t values[1] = {(uint64_t)chunk};
      c->api->fail(c, 0, values);
    }
    void qd_kernel(QdKernelContext *c) { c->api->parallel_for(c, task, 1000, 1, 0); }"""
    compiler.attach(fail_everywhere, HandMade(source, sites=[("assert", ["chunk ", ("", "i64", ())], [])]))
    for _ in range(50):
        with pytest.raises(qd.QuadrantsAssertionError, match=r"chunk \d+"):
            fail_everywhere()


@pytest.mark.parametrize(
    ("spec", "scalar", "value", "expected"),
    [
        ("", "f32", 1.5, "1.500000"),
        ("", "i32", -3, "-3"),
        ("", "u64", 2**64 - 1, "18446744073709551615"),
        ("", "u1", 1, "1"),
        (".3f", "f64", 2.0, "2.000"),
        ("8.2e", "f64", 12345.678, "1.23e+04"),
        ("05d", "i32", -42, "-0042"),
        ("<6", "i32", 42, "42    "),
        (">8", "i32", 42, "      42"),
        ("*^7", "i32", 42, "**42***"),
        (",", "i64", -1234567, "-1,234,567"),
        ("x", "i32", -1, "ffffffff"),
        ("#x", "u8", 255, "0xff"),
        ("b", "u8", 5, "101"),
        ("+d", "i32", 5, "+5"),
        (".2f", "i32", 3, "3.00"),
        ("g", "f64", float("inf"), "inf"),
        ("", "f64", float("nan"), "nan"),
    ],
)
def test_prints_with_the_format_that_was_asked_for(
    compiler: Any, capsys: pytest.CaptureFixture[str], spec: str, scalar: str, value: Any, expected: str
) -> None:
    wide = "f64" if scalar.startswith("f") else ("u64" if scalar in ("u64", "u1", "u8") else "i64")

    @qd.kernel
    def show(x: getattr(qd, wide)) -> None:
        pass

    source = "void qd_kernel(QdKernelContext *c) { c->api->print(c, 0, (const uint64_t *)c->arguments); }"
    site = ("print", ["<", (spec, scalar, ()), ">\n"], [])
    compiler.attach(show, HandMade(source, [Input((0,), 0, wide)], sites=[site], has_print=True))
    show(value)
    assert capsys.readouterr().out == f"<{expected}>\n"


def test_text_of_one_print_is_never_torn(compiler: Any, capsys: pytest.CaptureFixture[str]) -> None:
    qd.init(offline_cache=False, cpu_max_num_threads=4)

    @qd.kernel
    def show() -> None:
        pass

    source = """
    static void task(QdKernelContext *c, int64_t begin, int64_t end, int64_t chunk) {
      uint64_t values[2] = {(uint64_t)chunk, (uint64_t)chunk};
      c->api->print(c, 0, values);
    }
    void qd_kernel(QdKernelContext *c) { c->api->parallel_for(c, task, 500, 1, 0); }"""
    pieces = [("", "i64", ()), " and ", ("", "i64", ()), "\n"]
    compiler.attach(show, HandMade(source, sites=[("print", pieces, [])], has_print=True))
    show()
    assert sorted(capsys.readouterr().out.splitlines()) == sorted(f"{i} and {i}" for i in range(500))


def test_temporaries_are_zeroed_and_a_huge_one_is_a_memory_error(compiler: Any) -> None:
    @qd.kernel
    def use(size: qd.i64) -> qd.i64:
        return 0

    source = """
    void qd_kernel(QdKernelContext *c) {
      int64_t size = *(const int64_t *)c->arguments;
      unsigned char *block = c->api->allocate_temporary(c, size);
      if (!block) return;
      int64_t sum = (int64_t)(uintptr_t)block % 64;
      for (int64_t i = 0; i < size; ++i) { sum += block[i]; block[i] = 1; }
      *(int64_t *)c->result = sum;
    }"""
    compiler.attach(use, HandMade(source, [Input((0,), 0, "i64")], results=[("i64", (), 0)]))
    for _ in range(5):
        assert use(10_000) == 0
    with pytest.raises(MemoryError, match="use|hand_made"):
        use(1 << 60)
    assert use(10_000) == 0


def test_forked_child_runs_kernels(running: Any) -> None:
    qd.init(offline_cache=False, cpu_max_num_threads=4)
    array = np.zeros(1000, np.int64)
    count(array, 10, 0)
    child = os.fork()
    if child == 0:
        array[:] = 0
        count(array, 10, 0)
        os._exit(0 if np.array_equal(array, 1 + np.arange(1000) // 10) else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_process_ends_while_daemon_threads_launch(running: Any, library_folder: Any) -> None:
    program = f"""
import sys, threading, time
sys.path[:0] = {[os.path.dirname(__file__)]!r}
import hand_made
from pathlib import Path
import quadrants as qd
from quadrants._session import prepare as _prepare
folder = Path({str(library_folder)!r})
made = hand_made.HandMade({SPIN!r}, [hand_made.Input((0,), 0, "i64"), hand_made.Input((1,), 8, "i64")])
library = hand_made.build_library(made.source, folder / "daemon")
_prepare.compile_kernel = lambda kernel, arguments: (hand_made.serialize(made, library), [])
qd.init(offline_cache=False, log_level="error")

@qd.kernel
def spin(nanoseconds: qd.i64, chunks: qd.i64) -> None:
    pass

class Slow:
    def __del__(self):
        time.sleep(0.05)

def loop():
    while True:
        spin(100_000, 10)

spin(1, 1)
keep = Slow()
threading.Thread(target=loop, daemon=True).start()
time.sleep(0.05)
"""
    (library_folder / "daemon").mkdir(exist_ok=True)
    for _ in range(5):
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")


def test_calls_without_a_runtime_say_so(running: Any) -> None:
    qd.reset()
    with pytest.raises(qd.QuadrantsRuntimeError, match=r"qd\.init\(\)"):
        spin(1, 1)

"""`qd.perf_dispatch`."""

import os
import subprocess
import sys
import time

import pytest

import quadrants as qd


@pytest.fixture(autouse=True)
def runtime():
    qd.init(arch=qd.cpu, offline_cache=False, log_level="error")
    yield
    qd.reset()


def make_pair(calls, seconds=(0.04, 0.0), **schedule):  # longer than a busy machine keeps a process waiting
    @qd.perf_dispatch(get_geometry_hash=lambda x: x, **schedule)
    def work(x): ...

    @work.register
    def slow(x):
        calls.append("slow")
        time.sleep(seconds[0])
        return x + 1

    @work.register
    def fast(x):
        calls.append("fast")
        time.sleep(seconds[1])
        return x + 1

    return work


def test_each_serves_warm_up_and_timed_calls_in_turn_then_the_fastest():
    calls = []
    work = make_pair(calls)
    assert [work(3) for _ in range(8)] == [4] * 8
    assert calls == ["fast", "slow", "fast", "slow", "fast", "fast", "fast", "fast"]


def test_another_geometry_is_measured_afresh():
    calls = []
    work = make_pair(calls)
    for x in (1, 1, 1, 1, 2):
        work(x)
    assert calls == ["fast", "slow", "fast", "slow", "fast"]
    calls.clear()
    for x in (2, 2, 2, 1, 2):
        work(x)
    assert calls == ["slow", "fast", "slow", "fast", "fast"]


def test_measured_again_after_a_number_of_calls():
    calls = []
    work = make_pair(calls, repeat_after_count=3)
    for _ in range(9):
        work(1)
    assert calls == ["fast", "slow", "fast", "slow", "fast", "fast", "fast", "slow", "fast"]


def test_measured_again_after_some_time():
    calls = []
    work = make_pair(calls, repeat_after_seconds=1e-9, first_warmup=0)
    for _ in range(4):
        work(1)
    assert calls == ["fast", "slow", "fast", "slow"]


def test_only_compatible_implementations_are_called():
    @qd.perf_dispatch(get_geometry_hash=lambda x: 0)
    def work(x): ...

    @work.register(is_compatible=lambda x: x > 0)
    def positive(x):
        return "positive"

    assert work(1) == "positive"
    assert positive(-5) == "positive"
    with pytest.raises(qd.QuadrantsRuntimeError, match=r"No suitable functions were found\."):
        work(-1)


def test_kernels_as_implementations_and_as_methods():
    class Solver:
        @qd.perf_dispatch(get_geometry_hash=lambda self, out: 0)
        def solve(self, out): ...

        @solve.register
        def first(self, out):
            fill(out, 1.0)

        @solve.register
        def second(self, out):
            fill(out, 1.0)

    @qd.kernel
    def fill(out: qd.types.ndarray(), value: qd.f32):
        for i in out:
            out[i] += value

    out = qd.ndarray(qd.f32, 3)
    for _ in range(5):
        Solver().solve(out)
    assert list(out.to_numpy()) == [5.0] * 3


def test_parameters_must_be_those_of_the_prototype():
    @qd.perf_dispatch(get_geometry_hash=lambda x: 0)
    def work(x): ...

    with pytest.raises(qd.QuadrantsSyntaxError, match="PERFDISPATCH_ANNOTATION_SEQUENCE_MISMATCH"):

        @work.register
        def other(y): ...

    with pytest.raises(qd.QuadrantsSyntaxError, match="PERFDISPATCH_ANNOTATION_SEQUENCE_MISMATCH"):

        @work.register
        def longer(x, y): ...


def test_a_kernel_decorator_belongs_below_register():
    @qd.perf_dispatch(get_geometry_hash=lambda x: 0)
    def work(x): ...

    with pytest.raises(qd.QuadrantsSyntaxError, match="KERNEL_ANNOTATION_ORDER"):

        @qd.kernel
        @work.register
        def other(x: qd.i32): ...


PROGRAM = """
import quadrants as qd
@qd.perf_dispatch(get_geometry_hash=lambda: 0)
def work(): ...
@work.register
def one(): return 1
@work.register
def two(): return 2
qd.init(arch=qd.cpu)
print([work() for _ in range(5)])
"""


def run_program(**variables):
    command = [sys.executable, "-c", PROGRAM]
    return subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True)


def test_a_choice_by_hand():
    output = run_program(QD_PERFDISPATCH_FORCE="work:one,unrelated:x").stdout
    assert "perf_dispatch 'work': available implementations: ['one', 'two']" in output
    assert "forced to 'one'" in output
    assert "[1, 1, 1, 1, 1]" in output


def test_a_choice_that_does_not_exist_is_told_and_measured():
    output = run_program(QD_PERFDISPATCH_FORCE="work:three").stdout
    assert "warning: 'three' is not among them" in output
    assert "[2, 1, 2, 1, " in output


def test_a_question_mark_lists_the_names():
    assert "available implementations: ['one', 'two']" in run_program(QD_PERFDISPATCH_FORCE="?").stdout


def test_a_malformed_choice():
    assert "ValueError: Malformed" in run_program(QD_PERFDISPATCH_FORCE="one").stderr


def test_choices_are_printed_when_asked():
    output = run_program(QD_PERFDISPATCH_PRINT_DEBUG="1").stdout
    assert "perf_dispatch 'work': registered 'one'" in output
    assert "out of 2 registered functions." in output

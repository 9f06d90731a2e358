"""`qd.perf_dispatch`."""

import os
import subprocess
import sys
import time

import numpy as np
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

    with pytest.raises(qd.QuadrantsSyntaxError, match=r"\(error code: KERNEL_ANNOTATION_ORDER\)"):

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


def make_verified(second, calls=None, **schedule):
    @qd.perf_dispatch(get_geometry_hash=lambda body, out, n: n, verify=True, **schedule)
    def work(body, out, n): ...

    @work.register
    def first(body, out, n):
        for i in range(n):
            out[i] += body.scale * (i + 1)
        body.total[None] += 0.1
        return n + 0.5

    @work.register
    def other(body, out, n):
        if calls is not None:
            calls.append(n)
        return second(body, out, n)

    return work, first


@qd.data_oriented
class Body:
    def __init__(self):
        self.scale, self.total, self.itself = 2.0, qd.field(qd.f32, shape=()), self


def test_verified_implementations_serve_like_one():
    calls = []
    work, first = make_verified(lambda *arguments: first(*arguments), calls)
    body, out = Body(), qd.ndarray(qd.f32, 3)
    for step in range(1, 6):
        assert work(body, out, 3) == 3.5
        assert out.to_numpy().tolist() == [2.0 * step, 4.0 * step, 6.0 * step]
    assert body.total[None] == pytest.approx(0.5)
    assert calls[:2] == [3, 3]  # the first call runs both, and the second one serves
    host = np.zeros(2, np.float32)
    work(body, host, 2)
    assert host.tolist() == [2.0, 4.0]


def differ(change):
    def second(body, out, n):
        first(body, out, n)
        return change(body, out, n)

    work, first = make_verified(second)
    with pytest.raises(qd.QuadrantsRuntimeError) as error:
        work(Body(), qd.ndarray(qd.f32, 3), 3)
    return str(error.value)


def test_verification_names_the_first_difference():
    def element(body, out, n):
        out[1] = 5.0
        return n + 0.5

    def member(body, out, n):
        body.total[None] = 7.0
        return n + 0.5

    def missing(body, out, n):
        out[2] = float("nan")
        return n + 0.5

    assert "perf_dispatch 'work': 'other' and 'first' differ: out[1] is 5.0, not 4.0" in differ(element)
    assert "body.total is 7.0, not 0.1" in differ(member)
    assert "out[2] is nan, not 6.0" in differ(missing)
    assert "the result is 4, not 3.5" in differ(lambda body, out, n: n + 1)


def test_verification_ignores_rounding():
    def close(body, out, n):
        out[2] *= 1 + 1e-6
        return n + 0.5 + 1e-12

    def second(*arguments):
        first(*arguments)
        return close(*arguments)

    work, first = make_verified(second)
    work(Body(), qd.ndarray(qd.f32, 3), 3)


def test_nothing_is_measured_under_a_tape_or_in_a_capture():
    calls = []
    loss = qd.field(qd.f32, shape=(), needs_grad=True)

    @qd.kernel
    def add():
        loss[None] += 1.0

    @qd.perf_dispatch(get_geometry_hash=lambda: 0)
    def work(): ...

    @work.register
    def slow():
        calls.append("slow")
        time.sleep(0.04)
        add()

    @work.register
    def fast():
        calls.append("fast")
        add()

    for _ in range(3):
        with qd.ad.Tape(loss):
            work()
    with qd.graph.capture() as graph:
        work()
    assert calls == ["fast"] * 4
    for _ in range(5):
        work()
    with qd.ad.Tape(loss):
        work()
    assert calls[4:] == ["fast", "slow", "fast", "slow", "fast", "fast"]
    before = loss[None]
    graph()
    assert loss[None] == before + 1


def test_decisions_are_stored_for_later_processes(tmp_path):
    program = PROGRAM.replace("lambda: 0", "lambda: (3, 'a'), persist=True").replace(
        "qd.init(arch=qd.cpu)", f"qd.init(arch=qd.cpu, offline_cache=True, offline_cache_file_path={str(tmp_path)!r})"
    )
    program = program.replace("def two(): return 2", "def two():\n    import time; time.sleep(0.02); return 2")

    def run(text):
        return subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True).stdout

    assert run(program) == "[2, 1, 2, 1, 1]\n"
    assert run(program) == "[1, 1, 1, 1, 1]\n"
    assert run(program.replace("(3, 'a')", "(4, 'a')")) == "[2, 1, 2, 1, 1]\n"
    assert run(program.replace("offline_cache=True", "offline_cache=False")) == "[2, 1, 2, 1, 1]\n"

"""Kernels on `arch=qd.python` run under Python's own tools, and say what the compiler says."""

import sys
import types

import pytest

import quadrants as qd

pytestmark = pytest.mark.usefixtures("interpreter")


@qd.func
def twice(x):
    y = x * 2
    return y


@qd.kernel
def work(n: qd.i32) -> qd.i32:
    s = 0
    for i in range(n):
        s += twice(i)
    return s


FIRST = work.__wrapped__.__code__.co_firstlineno


def test_tracing_sees_the_lines_of_kernels_and_funcs():
    lines = set()

    def trace(frame, event, argument):
        if frame.f_code.co_filename == __file__ and event == "line":
            lines.add((frame.f_code.co_name, frame.f_lineno))
        return trace

    old = sys.gettrace()
    sys.settrace(trace)
    try:
        assert work(3) == 6
    finally:
        sys.settrace(old)
    assert {("work", FIRST + k) for k in (2, 3, 4, 5)} <= lines
    assert {name for name, _ in lines} >= {"work", "twice"}


def test_breakpoint_stops_in_the_kernel_with_its_variables(monkeypatch):
    seen = []

    def stop(*_, **__):
        frame = sys._getframe(1)
        seen.append((frame.f_code.co_name, frame.f_locals["s"].item(), frame.f_locals["n"].item()))

    monkeypatch.setattr(sys, "breakpointhook", stop)

    @qd.kernel
    def stopping(n: qd.i32):
        s = n * 2
        breakpoint()

    stopping(4)
    assert seen == [("stopping", 8, 4)]


def test_other_debuggers_stop_in_the_kernel(monkeypatch):
    seen = []
    ipdb = types.ModuleType("ipdb")
    ipdb.set_trace = lambda: seen.append(sys._getframe(1).f_locals["y"].item())
    ipdb.set_trace.__module__ = "ipdb.__main__"

    @qd.kernel
    def looking(x: qd.i32):
        y = x + 1
        ipdb.set_trace()

    looking(1)
    assert seen == [2]


def test_variables_are_numpy_scalars_of_their_type(monkeypatch):
    seen = []
    monkeypatch.setattr(sys, "breakpointhook", lambda: seen.append(type(sys._getframe(1).f_locals["y"]).__name__))

    @qd.kernel
    def looking(x: qd.f16):
        y = qd.f16(x + 1)
        breakpoint()
        x + y

    looking(1.5)
    assert seen == ["float16"]


def test_an_exception_of_python_code_arrives_unchanged():
    def fail(x):
        raise LookupError("from the user's function")

    @qd.kernel
    def failing():
        fail(1)

    with pytest.raises(LookupError, match="from the user's function"):
        failing()
    assert work(2) == 2


def test_torch_is_not_needed(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    assert work(3) == 6


def test_random_numbers_follow_the_seed():
    @qd.kernel
    def draw() -> qd.f32:
        return qd.random()

    first = []
    for seed in (1, 1, 2):
        qd.init(arch=qd.python, random_seed=seed)
        first.append(draw())
    assert first[0] == first[1] != first[2]


def test_recursion_of_real_funcs_is_deep():
    @qd.real_func
    def count(n: qd.i32) -> qd.i32:
        if n == 0:
            return 0
        return count(n - 1) + 1

    @qd.kernel
    def deep(n: qd.i32) -> qd.i32:
        return count(n)

    assert deep(1000) == 1000


FACTOR: object = 2


def test_mistakes_are_those_of_the_compiler():
    messages = []
    for arch in (qd.cpu, qd.python):
        qd.init(arch=arch, log_level="error", offline_cache=False)

        @qd.kernel
        def wrong(n: qd.i32) -> qd.i32:
            n += 1
            return missing + n  # noqa: F821

        with pytest.raises(qd.QuadrantsCompilationError) as caught:
            wrong(1)
        messages.append((type(caught.value), str(caught.value), caught.value.code))
    assert messages[0] == messages[1]


def test_a_mistake_is_raised_by_each_call():
    @qd.kernel
    def wrong() -> qd.i32:
        return missing  # noqa: F821

    for _ in range(2):
        with pytest.raises(qd.QuadrantsNameError, match="missing"):
            wrong()


def test_a_captured_value_that_changed_is_looked_at_again(monkeypatch):
    @qd.kernel
    def scaled(n: qd.i32) -> qd.i32:
        return n * FACTOR

    assert scaled(3) == 6
    monkeypatch.setitem(globals(), "FACTOR", "two")
    with pytest.raises(qd.QuadrantsCompilationError, match=r"return n \* FACTOR"):
        scaled(3)


def test_breakpoints_in_python_functions_stop_in_the_run_alone(monkeypatch):
    seen = []
    monkeypatch.setattr(sys, "breakpointhook", lambda: seen.append(sys._getframe(1).f_code.co_name))

    def find_size():
        breakpoint()
        return 3

    @qd.kernel
    def work_on() -> qd.i32:
        return find_size()

    assert work_on() == 3
    assert seen == ["find_size"]


def test_what_needs_blocks_of_threads_is_refused_by_name():
    @qd.kernel
    def meet():
        qd.loop_config(block_dim=32)
        for _ in range(32):
            qd.simt.block.sync()

    with pytest.raises(qd.QuadrantsSyntaxError, match="qd.simt.block.sync is not supported by arch=qd.python"):
        meet()

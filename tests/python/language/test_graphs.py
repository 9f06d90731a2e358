"""Loops over whole tasks, `while qd.graph.do_while(flag)`."""

import numpy as np
import pytest

import quadrants as qd

pytestmark = pytest.mark.usefixtures("on_every_backend")


def make_flag(value: int) -> qd.ScalarNdarray:
    flag = qd.ndarray(qd.i32, shape=())
    flag[()] = value
    return flag


@qd.kernel(graph=True)
def count_down(x: qd.types.ndarray(), flag: qd.types.ndarray(qd.i32, ndim=0)):
    while qd.graph.do_while(flag):
        for i in range(x.shape[0]):
            x[i] += i
        for _ in range(1):
            flag[()] -= 1


@pytest.mark.parametrize("rounds", [1, 2, 7])
def test_body_runs_until_the_flag_is_zero(rounds):
    x = np.zeros(300, np.int32)
    count_down(x, make_flag(rounds))
    np.testing.assert_array_equal(x, rounds * np.arange(300))


def test_body_runs_once_when_the_flag_is_zero_at_the_start():
    @qd.kernel(graph=True)
    def once(x: qd.types.ndarray(), flag: qd.types.ndarray(qd.i32, ndim=0)):
        while qd.graph.do_while(flag):
            for i in range(x.shape[0]):
                x[i] += 1

    x = np.zeros(4, np.int32)
    once(x, make_flag(0))
    assert x.tolist() == [1, 1, 1, 1]


def test_rounds_are_limited_in_debug_mode(on_every_backend):
    on_every_backend(debug=True, graph_max_iterations=5)
    x = np.zeros(4, np.int32)
    count_down(x, make_flag(5))
    assert x[1] == 5
    with pytest.raises(qd.QuadrantsAssertionError, match=r"do_while\(\) has run 5 rounds"):
        count_down(x, make_flag(6))
    count_down(x, make_flag(2))


def test_another_flag_array_is_taken_without_compiling_again():
    x, first, second = np.zeros(4, np.int32), make_flag(2), make_flag(3)
    count_down(x, first)
    count = count_down.specialization_count
    count_down(x, second)
    assert (x[1], first[()], second[()], count_down.specialization_count) == (5, 0, 0, count)


def test_loops_nest_and_follow_each_other():
    @qd.kernel(graph=True)
    def work(log: qd.types.ndarray(), outer: qd.types.ndarray(qd.i32, ndim=0), inner: qd.types.ndarray(qd.i32, ndim=0)):
        log[0] += 1
        while qd.graph.do_while(outer):
            log[1] += 1
            inner[()] = 3
            while qd.graph.do_while(inner):
                for i in range(2, 4):
                    log[i] += 1
                inner[()] -= 1
            while qd.graph.do_while(inner):
                log[4] += 1
            outer[()] -= 1
        log[5] += 1

    log = np.zeros(6, np.int32)
    work(log, make_flag(2), make_flag(0))
    assert log.tolist() == [1, 2, 6, 6, 2, 1]


def test_variables_keep_their_values_from_round_to_round():
    @qd.kernel(graph=True)
    def work(x: qd.types.ndarray(), flag: qd.types.ndarray(qd.i32, ndim=0)) -> qd.i32:
        step, scale = 0, x[0] + 2
        while qd.graph.do_while(flag):
            step += 1
            total = 0
            for i in range(x.shape[0]):
                x[i] += step * scale
                total += 1
            step += total
            flag[()] -= 1
        return step

    x = np.zeros(5, np.int32)
    assert work(x, make_flag(3)) == 18
    assert x.tolist() == [2 * (1 + 7 + 13)] * 5


def test_funcs_and_aliases_hold_loops():
    repeat = qd.graph.do_while

    @qd.func
    def add_until_done(x: qd.template(), flag: qd.template()):
        while repeat(flag):
            for i in range(x.shape[0]):
                x[i] += 1
            flag[()] -= 1

    @qd.kernel(graph=True)
    def work(x: qd.types.ndarray(), flag: qd.types.ndarray(qd.i32, ndim=0)):
        add_until_done(x, flag)
        x[0] = -x[0]

    x = np.zeros(3, np.int32)
    work(x, make_flag(4))
    assert x.tolist() == [-4, 4, 4]


def test_flag_is_a_member_of_an_object_or_a_field():
    @qd.data_oriented
    class Counter:
        def __init__(self):
            self.flag, self.x = make_flag(3), qd.field(qd.i32, shape=4)
            self.left = qd.field(qd.i32, shape=())

        @qd.kernel(graph=True)
        def work(self):
            self.left[None] = 2
            while qd.graph.do_while(self.flag):
                for i in self.x:
                    self.x[i] += 1
                self.flag[()] -= 1
            while qd.graph.do_while(self.left):
                for i in self.x:
                    self.x[i] += 10
                self.left[None] -= 1

    counter = Counter()
    counter.work()
    assert counter.x.to_numpy().tolist() == [23] * 4


def test_reductions_begin_anew_in_each_round():
    @qd.kernel(graph=True)
    def work(x: qd.types.ndarray(), total: qd.types.ndarray(), flag: qd.types.ndarray(qd.i32, ndim=0)):
        while qd.graph.do_while(flag):
            for i in range(x.shape[0]):
                total[0] += x[i]
            flag[()] -= 1

    total = np.zeros(1, np.int64)
    work(np.ones(20000, np.int64), total, make_flag(50))
    assert total[0] == 50 * 20000


def misuse(body, *arguments, graph=True, parameters="x: qd.types.ndarray(), flag: qd.types.ndarray()"):
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    kernel = qd.kernel_from_source(f"@qd.kernel(graph={graph})\ndef k({parameters}):\n{lines}")
    kernel(*(arguments or (np.zeros(3, np.int32), make_flag(0))))


@pytest.mark.parametrize(
    ("body", "graph", "error", "text"),
    [
        ("while qd.graph.do_while(flag):\n    x[0] = 1", False, qd.QuadrantsSyntaxError, "requires @qd.kernel\\(graph=True\\)"),
        ("while qd.graph.do_while(x[0]):\n    x[0] = 0", True, qd.QuadrantsSyntaxError, "does not resolve to an ndarray kernel parameter"),
        ("while qd.graph.do_while(x):\n    x[0] = 0", True, qd.QuadrantsTypeError, "the flag is a 0-d array of integers"),
        (
            "for i in range(3):\n    while qd.graph.do_while(flag):\n        x[i] = 0",
            True,
            qd.QuadrantsSyntaxError,
            "must be at the kernel top level",
        ),
        (
            "if x[0] == 0:\n    while qd.graph.do_while(flag):\n        x[0] = 0",
            True,
            qd.QuadrantsSyntaxError,
            "must be at the kernel top level",
        ),
    ],
)
def test_misuse_is_refused(body, graph, error, text):
    with pytest.raises(error, match=text):
        misuse(body, graph=graph)


def test_old_spellings_work_and_say_that_they_are_old():
    with pytest.warns(DeprecationWarning, match="gpu_graph"):

        @qd.kernel(gpu_graph=True)
        def work(x: qd.types.ndarray(), flag: qd.types.ndarray()):
            while qd.graph_do_while(flag):
                x[0] += 1
                flag[()] -= 1

    x = np.zeros(1, np.int32)
    with pytest.warns(DeprecationWarning, match=r"use qd.graph.do_while\(\) instead"):
        work(x, make_flag(2))
    assert x[0] == 2


def test_compiled_gradients_of_repeated_tasks_are_refused():
    qd.init(arch=qd.cpu, offline_cache=False, log_level="error")
    x = qd.field(qd.f32, shape=2, needs_grad=True)
    flag = make_flag(0)

    @qd.kernel(graph=True)
    def work(flag: qd.types.ndarray(qd.i32, ndim=0)):
        while qd.graph.do_while(flag):
            for i in x:
                x[i] = 2 * x[i]

    with pytest.raises(qd.QuadrantsCompilationError, match="not known any more when gradients are computed"):
        work.grad(flag)

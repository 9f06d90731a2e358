"""Launches of several kernels as one graph, on a stand-in for NVIDIA's driver."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hand_made import DYNAMIC, HandMade, Input, Task

import quadrants as qd
from quadrants import _runtime  # type: ignore[attr-defined]

# A task does what the number says: sums are not commutative here, so the order of the launches shows.
CODE = """
typedef struct { uint8_t again, unused[7]; int64_t left; } Scratch;
#define TASK(name) void name(const QdGpuLaunch *launch, unsigned blocks, unsigned threads, unsigned shared)
#define X ((int64_t *)((const QdTensorArgument *)(launch + 1))->data)
#define NUMBER *(const int64_t *)((const unsigned char *)(launch + 1) + 16)
#define SCRATCH ((Scratch *)launch->scratch)
TASK(append) { X[0] = 10 * X[0] + NUMBER; }
TASK(begin) { SCRATCH->left = NUMBER; }
TASK(round) { X[0] += 1; SCRATCH->again = --SCRATCH->left > 0; }
TASK(answer) { *(int64_t *)launch->result = X[0]; }
"""
INPUTS = [Input((0,), 0, "i64", extents=(DYNAMIC,), component_stride=8), Input((1,), 16, "i64")]
Array = qd.types.ndarray(dtype=qd.i64, ndim=1)


@qd.kernel
def append(x: Array, number: qd.i64) -> None:
    pass


@qd.kernel
def repeat(x: Array, number: qd.i64) -> None:
    pass


@qd.kernel
def tell(x: Array, number: qd.i64) -> None:
    pass


@pytest.fixture
def x(compiler: Any, driver: Any) -> Any:
    def tasks(*names: str) -> list[Task]:
        return [Task(name, 1, block_size=1) for name in names]

    compiler.attach(append, HandMade(CODE, INPUTS, tasks=tasks("append", "append"), argument_bytes=24))
    compiler.attach(repeat, HandMade(CODE, INPUTS, tasks=tasks("begin", "round"), repeats=[(1, 2, 0)], scratch_bytes=64))
    site = ("print", ["called"], [("model.py", "step", 7, 4, 7, 20)])
    compiler.attach(tell, HandMade(CODE, INPUTS, sites=[site], has_print=True, tasks=tasks("append")))
    x = qd.ndarray(qd.i64, (1,))
    x.fill(0)
    return x


def count(driver: Any, call: Any) -> tuple[int, int, int]:
    """The launches of tasks and graphs, and the changes of nodes, in a call."""
    names = ("launches", "graph_launches", "graph_updates")
    before = [getattr(driver, name) for name in names]
    call()
    launches, graphs, updates = (getattr(driver, name) - old for name, old in zip(names, before, strict=True))
    return launches, graphs, updates


def capture(*calls: tuple[Any, ...]) -> Any:
    with qd.graph.capture() as graph:
        for kernel, *arguments in calls:
            kernel(*arguments)
    return graph


def test_the_driver_launches_all_calls_at_once(x: Any, driver: Any) -> None:
    edges = driver.edges
    graph = capture((append, x, 1), (append, x, 2), (append, x, 3))
    assert count(driver, graph) == (0, 1, 0)
    assert driver.edges - edges == 5  # a chain of six tasks
    assert x[0] == 112233
    x.fill(0)
    assert [count(driver, graph) for _ in range(2)] == [(0, 1, 0)] * 2
    assert x[0] == 112233112233


def test_launches_keep_the_arguments_of_their_call(x: Any, driver: Any) -> None:
    y = qd.ndarray(qd.i64, (1,))
    y.fill(5)
    first, second = capture((append, x, 1), (append, y, 2)), capture((append, y, 3))
    for graph in (first, second, first, second):
        assert count(driver, graph) == (0, 1, 0)
    assert (x[0], y[0]) == (1111, 522332233)


def test_loops_are_parts_of_the_graph(x: Any, driver: Any) -> None:
    graph = capture((append, x, 1), (repeat, x, 4), (append, x, 2), (repeat, x, 1))
    loops = driver.loops
    assert [count(driver, graph)[:2] for _ in range(2)] == [(0, 1)] * 2
    assert driver.loops == loops + 2
    assert x[0] == ((11 + 4) * 100 + 22 + 1) * 10000 + 1100 + 400 + 22 + 1


def test_launches_that_report_stand_between_graphs(x: Any, driver: Any) -> None:
    graph = capture((append, x, 1), (tell, x, 2), (append, x, 3), (append, x, 4))
    assert count(driver, graph) == (1, 2, 0)
    assert x[0] == 1123344
    x.fill(0)
    count(driver, graph)
    assert x[0] == 1123344


def test_host_arrays_stand_between_graphs(x: Any, driver: Any) -> None:
    host = np.zeros(1, np.int64)
    graph = capture((append, x, 1), (append, host, 2), (append, x, 3))
    for expected in (22, 2222):
        graph()
        assert host[0] == expected
    assert x[0] == 11331133


def test_tensors_that_torch_has_saved_do_not_divide_graphs(x: Any, driver: Any) -> None:
    torch = pytest.importorskip("torch")
    saved = torch.ones(3)
    _runtime.note_saved(saved)
    graph = capture((append, x, 1), (append, x, 2))
    assert [count(driver, graph) for _ in range(2)] == [(0, 1, 0)] * 2
    assert _runtime.has_saved() and x[0] == 11221122


def test_a_member_that_was_replaced_changes_nodes(compiler: Any, driver: Any, x: Any) -> None:
    @qd.data_oriented
    class Body:
        @qd.kernel
        def move(self, number: qd.i64) -> None:
            pass

    body = Body()
    body.x = x
    inputs = [Input((0, ("attribute", "x")), 0, "i64", extents=(DYNAMIC,), component_stride=8), INPUTS[1]]
    compiler.attach(Body.move, HandMade(CODE, inputs, tasks=[Task("append", 1, block_size=1)], argument_bytes=24))
    graph = capture((append, x, 1), (body.move, 2))
    graph()
    assert count(driver, graph) == (0, 1, 0)
    body.x = qd.ndarray(qd.i64, (1,))
    body.x.fill(7)
    assert count(driver, graph) == (0, 1, 1)
    assert (x[0], body.x[0]) == (11211211, 72)


def test_a_graph_ends_with_its_runtime(compiler: Any, driver: Any, x: Any) -> None:
    graph = capture((append, x, 1), (append, x, 2))
    graph()
    assert x[0] == 1122
    qd.reset()
    with pytest.raises(qd.QuadrantsRuntimeError, match="runtime has ended"):
        graph()


def test_without_graphs_calls_are_launched_one_by_one(compiler: Any, driver_library: str, x: Any, monkeypatch: Any) -> None:
    from test_graph_loops import start

    fake = start(driver_library, monkeypatch, graph=False)
    y = qd.ndarray(qd.i64, (1,))
    y.fill(0)
    graph = capture((append, y, 1), (append, y, 2))
    assert count(fake, graph) == (4, 0, 0)
    assert y[0] == 1122

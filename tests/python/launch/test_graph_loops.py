"""Repeated tasks as loops of a graph, on a stand-in for NVIDIA's driver; and the host's rounds where graphs have no loops."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest
from hand_made import DYNAMIC, FakeDriver, HandMade, Input, Task, build_driver

import quadrants as qd

# The scratch block: the conditions of the outer and of the inner loop, and the rounds that are left for each. The array counts rounds.
CODE = """
typedef struct { uint8_t outer, inner, unused[6]; int64_t left_outside, left_inside; } Scratch;
#define TASK(name) void name(const QdGpuLaunch *launch, unsigned blocks, unsigned threads, unsigned shared)
#define COUNT(i) ((int32_t *)((const QdTensorArgument *)(launch + 1))->data)[i]
#define NUMBER *(const int64_t *)((const unsigned char *)(launch + 1) + 16)
#define SCRATCH ((Scratch *)launch->scratch)
TASK(begin) { SCRATCH->left_outside = NUMBER % 100; COUNT(0) += 1; }
TASK(outside) { SCRATCH->left_inside = NUMBER / 100; COUNT(1) += 1; }
TASK(inside) { COUNT(2) += 1; SCRATCH->inner = --SCRATCH->left_inside > 0; }
TASK(outside_again) { COUNT(3) += 1; SCRATCH->outer = --SCRATCH->left_outside > 0; }
TASK(end) { COUNT(4) += 1; }
TASK(check) {
  if (launch->state->failed) return;
  COUNT(2) += 1;
  SCRATCH->outer = 1;
  if (--SCRATCH->left_outside >= 0) return;
  launch->failure->claimed = launch->failure->failed = launch->state->failed = 1;
  launch->failure->site = 0;
}
"""
INPUTS = [Input((0,), 0, "i32", extents=(DYNAMIC,), component_stride=4), Input((1,), 16, "i64")]


def make_tasks(*entries: str) -> list[Task]:
    return [Task(entry, 1, block_size=1) for entry in entries]


@qd.kernel
def nested(x: qd.types.ndarray(dtype=qd.i32, ndim=1), rounds: qd.i64) -> None:
    pass


@qd.kernel
def fail(x: qd.types.ndarray(dtype=qd.i32, ndim=1), rounds: qd.i64) -> None:
    pass


def attach(compiler: Any) -> None:
    tasks = make_tasks("begin", "outside", "inside", "outside_again", "end")
    compiler.attach(nested, HandMade(CODE, INPUTS, tasks=tasks, repeats=[(1, 4, 0), (2, 3, 1)], scratch_bytes=64))
    sites = [("assert", ["too many rounds"], [("model.py", "step", 7, 4, 7, 20)])]
    tasks = make_tasks("begin", "check", "end")
    compiler.attach(fail, HandMade(CODE, INPUTS, sites=sites, tasks=tasks, repeats=[(1, 2, 0)], scratch_bytes=64))


def start(library: str, monkeypatch: pytest.MonkeyPatch, **options: object) -> FakeDriver:
    monkeypatch.setenv("QD_CUDA_DRIVER", library)
    qd.init(arch=qd.cuda, enable_fallback=False, offline_cache=False, log_level="error", **options)
    return FakeDriver.in_dll(ctypes.CDLL(library), "fake")


def count_rounds(outer: int, inner: int) -> list[int]:
    """Runs one launch: how often each of the five tasks has run."""
    x = qd.ndarray(qd.i32, (5,))
    x.fill(0)
    nested(x, outer + 100 * inner)
    return x.to_numpy().tolist()


def test_the_device_repeats_tasks_without_the_host(compiler: Any, driver: Any) -> None:
    attach(compiler)
    x = qd.ndarray(qd.i32, (5,))
    x.fill(0)
    launches, graphs, loops, rounds, copies = driver.launches, driver.graph_launches, driver.loops, driver.rounds, driver.copies_out
    for step in range(3):
        nested(x, 4 + 100 * step)
    assert (driver.launches, driver.graph_launches, driver.loops) == (launches, graphs + 3, loops + 2)
    assert driver.copies_out == copies
    # a loop runs its body at least once
    assert driver.rounds - rounds == 3 * 4 + 4 * (1 + 1 + 2)
    assert x.to_numpy().tolist() == [3, 12, 16, 12, 3]


def test_parameters_of_tasks_in_loops_change(compiler: Any, driver: Any) -> None:
    attach(compiler)
    assert [count_rounds(2, 3), count_rounds(3, 1), count_rounds(1, 5)] == [[1, 2, 6, 2, 1], [1, 3, 3, 3, 1], [1, 1, 5, 1, 1]]


@qd.kernel
def in_a_branch(x: qd.types.ndarray(dtype=qd.i32, ndim=1), rounds: qd.i64) -> None:
    pass


def test_a_loop_in_a_branch_follows_only_its_branch(compiler: Any, driver: Any) -> None:
    branches = [(0, 0), (1, 1), (2, 1), (2, 1), (2, 1), (0, 0)]
    names = ["begin", "end", "outside", "inside", "outside_again", "end"]
    tasks = [Task(entry, 1, block_size=1, branch=branch) for entry, branch in zip(names, branches, strict=True)]
    compiler.attach(in_a_branch, HandMade(CODE, INPUTS, tasks=tasks, repeats=[(2, 5, 0, 2, 1), (3, 4, 1, 2, 1)], scratch_bytes=64))
    x = qd.ndarray(qd.i32, (5,))
    x.fill(0)
    edges, loops = driver.edges, driver.loops
    for _ in range(2):
        in_a_branch(x, 3 + 100 * 2)
    assert driver.loops == loops + 2
    assert x.to_numpy().tolist() == [2, 6, 12, 6, 4]
    # begin-end, begin-loop; in the loop: outside-set, set-loop, loop-again, again-set; in the inner one: inside-set; both branches-end
    assert driver.edges - edges == 2 + 4 + 1 + 2


def test_a_failed_check_ends_the_loop(compiler: Any, driver: Any) -> None:
    attach(compiler)
    x = qd.ndarray(qd.i32, (5,))
    x.fill(0)
    for _ in range(2):
        rounds = driver.rounds
        with pytest.raises(AssertionError, match="too many rounds"):
            fail(x, 3)
        assert driver.rounds == rounds + 4
    assert x[2] == 2 * 4
    assert count_rounds(2, 2) == [1, 2, 4, 2, 1]


@pytest.mark.parametrize("reason", ["an older driver", "the option graph"])
def test_without_loops_in_graphs_the_host_reads_the_condition(
    compiler: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch, driver_library: str, reason: str
) -> None:
    attach(compiler)
    is_old = reason == "an older driver"
    fake = start(build_driver(tmp_path, "-DVERSION=12030") if is_old else driver_library, monkeypatch, graph=is_old)
    loops, copies = fake.loops, fake.copies_out
    for _ in range(2):
        assert count_rounds(2, 3) == [1, 2, 6, 2, 1]
    assert fake.loops == loops
    assert fake.copies_out - copies == 2 * (2 + 6 + 1)  # every round, and the array
    x = qd.ndarray(qd.i32, (5,))
    with pytest.raises(AssertionError, match="too many rounds"):
        fail(x, 3)

"""Streams and events: on the CPU, where they do nothing, and on a stand-in for NVIDIA's driver."""

from __future__ import annotations

import ctypes
import threading
from typing import Any

import pytest
from hand_made import HandMade, Input, Task

import quadrants as qd

# Returns how often it was launched with the same state block, that is in the same stream.
COUNT = """
void count(const QdGpuLaunch *launch, unsigned blocks, unsigned threads, unsigned shared) {
  *(int64_t *)launch->result = ++launch->state->finished_blocks[0] + *(const int64_t *)(launch + 1);
}
"""
COUNT_ON_CPU = "void qd_kernel(QdKernelContext *c) { *(int64_t *)c->result = 1 + *(const int64_t *)c->arguments; }"


@qd.kernel
def count(more: qd.i64) -> qd.i64:
    return more


@pytest.fixture(params=["cpu", "cuda"])
def counting(request: pytest.FixtureRequest, compiler: Any) -> str:
    if request.param == "cuda":
        request.getfixturevalue("driver")
    tasks = [Task("count", 1)] if request.param == "cuda" else []
    source = COUNT if tasks else COUNT_ON_CPU
    compiler.attach(count, HandMade(source, [Input((0,), 0, "i64")], results=[("i64", (), 0)], tasks=tasks))
    return request.param


def test_launches_of_streams_work_in_blocks_of_their_own(counting: str) -> None:
    with qd.create_stream() as first, qd.create_stream() as second:
        assert (first.handle != 0) == (counting == "cuda")
        results = [
            count(10),
            count(10),
            count(10, qd_stream=first),
            count(more=10, qd_stream=first),
            count(10, qd_stream=second),
            count(10),
        ]
        with qd.use_stream(second):
            results.append(count(10))
        results.append(count(10))
    assert results == ([11, 12, 11, 12, 11, 13, 12, 14] if counting == "cuda" else [11] * 8)


def test_events_order_streams(counting: str) -> None:
    stream, begin, end = qd.create_stream(), qd.create_event(), qd.create_event()
    begin.record(stream)
    count(1, qd_stream=stream)
    end.record(stream)
    end.wait()
    stream.wait_event(begin)
    end.synchronize()
    stream.synchronize()
    assert stream.query()
    assert begin.elapsed_ms(end) > 0
    for thing in (stream, begin, end):
        thing.destroy()
        thing.destroy()


def test_streams_end_with_their_runtime(counting: str) -> None:
    stream, event = qd.create_stream(), qd.create_event()
    qd.reset()
    with pytest.raises(qd.QuadrantsRuntimeError, match="Stream's owning Program has been destroyed"):
        stream.synchronize()
    with pytest.raises(qd.QuadrantsRuntimeError, match="Event's owning Program has been destroyed"):
        event.record()
    stream.destroy()
    event.destroy()


def test_sync_waits_for_all_streams_of_the_runtime(counting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[qd.Stream] = []
    monkeypatch.setattr(qd.Stream, "synchronize", lambda stream: waited.append(stream))
    with qd.create_stream() as stream:
        qd.sync()
        assert waited == []
        qd.sync(all_streams=True)
        assert waited == [stream]
        qd.init(arch=qd.cpu)
        qd.sync(all_streams=True)
        assert waited == [stream]


def test_a_borrowed_stream_stays_its_owner_s(counting: str) -> None:
    with qd.create_stream() as owner:
        borrowed = qd.Stream(owner.handle)
        borrowed.destroy()
        assert count(5, qd_stream=owner) == 6


def test_what_is_no_stream_is_refused(counting: str) -> None:
    with pytest.raises(TypeError, match="qd_stream takes a qd.Stream, got int"):
        count(1, qd_stream=3)
    assert count(1, qd_stream=None) == 2


def test_streams_wait_for_changes_of_memory_and_are_waited_for_by_what_looks_at_it(compiler: Any, driver: Any) -> None:
    tasks = [Task("count", 1)]
    compiler.attach(count, HandMade(COUNT, [Input((0,), 0, "i64")], results=[("i64", (), 0)], tasks=tasks))
    x = qd.ndarray(qd.f32, (10,))
    with qd.create_stream() as first, qd.create_stream() as second:
        for stream in (first, second):
            count(0, qd_stream=stream)  # makes blocks for the stream

        def waits(what: Any) -> int:
            before = driver.stream_waits
            what()
            return driver.stream_waits - before

        count(0)
        waits(lambda: x.fill(1))
        assert waits(lambda: count(0, qd_stream=first)) == 1
        assert [waits(lambda: count(0, qd_stream=first)) for _ in range(3)] == [0] * 3
        assert waits(lambda: count(0)) == 0  # side by side with those of the default stream
        assert waits(lambda: x[3]) == 1
        assert waits(lambda: x[3]) == 0
        count(0, qd_stream=first)
        count(0, qd_stream=second)
        assert waits(lambda: x.fill(2)) == 2
        assert waits(lambda: count(0, qd_stream=first)) == waits(lambda: count(0, qd_stream=second)) == 1
        assert waits(qd.sync) == 2
    assert waits(qd.sync) == 0


def test_blocks_of_a_kernel_are_branches_of_its_graph(compiler: Any, driver: Any) -> None:
    branches = [0, 1, 1, 2, 0, 1, 2, 0]
    tasks = [Task("count", 1, branch=(branch, 0)) for branch in branches]
    compiler.attach(count, HandMade(COUNT, [Input((0,), 0, "i64")], results=[("i64", (), 0)], tasks=tasks))
    edges = driver.edges
    assert [count(0) for _ in range(2)] == [len(branches), 2 * len(branches)]
    # 0-1, 1-1, 0-2, 1-0 and 2-0, 0-1, 0-2, 1-0 and 2-0
    assert driver.edges - edges == 9


def test_branches_of_another_context_wait_for_all_of_the_first(compiler: Any, driver: Any) -> None:
    tasks = [Task("count", 1, branch=branch) for branch in [(1, 1), (2, 1), (3, 2), (4, 2), (4, 2)]]
    compiler.attach(count, HandMade(COUNT, [Input((0,), 0, "i64")], results=[("i64", (), 0)], tasks=tasks))
    edges = driver.edges
    assert [count(0) for _ in range(2)] == [5, 10]
    assert driver.edges - edges == 2 + 2 + 1


def test_launches_that_name_no_stream_go_to_one_of_another_library(compiler: Any, driver: Any, driver_library: str) -> None:
    compiler.attach(count, HandMade(COUNT, [Input((0,), 0, "i64")], results=[("i64", (), 0)], tasks=[Task("count", 1)]))
    handle = ctypes.c_void_p()
    assert ctypes.CDLL(driver_library).cuStreamCreate(ctypes.byref(handle), 1) == 0
    qd.init(arch=qd.cuda, enable_fallback=False, offline_cache=False, log_level="error", external_stream=handle.value)
    own, results = qd.Stream(handle.value), []
    with qd.create_stream() as other:
        results += [count(10), count(10, qd_stream=own), count(10, qd_stream=other)]
        thread = threading.Thread(target=lambda: results.append(count(10)))
        thread.start()
        thread.join()
        with qd.use_stream(other):
            results.append(count(10))
    results.append(count(10))
    qd.sync()
    assert results == [11, 12, 11, 13, 12, 14]
    qd.init(arch=qd.cuda, enable_fallback=False, offline_cache=False, log_level="error")
    assert count(10) == 11 and qd.cfg.external_stream == 0

"""What the compiler tells about parallel loops: lanes, reductions, and why a loop is scalar."""

from collections.abc import Iterator
from typing import Any

import pytest

import quadrants as qd


@pytest.fixture(autouse=True)
def runtime() -> Iterator[None]:
    qd.init(arch=qd.cpu, offline_cache=False, log_level="error")
    yield
    qd.reset()


def report(kernel: Any) -> dict[str, Any]:
    from quadrants import _compiler  # type: ignore[attr-defined]

    kernel()
    return _compiler.last_report()


def test_a_report_names_stages_and_the_lanes_of_each_loop():
    x = qd.field(qd.f32, shape=1000)

    @qd.kernel
    def scale():
        for i in x:
            x[i] = x[i] * 2.0
        for i in range(1):
            x[i] = 1.0

    found = report(scale)
    assert found["kernel"].endswith("scale") and found["bytes"] > 0
    assert {"frontend", "lowered"} <= {stage for stage, _ in found["times"]}
    wide, short = found["loops"]
    assert wide["lanes"] > 1 and wide["why_scalar"] == ""
    assert (short["lanes"], short["why_scalar"]) == (1, "it has at most two iterations")
    assert wide["frames"][-1][0].endswith("test_loop_reports.py") and wide["frames"][-1][2] + 2 == short["frames"][-1][2]


def test_a_report_counts_private_reductions():
    x = qd.field(qd.f32, shape=1000)
    total = qd.field(qd.f32, shape=())
    bins = qd.field(qd.i32, shape=16)

    @qd.kernel
    def reduce():
        for i in x:
            total[None] += x[i]
            bins[i % 16] += 1

    (loop,) = report(reduce)["loops"]
    assert (loop["registers"], loop["copies"]) == (1, 1)

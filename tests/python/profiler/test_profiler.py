"""The times of kernels and tasks, and timelines (qd.profiler)."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import quadrants as qd

ARCH = getattr(qd, os.environ.get("QD_ARCH", "cpu"))
NEEDED = "kernel_profiler=True"


@pytest.fixture
def timed():
    qd.init(arch=ARCH, kernel_profiler=True, offline_cache=False, log_level="error")
    qd.profiler.clear_kernel_profiler_info()
    yield
    qd.reset()


def make_kernel():
    x = qd.field(qd.f32, shape=1000)
    total = qd.field(qd.f32, shape=())

    @qd.kernel
    def step(rounds: qd.i32):
        qd.loop_config(name="fill")
        for i in x:
            x[i] = i
        total[None] = 0
        for i in x:
            for _ in range(rounds):
                x[i] = qd.sin(x[i])

    return step


def test_every_task_is_timed(timed):
    step = make_kernel()
    for _ in range(5):
        step(3)
    tasks = sorted(qd.profiler.list_tasks(), key=lambda task: task.name)
    ends = [task.name.split("_kernel_")[1] for task in tasks]
    assert ends == ["0_range_for_fill", "1_serial", "2_range_for"] and all(task.name.startswith("step_c") for task in tasks)
    for task in tasks:
        assert task.launches == 5 and 0 <= task.min <= task.avg <= task.max <= task.total < 1000
    assert qd.profiler.get_kernel_profiler_total_time() == pytest.approx(sum(task.total for task in tasks) / 1000)


def test_times_are_those_of_the_work(timed):
    """A task of many rounds takes most of the time, and what is measured is what passes."""
    step = make_kernel()
    step(1)
    qd.profiler.clear_kernel_profiler_info()
    began = time.perf_counter()
    step(20000)
    qd.sync()
    passed = time.perf_counter() - began
    longest = qd.profiler.list_tasks()[0]
    assert longest.name.endswith("2_range_for")
    assert 0.5 * passed < qd.profiler.get_kernel_profiler_total_time() <= passed


def test_queries_sum_over_tasks(timed):
    step = make_kernel()
    step(1)
    step(1)
    assert qd.profiler.query_kernel_profiler_info("step").counter == 6
    fill = qd.profiler.query_kernel_profiler_info("fill")
    assert fill.counter == 2 and fill.min <= fill.avg <= fill.max
    assert qd.profiler.query_kernel_profiler_info("nothing") == (0, 0.0, 0.0, 0.0)
    qd.profiler.clear_kernel_profiler_info()
    assert qd.profiler.get_kernel_profiler_total_time() == 0.0 and len(qd.profiler.list_tasks()) == 0


def test_tables(timed, capsys):
    make_kernel()(1)
    qd.profiler.print_kernel_profiler_info()
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split() == "share total s count min ms avg ms max ms task".split() and len(rows) == 3
    assert sum(float(row.split("%")[0]) for row in rows) == pytest.approx(100, abs=0.1)
    qd.profiler.print_kernel_profiler_info("trace")
    lines = capsys.readouterr().out.splitlines()
    starts = [float(line.split()[0]) for line in lines[1:]]
    assert len(lines) == 4 and starts[0] == 0.0 and starts == sorted(starts)
    assert qd.profiler.list_tasks()._repr_html_().count("<tr>") == 4
    with pytest.raises(ValueError, match="Arg `mode` must be of type 'str', and has the value 'count' or 'trace'"):
        qd.profiler.print_kernel_profiler_info("total")


def test_versions_of_a_kernel_have_names_of_their_own(timed):
    @qd.kernel
    def scale(x: qd.types.ndarray()):
        for i in x:
            x[i] *= 2

    scale(qd.ndarray(qd.f32, 3))
    scale(qd.ndarray(qd.f64, 3))
    first, second = sorted(task.name for task in qd.profiler.list_tasks())
    assert first.replace("_0_kernel", "_1_kernel") == second


def test_launches_of_several_threads(timed):
    step = make_kernel()
    step(1)
    qd.profiler.clear_kernel_profiler_info()
    threads = [threading.Thread(target=lambda: [step(1) for _ in range(50)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [task.launches for task in qd.profiler.list_tasks()] == [200] * 3


def test_rounds_of_a_repeat_count(timed):
    counter = qd.ndarray(qd.i32, ())

    @qd.kernel(graph=True)
    def rounds(flag: qd.types.ndarray(dtype=qd.i32, ndim=0)):
        while qd.graph.do_while(flag):
            for i in range(8):
                if i == 0:
                    flag[None] -= 1

    counter[None] = 5
    rounds(counter)
    assert max(task.launches for task in qd.profiler.list_tasks()) == 5


def test_kernels_that_fail_or_return_early_are_counted(timed):
    qd.init(arch=ARCH, kernel_profiler=True, debug=True, offline_cache=False, log_level="error")
    qd.profiler.clear_kernel_profiler_info()
    x = qd.field(qd.i32, shape=4)

    @qd.kernel
    def check(limit: qd.i32) -> qd.i32:
        for i in x:
            assert i < limit
        return 3

    assert check(4) == 3
    with pytest.raises(AssertionError):
        check(2)
    assert {task.launches for task in qd.profiler.list_tasks()} <= {1, 2}
    assert qd.profiler.query_kernel_profiler_info("check").counter >= 3


@pytest.mark.parametrize("arch", [ARCH, qd.python])
def test_without_the_option_calls_warn_and_do_nothing(arch, capsys):
    qd.init(arch=arch, offline_cache=False, log_level="error")
    make_kernel()(1)
    for call in (
        qd.profiler.print_kernel_profiler_info,
        qd.profiler.clear_kernel_profiler_info,
        qd.profiler.get_kernel_profiler_total_time,
        lambda: qd.profiler.query_kernel_profiler_info("step"),
        qd.profiler.set_kernel_profiler_metrics,
    ):
        with pytest.warns(UserWarning, match=NEEDED):
            result = call()
        assert not result or result == (0, 0.0, 0.0, 0.0)
    assert capsys.readouterr().out == ""


def test_toolkits_and_metrics(timed):
    assert qd.profiler.set_kernel_profiler_toolkit() is True
    with pytest.warns(UserWarning, match="cupti"):
        assert qd.profiler.set_kernel_profiler_toolkit("cupti") is False
    with pytest.raises(ValueError, match="'default' or 'cupti'"):
        qd.profiler.set_kernel_profiler_toolkit("vtune")
    metric = qd.profiler.CuptiMetric(name="sm__cycles", header=" cycles ", val_format="{:6.0f}", scale=1.0)
    with pytest.warns(UserWarning, match="cupti"), qd.profiler.collect_kernel_profiler_metrics([metric]):
        make_kernel()(1)
    with pytest.warns(UserWarning, match="global_access"):
        assert qd.profiler.get_predefined_cupti_metrics("global_access") == []


def test_switch_of_the_reference(timed):
    from quadrants.profiler.kernel_profiler import get_default_kernel_profiler

    switch = get_default_kernel_profiler()
    assert switch.get_kernel_profiler_mode() is True
    with pytest.raises(TypeError, match="bool"):
        switch.set_kernel_profiler_mode("yes")
    switch.set_kernel_profiler_mode(False)
    step = make_kernel()
    step(1)
    switch.set_kernel_profiler_mode(True)
    assert len(qd.profiler.list_tasks()) == 0
    step = make_kernel()
    step(1)
    assert len(qd.profiler.list_tasks()) == 3


def test_timelines(timed, tmp_path):
    make_kernel()(1)
    step = make_kernel()
    with qd.profiler.trace(tmp_path / "x.json"):
        step(1)
        step(1)
    events = [event for event in json.loads((tmp_path / "x.json").read_text())["traceEvents"] if event["ph"] == "X"]
    kinds = {kind: [event for event in events if event["cat"] == kind] for kind in ("compile", "launch", "task")}
    assert len(kinds["launch"]) == 2 and len(kinds["task"]) == 6
    assert kinds["compile"][0]["name"].endswith("step") and len(kinds["compile"]) > 3
    for launch in kinds["launch"] if ARCH is qd.cpu else []:  # a GPU runs its tasks after the launch
        inside = [task for task in kinds["task"] if launch["ts"] <= task["ts"] and task["ts"] + task["dur"] <= launch["ts"] + launch["dur"]]
        assert len(inside) == 3 and {task["tid"] for task in inside} == {launch["tid"]}
    assert max(event["ts"] + event["dur"] for event in kinds["compile"]) <= kinds["launch"][0]["ts"]
    with pytest.raises(OSError):
        qd.profiler.trace(tmp_path / "missing" / "x.json").__enter__()


def test_timeline_of_the_program_object(timed, tmp_path):
    make_kernel()(1)
    program = qd.lang.impl.get_runtime().prog
    program.timeline_save(str(tmp_path / "all.json"))
    assert sum(event.get("cat") == "task" for event in json.loads((tmp_path / "all.json").read_text())["traceEvents"]) == 3
    program.timeline_clear()
    assert len(qd.profiler.list_tasks()) == 0


def test_scopes_of_the_host(timed, capsys):
    qd.profiler.clear_scoped_profiler_info()
    make_kernel()(1)
    qd.profiler.print_scoped_profiler_info()
    lines = capsys.readouterr().out.splitlines()
    assert "new versions of kernels" in lines[0] and "step" in lines[1] and len(lines) > 4
    assert float(lines[1].split()[0]) >= sum(float(line.split()[0]) for line in lines[2:]) * 0.9
    qd.profiler.clear_scoped_profiler_info()
    qd.profiler.print_scoped_profiler_info()
    assert len(capsys.readouterr().out.splitlines()) == 1
    qd.profiler.print_memory_profiler_info()
    assert "blocks" in capsys.readouterr().out


def test_the_cache_on_disk_has_timed_versions(tmp_path):
    for loaded in (False, True):
        qd.init(arch=ARCH, kernel_profiler=True, offline_cache=True, offline_cache_file_path=str(tmp_path), log_level="error")
        qd.profiler.clear_kernel_profiler_info()
        make_kernel()(1)
        assert bool(qd.compile_report()[-1].miss) != loaded
        assert len(qd.profiler.list_tasks()) == 3
        qd.reset()


RANGES = """
import quadrants as qd
qd.init(kernel_profiler={timed}, offline_cache=False, log_level="error")
x = qd.field(qd.i32, 4)

@qd.kernel
def inner(n: qd.i32) -> qd.i32:
    for i in x:
        x[i] += n
    return x[1]

inner(1), inner(2)
qd.sync()
"""


@pytest.mark.parametrize("kind", ["tool", "library", "option off", "no tool"])
def test_launches_are_ranges_of_other_profilers(kind, tmp_path, request):
    compiler = shutil.which("clang-22") or shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a compiler of C")
    name = "tool.so" if kind != "library" else "libroctx64.so.4"
    source = Path(__file__).with_name("fake_ranges.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", tmp_path / name, source], check=True)
    paths = {"library": {"LD_LIBRARY_PATH": str(tmp_path)}, "no tool": {"NVTX_INJECTION64_PATH": str(tmp_path / "missing.so")}}
    arch = "cpu" if request.config.getoption("--emulate") else ARCH.name
    environment = {**os.environ, "QD_ARCH": arch, **paths.get(kind, {"NVTX_INJECTION64_PATH": str(tmp_path / name)})}
    program = RANGES.format(timed=kind != "option off")
    (tmp_path / "program.py").write_text(program)
    done = subprocess.run([sys.executable, tmp_path / "program.py"], env=environment, capture_output=True, text=True, check=True)
    expected = ["begin inner_c#_0", "end"] * 2 if kind in ("tool", "library") else []
    lines = [line for line in done.stderr.splitlines() if line.startswith(("begin inner", "end"))]
    assert [re.sub(r"_c\d+_", "_c#_", line) for line in lines] == expected

"""What became of kernels, and why there is more than one version: `qd.compile_report`, `qd.explain_recompiles`, `specializations`."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import quadrants as qd

SCALE = 3


@pytest.fixture(autouse=True)
def runtime(tmp_path: Any) -> Iterator[None]:
    qd.init(arch=qd.cpu, offline_cache_file_path=str(tmp_path), log_level="error")
    yield
    qd.reset()


def make_kernel() -> Any:
    """A kernel that depends on an argument's type, a template, and a global that a func reads."""

    @qd.func
    def scaled(value):
        return value * SCALE

    @qd.kernel
    def fill(a: qd.types.ndarray(), start: qd.template()):
        for i in range(a.shape[0]):
            a[i] = scaled(i) + start

    return fill


def differences(count: int) -> list[tuple[tuple[str, str, str], ...]]:
    """Of the last versions that there are."""
    found = sorted(qd.explain_recompiles(), key=lambda item: item.number)
    return [item.differences for item in found if item.kernel.endswith("make_kernel.<locals>.fill")][-count:]


def test_a_version_has_its_stages_and_the_lanes_of_each_loop():
    x = qd.field(qd.f32, shape=1000)

    @qd.kernel
    def scale():
        for i in x:
            x[i] = x[i] * 2.0
        for i in range(1):
            x[i] = 1.0

    scale()
    version = qd.compile_report()[-1]
    assert version.kernel.endswith("scale") and version.nbytes > 0 and version.operations > 10
    assert {"frontend", "lowered"} <= {stage for stage, _ in version.stages}
    assert 0 < sum(seconds for _, seconds in version.stages) < version.seconds
    assert version.miss == "nothing is on disk under its key"
    wide, short = version.loops
    assert wide.lanes > 1 and wide.why_scalar == ""
    assert (short.lanes, short.why_scalar) == (1, "it has at most two iterations")
    file, line = wide.place.rsplit(":", 1)
    assert file == __file__ and short.place == f"{file}:{int(line) + 2}"


def test_a_version_counts_private_reductions():
    x = qd.field(qd.f32, shape=1000)
    total = qd.field(qd.f32, shape=())
    bins = qd.field(qd.i32, shape=16)

    @qd.kernel
    def reduce():
        for i in x:
            total[None] += x[i]
            bins[i % 16] += 1

    reduce()
    (loop,) = qd.compile_report()[-1].loops
    assert (loop.registers, loop.copies) == (1, 1)


def test_a_gradient_says_what_its_loops_keep():
    x = qd.field(qd.f32, shape=100, needs_grad=True)
    loss = qd.field(qd.f32, shape=(), needs_grad=True)

    @qd.kernel
    def run(n: int):
        for i in x:
            a, s = x[i], 0.0
            for k in range(8):
                a = qd.sin(a)
            for k in range(n):
                s += a
            for k in range(n):
                a = a * a + s
            loss[None] += a

    run(1)
    assert qd.compile_report()[-1].checkpoints == ()
    run.grad(1)
    version = qd.compile_report()[-1]
    line = int(version.place.rsplit(":", 1)[1])
    found = {int(kept.place.rsplit(":", 1)[1]) - line: (kept.states, kept.nbytes, kept.keeps_all) for kept in version.checkpoints}
    assert found == {4: (8, 32, True), 6: (0, 0, False), 8: (64, 256, False)}
    assert "keeps all 8 states in 32 bytes" in str(version) and "keeps nothing" in str(version)


def test_versions_from_disk_say_so_and_know_their_loops():
    kernel, a = make_kernel(), np.zeros(4, np.int32)
    kernel(a, 1)
    make_kernel()(a, 1)
    compiled, found = qd.compile_report()[-2:]
    assert found.miss == "" and found.stages == () and found.loops == compiled.loops
    assert (found.operations, found.nbytes, found.reads) == (compiled.operations, compiled.nbytes, compiled.reads)


def test_misses_have_reasons(monkeypatch):
    a = np.zeros(4, np.int32)
    make_kernel()(a, 1)
    monkeypatch.setitem(globals(), "SCALE", 5)
    make_kernel()(a, 1)
    assert qd.compile_report()[-1].miss == "what is on disk was made for another value of 'SCALE'"
    qd.init(arch=qd.cpu, offline_cache=False, log_level="error")
    make_kernel()(a, 1)
    assert qd.compile_report()[-1].miss == "the disk cache is off"


def test_a_report_is_a_table_when_printed():
    make_kernel()(np.zeros(4, np.int32), 1)
    lines = str(qd.compile_report()).splitlines()
    assert "versions: " in lines[0] and " from disk" in lines[0]
    assert any("make_kernel.<locals>.fill" in line and "compiled (nothing is on disk under its key)" in line for line in lines)
    assert any(line.strip().startswith("loop ") and f"{__file__}:" in line for line in lines)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ((np.int32, 1), (np.float32, 1), ("argument a", "array of i32 (any,)", "array of f32 (any,)")),
        ((np.int32, 1), (np.int32, 2), ("argument start", "1", "2")),
        ((np.int32, 1), (np.int32, 1.0), ("argument start", "1", "1.0")),
    ],
)
def test_what_differed_is_named(first, second, expected):
    kernel = make_kernel()
    for dtype, start in (first, second):
        kernel(np.zeros(4, dtype), start)
    assert differences(1) == [(expected,)]
    name, before, now = expected
    assert f"{name}: {before} → {now}" in str(qd.explain_recompiles())


def test_changed_globals_strides_and_definitions_are_named(monkeypatch):
    kernel = make_kernel()
    kernel(np.zeros(4, np.int64), 1)
    monkeypatch.setitem(globals(), "SCALE", 4)
    kernel(np.zeros(4, np.int64), 1)
    kernel(np.zeros(8, np.int64)[::2], 1)
    make_kernel()(np.zeros(4, np.int64), 1)
    value, stride, definition = differences(3)
    assert value == (("global SCALE", "3", "4"),)
    assert stride == (("argument a", "array of i64 (any,)", "array of i64 (any,), strided"),)
    assert definition == (("the kernel", "an earlier definition", "defined again"),)


def test_other_sizes_and_scalars_make_no_version():
    @qd.kernel
    def total(a: qd.types.ndarray(), n: qd.i32) -> qd.i32:
        return a[0] + n

    total(np.zeros(1, np.int32), 1)
    latest = qd.compile_report()[-1]
    for size in (5, 9):
        total(np.zeros(size, np.int32), size)
    assert qd.compile_report()[-1] == latest and len(total.specializations()) == 1


def test_specializations_lists_what_the_versions_are_for():
    kernel = make_kernel()
    assert kernel.specializations() == []
    for start in (7, 8):
        kernel(np.zeros(4, np.int32), start)
    found = kernel.specializations()
    assert sorted(reads["argument start"] for reads in found) == ["7", "8"]
    assert {(reads["argument a"], reads["global SCALE"]) for reads in found} == {("array of i32 (any,)", "3")}
    qd.init(arch=qd.cpu, log_level="error")
    assert kernel.specializations() == []


def test_many_versions_for_values_of_a_template_are_warned_of_once(capfd):
    qd.init(arch=qd.cpu, offline_cache=False, log_level="warn")

    @qd.kernel
    def add(a: qd.i32, n: qd.template()) -> qd.i32:
        return a + n

    for n in range(70):
        add(1, n)
    lines = [line for line in capfd.readouterr().err.splitlines() if "is compiled for the" in line]
    assert len(lines) == 1 and "65th time: argument n had 65 values" in lines[0]


def test_a_gradient_comes_from_disk_with_its_checkpoints():
    def make():
        @qd.kernel
        def power(x: qd.types.ndarray(), y: qd.types.ndarray()):
            for i in range(8):
                a = x[i]
                for _ in range(3):
                    a = a * a
                y[i] = a

        return power

    x, y = (qd.ndarray(qd.f32, 8, needs_grad=True) for _ in range(2))
    x.fill(1.0)
    for _ in range(2):
        y.grad.fill(1.0)
        x.grad.fill(0.0)
        make().grad(x, y)
        assert (x.grad.to_numpy() == 8).all()
    compiled, found = qd.compile_report()[-2:]
    assert compiled.miss and found.miss == "" and found.stages == ()
    assert len(found.checkpoints) == 1 and found.checkpoints == compiled.checkpoints


def test_updates_of_what_a_func_computes_run_in_lanes():
    @qd.func
    def work_out(x):
        return qd.sqrt(x * x + 1.0) / (x + 2.0) * (x - 3.0) + x

    @qd.kernel
    def count(x: qd.types.ndarray(), y: qd.types.ndarray()):
        for i in x:
            y[i // 2] += 1.0

    @qd.kernel
    def collect(x: qd.types.ndarray(), y: qd.types.ndarray()):
        for i in x:
            y[i // 2] += work_out(x[i])

    qd.init(arch=qd.cpu, offline_cache=False)
    x, y = np.ones(64, np.float32), np.zeros(32, np.float32)
    count(x, y)
    collect(x, y)
    scattered, collected = (next(loop for loop in version.loops) for version in qd.compile_report()[-2:])
    assert (scattered.lanes, scattered.why_scalar) == (1, "it does little but update scattered elements")
    assert collected.lanes > 1


def test_loops_over_rows_of_different_lengths_have_one_lane():
    array = qd.types.ndarray()

    @qd.kernel
    def multiply(offsets: array, columns: array, values: array, x: array, y: array):
        for row in range(y.shape[0]):  # the rows of a sparse matrix
            total = qd.zero(y[row])
            for i in range(offsets[row], offsets[row + 1]):
                total += values[i] * x[columns[i]]
            y[row] = total

    @qd.kernel
    def interact(offsets: array, neighbors: array, x: array, y: array):
        for i in range(y.shape[0]):  # the arithmetic is worth the lanes
            total = qd.zero(y[i])
            for k in range(offsets[i], offsets[i + 1]):
                distance = qd.sqrt((x[neighbors[k]] - x[i]) ** 2 + 0.1)
                total += qd.exp(-distance) * qd.sin(distance) / (1.0 + distance)
            y[i] = total

    qd.init(arch=qd.cpu, offline_cache=False)
    offsets, ones, numbers = np.array([0, 2, 2, 5], np.int32), np.arange(5, dtype=np.float32), np.array([0, 1, 2, 0, 1], np.int32)
    y = np.zeros(3, np.float32)
    multiply(offsets, numbers, ones, ones, y)
    assert y.tolist() == [1, 0, 8]
    interact(offsets, numbers, ones, y)
    rows, pairs = (next(loop for loop in version.loops) for version in qd.compile_report()[-2:])
    assert (rows.lanes, rows.why_scalar) == (1, "its inner loop reads rows of different lengths")
    assert pairs.lanes > 1


def test_notebooks_show_reports_as_tables():
    fill = make_kernel()
    fill(np.zeros(3, np.int32), 1)
    fill(np.zeros(3, np.float32), 1)
    table = qd.compile_report()._repr_html_()
    assert table.startswith("<table><tr><th>kernel</th><th>place</th><th>ms</th>")
    assert table.count("make_kernel.&lt;locals&gt;.fill") >= 2 and table.count("<tr>") == len(qd.compile_report()) + 1
    changes = qd.explain_recompiles()._repr_html_()
    assert "<th>before</th><th>now</th>" in changes and "<td>2</td>" in changes and "f32" in changes


def test_loops_that_share_their_code_have_their_own_lines():
    x, y = qd.field(qd.f32, 1000), qd.field(qd.f32, 1000)

    @qd.kernel
    def run():
        for i in x:
            x[i] = 2.0 * x[i] + 1.0
        for i in x:
            y[i] = x[i]
        for i in x:
            x[i] = 2.0 * x[i] + 1.0

    run()
    assert (x.to_numpy() == 3).all() and (y.to_numpy() == 1).all()
    lines = [int(loop.place.rsplit(":", 1)[1]) for loop in qd.compile_report()[-1].loops]
    assert [line - lines[0] for line in lines] == [0, 2, 4]


def test_equal_loops_draw_other_numbers_and_fail_at_their_own_lines():
    qd.init(arch=qd.cpu, debug=True, log_level="error")
    x, y = qd.field(qd.f32, 1000), qd.field(qd.f32, 1000)

    @qd.kernel
    def draw():
        for i in x:
            x[i] = qd.random()
        for i in x:
            y[i] = x[i]
        for i in x:
            x[i] = qd.random()

    @qd.kernel
    def check():
        for i in x:
            assert x[i] < 2.0
        for i in x:
            x[i] = 3.0
        for i in x:
            assert x[i] < 2.0  # this one fails

    draw()
    assert (x.to_numpy() != y.to_numpy()).mean() > 0.9
    with pytest.raises(AssertionError, match="this one fails"):
        check()

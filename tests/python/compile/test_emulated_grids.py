"""What kernels compute on a grid of threads, emulated: reductions, tables in shared memory, returns, checks, prints, random numbers."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import amd_emulation
import emulating
import numpy as np
import pytest

import quadrants as qd


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("emulated")


# Machine code of AMD GPUs runs on another emulator: these two are of the families that differ most.
AMD_TARGETS = ("gfx942", "gfx1100")


@pytest.fixture(params=[*emulating.SUBGROUPS, *AMD_TARGETS])
def target(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(autouse=True)
def grid(folder: Path, target: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Starts the runtime on the emulated device; call it to start again with other options."""
    monkeypatch.delenv("QD_ARCH", raising=False)
    driver = {}
    if target in AMD_TARGETS:
        driver["amdgpu_driver"] = str(amd_emulation.import_emulator().build.build())
        monkeypatch.setenv("GCN_TARGET", target)
    else:
        emulating.start(monkeypatch, folder, target)

    def init(**options: Any) -> None:
        arch = qd.amdgpu if driver else qd.cuda
        qd.init(arch=arch, enable_fallback=False, offline_cache=False, log_level="error", **driver, **options)

    init()
    yield init
    qd.reset()


@pytest.mark.parametrize("count", [0, 1, 31, 511, 512, 513, 5000])
def test_every_iteration_runs_once(count: int) -> None:
    x = qd.ndarray(qd.i32, max(count, 1))

    @qd.kernel
    def kernel(x: qd.types.ndarray(qd.i32, 1), n: qd.i32) -> None:
        for i in range(n):
            x[i] = x[i] + 1

    kernel(x, count)
    assert x.to_numpy().sum() == count


def test_boxes_with_steps_and_lower_bounds() -> None:
    x = qd.field(qd.i32, (20, 30))

    @qd.kernel
    def kernel(low: qd.i32) -> None:
        for i, j in qd.ndrange((low, 17), 29):
            x[i, j] += i * 100 + j
        for k in range(9, -3, -4):
            x[19, k + 3] = k

    kernel(3)
    expected = np.zeros((20, 30), np.int32)
    rows, columns = np.mgrid[3:17, 0:29]
    expected[3:17, 0:29] = rows * 100 + columns
    expected[19, [12, 8, 4]] = 9, 5, 1
    np.testing.assert_array_equal(x.to_numpy(), expected)


@pytest.mark.parametrize("shape", [(0, 5), (1, 1), (8, 32), (31, 33), (257, 100), (1300, 1)])
def test_transposed_accesses(shape: tuple[int, int]) -> None:
    values = np.arange(shape[0] * shape[1], dtype=np.int32).reshape(shape)
    x, y = qd.ndarray(qd.i32, shape), qd.ndarray(qd.i32, shape[::-1])
    if values.size:
        x.from_numpy(values)

    @qd.kernel
    def kernel(x: qd.types.ndarray(qd.i32, 2), y: qd.types.ndarray(qd.i32, 2)) -> None:
        for i, j in y:
            y[i, j] += x[j, i] + 1

    kernel(x, y)
    np.testing.assert_array_equal(y.to_numpy(), values.T + 1)


def test_transposed_outer_axis_with_lower_bounds() -> None:
    x, y = qd.field(qd.i32, (40, 9, 50)), qd.field(qd.i32, (50, 9, 40))
    values = np.arange(40 * 9 * 50, dtype=np.int32).reshape(40, 9, 50)
    x.from_numpy(values)

    @qd.kernel
    def kernel(low: qd.i32) -> None:
        for i, j, k in qd.ndrange((low, 47), (1, 8), (3, 40)):
            y[i, j, k] = x[k, j, i]

    kernel(5)
    expected = np.zeros((50, 9, 40), np.int32)
    expected[5:47, 1:8, 3:40] = values.transpose(2, 1, 0)[5:47, 1:8, 3:40]
    np.testing.assert_array_equal(y.to_numpy(), expected)


def test_arrays_that_share_memory_get_a_version_of_their_own() -> None:
    x, y = qd.ndarray(qd.f32, 100), qd.ndarray(qd.f32, 100)
    x.fill(1.0)

    @qd.kernel
    def kernel(x: qd.types.ndarray(qd.f32, 1), y: qd.types.ndarray(qd.f32, 1)) -> None:
        for i in y:
            for _ in qd.static(range(3)):
                y[i] = y[i] + x[i]

    for _ in range(2):
        kernel(x, y)
        kernel(x, x)
    np.testing.assert_array_equal(y.to_numpy(), np.full(100, 3.0 + 24.0))
    np.testing.assert_array_equal(x.to_numpy(), np.full(100, 64.0))


@pytest.mark.parametrize("count", [1, 33, 128, 1000, 70000])
def test_reductions(count: int) -> None:
    values = np.random.default_rng(count).integers(-50, 50, count).astype(np.int32)
    x = qd.field(qd.i32, count)
    x.from_numpy(values)
    total, least, bits = qd.field(qd.i64, ()), qd.field(qd.i32, ()), qd.field(qd.i32, ())
    vector, wide = qd.Vector.field(3, qd.f32, ()), qd.field(qd.f64, ())
    total[None], least[None] = 7, 40

    @qd.kernel
    def kernel() -> None:
        for i in x:
            total[None] += x[i]
            qd.atomic_min(least[None], x[i])
            qd.atomic_or(bits[None], x[i])
            vector[None] += qd.Vector([1.0, 2.0, qd.f32(x[i])])
            wide[None] -= 0.5

    kernel()
    kernel()
    assert total[None] == 7 + 2 * values.sum()
    assert least[None] == min(40, values.min())
    assert bits[None] == np.bitwise_or.reduce(values)
    assert vector.to_numpy().tolist() == [2 * count, 4 * count, 2 * values.sum()]
    assert wide[None] == -count


@pytest.mark.parametrize("bins", [3, 256, 20000])
def test_tables_in_and_out_of_shared_memory(bins: int) -> None:
    keys = np.random.default_rng(bins).integers(0, bins, 30000).astype(np.int32)
    x, table = qd.field(qd.i32, len(keys)), qd.field(qd.i32, bins)
    x.from_numpy(keys)
    largest = qd.ndarray(qd.i64, (2, bins))

    @qd.kernel
    def kernel(largest: qd.types.ndarray(qd.i64, 2)) -> None:
        for i in x:
            table[x[i]] += 1
            qd.atomic_max(largest[i % 2, x[i]], i)

    kernel(largest)
    np.testing.assert_array_equal(table.to_numpy(), np.bincount(keys, minlength=bins))
    expected = np.zeros((2, bins), np.int64)
    np.maximum.at(expected, (np.arange(len(keys)) % 2, keys), np.arange(len(keys)))
    np.testing.assert_array_equal(largest.to_numpy(), expected)


def test_launches_are_suspended_and_resumed() -> None:
    x, log = qd.ndarray(qd.i32, 3000), qd.ndarray(qd.i32, 4)
    left, full = qd.ndarray(qd.i32, ()), qd.ndarray(qd.i32, ())

    @qd.kernel(graph=True, checkpoints=True)
    def kernel(
        x: qd.types.ndarray(qd.i32, 1),
        log: qd.types.ndarray(qd.i32, 1),
        left: qd.types.ndarray(qd.i32, 0),
        full: qd.types.ndarray(qd.i32, 0),
    ) -> None:
        log[0] += 1
        while qd.graph.do_while(left):
            for i in range(4):
                log[1] += 1
            with qd.checkpoint(3, yield_on=full):
                for i in x:
                    x[i] += 1
                full[None] = x[5] == 2
            for i in x:
                log[2] += x[i] > 1
            left[None] -= 1
        log[3] += 1

    left.fill(3)
    assert kernel(x, log, left, full) == qd.GraphStatus(True, 3)
    assert (log.to_numpy().tolist(), set(x.to_numpy()), left[()]) == ([1, 8, 0, 0], {2}, 2)
    assert kernel.resume(x, log, left, full, from_checkpoint=3) == qd.GraphStatus(False)
    assert (log.to_numpy().tolist(), set(x.to_numpy()), left[()]) == ([1, 12, 6000, 1], {4}, 0)


def test_values_cross_tasks_and_a_return_ends_the_kernel() -> None:
    x = qd.field(qd.i32, 100)

    @qd.kernel
    def kernel(n: qd.i32) -> qd.i32:
        factor = 1
        for i in range(n):
            x[i] = i
        if x[1] > n:
            return -1
        for _ in range(n):
            factor += x[1]
        if factor > 50:
            return factor
        for i in range(factor):
            x[i] += factor
        return x[0]

    assert kernel(10) == 11
    assert x.to_numpy()[:12].tolist() == [i + 11 if i < 11 else 0 for i in range(10)] + [11, 0]
    assert kernel(60) == 61
    assert x.to_numpy()[:3].tolist() == [0, 1, 2]
    assert kernel(0) == -1


def test_failed_assertions_stop_the_tasks_that_follow(grid: Any) -> None:
    grid(debug=True)
    x, y = qd.field(qd.i32, 300), qd.field(qd.i32, 300)

    @qd.kernel
    def kernel(bad: qd.i32) -> None:
        for i in x:
            assert i != bad, "i is {}"
            x[i] = i
        for i in y:
            y[i] = 1

    with pytest.raises(AssertionError):
        kernel(200)
        qd.sync()
    assert y.to_numpy().sum() == 0
    kernel(-1)
    assert y.to_numpy().sum() == 300


def test_kernels_without_statements_do_nothing() -> None:
    @qd.kernel
    def kernel() -> None:
        pass

    assert [kernel() for _ in range(3)] == [None] * 3
    qd.sync()
    assert len(kernel.specializations()) == 1


def test_small_loops_in_one_launch_see_what_other_threads_wrote(grid: Any) -> None:
    x, y, total = qd.field(qd.i32, 100), qd.field(qd.i32, 60), qd.field(qd.i32, ())

    @qd.kernel
    def kernel(n: qd.i32) -> qd.i32:
        for k in qd.static(range(5)):
            for i in x:
                x[i] = y[(i + 17) % 60] + i
            for i in y:
                y[i] = x[99 - i] * 2 - x[i] + k
        largest = -1000000
        for i in x:
            largest = max(largest, x[i])
        if n > 5:
            return largest
        for i in y:
            total[None] += y[i]
        return total[None]

    expected, sums = np.zeros(60, np.int64), np.int64(0)
    for n in (9, 1, 9, 2):
        for k in range(5):
            values = expected[(np.arange(100) + 17) % 60] + np.arange(100)
            expected = (values[99 - np.arange(60)] * 2 - values[:60] + k).astype(np.int32).astype(np.int64)
        sums += 0 if n > 5 else expected.sum()
        assert np.int32(kernel(n)) == np.int32(np.int64(values.max() if n > 5 else sums))
        np.testing.assert_array_equal(y.to_numpy(), expected)


def test_a_failed_check_in_a_small_loop_stops_those_in_the_same_launch(grid: Any) -> None:
    grid(debug=True)
    x, y = qd.field(qd.i32, 30), qd.field(qd.i32, 30)

    @qd.kernel
    def kernel(bad: qd.i32) -> None:
        for i in x:
            assert i != bad, "i is bad"
        for i in y:
            y[i] += 1

    for bad in (7, -1, 29):
        before = y.to_numpy().sum()
        if bad < 0:
            kernel(bad)
        else:
            with pytest.raises(AssertionError):
                kernel(bad)
        assert y.to_numpy().sum() - before == (30 if bad < 0 else 0)


def test_prints(capfd: pytest.CaptureFixture[str]) -> None:
    @qd.kernel
    def kernel(n: qd.i32) -> None:
        for i in range(n):
            print("i", i, i * 0.5)

    kernel(3)
    qd.sync()
    assert sorted(capfd.readouterr().out.split("\n")) == ["", "i 0 0.000000", "i 1 0.500000", "i 2 1.000000"]


def test_random_numbers_are_those_of_the_processor(grid: Any) -> None:
    def draw() -> Any:
        x = qd.field(qd.f32, (40, 30))

        @qd.kernel
        def kernel() -> None:
            for i, j in x:
                x[i, j] = qd.random() + qd.f32(qd.random(qd.i32) % 7)

        kernel()
        return x.to_numpy()

    on_grid = draw()
    qd.init(arch=qd.cpu, offline_cache=False, log_level="error")
    np.testing.assert_array_equal(on_grid, draw())


def test_large_argument_blocks() -> None:
    x = qd.field(qd.f32, 40)

    @qd.kernel
    def kernel(a: qd.types.matrix(40, 40, qd.f32)) -> None:
        for i in range(40):
            x[i] = a[i, 39 - i]

    values = np.arange(1600, dtype=np.float32).reshape(40, 40)
    kernel(qd.Matrix(values.tolist()))
    np.testing.assert_array_equal(x.to_numpy(), values[np.arange(40), 39 - np.arange(40)])


def test_blocks_share_arrays_and_wait_at_barriers(target: str) -> None:
    block, subgroup = qd.simt.block, qd.simt.subgroup
    out = qd.ndarray(qd.i64, (5, 256))

    @qd.kernel
    def kernel(out: qd.types.ndarray(qd.i64, 2)) -> None:
        qd.loop_config(block_dim=64)
        for i in range(256):
            own = block.SharedArray((64,), qd.i32)
            thread = block.thread_idx()
            own[thread] = i
            block.sync()
            out[0, i] = own[63 - thread]
            out[1, i] = block.inclusive_add(qd.i64(i) << 33, 64, qd.i64)
            out[2, i] = subgroup.ballot(thread % 3 == 0)
            out[3, i] = subgroup.shuffle(qd.f64(i), 5)
            block.mem_fence()
            out[4, i] = block.global_thread_idx()

    kernel(out)
    i, lanes = np.arange(256), emulating.SUBGROUPS.get(target, 64)
    votes = (i % 64 % 3 == 0).reshape(-1, lanes).astype(np.uint64) << np.arange(lanes, dtype=np.uint64)
    expected = [
        i // 64 * 64 + 63 - i % 64,
        np.cumsum((i << 33).reshape(4, 64), axis=1).ravel(),
        np.repeat(votes.sum(axis=1, dtype=np.uint64), lanes).view(np.int64),
        i // lanes * lanes + 5,
        i,
    ]
    np.testing.assert_array_equal(out.to_numpy(), expected)


def test_functions_of_whole_subgroups(target: str) -> None:
    block, subgroup = qd.simt.block, qd.simt.subgroup
    out = qd.ndarray(qd.i64, (6, 256))

    @qd.kernel
    def kernel(out: qd.types.ndarray(qd.i64, 2)) -> None:
        qd.loop_config(block_dim=128)
        for i in range(256):
            lane = subgroup.invocation_id()
            out[0, i] = subgroup.reduce_all_add(i)
            out[1, i] = subgroup.inclusive_max(i * 7 % 64)
            out[2, i] = subgroup.all_true(i < 255) + 2 * subgroup.any_true(lane == qd.static(subgroup.group_size() - 1))
            out[3, i] = qd.i64(subgroup.lanemask_lt(lane))
            out[4, i] = block.reduce_all_add(i, 128, qd.i32)
            out[5, i] = subgroup.shuffle_down(i, 1)

    kernel(out)
    i, lanes = np.arange(256), emulating.SUBGROUPS.get(target, 64)
    groups = i.reshape(-1, lanes)
    expected = [
        np.repeat(groups.sum(axis=1), lanes),
        np.maximum.accumulate((i * 7 % 64).reshape(-1, lanes), axis=1).ravel(),
        2 + (i < 256 - lanes),
        (1 << (i % lanes)) - 1,
        np.repeat(i.reshape(2, 128).sum(axis=1), 128),
        np.where(i % lanes == lanes - 1, i, i + 1),
    ]
    np.testing.assert_array_equal(out.to_numpy(), expected)


@pytest.mark.parametrize("size", [96, 192, 384, 48, 1000])
def test_blocks_of_any_size(size: int) -> None:
    block = qd.simt.block
    count = size * 5
    out, sums = qd.ndarray(qd.i32, (2, count)), qd.ndarray(qd.i32, 7)

    @qd.kernel
    def kernel(out: qd.types.ndarray(qd.i32, 2), sums: qd.types.ndarray(qd.i32, 1)) -> qd.i32:
        total = 0
        qd.loop_config(block_dim=size)
        for i in range(count):
            total = total + i
            sums[i % 7] += i
        qd.loop_config(block_dim=size)
        for i in range(count + 5):
            if i < count:
                out[1, i] += i
        qd.loop_config(block_dim=size)
        for i in range(count):
            own = block.SharedArray((size,), qd.i32)
            thread = block.thread_idx()
            own[thread] = i
            block.sync()
            out[0, i] = own[size - 1 - thread]
        return total

    i = np.arange(count)
    assert kernel(out, sums) == i.sum()
    np.testing.assert_array_equal(out.to_numpy(), [i // size * size + size - 1 - i % size, i])
    np.testing.assert_array_equal(sums.to_numpy(), np.bincount(i % 7, i).astype(int))


def test_loops_under_an_if_keep_their_order_and_zero_steps_fail() -> None:
    x = qd.ndarray(qd.i32, 1000)

    @qd.kernel
    def kernel(x: qd.types.ndarray(qd.i32, 1), n: qd.i32) -> qd.i32:
        largest = -5
        if n > 0:
            for i in range(1, 1000, n):
                x[i] = x[i - 1] + 1
        for i in range(1000):
            if x[i] > largest:
                largest = x[i]
        for i in range(n):
            for k in range(0, 5, n):
                x[k] = i
        return largest

    assert kernel(x, 1) == 999

    @qd.kernel
    def step(n: qd.i32) -> qd.i32:
        total = 0
        for i in range(3):
            for _ in range(i, 9, n):
                total += 1
        return total

    assert step(3) == 9
    with pytest.raises(qd.QuadrantsAssertionError, match="arg 3 must not be zero"):
        step(0)


def test_shared_arrays_are_no_larger_than_the_memory_of_a_block(target: str) -> None:
    most = 64 << 10 if target in AMD_TARGETS else 227 << 10 if target == "cuda" else 48 << 10

    @qd.kernel
    def kernel() -> None:
        for i in range(32):
            large = qd.simt.block.SharedArray((most // 4 + 4096,), qd.f32)
            large[i] = 0.0

    with pytest.raises(qd.QuadrantsCompilationError, match=f"take {most + (16 << 10)} bytes, a block has {most}"):
        kernel()


def test_tasks_are_repeated_until_a_flag_is_zero() -> None:
    x, flag, inner = qd.ndarray(qd.i32, 100), qd.ndarray(qd.i32, ()), qd.ndarray(qd.i32, ())
    flag[()] = 3

    @qd.kernel(graph=True)
    def kernel(x: qd.types.ndarray(qd.i32, 1), flag: qd.types.ndarray(qd.i32, 0), inner: qd.types.ndarray(qd.i32, 0)) -> None:
        while qd.graph.do_while(flag):
            inner[()] = 2
            while qd.graph.do_while(inner):
                for i in range(100):
                    x[i] += i
                inner[()] -= 1
            flag[()] -= 1
        for i in range(100):
            x[i] = -x[i]

    for round_number in (1, 2):  # the second launch would be a graph without the loop
        flag[()] = 3
        x.fill(0)
        kernel(x, flag, inner)
        np.testing.assert_array_equal(x.to_numpy(), -6 * np.arange(100), str(round_number))


@pytest.mark.parametrize("shape", [(1, 1), (2, 300), (3, 5), (17, 130), (64, 64), (0, 4), (9, 1022), (4, 2), (6, 518)])
def test_neighboring_rows(shape: tuple[int, int]) -> None:
    values = np.random.default_rng(1).integers(0, 100, (shape[0] + 2, shape[1] + 2)).astype(np.int32)
    x, y, total = qd.field(qd.i32, values.shape), qd.ndarray(qd.i32, values.shape), qd.field(qd.i32, ())
    x.from_numpy(values)

    @qd.kernel
    def kernel(y: qd.types.ndarray(), rows: qd.i32, columns: qd.i32) -> None:
        for i, j in qd.ndrange((1, rows + 1), (1, columns + 1)):
            y[i, j] = x[i - 1, j] + 2 * x[i + 1, j] + 3 * x[i, j - 1] + 4 * x[i, j + 1]
            total[None] += x[i, j]

    kernel(y, *shape)
    expected = np.zeros_like(values)
    expected[1:-1, 1:-1] = values[:-2, 1:-1] + 2 * values[2:, 1:-1] + 3 * values[1:-1, :-2] + 4 * values[1:-1, 2:]
    np.testing.assert_array_equal(y.to_numpy(), expected)
    assert total[None] == values[1:-1, 1:-1].sum()


@pytest.mark.parametrize("dtype", [qd.i32, qd.f64])
@pytest.mark.parametrize("first", [0, 1, 4])
@pytest.mark.parametrize("columns", [16, 1024, 1023, 1030, 2, 1])
def test_neighboring_columns(columns: int, first: int, dtype: Any) -> None:
    """Rows of aligned arrays are read and written in parts of several columns; any array gives the same."""
    rows, space = 7, qd.ndarray(dtype, 7 * columns + 4)
    values = np.random.default_rng(2).integers(0, 100, 7 * columns + 4).astype(space.to_numpy().dtype)
    space.from_numpy(values)
    whole = space.__cuda_array_interface__
    address = whole["data"][0] + first * values.itemsize

    class Part:
        __cuda_array_interface__ = {**whole, "data": (address, False), "shape": (rows, columns), "strides": None}

    y = qd.ndarray(dtype, (rows, columns))

    @qd.kernel
    def kernel(x: qd.types.ndarray(), y: qd.types.ndarray(), low: qd.i32) -> None:
        for i, j in qd.ndrange((1, x.shape[0]), (3, x.shape[1] - 1)):
            y[i, j] = x[i, j - 1] + 2 * x[i, j + 1] + 3 * x[i - 1, j] - x[i, 0]

    kernel(Part(), y, 1)
    x, expected = values[first : first + rows * columns].reshape(rows, columns), np.zeros((rows, columns), values.dtype)
    expected[1:, 3:-1] = (x[1:, 2:-2] + 2 * x[1:, 4:] + 3 * x[:-1, 3:-1] - x[1:, :1])[:, : max(columns - 4, 0)]
    np.testing.assert_array_equal(y.to_numpy(), expected)


@pytest.mark.parametrize("count", [2, 3, 4])
@pytest.mark.parametrize("first", [0, 1])
def test_vectors_that_are_aligned_and_others(count: int, first: int) -> None:
    """A part of an array may begin anywhere: elements are taken as a whole, and added together, only where they are aligned."""
    numbers = qd.ndarray(qd.f32, 64 * count + 4)

    @qd.kernel
    def kernel(x: qd.types.ndarray(dtype=qd.types.vector(count, qd.f32), ndim=1), n: qd.i32) -> None:
        for i in range(n):
            x[i] = x[i] * 2.0 + 1.0
        for i in range(n):
            if i % 2 == 0:
                x[i // 4] += qd.Vector([1.0, 2.0, 3.0, 4.0])[:count]
            else:
                x[i // 4] -= qd.Vector([0.5, 0.5, 0.5, 0.5])[:count]

    array = numbers.__cuda_array_interface__
    address = array["data"][0] + 4 * first

    class Part:
        __cuda_array_interface__ = {**array, "data": (address, False), "shape": (60, count), "strides": None}

    kernel(Part(), 60)
    expected = np.zeros((60, count), np.float32) + 1
    expected[:15] += 2 * np.arange(1, count + 1) - 1
    everything = numbers.to_numpy()
    np.testing.assert_array_equal(everything[first : first + 60 * count].reshape(60, count), expected)
    assert everything.sum() == expected.sum()


def test_a_counter_hands_out_positions() -> None:
    x, count = qd.field(qd.i32, 1000), qd.field(qd.i32, ())

    @qd.kernel
    def kernel() -> None:
        for i in range(1000):
            if i % 3 == 0:
                x[qd.atomic_add(count[None], 1)] = i

    kernel()
    assert count[None] == 334
    assert sorted(x.to_numpy()[:334]) == list(range(0, 1000, 3)) and not x.to_numpy()[334:].any()


def test_a_program_on_the_processor_beside_the_gpu() -> None:
    @qd.kernel
    def add(x: qd.types.ndarray(), y: qd.types.ndarray()) -> None:
        for i in x:
            x[i] += y[i]

    there = qd.ndarray(qd.i32, 4)
    there.fill(1)
    program = qd.Program(arch=qd.cpu)
    with program:
        here, other = qd.ndarray(qd.i32, 4), qd.field(qd.i32, 4)
        here.fill(10)
        other.copy_from(there)
        add(here, here)
        with pytest.raises(ValueError, match=r"is on (cuda|amdgpu):0, and the current program runs on the CPU: copy it"):
            add(here, there)
        assert there.to_numpy().tolist() == other.to_numpy().tolist() == [1] * 4
    add(there, here)
    assert there.to_numpy().tolist() == [21] * 4
    there.copy_from(here)
    assert there[3] == 20


def test_fields_of_the_gpu_are_out_of_reach_of_a_program_on_the_processor() -> None:
    x = qd.field(qd.i32, 4)

    @qd.kernel
    def total() -> qd.i32:
        result = 0
        for i in x:
            result += x[i]
        return result

    x.fill(2)
    program = qd.Program(arch=qd.cpu)
    with program, pytest.raises(ValueError, match="is on (cuda|amdgpu):0"):
        total()
    assert total() == 8


def test_any_byte_but_0_is_true() -> None:
    @qd.kernel
    def count(x: qd.types.ndarray(qd.u1, 1)) -> qd.i32:
        total = 0
        for i in x:
            if x[i]:
                total += 1
        return total

    numbers = np.tile(np.array([0, 1, 2, 4, 128, 255], np.uint8), 100)
    assert count(numbers.view(bool)) == 500


def test_inner_loops_that_have_ended_stay_ended() -> None:
    @qd.kernel
    def visit(count: qd.types.ndarray(), low: qd.types.ndarray(), high: qd.types.ndarray()) -> None:
        for j in count:
            for i in range(low[j], high[j]):
                count[j] += 1
            for i in range(low[j], high[j], 7):
                count[j] += 1000

    bounds = [(2**31 - 1, 0), (2**31 - 5, 2**31 - 1), (0, 100), (-(2**31), -(2**31) + 3), (2**31 - 3, -(2**31)), (7, 7)] * 20
    low, high = np.ascontiguousarray(np.array(bounds, np.int32).T)
    count = np.zeros(len(bounds), np.int32)
    visit(count, low, high)
    assert count.tolist() == [len(range(*pair)) + 1000 * len(range(*pair, 7)) for pair in bounds]


def test_more_iterations_than_can_be_counted_are_refused_unless_an_axis_is_empty() -> None:
    @qd.kernel
    def visit(count: qd.types.ndarray(qd.i32, 1), low: qd.i64, high: qd.i64, more: qd.i64) -> None:
        for _, _, _ in qd.ndrange((low, high), more, more):
            count[0] += 1

    count = qd.ndarray(qd.i32, 1)
    visit(count, -1, 3, 2)
    visit(count, 0, 2**40, 0)
    visit(count, 0, 0, 2**40)
    for low, high, more in ((0, 2**32, 2**16), (-5, 2**62, 3)):
        with pytest.raises(qd.QuadrantsRuntimeError, match=r"visit: a loop has at most 2\*\*63 - 1 iterations"):
            visit(count, low, high, more)
    visit(count, 0, 2, 1)
    assert count[0] == 18


def test_eigenvalues_of_matrices_with_normal_and_subnormal_entries() -> None:
    A = np.array([[2.0, 0.7], [0.7, -1.4]], np.float32) * np.float32(1e-38)

    @qd.kernel
    def kernel(A: qd.types.matrix(2, 2, qd.f32)) -> qd.types.vector(2, qd.f32):
        return qd.sym_eig(A)[0]

    # With fast_math, quotients of CUDA take subnormal numbers for zeros.
    expected = np.linalg.eigvalsh(A.astype(np.float64))
    np.testing.assert_allclose(kernel(qd.Matrix(A, qd.f32)).to_numpy().astype(np.float64), expected, atol=1e-43)


@pytest.mark.parametrize("count", [1000, 10_000])
def test_algorithms_that_python_calls_have_scratch_memory_for_their_blocks(count: int) -> None:
    x = np.random.default_rng(count).standard_normal(count).astype(np.float32)
    data = qd.ndarray(qd.f32, count)
    data.from_numpy(x)
    np.testing.assert_allclose(qd.algorithms.reduce(data), x.sum(dtype=np.float64), rtol=1e-4)
    assert (qd.algorithms.reduce(data, "max"), qd.algorithms.argmin(data)) == (x.max(), x.argmin())


def test_quotients_of_f64_by_zero_and_infinity() -> None:
    """LLVM's approximation for AMD GPUs made NaN of them."""
    x, out = np.array([0.0, -0.0, np.inf, -np.inf, 3.0, 5e-324]), qd.ndarray(qd.f64, 6)

    @qd.kernel
    def kernel(x: qd.types.ndarray(qd.f64, 1), out: qd.types.ndarray(qd.f64, 1)) -> None:
        for i in x:
            out[i] = 1.0 / x[i]

    kernel(x, out)
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(out.to_numpy(), 1 / x, rtol=1e-15)
    assert np.signbit(out.to_numpy()).tolist() == [False, True, False, True, False, False]


def test_several_kernels_are_one_graph_with_branches_and_loops() -> None:
    x, y, left = qd.ndarray(qd.i32, 300), qd.ndarray(qd.i32, 300), qd.ndarray(qd.i32, ())

    @qd.kernel
    def add(x: qd.types.NDArray[qd.i32, 1], value: qd.i32) -> None:
        for i in x:
            x[i] += value

    @qd.kernel(graph=True)
    def both(x: qd.types.NDArray[qd.i32, 1], y: qd.types.NDArray[qd.i32, 1], left: qd.types.NDArray[qd.i32, 0]) -> None:
        left[None] = 3
        with qd.graph.parallel_context():
            with qd.graph.parallel():
                while qd.graph.do_while(left):
                    for i in x:
                        x[i] += 1
                    left[None] -= 1
            with qd.graph.parallel():
                for i in y:
                    y[i] += 2
        with qd.graph.parallel_context():
            with qd.graph.parallel():
                for i in x:
                    x[i] += y[i]

    with qd.graph.capture() as graph:
        add(x, 1)
        add(y, 10)
        both(x, y, left)
        add(x, 100)
    for _ in range(3):
        graph()
    assert set(x.to_numpy()) == {3 * (1 + 3 + 100) + 12 + 24 + 36}
    assert set(y.to_numpy()) == {36}


@pytest.mark.parametrize("shape", [(7, 100), (3, 2, 64), (5, 33), (70, 31), (4, 3), (0, 50)])
@pytest.mark.parametrize("dtype", [qd.f32, qd.f64, qd.i64, qd.u8])
def test_subgroups_share_rows(dtype: Any, shape: tuple[int, ...]) -> None:
    x, out = qd.ndarray(dtype, shape), qd.ndarray(dtype, (*shape[:-1], 2))
    values = np.random.default_rng(1).integers(0, 9, shape).astype(x.to_numpy().dtype)
    x.from_numpy(values)

    @qd.kernel
    def normalize(x: qd.types.ndarray(), out: qd.types.ndarray(), m: qd.i32) -> None:
        for row in qd.grouped(qd.ndrange(*[out.shape[axis] for axis in qd.static(range(len(shape) - 1))])):
            total, largest = qd.cast(0, dtype), qd.cast(0, dtype)
            for j in range(m):
                total += x[row, j]
                largest = max(largest, x[row, j])
            out[row, 0] = total
            for j in range(m):
                x[row, j] = largest - x[row, j]
            out[row, 1] = x[row, 0] + x[row, m - 1]

    normalize(x, out, shape[-1])
    left = values.max(axis=-1, keepdims=True, initial=0) - values
    np.testing.assert_array_equal(x.to_numpy(), left)
    np.testing.assert_array_equal(out.to_numpy()[..., 0], values.sum(axis=-1, dtype=values.dtype))
    np.testing.assert_array_equal(out.to_numpy()[..., 1], left[..., 0] + left[..., -1])

"""Reductions, atomic updates, threads of a block, graphs, streams."""

import numpy as np

import quadrants as qd
from quadrants import algorithms
from quadrants.simt import Tile16x16, block, grid, subgroup

from .graphs import make_count_down
from .recording import Launches


def sums_of_every_type() -> Launches:
    fields = [qd.field(dtype, 100) for dtype in (qd.f16, qd.f32, qd.f64, qd.i32, qd.i64, qd.u8, qd.u64)]
    sums = [qd.field(field.dtype, ()) for field in fields]
    vectors, vector = qd.Vector.field(3, qd.f32, 100), qd.Vector.field(3, qd.f32, ())

    @qd.kernel
    def add() -> None:
        for i in vectors:
            for k in qd.static(range(len(fields))):
                sums[k][None] += fields[k][i]
            vector[None] += vectors[i]

    yield (add,)


def reductions_into_variables() -> Launches:
    @qd.kernel
    def summarize(values: qd.types.NDArray[qd.f32, 1]) -> qd.types.vector(4, qd.f32):
        total, largest, smallest, count = 0.0, values[0], values[0], 0
        for i in values:
            total = total + values[i]
            if values[i] > largest:
                largest = values[i]
            smallest = min(smallest, values[i])
            count += 1
        return qd.Vector([total / count, largest, smallest, count])

    yield summarize, np.zeros(100, np.float32)


def histograms() -> Launches:
    bins = qd.field(qd.i32, 256)

    @qd.kernel
    def count(keys: qd.types.ndarray(qd.u8, 1), sizes: qd.types.ndarray(qd.f32, 2)) -> None:
        for i in keys:
            bins[qd.i32(keys[i])] += 1
            qd.atomic_max(sizes[qd.i32(keys[i]) % 4, 0], 1.5)

    yield count, qd.ndarray(qd.u8, 10000), qd.ndarray(qd.f32, (4, 4))


def atomic_updates_of_every_type() -> Launches:
    cells = [qd.field(dtype, 16) for dtype in (qd.i8, qd.u16, qd.i32, qd.u64, qd.f16, qd.f32, qd.f64)]
    old = qd.field(qd.i32, 100)

    @qd.kernel
    def update() -> None:
        for i in range(100):
            for k in qd.static(range(len(cells))):
                qd.atomic_add(cells[k][i % 7], 1)
                qd.atomic_min(cells[k][i % 5], 1)
                qd.atomic_mul(cells[k][i % 3], 2)
            old[i] = qd.atomic_or(cells[2][i % 2], 8) + qd.atomic_xor(cells[2][1], 3) + qd.atomic_and(cells[2][0], 7)
            old[i] += qd.atomic_sub(cells[2][3], 1)

    yield (update,)


def atomic_updates_that_nobody_shares() -> Launches:
    x, y = qd.field(qd.f32, (8, 8)), qd.field(qd.f32, 8)

    @qd.kernel
    def update() -> None:
        for i, j in x:
            x[i, j] += 1.0
            y[i] += x[i, j]
            x[i, j] *= 2.0
        y[3] += 1.0

    yield (update,)


def lists_filled_by_counters() -> Launches:
    @qd.kernel
    def collect(values: qd.types.NDArray[qd.i32, 1], out: qd.types.NDArray[qd.i32, 1]) -> qd.i32:
        count = 0
        for i in range(values.shape[0]):
            if values[i] % 7 == 0:
                out[qd.atomic_add(count, 1)] = values[i]
        return count

    yield collect, np.zeros(100, np.int32), np.zeros(100, np.int32)


def shared_arrays_and_barriers() -> Launches:
    @qd.kernel
    def smooth(x: qd.types.NDArray[qd.f32, 1], y: qd.types.NDArray[qd.f32, 1]) -> None:
        qd.loop_config(block_dim=64)
        for i in range(x.shape[0]):
            near = block.SharedArray((66,), qd.f32)
            thread = block.thread_idx()
            near[thread + 1] = x[i]
            if thread == 0:
                near[0] = x[qd.max(i - 1, 0)]
            if thread == 63:
                near[65] = x[qd.min(i + 1, x.shape[0] - 1)]
            block.sync()
            y[i] = (near[thread] + near[thread + 1] + near[thread + 2]) / 3

    yield smooth, np.zeros(256, np.float32), np.zeros(256, np.float32)


def values_of_blocks_and_subgroups() -> Launches:
    @qd.kernel
    def combine(x: qd.types.NDArray[qd.i32, 1], out: qd.types.NDArray[qd.i32, 2]) -> None:
        qd.loop_config(block_dim=64)
        for i in range(x.shape[0]):
            out[0, i] = block.reduce_all_add(x[i], 64, qd.i32)
            out[1, i] = subgroup.inclusive_add(x[i])
            out[2, i] = subgroup.shuffle_down(x[i], 1)
            out[3, i] = block.sync_count_nonzero(x[i] > 3)

    yield combine, np.zeros(128, np.int32), np.zeros((4, 128), np.int32)


def tiles_of_matrices() -> Launches:
    @qd.kernel
    def factor(a: qd.types.NDArray[qd.f32, 3], c: qd.types.NDArray[qd.f32, 2]) -> None:
        qd.loop_config(block_dim=16)
        for i in range(16 * a.shape[0]):
            tile = Tile16x16.eye()
            tile[:] = a[i // 16, :, :]
            tile += qd.outer(c[i // 16, :], c[i // 16, :])
            tile.cholesky_(1e-12)
            a[i // 16, :, :] = tile

    yield factor, np.zeros((4, 12, 12), np.float32), np.zeros((4, 12), np.float32)


def barriers_of_the_grid() -> Launches:
    @qd.kernel
    def reverse(x: qd.types.NDArray[qd.i32, 1], y: qd.types.NDArray[qd.i32, 1]) -> None:
        qd.loop_config(block_dim=32)
        for i in range(x.shape[0]):
            x[i] += 1
            grid.mem_fence()
            grid.sync()
            y[i] = x[x.shape[0] - 1 - i]

    yield reverse, np.zeros(64, np.int32), np.zeros(64, np.int32)


def repeated_tasks() -> Launches:
    yield make_count_down(), np.zeros(8, np.int32), np.array(3, np.int32)


def parallel_sections() -> Launches:
    @qd.kernel(graph=True)
    def both(x: qd.types.NDArray[qd.f32, 1], y: qd.types.NDArray[qd.f32, 1]) -> None:
        with qd.graph.parallel_context():
            with qd.graph.parallel():
                for i in x:
                    x[i] = 1.0
            with qd.graph.parallel():
                for i in y:
                    y[i] = 2.0

    yield both, np.zeros(4, np.float32), np.zeros(5, np.float32)


def blocks_on_streams() -> Launches:
    x, sums = qd.field(qd.i32, shape=1000), qd.field(qd.i32, shape=20)

    @qd.kernel
    def work() -> None:
        with qd.stream_parallel():
            for i in x:
                sums[0] += i
        with qd.stream_parallel():
            for i in x:
                sums[1] += 2 * i

    yield (work,)


def scans_and_sorts() -> Launches:
    @qd.kernel
    def scan(arr: qd.types.ndarray(), out: qd.types.ndarray(), scratch: qd.types.ndarray(), n: qd.i32) -> None:
        algorithms.inclusive_scan_add(arr, out, scratch, n, qd.i32, 1)

    yield scan, np.zeros(6, np.int32), np.zeros(6, np.int32), np.zeros(algorithms.exclusive_scan_scratch_slots(6), np.uint32), 6


def serial_loops_of_many_worlds() -> Launches:
    @qd.kernel
    def step(state: qd.types.ndarray(qd.f32, 2), force: qd.types.ndarray(qd.f32, 2), dt: qd.f32) -> None:
        qd.loop_config(serialize=True)
        for world in range(state.shape[1]):
            for link in range(state.shape[0]):
                if force[link, world] > 0:
                    state[link, world] += dt * force[link, world]

    yield step, qd.ndarray(qd.f32, (6, 64)), qd.ndarray(qd.f32, (6, 64)), 0.01

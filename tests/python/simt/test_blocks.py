"""Shared arrays, barriers and what blocks compute together."""

import numpy as np
import pytest

import quadrants as qd
from quadrants.simt import block

NUMPY = {"i32": np.int32, "u32": np.uint32, "i64": np.int64, "u64": np.uint64, "f32": np.float32, "f64": np.float64}


@pytest.mark.parametrize("block_dim", [1, 2, 32, 64, 256, 1024])
def test_threads_see_what_others_wrote_before_the_barrier(block_dim):
    @qd.kernel
    def reverse(x: qd.types.ndarray(), y: qd.types.ndarray()):
        qd.loop_config(block_dim=block_dim)
        for i in range(x.shape[0]):
            own = block.SharedArray((block_dim,), qd.i32)
            thread = block.thread_idx()
            own[thread] = x[i]
            block.sync()
            y[i] = own[block_dim - 1 - thread]

    x = np.arange(3 * block_dim, dtype=np.int32)
    y = np.zeros_like(x)
    reverse(x, y)
    np.testing.assert_array_equal(y, x.reshape(3, block_dim)[:, ::-1].ravel())


def test_barriers_stand_in_uniform_loops_and_branches():
    @qd.kernel
    def shift(x: qd.types.ndarray(), rounds: qd.i32):
        qd.loop_config(block_dim=64)
        for i in range(x.shape[0]):
            own = block.SharedArray(64, qd.f32)
            thread = block.thread_idx()
            own[thread] = x[i]
            for _ in range(rounds):
                block.sync()
                left = own[(thread + 63) % 64]
                block.sync()
                own[thread] = left
            if rounds > 2:
                block.sync()
                x[i] = own[63 - thread]
            else:
                x[i] = own[thread]

    for rounds in (0, 1, 5):
        x = np.arange(128, dtype=np.float32)
        shift(x, rounds)
        rows = np.roll(np.arange(128, dtype=np.float32).reshape(2, 64), rounds, axis=1)
        np.testing.assert_array_equal(x, (rows[:, ::-1] if rounds > 2 else rows).ravel())


def test_arrays_have_axes_vectors_and_atomics():
    @qd.kernel
    def work(out: qd.types.ndarray()):
        qd.loop_config(block_dim=32)
        for i in range(out.shape[0]):
            grid = block.SharedArray((4, 8), qd.types.vector(2, qd.f32))
            total = block.SharedArray((1,), qd.i32)
            thread = block.thread_idx()
            if thread == 0:
                total[0] = 0
            block.sync()
            grid[thread // 8, thread % 8] = qd.Vector([i, thread], qd.f32)
            total[0] += thread
            block.sync()
            out[i] = grid[3 - thread // 8, thread % 8][1] + total[0]

    out = np.zeros(64, np.float32)
    work(out)
    lanes = np.arange(32)
    np.testing.assert_array_equal(out, np.tile((3 - lanes // 8) * 8 + lanes % 8 + 496, 2))


def test_arrays_are_arguments_of_funcs():
    @qd.func
    def fill(shared, value):
        shared[block.thread_idx()] = value
        block.sync()

    @qd.func
    def total_of(shared):
        total = 0
        for k in range(shared.shape[0]):
            total += shared[k]
        return total

    @qd.kernel
    def work(out: qd.types.ndarray()):
        qd.loop_config(block_dim=32)
        for i in range(32):
            first = block.SharedArray((32,), qd.i32)
            second = block.SharedArray((32,), qd.i32)
            fill(first, i)
            fill(second, 2 * i)
            out[i] = total_of(second) - total_of(first)

    out = np.zeros(32, np.int32)
    work(out)
    assert (out == 496).all()


@pytest.mark.parametrize("dtype", [qd.i32, qd.f64, qd.f16, qd.u8], ids=str)
def test_copies_to_shared_memory_may_wait_later(dtype):
    kind = qd.types.vector(4, dtype) if dtype is qd.i32 else dtype

    @qd.kernel
    def reverse(x: qd.types.ndarray(), y: qd.types.ndarray()):
        qd.loop_config(block_dim=64)
        for i in range(x.shape[0]):
            own = block.SharedArray((2, 64), kind)
            thread = block.thread_idx()
            block.copy_async(own[0, thread], x[i])
            block.copy_async(own[1, thread], x[x.shape[0] - 1 - i])
            block.wait_copies()
            block.sync()
            y[i] = own[0, 63 - thread] + own[1, thread]

    shape = (128, 4) if dtype is qd.i32 else (128,)
    x = np.arange(np.prod(shape)).reshape(shape).astype({"i32": "int32", "f64": "float64", "f16": "float16", "u8": "uint8"}[str(dtype)])
    given, out = (qd.Vector.ndarray(4, dtype, 128) if dtype is qd.i32 else qd.ndarray(dtype, 128) for _ in range(2))
    given.from_numpy(x)
    reverse(given, out)
    within = x.reshape(2, 64, *shape[1:])[:, ::-1].reshape(shape)
    np.testing.assert_array_equal(out.to_numpy(), within + x[::-1])


def test_copies_go_to_shared_arrays():
    with pytest.raises(qd.QuadrantsTypeError, match="copies to an element of a shared array, got"):
        compile_in_block("s = qd.simt.block.SharedArray((4,), qd.i32)\nt = 0\nqd.simt.block.copy_async(t, s[0])")


@pytest.mark.parametrize("dtype", [qd.f16, qd.i8, qd.i16, qd.u1], ids=str)
def test_small_types_in_shared_arrays(dtype):
    @qd.kernel
    def work(x: qd.types.ndarray(), y: qd.types.ndarray()):
        qd.loop_config(block_dim=64)
        for i in range(64):
            own = block.SharedArray((64,), dtype)
            own[block.thread_idx()] = x[i]
            block.sync()
            y[0, i] = own[63 - block.thread_idx()]
            y[1, i] = block.reduce_all_max(qd.cast(x[i], dtype), 64, dtype)
            if qd.static(dtype is qd.f16):
                y[2, i] = block.inclusive_add(qd.cast(x[i], dtype), 64, dtype)

    x = np.arange(64) % 2 if dtype is qd.u1 else np.arange(64) - 8
    y = np.zeros((3, 64), np.float32)
    work(x.astype(np.float32), y)
    np.testing.assert_array_equal(y[:2], [x[::-1], np.full(64, x.max())])
    if dtype is qd.f16:
        np.testing.assert_array_equal(y[2], np.cumsum(x))


@pytest.mark.parametrize("length", [6000, 40000])
def test_arrays_have_as_much_memory_as_the_device(length):
    @qd.kernel
    def work(y: qd.types.ndarray()):
        qd.loop_config(block_dim=64)
        for i in range(y.shape[0]):
            first = block.SharedArray((length,), qd.i32)
            second = block.SharedArray((length,), qd.i32)
            thread = block.thread_idx()
            for k in range(thread, length, 64):
                first[k] = k + i // 64
                second[k] = 2 * k
            block.sync()
            total = 0
            for k in range(thread, length, 64):
                total += first[length - 1 - k] + second[length - 1 - k]
            y[i] = block.reduce_all_add(total, 64, qd.i32)
        for i in y:
            y[i] += 1

    y = np.zeros(128, np.int32)
    most = qd.lang.impl.get_max_shared_memory_bytes(is_lowerbound_ok=True)
    if 0 < most < 8 * length:
        with pytest.raises(qd.QuadrantsCompilationError, match=f"arrays of this loop take [0-9]+ bytes, a block has {most}"):
            work(y)
        return
    work(y)
    total = np.int64(3 * sum(range(length))).astype(np.int32)
    np.testing.assert_array_equal(y, total + np.arange(128) // 64 * length + 1)


def test_votes_of_a_block():
    @qd.kernel
    def work(out: qd.types.ndarray()):
        qd.loop_config(block_dim=64)
        for i in range(64):
            thread = block.thread_idx()
            out[i, 0] = block.sync_count_nonzero(thread % 3 == 0)
            out[i, 1] = block.sync_any_nonzero(thread == 63)
            out[i, 2] = block.sync_all_nonzero(thread < 63)
            out[i, 3] = block.sync_all_nonzero(thread >= 0)

    out = np.zeros((64, 4), np.int32)
    work(out)
    assert (out == [22, 1, 0, 1]).all()


@pytest.mark.parametrize("dtype", NUMPY)
@pytest.mark.parametrize("block_dim", [pytest.param(32, marks=pytest.mark.needs(block=32)), 64, 128])
def test_reductions_and_scans(dtype, block_dim):
    kind = getattr(qd, dtype)

    @qd.kernel
    def work(x: qd.types.ndarray(), out: qd.types.ndarray()):
        qd.loop_config(block_dim=block_dim)
        for i in range(x.shape[0]):
            out[0, i] = block.reduce_all_add(x[i], block_dim, kind)
            out[1, i] = block.reduce_all_min(x[i], block_dim, kind)
            out[2, i] = block.reduce_all_max(x[i], block_dim, kind)
            out[3, i] = block.inclusive_add(x[i], block_dim, kind)
            out[4, i] = block.exclusive_add(x[i], block_dim, kind)
            out[5, i] = block.exclusive_min(x[i], block_dim, kind)
            out[6, i] = block.inclusive_max(x[i], block_dim, kind)

    x = np.random.default_rng(1).integers(0, 100, 2 * block_dim).astype(NUMPY[dtype])
    out = np.zeros((7, len(x)), NUMPY[dtype])
    work(x, out)
    rows = x.reshape(2, block_dim)
    largest = np.inf if dtype[0] == "f" else np.iinfo(NUMPY[dtype]).max
    before = np.concatenate([np.full((2, 1), largest, NUMPY[dtype]), np.minimum.accumulate(rows, axis=1)[:, :-1]], axis=1)
    expected = [
        np.repeat(rows.sum(axis=1), block_dim), np.repeat(rows.min(axis=1), block_dim), np.repeat(rows.max(axis=1), block_dim),
        np.cumsum(rows, axis=1).ravel(), (np.cumsum(rows, axis=1) - rows).ravel(), before.ravel(),
        np.maximum.accumulate(rows, axis=1).ravel(),
    ]  # fmt: skip
    np.testing.assert_array_equal(out, np.array(expected, NUMPY[dtype]))


def test_scans_keep_the_order_of_the_threads():
    @qd.func
    def last(a, b):
        return b

    @qd.kernel
    def work(out: qd.types.ndarray()):
        qd.loop_config(block_dim=64)
        for i in range(64):
            out[0, i] = block.inclusive_scan(i, 64, last, qd.i32)
            out[1, i] = block.exclusive_scan(i, 64, last, -1, qd.i32)
            out[2, i] = block.reduce_all(i, 64, last, qd.i32)

    out = np.zeros((3, 64), np.int32)
    work(out)
    np.testing.assert_array_equal(out, [np.arange(64), np.arange(64) - 1, np.full(64, 63)])


@pytest.mark.parametrize(("bits", "start", "digit_bits"), [pytest.param(5, 0, 5, marks=pytest.mark.needs(block=32)), (6, 3, 6), (8, 8, 4)])
def test_radix_rank_is_stable(bits, start, digit_bits):
    size = 1 << bits

    @qd.kernel
    def work(keys: qd.types.ndarray(), rank: qd.types.ndarray(), counts: qd.types.ndarray()):
        qd.loop_config(block_dim=size)
        for i in range(size):
            bins = block.SharedArray((size,), qd.i32)
            before = block.SharedArray((size,), qd.i32)
            rank[i] = block.radix_rank_match_atomic_or(keys[i], size, bits, start, digit_bits, bins, before)
            counts[0, i] = bins[block.thread_idx()]
            counts[1, i] = before[block.thread_idx()]

    keys = np.random.default_rng(2).integers(0, 2**32, size, np.uint32)
    rank, counts = np.zeros(size, np.int32), np.zeros((2, size), np.int32)
    work(keys, rank, counts)
    digits = (keys >> np.uint32(start)) & np.uint32((1 << digit_bits) - 1)
    bins = np.bincount(digits, minlength=size)
    np.testing.assert_array_equal(counts, [bins, np.cumsum(bins) - bins])
    np.testing.assert_array_equal(rank, np.argsort(np.argsort(digits, kind="stable")))


def test_random_numbers_and_several_axes():
    @qd.kernel
    def work(out: qd.types.ndarray()):
        qd.loop_config(block_dim=32)
        for i, j in qd.ndrange(4, 32):
            own = block.SharedArray((32,), qd.f32)
            own[block.thread_idx()] = qd.random()
            block.sync()
            out[i, j] = own[31 - j]

    out = np.zeros((4, 32), np.float32)
    work(out)
    assert len(np.unique(out)) == 128


def test_a_last_block_that_is_not_full_waits_for_its_own_threads():
    @qd.kernel
    def work(out: qd.types.ndarray()):
        qd.loop_config(block_dim=64)
        for i in range(out.shape[0]):
            count = block.SharedArray((1,), qd.i32)
            if block.thread_idx() == 0:
                count[0] = 0
            block.sync()
            count[0] += 1
            block.sync()
            out[i] = count[0]

    out = np.zeros(100, np.int32)
    work(out)
    assert out.tolist() == [64] * 64 + [36] * 36


def test_blocks_that_run_again_do_not_disturb_their_slower_threads():
    @qd.kernel
    def reverse(x: qd.types.ndarray(), count: qd.types.ndarray(ndim=0)):
        size = count[()]  # known on the device only: the grid has as many blocks as run at the same time
        qd.loop_config(block_dim=128)
        for i in range(size):
            own = block.SharedArray((128,), qd.i32)
            own[block.thread_idx()] = x[i]
            block.sync()
            x[i] = own[127 - block.thread_idx()]

    x = np.arange(128 * 1000, dtype=np.int32)
    reverse(x, np.array(len(x), np.int32))
    np.testing.assert_array_equal(x, np.arange(len(x)).reshape(-1, 128)[:, ::-1].ravel())


def test_blocks_know_their_numbers():
    @qd.func
    def note(out, i):
        out[0, i] = block.block_idx()
        out[1, i] = block.block_dim()
        out[2, i] = block.num_blocks()

    @qd.kernel
    def work(out: qd.types.ndarray()):
        qd.loop_config(block_dim=64)
        for i, j in qd.ndrange(4, out.shape[1] // 4):
            note(out, i * (out.shape[1] // 4) + j)

    out = np.zeros((3, 256), np.int32)
    work(out)
    np.testing.assert_array_equal(out, [np.arange(256) // 64, np.full(256, 64), np.full(256, 4)])


@pytest.mark.needs("grid barriers")
@pytest.mark.parametrize(("block_dim", "blocks"), [(64, 1), (32, 7), (128, 8)])
def test_all_blocks_wait_for_each_other(block_dim, blocks):
    @qd.kernel
    def sums(x: qd.types.ndarray(), rounds: qd.i32):
        qd.loop_config(block_dim=block_dim)
        for i in range(x.shape[0]):
            own = x[i]
            for _ in range(rounds):
                left = x[(i + x.shape[0] - 1) % x.shape[0]]
                qd.simt.grid.sync()
                own += left
                x[i] = own
                qd.simt.grid.sync()

    x = np.arange(block_dim * blocks, dtype=np.int64)
    expected = x.copy()
    for _ in range(3):
        expected += np.roll(expected, 1)
    for rounds in (0, 1, 2):  # launches follow each other
        sums(x, rounds)
    np.testing.assert_array_equal(x, expected)


@pytest.mark.host_memory  # shared arrays of blocks that run together are not emulated
def test_blocks_that_wait_for_each_other_have_shared_arrays_of_their_own():
    @qd.kernel
    def work(out: qd.types.ndarray()):
        qd.loop_config(block_dim=32)
        for i in range(out.shape[0]):
            own = block.SharedArray((32,), qd.i32)
            own[block.thread_idx()] = i
            total = qd.simt.subgroup.reduce_all_add(i)
            qd.simt.grid.sync()
            out[i] = own[31 - block.thread_idx()] + total

    out = np.zeros(40, np.int32)
    work(out)
    first = np.arange(31, -1, -1) + 496
    # Lanes that are not there give a thread its own value.
    assert out[:32].tolist() == first.tolist()


@pytest.mark.host_memory
def test_too_many_threads_for_the_grid_are_an_error():
    @qd.kernel
    def work():
        qd.loop_config(block_dim=32)
        for _ in range(1 << 20):
            qd.simt.grid.sync()

    with pytest.raises(qd.QuadrantsRuntimeError, match="at most 16384 can wait for each other"):
        work()


@pytest.mark.host_memory  # a GPU waits for ever
def test_threads_at_different_barriers_are_an_error():
    @qd.kernel
    def work(is_odd: qd.types.ndarray()):
        qd.loop_config(block_dim=32)
        for i in range(32):
            if is_odd[i] == 0:
                block.sync()
            else:
                qd.simt.subgroup.sync()

    with pytest.raises(qd.QuadrantsRuntimeError, match="wait for each other at different barriers"):
        work(np.arange(32, dtype=np.int32) % 2)


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ("if qd.simt.block.thread_idx() < 10:\n    qd.simt.block.sync()", "branch"),
        ("thread = i % 32\nif thread == 0:\n    for _ in range(3):\n        qd.simt.block.sync()", "branch"),
        ("for _ in range(qd.simt.block.thread_idx() // 8):\n    qd.simt.block.sync()", "loop"),
        ("if not i >= 16:\n    total = qd.simt.block.reduce_all_add(i, 64, qd.i32)", "branch"),
    ],
)
def test_barriers_that_some_threads_never_reach_are_refused(body, place):
    with pytest.raises(qd.QuadrantsCompilationError, match=f"some threads of a block never reach this barrier.*out of the {place}"):
        compile_in_block(body, loop="qd.loop_config(block_dim=64)\n    for i in range(128):")


@pytest.mark.parametrize(
    "body",
    [
        "if i // 64 == 0:\n    qd.simt.block.sync()",
        "if qd.simt.block.thread_idx() < 64:\n    qd.simt.block.sync()",
        "for _ in range(qd.simt.block.block_idx() + 2):\n    qd.simt.block.sync()",
        "rounds = 0\nif i == 0:\n    rounds = 0\nif rounds == 0:\n    qd.simt.block.sync()",
    ],
)
def test_barriers_that_all_threads_reach_are_not(body):
    compile_in_block(body, loop="qd.loop_config(block_dim=64)\n    for i in range(128):")


def compile_in_block(body, loop="qd.loop_config(block_dim=32)\n    for i in range(32):", indent=8):
    lines = "".join(" " * indent + line + "\n" for line in body.splitlines())
    qd.kernel_from_source(f"import quadrants as qd\n@qd.kernel\ndef k():\n    {loop}\n{lines}")()


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("s = qd.simt.block.SharedArray((i, 2), qd.f32)", "shape must be an integer or a tuple of integers, but got"),
        ("s = qd.simt.block.SharedArray('4', qd.f32)", "shape must be an integer or a tuple of integers, but got"),
        ("s = qd.simt.block.SharedArray(4, 'f32')", "Invalid data type"),
        ("qd.simt.block.reduce_add(i, 33, qd.i32)", "block_dim must be a positive multiple of subgroup size"),
        (
            "qd.simt.block.reduce_add(i, 128, qd.i32)",
            "block_dim must be a positive multiple of subgroup size, and the same as that of the loop, 64",
        ),
        ("x = qd.simt.block.inclusive_min(i, 192, qd.i32)", "the same as that of the loop, 64"),
        ("x = qd.simt.block.exclusive_add(i, 256, qd.i32)", "the same as that of the loop, 64"),
        ("qd.simt.block.reduce_add(i * 0.5, 64, qd.i32)", "the values of the block are f32, dtype is i32"),
        ("x = qd.simt.block.reduce_all_min(qd.f64(i), 64, qd.f32)", "the values of the block are f64, dtype is f32"),
        ("x = qd.simt.block.exclusive_add(qd.i64(i), 64, int)", "the values of the block are i64, dtype is i32"),
        ("qd.simt.subgroup.reduce_add_tiled(i, 7)", "log2_size must be an integer in"),
    ],
)
def test_misuse_is_refused(body, text):
    loop = "qd.loop_config(block_dim=64)\n    for i in range(64):"  # a multiple of any size of subgroups
    with pytest.raises(qd.QuadrantsCompilationError, match=text):
        compile_in_block(body, loop)


def test_loops_without_a_size_have_blocks_of_128():
    compile_in_block("qd.simt.block.reduce_add(i, 128, qd.i32)", "for i in range(256):")
    with pytest.raises(qd.QuadrantsCompilationError, match="the same as that of the loop, 128"):
        compile_in_block("qd.simt.block.reduce_add(i, 64, qd.i32)", "for i in range(256):")


def test_threads_are_those_of_parallel_loops():
    with pytest.raises(qd.QuadrantsSyntaxError, match="only valid within loops"):
        compile_in_block("qd.simt.block.sync()", loop="if True:")


def test_deprecated_names_say_so():
    qd._base.compat._warned.clear()
    with pytest.warns(DeprecationWarning, match=r"qd\.simt\.block\.mem_sync"):
        compile_in_block("qd.simt.block.mem_sync()")
    with pytest.warns(DeprecationWarning, match=r"qd\.simt\.grid\.memfence"):
        compile_in_block("qd.simt.grid.memfence()")


@pytest.mark.parametrize("bound", ["argument", "field"])
@pytest.mark.parametrize("block_dim", [1, 8, 32, 64, 128])
def test_blocks_are_numbered_by_iterations_however_many_there_are(block_dim, bound):
    length, total = qd.field(qd.i32, shape=()), qd.field(qd.i64, shape=())

    @qd.kernel
    def number(size: qd.i32, blocks: qd.types.ndarray(qd.i32, 1), counts: qd.types.ndarray(qd.i32, 1)):
        qd.loop_config(block_dim=block_dim)
        for i in range(size if qd.static(bound == "argument") else length[None]):
            blocks[i] = block.block_idx()
            counts[i] = block.num_blocks()

    @qd.kernel
    def number_and_add(size: qd.i32, blocks: qd.types.ndarray(qd.i32, 1)):
        qd.loop_config(block_dim=block_dim)
        for i in range(size):
            blocks[i] = block.block_idx()
            total[None] += block.block_idx()

    for size in (1, 129 * block_dim, 5000 * block_dim - 3 if block_dim > 3 else 5000):
        length[None], total[None] = size, 0
        expected = np.arange(size, dtype=np.int32) // block_dim
        blocks, counts, again = (np.full(size, -1, np.int32) for _ in range(3))
        number(size, blocks, counts)
        number_and_add(size, again)
        np.testing.assert_array_equal(blocks, expected)
        np.testing.assert_array_equal(counts, expected[-1] + 1)
        np.testing.assert_array_equal(again, expected)
        assert total[None] == expected.sum(dtype=np.int64)


@pytest.mark.parametrize("block_dim", [8, 32, 64])
def test_many_small_blocks_have_shared_arrays_of_their_own(block_dim):
    @qd.kernel
    def reverse(x: qd.types.ndarray(qd.i32, 1), y: qd.types.ndarray(qd.i32, 1)):
        qd.loop_config(block_dim=block_dim)
        for i in range(x.shape[0]):
            own = block.SharedArray((block_dim,), qd.i32)
            own[block.thread_idx()] = x[i]
            block.sync()
            y[i] = own[block_dim - 1 - block.thread_idx()]

    x = np.arange(6000 * block_dim, dtype=np.int32)
    y = np.zeros_like(x)
    reverse(x, y)
    np.testing.assert_array_equal(y, x.reshape(-1, block_dim)[:, ::-1].ravel())

"""How a loop is divided into blocks: `block_dim=(x, y, z)`, `grid_dim`, `persistent`, and the hints about registers."""

import numpy as np
import pytest

import quadrants as qd
from quadrants.simt import block

SHAPES = [((8, 4), (13, 21)), ((4, 2, 8), (5, 9, 17)), ((16, 1, 2), (3, 4, 40)), ((8,), (3, 30)), ((1, 32), (70, 3))]


@pytest.mark.parametrize(("shape", "extents"), SHAPES)
def test_blocks_of_several_axes_cover_every_iteration_once(shape, extents):
    @qd.kernel
    def count(out: qd.types.ndarray()):
        qd.loop_config(block_dim=shape)
        for index in qd.grouped(out):
            out[index] += 1

    out = np.zeros(extents, np.int32)
    count(out)
    assert (out == 1).all()


def test_a_block_is_a_box_of_the_iterations():
    @qd.kernel
    def note(out: qd.types.ndarray(), low: qd.i32):
        qd.loop_config(block_dim=(8, 4))
        for i, j in qd.ndrange((low, out.shape[0]), (2, out.shape[1])):
            out[i, j] = block.thread_idx() + 1000 * block.block_idx()

    out = np.full((13, 17), -1, np.int32)  # six blocks: small devices run eight
    note(out, 1)
    i, j = np.mgrid[0:12, 0:15]
    np.testing.assert_array_equal(out[1:, 2:], i % 4 * 8 + j % 8 + 1000 * (i // 4 * 2 + j // 8))
    assert (out[0] == -1).all() and (out[:, :2] == -1).all()


def test_threads_of_a_box_share_memory():
    @qd.kernel
    def transpose(x: qd.types.ndarray(), y: qd.types.ndarray()):
        qd.loop_config(block_dim=(8, 8))
        for i, j in x:
            own = block.SharedArray((8, 8), qd.f32)
            row, column = block.thread_idx() // 8, block.thread_idx() % 8
            own[row, column] = x[i, j]
            block.sync()
            y[j - column + row, i - row + column] = own[column, row]

    x = np.random.default_rng(0).random((32, 16), np.float32)
    y = np.zeros((16, 32), np.float32)
    transpose(x, y)
    np.testing.assert_array_equal(y, x.T)


@pytest.mark.parametrize(("grid", "persistent"), [(1, False), (3, True), (8, False), (100, True)])
def test_a_grid_has_at_most_so_many_blocks(grid, persistent):
    @qd.kernel
    def work(out: qd.types.ndarray()):
        qd.loop_config(block_dim=32, grid_dim=grid, persistent=persistent, min_blocks=2, max_registers=64)
        for i in range(out.shape[1]):
            own = block.SharedArray((32,), qd.i32)
            own[block.thread_idx()] = i
            block.sync()
            out[0, i] = block.block_idx()
            out[1, i] = block.num_blocks()
            out[2, i] = own[31 - block.thread_idx()]

    out = np.zeros((3, 256), np.int32)
    work(out)
    i = np.arange(256)
    if not persistent or grid < 8:  # a device may have room for fewer blocks
        np.testing.assert_array_equal(out[:2], [i // 32 % grid, np.full(256, min(grid, 8))])
    np.testing.assert_array_equal(out[2], i ^ 31)


def test_persistent_blocks_take_all_iterations():
    @qd.kernel
    def work(out: qd.types.ndarray()) -> qd.i64:
        total = qd.i64(0)
        qd.loop_config(persistent=True)
        for i in out:
            out[i] += i
        qd.loop_config(persistent=True, block_dim=(16, 4))
        for i, j in qd.ndrange(300, 70):
            total += i * j
        return total

    out = np.zeros(1 << 20, np.int32)
    assert work(out) == sum(range(300)) * sum(range(70))
    np.testing.assert_array_equal(out, np.arange(1 << 20))


@pytest.mark.parametrize("body", ["light", "with a loop", "counted"])
def test_blocks_take_rounds_where_a_loop_is_long(body, pytestconfig):
    n = 100_003 if pytestconfig.getoption("--emulate") else 6_000_011  # more than 16 times what runs at the same time
    if qd.cfg is None:
        n = 1_003  # interpreted

    @qd.kernel
    def light(out: qd.types.ndarray()):
        for i in range(out.shape[0]):
            if i % 3 != 1:
                out[i] += i % 7 + 1

    @qd.kernel
    def with_a_loop(out: qd.types.ndarray()):
        for i in range(out.shape[0]):
            if i % 3 != 1:
                for _ in range(i % 7 + 1):
                    out[i] += 1

    @qd.kernel
    def counted(out: qd.types.ndarray(), count: qd.types.ndarray()):
        for i in range(out.shape[0]):
            if i % 3 != 1:
                out[i] += i % 7 + 1
                count[i % 7] += 1

    out, count = np.zeros(n, np.int32), np.zeros(7, np.int32)
    if body == "counted":
        counted(out, count)
    else:
        {"light": light, "with a loop": with_a_loop}[body](out)
    i = np.arange(n)
    expected = np.where(i % 3 != 1, i % 7 + 1, 0)
    np.testing.assert_array_equal(out, expected)
    if body == "counted":
        np.testing.assert_array_equal(count, np.bincount(i % 7, weights=i % 3 != 1))


@pytest.mark.needs("grid barriers")
def test_a_barrier_of_the_grid_needs_all_blocks_at_a_time():
    @qd.kernel
    def work(out: qd.types.ndarray()):
        qd.loop_config(block_dim=32, persistent=True)
        for i in range(out.shape[0]):
            out[i] = i
            qd.simt.grid.sync()
            other = out[out.shape[0] - 1 - i]
            qd.simt.grid.sync()
            out[i] = other

    out = np.zeros(128, np.int32)
    work(out)
    np.testing.assert_array_equal(out, np.arange(128)[::-1])


@pytest.mark.parametrize("arch", ["cpu", "python"])
@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ("block_dim=(8, 0)", qd.QuadrantsSyntaxError, r"block_dim must be an integer between 1 and 1024.*got \(8, 0\)"),
        ("block_dim=(64, 64)", qd.QuadrantsSyntaxError, r"up to three with such a product, got \(64, 64\)"),
        ("block_dim=(2, 2, 2, 2)", qd.QuadrantsSyntaxError, "up to three"),
        ("grid_dim=0", qd.QuadrantsSyntaxError, "grid_dim must be an integer between 1 and 2147483647, got 0"),
        ("grid_dim=1.5", qd.QuadrantsSyntaxError, "grid_dim must be an integer"),
        ("min_blocks=33", qd.QuadrantsSyntaxError, "min_blocks must be an integer between 1 and 32, got 33"),
        ("max_registers=513", qd.QuadrantsSyntaxError, "max_registers must be an integer between 1 and 512, got 513"),
        ("parallelize=0", qd.QuadrantsSyntaxError, "parallelize must be an integer between 1 and 2147483647, got 0"),
        ("grid=4", qd.QuadrantsTypeError, "TypeError when calling `loop_config`: .* unexpected keyword argument 'grid'"),
    ],
)
def test_wrong_options_are_refused_at_their_line(arch, options, error, text):
    qd.init(arch=getattr(qd, arch), offline_cache=False, log_level="error")
    source = (
        f"import quadrants as qd\n@qd.kernel\ndef k():\n    qd.loop_config({options})\n    for i, j in qd.ndrange(4, 4):\n        pass\n"
    )
    with pytest.raises(error, match=text) as caught:
        qd.kernel_from_source(source)()
    assert f"qd.loop_config({options})" in str(caught.value)


@pytest.mark.parametrize(
    ("loop", "text"),
    [
        ("for i in range(64):", "block_dim has 2 numbers, the loop has 1 axes"),
        ("for i, j in x[::2, :]:", "for loops without steps"),
    ],
)
def test_boxes_that_do_not_fit_the_loop_are_refused(loop, text):
    head = "import quadrants as qd\n@qd.kernel\ndef k(x: qd.types.ndarray()):\n    qd.loop_config(block_dim=(8, 4))\n"
    with pytest.raises(qd.QuadrantsSyntaxError, match=text):
        qd.kernel_from_source(f"{head}    {loop}\n        pass\n")(np.zeros((8, 8), np.int32))

"""Axes that several nodes of a tree divide lie in memory as tiles; such memory has no view."""

import numpy as np
import pytest

import quadrants as qd


@pytest.fixture(autouse=True)
def runtime():
    qd.init(arch=qd.cpu)
    yield
    qd.reset()


# Rows and columns of a 4 x 6 field in the order of memory: 2 x 2 blocks of 2 x 3.
BLOCKS = [(2 * a + i, 3 * b + j) for a in range(2) for b in range(2) for i in range(2) for j in range(3)]


def tiled(element=qd.i32, offset=None):
    x = qd.field(element)
    qd.root.dense(qd.ij, 2).dense(qd.ij, (2, 3)).place(x, offset=offset)
    return x


@qd.kernel
def addresses(x: qd.template(), first: qd.i32, out: qd.types.ndarray(qd.u64, 2)):
    for i, j in out:
        out[i, j] = qd.get_addr(x, [i + first, j])


@pytest.mark.parametrize("first", [0, -3])
def test_tiles_follow_each_other_in_memory(first):
    x, out = tiled(offset=(first, 0)), np.zeros((4, 6), np.uint64)
    addresses(x, first, out)
    assert x.shape == (4, 6) and x.layout is None
    assert [int(out[place] - out[0, 0]) for place in BLOCKS] == [4 * n for n in range(24)]


@pytest.mark.parametrize("first", [0, -3])
def test_kernels_and_python_see_the_same_elements(first):
    x = tiled(offset=(first, 0))

    @qd.kernel
    def write():
        for i, j in x:
            x[i, j] = i * 10 + j

    @qd.kernel
    def read(i: qd.i32, j: qd.i32) -> qd.i32:
        return x[i, j]

    write()
    assert [[x[i + first, j] for j in range(6)] for i in range(4)] == [[(i + first) * 10 + j for j in range(6)] for i in range(4)]
    x[first + 3, 4] = -1
    assert read(first + 3, 4) == -1 and read(first + 2, 5) == (first + 2) * 10 + 5


@pytest.mark.host_memory
def test_arrays_go_in_and_out_in_the_order_of_indices():
    x, values = tiled(), np.arange(24).reshape(4, 6)
    x.from_numpy(values)
    assert (x.to_numpy() == values).all() and (x.to_torch().numpy() == values).all() and (np.asarray(x) == values).all()
    assert (x.to_numpy(copy=None) == values).all() and (x.to_numpy(np.float32) == values).all() and x[2, 4] == values[2, 4]
    x.fill(7)
    assert (x.to_numpy() == 7).all()
    y = qd.field(qd.f32, shape=(4, 6))
    y.from_numpy(values)
    x.copy_from(y)
    assert (x.to_numpy() == values).all()


def test_elements_that_are_vectors():
    x = tiled(qd.types.vector(2, qd.f32))
    values = np.arange(48, dtype=np.float32).reshape(4, 6, 2)
    x.from_numpy(values)
    x[1, 5].y = -2
    values[1, 5, 1] = -2
    assert (x.to_numpy() == values).all() and list(x[3, 2]) == list(values[3, 2])
    assert (x.get_scalar_field(1).to_numpy() == values[..., 1]).all()


def test_three_nodes_divide_one_axis():
    x, y = qd.field(qd.i32), qd.field(qd.i64)
    qd.root.dense(qd.i, 2).dense(qd.ij, (3, 2)).dense(qd.i, 5).place(x, y)
    values = np.arange(60).reshape(30, 2)
    x.from_numpy(values)
    y.from_numpy(values + 100)
    assert (x.to_numpy() == values).all() and (y.to_numpy() == values + 100).all() and x[17, 1] == values[17, 1]


@pytest.mark.host_memory
def test_nodes_that_continue_an_axis_are_one_array():
    x = qd.field(qd.i32)
    qd.root.dense(qd.i, 2).dense(qd.i, 3).dense(qd.j, 1).dense(qd.i, 1).place(x)
    x.to_numpy(copy=False)[4, 0] = 5
    assert x[4, 0] == 5


@pytest.mark.parametrize("export", [
    lambda x: x.to_numpy(copy=False), lambda x: x.to_torch(copy=False), lambda x: x.to_dlpack(), lambda x: x[1:3], lambda x: memoryview(x),
    lambda x: np.asarray(x, copy=False),
])  # fmt: skip
def test_tiles_have_no_views(export):
    with pytest.raises((ValueError, BufferError), match="Zero-copy not available"):
        export(tiled())


@pytest.mark.host_memory
def test_capsules_of_tiles_are_copies_or_refused_as_capsules_are():
    x = tiled()
    for refused in (lambda: x.to_dlpack(), lambda: x.__dlpack__(copy=False), lambda: np.from_dlpack(x)):
        with pytest.raises(BufferError, match="Zero-copy not available") as caught:
            refused()
        assert isinstance(caught.value, RuntimeError)
    x.from_numpy(np.arange(24).reshape(4, 6))
    copy = np.from_dlpack(x, copy=True)
    x.fill(0)
    assert np.array_equal(copy, np.arange(24).reshape(4, 6))


@pytest.mark.host_memory
def test_one_index_of_each_divided_axis_leaves_a_view():
    x = qd.field(qd.i32)
    qd.root.dense(qd.i, 2).dense(qd.ij, (2, 3)).place(x)
    x.from_numpy(np.arange(12).reshape(4, 3))
    assert list(x[2].to_numpy(copy=False)) == [6, 7, 8]


def test_views_in_kernels_of_tiles():
    x = tiled()
    x.from_numpy(np.arange(24).reshape(4, 6))

    @qd.kernel
    def total() -> qd.i32:
        s = 0
        part = x[1:3, 2]
        for i in part:
            s += part[i]
        return s

    assert total() == 8 + 14


def test_sums_and_scatters_into_tiles():
    x = tiled()

    @qd.kernel
    def scatter():
        for k in range(24000):
            x[k // 6 % 4, k % 6] += 1

    scatter()
    assert (x.to_numpy() == 1000).all()


def test_gradients_of_tiles():
    x, loss = qd.field(qd.f32), qd.field(qd.f32, shape=(), needs_grad=True)
    qd.root.dense(qd.i, 4).dense(qd.j, 2).dense(qd.i, 2).place(x, x.grad)

    @qd.kernel
    def norm():
        for i, j in x:
            loss[None] += x[i, j] ** 2

    x.from_numpy(np.arange(16).reshape(8, 2))
    with qd.ad.Tape(loss):
        norm()
    assert (x.grad.to_numpy() == 2 * np.arange(16).reshape(8, 2)).all()


def test_an_index_outside_of_tiles_is_reported_as_it_is_given():
    qd.init(arch=qd.cpu, debug=True)
    x = tiled()

    @qd.kernel
    def write(i: qd.i32):
        x[i, 2] = 1

    with pytest.raises(qd.QuadrantsAssertionError, match=r"size \(4, 6\) with indices \(4, 2\)"):
        write(4)
    with pytest.raises(IndexError, match=r"\[0, 6\]"):
        x[0, 6] = 1

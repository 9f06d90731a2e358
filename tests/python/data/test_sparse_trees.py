"""Sparse trees: activation, loops over active cells, lists, deactivation, exchange with NumPy, derivatives."""

import numpy as np
import pytest

import quadrants as qd
from tests.python.data import random_sparse_trees
from tests.python.data.sparse_tree_kernels import count


@pytest.fixture(autouse=True, params=["cpu", "python"])
def runtime(request):
    qd.init(arch=request.param)
    yield
    qd.reset()


def make_blocks(dtype=qd.f32, **named):
    x = qd.field(dtype, **named)
    block = qd.root.pointer(qd.ij, 4)
    block.dense(qd.ij, 2).place(x)
    return x, block


def test_a_read_activates_nothing_and_gives_zero():
    x, block = make_blocks()

    @qd.kernel
    def read() -> qd.f32:
        return x[3, 3] + x[0, 7]

    assert read() == 0 and x[5, 5] == 0
    assert count(x) == 0 and not qd.is_active(block, [1, 1])


def test_a_write_activates_the_cells_around_it():
    x, block = make_blocks()

    @qd.kernel
    def write():
        x[7, 7] = 1.0

    @qd.kernel
    def tell() -> qd.types.vector(2, qd.i32):
        return [qd.is_active(block, [3, 3]), qd.is_active(block, [2, 3])]

    write()
    assert tell().to_list() == [1, 0]
    assert count(x) == 4 and count(block) == 1
    x[0, 1] = 2.0
    assert count(x) == 8 and qd.is_active(block, [0, 0])
    expected = np.zeros((8, 8))
    expected[7, 7], expected[0, 1] = 1, 2
    np.testing.assert_array_equal(x.to_numpy(), expected)


def test_updates_and_atomics_activate():
    x, block = make_blocks(qd.i32)

    @qd.kernel
    def update():
        for i in range(4):
            x[2 * i, 0] += i
            qd.atomic_max(x[0, 2 * i], i)

    update()
    assert count(block) == 7
    assert [x[2 * i, 0] for i in range(4)] == [0, 1, 2, 3]


def test_components_of_vectors_activate():
    x = qd.Vector.field(2, qd.f32)
    node = qd.root.bitmasked(qd.i, 40)
    node.place(x)

    @qd.kernel
    def write():
        x[33][1] = 5.0

    write()
    x[3].x = 2.0
    x[4] = [1, 2]
    assert count(x) == 3
    assert x[33].to_list() == [0, 5] and x[3].to_list() == [2, 0]


def test_nested_nodes_and_structs():
    cell = qd.types.struct(a=qd.i32, v=qd.types.vector(2, qd.f32))
    x = cell.field()
    outer = qd.root.pointer(qd.ij, (3, 2))
    inner = outer.bitmasked(qd.ij, (5, 2))
    inner.place(x)

    @qd.kernel
    def write():
        x[14, 3].a = 7
        x[0, 0].v = [1.0, 2.0]

    write()
    assert count(outer) == 2 and count(inner) == 2
    assert x[14, 3].a == 7 and list(x[0, 0].v) == [1, 2]
    outer.deactivate_all()
    assert count(inner) == 0 and x[14, 3].a == 0


def test_an_offset_shifts_the_indices_of_a_loop():
    x = qd.field(qd.i32)
    qd.root.pointer(qd.i, 4).dense(qd.i, 4).place(x, offset=-8)
    seen = qd.field(qd.i32, shape=16, offset=-8)
    x[-8] = 1
    x[3] = 1

    @qd.kernel
    def visit():
        for i in x:
            seen[i] += i * 10 + x[i]

    visit()
    assert seen.to_numpy().tolist() == [-79, -70, -60, -50, 0, 0, 0, 0, 0, 10, 20, 31, 0, 0, 0, 0]


def test_deactivated_cells_are_zero_when_they_return():
    x, block = make_blocks()

    @qd.kernel
    def remove():
        qd.deactivate(block, [1, 1])

    x[2, 2], x[3, 3], x[0, 0] = 1, 2, 3
    remove()
    assert x[2, 2] == 0 and x[0, 0] == 3 and count(x) == 4
    qd.activate(block, [1, 1])
    assert x[3, 3] == 0 and count(x) == 8
    qd.deactivate(block, [0, 0])
    assert x[0, 0] == 0


def test_lists_grow_by_appending_and_by_writing():
    x = qd.field(qd.i32)
    node = qd.root.dense(qd.i, 3).dynamic(qd.j, 10, chunk_size=4)
    node.place(x)

    @qd.kernel
    def fill() -> qd.i32:
        place = 0
        qd.loop_config(serialize=True)
        for k in range(7):
            place = qd.append(node, [1], k * k)
        x[2].append(5)
        x[0, 3] = 9
        return place + x[1].length() * 100

    assert fill() == 706
    assert [qd.length(node, [i]) for i in range(3)] == [4, 7, 1]
    assert x[0, 3] == 9 and x[1, 6] == 36 and x[2, 0] == 5
    assert count(x) == 12
    qd.deactivate(node, [1])
    assert count(x) == 5 and x[1, 6] == 0


def test_a_list_at_the_root():
    x = qd.field(qd.i32)
    node = qd.root.dynamic(qd.i, 100)
    node.place(x)

    @qd.kernel
    def fill():
        for k in range(50):
            x.append(k)

    fill()
    assert sorted(x[k] for k in range(50)) == list(range(50)) and qd.length(node, []) == 50
    node.deactivate_all()
    assert qd.length(node, []) == 0 and x[3] == 0


@pytest.mark.parametrize("width", [1, 3, 6, 8, 24])
def test_sums_over_blocks_of_any_size(width):
    x, sums = qd.field(qd.f32), qd.field(qd.f32, shape=2)
    qd.root.pointer(qd.i, 9).dense(qd.i, width).place(x)
    for i in range(2 * width):
        x[width + i] = i + 1.0

    @qd.kernel
    def add_up():
        for i in x:
            sums[0] += x[i]
            sums[1] += i

    add_up()
    assert sums[0] == width * (2 * width + 1) and sums[1] == sum(range(width, 3 * width))


def test_copies_reach_active_cells_only():
    x, block = make_blocks(qd.i32)
    x[0, 0] = 1
    with pytest.warns(UserWarning, match="60 elements that are not zero"):
        x.from_numpy(np.full((8, 8), 5))
    assert x.to_numpy().sum() == 20
    x.fill(2)
    assert x.to_numpy().sum() == 8 and count(block) == 1


def test_loops_inside_of_others_visit_active_cells():
    x, block = make_blocks(qd.i32)
    sums = qd.field(qd.i32, shape=3)
    x[0, 0], x[6, 6] = 1, 2

    @qd.kernel
    def visit():
        for k in range(3):
            for i, j in x:
                sums[k] += x[i, j] * (k + 1) + 100

    visit()
    assert sums.to_numpy().tolist() == [803, 806, 809]


def test_activation_during_a_loop():
    x, block = make_blocks(qd.i32)
    x[0, 0] = 1

    @qd.kernel
    def spread():
        for i, j in x:
            x[(i + 2) % 8, j] = 1

    for step in range(3):
        spread()
        assert count(block) == step + 2


@pytest.mark.needs("lazy memory")
def test_a_hash_node_of_a_large_space():
    x = qd.field(qd.f32)
    qd.root.hash(qd.ij, 1 << 15).place(x)
    assert x.shape == (1 << 15, 1 << 15)

    @qd.kernel
    def write():
        for k in range(100):
            x[k * 300, 32767 - k * 7] = k + 1.0

    write()
    assert count(x) == 100 and x[300, 32760] == 2 and x[5, 5] == 0


def test_trees_of_too_many_cells_are_refused():
    x = qd.field(qd.f32)
    qd.root.pointer(qd.ijk, 1 << 20).place(x)
    with pytest.raises(MemoryError, match="does not fit into the address space"):
        x[0, 0, 0]


def test_a_sparse_grid_tells_its_usage():
    grid = qd.sparse.grid({"mass": qd.f32, "momentum": qd.types.vector(2, qd.f32)}, (8, 8))
    grid[1, 2].mass = 1.0
    grid.momentum[3, 3] = [1, 2]
    assert qd.sparse.usage(grid) == 2 / 64


def test_no_view_of_a_sparse_field():
    x, _ = make_blocks()
    with pytest.raises(ValueError, match="Zero-copy"):
        x.to_numpy(copy=False)


def test_a_destroyed_tree():
    builder = qd.FieldsBuilder()
    x = qd.field(qd.f32)
    builder.pointer(qd.i, 4).place(x)
    tree = builder.finalize()
    x[1] = 2
    assert "1 of 4 cells active" in str(tree)
    tree.destroy()
    with pytest.raises(qd.QuadrantsRuntimeError):
        x[1]


@pytest.mark.parametrize("seed", range(12))
def test_random_trees(request, seed):
    random_sparse_trees.run(seed, request.node.callspec.params["runtime"])

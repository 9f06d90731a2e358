"""Sparse trees at their limits: references to elements, activity that changes during a loop, full lists, indices that are out of range,
destroyed trees, very large trees.
"""

import numpy as np
import pytest

import quadrants as qd


@pytest.fixture(autouse=True, params=["cpu", "python"])
def arch(request):
    qd.init(arch=request.param)
    yield request.param
    qd.reset()


def make_blocks(dtype=qd.f32, **named):
    x = qd.field(dtype, **named)
    block = qd.root.pointer(qd.ij, 4)
    block.dense(qd.ij, 2).place(x)
    return x, block


@qd.func
def add_one(place: qd.ref(qd.f32)):
    place += 1.0


@qd.func
def add_two(place: qd.template()):
    place += 2.0


@qd.func
def add_through_another(place: qd.template(), unused: qd.i32):
    add_two(place)


@qd.func
def add_early(place: qd.template(), way: qd.i32) -> qd.i32:
    if way == 0:
        place += 3.0
        return 1
    return 0


@qd.func
def set_member(item: qd.template()):
    item.v[1] = 7.0


@qd.func
def swap_if_equal(place: qd.template()):
    qd.atomic_cas(place, 0, 3)


def test_references_to_elements_activate_them():
    x, block = make_blocks()
    v = qd.Vector.field(3, qd.f32)
    vectors = qd.root.bitmasked(qd.i, 8)
    vectors.place(v)
    s = qd.types.struct(a=qd.i32, v=qd.types.vector(2, qd.f32)).field()
    structs = qd.root.bitmasked(qd.i, 8)
    structs.place(s)
    plain = qd.field(qd.f32, shape=4)

    @qd.kernel
    def write():
        for i in range(8):
            if i == 3:
                add_two(plain[0])
                add_one(x[3, i])
                add_two(x[0, 0])
                add_through_another(x[7, 7], i)
                add_early(x[0, 7], 0)
                add_two(v[i + 1].x)
                set_member(s[i])
                add_two(s[i + 1].v[0])
                swap_if_equal(s[i + 2].a)

    write()
    cells = [[i, j] for i in range(4) for j in range(4) if qd.is_active(block, [i, j])]
    assert cells == [[0, 0], [0, 3], [1, 1], [3, 3]]
    assert [x[3, 3], x[0, 0], x[7, 7], x[0, 7], plain[0]] == [1, 2, 2, 3, 2]
    assert [i for i in range(8) if qd.is_active(vectors, [i])] == [4]
    assert [i for i in range(8) if qd.is_active(structs, [i])] == [3, 4, 5]


def test_methods_of_elements_activate_them():
    @qd.dataclass
    class Particle:
        hits: qd.i32

        @qd.func
        def hit(self):
            self.hits += 1

    p = Particle.field()
    node = qd.root.bitmasked(qd.i, 8)
    node.place(p)

    @qd.kernel
    def hit():
        for i in range(8):
            if i % 3 == 0:
                p[i].hit()

    hit()
    assert [p[i].hits for i in range(8)] == [1, 0, 0] * 2 + [1, 0]
    assert [i for i in range(8) if qd.is_active(node, [i])] == [0, 3, 6]


def test_rows_of_sparse_fields_activate():
    x, block = make_blocks()

    @qd.kernel
    def write():
        row = x[6, 1:5]
        for k in range(2):
            row[k + 1] = 4.0

    write()
    assert [qd.is_active(block, [3, j]) for j in range(4)] == [False, True, False, False]
    assert x.to_numpy()[6].tolist() == [0, 0, 4, 4, 0, 0, 0, 0]


def test_kernels_tell_sparse_fields_from_dense_ones_of_the_same_layout():
    @qd.kernel
    def put(x: qd.Template):
        x[3] = 1.0

    @qd.kernel
    def count(x: qd.Template) -> qd.i32:
        total = 0
        for i in x:
            total += 1
        return total

    dense, tiled, masked, blocks = (qd.field(qd.f32) for _ in range(4))
    qd.root.dense(qd.i, 64).place(dense)
    qd.root.dense(qd.i, 32).dense(qd.i, 2).place(tiled)
    qd.root.bitmasked(qd.i, 64).place(masked)
    qd.root.pointer(qd.i, 32).dense(qd.i, 2).place(blocks)
    for x, expected in ((dense, 64), (tiled, 64), (masked, 1), (blocks, 2), (dense, 64)):
        put(x)
        assert count(x) == expected and x[3] == 1


def test_slices_from_python_are_refused():
    x, block = make_blocks()
    x[2, 3] = 4.0
    for use in (lambda: x[2:4], lambda: x[2], lambda: x.__setitem__((slice(0, 2), 1), 5.0), lambda: x.__setitem__(5, np.zeros(8))):
        with pytest.raises(ValueError, match="Zero-copy not available"):
            use()
    assert x.to_numpy()[2:4].sum() == 4 and not qd.is_active(block, [0, 0])


def test_a_cell_that_is_written_after_its_deactivation_is_active():
    x, block = make_blocks(qd.i32)
    for i in range(4):
        x[2 * i, 2 * i] = 1

    @qd.kernel
    def replace():
        for i, j in x:
            if i % 2 == 0 and j % 2 == 0:
                qd.deactivate(block, [i // 2, j // 2])
                x[i, j] = i + 1

    replace()
    expected = np.zeros((8, 8))
    for i in range(4):
        assert qd.is_active(block, [i, i])
        expected[2 * i, 2 * i] = 2 * i + 1
    np.testing.assert_array_equal(x.to_numpy(), expected)


@qd.func
def clear(node: qd.template(), i, j):
    qd.deactivate(node, [i, j])


def test_a_write_in_an_earlier_line_may_follow_a_deactivation():
    x, block = make_blocks(qd.i32)
    total = qd.field(qd.i32, shape=())
    x[0, 0] = 1

    @qd.kernel
    def rewrite():
        for i, j in block:
            for _ in range(2):
                x[2 * i, 2 * j] += 5
                clear(block, i, j)
        for i, j in x:
            total[None] += 1

    rewrite()
    assert total[None] == 0 and x[0, 0] == 0
    y = qd.field(qd.i32)
    mask = qd.root.bitmasked(qd.i, 40)
    mask.place(y)
    y[7] = 1

    @qd.kernel
    def toggle():
        for i in y:
            for k in range(3):
                y[i] += 5
                if k < 2:
                    qd.deactivate(mask, [i])

    toggle()
    assert qd.is_active(mask, [7]) and y[7] == 5


def test_deactivation_of_what_a_loop_visits():
    x, block = make_blocks(qd.i32)
    for i in range(4):
        x[2 * i, 0] = i

    @qd.kernel
    def prune():
        for i, j in block:
            if x[2 * i, 2 * j] % 2 == 0:
                qd.deactivate(block, [i, j])
            else:
                qd.activate(block, [i, j + 1])

    prune()
    active = [[i, j] for i in range(4) for j in range(4) if qd.is_active(block, [i, j])]
    assert [cell for cell in active if cell[1] == 0] == [[1, 0], [3, 0]] and [1, 1] in active and [3, 1] in active


@pytest.mark.parametrize("debug", [False, True])
def test_an_append_to_a_full_list_raises(arch, debug):
    qd.init(arch=arch, debug=debug)
    x = qd.field(qd.i32)
    node = qd.root.dense(qd.i, 2).dynamic(qd.j, 4)
    node.place(x)

    @qd.kernel
    def fill(count: qd.i32):
        for k in range(count):
            qd.append(node, [1], k + 1)

    fill(4)
    qd.sync()
    with pytest.raises(qd.QuadrantsAssertionError, match="append.* to a list that is full: it has 4 elements"):
        fill(3)
        qd.sync()
    with pytest.raises(qd.QuadrantsAssertionError, match="append.* to a list that is full: it has 4 elements"):
        qd.append(node, [1], 5)
    assert qd.length(node, [1]) == 4 and sorted(x[1, k] for k in range(4)) == [1, 2, 3, 4]
    qd.deactivate(node, [1])
    with pytest.raises(qd.QuadrantsAssertionError, match="full"):
        fill(1000)
        qd.sync()
    assert qd.length(node, [1]) == 4 and qd.length(node, [0]) == 0
    assert len({x[1, k] for k in range(4)}) == 4 and x[0, 0] == 0
    fill(0)  # the failure is reported once


def test_indices_of_nodes_are_checked_in_debug_mode(arch):
    qd.init(arch=arch, debug=True)
    x, block = make_blocks()
    lists = qd.root.dense(qd.i, 3).dynamic(qd.j, 4)
    y = qd.field(qd.i32)
    lists.place(y)

    @qd.kernel
    def activate(i: qd.i32, j: qd.i32):
        qd.activate(block, [i, j])

    @qd.kernel
    def append(i: qd.i32):
        qd.append(lists, [i], 4)

    activate(3, 3)
    append(2)
    for call in (lambda: activate(4, 0), lambda: activate(0, -1), lambda: append(3), lambda: append(-1)):
        with pytest.raises(qd.QuadrantsAssertionError, match="out of range for the cells of"):
            call()
            qd.sync()
    with pytest.raises(IndexError, match="out of range"):
        qd.activate(block, [4, 0])
    assert qd.is_active(block, [3, 3]) and qd.length(lists, [2]) == 1


def test_elements_are_checked_in_debug_mode(arch):
    qd.init(arch=arch, debug=True)
    x, block = make_blocks()

    @qd.kernel
    def write(i: qd.i32):
        x[i, 0] = 1.0

    @qd.kernel
    def update():
        for i, j in x:
            x[i, j] += 1.0

    write(3)
    with pytest.raises(qd.QuadrantsAssertionError, match=r"with indices \(8, 0\)"):
        write(8)
        qd.sync()
    update()
    assert x.to_numpy().sum() == 5 and qd.is_active(block, [1, 0])


def test_uses_of_a_destroyed_tree():
    builder = qd.FieldsBuilder()
    x = qd.field(qd.f32)
    node = builder.pointer(qd.i, 8)
    node.place(x)
    tree = builder.finalize()
    other = qd.field(qd.i32)
    qd.root.pointer(qd.i, 4).place(other)
    other[1] = 5

    @qd.kernel
    def update():
        for i in x:
            x[i] += 1.0

    @qd.kernel
    def remove():
        for i in node:
            qd.deactivate(node, [i])

    @qd.kernel
    def activate():
        qd.activate(node, [3])

    x[3] = 1.0
    copy = x.to_numpy()
    update()
    remove()
    activate()
    qd.sync()
    tree.destroy()
    uses = (update, remove, activate, lambda: qd.is_active(node, [3]), lambda: qd.activate(node, [3]), node.deactivate_all, x.to_numpy)
    for use in (*uses, lambda: x.fill(3), lambda: x[3], lambda: qd.deactivate(node, [3])):
        with pytest.raises(qd.QuadrantsRuntimeError, match="destroyed tree"):
            use()
    with pytest.raises(qd.QuadrantsRuntimeError, match="SNode tree has been destroyed"):
        tree.destroy()
    qd.deactivate_all_snodes()
    assert copy[3] == 1 and other[1] == 0


def test_trees_of_many_axes():
    x = qd.field(qd.f32)
    node = qd.root
    for axis in range(12):
        node = node.pointer(qd.axes(axis), 2)
    node.place(x)
    x[(1, 0) * 6] = 3.0

    @qd.kernel
    def total() -> qd.f32:
        sum = 0.0
        for I in qd.grouped(x):  # noqa: E741
            sum += x[I] * (I[0] + I[11] * 10)
        return sum

    assert total() == 3
    with pytest.raises(ValueError, match="axes are numbered 0 to 11"):
        qd.root.pointer(qd.axes(12), 2)


@pytest.mark.needs("lazy memory")
def test_a_tree_of_2_to_the_40_cells(arch):
    inner = 8 if arch == "cpu" else 2
    x = qd.field(qd.u8)
    outer = qd.root.pointer(qd.ij, 1 << (20 - inner) if arch == "cpu" else 16)
    outer.pointer(qd.ij, 1 << inner).place(x)
    last = x.shape[0] - 1
    x[last, 1] = 3
    x[0, last] = 4

    @qd.kernel
    def total() -> qd.i32:
        sum = 0
        for i, j in x:
            sum += x[i, j] + 10 * (i == qd.static(last)) + 100 * (j == qd.static(last))
        return sum

    assert total() == 117
    qd.deactivate(outer, [outer.shape[0] - 1, 0])
    assert total() == 104 and x[last, 1] == 0
    outer.deactivate_all()
    assert total() == 0 and x[0, last] == 0


def test_a_field_is_placed_once():
    x, block = make_blocks()
    with pytest.raises(qd.QuadrantsRuntimeError, match="This variable has been placed"):
        block.place(x)
    assert x[0, 0] == 0


def test_all_trees_are_cleared_with_a_warning():
    x, _ = make_blocks()
    y = qd.field(qd.i32)
    qd.root.bitmasked(qd.i, 8).place(y)
    x[1, 1], y[3] = 5, 6
    with pytest.warns(UserWarning, match="all finalized trees"):
        qd.root.deactivate_all()
    assert x[1, 1] == 0 and y[3] == 0


def test_lists_have_lengths_and_warn_of_their_ends():
    x, block = make_blocks()
    y = qd.field(qd.i32)
    qd.root.dynamic(qd.i, 8).place(y)
    y[2] = 3
    assert len(y) == 3 and y and x
    with pytest.warns(UserWarning, match="lists of the field"):
        assert y.to_numpy().tolist() == [0, 0, 3] + [0] * 5
    for field in (x, qd.field(qd.i32, shape=3)) if qd.cfg is not None else ():  # with arch=qd.python it has the length of a tensor
        with pytest.raises(TypeError, match="has no len"):
            len(field)


def test_cells_are_recycled():
    x = qd.field(qd.f32)
    block = qd.root.pointer(qd.i, 64)
    block.dense(qd.i, 4).place(x)
    particles = qd.field(qd.f32)
    cells = qd.root.pointer(qd.i, 2)
    lists = cells.dynamic(qd.j, 256, chunk_size=16)
    lists.place(particles)

    @qd.kernel
    def emit(target: qd.i32):
        for k in range(200):
            qd.append(lists, [target], k)

    for step in range(8):
        emit(step % 2)
        cells.deactivate_all()
    assert cells._num_dynamically_allocated == 1 and lists._num_dynamically_allocated == 13
    x[0], x[9] = 1, 2
    assert block._num_dynamically_allocated == 2


@pytest.mark.parametrize(("option", "active", "warnings"), [("active", 1, 1), ("nonzero", 2, 0), ("all", 16, 0)])
def test_imports_activate_as_the_option_says(arch, recwarn, option, active, warnings):
    qd.init(arch=arch, sparse_import=option)
    recwarn.clear()
    x, block = make_blocks()
    x[0, 0] = 1.0
    array = np.zeros((8, 8), np.float32)
    array[5, 5] = 2.0
    x.from_numpy(array)
    assert sum(qd.is_active(block, [i, j]) for i in range(4) for j in range(4)) == active
    assert len(recwarn) == warnings
    assert x.to_numpy().sum() == (0 if option == "active" else 2)


def test_imports_of_vectors_with_an_offset(arch):
    qd.init(arch=arch, sparse_import="nonzero")
    v = qd.Vector.field(2, qd.i32)
    node = qd.root.bitmasked(qd.i, 40)
    node.place(v, offset=-8)
    array = np.zeros((40, 2), np.int32)
    array[3, 1], array[39, 0] = 5, 6
    v.from_numpy(array)
    assert [i for i in range(40) if qd.is_active(node, [i])] == [3, 39]
    np.testing.assert_array_equal(v.to_numpy(), array)
    assert v[-5].to_list() == [0, 5]


def make_tree(kind, extent, block):
    """Returns a field of two axes, or of one for lists, and the number of axes."""
    x = qd.field(qd.i32)
    if kind == "dynamic":
        qd.root.dynamic(qd.i, extent * block, chunk_size=block).place(x)
        return x, 1
    if kind == "bitmasked":
        qd.root.bitmasked(qd.ij, extent * block).place(x)
    elif kind == "hash":
        qd.root.hash(qd.ij, extent).dense(qd.ij, block).place(x)
    else:
        qd.root.pointer(qd.ij, extent).dense(qd.ij, block).place(x)
    return x, 2


@pytest.mark.parametrize("extent, block", [(4, 2), (64, 8), (50, 12), (128, 8)])
@pytest.mark.parametrize("kind", ["pointer", "bitmasked", "hash", "dynamic"])
def test_reads_out_of_range_are_those_of_inactive_cells(arch, kind, extent, block):
    x, axes = make_tree(kind, extent, block)
    size = extent * block

    @qd.kernel
    def read(i: qd.i32) -> qd.i32:
        if qd.static(axes == 1):
            return x[i]
        else:
            return x[i, 1]

    @qd.kernel
    def add_neighbors(total: qd.types.ndarray(dtype=qd.i32, ndim=1)):
        for i in range(size):
            if qd.static(axes == 1):
                total[i] = x[i - block] + x[i - 1] + x[i + 1] + x[i + size]
            else:
                total[i] = x[i - block, 1] + x[i - 1, 1] + x[i + 1, 1] + x[i + size, 1]

    for i in range(size):
        x[(i, 1)[:axes]] = i + 1
    if arch == "python":  # NumPy counts negative indices from the end
        return
    assert [read(i) for i in (-size, -block, -1, 0, size - 1, size, size + block, 2 * size - 1)] == [0, 0, 0, 1, size, 0, 0, 0]
    total = np.zeros(size, np.int32)
    add_neighbors(total)
    padded = np.zeros(3 * size, np.int32)
    padded[size : 2 * size] = np.arange(size) + 1
    at = np.arange(size, 2 * size)
    np.testing.assert_array_equal(total, padded[at - block] + padded[at - 1] + padded[at + 1] + padded[np.minimum(at + size, 3 * size - 1)])


@pytest.mark.filterwarnings("ignore:the lists of the field")
@pytest.mark.parametrize("kind", ["pointer", "bitmasked", "hash", "dynamic"])
def test_writes_out_of_range_raise(arch, kind):
    x, axes = make_tree(kind, 64, 8)

    @qd.kernel
    def write(i: qd.i32):
        if qd.static(axes == 1):
            x[i] = 1
        else:
            x[i, 3] += 1

    for i in (-1, -512, 512, 1_000_000_000, -1_000_000_000):
        with pytest.raises(qd.QuadrantsAssertionError, match=rf"with indices \({i}"):
            write(i)
            qd.sync()
    write(511)
    assert x[(511, 3)[:axes]] == 1 and x.to_numpy().sum() == 1


def test_nodes_have_no_cells_out_of_range():
    x, block = make_blocks()
    lists = qd.root.dense(qd.i, 3).dynamic(qd.j, 4)
    y = qd.field(qd.i32)
    lists.place(y)

    @qd.kernel
    def change(what: qd.template(), i: qd.i32):
        if qd.static(what == "activate"):
            qd.activate(block, [0, i])
        elif qd.static(what == "deactivate"):
            qd.deactivate(block, [i, 0])
        else:
            qd.append(lists, [i], 4)

    @qd.kernel
    def count(i: qd.i32) -> qd.i32:
        return qd.is_active(block, [i, 0]) + qd.length(lists, [i])

    for what in ("activate", "deactivate", "append"):
        for i in (-1, 4, 1_000_000_000):
            with pytest.raises(qd.QuadrantsAssertionError, match="out of range for the cells of"):
                change(what, i)
                qd.sync()
    change("append", 2)
    assert [count(i) for i in (-1_000_000_000, -1, 2, 4, 1_000_000_000)] == [0, 0, 1, 0, 0]


def test_arrays_of_other_libraries_are_copies_of_sparse_fields():
    torch = pytest.importorskip("torch")
    x, v = qd.field(qd.f32), qd.Vector.field(2, qd.f32)
    cells = qd.root.bitmasked(qd.i, 64)
    cells.place(x, v)
    x[3] = 1.0
    for field in (x, v):
        for copied in (
            field.to_numpy(copy=None),
            field.to_numpy(dtype=np.float32),
            field.to_torch(copy=None),
            field.to_torch(dtype=torch.float32),
            np.asarray(field),
            np.array(field),
        ):
            copied[5] = 7.0
    for export in (np.from_dlpack, torch.from_dlpack, lambda field: field.to_torch(copy=False), lambda field: field.to_numpy(copy=False)):
        with pytest.raises((ValueError, BufferError), match="Zero-copy not available"):
            export(x)
    assert not qd.is_active(cells, [5]) and x[5] == 0.0 and x.to_numpy().sum() == 1.0 and v.to_numpy().sum() == 0.0

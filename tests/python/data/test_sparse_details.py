"""Details of trees, sparse nodes and quantized types: names, introspection, payloads of lists, assumptions, builders."""

import itertools
import warnings

import numpy as np
import pytest

import quadrants as qd

quant = qd.types.quant


@pytest.fixture(autouse=True, params=["cpu", "python"])
def arch(request):
    qd.init(arch=request.param)
    yield request.param
    qd.reset()


# trees


def test_every_ascending_combination_of_axes_has_a_name():
    for count in range(1, 5):
        for axes in itertools.combinations(range(4), count):
            named = getattr(qd, "".join("ijkl"[axis] for axis in axes))
            assert named == qd.axes(*axes) and len(named) == count


@pytest.mark.parametrize("kind", ["dense", "pointer", "bitmasked", "hash"])
@pytest.mark.parametrize("extents", [3, (3, 2), [3, 2], np.int32(3), np.array([3, 2])], ids=str)
def test_extents_of_nodes(kind, extents):
    x = qd.field(qd.i32)
    node = getattr(qd.root, kind)(qd.ij, extents)
    assert node.place(x) is node
    assert x.shape == node.shape == ((3, 3) if np.ndim(extents) == 0 else (3, 2))
    assert x.parent() is node and node.parent() is qd.root and x.parent(3) is None
    assert repr(node).startswith("<qd.SNode of type ") and str(x.parent()).startswith("qd.root => ")


def test_nodes_tell_what_they_are():
    x, y = qd.field(qd.f32), qd.field(qd.i16)
    block = qd.root.pointer(qd.ij, (4, 2))
    cells = block.dense(qd.j, 8)
    cells.place(x, y, offset=(-2, 5))
    assert block._get_children() == [cells] and len(cells._get_children()) == 2
    assert x.snode._dtype == qd.f32 and y.snode._dtype == qd.i16
    assert x.snode._physical_index_position() == {0: 0, 1: 1}
    assert [node for node in x.snode._path_from_root() if node is block or node is cells] == [block, cells]
    assert len({block._id, cells._id, x.snode._id, y.snode._id}) == 4
    assert x.snode.ptr.offset == [-2, 5] and x.snode.ptr.type != cells.ptr.type and block.ptr.id == block._id
    assert cells.ptr.get_num_ch() == 2 and block.ptr.get_ch(0).id == cells._id
    assert block == block and block != cells


# lists


@pytest.mark.parametrize("dtype", [qd.u8, qd.u64, qd.i16, qd.f64, qd.u1])
def test_lists_of_numbers_of_every_size(dtype):
    x = qd.field(dtype)
    node = qd.root.dynamic(qd.i, 300, chunk_size=16)
    node.place(x)
    highest = 2**64 - 1 if dtype is qd.u64 else 1 if dtype is qd.u1 else 100

    @qd.kernel
    def fill(value: dtype):
        for _ in range(200):
            x.append(value)

    fill(highest)
    assert len(x) == 200 and [x[k] for k in (0, 199, 200)] == [highest, highest, 0]


def test_lists_of_matrices_and_structs_with_matrices():
    m = qd.Matrix.field(2, 2, qd.f32)
    kind = qd.types.struct(a=qd.u8, m=qd.types.matrix(2, 2, qd.i64))
    s = kind.field()
    matrices, structs = qd.root.dense(qd.i, 2).dynamic(qd.j, 32), qd.root.dense(qd.i, 2).dynamic(qd.j, 32, chunk_size=8)
    matrices.place(m)
    structs.place(s)

    @qd.kernel
    def fill():
        for k in range(20):
            at = qd.append(matrices, [k % 2], qd.Matrix([[k, k + 1], [k + 2, k + 3]]))
            qd.append(structs, [1], kind(a=at, m=qd.Matrix([[k, 0], [0, -k]])))
            m[k % 2, at][0, 0] += 0.5

    fill()
    found = sorted(m[i, j].to_list() for i in range(2) for j in range(10))
    assert found == [[[k + 0.5, k + 1], [k + 2, k + 3]] for k in range(20)]
    assert sorted(s[1, j].m[0, 0] for j in range(20)) == list(range(20)) and sum(s[1, j].a for j in range(20)) == 90
    assert s[1, 3].m[1, 1] == -s[1, 3].m[0, 0] and qd.length(structs, [0]) == 0


def test_appends_of_many_iterations_get_different_places():
    x, places = qd.field(qd.i32), qd.field(qd.i32, shape=5000)
    node = qd.root.dynamic(qd.i, 5000, chunk_size=64)
    node.place(x)

    @qd.kernel
    def fill():
        for k in range(5000):
            places[k] = x[()].append(k)

    fill()
    assert sorted(places.to_numpy()) == list(range(5000))
    assert [x[places[k]] for k in range(0, 5000, 100)] == list(range(0, 5000, 100))


def test_lists_lose_their_elements_in_kernels():
    x = qd.field(qd.i32)
    node = qd.root.dense(qd.i, 3).dynamic(qd.j, 8)
    node.place(x)

    @qd.kernel
    def change() -> qd.types.vector(3, qd.i32):
        for i in range(3):
            for _ in range(i + 2):
                x[i].append(7)
        x[1].deactivate()
        return [qd.is_active(node, [0]), qd.is_active(node, [1]), qd.length(node, [2])]

    assert change().to_list() == [1, 0, 4] and x[1, 0] == 0


# assumptions and imports


def test_cells_that_are_assumed_active_are_written_without_a_test():
    x, y = qd.field(qd.i32), qd.field(qd.i32)
    block = qd.root.pointer(qd.i, 4)
    block.dense(qd.i, 4).place(x)
    qd.root.pointer(qd.i, 16).place(y)

    @qd.kernel
    def write():
        qd.no_activate(block)
        for i in range(16):
            if i // 4 == 2:
                x[i] = i
            y[i] = 1

    qd.activate(block, [2])
    write()
    assert x.to_numpy().tolist() == [0] * 8 + [8, 9, 10, 11] + [0] * 4 and y.to_numpy().sum() == 16
    assert [qd.is_active(block, [i]) for i in range(4)] == [False, False, True, False]


def test_imports_from_torch_warn_once_of_what_is_lost():
    torch = pytest.importorskip("torch")
    x = qd.field(qd.f32, name="wet")
    qd.root.pointer(qd.i, 8).dense(qd.i, 2).place(x)
    x[4] = 1.0
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        x.from_torch(torch.arange(16, dtype=torch.float32))
    assert len(caught) == 1 and "13 elements that are not zero" in str(caught[0].message) and "wet" in str(caught[0].message)
    assert x.to_numpy().tolist() == [0] * 4 + [4, 5] + [0] * 10


def test_copies_between_fields_reach_active_cells_only():
    x, plain = qd.field(qd.f32), qd.field(qd.f32, shape=8)
    qd.root.bitmasked(qd.i, 8).place(x)
    x[1], x[6] = 1.0, 2.0
    plain.fill(3)
    with pytest.warns(UserWarning, match="6 elements that are not zero"):
        x.copy_from(plain)
    assert x.to_numpy().tolist() == [0, 3, 0, 0, 0, 0, 3, 0]
    plain.copy_from(x)
    assert plain.to_numpy().tolist() == [0, 3, 0, 0, 0, 0, 3, 0]


# builders


@pytest.mark.parametrize("kind", ["pointer", "bitmasked", "dynamic", "hash", "quant_array"])
def test_builders_have_every_node(kind):
    builder = qd.FieldsBuilder()
    x = qd.field(quant.int(4) if kind == "quant_array" else qd.i32)
    more = {"max_num_bits": 32} if kind == "quant_array" else {}
    assert builder.ptr is not None and builder.root is not None
    getattr(builder, kind)(qd.i, 8, **more).place(x)
    tree = builder.finalize()
    x[3] = 5
    assert x.to_numpy().tolist() == [0, 0, 0, 5, 0, 0, 0, 0] if kind != "dynamic" else x[3] == 5
    for use in (lambda: getattr(builder, kind)(qd.j, 2, **more), lambda: builder.lazy_grad(), lambda: builder.deactivate_all()):
        with pytest.raises(qd.QuadrantsRuntimeError, match="FieldsBuilder finalized"):
            use()
    tree.destroy()


def test_an_unfinished_builder_without_nodes_stops_launches():
    x = qd.field(qd.i32, shape=2)
    builder = qd.FieldsBuilder()

    @qd.kernel
    def write():
        x[0] = 1

    for use in (qd.sync, write):
        with pytest.raises(qd.QuadrantsRuntimeError, match=r"is not finalized. Please call finalize\(\)"):
            use()
    with pytest.warns(UserWarning, match="empty"):
        builder.finalize()
    x[1] = 3
    assert x[1] == 3


def test_recycled_memory_is_zero():
    for round in range(3):
        builder = qd.FieldsBuilder()
        x, y = qd.field(qd.i32), qd.field(qd.i32)
        builder.pointer(qd.i, 64).dense(qd.i, 64).place(x)
        builder.dense(qd.i, 4096).place(y)
        tree = builder.finalize()
        assert y.to_numpy().sum() == 0 and x.to_numpy().sum() == 0
        x[round * 100], x[4095] = 1, 1
        assert x.to_numpy().sum() == 2
        y.fill(7)
        tree.destroy()


# quantized types


def test_types_of_numbers_in_structs_are_stored_as_given():
    q = qd.field(quant.int(3))
    packed = qd.BitpackedFields(max_num_bits=8)
    packed.place(q)
    cells = qd.root.dense(qd.i, 4)
    cells.place(packed)
    f = qd.field(quant.fixed(7, signed=False, max_value=1.0))
    cells.place(f)
    assert cells._cell_size_bytes == 2

    @qd.kernel
    def write():
        for i in q:
            q[i] = i + 2
            f[i] = 0.25 * i

    write()
    assert q.to_numpy().tolist() == [2, 3, -4, -3] and f.to_numpy().tolist() == [0, 0.25, 0.5, 0.75]


def test_shared_exponents_below_sparse_nodes():
    x, y = qd.field(quant.float(exp=5, frac=10)), qd.field(quant.float(exp=5, frac=10))
    packed = qd.BitpackedFields(max_num_bits=32)
    packed.place(x, y, shared_exponent=True)
    block = qd.root.pointer(qd.i, 4)
    block.dense(qd.i, 4).place(packed)

    @qd.kernel
    def write():
        for i in range(4, 8):
            x[i] = 0.5
            y[i] = 2.0 * i

    write()
    assert x.to_numpy().tolist() == [0] * 4 + [0.5] * 4 + [0] * 8 and y[7] == 14
    assert qd.is_active(block, [1]) and not qd.is_active(block, [2])


def test_nodes_of_packed_elements_do_not_deactivate_the_cells_above():
    x = qd.field(quant.int(8))
    block = qd.root.pointer(qd.i, 4)
    node = block.dense(qd.i, 4)
    packed = qd.BitpackedFields(max_num_bits=32)
    packed.place(x)
    node.place(packed)

    @qd.kernel
    def write():
        for i in range(16):
            x[i] = i + 1

    @qd.kernel
    def deactivate() -> qd.i32:
        for i in range(16):
            qd.deactivate(node, [i])
        return qd.is_active(node, [5])

    write()
    node.deactivate_all()
    qd.deactivate(node, 3)
    assert deactivate() and qd.is_active(node, 7)
    np.testing.assert_array_equal(x.to_numpy(), np.arange(16) + 1)
    qd.deactivate(block, 1)
    np.testing.assert_array_equal(x.to_numpy(), [1, 2, 3, 4, 0, 0, 0, 0, *range(9, 17)])


def test_elements_of_type_bf16():
    x, v = qd.field(qd.bf16), qd.Vector.field(2, qd.bf16)
    qd.root.pointer(qd.i, 4).dense(qd.i, 2).place(x)
    qd.root.pointer(qd.j, 4).place(v)

    @qd.kernel
    def write():
        x[5] = 1.25
        v[2] = [1.5, 2.5]
        v[3].yx = [4.0, 5.0]
        v[3][0] += 1

    write()
    assert x.to_numpy().tolist() == [0, 0, 0, 0, 0, 1.25, 0, 0]
    assert v.to_numpy().tolist() == [[0, 0], [0, 0], [1.5, 2.5], [6, 4]]
    assert [qd.is_active(v.parent(), k) for k in range(4)] == [False, False, True, True]

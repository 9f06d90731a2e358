"""Trees of nodes: fields placed by hand, layouts of cells, builders, destruction, and what is said of fields without a place."""

import gc

import numpy as np
import pytest

import quadrants as qd


@pytest.fixture(autouse=True, params=["cpu", "python"])
def runtime(request):
    qd.init(arch=request.param)
    yield
    qd.reset()


def strides_of(field):
    return field._qd_layout.strides


def test_nested_nodes_give_the_order_of_axes_in_memory():
    x = qd.field(qd.f32)
    qd.root.dense(qd.j, 3).dense(qd.i, 2).place(x)
    assert x.shape == (2, 3) and x.layout is None
    assert strides_of(x) == (4, 8)
    x.from_numpy(np.arange(6).reshape(2, 3))
    assert x[1, 2] == 5


def test_fields_of_one_cell_interleave_with_natural_alignment():
    a, b, c, d = qd.field(qd.u1), qd.field(qd.f64), qd.field(qd.i16), qd.Vector.field(3, qd.f32)
    block = qd.root.dense(qd.i, 5)
    block.place(a, b).place([c, d])
    b[2] = 1.5
    assert block._cell_size_bytes == 32
    assert [field._byte_offset for field in (a, b, c, d)] == [0, 8, 16, 20]
    assert [strides_of(field) for field in (a, b, c, d)] == [(32,)] * 4
    assert [field.snode._offset_bytes_in_parent_cell for field in (a, b, c, d)] == [0, 8, 16, 20]


def test_arrays_within_cells():
    mass, weights = qd.field(qd.f64), qd.field(qd.f32)
    cell = qd.root.dense(qd.i, 4)
    cell.place(mass)
    cell.dense(qd.j, 3).place(weights)
    assert weights.shape == (4, 3)
    weights.fill(2)
    mass.fill(1)
    assert strides_of(weights) == (24, 4) and strides_of(mass) == (24,)
    assert (weights.to_numpy() == 2).all() and (mass.to_numpy() == 1).all()


def test_an_axis_may_be_divided_by_several_nodes():
    x = qd.field(qd.i32)
    qd.root.dense(qd.ij, (2, 2)).dense(qd.ij, (2, 3)).place(x)
    assert x.shape == (4, 6)
    values = np.arange(24).reshape(4, 6)
    x.from_numpy(values)
    assert x[3, 5] == 23 and (x.to_numpy() == values).all()


def test_extents_that_are_no_powers_of_two_are_not_padded():
    x = qd.field(qd.i32)
    qd.root.dense(qd.l, 3).dense(qd.ijk, 9).place(x)
    x.fill(1)
    assert x.shape == (9, 9, 9, 3)
    assert x.parent()._cell_size_bytes == 4 and x.parent(2)._cell_size_bytes == 4 * 9**3


def test_kernels_read_and_write_placed_fields():
    x, v = qd.field(qd.f32), qd.Vector.field(2, qd.f32)
    qd.root.dense(qd.i, 8).place(x, v)

    @qd.kernel
    def run():
        for i in x:
            x[i] = i
            v[i] = [i, -i]

    run()
    assert list(x.to_numpy()) == list(range(8))
    assert v[3][1] == -3


def test_zero_dimensional_fields_lie_in_the_root():
    x, s = qd.field(qd.f32), qd.Struct.field({"a": qd.i32, "b": qd.types.vector(2, qd.f32)})
    qd.root.place(x, s)
    assert x.shape == () and s.shape == ()
    x[None] = 3
    s[None].b = [1, 2]
    assert x[None] == 3 and list(s[None].b) == [1, 2]


def test_struct_fields_are_placed_member_by_member():
    kind = qd.types.struct(a=qd.i8, inner=qd.types.struct(b=qd.f64, c=qd.f32))
    s = kind.field()
    qd.root.dense(qd.i, 3).place(s)
    s[2] = {"a": 1, "inner": {"b": 2, "c": 3}}
    assert s[2].to_dict() == {"a": 1, "inner": {"b": 2, "c": 3}}
    assert s.parent()._cell_size_bytes == 24


def test_text_and_ancestors_of_nodes():
    x, y = qd.field(qd.f32), qd.field(qd.f32, shape=3)
    block = qd.root.dense(qd.j, 3).dense(qd.i, 2)
    block.place(x)
    assert repr(x.snode) == "<qd.SNode of type place>" and repr(qd.root) == "qd.root"
    assert str(x.snode) == "qd.root => dense [3] => dense [2, 3] => place [2, 3]"
    assert x.parent() is block and x.parent(3) is qd.root and x.parent(4) is None and qd.root.parent() is None
    assert block.shape == (2, 3) and block.parent().shape == (3,) and qd.root.shape == ()
    assert str(y.snode) == "qd.root => dense [3] => place [3]" and y.parent(2) is qd.root


def test_asking_for_a_shape_leaves_the_tree_open():
    x, y = qd.field(qd.f32), qd.field(qd.f32)
    block = qd.root.dense(qd.i, 4)
    block.place(x)
    assert x.shape == (4,)
    block.place(y)
    x[0] = 1
    assert y[0] == 0 and strides_of(y) == (8,)


def test_a_new_tree_begins_after_the_first_use():
    x, y = qd.field(qd.f32), qd.field(qd.f32)
    qd.root.dense(qd.i, 4).place(x)
    x[1] = 5
    qd.root.dense(qd.i, 2).place(y)
    y[1] = 6
    assert x[1] == 5 and x.snode._snode_tree_id != y.snode._snode_tree_id


def test_gradients_are_placed_with_a_field_or_lazily():
    x, y, z, n = qd.field(qd.f32), qd.field(qd.f32), qd.Vector.field(2, qd.f64), qd.field(qd.i32)
    assert not x.has_grad() and n.grad is None and x.grad.grad is None
    qd.root.dense(qd.i, 4).place(x, x.grad)
    assert x.has_grad() and x.grad.shape == (4,)
    assert x.grad[3] == 0
    qd.root.dense(qd.j, 2).dense(qd.i, 3).place(y, z, n)
    qd.root.lazy_grad()
    qd.root.lazy_dual()
    assert y.has_grad() and z.has_grad() and z.has_dual() and not n.has_grad()
    assert z.grad.shape == (3, 2) and z.grad.element_shape == (2,)
    y.fill(1)
    assert y.parent() is not y.grad.parent()
    assert (y.grad.to_numpy() == 0).all()


def test_a_declared_gradient_has_to_be_placed():
    x = qd.field(qd.f32, needs_grad=True)
    qd.root.dense(qd.i, 4).place(x)
    with pytest.raises(RuntimeError, match="needs_grad.*not placed"):
        x[0] = 1


def test_missing_gradients_say_so():
    x = qd.field(qd.f32, shape=3)
    assert isinstance(x.grad, qd.Field) and not x.has_grad()
    with pytest.raises(
        qd.QuadrantsRuntimeError, match="Field has no allocation.*Gradient tmp.*grad has not been placed, check whether `needs_grad=True`"
    ):
        x.grad[0]


@pytest.mark.parametrize("make", [lambda: qd.field(qd.f32), lambda: qd.Vector.field(3, qd.f32)], ids=["scalar", "vector"])
def test_fields_without_a_place_say_so(make):
    x = make()
    for use in (lambda: x[0], lambda: x.fill(1), lambda: x.to_numpy(), lambda: x.shape):
        with pytest.raises(qd.QuadrantsRuntimeError, match="Field has no allocation"):
            use()
    assert str(x) == "<Field: Definition of this field is incomplete>"


@qd.kernel
def nothing():
    pass


def test_launches_name_the_fields_that_are_not_placed():
    x = qd.field(qd.f32, name="lost")
    for use in (nothing, qd.sync):
        with pytest.raises(RuntimeError, match=r"These field\(s\) are not placed[\s\S]*test_trees.py[\s\S]*lost"):
            use()
    del x
    gc.collect()
    nothing()


def test_mistakes_leave_other_fields_usable():
    placed = qd.field(qd.f32, shape=2)
    x = qd.field(qd.f32)
    block = qd.root.dense(qd.i, 2)
    block.place(x)
    for problem, message, use in (
        (ValueError, "cannot be placed", lambda: qd.root.place(3)),
        (RuntimeError, "This variable has been placed.", lambda: qd.root.place(x)),
        (RuntimeError, "This variable has been placed.", lambda: block.place(placed)),
        (qd.QuadrantsRuntimeError, "Every dimension of a Quadrants field should be positive", lambda: qd.root.dense(qd.i, -1)),
        (TypeError, "integers", lambda: qd.root.dense(qd.i, 1.5)),
        (ValueError, "different axes", lambda: qd.root.dense([*qd.i, *qd.i], (2, 2))),
        (ValueError, "one extent for each", lambda: qd.root.dense(qd.ij, (2, 2, 2))),
        (AssertionError, "exactly one axis", lambda: qd.root.dynamic(qd.ij, 2)),
        (qd.QuadrantsRuntimeError, "2\\*\\*31 - 1", lambda: qd.root.dynamic(qd.i, 2**31)),
        (qd.QuadrantsRuntimeError, "should be positive", lambda: qd.root.pointer(qd.i, 0)),
        (
            qd.QuadrantsSyntaxError,
            "The dimensionality of shape and offset must be the same",
            lambda: block.place(qd.field(qd.f32), offset=(1, 2)),
        ),
    ):
        with pytest.raises(problem, match=message):
            use()
    gc.collect()
    qd.root.dense(qd.i, 7)  # an array without fields is dropped
    x[1] = 2
    nothing()
    assert x[1] == 2 and placed[1] == 0


def test_builders_are_trees_of_their_own():
    x = qd.field(qd.f32)
    builder = qd.FieldsBuilder()
    assert builder.empty and not builder.finalized
    builder.dense(qd.i, 4).place(x)
    with pytest.raises(qd.QuadrantsRuntimeError, match=r"is not finalized. Please call finalize\(\)"):
        nothing()
    tree = builder.finalize()
    assert builder.finalized and tree.id == x.snode._snode_tree_id
    assert builder.root in qd.FieldsBuilder._finalized_roots()
    for use in (lambda: builder.dense(qd.i, 2), builder.finalize, lambda: builder.place(qd.field(qd.f32))):
        with pytest.raises(qd.QuadrantsRuntimeError, match="FieldsBuilder finalized"):
            use()
    gc.collect()
    x[3] = 1
    assert x[3] == 1


def test_an_empty_builder_warns():
    with pytest.warns(UserWarning, match="empty FieldsBuilder"):
        qd.FieldsBuilder().finalize()


@pytest.mark.host_memory
def test_destroyed_trees_give_their_memory_back_and_views_keep_it():
    x = qd.field(qd.f32, name="gone")
    builder = qd.FieldsBuilder()
    builder.dense(qd.i, 4).place(x)
    tree = builder.finalize()

    @qd.kernel
    def add():
        for i in x:
            x[i] += 1

    add()
    view = x.to_numpy(copy=False)
    tree.destroy()
    for use in (lambda: x[0], add, x.to_numpy):
        with pytest.raises(qd.QuadrantsRuntimeError, match="destroyed tree[\\s\\S]*gone"):
            use()
    for use in (tree.destroy, lambda: tree.id):
        with pytest.raises(qd.QuadrantsRuntimeError, match="SNode tree has been destroyed"):
            use()
    assert list(view) == [1, 1, 1, 1]


def test_destroying_after_a_reset_does_nothing():
    builder = qd.FieldsBuilder()
    builder.place(qd.field(qd.f32))
    tree = builder.finalize()
    qd.reset()
    qd.init()
    x = qd.field(qd.i32, shape=2)
    x.fill(3)
    tree.destroy()
    assert x.to_numpy().tolist() == [3, 3]


def test_axes_have_names_and_numbers():
    assert qd.ij == qd.axes(0, 1) and qd.jl == qd.axes(1, 3) and len(qd.ijkl) == 4
    x = qd.field(qd.f32)
    qd.root.dense(qd.axes(0, 1, 2, 3, 4, 5), np.int64(2)).place(x)
    assert x.shape == (2,) * 6
    with pytest.raises(ValueError, match="0 to 11"):
        qd.axes(12)


def test_components_alias_the_memory_of_placed_fields():
    v = qd.Matrix.field(2, 2, qd.f32)
    qd.root.dense(qd.i, 3).place(v)
    part = v.get_scalar_field(1, 0)
    part[2] = 4
    assert v[2][1, 0] == 4


def test_indices_are_rescaled_between_containers_and_nodes():
    fine, coarse, out = qd.field(qd.f32), qd.field(qd.f32, shape=(2, 4)), qd.Vector.field(2, qd.i32, shape=3)
    blocks = qd.root.dense(qd.ij, (4, 4))
    blocks.dense(qd.ij, 4).place(fine)

    @qd.kernel
    def run():
        for _ in range(1):
            out[0] = qd.rescale_index(fine, blocks, qd.Vector([7, 9]))
            out[1] = qd.rescale_index(blocks, fine, qd.Vector([1, 2]))
            out[2] = qd.rescale_index(fine, coarse, qd.Vector([15, 15]))

    run()
    assert out.to_numpy().tolist() == [[1, 2], [4, 8], [1, 3]]
    assert list(qd.rescale_index(fine, blocks, [7, 9])) == [1, 2]


def test_struct_fields_have_no_dlpack_capsule():
    with pytest.raises(NotImplementedError, match="one by one"):
        qd.Struct.field({"a": qd.f32}, shape=3).to_dlpack()


def test_addresses_of_elements():
    plain, other = qd.field(qd.f32, shape=(3, 4)), qd.Vector.field(3, qd.f64, shape=(2, 3), order="ji", offset=(-1, 5))
    out = qd.field(qd.u64, shape=5)

    @qd.kernel
    def run(i: qd.i32):
        out[0] = qd.get_addr(plain, [0, 0])
        out[1] = qd.get_addr(plain, [i, 2])
        out[2] = qd.get_addr(other, qd.Vector([-1, 5]))
        out[3] = qd.get_addr(other, [0, 5])
        out[4] = qd.get_addr(other, [-1, i + 5])

    run(1)
    assert out[0] == plain._address and out[1] - out[0] == 16 + 8
    twin = qd.field(qd.f32, shape=(3, 4))

    @qd.kernel
    def first(f: qd.template()):
        for _ in range(1):
            out[0] = qd.get_addr(f, [0, 0])

    for field in (plain, twin, plain):
        first(field)
        assert out[0] == field._address
    assert out[2] == other._address and out[3] - out[2] == 24 and out[4] - out[2] == 48


def test_tensors_are_placed_like_their_fields():
    x = qd.field(qd.f32)
    qd.root.dense(qd.i, 3).place(qd.wrap(x))
    x[2] = 1
    assert x.shape == (3,)


def test_loops_over_nodes():
    x = qd.field(qd.i32)
    outer = qd.root.dense(qd.i, 4)
    inner = outer.dense(qd.ij, (2, 3))
    inner.place(x)

    @qd.kernel
    def visit(cells: qd.template()) -> qd.i32:
        total = 0
        for i in outer:
            total += 1000 * i
        for i, j in cells:
            total += 1
        for I in qd.grouped(inner):  # noqa: E741
            x[I] = 10 * I[0] + I[1]
        for I in qd.grouped(x.parent()):  # noqa: E741
            x[I] += 100
        for i in x.parent(2):
            total += 1000 * i
        return total

    assert visit(inner) == 12000 + 8 * 3
    assert x.to_numpy().tolist() == [[100 + 10 * i + j for j in range(3)] for i in range(8)]
    assert x.parent() is inner and x.parent(2) is outer


def test_loops_over_nodes_begin_where_their_fields_do():
    x = qd.field(qd.i32)
    node = qd.root.dense(qd.i, 4)
    node.place(x, offset=-2)

    @qd.kernel
    def fill():
        for i in node:
            x[i] = i

    fill()
    assert [x[i] for i in range(-2, 2)] == [-2, -1, 0, 1]


def test_loops_over_nodes_follow_the_captured_node():
    def make(count):
        x = qd.field(qd.i32)
        node = qd.root.dense(qd.i, count)
        node.place(x)
        return node

    nodes = {"now": make(3)}

    @qd.kernel
    def count(cells: qd.template()) -> qd.i32:
        total = 0
        for i in cells:
            total += 1
        return total

    assert [count(nodes["now"]), count(make(5)), count(nodes["now"])] == [3, 5, 3]


def test_loops_over_nodes_need_a_target_for_each_axis():
    node = qd.root.dense(qd.ij, (2, 3))
    node.place(qd.field(qd.i32))

    @qd.kernel
    def wrong():
        for i in node:
            pass

    with pytest.raises(qd.QuadrantsSyntaxError, match=r"does not match loop variable dimensionality \(1 != 2\)"):
        wrong()


def test_one_extent_is_that_of_every_axis():
    x, y = qd.field(qd.i32), qd.field(qd.i32)
    qd.root.dense(qd.ij, (8,)).place(x)
    qd.root.dense(qd.ijk, [2]).place(y)
    assert x.shape == (8, 8) and y.shape == (2, 2, 2)


@pytest.mark.parametrize(
    "place",
    [
        lambda v: [qd.root.dense(qd.i, 4).dense(qd.j, 2).place(part) for part in v.vars],
        lambda v: (
            qd.root.dense(qd.ij, (4, 2)).place(v.get_scalar_field(0)),
            qd.root.dense(qd.j, 2).dense(qd.i, 4).place(v.get_scalar_field(1)),
        ),
        lambda v: qd.root.dense(qd.ij, (4, 2)).place(v.get_scalar_field(1), v.get_scalar_field(0)),
        lambda v: qd.root.dense(qd.ij, (2, 2)).dense(qd.i, 2).place([v.get_scalar_field(0), v.get_scalar_field(1)]),
    ],
)
def test_components_are_placed_one_by_one(place):
    v = qd.Vector.field(2, qd.i32)
    place(v)

    @qd.kernel
    def fill():
        for i, j in v:
            v[i, j] = qd.Vector([i, j * 10])

    @qd.kernel
    def read(part: qd.template()) -> qd.i32:
        s = 0
        for I in qd.grouped(part):
            s += part[I] + v[I].x
        return s

    assert v.shape == (4, 2)
    fill()
    first, second = v.get_scalar_field(0), v.get_scalar_field(1)
    assert v.to_numpy().tolist() == [[[i, 0], [i, 10]] for i in range(4)]
    assert first.to_numpy()[:, 0].tolist() == [0, 1, 2, 3] and second[3, 1] == 10 and v[3, 1].to_list() == [3, 10]
    assert (read(first), read(second)) == (24, 52)
    second.fill(7)
    assert v[0, 0].to_list() == [0, 7]
    v[1, 1] = [8, 9]
    assert (first[1, 1], second[1, 1]) == (8, 9)


@pytest.mark.parametrize(
    "place",
    [
        lambda m: [qd.root.dense(qd.i, 3).place(part, part.grad) for part in m.vars],
        lambda m: [qd.root.dense(qd.i, 3).place(part) for parts in (m.grad.vars, m.vars) for part in parts],
        lambda m: [qd.root.dense(qd.i, 3).place(part) for part in (m.grad, *m.vars)],
        lambda m: [qd.root.dense(qd.i, 3).place(part) for part in (*m.vars, m.grad)],
    ],
)
def test_components_of_a_matrix_are_placed_one_by_one_with_their_gradients(place):
    m = qd.Matrix.field(2, 2, qd.f32, needs_grad=True)
    place(m)
    x = qd.Vector.field(2, qd.f32)
    for part in x.vars:
        qd.root.dense(qd.i, 3).place(part)
    qd.root.lazy_grad()
    loss = qd.field(qd.f32, (), needs_grad=True)

    @qd.kernel
    def k():
        for i in range(3):
            loss[None] += m[i][0, 1] * m[i][1, 0] + x[i].x * x[i].y

    m.fill(2.0)
    x.fill(3.0)
    with qd.ad.Tape(loss):
        k()
    assert m.grad.to_numpy()[2].tolist() == [[0, 2], [2, 0]]
    assert x.grad.to_numpy().tolist() == [[3, 3]] * 3


@pytest.mark.parametrize("which", ["grad", "dual"])
def test_components_without_their_gradients_are_reported(which):
    m = qd.Vector.field(2, qd.f32, **{f"needs_{which}": True})
    for part in m.vars:
        qd.root.dense(qd.i, 3).place(part)
    qd.root.dense(qd.i, 3).place(getattr(m, which).get_scalar_field(0))
    with pytest.raises(qd.QuadrantsRuntimeError, match=rf"has needs_{which}=True, but its .* is not placed"):
        m.to_numpy()


def test_mistakes_with_components_are_reported():
    v = qd.Vector.field(2, qd.i32)
    qd.root.dense(qd.i, 4).place(v.get_scalar_field(0))
    with pytest.raises(qd.QuadrantsRuntimeError, match="This variable has been placed"):
        qd.root.dense(qd.i, 4).place(v)

    @qd.kernel
    def k():
        pass

    with pytest.raises(qd.QuadrantsRuntimeError, match="not placed"):
        k()
    qd.root.dense(qd.i, 8).place(v.get_scalar_field(1))
    with pytest.raises(qd.QuadrantsRuntimeError, match="different shapes"):
        v.to_numpy()

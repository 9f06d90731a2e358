"""Lists of `dynamic` nodes: indices of appends, payloads, warnings; nodes and indices that functions of sparse trees refuse."""

import numpy as np
import pytest

import quadrants as qd


@pytest.fixture(autouse=True, params=["cpu", "python"])
def arch(request):
    qd.init(arch=request.param)
    yield request.param
    qd.reset()


@qd.kernel
def append_one(node: qd.Template, i: qd.i32, value: qd.i32):
    qd.append(node, [i], value)


def test_appends_along_an_axis_that_a_node_above_divides():
    x = qd.field(qd.i32)
    cells = qd.root.pointer(qd.i, 4)
    node = cells.dynamic(qd.i, 3)
    node.place(x)
    append_one(node, 2, 5)
    append_one(node, 2, 6)
    assert qd.append(node, [1], 7) == 0
    assert [qd.is_active(cells, [i]) for i in range(4)] == [False, True, True, False]
    assert [i for i in range(12) if x[i]] == [3, 6, 7] and (x[3], x[6], x[7]) == (7, 5, 6)


def test_appends_to_fields_with_an_offset():
    x = qd.field(qd.i32)
    node = qd.root.dense(qd.i, 3).dynamic(qd.j, 4)
    node.place(x, offset=(-1, 10))

    @qd.kernel
    def append():
        x[0].append(5)  # the index of the field: the second list
        x[1].append(7)

    @qd.kernel
    def tell() -> qd.i32:
        return x[-1].length() + 10 * x[0].length() + 100 * x[1].length()

    append()
    append_one(node, 1, 6)  # the index of the node
    assert qd.append(node, [2], 8) == 1
    assert (x[0, 10], x[0, 11], x[1, 10], x[1, 11]) == (5, 6, 7, 8)
    assert [qd.length(node, [i]) for i in range(3)] == [0, 2, 2] and tell() == 220


def test_elements_of_lists_with_a_vector_as_index_append():
    x = qd.field(qd.i32)
    qd.root.dense(qd.ij, (3, 2)).dynamic(qd.k, 4).place(x)

    @qd.kernel
    def append() -> qd.i32:
        for i in range(3):
            at = qd.Vector([i, 1])
            x[at].append(i + 5)
        where = qd.Vector([2])
        x[where, 1].append(9)
        x[where, 0].append(1)
        x[where, 0].deactivate()
        return 10 * x[qd.Vector([2, 1])].length() + x[where, 0].length()

    assert append() == 20
    assert (x[0, 1, 0], x[1, 1, 0], x[2, 1, 0], x[2, 1, 1], x[2, 0, 0]) == (5, 6, 7, 9, 0)


def test_elements_of_lists_along_a_divided_axis_append():
    x = qd.field(qd.i32)
    v = qd.Vector.field(2, qd.f32)
    qd.root.dense(qd.ij, (2, 2)).dense(qd.j, 2).dynamic(qd.j, 4).place(x)
    qd.root.dense(qd.i, 2).dynamic(qd.i, 3).place(v)

    @qd.kernel
    def append() -> qd.i32:
        x[1, 1].append(7)  # the index of a list, although x[1, 1] is an element of another list
        x[1, 1].append(8)
        at = qd.Vector([0, 3])
        x[at].append(x[1, 4])
        v[1].append(qd.Vector([1.0, 2.0]))
        v[1].append(v[3])
        return 100 * x[1, 1].length() + 10 * x[at].length() + v[1].length()

    assert append() == 212
    assert (x[1, 4], x[1, 5], x[0, 12], x[1, 1]) == (7, 8, 7, 0)
    assert v[3].to_list() == v[4].to_list() == [1.0, 2.0]


def test_lists_along_a_divided_axis_count_from_zero_although_their_field_has_an_offset():
    x = qd.field(qd.i32)
    qd.root.dense(qd.ij, (3, 2)).dynamic(qd.i, 4).place(x, offset=(1, 10))

    @qd.kernel
    def append():
        x[0, 10].append(5)  # the first list, whose elements have the indices 1 to 4
        x[2, 11].append(6)
        x[2, 11].append(7)

    append()
    assert (x[1, 10], x[9, 11], x[10, 11]) == (5, 6, 7)


def test_lists_have_gradients_beside_their_elements():
    x = qd.field(qd.f32, needs_grad=True)
    loss = qd.field(qd.f32, shape=(), needs_grad=True)
    node = qd.root.dense(qd.i, 2).dynamic(qd.j, 4)
    node.place(x, x.grad)

    @qd.kernel
    def square():
        for i, j in x:
            loss[None] += x[i, j] ** 2

    append_one(node, 1, 3)
    append_one(node, 1, 4)
    with qd.ad.Tape(loss):
        square()
    assert loss[None] == 25 and [x.grad[1, k] for k in range(3)] == [6, 8, 0]


def test_appends_need_one_payload():
    a, b, c = qd.field(qd.i32), qd.field(qd.f32), qd.field(qd.i32)
    both = qd.root.dense(qd.i, 2).dynamic(qd.j, 4)
    both.place(a, b)
    later = qd.root.dense(qd.i, 2).dynamic(qd.j, 4)
    later.place(c)
    later.place(qd.field(qd.i32, name="second"))
    packed = qd.BitpackedFields(32)
    packed.place(qd.field(qd.types.quant.int(5), name="part"))
    pack = qd.root.dense(qd.i, 2).dynamic(qd.j, 4)
    pack.place(packed)
    for node in (both, later, pack):
        for append in (append_one, lambda node, i, value: qd.append(node, [i], value)):
            with pytest.raises(qd.QuadrantsTypeError, match="one field or struct is expected"):
                append(node, 1, 3)
        assert qd.length(node, [1]) == 0


def test_lists_of_any_elements_warn_of_their_ends():
    v, s = qd.Vector.field(2, qd.f32), qd.types.struct(a=qd.i32, w=qd.types.vector(2, qd.i32)).field()
    packed, q = qd.BitpackedFields(32), qd.field(qd.types.quant.int(5))
    packed.place(q)
    for placed in (v, s, packed):
        qd.root.dynamic(qd.i, 4).place(placed)
    v[1], s[1].w, q[1] = [1, 2], [3, 4], 5
    for field, expected in ((v, 3), (s.a, 0), (s.w, 7), (q, 5)):
        with pytest.warns(UserWarning, match="lists of the field"):
            assert field.to_numpy().sum() == expected

    @qd.kernel
    def lengths() -> qd.i32:
        return q.length() * 10 + v.length()

    assert lengths() == 22


def test_fields_in_sparse_nodes_are_shown():
    x = qd.field(qd.i32)
    qd.root.pointer(qd.i, 4).place(x)
    x[1] = 7
    assert "[0 7 0 0]" in repr(x) and "7" in x._repr_html_()


def make_nodes():
    x = qd.field(qd.i32)
    cells = qd.root.pointer(qd.ij, 4)
    cells.place(x)
    lists = qd.field(qd.i32)
    node = qd.root.dense(qd.i, 3).dynamic(qd.j, 4)
    node.place(lists)
    return x, cells, node


def test_functions_of_lists_need_lists():
    x, cells, _ = make_nodes()

    @qd.kernel
    def append():
        qd.append(cells, [0, 0], 3)

    @qd.kernel
    def length() -> qd.i32:
        return qd.length(cells, [0, 0])

    for call in (append, length, lambda: qd.append(cells, [0, 0], 3), lambda: qd.length(cells, [0, 0])):
        with pytest.raises(qd.QuadrantsTypeError, match="a dynamic node is expected"):
            call()


def test_functions_of_nodes_need_nodes():
    x, _, _ = make_nodes()

    @qd.kernel
    def activate():
        qd.activate(x, [0, 0])

    for call in (activate, lambda: qd.is_active(x, [0, 0]), lambda: qd.deactivate(qd.root, []), lambda: qd.activate(3, [0])):
        with pytest.raises(qd.QuadrantsTypeError, match="a node of a tree is expected"):
            call()


def test_cells_have_an_index_for_each_axis():
    _, cells, node = make_nodes()

    @qd.kernel
    def activate():
        qd.activate(cells, [1])

    @qd.kernel
    def deactivate():
        qd.deactivate(cells, qd.Vector([1, 2, 3]))

    @qd.kernel
    def append():
        qd.append(node, [1, 2], 3)

    for kernel, counts in ((activate, "Expected 2.*got 1"), (deactivate, "Expected 2.*got 3"), (append, "Expected 1.*got 2")):
        with pytest.raises(qd.QuadrantsTypeError, match=counts):
            kernel()
    with pytest.raises(TypeError, match="integer"):
        qd.activate(cells, [0.5, 1])
    assert not np.any([qd.is_active(cells, [i, j]) for i in range(4) for j in range(4)])


def test_the_conversions_of_quantized_elements_pass_the_checks_of_debug_mode(arch, capfd):
    qd.init(arch=arch, debug=True, log_level="warn")
    capfd.readouterr()  # what it says of the device
    quant = qd.types.quant
    kinds = [quant.int(7), quant.int(9, signed=False), quant.fixed(6, max_value=2.0), quant.float(exp=4, frac=5)]
    fields, packed = [qd.field(kind) for kind in kinds], qd.BitpackedFields(32)
    packed.place(*fields)
    qd.root.bitmasked(qd.i, 8).place(packed)
    array = qd.field(quant.int(4))
    qd.root.dense(qd.i, 2).quant_array(qd.i, 8, max_num_bits=32).place(array)

    @qd.kernel
    def write():
        for i in range(8):
            for k in qd.static(range(4)):
                fields[k][i] = i - 2
                fields[k][i] += 1
            array[i] = i - 8
            array[i + 8] = array[i]

    write()
    qd.sync()
    for field in fields:
        field.fill(3)
        assert field[5] == (1.9375 if field is fields[2] else 3)
    assert array[15] == -1
    captured = capfd.readouterr()
    assert captured.out == captured.err == ""


def test_lists_of_many_words_with_few_active_cells(arch):
    if arch == "python":
        pytest.skip("the interpreter keeps no lists")
    x, y = qd.field(qd.i32), qd.field(qd.i32)
    wide = qd.root.pointer(qd.i, 1 << 20)  # 256 groups of words
    wide.place(x)
    qd.root.pointer(qd.i, 1 << 10).pointer(qd.i, 1 << 10).place(y)  # as many below active cells

    @qd.kernel
    def scatter(step: qd.i32):
        for n in range(3000):
            x[n * step % (1 << 20)] += n
            y[n * step % (1 << 20)] += n

    @qd.kernel
    def add_up(z: qd.Template) -> qd.i64:
        total = qd.cast(0, qd.i64)
        for i in z:
            total += i * 1000 + z[i]
        return total

    for step in (349, 99991, 7):
        numbers = np.arange(3000, dtype=np.int64)
        expected = (numbers * step % (1 << 20) * 1000 + numbers).sum()
        scatter(step)
        assert add_up(x) == add_up(y) == expected
        wide.deactivate_all()
        y.parent(2).deactivate_all()


def test_kernels_find_the_nodes_above_a_field():
    x, y, s = qd.field(qd.i32), qd.field(qd.i32), qd.types.struct(a=qd.i32, b=qd.f32).field()
    block = qd.root.pointer(qd.i, 8)
    block.dense(qd.i, 2).place(x, s)
    qd.root.dense(qd.i, 4).dynamic(qd.j, 8).place(y)

    @qd.kernel
    def fill():
        for i in range(8):
            if i % 2 == 1:
                qd.activate(x.parent(2), [i])
        for i in range(4):
            qd.append(y.parent(), [i], 7 + i)

    @qd.kernel
    def ask(z: qd.Template) -> qd.i32:
        total = 0
        for i in z.parent(n=2):
            total += i
        for i in s.parent().parent():
            total += 100 * i
        return total + 10_000 * qd.is_active(s.parent(2), [3]) + 100_000 * qd.length(y.parent(), [2])

    @qd.kernel
    def clear():
        for i in x.parent().parent():
            if i == 3:
                qd.deactivate(x.parent(2), [i])

    fill()
    assert y[2, 0] == 9 and ask(x) == 100_000 + 10_000 + 101 * 16
    clear()
    assert ask(x) == 100_000 + 101 * 13 and not qd.is_active(block, [3])

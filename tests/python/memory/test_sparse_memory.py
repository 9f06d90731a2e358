"""Memory of sparse trees: how much they take, that it does not grow, and that it is given back."""

import numpy as np
import pytest

import quadrants as qd
from quadrants import _runtime


@pytest.fixture(autouse=True)
def runtime():
    qd.init(arch=qd.cpu)
    yield
    qd.reset()


def count_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def make_grid(cells=512):
    x = qd.field(qd.f32)
    outer = qd.root.pointer(qd.ijk, 4)
    middle = outer.pointer(qd.ijk, cells // 32)
    middle.dense(qd.ijk, 8).place(x)
    return x, outer


@qd.kernel
def paint(x: qd.Template, size: qd.i32, first: qd.i32):
    for i, j, k in qd.ndrange(size, size, size):
        x[first + i, first + j, first + k] = 1.0


@pytest.mark.needs("lazy memory", "counted pages")
def test_a_large_domain_takes_the_memory_of_its_active_part():
    x, outer = make_grid()
    before = count_bytes()
    paint(x, 32, 240)
    assert x[255, 255, 255] == 1 and x[0, 0, 0] == 0
    assert count_bytes() - before < 64 << 20 < 512**3 * 4
    assert x._buffer.nbytes == 512**3 * 4 and x._buffer.count_present() < 2 << 20


def test_rounds_of_activation_take_no_more_memory():
    x, outer = make_grid(64)
    lists = qd.field(qd.i32)
    node = qd.root.dense(qd.i, 16).dynamic(qd.j, 64, chunk_size=8)
    node.place(lists)

    @qd.kernel
    def step(first: qd.i32):
        for i, j, k in qd.ndrange(8, 8, 8):
            x[first + i, first + j, first + k] = 1.0
            qd.append(node, [(i + first) % 16], k)

    def run(rounds):
        for n in range(rounds):
            step(n % 7 * 8)
            qd.deactivate_all_snodes()

    run(200)
    qd.sync()
    before = count_bytes()
    run(10_000)
    qd.sync()
    assert count_bytes() - before < 4 << 20
    assert not x.to_numpy().any()


@pytest.mark.needs("lazy memory", "counted pages")
def test_memory_is_given_back_when_most_of_it_is_free():
    x, outer = make_grid()
    paint(x, 256, 0)  # 64 MiB
    assert x._buffer.count_present() >= 64 << 20
    outer.deactivate_all()
    assert x._buffer.count_present() >= 64 << 20  # for the next round
    paint(x, 32, 0)  # less than a tenth
    outer.deactivate_all()
    assert x._buffer.count_present() <= 16 << 20
    paint(x, 16, 3)
    assert x.to_numpy().sum() == 16**3


@pytest.mark.needs("lazy memory", "counted pages")
def test_reports_name_the_nodes():
    x, outer = make_grid()
    builder = qd.FieldsBuilder()
    y = qd.field(qd.i32, name="y")
    builder.pointer(qd.i, 1 << 16).dense(qd.i, 8).place(y)
    tree = builder.finalize()
    paint(x, 16, 0)
    y[7] = 3
    text = qd.memory.report()
    [row] = [line for line in text.splitlines() if "y: field i32 (524288,) in pointer => dense" in line]
    assert row.split()[:2] == ["4", "KiB"] or row.split()[0] == "4.0"
    assert "records of pointer [65536]" in text
    assert text.splitlines()[-1].split()[1] == "KiB"  # the sum
    printed = str(tree).splitlines()
    assert "pointer [65536]: 1 of 65,536 cells active" in printed[1] and "bytes of records" in printed[1]
    assert printed[-1].strip().startswith("y: i32, 4,096 bytes")
    tree.destroy()
    assert "y: field i32" not in qd.memory.report()


@pytest.mark.needs("lazy memory")
def test_destroyed_trees_free_their_memory():
    before = count_bytes()
    for _ in range(6):
        builder = qd.FieldsBuilder()
        x = qd.field(qd.f32)
        node = builder.pointer(qd.i, 1 << 14)
        node.dense(qd.i, 1024).place(x)
        tree = builder.finalize()
        x.fill(0)

        @qd.kernel
        def activate(node: qd.Template):
            for i in range(1 << 12):
                qd.activate(node, [i])

        activate(node)
        x.fill(1)
        assert np.float32(x[5]) == 1
        tree.destroy()
    assert count_bytes() - before < 64 << 20


@pytest.mark.parametrize("needs_grad", [False, True])
def test_memory_of_a_device_is_given_back_until_the_next_use(needs_grad):
    x = qd.field(qd.f32, needs_grad=needs_grad)
    node = qd.root.pointer(qd.ijk, 32)
    node.dense(qd.ijk, 8).place(x, *([x.grad] if needs_grad else []))  # 64 MiB each

    @qd.kernel
    def total() -> qd.f32:
        sum = 0.0
        for i, j, k in x:
            sum += x[i, j, k]
        return sum

    paint(x, 64, 0)
    node.deactivate_all()
    before, memory = _runtime.memory_use()["bytes"], x._buffer.is_reserved()
    if needs_grad:
        x.grad[3, 3, 3] = 5.0
    node.deactivate_all()  # next to nothing was used since the last call
    if not memory:
        assert before - _runtime.memory_use()["bytes"] >= (1 + needs_grad) * 64 << 20
    assert total() == 0 and x[1, 2, 3] == 0
    paint(x, 16, 3)
    assert total() == 16**3 and x.to_numpy().sum() == 16**3
    if needs_grad:
        assert x.grad[3, 3, 3] == 0
        x.grad[3, 3, 3] = 2.0
        assert x.grad[3, 3, 3] == 2


def test_memory_of_a_device_is_given_back_when_rounds_shrink():
    x, y = qd.field(qd.f32), qd.field(qd.f32)
    node = qd.root.pointer(qd.ijk, 32)
    node.dense(qd.ijk, 8).place(x, y)  # 64 MiB each

    def run(size):
        paint(x, size, 0)
        paint(y, size, 0)
        assert x[size - 1, 0, size - 1] == 1 and y[0, size, 0] == 0
        node.deactivate_all()
        return _runtime.memory_use()["bytes"]

    most = run(64)
    assert run(48) == most  # kept for the next round
    is_reserved = x._buffer.is_reserved()
    for _ in range(2):
        assert is_reserved or most - run(16) >= 128 << 20  # less than a tenth
        assert is_reserved or run(24) == most == run(16)
        run(64)


def test_memory_that_a_tape_has_kept_is_not_given_back():
    x, loss = qd.field(qd.f32), qd.field(qd.f32, (), needs_grad=True)
    scale = qd.field(qd.f32, (), needs_grad=True)
    node = qd.root.pointer(qd.ijk, 32)
    node.dense(qd.ijk, 8).place(x)

    @qd.kernel
    def add():
        for i, j, k in x:
            loss[None] += x[i, j, k] * scale[None]

    scale[None] = 2.0
    paint(x, 8, 8)
    node.deactivate_all()
    paint(x, 8, 0)
    with qd.ad.Tape(loss):
        add()
        for _ in range(3):
            node.deactivate_all()
    assert scale.grad[None] == 8**3
    assert loss[None] == 2 * 8**3

"""Derivatives through sparse fields: tapes, kernel.grad(), forward mode; and the checks that dense fields have."""

import os
import resource

import numpy as np
import pytest

import quadrants as qd


@pytest.fixture(autouse=True, params=["cpu", "python"])
def arch(request):
    qd.init(arch=request.param)
    yield os.environ.get("QD_ARCH") or request.param
    qd.reset()


NODES = {
    "pointer": lambda: qd.root.pointer(qd.i, 4).dense(qd.i, 3),
    "bitmasked": lambda: qd.root.bitmasked(qd.i, 12),
    "dynamic": lambda: qd.root.dynamic(qd.i, 12, chunk_size=4),
    "nested": lambda: qd.root.pointer(qd.i, 2).bitmasked(qd.i, 6),
}


@pytest.mark.parametrize("kind", NODES)
def test_tapes_and_gradients_of_each_node(kind):
    x = qd.field(qd.f32, needs_grad=True)
    NODES[kind]().place(x, x.grad)
    loss = qd.field(qd.f32, shape=(), needs_grad=True)
    for i in range(3):
        x[i] = i + 1.0

    @qd.kernel
    def square():
        for i in x:
            loss[None] += x[i] ** 2

    expected = [2, 4, 6] + [0] * 9
    for _ in range(2):
        loss[None] = 0
        with qd.ad.Tape(loss):
            square()
        assert loss[None] == 14 and x.grad._export(False, None, True, None).tolist() == expected
    x.grad.fill(0)
    loss.grad[None] = 2
    square.grad()
    assert x.grad._export(False, None, True, None).tolist() == [2 * g for g in expected]


@pytest.mark.parametrize("kind", NODES)
def test_gradients_alone_see_cells_that_became_active(kind):
    x = qd.field(qd.f32, needs_grad=True)
    NODES[kind]().place(x, x.grad)
    loss = qd.field(qd.f32, shape=(), needs_grad=True)

    @qd.kernel
    def square():
        for i in x:
            loss[None] += x[i] ** 2
        for i in x:
            loss[None] += 3 * x[i]

    loss.grad[None] = 1
    for i in range(3):
        x[i] = i + 1.0
        x.grad.fill(0)
        square.grad()
        assert [x.grad[j] for j in range(i + 1)] == [2 * j + 5 for j in range(i + 1)]


def test_a_kernel_that_activates_between_its_loops_has_no_gradient(arch):
    if arch == "python":
        pytest.skip("the interpreter records what ran")
    x = qd.field(qd.f32, needs_grad=True)
    qd.root.pointer(qd.i, 4).dense(qd.i, 4).place(x, x.grad)
    loss = qd.field(qd.f32, shape=(), needs_grad=True)

    @qd.kernel
    def grow():
        for i in x:
            loss[None] += x[i]
            x[i + 4] = 1
        for i in x:
            loss[None] += x[i]

    with pytest.raises(qd.QuadrantsRuntimeError, match="overwritten later"):
        grow.grad()


def test_filling_a_gradient_sets_the_adjoints_of_inactive_cells_to_zero():
    x = qd.field(qd.f32, needs_grad=True)
    qd.root.pointer(qd.i, 4).dense(qd.i, 4).place(x, x.grad)
    loss = qd.field(qd.f32, shape=(), needs_grad=True)
    x[5] = 1

    @qd.kernel
    def shifted():
        for i in x:
            loss[None] += 2 * x[i + 4]

    loss.grad[None] = 1
    shifted.grad()
    assert [x.grad[i] for i in (5, 8, 11)] == [0, 2, 2]
    x.grad.fill(3)
    assert [x.grad[i] for i in (4, 7, 8, 11)] == [3, 3, 0, 0]
    x.grad.fill(0)
    shifted.grad()
    assert [x.grad[i] for i in (4, 7, 8, 11)] == [0, 0, 2, 2]


def test_a_recorded_call_may_activate():
    x, y = (qd.field(qd.f32, needs_grad=True) for _ in range(2))
    qd.root.pointer(qd.i, 4).dense(qd.i, 4).place(x, x.grad)
    sums = qd.root.pointer(qd.i, 4)
    sums.place(y, y.grad)
    loss = qd.field(qd.f32, shape=(), needs_grad=True)
    x[1], x[9] = 3, 2

    @qd.kernel
    def gather():
        for i in x:
            y[i // 4] += x[i] ** 2

    @qd.kernel
    def update():
        for i in y:
            y[i] = y[i] * y[i]

    @qd.kernel
    def add_up():
        for i in y:
            loss[None] += y[i]

    for _ in range(2):
        y.fill(0)
        loss[None] = 0
        with qd.ad.Tape(loss):
            gather()
            update()
            add_up()
        expected = np.zeros(16)
        expected[1], expected[9] = 108, 32
        np.testing.assert_array_equal(x.grad.to_numpy(), expected)
        assert loss[None] == 97 and y.to_numpy().tolist() == [81, 0, 16, 0]
    assert [qd.is_active(sums, [k]) for k in range(4)] == [True, False, True, False]


def test_reads_of_inactive_cells_have_derivatives():
    x = qd.field(qd.f32, needs_grad=True)
    block = qd.root.pointer(qd.i, 3)
    block.dense(qd.i, 3).place(x, x.grad)  # with padding between the blocks
    loss = qd.field(qd.f32, shape=(), needs_grad=True)
    x[1] = 3

    @qd.kernel
    def weigh():
        for i in range(9):
            loss[None] += x[i] * (i + 1)

    for _ in range(2):
        with qd.ad.Tape(loss):
            weigh()
        assert x.grad.to_numpy().tolist() == list(range(1, 10))
    assert [qd.is_active(block, [k]) for k in range(3)] == [True, False, False]


def test_forward_mode():
    x = qd.Vector.field(2, qd.f32, needs_dual=True)
    qd.root.bitmasked(qd.i, 16).place(x, x.dual)
    y = qd.field(qd.f32, needs_dual=True)
    qd.root.pointer(qd.i, 16).place(y, y.dual)
    x[1] = [2, 3]

    @qd.kernel
    def compute():
        for i in x:
            y[i + 1] = x[i].dot(x[i])

    with qd.ad.FwdMode(loss=y, param=x, seed=[0, 0, 1, 2] + [0] * 28):
        compute()
    assert y[2] == 13 and y.dual[2] == 16 and y.dual[3] == 0


def test_lazy_gradients_share_the_cells():
    x = qd.field(qd.f32)
    node = qd.root.pointer(qd.i, 8)
    node.place(x)
    node.lazy_grad()
    loss = qd.field(qd.f32, shape=(), needs_grad=True)
    x[3] = 5

    @qd.kernel
    def square():
        for i in x:
            loss[None] += x[i] ** 2

    with qd.ad.Tape(loss):
        square()
    assert x.grad[3] == 10
    qd.deactivate(node, [3])
    assert x.grad[3] == 0 and x[3] == 0


def test_a_tape_of_a_large_domain_takes_the_memory_of_its_active_cells(arch):
    x = qd.field(qd.f32, needs_grad=True)
    node = qd.root.pointer(qd.ij, 256).pointer(qd.ij, 64) if arch == "cpu" else qd.root.pointer(qd.ij, 8)
    node.dense(qd.ij, 8).place(x, x.grad)  # 64 GiB of addresses each
    loss = qd.field(qd.f32, shape=(), needs_grad=True)
    x[3, 3] = 2.0

    @qd.kernel
    def step():
        for i, j in x:
            x[i, j] = x[i, j] * x[i, j] * 0.5

    @qd.kernel
    def add_up():
        for i, j in x:
            loss[None] += x[i, j]

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(2):
        x[3, 3] = 2.0
        loss[None] = 0
        with qd.ad.Tape(loss):
            for _ in range(3):
                step()
            add_up()
        assert loss[None] == 2 and x.grad[3, 3] == 8 and x.grad[0, 0] == 0
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 400 << 10


def test_checks_of_races_and_assertions(arch):
    qd.init(arch=arch, check_races=arch == "cpu", debug=True)
    x = qd.field(qd.i32)
    block = qd.root.pointer(qd.i, 4)
    block.dense(qd.i, 4).place(x)
    y = qd.field(qd.i32)
    lists = qd.root.dense(qd.i, 4).dynamic(qd.j, 8)
    lists.place(y)

    @qd.kernel
    def fill():
        for i in range(16):
            x[i] = i
            qd.append(lists, [i % 4], i)

    @qd.kernel
    def update():
        for i in x:
            x[i] = x[i] * 2 + 1

    @qd.kernel
    def collide():
        for i in x:
            x[i // 2 * 2] = i

    @qd.kernel
    def check():
        for i in x:
            assert x[i] < 20, f"x is {x[i]}"

    @qd.kernel
    def remove():
        for i in block:
            qd.deactivate(block, [i])

    fill()
    update()
    assert x.to_numpy().tolist() == [2 * i + 1 for i in range(16)]
    with pytest.raises(qd.QuadrantsAssertionError, match="x is"):
        check()
        qd.sync()
    if arch == "cpu":
        with pytest.raises(qd.QuadrantsAssertionError, match="Data race: x"):
            collide()
    remove()
    assert not x.to_numpy().any()

"""Kernels reach the elements of every container layout."""

import itertools

import numpy as np
import pytest

import quadrants as qd


@pytest.fixture(autouse=True, params=["cpu", "python"])
def runtime(request):
    qd.init(arch=getattr(qd, request.param), offline_cache=False, log_level="error")
    yield
    qd.reset()


@pytest.mark.parametrize("order", ["".join(p) for p in itertools.permutations("ijk")])
def test_permuted_fields(order):
    x = qd.field(qd.i32, shape=(2, 3, 4), order=order)

    @qd.kernel
    def fill():
        for i, j, k in x:
            x[i, j, k] += i * 100 + j * 10 + k

    fill()
    assert np.array_equal(x.to_numpy(), np.add.outer(np.add.outer(np.arange(2) * 100, np.arange(3) * 10), np.arange(4)))


@pytest.mark.parametrize("layout", [qd.Layout.AOS, qd.Layout.SOA], ids=str)
@pytest.mark.parametrize("order", ["ij", "ji"])
def test_matrix_fields(layout, order):
    x = qd.Matrix.field(2, 3, qd.f32, shape=(3, 2), layout=layout, order=order)
    data = np.arange(36, dtype=np.float32).reshape(3, 2, 2, 3)
    x.from_numpy(data)

    @qd.kernel
    def double():
        for I in qd.grouped(x):
            x[I] = x[I] * 2
            x[I][1, 2] += 1

    double()
    data *= 2
    data[:, :, 1, 2] += 1
    assert np.array_equal(x.to_numpy(), data)


@pytest.mark.parametrize("layout", [qd.Layout.AOS, qd.Layout.SOA], ids=str)
def test_struct_fields(layout):
    inner = qd.types.struct(mass=qd.f64, tag=qd.i8)
    s = qd.types.struct(a=qd.u8, v=qd.types.vector(3, qd.f32), inner=inner).field(shape=4, layout=layout)

    @qd.kernel
    def fill():
        for i in s:
            s[i].a = 250 + i * 2
            s[i].v = qd.Vector([1.0, 2.0, 3.0]) * i
            s[i].v.y = -1
            s[i].inner.mass = i + 0.5
            s.inner.tag[i] = -i
        for i in range(1):
            s[3] = s[1]

    fill()
    data = s.to_numpy()
    assert data["a"].tolist() == [250, 252, 254, 252] and data["inner"]["mass"].tolist() == [0.5, 1.5, 2.5, 1.5]
    assert data["v"].tolist() == [[0, -1, 0], [1, -1, 3], [2, -1, 6], [1, -1, 3]] and data["inner"]["tag"].tolist() == [0, -1, -2, -1]


def test_components_of_vector_fields():
    v = qd.Vector.field(3, qd.f32, shape=5)
    y = v.get_scalar_field(1)

    @qd.kernel
    def fill():
        for i in y:
            y[i] = i

    fill()
    assert v.to_numpy().tolist() == [[0, i, 0] for i in range(5)]


@pytest.mark.parametrize("rank", range(9))
@pytest.mark.parametrize("make", [qd.field, qd.ndarray], ids=["field", "ndarray"])
def test_ranks_from_zero_to_eight(make, rank):
    shape = (2, 3, 1, 2, 2, 1, 3, 2)[:rank]
    x = make(qd.i32, shape=shape)

    if make is qd.field:

        @qd.kernel
        def count():
            for I in qd.grouped(x):
                x[I] = I.sum() + 1 if qd.static(rank > 0) else 1

        count()
    else:

        @qd.kernel
        def count_array(a: qd.types.ndarray()):
            for I in qd.grouped(a):
                a[I] = I.sum() + 1 if qd.static(rank > 0) else 1

        count_array(x)
    assert np.array_equal(x.to_numpy(), sum(np.indices(shape)) + 1 if rank else np.int32(1))


def test_empty_containers_run_no_iterations():
    x, y = qd.field(qd.i32, shape=(0, 3)), qd.field(qd.i32, shape=())

    @qd.kernel
    def run(a: qd.types.ndarray()):
        for i, j in x:
            y[None] += 1
        for i in a:
            y[None] += 1

    run(qd.ndarray(qd.i32, 0))
    run(np.zeros(0, np.int32))
    assert y[None] == 0


def test_two_fields_of_one_layout_share_a_kernel():
    @qd.kernel
    def fill(x: qd.template(), value: qd.i32):
        for i in x:
            x[i] = value

    fields = [qd.field(qd.i32, shape=8) for _ in range(3)]
    for number, x in enumerate(fields):
        fill(x, number)
    fill(qd.field(qd.i32, shape=9), 1)
    assert [x[7] for x in fields] == [0, 1, 2]
    if qd.cfg is not None:
        assert fill.specialization_count == 2


@pytest.mark.parametrize("dtype", [qd.f16, qd.f64, qd.i8, qd.i16, qd.i64, qd.u1, qd.u8, qd.u16, qd.u32, qd.u64], ids=str)
def test_every_data_type_is_stored(dtype):
    x = qd.field(dtype, shape=100)

    @qd.kernel
    def fill():
        for i in x:
            x[i] = i * 3 - 150

    fill()
    twin = qd.field(dtype, shape=100)
    for i in range(100):
        twin[i] = qd.cast(i * 3 - 150, dtype)
    assert np.array_equal(x.to_numpy(), twin.to_numpy())


def test_host_writes_and_launches_are_ordered():
    x = qd.field(qd.i32, shape=4)

    @qd.kernel
    def increment():
        for i in x:
            x[i] += 1

    for n in range(50):
        x[1] = n * 10
        increment()
        assert x[1] == n * 10 + 1


def test_gradient_storage_in_kernels():
    x = qd.field(qd.f32, shape=3, needs_grad=True)

    @qd.kernel
    def fill():
        for i in x:
            x.grad[i] = i

    fill()
    assert x.grad.to_numpy().tolist() == [0, 1, 2]


@pytest.mark.parametrize("dtype", [qd.f32, qd.f64, qd.i64, qd.u8, qd.f16], ids=str)
@pytest.mark.parametrize("size", [2, 3, 5, 9, 16])
def test_vectors_in_cells_of_structs(dtype, size):
    """The elements lie apart, in memory of other members, and lanes reach some of them, by their own index and by a read one."""
    count = 50
    s = qd.types.struct(before=qd.i32, v=qd.types.vector(size, dtype), after=qd.i32).field(shape=count)
    order, flags = qd.field(qd.i32, count), qd.field(qd.i32, count)
    generator = np.random.default_rng(size)
    picked, chosen = generator.permutation(count), generator.integers(0, 2, count)
    order.from_numpy(picked.astype(np.int32))
    flags.from_numpy(chosen.astype(np.int32))
    v = s.v.to_numpy()
    v[:] = generator.integers(0, 50, v.shape)
    s.v.from_numpy(v)

    @qd.kernel
    def change():
        for i in s:
            s[i].v += s[i].v
            if flags[i] == 1:
                s[i].v += qd.cast(s[i].v, dtype) + 1
                s[i].after += 1
        for i in s:
            if flags[i] == 0:
                s[order[i]].v = s[order[i]].v + 3

    change()
    wanted = 2 * v
    wanted[chosen == 1] = 2 * wanted[chosen == 1] + 1
    wanted[picked[chosen == 0]] += 3
    assert np.array_equal(s.v.to_numpy(), wanted)
    assert np.array_equal(s.after.to_numpy(), chosen)
    assert not s.before.to_numpy().any()

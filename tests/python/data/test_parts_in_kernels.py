"""Components of vector fields and members of struct fields, asked for in kernels; element access as functions."""

import numpy as np
import pytest

import quadrants as qd

PAIR = qd.types.struct(a=qd.f32, v=qd.types.vector(2, qd.i32))


@pytest.fixture(autouse=True, params=["cpu", "python"])
def runtime(request):
    qd.init(arch=getattr(qd, request.param))
    yield
    qd.reset()


@qd.kernel
def number_component(x: qd.template(), row: qd.template(), column: qd.template()):
    part = x.get_scalar_field(row, column)
    for I in qd.grouped(part):
        part[I] += I.sum() + 1


@pytest.mark.parametrize("layout", list(qd.Layout))
def test_components_of_a_field_of_matrices(layout):
    x = qd.Matrix.field(2, 3, qd.i32, shape=(4, 5), layout=layout)
    number_component(x, 1, 2)
    number_component(x, 0, 1)
    number_component(x, 0, 1)
    wanted = np.zeros((4, 5, 2, 3), int)
    wanted[..., 1, 2] = wanted[..., 0, 1] = np.add.outer(np.arange(4), np.arange(5)) + 1
    wanted[..., 0, 1] *= 2
    assert (x.to_numpy() == wanted).all()
    with pytest.raises(IndexError, match="out of range"):
        number_component(x, 2, 0)


def test_a_component_beside_the_whole_field():
    x = qd.Vector.field(3, qd.f32, shape=4)

    @qd.kernel
    def move():
        for i in x:
            x[i][0] = x.get_scalar_field(1)[i] + 1
            x.get_scalar_field(2)[i] = x[i][0] * 2
        for k in qd.static(range(3)):
            for i in x.get_scalar_field(k):
                x.get_scalar_field(k)[i] += 100 * k

    x.get_scalar_field(1).from_numpy(np.arange(4, dtype=np.float32))
    move()
    assert (x.to_numpy() == np.array([[i + 1, i + 100, 2 * i + 202] for i in range(4)])).all()


def test_another_field_takes_the_place():
    fields = [qd.Vector.field(2, qd.i32, shape=n) for n in (3, 3, 4)]
    for field in fields:
        number_component(field, 1, 0)
        assert field.to_numpy()[:, 1].tolist() == [*range(1, field.shape[0] + 1)] and not field.to_numpy()[:, 0].any()


def test_members_of_a_struct_field():
    s = PAIR.field(shape=3)

    @qd.kernel
    def fill(key: qd.template()):
        for i in s:
            s.get_member_field("a")[i] = i * 0.5
            s.get_member_field(key).get_scalar_field(1)[i] = i + 7

    fill("v")
    assert s.a.to_numpy().tolist() == [0, 0.5, 1] and s.v.to_numpy().tolist() == [[0, 7], [0, 8], [0, 9]]
    with pytest.raises((KeyError, qd.QuadrantsCompilationError), match="w"):
        fill("w")


def test_components_are_the_same_objects_each_time():
    x = qd.Vector.field(2, qd.f32, shape=3, needs_grad=True)
    assert x.get_scalar_field(1) is x.vars[1] and x.vars[1].grad is x.grad.vars[1] and x.vars[0].vars == (x.vars[0],)
    later = qd.Vector.field(2, qd.f32)
    part = later.get_scalar_field(1)
    with pytest.raises(qd.QuadrantsRuntimeError, match="no allocation"):
        part.fill(1)
    qd.root.dense(qd.i, 4).place(later, offset=3)
    later[6] = [1, 2]
    assert later.get_scalar_field(1) is part and part.shape == (4,) and part[6] == 2
    part.fill(5)
    assert later.to_numpy().tolist() == [[0, 5], [0, 5], [0, 5], [1, 5]]


def test_element_access_as_functions():
    x, m, a = qd.field(qd.f32, (2, 3)), qd.Vector.field(2, qd.i32, ()), qd.Vector.ndarray(2, qd.i32, 3)
    x.host_accessors[0].setter(2.5, 1, 2)
    m.host_accessors[1].setter(7)
    a.host_accessor.setter([3, 4], 2)
    assert x[1, 2] == x.host_accessors[0].getter(1, 2) == 2.5
    assert list(m[None]) == [0, 7] and m.host_accessors[1].getter() == 7
    assert list(a.host_accessor.getter(2)) == [3, 4]
    assert a.arr is a
    qd.reset()
    assert a.arr is None

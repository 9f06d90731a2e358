"""Copies and pickles of containers: what they keep, and pickles of others."""

import copy
import pickle

import numpy as np
import pytest

import quadrants as qd

INNER = qd.types.struct(mass=qd.f64, tag=qd.i8)


@pytest.fixture(autouse=True)
def runtime():
    qd.init()
    yield
    qd.reset()


def struct_field(layout):
    return qd.types.struct(a=qd.f32, v=qd.types.vector(3, qd.f32), inner=INNER).field(shape=(2, 3), layout=layout)


MAKERS = {
    "scalar field": lambda: qd.field(qd.f64, shape=(2, 3), order="ji"),
    "vector field": lambda: qd.Vector.field(3, qd.u8, shape=4, layout=qd.Layout.SOA),
    "matrix field": lambda: qd.Matrix.field(2, 3, qd.f16, shape=()),
    "bool field": lambda: qd.field(qd.u1, shape=5),
    "ndarray": lambda: qd.ndarray(qd.i64, (2, 3)),
    "vector ndarray": lambda: qd.Vector.ndarray(3, qd.f32, (2, 2)),
    "matrix ndarray": lambda: qd.Matrix.ndarray(2, 3, qd.f32, 4),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())
@pytest.mark.parametrize("twin_of", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))], ids=["copy", "deepcopy", "pickle"])
def test_twins_share_nothing_and_lie_alike(make, twin_of):
    x = make()
    x.from_numpy(np.arange(x.to_numpy().size).reshape(x.to_numpy().shape))
    twin = twin_of(x)
    assert type(twin) is type(x) and twin._qd_layout == x._qd_layout and twin.layout == x.layout
    assert (twin.to_numpy() == x.to_numpy()).all()
    twin.fill(0)
    assert x.to_numpy().any()


@pytest.mark.parametrize("layout", [qd.Layout.AOS, qd.Layout.SOA], ids=str)
@pytest.mark.parametrize("twin_of", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))], ids=["copy", "deepcopy", "pickle"])
def test_struct_fields_copy_with_their_layout(layout, twin_of):
    s = struct_field(layout)
    s[1, 2] = {"a": 1, "v": [1, 2, 3], "inner": {"mass": 4, "tag": 5}}
    twin = twin_of(s)
    assert twin[1, 2].to_dict() == s[1, 2].to_dict()
    assert twin.a._qd_layout == s.a._qd_layout
    twin.fill(0)
    assert s[1, 2].a == 1


def test_gradients_are_kept_as_storage():
    x = qd.field(qd.f32, shape=3, needs_grad=True)
    x.grad.fill(2)
    twin = copy.deepcopy(x)
    assert twin.has_grad() and not twin.grad.to_numpy().any()
    n = qd.ndarray(qd.f32, 3, needs_grad=True, needs_dual=True)
    twin = pickle.loads(pickle.dumps(n))
    assert twin.has_grad() and twin.has_dual()


def test_ndarrays_do_not_unpickle_without_a_runtime():
    data = pickle.dumps(qd.ndarray(qd.f32, 3))
    qd.reset()
    with pytest.raises(RuntimeError, match=r"qd.init\(\) must be called before unpickling ndarrays"):
        pickle.loads(data)
    qd.init()
    assert pickle.loads(data).shape == (3,)


def test_payloads_are_plain_and_those_without_layouts_are_read():
    n = qd.Vector.ndarray(2, qd.f32, 3)
    make, (payload,) = n.__reduce__()
    assert payload["version"] == 1 and payload["element_type"] == "f32" and payload["element_shape"] == (2,)
    data = np.arange(6, dtype=np.float32).reshape(3, 2)
    other = {"version": 1, "shape": (3,), "element_type": "f32", "element_shape": (2,), "data": data}
    assert (make(other).to_numpy() == data).all()
    for broken in ({"version": 2}, {"element_type": "f33"}):
        with pytest.raises(ValueError, match="cannot be read"):
            make({**other, **broken})


@pytest.mark.host_memory
def test_structured_arrays_of_struct_fields():
    s = struct_field(qd.Layout.AOS)
    s[1, 2] = {"a": 1, "v": [1, 2, 3], "inner": {"mass": 4, "tag": 5}}
    array = np.asarray(s)
    assert array.shape == (2, 3) and array.dtype.names == ("a", "v", "inner") and array.itemsize == s.parent()._cell_size_bytes
    assert array["v"].shape == (2, 3, 3) and array[1, 2]["inner"]["mass"] == 4
    array["inner"]["tag"][0, 0] = 7
    assert s[0, 0].inner.tag == 7
    twin = struct_field(qd.Layout.SOA)
    twin.from_numpy(array)
    assert twin[1, 2].to_dict() == s[1, 2].to_dict()
    copied = np.array(twin)
    assert copied.dtype.names == ("a", "v", "inner") and copied["v"].shape == (2, 3, 3)


def test_numpy_saves_tensors(tmp_path):
    t = qd.tensor(qd.f32, (2, 2))
    t.fill(3)
    np.save(tmp_path / "t.npy", t)
    assert (np.load(tmp_path / "t.npy") == 3).all()


@pytest.mark.host_memory
def test_structured_arrays_of_structs_behind_another_member():
    first, s = qd.field(qd.f64), qd.Struct.field({"a": qd.f32, "b": qd.f32})
    qd.root.dense(qd.i, 3).place(first, s)
    s[2] = {"a": 1, "b": 2}
    array = np.asarray(s)
    assert array[2].tolist() == (1, 2) and array.itemsize == 8 and array.strides == (16,)
    bodies = qd.types.struct(a=qd.f32).ndarray(3)
    assert bodies.parent().shape == (3,) and bodies.snode is bodies.a.snode


RAY = qd.types.struct(origin=qd.types.vector(3, qd.f32), inner=INNER, n=qd.i32)
VALUES = {
    "struct": lambda: RAY([1, 2, 3], INNER(2.5, 4), 7),
    "struct without a type": lambda: qd.Struct(origin=qd.Vector([1.0, 2.0, 3.0]), inner=INNER(2.5, 4), n=7),
    "element of a field": lambda: element_of(RAY.field(shape=2)),
    "element of an ndarray": lambda: element_of(RAY.ndarray(shape=2)),
    "vector": lambda: qd.Vector([1, 2, 3], qd.i8),
    "matrix": lambda: qd.Matrix([[1, 2], [3, 4]], qd.f64),
    "vector of a field": lambda: filled_vector_field()[1],
}


def element_of(container):
    container[1] = RAY([1, 2, 3], INNER(2.5, 4), 7)
    return container[1]


def filled_vector_field():
    f = qd.Vector.field(2, qd.f32, shape=3)
    f.fill(4)
    return f


@pytest.mark.parametrize("make", VALUES.values(), ids=VALUES.keys())
@pytest.mark.parametrize("twin_of", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))], ids=["copy", "deepcopy", "pickle"])
def test_copied_values_are_values_of_their_own(make, twin_of):
    value = make()
    before = str(value)
    twin = twin_of(value)
    assert type(twin) is type(value) and str(twin) == before
    if isinstance(value, qd.Struct):
        twin.origin[0], twin.inner.mass, twin.n = 50, 60, 70
        assert twin.to_dict() == {"origin": [50, 2, 3], "inner": {"mass": 60, "tag": 4}, "n": 70}
    else:
        twin.fill(9)
        assert str(twin) != before
    assert str(value) == before


@qd.dataclass
class Ball:
    p: qd.types.vector(3, qd.f32)

    @qd.func
    def doubled(self):
        return self.p * 2


def test_copied_values_keep_type_and_methods():
    ball = copy.copy(Ball(p=[1, 2, 3]))
    assert copy.copy(Ball) is copy.deepcopy(Ball) is Ball
    assert "doubled" in copy.deepcopy(ball).methods and not hasattr(object.__new__(qd.Struct), "p")

    @qd.kernel
    def total(b: Ball) -> qd.f32:
        return b.doubled().sum()

    assert total(ball) == 12

"""Every mistake with a container is an exception of the promised class and text and leaves the runtime usable; public names are there."""

import copy
import pickle
import weakref

import numpy as np
import pytest

import quadrants as qd

PAIR = qd.types.struct(a=qd.f32, b=qd.f32)
RUNTIME, SYNTAX = qd.QuadrantsRuntimeError, qd.QuadrantsSyntaxError


@pytest.fixture(autouse=True, params=["cpu", "python"])
def runtime(request):
    qd.init(arch=request.param)
    yield
    qd.reset()


def f32(*shape):
    return qd.field(qd.f32, shape=shape)


def nd(*shape):
    return qd.ndarray(qd.f32, shape)


def vectors():
    return qd.Vector.field(3, qd.f32, shape=2)


MISTAKES = [
    (RUNTIME, "Every dimension of a Quadrants field should be positive", lambda: f32(-1)),
    (TypeError, "integers", lambda: qd.field(qd.f32, shape=1.5)),
    (RUNTIME, "Too many dimensions", lambda: f32(*[1] * 13)),
    (ValueError, "Invalid data type", lambda: qd.field(object, shape=1)),
    (ValueError, "ndim of an ndarray annotation is a number of axes, got 'a'", lambda: qd.types.NDArray[qd.f32, "a"]),
    (ValueError, "ndim of an ndarray annotation is a number of axes, got -1", lambda: qd.types.ndarray(dtype=qd.f32, ndim=-1)),
    (RUNTIME, "is not supported as ndarray element type", lambda: qd.ndarray(object, 1)),
    (RUNTIME, "is not a valid shape for ndarray", lambda: qd.ndarray(qd.f32, -1)),
    (RUNTIME, "is not a valid shape for ndarray", lambda: qd.ndarray(qd.f32, 2**31)),
    (RUNTIME, "is not a valid shape for ndarray", lambda: qd.ndarray(qd.f32, 1.5)),
    (SYNTAX, "The dimensionality of shape and order must be the same", lambda: qd.field(qd.f32, shape=(2, 3), order="i")),
    (SYNTAX, "The axes in order must be different", lambda: qd.field(qd.f32, shape=(2, 3), order="ii")),
    (SYNTAX, "Invalid axis", lambda: qd.field(qd.f32, shape=(2, 3), order="ik")),
    (SYNTAX, "shape cannot be None when order is set", lambda: qd.field(qd.f32, order="i")),
    (SYNTAX, "shape cannot be None when offset is set", lambda: qd.field(qd.f32, offset=1)),
    (SYNTAX, "shape cannot be None", lambda: PAIR.field(offset=1)),
    (SYNTAX, "The dimensionality of shape and offset must be the same", lambda: qd.field(qd.f32, shape=3, offset=(1, 2))),
    (SYNTAX, "cannot be called in Python-scope", qd.random),
    (SYNTAX, "cannot be called in Python-scope", lambda: qd.randn(qd.f64)),
    (RUNTIME, "i32 is not supported for field with `needs_grad=True` or `needs_dual=True`.", lambda: qd.field(qd.i32, 3, needs_grad=True)),
    (RUNTIME, "is not supported for field with `needs_grad=True`", lambda: qd.Struct.field({"a": qd.i32}, shape=3, needs_dual=True)),
    (RUNTIME, "is not supported for ndarray with `needs_grad=True`", lambda: qd.ndarray(qd.i32, 3, needs_grad=True)),
    (RUNTIME, "is not supported for Vector.ndarray with needs_grad=True", lambda: qd.Vector.ndarray(2, qd.i32, 3, needs_grad=True)),
    (RUNTIME, "is not supported for Matrix.ndarray with needs_grad=True", lambda: qd.Matrix.ndarray(2, 2, qd.i32, 3, needs_grad=True)),
    (ValueError, "n of a vector", lambda: qd.Vector.field(0, qd.f32, shape=1)),
    (ValueError, "m of a vector", lambda: qd.Matrix.field(2, -1, qd.f32, shape=1)),
    (NotImplementedError, "Struct for is only available in Quadrants scope. In Python, loop over np.ndindex", lambda: list(PAIR.field(2))),
    (AssertionError, "Slicing is not supported on qd.field", lambda: f32(2, 3)[1, 1, 1]),
    (IndexError, "2d ndarray indexed with 3d indices", lambda: nd(2, 3)[1, 1, 1]),
    (TypeError, "Detected illegal element of type: float", lambda: f32(2, 3)[1.5, 0]),
    (qd.QuadrantsAssertionError, "out of range for shape", lambda: f32(2)[-1]),
    (IndexError, "out of range for shape", lambda: nd(2).__setitem__(2, 1)),
    (TypeError, "cannot store a str", lambda: f32(2).fill("a")),
    (ValueError, "shape", lambda: vectors().fill([1, 2])),
    (ValueError, "shape", lambda: vectors().__setitem__(0, [1, 2])),
    (TypeError, "Cannot copy from a non-field object", lambda: f32(2).copy_from(3)),
    (AssertionError, "Cannot copy from a non-ndarray object", lambda: nd(2).copy_from(3)),
    (ValueError, "does not match the source field shape", lambda: f32(2).copy_from(f32(3))),
    (AssertionError, "members", lambda: PAIR.field(shape=2).copy_from(qd.Struct.field({"c": qd.f32}, shape=2))),
    (KeyError, "b", lambda: PAIR.field(shape=2).__setitem__(0, {"a": 1})),
    (KeyError, "b", lambda: PAIR.field(shape=2).from_numpy({"a": np.zeros(2)})),
    (KeyError, "c", lambda: PAIR.field(shape=2).get_member_field("c")),
    (ValueError, "does not match the numpy array shape", lambda: f32(2).from_numpy(np.zeros(3))),
    (ValueError, "Mismatch shape", lambda: nd(2).from_numpy(np.zeros(3))),
    (TypeError, "no length", lambda: len(nd())),
    (RUNTIME, "created before qd.reset", lambda: after_reset(f32(2))),
    (RUNTIME, "created before qd.reset", lambda: after_reset(nd(2))),
]


def after_reset(container):
    qd.init()
    return container.to_numpy()


@pytest.mark.parametrize("kind, message, use", MISTAKES, ids=[f"{number}-{row[1]}" for number, row in enumerate(MISTAKES)])
def test_mistakes_have_the_promised_class_and_leave_the_runtime_usable(kind, message, use):
    witness = f32(2)
    with pytest.raises(kind) as caught:
        use()
    assert message in str(caught.value)
    if message != "created before qd.reset":
        witness[1] = 4
        assert witness[1] == 4


@pytest.mark.parametrize(
    "make",
    [lambda: f32(3), lambda: qd.ndarray(qd.f32, 3), lambda: qd.tensor(qd.f32, 3), qd.sync, lambda: PAIR.field(shape=3), qd.FieldsBuilder],
)
def test_nothing_is_made_before_init(make):
    qd.reset()
    with pytest.raises(RUNTIME, match=r"Maybe you forgot to call `qd.init\(\)` first\?"):
        make()


def test_containers_without_elements():
    for container in (f32(0, 3), nd(0, 3), qd.tensor(qd.f32, (0, 3))):
        assert container.to_numpy().shape == (0, 3)

        @qd.kernel
        def run(x: qd.Tensor):
            for i, j in x:
                x[i, j] = 1

        run(container)
    assert PAIR.field(shape=0).to_numpy()["a"].shape == (0,) and np.asarray(PAIR.field(shape=(2, 0))).shape == (2, 0)


def test_texts_of_containers():
    assert repr(f32(2)) == "<qd.field of f32, shape (2,): [0. 0.]>" and repr(vectors()).startswith("<3x1 qd.Matrix.field of ")
    assert repr(nd(2)) == "<qd.ndarray of f32, shape (2,): [0. 0.]>"
    assert (
        repr(qd.Matrix.ndarray(2, 3, qd.f32, 1)) == "<2x3 Layout.AOS qd.Matrix.ndarray of f32, shape (1,):\n[[[0. 0. 0.]\n  [0. 0. 0.]]]>"
    )
    assert str(f32(2)) == str(nd(2)) == "[0. 0.]"
    assert qd.field(qd.f32, name="q", shape=1).grad._name == "q.grad"


def test_containers_take_attributes_and_weak_references():
    for container in (f32(2), vectors(), nd(2), qd.tensor(qd.f32, 2), PAIR.field(shape=2)):
        container._tc = 1
        assert container._tc == 1 and weakref.ref(container)() is container


def test_offsets_are_kept_by_components_copies_and_pickles():
    v = qd.Vector.field(3, qd.f32, shape=2, offset=5)
    v[6] = [1, 2, 3]
    assert v.get_scalar_field(1)[6] == 2
    for twin in (copy.deepcopy(v), pickle.loads(pickle.dumps(v))):
        assert list(twin[6]) == [1, 2, 3]
    s = PAIR.field(shape=3, offset=1)
    s[3].a = 4
    assert copy.deepcopy(s)[3].a == 4 and pickle.loads(pickle.dumps(s))[3].a == 4
    assert qd.tensor(qd.f32, 3, backend=qd.Backend.FIELD, offset=2, name="k")[4] == 0


FIELD = "copy_from dtype fill from_numpy from_torch has_dual has_grad layout parent shape snode to_numpy to_torch"
NODE = "bitmasked deactivate_all dense dynamic lazy_dual lazy_grad place pointer quant_array"
NAMES = {
    "ScalarField": FIELD,
    "MatrixField": FIELD + " get_scalar_field to_dlpack",
    "StructField": FIELD + " get_member_field keys to_dlpack",
    "Ndarray": "copy_from element_shape fill get_type has_dual has_grad layout shape from_numpy from_torch to_numpy to_torch",
    "SNode": NODE + " parent shape",
    "BufferView": "get_ndarray shape subscript subview",
    "FieldsBuilder": NODE + " finalize",
    "Struct": "entries field items keys methods to_dict",
    "Tensor": "copy_from dtype fill from_numpy from_torch grad has_dual has_grad layout shape to_dlpack to_numpy to_torch",
    "VectorTensor": "element_shape",
}


@pytest.mark.parametrize("name", NAMES)
def test_public_names(name):
    assert not [member for member in NAMES[name].split() if not hasattr(getattr(qd, name), member)]


INSTANCES = {
    "grad dual vars host_accessors": [lambda: f32(4), vectors, lambda: qd.Matrix.field(2, 3, qd.f32, shape=4)],
    "n m ndim ptr": [vectors, lambda: qd.Matrix.field(2, 3, qd.f32, shape=4)],
    "dtype element_type arr grad host_accessor": [lambda: nd(4), lambda: qd.Vector.ndarray(3, qd.f32, 4)],
    "field_dict struct_methods name": [lambda: PAIR.field(shape=2)],
    "arr offset size": [lambda: nd(4)[1:3]],
}


@pytest.mark.parametrize("names", INSTANCES)
def test_attributes_of_containers(names):
    for make in INSTANCES[names]:
        container = make()
        assert not [name for name in names.split() if not hasattr(container, name)]

"""Fields and ndarrays from Python: making them, layouts, element access, filling, copying."""

import copy
import gc
import itertools
import pickle

import numpy as np
import pytest

import quadrants as qd

DTYPES = [qd.f16, qd.f32, qd.f64, qd.i8, qd.i16, qd.i32, qd.i64, qd.u1, qd.u8, qd.u16, qd.u32, qd.u64]


@pytest.fixture(autouse=True)
def runtime():
    qd.init()
    yield
    qd.reset()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("make", [qd.field, qd.ndarray], ids=["field", "ndarray"])
def test_storage_starts_as_zeros_of_the_numpy_type(make, dtype):
    name = {"u1": "bool"}.get(dtype.name) or {"i": "int", "u": "uint", "f": "float"}[dtype.name[0]] + dtype.name[1:]
    array = make(dtype, shape=(2, 3)).to_numpy()
    assert array.dtype == np.dtype(name)
    assert array.shape == (2, 3) and not array.any()


def test_names_and_numpy_types_mean_data_types():
    for given, dtype in [(np.float32, qd.f32), (np.dtype("u2"), qd.u16), ("i8", qd.i8), ("float64", qd.f64), (int, qd.i32), (bool, qd.u1)]:
        assert qd.field(given, shape=1).dtype is dtype


def test_invalid_data_types_are_refused_and_leave_the_runtime_usable():
    with pytest.raises(ValueError, match="Invalid data type"):
        qd.field(complex, shape=1)
    with pytest.raises(qd.QuadrantsRuntimeError, match="is not supported as ndarray element type"):
        qd.ndarray(object, shape=1)
    assert qd.field(qd.f32, shape=1)[0] == 0


def test_scalar_elements_store_like_assignments():
    u8, u1, i32, f16 = (qd.field(dtype, shape=2) for dtype in (qd.u8, qd.u1, qd.i32, qd.f16))
    u8[0], u8[1] = 255, 0
    assert list(u8.to_numpy()) == [255, 0]
    u1[0] = 5
    assert u1[0] == 1
    i32[0] = 2.9
    i32[1] = np.int64(7)
    assert list(i32.to_numpy()) == [2, 7]
    f16[0] = 1.0009
    assert f16[0] == float(np.float16(1.0009))


def test_u64_takes_its_whole_range():
    array = qd.ndarray(qd.u64, shape=1)
    array[0] = 2**64 - 1
    assert array[0] == 2**64 - 1


def test_scalars_read_as_python_numbers():
    assert type(qd.field(qd.f32, shape=())[None]) is float
    assert type(qd.ndarray(qd.i8, shape=(1,))[0]) is int


def test_zero_dimensional_containers_take_none_and_the_empty_tuple():
    x = qd.field(qd.i32, shape=())
    x[None] = 3
    assert x[()] == 3 and x.shape == ()


@pytest.mark.parametrize("key", [4, -1, (9, 9)])
def test_indices_outside_the_shape_are_refused(key):
    x = qd.field(qd.i32, shape=(4,) if isinstance(key, int) else (4, 4))
    for act in (lambda: x[key], lambda: x.__setitem__(key, 1)):
        with pytest.raises(IndexError, match="out of range for shape") as caught:
            act()
        assert isinstance(caught.value, qd.QuadrantsAssertionError)


def test_wrong_numbers_of_indices_are_refused():
    with pytest.raises(AssertionError, match="Slicing is not supported on qd.field"):
        qd.field(qd.i32, shape=(2, 2))[0, 0, 0]
    with pytest.raises(IndexError, match="2d ndarray indexed with 3d indices"):
        qd.ndarray(qd.i32, shape=(2, 2))[0, 0, 0]


def test_keys_that_are_no_indices_are_refused():
    for key in (1.5, "a", (0, 1.0)):
        with pytest.raises(TypeError, match="Detected illegal element of type"):
            qd.field(qd.i32, shape=(2, 2))[key]


def test_strings_are_refused_as_values():
    with pytest.raises(TypeError):
        qd.field(qd.i32, shape=1)[0] = "1"
    with pytest.raises(TypeError):
        qd.Vector.field(2, qd.i32, shape=1)[0] = "ab"


def test_slices_are_views():
    x = qd.ndarray(qd.i32, shape=(4, 3))
    view = x[1:3, 0]
    view[:] = 7
    x[3, ...] = 9
    assert x[2, 0] == 7 and list(x.to_numpy()[3]) == [9, 9, 9]


def test_vector_elements_write_through():
    v = qd.Vector.field(3, qd.f32, shape=2)
    v[0] = [1, 2, 3]
    v[0].x = 7
    v[0][1] = 8
    v[1].xy = v[0].yx
    assert v[0].to_list() == [7, 8, 3] and v[1].to_list() == [8, 7, 0]
    v[1] = 4
    assert v[1].to_list() == [4, 4, 4]


def test_elements_of_the_wrong_length_are_refused():
    v = qd.Vector.field(3, qd.f32, shape=2)
    with pytest.raises(ValueError, match=r"shape \(3,\)"):
        v[0] = [1, 2]
    with pytest.raises(ValueError, match=r"shape \(3,\)"):
        v.fill([1, 2])


@pytest.mark.parametrize("layout", list(qd.Layout)[:2], ids=str)
def test_matrix_fields_round_trip_in_both_layouts(layout):
    data = np.arange(2 * 3 * 2 * 2, dtype=np.float32).reshape(2, 3, 2, 2)
    m = qd.Matrix.field(2, 2, qd.f32, shape=(2, 3), layout=layout)
    m.from_numpy(data)
    assert np.array_equal(m.to_numpy(), data)
    assert m[1, 2].to_list() == data[1, 2].tolist()
    assert np.array_equal(m.get_scalar_field(1, 0).to_numpy(), data[:, :, 1, 0])


def test_soa_puts_components_into_blocks_of_their_own():
    layout = qd.Vector.field(3, qd.f32, shape=(5,), layout=qd.Layout.SOA)._qd_layout
    assert (layout.strides, layout.component_stride) == ((4,), 20)


@pytest.mark.host_memory
@pytest.mark.parametrize("order", ["".join(p) for p in itertools.permutations("ijk")])
def test_order_permutes_memory_and_nothing_else(order):
    shape = (2, 3, 4)
    data = np.arange(24, dtype=np.int32).reshape(shape)
    x = qd.field(qd.i32, shape=shape, order=order)
    x.from_numpy(data)
    axes = ["ijk".index(letter) for letter in order]
    assert np.array_equal(x.to_numpy(), data) and x[1, 2, 3] == data[1, 2, 3]
    assert x.layout == (None if order == "ijk" else tuple(axes))
    memory = np.lib.stride_tricks.as_strided(x.view()[0, 0, 0:1], (24,), (4,))
    assert np.array_equal(memory, data.transpose(axes).reshape(-1))


@pytest.mark.parametrize(
    "options, text",
    [
        ({"shape": (2, 2), "order": "i"}, "The dimensionality of shape and order must be the same"),
        ({"shape": (2, 2), "order": "ii"}, "The axes in order must be different"),
        ({"shape": (2, 2), "order": "ik"}, "Invalid axis"),
        ({"order": "i"}, "shape cannot be None when order is set"),
        ({"offset": 1}, "shape cannot be None when offset is set"),
        ({"shape": (2, 2), "offset": 1}, "The dimensionality of shape and offset must be the same"),
    ],
)
def test_bad_layouts_are_refused(options, text):
    with pytest.raises(qd.QuadrantsSyntaxError, match=text):
        qd.field(qd.i32, **options)


def test_bad_shapes_are_refused():
    with pytest.raises(qd.QuadrantsRuntimeError, match="Every dimension of a Quadrants field should be positive"):
        qd.field(qd.i32, shape=-1)
    with pytest.raises(TypeError):
        qd.field(qd.i32, shape=1.5)
    for shape in (-1, 2**31, 1.5, "a"):
        with pytest.raises(qd.QuadrantsRuntimeError, match="is not a valid shape for ndarray"):
            qd.ndarray(qd.i32, shape=shape)
    with pytest.raises(RuntimeError, match="Too many dimensions"):
        qd.field(qd.i32, shape=(1,) * 13)
    with pytest.raises(ValueError, match="n of a vector"):
        qd.Vector.field(0, qd.f32, shape=1)


def test_empty_containers_are_legal():
    assert qd.field(qd.f32, shape=(0, 3)).to_numpy().shape == (0, 3)
    assert qd.ndarray(qd.types.vector(3, qd.f32), shape=0).to_numpy().shape == (0, 3)


def test_fill_converts_like_an_assignment():
    for make in (qd.field, qd.ndarray):
        x = make(qd.i32, shape=(3,))
        x.fill(2.7)
        assert list(x.to_numpy()) == [2, 2, 2]
        y = make(qd.u32, shape=(1,))
        y.fill(2**32 - 1)
        assert y[0] == 2**32 - 1
        v = make(qd.types.vector(2, qd.u8), shape=(2,))
        v.fill([200, True])
        assert v.to_numpy().tolist() == [[200, 1]] * 2


@pytest.mark.parametrize("dtype", [qd.u8, qd.i16, qd.f32, qd.f64], ids=str)
def test_fills_of_parts_write_nothing_else(dtype):
    x, expected = qd.ndarray(dtype, shape=300), np.zeros(300)
    for first in (0, 1, 3, 8):
        for length in (*range(40), 255, 257):
            x.fill(1)
            x[first : first + length].fill(77)
            expected[:] = 1
            expected[first : first + length] = 77
            assert np.array_equal(x.to_numpy(), expected), (first, length)


@pytest.mark.parametrize("make", [qd.field, qd.ndarray], ids=["field", "ndarray"])
def test_large_containers_fill_and_copy_whole(make):
    n = (4 << 20) + 13  # above the size from which several threads copy, and no multiple of a chunk
    data = np.arange(n, dtype=np.float32)
    x = make(qd.f32, shape=n)
    x.from_numpy(data)
    assert np.array_equal(x.to_numpy(), data)
    x.fill(3)
    assert (x.to_numpy() == 3).all()


def test_copy_from_converts_and_crosses_kinds():
    source = qd.ndarray(qd.f32, shape=(2, 2))
    source.from_numpy(np.array([[1.9, -1.9], [3, 4]]))
    target = qd.field(qd.i32, shape=(2, 2), order="ji")
    target.copy_from(source)
    assert target.to_numpy().tolist() == [[1, -1], [3, 4]]
    with pytest.raises(ValueError, match="does not match the source field shape"):
        target.copy_from(qd.field(qd.i32, shape=3))
    with pytest.raises(TypeError, match="Cannot copy from a non-field object"):
        target.copy_from(3)
    with pytest.raises(AssertionError):
        source.copy_from(3)


def test_from_numpy_takes_any_type_and_strides():
    x = qd.field(qd.f32, shape=(3, 2))
    x.from_numpy(np.arange(6).reshape(2, 3).T)
    assert x.to_numpy().tolist() == [[0, 3], [1, 4], [2, 5]]
    x.from_numpy([[True, False]] * 3)
    assert x[2, 0] == 1
    with pytest.raises(ValueError, match="does not match the numpy array shape"):
        x.from_numpy(np.zeros((2, 3)))
    with pytest.raises(TypeError, match="numpy.ndarray.*expected"):
        x.from_numpy("abc")


def test_to_numpy_converts_and_fills_a_destination():
    x = qd.field(qd.f32, shape=2)
    x.fill(1.5)
    assert x.to_numpy(np.int64).tolist() == [1, 1] and x.to_numpy(qd.f64).dtype == np.float64
    out = np.zeros(2, np.float32)
    assert x.to_numpy(out=out) is out and out[1] == 1.5
    assert qd.Vector.field(2, qd.f32, shape=3).to_numpy(keep_dims=True).shape == (3, 2, 1)


@pytest.mark.host_memory
def test_views_share_memory_and_outlive_a_reset():
    x = qd.field(qd.f32, shape=4)
    view = x.to_numpy(copy=False)
    x[1] = 5
    assert view[1] == 5
    qd.reset()
    view[2] = 6
    assert view.tolist() == [0, 5, 6, 0]


def test_a_container_of_an_ended_runtime_is_refused():
    for x in (qd.field(qd.f32, shape=4), qd.ndarray(qd.f32, shape=4)):
        qd.init()
        for use in (lambda x=x: x[0], x.to_numpy, lambda x=x: x.fill(1)):
            with pytest.raises(qd.QuadrantsRuntimeError, match=r"was created before qd.reset\(\)"):
                use()


def test_containers_need_a_runtime():
    qd.reset()
    for make in (lambda: qd.field(qd.f32, shape=1), lambda: qd.ndarray(qd.f32, shape=1), qd.sync):
        with pytest.raises(qd.QuadrantsRuntimeError, match=r"call `qd.init\(\)` first"):
            make()


def test_gradient_storage_is_a_container_of_the_same_layout():
    x = qd.field(qd.f32, shape=(2, 3), order="ji", needs_grad=True)
    assert x.has_grad() and x.grad._qd_layout == x._qd_layout and x.grad.grad is None
    with pytest.raises(RuntimeError, match="is not supported for field with `needs_grad=True`"):
        qd.field(qd.i32, shape=1, needs_grad=True)
    with pytest.raises(qd.QuadrantsRuntimeError, match="is not supported for ndarray with `needs_grad=True`"):
        qd.ndarray(qd.i32, shape=1, needs_grad=True)


def test_pickle_and_deepcopy_copy_elements():
    for x in (qd.field(qd.i32, shape=(2, 2), order="ji"), qd.ndarray(qd.types.vector(2, qd.f32), shape=2)):
        x.fill(3)
        for twin in (copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
            assert np.array_equal(twin.to_numpy(), x.to_numpy()) and twin.layout == x.layout
            twin.fill(4)
            assert x.to_numpy().max() == 3


def test_memory_goes_with_the_last_reference():
    from quadrants import _runtime

    gc.collect()  # what other tests left in cycles
    before = _runtime.memory_use()
    for _ in range(1000):
        qd.field(qd.f64, shape=1000).fill(1)
    assert _runtime.memory_use() == before


def test_ndarray_classes_are_constructors():
    assert qd.ScalarNdarray(qd.f32, 3).shape == (3,) and qd.VectorNdarray(2, int, (3,)).element_shape == (2,)
    assert qd.MatrixNdarray(2, 3, qd.f64, (1,)).to_numpy().shape == (1, 2, 3)
    kind = qd.Vector.ndarray(2, qd.f32, 4).get_type()
    assert (kind.element_type, kind.shape, kind.needs_grad) == (qd.types.vector(2, qd.f32), (4,), False)


def test_representations():
    assert repr(qd.field(qd.f32, shape=1)) == "<qd.field of f32, shape (1,): [0.]>"
    assert repr(qd.field(qd.f32, shape=(2, 3), name="mass", needs_grad=True).grad) == (
        "<qd.field of f32, shape (2, 3), name 'mass.grad':\n[[0. 0. 0.]\n [0. 0. 0.]]>"
    )
    assert repr(qd.Matrix.field(2, 3, qd.f32, shape=1)) == "<2x3 qd.Matrix.field of f32, shape (1,):\n[[[0. 0. 0.]\n  [0. 0. 0.]]]>"
    assert (
        repr(qd.Vector.field(2, qd.i8, shape=4, name="v").get_scalar_field(1)) == "<qd.field of i8, shape (4,), name 'v[1, 0]': [0 0 0 0]>"
    )
    assert repr(qd.Vector.ndarray(3, qd.f32, 1)) == "<3 Layout.AOS qd.Vector.ndarray of f32, shape (1,): [[0. 0. 0.]]>"
    assert repr(qd.types.struct(a=qd.i32, v=qd.math.vec2).field(shape=3)) == "<qd.Struct.field of a=i32, v=VectorType[2, f32], shape (3,)>"
    kind = qd.types.struct(a=qd.i32, s=qd.types.struct(b=qd.f32))
    structs = [kind.field(shape=2), kind.ndarray(2)]
    elements = [each[1] for each in structs]
    x, ended = qd.field(qd.f32, name="later"), qd.ndarray(qd.u8, ())
    assert repr(x) == "<qd.field of f32, not placed, name 'later'>"
    qd.root.dense(qd.i, 3).place(x)
    assert repr(x) == "<qd.field of f32, shape (3,), name 'later'>" and x._state == "unplaced"
    qd.init(arch=qd.cpu, offline_cache=False, log_level="error")
    assert repr(ended) == "<qd.ndarray of u8, ended by qd.reset()>"
    assert repr(structs[1]) == repr(structs[0]).replace("field", "ndarray")
    assert repr(structs[0]).endswith(", ended by qd.reset()>")
    assert [repr(each) for each in elements] == ["<qd.Struct of a, s, ended by qd.reset()>"] * 2
    assert str(qd.field(qd.i32, shape=2)) == "[0 0]"


def test_iteration():
    with pytest.raises(NotImplementedError, match="Struct for is only available in Quadrants scope"):
        iter(qd.field(qd.i32, shape=2))
    x = qd.ndarray(qd.i32, shape=3)
    assert list(x) == [0, 0, 0] and len(x) == 3

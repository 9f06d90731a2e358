"""Attributes, keyword names and answers of containers, vectors and tools that programs for the reference use."""

import inspect
import pickle

import numpy as np
import pytest

import quadrants as qd


@pytest.fixture(params=["cpu", "python"], autouse=True)
def start(request):
    qd.init(arch=getattr(qd, request.param), offline_cache=False, log_level="error")
    yield
    qd.reset()


def test_sizes_of_elements():
    v, m = qd.Vector.ndarray(3, qd.f32, 4), qd.Matrix.ndarray(2, 3, qd.f64, (4, 5))
    assert (v.n, m.n, m.m) == (3, 2, 3)
    assert (v.element_type.element_type(), v.element_type.shape(), v.element_type.shape) == (qd.f32, [3], (3,))
    assert (m.element_type.element_type(), m.element_type.shape()) == (qd.f64, [2, 3])


def test_entries_are_the_memory_of_a_vector():
    v = qd.Vector([1, 2], dt=qd.u8)
    assert v.entries.dtype == np.uint8
    v.entries[1] = 7
    assert v[1] == 7 and qd.Matrix([[1.0, 2.0]]).entries.shape == (1, 2)


def test_truth_of_comparisons():
    f = qd.Vector.field(2, qd.f32, shape=())
    f[None] = [1, 2]
    assert f[None] == [1.0, 2.0] and f[None] == qd.Vector([1.0, 2.0])
    assert not f[None] == [1.0, 3.0] and f[None] != [1.0, 3.0] and not f[None] != [1.0, 2.0]
    assert (f[None] == [1, 3]).to_list() == [True, False]
    assert (f[None] == [1, 2, 3]) is False and (f[None] != [1, 2, 3]) is True and f[None] != qd.Matrix([[1, 2], [1, 2]])
    for condition in (lambda: bool(f[None]), lambda: bool(f[None] < [2, 3]), lambda: bool((f[None] == [1, 2]) + 0)):
        with pytest.raises(qd.QuadrantsTypeError, match="is no condition"):
            condition()


def test_an_element_without_axes():
    for make, error in ((qd.field, qd.QuadrantsAssertionError), (qd.ndarray, IndexError)):
        counter = make(qd.i32, shape=())
        with_one = [lambda: counter[0], lambda: counter.__setitem__(0, 1)] if qd.cfg is not None else []  # arch=qd.python accepts 0
        for access in (*with_one, lambda: counter[0, 0]):
            with pytest.raises(IndexError, match=r"0d (field|ndarray) indexed with [12]d indices; its one element is \[None\]") as caught:
                access()
            assert isinstance(caught.value, error)


def test_one_value_for_a_row_is_written_with_slices():
    for make in (qd.field, qd.ndarray):
        x = make(qd.i32, shape=(2, 2, 3))
        for value in (1, [1], np.ones((1, 3)), np.int32(1)):
            with pytest.raises(IndexError, match=r"all elements there is written to \[0, 1, :\]"):
                x[0, 1] = value
        with pytest.raises(IndexError, match=r"\[0, :, :\]"):
            x[0] = 1
        x[0, 1, :] = 1
        x[1, 0] = [4, 5, 6]
        x[0, 0] = x[1, 0]
        assert x.to_numpy().tolist() == [[[4, 5, 6], [1, 1, 1]], [[4, 5, 6], [0, 0, 0]]]
        v = make(qd.types.vector(2, qd.i32), shape=(2, 2))
        with pytest.raises(IndexError, match=r"\[0, :\]"):
            v[0] = [1, 2]
        v[0] = [[1, 2], [3, 4]]
        assert v.to_numpy()[0].tolist() == [[1, 2], [3, 4]]


def test_vectors_come_as_rows_and_columns():
    v = qd.Vector.field(3, qd.f32, shape=(2, 2))
    data = np.arange(12, dtype=np.float32).reshape(2, 2, 3)
    for array in (data, data[..., None], data[:, :, None, :]):
        v.fill(0)
        v.from_numpy(array)
        assert np.array_equal(v.to_numpy(), data)


def test_bytes_of_cells_are_known_while_a_tree_grows():
    block, x, y = qd.root.dense(qd.i, 4), qd.field(qd.f64), qd.field(qd.f32)
    block.place(x)
    assert block._cell_size_bytes == 8
    block.place(y)
    assert block._cell_size_bytes == 16 and x._state == "unplaced"
    x[0] = 1
    assert block._cell_size_bytes == 16


def test_keyword_names_of_containers():
    t, pair = qd.tensor(qd.f32, 3), qd.types.struct(a=qd.i32, b=qd.f32).field(shape=2)
    t.fill(value=2.0)
    pair.from_numpy(array_dict={"a": np.array([1, 2]), "b": np.ones(2)})
    assert t[0] == 2 and pair[1].a == 2 and qd.ScalarNdarray(qd.f32, arr_shape=(2,)).shape == (2,)
    torch = pytest.importorskip("torch")
    pair.from_torch(array_dict={"a": torch.tensor([3, 4]), "b": torch.ones(2)})
    assert pair[1].a == 4


def test_structs_as_dicts():
    def count(self):
        return 3

    inner = qd.types.struct(v=qd.math.vec2)
    kind = qd.types.struct(a=qd.i32, m=qd.math.mat2, s=inner, __struct_methods={"f": count})
    found = kind(1, [[1, 2], [3, 4]], {"v": [5, 6]}).to_dict(include_methods=True, include_ndim=True)
    assert found.pop("__struct_methods") == {"f": count} and found.pop("__matrix_ndim") == {"m": 2}
    assert found["s"] == {"v": [5, 6], "__struct_methods": {}, "__matrix_ndim": {"v": 1}}
    assert set(kind().to_dict()) == {"a", "m", "s"}


@qd.kernel
def call_by_name() -> qd.f32:
    z = qd.math.cdiv(z1=qd.math.cmul(z1=qd.Vector([1.0, 2.0]), z2=qd.Vector([2.0, 0.0])), z2=qd.math.cconj(z=qd.Vector([2.0, 0.0])))
    turned = qd.math.rotation2d(ang=0.0) @ qd.math.vdir(ang=0.0)
    scaled = qd.math.inverse(mat=qd.Matrix([[0.5, 0.0], [0.0, 1.0]]))
    return z[1] + turned[0] + scaled[0, 0] + qd.math.rot_by_axis(axis=qd.Vector([1.0, 0.0, 0.0]), ang=0.0)[3, 3]


@qd.kernel
def power(x: qd.f32) -> qd.f32:
    return qd.pow(base=x, exponent=3.0) + qd.select(cond=x > 0, x1=x, x2=0.0) + qd.atan2(x1=0.0, x2=x)


def test_keyword_names_of_functions():
    assert call_by_name() == 6 and power(2.0) == 10
    assert qd.pow(base=2.0, exponent=3.0) == 8 and qd.select(cond=True, x1=1, x2=2) == 1 and qd.cast(obj=2.5, dtype=qd.i32) == 2
    for wrong in (lambda: qd.pow(2.0, base=3.0), lambda: qd.atan2(1.0, y=2.0), lambda: qd.sin(angle=1.0)):
        with pytest.raises(TypeError, match="keyword argument"):
            wrong()


def test_images_of_arrays(tmp_path):
    for values, kind in (
        (np.array([[3_000_000_000]], np.uint32), b"unsigned_int"),
        (np.array([[2**64 - 1]], np.uint64), b"unsigned_long"),
        (np.array([[-1]], np.int16), b"int"),
        ([[1.5]], b"double"),
    ):
        qd.tools.write_vtk(values, tmp_path / "image")
        head, data = (tmp_path / "image.vtk").read_bytes().split(b"LOOKUP_TABLE default\n")
        types = {b"unsigned_int": ">u4", b"unsigned_long": ">u8", b"int": ">i4", b"double": ">f8"}
        assert b"SCALARS Data " + kind + b" 1" in head and np.frombuffer(data, types[kind])[0] == np.asarray(values)[0, 0]
    qd.tools.write_vtk(qd.tensor(qd.f16, (2, 2)), tmp_path / "image")
    with pytest.raises(ValueError, match="2D or 3D"):
        qd.tools.write_vtk(qd.Vector.field(3, qd.f32, shape=(2, 2)), tmp_path / "image")
    for wrong in (np.zeros((2, 2), complex), qd.types.struct(a=qd.i32).field(shape=(2, 2)), "no array"):
        with pytest.raises(TypeError, match="2D or 3D"):
            qd.tools.write_vtk(wrong, tmp_path / "image")


def test_what_a_report_says(capsys):
    qd.tools.diagnose()
    text = capsys.readouterr().out
    qd.tools.diagnose.main()
    assert "quadrants:" in text and capsys.readouterr().out == text


def test_methods_with_fast_paths_are_ordinary_methods():
    """`fill` and `to_numpy` skip Python in ordinary calls only; any other call, and any question about them, goes to the function."""
    field, column, array = qd.field(qd.i32, shape=5), qd.Matrix.field(2, 1, qd.f32, shape=3), qd.ndarray(qd.f32, 4)
    type(field).fill(field, 3)
    column.fill(val=2.0)
    array.fill(np.float32(1.5))
    assert field.to_numpy().tolist() == [3] * 5 and type(field).to_numpy(field, dtype=np.float64).tolist() == [3.0] * 5
    assert column.to_numpy().shape == (3, 2) and column.to_numpy(keep_dims=True).shape == (3, 2, 1)
    assert array.to_numpy(copy=None).tolist() == [1.5] * 4
    bound = pickle.loads(pickle.dumps(field.to_numpy))
    assert bound().tolist() == [3] * 5
    assert list(inspect.signature(field.fill).parameters) == ["val"] and "every element" in type(field).fill.__doc__
    assert list(inspect.signature(type(column).to_numpy).parameters) == ["self", "keep_dims", "dtype", "copy", "out"]
    assert field.fill.__name__ == "fill" and field.fill.__qualname__.endswith("fill")
    for wrong in (lambda: field.fill(), lambda: field.fill(1, 2), lambda: field.to_numpy(unknown=1), lambda: type(field).fill(3, 4)):
        with pytest.raises((TypeError, AttributeError)):
            wrong()
    with pytest.raises(OverflowError):
        field.fill(1 << 40)
    assert field.to_numpy().tolist() == [3] * 5


def test_large_copies_have_huge_pages_of_their_own():
    field = qd.field(qd.f32, shape=1 << 23)
    field.fill(0.5)
    copy, other = field.to_numpy(), field.to_numpy()
    assert copy.ctypes.data % (2 << 20) == 0 and copy.flags.c_contiguous and copy.flags.writeable
    field.fill(2)
    qd.reset()
    copy[7] = 3
    assert copy.sum() == 0.5 * (1 << 23) + 2.5 and (other == 0.5).all()


def make_vectors():
    struct = qd.types.struct(v=qd.types.vector(2, qd.i32)).field(shape=1)
    bitmasked = qd.Vector.field(2, qd.i32)
    qd.root.bitmasked(qd.i, 4).place(bitmasked)
    quantized = qd.Vector.field(2, qd.types.quant.int(12))
    pack = qd.BitpackedFields(32)
    pack.place(quantized)
    qd.root.dense(qd.i, 4).place(pack)
    fields = [qd.Vector.field(2, dtype, shape=1) for dtype in (qd.i32, qd.u8, qd.f32, qd.f16, qd.bf16)]
    return [*fields, qd.Vector.ndarray(2, qd.i64, 1), struct.v, bitmasked, quantized]


def test_components_of_elements_are_numbers_of_python():
    for vectors in make_vectors():
        kind = float if vectors.dtype.is_real else int
        vectors[0] = [3, 5]
        element = vectors[0]
        for number in (element[1], element.y, element[-1], [*element][1], element[:][1]):
            assert type(number) is kind and number == 5
        with pytest.raises(IndexError):
            element[2]
    large = qd.Vector.field(2, qd.i32, shape=1)
    large[0] = [2**30, 1]
    assert large[0][0] * 4 == 2**32  # as of an element that is a number
    matrices = qd.Matrix.field(2, 2, qd.f32, shape=1)
    matrices[0] = [[1, 2], [3, 4]]
    assert type(matrices[0][1, 0]) is float and type(matrices[0][1, :][0]) is float

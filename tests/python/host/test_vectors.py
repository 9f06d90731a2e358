"""Vectors and matrices in Python scope."""

import copy
import pickle

import numpy as np
import pytest

import quadrants as qd


def test_construction_and_types():
    assert qd.Vector([1, 2.5]).to_list() == [1, 2.5]
    assert qd.Vector([1.9, -1.9], qd.i32).to_list() == [1, -1]
    assert qd.Vector([300, -1], qd.u8).to_list() == [44, 255]
    assert qd.Matrix([[1, 2], [3, 4]]).shape == (2, 2)
    assert qd.Matrix([qd.Vector([1, 2]), qd.Vector([3, 4])]).to_list() == [[1, 2], [3, 4]]
    assert qd.Vector([1, 2]).dtype is None and qd.Vector([1], qd.f64).dtype is qd.f64
    assert isinstance(qd.Vector([1]), qd.Matrix) and qd.Vector([1, 2]).ndim == 1


@pytest.mark.parametrize("given", [3, "ab", [[1], [2, 3]], [[[1]]]])
def test_things_that_are_no_arrays_are_refused(given):
    with pytest.raises(qd.QuadrantsTypeError):
        qd.Vector(given)


def test_tensors_of_torch_are_arrays():
    torch = pytest.importorskip("torch")
    made = qd.Vector(torch.tensor([1, 2], dtype=torch.int16)), qd.Matrix(torch.ones(2, 3), qd.f32)
    assert [(type(each), each.shape, each.to_numpy().tolist()) for each in made] == [
        (qd.Vector, (2,), [1, 2]), (qd.Matrix, (2, 3), [[1, 1, 1]] * 2)
    ]  # fmt: skip


def test_types_are_constructors():
    vec3 = qd.types.vector(3, qd.f32)
    assert vec3(1).to_list() == [1, 1, 1]
    assert vec3(qd.Vector([1, 2]), 3).to_list() == [1, 2, 3]
    assert vec3([4, 5, 6]).dtype is qd.f32
    assert qd.types.matrix(2, 2, int)(1, 2, 3, 4).to_list() == [[1, 2], [3, 4]]
    with pytest.raises(qd.QuadrantsSyntaxError, match="3 components, got 2"):
        vec3(1, 2)


def test_swizzles_read_and_write():
    v = qd.Vector([1, 2, 3, 4])
    assert v.x == 1 and v.wzyx.to_list() == [4, 3, 2, 1] and v.rgb.to_list() == [1, 2, 3] and v.st.to_list() == [1, 2]
    v.xy = [9, 8]
    v.zw = 0
    v.x += 1
    assert v.to_list() == [10, 8, 0, 0]
    with pytest.raises(qd.QuadrantsSyntaxError, match=r"vec2 only has attributes=\('x', 'y'\), got=\('z',\)"):
        _ = qd.Vector([1, 2]).z
    with pytest.raises(AttributeError):
        _ = v.xr


def test_arithmetic_keeps_the_class_and_follows_numpy():
    v = qd.Vector([1.0, -2.0])
    for result, expected in [
        (v + 1, [2, -1]), (1 - v, [0, 3]), (v * v, [1, 4]), (2 / v, [2, -1]), (v // 2, [0, -1]), (v % 2, [1, 0]), (v**2, [1, 4]),
        (-v, [-1, 2]), (abs(v), [1, 2]), (v + [1, 1], [2, -1]), (v > 0, [True, False]), (v == v, [True, True]),
    ]:  # fmt: skip
        assert type(result) is qd.Vector and result.to_list() == expected
    v += 1
    assert v.to_list() == [2, -1]
    assert (np.float32(2) * qd.Vector([1, 2])).to_list() == [2, 4]


def test_shapes_that_do_not_match_are_refused():
    with pytest.raises(qd.QuadrantsTypeError, match="do not go together"):
        qd.Vector([1, 2]) + qd.Vector([1, 2, 3])
    with pytest.raises(qd.QuadrantsTypeError, match=r"dimension mismatch between \(2, 2\) and \(1, 3\) for matrix multiplication"):
        qd.Matrix([[1, 2], [3, 4]]) @ qd.Matrix([[1, 2, 3]])


def test_products():
    m, v = qd.Matrix([[1, 2], [3, 4]]), qd.Vector([5, 6])
    assert (m @ m).to_list() == [[7, 10], [15, 22]] and (m @ v).to_list() == [17, 39] and (v @ m).to_list() == [23, 34] and v @ v == 61
    assert v.outer_product(v).to_list() == [[25, 30], [30, 36]] and v.dot(v) == 61
    assert qd.Vector([1, 0, 0]).cross(qd.Vector([0, 1, 0])).to_list() == [0, 0, 1] and v.cross(qd.Vector([1, 2])) == 4
    with pytest.raises(qd.QuadrantsTypeError, match=r"only dimension < 4 is supported, got shape \(4,\)"):
        qd.Vector([1] * 4).cross(qd.Vector([1] * 4))


def test_methods():
    v = qd.Vector([3.0, 4.0])
    assert v.norm() == 5 and v.norm_sqr() == 25 and v.norm_inv() == 0.2 and v.normalized().to_list() == [0.6, 0.8]
    assert (v.sum(), v.max(), v.min(), v.any(), v.all()) == (7, 4, 3, True, True)
    m = qd.Matrix([[2, 1], [1, 3]])
    assert m.trace() == 5 and m.determinant() == 5 and m.T.to_list() == [[2, 1], [1, 3]]
    assert np.allclose((m @ m.inverse()).to_numpy(), np.eye(2))
    with pytest.raises(qd.QuadrantsTypeError, match=r"`transpose\(\)` cannot apply to a vector"):
        v.transpose()
    with pytest.raises(qd.QuadrantsTypeError, match=r"expected a square matrix, got shape \(2, 3\)"):
        qd.Matrix([[1, 2, 3], [4, 5, 6]]).inverse()


def test_constructors():
    assert qd.Matrix.identity(qd.f32, 2).to_list() == [[1, 0], [0, 1]]
    assert qd.Vector.zero(qd.i32, 2).dtype is qd.i32 and qd.Matrix.one(qd.f32, 1, 2).to_list() == [[1, 1]]
    assert qd.Vector.unit(3, 1).to_list() == [0, 1, 0] and qd.Matrix.diag(2, 3.0).to_list() == [[3, 0], [0, 3]]
    assert qd.Matrix.rows([[1, 2], [3, 4]]).to_list() == qd.Matrix.cols([[1, 3], [2, 4]]).to_list()


def test_copies_are_independent():
    v = qd.Vector([1, 2], qd.i16)
    for twin in (copy.copy(v), copy.deepcopy(v), pickle.loads(pickle.dumps(v))):
        twin[0] = 9
        assert v[0] == 1 and twin.dtype is qd.i16
    assert len({v, qd.Vector([1, 2])}) == 2  # hashed by identity


def test_rows_of_matrices():
    m = qd.Matrix([[1, 2], [3, 4]])
    m[0][1] = 7
    assert m[0, 1] == 7 and type(m[1]) is qd.Vector and [list(row) for row in m] == [[1, 7], [3, 4]]


def test_functions_apply_to_every_component():
    assert qd.sqrt(qd.Vector([4.0, 9.0])).to_list() == [2, 3]
    assert qd.max(qd.Vector([1, 5]), 3).to_list() == [3, 5] and qd.min(1, 2, 0.5) == 0.5 and np.isnan(qd.max(np.nan, np.nan))
    assert qd.max(np.nan, 1.0) == 1
    assert qd.round(2.5) == 3 and qd.round(-2.5) == -3 and qd.round(0.49999999999999994) == 0
    assert qd.floor(2.7, qd.i32) == 2 and type(qd.floor(2.7, qd.i32)) is int
    assert qd.select(qd.Vector([1, 0]), 5, qd.Vector([7, 8])).to_list() == [5, 8]
    assert qd.cast(qd.Vector([1.9, -1.9]), qd.i32).to_list() == [1, -1] and qd.cast(300, qd.i8) == 44 and qd.u8(-1) == 255
    assert qd.bit_cast(1.0, qd.i32) == 0x3F800000 and qd.raw_div(-7, 2) == -3 and qd.raw_mod(-7, 2) == -1
    assert qd.bit_shr(np.int32(-8), 1) == 2147483644
    assert qd.math.popcnt(np.int32(-1)) == 32 and qd.math.clz(np.int32(1)) == 31 and qd.math.ffs(np.int32(8)) == 4


def test_functions_of_kernels_only_say_so():
    with pytest.raises(qd.QuadrantsRuntimeError, match="cannot be called in Python-scope"):
        qd.atomic_add(1, 2)


def test_ndrange():
    assert list(qd.ndrange(2, (1, 3))) == [(0, 1), (0, 2), (1, 1), (1, 2)]
    assert list(qd.ndrange(2, 2, axes=(1, 0))) == [(0, 0), (1, 0), (0, 1), (1, 1)]
    assert [i.to_list() for i in qd.grouped(qd.ndrange(1, 2))] == [[0, 0], [0, 1]]
    assert list(qd.ndrange(-3)) == []
    with pytest.raises(qd.QuadrantsSyntaxError, match=r"qd.ndrange\(axes=\(1, 1\)\) is not a permutation of range\(2\)"):
        qd.ndrange(2, 2, axes=(1, 1))
    with pytest.raises(qd.QuadrantsTypeError, match=r"entries must be Python ints; got str \('a'\)"):
        qd.ndrange(2, 2, axes=("a", 1))
    with pytest.raises(qd.QuadrantsTypeError, match="should be an integer scalar"):
        qd.ndrange(1.5)


def test_vectors_print_as_numpy_arrays_do() -> None:
    assert str(qd.Vector([1.0, 2.5])) == "[1.  2.5]"
    assert str(qd.Matrix([[1, 2], [3, 4]])) == "[[1 2]\n [3 4]]"


def test_functions_of_numpy_that_reduce() -> None:
    qd.init(arch=qd.cpu, offline_cache=False, log_level="error")
    numbers = np.array([[3.0, -1.0], [0.0, 2.0]])
    matrix, field = qd.Matrix(numbers), qd.Matrix.field(2, 2, qd.f64, shape=3)
    field[1] = matrix
    for given in (matrix, field[1], matrix[0]):
        for name in ("sum", "prod", "max", "min", "any", "all", "mean", "ptp"):
            function, expected = getattr(np, name), np.asarray(given)
            assert function(given) == function(expected)
            assert np.array_equal(function(given, axis=-1), function(expected, axis=-1))
            assert np.array_equal(function(given, axis=0, keepdims=True), function(expected, axis=0, keepdims=True))
    assert np.add.accumulate(matrix).tolist() == [[3, -1], [3, 1]] and np.multiply.outer(matrix[0], [1, 2]).shape == (2, 2)
    total = qd.Vector([0.0, 0.0])
    assert np.add.reduce(matrix, out=total) is total and total.to_list() == [3, 1]
    assert matrix.sum() == 4 and matrix.sum(0).tolist() == [3, 1] and matrix.any() is True and matrix.all() is False
    qd.reset()

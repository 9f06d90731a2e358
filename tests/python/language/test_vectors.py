"""Vectors and matrices in kernels."""

import functools

import numpy as np
import pytest
from language_support import evaluate, run

import quadrants as qd

pytestmark = pytest.mark.usefixtures("on_every_backend")

M3 = "qd.Matrix([[2.0, 1.0, 0.5], [0.0, 3.0, 1.0], [1.0, -1.0, 4.0]])"
A3 = np.array([[2.0, 1.0, 0.5], [0.0, 3.0, 1.0], [1.0, -1.0, 4.0]])


def values(host):
    return np.array(host.to_list())


def test_element_type_is_promoted_over_the_elements():
    assert evaluate("qd.Vector([1, 2.5])[0] / 2", "qd.f32") == 0.5
    assert evaluate("qd.Vector([a, 300], qd.u8)[1] + qd.u8(1)", a=("qd.i32", 1)) == 45


@pytest.mark.parametrize(
    "expression, expected",
    [
        ("qd.types.vector(3, qd.f32)(1.5)", [1.5, 1.5, 1.5]),
        ("qd.types.vector(3, qd.f32)(1, 2, 3)", [1, 2, 3]),
        ("qd.types.vector(3, qd.f32)([1, 2, 3])", [1, 2, 3]),
        ("qd.types.vector(3, qd.f32)(qd.Vector([1, 2]), 3)", [1, 2, 3]),
        ("qd.math.vec3(1, 2, 3)", [1, 2, 3]),
        ("qd.Vector.zero(qd.f32, 3)", [0, 0, 0]),
        ("qd.Vector.one(qd.f32, 3)", [1, 1, 1]),
        ("qd.Vector.unit(3, 1, qd.f32)", [0, 1, 0]),
    ],
)
def test_vector_constructors(expression, expected):
    assert values(evaluate(expression, "qd.types.vector(3, qd.f32)")).tolist() == expected


@pytest.mark.parametrize(
    "expression, expected",
    [
        ("qd.Matrix([[1, 2], [3, 4.0]])", [[1, 2], [3, 4]]),
        ("qd.types.matrix(2, 2, qd.f32)(1, 2, 3, 4)", [[1, 2], [3, 4]]),
        ("qd.types.matrix(2, 2, qd.f32)([[1, 2], [3, 4]])", [[1, 2], [3, 4]]),
        ("qd.Matrix([qd.Vector([1.0, 2.0]), qd.Vector([3.0, 4.0])])", [[1, 2], [3, 4]]),
        ("qd.Matrix.rows([qd.Vector([1.0, 2.0]), qd.Vector([3.0, 4.0])])", [[1, 2], [3, 4]]),
        ("qd.Matrix.cols([qd.Vector([1.0, 2.0]), qd.Vector([3.0, 4.0])])", [[1, 3], [2, 4]]),
        ("qd.Matrix.identity(qd.f32, 2)", [[1, 0], [0, 1]]),
        ("qd.Matrix.diag(2, 5.0)", [[5, 0], [0, 5]]),
    ],
)
def test_matrix_constructors(expression, expected):
    assert values(evaluate(expression, "qd.types.matrix(2, 2, qd.f32)")).tolist() == expected


def test_components_are_read_and_written_at_run_time_indices():
    body = """v = qd.Vector([1, 2, 3])
m = qd.Matrix([[1, 2], [3, 4]])
v[i] += 10
m[i, 1 - i] = v[i]
return v.sum() * 1000 + m[1, 0] * 10 + m[1, 1]"""
    assert run(body, i=("qd.i32", 1)) == 16124


def test_constant_negative_indices_count_from_the_end():
    assert run("v = qd.Vector([1, 2, 3])\nv[-1] = 7\nreturn v[2] * 10 + v[-3]") == 71


def test_rows_and_slices():
    body = """m = qd.Matrix([[1, 2, 3], [4, 5, 6]])
r = m[1]
c = m[:, 1]
v = qd.Vector([1, 2, 3, 4])
w = v[1:3]
v[0:4:2] = qd.Vector([9, 8])
v[1:2] = 5
return r[2] * 100000 + c[1] * 10000 + w[1] * 1000 + v[0] * 100 + v[2] * 10 + v[1]"""
    assert run(body) == 600000 + 50000 + 3000 + 900 + 80 + 5


@pytest.mark.parametrize(
    "statement, expected",
    [
        ("m[i] = qd.Vector([9, 9])", [[1, 2], [3, 4], [9, 9], [7, 8]]),
        ("m[i] += 1", [[1, 2], [3, 4], [6, 7], [7, 8]]),
        ("m[i][0] = 9", [[1, 2], [3, 4], [9, 6], [7, 8]]),
        ("m[1][i - 1] *= 9", [[1, 2], [3, 36], [5, 6], [7, 8]]),
        ("m[i][i - 2] = 9", [[1, 2], [3, 4], [9, 6], [7, 8]]),
        ("m[i][-1] = m[i - 1][i - 2]", [[1, 2], [3, 4], [5, 3], [7, 8]]),
        ("qd.atomic_add(m[i][i - 1], m[0][i - 2])", [[1, 2], [3, 4], [5, 7], [7, 8]]),
        ("m[i].yx = m[i - 1]", [[1, 2], [3, 4], [4, 3], [7, 8]]),
        ("m[:, i - 1] = 0", [[1, 0], [3, 0], [5, 0], [7, 0]]),
        ("m[i:i + 2] = 0", [[1, 2], [3, 4], [0, 0], [0, 0]]),
        ("m[i - 1:i + 1, 1] = qd.Vector([0, 9])", [[1, 2], [3, 0], [5, 9], [7, 8]]),
        ("m[i, i - 2:i] *= 2", [[1, 2], [3, 4], [10, 12], [7, 8]]),
    ],
)
def test_rows_and_slices_at_run_time_indices_are_written(statement, expected):
    body = f"m = qd.Matrix([[1, 2], [3, 4], [5, 6], [7, 8]])\n{statement}\nreturn m"
    assert run(body, "qd.types.matrix(4, 2, qd.i32)", i=("qd.i32", 2)).to_list() == expected


def test_slices_of_a_known_length_start_at_run_time():
    body = "v = qd.Vector([1, 2, 3, 4, 5])\nw = v[i:i + 3]\nreturn w * 10"
    assert run(body, "qd.types.vector(3, qd.i32)", i=("qd.i32", 2)).to_list() == [30, 40, 50]
    body = "v = qd.Vector([1, 2, 3, 4, 5])\nv[i - 1:i + 1] += 5\nreturn v"
    assert run(body, "qd.types.vector(5, qd.i32)", i=("qd.i32", 2)).to_list() == [1, 7, 8, 4, 5]


def test_rows_of_elements_at_run_time_indices_are_written():
    f = qd.Matrix.field(3, 2, qd.i32, shape=2)

    @qd.kernel
    def work(i: qd.i32):
        for k in range(2):
            f[k][i] = qd.Vector([k, i])
            f[k][i] += 1

    work(2)
    assert f.to_numpy().tolist() == [[[0, 0], [0, 0], [1, 3]], [[0, 0], [0, 0], [2, 3]]]


def test_swizzles_read_and_write():
    body = """v = qd.Vector([1, 2, 3])
w = v.zyx
v.xy = v.yx
v.z += 4
v.rg = w.bb * 0 + v.rg
return w[0] * 1000 + v.x * 100 + v.y * 10 + v.z"""
    assert run(body) == 3000 + 200 + 10 + 7


@pytest.mark.parametrize("operator", ["+", "-", "*", "/", "//", "%", "**", "<", "=="])
def test_operators_work_by_component(operator):
    expected = [float(eval(f"x {operator} y")) for x, y in [(1.0, 4.0), (-2.0, 3.0), (3.5, 2.0)]]
    body = f"v = qd.Vector([1.0, -2.0, 3.5])\nreturn qd.cast(v {operator} qd.Vector([4.0, 3.0, 2.0]), qd.f32)"
    assert values(run(body, "qd.types.vector(3, qd.f32)")).tolist() == pytest.approx(expected)


def test_scalars_and_lists_broadcast_and_act_as_vectors():
    assert values(evaluate("2 * qd.Vector([1, 2]) - 1 + [10, 20]", "qd.types.vector(2, qd.i32)")).tolist() == [11, 23]
    assert values(run("v = qd.Vector([1, 2])\nv = 7\nv += [1, 2]\nreturn v", "qd.types.vector(2, qd.i32)")).tolist() == [8, 9]


def test_functions_work_by_component():
    expression = "qd.max(qd.floor(qd.Vector([1.5, -2.5])), qd.Vector([0.0, -3.0])) + qd.select(qd.Vector([1, 0]), 10.0, 20.0)"
    assert values(evaluate(expression, "qd.types.vector(2, qd.f32)")).tolist() == [11, 17]


@pytest.mark.parametrize(
    "expression, expected",
    [
        ("qd.max([1, 5], [3, 2])", [3, 5]),
        ("max([1, 5], [3, 2])", [3, 5]),
        ("min([4, n], 2)", [2, 1]),
        ("abs([-n, 2])", [1, 2]),
        ("-[n, 2]", [-1, -2]),
        ("[C.dot(C), C.norm() * 5]", [0.05, 5 * 0.05**0.5]),
        ("[sum(A) / 3, A.sum()]", [0.1, 0.3]),
    ],
)
def test_lists_and_captured_arrays_are_operands_of_functions(expression, expected):
    captured = "C = qd.Vector([0.1, 0.2])\nA = np.array([0.1, 0.2])"
    result = run(f"v = {expression}\nreturn [v[0], v[1]]", "qd.types.vector(2, qd.f64)", preamble=captured, n=("qd.i32", 1))
    assert values(result).tolist() == pytest.approx(np.float32(expected).tolist(), rel=2e-7)


def test_numbers_of_captured_arrays_have_the_default_type():
    captured = "C = qd.Vector([0.1, 0.2])\nA = np.array([0.1, 0.2])"
    for expression in ("C.norm()", "sum(A)", "A.sum()", "A[0]", "C.sum()"):
        result = run(f"x = {expression}\nreturn x", "qd.f64", preamble=captured)
        assert result == np.float32(result)


@pytest.mark.parametrize("condition", ["[True, False]", "(1, 0)", "C", "qd.Vector([1, 0])", "[n, n - 1]"])
@pytest.mark.parametrize("other", ["[7.0, 8.0]", "(7.0, 8.0)", "qd.Vector([7.0, 8.0])"])
def test_select_takes_each_component(condition, other):
    body = f"v = qd.Vector([1.5, 2.5])\nreturn qd.select({condition}, v, {other})"
    result = run(body, "qd.types.vector(2, qd.f32)", preamble="C = qd.Vector([1, 0])", n=("qd.i32", 1))
    assert values(result).tolist() == [1.5, 8]


def test_matrix_products():
    assert values(evaluate(f"{M3} @ {M3}", "qd.types.matrix(3, 3, qd.f32)")) == pytest.approx(A3 @ A3)
    assert values(evaluate(f"{M3} @ qd.Vector([1.0, 2.0, 3.0])", "qd.types.vector(3, qd.f32)")) == pytest.approx(A3 @ [1, 2, 3])
    assert values(evaluate(f"qd.Vector([1.0, 2.0, 3.0]) @ {M3}", "qd.types.vector(3, qd.f32)")) == pytest.approx(np.array([1, 2, 3]) @ A3)
    assert evaluate("qd.Vector([1, 2]) @ qd.Vector([3, 4])") == 11


def test_rectangular_matrices():
    body = "a = qd.Matrix([[1, 2, 3], [4, 5, 6]])\nreturn (a @ a.transpose()) * 10 + a.n + a.m"
    assert values(run(body, "qd.types.matrix(2, 2, qd.i32)")).tolist() == [[145, 325], [325, 775]]


@pytest.mark.parametrize(
    "expression, expected",
    [
        (f"{M3}.determinant()", np.linalg.det(A3)),
        (f"{M3}.trace()", 9.0),
        (f"{M3}.sum()", A3.sum()),
        (f"{M3}.max() * 100 + {M3}.min()", 399.0),
        (f"{M3}.norm()", np.linalg.norm(A3)),
        (f"{M3}.frobenius_inner({M3})", (A3 * A3).sum()),
        (f"({M3} @ {M3}.inverse()).trace()", 3.0),
        ("qd.Vector([3, 4]).norm()", 5.0),
        ("qd.Vector([3, 4]).norm_inv()", 0.2),
        ("qd.Vector([3, 4]).norm_sqr()", 25.0),
        ("qd.Vector([3.0, 4.0]).normalized()[1]", 0.8),
        ("qd.Vector([1, 2, 3]).dot(qd.Vector([4, 5, 6]))", 32.0),
        ("qd.Vector([1, 2]).cross(qd.Vector([3, 4]))", -2.0),
        ("qd.Vector([1, 2, 3]).cross(qd.Vector([4, 5, 6]))[1]", 6.0),
        ("qd.Vector([1, 2]).outer_product(qd.Vector([3, 4]))[1, 0]", 6.0),
        ("(qd.Vector([1, -2, 3]) > 0).sum()", 2.0),
        ("(qd.Vector([1, -2]) > 0).any() * 10 + (qd.Vector([1, -2]) > 0).all()", 10.0),
        ("any(qd.Vector([0, 1])) * 10 + all(qd.Vector([0, 1]))", 10.0),
        ("qd.Vector([1.7, 2.2]).cast(qd.i32).sum()", 3.0),
        ("qd.Matrix([[a, 2], [3, 4]]).determinant()", -2.0),
    ],
)
def test_methods(expression, expected):
    assert evaluate(expression, "qd.f32", a=("qd.i32", 1)) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_determinant_and_inverse(n):
    a = np.random.default_rng(n).normal(size=(n, n)) + 3 * np.eye(n)
    kind = qd.types.matrix(n, n, qd.f64)

    @qd.kernel
    def inverse(m: kind) -> kind:
        return m.inverse()

    @qd.kernel
    def determinant(m: kind) -> qd.f64:
        return m.determinant()

    assert values(inverse(qd.Matrix(a, qd.f64))) == pytest.approx(np.linalg.inv(a))
    assert determinant(qd.Matrix(a, qd.f64)) == pytest.approx(np.linalg.det(a))


def test_attributes_are_compile_time():
    body = """m = qd.Matrix([[1, 2, 3], [4, 5, 6]])
s = 0
for i in qd.static(range(m.n)):
    for j in qd.static(range(m.m)):
        s += m[i, j] * (i + 1)
return s * 10 + len(m)"""
    assert run(body) == (6 + 2 * 15) * 10 + 2


def test_fill_writes_every_component():
    assert run("v = qd.Vector([1, 2, 3])\nv.fill(n)\nreturn v.sum()", n=("qd.i32", 5)) == 15


def test_vector_fields_and_their_components():
    v = qd.Vector.field(3, qd.f32, shape=4)
    m = qd.Matrix.field(2, 2, qd.f32, shape=())

    @qd.kernel
    def work():
        for i in v:
            v[i] = qd.Vector([i, 2.0, 3.0])
            v[i].y *= 2
            v[i][2] += i
            v[i].xy += 1
        m[None][0, 1] = v[1].x + v[2][2]
        m[None] += 1

    work()
    np.testing.assert_array_equal(v.to_numpy(), [[1, 5, 3], [2, 5, 4], [3, 5, 5], [4, 5, 6]])
    np.testing.assert_array_equal(m.to_numpy(), [[1, 8], [1, 1]])


@pytest.mark.parametrize("dtype", [qd.f32, qd.i32, qd.f64, qd.f16])
@pytest.mark.parametrize("n", [5, 7, 8, 9, 11, 12, 15, 16, 17])
def test_elements_of_many_components(n, dtype):
    Element = qd.types.vector(n, dtype)
    count = 100  # whole vectors of lanes, and a rest
    x, y = qd.field(Element, shape=count), qd.field(Element, shape=count)
    sums, chosen, order = qd.field(dtype, shape=count), qd.field(qd.i32, shape=count), qd.field(qd.i32, shape=count)
    values = np.random.default_rng(n).integers(-20, 20, (count, n)).astype(x.to_numpy().dtype)
    permutation = np.random.default_rng(n + 1).permutation(count).astype(np.int32)
    x.from_numpy(values)
    order.from_numpy(permutation)
    chosen.from_numpy((np.arange(count) % 3 == 0).astype(np.int32))

    @qd.kernel
    def work():
        for i in sums:
            sums[i] = x[i].sum()
        for i in y:
            y[i] = x[order[i]] * 2
        for i in y:
            if chosen[i]:
                y[i] += x[i]
            else:
                y[i][n - 1] = 7

    work()
    expected = values[permutation] * 2
    mask = np.arange(count) % 3 == 0
    expected[mask] += values[mask]
    expected[~mask, -1] = 7
    np.testing.assert_array_equal(sums.to_numpy(), values.sum(1, dtype=values.dtype))
    np.testing.assert_array_equal(y.to_numpy(), expected)


def test_vector_arguments_and_results():
    vec3 = qd.types.vector(3, qd.f32)

    @qd.kernel
    def work(v: vec3, m: qd.types.matrix(2, 2, qd.i32)) -> vec3:
        return v * 2 + m[1, 0]

    assert values(work(qd.Vector([1.0, 2.0, 3.0]), qd.Matrix([[1, 2], [3, 4]]))).tolist() == [5, 7, 9]
    assert values(work([1, 2, 3], np.array([[1, 2], [3, 4]]))).tolist() == [5, 7, 9]


def test_captured_host_vectors_are_constants():
    gravity = qd.Vector([0.0, -9.5])

    @qd.kernel
    def work() -> qd.f32:
        g = gravity
        g[0] = 5
        return gravity[0] + gravity.y * 2 + g.x

    assert work() == -14.0


def test_unrolled_matrix_loop_agrees_with_the_operator():
    body = """a = qd.Matrix([[1.5, 2.0], [3.0, 4.25]])
c = qd.Matrix.zero(qd.f32, 2, 2)
for i, j, k in qd.static(qd.ndrange(2, 2, 2)):
    c[i, j] += a[i, k] * a[k, j]
d = a @ a
return (abs(c - d)).sum()"""
    assert run(body, "qd.f32") == 0


@pytest.mark.parametrize("form", ["qd.Matrix([v, v])", "qd.Matrix.cols([v, v])", "qd.Matrix.rows([v, v])", "qd.Vector(v)"])
def test_matrices_of_vectors_keep_the_type_of_their_components(form):
    body = f"v = qd.Vector([a, b])\nreturn ({form} * 3.1).sum()"
    a, b = np.float32(0.1), np.float32(0.7)
    products = [a * np.float32(3.1), b * np.float32(3.1)]
    flat = products if "Vector" in form else np.repeat(products, 2) if "cols" in form else products * 2
    expected = functools.reduce(lambda x, y: x + y, flat)
    result = run(body, "qd.f64", a=("qd.f32", 0.1), b=("qd.f32", 0.7))
    assert result == np.float32(result)
    assert result == pytest.approx(expected, rel=2e-7)  # products and sums may be fused


def test_components_of_arguments_make_vectors_and_matrices():
    argument = ("qd.types.vector(2, qd.f32)", qd.types.vector(2, qd.f32)(0.5, 0.25))
    assert run("return qd.types.vector(2, qd.f32)(n.x)[1]", "qd.f32", n=argument) == 0.5
    assert run("return qd.types.matrix(2, 2, qd.f32)(n[1])[1, 0]", "qd.f32", n=argument) == 0.25


A, B, ZERO = "qd.Vector([2, 2 - n, 0, 0])", "qd.Vector([1, 0, n, 0])", "qd.Vector([0, 0, 0, 0])"


@pytest.mark.parametrize("short_circuit", [True, False])
@pytest.mark.parametrize(
    "expression, expected",
    [
        (f"{A} or {B}", [1, 1, 1, 0]),
        (f"{A} and {B}", [1, 0, 0, 0]),
        (f"{A} and 3", [1, 1, 0, 0]),
        (f"3 and {A}", [1, 1, 0, 0]),
        (f"n and {A}", [1, 1, 0, 0]),
        (f"(n - 1) and {A}", [0, 0, 0, 0]),
        (f"(n - 1) or {A}", [1, 1, 0, 0]),
        (f"(n + 4) or {A}", [1, 1, 1, 1]),
        (f"{A} or 0", [1, 1, 0, 0]),
        (f"({A} and {B} or {A}) + 5", [6, 6, 5, 5]),
        (f"{A} and n and {B}", [1, 0, 0, 0]),
        (f"n and {A} or {B}", [1, 1, 1, 0]),
        (f"{A} and ({A} > 1)", [1, 0, 0, 0]),
        (f"{A} and HOST", [1, 0, 0, 0]),
        (f"not ({A} and {B})", [0, 1, 1, 1]),
        (f"{ZERO} or n", [1, 1, 1, 1]),
    ],
)
def test_and_or_of_vectors_are_true_or_false_component_by_component(on_every_backend, expression, expected, short_circuit):
    on_every_backend(short_circuit_operators=short_circuit)
    result = run(f"return {expression}", "qd.types.vector(4, qd.i32)", "HOST = qd.Vector([7, 0, 7, 0])", n=("qd.i32", 1))
    assert list(result) == expected


def test_and_or_of_matrices_and_of_truths():
    body = "a = qd.Matrix([[2, 2], [0, 0]]) and qd.Matrix([[n, 0], [n, 0]])\nreturn (a or a).sum() * 100 + a[0, 0] * 10 + a[1, 1]"
    assert run(body, n=("qd.i32", 1)) == 110


@pytest.mark.parametrize("expression", ["v and w", "v or 1", "w and v", "n and v"])
def test_and_or_of_float_vectors_are_refused(expression):
    with pytest.raises(qd.QuadrantsTypeError, match="unsupported operand type"):
        run(f"v = qd.Vector([1.0, 0.0])\nw = qd.Vector([1, n])\nx = {expression}", None, n=("qd.i32", 1))


@pytest.mark.parametrize("dtype", [qd.i8, qd.u8, qd.i16, qd.u16, qd.i64], ids=str)
def test_components_of_one_element_are_updated_by_all_threads(dtype):
    """On GPUs in copies in shared memory, where short components are parts of words at known places."""

    @qd.kernel
    def tally(x: qd.types.ndarray(qd.types.vector(3, dtype), 1), values: qd.types.ndarray(qd.i32, 1)):
        for i in values:
            x[i % 1] += qd.cast(qd.Vector([values[i], 1, -values[i]]), dtype)

    x = qd.Vector.ndarray(3, dtype, shape=(1,))
    x.fill(100)
    tally(x, np.arange(40, dtype=np.int32))
    assert x.to_numpy()[0].tolist() == np.array([100 + 780, 140, 100 - 780]).astype(x.to_numpy().dtype).tolist()

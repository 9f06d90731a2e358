"""What kernels accept as arguments, what they refuse, and what they return."""

import dataclasses

import numpy as np
import pytest

import quadrants as qd


@pytest.fixture(autouse=True, params=["cpu", "python"])
def runtime(request):
    qd.init(arch=getattr(qd, request.param), offline_cache=False, log_level="error")
    yield
    qd.reset()


def test_scalars_are_converted():
    @qd.kernel
    def take(a: qd.i32, b: qd.f32, c: qd.u8) -> tuple[qd.i32, qd.f32, qd.u8]:
        return a, b, c

    assert take(np.int64(3), True, 200) == (3, 1.0, 200)
    assert take(True, np.float64(0.5), 255) == (1, 0.5, 255)


@pytest.mark.parametrize("value", [1.5, np.float32(1), "1", None, [1]])
def test_values_that_are_no_integers_are_refused(value):
    @qd.kernel
    def take(a: qd.i32):
        pass

    with pytest.raises(qd.QuadrantsRuntimeTypeError, match=r"Argument \(0,\) \(type=.*\) cannot be converted into required type i32"):
        take(value)
    take(1)


def test_calls_that_do_not_fit_the_signature():
    @qd.kernel
    def take(n: qd.i32, k: qd.i32):
        pass

    with pytest.raises(qd.QuadrantsSyntaxError, match="Missing argument 'k'"):
        take(1)
    with pytest.raises(qd.QuadrantsSyntaxError, match="Unexpected argument 'm'"):
        take(1, 2, m=3)
    with pytest.raises(qd.QuadrantsSyntaxError, match=r"Too many arguments. Expected \(n : i32, k : i32\), got \(1, 2, 3\)"):
        take(1, 2, 3)


def test_keywords_and_defaults():
    @qd.kernel
    def take(a: qd.i32, b: qd.i32 = 5, *, c: qd.i32 = 7) -> qd.i32:
        return a * 100 + b * 10 + c

    assert take(1) == 157 and take(1, c=2) == 152 and take(b=1, a=2) == 217


def test_vectors_and_matrices():
    @qd.kernel
    def double(v: qd.types.vector(3, qd.f32)) -> qd.types.vector(3, qd.f32):
        return v * 2

    for given in (qd.Vector([1, 2, 3]), [1, 2, 3], (1, 2, 3), np.array([1.0, 2, 3])):
        result = double(given)
        assert isinstance(result, qd.Vector) and result.to_list() == [2, 4, 6]
    with pytest.raises(qd.QuadrantsRuntimeTypeError, match=r"shape \(3,\) is expected, got one of shape \(2,\)"):
        double([1, 2])
    with pytest.raises(qd.QuadrantsRuntimeTypeError, match="cannot be converted into required type"):
        double(3)

    @qd.kernel
    def whole(v: qd.types.vector(2, qd.i32)) -> qd.i32:
        return v[0]

    with pytest.raises(qd.QuadrantsRuntimeTypeError, match="cannot be converted into required type i32"):
        whole([1.5, 2.5])


@pytest.mark.parametrize("value", [[1, 2, "a"], [1, 2j, 3], np.zeros(3, complex), np.array(["1", "2", "3"]), [1, None, 2], "field"])
def test_a_compiled_kernel_refuses_what_is_no_vector_of_numbers(value):
    @qd.kernel
    def total(v: qd.types.vector(3, qd.f32)) -> qd.f32:
        return v[0] + v[1] * 10 + v[2] * 100

    value = qd.field(qd.f32, 3) if isinstance(value, str) else value
    assert total([1, 2, 3]) == total(qd.Matrix([[1], [2], [3]])) == total(np.array([[1], [2], [3]])) == 321
    with pytest.raises(qd.QuadrantsRuntimeTypeError, match="cannot be converted into required type"):
        total(value)


def test_structs_go_in_and_out():
    pair = qd.types.struct(a=qd.i32, v=qd.types.vector(2, qd.f32))

    @qd.kernel
    def grow(p: pair) -> pair:
        return pair(a=p.a + 1, v=p.v * 2)

    for given in (pair(1, [2, 3]), {"a": 1, "v": [2, 3]}):
        assert grow(given).to_dict() == {"a": 2, "v": [4, 6]}
    with pytest.raises(qd.QuadrantsRuntimeTypeError, match="cannot be converted into required type"):
        grow({"a": 1})


@pytest.mark.parametrize(
    "annotation, value, kind, text",
    [
        (dict(dtype=qd.f32), lambda: qd.ndarray(qd.f64, 3), TypeError, "Expect element type f32 for argument x, but get f64"),
        (dict(ndim=1), lambda: qd.ndarray(qd.f32, (2, 2)), ValueError, r"required ndim=1, but 2d ndarray with shape \(2, 2\) is provided"),
        (dict(dtype=qd.types.vector(3, qd.f32)), lambda: qd.Vector.ndarray(2, qd.f32, 3), ValueError, r"type: VectorType\[3, f32\]"),
        (dict(needs_grad=True), lambda: qd.ndarray(qd.f32, 3), ValueError, "required needs_grad=True, but False is provided"),
        (dict(dtype=qd.f32), lambda: np.zeros(3), ValueError, "required array has dtype=f32, array with dtype=f64 is provided"),
        (dict(dtype=qd.math.mat2), lambda: np.zeros((3, 2, 2), np.int32), ValueError, "required array has dtype=f32, array with dtype=i32"),
        (dict(ndim=2), lambda: np.zeros(3), ValueError, "required array has ndim=2, array with 1 dimensions is provided"),
        (
            dict(dtype=qd.types.vector(3, qd.f64), ndim=1), lambda: np.zeros((2, 4)), ValueError,
            r"required element_shape=\(3,\), array with element shape of \(4,\) is provided",
        ),
        (dict(), lambda: [1, 2], qd.QuadrantsRuntimeTypeError, "Invalid type for argument x"),
        (dict(), lambda: None, qd.QuadrantsRuntimeTypeError, "Invalid type for argument x"),
        (dict(), lambda: qd.field(qd.f32, 3), qd.QuadrantsRuntimeTypeError, "cannot be converted into required type"),
        (dict(), lambda: np.zeros(3, np.complex64), TypeError, "unsupported array dtype complex64"),
        (dict(), lambda: np.zeros(3, ">f4"), TypeError, "byte order"),
        (dict(dtype=qd.types.vector(2, qd.f64)), lambda: np.zeros((4, 4))[:, ::2], ValueError, "Non contiguous numpy arrays"),
    ],
)  # fmt: skip
def test_arrays_that_do_not_fit_are_refused(annotation, value, kind, text):
    @qd.kernel
    def take(x: qd.types.ndarray(**annotation)):
        pass

    with pytest.raises(kind, match=text):
        take(value())


def test_numpy_arrays_are_used_in_place():
    @qd.kernel
    def fill(x: qd.types.NDArray[qd.i32, 2], value: qd.i32):
        for i, j in x:
            x[i, j] = value + i * 10 + j

    array = np.zeros((2, 3), np.int32)
    fill(array, 100)
    assert array.tolist() == [[100, 101, 102], [110, 111, 112]]
    nd = qd.ndarray(qd.i32, (2, 3))
    fill(nd, 0)
    assert nd.to_numpy().tolist() == [[0, 1, 2], [10, 11, 12]]


def test_strided_arrays_are_used_in_place():
    @qd.kernel
    def number(x: qd.types.NDArray[qd.i32, 2]):
        for i, j in x:
            x[i, j] += 10 * i + j

    base = np.zeros((6, 8), np.int32)
    for view in (base[::2, 1::3], base[::-1], base[:, ::-2], base.T, np.zeros((3, 2), np.int32, order="F"), base, base[1:3, 2:4]):
        expected = view + np.add.outer(np.arange(view.shape[0]) * 10, np.arange(view.shape[1]))
        number(view)
        assert np.array_equal(view, expected)

    @qd.kernel
    def total(x: qd.types.NDArray[qd.i32, 1]) -> qd.i32:
        result = 0
        for i in x:
            result += x[i]
        return result

    assert total(np.arange(24, dtype=np.int32).reshape(4, 6)[:, 3]) == 3 + 9 + 15 + 21
    assert total(np.broadcast_to(np.int32(7), 5)) == 35


def test_vector_elements_of_numpy_arrays():
    @qd.kernel
    def norms(x: qd.types.ndarray(dtype=qd.types.vector(2, qd.f32), ndim=1), out: qd.types.NDArray[qd.f32, 1]):
        for i in x:
            out[i] = x[i].norm()

    out = np.zeros(2, np.float32)
    norms(np.array([[3, 4], [6, 8]], np.float32), out)
    assert out.tolist() == [5, 10]


def test_dataclasses_with_arrays():
    @dataclasses.dataclass(frozen=True)
    class State:
        x: qd.types.NDArray[qd.f32, 1]
        scale: qd.f32

    @qd.kernel
    def step(s: State):
        for i in s.x:
            s.x[i] = s.x[i] * s.scale

    array = np.ones(4, np.float32)
    step(State(array, 2.0))
    nd = qd.ndarray(qd.f32, 4)
    nd.fill(1)
    step(State(nd, 3.0))
    assert array.tolist() == [2] * 4 and nd.to_numpy().tolist() == [3] * 4
    with pytest.raises(qd.QuadrantsRuntimeTypeError, match="'s'.*State.*int"):
        step(1)


def test_ndarrays_are_no_templates():
    @qd.kernel
    def take(x: qd.template()):
        pass

    with pytest.raises(qd.QuadrantsRuntimeTypeError, match="Ndarray shouldn't be passed in via"):
        take(qd.ndarray(qd.f32, 1))


def test_optional_arrays():
    @qd.kernel
    def total(x: qd.types.NDArray[qd.i32, 1] | None) -> qd.i32:
        result = 0
        if qd.static(x is not None):
            for i in range(3):
                result += x[i]
        return result

    assert total(np.arange(3, dtype=np.int32)) == 3 and total(None) == 0


@pytest.mark.parametrize("annotation, value, expected", [("f32", 1.5, 1.5), ("vector", [1, 2], 3), ("struct", {"a": 4}, 4), ("f32", 0, 0)])
def test_optional_values(annotation, value, expected):
    kinds = {"f32": qd.f32, "vector": qd.types.vector(2, qd.f32), "struct": qd.types.struct(a=qd.f32)}

    @qd.kernel
    def total(x: kinds[annotation] | None, y: qd.i32) -> qd.f32:
        result = -1.0
        if qd.static(x is not None):
            result = x.sum() if qd.static(annotation == "vector") else x.a if qd.static(annotation == "struct") else x
        return result + y

    for _ in range(2):
        assert total(value, 0) == expected and total(None, 2) == 1


def test_methods_need_a_decorated_class():
    class Plain:
        @qd.kernel
        def run(self):
            pass

    with pytest.raises(qd.QuadrantsSyntaxError, match="Please decorate class Plain with @qd.data_oriented"):
        Plain().run()


def test_a_kernel_needs_a_runtime():
    @qd.kernel
    def run():
        pass

    qd.reset()
    with pytest.raises(qd.QuadrantsRuntimeError, match=r"call `qd.init\(\)` first"):
        run()


def test_arrays_with_components_apart_do_not_share_code_across_sizes():
    @qd.kernel
    def number(x: qd.types.ndarray(dtype=qd.types.vector(2, qd.f32), ndim=1)):
        for i in range(x.shape[0]):
            x[i] = [i, 10 + i]

    for count in (4, 8, 0, 1, 4):
        for element_layout in ("SOA", "AOS"):
            tensor = qd.tensor(qd.types.vector(2, qd.f32), count, element_layout=element_layout)
            number(tensor)
            assert tensor.to_numpy().tolist() == [[i, 10 + i] for i in range(count)]


def test_extents_of_an_annotation_are_known_while_compiling():
    @qd.kernel
    def sums(x: qd.types.ndarray(dtype=qd.f32, shape=(3, None)), out: qd.types.ndarray(shape=(3,))) -> qd.i32:
        for j in range(x.shape[1]):
            for i in qd.static(range(x.shape[0])):
                out[i] += x[i, j]
        return qd.static(out.shape[0] + 1) + x.shape[1]

    for count in (4, 6):
        x = np.arange(3 * count, dtype=np.float32).reshape(3, count)
        for pack in (np.asarray, np.asfortranarray):
            out = np.zeros(3)
            assert sums(pack(x), out) == 4 + count
            np.testing.assert_array_equal(out, x.sum(1))
        ours, out = qd.ndarray(qd.f32, (3, count)), qd.ndarray(qd.f64, 3)
        ours.from_numpy(x)
        assert sums(ours, out) == 4 + count
        np.testing.assert_array_equal(out.to_numpy(), x.sum(1))
    for wrong in (np.zeros((4, 4), np.float32), qd.ndarray(qd.f32, (4, 4))):
        with pytest.raises(ValueError, match=r"argument x - required shape=\(3, None\), but one of shape \(4, 4\) is provided"):
            sums(wrong, out)
    with pytest.raises(ValueError, match="ndim=2"):
        sums(np.zeros(3, np.float32), out)


def test_extents_of_an_annotation_count_axes_not_components():
    vector = qd.types.vector(2, qd.f32)

    @qd.kernel
    def total(x: qd.types.ndarray(dtype=vector, shape=(3,))) -> qd.f32:
        result = 0.0
        for i in qd.static(range(x.shape[0])):
            result += x[i].sum()
        return result

    assert total(np.ones((3, 2), np.float32)) == 6
    given = qd.Vector.ndarray(2, qd.f32, 3)
    given.fill(2)
    assert total(given) == 12
    with pytest.raises(ValueError, match=r"required shape=\(3,\), but one of shape \(2,\)"):
        total(np.ones((2, 2), np.float32))


def test_extents_of_an_annotation_in_a_dataclass():
    @dataclasses.dataclass
    class Table:
        rows: qd.types.ndarray(dtype=qd.i32, shape=(2, None))

    @qd.kernel
    def count(table: Table) -> qd.i32:
        total = 0
        for i in qd.static(range(table.rows.shape[0])):
            total += table.rows[i, 0]
        return total

    assert count(Table(np.array([[3, 1, 1], [4, 1, 1]], np.int32))) == 7
    mine = qd.ndarray(qd.i32, (2, 5))
    mine.fill(6)
    assert count(Table(mine)) == 12


@pytest.mark.parametrize(
    "shape, ndim, text", [((2, -1), None, "a number or None"), ((2, "n"), None, "a number or None"), ((2,), 2, "ndim=2")]
)
def test_shapes_of_annotations_that_make_no_sense(shape, ndim, text):
    with pytest.raises(ValueError, match=text):
        qd.types.ndarray(shape=shape, ndim=ndim)


@dataclasses.dataclass
class Box:
    x: qd.types.ndarray()


@pytest.mark.parametrize("kind", ["NumPy", "torch", "ndarray", "view", "member", "tensor"])
def test_gradients_that_are_not_there_are_named_while_compiling(kind, request):
    @qd.kernel
    def of_array(a: qd.types.ndarray()):
        for i in a:
            a.grad[i] = 1

    @qd.kernel
    def of_tensor(a: qd.Tensor):
        a.grad.fill(1)

    @qd.kernel
    def of_view(a: qd.BufferView):
        a.grad[0] = 1

    @qd.kernel
    def of_member(box: Box):
        box.x.grad[0] = 1

    call = {
        "NumPy": lambda: of_array(np.zeros(3, np.float32)),
        "torch": lambda: of_array(pytest.importorskip("torch").zeros(3)),
        "ndarray": lambda: of_array(qd.ndarray(qd.f32, 3)),
        "view": lambda: of_view(qd.ndarray(qd.f32, 3)[1:]),
        "member": lambda: of_member(Box(qd.ndarray(qd.f32, 3))),
        "tensor": lambda: of_tensor(qd.tensor(qd.f32, 3)),
    }[kind]
    with pytest.raises(qd.QuadrantsTypeError, match=r"has no gradient: Gradient \S+\.grad has not been placed") as caught:
        call()
    text, is_compiled = str(caught.value), "cpu" in request.node.callspec.params.values()
    assert "test_kernel_arguments.py" in text and (("'box.x'" if kind == "member" else "'a'") in text or not is_compiled)
    array = qd.ndarray(qd.f32, 3, needs_grad=True)
    of_array(array)
    assert array.grad.to_numpy().tolist() == [1, 1, 1]


def test_kernels_ask_whether_there_is_a_gradient():
    @qd.kernel
    def set_gradient(a: qd.types.ndarray()) -> qd.i32:
        if qd.static(a.grad is not None):
            a.grad[0] = 5
        return qd.static(a.grad is not None)

    without, having = qd.ndarray(qd.f32, 2), qd.ndarray(qd.f32, 2, needs_grad=True)
    assert [set_gradient(array) for array in (without, having, without, having)] == [0, 1, 0, 1] and having.grad[0] == 5


@dataclasses.dataclass
class Inner:
    x: qd.types.ndarray(qd.f32, 1)
    rows: qd.types.NDArray[qd.types.vector(3, qd.f32), 1]
    part: qd.BufferView[qd.f32]
    unused: qd.types.ndarray(qd.f32, 1) = None


@dataclasses.dataclass
class Outer:
    inner: Inner


@pytest.mark.parametrize(
    "name, make, kind, text",
    [
        ("x", lambda: qd.ndarray(qd.i32, 4), TypeError, "Expect element type f32 for argument outer.inner.x, but get i32"),
        ("x", lambda: qd.ndarray(qd.f32, (4, 2)), ValueError, "required ndim=1, but 2d ndarray"),
        ("x", lambda: np.zeros(4), ValueError, "required array has dtype=f32, array with dtype=f64"),
        ("x", lambda: [1.0], qd.QuadrantsRuntimeTypeError, "Invalid type for argument outer.inner.x"),
        ("rows", lambda: qd.Vector.ndarray(2, qd.f32, 4), ValueError, "required element type"),
        ("part", lambda: qd.ndarray(qd.i32, 4)[1:], TypeError, "Expect element type f32 for argument outer.inner.part"),
        ("part", lambda: 3, qd.QuadrantsRuntimeTypeError, "Argument outer.inner.part expects a BufferView, got int"),
    ],
)
def test_members_that_do_not_fit_are_refused_as_arguments_are(name, make, kind, text):
    @qd.kernel
    def total(outer: Outer) -> qd.f32:
        return outer.inner.x[0] + outer.inner.rows[0][1] + outer.inner.part[0]

    x, rows = qd.ndarray(qd.f32, 4), qd.Vector.ndarray(3, qd.f32, 4)
    x.fill(1)
    right = {"x": x, "rows": rows, "part": x[1:]}
    for _ in range(2):
        assert total(Outer(Inner(**right))) == 2
        with pytest.raises(kind, match=text):
            total(Outer(Inner(**{**right, name: make()})))

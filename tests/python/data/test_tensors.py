"""`qd.Tensor`: making and wrapping, the surface that both backends share, and tensors in kernels."""

import copy
import dataclasses
import itertools
import pickle

import numpy as np
import pytest

import quadrants as qd

BACKENDS = pytest.mark.parametrize("backend", list(qd.Backend), ids=lambda backend: backend.name)


@pytest.fixture(autouse=True, params=["cpu", "python"])
def runtime(request):
    qd.init(arch=request.param)
    yield
    qd.reset()


@BACKENDS
def test_kinds_of_elements_give_kinds_of_tensors(backend):
    scalar = qd.tensor(qd.f32, (2, 3), backend=backend)
    vector = qd.Vector.tensor(3, qd.f64, 4, backend=backend)
    matrix = qd.tensor(qd.types.matrix(2, 2, qd.i32), (4,), backend=int(backend))
    assert [type(t).__name__ for t in (scalar, vector, matrix)] == ["Tensor", "VectorTensor", "MatrixTensor"]
    assert [t.element_shape for t in (scalar, vector, matrix)] == [(), (3,), (2, 2)]
    assert [t.dtype for t in (scalar, vector, matrix)] == [qd.f32, qd.f64, qd.i32]
    assert (scalar.shape, scalar.ndim, scalar.size, scalar.nbytes, scalar.strides, len(scalar)) == ((2, 3), 2, 6, 24, (3, 1), 2)
    assert scalar.backend is backend and isinstance(scalar._unwrap(), qd.Field if backend == qd.Backend.FIELD else qd.Ndarray)
    assert repr(scalar).startswith(f"Tensor(shape=(2, 3), dtype=f32, backend={backend.name}, values=[[0. 0. 0.]\n")


def test_wrapping_keeps_the_very_container():
    field, vector, column = qd.field(qd.f32, shape=2), qd.Vector.ndarray(2, qd.f32, 3), qd.Matrix.field(2, 1, qd.f32, shape=2)
    struct = qd.Struct.field({"a": qd.f32}, shape=2)
    assert qd.wrap(field)._unwrap() is field
    kinds = [type(qd.wrap(x)).__name__ for x in (field, vector, column, struct)]
    assert kinds == ["Tensor", "VectorTensor", "MatrixTensor", "Tensor"]
    for wrong in (3, [1, 2], qd.wrap(field)):
        with pytest.raises(TypeError, match="Tensor.*requires"):
            qd.wrap(wrong)
    for wrong in (np.zeros(3), [1, 2]):
        with pytest.raises(TypeError, match="Tensor.*requires"):
            qd.Tensor(wrong)
    with pytest.raises(TypeError, match="VectorTensor requires"):
        qd.VectorTensor(field)
    with pytest.raises(TypeError, match="MatrixTensor requires"):
        qd.MatrixTensor(vector)
    with pytest.raises(AttributeError):
        qd.wrap(field).snode  # noqa: B018


@pytest.mark.parametrize(
    "kind, message, make",
    [
        (ValueError, "backend=", lambda: qd.tensor(qd.f32, 2, backend=7)),
        (ValueError, "backend=", lambda: qd.tensor(qd.f32, 2, backend="field")),
        (ValueError, "layout has", lambda: qd.tensor(qd.f32, (2, 3), layout=(0,))),
        (ValueError, "not a permutation", lambda: qd.tensor(qd.f32, (2, 3), layout=(0, 0))),
        (ValueError, "not a permutation", lambda: qd.tensor(qd.f32, (2, 3), layout="ij")),
        (ValueError, "not a permutation", lambda: qd.tensor(qd.f32, (2, 3), layout=(0, -1))),
        (TypeError, "does not accept order=.*pass layout=", lambda: qd.tensor(qd.f32, 2, order="i")),
        (TypeError, "does not accept order=.*layout=", lambda: qd.Vector.tensor(2, qd.f32, 2, order="i")),
        (TypeError, "unexpected keyword", lambda: qd.tensor(qd.f32, 2, foo=1)),
        (TypeError, "unexpected keyword", lambda: qd.Matrix.tensor(2, 2, qd.f32, 2, foo=1)),
        (TypeError, "qd.wrap", lambda: qd.tensor(qd.field(qd.f32, shape=2), 2)),
        (ValueError, "element_layout", lambda: qd.tensor(qd.f32, 2, element_layout="XY")),
        (qd.QuadrantsRuntimeError, "needs_grad", lambda: qd.tensor(qd.i32, 2, needs_grad=True)),
        (qd.QuadrantsRuntimeError, "needs_grad", lambda: qd.tensor(qd.i32, 2, needs_grad=True, backend=qd.Backend.FIELD)),
    ],
)
def test_misuse_is_named(kind, message, make):
    with pytest.raises(kind, match=message):
        make()


@BACKENDS
def test_data_methods_work_alike(backend):
    t = qd.Vector.tensor(2, qd.f32, 3, backend=backend)
    t.fill([1, 2])
    t[1] = [5, 6]
    assert t.to_numpy().tolist() == [[1, 2], [5, 6], [1, 2]] and list(t[1]) == [5, 6]
    t.from_numpy(np.arange(6).reshape(3, 2))
    assert np.asarray(t).tolist() == [[0, 1], [2, 3], [4, 5]]
    if t._impl._has_view:
        assert t.to_numpy(copy=False).base is not None
        t.to_numpy(copy=False)[0] = 9
        assert list(t[0]) == [9, 9]
    with pytest.raises(IndexError):
        t[3]


@pytest.mark.parametrize("to, of", list(itertools.product(qd.Backend, qd.Backend)))
def test_copies_cross_backends_and_layouts_and_convert(to, of):
    source, target = qd.tensor(qd.f64, (2, 3), backend=of, layout=(1, 0)), qd.tensor(qd.i32, (2, 3), backend=to)
    source.from_numpy(np.arange(6).reshape(2, 3) + 0.75)
    target.copy_from(source)
    assert target.to_numpy().tolist() == [[0, 1, 2], [3, 4, 5]]
    target.copy_from(source._unwrap())
    with pytest.raises(ValueError, match="does not match"):
        target.copy_from(qd.tensor(qd.i32, (3, 2)))


@BACKENDS
@pytest.mark.parametrize("axes", list(itertools.permutations(range(3))), ids=str)
def test_a_permuted_layout_has_the_bytes_of_the_permuted_tensor(backend, axes):
    shape = (2, 3, 4)
    values = np.arange(24, dtype=np.float32).reshape(shape)
    t = qd.tensor(qd.f32, shape, backend=backend, layout=axes, needs_grad=True)
    t.from_numpy(values)
    t.grad.from_numpy(values)
    assert t.layout == (None if axes == (0, 1, 2) else axes) and t.shape == shape and t[1, 2, 3] == 23
    for container in (t, t.grad):
        view = container.to_numpy(copy=None)
        assert (view == values).all()
        strides = getattr(container, "_impl", container)._qd_layout.strides
        assert [strides[axis] for axis in axes] == sorted(strides, reverse=True)

    @qd.kernel
    def double(x: qd.Tensor):
        for i, j, k in x:
            x[i, j, k] = x[i, j, k] * 2 + i

    double(t)
    assert (t.to_numpy() == values * 2 + np.arange(2)[:, None, None]).all()


@pytest.mark.host_memory
@BACKENDS
def test_element_layouts(backend):
    t = qd.Vector.tensor(3, qd.f32, (4, 5), backend=backend, layout=(1, 0), element_layout="SOA")

    @qd.kernel
    def fill(x: qd.Tensor):
        for i, j in x:
            x[i, j] = [i, j, i + j]

    fill(t)
    view = t.to_numpy(copy=False)
    assert view[3, 2].tolist() == [3, 2, 5]
    assert view.strides == (4, 16, 80)


@BACKENDS
def test_gradients_are_tensors(backend):
    with_grad, without = qd.tensor(qd.f32, 3, backend=backend, needs_grad=True), qd.tensor(qd.f32, 3, backend=backend)
    assert with_grad.has_grad() and with_grad.grad is with_grad.grad and with_grad.grad.shape == (3,)
    assert not without.has_grad()
    if backend == qd.Backend.NDARRAY:
        assert without.grad is None
    else:
        with pytest.raises(qd.QuadrantsRuntimeError, match="Field has no allocation"):
            without.grad[0]

    @qd.kernel
    def seed(x: qd.Tensor):
        for i in x:
            x.grad[i] = i

    seed(with_grad)
    assert with_grad.grad.to_numpy().tolist() == [0, 1, 2]


@BACKENDS
def test_pickles_and_copies_keep_what_a_tensor_is(backend):
    t = qd.tensor(qd.types.vector(2, qd.f32), (2, 3), backend=backend, layout=(1, 0), needs_grad=True)
    t.from_numpy(np.arange(12).reshape(2, 3, 2))
    for twin in (pickle.loads(pickle.dumps(t)), copy.deepcopy(t), copy.copy(t)):
        assert type(twin) is type(t) and isinstance(twin, qd.VectorTensor)
        assert twin.backend is backend and twin.layout == (1, 0) and twin.has_grad()
        assert (twin.to_numpy() == t.to_numpy()).all()
        twin.fill(0)
    assert t[1, 2][1] == 11


def test_kernels_take_tensors_wherever_they_take_containers():
    @qd.kernel
    def any_tensor(x: qd.Tensor, by: qd.f32):
        for i in x:
            x[i] += by

    @qd.kernel
    def array(x: qd.types.ndarray(qd.f32, 1)):
        for i in x:
            x[i] += 1

    @qd.kernel
    def template(x: qd.template()):
        for i in x:
            x[i] += 1

    field, nd = (qd.tensor(qd.f32, 4, backend=backend) for backend in qd.Backend)
    for _ in range(3):
        for x in (field, nd, field._unwrap(), nd._unwrap()):
            any_tensor(x, 2)
        array(nd)
        template(field)
    assert field.to_numpy().tolist() == [15] * 4 and nd.to_numpy().tolist() == [15] * 4
    plain = np.zeros(4, np.float32)
    any_tensor(plain, 3)
    assert plain.tolist() == [3] * 4


def test_a_tensor_and_its_container_share_one_specialization():
    @qd.kernel
    def run(x: qd.Tensor):
        for i in x:
            x[i] += 1

    t = qd.tensor(qd.f32, 4)
    for x in (t, t._unwrap(), t):
        run(x)
    if qd.cfg is not None:
        assert run.specialization_count == 1
    assert t.to_numpy().tolist() == [3] * 4


captured = None


def test_tensors_are_captured_and_members_of_containers():
    global captured
    captured = qd.tensor(qd.f32, 4, backend=qd.Backend.FIELD)

    @dataclasses.dataclass
    class State:
        x: qd.Tensor
        v: qd.Tensor

    @qd.data_oriented
    class Solver:
        def __init__(self):
            self.x = qd.tensor(qd.f32, 4, backend=qd.Backend.FIELD)

        @qd.kernel
        def step(self, state: State, scale: qd.f32):
            for i in captured:
                captured[i] += scale
            for i in self.x:
                self.x[i] += advance(state.x, i) * scale

    @qd.func
    def advance(x: qd.Tensor, i):
        x[i] += 1
        return x[i]

    solver = Solver()
    state = State(qd.tensor(qd.f32, 4), qd.Vector.tensor(2, qd.f32, 4))
    solver.step(state, 2)
    state.x = qd.tensor(qd.f32, 4, backend=qd.Backend.FIELD)
    solver.step(state, 2)
    assert captured.to_numpy().tolist() == [4] * 4
    assert solver.x.to_numpy().tolist() == [4] * 4
    assert state.x.to_numpy().tolist() == [1] * 4


def test_an_optional_tensor_may_be_missing():
    @qd.kernel
    def run(x: qd.Tensor, mask: qd.Tensor):
        for i in x:
            if qd.static(mask is not None):
                x[i] = mask[i]
            else:
                x[i] = 7

    t, m = qd.tensor(qd.f32, 2), qd.tensor(qd.f32, 2)
    run(t, None)
    assert t.to_numpy().tolist() == [7, 7]
    run(t, m)
    assert t.to_numpy().tolist() == [0, 0]


def test_a_struct_field_behind_a_tensor():
    s = qd.Struct.field({"a": qd.f32, "v": qd.types.vector(2, qd.i32)}, shape=3)
    t = qd.wrap(s)

    @qd.kernel
    def run(x: qd.template()):
        for i in range(3):
            x[i].a = i
            x[i].v = [i, -i]

    run(t)
    run(t)
    assert t[2].to_dict() == {"a": 2, "v": [2, -2]}
    assert t.to_numpy()["a"].tolist() == [0, 1, 2]


def test_arrays_of_other_libraries_behind_a_tensor():
    torch = pytest.importorskip("torch")

    @qd.kernel
    def double(x: qd.Tensor):
        for I in qd.grouped(x):
            x[I] *= 2

    for make in (qd.wrap, qd.Tensor.from_dlpack):
        for source in (np.ones((3, 4), np.float32)[::2, ::-1], torch.ones((4, 3)).t()[::2]):
            tensor = make(source)
            assert (tensor.shape, tensor.dtype, tensor.backend) == ((2, 4), qd.f32, qd.Backend.NDARRAY)
            tensor[1, 2] = 5
            double(tensor)
            assert float(source[1, 2]) == 10 and float(source[0, 0]) == 2
            del source
            assert tensor[0, 0] == 2 and tensor.to_numpy(copy=False)[1, 2] == 10
    vectors = qd.Tensor.from_dlpack(np.zeros((2, 3), np.float32), qd.types.vector(3, qd.f32))
    assert isinstance(vectors, qd.VectorTensor) and vectors.shape == (2,)
    values, adjoints = np.zeros(3, np.float32), np.ones(3, np.float32)
    tensor = qd.Tensor.from_dlpack(values, grad=adjoints)
    tensor.grad[1] = 7
    assert tensor.has_grad() and adjoints.tolist() == [1, 7, 1]
    with pytest.raises(ValueError, match=r"gradients of f32 \(3,\) are expected, got f64 \(3,\)"):
        qd.from_dlpack(values, grad=np.zeros(3))


def test_what_is_read_only_stays_so():
    source = np.arange(3, dtype=np.float32)
    source.flags.writeable = False
    tensor = qd.Tensor.from_dlpack(source)

    @qd.kernel
    def read(x: qd.Tensor) -> qd.f32:
        return x[2]

    @qd.kernel
    def write(x: qd.Tensor):
        x[0] = 1

    assert read(tensor) == 2 and not tensor.to_numpy(copy=False).flags.writeable
    for use in (lambda: write(tensor), lambda: tensor.fill(1), lambda: tensor[1:].fill(1), lambda: tensor.__setitem__(0, 1)):
        with pytest.raises(ValueError, match="read-only"):
            use()
    assert source.tolist() == [0, 1, 2]


@BACKENDS
def test_offsets_of_tensors(backend):
    @qd.kernel
    def run(x: qd.Tensor):
        for i, j in x:
            x[i, j] += i * 100 + j

    tensor = qd.tensor(qd.i32, (2, 3), backend=backend, offset=(-1, 5), layout=(1, 0), name="shifted")
    run(tensor)
    run(qd.tensor(qd.i32, (2, 3), backend=backend, layout=(1, 0)))
    assert tensor.to_numpy().tolist() == [[-95, -94, -93], [5, 6, 7]]
    for twin in (tensor, copy.deepcopy(tensor), pickle.loads(pickle.dumps(tensor))):
        assert (twin[-1, 5], twin[0, 7]) == (-95, 7)
        for wrong in ((0, 8), (1, 5), (-1, 4)):
            with pytest.raises(IndexError):
                twin[wrong]
            with pytest.raises(IndexError):
                twin[wrong] = 1
    other = qd.tensor(qd.i32, (2, 3), backend=backend, offset=(0, 1))
    run(other)  # other indices are another version of the kernel
    assert other.to_numpy().tolist() == [[1, 2, 3], [101, 102, 103]]
    assert "shifted" in qd.memory.report()
    floats = qd.tensor(qd.f32, 3, backend=backend, offset=2, needs_grad=True)
    floats.grad[4] = 3
    assert floats.grad.to_numpy().tolist() == [0, 0, 3]
    with pytest.raises(qd.QuadrantsSyntaxError, match="dimensionality of shape and offset must be the same"):
        qd.tensor(qd.f32, 3, backend=backend, offset=(1, 2))

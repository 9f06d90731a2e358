"""Elements of type bf16: two bytes in memory, f32 in kernels."""

import numpy as np
import pytest

import quadrants as qd

torch = pytest.importorskip("torch")

VALUES = [0.0, -0.0, 1.0, 1.00390625, 1.01171875, -2.7, 3.0e38, 3.4e38, 1.0e-40, float("inf"), float("-inf"), float("nan")]


@pytest.fixture(params=["cpu", "python"], autouse=True)
def runtime(request):
    qd.init(arch=getattr(qd, request.param), offline_cache=False, log_level="error")
    yield
    qd.reset()


@qd.kernel
def copy(a: qd.types.ndarray(), b: qd.types.ndarray()):
    for i in a:
        b[i] = a[i]


@qd.kernel
def add_a_third(a: qd.types.ndarray(qd.bf16, 1)):
    for i in a:
        a[i] += 1.0 / 3.0


def test_stores_round_as_torch_does_and_reads_are_exact():
    a, b = torch.tensor(VALUES), torch.zeros(len(VALUES), dtype=torch.bfloat16)
    copy(a, b)
    numbers = slice(None, -1)  # all but the NaN
    assert b.view(torch.int16)[numbers].tolist() == a.to(torch.bfloat16).view(torch.int16)[numbers].tolist() and b[-1].isnan()
    wide = torch.zeros(len(VALUES))
    copy(b, wide)
    np.testing.assert_array_equal(wide.numpy(), b.float().numpy())


def test_arithmetic_is_that_of_f32():
    tensor = torch.linspace(-2, 2, 33).to(torch.bfloat16)
    expected = (tensor.float() + np.float32(1 / 3)).to(torch.bfloat16)
    add_a_third(tensor)
    assert torch.equal(tensor, expected)


@pytest.mark.parametrize("make", [qd.field, qd.ndarray])
@pytest.mark.needs("exported memory")
def test_containers_leave_and_enter_without_a_copy(make):
    container = make(qd.bf16, shape=(2, 3))
    container.from_torch(torch.arange(6.0).reshape(2, 3).to(torch.bfloat16))
    view = container.to_torch(copy=False)
    assert view.dtype is torch.bfloat16 and view.tolist() == [[0, 1, 2], [3, 4, 5]]
    container[1, 2] = 1.01
    assert view[1, 2].item() == container[1, 2] == 1.0078125
    assert torch.from_dlpack(container).data_ptr() == view.data_ptr()
    assert container.to_numpy(dtype=qd.f32).tolist()[0] == [0, 1, 2]
    container.fill(2.5)
    assert container.to_torch().tolist() == [[2.5] * 3] * 2


@pytest.mark.parametrize(
    "make", [lambda: qd.field(qd.bf16, 3), lambda: qd.ndarray(qd.bf16, 3), lambda: qd.tensor(qd.bf16, 3), lambda: qd.field(qd.bf16, 5)[1:4]]
)
def test_numpy_sees_numbers(make):
    container = make()
    container.fill(1.01)
    assert np.asarray(container, np.float64).tolist() == np.array(container).astype(np.float64).tolist() == [1.0078125] * 3
    if not isinstance(container, qd.Tensor):  # tensors have no buffer of any type
        with pytest.raises(ValueError, match="have no type bf16; take a copy with to_numpy"):
            memoryview(container)
    assert not hasattr(container, "__array_interface__")


@pytest.mark.parametrize("make", ["field", "ndarray"])
def test_numpy_sees_numbers_of_structs(make):
    container = getattr(qd.types.struct(a=qd.f32, b=qd.bf16), make)(shape=2)
    container.b.fill(1.01)
    assert np.asarray(container)["b"].astype(np.float64).tolist() == [1.0078125] * 2


def test_vectors_of_bf16():
    container = qd.Vector.field(2, qd.bf16, 3)

    @qd.kernel
    def fill():
        for i in container:
            container[i] = [1.01 * i, 2.0]
            container[i].y += 0.01

    fill()
    assert container[1].to_list() == [1.0078125, 2.015625]
    container[2] = [1.01, 0]
    element = container[2]
    element[1] = 1.01
    assert container[2].to_list() == [1.0078125, 1.0078125]


def test_members_of_structs():
    pair = qd.types.struct(a=qd.bf16, b=qd.f32)
    container = pair.field(shape=2)

    @qd.kernel
    def fill() -> qd.f32:
        container[1] = pair(1.01, 1.01)
        return container[1].a

    assert fill() == 1.0078125 and container[1].a == 1.0078125 and container.to_numpy()["b"][1] == np.float32(1.01)


@qd.kernel
def round_values(n: qd.bf16, f: qd.f32) -> qd.types.vector(5, qd.f32):
    a: qd.bf16 = f
    v = qd.Vector([f, f], qd.bf16)
    return [n, a, qd.cast(f, qd.bf16), v[1], qd.bf16(1.01)]


def test_values_of_the_type_are_rounded_f32():
    assert round_values(1.01, 1.01).to_list() == [1.0078125] * 5


def test_atomics_round_the_sum():
    total = qd.field(qd.bf16, shape=())

    @qd.kernel
    def count(n: qd.i32) -> qd.f32:
        old = qd.atomic_max(total[None], 0.5)
        for _ in range(n):
            qd.atomic_max(total[None], 1.01)
        return old

    assert count(100) == 0 and total[None] == 1.0078125


def test_other_types_do_not_fit():
    with pytest.raises(ValueError, match="bf16"):
        add_a_third(torch.zeros(3, dtype=torch.float16))


def test_numpy_has_the_type_from_ml_dtypes():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    array = np.array([1.0, 2.0], ml_dtypes.bfloat16)
    add_a_third(array)
    assert array.tolist() == [1.3359375, 2.328125]
    container = qd.ndarray(qd.bf16, 2)
    container.from_numpy(array)
    assert container.to_numpy(copy=None).dtype == ml_dtypes.bfloat16 and container.to_numpy().tolist() == array.tolist()


def test_numpy_alone_gets_a_copy(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "ml_dtypes", None)
    container = qd.field(qd.bf16, shape=2)
    container.fill(1.01)
    assert container.to_numpy().dtype == np.float32 and container.to_numpy().tolist() == [1.0078125] * 2
    with pytest.raises(ValueError, match="ml_dtypes" if container._has_view else "Zero-copy not available"):
        container.to_numpy(copy=False)

"""Arrays of other libraries as kernel arguments: in place, of any strides, with exact errors."""

from __future__ import annotations

import array
import threading
import warnings

import numpy as np
import pytest

import quadrants as qd


@pytest.fixture(autouse=True)
def runtime():
    qd.init(arch=qd.cpu, log_level="error")
    yield
    qd.reset()


@qd.kernel
def count_up(x: qd.types.ndarray()):
    for I in qd.grouped(x):
        x[I] += 1


@qd.kernel
def add_up(x: qd.types.ndarray(dtype=qd.f32, ndim=1)) -> qd.f32:
    total = 0.0
    for i in range(x.shape[0]):
        total += x[i]
    return total


@qd.kernel
def total_of(x: qd.types.ndarray()) -> qd.f32:
    total = 0.0
    for I in qd.grouped(x):
        total += x[I]
    return total


VIEWS = {
    "packed": lambda a: a,
    "steps": lambda a: a[::2],
    "columns": lambda a: a[:, 1:3],
    "one column": lambda a: a[:, 2],
    "transposed": lambda a: a.T,
    "empty": lambda a: a[:0],
    "one element": lambda a: a[1:2, 1:2],
    "no axes": lambda a: a[1, 1, ...] if isinstance(a, np.ndarray) else a[1, 1],
}


@pytest.mark.parametrize("kind", VIEWS)
@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("dtype", ["i8", "u16", "i64", "f16", "f32", "f64"])
def test_views_are_changed_in_place(library, kind, dtype):
    numpy = qd.field(getattr(qd, dtype), shape=()).to_numpy().dtype
    source = np.arange(24).reshape(6, 4).astype(numpy)
    wanted = source.copy()
    if library == "torch":
        torch = pytest.importorskip("torch")
        part, seen = VIEWS[kind](torch.from_numpy(source)), source
    else:
        part, seen = VIEWS[kind](source), source
    for _ in range(2):  # compiled, then launched as it is
        count_up(part)
        VIEWS[kind](wanted)[...] += np.ones((), numpy)
    assert np.array_equal(seen, wanted)


def test_reversed_arrays_and_broadcasts():
    source = np.arange(6, dtype=np.float32)
    count_up(source[::-1][1:3])
    assert source.tolist() == [0, 1, 2, 4, 5, 5]
    assert add_up(np.broadcast_to(np.float32(2), 5)) == 10
    with pytest.raises(ValueError, match="read-only"):
        count_up(np.broadcast_to(np.float32(2), 5))
    torch = pytest.importorskip("torch")
    one = torch.ones(1).expand(7)
    for _ in range(2):
        assert add_up(one) == 7
    count_up(torch.ones(7))
    with pytest.raises(ValueError, match="'x' in parallel, and elements of the array that was passed share memory"):
        count_up(one)


def overlapping_arrays():
    shared = np.lib.stride_tricks
    yield shared.as_strided(np.zeros(1, np.float32), (1000,), (0,))
    yield shared.as_strided(np.zeros(10, np.float32), (9, 2), (4, 4))
    yield shared.as_strided(np.zeros(10, np.float32)[4:], (2, 2), (8, -8))
    yield shared.sliding_window_view(np.zeros(10, np.float32), 3, writeable=True)
    yield shared.as_strided(np.zeros(9, np.float32), (3, 4), (8, 4))
    torch = pytest.importorskip("torch")
    yield torch.zeros(10).unfold(0, 4, 1)
    yield torch.zeros(3, 1).expand(3, 4)
    yield torch.zeros(10).as_strided((3, 3), (2, 1))


def test_arrays_whose_elements_share_memory_are_read_and_not_written():
    for view in overlapping_arrays():
        with pytest.raises(ValueError, match="'x' in parallel, and elements of the array that was passed share memory"):
            count_up(view)
        assert total_of(view) == view.sum() == 0
        with pytest.raises(ValueError, match="read-only"):
            count_up(qd.from_dlpack(view))


def separate_arrays():
    yield np.zeros((4, 6, 5), np.float32)[::-2, 1::3, ::-1]
    yield np.zeros((4, 6, 5), np.float32).transpose(2, 0, 1)[1:3]
    yield np.einsum("iij->ij", np.zeros((3, 3, 2), np.float32))
    yield np.lib.stride_tricks.as_strided(np.zeros(9, np.float32), (2, 3), (8, 12))  # interleaved
    yield np.lib.stride_tricks.as_strided(np.zeros(9, np.float32), (1, 3, 1), (0, 4, 0))
    yield np.lib.stride_tricks.as_strided(np.zeros(9, np.float32), (0, 3), (0, 0))


def test_arrays_with_any_strides_are_written_where_no_elements_share_memory():
    for view in separate_arrays():
        count_up(view)
        assert (view == 1).all() and total_of(view) == view.size


def test_read_only_arrays_are_read_and_not_written():
    frozen = np.arange(4, dtype=np.float32)
    frozen.flags.writeable = False
    assert add_up(frozen) == 6
    with pytest.raises(ValueError, match="read-only"):
        count_up(frozen)
    count_up(frozen.copy())
    with pytest.raises(ValueError, match="read-only"):
        count_up(frozen)
    assert frozen.tolist() == [0, 1, 2, 3]


def test_anything_with_a_protocol():
    values = array.array("f", [1, 2, 3])
    count_up(values)
    count_up(memoryview(values))
    assert values.tolist() == [3, 4, 5]

    class Other:
        __array_interface__ = np.frombuffer(values, np.float32).__array_interface__

    count_up(Other())
    assert values.tolist() == [4, 5, 6]


@pytest.mark.parametrize(
    ("make", "problem", "text"),
    [
        (lambda t: np.zeros(3, np.complex64), TypeError, "unsupported array dtype complex64"),
        (lambda t: np.zeros(3, object), TypeError, "unsupported array dtype object"),
        (lambda t: np.zeros(3, ">f4"), TypeError, "byte order"),
        (lambda t: np.zeros(13, np.uint8)[1:].view(np.float32), ValueError, "not aligned"),
        (lambda t: t.zeros(3, dtype=t.float8_e5m2), TypeError, "float8"),
        (lambda t: t.zeros(3, device="meta"), ValueError, "meta"),
        (lambda t: t.zeros(3).to_sparse(), TypeError, "sparse"),
        (lambda t: [1, 2, 3], qd.QuadrantsRuntimeTypeError, "an ndarray or a NumPy array is expected"),
        (lambda t: None, qd.QuadrantsRuntimeTypeError, "x"),
    ],
)
def test_what_kernels_cannot_take_is_named(make, problem, text):
    torch = pytest.importorskip("torch")
    for _ in range(2):
        count_up(torch.zeros(3))
        with pytest.raises(problem, match=text):
            count_up(make(torch))


def test_torch_tensors_that_require_grad_are_taken_as_they_are():
    torch = pytest.importorskip("torch")
    x = torch.ones(4, requires_grad=True)
    for _ in range(2):
        count_up(x)
    assert (x.detach().tolist(), x.grad.tolist()) == ([3, 3, 3, 3], [0, 0, 0, 0])


def test_calls_make_gradients_also_after_calls_without():
    torch = pytest.importorskip("torch")
    plain, x, y = torch.zeros(4), torch.zeros(4, requires_grad=True), torch.nn.Parameter(torch.zeros(4))
    for given in (plain, plain, x, y, plain):
        count_up(given)
    assert plain.grad is None and x.grad.tolist() == y.grad.tolist() == [0, 0, 0, 0]
    x.grad = None
    count_up(x)
    assert x.grad.tolist() == [0, 0, 0, 0] and x.tolist() == [2, 2, 2, 2]
    inner = x * 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # torch warns about the gradient of a tensor that stores none
        count_up(inner)
        count_up(inner)
    indices = torch.zeros(4, dtype=torch.int64)
    count_up(indices)
    count_up(indices)
    assert indices.tolist() == [2, 2, 2, 2]


def test_kinds_take_turns():
    torch = pytest.importorskip("torch")
    kinds = [qd.ndarray(qd.f32, 4), np.zeros(4, np.float32), torch.zeros(4), np.zeros(8, np.float32)[::2], torch.zeros(8)[::2]]
    for _ in range(3):
        for x in kinds:
            count_up(x)
    assert all(np.asarray(x).tolist() == [3, 3, 3, 3] for x in kinds)
    assert count_up.specialization_count == 2


def test_tensors_freed_while_the_kernel_runs():
    torch = pytest.importorskip("torch")

    @qd.kernel
    def work(x: qd.types.ndarray(dtype=qd.f32, ndim=1), rounds: qd.i32):
        for i in x:
            for _ in range(rounds):
                x[i] = x[i] * 0.5 + 1

    work(torch.zeros(8), 1)
    threads = [threading.Thread(target=lambda: work(torch.zeros(1 << 14), 3000)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(200):
        del_me = torch.full((1 << 14,), 7.0)
        del del_me
    for thread in threads:
        thread.join()


def test_threads_launch_one_kernel_with_their_own_arrays():
    torch = pytest.importorskip("torch")
    arrays = [torch.zeros(1000) for _ in range(4)] + [np.zeros((1000 + i,), np.float32) for i in range(4)]

    def work(x):
        for _ in range(200):
            count_up(x)

    threads = [threading.Thread(target=work, args=(x,)) for x in arrays]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all((np.asarray(x) == 200).all() for x in arrays)


def test_containers_of_many_arrays_with_changing_members():
    @qd.data_oriented
    class Solver:
        def __init__(self):
            for i in range(30):
                setattr(self, f"m{i}", qd.ndarray(qd.f32, 4))

        @qd.kernel
        def work(self):
            for i in range(4):
                self.m0[i] += self.m1[i] + self.m29[i] + 1

    solver = Solver()
    for round_ in range(20):
        solver.m0, solver.m1 = qd.ndarray(qd.f32, 4 + round_), qd.ndarray(qd.f32, 4)
        solver.m1.fill(round_)
        solver.work()
        assert solver.m0.to_numpy()[:4].tolist() == [round_ + 1] * 4
    assert Solver.work.specialization_count == 1


@pytest.mark.parametrize("arch", ["cpu", "python"])
def test_the_gradient_of_a_tensor_comes_along(arch):
    torch = pytest.importorskip("torch")
    qd.init(arch=arch, log_level="error")

    @qd.kernel
    def run(x: qd.types.ndarray(), y: qd.types.ndarray()):
        for i in x:
            y[i] = x[i] * 2
            x.grad[i] += y[i]

    for stride in (1, 2):
        x = torch.arange(8, dtype=torch.float32)[::stride].clone().requires_grad_()
        x.grad = torch.ones(16)[:: 16 // len(x)]
        y = torch.zeros(len(x))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for _ in range(2):
                run(x, y)
            run(x, y * x)  # no leaf: what it has no gradient for is not looked at
        assert x.grad.tolist() == [1 + 6 * value for value in x.tolist()]

    @qd.kernel
    def forward(x: qd.types.ndarray(), y: qd.types.ndarray()):
        for i in x:
            y[i] = x[i]

    x = torch.ones(3, requires_grad=True)
    forward(x, y[:3])
    assert (x.grad.tolist(), y[:3].tolist()) == ([0, 0, 0], [1, 1, 1])
    with pytest.raises(ValueError, match="required needs_grad=True, but the array has no gradient"):
        qd.kernel(needing_gradient)(x.detach())


def needing_gradient(x: qd.types.ndarray(needs_grad=True)):
    x[0] = 1


@qd.kernel
def count_truths(x: qd.types.ndarray(dtype=qd.u1, ndim=1), y: qd.types.ndarray(dtype=qd.u1, ndim=1), v: qd.types.ndarray()) -> qd.i32:
    count = 0
    for i in x:
        if x[i]:
            count += 1
        count += 1000 * qd.cast(x[i], qd.i32) + 1000000 * (x[i] == True)  # noqa: E712
        y[i] = x[i]
        v[i] = qd.Vector([x[i], not x[i]])
    return count


@pytest.mark.parametrize("arch", ["cpu", "python"])
@pytest.mark.parametrize("library", ["numpy", "torch", "dlpack", "field"])
def test_any_byte_but_0_is_true(library, arch):
    qd.init(arch=getattr(qd, arch), log_level="error")
    numbers = np.tile(np.array([0, 1, 2, 3, 4, 128, 254, 255], np.uint8), 5)
    x, y, v = numbers.view(bool), np.zeros(40, bool), qd.Vector.ndarray(2, qd.u1, 40)
    if library == "torch":
        torch = pytest.importorskip("torch")
        x, y = torch.from_numpy(numbers).view(torch.bool), torch.from_numpy(y)
    elif library == "dlpack":
        x = qd.from_dlpack(x)
    elif library == "field":
        x = qd.ndarray(qd.u1, 40)
        x.from_numpy(numbers.view(bool))
    assert count_truths(x, y, v) == 35 * 1001001
    assert np.asarray(y).view(np.uint8).tolist() == (numbers != 0).astype(np.uint8).tolist()
    assert v.to_numpy().astype(np.int32).tolist() == [[int(n != 0), int(n == 0)] for n in numbers]
    assert bool(qd.from_dlpack(numbers.view(bool))[2]) is True


@pytest.mark.parametrize("arch", [qd.cpu, qd.python])
def test_elements_of_arrays_of_other_libraries(arch):
    qd.init(arch=arch, offline_cache=False)

    @qd.kernel
    def describe(a: qd.types.ndarray(element_dim=2), b: qd.types.ndarray(), found: qd.types.ndarray()):
        found[0], found[1], found[2], found[3] = a.n, a.m, len(a.element_shape), len(b.element_shape)
        found[4] = qd.i32(qd.static(a.dtype == qd.f64 and b.dtype == qd.i16))

    found = np.zeros(5, np.int32)
    describe(np.zeros((2, 3, 4)), np.zeros(0, np.int16), found)
    assert found.tolist() == [3, 4, 2, 0, 1]

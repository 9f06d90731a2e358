"""The acceptance list for containers and interop: one test for each row that a CPU can show."""

from __future__ import annotations

import dataclasses
import gc
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch_devices

import quadrants as qd
from quadrants._base.arch import GPU_NAMES

POINT = qd.types.struct(a=qd.f32, v=qd.types.vector(3, qd.f32))
CONTAINERS = {
    "field": lambda: qd.field(qd.f32, shape=(3, 4)),
    "vector field": lambda: qd.Vector.field(3, qd.f32, shape=4),
    "matrix field": lambda: qd.Matrix.field(3, 2, qd.f32, shape=4),
    "ndarray": lambda: qd.ndarray(qd.f32, (3, 4)),
    "vector ndarray": lambda: qd.Vector.ndarray(3, qd.f32, 4),
    "matrix ndarray": lambda: qd.Matrix.ndarray(3, 2, qd.f32, 4),
    "tensor": lambda: qd.tensor(qd.f32, (3, 4), layout=(1, 0)),
}


@pytest.fixture(autouse=True)
def runtime():
    qd.init(arch=qd.cpu, offline_cache=False, log_level="error")
    yield
    qd.reset()


def take(container: Any, library: str, copy: bool | None) -> Any:
    return container.to_numpy(copy=copy) if library == "numpy" else container.to_torch(copy=copy)


@pytest.fixture(params=["numpy", "torch"])
def library(request: pytest.FixtureRequest) -> str:
    if os.environ.get("QD_ARCH") == "vulkan":
        pytest.skip("vulkan has no exported memory")
    on_gpu = os.environ.get("QD_ARCH") in GPU_NAMES
    if request.param == "torch" and on_gpu and not torch_devices.sees_gpu():
        pytest.skip("torch does not see the GPU")
    if request.param == "numpy" and on_gpu:
        pytest.skip("NumPy has no views of a GPU's memory")
    return request.param


@pytest.mark.parametrize("kind", CONTAINERS)
def test_every_container_takes_every_copy(library, kind):
    container = CONTAINERS[kind]()
    container.fill(1)
    copied, viewed, either = (take(container, library, copy) for copy in (True, False, None))
    container.fill(2)
    assert [float(taken.min()) for taken in (copied, viewed, either)] == [1, 2, 2]


def test_members_of_structs_take_every_copy(library):
    for layout in (qd.Layout.AOS, qd.Layout.SOA):
        points = qd.Struct.field({"a": qd.f32, "v": qd.types.vector(3, qd.f32)}, shape=4, layout=layout)
        taken = {copy: take(points.v, library, copy) for copy in (True, False, None)}
        points.v.fill(2)
        assert [float(taken[copy].min()) for copy in (True, False, None)] == [0, 2, 2]
    assert set(points.to_numpy()) == {"a", "v"}


def test_default_results_stay_readable_after_reset_and_a_new_runtime(library):
    for kind in CONTAINERS.values():
        container = kind()
        container.fill(3)
        taken, viewed = take(container, library, True), take(container, library, None)
        qd.reset()
        qd.init(arch=qd.python)
        assert float(taken.max()) == 3 and float(viewed.max()) == 3
        qd.init(arch=qd.cpu, offline_cache=False, log_level="error")


@pytest.mark.host_memory
def test_explicit_copies_are_clones_of_views(library):
    for kind in CONTAINERS.values():
        container = kind()
        viewed, copied = take(container, library, False), take(container, library, True)
        steps = (lambda array: array.strides) if library == "numpy" else (lambda tensor: tensor.stride())
        assert copied.shape == viewed.shape and len(steps(copied)) == len(steps(viewed))
        assert not np.shares_memory(np.asarray(copied), np.asarray(viewed))


DTYPES = [qd.f16, qd.f32, qd.f64, qd.i8, qd.i16, qd.i32, qd.i64, qd.u1, qd.u8, qd.u16, qd.u32, qd.u64]
FORMS = {
    "field": lambda dtype: qd.field(dtype, shape=(3, 4)),
    "field of columns": lambda dtype: qd.field(dtype, shape=(3, 4), order="ji"),
    "field of one": lambda dtype: qd.field(dtype, shape=()),
    "vectors": lambda dtype: qd.Vector.field(2, dtype, shape=5),
    "vectors by component": lambda dtype: qd.Vector.field(2, dtype, shape=5, layout=qd.Layout.SOA),
    "matrices of a column": lambda dtype: qd.Matrix.field(3, 1, dtype, shape=5),
    "member": lambda dtype: qd.Struct.field({"a": qd.u8, "v": qd.types.vector(3, dtype)}, shape=5).v,
    "ndarray": lambda dtype: qd.ndarray(dtype, (3, 4)),
    "ndarray of matrices": lambda dtype: qd.Matrix.ndarray(3, 1, dtype, 5),
    "tensor by columns": lambda dtype: qd.tensor(dtype, (3, 4), layout=(1, 0)),
    "part": lambda dtype: qd.ndarray(dtype, (4, 6))[1:4, ::2],
}


@pytest.mark.host_memory
@pytest.mark.parametrize("kind", FORMS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_one_rule_for_every_container_and_type(library, dtype, kind):
    """Whatever the container: the values, their shape, and who shares memory follow from `copy` alone."""
    container = FORMS[kind](dtype)
    squeezes = isinstance(container, qd.MatrixField) and container.element_shape[1:] == (1,)
    own = tuple(container.shape) + tuple(container.element_shape)
    values = (
        np.random.default_rng(1).integers(0, 2, own).astype("bool" if dtype is qd.u1 else str(np.dtype(qd.lang.util.to_numpy_type(dtype))))
    )
    for copy in (True, False, None):
        for keep_dims in (False, True):
            for device in (None, "cpu") if library == "torch" else (None,):
                container.from_numpy(values)
                options = {"copy": copy, "keep_dims": keep_dims, **({} if device is None else {"device": device})}
                taken = getattr(container, f"to_{library}")(**options)
                seen = np.asarray(taken)
                extra = (1,) if keep_dims and len(container.element_shape) == 1 else ()
                shape = own[:-1] if squeezes and not keep_dims else own + extra
                assert seen.shape == shape and seen.dtype == values.dtype and np.array_equal(seen, values.reshape(shape)), options
                container.fill(0)
                assert np.array_equal(np.asarray(taken), values.reshape(shape)) == (copy is True or not values.any()), options


@pytest.mark.host_memory
def test_eligibility_needs_no_exception(monkeypatch):
    field = qd.field(qd.f32, shape=4)
    field.to_numpy(copy=False)
    raised = []

    def trace(frame: Any, event: str, argument: Any) -> Any:
        if event == "exception":
            raised.append(argument)
        return trace

    sys.settrace(trace)
    try:
        for copy in (None, True, False):
            field.to_numpy(copy=copy)
    finally:
        sys.settrace(None)
    assert raised == []


def test_reset_ends_containers_and_not_their_views():
    made = [kind() for kind in CONTAINERS.values()]
    views = [container.to_numpy(copy=None) for container in made]
    qd.reset()
    qd.init(arch=qd.cpu, offline_cache=False, log_level="error")
    for container, view in zip(made, views, strict=True):
        view[...] = 1
        with pytest.raises(qd.QuadrantsRuntimeError):
            container.to_numpy()


@pytest.mark.host_memory
def test_numpy_never_loads_torch():
    program = (
        "import sys, quadrants as qd\n"
        "qd.init(arch=qd.cpu, log_level='error')\n"
        "for made in (qd.field(qd.f32, shape=4), qd.ndarray(qd.f32, 4)):\n"
        "    for copy in (True, False, None): made.to_numpy(copy=copy)\n"
        "print('torch' in sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout == "False\n"


def test_kept_views_are_read_after_what_was_launched(library):
    """On the processor and on a GPU: each read of a view that is kept sees the launches before it. There is no queue of Metal here."""

    @qd.kernel
    def add(x: qd.types.ndarray(), n: qd.i32):
        for i in x:
            for _ in range(n):
                x[i] += 1

    array = qd.ndarray(qd.i32, 100_000)
    view = take(array, library, False)
    for launch in range(1, 6):
        add(array, 3)
        assert int(view.min()) == int(view.max()) == 3 * launch
    assert qd.interop.get_mps_command_queue() == 0


def test_members_of_aos_structs_are_views_with_true_strides(library):
    points = POINT.field(shape=5)
    view = take(points.v, library, False)
    steps = view.strides if library == "numpy" else tuple(4 * step for step in view.stride())
    assert steps == (16, 4)
    view[...] = 7
    assert points.a.to_numpy().max() == 0 and points.v.to_numpy().min() == 7


@pytest.mark.host_memory
def test_errors_say_why_in_ascii():
    with pytest.raises(ValueError, match="dtype") as caught:
        qd.field(qd.f32, shape=3).to_numpy(dtype=np.float64, copy=False)
    assert str(caught.value).isascii()


@pytest.mark.host_memory
def test_another_device_is_named():
    pytest.importorskip("torch")
    field = qd.field(qd.f32, shape=3)
    with pytest.raises(ValueError, match="copy=False is incompatible with device transfer.*cpu.*cuda|cuda.*cpu"):
        field.to_torch(device="cuda:3", copy=False)
    assert field.to_torch(device="cpu", copy=False).device.type == "cpu"


def test_gradients_are_on_the_device_of_their_inputs_and_current():
    torch = pytest.importorskip("torch")
    state, seen = qd.field(qd.f32, shape=4), []

    @qd.kernel
    def scale(x: qd.types.ndarray(), y: qd.types.ndarray(), factor: qd.f32):
        for i in range(4):
            y[i] = factor * x[i]
            state[i] = factor

    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(context: Any, x: Any) -> Any:
            y = torch.empty_like(x)
            scale(x.detach(), y, 3.0)
            return y

        @staticmethod
        def backward(context: Any, dy: Any) -> Any:
            before = state.to_torch()
            dx = torch.empty_like(dy)
            scale(dy.contiguous(), dx, 5.0)
            seen.extend((before.tolist(), state.to_torch(copy=None).tolist()))
            return dx

    x = torch.arange(4.0, device="cuda" if torch_devices.sees_gpu() else "cpu", requires_grad=True)
    y = Scale.apply(x)
    y.sum().backward()
    assert y.tolist() == [0, 3, 6, 9] and x.grad.tolist() == [5, 5, 5, 5] and y.device == x.grad.device == x.device
    assert seen == [[3.0] * 4, [5.0] * 4]


def test_one_version_serves_ndarrays_and_arrays():
    @qd.kernel
    def first(x: qd.types.ndarray(dtype=qd.types.vector(10, qd.i32), ndim=1)) -> qd.i32:
        return x[0][0]

    first(qd.Vector.ndarray(10, qd.i32, 5))
    first(np.ones((6, 10), np.int32))
    assert len(first.specializations()) == 1


@qd.kernel
def fill_view(view: qd.BufferView[qd.i32], value: qd.i32):
    for i in range(view.size):
        view[i] = value


@qd.kernel
def fill_slice(array: qd.types.NDArray[qd.i32, 1], begin: qd.i32, end: qd.i32, value: qd.i32):
    for i in range(begin, end):
        array[i] = value


def test_slices_follow_python_and_chains_check_against_their_parent():
    array = qd.ndarray(qd.i32, 10)
    view = array[2:8]
    assert (view.offset, view.size, view.shape) == (2, 6, (6,))
    assert (view[1:-1].offset, view[1:-1].size) == (3, 4) and view[5:2].size == 0
    with pytest.raises(ValueError, match="subview out of range"):
        view.subview(4, 3)
    assert qd.BufferView(array, np.int64(1), 2.0).size == 2
    assert qd.Vector.ndarray(2, qd.i32, 10)[3:5].size == 2


def test_temporaries_and_frozen_members_are_read_at_each_launch():
    @dataclasses.dataclass(frozen=True)
    class Window:
        view: qd.BufferView

    @qd.kernel
    def fill_member(window: Window, value: qd.i32):
        for i in range(window.view.size):
            window.view[i] = value

    array = qd.ndarray(qd.i32, 12)
    for i in range(0, 6, 2):
        fill_view(array[i : i + 2], i)
        gc.collect()
    for i in range(6, 12, 2):
        fill_member(Window(array[i : i + 2]), i)
        gc.collect()
    assert array.to_numpy().tolist() == [0, 0, 2, 2, 4, 4, 6, 6, 8, 8, 10, 10]
    assert len(fill_view.specializations()) == len(fill_member.specializations()) == 1


def test_views_run_the_loop_of_an_offset():
    array = qd.ndarray(qd.i32, 1000)
    fill_view(array[10:900], 1)
    fill_slice(array, 10, 900, 2)
    lanes = [loop.lanes for version in qd.compile_report()[-2:] for loop in version.loops]
    assert len(lanes) == 2 and lanes[0] == lanes[1] and (lanes[0] > 1 or os.environ.get("QD_ARCH") in GPU_NAMES)


def test_boundaries_have_one_list_of_words():
    with pytest.raises(ValueError, match="unsafe.*clamp"):
        qd.types.BufferViewType(qd.f32, boundary="wrap")
    with pytest.raises(ValueError, match="unsafe.*clamp"):
        qd.types.ndarray(boundary="wrap")
    assert "buffer_view" not in dir(qd)


def test_views_of_views_and_their_gradients():
    array = qd.ndarray(qd.f32, 8, needs_grad=True)
    inner = qd.BufferView(array[2:7], 1, 3)
    assert (inner.offset, inner.size) == (3, 3)

    @qd.kernel
    def square(view: qd.BufferView[qd.f32], total: qd.types.ndarray(qd.f32, 0)):
        part = qd.BufferView(view, 1, 2)
        for i in range(part.size):
            total[None] += part[i] ** 2

    array.fill(3)
    total = qd.ndarray(qd.f32, (), needs_grad=True)
    square(inner, total)
    total.grad.fill(1)
    square.grad(inner, total)
    assert total.to_numpy() == 18 and inner.grad.to_numpy().tolist() == [0, 6, 6]
    assert array.grad.to_numpy().tolist() == [0, 0, 0, 0, 6, 6, 0, 0]


def test_round_trips_keep_shapes(library):
    field, array = qd.Matrix.field(3, 2, qd.f32, shape=4), qd.Matrix.ndarray(3, 2, qd.f32, 4)
    values = np.arange(24, dtype=np.float32).reshape(4, 3, 2)
    for container in (field, array):
        container.from_numpy(values)
        taken = take(container, library, True)
        assert np.array_equal(taken if library == "numpy" else taken.cpu().numpy(), values)
        with pytest.raises(ValueError, match="shape"):
            container.from_numpy(values.reshape(4, 2, 3))


def test_a_kernel_is_a_function_with_a_gradient_in_torch():
    torch = pytest.importorskip("torch")

    @qd.kernel
    def square(x: qd.types.ndarray(), y: qd.types.ndarray()):
        for i in range(32):
            y[i] = x[i] * x[i]

    @qd.kernel
    def square_gradient(x: qd.types.ndarray(), dy: qd.types.ndarray(), dx: qd.types.ndarray()):
        for i in range(32):
            dx[i] = 2 * x[i] * dy[i]

    class Square(torch.autograd.Function):
        @staticmethod
        def forward(context: Any, x: Any) -> Any:
            context.save_for_backward(x)
            y = torch.zeros_like(x)
            square(x, y)
            return y

        @staticmethod
        def backward(context: Any, dy: Any) -> Any:
            (x,) = context.saved_tensors
            dx = torch.zeros_like(x)
            square_gradient(x, dy.contiguous(), dx)
            return dx

    x = torch.full((32,), 2.0, requires_grad=True)
    y = Square.apply(x)
    y.sum().backward()
    assert bool((y == 4).all()) and bool((x.grad == 4).all()) and x.grad.device == x.device

"""Containers to and from NumPy, torch and DLPack: every kind of container, type and way of copying against one oracle."""

from __future__ import annotations

import gc
import math
import os
import subprocess
import sys

import numpy as np
import pytest
import torch_devices

import quadrants as qd

DTYPES = (qd.u1, qd.i8, qd.i16, qd.i32, qd.i64, qd.u8, qd.u16, qd.u32, qd.u64, qd.f16, qd.f32, qd.f64)
POINT = qd.types.struct(a=qd.u8, b=qd.f64, v=qd.types.vector(3, qd.f32), m=qd.types.matrix(2, 2, qd.i16))
KINDS = {
    "field": lambda dtype: qd.field(dtype, shape=(3, 4)),
    "field of no axes": lambda dtype: qd.field(dtype, shape=()),
    "empty ndarray": lambda dtype: qd.ndarray(dtype, shape=(0, 4)),
    "field in another order": lambda dtype: qd.field(dtype, shape=(3, 4), order="ji"),
    "vector field": lambda dtype: qd.Vector.field(3, dtype, shape=4),
    "vector field SOA": lambda dtype: qd.Vector.field(3, dtype, shape=4, layout=qd.Layout.SOA),
    "matrix field": lambda dtype: qd.Matrix.field(2, 3, dtype, shape=(2, 2)),
    "column field": lambda dtype: qd.Matrix.field(3, 1, dtype, shape=2),
    "component": lambda dtype: qd.Matrix.field(2, 3, dtype, shape=4).get_scalar_field(1, 2),
    "member": lambda dtype: qd.Struct.field({"first": qd.u8, "it": dtype, "last": qd.f64}, shape=5).it,
    "member SOA": lambda dtype: qd.Struct.field({"first": qd.u8, "it": dtype}, shape=5, layout=qd.Layout.SOA).it,
    "ndarray": lambda dtype: qd.ndarray(dtype, (3, 4)),
    "ndarray of no axes": lambda dtype: qd.ndarray(dtype, ()),
    "vector ndarray": lambda dtype: qd.Vector.ndarray(3, dtype, 4),
    "matrix ndarray": lambda dtype: qd.Matrix.ndarray(3, 1, dtype, (2, 2)),
    "tensor": lambda dtype: qd.tensor(dtype, (2, 3, 4), layout=(2, 0, 1)),
    "field tensor": lambda dtype: qd.tensor(dtype, (2, 3, 4), backend=qd.Backend.FIELD, layout=(1, 2, 0)),
}


@pytest.fixture(autouse=True)
def runtime():
    qd.init(arch=qd.cpu, log_level="error")
    yield
    qd.reset()


def numbered(container) -> np.ndarray:
    """Fills a container with different numbers and returns them in its shape."""
    dtype = container.to_numpy().dtype
    shape = container.shape + container.element_shape
    values = (np.arange(math.prod(shape)) % 100).astype(dtype)
    container.from_numpy(values.reshape(shape))
    return values.reshape(shape)


def import_torch():
    torch = pytest.importorskip("torch")
    if os.environ.get("QD_ARCH") in ("cuda", "amdgpu") and not torch_devices.sees_gpu():
        pytest.skip("torch does not see the GPU")
    return torch


def expected_shape(kind: str, values: np.ndarray, keep_dims: bool, rank: int) -> np.ndarray:
    if rank == 1 and keep_dims:
        return values[..., None]
    return values[..., 0] if kind == "column field" and not keep_dims else values


def has_view(container):
    """Whether NumPy sees the elements in place; a tensor is what it wraps."""
    return getattr(container, "_impl", container)._has_view


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_numpy_sees_the_elements(kind, dtype):
    container = KINDS[kind](dtype)
    values = numbered(container)
    rank = len(container.element_shape)
    for keep_dims in (False, True):
        wanted = expected_shape(kind, values, keep_dims, rank)
        for copy in (True, False, None):
            if copy is False and not has_view(container):
                with pytest.raises(ValueError, match="Zero-copy not available"):
                    container.to_numpy(copy=copy, keep_dims=keep_dims)
                continue
            got = container.to_numpy(copy=copy, keep_dims=keep_dims)
            assert got.dtype == wanted.dtype and got.shape == wanted.shape and np.array_equal(got, wanted)
            assert got.flags.writeable and (got.flags.owndata or got.base is not None)
            if got.size:
                got[...] = 1
                is_copy = copy is True or not has_view(container)
                assert np.array_equal(container.to_numpy(keep_dims=keep_dims), wanted) == (is_copy or bool((wanted == 1).all()))
                container.from_numpy(values)
    assert np.array_equal(np.from_dlpack(container, device="cpu"), values) and np.array_equal(np.asarray(container), values)
    if has_view(container):
        assert np.shares_memory(np.asarray(container), container.to_numpy(copy=False)) or not values.size


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.needs("exported memory")
def test_torch_sees_the_elements(kind, dtype):
    torch = import_torch()
    container = KINDS[kind](dtype)
    values = numbered(container)
    for keep_dims in (False, True):
        wanted = expected_shape(kind, values, keep_dims, len(container.element_shape))
        for copy in (True, False, None):
            got = container.to_torch(copy=copy, keep_dims=keep_dims)
            assert tuple(got.shape) == wanted.shape and np.array_equal(got.cpu().numpy(), wanted)
            if copy is True:
                assert got.is_contiguous()
            if got.numel():
                assert (got.data_ptr() == container.to_torch(copy=False).data_ptr()) == (copy is not True)
    again = torch.from_dlpack(container)
    assert np.array_equal(again.cpu().numpy(), values)
    container.fill(0)
    container.from_torch(again.clone())
    container.from_torch(torch.from_numpy(values.copy()))
    assert np.array_equal(container.to_numpy(keep_dims=True).reshape(values.shape), values)


@pytest.mark.host_memory
def test_views_of_struct_members_write_to_that_member_only():
    points = POINT.field(shape=4)
    for name in ("a", "b", "v", "m"):
        getattr(points, name).fill(7)
    view = points.v.to_numpy(copy=False)
    assert view.strides[0] == points.b.to_numpy(copy=False).strides[0] > 12
    view[...] = 3
    assert (points.v.to_numpy() == 3).all()
    assert all((getattr(points, name).to_numpy() == 7).all() for name in ("a", "b", "m"))
    torch = pytest.importorskip("torch")
    members = points.to_torch(copy=False)
    members["m"][1] = torch.tensor([[1, 2], [3, 4]])
    assert points[1].m.to_list() == [[1, 2], [3, 4]] and points[2].m.to_list() == [[7, 7], [7, 7]]


@pytest.mark.host_memory
def test_layouts_leave_as_transposed_views():
    tensor = qd.tensor(qd.f32, (2, 3, 4), layout=(2, 0, 1))
    torch = pytest.importorskip("torch")
    view = tensor.to_torch(copy=False)
    assert view.stride() == (3, 1, 6) and view.data_ptr() == tensor.to_torch(copy=None).data_ptr()
    assert torch.from_dlpack(tensor).stride() == (3, 1, 6)
    assert tensor.to_numpy(copy=True).flags.c_contiguous


@pytest.mark.host_memory
def test_two_views_and_kernels_share_memory():
    field = qd.field(qd.f32, shape=8)
    first, second = field.to_numpy(copy=False), field.to_numpy(copy=None)

    @qd.kernel
    def double():
        for i in field:
            field[i] *= 2

    first[:] = 3
    double()
    assert (second == 6).all() and field[5] == 6
    second[5] = 1
    double()
    assert first[5] == 2


@pytest.mark.host_memory
@pytest.mark.parametrize("library", ["numpy", "torch", "dlpack", "memoryview", "asarray"])
def test_views_keep_their_memory(library):
    torch = pytest.importorskip("torch") if library in ("torch", "dlpack") else None
    field = qd.field(qd.i32, shape=1000)
    field.fill(42)
    views = {
        "numpy": lambda it: it.to_numpy(copy=False),
        "torch": lambda it: it.to_torch(copy=False),
        "dlpack": lambda it: torch.from_dlpack(it),
        "memoryview": memoryview,
        "asarray": np.asarray,
    }
    view = views[library](field)
    del field
    gc.collect()
    assert view[999] == 42
    qd.reset()
    qd.init(arch=qd.cpu)
    others = [qd.field(qd.i32, shape=1000) for _ in range(50)]
    for other in others:
        other.fill(7)
    assert all(view[i] == 42 for i in range(1000))


@pytest.mark.host_memory
def test_default_results_are_copies_that_outlive_the_runtime():
    array = qd.ndarray(qd.f32, 10)
    array.fill(5)
    taken = array.to_numpy()
    array.fill(0)
    qd.reset()
    assert (taken == 5).all() and taken.flags.owndata


@pytest.mark.host_memory
@pytest.mark.parametrize(
    ("call", "problem", "text"),
    [
        (lambda c: c.to_numpy(dtype=np.float64, copy=False), ValueError, "copy=False is incompatible with dtype conversion"),
        (lambda c: c.to_numpy(copy=5), ValueError, "copy is True, False or None, got 5"),
        (lambda c: c.to_numpy(None, True), TypeError, "positional argument"),
        (lambda c: c.from_numpy(np.zeros(4, np.complex64)), TypeError, "cannot store an array of complex64 as float32"),
        (lambda c: c.from_numpy(np.array([object()] * 4)), TypeError, "cannot store an array of object as float32"),
        (lambda c: c.from_numpy("abcd"), TypeError, "numpy.ndarray or an array-like object expected"),
        (lambda c: c.from_numpy(np.zeros(5)), ValueError, r"Mismatch shape: \(4,\) expected, but \(5,\) provided"),
        (lambda c: c.to_numpy(out=np.zeros(5)), ValueError, r"Mismatch shape: \(4,\) expected"),
        (lambda c: c.__dlpack__(dl_device=(2, 0)), BufferError, "device"),
    ],
)
def test_what_cannot_be_met_is_said(call, problem, text):
    for container in (qd.field(qd.f32, shape=4), qd.ndarray(qd.f32, 4)):
        with pytest.raises(problem, match=text):
            call(container)


@pytest.mark.host_memory
@pytest.mark.parametrize(
    ("call", "problem", "text"),
    [
        (lambda c, t: c.to_torch(device="meta"), ValueError, "device meta"),
        (lambda c, t: c.to_torch(device="cuda:3", copy=False), ValueError, "copy=False is incompatible with device transfer"),
        (lambda c, t: c.to_torch(dtype=t.float64, copy=False), ValueError, "copy=False is incompatible with dtype conversion"),
        (lambda c, t: c.from_torch(t.zeros(4, device="meta")), ValueError, "device meta"),
        (lambda c, t: c.from_torch(t.zeros(4, dtype=t.complex64)), TypeError, "cannot store an array of complex64 as float32"),
    ],
)
def test_what_torch_cannot_have_is_said(call, problem, text):
    torch = pytest.importorskip("torch")
    with pytest.raises(problem, match=text):
        call(qd.field(qd.f32, shape=4), torch)


@pytest.mark.host_memory
def test_conversions_on_the_way():
    torch = pytest.importorskip("torch")
    container = qd.ndarray(qd.i32, 4)
    container.from_torch(torch.tensor([1.9, -1.9, 2.0, 3.5], requires_grad=True))
    assert container.to_numpy().tolist() == [1, -1, 2, 3]
    container.from_torch(torch.tensor([1, 2, 3, 4], dtype=torch.bfloat16))
    container.from_numpy([5, 6, 7, 8])
    assert container.to_numpy(dtype=qd.f64).dtype == np.float64
    assert container.to_torch(dtype=torch.float32).dtype is torch.float32
    container.from_torch(torch.tensor([0, 1, 0, 2]).to_sparse())
    assert container.to_numpy().tolist() == [0, 1, 0, 2]
    container.from_numpy(memoryview(np.arange(4)))
    target = np.empty(4, np.float32)
    assert container.to_numpy(out=target) is target and target.tolist() == [0, 1, 2, 3]
    tensor = torch.empty(4)
    assert container.to_torch(out=tensor) is tensor and tensor.tolist() == [0, 1, 2, 3]


@pytest.mark.host_memory
def test_numpy_needs_no_torch():
    program = (
        "import sys; sys.modules['torch'] = None\n"
        "import numpy as np, quadrants as qd\n"
        "qd.init(arch=qd.cpu, log_level='error')\n"
        "f = qd.Vector.field(3, qd.f32, shape=4)\n"
        "for copy in (True, False, None): f.to_numpy(copy=copy)\n"
        "f.from_numpy(np.ones((4, 3))); np.from_dlpack(f); np.asarray(f)\n"
        "@qd.kernel\n"
        "def k(x: qd.types.ndarray()):\n"
        "    for i in range(4): x[i] = 1\n"
        "k(np.zeros(4, np.float32))\n"
        "print(sys.modules['torch'])\n"
    )
    file = "import sys, linecache; text = sys.stdin.read(); linecache.cache['<it>'] = (len(text), None, text.splitlines(True), '<it>'); "
    done = subprocess.run(
        [sys.executable, "-c", file + "exec(compile(text, '<it>', 'exec'))"], input=program, capture_output=True, text=True
    )
    assert done.stdout.strip() == "None", done.stderr


@pytest.mark.parametrize("shift", [0, 1, 5])
def test_much_is_copied_to_the_last_byte(shift):
    """Large copies take another way than small ones: odd sizes, and memory that no vector is aligned to."""
    count = (9 << 20) + 13
    source = np.random.default_rng(1).integers(0, 256, count + shift, np.uint8)[shift:]
    array, wanted = qd.ndarray(qd.u8, count), source.copy()
    array.from_numpy(source)
    assert np.array_equal(array.to_numpy(), wanted)
    around = np.full(count + shift + 1, 7, np.uint8)
    array.to_numpy(out=around[shift:-1])
    assert np.array_equal(around[shift:-1], wanted) and around[-1] == 7 and (around[:shift] == 7).all()
    with pytest.raises(ValueError, match="read-only"):
        qd.from_dlpack(np.broadcast_to(np.uint8(0), count)).from_numpy(source)


@pytest.mark.parametrize("count", [(128 << 10) - 1, (128 << 10) + 1, (300 << 10) + 7, (1 << 20) + 5, (2 << 20) - 3])
def test_copies_in_quick_succession_are_complete(count):
    """Threads share copies of some hundred kilobytes only if these follow each other."""
    sources = [np.random.default_rng(seed).integers(0, 256, count, np.uint8) for seed in range(2)]
    array, out = qd.ndarray(qd.u8, count), np.empty(count, np.uint8)
    for turn in range(40):
        array.from_numpy(sources[turn % 2])
        array.to_numpy(out=out)
        assert np.array_equal(out, sources[turn % 2])


@pytest.mark.needs("exported memory")
def test_reversed_arrays_leave_for_torch_as_copies():
    torch = pytest.importorskip("torch")
    x = qd.from_dlpack(np.arange(3, dtype=np.float32)[::-1])
    assert x.to_torch(copy=None).tolist() == x.to_torch().tolist() == [2, 1, 0]
    with pytest.raises(ValueError, match="Zero-copy not available"):
        x.to_torch(copy=False)
    for reversed_part in (x, qd.ndarray(qd.f32, (3, 4))[::-1], qd.field(qd.bf16, (3, 4))[:, ::-1]):  # torch would end the process
        with pytest.raises(BufferError, match="runs backward"):
            torch.from_dlpack(reversed_part)
        assert torch.from_dlpack(reversed_part, copy=True).shape == reversed_part.shape
    assert torch.from_dlpack(qd.ndarray(qd.f32, (1, 4))[::-1]).shape == (1, 4)

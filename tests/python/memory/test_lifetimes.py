"""Memory is given back, and views outlive everything."""

from __future__ import annotations

import copy
import gc
import os
import pickle
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import quadrants as qd
from quadrants import _runtime
from quadrants._session import records as _records


@pytest.fixture(autouse=True)
def runtime() -> None:
    qd.init(offline_cache=False, log_level="error")
    gc.collect()  # what other tests left in cycles keeps memory until some later moment


def own_bytes() -> int:
    """Resident memory that is nobody else's: pages of files come and go with the memory that the machine has left."""
    resident, shared = Path("/proc/self/statm").read_text().split()[1:3]
    return (int(resident) - int(shared)) * os.sysconf("SC_PAGE_SIZE")


def grows(body: Callable[[], None], count: int) -> int:
    """Bytes of growth over the second half of `count` runs."""
    if os.environ.get("SANITIZED_BUILD"):
        pytest.skip("sanitizers keep freed memory for a while")
    for _ in range(count // 2):
        body()
    gc.collect()
    before = own_bytes()
    for _ in range(count - count // 2):
        body()
    gc.collect()
    return own_bytes() - before


@pytest.mark.host_memory
def test_last_reference_frees() -> None:
    before = _runtime.memory_use()
    field, array = qd.field(qd.f32, (1000,)), qd.ndarray(qd.f32, (1000,))
    assert _runtime.memory_use()["bytes"] == before["bytes"] + 8000
    view = field.view()
    del field, array
    assert _runtime.memory_use()["bytes"] == before["bytes"] + 4000
    del view
    assert _runtime.memory_use() == before


PAIR = qd.types.struct(a=qd.f32, v=qd.types.vector(3, qd.f64))
SOURCE = np.zeros((16, 16), np.float32)


def use_field() -> None:
    field = qd.field(qd.f32, (16, 16), needs_grad=True)
    field[1, 2] = field.grad[0, 0] + 1
    field.to_numpy()
    field.to_numpy(copy=False)[0, 0] = 1


def use_vector_field() -> None:
    field = qd.Vector.field(3, qd.f32, (16,), layout=qd.Layout.SOA)
    field[1] = field[2] + 1
    field.get_scalar_field(1).fill(2)


def use_ndarray() -> None:
    array = qd.ndarray(qd.f32, (256,), needs_grad=True)
    array[3] = array[2] + 1
    array.grad.copy_from(array)


def use_tensor() -> None:
    for backend in qd.Backend:
        tensor = qd.tensor(qd.f32, (16, 16), backend=backend, layout=(1, 0), needs_grad=True)
        tensor[1, 2] = tensor.grad[2, 1] + 1
        np.asarray(tensor)


def use_struct() -> None:
    for made in (PAIR.field(16), PAIR.ndarray(16), PAIR.tensor(16)):
        made[1].v = [1, 2, 3]
        made.to_numpy()
    np.asarray(made._unwrap())


def use_tree() -> None:
    x, builder = qd.field(qd.f32), qd.FieldsBuilder()
    builder.dense(qd.ij, (4, 4)).place(x)
    tree = builder.finalize()
    x[1, 1] = 2
    tree.destroy()


def use_views() -> None:
    for array in (qd.ndarray(qd.f32, (16, 16), needs_grad=True), qd.field(qd.f32, (16, 16)), SOURCE):
        view = qd.BufferView(array)[1:, ::-2]
        view[3, :] = view[4, 1:5].to_numpy()[0]
        assert view[3].grad is None or view[3].grad.size == 8


def use_other_libraries() -> None:
    shared = qd.from_dlpack(SOURCE)
    shared[3, 3] = 1
    np.from_dlpack(shared)
    shared.to_dlpack(versioned=True)
    memoryview(shared)
    shared.to_numpy(copy=False)


CYCLES: dict[Callable[[], None], int] = {
    use_field: 6_000, use_vector_field: 10_000, use_ndarray: 50_000, use_tensor: 5_000,
    use_struct: 2_000, use_tree: 5_000, use_views: 10_000, use_other_libraries: 20_000,
}  # fmt: skip


@pytest.mark.host_memory
@pytest.mark.parametrize("use", CYCLES, ids=lambda use: use.__name__)
def test_making_using_and_dropping_containers_does_not_grow(use: Callable[[], None]) -> None:
    before = _runtime.memory_use()
    assert grows(use, CYCLES[use]) < 1 << 19
    assert _runtime.memory_use() == before


def define_on_a_field() -> None:
    x = qd.field(qd.f32, 4)

    @qd.kernel
    def work() -> None:
        for i in x:
            x[i] += 1

    work()


def define_from_text() -> None:
    assert qd.kernel_from_source("def work(n: qd.i32) -> qd.i32:\n    return n + 1\n")(3) == 4


def define_with_a_mistake() -> None:
    @qd.kernel
    def work() -> qd.i32:
        return 1 + "a"

    with pytest.raises(qd.QuadrantsCompilationError):
        work()


@pytest.mark.host_memory
@pytest.mark.parametrize("define", [define_on_a_field, define_from_text, define_with_a_mistake])
def test_kernels_that_are_dropped_leave_nothing(define: Callable[[], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    qd.init(arch=qd.cpu, offline_cache_file_path=str(tmp_path), log_level="error")
    monkeypatch.setattr(_records, "records", deque(maxlen=10))  # reports know the latest versions
    for _ in range(500):  # tables of Python's own come to their size
        define()
    gc.collect()
    before = sys.getallocatedblocks()
    for _ in range(200):
        define()
    gc.collect()
    assert sys.getallocatedblocks() - before < 2 * 200  # a record or a text for each would be several blocks


def test_launches_do_not_grow() -> None:
    torch = pytest.importorskip("torch")

    @qd.kernel
    def work(x: qd.types.ndarray(dtype=qd.f32, ndim=1)):
        x[0] += 1

    whole = qd.ndarray(qd.f32, (8,))
    arrays = [whole, np.zeros(8, np.float32), torch.zeros(8), torch.zeros(16)[::2]]

    def body() -> None:
        for array in arrays:
            work(array)
        work(whole[2:5])

    assert grows(body, 200_000 if qd.cfg.arch == qd.cpu.name else 5_000) < 1 << 20


def test_init_and_reset_do_not_grow() -> None:
    def body() -> None:
        qd.init(offline_cache=False)
        qd.field(qd.f32, (64,))[0] = 1
        qd.reset()

    assert grows(body, 1000) < 1 << 20


@pytest.mark.host_memory
def test_view_outlives_reset() -> None:
    field = qd.field(qd.i32, (1 << 20,))
    view = field.view()
    view[5] = 7
    qd.reset()
    qd.init(offline_cache=False)
    other = qd.field(qd.i32, (1 << 20,))
    other.fill(3)
    assert (view[5], view[6]) == (7, 0)


@pytest.mark.parametrize(
    "make", [lambda: qd.field(qd.f32, (4,)), lambda: qd.ndarray(qd.f32, (4,)), lambda: qd.Vector.field(2, qd.f32, (4,))]
)
def test_dead_containers_say_so(make: Callable[[], object]) -> None:
    container = make()
    qd.reset()
    qd.init(offline_cache=False)
    for use in (lambda: container[0], lambda: container.view(), lambda: container.__setitem__(0, 1)):  # type: ignore[index, attr-defined]
        with pytest.raises(qd.QuadrantsRuntimeError, match="created before"):
            use()


@pytest.mark.parametrize(
    "make",
    [lambda: qd.ndarray(qd.f32, 4), lambda: qd.Vector.ndarray(2, qd.f32, 4), lambda: qd.tensor(qd.f32, 4), lambda: qd.ndarray(qd.bf16, 4)],
)
def test_ndarrays_of_an_earlier_runtime_have_no_shape(make: Callable[[], Any]) -> None:
    """Programs tell them by `shape is None`; every use of them raises an error that says why."""
    array, kept = make(), qd.field(qd.f32, 4)

    @qd.kernel
    def read(x: qd.types.ndarray()) -> qd.i32:
        return x.shape[0]

    assert read(array) == 4
    qd.reset()
    assert array.shape is None and array.dtype is None and getattr(array, "_impl", array).arr is None
    assert kept.shape == (4,) and kept.dtype is qd.f32
    qd.init(offline_cache=False)
    uses: list[Callable[[], object]] = [
        lambda: len(array), lambda: list(array), lambda: array.fill(1), lambda: array.from_numpy(np.zeros(4)), lambda: array.to_numpy(),
        lambda: array.copy_from(np.zeros(4)), lambda: copy.deepcopy(array), lambda: pickle.dumps(array), lambda: read(array),
        lambda: qd.BufferView(array, 0, 1), lambda: array[1:2], lambda: np.asarray(array), lambda: str(getattr(array, "_impl", array)),
        lambda: memoryview(getattr(array, "_impl", array)),
    ]  # fmt: skip
    for use in uses:
        with pytest.raises(qd.QuadrantsRuntimeError, match="created before"):
            use()
    assert "shape=None" in repr(array) or "ndarray" in repr(array)


@pytest.mark.host_memory
def test_large_buffers_are_aligned_and_zero() -> None:
    array = qd.ndarray(qd.f32, (3 << 20,))
    assert array._address % (2 << 20) == 0
    assert not array.view().any()
    assert qd.ndarray(qd.f32, (3,))._address % 64 == 0


def test_more_than_there_is_memory_is_a_memory_error() -> None:
    with pytest.raises(MemoryError, match="cannot allocate"):
        qd.field(qd.f32, (1 << 30, 1 << 20))
    with pytest.raises(MemoryError):
        qd.ndarray(qd.f64, (1 << 31 - 1,) * 3)
    assert qd.field(qd.f32, (4,))[0] == 0


def test_process_ends_quietly_with_live_views() -> None:
    program = "import quadrants as qd; qd.init(); f = qd.field(qd.f32, (9,)); v = f.view(); import atexit; atexit.register(qd.reset)"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("QD_")}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("key", [-1, 4, (4,), 2**70, -(2**70)])
def test_elements_outside_of_the_shape_are_refused(key: object) -> None:
    for container in (qd.field(qd.f32, (4,)), qd.ndarray(qd.f32, (4,))):
        with pytest.raises(IndexError, match="out of range"):
            container[key]
        with pytest.raises(qd.QuadrantsAssertionError):
            container[key] = 1


def test_elements_take_what_an_assignment_takes() -> None:
    array = qd.ndarray(qd.u8, (4,))
    array[0], array[1], array[2], array[3] = 255, 0, 3.9, np.uint16(200)
    assert array.to_numpy().tolist() == [255, 0, 3, 200]
    with pytest.raises(TypeError):
        array[0] = "1"
    truth = qd.field(qd.u1, ())
    truth[None] = 256
    assert truth[None] == 1
    half = qd.field(qd.f16, (1,))
    half[0] = 2049.0
    assert half[0] == 2048.0

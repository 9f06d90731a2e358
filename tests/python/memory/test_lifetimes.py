"""Memory is given back, and views outlive everything."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import quadrants as qd
from quadrants import _runtime


@pytest.fixture(autouse=True)
def runtime() -> None:
    qd.init(offline_cache=False, log_level="error")


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def grows(body: Callable[[], None], count: int) -> int:
    """Bytes of growth over the second half of `count` runs."""
    if os.environ.get("QD_SANITIZED"):
        pytest.skip("sanitizers keep freed memory for a while")
    for _ in range(count // 2):
        body()
    gc.collect()
    before = resident_bytes()
    for _ in range(count - count // 2):
        body()
    gc.collect()
    return resident_bytes() - before


def test_last_reference_frees() -> None:
    before = _runtime.memory_use()
    field, array = qd.field(qd.f32, (1000,)), qd.ndarray(qd.f32, (1000,))
    assert _runtime.memory_use()["bytes"] == before["bytes"] + 8000
    view = field.view()
    del field, array
    assert _runtime.memory_use()["bytes"] == before["bytes"] + 4000
    del view
    assert _runtime.memory_use() == before


def test_making_and_dropping_ndarrays_does_not_grow() -> None:
    def body() -> None:
        array = qd.ndarray(qd.f32, (256,))
        array[3] = array[2] + 1

    assert grows(body, 100_000) < 1 << 20


def test_making_and_dropping_fields_and_views_does_not_grow() -> None:
    def body() -> None:
        field = qd.field(qd.f32, (16, 16))
        field.to_numpy()
        field.view()[0, 0] = 1

    assert grows(body, 20_000) < 1 << 20


def test_windows_views_and_borrowed_arrays_do_not_grow() -> None:
    array = qd.ndarray(qd.f32, (256,))
    source = np.zeros(256, np.float32)

    def body() -> None:
        array[2:100].fill(1)
        array[5:7].to_numpy()
        np.from_dlpack(array)
        qd.from_dlpack(source)[3] = 1

    assert grows(body, 40_000) < 1 << 20


def test_launches_do_not_grow() -> None:
    torch = pytest.importorskip("torch")

    @qd.kernel
    def work(x: qd.types.ndarray(dtype=qd.f32, ndim=1)):
        x[0] += 1

    arrays = [qd.ndarray(qd.f32, (8,)), np.zeros(8, np.float32), torch.zeros(8), torch.zeros(16)[::2]]

    def body() -> None:
        for array in arrays:
            work(array)

    assert grows(body, 200_000) < 1 << 20


def test_init_and_reset_do_not_grow() -> None:
    def body() -> None:
        qd.init(offline_cache=False)
        qd.field(qd.f32, (64,))[0] = 1
        qd.reset()

    assert grows(body, 1000) < 1 << 20


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
    array[0], array[1], array[2], array[3] = 300, -1, 3.9, np.uint16(258)
    assert list(array.view()) == [44, 255, 3, 2]
    with pytest.raises(TypeError):
        array[0] = "1"
    truth = qd.field(qd.u1, ())
    truth[None] = 256
    assert truth[None] == 1
    half = qd.field(qd.f16, (1,))
    half[0] = 2049.0
    assert half[0] == 2048.0

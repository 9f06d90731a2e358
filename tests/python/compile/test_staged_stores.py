"""Whole elements that a subgroup of a GPU stores together, through shared memory (src/codegen/llvm/grid/staged_stores.cpp)."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import emulating
import numpy as np
import pytest
from assembling import make_ptx

import quadrants as qd

COUNT = 512  # a multiple of all blocks: each thread of a subgroup has an element
V3 = qd.types.vector(3, qd.f32)
V7 = qd.types.vector(7, qd.i32)
M3 = qd.types.matrix(3, 3, qd.f32)
M4D = qd.types.matrix(2, 3, qd.f64)
VALUES = np.random.default_rng(1).integers(-99, 99, (COUNT, 21)).astype(np.float64)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("staged")


@pytest.fixture(params=[(target, together) for target in emulating.SUBGROUPS for together in (False, True)], ids=str)
def _device(request: pytest.FixtureRequest, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    target, together = request.param
    monkeypatch.delenv("QD_ARCH", raising=False)
    monkeypatch.delenv("EMULATED_APART", raising=False)
    if not together:
        monkeypatch.setenv("EMULATED_APART", "1")
    emulating.start(monkeypatch, folder, target)
    qd.init(arch=qd.cuda, enable_fallback=False, offline_cache=False, log_level="error")
    yield
    qd.reset()


def fill(container: Any, start: int = 0) -> np.ndarray:
    shape = container.to_numpy().shape
    width = int(np.prod(shape[1:]))
    values = VALUES[: shape[0], start : start + width].reshape(shape).astype(container.to_numpy().dtype)
    container.from_numpy(values)
    return values


@qd.kernel
def update(f: qd.types.ndarray(M3, 1), c: qd.types.ndarray(M3, 1), dt: qd.f32) -> None:
    for p in f:
        f[p] = f[p] + dt * c[p]


@qd.kernel
def two(a: qd.types.ndarray(V7, 1), b: qd.types.ndarray(M3, 1)) -> None:
    for p in a:
        for k in qd.static(range(7)):
            a[p][k] += k
            if qd.static(k < 3):
                for j in qd.static(range(3)):
                    b[p][k, j] = b[p][k, j] * 2.0 - qd.cast(a[p][k], qd.f32)


@qd.kernel
def sevens_and_nines(a: qd.types.ndarray(V7, 1), b: qd.types.ndarray(M3, 1)) -> None:
    for p in a:
        a[p] = a[p] + p
        b[p] = b[p] * 2.0


@qd.kernel
def reversed_words(a: qd.types.ndarray(V7, 1)) -> None:
    for p in a:
        for k in qd.static(range(6, -1, -1)):
            a[p][k] = a[p][k] + p


@qd.kernel
def backward(a: qd.types.ndarray(V7, 1)) -> None:
    for p in range(a.shape[0]):
        q = a.shape[0] - 1 - p
        for k in qd.static(range(7)):
            a[q][k] = p * 10 + k


@qd.kernel
def neighbors(a: qd.types.ndarray(V7, 1), order: qd.types.ndarray(qd.i32, 1)) -> None:
    for p in a:
        for k in qd.static(range(7)):
            a[order[p]][k] = p * 10 + k


@qd.kernel
def reads_between(a: qd.types.ndarray(V7, 1), last: qd.types.ndarray(qd.i32, 1), order: qd.types.ndarray(qd.i32, 1)) -> None:
    for p in a:
        for k in qd.static(range(7)):
            a[p][k] = p * 10 + k
            last[p] += a[order[p]][k]


@qd.kernel
def in_shared_memory(x: qd.types.ndarray(qd.f32, 1)) -> None:
    qd.loop_config(block_dim=128)
    for i in range(x.shape[0]):
        part = qd.simt.block.SharedArray((128,), M3)
        thread = i % 128
        for r, s in qd.static(qd.ndrange(3, 3)):
            part[thread][r, s] = x[i] + r * 3 + s
        qd.simt.block.sync()
        total = 0.0
        for r, s in qd.static(qd.ndrange(3, 3)):
            total += part[127 - thread][r, s]
        x[i] = total


def make_matrices() -> tuple[Any, Any, np.ndarray, np.ndarray]:
    f, c = qd.ndarray(M3, COUNT), qd.ndarray(M3, COUNT)
    return f, c, fill(f), fill(c, 9)


@pytest.mark.usefixtures("_device")
class TestValues:
    def test_matrices(self) -> None:
        f, c, f_values, c_values = make_matrices()
        update(f, c, 0.5)
        np.testing.assert_array_equal(f.to_numpy(), f_values + np.float32(0.5) * c_values)

    def test_two_containers(self) -> None:
        a, b = qd.ndarray(V7, COUNT), qd.ndarray(M3, COUNT)
        a_values, b_values = fill(a), fill(b, 7)
        two(a, b)
        wanted = a_values + np.arange(7, dtype=np.int32)
        np.testing.assert_array_equal(a.to_numpy(), wanted)
        np.testing.assert_array_equal(b.to_numpy(), b_values * 2 - wanted[:, :3, None].astype(np.float32))

    @pytest.mark.parametrize("kernel", [backward, reversed_words])
    def test_orders(self, kernel: Callable[..., None]) -> None:
        a = qd.ndarray(V7, COUNT)
        values = fill(a)
        kernel(a)
        if kernel is reversed_words:
            wanted = values + np.arange(COUNT, dtype=np.int32)[:, None]
        else:
            wanted = np.arange(COUNT)[::-1, None] * 10 + np.arange(7)
        np.testing.assert_array_equal(a.to_numpy(), wanted)

    def test_elements_at_read_indices(self) -> None:
        a, order = qd.ndarray(V7, COUNT), qd.ndarray(qd.i32, COUNT)
        places = np.random.default_rng(2).permutation(COUNT).astype(np.int32)
        order.from_numpy(places)
        neighbors(a, order)
        np.testing.assert_array_equal(a.to_numpy()[places], np.arange(COUNT)[:, None] * 10 + np.arange(7))

    def test_rows_of_two_axes(self) -> None:
        rows = qd.Vector.field(9, qd.f32, (16, 64))

        @qd.kernel
        def relax() -> None:
            for i, j in qd.ndrange(16, (1, 63)):
                for k in qd.static(range(9)):
                    rows[i, j][k] = i * 1000 + j * 10 + k

        # Subgroups that go over the end of a row do not have neighbors. 16 * 62 is no multiple of a block: some threads have no element.
        relax()
        i, j, k = np.meshgrid(np.arange(16), np.arange(64), np.arange(9), indexing="ij")
        np.testing.assert_array_equal(rows.to_numpy(), np.where((j >= 1) & (j < 63), i * 1000 + j * 10 + k, 0))

    def test_reads_between_stores(self) -> None:
        a, last = qd.ndarray(V7, COUNT), qd.ndarray(qd.i32, COUNT)
        order = qd.ndarray(qd.i32, COUNT)
        order.from_numpy(np.arange(COUNT, dtype=np.int32))
        reads_between(a, last, order)
        np.testing.assert_array_equal(last.to_numpy(), np.arange(COUNT) * 70 + 21)

    def test_elements_in_shared_memory(self) -> None:
        x = qd.ndarray(qd.f32, COUNT)
        x.from_numpy(np.arange(COUNT, dtype=np.float32))
        in_shared_memory(x)
        wanted = np.arange(COUNT).reshape(-1, 128)[:, ::-1].reshape(-1) * 9 + 36
        np.testing.assert_array_equal(x.to_numpy(), wanted)


def test_the_memory_of_a_subgroup_begins_at_one_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """Subgroups do not wait for each other: while one exchanges elements of seven words, another one may be at those of nine."""
    monkeypatch.delenv("QD_ARCH", raising=False)
    qd.init(arch=qd.cpu, offline_cache=False, log_level="error")
    ptx = make_ptx(sevens_and_nines, qd.ndarray(V7, COUNT), qd.ndarray(M3, COUNT))
    first_of_subgroup = re.findall(r"and\.b32\s+(%r\d+), %r\d+, 992;", ptx)
    places = [re.findall(rf"mul\.lo\.s32\s+%r\d+, {register}, (\d+);", ptx) for register in first_of_subgroup]
    assert ptx.count("activemask") == 2
    assert {words for found in places for words in found} == {"9"}


def test_which_stores_are_staged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("QD_ARCH", raising=False)
    qd.init(arch=qd.cpu, offline_cache=False, log_level="error")
    matrices, sevens, numbers = qd.ndarray(M3, COUNT), qd.ndarray(V7, COUNT), qd.ndarray(qd.i32, COUNT)

    @qd.kernel
    def threes(a: qd.types.ndarray(V3, 1)) -> None:
        for p in a:
            a[p] = a[p] * 2.0

    @qd.kernel
    def doubles(a: qd.types.ndarray(M4D, 1)) -> None:
        for p in a:
            a[p] = a[p] * 2.0

    def is_staged(kernel: Any, *arguments: Any) -> bool:
        ptx = make_ptx(kernel, *arguments)
        return "_stage" in ptx and "activemask" in ptx

    assert is_staged(update, matrices, matrices, 0.5)
    assert is_staged(reversed_words, sevens)
    assert not is_staged(backward, sevens), "the next thread's element does not follow"
    assert not is_staged(neighbors, sevens, numbers), "nobody knows where the next thread's element is"
    assert not is_staged(reads_between, sevens, numbers, numbers), "an element is read between its stores"
    assert not is_staged(threes, qd.ndarray(V3, COUNT)), "the device merges few words itself"
    assert not is_staged(doubles, qd.ndarray(M4D, COUNT)), "a double is half of what a thread of a subgroup can store well"

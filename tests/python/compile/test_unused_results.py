"""Atomic operations on a GPU: those whose old value is not used become reductions (`red` of PTX), the others stay."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import emulating
import numpy as np
import pytest
from assembling import assemble, make_ptx

import quadrants as qd

COUNT, CELLS = 4096, 37
DTYPES = {qd.i32: np.int32, qd.u32: np.uint32, qd.i64: np.int64, qd.u64: np.uint64, qd.f32: np.float32, qd.f64: np.float64}
UPDATES = ["add", "min", "max", "and", "or", "xor"]
CASES = [(name, dtype) for name in UPDATES for dtype in DTYPES if name in ("add", "min", "max") or dtype not in (qd.f32, qd.f64)]


def make_kernel(name: str, dtype: Any) -> Any:
    update = getattr(qd, f"atomic_{name}")

    @qd.kernel
    def kernel(cells: qd.types.ndarray(dtype, 1), values: qd.types.ndarray(dtype, 1), places: qd.types.ndarray(qd.i32, 1)) -> None:
        for i in values:
            update(cells[places[i]], values[i])

    return kernel


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("unused")


@pytest.mark.parametrize(("name", "dtype"), CASES, ids=str)
def test_values(name: str, dtype: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("QD_ARCH", raising=False)
    emulating.start(monkeypatch, folder, "cuda")
    qd.init(arch=qd.cuda, enable_fallback=False, offline_cache=False, log_level="error")
    numbers = np.random.default_rng(3)
    low = -50 if np.dtype(DTYPES[dtype]).kind != "u" else 0
    values = numbers.integers(low, 2000, COUNT).astype(DTYPES[dtype])
    start = numbers.integers(0, 2000, CELLS).astype(DTYPES[dtype])
    places = numbers.integers(0, CELLS, COUNT).astype(np.int32)
    cells, given, where = qd.ndarray(dtype, CELLS), qd.ndarray(dtype, COUNT), qd.ndarray(qd.i32, COUNT)
    cells.from_numpy(start)
    given.from_numpy(values)
    where.from_numpy(places)
    make_kernel(name, dtype)(cells, given, where)
    functions = {"add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}
    wanted = start.copy()
    functions[name].at(wanted, places, values)
    np.testing.assert_array_equal(cells.to_numpy(), wanted)
    qd.reset()


@pytest.mark.parametrize(("name", "dtype"), CASES, ids=str)
def test_code(name: str, dtype: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("QD_ARCH", raising=False)
    qd.init(arch=qd.cpu, offline_cache=False, log_level="error")
    cells, places = qd.ndarray(dtype, 100_000), qd.ndarray(qd.i32, 100_000)
    ptx = make_ptx(make_kernel(name, dtype), cells, cells, places)
    if dtype in (qd.f32, qd.f64) and name != "add":
        return  # loops of compare and exchange
    assert f"red.relaxed.gpu.global.{name}." in ptx
    assert "atom.global" not in ptx
    assemble(ptx, tmp_path)


def test_used_results_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("QD_ARCH", raising=False)
    qd.init(arch=qd.cpu, offline_cache=False, log_level="error")

    @qd.kernel
    def kernel(cells: qd.types.ndarray(qd.i32, 1), old: qd.types.ndarray(qd.i32, 1)) -> None:
        for i in old:
            old[i] = qd.atomic_add(cells[old[i]], 1)

    a = qd.ndarray(qd.i32, 100_000)
    assert "atom.global.add.u32" in make_ptx(kernel, a, a)

"""The algorithms as grids of threads, emulated: in one pass, where blocks wait for each other, and in two, where they cannot."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import emulating
import numpy as np
import pytest

import quadrants as qd
from quadrants import algorithms
from quadrants._base import device
from quadrants.algorithms import _reduce_by_key, _scan, _select
from quadrants.algorithms._tiles import BLOCK

Array = qd.types.ndarray(ndim=1)


def lengths_around(rows: tuple[int, int]) -> list[int]:
    """Nothing, one element, around a block and around a tile; then a group of tiles and a bit."""
    tile = BLOCK * rows[0]
    return [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, tile - 1, tile, tile + 1, 33 * tile + 5]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("emulated_algorithms")


@pytest.fixture(params=list(emulating.SUBGROUPS), autouse=True)
def target(request: pytest.FixtureRequest, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.delenv("QD_ARCH", raising=False)
    emulating.start(monkeypatch, folder, request.param)
    qd.init(arch=qd.cuda, enable_fallback=False, offline_cache=False, log_level="error")
    yield request.param
    qd.reset()


def array(data: Any) -> Any:
    made = qd.ndarray(getattr(qd, data.dtype.name.replace("uint", "u").replace("int", "i").replace("float", "f")), len(data))
    made.from_numpy(data)
    return made


def scratch(slots: int, wide: bool = False) -> Any:
    made = qd.ndarray(qd.u64 if wide else qd.u32, slots)
    made.fill(0x7FFFFFFF)  # what a look-back must not take for results
    return made


def numbers(name: str, length: int) -> Any:
    return np.random.default_rng(length).integers(-50, 50, max(length, 1)).astype(name)


def test_the_targets_take_both_forms(target: str) -> None:
    assert device.HAS_GRIDS
    assert device.BLOCKS_PROGRESS == (target == "cuda")
    qd.init(arch=qd.cuda, enable_fallback=False, offline_cache=False, log_level="error", debug=True)
    assert not device.BLOCKS_PROGRESS  # a failed check would leave others waiting


@pytest.mark.parametrize(
    "name, lengths", [("int32", lengths_around(_scan._ROWS)), ("float64", [2048, 2049, 9000]), ("int8", [5000]), ("float16", [300])]
)
def test_scans_and_reductions(name: str, lengths: list[int]) -> None:
    @qd.kernel
    def scan(x: Array, out: Array, room: Array, n: qd.i32) -> None:
        algorithms.exclusive_scan_add(x, out, room, n, x.dtype, 4)

    @qd.kernel
    def scan_in_place(x: Array, room: Array, n: qd.types.ndarray(ndim=0)) -> None:
        algorithms.inclusive_scan_max(x, x, room, n[()], x.dtype, 4)

    @qd.kernel
    def reduce(x: Array, out: Array, room: Array, n: qd.i32) -> None:
        algorithms.reduce_add(x, out, room, n, x.dtype, 4)

    for length in lengths:
        data = numbers(name, length)
        x, out = array(data), array(data * 0 - 7)
        slots = algorithms.exclusive_scan_scratch_slots(length)
        scan(x, out, scratch(slots, data.itemsize == 8), length)
        expected = np.concatenate([data[:0], [0], np.cumsum(data[:length], dtype=data.dtype)])[:length]
        assert np.array_equal(out.to_numpy()[:length], expected)
        reduce(x, out, scratch(slots, data.itemsize == 8), length)
        assert out[0] == data[:length].sum(dtype=data.dtype)
        count = qd.ndarray(qd.i32, ())
        count[()] = length
        scan_in_place(x, scratch(slots, data.itemsize == 8), count)
        assert np.array_equal(x.to_numpy()[:length], np.maximum.accumulate(data[:length]))


@pytest.mark.parametrize("name, end_bit", [("int32", 32), ("float32", 32), ("uint64", 16), ("float16", 16), ("int8", 8), ("uint32", 24)])
def test_sorts(name: str, end_bit: int) -> None:
    @qd.kernel
    def sort(keys: Array, spare: Array, values: Array, other: Array, room: Array, n: qd.types.ndarray(ndim=0)) -> None:
        algorithms.sort(keys, spare, values, other, room, n, keys.dtype, True, end_bit, 4)

    for length in [0, 1, 2, 257, 1025, 2049, 4097, 8200, 20000]:
        data = np.random.default_rng(length).integers(0, 30000, max(length, 1)).astype(name)
        data *= np.where(np.arange(len(data)) % 2, 1, -1).astype(name) if data.dtype.kind != "u" else data.dtype.type(1)
        values = np.arange(len(data), dtype=np.int64 if name == "float16" else np.int32)
        keys, moved, count = array(data), array(values), qd.ndarray(qd.i32, ())
        count[()] = length
        sort(keys, array(data), moved, array(values), scratch(algorithms.sort_scratch_slots(length)), count)
        order = np.argsort(data[:length], kind="stable")
        assert np.array_equal(keys.to_numpy()[:length], data[order])
        assert np.array_equal(moved.to_numpy()[:length], order)


def test_keys_alone() -> None:
    for length in [1024, 4096, 4097, 8192, 8193, 30000]:  # one block with few rows and with many, one tile, several tiles
        data = np.random.default_rng(length).integers(-(2**31), 2**31, length).astype(np.int32)
        data[::3] = 7
        keys = array(data)
        algorithms.sort(keys)
        assert np.array_equal(keys.to_numpy(), np.sort(data))


def test_vectors_move_along_with_keys() -> None:
    data = np.random.default_rng(5).permutation(5000).astype(np.int32)
    keys, values = array(data), qd.Vector.ndarray(3, qd.f32, 5000)
    values.from_numpy(np.arange(15000, dtype=np.float32).reshape(5000, 3))
    algorithms.sort(keys, values)
    assert np.array_equal(keys.to_numpy(), np.arange(5000))
    assert np.array_equal(values.to_numpy()[:, 1], 3 * np.argsort(data) + 1)


def test_selections() -> None:
    @qd.kernel
    def select(x: Array, flags: Array, out: Array, count: Array, room: Array, n: qd.i32) -> None:
        algorithms.select(x, flags, out, count, room, n, 4)

    for length in [*lengths_around(_select._ROWS), 5000]:
        data, flags = numbers("int64", length), (numbers("int32", length + 1)[: max(length, 1)] > 0).astype(np.int32)
        out, count = array(data * 0 - 77), array(np.full(1, 9, np.int32))
        select(array(data), array(flags), out, count, scratch(algorithms.select_scratch_slots(length)), length)
        chosen = data[:length][flags[:length] != 0]
        assert count[0] == len(chosen)
        assert np.array_equal(out.to_numpy()[: len(chosen)], chosen)
        assert (out.to_numpy()[len(chosen) :] == -77).all()


@pytest.mark.parametrize("name, longest", [("int32", 5), ("float64", 9000)])
def test_reductions_by_key(name: str, longest: int) -> None:
    @qd.kernel
    def reduce(keys: Array, x: Array, keys_out: Array, out: Array, runs: Array, room: Array, n: qd.i32) -> None:
        algorithms.reduce_by_key_add(keys, x, keys_out, out, runs, room, n, x.dtype, 4)

    for length in lengths_around((_reduce_by_key._ROWS[8], 0)) if name == "int32" else [0, 256 * 11, 20000]:
        data = numbers(name, length)
        lengths = np.random.default_rng(length).integers(1, longest + 1, length + 1)
        keys = np.repeat(np.arange(length + 1, dtype=np.int32), lengths)[: len(data)]
        keys_out, out, runs = array(keys * 0 - 1), array(data), array(np.full(1, 9, np.int32))
        reduce(array(keys), array(data), keys_out, out, runs, scratch(algorithms.reduce_by_key_scratch_slots(length)), length)
        unique, first = np.unique(keys[:length], return_index=True)
        assert runs[0] == len(unique)
        assert np.array_equal(keys_out.to_numpy()[: len(unique)], unique)
        assert np.array_equal(out.to_numpy()[: len(unique)], np.add.reduceat(data[:length], first) if length else [])


def test_segments() -> None:
    data = numbers("int32", 1000)
    offsets = np.array([0, 0, 31, 32, 700, 1000], np.int32)
    found = algorithms.segmented_reduce(array(data), array(offsets), "max").to_numpy()
    assert found.tolist() == [-(2**31), *(data[a:b].max() for a, b in zip(offsets[1:], offsets[2:], strict=False))]

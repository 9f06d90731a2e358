"""The disk cache: found again by other processes, never wrong, and never in the way."""

from __future__ import annotations

import os
import random
import signal
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import quadrants as qd


def test_second_process_compiles_nothing(cache: Any) -> None:
    first, second = cache.run(), cache.run()
    assert (first["compiled"], first["loaded"]) == (8, 0)
    assert (second["compiled"], second["loaded"]) == (0, 8)
    assert first["results"] == second["results"]
    assert len(cache.entries()) == 8


def test_folder_is_private(cache: Any) -> None:
    cache.run()
    for path in [*cache.folder.glob("kernels-*"), *cache.folder.glob("kernels-*/??")]:
        assert stat.S_IMODE(path.stat().st_mode) == 0o700


def test_changed_global_is_a_variant_of_its_own(cache: Any) -> None:
    cache.run()
    changed = cache.run("factor=5", "all")
    assert changed["compiled"] == 8
    again = cache.run("all", "factor=5", "all")
    assert (again["compiled"], again["loaded"]) == (0, 16)


@pytest.mark.parametrize(
    ("name", "value", "compiled"), [("fast_math", False, 8), ("debug", True, 8), ("random_seed", 7, 0), ("log_level", "warn", 0)]
)
def test_options_that_change_code_are_part_of_the_key(cache: Any, name: str, value: Any, compiled: int) -> None:
    cache.run()
    assert cache.run(**{name: value})["compiled"] == compiled


def test_nothing_is_read_or_written_when_it_is_off(cache: Any) -> None:
    cache.run()
    before = {path: path.stat().st_mtime_ns for path in cache.entries()}
    off = cache.run(offline_cache=False)
    assert off["compiled"] == 8
    assert {path: path.stat().st_mtime_ns for path in cache.entries()} == before


def truncate(path: Path) -> None:
    os.truncate(path, random.randrange(path.stat().st_size))


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[random.randrange(len(data))] ^= 1 << random.randrange(8)
    path.write_bytes(data)


def empty(path: Path) -> None:
    path.write_bytes(b"")


def extend(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\0" * 100)


def replace_by_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def replace_by_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize("damage", [truncate, flip, empty, extend, replace_by_folder, replace_by_pipe])
def test_damaged_entries_are_compiled_again(cache: Any, damage: Callable[[Path], None]) -> None:
    random.seed(damage.__name__)
    cache.run()
    for path in cache.entries():
        damage(path)
    repaired = cache.run()
    assert repaired["compiled"] == 8
    if damage not in (replace_by_folder, replace_by_pipe):
        assert cache.run()["compiled"] == 0


def test_swapped_entries_are_not_believed(cache: Any) -> None:
    cache.run()
    paths = cache.entries()
    contents = [path.read_bytes() for path in paths]
    for path, content in zip(paths, contents[1:] + contents[:1], strict=True):
        path.write_bytes(content)
    assert cache.run()["compiled"] == 8  # the process checks its results itself


def test_read_only_folder_is_one_line_of_log(cache: Any) -> None:
    cache.run()
    for path in cache.entries()[::2]:
        path.unlink()
    locked = [cache.folder, *(path for path in cache.folder.rglob("*") if path.is_dir())]
    for path in locked:
        path.chmod(0o500)
    try:
        report = cache.run("unprivileged")
    finally:
        for path in locked:
            path.chmod(0o700)
    assert report["compiled"] == 4
    assert report["log"].count("\n") == 1


@pytest.mark.parametrize("kind", ["file", "dangling link", "below a file"])
def test_folder_that_cannot_be_made_is_one_line_of_log(cache: Any, tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "taken"
    if kind == "dangling link":
        folder.symlink_to(tmp_path / "nowhere" / "at all")
    else:
        folder.write_text("")
    report = cache.run(folder=folder / "deeper" if kind == "below a file" else folder)
    assert report["compiled"] == 8
    assert report["log"].count("\n") == 1


def test_link_in_place_of_the_inner_folder_is_not_followed(cache: Any, tmp_path: Path) -> None:
    cache.run()
    inner = next(cache.folder.glob("kernels-*"))
    inner.rename(tmp_path / "elsewhere")
    inner.symlink_to(tmp_path / "elsewhere")
    report = cache.run()
    assert (report["compiled"], report["loaded"]) == (8, 0)


def test_full_disk_is_one_line_of_log(cache: Any) -> None:
    cache.run(offline_cache=False)
    report = cache.run("full")
    assert report["compiled"] == 8
    assert report["log"].count("\n") == 1
    assert not cache.entries()
    assert not list(cache.folder.rglob("new.*"))
    assert cache.run()["compiled"] == 8


def test_size_stays_bounded(cache: Any) -> None:
    limit = 60_000
    for factor in range(12):
        cache.run(f"factor={factor}", "all", offline_cache_max_size_of_files=limit)
    sizes = [path.stat().st_size for path in cache.entries()]
    assert 0 < sum(sizes) < 3 * limit


def test_processes_on_a_cold_folder_compile_each_kernel_once(cache: Any) -> None:
    processes = [cache.start() for _ in range(6)]
    outputs = [process.communicate(timeout=100) for process in processes]
    assert all(process.returncode == 0 for process in processes), outputs
    compiled = sum(int(out.split('"compiled": ')[1].split(",")[0]) for out, _ in outputs)
    assert compiled == 8


def test_killed_processes_leave_nothing_wrong(cache: Any) -> None:
    random.seed(5)
    for _ in range(12):
        processes = [cache.start() for _ in range(2)]
        time.sleep(random.uniform(0.05, 0.4))
        for process in processes:
            process.send_signal(signal.SIGKILL)
            process.communicate()
    began = time.monotonic()
    cache.run()
    assert time.monotonic() - began < 20
    assert cache.run()["compiled"] == 0


def test_gradient_that_is_found_by_its_code_uses_what_the_call_overwrote(tmp_path):
    def derive() -> list[float]:
        qd.init(arch=qd.cpu, offline_cache=True, offline_cache_file_path=str(tmp_path), log_level="error")
        factor = {object(): 2.0}  # no path leads to its value
        x, loss = (qd.ndarray(qd.f64, shape=size, needs_grad=True) for size in (3, 1))
        x.fill(1.5)

        @qd.kernel
        def square(a: qd.types.ndarray()):
            for i in range(3):
                a[i] = a[i] * a[i] * qd.static(next(iter(factor.values())))

        @qd.kernel
        def total(a: qd.types.ndarray(), loss: qd.types.ndarray()):
            for i in range(3):
                loss[0] += a[i]

        with qd.ad.Tape(loss):
            square(x)
            square(x)
            total(x, loss)
        return x.grad.to_numpy().tolist()

    assert [derive(), derive()] == [[108.0] * 3] * 2
    qd.reset()

"""`qd.cache_info`, `qd.clear_cache` and `python -m quadrants cache`."""

import subprocess
import sys
from pathlib import Path

import pytest

import quadrants as qd


@pytest.fixture(autouse=True)
def runtime():
    yield
    qd.reset()


def double(x: float) -> float:
    """Compiles, or finds on disk, one kernel."""

    @qd.kernel
    def k(x: qd.f32) -> qd.f32:
        return x * 2.0

    return k(x)


def test_what_lies_in_the_cache(tmp_path: Path):
    qd.init(offline_cache_file_path=str(tmp_path), offline_cache_max_size_of_files=1 << 20)
    before = qd.cache_info()
    assert (before.folder, before.is_used, before.entries, before.nbytes, before.limit) == (str(tmp_path), True, 0, 0, 1 << 20)
    assert double(2.0) == 4.0
    made = qd.cache_info()
    assert made.entries == len([path for path in tmp_path.glob("kernels-*/??/*") if path.is_file()]) >= 1
    assert made.nbytes > 100 and made.compiled == before.compiled + 1 and made.loaded == before.loaded
    qd.init(offline_cache_file_path=str(tmp_path))
    start = qd.cache_info()
    assert double(3.0) == 6.0
    found = qd.cache_info()
    assert (found.entries, found.loaded - start.loaded, found.compiled - start.compiled) == (made.entries, 1, 0)
    assert str(found).startswith(f"{tmp_path}: {made.entries} entries")


def test_a_cleared_cache_is_filled_again(tmp_path: Path):
    qd.init(offline_cache_file_path=str(tmp_path))
    double(2.0)
    count = qd.cache_info().entries
    assert qd.clear_cache() == count and qd.cache_info().entries == 0 and qd.clear_cache() == 0
    assert double(2.0) == 4.0  # a new kernel object: it is compiled again
    assert qd.cache_info().entries == count


def test_a_cache_that_is_off_is_not_used(tmp_path: Path):
    qd.init(offline_cache=False, offline_cache_file_path=str(tmp_path))
    double(2.0)
    assert not qd.cache_info().is_used and qd.cache_info().entries == 0


def test_the_command_shows_and_clears(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("QD_OFFLINE_CACHE_FILE_PATH", str(tmp_path))
    qd.init()
    double(2.0)
    count = qd.cache_info().entries

    def run(*words: str) -> str:
        return subprocess.run([sys.executable, "-m", "quadrants", "cache", *words], capture_output=True, text=True, check=True).stdout

    assert run("info").startswith(f"{tmp_path}: {count} entries")
    assert run("clear").splitlines()[0] == f"{count} entries removed"
    assert qd.cache_info().entries == 0
    with pytest.raises(subprocess.CalledProcessError):
        run("polish")


@pytest.mark.parametrize("policy", ["lru", "fifo"])
def test_the_cache_is_within_its_limit_after_a_reset(tmp_path: Path, policy: str):
    limit = 10_000
    qd.init(offline_cache_file_path=str(tmp_path), offline_cache_max_size_of_files=limit, offline_cache_cleaning_policy=policy)
    for number in range(8):
        qd.kernel_from_source(f"def k() -> qd.i32:\n    return {number}\n")()
    assert qd.cache_info().nbytes > limit
    qd.reset()
    sizes = [path.stat().st_size for path in tmp_path.glob("kernels-*/??/*")]
    assert 0 < sum(sizes) <= limit


def test_without_a_runtime_the_cache_is_the_one_that_would_be_used(monkeypatch: pytest.MonkeyPatch):
    qd.reset()
    assert qd.cache_info().is_used
    monkeypatch.setenv("QD_OFFLINE_CACHE", "0")
    assert not qd.cache_info().is_used

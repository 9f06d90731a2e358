"""Ranks that die, that are slow, and that share a cache: nothing waits forever, and nothing is damaged."""

import os
import re
import subprocess
import sys
from pathlib import Path

from rank_processes import get_environment, run_ranks

ROOT = Path(__file__).resolve().parents[3]


def test_a_rank_that_ends_is_reported_by_the_others():
    [[message]] = run_ranks(2, ("die_in_an_exchange",))
    assert re.match(r"rank 0 of 2: torch.distributed reports: .*(closed|reset)", message)


def test_ranks_wait_for_one_that_compiles_slowly():
    [[alone]], [results] = run_ranks(1, ("heat", 24, 10)), run_ranks(2, ("compile_slowly",))
    assert results == [alone, None]


def test_each_kernel_is_compiled_by_one_of_eight_ranks(tmp_path):
    [cold] = run_ranks(8, ("count_compilations", str(tmp_path)))
    assert {entries for _, entries in cold} == {sum(count for count, _ in cold)}  # two ranks would store the same code in one file
    [warm] = run_ranks(8, ("count_compilations", str(tmp_path)))
    assert [count for count, _ in warm] == [0] * 8


def test_ranks_that_are_killed_leave_states_and_cache_intact():
    command = [sys.executable, "-m", "tests.python.distributed.kill_ranks", "--runs", "2", "--seed", "3"]
    done = subprocess.run(command, cwd=ROOT, env=get_environment(), capture_output=True, text=True, timeout=200)
    assert done.returncode == 0 and "2 runs of 2 ranks" in done.stdout, done.stdout + done.stderr


def test_a_file_that_another_host_is_writing_into_the_cache_is_left_alone(tmp_path):
    # A process of the same number on another host has the same kernels, and names its files alike.
    script = """
import os, pathlib, sys
import quadrants as qd
folder = pathlib.Path(sys.argv[1]) / "kernels-1"
names = [folder / f"{first:02x}" / f"new.{os.getpid()}.{number}" for first in range(256) for number in range(3)]
for name in names:
    name.parent.mkdir(parents=True, exist_ok=True)
    name.write_text("half of an entry")
os.chmod(folder, 0o700)
qd.init(arch=qd.cpu, offline_cache_file_path=sys.argv[1])
@qd.kernel
def number() -> qd.i32:
    return 3
assert number() == 3 and qd.cache_info().compiled == 1
assert all(name.read_text() == "half of an entry" for name in names)
"""
    (tmp_path / "script.py").write_text(script)
    done = subprocess.run(
        [sys.executable, tmp_path / "script.py", tmp_path / "cache"], env=get_environment(), capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert len([path for path in os.scandir(tmp_path / "cache" / "kernels-1") if path.is_dir()]) == 256

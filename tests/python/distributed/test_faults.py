"""Ranks that die, that are slow, and that share a cache: nothing waits forever, and nothing is damaged."""

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

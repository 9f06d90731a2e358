"""Random programs give the same bits compiled and interpreted."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("first", range(0, 1200, 300))
def test_random_programs_agree_with_the_interpreter(first):
    command = [sys.executable, "-m", "tests.python.fuzz", "--count", "300", "--seed", str(first)]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=3600)
    assert process.returncode == 0, process.stdout + process.stderr[-2000:]

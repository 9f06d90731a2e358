"""Files of other suites on the Vulkan device, with spirv-val on every kernel. `./dev nightly vulkan-suites` runs the suites whole."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.python.vulkan.vulkan_device import find_absence, needs_validator

ROOT = Path(__file__).parents[3]
FILES = [
    "simt/test_blocks.py",
    "simt/test_subgroups.py",
    "language/test_checkpoints.py",
    "language/test_expressions.py",
    "language/test_graphs.py",
    "language/test_loops.py",
    "language/test_vectors.py",
]


@needs_validator
@pytest.mark.parametrize("name", FILES)
def test_kernels_of_other_suites_are_valid_and_right(name: str) -> None:
    if absence := find_absence():
        pytest.skip(absence)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--spirv-val", f"tests/python/{name}"]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, "QD_ARCH": "vulkan"}, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]

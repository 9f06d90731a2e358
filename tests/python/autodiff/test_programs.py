"""A slice of the random differentiable programs; `python -m tests.python.autodiff.compare_programs` runs more."""

from __future__ import annotations

from pathlib import Path

import compare_programs
import pytest
from programs import Program

import quadrants as qd

pytestmark = pytest.mark.needs("f64")


@pytest.mark.parametrize("seed", range(8))
def test_gradients_of_a_random_program(seed: int, tmp_path: Path):
    path = tmp_path / f"program_{seed}.py"
    path.write_text(Program(seed).text)
    verdict, text = compare_programs.compare(path, seed, [qd.cpu])
    assert not verdict, f"{text}\n{path.read_text()}"

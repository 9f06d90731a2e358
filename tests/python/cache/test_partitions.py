"""Parts of a kernel on disk: after an edit of one loop only its part is compiled, and the result is that of the edited kernel."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

STEPS = 400
HEAD = """
import json, sys
import quadrants as qd
qd.init(arch=qd.cpu, **json.loads(sys.argv[1]))
x = qd.field(qd.f32, 64)

@qd.kernel
def work() -> qd.f32:
"""
LOOP = f"""    for i in x:
        value = x[i] * {{factor}}
        for step in qd.static(range({STEPS})):
            value = value * 0.5 + qd.f32(step % 7)
        x[i] = value
"""
TAIL = """    return x[5]

x.fill(1.0)
result = work()
version = qd.compile_report()[-1]
print(json.dumps([result, [name for name, _ in version.stages]]))
"""


def compute(factors: list[float]) -> float:
    x = 1.0
    for factor in factors:
        value = x * factor
        for step in range(STEPS):
            value = value * 0.5 + step % 7
        x = value
    return x


class Program:
    def __init__(self, folder: Path):
        self.folder = folder

    def run(self, factors: list[float], **options: Any) -> str:
        """Compiles one loop for each factor, checks the result, and returns the stage that says what became of the partitions."""
        program = self.folder / "program.py"
        program.write_text(HEAD + "".join(LOOP.format(factor=factor) for factor in factors) + TAIL)
        chosen = {"offline_cache_file_path": str(self.folder / "cache"), "piece_size": 0, **options}
        done = subprocess.run([sys.executable, str(program), json.dumps(chosen)], capture_output=True, text=True, timeout=200)
        assert done.returncode == 0, done.stderr
        result, stages = json.loads(done.stdout)
        assert result == pytest.approx(compute(factors), rel=1e-5)
        return next((stage for stage in stages if "part" in stage), "")


def count(stage: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d+) partitions, (\d+) of them compiled before", stage)
    assert found, stage
    return int(found[1]), int(found[2])


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path)


FACTORS = [1 + index / 8 for index in range(12)]


def test_an_edited_loop_is_compiled_and_no_other(program: Program):
    partitions, found = count(program.run(FACTORS))
    assert partitions >= 4 and found == 0
    edited = FACTORS.copy()
    edited[6] = 3.25
    assert count(program.run(edited)) == (partitions, partitions - 1)
    # The first kernel is still there, as a whole.
    assert program.run(FACTORS) == ""


def test_an_added_loop_leaves_the_partitions_before_it(program: Program):
    partitions, _ = count(program.run(FACTORS))
    more, found = count(program.run([*FACTORS, 0.75]))
    assert more >= partitions and found >= partitions - 2


@pytest.mark.parametrize("options", [{"fast_math": False}, {"opt_level": 0}])
def test_partitions_belong_to_the_options_they_were_compiled_with(program: Program, options: dict[str, Any]):
    program.run(FACTORS)
    assert count(program.run(FACTORS, **options))[1] == 0


def test_a_damaged_partition_is_compiled_again(program: Program):
    partitions, _ = count(program.run(FACTORS))
    for entry in (program.folder / "cache").rglob("*"):
        if entry.is_file() and entry.stat().st_size > 100:
            content = bytearray(entry.read_bytes())
            content[len(content) // 2] ^= 1
            entry.write_bytes(content)
    assert count(program.run(FACTORS)) == (partitions, 0)


def test_without_a_cache_nothing_is_kept(program: Program):
    for _ in range(2):
        assert program.run(FACTORS, offline_cache=False) in ("partitions", "")
    assert not (program.folder / "cache").exists()

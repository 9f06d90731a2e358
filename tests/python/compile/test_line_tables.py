"""Compiled kernels with the lines of their source, for debuggers and profilers (P16)."""

import inspect
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import quadrants as qd

DWARFDUMP = "/usr/lib/llvm-22/bin/llvm-dwarfdump"


@pytest.fixture(autouse=True)
def _reset() -> Iterator[None]:
    yield
    qd.reset()


@qd.func
def grow(value):
    for _ in range(5):
        value = value * value + 0.25
    return value


@qd.kernel
def step(values: qd.types.ndarray(dtype=qd.f32, ndim=1)):
    for i in values:
        values[i] = grow(values[i])


def list_lines(library: Path) -> dict[str, set[int]]:
    """The lines that have code, by file."""
    table = subprocess.run([DWARFDUMP, "--debug-line", str(library)], capture_output=True, text=True, check=True).stdout
    names: dict[str, str] = {}
    lines: dict[str, set[int]] = {}
    number = ""
    for row in table.splitlines():
        words = row.split()
        if row.startswith("file_names["):
            number = row.partition("[")[2].partition("]")[0].strip()
        elif words[:1] == ["name:"]:
            names[number] = words[1].strip('"')
        elif row.startswith("0x"):
            lines.setdefault(names[words[3]], set()).add(int(words[1]))
    return lines


def find_line(function: Any, text: str) -> int:
    source, first = inspect.getsourcelines(function)
    return first + next(number for number, line in enumerate(source) if text in line)


@pytest.mark.parametrize("options", [{}, {"num_compile_threads": 1}, {"piece_size": 3}, {"debug": True}, {"opt_level": 0}], ids=str)
def test_libraries_know_the_lines_of_kernels_and_functions(tmp_path: Path, options: dict[str, Any]) -> None:
    qd.init(arch=qd.cpu, offline_cache=False, line_tables=str(tmp_path / "kernels"), **options)
    values = np.linspace(0, 1, 100, dtype=np.float32)
    wanted = values.copy()
    for _ in range(5):
        wanted = wanted * wanted + np.float32(0.25)
    step(values)
    np.testing.assert_allclose(values, wanted, rtol=1e-5)
    (library,) = (tmp_path / "kernels").iterdir()
    assert library.name.startswith("step-") and library.suffix == ".so"
    assert str(library) in Path("/proc/self/maps").read_text()
    lines = list_lines(library)[Path(__file__).name]
    assert {find_line(grow, "value * value"), find_line(step, "values[i] = ")} <= lines


def test_kernels_of_the_cache_have_their_lines_too(tmp_path: Path) -> None:
    for folder in ("first", "second"):
        qd.init(arch=qd.cpu, offline_cache_file_path=str(tmp_path / "cache"), line_tables=str(tmp_path / "kernels"))
        step(np.ones(4, dtype=np.float32))
        (library,) = (tmp_path / "kernels").iterdir()
        assert list_lines(library), folder
        library.unlink()
        qd.reset()


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    qd.init(arch=qd.cpu, offline_cache=False, line_tables=str(tmp_path / "file"))
    with pytest.raises(qd.QuadrantsRuntimeError, match="line_tables: .*file/step-.* cannot be written: Not a directory"):
        step(np.ones(4, dtype=np.float32))
    qd.init(arch=qd.cpu, offline_cache=False)
    step(np.ones(4, dtype=np.float32))

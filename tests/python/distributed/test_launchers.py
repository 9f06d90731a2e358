"""What the variables of launchers say, without any launcher."""

import subprocess
import sys

import pytest
from rank_processes import get_environment

from quadrants.distributed.launchers import find_first_host, find_launch

TORCHRUN = {"RANK": "3", "WORLD_SIZE": "4", "MASTER_ADDR": "node1", "MASTER_PORT": "29500"}
OPEN_MPI = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}
SRUN = {
    "SLURM_PROCID": "5", "SLURM_STEP_NUM_TASKS": "8", "SLURM_STEP_ID": "2", "SLURM_JOB_ID": "1000",
    "SLURM_STEP_NODELIST": "gpu[07-08,11],other",
}  # fmt: skip


@pytest.mark.parametrize(
    "variables,expected",
    [
        ({}, ("", "none", 0, 1)),
        (TORCHRUN, ("torchrun", "torch", 3, 4)),
        (OPEN_MPI, ("mpirun", "mpi", 1, 2)),
        ({"PMI_RANK": "0", "PMI_SIZE": "6"}, ("mpirun", "mpi", 0, 6)),
        (SRUN, ("srun", "torch", 5, 8)),
        (SRUN | {"PMI_RANK": "5", "PMI_SIZE": "8"}, ("srun", "torch", 5, 8)),  # srun offers its ranks to MPI, too
        (SRUN | {"PMI_RANK": "9", "PMI_SIZE": "16"}, ("mpirun", "mpi", 9, 16)),  # mpirun started its daemons by srun
        (SRUN | OPEN_MPI, ("mpirun", "mpi", 1, 2)),
        (SRUN | TORCHRUN, ("torchrun", "torch", 3, 4)),
        ({key: value for key, value in SRUN.items() if key != "SLURM_STEP_ID"}, ("", "none", 0, 1)),  # a script of sbatch
        (SRUN | {"SLURM_STEP_NUM_TASKS": "1", "SLURM_PROCID": "0"}, ("", "none", 0, 1)),
    ],
)
def test_the_innermost_launcher_counts(variables, expected):
    assert find_launch(variables)[:4] == expected


def test_ranks_of_srun_meet_on_the_first_node():
    assert find_launch(SRUN).address == f"tcp://gpu07:{20_000 + (31_000 + 2) % 20_000}"
    assert find_launch(SRUN | {"MASTER_ADDR": "head", "MASTER_PORT": "77"}).address == "tcp://head:77"
    assert find_launch(SRUN | {"SLURM_STEP_ID": "3"}).address != find_launch(SRUN).address


@pytest.mark.parametrize(
    "nodes,first", [("a", "a"), ("a,b", "a"), ("n[3-7]", "n3"), ("n[03,09]-ib,x", "n03-ib"), ("node-1,node-2", "node-1")]
)
def test_the_first_host_of_a_list_of_nodes(nodes, first):
    assert find_first_host(nodes) == first


@pytest.mark.parametrize(
    "hidden,variables,text",
    [
        ("mpi4py", OPEN_MPI, "mpirun started this process as rank 1 of 2, but mpi4py is not installed: pip install mpi4py"),
        ("torch", TORCHRUN, "torchrun started this process as rank 3 of 4, but torch is not installed: pip install torch"),
    ],
)
def test_an_engine_that_is_not_installed_is_named(hidden, variables, text):
    script = f"import sys; sys.modules[{hidden!r}] = None\nimport quadrants as qd\nqd.distributed.init(arch=qd.cpu)"
    result = subprocess.run([sys.executable, "-c", script], env=get_environment(**variables), capture_output=True, text=True, timeout=60)
    assert result.returncode == 1 and text in result.stderr


def test_an_engine_that_nobody_started_is_refused():
    script = "import quadrants as qd\nqd.distributed.init(arch=qd.cpu, engine='torch')"
    result = subprocess.run([sys.executable, "-c", script], env=get_environment(), capture_output=True, text=True, timeout=60)
    assert result.returncode == 1 and "nor did torchrun or srun start it" in result.stderr
    script = "import quadrants as qd\nqd.distributed.init(arch=qd.cpu, engine='nccl')"
    result = subprocess.run([sys.executable, "-c", script], env=get_environment(), capture_output=True, text=True, timeout=60)
    assert result.returncode == 1 and 'engine is "torch", "mpi" or "none"' in result.stderr


def test_a_gpu_has_one_rank_unless_more_are_allowed():
    from quadrants._base.errors import QuadrantsRuntimeError
    from quadrants.distributed.world import _check_devices

    places = ["host/1 0000:01:00.0", "host/1 0000:02:00.0", "host/1 0000:01:00.0", "other/2 0000:01:00.0", ""]
    _check_devices(places, 2)
    with pytest.raises(
        QuadrantsRuntimeError, match=r"ranks 0, 2 share the GPU 0000:01:00.0 of host, and at most 1 may.*ranks_per_device=2"
    ):
        _check_devices(places, 1)


def test_the_driver_tells_how_many_gpus_there_are_and_which_one_is_used(tmp_path, monkeypatch):
    from quadrants._base import options
    from quadrants.distributed import world

    source = """
    #include <stdio.h>
    static int ready;
    int cuInit(unsigned flags) { ready = 1; return 0; }
    int cuDeviceGetCount(int *count) { if (!ready) return 3; *count = 4; return 0; }
    int cuDeviceGetPCIBusId(char *text, int size, int device) { snprintf(text, size, "0000:%02d:00.0", device); return 0; }
    """
    library = tmp_path / "driver.so"
    subprocess.run(["clang-22", "-shared", "-fPIC", "-x", "c", "-", "-o", library], input=source, text=True, check=True)
    values = {"cuda_driver": str(library), "arch": "cuda", "device_id": 3}
    assert world._count_devices("cuda", values) == 4
    monkeypatch.setattr(options, "current", values)
    assert world._identify_device() == "0000:03:00.0"

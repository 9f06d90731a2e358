"""Which launcher started this process, by the variables that it set, and how its ranks find each other."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

# Rank and number of ranks, as Open MPI, and MPICH or Intel MPI, tell them.
_OPEN_MPI = ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE")
_PMI = ("PMI_RANK", "PMI_SIZE")
_SLURM = ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS")


class Launch(NamedTuple):
    """What the variables of a launcher say."""

    launcher: str
    """Its name, for messages; "" if the process was started alone."""
    engine: str
    """"torch", "mpi" or "none"."""
    rank: int = 0
    size: int = 1
    address: str = "env://"
    """Where the ranks of torch.distributed meet."""


def find_launch(variables: Mapping[str, str]) -> Launch:
    """Returns how this process was started. Variables of an outer launcher, such as Slurm around mpirun, do not count."""
    if "RANK" in variables and "WORLD_SIZE" in variables and "MASTER_ADDR" in variables:
        return Launch("torchrun", "torch", int(variables["RANK"]), int(variables["WORLD_SIZE"]))
    if (found := _read(variables, _OPEN_MPI)) is not None:
        return Launch("mpirun", "mpi", *found)
    # A script that sbatch runs has the variables of the job, but no step; only srun makes ranks.
    slurm = _read(variables, _SLURM) if "SLURM_STEP_ID" in variables else None
    pmi = _read(variables, _PMI)
    if pmi is not None and (slurm is None or slurm[1] != pmi[1]):  # mpirun starts one process on each node through srun
        return Launch("mpirun", "mpi", *pmi)
    if slurm is not None and slurm[1] > 1:
        return Launch("srun", "torch", *slurm, _find_slurm_address(variables))
    return Launch("", "none")


def _read(variables: Mapping[str, str], names: tuple[str, str]) -> tuple[int, int] | None:
    return (int(variables[names[0]]), int(variables[names[1]])) if all(name in variables for name in names) else None


def _find_slurm_address(variables: Mapping[str, str]) -> str:
    """Returns an address on the first node of the step, with a port that depends on job and step, so that jobs on one node differ."""
    host = variables.get("MASTER_ADDR") or find_first_host(variables.get("SLURM_STEP_NODELIST", "localhost"))
    own = int(variables.get("SLURM_JOB_ID", "0")) * 31 + int(variables["SLURM_STEP_ID"])
    return f"tcp://{host}:{variables.get('MASTER_PORT') or 20_000 + own % 20_000}"


def find_first_host(nodes: str) -> str:
    """Returns the first host of Slurm's short form of a list, such as node[03-05,9],other."""
    match = re.match(r"([^,\[]*)(?:\[([^\],-]+)[^\]]*\]([^,]*))?", nodes)
    return "".join(part or "" for part in match.groups()) if match else nodes


__all__ = ["Launch", "find_first_host", "find_launch"]
__dir__ = __all__.copy

"""Runs functions of rank_programs.py in several processes: `run_ranks(2, ("heat", 24, 10))` returns what each rank returned.

The command of a launcher would import torch in every process, which takes seconds. Here one process imports it and forks the ranks, with
the variables that torchrun sets. `python rank_processes.py RANKS FOLDER [[FUNCTION, ARGUMENT, ...], ...]` is that process. Several calls
in one run cost little more than one, and so do several numbers of ranks, one after the other ("1,2,3"): `run_groups([1, 2, 3], ...)`.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
TIMEOUT = 120


def find_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def get_environment(**more: str) -> dict[str, str]:
    """Variables without those of launchers, with which the ranks find this machine's loopback."""
    names = ("RANK", "WORLD_SIZE", "MASTER_", "OMPI_", "PMI", "SLURM_")
    plain = {name: value for name, value in os.environ.items() if not name.startswith(names)}
    paths = [str(HERE.parents[2] / "python"), str(HERE.parents[2] / "examples"), plain.get("PYTHONPATH", "")]
    return {**plain, "PYTHONPATH": os.pathsep.join(paths), "GLOO_SOCKET_IFNAME": "lo", **more}


def run_ranks(ranks: int, *calls: tuple[Any, ...], launcher: Sequence[str] = (), **variables: str) -> list[Any]:
    """Returns for each call the results of the ranks; raises `AssertionError` with their output if one failed. A rank that
    ended without an error before it returned is left out.

    `launcher` is a command that starts the ranks, in place of forks.
    """
    return run_groups([ranks], *calls, launcher=launcher, **variables)[0]


def run_groups(groups: Sequence[int], *calls: tuple[Any, ...], launcher: Sequence[str] = (), **variables: str) -> list[list[Any]]:
    """Returns what `run_ranks` returns, for each of several numbers of ranks."""
    folder = tempfile.mkdtemp()
    try:
        numbers = str(-groups[0]) if launcher else ",".join(map(str, groups))
        command = [*launcher, sys.executable, __file__, numbers, folder, json.dumps(calls)]
        process = subprocess.run(command, env=get_environment(**variables), capture_output=True, text=True, timeout=TIMEOUT)
        assert process.returncode == 0, f"{process.stdout}\n{process.stderr}"
        found = []
        for ranks in groups:
            files = [path for rank in range(ranks) if (path := Path(folder, str(ranks), f"{rank}.json")).exists()]
            told = [json.loads(path.read_text()) for path in files]
            found.append([list(results) for results in zip(*told, strict=True)])
        return found
    finally:
        shutil.rmtree(folder)


def run_as_rank(folder: Path, calls: list[list[Any]]) -> int:
    """The life of a rank; returns its exit status."""
    try:
        import rank_programs

        rank = os.environ.get("RANK") or os.environ.get("OMPI_COMM_WORLD_RANK") or os.environ.get("PMI_RANK") or "0"
        results = [getattr(rank_programs, program)(*arguments) for program, *arguments in calls]
        folder.mkdir(exist_ok=True)
        (folder / f"{rank}.json").write_text(json.dumps(results))
        return 0
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


def main() -> None:
    groups, folder, calls = [int(ranks) for ranks in sys.argv[1].split(",")], Path(sys.argv[2]), json.loads(sys.argv[3])
    if groups[0] < 0:  # a rank that a launcher started
        sys.exit(run_as_rank(folder / str(-groups[0]), calls))
    if max(groups) > 1:
        import torch.distributed  # noqa: F401 (once, before the processes part)
    import rank_programs  # noqa: F401

    sys.exit(any([run_group(ranks, folder / str(ranks), calls) for ranks in groups]))


def run_group(ranks: int, folder: Path, calls: list[list[Any]]) -> bool:
    """Forks the ranks and waits for them; returns whether one failed."""
    port, children = find_port(), []
    for rank in range(ranks):
        child = os.fork()
        if child == 0:
            if ranks > 1:
                os.environ.update(RANK=str(rank), WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
            os._exit(run_as_rank(folder, calls))
        children.append(child)
    return any([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children])


if __name__ == "__main__":
    signal.alarm(TIMEOUT)
    main()

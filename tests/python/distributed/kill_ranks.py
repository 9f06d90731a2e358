"""Kills ranks at random moments: `python -m tests.python.distributed.kill_ranks --runs 200 [--seed 1] [--ranks 2]
[--arch cuda [--connecting]]`, which needs a GPU for each rank.

The ranks simulate heat, save the state after every third step, and go on from a saved state if there is one. In half of the runs their
disk cache is new, so that they are killed while they compile, too. After each run

- no rank lives longer than the engine lets it, and the ones that were not killed say why they ended, or were done;
- the saved state is one that the simulation has after some step, to the last bit;
- a process that uses the disk cache finds nothing damaged in it, and computes what it should.
"""

from __future__ import annotations

import argparse
import faulthandler
import hashlib
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[2] / "examples")]

from rank_processes import find_port  # noqa: E402

SHAPE, STEPS, SAVED, TIMEOUT = (12, 10, 8), 24, 3, 8
# Seconds that a rank may live after another one is dead. Gloo tries five times to connect with a rank that said where it listens and died.
LONGEST = 5 * TIMEOUT + 4


def digest(array: Any) -> str:
    return hashlib.sha256(array.tobytes()).hexdigest()


def simulate(folder: Path, cache: Path, arch: str) -> None:
    """What a rank does."""
    import heat as example

    import quadrants as qd

    faulthandler.dump_traceback_later(LONGEST - 1)  # tells where a rank hangs
    qd.distributed.init(arch=arch, log_level="warn", timeout=TIMEOUT, offline_cache_file_path=str(cache), cpu_max_num_threads=1)
    heat = example.Heat(SHAPE)
    if (folder / "state").exists():
        heat.part.load(folder / "state", {"temperature": heat.old})
        heat.halos[id(heat.old)].exchange()
    for step in range(STEPS):
        if step % SAVED == 0:
            heat.part.save(folder / "state", {"temperature": heat.old})
        heat.step()
        (folder / f"connected{os.environ['RANK']}").touch()


def list_states(folder: Path, cache: Path, arch: str) -> None:
    """Writes the digests of all states that the simulation may save."""
    import heat as example

    import quadrants as qd

    qd.distributed.init(arch=arch, offline_cache_file_path=str(cache), cpu_max_num_threads=1)
    heat, digests = example.Heat(SHAPE), []
    for _ in range(STEPS * 100):
        digests.append(digest(heat.part.gather(heat.old)))
        heat.step()
    (folder / "digests").write_text(json.dumps(digests))


def check(folder: Path, cache: Path, arch: str) -> None:
    """Uses the cache and reads the state, and writes what it found."""
    import heat as example
    import numpy as np

    import quadrants as qd

    qd.distributed.init(arch=arch, log_level="warn", offline_cache_file_path=str(cache), cpu_max_num_threads=1)
    result = {"heat": digest(example.run(SHAPE, 3)), "state": None}
    if (folder / "state").exists():
        result["state"] = digest(np.ascontiguousarray(qd.load(folder / "state")["temperature"].to_numpy()))
    (folder / "found").write_text(json.dumps(result))


def fork(work: Callable[..., None], log: Path, *arguments: Any, **variables: str) -> int:
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.environ.update(variables)
        work(*arguments)
        status = 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def wait(child: int, seconds: float) -> int | None:
    """Returns the exit code of a child, or None if it still lives after so many seconds."""
    end = time.monotonic() + seconds
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > end:
            return None
        time.sleep(0.01)


class Campaign:
    def __init__(self, ranks: int, seed: int, folder: Path, arch: str, connecting: bool):
        self.arch, self.ranks, self.rng, self.folder, self.longest = arch, ranks, random.Random(seed), folder, 0.0
        self.waits = arch == "cuda" and not connecting  # until all ranks have connected
        self.cache, self.problems, self.killed = folder / "cache", list[str](), 0
        child = fork(list_states, folder / "log", folder, self.cache, arch)
        assert wait(child, 100) == 0, (folder / "log").read_text()
        self.digests = json.loads((folder / "digests").read_text())
        began = time.monotonic()
        assert [wait(rank, 100) for rank in self.start(self.cache)] == [0] * ranks, self.read_logs()
        self.duration = time.monotonic() - began

    def start(self, cache: Path) -> list[int]:
        place = {"WORLD_SIZE": str(self.ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(find_port())}
        logs = [self.folder / f"log{rank}" for rank in range(self.ranks)]
        for rank in range(self.ranks):
            (self.folder / f"connected{rank}").unlink(missing_ok=True)
        return [fork(simulate, log, self.folder, cache, self.arch, **place, RANK=str(rank)) for rank, log in enumerate(logs)]

    def read_logs(self) -> str:
        return "\n".join(path.read_text() for path in sorted(self.folder.glob("log*")))

    def run(self, number: int) -> None:
        is_cold = self.rng.random() < 0.5
        cache = self.folder / f"cache{number}" if is_cold else self.cache
        if self.rng.random() < 0.2:
            (self.folder / "state").unlink(missing_ok=True)
        children = self.start(cache)
        # NCCL connects at the first message, and may wait without a limit for a rank that dies meanwhile; Gloo does not.
        while self.waits and not all((self.folder / f"connected{rank}").exists() for rank in range(self.ranks)):
            time.sleep(0.01)
        time.sleep(self.rng.uniform(0.0, (4.0 if is_cold else 1.1) * (0.1 if self.waits else self.duration)))
        victim = self.rng.randrange(self.ranks)
        os.kill(children[victim], signal.SIGKILL)
        began = time.monotonic()
        for rank, child in enumerate(children):
            status = wait(child, LONGEST)
            log = (self.folder / f"log{rank}").read_text()
            if status is None:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                self.problems.append(f"run {number}: rank {rank} hangs\n{log}")
            elif rank == victim:
                self.killed += status == -signal.SIGKILL
            elif status != 0 and "torch.distributed" not in log and "ProcessGroupNCCL" not in log and "connect" not in log.lower():
                self.problems.append(f"run {number}: rank {rank} does not say why it ended with {status}\n{log}")
            if "damaged" in log:
                self.problems.append(f"run {number}: rank {rank} found a damaged entry\n{log}")
        self.longest = max(self.longest, time.monotonic() - began)
        checked = wait(fork(check, self.folder / "log", self.folder, cache, self.arch), 100)
        log = (self.folder / "log").read_text()
        found = json.loads((self.folder / "found").read_text()) if checked == 0 else {}
        if checked != 0 or "damaged" in log or found["heat"] != self.digests[3] or found["state"] not in {None, *self.digests}:
            self.problems.append(f"run {number}: afterwards {found}\n{log}")
        if is_cold:
            shutil.rmtree(cache)


def run_campaign(runs: int, ranks: int, seed: int, arch: str = "cpu", connecting: bool = False) -> Campaign:
    import heat  # noqa: F401 (once, before the processes part)
    import torch.distributed  # noqa: F401

    folder = Path(tempfile.mkdtemp())
    try:
        campaign = Campaign(ranks, seed, folder, arch, connecting)
        for number in range(runs):
            campaign.run(number)
        return campaign
    finally:
        shutil.rmtree(folder)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--arch", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--connecting", action="store_true", help="kill ranks on GPUs also before they have connected")
    given = parser.parse_args()
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    campaign = run_campaign(given.runs, given.ranks, given.seed, given.arch, given.connecting)
    print("\n".join(campaign.problems))
    print(
        f"{given.runs} runs of {given.ranks} ranks, {campaign.killed} killed before they were done; {len(campaign.problems)} problems; "
        f"the others lived {campaign.longest:.1f} s at most, with a timeout of {TIMEOUT} s"
    )
    return bool(campaign.problems)


if __name__ == "__main__":
    sys.exit(main())

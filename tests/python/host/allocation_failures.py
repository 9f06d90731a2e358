"""Programs in which one allocation fails, in processes of their own.

Each position of a program is one process, a copy of one that has only imported the package: there the allocation with that number,
counted from where the program begins, gives nothing. A program ends with its result or with a MemoryError, and what it does once more with
memory is right. As a command:

    python -m tests.python.host.allocation_failures [program ...] [--every 10] [--offset 3] [--processes 16] [--position 17] [--seconds 60]

goes through every position (or every tenth, from the third on) of the programs, so many processes at a time, and lists what became of them;
a position alone shows where it is. `--from-then-on` fails all that follow, too. `--seconds` limits the time of each program, whose first
position not reached is then printed. It ends with the number of runs, and with status 1 unless every process went on.
"""

from __future__ import annotations

import argparse
import collections
import ctypes
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

# The C library ends a process that has no memory for the thread-local variables of a module in a new thread, or to note their destructors.
OF_THE_SYSTEM = ("cannot allocate memory for thread-local data", "failed to register TLS destructor")
OF_OTHERS = (
    "numpy",
    "without exception set",
    "without setting an exception",
    "can't allocate lock",
    "can't allocate read lock",
    "Cannot allocate memory",
    "cannot create shared object descriptor",
    "cannot open shared object file",
)
NOT_REACHED = "not reached in time"
BATCH = 40  # copies of one process
HANGS = 1000  # in place of the status of a process
ROOT = Path(__file__).resolve().parents[3]


class Outcome(NamedTuple):
    """What became of a program with one position failing."""

    position: int
    count: int
    text: str

    @property
    def is_right(self) -> bool:
        """Whether the process went on."""
        return self.text in ("right", "MemoryError", NOT_REACHED, *OF_THE_SYSTEM)


def build_library(folder: Path) -> Path:
    """The shared object that fails allocations; compiled by clang or the system's compiler."""
    compiler = shutil.which("clang-22") or shutil.which("cc")
    assert compiler is not None
    library = folder / "failing_allocations.so"
    source = Path(__file__).with_name("failing_allocations.c")
    subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    return library


def run(library: Path, cache: Path, program: str, position: int, fails_all: bool = False, shows_stack: bool = False) -> Outcome:
    """One process; the position 0 counts them."""
    (outcome,) = run_copies(library, cache, program, [position], fails_all, shows_stack)
    return outcome


def run_copies(
    library: Path, cache: Path, program: str, positions: Sequence[int], fails_all: bool = False, shows_stack: bool = False
) -> Iterator[Outcome]:
    """A process for each position: copies of one that has only imported the package."""
    path = os.pathsep.join([*filter(None, [os.environ.get("PYTHONPATH")]), str(ROOT)])
    environment = {**os.environ, "LD_PRELOAD": str(library), "PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "tests.python.host.allocation_failures", program]
    command += ["--in-process", str(cache), str(int(fails_all)), str(int(shows_stack)), *map(str, positions)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, cwd=ROOT)
    for line in done.stdout.splitlines():
        position, status, output, problems = json.loads(line)
        if shows_stack:
            print(problems)
        found = re.search(r"^(\d+) allocations: (.*)", output, re.M)
        if status == 0 and found:
            yield Outcome(position, int(found[1]), found[2])
        elif status == HANGS:
            yield Outcome(position, 0, "hangs")
        else:
            last = (problems.strip().splitlines() or [""])[-1]
            known = [text for text in OF_THE_SYSTEM if text in problems]
            yield Outcome(position, 0, known[0] if known else f"status {status}: {last}")


def sweep(
    library: Path, program: str, every: int, processes: int = 1, offset: int = 1, fails_all: bool = False, seconds: float = math.inf
) -> Iterator[Outcome]:
    """Positions of a program from `offset` on, `every` apart, as many as begin within so many seconds."""
    end = time.monotonic() + seconds

    def run_in_time(positions: Sequence[int]) -> list[Outcome]:
        if time.monotonic() > end:
            return [Outcome(position, 0, NOT_REACHED) for position in positions]
        return list(run_copies(library, Path(cache), program, positions, fails_all))

    with tempfile.TemporaryDirectory() as cache, ThreadPoolExecutor(processes) as pool:
        run(library, Path(cache), program, 0)  # fills the cache
        whole = run(library, Path(cache), program, 0)
        assert whole.text == "right", whole
        positions = range(offset, whole.count + 1, every)
        batches = [positions[first : first + BATCH] for first in range(0, len(positions), BATCH)]
        for outcomes in pool.map(run_in_time, batches):
            yield from outcomes


def list_programs(cache: str) -> dict[str, tuple[Callable[[], Any], Callable[[], Any]]]:
    """What is done before allocations fail, and what then."""
    import numpy as np

    import quadrants as qd

    array = qd.types.ndarray()

    @qd.kernel
    def add(a: array, value: qd.i32):
        for i in a:
            a[i] += value

    @qd.kernel
    def total(a: array, factor: qd.f32) -> qd.f32:
        found = 0.0
        for i in a:
            found += a[i] * factor
            a[i] = qd.sqrt(a[i])
        return found

    @qd.kernel
    def fails(a: array):
        for i in a:
            assert a[i] > 100, "too small"

    @qd.kernel
    def wrong(a: array):
        a[0] = no_such_name  # noqa: F821

    def start(**options: Any) -> None:
        qd.init(arch=qd.cpu, offline_cache_file_path=cache, cpu_max_num_threads=2, **options)

    def launch() -> None:
        numbers = np.arange(4096, dtype=np.int32)
        add(numbers, 3)
        assert (numbers == np.arange(4096) + 3).all()

    def start_and_launch() -> None:
        start()
        launch()

    def compile_it() -> None:
        assert total(np.ones(4096, np.float32), 2.0) == 8192

    def use_fields() -> None:
        plane, vectors = qd.field(qd.i32, (8, 8)), qd.Vector.field(3, qd.f32, 10)
        plane[1, 2] = 5
        assert plane[1, 2] == 5
        plane.fill(2)
        assert plane.to_numpy().sum() == 128
        vectors[0] = [1, 2, 3]
        assert vectors[0][1] == 2

    def use_ndarrays() -> None:
        numbers = qd.ndarray(qd.i32, 100)
        numbers[3] = 4
        assert numbers[3] == 4 and numbers[2:9].to_numpy().sum() == 4
        numbers.from_numpy(np.arange(100, dtype=np.int32))
        assert numbers.to_numpy().sum() == 4950

    def make_tape() -> None:
        start()
        x, loss = qd.field(qd.f32, 64, needs_grad=True), qd.field(qd.f32, (), needs_grad=True)

        @qd.kernel
        def square() -> None:
            for i in x:
                loss[None] += x[i] * x[i]

        def differentiate() -> None:
            with qd.ad.Tape(loss):
                square()
            assert (x.grad.to_numpy() == 6).all()

        x.fill(3.0)
        differentiate()
        taped.append(differentiate)

    def meet_errors() -> None:
        numbers = np.zeros(8, np.int32)
        for call in (lambda: fails(numbers), lambda: wrong(numbers), lambda: add("text", 1)):
            try:
                call()
            except (qd.QuadrantsRuntimeError, qd.QuadrantsCompilationError) as problem:
                if isinstance(problem, MemoryError):
                    raise
            else:
                raise AssertionError("no error")

    taped: list[Callable[[], None]] = []
    return {
        "init": (lambda: None, start),
        "reinit": (start_and_launch, start),
        "load": (lambda: (start_and_launch(), qd.reset(), start()), launch),
        "compile": (lambda: (start(offline_cache=False), launch()), compile_it),
        "launch": (start_and_launch, lambda: (launch(), launch())),
        "tape": (make_tape, lambda: taped[0]()),
        "fields": (start, use_fields),
        "ndarrays": (start, use_ndarrays),
        "first": (lambda: start(offline_cache=False), compile_it),  # loads the compiler
        "errors": (lambda: (start(offline_cache=False, debug=True), launch()), meet_errors),  # the compiler is loaded before
    }


PROGRAMS = ("init", "reinit", "load", "first", "compile", "launch", "tape", "fields", "ndarrays", "errors")


def is_for_memory(problem: BaseException | None) -> bool:
    """Whether an exception, or one that led to it, says that there was no memory."""
    while problem is not None:
        # NumPy, Python's own compiler and locks, and the system's loader have other words for it.
        is_unnamed = isinstance(problem, (SystemError, RuntimeError, ImportError)) and any(text in str(problem) for text in OF_OTHERS)
        if isinstance(problem, MemoryError) or is_unnamed:
            return True
        problem = problem.__cause__ or problem.__context__
    return False


def run_in_copies(cache: str, program: str, fails_all: int, shows_stack: int, *positions: int) -> None:
    """The part of the process that is copied: reports each position as a line of JSON."""
    prepare, body = list_programs(cache)[program]
    for position in positions:
        with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as problems:
            child = os.fork()
            if child == 0:
                os.dup2(output.fileno(), 1)
                os.dup2(problems.fileno(), 2)
                run_in_process(prepare, body, position, fails_all, shows_stack)
                sys.exit()
            status = wait_for(child)
            texts = []
            for file in (output, problems):
                file.seek(0)
                texts.append(file.read())
        print(json.dumps((position, status, *texts)), flush=True)


def wait_for(child: int) -> int:
    """The status of a process: negative for a signal, HANGS if it does not end."""
    end = time.monotonic() + 100
    while time.monotonic() < end:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return HANGS


def run_in_process(prepare: Callable[[], Any], body: Callable[[], Any], position: int, fails_all: int, shows_stack: int) -> None:
    """The part of a copy."""
    library = ctypes.CDLL(os.environ["LD_PRELOAD"])
    library.begin_failing.argtypes, library.end_failing.restype = [ctypes.c_long, ctypes.c_int, ctypes.c_int], ctypes.c_long
    prepare()
    text = "right"
    library.begin_failing(position, fails_all, shows_stack)
    try:
        body()
    except BaseException as problem:
        library.end_failing()
        text = "MemoryError" if is_for_memory(problem) else f"{type(problem).__name__}: {problem}".replace("\n", " / ")
    count = library.end_failing()
    try:
        body()
    except BaseException as problem:
        text += f", and then {type(problem).__name__}: {problem}".replace("\n", " / ")
    print(f"{count} allocations: {text}", flush=True)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("programs", nargs="*", default=PROGRAMS)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--offset", type=int, default=1)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--position", type=int)
    parser.add_argument("--seconds", type=float, default=math.inf)
    parser.add_argument("--from-then-on", action="store_true")
    parser.add_argument("--in-process", nargs="+", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.in_process:
        cache, *flags = given.in_process
        run_in_copies(cache, given.programs[0], *map(int, flags))
        return
    runs, are_right = 0, True
    with tempfile.TemporaryDirectory() as folder:
        library = build_library(Path(folder))
        for program in given.programs:
            if given.position is not None:
                run(library, Path(folder), program, 0)
                print(run(library, Path(folder), program, given.position, given.from_then_on, shows_stack=True))
                continue
            kinds = collections.defaultdict(list)
            for outcome in sweep(library, program, given.every, given.processes, given.offset, given.from_then_on, given.seconds):
                kinds[outcome.text].append(outcome.position)
                are_right &= outcome.is_right
            missing = kinds.pop(NOT_REACHED, [])
            if missing:
                print(f"{program}: {len(missing)} positions {NOT_REACHED}, from {missing[0]} on")
            found = sum(map(len, kinds.values()))
            runs += found
            print(f"{program}: {found} runs")
            for text, positions in sorted(kinds.items(), key=lambda item: -len(item[1])):
                print(f"  {len(positions):5} {text} {positions[:12]}", flush=True)
    if given.position is None:
        print(f"{runs} runs: {'every process went on' if are_right else 'NOT RIGHT'}")
    sys.exit(0 if are_right else 1)


if __name__ == "__main__":
    main()

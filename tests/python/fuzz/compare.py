"""Runs programs on both backends and compares every bit; makes failing programs smaller."""

from __future__ import annotations

import importlib.util
import itertools
import linecache
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import warnings
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np

from .generator import HAS_F64
from .program import Program, Statement
from .surroundings import ProgramGenerator

ROOT = Path(__file__).parents[3]
# FUZZ_ARCH names another processor than the CPU for compiled programs.
BACKENDS = (os.environ.get("FUZZ_ARCH", "cpu"), "python")
# Seconds of processor time that the interpreter may take for a program: nested loops around calls can be a million times slower there.
TIME_LIMIT = 20
TOO_SLOW = "TooSlow"
_modules = itertools.count()


class TooSlow(BaseException):
    """A program takes longer than the limit; no handler of a program or of the interpreter catches this."""


def options_of(batch: int) -> dict[str, str]:
    """The options of a batch of programs: default types, and in every fourth batch code that is cut into tiny functions."""
    types = {"default_ip": ("i32", "i64")[batch % 5 == 4], "default_fp": ("f32", "f64")[HAS_F64 and batch % 3 == 2]}
    return types | ({"piece_size": "6"} if batch % 4 == 1 else {})


def generate(seed: int, options: dict[str, str]) -> Program:
    """The program of a seed."""
    return ProgramGenerator(seed, options).make()


def outcome(path: Path) -> Any:
    """Results of a program on the backend that is running: arrays and numbers, or the error."""
    linecache.checkcache()
    spec = importlib.util.spec_from_file_location(f"fuzz_program_{next(_modules)}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        module.setup()
        return plain(module.run())
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[-400:]}"


def outcome_in_time(path: Path) -> Any:
    """The outcome of a program, or TOO_SLOW."""

    def stop(_signal: int, _frame: Any) -> None:
        raise TooSlow

    before = signal.signal(signal.SIGPROF, stop)
    try:
        signal.setitimer(signal.ITIMER_PROF, TIME_LIMIT)
        try:
            return outcome(path)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
    except TooSlow:
        return TOO_SLOW
    finally:
        signal.signal(signal.SIGPROF, before)


def plain(result: Any) -> list[np.ndarray]:
    """The arrays and numbers of a result, without the package's types."""
    result = result.to_dict() if hasattr(result, "to_dict") else result.to_list() if hasattr(result, "to_list") else result
    if isinstance(result, (list, tuple, dict)):
        return [part for item in (result.values() if isinstance(result, dict) else result) for part in plain(item)]
    return [np.asarray(result)]


def run_on(backend: str, options: dict[str, str], paths: list[Path], verbose: bool = False) -> list[Any]:
    """Outcomes of several programs in this process."""
    import quadrants as qd

    chosen = {name: int(value) if value.isdigit() else getattr(qd, value) for name, value in options.items()}
    qd.init(arch=getattr(qd, backend), fast_math=False, offline_cache=False, log_level="error", **chosen)
    found = []
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "iterations of a parallel loop")  # every update of a shared variable is meant to be a reduction
        for path in paths:
            if verbose:
                print(f"running {path.stem} on {backend}", file=sys.stderr, flush=True)
            found.append(outcome_in_time(path) if backend == "python" else outcome(path))
    qd.reset()
    return found


def run_apart(options: dict[str, str], paths: list[Path], timeout: float) -> dict[str, list[Any]] | str:
    """Outcomes on both backends from a process of its own, which may die: then what it last said."""
    with tempfile.NamedTemporaryFile() as answer:
        request = pickle.dumps((options, [str(path) for path in paths], answer.name))
        command = [sys.executable, "-c", "from tests.python.fuzz.compare import serve; serve()"]
        try:
            process = subprocess.run(command, input=request, capture_output=True, cwd=ROOT, timeout=timeout)
        except subprocess.TimeoutExpired as late:
            return f"no answer after {timeout} s: {_tail(late.stderr)}"
        if process.returncode != 0:
            return f"exit status {process.returncode}: {_tail(process.stderr)}"
        return pickle.loads(Path(answer.name).read_bytes())


def _tail(text: bytes | None) -> str:
    return (text or b"").decode(errors="replace")[-1500:]


def serve() -> None:
    """The other side of `run_apart`."""
    os.environ.pop("QD_ARCH", None)  # it would take the interpreter's place, too: both outcomes would be those of the same code
    options, paths, answer = pickle.loads(sys.stdin.buffer.read())
    found = {backend: run_on(backend, options, [Path(path) for path in paths], verbose=True) for backend in BACKENDS}
    Path(answer).write_bytes(pickle.dumps(found))


def difference(left: Any, right: Any) -> str | None:
    """What differs between two outcomes, or None. NaNs are equal. Not compared: what was too slow, or needs what the device lacks."""
    if isinstance(right, str) and right == TOO_SLOW:
        return None
    if isinstance(left, str) and "this device has no " in left:  # such as atomic operations on 64 bits
        return None
    if isinstance(left, str) or isinstance(right, str):
        if isinstance(left, str) and isinstance(right, str):
            return None
        return f"{BACKENDS[0]}: {left}\n{BACKENDS[1]}: {right}"
    for number, (one, other) in enumerate(zip(left, right, strict=True)):
        one, other = (part.astype(np.float32) if part.dtype.name == "bfloat16" else part for part in map(np.asarray, (one, other)))
        if one.dtype.kind == "f" and one.shape == other.shape:
            same = (one.view(f"u{one.itemsize}") == other.view(f"u{one.itemsize}")) | (np.isnan(one) & np.isnan(other))
        else:
            same = one == other
        if one.dtype != other.dtype or one.shape != other.shape or not np.all(same):
            return f"result {number}: {BACKENDS[0]} {one.tolist()}\n          {BACKENDS[1]} {other.tolist()}"
    return None


def check(program: Program, folder: Path, timeout: float = 180) -> tuple[str | None, str | None]:
    """What is wrong with a program: (kind of failure, text), or (None, None)."""
    path = folder / "candidate.py"
    path.write_text(program.source())
    found = run_apart(program.options, [path], timeout)
    if isinstance(found, str):
        return "died", found
    one, other = (found[backend][0] for backend in BACKENDS)
    if isinstance(one, str) and isinstance(other, str) and TOO_SLOW not in (one, other):
        return "refused", one
    text = difference(one, other)
    if text is None:
        return None, None
    errors = [f"{outcome.split(':')[0]}, {outcome.splitlines()[-1][:24]}" for outcome in (one, other) if isinstance(outcome, str)]
    return (f"raised on one ({errors[0]})" if errors else "differs"), text


def reduce(program: Program, folder: Path, kind: str, limit: int = 150) -> Program:
    """Leaves out statements, or keeps only a block's body, as long as the program fails in the same way."""
    best = program
    changed = True
    while changed and limit > 0:
        changed = False
        for block_number in range(sum(1 for _ in best.blocks())):
            position = 0
            while limit > 0:
                block = next(itertools.islice(best.blocks(), block_number, None), None)
                if block is None or position >= len(block):
                    break
                for edit in (_drop, _unwrap):
                    smaller = deepcopy(best)
                    target = next(itertools.islice(smaller.blocks(), block_number, None))
                    if not edit(target, position):
                        continue
                    limit -= 1
                    if check(smaller, folder, 60)[0] == kind:
                        best, changed = smaller, True
                        break
                else:
                    position += 1
    return best


def _drop(block: list[Statement], position: int) -> bool:
    del block[position]
    return True


def _unwrap(block: list[Statement], position: int) -> bool:
    body = block[position].body
    if body is None:
        return False
    block[position : position + 1] = body
    return True

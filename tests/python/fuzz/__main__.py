"""A campaign: `python -m tests.python.fuzz --count 20000 [--seed 0]`. Stops at the first failures and prints each as a small program."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .compare import BACKENDS, TOO_SLOW, check, difference, generate, options_of, reduce, run_apart
from .program import Program


def run_batch(first: int, count: int, batch: int, folder: Path) -> tuple[dict[int, Program], list[int], list[str]]:
    """Runs some programs in a process of their own: the programs, those of them to look at closer, and what was refused."""
    options = options_of(first // batch)
    programs = {seed: generate(seed, options) for seed in range(first, first + count)}
    paths = {seed: folder / f"program_{seed}.py" for seed in programs}
    for seed, program in programs.items():
        paths[seed].write_text(program.source())
    found = run_apart(options, list(paths.values()), 60 + 20 * count)
    for path in paths.values():
        path.unlink()
    if isinstance(found, str):
        print(f"programs {first} to {first + count - 1}, one by one: {found}", file=sys.stderr, flush=True)
        return programs, list(programs), []
    pairs = dict(zip(programs, zip(*(found[backend] for backend in BACKENDS), strict=True), strict=True))
    for seed, pair in pairs.items():
        if isinstance(pair[1], str) and pair[1] == TOO_SLOW:
            print(f"program {seed} is too slow for the interpreter", file=sys.stderr)
    refused = [
        f"program {seed} is refused: {pair[0]}"
        for seed, pair in pairs.items()
        if all(isinstance(one, str) and one != TOO_SLOW for one in pair)
    ]
    return programs, [seed for seed, pair in pairs.items() if difference(*pair)], refused


def main() -> int:
    """Runs the campaign; the exit status says whether all programs agreed."""
    parser = argparse.ArgumentParser(description="Compare random programs, compiled and interpreted.")
    parser.add_argument("--count", type=int, default=500, help="programs to run")
    parser.add_argument("--seed", type=int, default=0, help="number of the first program")
    parser.add_argument("--batch", type=int, default=25, help="programs in one process")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes at a time")
    parser.add_argument("--failures", type=int, default=3, help="stop after so many failures")
    parser.add_argument("--no-reduce", action="store_true", help="print failing programs whole")
    given = parser.parse_args()
    begin, refused, done, end = time.monotonic(), 0, 0, given.seed + given.count
    failing: list[int] = []
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(given.jobs) as pool:
        folder = Path(name)
        batches = [(first, min(given.batch, end - first)) for first in range(given.seed, end, given.batch)]
        for programs, suspects, refusals in pool.map(lambda work: run_batch(*work, given.batch, folder), batches):
            refused += len(refusals)
            print(*refusals, sep="\n", end="\n" * bool(refusals), file=sys.stderr)
            for seed in suspects:
                kind, text = check(programs[seed], folder)
                if kind in (None, "refused"):
                    continue
                failing.append(seed)
                small = programs[seed] if given.no_reduce else reduce(programs[seed], folder, kind)
                text = check(small, folder)[1] or text
                print(f"=== program {seed} with {small.options} {kind}:\n{small.source()}\n{text}\n", flush=True)
                if len(failing) >= given.failures:
                    pool.shutdown(cancel_futures=True)
                    return 1
            done += len(programs)
            seconds = time.monotonic() - begin
            which = f" ({', '.join(map(str, failing))})" if failing else ""
            print(f"{done} programs, {len(failing)} failures{which}, {refused} refused, {seconds:.0f} s", file=sys.stderr, flush=True)
    if refused * 20 > done:
        print("more than one program in twenty is refused: the generator is wrong", file=sys.stderr)
        return 1
    return 1 if failing else 0


if __name__ == "__main__":
    sys.exit(main())

"""A campaign: `python -m tests.python.fuzz --count 20000 [--seed 0]`. Stops at the first failures and prints each as a small program."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from .compare import BACKENDS, check, difference, generate, options_of, reduce, run_apart


def main() -> int:
    """Runs the campaign; the exit status says whether all programs agreed."""
    parser = argparse.ArgumentParser(description="Compare random programs, compiled and interpreted.")
    parser.add_argument("--count", type=int, default=500, help="programs to run")
    parser.add_argument("--seed", type=int, default=0, help="number of the first program")
    parser.add_argument("--batch", type=int, default=25, help="programs in one process")
    parser.add_argument("--failures", type=int, default=3, help="stop after so many failures")
    parser.add_argument("--no-reduce", action="store_true", help="print failing programs whole")
    arguments = parser.parse_args()
    begin, failures, refused, done = time.monotonic(), 0, 0, 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for first in range(arguments.seed, arguments.seed + arguments.count, arguments.batch):
            seeds = range(first, min(first + arguments.batch, arguments.seed + arguments.count))
            options = options_of(first // arguments.batch)
            programs = {seed: generate(seed, options) for seed in seeds}
            paths = {seed: folder / f"program_{seed}.py" for seed in seeds}
            for seed, program in programs.items():
                paths[seed].write_text(program.source())
            found = run_apart(options, list(paths.values()), 60 + 4 * len(seeds))
            suspects = list(seeds)
            if not isinstance(found, str):
                pairs = dict(zip(seeds, zip(*(found[backend] for backend in BACKENDS), strict=True), strict=True))
                suspects = [seed for seed, pair in pairs.items() if difference(*pair)]
                for seed, pair in pairs.items():
                    if all(isinstance(outcome, str) for outcome in pair):
                        refused += 1
                        print(f"program {seed} is refused: {pair[0]}", file=sys.stderr)
            for seed in suspects:
                kind, text = check(programs[seed], folder)
                if kind in (None, "refused"):
                    continue
                failures += 1
                small = programs[seed] if arguments.no_reduce else reduce(programs[seed], folder, kind)
                text = check(small, folder)[1] or text
                print(f"=== program {seed} with {options} {kind}:\n{small.source()}\n{text}\n", flush=True)
                if failures >= arguments.failures:
                    return 1
            done += len(seeds)
            print(f"{done} programs, {failures} failures, {refused} refused, {time.monotonic() - begin:.0f} s", file=sys.stderr, flush=True)
    if refused * 20 > done:
        print("more than one program in twenty is refused: the generator is wrong", file=sys.stderr)
        return 1
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

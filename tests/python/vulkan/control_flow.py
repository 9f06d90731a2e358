"""Random kernels of nested loops, branches and early exits, run on a GPU and as plain Python.

`python -m tests.python.vulkan.control_flow --seed 0 --count 1000` prints the source of each that gives something else. They test the
structured control flow that SPIR-V and Metal need (src/backends/structured/structure.cpp); values are small integers, so Python agrees.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import quadrants as qd

THREADS = 64
PROGRAMS = 8  # functions in a kernel's file, each with a kernel of its own
_MASK = 0xFFFF


class _Writer:
    """Writes the source of one function of an integer, with the exits that Python has."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.loops = 0
        self.budget = 60

    def expression(self, depth: int = 0) -> str:
        choice = self.random
        if depth > 2 or choice.random() < 0.35:
            return choice.choice(["a", "b", "c", "d", "x", str(choice.randrange(64))])
        operator = choice.choice(["+", "*", "^", "-", "&", "|", "% 17 +", ">> 3 ^"])
        return f"(({self.expression(depth + 1)} {operator} {self.expression(depth + 1)}) & {_MASK})"

    def condition(self) -> str:
        choice = self.random
        text = f"{self.expression()} % {choice.randrange(2, 9)} {choice.choice(['<', '==', '!=', '>'])} {choice.randrange(4)}"
        if choice.random() < 0.2:
            text = f"{text} {choice.choice(['and', 'or'])} {self.expression()} % 3 == {choice.randrange(3)}"
        return text

    def write(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def block(self, depth: int, loops: int) -> None:
        choice = self.random
        for _ in range(choice.randrange(1, 4)):
            self.budget -= 1
            kind = choice.random()
            if kind < 0.4 or depth > 6 or self.budget < 0:
                self.write(depth, f"{choice.choice('abcd')} = {self.expression()}")
            elif kind < 0.62:
                self.write(depth, f"if {self.condition()}:")
                self.block(depth + 1, loops)
                if choice.random() < 0.3:
                    self.write(depth, f"elif {self.condition()}:")
                    self.block(depth + 1, loops)
                if choice.random() < 0.5:
                    self.write(depth, "else:")
                    self.block(depth + 1, loops)
            elif kind < 0.72:
                self.loops += 1
                self.write(depth, f"for i{self.loops} in range({choice.randrange(2, 6)} + ({self.expression()} & 3)):")
                self.write(depth + 1, f"a = (a + i{self.loops}) & {_MASK}")
                self.block(depth + 1, loops + 1)
            elif kind < 0.8:
                self.loops += 1
                name = f"n{self.loops}"
                self.write(depth, f"{name} = {choice.randrange(2, 6)} + ({self.expression()} & 3)")
                self.write(depth, f"while {choice.choice([f'{name} > 0', f'{name} > 0 and {self.condition()}', 'True'])}:")
                self.write(depth + 1, f"{name} -= 1")
                self.write(depth + 1, f"if {name} <= 0: break")
                self.block(depth + 1, loops + 1)
            elif kind < 0.88:
                self.write(depth, f"if {self.condition()}: return {self.expression()}")
            elif loops:
                self.write(depth, f"if {self.condition()}: {choice.choice(['break', 'continue'])}")
            else:
                self.write(depth, f"b = {self.expression()}")

    def function(self, name: str) -> str:
        self.write(0, f"def {name}(x: qd.i32) -> qd.i32:")
        self.write(1, "a, b, c, d = x, 1, 2, (x * 7) & 0xFFFF")
        self.block(1, 0)
        self.write(1, f"return (a + b * 3 + c * 5 + d * 7) & {_MASK}")
        return "\n".join(self.lines)


def write_programs(seed: int, count: int) -> str:
    """Returns the source of `count` functions f0, f1, … and kernels k0, k1, … that call them."""
    parts = ["import quadrants as qd"]
    for number in range(count):
        parts.append(_Writer(seed + number).function(f"f{number}"))
        parts.append(f"g{number} = qd.func(f{number})")
        parts.append(
            f"@qd.kernel\ndef k{number}(out: qd.types.NDArray[qd.i32, 1]):\n    for i in range({THREADS}):\n        out[i] = g{number}(i)"
        )
    return "\n\n\n".join(parts) + "\n"


def load(source: str, folder: Path, name: str) -> dict[str, Any]:
    """Runs the source as a module of that name, whose file the frontend can read."""
    path = folder / f"{name}.py"
    path.write_text(source)
    names: dict[str, Any] = {"__name__": name}
    exec(compile(source, str(path), "exec"), names)
    return names


def run_programs(seed: int, count: int, folder: Path, report: Callable[[str], None]) -> int:
    """Runs programs from a first seed on and returns how many were wrong; `report` gets the text of each."""
    wrong = 0
    for first in range(seed, seed + count, PROGRAMS):
        here = min(PROGRAMS, seed + count - first)
        source = write_programs(first, here)
        names = load(source, folder, f"control_flow_{first}")
        for number in range(here):
            out = np.zeros(THREADS, np.int32)
            try:
                names[f"k{number}"](out)
                problem = ""
            except Exception as raised:  # whatever it is, the program is legal
                problem = f"{type(raised).__name__}: {raised}"
            expected = np.array([names[f"f{number}"](i) for i in range(THREADS)], np.int32)
            if problem or not np.array_equal(out, expected):
                wrong += 1
                places = np.flatnonzero(out != expected)[:4]
                report(
                    f"seed {first + number}: {problem or f'{out[places]} instead of {expected[places]} at {places}'}\n"
                    + _Writer(first + number).function("f")
                )
        # Modules that nothing refers to are given back.
        names.clear()
    return wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--arch", default="vulkan")
    arguments = parser.parse_args()
    qd.init(arch=arguments.arch, enable_fallback=False, offline_cache=False)
    with tempfile.TemporaryDirectory() as folder:
        wrong = run_programs(arguments.seed, arguments.count, Path(folder), print)
    print(f"{arguments.count} programs, {wrong} wrong")
    sys.exit(wrong != 0)


if __name__ == "__main__":
    main()

"""Serial loops, compiled and in plain Python; random ones: `python -m tests.python.language.random_loops --count 2000 [--seed 0]`."""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

import quadrants as qd

sys.path.insert(0, str(Path(__file__).parent))
from language_support import define

ANY = "qd.types.ndarray()"
BATCH = 50  # loops of one runtime


def integers(*shape: int) -> np.ndarray:
    return (np.arange(int(np.prod(shape)), dtype=np.int32) * 5 % 7).reshape(shape)


def indent(text: str) -> str:
    return "".join(f"    {line}\n" for line in text.splitlines())


def compile_loop(loop: str, names: str, preamble: str = "", head: str = "") -> Callable[..., None]:
    parameters = ", ".join(f"{name}: {ANY}" for name in names)
    body = indent(f"{head}\nqd.loop_config(serialize=True)\n{loop}")
    return define(f"{preamble}\n@qd.kernel\ndef k({parameters}):\n{body}")["k"]


def run_in_python(loop: str, names: str, arrays: list[np.ndarray]) -> None:
    define(f"def f({', '.join(names)}):\n{indent(loop)}")["f"](*arrays)


def count_lanes(kernel: Callable[..., None], *arrays: np.ndarray) -> int:
    """Launches the kernel; how many iterations of its outermost loop run side by side."""
    kernel(*arrays)
    loops = [*qd.compile_report()][-1].loops
    return max((loop.lanes for loop in loops), default=1)


def compare_with_python(kernel: Callable[..., None], loop: str, names: str, *arrays: np.ndarray) -> int:
    """The arrays after the kernel are what the loop makes of them in Python; how many iterations ran side by side."""
    expected = [array.copy() for array in arrays]
    lanes = count_lanes(kernel, *arrays)
    run_in_python(loop, names, expected)
    for ours, theirs in zip(arrays, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs, err_msg=loop)
    return lanes


class LoopMaker:
    """Loops over two axes whose statements access elements of their own, of neighbors, and of places found in memory."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def index(self, own: str, extent: str) -> str:
        other, found = ("j", "w") if own == "i" else ("i", "z")
        rare = [f"({own} + 1) % {extent}", f"{other} % {extent}", "0", f"{found}[{own}] % {extent}", f"{extent} - 1 - {own}"]
        return self.random.choice(rare) if self.random.random() < 0.12 else self.random.choice([own, own, own, f"{own}_"])

    def place(self) -> str:
        place = self.random.choice(["x[{i}, {j}]", "x[{i}, {j}]", "y[{j}, {i}]", "z[{j}]", "w[{i}]"])
        return place.format(i=self.index("i", "n"), j=self.index("j", "m"))

    def combine(self) -> str:
        form = self.random.choice(["{}", "({} * 3 + {})", "({} - {})", "({} + i)", "({} ^ j)"])
        return form.format(*(self.place() for _ in range(2)))

    def statement(self, depth: int) -> str:
        roll = self.random.random()
        if depth and roll < 0.2:
            return f"if {self.combine()} > {self.random.randrange(60)}:\n{indent(self.statement(depth - 1))}"
        if depth and roll < 0.3:
            return f"for k{depth} in range({self.place()} % 4):\n{indent(self.statement(depth - 1))}"
        if roll < 0.35:
            return "if " + self.combine() + " % 5 == 0:\n    continue"
        return f"{self.place()} = {self.combine()} & 63"

    def make(self) -> str:
        order = self.random.choice(["i, j in qd.ndrange(n, m)", "j, i in qd.ndrange(m, n)"])
        body = "i_ = i\nj_ = j\n" + "\n".join(self.statement(2) for _ in range(self.random.randrange(1, 4)))
        return f"for {order}:\n{indent(body)}"


def run_loops(first: int, count: int) -> int:
    """Compares random loops with Python; how many runs had several iterations side by side."""
    wide = 0
    for seed in range(first, first + count):
        loop = LoopMaker(seed).make()
        head = "n, m = x.shape[0], x.shape[1]\n"
        for n, m in ((4, 19), (11, 3)):
            arrays = [integers(n, m), integers(m, n), integers(m), integers(n)]
            wide += compare_with_python(compile_loop(loop, "xyzw", head=head), head + loop, "xyzw", *arrays) > 1
    return wide


def main() -> int:
    """The command. Ends at the first loop that differs, with its text."""
    parser = argparse.ArgumentParser(description="Random serial loops against plain Python.")
    parser.add_argument("--count", type=int, default=1000, help="loops to run")
    parser.add_argument("--seed", type=int, default=0, help="number of the first loop")
    given = parser.parse_args()
    wide = 0
    for first in range(given.seed, given.seed + given.count, BATCH):
        qd.init(arch=qd.cpu, offline_cache=False, log_level="error")
        wide += run_loops(first, min(BATCH, given.seed + given.count - first))
        qd.reset()
    print(f"{given.count} loops in 2 sizes each: all as in Python, {wide} runs with several iterations side by side")
    return 0


if __name__ == "__main__":
    sys.exit(main())

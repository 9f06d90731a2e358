"""The random numbers of interpreted kernels: the same as those of compiled ones (src/codegen/llvm/random_numbers.cpp).

A number depends on the seed, the launch, the rounds of the innermost do_while before this one, the task, the iteration of its parallel
loop, and how many numbers that iteration has drawn.
"""

from __future__ import annotations

import collections
from collections.abc import Iterator
from typing import Any

import numpy as np

from quadrants import _runtime


class RandomNumbers:
    """Draws numbers, and knows which task and iteration of a launch draws them."""

    def __init__(self) -> None:
        self.seed(0)
        self.begin()

    def seed(self, number: int) -> None:
        """Restarts the sequence."""
        self.key, self.launches = number % 2**64, 0

    def begin(self, draws: bool = False) -> None:
        """Begins a launch; `draws` is whether it draws numbers that later launches do not draw again."""
        self.launch = self.launches
        self.round, self.rounds = 0, collections.Counter[int]()  # of the innermost do_while, and of each one
        self.launches += draws
        self.nested = 0  # number of run-time branches and loops around the current statement: at 0, loops are parallel
        self.is_serial = False  # the next loop
        self.gate = 1  # begins and ends of checkpoints before, and one
        self.enter(0)

    def enter(self, count: int, iteration: int = 0, is_parallel: bool = False, gate: int = 0) -> None:
        """Begins an iteration of a parallel loop, or statements between two of them; `count` parallel loops have ended before. `gate` is
        not 0 for the bounds of a loop that checkpoints may skip: they are a task of their own.
        """
        self.count, self.task, self.iteration, self.call = count, 2 * count + is_parallel ^ gate << 20, iteration, 0

    def repeat(self, rounds: Iterator[None]) -> Iterator[None]:
        """Yields the rounds of a do_while."""
        outer, first, gate = self.round, self.count + 1, self.gate
        for _ in rounds:
            self.round, self.gate = self.rounds[first], gate
            self.enter(first)
            yield
            self.rounds[first] += 1
        self.round = outer
        self.enter(self.count + 1)

    def loop(self, iterator: Iterator[Any]) -> Iterator[Any]:
        """Yields the same items, the values of a loop's variable."""
        is_parallel, self.is_serial, outer = not (self.is_serial or self.nested), False, self.nested
        self.nested = 1
        try:
            for number, item in enumerate(iterator):
                if is_parallel:
                    self.enter(self.count, number, True)
                yield item
        finally:
            self.nested = outer
            if is_parallel:
                self.enter(self.count + 1)

    def draw(self, dtype: np.dtype) -> Any:
        """Returns a float in [0, 1), or an integer over the full range of its type."""
        launch = self.launch + (self.round << 32) & 2**64 - 1
        bits, single, double = _runtime.draw_random(self.iteration, self.call, self.key, launch, self.task)
        self.call += 1
        if dtype.kind != "f":
            return np.bool_(bits & 1) if dtype.kind == "b" else np.frombuffer(bits.to_bytes(8, "little"), dtype)[0]
        return min(dtype.type(double if dtype.itemsize == 8 else single), dtype.type(1 - 2**-11 if dtype.itemsize == 2 else 1))

"""Random programs of recorded calls, between which names are rebound and memory is overwritten by everybody who can.

    python -m tests.python.autodiff.random_tapes --count 5000 --seed 1 [--arch cpu|python|cuda]

A program is a list of steps: calls of kernels, swaps of buffers, numbers and functions that are bound anew, writes of NumPy, torch, Python
and other threads. It runs under a tape, and beside that on tensors of torch, whose autograd says what memory and gradients are. Both
agree, or the tape refuses with `QuadrantsRuntimeError`. A program that fails is cut down step by step and printed.

What a step writes to a container without a kernel of the program having written there before is another value of an input, to whose
gradient all of them add. Over what a kernel has computed the gradient ends: at the elements that are assigned, or, where the write is
unseen, whose value changes.
"""

from __future__ import annotations

import argparse
import dataclasses
import random
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

import quadrants as qd

HOSTS = ("cpu", "python")  # whose memory NumPy reaches
N = 3  # elements of each buffer
F64 = qd.types.ndarray(dtype=qd.f64)
LARGEST = 50.0  # programs go on no further where numbers are larger
Step = tuple[Any, ...]

G = H = NUMBER = FUNCTION = LOSS = None  # what kernels capture


@qd.func
def twice(x):
    return 2.0 * x


@qd.func
def cube(x):
    return x * x * x


FUNCTIONS = {"twice": (twice, lambda x: 2.0 * x), "cube": (cube, lambda x: x * x * x)}


@qd.data_oriented
class World:
    """Members, a list and a number, all of which are bound anew."""

    def __init__(self) -> None:
        self.a = self.b = self.c = self.scale = None
        self.cells: list[Any] = [None, None]

    @qd.kernel
    def product(self):
        for i in range(N):
            self.c[i] = self.a[i] * self.b[i]

    @qd.kernel
    def accumulate(self):
        for i in range(N):
            self.b[i] += self.scale * self.a[i]

    @qd.kernel
    def square(self):
        for i in range(N):
            self.a[i] = 0.5 * self.a[i] * self.a[i]

    @qd.kernel
    def chain(self):
        for i in range(N):
            self.cells[1][i] = self.cells[0][i] * self.cells[0][i] + self.c[i]

    @qd.kernel
    def total(self):
        for i in range(N):
            LOSS[None] += self.a[i] * self.b[i] + self.c[i]


@dataclasses.dataclass
class Pair:
    a: F64
    b: F64
    scale: qd.f64


@qd.kernel
def captured():
    for i in range(N):
        H[i] = FUNCTION(G[i]) + NUMBER * H[i]


@qd.kernel
def weighted(source: F64, weights: F64, target: F64):
    for i in range(N):
        target[i] += source[i] * weights[i]


@qd.kernel
def gathered(source: F64, order: qd.types.ndarray(dtype=qd.i32), target: F64):
    for i in range(N):
        target[i] = source[order[i]] * 0.7


@qd.kernel
def folded(source: F64, order: qd.types.ndarray(dtype=qd.i32), target: F64):
    for i in range(N):
        if order[i] == i:  # which only the run time knows
            a = target[order[i]]
            target[i] = 0.5 * a * a * source[i]


@qd.kernel
def refolded(source: F64, order: qd.types.ndarray(dtype=qd.i32), target: F64):
    for i in range(N):
        if order[i] == i:
            target[order[i]] = source[i] * target[i]
            a = target[i]
            target[order[i]] = 0.5 * a * a + source[i]


@qd.kernel
def paired(pair: Pair):
    for i in range(N):
        pair.b[i] = pair.a[i] * pair.scale + pair.b[i] * pair.b[i]


@qd.kernel
def added(source: F64):
    for i in range(N):
        LOSS[None] += source[i] * source[i]


@qd.kernel
def fill(target: F64, value: qd.f64):
    for i in range(N):
        target[i] = value


class Buffer:
    """Memory of the program, and what torch knows of it."""

    def __init__(self, torch: Any, kind: str, start: np.ndarray) -> None:
        self.torch, self.kind = torch, kind
        self.leaves: list[Any] = []
        self.is_computed = False
        if kind == "field":
            self.real = qd.field(qd.f64, shape=N, needs_grad=True)
            self.real.from_numpy(start)
        elif kind == "ndarray":
            self.real = qd.ndarray(qd.f64, shape=N, needs_grad=True)
            self.real.from_numpy(start)
        elif kind == "parameter":
            self.real = torch.tensor(start, requires_grad=True)
        else:
            self.real = start.copy() if kind == "numpy" else torch.tensor(start)
        self.value = self.lead(start)

    def lead(self, start: np.ndarray) -> Any:
        """Another value of an input."""
        leaf = self.torch.tensor(start, dtype=self.torch.float64, requires_grad=True)
        self.leaves.append(leaf)
        return leaf * 1.0

    def overwrite(self, index: int | None, value: float, is_seen: bool) -> None:
        """What a write that is no kernel's does to gradients."""
        where = np.zeros(N, bool)
        where[slice(None) if index is None else index] = True
        now = self.value.detach().numpy()
        new = np.where(where, value, now)
        if not self.is_computed:
            self.value = self.lead(new)
            return
        ends = self.torch.tensor(where if is_seen else new != now)
        self.value = self.torch.where(ends, self.torch.tensor(new), self.value)

    def read(self) -> np.ndarray:
        """What memory holds."""
        if self.kind == "numpy":
            return self.real
        return self.real.to_numpy() if hasattr(self.real, "to_numpy") else self.real.detach().numpy()

    def gradients(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Ours and torch's; None where a buffer has none."""
        if self.kind in ("numpy", "tensor"):
            return None
        wanted = sum((leaf.grad.numpy() for leaf in self.leaves if leaf.grad is not None), np.zeros(N))
        found = self.real.grad
        return (np.zeros(N) if found is None else found.numpy() if self.kind == "parameter" else found.to_numpy()), wanted


class Run:
    """A program in progress, on both sides."""

    def __init__(self, arch: str, seed: int) -> None:
        import torch

        self.torch, self.arch = torch, arch
        start = np.random.default_rng(seed)
        kinds = ["field"] * 4 + ["ndarray"] * 4 + ["numpy", "tensor"] + ["parameter"] * (2 if arch in HOSTS else 0)
        self.buffers = [Buffer(torch, kind, start.uniform(0.3, 1.3, N)) for kind in kinds]
        self.order, self.total = np.arange(N, dtype=np.int32), torch.zeros((), dtype=torch.float64)
        self.world, self.names = World(), dict(a=0, b=1, c=2, G=0, H=3, first=4, second=5)
        self.cells = [1, 2]
        self.scale, self.number, self.function = 1.5, 0.5, "twice"
        self.pair = Pair(self.buffers[4].real, self.buffers[5].real, 1.25)
        self.loss = qd.field(qd.f64, shape=(), needs_grad=True)
        self.bind()

    def bind(self) -> None:
        """Gives every name its current meaning."""
        scope, real = globals(), [buffer.real for buffer in self.buffers]
        for name in "abc":
            setattr(self.world, name, real[self.names[name]])
        self.world.scale, self.world.cells[:] = self.scale, [real[cell] for cell in self.cells]
        scope.update(G=real[self.names["G"]], H=real[self.names["H"]], NUMBER=self.number, LOSS=self.loss)
        scope["FUNCTION"] = FUNCTIONS[self.function][0]
        self.pair.a, self.pair.b = real[self.names["first"]], real[self.names["second"]]

    def of(self, name: str) -> Buffer:
        """The buffer that a name stands for."""
        return self.buffers[self.names[name]]

    def set(self, buffer: Buffer, value: Any) -> None:
        """A kernel has computed this."""
        buffer.value, buffer.is_computed = value, True

    def do(self, step: Step) -> None:
        """One step, on both sides."""
        getattr(self, f"do_{step[0]}")(*step[1:])
        self.bind()

    def is_small(self) -> bool:
        """Whether numbers may grow."""
        return all(float(buffer.value.detach().abs().max()) < LARGEST for buffer in self.buffers)

    # calls

    def do_product(self) -> None:
        self.world.product()
        self.set(self.of("c"), self.of("a").value * self.of("b").value)

    def do_accumulate(self) -> None:
        self.world.accumulate()
        self.set(self.of("b"), self.of("b").value + self.scale * self.of("a").value)

    def do_square(self) -> None:
        self.world.square()
        self.set(self.of("a"), 0.5 * self.of("a").value ** 2)

    def do_chain(self) -> None:
        source, target = (self.buffers[cell] for cell in self.cells)
        self.world.chain()
        self.set(target, source.value**2 + self.of("c").value)

    def do_total(self) -> None:
        self.world.total()
        self.total = self.total + (self.of("a").value * self.of("b").value + self.of("c").value).sum()

    def do_captured(self) -> None:
        captured()
        self.set(self.of("H"), FUNCTIONS[self.function][1](self.of("G").value) + self.number * self.of("H").value)

    def do_weighted(self, source: int, weights: int, target: int) -> None:
        first, second, third = (self.buffers[number] for number in (source, weights, target))
        weighted(first.real, second.real, third.real)
        self.set(third, third.value + first.value * second.value)

    def do_gathered(self, source: int, target: int) -> None:
        gathered(self.buffers[source].real, self.order, self.buffers[target].real)
        self.set(self.buffers[target], self.buffers[source].value[self.torch.tensor(self.order, dtype=self.torch.int64)] * 0.7)

    def fold(self, kernel: Any, source: int, target: int, compute: Callable[[Any, Any], Any]) -> None:
        """A kernel that overwrites, where `order` says so, what it has read."""
        first, second = self.buffers[source], self.buffers[target]
        kernel(first.real, self.order, second.real)
        is_chosen = self.torch.tensor(self.order == np.arange(N))
        self.set(second, self.torch.where(is_chosen, compute(first.value, second.value), second.value))

    def do_folded(self, source: int, target: int) -> None:
        self.fold(folded, source, target, lambda x, y: 0.5 * y * y * x)

    def do_refolded(self, source: int, target: int) -> None:
        self.fold(refolded, source, target, lambda x, y: 0.5 * (x * y) ** 2 + x)

    def do_paired(self) -> None:
        paired(self.pair)
        self.set(self.of("second"), self.of("first").value * self.pair.scale + self.of("second").value ** 2)

    def do_added(self, source: int) -> None:
        added(self.buffers[source].real)
        self.total = self.total + (self.buffers[source].value ** 2).sum()

    # names

    def do_swap(self, one: str, other: str) -> None:
        self.names[one], self.names[other] = self.names[other], self.names[one]

    def do_swap_cells(self) -> None:
        self.cells.reverse()

    def do_cell(self, number: int) -> None:
        self.cells = [number, self.cells[0] if self.cells[0] != number else self.cells[1]]

    def do_scale(self, value: float) -> None:
        self.scale = value

    def do_number(self, value: float) -> None:
        self.number = value

    def do_pair_scale(self, value: float) -> None:
        self.pair.scale = value

    def do_function(self, name: str) -> None:
        self.function = name

    # memory

    def do_host(self, number: int, index: int | None, value: float) -> None:
        buffer = self.buffers[number]
        if index is None:
            buffer.real.fill(value)
        else:
            buffer.real[index] = value
        buffer.overwrite(index, value, is_seen=True)

    def do_view(self, number: int, index: int | None, value: float) -> None:
        buffer = self.buffers[number]
        view = buffer.real.to_numpy(copy=False)
        view[slice(None) if index is None else index] = value
        buffer.overwrite(index, value, is_seen=False)

    def do_array(self, number: int, index: int | None, value: float) -> None:
        buffer = self.buffers[number]
        with self.torch.no_grad():
            buffer.real[slice(None) if index is None else index] = value
        buffer.overwrite(index, value, is_seen=False)

    def do_order(self, *order: int) -> None:
        self.order[:] = order

    def do_thread(self, number: int, value: float) -> None:
        buffer = self.buffers[number]
        thread = threading.Thread(target=fill, args=(buffer.real, value))
        thread.start()
        thread.join()
        buffer.overwrite(None, value, is_seen=True)


def write_program(seed: int, arch: str) -> list[Step]:
    """The steps of a program."""
    chosen = random.Random(seed)
    own, arrays = range(8), [8, 9] + ([10, 11] if arch in HOSTS else [])
    with_gradient = [*range(4, 8), *arrays[2:]]
    index = lambda: chosen.choice([None, *range(N)])  # noqa: E731
    value = lambda: chosen.choice([0.0, 0.5, 0.75, 1.25])  # noqa: E731

    def distinct(count: int, among: list[int]) -> list[int]:
        return chosen.sample(among, count)

    calls: list[Callable[[], Step]] = [
        lambda: ("product",),
        lambda: ("accumulate",),
        lambda: ("square",),
        lambda: ("chain",),
        lambda: ("total",),
        lambda: ("captured",),
        lambda: ("weighted", *(lambda pair: (pair[0], chosen.choice(arrays[:2]), pair[1]))(distinct(2, with_gradient))),
        lambda: ("gathered", *distinct(2, with_gradient)),
        lambda: ("folded", *distinct(2, with_gradient)),
        lambda: ("refolded", *distinct(2, with_gradient)),
        lambda: ("paired",),
        lambda: ("added", chosen.choice(with_gradient)),
    ]
    names: list[Callable[[], Step]] = [
        lambda: ("swap", *chosen.sample("abc", 2)),
        lambda: ("swap", "G", "H"),
        lambda: ("swap", "first", "second"),
        lambda: ("swap_cells",),
        lambda: ("cell", chosen.choice(range(4))),
        lambda: ("scale", chosen.choice([0.5, 1.5])),
        lambda: ("number", chosen.choice([0.25, 0.5])),
        lambda: ("pair_scale", chosen.random() + 0.5),
        lambda: ("function", chosen.choice(list(FUNCTIONS))),
    ]
    memory: list[Callable[[], Step]] = [
        lambda: ("host", chosen.choice(own), index(), value()),
        lambda: ("array", chosen.choice(arrays), index(), value()),
        lambda: ("order", *(chosen.randrange(N) for _ in range(N))),
        lambda: ("thread", chosen.choice(arrays[:2]), value()),
    ]
    if arch in HOSTS:
        memory.append(lambda: ("view", chosen.choice(own), index(), value()))
    steps = []
    for _ in range(chosen.randrange(3, 14)):
        steps.append(chosen.choice(calls)())
        while chosen.random() < 0.5:
            steps.append(chosen.choice(chosen.choice([names, memory]))())
    return [*steps, ("total",), ("added", chosen.choice(with_gradient))]


def run_program(steps: list[Step], arch: str, seed: int) -> str | None:
    """What is wrong with a program: None where it is right, "refused" where the tape refuses it."""
    run = Run(arch, seed)
    try:
        with qd.ad.Tape(run.loss):
            for step in steps:
                if run.is_small():
                    run.do(step)
    except qd.QuadrantsRuntimeError:
        return "refused"
    if run.total.requires_grad:
        run.total.backward()
    for number, buffer in enumerate(run.buffers):
        if not np.allclose(buffer.read(), buffer.value.detach().numpy(), rtol=1e-10):
            return f"buffer {number} ({buffer.kind}) holds {buffer.read()}, not {buffer.value.detach().numpy()}"
        both = buffer.gradients()
        if both is not None and not np.allclose(*both, rtol=1e-8, atol=1e-10):
            return f"the gradient of buffer {number} ({buffer.kind}) is {both[0]}, not {both[1]}"
    return None


def shrink(steps: list[Step], arch: str, seed: int) -> list[Step]:
    """The steps without those that a failure does not need."""
    position = 0
    while position < len(steps):
        fewer = steps[:position] + steps[position + 1 :]
        if run_program(fewer, arch, seed) not in (None, "refused"):
            steps = fewer
        else:
            position += 1
    return steps


def run_programs(count: int, first: int, arch: str) -> tuple[list[str], int]:
    """Reports on those that fail, and how many were refused."""
    failures, refused = [], 0
    for seed in range(first, first + count):
        steps = write_program(seed, arch)
        outcome = run_program(steps, arch, seed)
        refused += outcome == "refused"
        if outcome not in (None, "refused"):
            steps = shrink(steps, arch, seed)
            lines = "\n".join(f"    {step}" for step in steps)
            failures.append(f"seed {seed} on {arch}: {run_program(steps, arch, seed)}\n{lines}")
    return failures, refused


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description="Random programs of recorded calls against torch.")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--arch", default="cpu")
    given = parser.parse_args()
    qd.init(arch=getattr(qd, given.arch), offline_cache=False, log_level="error", default_fp=qd.f64)
    failures, refused = run_programs(given.count, given.seed, given.arch)
    print(*failures, sep="\n")
    print(f"{given.count} programs on {given.arch}: {len(failures)} wrong, {refused} refused")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())

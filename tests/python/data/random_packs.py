"""Random programs on quantized fields, and the numbers that they should give: the nearest of all numbers that a type has.

python -m tests.python.data.random_packs --count 500 --seed 1 [--arch cpu]
"""

from __future__ import annotations

import argparse
import bisect
import random
from fractions import Fraction
from typing import Any

import numpy as np

import quadrants as qd

quant = qd.types.quant
WORDS = (8, 16, 32, 64)


class Model:
    """Elements of one type as Python numbers. `numbers` are all that a fixed or float type has, in order."""

    def __init__(self, kind: Any, count: int):
        self.kind, self.values = kind, [0] * count if kind.kind == "int" else [0.0] * count
        self.numbers = [] if kind.kind == "int" else sorted(list_numbers(kind))

    def store(self, index: int, value: Any) -> None:
        self.values[index] = self.convert(value)

    def convert(self, value: Any) -> Any:
        kind = self.kind
        if kind.kind == "int":
            number = int(value) % (1 << kind.digits)
            return number - (1 << kind.digits) if kind.signed and number >> (kind.digits - 1) else number
        position = bisect.bisect_left(self.numbers, value)
        around = self.numbers[max(0, position - 1) : position + 1]
        exact = Fraction(value)
        # Of two numbers at the same distance, the one farther from zero.
        return min(around, key=lambda number: (abs(Fraction(number) - exact), -abs(number)))


def list_numbers(kind: Any) -> set[float]:
    """Returns all numbers of a fixed or float type."""
    if kind.kind == "fixed":
        first = -(1 << kind.digits - 1) if kind.signed else 0
        return {(first + k) * kind.scale for k in range(1 << kind.digits)}
    fraction, bias = kind.digits - kind.signed, (1 << kind.exponent - 1) - 1
    positive = {(1 + f / (1 << fraction)) * 2.0 ** (e - bias) for e in range(1, min(1 << kind.exponent, 255)) for f in range(1 << fraction)}
    return {0.0} | positive | ({-number for number in positive} if kind.signed else set())


def choose_type(draw: random.Random) -> Any:
    signed = draw.random() < 0.7
    which = draw.choice(["int", "int", "fixed", "float"])
    if which == "int":
        return quant.int(draw.randint(1, 24), signed=signed)
    if which == "fixed":
        return quant.fixed(draw.randint(2, 10), signed=signed, max_value=2.0 ** draw.randint(-2, 6))
    return quant.float(exp=draw.randint(2, 6), frac=draw.randint(2 + signed, 7), signed=signed)


def place(draw: random.Random, count: int) -> list[tuple[Any, Model]]:
    """Makes fields of `count` elements in a pack, in an array, or in words of their own."""
    shape = draw.choice(["pack", "pack", "array", "alone"])
    kinds = [choose_type(draw) for _ in range(draw.randint(1, 4) if shape == "pack" else 1)]
    fields = [qd.field(kind) for kind in kinds]
    if shape == "alone":
        qd.root.dense(qd.i, count).place(fields[0])
    elif shape == "array":
        neighbors = draw.choice([n for n in (1, 2, 4, 8) if n * kinds[0].bits <= 64])
        word = draw.choice([size for size in WORDS if size >= neighbors * kinds[0].bits])
        qd.root.dense(qd.i, count // neighbors).quant_array(qd.i, neighbors, max_num_bits=word).place(fields[0])
    else:
        while sum(kind.bits for kind in kinds) > 64:
            kinds.pop(), fields.pop()
        packed = qd.BitpackedFields(draw.choice([size for size in WORDS if size >= sum(kind.bits for kind in kinds)]))
        packed.place(*fields)
        qd.root.dense(qd.i, count).place(packed)
    return [(field, Model(kind, count)) for field, kind in zip(fields, kinds, strict=True)]


@qd.kernel
def write_all(x: qd.Template, given: qd.types.NDArray):
    for i in x:
        x[i] = given[i]


@qd.kernel
def write_some(x: qd.Template, places: qd.types.NDArray, given: qd.types.NDArray):
    for k in range(places.shape[0]):
        x[places[k]] = given[k]


@qd.kernel
def add_some(x: qd.Template, places: qd.types.NDArray, given: qd.types.NDArray):
    for k in range(places.shape[0]):
        x[places[k]] += given[k]


@qd.kernel
def raise_some(x: qd.Template, places: qd.types.NDArray, given: qd.types.NDArray):
    for k in range(places.shape[0]):
        qd.atomic_max(x[places[k]], given[k])


@qd.kernel
def copy_out(x: qd.Template, result: qd.types.NDArray):
    for i in x:
        result[i] = x[i]


def draw_numbers(draw: random.Random, kind: Any, count: int) -> np.ndarray:
    if kind.kind == "int":
        # Within 31 bits: what is added is exact in the type of computation.
        return np.array([draw.randint(0 if not kind.signed else -(2**20), 2**20) for _ in range(count)], np.int64).astype(
            np.int32 if kind.signed else np.uint32
        )
    reach = 2.0 ** draw.randint(-4, 8)
    return np.array([draw.choice([0.0, reach, -reach, 1.5 * reach, draw.uniform(-reach, reach)]) for _ in range(count)], np.float32)


def run_program(seed: int) -> None:
    """Runs one program; raises if a number is wrong."""
    draw = random.Random(seed)
    count = 16
    placed = [pair for _ in range(draw.randint(1, 3)) for pair in place(draw, count)]
    for step in range(draw.randint(3, 8)):
        field, model = draw.choice(placed)
        numbers = draw_numbers(draw, model.kind, count)
        what = draw.choice(["all", "some", "add", "max", "host", "numpy", "fill"])
        places = np.array(draw.sample(range(count), draw.randint(1, count)), np.int32)
        if what == "all":
            write_all(field, numbers)
        elif what == "numpy":
            field.from_numpy(numbers)
        elif what == "fill":
            field.fill(numbers[0].item())
            numbers[:] = numbers[0]
        elif what == "host":
            for at in places:
                field[int(at)] = numbers[at].item()
        else:
            {"some": write_some, "add": add_some, "max": raise_some}[what](field, places, numbers[: len(places)])
        chosen = enumerate(numbers) if what in ("all", "numpy", "fill") else [(at, numbers[at]) for at in places]
        if what in ("some", "add", "max"):
            chosen = list(zip(places, numbers, strict=False))
        for at, number in chosen:
            old, number = model.values[at], number.item()
            if what == "add":
                number = old + number if model.kind.kind == "int" else float(np.float32(old) + np.float32(number))
            model.store(int(at), max(old, number) if what == "max" else number)
        for other, expected in placed:
            result = np.zeros(count, np.float64)
            copy_out(other, result)
            for found in (result, other.to_numpy()):
                np.testing.assert_array_equal(found, expected.values, f"seed {seed}, step {step}: {what} of {model.kind}, {expected.kind}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--arch", default="cpu")
    options = parser.parse_args()
    for seed in range(options.seed, options.seed + options.count):
        qd.init(arch=getattr(qd, options.arch), log_level="error")
        run_program(seed)
    print(f"{options.count} programs, 0 mismatches")


if __name__ == "__main__":
    main()

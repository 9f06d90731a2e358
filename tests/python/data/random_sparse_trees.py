"""Random sparse trees, and random operations on them, compared with dictionaries of Python.

python -m tests.python.data.random_sparse_trees --count 1000 --seed 1 [--arch python]
"""

from __future__ import annotations

import argparse
import itertools
import math
import random

import numpy as np

import quadrants as qd

TYPES = (qd.f32, qd.i32, qd.u8, qd.i64, qd.f64)


@qd.kernel
def assign(x: qd.Template, places: qd.types.NDArray[qd.i32, 2], values: qd.types.NDArray[qd.i32, 1]):
    for n in range(values.shape[0]):
        x[[places[n, k] for k in qd.static(range(len(x.shape)))]] = values[n]


@qd.kernel
def add(x: qd.Template, places: qd.types.NDArray[qd.i32, 2], values: qd.types.NDArray[qd.i32, 1]):
    for n in range(values.shape[0]):
        x[[places[n, k] for k in qd.static(range(len(x.shape)))]] += values[n]


@qd.kernel
def set_active(node: qd.Template, places: qd.types.NDArray[qd.i32, 2], rank: qd.Template, is_on: qd.Template):
    for n in range(places.shape[0]):
        if qd.static(is_on):
            qd.activate(node, [places[n, k] for k in qd.static(range(rank))])
        else:
            qd.deactivate(node, [places[n, k] for k in qd.static(range(rank))])


@qd.kernel
def append(node: qd.Template, places: qd.types.NDArray[qd.i32, 2], rank: qd.Template, values: qd.types.NDArray[qd.i32, 1]):
    qd.loop_config(serialize=True)
    for n in range(values.shape[0]):
        qd.append(node, [places[n, k] for k in qd.static(range(rank))], values[n])


@qd.kernel
def update(x: qd.Template):
    for I in qd.grouped(x):  # noqa: E741
        x[I] = x[I] * 2 + 1


@qd.kernel
def visit(x: qd.Template, seen: qd.types.NDArray):
    for I in qd.grouped(x):  # noqa: E741
        seen[I - qd.Vector(qd.static(list(x._offset)))] += 1


@qd.kernel
def visit_inside(x: qd.Template, seen: qd.types.NDArray):
    for _ in range(1):
        for I in qd.grouped(x):  # noqa: E741
            seen[I - qd.Vector(qd.static(list(x._offset)))] += 1


class Model:
    """A tree of one chain of nodes, its field, and the dictionaries that say what it should hold."""

    def __init__(self, random: random.Random):
        self.random = random
        rank = random.randint(1, 3)
        self.nodes, self.shapes = [], []
        node, extents = qd.root, [1] * rank
        kinds = [random.choice(["dense", "pointer", "bitmasked"]) for _ in range(random.randint(1, 4))]
        if all(kind == "dense" for kind in kinds):
            kinds[random.randrange(len(kinds))] = random.choice(["pointer", "bitmasked"])
        self.text = []
        for level, kind in enumerate(kinds):
            axes = list(range(rank)) if level == 0 else sorted(random.sample(range(rank), random.randint(1, rank)))
            limit = max(1, int((3000 / math.prod(extents)) ** (1 / len(axes)) / (len(kinds) - level) ** 0.5))
            dimensions = [random.randint(1, min(limit, 40)) for _ in axes]
            self.add(kind, axes, dimensions, node, extents)
            node = self.nodes[-1]
        self.has_list = random.random() < 0.35 and rank < 3
        if self.has_list:
            capacity, chunk = random.randint(1, 12), random.randint(1, 6)
            extents.append(1)
            self.text.append(f"dynamic({rank}, {capacity}, chunk_size={chunk})")
            self.nodes.append(node.dynamic(qd.axes(rank)[0], capacity, chunk_size=chunk))
            extents[-1] = capacity
            self.shapes.append(tuple(extents))
        self.shape = tuple(extents)
        self.dtype = random.choice(TYPES)
        self.offset = tuple(random.randint(-5, 5) for _ in self.shape) if random.random() < 0.3 else None
        self.field = qd.field(self.dtype)
        self.nodes[-1].place(self.field, offset=self.offset)
        if not self.has_list:
            self.twin = qd.field(qd.i32)
            self.nodes[-1].place(self.twin, offset=self.offset)
        self.text.append(f"place({self.dtype}, offset={self.offset})")
        self.clear()

    def add(self, kind, axes, dimensions, node, extents):
        self.text.append(f"{kind}({axes}, {dimensions})")
        self.nodes.append(getattr(node, kind)(qd.axes(*axes), dimensions))
        for axis, extent in zip(axes, dimensions, strict=True):
            extents[axis] *= extent
        self.shapes.append(tuple(extents))

    def clear(self):
        self.values = {}
        self.active = [set() for _ in self.nodes]
        self.lengths = {}

    def cell(self, level, index):
        shape = self.shapes[level]
        return tuple(at * part // whole for at, part, whole in zip(index, shape, self.shape, strict=False))

    def touch(self, index):
        for level in range(len(self.nodes) - self.has_list):
            self.active[level].add(self.cell(level, index))
        if self.has_list:
            self.lengths[index[:-1]] = max(self.lengths.get(index[:-1], 0), index[-1] + 1)

    def drop(self, level, cell):
        for deeper in range(level, len(self.nodes) - self.has_list):
            ratio = [b // a for a, b in zip(self.shapes[level], self.shapes[deeper], strict=False)]
            self.active[deeper] = {one for one in self.active[deeper] if tuple(a // r for a, r in zip(one, ratio, strict=False)) != cell}
        inside = [index for index in self.values if self.cell(level, index)[: len(cell)] == cell]
        for index in inside:
            del self.values[index]
        self.lengths = {key: value for key, value in self.lengths.items() if self.cell(level, (*key, 0))[: len(cell)] != cell}

    def visited(self):
        """Returns the indices of the field in active cells."""
        if self.has_list:
            return {(*key, k) for key, count in self.lengths.items() for k in range(count)}
        sparse = [level for level, node in enumerate(self.nodes) if node._kind != "dense"]
        level = sparse[-1]
        every = itertools.product(*map(range, self.shape))
        return {index for index in every if self.cell(level, index) in self.active[level]}

    def pick(self, shape, count):
        return [tuple(self.random.randrange(extent) for extent in shape) for _ in range(count)]

    def wrap(self, value):
        if self.dtype is qd.u8:
            return value & 255
        if self.dtype is qd.i32:
            return (value + 2**31) % 2**32 - 2**31
        return value

    def shifted(self, places):
        return np.array([[a + o for a, o in zip(place, self.offset or (0,) * len(place), strict=True)] for place in places], np.int32)

    def step(self):
        """Does one operation on the tree and on the dictionaries."""
        kind = self.random.choice(["assign", "add", "host", "activate", "deactivate", "update", "clear", "append", "fill", "import"])
        count = self.random.choice([1, 3, 40])
        if kind in ("assign", "add", "host"):
            places = sorted(set(self.pick(self.shape, count)))
            numbers = [self.random.randint(0, 9) for _ in places]
            if kind == "host":
                for place, number in zip(self.shifted(places).tolist(), numbers, strict=True):
                    self.field[tuple(place)] = number
            else:
                (assign if kind == "assign" else add)(self.field, self.shifted(places), np.array(numbers, np.int32))
            for place, number in zip(places, numbers, strict=True):
                self.touch(place)
                self.values[place] = self.wrap((self.values.get(place, 0) if kind == "add" else 0) + number)
        elif kind in ("activate", "deactivate"):
            level = self.random.randrange(len(self.nodes))
            node, is_list = self.nodes[level], self.has_list and level == len(self.nodes) - 1
            if node._kind == "dense" or (is_list and kind == "activate"):
                return kind
            shape = self.shapes[level][:-1] if is_list else self.shapes[level]
            places = sorted(set(self.pick(shape, count)))
            set_active(node, np.array(places, np.int32).reshape(len(places), -1), len(shape), kind == "activate")
            for place in places:
                if kind == "activate":
                    for above in range(level + 1):
                        part = [a // b for a, b in zip(self.shapes[level], self.shapes[above], strict=False)]
                        self.active[above].add(tuple(a // r for a, r in zip(place, part, strict=False)))
                elif is_list:
                    self.drop(level - 1, place) if False else self.empty(place)
                elif place in self.active[level]:
                    self.drop(level, place)
        elif kind == "update":
            update(self.field)
            for index in self.visited():
                self.values[index] = self.wrap(self.values.get(index, 0) * 2 + 1)
            if self.dtype in (qd.f32, qd.f64, qd.i64) and self.values and max(self.values.values()) > 1e5:
                kind = "clear"
        elif kind == "fill":
            self.field.fill(3)
            for index in self.visited():
                self.values[index] = 3
        elif kind == "import":
            self.field.from_numpy(np.full(self.shape, 2, np.int32)) if self.random.random() < 0.3 else None
            kind = "clear"
        elif kind == "append" and self.has_list:
            places = self.pick(self.shapes[-1][:-1], count)
            numbers = [self.random.randint(0, 9) for _ in places]
            if self.offset is None:
                rank = len(self.shape) - 1
                is_full = False
                for place, number in zip(places, numbers, strict=True):
                    k = self.lengths.get(place, 0)
                    is_full |= k == self.shape[-1]
                    if not is_full:  # the launch ends at the first list that is full
                        self.touch((*place, k))
                        self.values[(*place, k)] = number
                try:
                    append(self.nodes[-1], np.array(places, np.int32).reshape(len(places), rank), rank, np.array(numbers, np.int32))
                    qd.sync()
                except qd.QuadrantsAssertionError:
                    assert is_full
                else:
                    assert not is_full
        if kind == "clear":
            self.nodes[0].deactivate_all()
            self.clear()
        return kind

    def empty(self, place):
        self.lengths.pop(place, None)
        self.values = {index: value for index, value in self.values.items() if index[:-1] != place}

    def check(self):
        """Compares everything that can be seen."""
        expected = np.zeros(self.shape)
        for index, value in self.values.items():
            expected[index] = value
        np.testing.assert_array_equal(self.field.to_numpy(), expected)
        visited = np.zeros(self.shape)
        for index in self.visited():
            visited[index] = 1
        for kernel in (visit, visit_inside):
            seen = np.zeros(self.shape, np.int32)
            kernel(self.field, seen)
            np.testing.assert_array_equal(seen, visited, kernel.__name__)
        for level, node in enumerate(self.nodes):
            if node._kind in ("pointer", "bitmasked"):
                for cell in self.pick(self.shapes[level], 5):
                    assert qd.is_active(node, list(cell)) == (cell in self.active[level]), (level, cell)


def run(seed: int, arch: str = "cpu") -> None:
    """Runs one random program."""
    chosen = random.Random(seed)
    qd.init(arch=getattr(qd, arch), log_level="error")
    model = Model(chosen)
    done = []
    try:
        for _ in range(chosen.randint(2, 8)):
            done.append(model.step())
            model.check()
    except Exception as error:
        raise AssertionError(f"seed {seed}: qd.root.{'.'.join(model.text)} after {done}") from error


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--arch", default="cpu")
    given = parser.parse_args()
    wrong = 0
    for seed in range(given.seed, given.seed + given.count):
        try:
            run(seed, given.arch)
        except AssertionError as error:
            wrong += 1
            print(error, "\n  ", repr(error.__cause__)[:300])
    print(f"{given.count} trees, {wrong} wrong")


if __name__ == "__main__":
    main()

"""Random programs on random sparse trees, compared with the model of `sparse_tree_model.py` after every operation.

python -m tests.python.data.random_sparse_trees --count 5000 --seed 1 [--jobs 2] [--arch cpu python]
"""

from __future__ import annotations

import argparse
import math
import os
import random
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any

import numpy as np

import quadrants as qd
from tests.python.data import sparse_tree_kernels as kernels
from tests.python.data.sparse_tree_model import LeafModel, Mask, NodeModel, TreeModel, make_tree

BATCH = 25  # programs of one process


@contextmanager
def expect_warnings(*texts: str) -> Iterator[None]:
    """Each of the texts is in a warning, and no other warning is given."""
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        yield
    found = [str(one.message) for one in given]
    assert len(found) == len(texts) and all(text in message for text, message in zip(texts, found, strict=True)), (found, texts)


class Program:
    """Some trees, what was done with them, and the checks."""

    def __init__(self, seed: int, arch: str, offline_cache: bool = True):
        self.random = random.Random(seed)
        self.imports = self.random.choice(["active", "active", "nonzero", "all"])
        debug = self.random.random() < 0.1
        qd.init(arch=getattr(qd, arch), log_level="error", debug=debug, sparse_import=self.imports, offline_cache=offline_cache)
        self.done: list[str] = [f"debug={debug}, sparse_import={self.imports}"]
        self.trees: list[TreeModel] = []
        for _ in range(self.random.choice([1, 1, 2])):
            self.add_tree(self.random.random() < 0.5)

    def add_tree(self, is_built: bool) -> None:
        builder = qd.FieldsBuilder() if is_built else None
        tree = make_tree(self.random, builder or qd.root)
        self.done.append(f"{'FieldsBuilder()' if is_built else 'qd.root'}: {'.'.join(tree.text)}")
        if builder is not None:
            tree.tree = builder.finalize()
        else:
            qd.sync()
        self.trees.append(tree)

    # -- choices

    def nodes(self, *kinds: str) -> list[NodeModel]:
        return [node for tree in self.trees for node in tree.root.below() if node.kind in (kinds or ("pointer", "bitmasked", "hash"))]

    def leaves(self) -> list[LeafModel]:
        return [leaf for tree in self.trees for leaf in tree.root.list_leaves()]

    def pick(self, shape: tuple[int, ...], count: int, mask: Mask | None = None) -> list[tuple[int, ...]]:
        """Different indices below a shape, among those of a mask."""
        places = [tuple(map(int, place)) for place in np.argwhere(np.ones(shape, bool) if mask is None else mask)]
        return self.random.sample(places, min(count, len(places)))

    def pack(self, places: list[tuple[int, ...]], rank: int, offset: Any = None) -> np.ndarray:
        """Indices as an array for kernels."""
        return np.array(places, np.int32).reshape(len(places), rank) + np.array(offset or (0,) * rank, np.int32)

    def numbers(self, count: int) -> np.ndarray:
        return np.array([self.random.randint(0, 9) for _ in range(count)], np.int32)

    def store(self, leaf: LeafModel, index: tuple[int, ...], value: Any) -> None:
        leaf.node.touch(index, leaf.box)
        leaf.values[index] = leaf.convert(value)

    # -- operations; each says what it did, or returns None if the trees have nothing for it

    def write(self) -> str | None:
        """Stores and updates at random places, in kernels and from Python."""
        leaf, count = self.random.choice(self.leaves()), self.random.choice([1, 3, 40])
        places, how = self.pick(leaf.shape, count), self.random.choice(["assign", "add", "raise_to", "host", "component"])
        numbers = self.numbers(len(places))
        if how == "component" and (not leaf.element or leaf.quant):
            how = "add"
        for place, number in zip(places, numbers.tolist(), strict=True):
            new, old = leaf.element_of(number), leaf.values[place].astype(np.int64)
            if how == "component":
                new = old.copy()
                new[(0,) * len(leaf.element)] = number
            self.store(leaf, place, old + new if how == "add" else np.maximum(old, new) if how == "raise_to" else new)
            if how == "host":
                at = tuple(self.pack([place], len(place), leaf.offset)[0].tolist())
                leaf.field[at] = leaf.element_of(number).tolist()
        if how != "host":
            getattr(kernels, how)(leaf.field, self.pack(places, len(leaf.shape), leaf.offset), numbers)
        return f"{how} {places} {numbers.tolist()}"

    def write_structs(self) -> str | None:
        """Stores whole structs and members of them."""
        structs = [one for tree in self.trees for one in tree.structs]
        if not structs:
            return None
        made, a, v = self.random.choice(structs)
        places = self.pick(a.shape, self.random.choice([1, 10]))
        numbers, whole = self.numbers(len(places)), self.random.random() < 0.5
        kernels.write_structs(made, self.pack(places, len(a.shape), a.offset), numbers, whole)
        for place, number in zip(places, numbers.tolist(), strict=True):
            self.store(v, place, [number, number + 1] if whole else [v.values[place][0], number])
            if whole:
                a.values[place] = number
        return f"structs {places} {numbers.tolist()} {whole}"

    def set_activity(self) -> str | None:
        """Activates and deactivates cells, in kernels and from Python."""
        nodes = self.nodes("pointer", "bitmasked", "hash", "dynamic")
        node, is_on = self.random.choice(nodes), self.random.random() < 0.5
        places = self.pick(node.index_shape, self.random.choice([1, 3, 40]))
        for place in places:
            if is_on and node.kind == "dynamic":  # activates the cells around the list
                node.above.touch(place, node.above.box)  # type: ignore[union-attr]
            elif is_on:
                node.touch(place, node.box)
            elif node.kind == "dynamic":
                node.empty_list(place)
            else:
                gone = np.zeros(node.shape, bool)
                gone[place] = True
                node.clear(gone)
        if self.random.random() < 0.3:
            for place in places:
                (qd.activate if is_on else qd.deactivate)(node.node, list(place))
        else:
            kernels.set_active(node.node, self.pack(places, len(node.index_shape)), is_on)
        return f"{'activate' if is_on else 'deactivate'} {node.kind} {places}"

    def clear(self) -> str | None:
        """Deactivates everything below a node, or everything."""
        if self.random.random() < 0.3:
            if self.random.random() < 0.5:
                qd.deactivate_all_snodes()
            else:
                with expect_warnings("all finalized trees"):
                    qd.root.deactivate_all()
            for node in self.nodes("pointer", "bitmasked", "hash", "dynamic"):
                node.clear(np.ones(node.shape, bool))
                if node.kind == "dynamic":
                    node.lengths[...] = 0
            return "clear everything"
        node = self.random.choice([node for tree in self.trees for node in tree.root.below() if node.above is not None])
        for one in [one for one in node.below() if one.is_sparse]:
            if one.kind == "dynamic":
                one.lengths[...] = 0
            one.clear(np.ones(one.shape, bool))
        node.node.deactivate_all()
        return f"deactivate_all {node.kind} {node.shape}"

    def update(self) -> str:
        """Loops over a field that use its own elements, in several forms."""
        leaf = self.random.choice(self.leaves())
        form = self.random.choice(["own", "indexed", "inside"])
        visited = leaf.visited()
        at = np.argwhere(visited).sum(1) + sum(leaf.offset or ()) if form == "indexed" else np.ones(visited.sum(), np.int64)
        old = leaf.values[visited].astype(np.int64)
        leaf.values[visited] = leaf.convert(old + at.reshape(-1, *(1,) * len(leaf.element)) if form != "own" else old * 2 + 1)
        getattr(kernels, f"update_{form}")(leaf.field)
        return f"update {form} of a field {leaf.shape} in {leaf.node.kind}"

    def stencil(self) -> str | None:
        """A loop that reads neighbors and writes another field of the same node."""
        pairs = [
            (x, y)
            for x in self.leaves()
            for y in x.node.leaves
            if x is not y and x.element == y.element and x.offset == y.offset and x.dtype == y.dtype and x.shape and not y.quant
        ]
        if not pairs:
            return None
        x, y = self.random.choice(pairs)
        visited, last = x.visited(), x.shape[-1] - 1
        at = np.minimum(np.arange(x.shape[-1]) + 1, last)
        sums = x.values.astype(np.int64) + x.values.astype(np.int64)[(*(slice(None),) * (len(x.shape) - 1), at)]
        y.values[visited] = y.convert(sums[visited])
        kernels.stencil(x.field, y.field, last + (x.offset or (0,))[-1])
        return f"stencil over {x.shape}"

    def scatter(self) -> str | None:
        """A loop over cells that were active before activates and updates others, of the same tree or of another."""
        targets = [leaf for leaf in self.leaves() if not leaf.quant]
        if not targets:
            return None
        x, y = self.random.choice(self.leaves()), self.random.choice(targets)
        marks, step = x.visited().astype(np.int32), self.random.randint(1, 50)
        kernels.scatter(x.field, y.field, marks, step)
        for index in np.argwhere(marks):
            number = int(np.ravel_multi_index(tuple(index), x.shape)) * step
            target = tuple(map(int, np.unravel_index(number % math.prod(y.shape), y.shape)))
            self.store(y, target, y.values[target].astype(np.int64) + y.element_of(1))
        return f"scatter from {x.shape} to {y.shape} step {step}"

    def prune(self) -> str | None:
        """Deactivates cells in the loop over them; in some programs the loop writes what it deactivated."""
        nodes = self.nodes()
        if not nodes:
            return None
        node = self.random.choice(nodes)
        visited = node.present().copy()
        sums = sum(np.indices(node.shape)) if node.shape else np.zeros(())
        gone = visited & (sums % 3 == 0)
        candidates = [leaf for leaf in node.leaves if not leaf.quant]
        if candidates and self.random.random() < 0.6:
            leaf = self.random.choice(candidates)
            kernels.rewrite(node.node, leaf.field)
            node.clear(gone)
            node.active |= gone
            leaf.values[gone] = leaf.element_of(5)
            return f"rewrite {node.kind} {node.shape}"
        kernels.prune(node.node)
        node.clear(gone)
        return f"prune {node.kind} {node.shape}"

    def append(self) -> str | None:
        """Appends to lists: in a serial loop, in a parallel one, and from Python."""
        nodes = [node for node in self.nodes("dynamic") if len(node.leaves) == 1]
        if not nodes:
            return None
        node, how = self.random.choice(nodes), self.random.choice(["append", "append_in_parallel", "append_to_field", "host"])
        leaf, shape = node.leaves[0], node.index_shape
        places = [tuple(self.random.randrange(extent) for extent in shape) for _ in range(self.random.choice([1, 3, 30]))]
        if how == "append_in_parallel":
            room = {place: node.capacity - int(node.lengths[place]) for place in places}
            places = [place for place in places if (room.update({place: room[place] - 1}) or room[place] >= 0)]
        numbers, positions, is_full = np.arange(len(places), dtype=np.int32), [], False
        for place, number in zip(places, numbers.tolist(), strict=True):
            position = int(node.lengths[place])
            is_full |= position == node.capacity
            if is_full:  # the launch ends at the first list that is full
                break
            index = self.index_of(node, place, position)
            positions.append(index)
            self.store(leaf, index, leaf.element_of(number))
        try:
            if how == "host":
                for place, number in zip(places, numbers.tolist(), strict=True):
                    assert qd.append(node.node, list(place), leaf.element_of(number).tolist()) < node.capacity
            elif how == "append_to_field":
                # A list has one index along its own axis, and the offset of the field is that of elements.
                first = [
                    leaf.offset[k] if leaf.offset and axis != node.axis else 0 for k, axis in enumerate(node.box) if axis in node.above.box
                ]
                kernels.append_to_field(leaf.field, self.pack(places, len(shape), first), len(shape), leaf.element, numbers)
                qd.sync()
            else:
                getattr(kernels, how)(node.node, self.pack(places, len(shape)), leaf.element, numbers)
                qd.sync()
        except qd.QuadrantsAssertionError:
            assert is_full, "an append to a list with room raised"
        else:
            assert not is_full, "an append to a full list was accepted"
        if how == "append_in_parallel" and positions:  # the order is open
            with expect_warnings("different lengths"):
                found = leaf.field.to_numpy()
            for place in set(places):
                own = [index for at, index in zip(places, positions, strict=True) if at == place]
                got, wanted = ([values[index].tolist() for index in own] for values in (found, leaf.values))
                assert sorted(got) == sorted(wanted), (place, got, wanted)
            for index in positions:
                leaf.values[index] = found[index]
        return f"{how} {places}"

    @staticmethod
    def index_of(node: NodeModel, place: tuple[int, ...], position: int) -> tuple[int, ...]:
        around = dict(zip(node.above.box, place, strict=True))  # type: ignore[union-attr]
        around[node.axis] = around.get(node.axis, 0) * node.capacity + position
        return tuple(around[axis] for axis in node.box)

    def copy(self) -> str | None:
        """`fill`, `from_numpy` and `copy_from`."""
        leaf, how = self.random.choice(self.leaves()), self.random.choice(["fill", "from_numpy", "copy_from"])
        visited = leaf.visited()
        if how == "fill":
            number = self.random.randint(0, 9)
            leaf.field.fill(leaf.element_of(number).tolist())
            leaf.values[visited] = leaf.convert(leaf.element_of(number))
            return f"fill {leaf.shape} with {number}"
        source, values = None, np.array([self.random.randint(0, 3) for _ in range(leaf.values.size)]).reshape(leaf.values.shape)
        if how == "copy_from":
            others = [one for one in self.leaves() if one.values.shape == leaf.values.shape and one is not leaf and one.dtype == leaf.dtype]
            if not others:
                return None
            source = self.random.choice(others)
            values = source.values.astype(np.int64)
        new = leaf.convert(values)
        has_numbers = (new != 0).reshape(*leaf.shape, -1).any(-1)
        missed = int(np.count_nonzero(new[~visited]))
        expected: list[str] = []
        if self.imports == "active":
            expected = [f"{missed} elements that are not zero"] * (missed > 0)
            leaf.values[visited] = new[visited]
        else:
            for index in np.argwhere(has_numbers if self.imports == "nonzero" else np.ones(leaf.shape, bool)):
                leaf.node.touch(tuple(index), leaf.box)
            leaf.values[...] = new
        with expect_warnings(*expected):
            if source is None:
                leaf.field.from_numpy(values.astype(leaf.dtype))
            else:
                leaf.field.copy_from(source.field)
        return f"{how} {leaf.shape}"

    def assume_active(self) -> str | None:
        """Writes below nodes that the kernel promises to be active."""
        leaf = self.random.choice(self.leaves())
        node = leaf.node.sparse_above()
        places = self.pick(leaf.shape, 20, leaf.visited())
        if node is None or not node.is_sparse or not places:
            return None
        numbers = self.numbers(len(places))
        kernels.write_without_tests(leaf.field, node.node, self.pack(places, len(leaf.shape), leaf.offset), numbers)
        for place, number in zip(places, numbers.tolist(), strict=True):
            leaf.values[place] = leaf.convert(leaf.element_of(number))
        return f"no_activate {places}"

    def destroy(self) -> str | None:
        """Destroys a tree: its uses raise. Another one takes its place, with cells that are zero."""
        built = [tree for tree in self.trees if tree.tree is not None]
        if not built:
            return None
        tree = self.random.choice(built)
        tree.tree.destroy()
        self.trees.remove(tree)
        for leaf in tree.root.list_leaves():
            for use in (leaf.field.to_numpy, lambda leaf=leaf: kernels.update_own(leaf.field), lambda leaf=leaf: leaf.field.fill(1)):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    expect_destroyed(use)
        self.add_tree(True)
        return "destroy"

    def differentiate(self) -> str | None:
        """The gradient of a sum of squares over the active cells of a tree of its own."""
        builder = qd.FieldsBuilder()
        x, loss = qd.field(qd.f64, needs_grad=True), qd.field(qd.f64, shape=(), needs_grad=True)
        node = builder.pointer(qd.i, 5)
        node = node.bitmasked(qd.ij, (4, 3)) if self.random.random() < 0.5 else node.dense(qd.ij, (3, 2))
        node.place(x)
        builder.lazy_grad()
        tree = builder.finalize()
        for place in self.pick(x.shape, 5):
            x[place] = self.random.randint(1, 5)
        with qd.ad.Tape(loss):
            kernels.square_sum(x, loss)
        np.testing.assert_array_equal(x.grad.to_numpy(), 6 * x.to_numpy(), "gradient")
        assert loss[None] == 3 * (x.to_numpy() ** 2).sum(), "loss"
        tree.destroy()
        return "gradient"

    # -- checks

    def check(self) -> None:
        """Compares everything that can be seen."""
        for leaf in self.leaves():
            with expect_warnings(*["different lengths"] * (leaf.node.kind == "dynamic")):
                found = leaf.field.to_numpy()
            np.testing.assert_array_equal(found, leaf.values, f"field {leaf.shape} in {leaf.node.kind}")
        leaf = self.random.choice(self.leaves())
        seen, form = np.zeros(leaf.shape, np.int32), self.random.choice([kernels.visit, kernels.visit_inside, kernels.visit_plain])
        if self.random.random() < 0.6:
            form(leaf.field, seen)
            np.testing.assert_array_equal(seen, leaf.visited(), form.__name__)
        total = float(leaf.values.astype(np.float64).sum())
        if self.random.random() < 0.2:
            found = kernels.add_up(leaf.field)
            assert found == total, f"a sum is {found}, not {total}"
        for place in self.pick(leaf.shape, 3):
            at = tuple(self.pack([place], len(place), leaf.offset)[0].tolist())
            one = leaf.field[at]
            np.testing.assert_array_equal(one.to_numpy() if leaf.element else one, leaf.values[place], f"element {at}")
        for node in self.nodes("pointer", "bitmasked", "hash", "dynamic"):
            places = self.pick(node.index_shape, 4)
            expected = [bool(node.lengths[place] if node.kind == "dynamic" else node.active[place]) for place in places]
            assert [qd.is_active(node.node, list(place)) for place in places] == expected, f"is_active {node.kind} {places}"
            if node.kind == "dynamic":
                lengths = [int(node.lengths[place]) for place in places]
                assert [qd.length(node.node, list(place)) for place in places] == lengths, f"length {places}"
        node = self.random.choice(self.nodes("pointer", "bitmasked", "hash", "dynamic"))
        if self.random.random() < 0.3:
            count = kernels.count(node.node)
            assert count == node.present().sum(), f"a loop over {node.kind} {node.shape} visits {count}, not {node.present().sum()}"
        if self.random.random() < 0.6:
            return
        places = self.pick(node.index_shape, 8)
        result = np.zeros(len(places), np.int32)
        kernels.ask(node.node, self.pack(places, len(node.index_shape)), node.kind == "dynamic", result)
        expected = node.lengths if node.kind == "dynamic" else node.active
        np.testing.assert_array_equal(result, [int(expected[place]) for place in places], f"in a kernel: {node.kind} {places}")

    def run(self) -> None:
        """Runs the program; raises `AssertionError` with what was done if something differs."""
        often = [self.write, self.set_activity, self.update, self.append]
        once = [self.write_structs, self.clear, self.stencil, self.scatter, self.prune, self.copy, self.assume_active, self.destroy]
        operations: list[Callable[[], str | None]] = [*often, *often, *once, self.differentiate]
        for _ in range(self.random.randint(2, 7)):
            operation = self.random.choice(operations)
            self.done.append(f"({operation.__name__})")
            if (said := operation()) is None:
                self.done.pop()
                continue
            self.done[-1] = said
            self.check()


def expect_destroyed(use: Callable[[], Any]) -> None:
    """A use of a destroyed tree says so."""
    try:
        use()
    except qd.QuadrantsRuntimeError as error:
        assert "destroyed" in str(error), error
    else:
        raise AssertionError("a destroyed tree was used")


def run(seed: int, arch: str = "cpu", offline_cache: bool = True) -> None:
    """Runs one program; an exception has the tree, what was done, and the cause."""
    program = None
    try:
        program = Program(seed, arch, offline_cache)
        program.run()
    except Exception as error:
        done = "\n  ".join(program.done) if program else ""
        raise AssertionError(f"seed {seed} on {arch}:\n  {done}\n  {error!r:.800}") from error


def run_batch(work: tuple[int, int, list[str]]) -> list[str]:
    """Runs programs one after the other and returns what was wrong."""
    first, count, archs = work
    wrong = []
    for seed in range(first, first + count):
        for arch in archs:
            try:
                run(seed, arch, offline_cache=False)
            except AssertionError as error:
                where = traceback.extract_tb(error.__cause__.__traceback__)[-1] if error.__cause__ else None
                wrong.append(f"{error}\n  at {where}")
    return wrong


def main() -> int:
    """The command; the status says whether all agreed."""
    parser = argparse.ArgumentParser(description="Random programs on sparse trees against a model in NumPy.")
    parser.add_argument("--count", type=int, default=100, help="programs to run")
    parser.add_argument("--seed", type=int, default=0, help="number of the first program")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes at a time")
    parser.add_argument("--arch", nargs="+", default=["cpu", "python"], help="where each program runs")
    given = parser.parse_args()
    begin, done, failures, end = time.monotonic(), 0, 0, given.seed + given.count
    batches = [(first, min(BATCH, end - first), given.arch) for first in range(given.seed, end, BATCH)]
    with ProcessPoolExecutor(given.jobs, get_context("spawn"), max_tasks_per_child=1) as pool:
        for batch, wrong in zip(batches, pool.map(run_batch, batches), strict=True):
            done, failures = done + batch[1], failures + len(wrong)
            print(*wrong, sep="\n", end="\n" * bool(wrong), flush=True)
            print(f"{done} programs, {failures} wrong, {time.monotonic() - begin:.0f} s", file=sys.stderr, flush=True)
    print(f"{done} programs on {' and '.join(given.arch)}: {failures} wrong")
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())

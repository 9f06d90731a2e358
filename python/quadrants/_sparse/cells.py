"""Nodes whose cells may be inactive. Kernels and the frontend call these functions; `docs/design/sparse.md` has the idea.

The cells of a node are numbered in memory order, and the fields below it have memory for all of them, which the system provides page by
page at the first access. `Cells` records which cells are active, and keeps a list of them for loops.
"""

from __future__ import annotations

import itertools
from typing import Any

import quadrants as qd

from .. import _runtime
from . import copies

_GROUP = 128  # candidates that one iteration of `refresh` looks at
_STRIP = 128  # groups, one for each thread of a block of a GPU
_STALE, _LISTED = 0, 1  # elements of `Cells.state`


def make_array(node: Any, dtype: Any, count: int, buffer: Any = None) -> qd.ScalarField:
    """Returns a field of `count` numbers for the records of a node; its memory is provided at the first access. `buffer` shares the memory
    of another field.
    """
    size = max(1, count * dtype.size)
    made = qd.ScalarField(dtype, (), (count,), None, None, buffer or _runtime.Buffer(size, False, True))
    made._element_type, made._leaf, made._name = dtype, node, f"records of {node._kind} {list(node.shape)}"
    return made


_serials = itertools.count()


def choose_counter(total: int) -> Any:
    """Returns the type of the numbers of `total` things."""
    return qd.i32 if total < 2**31 else qd.i64


@qd.func
def index_at(loop: qd.template(), number):
    """Returns the index of the cell with a number."""
    return qd.Vector(
        [
            qd.cast(sum([number % p // w % e * f for p, w, e, f in qd.static(loop.decode[k])]) + qd.static(loop.origin[k]), qd.i32)
            for k in qd.static(range(len(loop.decode)))
        ]
    )


class Cells:
    """The activity of the cells of one node. The subclasses differ in what they record for a cell."""

    scanned: int  # cells that one candidate of `refresh` covers
    listed: int  # cells of one block of the list
    has_chunks = False  # a block of the list is a chunk

    def __init__(self, node: Any, above: Cells | None, total: int, per_above: int):
        self.serial = next(_serials)  # the same in each process that makes the same trees
        self.node, self.above, self.total, self.per_above = node, above, total, per_above
        self.inner: tuple[Cells, ...] = ()  # the next such nodes below
        self.raws: tuple[qd.ScalarField, ...] = ()  # memory of the fields below that are in no node of `inner`, as numbers
        self.sizes: tuple[int, ...] = ()  # numbers of each such field in one cell
        self.plains: tuple[Any, ...] = ()  # for the interpreter: these fields, without activation
        self.counter = self.own_counter = choose_counter(total)
        self.peak = self.most = 0

    def _make_list(self) -> None:
        candidates = self.total // self.scanned
        above = self.above
        self.per_block = 0 if above is None else candidates // (above.total // above.listed)
        self.state = make_array(self.node, qd.i32, 4)
        strips = -(-candidates // (_GROUP * _STRIP))
        # Sums of strips of groups, and then those of groups. On a GPU, one block of threads runs all loops of `refresh` for one strip.
        self.sums = make_array(self.node, qd.i32, strips * (_STRIP + 1))
        self.strips = 0 if self.sums._device is None else strips
        self.blocks = make_array(self.node, self.counter, self.total // self.listed)
        if above is not None:
            above.inner += (self,)

    @qd.pyfunc
    def note_change(self):
        """Marks the list as no longer complete."""
        if self.state[_STALE] == 0:
            self.state[_STALE] |= 1  # atomic in kernels

    @qd.pyfunc
    def touch(self, n):
        """Activates a cell in which an element is about to be written."""
        if not self.holds(n):
            self.reach(n)

    @qd.func
    def find_candidate(self, t):
        """Returns the t-th candidate: all of them, or those in active cells of the node above."""
        if qd.static(self.above is None):
            return qd.cast(t, self.counter)
        block = qd.cast(self.above.blocks[t // qd.static(self.per_block)], self.counter)
        return block * qd.static(self.per_block) + t % qd.static(self.per_block)

    @qd.func
    def add_up(self, first, end):
        """Replaces each of some sums by those before it, and returns all of them."""
        total = 0
        qd.loop_config(serialize=True)
        for g in range(first, end):
            found = self.sums[g]
            self.sums[g] = total
            total += found
        return total

    @qd.func
    def refresh(self):
        """Rebuilds the list of active cells if it is not complete: counts, adds up, and writes, in the order of the cells."""
        if qd.static(self.above is not None):
            self.above.refresh()
        candidates = qd.cast(qd.static(self.total // self.scanned), self.counter)
        if qd.static(self.above is not None):
            candidates = qd.cast(self.above.state[_LISTED], self.counter) * qd.static(self.per_block)
        groups = qd.cast((candidates + (_GROUP - 1)) // _GROUP, qd.i32) * qd.min(self.state[_STALE], 1)
        for g in range(_STRIP if qd.static(self.strips == 1) else groups):
            if g < groups:
                found = 0
                for t in range(qd.cast(g, self.counter) * _GROUP, qd.min((qd.cast(g, self.counter) + 1) * _GROUP, candidates)):
                    found += self.count_blocks(self.find_candidate(t))
                self.sums[self.strips + g] = found
        total = 0
        if qd.static(self.strips > 1):
            used = (groups + (_STRIP - 1)) // _STRIP
            for s in range(used):
                self.sums[s] = self.add_up(self.strips + s * _STRIP, self.strips + qd.min((s + 1) * _STRIP, groups))
            total = self.add_up(0, used)
        else:
            total = self.add_up(self.strips, self.strips + groups)
        if self.state[_STALE] != 0:
            self.state[_LISTED] = total
            self.state[_STALE] = 0
        for g in range(_STRIP if qd.static(self.strips == 1) else groups):
            if g < groups:
                place = self.sums[self.strips + g] + (self.sums[g // _STRIP] if qd.static(self.strips > 1) else 0)
                for t in range(qd.cast(g, self.counter) * _GROUP, qd.min((qd.cast(g, self.counter) + 1) * _GROUP, candidates)):
                    place = self.list_blocks(self.find_candidate(t), place)

    @qd.func
    def first_of(self, n, k: qd.template()):
        """Returns the number of the first element in a cell of the k-th field."""
        return qd.cast(n, qd.static(choose_counter(self.total * self.sizes[k]))) * qd.static(self.sizes[k])

    @qd.func
    def clear_cell(self, n):
        """Sets everything in a cell to zero and deactivates the cells in it."""
        if qd.static(len(self.plains) > 0):
            for k in qd.static(range(len(self.plains))):
                for o in range(self.first_of(n, k), self.first_of(n + 1, k)):
                    self.plains[k][index_at(self.plains[k]._loop, o)] = 0
        else:
            for k in qd.static(range(len(self.raws))):
                for o in range(self.first_of(n, k), self.first_of(n + 1, k)):
                    self.raws[k][o] = 0
        for k in qd.static(range(len(self.inner))):
            self.inner[k].clear_within(qd.cast(n, self.inner[k].own_counter))

    # -- from Python

    fill = staticmethod(copies.fill)
    overwrite = staticmethod(copies.overwrite)

    @staticmethod
    def encode(digits: Any, index: Any) -> int:
        """Returns the number of the cell that has an index."""
        steps = (((int(index[at]) - origin) // divisor, extent, weight) for at, origin, divisor, extent, weight in digits)
        return sum((count % extent if extent else count) * weight for count, extent, weight in steps)

    def give_back(self, count: int) -> None:
        """Returns memory of cells that are all inactive to the system, unless `count`, those of the last round, used a tenth of it."""
        self.most = max(self.most, count)
        bytes_per_cell = (size * raw.dtype.size for raw, size in zip(self.raws, self.sizes, strict=False))  # none in the interpreter
        if any([raw._give_back(count * n, self.most * n) for raw, n in zip(self.raws, bytes_per_cell, strict=False)]):
            self.most = count

    def release(self) -> None:
        """Frees the memory of the records: later uses of the node raise."""
        for array in (*self.list_records(), *self.raws):
            array._release()

    def list_records(self) -> list[qd.ScalarField]:
        """Returns the arrays that record which cells are active."""
        return [array for array in vars(self).values() if isinstance(array, qd.ScalarField)]

    def list_below(self) -> list[Cells]:
        """Returns these cells and those of all sparse nodes below."""
        return [self, *(one for inner in self.inner for one in inner.list_below())]

    def observe(self) -> int:
        """Returns the number of active cells, or elements of lists, and notes what is allocated if it is the most so far."""
        count = _count(self)
        self.peak = max(self.peak, int(self.state[_LISTED]) if self.has_chunks else count)
        return count


@qd.kernel
def _count(cells: qd.Template) -> qd.i64:
    cells.refresh()
    count = qd.cast(cells.state[_LISTED], qd.i64)
    if qd.static(cells.listed > 1 or cells.has_chunks):
        count = 0
        for t in range(cells.state[_LISTED]):
            count += cells.count_in(cells.blocks[t])
    return count

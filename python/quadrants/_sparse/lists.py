"""Nodes with a list in each cell of the node above: `dynamic`."""

from __future__ import annotations

from typing import Any

import numpy as np

import quadrants as qd

from .cells import Cells, choose_counter, make_array


class Lists(Cells):
    """The lists of a `dynamic` node: the number of elements of each. A cell of the node is an element; its cells are numbered chunk by
    chunk, and the chunks with the same position in their lists follow each other.
    """

    has_chunks = True

    def __init__(self, node: Any, above: Cells | None, lists: int, capacity: int, chunk: int, per_above: int):
        super().__init__(node, above, lists * capacity, per_above)
        self.own_counter = choose_counter(lists)
        self.lists, self.capacity, self.chunk = lists, capacity, chunk
        self.scanned, self.listed = capacity, chunk
        self.lengths = make_array(node, qd.i32, lists)
        self._make_list()

    @qd.func
    def list_of(self, n):
        """Returns the number of the list that has the element."""
        return n // qd.static(self.chunk) % qd.static(self.lists)

    @qd.func
    def place_of(self, n):
        """Returns the position of the element in its list."""
        return qd.cast(n // qd.static(self.chunk * self.lists) * qd.static(self.chunk) + n % qd.static(self.chunk), qd.i32)

    @qd.func
    def holds(self, n):
        """Whether the list reaches to the element."""
        return self.place_of(n) < self.lengths[self.list_of(n)]

    @qd.func
    def holds_in(self, block, position):
        """Whether the list reaches to a position of a block."""
        return block // qd.static(self.lists) * qd.static(self.chunk) + position < self.lengths[block % qd.static(self.lists)]

    @qd.pyfunc
    def reach_list(self, a):
        """Activates the cells around the list."""
        if qd.static(self.above is not None):
            self.above.touch(a // self.per_above)
        self.note_change()

    @qd.func
    def reach(self, n):
        """Extends the list to the element."""
        self.reach_list(self.list_of(n))
        qd.atomic_max(self.lengths[self.list_of(n)], self.place_of(n) + 1)

    def _reach_from_python(self, n: int) -> None:
        chunk, a = divmod(n // self.chunk, self.lists)
        self.reach_list(a)
        self.lengths[a] = max(self.lengths[a], chunk * self.chunk + n % self.chunk + 1)

    reach.host = _reach_from_python

    @qd.func
    def extend(self, a):
        """Returns the position of a new last element, or -1 if the list is full."""
        self.reach_list(a)
        place = qd.atomic_add(self.lengths[a], 1)
        if place >= qd.static(self.capacity):
            qd.atomic_sub(self.lengths[a], 1)
            place = -1
        return place

    @qd.pyfunc
    def length(self, a):
        """Returns the number of elements of the list."""
        return min(self.lengths[a], qd.static(self.capacity))

    ensure = reach_list

    @qd.pyfunc
    def has_content(self, a):
        """Whether the list has elements."""
        return self.lengths[a] > 0

    @qd.func
    def remove_list(self, a):
        """Removes all elements."""
        count = self.length(a)
        if count != 0:
            self.lengths[a] = 0
            self.note_change()
            for k in range(count):
                self.clear_cell(self.number_of(qd.cast(a, self.counter), k))

    remove = remove_list

    @qd.func
    def number_of(self, a, k):
        """Returns the number of the k-th element of a list."""
        c = qd.static(self.chunk)
        return (qd.cast(k // c, self.counter) * qd.static(self.lists) + a) * c + k % c

    @qd.func
    def count_blocks(self, a):
        """Number of blocks of a list."""
        return (self.length(a) + qd.static(self.chunk - 1)) // qd.static(self.chunk)

    @qd.func
    def list_blocks(self, a, place):
        """Appends the blocks of a list to the list of blocks."""
        for k in range(self.count_blocks(a)):
            self.blocks[place + k] = qd.cast(k, self.counter) * qd.static(self.lists) + a
        return place + self.count_blocks(a)

    @qd.func
    def count_in(self, block):
        """Number of elements of the list that a block belongs to, counted at its first block."""
        return self.length(block) if block < qd.static(self.lists) else 0

    @qd.func
    def clear_within(self, n):
        """Empties the lists in a cell of the node above."""
        for a in range(n * qd.static(self.per_above), (n + 1) * qd.static(self.per_above)):
            self.remove_list(a)

    @qd.func
    def clear_block(self, block):
        """Empties the list that a block belongs to; its first block does so."""
        if block < qd.static(self.lists):
            self.remove_list(block)

    def list_numbers(self) -> np.ndarray:
        """Returns the numbers of all elements, for the interpreter."""
        lengths = self.lengths.view()
        lists = np.repeat(np.arange(len(lengths)), lengths)
        places = np.arange(len(lists)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        return np.sort((places // self.chunk * self.lists + lists) * self.chunk + places % self.chunk)

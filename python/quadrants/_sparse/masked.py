"""Nodes with a bit for each cell: `pointer` and `bitmasked`."""

from __future__ import annotations

from typing import Any

import numpy as np

import quadrants as qd

from .cells import Cells, make_array


class Masked(Cells):
    """Cells with a bit each: `pointer` lists every active cell, `bitmasked` without nodes below lists groups with an active cell."""

    def __init__(self, node: Any, above: Cells | None, total: int, per_above: int, padded: int, lists_groups: bool):
        super().__init__(node, above, total, per_above)
        self.scanned = min(32, padded)
        self.listed = self.scanned if lists_groups else 1
        self.bits = make_array(node, qd.u32, -(-total // 32))
        self._make_list()

    @qd.pyfunc
    def holds(self, n):
        """Whether the cell is active."""
        return (self.bits[n >> 5] >> (n & 31)) & 1 != 0  # as written, for Python: `qd.cast` is slow there

    @qd.func
    def holds_in(self, block, position):
        """Whether the cell at a position of a block is active."""
        first = block * qd.static(self.listed)
        word = self.bits[first >> 5] >> qd.cast(first & 31, qd.u32)  # the same for all lanes
        return (word >> qd.cast(position, qd.u32)) & qd.u32(1) != 0

    @qd.func
    def reach(self, n):
        """Activates the cell, and those above."""
        if qd.static(self.above is not None):
            self.above.touch(n // self.per_above)
        qd.atomic_or(self.bits[n >> 5], qd.u32(1) << qd.cast(n & 31, qd.u32))
        self.note_change()

    def _reach_from_python(self, n: int) -> None:
        if not self.holds(n):
            if self.above is not None:
                self.above.reach(n // self.per_above)
            self.bits[n >> 5] |= 1 << (n & 31)
            self.note_change()

    reach.host = _reach_from_python

    @qd.func
    def remove(self, n):
        """Deactivates the cell."""
        bit = qd.u32(1) << qd.cast(n & 31, qd.u32)
        if qd.atomic_and(self.bits[n >> 5], ~bit) & bit != 0:
            self.note_change()
            self.clear_cell(n)

    has_content, ensure = holds, Cells.touch

    @qd.func
    def read_unit(self, unit):
        """Returns the bits of the cells of a candidate."""
        first = unit * qd.static(self.scanned)
        word = self.bits[first >> 5] >> qd.cast(first & 31, qd.u32)
        return word & qd.cast(qd.static(2**self.scanned - 1), qd.u32)

    @qd.func
    def count_blocks(self, unit):
        """Number of blocks of a candidate."""
        count = qd.math.popcnt(self.read_unit(unit))
        return qd.min(count, 1) if qd.static(self.listed > 1) else count

    @qd.func
    def list_blocks(self, unit, place):
        """Appends the blocks of a candidate to the list."""
        word = self.read_unit(unit)
        if qd.static(self.listed > 1):
            if word != 0:
                self.blocks[place] = unit
                place += 1
        else:
            for k in range(qd.static(self.scanned)):
                if (word >> qd.cast(k, qd.u32)) & qd.u32(1) != 0:
                    self.blocks[place] = unit * qd.static(self.scanned) + k
                    place += 1
        return place

    @qd.func
    def count_in(self, unit):
        """Number of active cells of a block of the list."""
        return qd.math.popcnt(self.read_unit(unit))

    @qd.func
    def clear_within(self, n):
        """Deactivates the cells in a cell of the node above."""
        units = qd.static(self.per_above // self.scanned)
        for unit in range(n * units, (n + 1) * units):
            if self.read_unit(unit) != 0:
                for cell in range(unit * qd.static(self.scanned), (unit + 1) * qd.static(self.scanned)):
                    if self.holds(cell):
                        self.remove(cell)

    @qd.func
    def clear_block(self, block):
        """Deactivates the cells of a block of the list."""
        for k in range(qd.static(self.listed)):
            self.remove(block * qd.static(self.listed) + k)

    def list_numbers(self) -> np.ndarray:
        """Returns the numbers of the active cells, for the interpreter."""
        words = self.bits.view()
        if self.above is None or self.per_above % 32:
            used = np.flatnonzero(words)
        else:  # those in active cells above
            used = (self.above.list_numbers()[:, None] * (self.per_above // 32) + np.arange(self.per_above // 32)).reshape(-1)
        rows, bits = np.nonzero(np.unpackbits(words[used].view(np.uint8), bitorder="little").reshape(-1, 32))
        return used[rows] * 32 + bits

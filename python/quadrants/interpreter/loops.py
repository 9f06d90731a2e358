"""Loops of interpreted kernels: the values of their variables."""

from __future__ import annotations

import builtins
import itertools
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from quadrants._base import options as _options
from quadrants._base.errors import QuadrantsAssertionError
from quadrants._containers.layout_tree import SNode
from quadrants._language import checkpoints
from quadrants._language.ndrange import GroupedNDRange, _Ndrange

from . import host_objects, intrinsics, scalars, values
from .accesses import Accesses
from .scalars import I32, options
from .values import Vec, read


class Loops(Accesses):
    """Computes the values of loop variables."""

    def loop_truth(self, value: Any) -> bool:
        """Evaluates the condition of `while`."""
        return self.truth(value) and not self.dry

    def rounds(self, flag: Any) -> Iterator[None]:
        """Yields the iterations of `while qd.graph.do_while(flag)`."""
        return self.random.repeat(self._rounds(flag))

    def _rounds(self, flag: Any) -> Iterator[None]:
        """Yields the iterations of a do_while: one, and further ones while the flag is not zero after an iteration."""
        yield
        most = _options.get("graph_max_iterations") if options.debug else 0
        for number in itertools.count(1):
            if self.dry or not self.runs() or not self.tensor(flag).data[()]:  # type: ignore[union-attr]
                return
            if number == most:
                advice = "set the option graph_max_iterations where it needs more"
                raise QuadrantsAssertionError(f"qd.graph.do_while() has run {most} rounds, and its flag is not zero: {advice}")
            yield

    def runs(self, loops: int = 0) -> bool:
        """Whether statements that change data, such as `loops` loops, run: the launch has reached the label from which it resumes, and is
        not suspended.
        """
        runs = self.awaited is None and self.suspended is None
        if loops and not (runs and self.random.is_serial):
            self.random.enter(self.random.count + (0 if runs else loops), gate=self.random.gate if runs else 0)
        return runs

    def section(self) -> None:
        """Begins or ends statements that run beside others."""
        self.random.enter(self.random.count + 1)

    def nest(self, change: int) -> None:
        """Begins (1) or ends (-1) a run-time branch or loop whose inner loops are serial."""
        self.random.nested += change

    def resume_at(self, label: Any) -> None:
        """Begins a checkpoint."""
        self.has_checkpoints = True
        self.random.gate += 1
        if self.awaited == int(label):
            self.awaited = None

    def suspend(self, label: Any, flag: Any) -> None:
        """Ends a checkpoint: suspends the launch if the flag is not zero."""
        tensor = self.tensor(flag)
        if self.runs() and (self.truth(flag) if tensor is None else tensor.data[()]):
            self.suspended = int(label)
        self.random.gate += 1

    def status(self) -> int:
        """Returns the status of a launch with checkpoints, as compiled kernels do."""
        if not self.has_checkpoints:
            return checkpoints.NONE
        return checkpoints.UNKNOWN if self.awaited is not None else checkpoints.START if self.suspended is None else self.suspended

    def iterate(self, items: Any, count: int) -> Iterator[Any]:
        """Yields the values of a loop variable, or tuples of them for `count` targets."""
        iterator = self._loop_values(items, count)
        if options.recorder is not None:
            iterator = options.recorder.loop(iterator)
        if self.dry:
            return itertools.islice(iterator, 1)
        is_loop = isinstance(items, (range, GroupedNDRange, _Ndrange, SNode)) or self.tensor(items) is not None
        return self.random.loop(iterator) if is_loop else iterator

    def iterate_slice(self, base: Any, index: Any, count: int) -> Iterator[Any]:
        """Yields the indices of a part of a container, or the items of any other `base[index]`."""
        tensor = self.tensor(base)
        if tensor is None:
            return self.iterate(self.read(self.element(base, index)), count)
        given = [part for part in (index if isinstance(index, tuple) else (index,)) if part is not None]
        if len(given) == len(tensor.shape) and not any(isinstance(part, builtins.slice) for part in given):
            return self.iterate(self.read(self.element(base, index)), count)
        given += [builtins.slice(None)] * (len(tensor.shape) - len(given))
        ranges = [range(*part.indices(size)) for part, size in zip(given, tensor.shape, strict=True) if isinstance(part, builtins.slice)]
        iterator = self._indices(itertools.product(*ranges), len(ranges), count)
        return itertools.islice(iterator, 1) if self.dry else self.random.loop(iterator)

    def _loop_values(self, items: Any, count: int) -> Iterator[Any]:
        if isinstance(items, range):
            items = items or range(self.dry > 0)  # a body is evaluated for its types even if it never runs
            return map(scalars.as_i64 if intrinsics.is_wide((items.start, items.stop, items.step)) else I32.type, items)
        if isinstance(items, GroupedNDRange):
            indices = self._indices(items.r, len(items.r.bounds), 2) if isinstance(items.r, _Ndrange) else items.r
            return (Vec(np.array(index, None if isinstance(items.r, _Ndrange) else I32)) for index in indices)
        if isinstance(items, _Ndrange):
            return self._indices(items, len(items.bounds), count)
        tensor = self.tensor(items)
        if tensor is not None or isinstance(items, SNode):
            rank = len(items._box if tensor is None else tensor.shape)
            return self._indices(host_objects.cells(items) if tensor is None else tensor.indices(), rank, count)
        if isinstance(items, np.ndarray) and items.ndim:
            return map(self.captured, items)
        return map(read, items) if isinstance(items, list) else iter(items)

    def _indices(self, indices: Iterable[Any], rank: int, count: int) -> Iterator[Any]:
        as_counter = scalars.as_i64 if isinstance(indices, _Ndrange) and _counts_wide(indices) else I32.type
        indices = [(0,) * rank] if self.dry else indices
        return (tuple(map(as_counter, index)) if count else as_counter(index[0]) for index in indices)

    def static_items(self, items: Any) -> Iterable[Any]:
        """Returns the items of an unrolled loop."""
        if isinstance(items, np.ndarray) and items.ndim:
            return map(self.captured, items)
        return map(values.Index, items.r) if isinstance(items, GroupedNDRange) else items


def _counts_wide(items: _Ndrange) -> bool:
    """Whether the counters of an ndrange are i64; an ndrange made by Python has no types."""
    is_typed = isinstance(items, intrinsics.TypedNdrange)
    return items.is_wide if is_typed else intrinsics.is_wide(bound for axis in items.bounds for bound in axis)

"""Loops of interpreted kernels: what they go over."""

from __future__ import annotations

import builtins
import itertools
from collections.abc import ItemsView, Iterable, Iterator, KeysView, ValuesView
from typing import Any

import numpy as np

from quadrants._errors import QuadrantsSyntaxError, QuadrantsTypeError
from quadrants._ndrange import GroupedNDRange, _Ndrange
from quadrants._snode import SNode

from . import hosts, notices, scalars, values
from .accesses import Accesses
from .scalars import I32, I64, options
from .values import Vec, is_runtime, read, truth


class Loops(Accesses):
    """The values of loop variables."""

    def loop_truth(self, value: Any) -> bool:
        """The condition of `while`."""
        return truth(value) and not self.dry

    def require_graph(self, name: str) -> None:
        """Raises unless the kernel was declared with graph=True."""
        if not self.is_graph:
            raise QuadrantsSyntaxError(f"{name} requires @qd.kernel(graph=True)")

    def rounds(self, flag: Any) -> Iterator[None]:
        """The rounds of `while qd.graph.do_while(flag)`: one, and more while the flag is not zero after it."""
        if not self.is_graph:
            raise QuadrantsSyntaxError("qd.graph.do_while() requires @qd.kernel(graph=True)")
        tensor = self.tensor(flag)
        if tensor is None:
            text = "does not resolve to an ndarray kernel parameter; the flag is a 0-d i32 ndarray"
            raise QuadrantsSyntaxError(f"qd.graph.do_while(): '{scalars.type_name(read(flag))}' {text}")
        if tensor.shape or tensor.data.dtype.kind not in "iub":
            raise QuadrantsTypeError("qd.graph.do_while(): the flag is a 0-d array of integers")
        yield
        while not self.dry and tensor.data[()]:
            yield

    def iterate(self, items: Any, count: int) -> Iterator[Any]:
        """The values of a loop variable, or tuples of them for `count` targets."""
        bounds = [(items.start, items.stop, items.step)] if isinstance(items, range) else getattr(getattr(items, "r", items), "bounds", ())
        notices.check_direction(bounds)
        iterator = self._loop_values(items, count)
        if options.recorder is not None:
            iterator = options.recorder.loop(iterator)
        return itertools.islice(iterator, 1) if self.dry else iterator

    def range_choice(self, items: Any) -> Any:
        """What a ternary gives a loop: one of two ranges, or anything where the condition is known before."""
        if isinstance(items, Vec):
            raise QuadrantsSyntaxError("Using non static inlined if statement as for-loop iterable is not currently supported.")
        return items

    def iterate_slice(self, base: Any, index: Any, count: int) -> Iterator[Any]:
        """The indices of a part of a container, or the items of what else `base[index]` is."""
        tensor = self.tensor(base)
        if tensor is None:
            return self.iterate(self.read(self.element(base, index)), count)
        given = [part for part in (index if isinstance(index, tuple) else (index,)) if part is not None]
        if len(given) == len(tensor.shape) and not any(isinstance(part, builtins.slice) for part in given):
            return self.iterate(self.read(self.element(base, index)), count)
        given += [builtins.slice(None)] * (len(tensor.shape) - len(given))
        ends = [(part.start, part.stop, part.step) for part in given if isinstance(part, builtins.slice)]
        sizes = [size for part, size in zip(given, tensor.shape, strict=True) if isinstance(part, builtins.slice)]
        if any(is_runtime(step) or (step or 1) < 1 for _, _, step in ends):
            raise QuadrantsSyntaxError("the step of a slice that is looped over must be positive and known while compiling")
        parts = [builtins.slice(*(None if end is None else int(end) for end in triple)) for triple in ends]
        box = itertools.product(*(range(*part.indices(size)) for part, size in zip(parts, sizes, strict=True)))
        text = f"Number of struct-for indices does not match loop variable dimensionality ({max(count, 1)} != {len(sizes)})"
        iterator = self._indices(box, len(sizes), count, text)
        return itertools.islice(iterator, 1) if self.dry else iterator

    def _loop_values(self, items: Any, count: int) -> Iterator[Any]:
        items = items.items if isinstance(items, values.RuntimeRange) else items
        if isinstance(items, range):
            items = items or range(self.dry > 0)  # a body is looked at for its types even if it never runs
            wide = any(not scalars.fits(bound, I32) for bound in (items.start, items.stop))
            dtype = I64.type if wide else I32.type
            return (dtype(k) for k in items)
        if isinstance(items, GroupedNDRange):
            if count > 1:
                raise QuadrantsSyntaxError(f"Group for should have 1 loop target, found {count}")
            return (Vec(np.array(index, I32)) for index in items.r)
        text = "Ndrange for loop with number of the loop variables not equal to the dimension of the ndrange is not supported"
        if isinstance(items, _Ndrange):
            return self._indices(items, len(items.bounds), count, text)
        tensor = self.tensor(items)
        if tensor is not None or isinstance(items, SNode):
            rank = len(items._box if tensor is None else tensor.shape)
            text = f"Number of struct-for indices does not match loop variable dimensionality ({max(count, 1)} != {rank})"
            return self._indices(hosts.cells(items) if tensor is None else tensor.indices(), rank, count, text)
        if isinstance(items, np.ndarray) and items.ndim:
            return map(self.captured, items)
        if isinstance(items, (Vec, list, tuple, dict, set, KeysView, ValuesView, ItemsView, enumerate, zip, map, filter)) or hasattr(
            items, "__next__"
        ):
            return map(read, items) if isinstance(items, list) else iter(items)
        raise QuadrantsSyntaxError(f"Cannot loop over the object {type(items)} in Quadrants scope")

    def _indices(self, indices: Iterable[Any], rank: int, count: int, message: str) -> Iterator[Any]:
        if max(count, 1) != rank:
            raise QuadrantsSyntaxError(message)
        indices = [(0,) * rank] if self.dry else indices
        return (tuple(map(I32.type, index)) if count else I32.type(index[0]) for index in indices)

    def static_items(self, items: Any) -> Iterable[Any]:
        """The items of an unrolled loop."""
        if isinstance(items, values.RuntimeRange):
            raise QuadrantsTypeError("TypeError when calling `range`: 'Quadrants Expression' object cannot be interpreted as an integer.")
        notices.check_count(items)
        if isinstance(items, np.ndarray) and items.ndim:
            return map(self.captured, items)
        return map(values.Index, items.r) if isinstance(items, GroupedNDRange) else items

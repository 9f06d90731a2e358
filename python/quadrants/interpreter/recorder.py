"""Differentiation of one interpreted launch.

Forward mode computes with dual numbers and writes tangents beside the primals. Reverse mode runs the kernel on current memory, undoes
every store afterwards, and records a tape: operands, results and partials, loads and stores (copied: the variables that hold them may
change). Then it traverses the tape backward and propagates the adjoints of the memory in the gradients. Both modes together give the
directional derivative of a gradient: the adjoints are dual numbers.

An element that was read and is overwritten in the same launch is lost when the gradient runs, unless the launch also wrote it before.
If a derivative or the control flow depends on its old value, the launch is rejected.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from quadrants._base.autodiff_mode import AutodiffMode
from quadrants._base.dtypes import BF16_BITS
from quadrants._base.errors import OverwrittenError, QuadrantsAssertionError, QuadrantsRuntimeError, warn
from quadrants._containers import foreign as _foreign
from quadrants._containers.interop import find_array

from . import scalars
from .checks import find_places
from .derivatives import PARTIALS, Dual, apply, scaled
from .shadow_memory import Memory, make, plain

_UNGRADED = "{} has no gradients to compute: no container that it uses, such as {}, has one; declare them with needs_grad=True"
_DRAWN = "random numbers cannot be drawn again when gradients are computed; draw them in a kernel before, into a container"
_LINEAR = frozenset(("add", "sub", "neg"))


class Computed(NamedTuple):
    """Components from `first` on, each of which changes by its parents' changes times partials; partials use the values of the nodes
    `uses`.
    """

    first: int
    size: int
    parents: list[tuple[np.ndarray, Any]]
    uses: list[np.ndarray]


class Moved(NamedTuple):
    """Components loaded from memory (or stored to it: `is_store`) with this gradient, and the tangent of that gradient."""

    nodes: np.ndarray
    gradients: tuple[np.ndarray | None, np.ndarray | None]
    is_store: bool
    sources: list[tuple[int, int]] = []  # for a load: its nodes, and the nodes that were stored there before


class Recorder:
    """The recording of one launch. `evaluator.dry` marks code that is evaluated only for its type."""

    def __init__(self, evaluator: Any, kernel: Any, validates: bool) -> None:
        self.evaluator, self.kernel, self.validates = evaluator, kernel.__name__, validates
        self.mode = kernel.mode
        self.forward = kernel.mode in (AutodiffMode.FORWARD, AutodiffMode.SECOND)
        self.reverse = kernel.mode in (AutodiffMode.REVERSE, AutodiffMode.SECOND, AutodiffMode.REPLAY)
        modes = (kernel.mode, kernel.primal.mode if kernel.mode == AutodiffMode.SECOND else AutodiffMode.NONE)
        self.is_replay = AutodiffMode.REPLAY in modes  # memory holds what it held before the call
        self.count = 1
        self.tape: list[Computed | Moved] = []
        self.undone: list[tuple[np.ndarray, np.ndarray]] = []
        self.integers: dict[int, tuple[np.ndarray, np.ndarray]] = {}  # by address: containers, and their earlier elements
        self.readers: dict[int, list[int]] = {}  # for each address, in the order of reading
        self.written: dict[int, int] = {}  # address: the node that was last stored there
        self.overwritten: dict[int, tuple[str, str]] = {}  # node: container and source location
        self.stored: dict[tuple[int, int], tuple[np.ndarray, np.ndarray]] = {}  # by address and size: memory and its gradient
        self.drawn: dict[int, tuple[str, str]] = {}  # nodes of random numbers
        self.gradients: dict[str, bool] = {}  # containers by label: whether they have one
        self.stopped: set[int] = set()  # containers that receive no gradient
        self.is_update = False  # the element that is being read belongs to an augmented assignment

    # -- making tracked numbers

    def _nodes(self, shape: tuple[int, ...]) -> np.ndarray:
        size = int(np.prod(shape))
        self.count += size
        return np.arange(self.count - size, self.count).reshape(shape)

    def adopt(self, array: Any) -> Any:
        """Returns an array, a place of the kernel, that can hold tracked numbers."""
        if type(array) is not np.ndarray or array.dtype.kind != "f":
            return array
        nodes = np.zeros(array.shape, np.int64) if self.reverse else None
        return make(array, (nodes, np.zeros(array.shape) if self.forward else None))

    def memory(self, array: np.ndarray, container: Any, label: str) -> Any:
        """Returns the memory of a container, with that of its gradient and tangent."""
        if array.dtype == BF16_BITS and any(find_shadow(container, which) is not None for which in ("grad", "dual")):
            raise QuadrantsRuntimeError(f"gradients of type bf16, such as that of {label}, are not interpreted: use arch=qd.cpu")
        if array.dtype.kind != "f":
            if self.reverse and array.flags.writeable:
                self.integers.setdefault(array.__array_interface__["data"][0], (array, array.copy()))
            return array
        gradient = find_shadow(container, "grad") if self.reverse or self.validates else None
        self.gradients[label] = gradient is not None
        is_second = self.reverse and self.forward
        shadows = (
            None if gradient is None else memory_of(gradient),
            _memory_of_shadow(container, "dual") if self.forward else None,
            _memory_of_shadow(gradient, "dual") if is_second and gradient is not None else None,
        )
        made: Any = array.view(Memory)
        made.shadows, made.recorder, made.label, made.container = shadows, self, label, id(container)
        return made

    def stop(self, tensor: Any) -> None:
        """Propagates no gradient to a field until the innermost loop ends."""
        for member in tensor.data.values() if isinstance(tensor.data, dict) else (tensor,):
            self.stopped.add(getattr(member.data, "container", 0))

    def loop(self, iterator: Iterator[Any]) -> Iterator[Any]:
        """Yields the same items; fields that are stopped inside the loop receive gradients again after it."""
        before = set(self.stopped)
        try:
            yield from iterator
        finally:
            self.stopped = before

    @contextlib.contextmanager
    def updating(self) -> Iterator[None]:
        """Marks the read of an element that is about to be updated."""
        self.is_update = True
        yield
        self.is_update = False

    # -- what the kernel does

    def draw(self, value: Any) -> Any:
        """Records a random number: a constant whose value is lost when the gradient runs."""
        if not self.reverse or self.evaluator.dry or value.dtype.kind != "f":
            return value
        nodes = self._nodes(())
        self.drawn[int(nodes)] = ("", "")
        return make(np.array(value), (nodes, np.zeros(()) if self.forward else None))

    def load(self, memory: Memory) -> Any:
        """Returns the current value of memory."""
        value = np.array(memory.view(np.ndarray))
        is_stopped = memory.container in self.stopped
        gradient, dual, tangent = (None, None, None) if is_stopped else memory.shadows or (None, None, None)
        nodes = None
        if not self.evaluator.dry and (self.reverse or (self.validates and gradient is not None and not self.is_update)):
            nodes = self._nodes(value.shape)
            places = list(zip(list_addresses(memory), nodes.reshape(-1).tolist(), strict=True))
            sources = [(node, self.written[address]) for address, node in places if address in self.written]
            self.tape.append(Moved(nodes.copy(), (gradient, tangent), False, sources))
            for address, node in places:
                if self.validates or address not in self.written:
                    self.readers.setdefault(address, []).append(node)
        elif self.reverse:
            nodes = np.zeros(value.shape, np.int64)
        tangents = None
        if self.forward:
            tangents = np.zeros(value.shape) if dual is None else dual.astype(np.float64)
        return make(value, (nodes, tangents)) if nodes is not None or tangents is not None else value

    def store(self, memory: Memory, value: Any) -> None:
        """Writes to memory."""
        gradient, dual, tangent = memory.shadows or (None, None, None)
        nodes, tangents = getattr(value, "shadows", None) or (None, None)
        target = memory.view(np.ndarray)
        stored = np.broadcast_to(np.zeros((), np.int64) if nodes is None else nodes, target.shape).reshape(-1).tolist()
        for position, (address, node) in enumerate(zip(list_addresses(memory), stored, strict=True)):
            self.written[address] = node
            for reader in self.readers.get(address, ()):
                place = next(find_places(), "")
                if self.validates:
                    self._report(memory.label, np.unravel_index(position, target.shape), place)
                self.overwritten.setdefault(reader, (memory.label, place))
        if self.reverse:
            self.undone.append((target, target.copy()))
            if dual is not None:
                self.undone.append((dual, dual.copy()))
        target[...] = plain(value)
        if dual is not None:
            dual[...] = 0 if tangents is None else tangents
        if self.reverse and gradient is not None:
            nodes = np.zeros((), np.int64) if nodes is None else nodes
            self.tape.append(Moved(np.broadcast_to(nodes, target.shape).copy(), (gradient, tangent), is_store=True))
            self.stored[target.__array_interface__["data"][0], target.size] = (target, gradient)

    def keeps(self, memory: Any, value: Any) -> bool:
        """Handles an atomic minimum or maximum while a gradient runs: memory holds the result, whose gradient flows to an equal value."""
        if not self.reverse or not isinstance(memory, Memory):
            return False
        gradient, _, tangent = memory.shadows or (None, None, None)
        data = value.data if hasattr(value, "data") and not isinstance(value, np.generic) else value
        nodes, _ = getattr(data, "shadows", None) or (None, None)
        if self.is_replay and not self.evaluator.dry:
            raise OverwrittenError(f"(kernel={self.kernel}) an atomic extremum in a kernel that overwrites what its gradient needs")
        if not self.evaluator.dry and gradient is not None:
            target = memory.view(np.ndarray)
            self.stored[target.__array_interface__["data"][0], target.size] = (target, gradient)
        if self.evaluator.dry or gradient is None or nodes is None:
            return True
        for index in zip(*np.nonzero(np.atleast_1d(plain(data) == memory.view(np.ndarray))), strict=True):
            part = (*index[: gradient.ndim], ...)
            gradients = (gradient[part], None if tangent is None else tangent[part])
            self.tape.append(Moved(np.array(nodes[part]), gradients, is_store=True))
        return True

    def compute(self, row: Any, operands: tuple[Any, ...]) -> Any:
        """Evaluates an operator of the table."""
        operands = tuple(operand.copy() if isinstance(operand, Memory) else operand for operand in operands)
        result = scalars.compute(row, *map(plain, operands))
        shadows = [getattr(operand, "shadows", None) or (None, None) for operand in operands]
        if self.evaluator.dry or not any(part is not None and part.any() for both in shadows for part in both):
            return self.adopt(result)
        partials = PARTIALS.get(row.name)
        if result.dtype.kind != "f" or partials is None:
            if self.reverse:
                self.tape.append(Computed(0, 0, [], [nodes.flatten() for nodes, _ in shadows if nodes is not None]))
            return self.adopt(result)
        numbers = [_number(operand, tangents) for operand, (_, tangents) in zip(operands, shadows, strict=True)]
        outcome: Any = result.astype(np.float64)
        if any(isinstance(number, Dual) for number in numbers):
            outcome = Dual(outcome, apply(row.name, *numbers).tangent)
        nodes = self._record(row, outcome, numbers, [nodes for nodes, _ in shadows]) if self.reverse else None
        tangents = outcome.tangent if isinstance(outcome, Dual) else np.zeros(result.shape) if self.forward else None
        return make(result, (nodes, tangents))

    def _record(self, row: Any, outcome: Any, numbers: list[Any], nodes: list[Any]) -> np.ndarray:
        shape = np.shape(outcome.value if isinstance(outcome, Dual) else outcome)
        made = self._nodes(shape)
        active = [part is not None and part.any() for part in nodes]
        parents, uses = [], []
        for position, (part, partial) in enumerate(zip(nodes, PARTIALS[row.name], strict=True)):
            if active[position]:
                parents.append((np.broadcast_to(part, shape).flatten(), partial(outcome, *numbers)))
            is_used = row.name not in _LINEAR and (row.name != "mul" or active[1 - position])
            if active[position] and is_used:
                uses.append(part.flatten())
        self.tape.append(Computed(int(made.reshape(-1)[0]) if made.size else 0, made.size, parents, uses))
        return made

    # -- afterwards

    def propagate(self) -> None:
        """Traverses the tape backward. Warns if no container has a gradient."""
        if self.mode == AutodiffMode.REVERSE and self.gradients and not any(self.gradients.values()):
            warn(_UNGRADED.format(self.kernel, next(iter(self.gradients))), UserWarning)
        changes = [np.zeros(self.count) for _ in range(1 + self.forward)]  # adjoints, and their tangents
        for entry in reversed(self.tape):
            if isinstance(entry, Computed):
                _propagate(entry, *changes)
                continue
            for memory, change in zip(entry.gradients, changes, strict=False):
                if memory is not None and entry.is_store:
                    np.add.at(change, entry.nodes, memory)
                    memory[...] = 0
                elif memory is not None:
                    memory[...] += change[entry.nodes].astype(memory.dtype)

    def undo(self) -> None:
        """Restores the earlier contents of memory."""
        for target, old in (*reversed(self.undone), *self.integers.values()):
            target[...] = old

    def check(self) -> None:
        """Raises `OverwrittenError` if the gradient needs an overwritten primal."""
        lost = {**({} if self.is_replay else self.overwritten), **self.drawn}
        if not lost:
            return
        reached, used = np.zeros(self.count, bool), np.zeros(self.count, bool)
        for entry in reversed(self.tape):
            if isinstance(entry, Moved):
                reached[entry.nodes] |= entry.is_store
                for node, source in entry.sources:
                    used[source] |= used[node]
            else:
                made = slice(entry.first, entry.first + entry.size)
                matters = entry.size == 0 or bool(reached[made].any())
                for nodes, _ in entry.parents:
                    reached[nodes] |= matters
                    used[nodes] |= bool(used[made].any())
                for nodes in entry.uses:
                    used[nodes] |= matters
        for node, (label, place) in lost.items():
            if not used[node]:
                continue
            if node in self.drawn:
                raise OverwrittenError(f"(kernel={self.kernel}) {_DRAWN}")
            raise OverwrittenError(
                f"(kernel={self.kernel}) Breaks the global data access rule: {label} is overwritten in {place}, after it was read, and "
                "the gradient needs what was read. Write to another container, or do so in another kernel"
            )

    def _report(self, label: str, index: Any, place: str) -> None:
        where = ", ".join(str(int(number)) for number in index)
        what = f"Snode {label} is overwritten unexpectedly" + (f" at component [{where}]" if where else "")
        raise QuadrantsAssertionError(f"(kernel={self.kernel}) Breaks the global data access rule. {what}.\n{place}")


def find_shadow(container: Any, which: str) -> Any:
    """Returns the gradient or tangent of a container that has memory for it, or None."""
    if _foreign.is_tensor(container):
        return _foreign.grad_of(container) if which == "grad" and _foreign.requires_grad(container) else None
    has_memory = getattr(container, f"has_{which}", None)
    return None if has_memory is not None and not has_memory() else getattr(container, which, None)


def find_copy(value: Any) -> np.ndarray | None:
    """Returns the copy of a container or array that this run uses; None if `value` is no array, or if the run uses the memory itself.

    Raises `QuadrantsRuntimeError` for sparse and quantized fields, whose cells cannot be copied.
    """
    if scalars.options.copies is None:
        return None
    if id(value) not in scalars.options.copies:
        if getattr(value, "_cells", None) is not None or getattr(value, "_quant", None) is not None:
            raise QuadrantsRuntimeError("validation on a GPU copies containers, but no sparse or quantized fields: use arch=qd.cpu")
        if hasattr(value, "has_grad"):
            made = np.array(value._fetch())
        elif _foreign.is_tensor(value):
            made = np.array(_foreign.plain_tensor(value).cpu().numpy())
        else:
            found = find_array(value, "")
            made = None if found is None else found.copy()
        scalars.options.copies[id(value)] = (value, made)  # with the value, so that no other one gets its id
    return scalars.options.copies[id(value)][1]


def memory_of(container: Any) -> np.ndarray:
    """Returns the memory of a container or of a torch tensor."""
    if (copied := find_copy(container)) is not None:
        return copied
    if not hasattr(container, "has_grad"):
        return np.asarray(find_array(container, "the gradient"))
    return container.view() if container._cells is None else container._fetch(None, True)  # notes a write


def _memory_of_shadow(container: Any, which: str) -> np.ndarray | None:
    shadow = find_shadow(container, which)
    return None if shadow is None else memory_of(shadow)


def _number(operand: Any, tangents: Any) -> Any:
    value = plain(operand).astype(np.float64)
    return value if tangents is None or not tangents.any() else Dual(value, np.array(tangents))


def _propagate(entry: Computed, adjoint: np.ndarray, tangent: np.ndarray | None = None) -> None:
    made = slice(entry.first, entry.first + entry.size)
    change: Any = adjoint[made] if tangent is None else Dual(adjoint[made], tangent[made])
    for nodes, partial in entry.parents:
        flat = Dual(np.ravel(partial.value), np.ravel(partial.tangent)) if isinstance(partial, Dual) else np.ravel(partial)
        share = scaled(flat, change)
        np.add.at(adjoint, nodes, share.value if isinstance(share, Dual) else share)
        if tangent is not None:
            np.add.at(tangent, nodes, share.tangent)


def list_addresses(memory: Any) -> Iterator[int]:
    """Yields the address of each component."""
    array = memory.view(np.ndarray)
    start = array.__array_interface__["data"][0]
    offsets = np.zeros((), np.int64)
    for extent, stride in zip(array.shape, array.strides, strict=True):
        offsets = offsets[..., None] + np.arange(extent) * stride
    return (start + int(offset) for offset in offsets.reshape(-1))

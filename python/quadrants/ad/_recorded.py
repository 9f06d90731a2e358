"""Calls on a tape."""

from __future__ import annotations

import copy
import importlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from .. import _options, _runtime
from .._errors import OverwrittenError, QuadrantsCompilationError, QuadrantsRuntimeError
from .._kernel import Kernel
from .._matrix import Matrix
from . import _keep

_CONSTANT = (bool, int, float, str, bytes, type(None), np.generic, _runtime.FieldBase, _runtime.NdarrayBase, _runtime.TensorBase)
_NUMBERS = (bool, int, float, str, np.generic)


def call(kernel: Any, arguments: tuple[Any, ...], keywords: dict[str, Any] | None) -> Any:
    """A kernel or function with its arguments."""
    return kernel(*arguments, **keywords) if keywords else kernel(*arguments)


def call_validated(kernel: Any, arguments: tuple[Any, ...], keywords: dict[str, Any] | None) -> Any:
    """A call of a kernel, interpreted.

    Raises `QuadrantsAssertionError` where it overwrites an element that it has read, in a container that has a gradient.
    """
    interpreter = importlib.import_module("..interpreter", __package__)  # few programs need it
    return interpreter.run(kernel, arguments, keywords or {}, validates=True)


class Memories:
    """What all containers hold, and the arrays among the arguments of a call: for calls that are interpreted, whose writes nobody notes."""

    def __init__(self, arguments: tuple[Any, ...] = (), before: Memories | None = None) -> None:
        known = {} if before is None else {id(memory): kept for memory, kept in before.rows}
        arrays = {id(value): value for value in arguments if isinstance(value, np.ndarray) or type(value).__module__ == "torch"}.values()
        containers = [row[0] for row in _runtime.list_containers()]
        values = [container for container in containers if getattr(container, "_parent", container)._primal is None]
        self.rows = [(memory, _keep_once(memory, known.get(id(memory)))) for memory in (*values, *arrays)]

    def restore(self) -> None:
        """Gives it back to them."""
        for memory, kept in self.rows:
            _keep.exchange(memory, kept)


def _keep_once(memory: Any, known: Any) -> Any:
    return _keep.keep(memory) if known is None or _keep.differs(memory, known) else known


class Recorded:
    """A call of a kernel, or of a function with a gradient of its own, and the numbers that its arguments held.

    `begin` and `mark` are where in the journal the call begins, and its gradient runs. Of an interpreted call there are the memories before
    it and after.
    """

    __slots__ = ("function", "arguments", "keywords", "numbers", "begin", "mark", "memories")

    def __init__(
        self,
        function: Any,
        arguments: tuple[Any, ...],
        keywords: dict[str, Any] | None,
        begin: int,
        mark: int,
        memories: tuple[Memories, Memories] | None = None,
    ) -> None:
        self.function, self.arguments, self.keywords = function, arguments, keywords
        self.numbers = [_numbers_in(value) for value in arguments] if any(not isinstance(value, _CONSTANT) for value in arguments) else None
        self.begin, self.mark, self.memories = begin, mark, memories

    def again(self) -> None:
        """The same call."""
        call(self.function, self.arguments, self.keywords)

    def backward(self, journal: Any) -> None:
        """The gradient of the call.

        Raises `QuadrantsRuntimeError` where there is none, or where numbers in the arguments are not those of the call.
        """
        gradient, name = self.function.grad, self.function.__name__
        if gradient is None:
            raise QuadrantsRuntimeError(
                f"{name} has no gradient: give it one with @qd.ad.grad_for({name}), or decorate it with qd.ad.no_grad"
            )
        for position, before in enumerate(self.numbers or ()):
            if before is not None and before != _numbers_in(self.arguments[position]):
                raise QuadrantsRuntimeError(
                    f"argument {position} of {name} was changed after the call was recorded; its gradient needs the old one: pass a copy"
                )
        if self.memories is not None:
            self.memories[1].restore()
        function = self.function
        if not isinstance(function, Kernel):
            call(gradient, self.arguments, self.keywords)
        elif vars(function).get("_needs_overwritten"):
            self._replay(journal)
        else:
            try:
                call(gradient, self.arguments, self.keywords)
            except (OverwrittenError, QuadrantsCompilationError) as problem:
                self._replay_instead(journal, problem)

    def _replay_instead(self, journal: Any, problem: Exception) -> None:
        """The gradient on what the call has overwritten. Raises `problem` where there is none either."""
        try:
            self._replay(journal)
        except (OverwrittenError, QuadrantsCompilationError):
            raise problem from None
        vars(self.function)["_needs_overwritten"] = True

    def _replay(self, journal: Any) -> None:
        if self.memories is not None and _options.get("arch") == "python":
            self.memories[0].restore()
        journal.begin_replay(self.begin, self.mark)
        try:
            call(self.function._replayed, self.arguments, self.keywords)
        finally:
            journal.end_replay()


class HostWrite:
    """A write to a container from Python, between recorded calls.

    Where a kernel on the tape has written to the container, too, the gradient of what is overwritten does not reach that kernel.
    """

    __slots__ = ("container", "index", "new", "is_intermediate", "is_replayed", "mark")

    def __init__(self, container: Any, index: Any, first_launch: int, mark: int, is_replayed: bool) -> None:
        self.container, self.index, self.mark, self.is_replayed = container, index, mark, is_replayed
        self.new: Any = None
        self.is_intermediate = container._last_launch > first_launch

    def again(self) -> None:
        """The same write."""
        if self.index is None:
            self.container.from_numpy(self.new)
        else:
            self.container[self.index] = self.new

    def backward(self, _: Any) -> None:
        """Keeps what was written, if that is to be done again; nothing of it reaches what was there before."""
        if self.is_replayed:
            self.new = self.container.to_numpy() if self.index is None else copy.copy(self.container[self.index])
        if not (self.is_intermediate and self.container.has_grad()):
            return
        gradient = self.container.grad
        if self.index is None:
            gradient.fill(0)
        else:
            gradient[self.index] = np.zeros(gradient.element_shape) if gradient.element_shape else 0


def _numbers_in(value: Any) -> Any:
    """The numbers in a Python container that a kernel may read; None for anything else."""
    if isinstance(value, _CONSTANT):
        return None
    if isinstance(value, Matrix):
        return value._array.tobytes()
    items = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, (list, tuple)) else _members_of(value)
    return [(name, item) for name, item in items if isinstance(item, _NUMBERS)]


def _members_of(value: Any) -> Any:
    return getattr(value, "__dict__", {}).items() if hasattr(value, "_data_oriented") or hasattr(value, "__dataclass_fields__") else ()

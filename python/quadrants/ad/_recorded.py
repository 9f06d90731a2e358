"""Recorded calls of a tape, and their gradients."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np

from .. import _runtime
from .._base.errors import OverwrittenError, OverwrittenPrimalError, QuadrantsCompilationError, QuadrantsRuntimeError
from .._base.imports import load
from .._containers.snapshots import Memories
from .._values.matrix import Matrix

_CONSTANT = (bool, int, float, str, bytes, type(None), np.generic, _runtime.FieldBase, _runtime.NdarrayBase, _runtime.TensorBase)
# What `specialize_bound` returns.
_KNOWN, _CHECKED, _ASSUMED = range(3)
_NUMBERS = (bool, int, float, str, np.generic)


def call(kernel: Any, arguments: tuple[Any, ...], keywords: dict[str, Any] | None) -> Any:
    """Calls a kernel or function with its arguments."""
    return kernel(*arguments, **keywords) if keywords else kernel(*arguments)


# By address and size: memory with a gradient, its contents after a call, and the gradient.
Computed = dict[tuple[int, int], tuple[np.ndarray, np.ndarray, np.ndarray]]


class Recorded:
    """A call of a kernel. `begin` and `position` are those in the undo log at which it begins and at which its gradient runs.

    `binding` holds the objects and numbers that the call used, regardless of later assignments to names and members.
    """

    __slots__ = ("arguments", "begin", "binding", "function", "keywords", "position")

    def __init__(
        self, function: Any, arguments: tuple[Any, ...], keywords: dict[str, Any] | None, begin: int, position: int, binding: Any
    ) -> None:
        self.function, self.arguments, self.keywords = function, arguments, keywords
        self.begin, self.position, self.binding = begin, position, binding
        if binding is not None and not binding.has_gradient:
            self._find_gradient()

    def _find_gradient(self) -> None:
        """Compiles the gradient now, from the code that ran. Its errors are reported when the gradient runs."""
        best = _ASSUMED + 1
        for name in ("_replayed",) if self.function._needs_overwritten else ("grad", "_replayed"):
            try:
                reads = _runtime.specialize_bound(getattr(self.function, name), self.binding, self.arguments, self.keywords)
            except (OverwrittenError, QuadrantsCompilationError):
                continue
            except Exception:
                return
            # overwritten primals are saved: the replayed gradient may know what the other one checks or assumes
            if reads < best or reads == _CHECKED:
                self.function._needs_overwritten = name == "_replayed"
            best = min(best, reads)
            if best == _KNOWN:
                return
        if best == _ASSUMED:
            kernel = self.function._replayed if self.function._needs_overwritten else self.function.grad
            _runtime.warn_of_assumptions(kernel, self.binding)

    def again(self) -> None:
        """Repeats the call."""
        self._launch(self.function)

    def backward(self, tape: Any, /) -> None:
        """Runs the gradient of the call. Raises `QuadrantsRuntimeError` if it is no longer available."""
        if self.function._needs_overwritten:
            self._replay(tape)
            return
        try:
            self._launch(self.function.grad)
        except OverwrittenPrimalError:  # some of the gradients exist
            raise
        except (OverwrittenError, QuadrantsCompilationError) as problem:
            self._replay_instead(tape, problem)

    def _launch(self, kernel: Any) -> None:
        if self.binding is None:
            call(kernel, self.arguments, self.keywords)
        else:
            _runtime.launch_bound(kernel, self.binding, self.arguments, self.keywords)

    def _replay_instead(self, tape: Any, problem: Exception) -> None:
        """Runs the gradient with the overwritten primals of the call. Raises `problem` if that is impossible, too."""
        try:
            self._replay(tape)
        except (OverwrittenError, QuadrantsCompilationError):
            raise problem from None
        self.function._needs_overwritten = True

    def _replay(self, tape: Any) -> None:
        tape.begin_replay(self.begin, self.position)
        try:
            self._launch(self.function._replayed)
        finally:
            tape.end_replay()


class Interpreted(Recorded):
    """A call of a kernel whose gradient is interpreted: a recording is made beside the call and run backward later.

    The recording is made on the memory before the call or, if that is impossible, after it (`after`).
    """

    __slots__ = ("has_tangents", "problem", "recording")

    def __init__(
        self, function: Any, arguments: tuple[Any, ...], keywords: dict[str, Any] | None, position: int, has_tangents: bool
    ) -> None:
        super().__init__(function, arguments, keywords, position, position, None)
        self.has_tangents, self.recording = has_tangents, None
        self.problem: Exception | None = None
        self._record("_replayed")

    def after(self) -> None:
        """Called when the call has returned."""
        if self.recording is None:
            self._record("grad")

    def list_computed(self) -> Computed:
        """Returns what the call has stored."""
        return {key: (memory, memory.copy(), gradient) for key, (memory, gradient) in getattr(self.recording, "stored", {}).items()}

    def refuse_foreign(self, writers: dict[int | None, str]) -> None:
        """Drops the gradient if the call has read what kernels of other threads have written; `writers` is by address (None: any)."""
        for address in writers.keys() & {None, *getattr(self.recording, "readers", ())}:
            text = (
                f"kernel {writers[address]} has written to it on another thread while the tape recorded. Call it on the tape's own thread"
            )
            self.recording, self.problem = None, QuadrantsRuntimeError(f"a recorded call reads what the tape does not know: {text}")

    def _record(self, name: str) -> None:
        derived = getattr(self.function, name)._tangent if self.has_tangents else getattr(self.function, name)
        try:
            self.recording = load("quadrants.interpreter").record(derived, self.arguments, self.keywords or {})
        except Exception as problem:  # reported when the gradient runs; the call itself raises its own error
            self.problem = problem

    def backward(self, _: Any, /) -> None:
        """Propagates the gradient of the call. Raises the error of the recording."""
        if self.recording is None:
            raise self.problem or QuadrantsRuntimeError(f"the gradient of {self.function.__name__} was not recorded")
        self.recording.propagate()


class Cut:
    """Elements of a gradient that end here: their primals were overwritten between recorded calls."""

    __slots__ = ("gradient", "position", "where")

    def __init__(self, position: int, gradient: np.ndarray, where: Any) -> None:
        self.position, self.gradient, self.where = position, gradient, where

    def again(self) -> None:
        """Does nothing: the written values are unknown."""

    def backward(self, _: Any, /) -> None:
        """Sets the elements to zero."""
        self.gradient[self.where] = 0


class Replaced:
    """A call of a function with a replaced gradient, and the values of its number arguments."""

    __slots__ = ("arguments", "function", "keywords", "position", "memories", "numbers")

    def __init__(
        self, function: Any, arguments: tuple[Any, ...], keywords: dict[str, Any] | None, position: int, memories: Memories | None
    ) -> None:
        self.function, self.arguments, self.keywords, self.position = function, arguments, keywords, position
        self.numbers = [_numbers_in(value) for value in arguments] if any(not isinstance(value, _CONSTANT) for value in arguments) else None
        self.memories = memories  # after the call, if calls are interpreted

    def again(self) -> None:
        """Repeats the call."""
        call(self.function, self.arguments, self.keywords)

    def backward(self, _: Any, /) -> None:
        """Runs the gradient of the call.

        Raises `QuadrantsRuntimeError` if there is none, or if numbers in the arguments have changed since the call.
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
            self.memories.restore()
        call(gradient, self.arguments, self.keywords)


class HostWrite:
    """A write to a container from Python, between recorded calls.

    If a kernel on the tape has written to the container, too, the gradient of the overwritten elements does not reach that kernel.
    """

    __slots__ = ("container", "index", "new", "is_intermediate", "is_replayed", "position")

    def __init__(self, container: Any, index: Any, first_launch: int, position: int, is_replayed: bool) -> None:
        self.container, self.index, self.position, self.is_replayed = container, index, position, is_replayed
        self.new: Any = None
        self.is_intermediate = container._last_launch > first_launch

    def again(self) -> None:
        """Repeats the write."""
        if self.index is None:
            self.container.from_numpy(self.new)
        else:
            self.container[self.index] = self.new

    def backward(self, _: Any, /) -> None:
        """Saves what was written, if it has to be repeated; no gradient reaches the overwritten elements."""
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
    """Returns the numbers in a Python container that a kernel may read; None for anything else."""
    if isinstance(value, _CONSTANT):
        return None
    if isinstance(value, Matrix):
        return value._array.tobytes()
    items = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, (list, tuple)) else _members_of(value)
    return [(name, item) for name, item in items if isinstance(item, _NUMBERS)]


def _members_of(value: Any) -> Any:
    return getattr(value, "__dict__", {}).items() if hasattr(value, "_data_oriented") or hasattr(value, "__dataclass_fields__") else ()

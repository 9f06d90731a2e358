"""Reverse mode over several kernels."""

from __future__ import annotations

from typing import Any

from .. import _runtime
from .._base import options as _options
from .._base.errors import QuadrantsCompilationError, warn
from .._containers.layout_tree import check_all_placed
from .._language.kernel import Kernel, derive
from .._language.parameters import bind
from ..types.enums import AutodiffMode
from ._grad_check import Memory, check_gradients
from ._loss import Loss
from ._recorded import Computed, Cut, HostWrite, Interpreted, Memories, Recorded, Replaced, call, call_validated

# Faster calls do not justify another version of their kernel.
_LEAST_MICROSECONDS = 50


class Tape:
    """Records the kernels that a block calls, and computes their gradients when it ends.

    At the entry all gradients and `loss` are set to zero. At the end the gradient of `loss` becomes 1, and the gradients of the recorded
    calls run from the last to the first: `x.grad` of every container that they read is the derivative of `loss` with respect to `x`.

        with qd.ad.Tape(loss):
            simulate()
            compute_loss()
        step = x.grad.to_numpy()

    No gradient is computed if the block ends with an exception. Tapes can be nested: gradients of each are complete when its block ends.

    Args:
        loss: a scalar container with a gradient: a 0-d field, an ndarray of one element, or a torch tensor of one element. Without it the
            tape only records; set `tape.loss`, then call `tape.grad()`.
        clear_gradients: whether gradients are set to zero at the entry. Otherwise new ones are added to them. Gradients of torch tensors
            are never cleared.
        validation: check that a call of a kernel does not overwrite elements that it has read, in containers with a gradient. This is
            slow: kernels are interpreted.
        grad_check: containers whose gradients are compared with differences along a random direction afterwards. The loss must be f64.
    """

    def __init__(self, loss: Any = None, clear_gradients: bool = True, validation: bool = False, grad_check: Any = None) -> None:
        if grad_check is not None and not isinstance(grad_check, list):
            raise AssertionError("grad_check must be a list of fields")
        self.loss = loss
        self.clear_gradients, self.validation, self.grad_check = clear_gradients, validation, grad_check
        self._recorded: list[Recorded | Replaced | HostWrite | Cut] = []
        self.entered = self.gradient_evaluated = False
        self._outer: Any = None
        self._outer_writes: Any = None
        self._first_launch = 0
        self._memory: Memory | None = None
        self._checked: Loss | None = None
        self._clears_again = False  # a tape within this one has run, and its gradients remain
        self._undo_log: Any = None
        self._is_interpreted = self._has_tangents = False
        self._computed: Computed = {}
        self._may_fuse = False
        self._fused: Recorded | None = None  # the last call, if its gradient was computed with it

    def __enter__(self) -> Tape:
        if self.entered:
            raise AssertionError("Tape can be entered only once.")
        check_all_placed()
        _options.check_runtime()
        self._checked = Loss(self.loss) if self.loss is not None else None
        self.entered = True
        if self.clear_gradients:
            _runtime.clear_shadows(1)
        if self._checked is not None:
            self._checked.clear()
        if self.validation and not _options.get("debug"):
            warn(
                "Debug mode is disabled: the tape checks what kernels overwrite, and nothing checks indices. Please specify "
                "`qd.init(debug=True)` to enable that, too",
                UserWarning,
            )
        if self.grad_check:
            self._memory = Memory()
        self._first_launch = _runtime.launch_count()
        self._undo_log = _runtime.UndoLog(keeps_all=bool(self.grad_check))
        self._undo_log.enter()
        self._outer = _runtime.set_watcher(self._watch)
        self._outer_writes = _runtime.set_write_watcher(self._note_write)
        if self._outer is not None:
            outer = getattr(self._outer, "__self__", None)
            self._has_tangents = outer._has_tangents if isinstance(outer, Tape) else True
        self._is_interpreted = self.validation or self._has_tangents or _options.get("arch") == "python"
        is_own = self._checked is not None and hasattr(self._checked.container, "has_grad")
        self._may_fuse = is_own and self.clear_gradients and not (self.grad_check or self._is_interpreted or self._outer)
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        _runtime.set_watcher(self._outer)
        _runtime.set_write_watcher(self._outer_writes)
        if kind is not None:
            self._undo_log.leave()
            self._recorded.clear()
        elif self.loss is not None:
            self.grad()
        else:
            self._undo_log.close()  # overwritten memory is saved until the gradients run

    def _watch(self, kernel: Any, arguments: tuple[Any, ...], keywords: dict[str, Any] | None) -> Any:
        if keywords and keywords.get("qd_stream") is not None:
            raise RuntimeError("qd_stream is not compatible with autograd Tape: gradients run in the order of the calls")
        outer, begin, recorded = self._outer, self._undo_log.mark(), None
        if self._is_interpreted and not kernel.mode:
            self._find_overwritten()
            recorded = Interpreted(kernel, arguments, keywords, begin, self._has_tangents)
        if self._fused is not None:
            self._give_up_fused()
        is_fused = self._run_fused(kernel, arguments, keywords)
        if is_fused:
            result = None
        elif outer is not None:
            result = outer(kernel, arguments, keywords)
        elif self.validation and not kernel.mode:
            result = call_validated(kernel, arguments, keywords)
        else:
            result = call(kernel, arguments, keywords)
        if not kernel.mode:
            if recorded is None:
                recorded = Recorded(kernel, arguments, keywords, begin, self._undo_log.mark(), self._undo_log.take_binding())
            else:
                recorded.after()
                self._computed.update(recorded.list_computed())
            self._recorded.append(recorded)
            self._fused = recorded if is_fused else None
        return result

    def hide(self) -> None:
        """Begins a function with a replaced gradient: its kernels are not recorded, in this tape and in enclosing ones."""
        self._find_overwritten()
        self._undo_log.hide()
        outer = getattr(self._outer, "__self__", None)
        while isinstance(outer, Tape):
            outer._find_overwritten()
            outer = getattr(outer._outer, "__self__", None)

    def _find_overwritten(self) -> None:
        """Records results of interpreted calls that were overwritten by anything else than a kernel."""
        for address, (memory, left, gradient) in list(self._computed.items()):
            if bool((changed := memory != left).any()):
                self._recorded.append(Cut(self._undo_log.mark(), gradient, changed))
                del self._computed[address]

    def _give_up_fused(self) -> None:
        """Another call follows the call that was fused with its gradient."""
        if self._fused is not None:
            vars(self._fused.function)["_ends_tapes"] = False
            self._fused = None

    @property
    def calls(self) -> list[tuple[Any, tuple[Any, ...]]]:
        """The recorded calls in order: the kernel or function, and its arguments."""
        return [(row.function, _list_all(row)) for row in self._recorded if isinstance(row, (Recorded, Replaced))]

    @property
    def modes(self) -> list[AutodiffMode]:
        """The mode in which each of `calls` ran: always NONE."""
        return [AutodiffMode.NONE for _ in self.calls]

    def insert(self, func: Any, args: tuple[Any, ...]) -> None:
        """Add a call of a kernel, as if it were made now, or of a function with a replaced gradient, without calling it."""
        mark = self._undo_log.mark()
        if isinstance(func, Kernel):
            self._recorded.append(Recorded(func, tuple(args), None, mark, mark, None))
        else:
            self.record(func, tuple(args), None)

    def _run_fused(self, kernel: Any, arguments: tuple[Any, ...], keywords: dict[str, Any] | None) -> bool:
        """Runs a kernel that ended the previous tape fused with its gradient (see `launch/fused_launch.h`); returns False if it did not
        run.
        """
        if not self._may_fuse or keywords or self._checked is None or not vars(kernel).get("_ends_tapes"):
            return False
        try:
            fused = vars(kernel).get("_fused") or vars(kernel).setdefault("_fused", derive(kernel, AutodiffMode.FUSED))
            is_done = self._undo_log.launch_fused(fused, arguments, self._checked.container)
        except QuadrantsCompilationError:  # errors are reported when the gradient is compiled separately
            is_done = False
        if not is_done:
            vars(kernel)["_ends_tapes"] = False
        return is_done

    def _accept_fused(self) -> None:
        """Drops the last call if its gradient was computed; otherwise checks whether it can be fused the next time."""
        last = self._recorded[-1] if self._recorded else None
        if self._fused is not None:
            vars(self._fused.function)["_ends_tapes"] = is_accepted = last is self._fused and self._undo_log.accept()
            if is_accepted:
                self._recorded.pop()
        elif self._may_fuse and self._checked is not None and isinstance(last, Recorded):
            if self._undo_log.added_only_to(self._checked.container, _LEAST_MICROSECONDS):
                vars(last.function).setdefault("_ends_tapes", True)

    def _note_write(self, container: Any, index: Any) -> None:
        if getattr(container, "_parent", container)._primal is None:  # the tape itself manages gradients
            self._recorded.append(HostWrite(container, index, self._first_launch, self._undo_log.mark(), self.grad_check is not None))
        if self._outer_writes is not None:
            self._outer_writes(container, index)

    def record(self, function: Any, arguments: tuple[Any, ...], keywords: dict[str, Any] | None) -> None:
        """Adds a call of a function with a replaced gradient, to this tape and to enclosing ones."""
        after = Memories(arguments) if self._is_interpreted else None
        self._computed = {address: (memory, memory.copy(), gradient) for address, (memory, _, gradient) in self._computed.items()}
        self._recorded.append(Replaced(function, arguments, keywords, self._undo_log.mark(), after))
        outer = getattr(self._outer, "__self__", None)
        if isinstance(outer, Tape):
            outer.record(function, arguments, keywords)

    def grad(self) -> None:
        """Compute the gradients, as the end of the block does if the loss was known at its entry."""
        if not self.entered:
            raise AssertionError("Before evaluating gradients tape must be entered.")
        if self.gradient_evaluated:
            raise AssertionError("Gradients of grad can be evaluated only once.")
        if self.loss is None:
            raise AssertionError("Tape.grad() needs a loss: set tape.loss")
        self.gradient_evaluated = True
        loss = self._checked or Loss(self.loss)
        outer = getattr(self._outer, "__self__", None)
        if isinstance(outer, Tape):
            outer._clears_again = True
            outer._give_up_fused()
        if self._clears_again and self.clear_gradients:
            _runtime.clear_shadows(1)
        loss.seed()
        self._accept_fused()
        self._undo_log.leave()
        self._run_backward()
        if self._memory is not None and self.grad_check:
            check_gradients(loss, self._recorded, self._memory, self.grad_check)
        self._recorded.clear()
        self._memory = None

    def _find_restored(self) -> Memories | None:
        """Returns a snapshot of memory, if gradients restore the memory of earlier calls."""
        restored = [row for row in self._recorded if isinstance(row, Replaced) and row.memories is not None]
        return Memories(tuple(value for row in restored for value in row.arguments)) if restored else None

    def _run_backward(self) -> None:
        """Runs the gradients of the calls, from the last to the first, each on the memory after its call; then restores
        the current memory.
        """
        write_watcher = _runtime.set_write_watcher(None)
        after = self._find_restored() if self._is_interpreted else None
        try:
            for recorded in reversed(self._recorded):
                if not self._is_interpreted:
                    self._undo_log.undo(recorded.mark)
                recorded.backward(self._undo_log)
        finally:
            if not self._is_interpreted:
                self._undo_log.redo()
            elif after is not None:
                after.restore()
            _runtime.set_write_watcher(write_watcher)


def _list_all(row: Recorded | Replaced) -> tuple[Any, ...]:
    """Returns all arguments of a call, including keyword arguments and defaults."""
    if isinstance(row.function, Kernel):
        return tuple(bind(row.function.parameters, row.arguments, row.keywords or {}))
    return row.arguments

"""Reverse mode over several kernels."""

from __future__ import annotations

import threading
from typing import Any

from .. import _runtime
from .._base import options as _options
from .._base.arch import GPU_NAMES
from .._base.autodiff_mode import AutodiffMode
from .._base.errors import QuadrantsCompilationError, warn
from .._base.imports import load
from .._containers.snapshots import Memories
from .._containers.unfinished_trees import check_all_placed
from .._language.kernel import Kernel
from .._language.parameters import bind
from ._grad_check import check_gradients
from ._loss import Loss
from ._recorded import Computed, Cut, HostWrite, Interpreted, Recorded, Replaced, call

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
        self._outer: Any = None  # the tape or forward mode that handled calls before
        self._first_launch = 0
        self._memory: Memories | None = None
        self._checked: Loss | None = None
        self._clears_again = False  # a tape within this one has run, and its gradients remain
        self._context = _runtime.TapeContext(self, records_memory=True, records_all=bool(grad_check))
        self._is_interpreted = self._validates_copies = self._has_tangents = False
        self._computed: Computed = {}
        self.foreign: dict[int | None, str] = {}  # by address (None: unknown): the interpreted kernel of another thread that writes there
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
            self._memory = Memories(with_gradients=True)
        self._first_launch = _runtime.launch_count()
        self._outer = self._context.enter()
        if self._outer is not None:
            self._has_tangents = self._outer._has_tangents if isinstance(self._outer, Tape) else True
        arch = _options.get("arch")
        # Interpreted kernels do not reach the memory of a GPU: there, copies are validated, and the calls are ordinary ones.
        self._validates_copies = self.validation and arch in GPU_NAMES
        self._is_interpreted = (self.validation and not self._validates_copies) or self._has_tangents or arch == "python"
        if _options.get("arch") == "python":
            load("quadrants.interpreter").tapes[self] = threading.get_ident()
        is_own = self._checked is not None and hasattr(self._checked.container, "has_grad")
        self._may_fuse = is_own and self.clear_gradients and not (self.grad_check or self._is_interpreted or self._outer)
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is not None:
            self._context.leave()
            self._recorded.clear()
            return
        self._context.close()  # overwritten memory is saved until the gradients run
        if self.loss is not None:
            self.grad()

    def _on_call(self, kernel: Any, arguments: tuple[Any, ...], keywords: dict[str, Any] | None) -> Any:
        if keywords and keywords.get("qd_stream") is not None:
            raise RuntimeError("qd_stream is not compatible with autograd Tape: gradients run in the order of the calls")
        if self._validates_copies and not kernel.mode:
            load("quadrants.interpreter").validate(kernel, arguments, keywords or {})
        outer, begin, recorded = self._outer, self._context.position, None
        if self._is_interpreted and not kernel.mode:
            self._find_overwritten()
            recorded = Interpreted(kernel, arguments, keywords, begin, self._has_tangents)
        if self._fused is not None:
            self._give_up_fused()
        is_fused = self._run_fused(kernel, arguments, keywords)
        if is_fused:
            result = None
        elif outer is not None:
            result = outer._on_call(kernel, arguments, keywords)
        elif self._is_interpreted and self.validation and not kernel.mode:
            result = load("quadrants.interpreter").run(kernel, arguments, keywords or {}, validates=True)
        else:
            result = call(kernel, arguments, keywords)
        if not kernel.mode:
            if recorded is None:
                recorded = Recorded(kernel, arguments, keywords, begin, self._context.position, self._context.take_binding())
            else:
                recorded.after()
                self._computed.update(recorded.list_computed())
                recorded.refuse_foreign(self.foreign)
            self._recorded.append(recorded)
            self._fused = recorded if is_fused else None
        return result

    def hide(self) -> None:
        """Begin a function with a replaced gradient: its kernels are not recorded, in this tape and in enclosing ones."""
        tape: Any = self
        while isinstance(tape, Tape):
            tape._find_overwritten()
            tape = tape._outer
        self._context.hide()

    def show(self) -> None:
        """End such a function."""
        self._context.show()

    def _find_overwritten(self) -> None:
        """Records results of interpreted calls that were overwritten by anything else than a kernel."""
        for address, (memory, left, gradient) in list(self._computed.items()):
            if bool((changed := memory != left).any()):
                self._recorded.append(Cut(self._context.position, gradient, changed))
                del self._computed[address]

    def _give_up_fused(self) -> None:
        """Another call follows the call that was fused with its gradient."""
        if self._fused is not None:
            self._fused.function._ends_tapes = False
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
        """Add a call with the arguments `args` without making it: `func` is a kernel, or a function with a replaced gradient."""
        position = self._context.position
        if isinstance(func, Kernel):
            self._recorded.append(Recorded(func, tuple(args), None, position, position, None))
        else:
            self.record(func, tuple(args), None)

    def _run_fused(self, kernel: Any, arguments: tuple[Any, ...], keywords: dict[str, Any] | None) -> bool:
        """Runs a kernel that ended the previous tape fused with its gradient (see `launch/tape/fused_launch.h`); returns False if it did
        not run.
        """
        if not self._may_fuse or keywords or self._checked is None or not kernel._ends_tapes:
            return False
        try:
            is_done = self._context.launch_fused(kernel._fused, arguments, self._checked.container)
        except QuadrantsCompilationError:  # errors are reported when the gradient is compiled separately
            is_done = False
        if not is_done:
            kernel._ends_tapes = False
        return is_done

    def _commit_fused(self) -> None:
        """Drops the last call if its gradient was computed; otherwise checks whether it can be fused the next time."""
        last = self._recorded[-1] if self._recorded else None
        if self._fused is not None:
            self._fused.function._ends_tapes = is_committed = last is self._fused and self._context.commit()
            if is_committed:
                self._recorded.pop()
        elif self._may_fuse and self._checked is not None and isinstance(last, Recorded):
            is_sum = self._context.added_only_to(self._checked.container, _LEAST_MICROSECONDS)
            if is_sum and last.function._ends_tapes is None:
                last.function._ends_tapes = True

    def _on_write(self, container: Any, index: Any) -> None:
        if getattr(container, "_parent", container)._primal is None:  # the tape itself manages gradients
            self._recorded.append(HostWrite(container, index, self._first_launch, self._context.position, self.grad_check is not None))

    def record(self, function: Any, arguments: tuple[Any, ...], keywords: dict[str, Any] | None) -> None:
        """Add a call of `function`, which has a replaced gradient, with these `arguments` and `keywords`, to this tape and to enclosing
        ones.
        """
        after = Memories(arguments) if self._is_interpreted else None
        self._computed = {address: (memory, memory.copy(), gradient) for address, (memory, _, gradient) in self._computed.items()}
        self._recorded.append(Replaced(function, arguments, keywords, self._context.position, after))
        if isinstance(self._outer, Tape):
            self._outer.record(function, arguments, keywords)

    def grad(self) -> None:
        """Compute the gradients, as the end of the block does if the loss was known at its entry. Raises `AssertionError` the second time,
        and without a loss.
        """
        if not self.entered:
            raise AssertionError("Before evaluating gradients tape must be entered.")
        if self.gradient_evaluated:
            raise AssertionError("Gradients of grad can be evaluated only once.")
        if self.loss is None:
            raise AssertionError("Tape.grad() needs a loss: set tape.loss")
        self.gradient_evaluated = True
        loss = self._checked or Loss(self.loss)
        if isinstance(self._outer, Tape):
            self._outer._clears_again = True
            self._outer._give_up_fused()
        if self._clears_again and self.clear_gradients:
            _runtime.clear_shadows(1)
        loss.seed()
        self._commit_fused()
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
        self._context.begin_backward()
        try:
            after = self._find_restored() if self._is_interpreted else None
            try:
                for recorded in reversed(self._recorded):
                    if not self._is_interpreted:
                        self._context.undo(recorded.position)
                    recorded.backward(self._context)
            finally:
                if not self._is_interpreted:
                    self._context.redo()
                elif after is not None:
                    after.restore()
        finally:
            self._context.leave()


def _list_all(row: Recorded | Replaced) -> tuple[Any, ...]:
    """Returns all arguments of a call, including keyword arguments and defaults."""
    return tuple(bind(row.function.parameters, row.arguments, row.keywords or {})) if isinstance(row.function, Kernel) else row.arguments

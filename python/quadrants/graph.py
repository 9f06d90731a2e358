"""Graphs: loops of a launch around its tasks, tasks that may run concurrently, and launches of several kernels that run as one."""

from typing import Any as _Any

from . import _runtime
from ._base.errors import QuadrantsRuntimeError as _QuadrantsRuntimeError
from ._language.builtins import TABLE as _builtins

__all__ = ["Graph", "capture", "do_while", "parallel", "parallel_context"]

do_while = _builtins["graph_do_while"]
parallel = _builtins["graph_parallel"]
parallel_context = _builtins["graph_parallel_context"]


class Graph:
    """Calls of kernels, recorded by `qd.graph.capture()`. A call of the object runs them, in their order, as often as it is called.

    It does what the recorded calls would do if they were made again: they take the same objects as arguments, with the contents and
    members that these now have, and numbers as they were.
    """

    def __init__(self) -> None:
        self._calls: list[tuple[_Any, tuple[_Any, ...], dict[str, _Any]]] = []
        self._state = "new"
        self._capture = _runtime.Capture()
        self._context = _runtime.TapeContext(self, records_memory=False)

    def __enter__(self) -> "Graph":
        if self._state != "new" or _runtime.current_tape() is not None:
            raise _QuadrantsRuntimeError("a graph is captured once, and not in the block of another capture, tape or forward mode")
        self._capture.begin(self._context)
        self._state = "recording"
        return self

    def __exit__(self, kind: _Any, *_: _Any) -> None:
        self._capture.end(self._context)
        self._state = "complete" if kind is None else "failed"

    def _on_call(self, kernel: _Any, arguments: tuple[_Any, ...], keywords: dict[str, _Any] | None) -> None:
        keywords = keywords or {}
        self._capture.prepare(kernel, arguments, keywords)
        self._calls.append((kernel, arguments, keywords))

    def __call__(self, *, qd_stream: _Any = None) -> None:
        """Run the recorded calls, on a GPU as one graph of its driver where that is possible, in `qd_stream` or the current stream.

        Raises QuadrantsRuntimeError in the block of the capture, if the block failed, or after the end of its runtime.
        """
        if self._state != "complete":
            raise _QuadrantsRuntimeError(f"the graph has no calls to run: its capture is {self._state}")
        self._capture.replay(self._calls, qd_stream)

    launch = __call__


def capture() -> Graph:
    """Return a context manager that records the calls of kernels in its block, and does not run them; the value of `as` runs them.

    What a call in the block needs is compiled there. Calls of kernels that return values, reads and writes of containers from Python,
    waits, and tapes raise _QuadrantsRuntimeError in the block.
    """
    return Graph()


__dir__ = __all__.copy

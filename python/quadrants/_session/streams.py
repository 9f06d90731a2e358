"""Streams and events: queues of launches that may run concurrently on a GPU, and marks in them. On the CPU they have no effect."""

from __future__ import annotations

import contextlib
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from .. import _runtime
from .._base import options as _options
from .._base.errors import QuadrantsRuntimeError
from .._base.namespaces import forwarded


class _Handle(contextlib.AbstractContextManager[Any]):
    """A handle of the driver that ends with its runtime."""

    _noun = ""
    _destroy: Callable[[int], None]

    def __init__(self, handle: int, is_owned: bool):
        self._value, self._is_owned, self._epoch = handle, is_owned, _runtime.statistics()["epoch"]

    handle: int = forwarded("_value", "The handle of the driver; 0 if the processor has none.")

    def _is_alive(self) -> bool:
        state = _runtime.statistics()
        return bool(state["active"]) and state["epoch"] == self._epoch

    def _use(self) -> int:
        if not self._is_alive():
            raise QuadrantsRuntimeError(
                f"{self._noun}'s owning Program has been destroyed: qd.reset() or qd.init() was called since it was made"
            )
        return self._value

    def destroy(self) -> None:
        """Release the handle; has no effect the second time, or if it was borrowed."""
        handle, self._value = self._value, 0
        if self._is_owned and handle and self._is_alive():
            self._destroy(handle)

    def __exit__(self, *_: Any) -> None:
        self.destroy()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # the interpreter may be shutting down
            self.destroy()


STREAMS: weakref.WeakSet[Stream] = weakref.WeakSet()


class Stream(_Handle):
    """A queue of launches. `qd.Stream(handle)` borrows a stream of another library, such as torch's `cuda_stream`.

    `prog_ref` has no effect: a stream belongs to the current runtime.
    """

    _noun, _destroy = "Stream", staticmethod(_runtime.destroy_stream)

    def __init__(self, handle: int = 0, prog_ref: Any = None):
        super().__init__(int(handle), False)
        STREAMS.add(self)

    def synchronize(self) -> None:
        """Wait for all work in the stream; raises the errors of that work."""
        _runtime.synchronize_stream(self._use())

    def query(self) -> bool:
        """Return whether all work in the stream is done."""
        return _runtime.is_stream_done(self._use())

    def wait_event(self, event: Event) -> None:
        """Let work that is queued in the stream from now on wait for the event."""
        _runtime.wait_for_event(self._use(), event._use())

    def __cuda_stream__(self) -> tuple[int, int]:
        """Return (version, handle), for libraries with this protocol."""
        return (0, self.handle)


class Event(_Handle):
    """A mark in a stream, made by `qd.create_event`; `qd.Event(handle)` borrows an event of another library.

    `prog_ref` has no effect: an event belongs to the current runtime.
    """

    _noun, _destroy = "Event", staticmethod(_runtime.destroy_event)

    def __init__(self, handle: int | None = None, prog_ref: Any = None) -> None:
        super().__init__(_runtime.make_event() if handle is None else int(handle), handle is None)
        self._seconds = 0.0  # when it was recorded, for the CPU

    def record(self, qd_stream: Stream | None = None) -> None:
        """Mark the present end of the stream `qd_stream`, or of the current stream of the thread."""
        _runtime.record_event(self._use(), _runtime.current_stream() if qd_stream is None else get_handle(qd_stream))
        self._seconds = time.perf_counter()

    def wait(self, qd_stream: Stream | None = None) -> None:
        """Let work that is queued in the stream `qd_stream`, or the current one of the thread, from now on wait for the mark."""
        _runtime.wait_for_event(_runtime.current_stream() if qd_stream is None else get_handle(qd_stream), self._use())

    def synchronize(self) -> None:
        """Wait until the work before the mark is done."""
        _runtime.synchronize_event(self._use())

    def elapsed_ms(self, other: Event) -> float:
        """Return the milliseconds from this mark to `other`, both of which must be complete."""
        handles = self._use(), other._use()
        return _runtime.elapsed_milliseconds(*handles) if handles[0] else 1e3 * (other._seconds - self._seconds)


def get_handle(stream: Stream | None) -> int:
    """Returns the handle of a `qd_stream=` argument: 0 for the default stream. Raises `TypeError` if it is no stream."""
    if stream is None:
        return 0
    if not isinstance(stream, Stream):
        raise TypeError(f"qd_stream takes a qd.Stream, got {type(stream).__name__}")
    return stream._use()


def create_stream() -> Stream:
    """Return a new stream beside the default one; pass it to kernels as `qd_stream`."""
    _options.check_runtime()
    made = Stream(_runtime.make_stream())
    made._is_owned = True
    return made


def create_event() -> Event:
    """Return a new event that is not recorded yet."""
    _options.check_runtime()
    return Event()


@contextlib.contextmanager
def use_stream(stream: Stream) -> Iterator[Stream]:
    """Return a context manager: within its block, launches of this thread without `qd_stream` go to the stream `stream`."""
    before = _runtime.set_stream(get_handle(stream))
    try:
        yield stream
    finally:
        _runtime.set_stream(before)

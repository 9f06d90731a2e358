"""Streams and events: queues of launches that may run side by side on a GPU, and marks in them. On the CPU they do nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from .. import _runtime
from .._base import options as _options


class _Handle:
    """Something of the driver's that ends with the runtime it was made in."""

    _noun = ""
    _destroy: Callable[[int], None]

    def __init__(self, handle: int, is_owned: bool):
        self._value, self._is_owned, self._epoch = handle, is_owned, _runtime.statistics()["epoch"]

    @property
    def handle(self) -> int:
        """The driver's handle; 0 where the processor has none."""
        return self._value

    def _is_alive(self) -> bool:
        state = _runtime.statistics()
        return bool(state["active"]) and state["epoch"] == self._epoch

    def _use(self) -> int:
        if not self._is_alive():
            raise RuntimeError(f"{self._noun}'s owning Program has been destroyed: qd.reset() or qd.init() was called since it was made")
        return self._value

    def destroy(self) -> None:
        """Give it back to the driver; nothing happens the second time, or when it was borrowed."""
        handle, self._value = self._value, 0
        if self._is_owned and handle and self._is_alive():
            self._destroy(handle)

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: Any) -> None:
        self.destroy()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # the interpreter may be ending
            self.destroy()


class Stream(_Handle):
    """A queue of launches. `qd.Stream(handle)` is one of another library, such as torch's `cuda_stream`, which stays that library's.

    `prog_ref` changes nothing: a stream belongs to the current runtime.
    """

    _noun, _destroy = "Stream", staticmethod(_runtime.destroy_stream)

    def __init__(self, handle: int = 0, prog_ref: Any = None):
        del prog_ref
        super().__init__(int(handle), False)

    def synchronize(self) -> None:
        """Wait for everything in the stream; raises what failed in it."""
        _runtime.synchronize_stream(self._use())

    def query(self) -> bool:
        """Whether everything in the stream is done."""
        return _runtime.is_stream_done(self._use())

    def wait_event(self, event: Event) -> None:
        """What is put into the stream from here on waits for the event."""
        _runtime.wait_for_event(self._use(), event._use())

    def __cuda_stream__(self) -> tuple[int, int]:
        """(version, handle), for libraries that ask."""
        return (0, self.handle)


class Event(_Handle):
    """A mark in a stream. Make one with `qd.create_event`; `qd.Event(handle)` is one of another library, which stays that library's.

    `prog_ref` changes nothing: an event belongs to the current runtime.
    """

    _noun, _destroy = "Event", staticmethod(_runtime.destroy_event)

    def __init__(self, handle: int | None = None, prog_ref: Any = None) -> None:
        del prog_ref
        super().__init__(_runtime.make_event() if handle is None else int(handle), handle is None)

    def record(self, qd_stream: Stream | None = None) -> None:
        """Mark the place in the stream, or the default one, up to which it is filled now."""
        _runtime.record_event(self._use(), get_handle(qd_stream))

    def wait(self, qd_stream: Stream | None = None) -> None:
        """What is put into the stream from here on waits for the mark."""
        _runtime.wait_for_event(get_handle(qd_stream), self._use())

    def synchronize(self) -> None:
        """Wait until what comes before the mark is done."""
        _runtime.synchronize_event(self._use())

    def elapsed_ms(self, other: Event) -> float:
        """Milliseconds from this mark to another; both have been waited for. 0 on the CPU."""
        return _runtime.elapsed_milliseconds(self._use(), other._use())


def get_handle(stream: Stream | None) -> int:
    """The handle behind `qd_stream=`: 0 of the default stream. Raises `TypeError` for what is no stream."""
    if stream is None:
        return 0
    if not isinstance(stream, Stream):
        raise TypeError(f"qd_stream takes a qd.Stream, got {type(stream).__name__}")
    return stream._use()


def create_stream() -> Stream:
    """A stream beside the default one: pass it to kernels as `qd_stream`."""
    _options.check_runtime()
    made = Stream(_runtime.make_stream())
    made._is_owned = True
    return made


def create_event() -> Event:
    """An event that is recorded nowhere yet."""
    _options.check_runtime()
    return Event()


@contextlib.contextmanager
def use_stream(stream: Stream) -> Iterator[Stream]:
    """Launches of this thread without `qd_stream` go to the stream within the block."""
    before = _runtime.set_stream(get_handle(stream))
    try:
        yield stream
    finally:
        _runtime.set_stream(before)

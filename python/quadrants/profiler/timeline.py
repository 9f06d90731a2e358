"""Timelines of compilations, launches and tasks as files for chrome://tracing and ui.perfetto.dev."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator
from typing import Any, TextIO

from .. import _runtime
from .._session.reports import compile_report
from .kernel_profiler import _is_on

__all__ = ["save_timeline", "trace"]


@contextlib.contextmanager
def trace(path: str | os.PathLike[str]) -> Iterator[None]:
    """Return a context for `with` that writes what happens in it to `path`: stages of compilations, launches on their threads, and tasks on
    their threads or streams. chrome://tracing and ui.perfetto.dev show the file.

    Launches and tasks need `qd.init(kernel_profiler=True)`; without it there is a warning, and the file has compilations only. The latest
    2000 compilations and the first 2**20 launches and tasks since `clear_kernel_profiler_info` are stored.

    Raises `OSError` if the file cannot be written.
    """
    _is_on()
    with open(path, "w", encoding="utf-8") as file:
        began = time.perf_counter()
        try:
            yield
        finally:
            _write(file, began)


def save_timeline(path: str | os.PathLike[str]) -> None:
    """Write a file as `trace` does, with everything that is stored. Raises `OSError` if it cannot be written."""
    with open(path, "w", encoding="utf-8") as file:
        _write(file, 0.0)


def _write(file: TextIO, began: float) -> None:
    json.dump({"traceEvents": _list_events(began), "displayTimeUnit": "ms"}, file)


def _list_events(began: float) -> list[dict[str, Any]]:
    spans = [span for span in _runtime.profiled_spans() if span[4] >= began * 1e9]
    streams = {stream: number for number, stream in enumerate(sorted({span[3] for span in spans if span[2]}))}
    events = [_make_event("process_name", "M", pid=number, args={"name": name}) for number, name in enumerate(("host", "device"))]
    events += [
        _make_event("thread_name", "M", pid=1, tid=number, args={"name": f"stream {number}" if stream else "default stream"})
        for stream, number in streams.items()
    ]
    for name, is_launch, is_on_device, track, start, duration in spans:
        kind, tid = "launch" if is_launch else "task", streams[track] if is_on_device else track
        events.append(_make_event(name, "X", cat=kind, pid=int(is_on_device), tid=tid, ts=start / 1e3, dur=duration / 1e3))
    for version in compile_report():
        start = version.finished - version.seconds
        if start < began:
            continue
        fields = {"cat": "compile", "pid": 0, "tid": "compiler"}
        events.append(_make_event(version.kernel, "X", ts=start * 1e6, dur=version.seconds * 1e6, **fields))
        for name, seconds in version.stages:
            events.append(_make_event(name, "X", ts=start * 1e6, dur=seconds * 1e6, **fields))
            start += seconds
    return events


def _make_event(name: str, phase: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "ph": phase, "tid": 0, **fields}


__dir__ = __all__.copy

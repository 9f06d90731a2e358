"""The line below a notebook's cell while a kernel is compiled, as on a terminal (`src/support/status_line.h`)."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from typing import Any

from .._base import options as _options

_QUIET = 1.0  # seconds
_STEP = 0.5


def _report(name: str, has_ended: Any) -> None:
    started, shown = time.monotonic(), ""
    is_over = has_ended.wait(_QUIET)
    while not is_over:
        shown = f"compiling {name}: {time.monotonic() - started:.1f} s"
        print(f"\r{shown}", end="", file=sys.stderr, flush=True)
        is_over = has_ended.wait(_STEP)
    if shown:
        print(f"\r{' ' * len(shown)}\r", end="", file=sys.stderr, flush=True)


@contextlib.contextmanager
def shown_in_notebook(name: str) -> Iterator[None]:
    """Shows the name of a kernel and the seconds from the first second of its compilation on, if cells of a notebook run in this process
    and the program asks for lines of information.
    """
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if not hasattr(shell, "kernel") or _options.get("log_level") not in ("trace", "debug", "info"):
        yield
        return
    import threading  # takes longer to import than a small kernel to load

    has_ended = threading.Event()
    reporter = threading.Thread(target=_report, args=(name, has_ended), daemon=True)
    reporter.start()
    try:
        yield
    finally:
        has_ended.set()
        reporter.join()

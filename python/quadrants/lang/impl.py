"""The runtime as an object."""

from __future__ import annotations

from collections.abc import Callable

from .._base import options as _options
from .._containers.layout_tree import PyQuadrants, program
from .._session.init import get_config

__all__ = ["PyQuadrants", "current_cfg", "get_max_shared_memory_bytes", "get_runtime", "on_reset"]


def get_runtime() -> PyQuadrants:
    """Returns the runtime of the process."""
    return program


def on_reset(hook: Callable[[], object]) -> None:
    """Calls `hook()` at the end of each `qd.reset()`, which is also the beginning of `qd.init()`."""
    program.reset_hooks.append(hook)


def current_cfg() -> _options.Config | None:
    """Returns the current options, as `qd.cfg` does."""
    return get_config()


def get_max_shared_memory_bytes(*, is_lowerbound_ok: bool) -> int:
    """Returns the size in bytes of the memory that the threads of a block share on the device; 0 on the CPU."""
    del is_lowerbound_ok
    config = get_config()
    return 48 << 10 if config is not None and config.arch == "cuda" else 0


def __dir__() -> list[str]:
    """Lists the public names."""
    return __all__

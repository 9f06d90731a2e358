"""The runtime as an object."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from .. import _runtime
from .._base import device as _device
from .._base import options as _options
from .._base.dtypes import DataType, to_dtype
from .._containers.unfinished_trees import Runtime, program
from .._session.init import get_config
from .._session.reports import compile_report
from ..profiler.timeline import save_timeline
from ._paths import get_public as __getattr__  # noqa: F401  programs import public names from here, too
from ._primal import count_graphs

__all__ = ["PyQuadrants", "current_cfg", "get_max_shared_memory_bytes", "get_runtime", "on_reset"]


# Attributes of the runtime that are options.
_OPTIONS = {name: name for name in ("print_full_traceback", "short_circuit_operators", "unrolling_limit")} | {"_arch": "arch"}


def _list_versions() -> list[Any]:
    return [version for version in compile_report() if version.runtime == _runtime.statistics()["epoch"]]


class PyQuadrants(Runtime):
    """The runtime as an object: programs extend its steps by replacing methods of this class."""

    prog = SimpleNamespace(
        synchronize=lambda: None if _options.current is None else _runtime.sync(),
        _get_num_ndarrays=lambda: _runtime.count_containers()["ndarrays"],
        timeline_save=save_timeline,
        timeline_clear=_runtime.clear_profile,
        config=lambda: None if _options.current is None else _options.cfg,
        get_total_compilation_time=lambda: sum(version.seconds for version in _list_versions()),
        dump_cache_data_to_disk=lambda: None,  # each entry is written at once
        **count_graphs(),
    )

    @property
    def ndarrays(self) -> list[Any]:
        """The ndarrays that have memory."""
        return [container for container, *_ in _runtime.list_containers() if isinstance(container, _runtime.NdarrayBase)]

    @property
    def default_fp(self) -> DataType:
        """The data type that `float` means."""
        return to_dtype(float)

    @property
    def default_ip(self) -> DataType:
        """The data type that `int` means."""
        return to_dtype(int)

    @property
    def default_up(self) -> DataType:
        """The unsigned integer type with the size of `default_ip`."""
        return to_dtype(self.default_ip.name.replace("i", "u"))

    @property
    def target_tape(self) -> Any:
        """The tape that records the calls of this thread, or None."""
        return _runtime.current_tape()

    def set_default_fp(self, fp: Any) -> None:
        """Set the data type that `float` means."""
        _options.cfg.default_fp = fp

    def set_default_ip(self, ip: Any) -> None:
        """Set the data type that `int` means."""
        _options.cfg.default_ip = ip

    def __getattr__(self, name: str) -> Any:
        if name not in _OPTIONS:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
        return getattr(_options.cfg, _OPTIONS[name])

    def get_num_compiled_functions(self) -> int:
        """Return how many versions of kernels this runtime has compiled or loaded from disk."""
        return len(_list_versions())

    def sync(self) -> None:
        """Wait until all launched work is done."""
        self.prog.synchronize()


program.__class__ = PyQuadrants  # the one runtime of the process, which calls the methods that programs replace


def get_runtime() -> PyQuadrants:
    """Returns the runtime of the process."""
    return program  # type: ignore[return-value]


def on_reset(hook: Callable[[], object]) -> None:
    """Calls `hook()` at the end of each `qd.reset()`, which is also the beginning of `qd.init()`."""
    program.reset_hooks.append(hook)


def current_cfg() -> _options.Config | None:
    """Returns the current options, as `qd.cfg` does."""
    return get_config()


def get_max_shared_memory_bytes(*, is_lowerbound_ok: bool) -> int:
    """Returns the size in bytes of the memory that the threads of a block share on the device; 0 on the CPU."""

    return _device.SHARED_BYTES if get_config() is not None else 0


__dir__ = __all__.copy

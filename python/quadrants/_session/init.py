"""Starting and ending the runtime: `qd.init`, `qd.reset`, `qd.sync`; processors; logging."""

from __future__ import annotations

import enum
import importlib
import os
import re
import sys
import types
from typing import Any

from .. import _runtime
from .._base import device as _device
from .._base import logging as _logging
from .._base import options as _options
from .._base.arch import GPU_NAMES, NAMES, Arch, cpu, gpu
from .._base.dtypes import find_dtype
from .._base.logging import CRITICAL, DEBUG, ERROR, INFO, TRACE, WARN  # noqa: F401 (public names)
from .._containers import unfinished_trees

__all__ = [
    "CRITICAL", "DEBUG", "ERROR", "INFO", "TRACE", "WARN", "clock_freq_hz", "cpu", "dump_compile_config", "extension", "gpu", "init",
    "is_extension_enabled", "is_logging_effective", "random_seed", "reset", "set_logging_level", "sync",
]  # fmt: skip

__version__ = (1, 4, 0)
__version_str__ = ".".join(map(str, __version__))


class extension(enum.Enum):  # noqa: N801 (a public name)
    """Features that only some processors support."""

    sparse = "sparse"
    quant = "quant"
    mesh = "mesh"
    quant_basic = "quant_basic"
    data64 = "data64"
    adstack = "adstack"
    bls = "bls"
    assertion = "assertion"
    extfunc = "extfunc"


set_logging_level, is_logging_effective = _runtime.set_log_level, _runtime.is_logged
_SUPPORTED = (cpu, Arch.python)


def init(
    arch: Any = None,
    default_fp: Any = None,
    default_ip: Any = None,
    _test_mode: bool = False,
    enable_fallback: bool = True,
    require_version: str | None = None,
    **options: Any,
) -> Any:
    """Start the runtime, after ending the current one.

    Each option may also come from the environment as QD_<NAME>.

    Args:
        arch: a processor, its name, or a list from which the first available one is taken. Default: the CPU.
        default_fp: data type that `float` means, `qd.f16`, `qd.f32` (default) or `qd.f64`.
        default_ip: data type that `int` means, `qd.i32` (default) or `qd.i64`.
        enable_fallback: whether an unavailable `arch` gives a warning and the CPU, instead of `RuntimeError`.
        require_version: lowest version of the package that the program needs, "a.b" or "a.b.c".
        options: see below.
    Returns:
        None.
    Raises:
        KeyError: an unknown option.
        TypeError, ValueError: a value that does not suit its option.
    """
    if require_version is not None:
        _check_version(require_version)
    for name, value in (("default_fp", default_fp), ("default_ip", default_ip)):
        if value is not None:
            options[name] = value if value in (int, float) else find_dtype(value) or value
    if options.get("external_metal_command_queue") == "torch":
        queue = importlib.import_module("quadrants._containers.torch_queue").get_mps_command_queue()
        options.update(external_metal_command_queue=queue, external_metal_command_queue_is_torch_queue=queue != 0)
    values, warnings = _options.collect(options)
    if not _test_mode:
        _runtime.set_log_level(values["log_level"])
    for text in warnings:
        _logging.warn(text)
    chosen = _choose_arch(arch, enable_fallback, values)
    values.update(arch=chosen.name, enable_fallback=enable_fallback)
    _options.apply_dump_variables(values)
    if values["check_races"] and chosen in gpu:
        raise ValueError(
            f"check_races=True is not possible with arch=qd.{chosen.name}, where iterations have no order: look for races with arch=qd.cpu"
        )
    if _test_mode:
        return types.SimpleNamespace(**values)
    reset()
    # The interpreter's kernels are Python code to coverage.py.
    covers = os.environ.get("QD_KERNEL_COVERAGE") == "1" and chosen is not Arch.python
    if covers:
        values["offline_cache"] = False  # the cache holds code without probes, or probes without the lines that they stand for
    # Only arch=qd.python needs the interpreter.
    interpreter = importlib.import_module("quadrants.interpreter") if chosen is Arch.python else None
    _runtime.init(_options.plain(values), interpreter and interpreter.run)
    _options.current = values
    _device.update()
    if interpreter is not None:
        interpreter.forget()
        interpreter.seed(values["random_seed"])
    if covers:
        importlib.import_module("quadrants._session.coverage").begin()
    if _runtime.is_logged("debug"):
        _logging.debug(f"runtime: {_describe_runtime(values)}")
    return None


def _describe_runtime(values: dict[str, Any]) -> str:
    """Returns the processor, the cache, and the options that differ from their defaults."""
    threads = _runtime.statistics()["threads"]
    where = f"{values['arch']} with {threads} threads" if values["arch"] == cpu.name else values["arch"]
    where += f", GPU {values['device_id']}" if values["arch"] in GPU_NAMES else ""
    changed = ", ".join(f"{name}={value}" for name, value in _options.find_changed(values).items())
    cache = importlib.import_module("quadrants._session.disk_cache").find_folder(values) if values["offline_cache"] else "none"
    return f"{where}; disk cache {cache}; options {changed or 'as by default'}"


_OPTION_LINES = _options.describe().replace("\n", "\n    ")
init.__doc__ = f"{init.__doc__}\n    {_OPTION_LINES}\n"


def reset() -> None:
    """End the runtime: containers lose their memory (views keep theirs), kernels are compiled again after the next `init`."""
    if _options.current is None:
        return
    if (coverage := sys.modules.get("quadrants._session.coverage")) is not None:
        coverage.harvest()
    if _runtime.is_logged("debug"):
        _logging.debug("runtime: ends")
    unfinished_trees.program.clear()


def sync(*, all_streams: bool = False) -> None:
    """Wait until the work in the default stream is done, with `all_streams` also the work in each `qd.Stream`; raises its errors."""
    _options.check_runtime()
    unfinished_trees.check_all_placed()
    _runtime.sync()
    streams: Any = sys.modules.get("quadrants._session.streams") if all_streams else None
    for stream in list(streams.STREAMS) if streams else ():
        if stream._is_alive():
            stream.synchronize()


def clock_freq_hz() -> float:
    """Return the nominal ticks per second of the counter of `qd.clock_counter()`. Raises `QuadrantsRuntimeError` without a runtime."""
    _options.check_runtime()
    return 1e9 if get_config() is None else _runtime.clock_frequency()


def random_seed(seed: int) -> None:
    """Reset the random numbers of kernels: later launches draw the same numbers as after `qd.init(random_seed=seed)`.

    Raises `QuadrantsRuntimeError` before `init`, `TypeError` if `seed` is no integer.
    """
    _options.check_runtime()
    current: Any = _options.current
    seed = _options.check("random_seed", seed)
    _runtime.set_random_seed(seed)
    current["random_seed"] = seed
    if current["arch"] == "python":
        importlib.import_module("quadrants.interpreter").seed(seed)


def get_config() -> _options.Config | None:
    """Return the current options: None before `init`, after `reset`, and on `qd.python`."""
    return None if _options.current is None or _options.current["arch"] == "python" else _options.cfg


def dump_compile_config() -> None:
    """Print all options as lines of the form name=value."""
    for name, value in sorted((_options.current or {}).items()):
        print(f"{name}={value}")


EXTENSIONS = (extension.data64, extension.assertion, extension.sparse, extension.quant, extension.quant_basic, extension.adstack)
"""What the kernels of each backend may use."""


def is_extension_enabled(ext: extension) -> bool:
    """Return whether the current processor supports the feature `ext`. Raises `QuadrantsRuntimeError` without a runtime."""
    _options.check_runtime()
    return ext in EXTENSIONS


def find_problem(arch: Arch, options: dict[str, Any]) -> str:
    """Returns why this processor is unavailable here; an empty string if it is available."""
    return "" if arch in _SUPPORTED else _runtime.find_problem(arch.name, _options.plain(options))


def _choose_arch(arch: Any, enable_fallback: bool, options: dict[str, Any]) -> Arch:
    wanted = os.environ.get("QD_ARCH") or arch
    if os.environ.get("QD_ARCH"):
        _logging.info(f"QD_ARCH={wanted} takes the place of the arch argument of qd.init")
    if wanted is None:
        return cpu
    candidates: list[Arch] = []
    for item in wanted if isinstance(wanted, (list, tuple)) else [wanted]:
        found = NAMES.get(item.lower()) if isinstance(item, str) else item
        if found is None or not isinstance(found, (Arch, list)):
            raise ValueError(f"unknown arch {item!r}: one of {', '.join(NAMES)} is expected")
        candidates += found if isinstance(found, list) else [found]
    problems = {}
    for candidate in candidates:
        # Any GPU: not a driver of GPUs that runs on the processor.
        problems[candidate] = find_problem(candidate, {**options, "arch": "gpu"} if len(candidates) > 1 else options)
        if not problems[candidate]:
            return candidate
    reasons = "; ".join(f"{candidate.name}: {problem}" for candidate, problem in problems.items())
    if not enable_fallback:
        raise RuntimeError(f"Arch={candidates} is not supported ({reasons})")
    _logging.warn(f"Arch={candidates} is not supported, falling back to CPU ({reasons})")
    return cpu


def _check_version(required: str) -> None:
    match = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?", required) if isinstance(required, str) else None
    if match is None:
        raise Exception(f"require_version={required!r} is no version number as PEP 440 has them (a.b or a.b.c)")
    major, *rest = (int(part or 0) for part in match.groups())
    if major != __version__[0] or tuple(rest) > __version__[1:]:
        raise Exception(f"Quadrants version mismatch. Required version >= {required}, installed version = {__version_str__}")

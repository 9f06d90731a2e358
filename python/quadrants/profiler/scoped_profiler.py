"""What the host spent on compiling, and the memory of containers, under the names that programs for the reference use."""

from __future__ import annotations

import time

from .. import memory
from .._session.reports import compile_report

__all__ = ["clear_scoped_profiler_info", "print_memory_profiler_info", "print_scoped_profiler_info"]

_cleared_at = 0.0


def print_scoped_profiler_info() -> None:
    """Print a tree of the time that the host spent on new versions of kernels: each kernel, and below it the stages of the compiler, in
    milliseconds. `qd.compile_report()` has more about each version.
    """
    kernels: dict[str, tuple[float, dict[str, float]]] = {}
    for version in compile_report():
        if version.finished >= _cleared_at:
            seconds, stages = kernels.get(version.kernel, (0.0, {}))
            for name, taken in version.stages:
                stages[name] = stages.get(name, 0.0) + taken
            kernels[version.kernel] = (seconds + version.seconds, stages)
    print(f"{1000 * sum(seconds for seconds, _ in kernels.values()):10.3f} ms  new versions of kernels")
    for kernel, (seconds, stages) in sorted(kernels.items(), key=lambda item: -item[1][0]):
        print(f"{1000 * seconds:10.3f} ms    {kernel}")
        for name, taken in stages.items():
            print(f"{1000 * taken:10.3f} ms      {name}")


def clear_scoped_profiler_info() -> None:
    """Leave out what has been compiled until now."""
    global _cleared_at
    _cleared_at = time.perf_counter()


def print_memory_profiler_info() -> None:
    """Print the containers and the memory that they use, as `qd.memory.report()` returns them."""
    print(memory.report())


__dir__ = __all__.copy

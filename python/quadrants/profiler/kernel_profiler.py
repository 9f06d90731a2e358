"""The times of the tasks of kernels."""

from __future__ import annotations

import contextlib
import html
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from .. import _runtime
from .._base import options as _options
from .._base.errors import warn

__all__ = [
    "CuptiMetric", "KernelProfiler", "Profile", "TaskQuery", "TaskTimes", "clear_kernel_profiler_info", "collect_kernel_profiler_metrics",
    "get_default_kernel_profiler", "get_kernel_profiler_total_time", "get_predefined_cupti_metrics", "list_tasks",
    "print_kernel_profiler_info", "query_kernel_profiler_info", "set_kernel_profiler_metrics", "set_kernel_profiler_toolkit",
]  # fmt: skip

_MS = 1e-6  # milliseconds of a nanosecond


class TaskTimes(NamedTuple):
    """One task of a compiled kernel, and how long its launches took."""

    name: str
    """<kernel>_c<number of the kernel>_<number of its version>_kernel_<number of the task>_<range_for or serial>, and the name that
    `qd.loop_config` gave to the loop."""
    launches: int
    """Number of launches."""
    total: float
    """Milliseconds of all launches."""
    min: float
    """Milliseconds of the shortest launch."""
    max: float
    """Milliseconds of the longest launch."""

    @property
    def avg(self) -> float:
        """Milliseconds of a launch on average."""
        return self.total / self.launches


class Profile(tuple[TaskTimes, ...]):
    """The tasks that have run, the longest in total first; its text is a table, also in notebooks."""

    def _make_rows(self) -> list[tuple[str, ...]]:
        whole = sum(task.total for task in self) or 1.0
        return [
            (f"{100 * task.total / whole:.2f}%", f"{task.total / 1000:.3f}", str(task.launches), f"{task.min:.3f}", f"{task.avg:.3f}",
             f"{task.max:.3f}", task.name)
            for task in self
        ]  # fmt: skip

    def __repr__(self) -> str:
        rows = [_HEAD, *self._make_rows()]
        widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD) - 1)]
        return "\n".join("  ".join([*(cell.rjust(width) for cell, width in zip(row, widths, strict=False)), row[-1]]) for row in rows)

    def _repr_html_(self) -> str:
        rows = [("th", _HEAD), *(("td", row) for row in self._make_rows())]
        cells = ["".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in row) for tag, row in rows]
        return "<table>" + "".join(f"<tr>{row}</tr>" for row in cells) + "</table>"


_HEAD = ("share", "total s", "count", "min ms", "avg ms", "max ms", "task")


class TaskQuery(NamedTuple):
    """The launches of all tasks that a query found."""

    counter: int
    """Number of launches."""
    min: float
    """Milliseconds of the shortest."""
    max: float
    """Milliseconds of the longest."""
    avg: float
    """Milliseconds on average."""


class CuptiMetric(NamedTuple):
    """A hardware counter of NVIDIA's CUPTI, which programs for the reference describe. None is collected."""

    name: str = ""
    """Name of the counter."""
    header: str = "unnamed_header"
    """Head of its column."""
    val_format: str = "     {:8.0f} "
    """Format of its values."""
    scale: float = 1.0
    """Factor of its values."""


def _is_on() -> bool:
    """Returns whether kernels are timed; warns if not."""
    if _options.current is not None and _options.get("kernel_profiler"):
        return True
    warn("the profiler is off: kernels are timed with qd.init(kernel_profiler=True) only", UserWarning)
    return False


def list_tasks() -> Profile:
    """Return the tasks that have run since the last `clear_kernel_profiler_info`, as a tuple of `TaskTimes`, the longest in total first.

    Waits for all launches.

    Example: `print(qd.profiler.list_tasks())`
    """
    if not _is_on():
        return Profile()
    tasks = [TaskTimes(name, count, total * _MS, least * _MS, most * _MS) for name, count, total, least, most in _runtime.profiled_tasks()]
    return Profile(sorted(tasks, key=lambda task: -task.total))


def print_kernel_profiler_info(mode: str = "count") -> None:
    """Print the times of all tasks.

    `mode` "count" prints a table with a line for each task: its share of the time, the total in seconds, the number of launches, and the
    milliseconds of a launch. "trace" prints the start and the duration of each launch in milliseconds.

    Raises `ValueError` for another mode.
    """
    if mode not in ("count", "trace"):
        raise ValueError("Arg `mode` must be of type 'str', and has the value 'count' or 'trace'.")
    if not _is_on():
        return
    if mode == "count":
        print(list_tasks())
        return
    spans = [span for span in _runtime.profiled_spans() if not span[1]]
    first = min((span[4] for span in spans), default=0)
    print("\n".join(["   start ms       ms  task", *(f"{(s[4] - first) * _MS:11.3f} {s[5] * _MS:8.3f}  {s[0]}" for s in spans)]))


def query_kernel_profiler_info(name: str) -> TaskQuery:
    """Return the launches of all tasks whose names contain `name`, a text: `counter`, and `min`, `max` and `avg` in milliseconds; zeros if
    there are none.
    """
    found = [task for task in list_tasks() if name in task.name]
    count = sum(task.launches for task in found)
    if not count:
        return TaskQuery(0, 0.0, 0.0, 0.0)
    total = sum(task.total for task in found)
    return TaskQuery(count, min(task.min for task in found), max(task.max for task in found), total / count)


def get_kernel_profiler_total_time() -> float:
    """Return the seconds of all tasks together."""
    return sum(task.total for task in list_tasks()) / 1000


def clear_kernel_profiler_info() -> None:
    """Forget all times."""
    if _is_on():
        _runtime.clear_profile()


def set_kernel_profiler_toolkit(toolkit_name: str = "default") -> bool:
    """Return whether the toolkit measures: `toolkit_name` "default" does, and "cupti" is not supported, which gives a warning.

    Raises `ValueError` for another name.
    """
    if toolkit_name not in ("default", "cupti"):
        raise ValueError(f"toolkit_name is 'default' or 'cupti', got {toolkit_name!r}")
    if toolkit_name == "cupti":
        warn("the toolkit cupti is not supported: tasks are timed by events of the driver; use Nsight Compute for counters", UserWarning)
    return toolkit_name == "default"


def set_kernel_profiler_metrics(metric_list: Sequence[CuptiMetric] = ()) -> None:
    """Warn that no counter of `metric_list`, the `CuptiMetric`s of programs for the reference, is collected."""
    if _is_on() and metric_list:
        set_kernel_profiler_toolkit("cupti")


@contextlib.contextmanager
def collect_kernel_profiler_metrics(metric_list: Sequence[CuptiMetric] = ()) -> Iterator[None]:
    """Return a context for `with` that warns as `set_kernel_profiler_metrics(metric_list)` does."""
    set_kernel_profiler_metrics(metric_list)
    yield


def get_predefined_cupti_metrics(name: str = "") -> list[CuptiMetric]:
    """Return the counters of the group `name`: an empty list, because none is collected, with a warning."""
    warn(f"there are no metrics{f' {name!r}' if name else ''}: the toolkit cupti is not supported", UserWarning)
    return []


class KernelProfiler:
    """The switch of the profiler, under the name that programs for the reference use."""

    def set_kernel_profiler_mode(self, mode: bool = False) -> None:
        """Time the kernels that are compiled from now on, or not. Raises `TypeError` if `mode` is no bool."""
        if type(mode) is not bool:
            raise TypeError(f"Arg `mode` must be of type 'bool', got {type(mode).__name__}")
        _options.cfg.kernel_profiler = mode

    def get_kernel_profiler_mode(self) -> bool:
        """Return whether kernels are timed."""
        return _options.current is not None and bool(_options.get("kernel_profiler"))


_default = KernelProfiler()


def get_default_kernel_profiler() -> KernelProfiler:
    """Return the switch of the current program."""
    return _default


__dir__ = __all__.copy

"""`qd.profiler`: how long kernels and their tasks took, what the host did, and timelines of both.

Kernels are timed with `qd.init(kernel_profiler=True)` only. Without it, nothing is measured, launches cost nothing more, and the functions
about kernels warn and do nothing. On a CPU a task is timed from the end of the task before it; on a GPU by events in its stream, which are
read after it has ended: launches do not wait.
"""

from .kernel_profiler import (
    CuptiMetric,
    Profile,
    TaskQuery,
    TaskTimes,
    clear_kernel_profiler_info,
    collect_kernel_profiler_metrics,
    get_kernel_profiler_total_time,
    get_predefined_cupti_metrics,
    list_tasks,
    print_kernel_profiler_info,
    query_kernel_profiler_info,
    set_kernel_profiler_metrics,
    set_kernel_profiler_toolkit,
)
from .scoped_profiler import clear_scoped_profiler_info, print_memory_profiler_info, print_scoped_profiler_info
from .timeline import trace

__all__ = [
    "CuptiMetric",
    "Profile",
    "TaskQuery",
    "TaskTimes",
    "clear_kernel_profiler_info",
    "clear_scoped_profiler_info",
    "collect_kernel_profiler_metrics",
    "get_kernel_profiler_total_time",
    "get_predefined_cupti_metrics",
    "list_tasks",
    "print_kernel_profiler_info",
    "print_memory_profiler_info",
    "print_scoped_profiler_info",
    "query_kernel_profiler_info",
    "set_kernel_profiler_metrics",
    "set_kernel_profiler_toolkit",
    "trace",
]

__dir__ = __all__.copy

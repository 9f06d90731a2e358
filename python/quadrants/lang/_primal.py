"""What programs for the reference ask of the runtime's program object."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._base import options as _options
from .._base.arch import GPU_NAMES
from .._base.errors import QuadrantsRuntimeError

_GRAPHS: dict[str, Any] = {
    "get_graph_cache_size": 0,
    "get_graph_cache_used_on_last_call": False,
    "get_graph_num_nodes_on_last_call": 0,
    "get_graph_total_builds": 0,
}


def count_graphs() -> dict[str, Callable[[], Any]]:
    """Returns the functions that count graphs by name: a processor has none, and those of a GPU are not counted."""

    def make(name: str, without: Any) -> Callable[[], Any]:
        def count() -> Any:
            if _options.get("arch") in GPU_NAMES:
                raise QuadrantsRuntimeError(f"{name}(): graphs are not counted: qd.profiler shows the tasks of each launch")
            return without

        return count

    return {name: make(name, without) for name, without in _GRAPHS.items()}

"""What programs for the reference ask of `kernel._primal` and of the runtime's program object."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from .. import _runtime
from .._base import options as _options
from .._base.arch import GPU_NAMES
from .._base.errors import QuadrantsRuntimeError
from .._language.checkpoints import Scan
from .._session.reports import compile_report


def describe(kernel: Any, name: str) -> Any:
    """Returns the attribute `name` of a kernel: what its source says about loops over tasks and checkpoints, or what the cache did."""
    if name == "src_ll_cache_observations":
        return _observe_cache(kernel)
    scan = Scan(kernel)
    positions = {parameter.name: position for position, parameter in enumerate(kernel.parameters)}
    if name == "graph_do_while_arg":
        return scan.levels[0].flag if scan.levels else None
    if name == "graph_do_while_levels":
        keys = "cond_arg_name", "parent_id", "cond_cpp_arg_id"
        rows = ((level.flag, level.outer, positions.get(level.flag, -1)) for level in scan.levels)
        return [SimpleNamespace(**dict(zip(keys, row, strict=True))) for row in rows]
    if name == "checkpoint_user_labels_by_cp_id":
        return [each.label for each in scan.checkpoints]
    if name == "checkpoint_yield_on_args":
        return [each.flag for each in scan.checkpoints]
    return [positions.get(each.flag or "", -1) for each in scan.checkpoints]


def _observe_cache(kernel: Any) -> SimpleNamespace:
    """Returns what the disk cache did for the latest version of a kernel in this runtime. A version without a cache has no key."""
    now = _runtime.statistics()["epoch"]
    latest = next((one for one in reversed(compile_report()) if one.definition() is kernel and one.runtime == now), None)
    has_key = latest is not None and bool(_options.get("offline_cache"))
    is_loaded = has_key and not latest.miss  # type: ignore[union-attr]
    return SimpleNamespace(
        cache_key_generated=has_key, cache_validated=is_loaded, cache_loaded=is_loaded, cache_stored=has_key and not is_loaded
    )


_GRAPHS: dict[str, Any] = {
    "get_graph_cache_size": 0, "get_graph_cache_used_on_last_call": False, "get_graph_num_nodes_on_last_call": 0,
    "get_graph_total_builds": 0,
}  # fmt: skip


def count_graphs() -> dict[str, Callable[[], Any]]:
    """Returns the functions that count graphs by name: a processor has none, and those of a GPU are not counted."""

    def count(name: str) -> Any:
        if _options.get("arch") in GPU_NAMES:
            raise QuadrantsRuntimeError(f"{name}(): graphs are not counted: qd.profiler shows the tasks of each launch")
        return _GRAPHS[name]

    return {name: functools.partial(count, name) for name in _GRAPHS}

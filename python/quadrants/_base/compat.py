"""Names, parameters, options and methods of the reference that the language spells otherwise, or does not have.

Classes of the language inherit or call them, so that programs written for the reference run. `lang` has the import paths of the reference.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

from .errors import warn

F = TypeVar("F", bound=Callable[..., Any])


def also_named(**names: str) -> Callable[[F], F]:
    """Lets the decorated function accept alternative names of its parameters: `also_named(alternative="own")`."""

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def call(*arguments: Any, **named: Any) -> Any:
            for further in names.keys() & named.keys():
                if names[further] in named:
                    raise TypeError(f"{function.__name__}() got {further!r} and {names[further]!r}, which are one parameter")
                named[names[further]] = named.pop(further)
            return function(*arguments, **named)

        return call  # type: ignore[return-value]

    return decorate


_warned: set[str] = set()


def warn_deprecated(old: str, new: str) -> None:
    """Warns once per process that a name is deprecated in favor of another one."""
    if old not in _warned:
        _warned.add(old)
        warnings.warn(f"{old} is deprecated. Please use {new}.", DeprecationWarning, stacklevel=2)


def read_kernel_options(graph: bool, gpu_graph: bool | None, fastcache: bool, pure: bool | None) -> tuple[bool, bool]:
    """Returns the parameters `graph` and `fastcache` of `qd.kernel`, which were `gpu_graph` and `pure`."""
    for former, name, value in (("gpu_graph", "graph", gpu_graph), ("pure", "fastcache", pure)):
        if value is not None:
            warn(f"@qd.kernel parameter `{former}` is deprecated. Please use parameter `{name}`.", DeprecationWarning)
    return graph or bool(gpu_graph), bool(fastcache or pure)


OPTIONS = {"device_index": "device_id"}
"""Other names of options."""
OTHER_VARIABLES = frozenset(
    "QD_KERNEL_COVERAGE QD_COVERAGE_MAX_PROBES QD_PERFDISPATCH_FORCE QD_PERFDISPATCH_PRINT_DEBUG QD_DUMP_IR QD_DUMP_SIMPLIFY "
    "QD_DUMP_CFG QD_DUMP_MSL QD_DUMP_AST QD_LOAD_IR QD_DEBUG_ADSTACK "
    "QD_ENABLE_TORCH QD_ENABLE_PYBUF QD_VISIBLE_DEVICE QD_LIB_DIR QD_TMP_DIR QD_NUM_THREADS "
    "QD_CUDA_FORCE_FLAT_CHECKPOINT_GRAPH QD_WANTED_ARCHS QD_LITE_TEST QD_FILE_TIMING QD_VENV QD_JOBS QD_OFFLINE_CACHE QD_GUI "
    "QD_GUI_FRAMES".split()
)
VARIABLES = {"cpu_max_num_threads": "QD_NUM_THREADS", "device_id": "QD_VISIBLE_DEVICE"}
"""Environment variables that stand for an option under another name; `OTHER_VARIABLES` have a meaning elsewhere, or none."""

LAZY_NAMES = {
    "lang.former": "pure",
    "types.enums": "DeviceCapability Format",
    "types": "sparse_matrix_builder",
    "lang.mesh": "Mesh MeshInstance mesh_local mesh_patch_idx",
}
"""Public names of the package, by the modules that have them."""
HIDDEN_NAMES = frozenset({"graph_do_while", "graph_parallel", "graph_parallel_context"})
"""Names of the package that are public elsewhere, in `qd.graph`."""
HIDDEN_MODULES = ("lang", "_kernels")


class CallableShape(tuple[Any, ...]):
    """Extents as a tuple. Calling it returns a list, for programs that read element types of ndarrays in this way."""

    __slots__ = ()

    def __call__(self) -> list[Any]:
        return list(self)


class HostAccess:
    """Element access of one container as two functions: `getter(*index)` and `setter(value, *index)`."""

    def __init__(self, container: Any):
        self._container = container

    def getter(self, *index: int) -> Any:
        """Return the element at `index`."""
        return self._container[index or None]

    def setter(self, value: Any, *index: int) -> None:
        """Assign `value` to the element at `index`."""
        self._container[index or None] = value


class Refused:
    """An attribute of the reference that there is not: reading it raises `AttributeError` with what to use instead."""

    def __init__(self, advice: str):
        self._advice = advice

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = f"{owner.__name__}.{name}"

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        raise AttributeError(f"{self._name} is not needed: {self._advice}")

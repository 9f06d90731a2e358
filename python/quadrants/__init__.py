"""Quadrants: parallel numeric kernels, written in Python and compiled to machine code."""
# ruff: noqa: F401 (what is imported here is what the package offers)

from __future__ import annotations

import sys as _sys
from typing import Any as _Any

try:
    from . import types
except ModuleNotFoundError as _error:
    if _error.name != f"{__name__}._runtime":
        raise
    _python = "{}.{} on {}".format(*_sys.version_info[:2], _sys.platform)
    raise ImportError(
        f"quadrants has no compiled modules for Python {_python} here: install the wheel for it (there are some for Python 3.10 to 3.14 on"
        " Linux), or build them in a source tree with ./dev build"
    ) from None
from ._base import compat as _compat
from ._base.arch import Arch
from ._base.dtypes import *  # noqa: F403 (the names of the data types)
from ._base.errors import (
    QuadrantsAssertionError,
    QuadrantsCompilationError,
    QuadrantsNameError,
    QuadrantsRuntimeError,
    QuadrantsRuntimeTypeError,
    QuadrantsSyntaxError,
    QuadrantsTypeError,
)
from ._base.imports import load as _load
from ._containers.axes import AXES as _axes
from ._containers.axes import axes
from ._containers.buffer_view import BufferView
from ._containers.field import Field, MatrixField, ScalarField, field
from ._containers.layout_tree import SNode
from ._containers.ndarray import MatrixNdarray, Ndarray, ScalarNdarray, VectorNdarray, from_dlpack, ndarray
from ._containers.struct_field import StructField
from ._containers.tensor import Backend, MatrixTensor, Tensor, VectorTensor, tensor, wrap
from ._containers.unfinished_trees import FieldsBuilder, root
from ._language.builtins import TABLE as _builtins
from ._language.func import func, pyfunc, real_func
from ._language.kernel import data_oriented, kernel, kernel_from_source
from ._session.init import *  # noqa: F403
from ._session.init import __version__, __version_str__
from ._session.init import get_config as _get_config
from ._values.matrix import Matrix, Vector
from ._values.struct import Struct, dataclass
from ._values.types import Layout, Template, ref, template

x64, arm64, cuda, metal, vulkan, amdgpu, python = Arch
x86_64 = x64

globals().update(_axes)

_ELSEWHERE = frozenset("isnan isinf popcnt clz ffs is_differentiated".split())
globals().update({name: builtin for name, builtin in _builtins.items() if name not in _ELSEWHERE})

# Modules written in the kernel language are loaded when one of their names is first used: most programs need none of them.
_LAZY_NAMES = {
    "linalg": "cholesky eig lu make_spd polar_decompose qr randn solve solve_spd svd sym_eig",
    "_viz.gui": "GUI",
    "_library.indices": "get_addr rescale_index",
    "_quantized.fields": "BitpackedFields",
    "_sparse.trees": "activate append deactivate is_active length",
    "_sparse.host": "deactivate_all_snodes",
    "simt._tiles": "outer",
    "_language.checkpoints": "GraphStatus",
    "_containers.files": "load save",
    "_session.disk_cache": "cache_info clear_cache",
    "_session.perf_dispatch": "perf_dispatch",
    "_session.program": "Program",
    "_session.reports": "compile_report explain_recompiles",
    "_session.streams": "Event Stream create_event create_stream use_stream",
    **_compat.LAZY_NAMES,
}
_LAZY = {name: module for module, names in _LAZY_NAMES.items() for name in names.split()}
_MODULES = tuple("ad algorithms distributed experimental graph gui interop linalg math memory profiler simt sparse tools".split())

del annotations

_PUBLIC = {name for name in globals() if not name.startswith("_")} - _compat.HIDDEN_NAMES
__all__ = sorted({"__version__", "__version_str__", *_PUBLIC, *_LAZY, *_MODULES})


def __getattr__(name: str) -> _Any:
    if name == "cfg":
        return _get_config()
    if name in _LAZY:
        value = getattr(_load(f"{__name__}.{_LAZY[name]}"), name)
    elif name in _MODULES or name in _compat.HIDDEN_MODULES or (name[:2] != "__" and _FormerPaths.find_spec(f"{__name__}.{name}")):
        value = _load(f"{__name__}.{name}")
    else:
        import difflib  # imported only after a mistake

        near = difflib.get_close_matches(name, __all__, 1, 0.7)
        suggestion = f"; did you mean {near[0]!r}?" if near else ""
        # With `obj`, Python appends no second suggestion.
        raise AttributeError(f"module 'quadrants' has no attribute {name!r}{suggestion}", obj=_sys.modules[__name__])
    globals()[name] = value
    return value


class _FormerPaths:
    """Finds modules under paths that programs for the reference import; `lang._paths` makes them."""

    @staticmethod
    def find_spec(name: str, path: _Any = None, target: _Any = None) -> _Any:
        return _load(f"{__name__}.lang._paths").Finder.find_spec(name) if name.startswith("quadrants.") else None


_sys.meta_path.append(_FormerPaths)  # type: ignore[arg-type]


def __dir__() -> list[str]:
    return [*__all__, "cfg"]

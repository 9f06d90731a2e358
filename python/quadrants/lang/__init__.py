"""Names that programs import although they are no part of the language: objects of the runtime and helpers for types."""

from __future__ import annotations

from importlib import import_module as _import_module
from typing import Any as _Any

from . import _quadrants_callable, _template_mapper, exception, impl, mesh, misc, util
from ._paths import list_modules

__all__ = ["_quadrants_callable", "_template_mapper", "exception", "impl", "mesh", "misc", "util"]


def __getattr__(name: str) -> _Any:
    """Resolves the public names of the package, and the modules of `_paths`, in this module, too."""
    package: _Any = _import_module("quadrants")
    if name.startswith("_") or name not in package.__all__:
        if name not in list_modules("lang"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}", obj=package)
        return _import_module(f"{__name__}.{name}")
    return getattr(package, name)


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in _import_module("quadrants").__all__ if not name.startswith("_"))})

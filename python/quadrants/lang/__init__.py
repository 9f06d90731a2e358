"""Names that programs import although they are no part of the language: objects of the runtime and helpers for types."""

from __future__ import annotations

from importlib import import_module as _import_module
from typing import Any as _Any

from . import _quadrants_callable, _template_mapper, exception, impl, mesh, misc, util
from ._paths import get_public as _get_public
from ._paths import list_modules

__all__ = ["_quadrants_callable", "_template_mapper", "exception", "impl", "mesh", "misc", "util"]


def __getattr__(name: str) -> _Any:
    """Resolves the public names of the package, and the modules of `_paths`, in this module, too."""
    return _import_module(f"{__name__}.{name}") if name in list_modules("lang") else _get_public(name)


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in _import_module("quadrants").__all__ if not name.startswith("_"))})

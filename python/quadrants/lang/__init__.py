"""Names that programs import though they are no part of the language: a few objects of the runtime and helpers of types."""

from __future__ import annotations

from typing import Any as _Any

from . import _quadrants_callable, _template_mapper, exception, impl, mesh, misc, util

__all__ = ["_quadrants_callable", "_template_mapper", "exception", "impl", "mesh", "misc", "util"]


def __getattr__(name: str) -> _Any:
    """The public names of the package, too."""
    import quadrants

    if name.startswith("_") or name not in quadrants.__all__:  # pyright: ignore[reportAttributeAccessIssue]
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", obj=quadrants)
    return getattr(quadrants, name)

"""Names that programs import though they are no part of the language: a few objects of the runtime and helpers of types."""

from . import _quadrants_callable, _template_mapper, exception, impl, mesh, misc, util

__all__ = ["_quadrants_callable", "_template_mapper", "exception", "impl", "mesh", "misc", "util"]

"""Names that programs import though they are no part of the language: a few objects of the runtime and helpers of types."""

from . import _template_mapper, exception, impl, misc, util

__all__ = ["_template_mapper", "exception", "impl", "misc", "util"]

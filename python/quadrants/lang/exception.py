"""The exception classes, under the path from which programs import them."""

from .._base import errors as _errors
from .._base.errors import *  # noqa: F403 (its classes)

__all__ = [name for name in vars(_errors) if name.startswith("Quadrants")]


__dir__ = __all__.copy

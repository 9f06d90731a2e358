"""A launch that is checked against the rule of data access, by the interpreter."""

from __future__ import annotations

import functools
import importlib
from typing import Any

from .. import _options
from .._errors import QuadrantsRuntimeError


@functools.lru_cache(None)
def _interpreter() -> Any:
    return importlib.import_module("..interpreter", __package__)


def call_validated(kernel: Any, arguments: tuple[Any, ...], keywords: dict[str, Any] | None) -> Any:
    """A call of a kernel, interpreted.

    Raises `QuadrantsAssertionError` where it overwrites an element that it has read, in a container that has a gradient.
    """
    if _options.get("arch") == "cuda":
        raise QuadrantsRuntimeError("validation interprets kernels, which do not reach the memory of a GPU: validate on the CPU")
    return _interpreter().run(kernel, arguments, keywords or {}, validates=True)

"""Log lines of the package. Programs may replace the functions of this module, so callers look them up at each use."""

from __future__ import annotations

import functools
from collections.abc import Callable

from .. import _runtime

TRACE, DEBUG, INFO, WARN, ERROR, CRITICAL = "trace", "debug", "info", "warn", "error", "critical"


def _get_logging(level: str) -> Callable[[str], None]:
    """Returns the function that writes a line of this level."""
    return functools.partial(_runtime.log, level)


trace, debug, info, warn, error, critical = map(_get_logging, (TRACE, DEBUG, INFO, WARN, ERROR, CRITICAL))

"""Log lines of the package. Programs may replace the functions of this module, so callers look them up at each use.

A program that gives Python's logger "quadrants" a handler receives the lines there; else they go to stderr.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from .. import _runtime

TRACE, DEBUG, INFO, WARN, ERROR, CRITICAL = "trace", "debug", "info", "warn", "error", "critical"


def _get_logging(level: str) -> Callable[..., None]:
    """Returns the function that writes a line of this level."""
    return functools.partial(_write, level)


def _write(level: str, text: str, *arguments: Any) -> None:
    text = text.format(*arguments) if arguments else text
    logging: Any = sys.modules.get("logging")  # which a program without loggers need not load
    logger = logging and logging.Logger.manager.loggerDict.get("quadrants")
    if getattr(logger, "handlers", None):
        logger.log(_NUMBERS[level], text)
    else:
        _runtime.log(level, text)


_NUMBERS = {TRACE: 5, DEBUG: 10, INFO: 20, WARN: 30, ERROR: 40, CRITICAL: 50}


trace, debug, info, warn, error, critical = map(_get_logging, (TRACE, DEBUG, INFO, WARN, ERROR, CRITICAL))

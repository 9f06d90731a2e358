"""Loads modules on demand. `fork` waits for a thread that loads one: otherwise the child has no thread that completes the import, and
CPython's lock of the module stays locked."""

from __future__ import annotations

import importlib
import os
from _thread import RLock  # as in `functools`: the module `threading` takes a millisecond to import
from types import ModuleType

_loading = RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_loading.acquire, after_in_parent=_loading.release, after_in_child=_loading.release)


def load(name: str) -> ModuleType:
    """Imports the module of this package with the full name `name` and returns it."""
    with _loading:
        return importlib.import_module(name)

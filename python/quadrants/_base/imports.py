"""Modules that are loaded when they are needed. A fork waits for the thread that loads one: in the child nobody would finish, and CPython's
lock of the module would stay locked."""

from __future__ import annotations

import importlib
import os
from threading import RLock
from types import ModuleType

_loading = RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_loading.acquire, after_in_parent=_loading.release, after_in_child=_loading.release)


def load(name: str) -> ModuleType:
    """The module of this package with that full name."""
    with _loading:
        return importlib.import_module(name)

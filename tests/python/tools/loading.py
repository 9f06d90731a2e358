"""Loads the programs of tools/, which are no package."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

TOOLS = Path(__file__).resolve().parents[3] / "tools"


def load_tool(name: str) -> ModuleType:
    """Runs the file of a tool as a module of its own, which a test may change."""
    spec = importlib.util.spec_from_file_location(name, TOOLS / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

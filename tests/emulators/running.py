"""Runs what a command line names: a script, or a module after -m."""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path


def run(words: list[str]) -> None:
    """Runs `script arguments` or `-m module arguments`, as Python's command line does."""
    script, *arguments = words
    if script == "-m":
        sys.argv = arguments
        sys.path[0] = os.getcwd()
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
        return
    sys.argv = words
    sys.path[0] = str(Path(script).resolve().parent)
    runpy.run_path(script, run_name="__main__")

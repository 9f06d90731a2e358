"""Packages that are installed on request: those of the extra `viz`."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


def need(module: str, why: str) -> Any:
    """Imports a module of a package that `quadrants` itself does not need; raises `ModuleNotFoundError` with the command that installs
    it.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        package = {"PIL": "Pillow", "imageio_ffmpeg": "imageio-ffmpeg"}.get(error.name or "", error.name)
        text = f"{why} needs the package {package}: pip install 'quadrants[viz]'"
        raise ModuleNotFoundError(text, name=error.name) from None


@contextmanager
def writing(path: Any) -> Iterator[None]:
    """Adds the remedy to the error of a file that cannot be written."""
    try:
        yield
    except OSError as error:
        is_path = error.errno is not None or type(error) is not OSError
        remedy = "; give a path in a folder that exists and is writable" if is_path else ""  # else the image does not suit the format
        raise type(error)(f"cannot write {os.fspath(path)!r}: {error.strerror or error}{remedy}") from None


def in_notebook() -> bool:
    """Whether cells of a notebook run in this process, so that pictures can be shown below them."""
    import sys

    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return shell is not None and hasattr(shell, "kernel")

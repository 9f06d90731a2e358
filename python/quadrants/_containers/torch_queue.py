"""Torch's functions for Metal (torch/mps.h), which Python does not have."""

from __future__ import annotations

import os
import sys
from typing import Any


def find_function(name: str) -> Any:
    """Returns a function of torch's library by its name in the binary. Raises what `ctypes` does if there is none."""
    import ctypes

    folder = os.path.dirname(sys.modules["torch"].__file__ or "")
    return ctypes.CDLL(os.path.join(folder, "lib", "libtorch_cpu.dylib"))[name]


def commit() -> bool:
    """Commits what torch has recorded. False: this torch cannot."""
    try:
        find_function("_ZN5torch3mps6commitEv")()
    except Exception:  # whatever a framework of another version does
        return False
    return True

"""Torch's functions for Metal (torch/mps.h), which Python does not have."""

from __future__ import annotations

import os
import re
import sys
from typing import Any

_OFFSETS = (2, 9, 2)  # the version from which on torch's capsules of Metal's memory have offsets


def find_function(name: str) -> Any:
    """Returns a function of torch's library by its name in the binary. Raises what `ctypes` does if there is none."""
    import ctypes  # which only Metal needs

    folder = os.path.dirname(sys.modules["torch"].__file__ or "")
    return ctypes.CDLL(os.path.join(folder, "lib", "libtorch_cpu.dylib"))[name]


def commit() -> bool:
    """Commits what torch has recorded. False: this torch cannot."""
    try:
        find_function("_ZN5torch3mps6commitEv")()
    except Exception:  # whatever a framework of another version does
        return False
    return True


def has_offsets(torch: Any) -> bool:
    """Whether torch's capsules of Metal's memory have offsets."""
    return tuple(int(part) for part in re.findall(r"\d+", torch.__version__)[:3]) >= _OFFSETS

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


def get_mps_command_queue() -> int:
    """Return the address of torch's Metal command queue, for `qd.init(external_metal_command_queue=...)`; 0 if there is none.

    Never raises: without torch, without its device `mps`, and with a torch that does not tell, the result is 0.
    """
    try:
        import ctypes

        import torch

        if not torch.backends.mps.is_available():
            return 0
        # torch tells its command buffer (torch/mps.h), which tells its queue.
        find_commands = find_function("_ZN5torch3mps18get_command_bufferEv")
        objective_c = ctypes.CDLL("/usr/lib/libobjc.A.dylib")
        send, find_selector = objective_c["objc_msgSend"], objective_c["sel_registerName"]
        find_commands.restype = find_selector.restype = send.restype = ctypes.c_void_p
        find_selector.argtypes, send.argtypes = [ctypes.c_char_p], [ctypes.c_void_p, ctypes.c_void_p]
        commands = find_commands()
        return send(commands, find_selector(b"commandQueue")) or 0 if commands else 0
    except Exception:  # whatever a framework of another version does
        return 0

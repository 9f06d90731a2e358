"""`qd.interop`: objects of other frameworks."""

from __future__ import annotations

__all__ = ["get_mps_command_queue"]


def get_mps_command_queue() -> int:
    """Return the address of torch's Metal command queue, for `qd.init(external_metal_command_queue=...)`; 0 if there is none.

    This version has no Metal backend that could use it, so the result is always 0. Never raises.
    """
    return 0


__dir__ = __all__.copy

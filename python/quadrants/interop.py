"""What other frameworks lend: `qd.interop`."""

from __future__ import annotations

__all__ = ["get_mps_command_queue"]


def get_mps_command_queue() -> int:
    """The address of torch's Metal command queue, for `qd.init(external_metal_command_queue=...)`; 0 where there is none.

    This version has no Metal backend that could use one, so it is always 0. Never raises.
    """
    return 0


def __dir__() -> list[str]:
    """The public names."""
    return __all__

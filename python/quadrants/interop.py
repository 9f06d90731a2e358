"""`qd.interop`: objects of other frameworks."""

from ._containers.torch_queue import get_mps_command_queue

__all__ = ["get_mps_command_queue"]


__dir__ = __all__.copy

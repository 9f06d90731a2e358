"""Functions about the machine and hints to loops, under the path that programs import them from."""

from __future__ import annotations

from .._builtins import TABLE
from .._init import Arch, cpu, extension, is_extension_enabled

__all__ = ["get_host_arch_list", "is_extension_supported", "loop_unique"]

loop_unique = TABLE["loop_unique"]


def get_host_arch_list() -> list[Arch]:
    """The backends that run kernels on the processor of this machine."""
    return [cpu]


def is_extension_supported(arch: Arch, ext: extension) -> bool:
    """Whether kernels of the backend `arch` may use an extension of the language."""
    del arch  # all backends have the same ones
    return is_extension_enabled(ext)

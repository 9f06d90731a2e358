"""Functions about the machine and hints for loops, under the path from which programs import them."""

from typing import Any as _Any

from .._base.arch import NAMES as _NAMES
from .._base.arch import Arch, cpu
from .._base.options import collect as _collect
from .._language.builtins import TABLE as _builtins
from .._session.init import EXTENSIONS, extension, find_problem
from ._paths import get_public as __getattr__  # noqa: F401  programs import public names from here, too

__all__ = ["get_host_arch_list", "is_arch_supported", "is_extension_supported", "loop_unique"]

loop_unique = _builtins["loop_unique"]


def get_host_arch_list() -> list[Arch]:
    """Returns the backends that run kernels on the processor of this machine."""
    return [cpu]


def is_arch_supported(arch: _Any) -> bool:
    """Returns whether kernels run on the processor `arch`, a member of `qd.Arch` or its name, on this machine."""
    found = _NAMES.get(arch.lower()) if isinstance(arch, str) else arch
    return isinstance(found, Arch) and not find_problem(found, _collect({})[0])


def is_extension_supported(arch: Arch, ext: extension) -> bool:
    """Returns whether kernels of the backend `arch` may use an extension of the language."""
    return ext in EXTENSIONS


__dir__ = __all__.copy

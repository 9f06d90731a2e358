"""The processors that kernels run on."""

from __future__ import annotations

import enum
import platform
from typing import Any

__all__ = ["Arch", "cpu", "gpu"]


class Arch(enum.IntEnum):
    """A processor that kernels run on. A member equals its name as a string; the CPU of this machine also equals "cpu"."""

    x64 = 0
    arm64 = 1
    cuda = 2
    metal = 3
    vulkan = 4
    amdgpu = 5
    python = 6

    def __repr__(self) -> str:
        return f"Arch.{self.name}"

    __str__ = __repr__

    def __eq__(self, other: object) -> bool:
        return NAMES.get(other) is self if isinstance(other, str) else int.__eq__(self, other)  # type: ignore[arg-type]

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = int.__hash__


cpu = Arch.arm64 if platform.machine().lower() in ("arm64", "aarch64") else Arch.x64
gpu = [Arch.cuda, Arch.metal, Arch.vulkan, Arch.amdgpu]
GPU_NAMES = frozenset(arch.name for arch in gpu)
NAMES: dict[str, Any] = {**Arch.__members__, "x86_64": Arch.x64, "cpu": cpu, "gpu": gpu}

"""Whether torch computes on the GPU that the tests run on."""

from __future__ import annotations

import os

import pytest


def sees_gpu() -> bool:
    """Whether the GPU of QD_ARCH is torch's "cuda", the name that its builds for AMD GPUs use, too. Skips the test if there is no torch."""
    torch, arch = pytest.importorskip("torch"), os.environ.get("QD_ARCH")
    return arch in ("cuda", "amdgpu") and torch.cuda.is_available() and bool(torch.version.hip) == (arch == "amdgpu")

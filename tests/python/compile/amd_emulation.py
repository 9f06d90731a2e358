"""Programs on an emulated AMD GPU (tests/emulators/gcn), for tests."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import quadrants as qd
from quadrants import _compiler  # type: ignore[attr-defined]

FOLDER = Path(__file__).parents[2] / "emulators" / "gcn"


def import_emulator() -> Any:
    """The emulator's modules; skips the tests of the calling module if it cannot run here, with the reason."""
    if str(FOLDER) not in sys.path:
        sys.path.append(str(FOLDER))
    import gcn_assemble
    import gcn_build
    import gcn_decode

    if problem := gcn_build.find_problem():
        pytest.skip(problem, allow_module_level=True)
    return SimpleNamespace(build=gcn_build, decode=gcn_decode, assemble=gcn_assemble)


def compile_library(path: Path, source: str) -> None:
    """Makes a shared library of C code."""
    subprocess.run(["clang-22", "-x", "c", "-shared", "-fPIC", "-o", path, "-"], input=source, text=True, check=True)


@contextmanager
def running(
    target: str, monkeypatch: pytest.MonkeyPatch, edit: Callable[[bytes], bytes] | None = None, *flags: str, **options: Any
) -> Iterator[None]:
    """A runtime on this GPU; `edit` changes the code objects that are loaded, `flags` the driver (fake_hip.cpp)."""
    gcn = import_emulator()
    monkeypatch.setenv("GCN_TARGET", target)
    monkeypatch.delenv("QD_ARCH", raising=False)
    compile_plain = _compiler.compile

    def compile_edited(*arguments: Any) -> Any:
        artifact, stages = compile_plain(*arguments)
        start = artifact.index(b"\x7fELF")
        code = artifact[start : start + int.from_bytes(artifact[start - 8 : start], "little")]
        return artifact.replace(code, edit(code)), stages

    if edit:
        monkeypatch.setattr(_compiler, "compile", compile_edited)
    chosen = {"enable_fallback": False, "offline_cache": False, "log_level": "error", **options}
    qd.init(arch=qd.amdgpu, amdgpu_driver=str(gcn.build.build(*flags)), **chosen)
    try:
        yield
    finally:
        qd.reset()
        monkeypatch.setattr(_compiler, "compile", compile_plain)

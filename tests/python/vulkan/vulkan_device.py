"""The Vulkan device of the tests, and the modules inside compiled kernels."""

from __future__ import annotations

import functools
import os
import shutil
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from quadrants import _compiler  # type: ignore[attr-defined]

MAGIC = 0x4E454451


@functools.cache
def _try_init() -> subprocess.CompletedProcess[str]:
    """Runs in another process, which a driver may end."""
    script = "import quadrants as qd; qd.init(arch=qd.vulkan, enable_fallback=False)"
    variables = {name: value for name, value in os.environ.items() if name not in ("QD_ARCH", "QD_LOG_LEVEL")}
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, env=variables)


def find_absence() -> str:
    """Returns why no Vulkan device is there, or an empty text."""
    done = _try_init()
    return "" if done.returncode == 0 else done.stderr.strip().splitlines()[-1]


def is_mesa_on_processor() -> bool:
    """Says whether the driver leaves loops after 65,535 rounds and ignores conditions inside of 80 others, of which `qd.init` warns."""
    return "may end loops" in _try_init().stderr


needs_validator = pytest.mark.skipif(shutil.which("spirv-val") is None, reason="spirv-val is not installed")


def count_cache_bytes(artifact: bytes) -> int:
    """Returns how many bytes of a serialized artifact the driver has made (VkPipelineCache)."""
    return int(struct.unpack_from("<4I", artifact, artifact.find(struct.pack("<I", MAGIC)))[3])


def find_modules(artifact: bytes) -> Iterator[bytes]:
    """Yields the SPIR-V modules of a serialized artifact (src/backends/gpu/device_entries.h)."""
    begin = artifact.find(struct.pack("<I", MAGIC))
    while begin >= 0:
        _, _, entries, _ = struct.unpack_from("<4I", artifact, begin)
        at = begin + 16
        for _ in range(entries):
            _, _, name_bytes, words = struct.unpack_from("<4I", artifact, at)
            at += 16 + (name_bytes + 3) // 4 * 4
            yield artifact[at : at + words * 4]
            at += words * 4
        begin = artifact.find(struct.pack("<I", MAGIC), at)


def validate(module: bytes, folder: Path) -> None:
    """Raises AssertionError with spirv-val's text if a module is not valid."""
    path = folder / f"module{threading.get_ident()}.spv"
    path.write_bytes(module)
    command = ["spirv-val", "--target-env", "vulkan1.3", "--scalar-block-layout", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def watch_modules(monkeypatch: pytest.MonkeyPatch, use: Callable[[bytes], object]) -> None:
    """Calls `use` with each module that the process compiles from now on."""
    compile_plain = _compiler.compile

    def compile_and_use(*arguments: Any) -> Any:
        made = compile_plain(*arguments)
        for module in find_modules(made[0]):
            use(module)
        return made

    monkeypatch.setattr(_compiler, "compile", compile_and_use)


class Validation:
    """Checks each module that the process compiles from now on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path):
        self.sizes: list[int] = []  # of the modules, in words
        self.problems: list[AssertionError] = []

        def check(module: bytes) -> None:
            self.sizes.append(len(module) // 4)
            try:
                validate(module, folder)
            except AssertionError as problem:
                self.problems.append(problem)

        watch_modules(monkeypatch, check)

    def finish(self) -> None:
        """Raises the first problem."""
        if self.problems:
            raise self.problems[0]

"""Builds the driver that takes Metal's place in tests."""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
SOURCES = [HERE / "fake_metal.cpp", HERE / "metal_stdlib", ROOT / "src/backends/metal/driver.h"]


def find_compiler() -> str:
    """Returns the path of clang++, or an empty text."""
    return shutil.which("clang++-22") or shutil.which("clang++") or ""


@functools.cache
def build() -> dict[str, str]:
    """Returns the environment in which `arch=qd.metal` runs on the processor. Built once for each state of the sources."""
    compiler = find_compiler()
    # The library finds `metal_stdlib` in this folder, so each checkout has its own.
    digest = hashlib.sha256(b"".join([str(HERE).encode(), *(path.read_bytes() for path in SOURCES)])).hexdigest()[:16]
    folder = Path(tempfile.gettempdir()) / f"quadrants-metal-{os.getuid()}-{digest}"
    folder.mkdir(mode=0o700, exist_ok=True)
    library = folder / "fake_metal.so"
    if not library.exists():
        made = folder / f"{os.getpid()}.so"
        words = ["-std=c++20", "-O2", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror", f"-I{ROOT / 'src'}"]
        words += [f'-DHERE="{HERE}"', f'-DCLANG="{compiler}"']
        subprocess.run([compiler, *words, str(SOURCES[0]), "-o", str(made)], check=True, timeout=120)
        made.rename(library)
    return {"QD_METAL_DRIVER": str(library), "FAKE_METAL_CACHE": str(folder)}

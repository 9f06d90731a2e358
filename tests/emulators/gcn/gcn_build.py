"""Builds the emulator: a library in place of libamdhip64."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
from pathlib import Path

from gcn_decode import find_folder

HERE = Path(__file__).parent
SOURCES = ("machine.cpp", "fake_hip.cpp")


def find_problem() -> str:
    """Why the emulator cannot run here; empty if it can."""
    if "GCN_PACK" in os.environ:
        return ""
    if not shutil.which("clang++-22"):
        return "needs clang++-22"
    if importlib.util.find_spec("tinygrad") is None:
        return "needs AMD's pseudocode: the package tinygrad could not be installed"
    return ""


def build(*options: str) -> Path:
    """The library, built once for each version of its sources; that of a pack (gcn_pack.py) if GCN_PACK names one."""
    if pack := os.environ.get("GCN_PACK"):
        return Path(pack) / "libamdhip64.so"
    text = "".join((HERE / name).read_text() for name in (*SOURCES, "machine.h", "grid.h", "scopes.h"))
    key = hashlib.blake2b((text + str(options) + str(HERE)).encode(), digest_size=8).hexdigest()
    library = find_folder() / key / "libamdhip64.so"
    if not library.exists():
        library.parent.mkdir(exist_ok=True)
        made = library.with_suffix(f".{os.getpid()}")
        flags = (
            "-std=c++20 -O2 -w -ffp-contract=off -fwrapv -fno-strict-aliasing -fno-math-errno -fPIC -shared -fvisibility=default".split()
        )
        sources = [HERE / name for name in SOURCES]
        subprocess.run(["clang++-22", *flags, f'-DHERE="{HERE}"', *options, *sources, "-o", made], check=True)
        made.replace(library)
    return library

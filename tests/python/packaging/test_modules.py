"""The built extension modules: what they show to the process, and what they ask of it."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
from pathlib import Path

import pytest

MODULES = ("_runtime", "_compiler")
# What glibc itself provides.
SYSTEM_LIBRARIES = {
    "libc.so.6",
    "libm.so.6",
    "libdl.so.2",
    "librt.so.1",
    "libpthread.so.0",
    "ld-linux-x86-64.so.2",
    "ld-linux-aarch64.so.1",
}
READELF = shutil.which("llvm-readelf-22") or shutil.which("readelf") or "/usr/lib/llvm-22/bin/llvm-readelf"


def module_path(name: str) -> Path:
    spec = importlib.util.find_spec(f"quadrants.{name}")
    assert spec is not None and spec.origin is not None
    return Path(spec.origin)


def read_elf(path: Path, *options: str) -> str:
    return subprocess.check_output([READELF, "--wide", *options, str(path)], text=True)


@pytest.mark.parametrize("name", MODULES)
def test_module_exports_its_entry_and_nothing_else(name: str) -> None:
    exported = set()
    for line in read_elf(module_path(name), "--dyn-syms").splitlines():
        words = line.split()
        if len(words) >= 8 and words[4] in {"GLOBAL", "WEAK"} and words[6] != "UND":
            exported.add(words[7])
    assert exported == {f"PyInit_{name}"}


@pytest.mark.parametrize("name", MODULES)
def test_module_needs_nothing_but_the_c_library(name: str) -> None:
    needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", read_elf(module_path(name), "--dynamic")))
    assert needed and needed <= SYSTEM_LIBRARIES


def test_runtime_holds_no_compiler() -> None:
    # MLIR and LLVM would show in the size: with them the module has tens of megabytes.
    assert module_path("_runtime").stat().st_size < 4_000_000

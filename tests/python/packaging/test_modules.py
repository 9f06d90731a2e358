"""The built extension modules: what they show to the process, and what they ask of it."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
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
WITHOUT_AVX = """
import numpy as np
import quadrants as qd

qd.init(arch=qd.cpu, offline_cache=False)


@qd.kernel
def double(values: qd.types.NDArray[qd.f32, 1]) -> qd.f32:
    total = 0.0
    for i in values:
        values[i] *= 2.0
        total += values[i]
    return total


values = np.arange(1000, dtype=np.float32)
print(double(values), (values == np.arange(1000) * 2).sum())
"""
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


def test_a_python_without_modules_is_named(tmp_path: Path) -> None:
    package = Path(importlib.util.find_spec("quadrants").origin).parent
    shutil.copytree(package, tmp_path / "quadrants", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    run = subprocess.run([sys.executable, "-c", "import quadrants"], cwd=tmp_path, capture_output=True, text=True, env={"PATH": ""})
    version = "{}.{}".format(*sys.version_info[:2])
    assert f"\nImportError: quadrants has no compiled modules for Python {version} on linux here: install the wheel for it" in run.stderr


@pytest.mark.skipif(shutil.which("qemu-x86_64") is None, reason="qemu-user is not installed")
def test_a_processor_without_avx(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(WITHOUT_AVX)
    folder = Path(importlib.util.find_spec("quadrants").origin).parents[1]
    variables = {"PATH": "", "PYTHONPATH": os.pathsep.join([str(folder), *sys.path]), "HOME": str(tmp_path)}
    command = [shutil.which("qemu-x86_64"), "-cpu", "Nehalem", sys.executable, str(program)]
    run = subprocess.run(command, capture_output=True, text=True, env=variables, timeout=300)
    assert run.stdout == "999000.0 1000\n", run.stderr

"""What a build from source says where something is missing that pip cannot install."""

import os
import re
import runpy
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
# Of the packages that ./dev installs: for tests and formatting, and what pip or the system brings for a build of its own.
NOT_FOR_BUILDS = {"llvm-22-tools", "clang-format-22", "libclang-rt-22-dev", "cmake", "ninja-build", "ccache", "git"}
# Those of the system; scripts of pyenv start programs of the path.
CMAKE, NINJA = (shutil.which(name, path="/usr/bin:/usr/local/bin") for name in ("cmake", "ninja"))
needs_tools = pytest.mark.skipif(not (CMAKE and NINJA), reason="cmake configures")


def configure(folder, path, *settings):
    """Returns what CMake says with this path and without LLVM."""
    settings = ("-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={NINJA}", "-DQD_LLVM_ROOT=/nonexistent", *settings)
    command = [CMAKE, "-S", ROOT, "-B", folder / "build", *settings]
    variables = {name: value for name, value in os.environ.items() if name not in {"CC", "CXX", "CMAKE_PREFIX_PATH"}}
    result = subprocess.run(command, capture_output=True, text=True, env={**variables, "PATH": str(path)})
    assert result.returncode != 0
    return " ".join(result.stderr.split())


@needs_tools
def test_a_missing_compiler_is_named_with_its_packages(tmp_path):
    text = configure(tmp_path, tmp_path)
    assert "which pip cannot install. Missing here: the compiler clang-22." in text
    assert "apt-get install clang-22 lld-22 llvm-22-dev" in text and "-C cmake.define.QD_LLVM_ROOT=" in text
    assert "A wheel needs none of this" in text and "not a full path" not in text


@needs_tools
def test_a_missing_llvm_is_named(tmp_path):
    text = configure(tmp_path, "/usr/bin", "-DCMAKE_C_COMPILER=clang-22", "-DCMAKE_CXX_COMPILER=clang++-22")
    # CMake finds Debian's LLVM by itself, but not what belongs to it.
    assert re.search(r"Missing here: (LLVM|MLIR) 22, in /nonexistent or CMAKE_PREFIX_PATH\.", text)


def test_the_message_names_what_dev_installs():
    rule = re.search(r"QD_DEBIAN_PACKAGES ([^)]*)\)", (ROOT / "cmake" / "needed.cmake").read_text())
    assert set(rule[1].split()) == runpy.run_path(str(ROOT / "dev"))["PACKAGES"].keys() - NOT_FOR_BUILDS

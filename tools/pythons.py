"""Finds interpreters by version: on the path, of pyenv or uv, or Debian's."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from pathlib import Path

import debian_root

ROOT = Path(__file__).resolve().parent.parent
VERSIONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
# The Debian that has the version.
DEBIAN_SUITES = {"3.11": "bookworm", "3.13": "trixie", "3.14": "forky"}
DEBIAN_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
HAS_HEADERS = "import sysconfig, os; print(os.path.exists(sysconfig.get_path('include') + '/Python.h'))"


def find(version: str) -> Path | None:
    """Returns an interpreter of this version with its headers; uv and apt may download one."""
    folder = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    candidates = [shutil.which(f"python{version}"), *sorted(folder.glob(f"versions/{version}.*/bin/python"), reverse=True)]
    if found := _find_with_headers(candidates):
        return found
    if uv := shutil.which("uv"):
        subprocess.run([uv, "python", "install", "-q", version], check=False)
        if found := _find_with_headers([subprocess.run([uv, "python", "find", version], capture_output=True, text=True).stdout.strip()]):
            return found
    return find_of_debian(version, platform.machine())


def _find_with_headers(candidates: list[str | Path | None]) -> Path | None:
    for candidate in filter(None, candidates):
        # pyenv adds commands to the path for versions that are not selected; headers may be missing.
        probe = subprocess.run([candidate, "-c", HAS_HEADERS], capture_output=True, text=True)
        if probe.stdout.strip() == "True":
            return Path(candidate)
    return None


def find_of_debian(version: str, machine: str) -> Path | None:
    """Returns Debian's interpreter for a processor, unpacked into a folder of the work tree."""
    suite, architecture = DEBIAN_SUITES.get(version), DEBIAN_ARCHITECTURES.get(machine)
    if not suite or not architecture or not shutil.which("apt-get"):
        return None
    root = ROOT / f"build-debian-{suite}-{architecture}"
    if (interpreter := root / "usr/bin" / f"python{version}").exists():
        return interpreter
    try:
        debian_root.make(root, suite, architecture, [f"python{version}-venv", f"libpython{version}-dev"])
    except subprocess.CalledProcessError:
        return None
    return interpreter

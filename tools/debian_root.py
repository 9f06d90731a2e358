#!/usr/bin/env python3
"""Unpacks packages of another Debian, or for another processor, into a folder: headers, libraries, and a Python that runs here.

    debian_root.py <folder> <suite> <architecture> <package>...

Neither root nor debootstrap is needed: apt resolves the dependencies with a state of its own, and nothing is configured. Each
`usr/bin/python3.x` becomes a script that starts the interpreter with its own C library, under qemu for another processor. So it also
works where a program starts `sys.executable`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

MIRROR = os.environ.get("DEBIAN_MIRROR", "http://deb.debian.org")
KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"
# For ninja, which follows no links, `lib/../include` in a list of headers is `include`: if it is missing, all is compiled again each time.
MERGED = ("bin", "lib", "sbin", "lib64", "include")
LIBRARIES = {"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}


def run(*command: str | Path) -> None:
    subprocess.run([str(word) for word in command], check=True, stdout=sys.stderr)


def download(root: Path, suite: str, architecture: str, packages: list[str]) -> list[Path]:
    """Downloads the packages and what they depend on; returns the files."""
    for name in ("etc", "var/lib/apt/lists/partial", "var/cache/apt/archives/partial", "var/lib/dpkg"):
        (root / name).mkdir(parents=True, exist_ok=True)
    (root / "var/lib/dpkg/status").touch()
    lines = [f"deb [signed-by={KEYS}] {MIRROR}/debian {suite} main"]
    if suite not in {"forky", "sid"}:  # the next Debian has no archive of security updates yet
        lines.append(f"deb [signed-by={KEYS}] {MIRROR}/debian-security {suite}-security main")
    (root / "etc/sources.list").write_text("\n".join(lines) + "\n")
    settings = {
        "APT::Architecture": architecture,
        "APT::Architectures": architecture,
        "Dir::State": root / "var/lib/apt",
        "Dir::State::status": root / "var/lib/dpkg/status",
        "Dir::Cache": root / "var/cache/apt",
        "Dir::Etc::sourcelist": root / "etc/sources.list",
        "Dir::Etc::sourceparts": "-",
        "Debug::NoLocking": "1",
    }
    apt = ["apt-get", "-qq", *(word for name, value in settings.items() for word in ("-o", f"{name}={value}"))]
    run(*apt, "update")
    run(*apt, "-y", "--no-install-recommends", "--download-only", "install", *packages)
    return sorted((root / "var/cache/apt/archives").glob("*.deb"))


def unpack(root: Path, files: list[Path]) -> None:
    """Extracts the files of the packages, in the layout in which /lib is /usr/lib."""
    for name in MERGED:
        (root / "usr" / name).mkdir(parents=True, exist_ok=True)
        if not (root / name).exists():
            (root / name).symlink_to(f"usr/{name}")
    for path in files:
        with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", path], stdout=subprocess.PIPE) as archive:
            subprocess.run(["tar", "-x", "-C", root, "--keep-directory-symlink"], stdin=archive.stdout, check=True)


def make_pythons_runnable(root: Path, architecture: str) -> None:
    """Puts scripts in the place of the interpreters, and repairs paths that assume a root."""
    libraries = root / "usr/lib" / LIBRARIES[architecture]
    start = f'qemu-aarch64 -L {root} -0 "$0"'
    if architecture == "amd64":
        start = f'{root}/lib64/ld-linux-x86-64.so.2 --library-path {libraries} --argv0 "$0"'
    for path in (root / "usr/bin").glob("python3.*[0-9]"):
        program = path.with_name(path.name + ".program")
        path.rename(program)
        path.write_text(f'#!/bin/sh\nexec {start} {program} "$@"\n')
        path.chmod(0o755)
    for path in root.glob(f"usr/include/{LIBRARIES[architecture]}/python3.*/pyconfig.h"):
        (root / "usr/include" / path.parent.name / path.name).write_bytes(path.read_bytes())
    # where `venv` finds pip
    for path in root.glob("usr/lib/python3.*/_sysconfigdata_*.py"):
        path.write_text(path.read_text().replace("'/usr/share/python-wheels/'", f"'{root}/usr/share/python-wheels/'"))


def make(root: Path, suite: str, architecture: str, packages: list[str]) -> None:
    """Makes the root, unless a complete one is there."""
    stamp, contents = root / "complete", " ".join([suite, architecture, *packages])
    if stamp.exists() and stamp.read_text() == contents:
        return
    files = download(root, suite, architecture, packages)
    unpack(root, files)
    make_pythons_runnable(root, architecture)
    for path in files:
        path.unlink()
    stamp.write_text(contents)


if __name__ == "__main__":
    make(Path(sys.argv[1]).resolve(), sys.argv[2], sys.argv[3], sys.argv[4:])

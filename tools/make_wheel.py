#!/usr/bin/env python3
"""Makes the wheel of the interpreter that runs this script: `make_wheel.py <folder> [options of pip]`.

It builds against glibc 2.28 (`cmake/old_glibc.cmake`), asks auditwheel which systems the modules run on, names them in the wheel, and
compresses it better than zip programs do: the same format, packed by libdeflate with all its time.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import deflate

ROOT = Path(__file__).resolve().parent.parent
GLIBC = "2.28"
COMPRESSION = 12  # the best; ten seconds


class Compressor:
    """Compresses what `zipfile` writes to one member, as a whole."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []

    def compress(self, data: bytes) -> bytes:
        self.parts.append(bytes(data))
        return b""

    def flush(self) -> bytes:
        return bytes(deflate.deflate_compress(b"".join(self.parts), COMPRESSION))


def build(folder: Path, options: list[str]) -> Path:
    """Returns the wheel that pip makes, which runs on this system and newer ones."""
    settings = ["-C", f"cmake.define.QD_GLIBC={GLIBC}"]
    fixed = ["--no-deps", "--no-build-isolation", "--disable-pip-version-check", "-q", "-w", str(folder)]
    subprocess.run([sys.executable, "-m", "pip", "wheel", *fixed, *settings, *options, str(ROOT)], check=True, stdout=sys.stderr)
    (path,) = folder.glob("*.whl")
    return path


def ask_auditwheel(path: Path) -> str:
    """Returns the oldest platform on which the wheel runs, like manylinux_2_27_x86_64."""
    text = subprocess.check_output([sys.executable, "-m", "auditwheel", "show", str(path)], text=True)
    match = re.search(r'platform\s+tag:\s+"(\w+)"', text)
    if not match:
        sys.exit(f"auditwheel does not name a platform:\n{text}")
    return match[1]


def find_platform(oldest: str) -> str:
    """Returns the platform to promise; exits if the modules need a newer one."""
    machine = os.uname().machine
    match = re.fullmatch(r"manylinux_2_(\d+)_" + machine, oldest)
    if not match or int(match[1]) > int(GLIBC.split(".")[1]):
        sys.exit(f"the modules need {oldest}, not glibc {GLIBC}")
    return f"manylinux_{GLIBC.replace('.', '_')}_{machine}"


def rewrite(source: Path, folder: Path, platform: str) -> Path:
    """Writes the wheel with another platform tag, well compressed; returns its path."""
    tag = re.compile(r"-linux_\w+(?=\.whl$|$)", re.MULTILINE)
    target = folder / tag.sub(f"-{platform}", source.name)
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as new:
        contents = {info.filename: old.read(info) for info in old.infolist()}
        (description,) = [name for name in contents if name.endswith(".dist-info/WHEEL")]
        (record,) = [name for name in contents if name.endswith(".dist-info/RECORD")]
        contents[description] = tag.sub(f"-{platform}", contents[description].decode()).encode()
        digest = base64.urlsafe_b64encode(hashlib.sha256(contents[description]).digest()).rstrip(b"=").decode()
        line = f"{description},sha256={digest},{len(contents[description])}"
        contents[record] = re.sub(rf"^{re.escape(description)},.*$", line, contents[record].decode(), flags=re.MULTILINE).encode()
        for info in old.infolist():
            info.compress_type = zipfile.ZIP_DEFLATED
            with new.open(info, "w") as member:
                member._compressor = Compressor()  # type: ignore[attr-defined]
                member.write(contents[info.filename])
    return target


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        plain = build(Path(temporary), sys.argv[2:])
        print(rewrite(plain, folder, find_platform(ask_auditwheel(plain))))


if __name__ == "__main__":
    main()

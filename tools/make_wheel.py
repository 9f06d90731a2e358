#!/usr/bin/env python3
"""Makes wheels: `make_wheel.py <folder> [--python 3.12 | --all] [--arch aarch64]`, by default for the interpreter that runs it.

scikit-build-core makes a wheel without modules, and CMake builds the modules of one Python after the other in the same folder: what does
not depend on Python is compiled once. They are linked against glibc 2.28 (`cmake/old_glibc.cmake`). auditwheel says which systems each
wheel runs on. It is compressed better than zip programs do: the same format, packed by libdeflate with all its time.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import os
import platform
import re
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

import debian_root
import deflate
import pythons

ROOT = Path(__file__).resolve().parent.parent
LLVM = Path("/usr/lib/llvm-22")
GLIBC = "2.28"
COMPRESSION = 12  # the best; ten seconds
# What the modules for another processor are compiled with and linked to.
CROSS_PACKAGES = (
    "llvm-22-dev", "libmlir-22-dev", "mlir-22-tools", "liblld-22-dev", "libstdc++-12-dev", "libc6-dev", "zlib1g-dev", "libzstd-dev",
    "libvulkan-dev", "python3.11-venv",
)  # fmt: skip
DESCRIBE = "import sys, sysconfig; print('cp%d%d' % sys.version_info[:2], sysconfig.get_path('include'), sysconfig.get_config_var('SOABI'))"


@dataclass(frozen=True)
class Target:
    """What modules are built for: a Python, as `cp313` with its headers and `cpython-313-x86_64-linux-gnu`, and a processor."""

    tag: str
    headers: str
    abi: str
    machine: str

    @staticmethod
    def of(interpreter: str | Path, machine: str) -> Target:
        """Describes an interpreter of this machine; its headers serve for each 64-bit processor."""
        tag, headers, abi = subprocess.check_output([interpreter, "-c", DESCRIBE], text=True).split()
        return Target(tag, headers, abi.replace(platform.machine(), machine), machine)


class Compressor:
    """Compresses what `zipfile` writes to one member, as a whole."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []

    def compress(self, data: bytes) -> bytes:
        self.parts.append(bytes(data))
        return b""

    def flush(self) -> bytes:
        return bytes(deflate.deflate_compress(b"".join(self.parts), COMPRESSION))


def run(*command: str | Path) -> None:
    environment = {**os.environ, "CCACHE_PCH_EXTSUM": "1"}  # cmake/modules.cmake
    subprocess.run([str(word) for word in command], check=True, stdout=sys.stderr, env=environment)


def pack_python_files(folder: Path) -> Path:
    """Returns a wheel that pip makes, without the extension modules."""
    options = ["--no-deps", "--no-build-isolation", "--disable-pip-version-check", "-q", "-w", folder]
    run(sys.executable, "-m", "pip", "wheel", *options, "-C", "wheel.cmake=false", "-C", "wheel.platlib=true", ROOT)
    (path,) = folder.glob("*.whl")
    return path


def build_modules(target: Target, folder: Path) -> dict[str, Path]:
    """Builds the extension modules; returns their files under the names that they have in the wheel."""
    build = ROOT / f"build-wheel-{target.machine}"
    settings = {
        "CMAKE_C_COMPILER": "clang-22",
        "CMAKE_CXX_COMPILER": "clang++-22",
        "CMAKE_STRIP": LLVM / "bin/llvm-strip",
        "Python_EXECUTABLE": sys.executable,
        "QD_PYTHON_HEADERS": target.headers,
        "QD_PYTHON_ABI": target.abi,
        "QD_GLIBC": GLIBC,
        "QD_TOOLS": "OFF",
        "QD_MODULE_FOLDER": build / "modules",
        **(describe_other_processor(target.machine) if target.machine != platform.machine() else {}),
    }
    # Where CMake finds another path of a compiler than last time, it forgets all settings that it is given.
    for kept in [build / "CMakeCache.txt", *build.glob("CMakeFiles/*/CMake*Compiler.cmake")]:
        kept.unlink(missing_ok=True)
    run("cmake", "--log-level=NOTICE", "-G", "Ninja", "-S", ROOT, "-B", build, *(f"-D{name}={value}" for name, value in settings.items()))
    run("ninja", "-C", build, "-j", os.environ.get("QD_JOBS", str(os.cpu_count() or 1)))
    run("cmake", "--install", build, "--strip", "--prefix", folder / target.tag)
    return {str(path.relative_to(folder / target.tag)): path for path in (folder / target.tag).rglob("*.so")}


def describe_other_processor(machine: str) -> dict[str, str | Path]:
    """Returns settings of CMake for the processor, whose libraries are unpacked first."""
    architecture = pythons.DEBIAN_ARCHITECTURES[machine]
    root = ROOT / f"build-debian-bookworm-{architecture}"
    debian_root.make(root, "bookworm", architecture, list(CROSS_PACKAGES))
    return {
        "CMAKE_TOOLCHAIN_FILE": ROOT / "cmake" / f"{machine}.cmake",
        "QD_SYSROOT": root,
        "QD_LLVM_ROOT": f"{root}{LLVM}",
        "QD_MLIR_TBLGEN": LLVM / "bin/mlir-tblgen",
    }


def write_wheel(source: Path, modules: dict[str, Path], target: Target, folder: Path) -> Path:
    """Writes the wheel with these modules, well compressed, under the tag of the target; returns its path."""
    tag = f"{target.tag}-{target.tag}-manylinux_{GLIBC.replace('.', '_')}_{target.machine}"
    any_tag = re.compile(r"cp\d+-cp\d+-linux_\w+")
    path = folder / any_tag.sub(tag, source.name)
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new:
        contents = {info: old.read(info) for info in old.infolist()}
        (description,) = (info for info in contents if info.filename.endswith(".dist-info/WHEEL"))
        (record,) = (info for info in contents if info.filename.endswith(".dist-info/RECORD"))
        (metadata,) = (info for info in contents if info.filename.endswith(".dist-info/METADATA"))
        contents[description] = any_tag.sub(tag, contents[description].decode()).encode()
        contents[metadata] = add_addresses(contents[metadata])
        written = (description.filename, metadata.filename)
        lines = [line for line in contents.pop(record).decode().splitlines() if not line.startswith(written)]
        changed = {info: contents[info] for info in (description, metadata)}
        for name, module in modules.items():
            info = zipfile.ZipInfo(name, description.date_time)
            info.external_attr = 0o100755 << 16
            changed[info] = module.read_bytes()
        lines += [f"{info.filename},sha256={compute_digest(data)},{len(data)}" for info, data in changed.items()]
        for info, data in {**contents, **changed, record: "\n".join([*lines, ""]).encode()}.items():
            info.compress_type = zipfile.ZIP_DEFLATED
            with new.open(info, "w") as member:
                member._compressor = Compressor()  # type: ignore[attr-defined]
                member.write(data)
    return path


def add_addresses(metadata: bytes) -> bytes:
    """Adds the addresses of the project to the description of the package. The sources do not know where they are published: the workflow
    passes QD_REPOSITORY, the address of the repository, and QD_SITE, that of the documentation.
    """
    repository, site = os.environ.get("QD_REPOSITORY", ""), os.environ.get("QD_SITE", "")
    known = {"Documentation": site}
    if repository:
        known |= {"Source": repository, "Issues": f"{repository}/issues", "Changelog": f"{repository}/blob/main/CHANGELOG.md"}
    lines = "".join(f"Project-URL: {label}, {address}\n" for label, address in known.items() if address)
    head, end, text = metadata.partition(b"\n\n")
    return head + b"\n" + lines.encode() + end[1:] + text


def compute_digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def find_unversioned(wheel: Path) -> list[str]:
    """Returns what modules take from the process, and neither glibc 2.28 nor Python has. auditwheel sees versioned symbols only."""
    found = set()
    with zipfile.ZipFile(wheel) as archive, tempfile.TemporaryDirectory() as folder:
        for name in (name for name in archive.namelist() if name.endswith(".so")):
            text = subprocess.check_output([LLVM / "bin/llvm-readelf", "--dyn-syms", archive.extract(name, folder)], text=True)
            found.update(re.findall(r" GLOBAL +\w+ +UND +(?!_?Py)(\w+)$", text, re.MULTILINE))
    return sorted(found)


def check_platform(wheel: Path, target: Target) -> None:
    """Exits, and removes the wheel, unless auditwheel says that it runs on the systems that its name promises."""
    if lacking := find_unversioned(wheel):
        wheel.unlink()
        sys.exit(f"glibc {GLIBC} lacks what the modules for {target.abi} call: add to cmake/old_glibc/functions.c {', '.join(lacking)}")
    text = subprocess.check_output([sys.executable, "-m", "auditwheel", "show", wheel], text=True)
    oldest = re.search(r'platform\s+tag:\s+"manylinux_2_(\d+)_' + target.machine + '"', text)
    if not oldest or int(oldest[1]) > int(GLIBC.split(".")[1]):
        wheel.unlink()
        sys.exit(f"the modules for {target.abi} need more than glibc {GLIBC}:\n{text}")


def find_interpreters(versions: list[str]) -> list[Path]:
    """Returns the interpreters of these versions, and says which are missing."""
    found = {version: pythons.find(version) for version in versions}
    for version in (version for version, path in found.items() if not path):
        print(f"there is no Python {version} with headers: neither on the path, nor of pyenv, uv or Debian", file=sys.stderr)
    return [path for path in found.values() if path]


def main() -> None:
    parser = argparse.ArgumentParser(prog="./dev wheel", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--python", action="append", choices=pythons.VERSIONS, help="a version of Python; may be repeated")
    parser.add_argument("--all", action="store_true", help="one wheel for each version of Python that is found here")
    parser.add_argument("--arch", choices=list(pythons.DEBIAN_ARCHITECTURES), default=platform.machine(), help="the processor")
    given = parser.parse_args()
    versions = list(pythons.VERSIONS) if given.all else given.python or []
    interpreters = find_interpreters(versions) if versions else [Path(sys.executable)]
    given.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        plain = pack_python_files(Path(temporary))
        for target in [Target.of(interpreter, given.arch) for interpreter in interpreters]:
            wheel = write_wheel(plain, build_modules(target, Path(temporary)), target, given.folder)
            check_platform(wheel, target)
            print(wheel, flush=True)


if __name__ == "__main__":
    main()

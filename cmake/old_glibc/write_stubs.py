"""Writes libraries to link against, so that the result runs with an older glibc than the one of this machine.

    write_stubs.py <folder> <version> <compiler> [compiler arguments...]

A library asks for the version of a function that is the default where it was linked. A stub offers only the functions of this machine's
glibc that existed in the given version, and as their default the newest variant of that time; glibc keeps the old variants for ever. What
is newer is an undefined symbol at link time: `functions.c` defines it. `-L<folder>` puts the stubs before the system's libraries.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

# Where glibc 2.34 looks for nothing and older ones for the functions of threads and of the loader.
MOVED_INTO_LIBC = ("libpthread.so.0", "libdl.so.2")


def parse(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def read_symbols(readelf: str, library: str, newest: tuple[int, ...]) -> dict[str, tuple[tuple[int, ...], str]]:
    """Returns the version and the type of each symbol of the library that existed in glibc `newest`."""
    found: dict[str, tuple[tuple[int, ...], str]] = {}
    for line in subprocess.check_output([readelf, "--dyn-syms", "--wide", library], text=True).splitlines():
        words = line.split()
        if len(words) < 8 or words[6] == "UND" or words[3] not in {"FUNC", "OBJECT", "IFUNC"}:
            continue
        match = re.fullmatch(r"(\w+)@@?GLIBC_([\d.]+)", words[7])
        if match and parse(match[2]) <= newest:
            found[match[1]] = max(found.get(match[1], ((), "")), (parse(match[2]), words[3]))
    return found


def write_stub(compiler: list[str], path: Path, soname: str, symbols: dict[str, tuple[tuple[int, ...], str]]) -> None:
    """Makes a shared library with these symbols and no code."""
    lines = []
    for number, (name, (version, kind)) in enumerate(sorted(symbols.items())):
        type_name = "object" if kind == "OBJECT" else "function"
        lines.append(f".globl s{number}\n.type s{number},%{type_name}\ns{number}: .zero 8")
        lines.append(f".symver s{number}, {name}@@GLIBC_{'.'.join(map(str, version))}, remove")
    versions = sorted({version for version, _ in symbols.values()})
    source, script = path.with_suffix(".s"), path.with_suffix(".versions")
    source.write_text(".data\n" + "\n".join(lines) + '\n.section .note.GNU-stack,"",%progbits\n')
    script.write_text("".join(f"GLIBC_{'.'.join(map(str, version))} {{}};\n" for version in versions))
    options = ["-shared", "-nostdlib", "-fuse-ld=lld", f"-Wl,-soname,{soname},--version-script={script}"]
    subprocess.run([*compiler, *options, str(source), "-o", str(path)], check=True)


def main() -> None:
    folder, version, compiler = Path(sys.argv[1]), parse(sys.argv[2]), sys.argv[3:]

    def ask(question: str) -> str:
        return subprocess.check_output([*compiler, question], text=True).strip()

    def find(name: str) -> str:
        path = ask(f"-print-file-name={name}")
        if not Path(path).is_absolute():
            sys.exit(f"{compiler[0]} does not find {name}")
        return path

    folder.mkdir(parents=True, exist_ok=True)
    readelf = ask("-print-prog-name=llvm-readelf")
    # The dynamic loader defines a few functions, too.
    loader = "ld-linux-aarch64.so.1" if ask("-print-target-triple").startswith("aarch64") else "ld-linux-x86-64.so.2"
    for soname in ("libc.so.6", "libm.so.6", loader):
        write_stub(compiler, folder / soname, soname, read_symbols(readelf, find(soname), version))
    libraries = " ".join([str(folder / "libc.so.6"), find("libc_nonshared.a"), *map(find, MOVED_INTO_LIBC)])
    (folder / "libc.so").write_text(f"GROUP ( {libraries} AS_NEEDED ( {folder / loader} ) )\n")
    (folder / "libm.so").write_text(f"INPUT ( {folder / 'libm.so.6'} )\n")


if __name__ == "__main__":
    main()

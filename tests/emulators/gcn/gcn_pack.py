"""Packs the emulator for machines without clang and LLVM: python tests/emulators/gcn/gcn_pack.py folder family...

The families are cdna (gfx9), rdna3 (gfx10, gfx11) and rdna4 (gfx12). There, GCN_PACK=folder takes the place of the compiler; the pack has
all instructions that the pseudocode describes, and says on stderr which of them do not compile.
"""

from __future__ import annotations

import bisect
import importlib.util
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import gcn_build
import gcn_semantics

PARTS = ("info", "desc", "disassembler")
EXPORTS = ["LLVMCreateDisasmCPUFeatures", "LLVMDisasmInstruction", *(f"LLVMInitializeAMDGPU{part}" for part in ("TargetInfo", "TargetMC"))]
STATIC = ["-static-libstdc++", "-static-libgcc"]


def pack_disassembler(folder: Path) -> None:
    """LLVM's disassembler without the rest of LLVM."""
    command = ["llvm-config-22", "--link-static", "--libs", *(f"amdgpu{part}" for part in PARTS), "mcdisassembler"]
    libraries = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    search = subprocess.run(["llvm-config-22", "--libdir"], capture_output=True, text=True, check=True).stdout.strip()
    wanted = [f"-Wl,-u,{name}" for name in [*EXPORTS, "LLVMInitializeAMDGPUDisassembler"]]
    options = ["-shared", "-fPIC", "-Wl,--gc-sections", "-Wl,-s", *STATIC, f"-L{search}", *wanted]
    subprocess.run(["clang++-22", *options, *libraries, "-o", folder / "libdisassembler.so", "-lz", "-lzstd"], check=True)


def find_refused(sources: list[str]) -> set[int]:
    """The numbers of those functions that the compiler refuses."""
    starts, line = [], 3
    for source in sources:
        starts.append(line)
        line += source.count("\n") + 1
    with tempfile.NamedTemporaryFile("w", suffix=".cpp") as file:
        file.write('#include "machine.h"\nusing namespace std;\n' + "\n".join(sources) + "\n")
        file.flush()
        command = ["clang++-22", *gcn_semantics.FLAGS, "-fsyntax-only", "-ferror-limit=0", "-I", gcn_build.HERE, file.name]
        text = subprocess.run(command, capture_output=True, text=True).stderr
        lines = re.findall(rf"^{file.name}:(\d+):\d+: error", text, re.MULTILINE)
    return {bisect.bisect_right(starts, int(number)) - 1 for number in lines}


def compile_family(family: str, folder: Path) -> None:
    """All instructions of a family in one library."""
    keys = gcn_semantics.list_instructions(family)
    sources = [gcn_semantics.make_source(family, *key) for key in keys]
    refused = find_refused(sources)
    print(f"{family}: without", *sorted({keys[i][0] for i in refused}), file=sys.stderr)
    sources = [source for i, source in enumerate(sources) if i not in refused]
    objects = []
    for first in range(0, len(sources), 64):
        objects.append(folder / f"{family}{first}.o")
        if not gcn_semantics.compile_functions(sources[first : first + 64], objects[-1], "-c"):
            raise SystemExit(f"{family}: an instruction from the {first}th on does not compile")
    subprocess.run(["clang++-22", "-shared", "-Wl,-s", *STATIC, *objects, "-o", folder / f"{family}.so"], check=True)
    for item in objects:
        item.unlink()


def pack_pseudocode(family: str, folder: Path) -> None:
    """The table of a family, in a package without the rest of tinygrad."""
    spec = importlib.util.find_spec(f"tinygrad.runtime.autogen.amd.{family}.str_pcode")
    assert spec and spec.origin
    source, target = Path(spec.origin).parent, folder / "site" / "tinygrad" / "runtime" / "autogen" / "amd" / family
    target.mkdir(parents=True, exist_ok=True)
    for name in ("str_pcode.py", "enum.py"):
        shutil.copy(source / name, target / name)
    shutil.copy(source.parent / "common.py", target.parent / "common.py")


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(gcn_build.build(*STATIC), folder / "libamdhip64.so")
    pack_disassembler(folder)
    for family in sys.argv[2:]:
        pack_pseudocode(family, folder)
        compile_family(family, folder)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Checks what the sources include against src/LAYERS, and a few borders that are finer than folders.

Prints one line per violation and ends with status 1 when there is one.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent / "src"
INCLUDE = re.compile(r'^\s*#\s*include\s+(?:"([^"]+)"|<([^>]+)>)')
# Where the system keeps things is no option of ours.
GETENV = re.compile(r"\b(?:secure_)?getenv\s*\((?!\"(?:HOME|XDG_\w+)\")")

# Modules in which Python's headers may be seen.
PYTHON_MODULES = {"frontend", "launch", "bindings"}
# Modules that are loaded without the compiler, so MLIR and LLVM are not seen there.
RUNTIME_MODULES = {"support", "layout", "artifact", "runtime", "launch", "devlib"}
# The exceptions: parts of LLVM's support library that `_runtime` carries.
RUNTIME_LLVM = {"llvm/Support/BLAKE3.h", "llvm/Support/xxhash.h", "llvm-c/blake3.h"}
# The run half of a backend belongs to `_runtime`.
DEVICE_HALF = re.compile(r"^(device|api)")
COMPILE_MODULES = {"ir", "frontend", "passes", "codegen"}


def read_layers(path: Path) -> dict[str, set[str]]:
    """Each module with the modules that it may include, itself among them."""
    allowed: dict[str, set[str]] = {}
    for line in path.read_text().splitlines():
        line = line.split("#")[0].strip()
        if line:
            module, _, rest = line.partition(":")
            allowed[module.strip()] = {module.strip(), *rest.split()}
            unknown = allowed[module.strip()] - set(allowed)
            if unknown:
                sys.exit(f"{path}: {module} names {', '.join(sorted(unknown))}, which do not stand above it")
    return allowed


def check_file(path: Path, allowed: dict[str, set[str]]) -> Iterator[str]:
    """One message per include (or call) that the file may not have."""
    relative = path.relative_to(SOURCE)
    module = relative.parts[0] if len(relative.parts) > 1 else ""
    if module and module not in allowed:
        yield f"src/{relative}:1: the folder {module} is not in src/LAYERS"
        return
    runtime_half = module in RUNTIME_MODULES or (module == "backends" and DEVICE_HALF.match(path.name))
    runtime_half = runtime_half or (module == "bindings" and path.name.startswith("runtime"))
    for number, line in enumerate(path.read_text().splitlines(), 1):
        place = f"src/{relative}:{number}:"
        if module != "support" and GETENV.search(line) and not line.lstrip().startswith("//"):
            yield f"{place} environment variables are read in support/ only; make it a row of support/options.def"
        match = INCLUDE.match(line)
        if not match:
            continue
        header = match[1] or match[2]
        target = header.split("/")[0]
        if module and match[1] and target in allowed and target not in allowed[module]:
            yield f"{place} {module} may not include {header} (src/LAYERS)"
        if runtime_half and target in COMPILE_MODULES and not header.endswith(".def"):  # a table brings no code
            yield f"{place} the run-time half may not include {header}"
        if runtime_half and target in {"mlir", "llvm", "llvm-c", "lld"} and header not in RUNTIME_LLVM:
            yield f"{place} the run-time half is loaded without LLVM and may not include {header}"
        if module not in PYTHON_MODULES and module and (header in {"Python.h", "structmember.h"} or target == "nanobind"):
            yield f"{place} Python is seen in {', '.join(sorted(PYTHON_MODULES))} only"


def main() -> int:
    allowed = read_layers(SOURCE / "LAYERS")
    files = sorted(path for path in SOURCE.rglob("*") if path.suffix in {".cpp", ".h", ".def"})
    messages = [message for path in files for message in check_file(path, allowed)]
    for message in messages:
        print(message)
    return 1 if messages else 0


if __name__ == "__main__":
    sys.exit(main())

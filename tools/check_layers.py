#!/usr/bin/env python3
"""Checks what the C++ sources include against src/LAYERS, what the Python modules import against python/quadrants/LAYERS, and a few
borders that are finer than folders.

Prints one line per violation and exits with status 1 if there is one.
"""

from __future__ import annotations

import ast
import graphlib
import re
import sys
from collections.abc import Iterator
from importlib.util import resolve_name
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent / "src"
PYTHON = Path(__file__).resolve().parent.parent / "python" / "quadrants"
INCLUDE = re.compile(r'^\s*#\s*include\s+(?:"([^"]+)"|<([^>]+)>)')
# The system's own folders are no options of Quadrants.
GETENV = re.compile(r"\b(?:secure_)?getenv\s*\((?!\"(?:HOME|XDG_\w+|NVTX_\w+)\")")

# Modules that may include Python's headers.
PYTHON_MODULES = {"frontend", "launch", "bindings"}
# Modules that are loaded without the compiler, so they include neither MLIR nor LLVM.
RUNTIME_MODULES = {"support", "layout", "artifact", "runtime", "launch", "devlib"}
# The exceptions: parts of LLVM's support library that are linked into `_runtime`.
RUNTIME_LLVM = {"llvm/Support/BLAKE3.h", "llvm/Support/xxhash.h", "llvm-c/blake3.h"}
# Only the folder of a backend names a vendor or its interfaces. The exceptions are the public names of options, and the table of backends.
VENDORS = re.compile(r"cuda|nvptx|nvvm|\bptx|nvidia|warp|amdgpu|amdgcn|rocm|vulkan|\bmetal\b", re.IGNORECASE)
VENDOR_TABLES = {"support/options.def", "backends/backends.def", "backends/unused_targets.cpp"}
# The run half of a backend is linked into `_runtime`.
DEVICE_HALF = re.compile(r"^(device|api)")
COMPILE_MODULES = {"ir", "frontend", "passes", "codegen"}
# Imports of Python modules against the order: file, imported package, reason. A new one is a design decision.
PYTHON_EXCEPTIONS = {
    ("_session/init.py", "interpreter"): "qd.init(arch=qd.python) loads the interpreter",
    ("_containers/layout_tree.py", "_sparse"): "sparse nodes load what is written in the kernel language",
    ("_containers/unfinished_trees.py", "_sparse"): "the first sparse node loads what is written in the kernel language",
    ("_containers/interop.py", "_library"): "copies on a GPU are written in the kernel language",
    ("_containers/field.py", "_quantized"): "the first quantized field loads its class",
}


def read_layers(path: Path) -> dict[str, set[str]]:
    """Returns each module with the modules that it may include, including itself."""
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
    """Yields one message per include (or call) that the file may not have."""
    relative = path.relative_to(SOURCE)
    module = relative.parts[0] if len(relative.parts) > 1 else ""
    if module and module not in allowed:
        yield f"src/{relative}:1: the folder {module} is not in src/LAYERS"
        return
    in_backend = module == "backends" and len(relative.parts) > 2
    names_vendors = in_backend or relative.as_posix() in VENDOR_TABLES
    runtime_half = module in RUNTIME_MODULES or (module == "backends" and DEVICE_HALF.match(path.name))
    runtime_half = runtime_half or (module == "bindings" and path.name.startswith("runtime"))
    for number, line in enumerate(path.read_text().splitlines(), 1):
        place = f"src/{relative}:{number}:"
        if module != "support" and GETENV.search(line) and not line.lstrip().startswith("//"):
            yield f"{place} environment variables are read in support/ only; make it a row of support/options.def"
        vendor = None if names_vendors else VENDORS.search(line)
        if vendor:
            yield f"{place} {vendor[0]} is a word of one backend: it belongs into a folder of src/backends"
        match = INCLUDE.match(line)
        if not match:
            continue
        header = match[1] or match[2]
        target = header.split("/")[0]
        if module and match[1] and target in allowed and target not in allowed[module]:
            yield f"{place} {module} may not include {header} (src/LAYERS)"
        if runtime_half and target in COMPILE_MODULES and not header.endswith(".def"):  # a table contains no code
            yield f"{place} the run-time half may not include {header}"
        if runtime_half and target in {"mlir", "llvm", "llvm-c", "lld"} and header not in RUNTIME_LLVM:
            yield f"{place} the run-time half is loaded without LLVM and may not include {header}"
        if module not in PYTHON_MODULES and module and (header in {"Python.h", "structmember.h"} or target == "nanobind"):
            yield f"{place} Python is seen in {', '.join(sorted(PYTHON_MODULES))} only"


def list_imports(path: Path) -> Iterator[tuple[int, str]]:
    """Yields line and full name of each module or name of `quadrants` that a Python module imports, also in functions
    and by literal name.
    """
    package = ".".join(("quadrants", *path.relative_to(PYTHON).parts[:-1]))
    for node in ast.walk(ast.parse(path.read_text())):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = resolve_name("." * node.level + (node.module or ""), package)
            names = [f"{module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("import_module", "load")) and node.args:
            names = [resolve_name(node.args[0].value, package)] if isinstance(node.args[0], ast.Constant) else []
        yield from ((node.lineno, name) for name in names if name.split(".")[0] == "quadrants")


def check_python(allowed: dict[str, set[str]]) -> Iterator[str]:
    """Yields one message per import that a Python module may not have, and per exception that no module needs."""
    unused = set(PYTHON_EXCEPTIONS)
    for path in sorted(PYTHON.rglob("*.py")):
        file = path.relative_to(PYTHON).as_posix()
        own = "quadrants" if file == "__init__.py" else file.split("/")[0].removesuffix(".py")
        if own not in allowed:
            yield f"python/quadrants/{file}:1: {own} is not in python/quadrants/LAYERS"
            continue
        for line, name in list_imports(path):
            inner = name.split(".")[1:2]
            target = inner[0] if inner and inner[0] in {*allowed, "_runtime", "_compiler"} else "quadrants"
            unused.discard((file, target))
            if target in allowed and target not in allowed[own] and (file, target) not in PYTHON_EXCEPTIONS:
                yield f"python/quadrants/{file}:{line}: {own} may not import {name} (python/quadrants/LAYERS)"
    yield from (
        f"python/quadrants/{file}:1: the exception for {target} in tools/check_layers.py is unused" for file, target in sorted(unused)
    )


def check_cycles() -> Iterator[str]:
    """Yields a message if Python modules import each other in a circle. The package itself does not count: it loads modules on demand."""
    paths = {path.relative_to(PYTHON).with_suffix("").as_posix().replace("/", "."): path for path in PYTHON.rglob("*.py")}
    modules = {f"quadrants.{name}".removesuffix(".__init__"): path for name, path in paths.items()}
    graph: dict[str, set[str]] = {}
    for module, path in modules.items():
        names = [name for _, name in list_imports(path)]
        found = {max((other for other in modules if f"{name}.".startswith(f"{other}.")), key=len, default="") for name in names}
        graph[module] = found - {module, "quadrants"}
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        yield f"python/quadrants: imports in a circle: {' <- '.join(error.args[1])}"


def main() -> int:
    allowed = read_layers(SOURCE / "LAYERS")
    files = sorted(path for path in SOURCE.rglob("*") if path.suffix in {".cpp", ".h", ".def"})
    messages = [message for path in files for message in check_file(path, allowed)]
    messages += [*check_python(read_layers(PYTHON / "LAYERS")), *check_cycles()]
    for message in messages:
        print(message)
    return 1 if messages else 0


if __name__ == "__main__":
    sys.exit(main())

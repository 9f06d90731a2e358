#!/usr/bin/env python3
"""Counts lines per room, and per capability against the budgets; names the longest files. Ends with status 1 when a budget is exceeded.

The first figure is of lines of code, which the budgets are for; the second adds blank lines, comments and docstrings.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CPP = {".cpp", ".h", ".td", ".def"}
LONG_FILE = 600
LANGUAGE = "language and containers"
# What files belong to beside the language, its containers and the processor. Names without their suffix, from src/ or python/quadrants/.
CAPABILITIES = {
    "large programs": r"codegen/llvm/pieces|backends/cpu/parts|passes/(widen_serial_loops|independent_iterations|assumptions)",
    "devices": r"backends/(cuda/.*|link_device_library)|codegen/llvm/(grid.*|merged_tasks|host_numbers)|artifact/host_number"
    r"|frontend/with_statements|passes/host_numbers|_device_arrays|_streams|_program",
    "derivatives": r"passes/(adjoint.*|differentiate.*|derivatives|activity|lost_values|companions|normalise_exits|accessed_regions|joined)"
    r"|(frontend|launch)/companions|launch/(journal|joined_launch|taped_launch)|frontend/stopped_gradients|support/autodiff_mode|ad/.*"
    r"|interpreter/(derivatives|recorder|tracking)",
    "library": r"devlib/.*|runtime/block_threads|codegen/llvm/block(s|_ops)|frontend/(simt|tiles)|simt/.*|algorithms/.*|lang/.*|linalg"
    r"|math|graph|tools|sparse|_linalg_basics|_eigenvalues|_factorisations|_math_functions|_fold_operators|_perf_dispatch"
    r"|_coverage|_kernels|experimental|pytest_plugin",
}
# (lines of code in src/, in python/quadrants/): what the language may hold, and the whole product.
BUDGETS = {LANGUAGE: (20_000, 6_500), "product": (31_000, 8_000)}


def count_code(path: Path) -> int:
    """Lines that are neither blank, nor comment, nor docstring."""
    text = path.read_text()
    lines = dict(enumerate(text.splitlines(), 1))
    comment = "#" if path.suffix in {".py", ".cmake"} else "//"
    if path.suffix == ".py":
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
                for line in range(node.lineno, (node.end_lineno or node.lineno) + 1):
                    lines[line] = ""
    return sum(bool(line.strip()) and not line.strip().startswith(comment) for line in lines.values())


def find_capability(name: str) -> str:
    inner = re.sub(r"^(src|python/quadrants)/|\.\w+$", "", name)
    return next((capability for capability, pattern in CAPABILITIES.items() if re.fullmatch(pattern, inner)), LANGUAGE)


def find_room(name: str) -> str:
    parts = Path(name).parts
    return "/".join(parts[:2]) if parts[0] in {"src", "python", "tests"} and len(parts) > 2 else parts[0]


def main() -> int:
    folders = ["src", "python", "tests", "tools", "examples", "bench", "cmake"]
    names = subprocess.check_output(["git", "ls-files", *folders], cwd=ROOT, text=True)
    rooms: Counter[str] = Counter()
    rooms_code: Counter[str] = Counter()
    code_of: Counter[tuple[str, str]] = Counter()
    lengths: Counter[str] = Counter()
    for name in names.split():
        path = ROOT / name
        if path.suffix not in CPP | {".py", ".mlir", ".cmake"} or not path.is_file():
            continue
        lines, code = len(path.read_text().splitlines()), count_code(path)
        rooms[find_room(name)] += lines
        rooms_code[find_room(name)] += code
        top = Path(name).parts[0]
        if top in {"src", "python"}:
            lengths[name] = lines
            for capability in (find_capability(name), "product"):
                code_of[capability, top] += code
    for room, lines in sorted(rooms.items()):
        print(f"{rooms_code[room]:7} {lines:7}  {room}")
    for name, lines in lengths.most_common():
        if lines > LONG_FILE:
            print(f"{lines:7}  {name} (longer than {LONG_FILE}: one list, or two things?)")
    status = 0
    print("    src  python  lines of code")
    for capability in (LANGUAGE, *CAPABILITIES, "product"):
        counts = code_of[capability, "src"], code_of[capability, "python"]
        budget = BUDGETS.get(capability, counts)
        over = any(count > most for count, most in zip(counts, budget, strict=True))
        status |= over
        note = f" (budget {budget[0]} and {budget[1]}{': over it' if over else ''})" if capability in BUDGETS else ""
        print(f"{counts[0]:7} {counts[1]:7}  {capability}{note}")
    return int(status)


if __name__ == "__main__":
    sys.exit(main())

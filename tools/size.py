#!/usr/bin/env python3
"""Counts the lines of each folder, and compares the product's folders with their budgets. Exits with status 1 if one is exceeded.

The first figure counts lines of code, which the budgets limit; the second adds blank lines, comments and docstrings. With `--check`, only
folders that exceed their budgets are printed.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SUFFIXES = {".cpp", ".h", ".td", ".def", ".py", ".mlir", ".cmake"}
FOLDERS = ["src", "python", "tests", "tools", "examples", "bench", "cmake"]
LONG_FILE = 600
# Lines of code that the product may have, with all backends. The goal of python is 11,500: lower its total as the package shrinks, and
# raise it for features that the contract names only.
TOTALS = {"src": 53_622, "python": 19_880}
# Budgets of the folders. They add up to the totals, so raising one lowers another.
BUDGETS = {
    "src": 432,  # files directly in src
    "src/artifact": 588,
    "src/backends": 10_489,
    "src/bindings": 675,
    "src/codegen": 9_134,
    "src/devlib": 1_425,
    "src/frontend": 11_211,
    "src/ir": 1_095,
    "src/launch": 7_393,
    "src/layout": 143,
    "src/passes": 8_031,
    "src/runtime": 2_089,
    "src/support": 716,
    "src/tools": 201,
    "python/quadrants": 1_005,  # modules directly in the package
    "python/quadrants/_base": 1_215,
    "python/quadrants/_values": 790,
    "python/quadrants/_containers": 2_368,
    "python/quadrants/_language": 951,
    "python/quadrants/_session": 1_173,
    "python/quadrants/_library": 563,
    "python/quadrants/_solvers": 1_176,
    "python/quadrants/_quantized": 422,
    "python/quadrants/_sparse": 687,
    "python/quadrants/ad": 915,
    "python/quadrants/algorithms": 2_340,
    "python/quadrants/distributed": 625,
    "python/quadrants/interpreter": 3_568,
    "python/quadrants/lang": 326,
    "python/quadrants/profiler": 221,
    "python/quadrants/simt": 619,
    "python/quadrants/types": 62,
    "python/quadrants/_viz": 642,
    "python/quadrants/_command": 212,
}


def count_code(path: Path) -> int:
    """Counts the lines that are neither blank, nor comment, nor docstring."""
    text = path.read_text()
    lines = dict(enumerate(text.splitlines(), 1))
    comment = "#" if path.suffix in {".py", ".cmake"} else "//"
    if path.suffix == ".py":
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
                for line in range(node.lineno, (node.end_lineno or node.lineno) + 1):
                    lines[line] = ""
    return sum(bool(line.strip()) and not line.strip().startswith(comment) for line in lines.values())


def find_folder(name: str) -> str:
    """Returns the folder to which a file's lines count: for the product the one with a budget, for the rest the first or second level."""
    parts = Path(name).parts
    depth = {"src": 2, "python": 3, "tests": 2}.get(parts[0], 1)
    return "/".join(parts[: min(depth, len(parts) - 1)])


def add_up(lines: Mapping[str, int], top: str) -> int:
    """Returns the sum for the folders below `top`."""
    return sum(count for folder, count in lines.items() if folder.split("/")[0] == top)


def check(code: Counter[str]) -> list[str]:
    """Returns one message for each budget that is exceeded or missing."""
    problems = []
    for folder, lines in sorted(code.items()):
        if folder.split("/")[0] not in TOTALS:
            continue
        if folder not in BUDGETS:
            problems.append(f"{folder} has no budget in tools/size.py")
        elif lines > BUDGETS[folder]:
            problems.append(
                f"{folder} has {lines} lines of code; its budget in tools/size.py is {BUDGETS[folder]}: remove some, or move lines from the"
                " budget of a folder that `./dev size` shows to have some left"
            )
    for top, most in TOTALS.items():
        if add_up(code, top) > most or add_up(BUDGETS, top) != most:
            problems.append(f"{top} has {add_up(code, top)} lines of code and budgets of {add_up(BUDGETS, top)}; its total is {most}")
    return problems


def main() -> int:
    names = subprocess.check_output(["git", "ls-files", *FOLDERS], cwd=ROOT, text=True).split()
    lines: Counter[str] = Counter()
    code: Counter[str] = Counter()
    lengths: Counter[str] = Counter()
    for name in names:
        path = ROOT / name
        if path.suffix in SUFFIXES and path.is_file():
            lengths[name] = len(path.read_text().splitlines())
            lines[find_folder(name)] += lengths[name]
            code[find_folder(name)] += count_code(path)
    problems = check(code)
    if "--check" in sys.argv[1:]:
        print("\n".join(problems), end="\n" if problems else "")
        return int(bool(problems))
    for folder in sorted(lines):
        print(f"{code[folder]:7} {lines[folder]:7}  {folder}{f' (budget {BUDGETS[folder]})' if folder in BUDGETS else ''}")
    for name, length in lengths.most_common():
        if length > LONG_FILE and name.split("/")[0] in TOTALS:
            print(f"{length:7}  {name} (longer than {LONG_FILE}: one list, or two things?)")
    for top, most in TOTALS.items():
        print(f"{add_up(code, top):7}  {top} (budget {most})")
    print("\n".join(problems), end="\n" if problems else "")
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())

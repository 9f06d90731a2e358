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
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SUFFIXES = {".cpp", ".h", ".td", ".def", ".py", ".mlir", ".cmake"}
FOLDERS = ["src", "python", "tests", "tools", "examples", "bench", "cmake"]
LONG_FILE = 600
# Lines of code that the finished product may have, with all backends.
MISSION = {"src": 36_000, "python": 11_500}
# Budgets of the folders. Budgets of src add up to the mission's, so raising one lowers another. Those of python add up to more, because the
# package is larger than the mission allows: lower them as it shrinks, never raise their sum.
BUDGETS = {
    "src": 400,  # files directly in src
    "src/artifact": 600,
    "src/backends": 3_080,
    "src/bindings": 530,
    "src/codegen": 6_150,
    "src/devlib": 1_100,
    "src/frontend": 8_600,
    "src/ir": 800,
    "src/launch": 6_200,
    "src/layout": 150,
    "src/passes": 5_750,
    "src/runtime": 1_700,
    "src/support": 720,
    "src/tools": 220,
    "python/quadrants": 1_000,  # modules directly in the package
    "python/quadrants/_base": 1_150,
    "python/quadrants/_values": 1_000,
    "python/quadrants/_containers": 1_860,
    "python/quadrants/_language": 1_100,
    "python/quadrants/_session": 1_150,
    "python/quadrants/_library": 700,
    "python/quadrants/ad": 940,
    "python/quadrants/algorithms": 410,
    "python/quadrants/interpreter": 2_960,
    "python/quadrants/lang": 215,
    "python/quadrants/simt": 640,
    "python/quadrants/types": 75,
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


def check(code: Counter[str]) -> list[str]:
    """Returns one message for each budget that is exceeded or missing."""
    problems = []
    for folder, lines in sorted(code.items()):
        if folder.split("/")[0] not in MISSION:
            continue
        if folder not in BUDGETS:
            problems.append(f"{folder} has no budget in tools/size.py")
        elif lines > BUDGETS[folder]:
            problems.append(f"{folder} has {lines} lines of code; its budget in tools/size.py is {BUDGETS[folder]}")
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
        if length > LONG_FILE and name.split("/")[0] in MISSION:
            print(f"{length:7}  {name} (longer than {LONG_FILE}: one list, or two things?)")
    for top, most in MISSION.items():
        total = sum(count for folder, count in code.items() if folder.split("/")[0] == top)
        budget = sum(count for folder, count in BUDGETS.items() if folder.split("/")[0] == top)
        print(f"{total:7}  {top} (budgets of its folders: {budget}; the mission: {most})")
    print("\n".join(problems), end="\n" if problems else "")
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())

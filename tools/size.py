#!/usr/bin/env python3
"""Counts lines per room against the budgets, and names the longest files. Ends with status 1 when a total is over its budget.

The first figure is of lines of code, which the budgets are for; the second adds blank lines, comments and docstrings.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CPP = {".cpp", ".h", ".td", ".def"}
# What the product may hold: lines of code in src/ and in python/quadrants/.
BUDGETS = {"src": 20_000, "python": 6_500}
LONG_FILE = 600


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


def main() -> int:
    folders = ["src", "python", "tests", "tools", "examples", "bench", "cmake"]
    names = subprocess.check_output(["git", "ls-files", *folders], cwd=ROOT, text=True)
    rooms: Counter[str] = Counter()
    rooms_code: Counter[str] = Counter()
    totals: Counter[str] = Counter()
    totals_code: Counter[str] = Counter()
    lengths: Counter[str] = Counter()
    for name in names.split():
        path = ROOT / name
        if path.suffix not in CPP | {".py", ".mlir", ".cmake"} or not path.is_file():
            continue
        lines = len(path.read_text().splitlines())
        parts = Path(name).parts
        room = "/".join(parts[:2]) if parts[0] in {"src", "python", "tests"} and len(parts) > 2 else parts[0]
        code = count_code(path)
        rooms[room] += lines
        rooms_code[room] += code
        totals[parts[0]] += lines
        totals_code[parts[0]] += code
        if parts[0] in BUDGETS:
            lengths[name] = lines
    for room, lines in sorted(rooms.items()):
        print(f"{rooms_code[room]:7} {lines:7}  {room}")
    for name, lines in lengths.most_common():
        if lines > LONG_FILE:
            print(f"{lines:7}  {name} (longer than {LONG_FILE}: one list, or two things?)")
    status = 0
    for name, budget in BUDGETS.items():
        over = totals_code[name] > budget
        status |= over
        print(f"{totals_code[name]:7} {totals[name]:7}  of {budget} lines of code in {name}{': over budget' if over else ''}")
    return int(status)


if __name__ == "__main__":
    sys.exit(main())

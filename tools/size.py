#!/usr/bin/env python3
"""Counts lines per room against the budgets, and names the longest files. Ends with status 1 when a total is over its budget."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CPP = {".cpp", ".h", ".td", ".def"}
# What the product may hold: lines in src/ and in python/quadrants/.
BUDGETS = {"src": 15_000, "python": 4_000}
LONG_FILE = 600


def main() -> int:
    folders = ["src", "python", "tests", "tools", "examples", "bench", "cmake"]
    names = subprocess.check_output(["git", "ls-files", *folders], cwd=ROOT, text=True)
    rooms: Counter[str] = Counter()
    totals: Counter[str] = Counter()
    lengths: Counter[str] = Counter()
    for name in names.split():
        path = ROOT / name
        if path.suffix not in CPP | {".py", ".mlir", ".cmake"} or not path.is_file():
            continue
        lines = len(path.read_text().splitlines())
        parts = Path(name).parts
        rooms["/".join(parts[:2]) if parts[0] in {"src", "python", "tests"} and len(parts) > 2 else parts[0]] += lines
        totals[parts[0]] += lines
        if parts[0] in BUDGETS:
            lengths[name] = lines
    for room, lines in sorted(rooms.items()):
        print(f"{lines:7}  {room}")
    for name, lines in lengths.most_common():
        if lines > LONG_FILE:
            print(f"{lines:7}  {name} (longer than {LONG_FILE}: one list, or two things?)")
    status = 0
    for name, budget in BUDGETS.items():
        over = totals[name] > budget
        status |= over
        print(f"{totals[name]:7}  of {budget} lines in {name}{': over budget' if over else ''}")
    return int(status)


if __name__ == "__main__":
    sys.exit(main())

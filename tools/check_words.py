#!/usr/bin/env python3
"""Finds words that do not belong in the repository: marks of unfinished work, local paths of a machine, section numbers of a specification
that is not in the repository, British spelling, and words that the glossary replaces.

Prints one line per match and exits with status 1 if there is one.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SUFFIXES = {".cpp", ".h", ".def", ".td", ".py", ".pyi", ".md", ".cmake", ".txt", ".toml", ".mlir", ".sh"}
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK|WIP|for now|not implemented|placeholder|stub implementation)\b", re.IGNORECASE)
CITATION = re.compile(r"\b[Ss]pec \d|\b[SB]-?\d+\.\d")
# Words, with the term of docs/dev/glossary.md that replaces each.
FORMER = {
    "journal": "undo log", "trails?": "checkpoint", "companions?": "shadow", "host numbers?": "launch expression",
    "lost values?": "overwritten primal", "joined launch": "fused", "sole launch(?:es)?": "single launcher", "tellers?": "discriminator",
}  # fmt: skip
BRITISH = re.compile(
    r"\b\w*(special|optim|normal|initial|serial|vector|recogn|privat|final|factor|scalar|synchron)is(e[sdr]?|ing|ations?)\b"
    r"|neighbour|behaviour|colour|favour|\bcentre\b",
    re.IGNORECASE,
)
MACHINE = re.compile(r"(?<![\w.])/(?:work|root|home/\w+|Users/\w+)/")
KINDS = (
    (UNFINISHED, "mark of unfinished work: complete it, or refuse the case with a diagnostic"),
    (MACHINE, "path of a machine: write it relative to the repository"),
    (CITATION, "section number of a text that is not in the repository"),
    (BRITISH, "British spelling"),
    *((re.compile(rf"\b{word}\b", re.IGNORECASE), f"docs/dev/glossary.md says {term!r}") for word, term in FORMER.items()),
)


def main() -> int:
    listed = subprocess.check_output(["git", "ls-files"], cwd=ROOT, text=True).split("\n")
    found = 0
    for name in listed:
        path = ROOT / name
        if path.suffix not in SUFFIXES and name != "dev" or path == Path(__file__).resolve() or not path.is_file():
            continue
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            for pattern, what in KINDS:
                match = pattern.search(line)
                if match:
                    print(f"{name}:{number}: {what}: {match[0]}")
                    found += 1
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

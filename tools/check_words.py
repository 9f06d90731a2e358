#!/usr/bin/env python3
"""Finds words that do not belong in the repository: marks of unfinished work, local paths of a machine, section numbers of a specification
that is not in the repository, British spelling, words that the glossary replaces, and names of source files that do not exist.

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

# A source file that a document or a comment names, with its folder or without; Python's own header is no file of the repository.
NAMED = re.compile(r"(?<![\w./<-])((?:\w+/)*(?!Python\.h)[\w-]+\.(?:cpp|td|def|h))\b")


def find_missing(name: str, line: str, files: set[str]) -> str | None:
    """Returns a source file that a line of a document, or a comment of C++, names and that does not exist."""
    text = line if name.endswith(".md") else line.partition("//")[2] if name.startswith("src/") else ""
    return next((found for found in NAMED.findall(text) if not found.startswith(("mlir/", "llvm/")) and found not in files), None)


def main() -> int:
    listed = subprocess.check_output(["git", "ls-files"], cwd=ROOT, text=True).split("\n")
    # Each file under its path, and under each end of the path.
    files = {"/".join(parts[start:]) for parts in (name.split("/") for name in listed) for start in range(len(parts))}
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
            if missing := find_missing(name, line, files):
                print(f"{name}:{number}: there is no file {missing}")
                found += 1
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

"""Runs a script on an emulated AMD GPU: python tests/emulators/gcn/run.py gfx942 script.py arguments, or -m module arguments."""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path += [str(Path(__file__).parent), str(Path(__file__).parents[1])]

from gcn_build import build, find_problem
from running import run


def main() -> None:
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    if problem := find_problem():
        sys.exit(problem)
    _, target, *words = sys.argv
    os.environ |= {"QD_ARCH": "amdgpu", "QD_AMDGPU_DRIVER": str(build()), "GCN_TARGET": target, "QD_OFFLINE_CACHE": "0"}
    os.environ["GCN_SOURCES"] = str(Path(__file__).parent.resolve())
    run(words)


if __name__ == "__main__":
    main()

"""Runs a script on an emulated AMD GPU: python tests/emulators/gcn/run.py gfx942 script.py arguments, or -m module arguments."""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))

from gcn_build import build, find_problem


def main() -> None:
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    if problem := find_problem():
        sys.exit(problem)
    _, target, script, *arguments = sys.argv
    os.environ |= {"QD_ARCH": "amdgpu", "QD_AMDGPU_DRIVER": str(build()), "GCN_TARGET": target, "QD_OFFLINE_CACHE": "0"}
    os.environ["GCN_SOURCES"] = str(Path(__file__).parent.resolve())
    if script == "-m":
        sys.argv = arguments
        sys.path[0] = os.getcwd()
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
        return
    sys.argv = [script, *arguments]
    sys.path[0] = str(Path(script).resolve().parent)
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    main()

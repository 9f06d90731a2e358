"""Runs a script with `arch=qd.metal` on the processor: python tests/emulators/metal/run.py script.py arguments, or -m module arguments."""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))

from metal_build import build


def main() -> None:
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    os.environ |= {"QD_ARCH": "metal", **build()}
    _, script, *arguments = sys.argv
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

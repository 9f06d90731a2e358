"""Runs a script with `arch=qd.metal` on the processor: python tests/emulators/metal/run.py script.py arguments, or -m module arguments."""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path += [str(Path(__file__).parent), str(Path(__file__).parents[1])]

from metal_build import build
from running import run


def main() -> None:
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    os.environ |= {"QD_ARCH": "metal", **build()}
    run(sys.argv[1:])


if __name__ == "__main__":
    main()

"""The stub of the package lists what the package offers."""

import subprocess
import sys
from pathlib import Path

TOOL = Path(__file__).resolve().parents[3] / "tools" / "write_stub.py"


def test_the_stub_is_up_to_date():
    assert subprocess.run([sys.executable, TOOL, "--check"]).returncode == 0, "run `./dev types`, which writes the stubs"

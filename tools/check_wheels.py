#!/usr/bin/env python3
"""Installs each wheel of a folder into a clean environment of its Python, and runs `pip check` and the smoke tests there.

    check_wheels.py [folder]      default: make a wheel for each Python, in out/wheels/

A wheel for another processor runs under qemu, with a Python of Debian if Debian has that version. Those for this one run again while the
loader hides what is newer than glibc 2.28 from the modules (cmake/old_glibc/hide_newer.c). Prints a line for each wheel; the status is 1 if
one failed or none ran.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pythons

ROOT = Path(__file__).resolve().parent.parent
SMOKE_TESTS = ROOT / "tests" / "smoke"


def find_interpreter(wheel: Path) -> Path | None:
    """Returns an interpreter that runs the wheel here: for another processor one that starts qemu."""
    tag, machine = wheel.stem.split("-")[2], wheel.stem.split("-")[-1].split("_", 3)[3]
    version = f"3.{tag.removeprefix('cp3')}"
    if machine == platform.machine():
        return pythons.find(version)
    return pythons.find_of_debian(version, machine)


def check(wheel: Path, interpreter: Path) -> str:
    """Returns what failed, or the last line of the smoke tests."""
    with tempfile.TemporaryDirectory() as temporary:
        environment = Path(temporary) / "environment"
        python = environment / "bin" / "python"
        variables = {"PATH": "/usr/bin:/bin", "HOME": temporary, "SMOKE_PREFIX": str(environment), "LANG": "C.UTF-8"}
        variables |= {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
        pip = [python, "-m", "pip", "--disable-pip-version-check"]
        commands: list[list[str | Path]] = [
            [interpreter, "-m", "venv", environment],
            [*pip, "install", "-q", wheel, "pytest>=8"],
            [*pip, "check"],
            [python, "-m", "pytest", "-p", "no:cacheprovider", SMOKE_TESTS],
        ]
        for command in commands:
            result = subprocess.run(list(map(str, command)), capture_output=True, text=True, env=variables, cwd=temporary)
            if result.returncode:
                return f"FAILED: {' '.join(map(str, command[1:]))}\n{result.stdout[-6000:]}{result.stderr[-2000:]}"
        verdict = result.stdout.strip().splitlines()[-1]
        if not wheel.stem.endswith(platform.machine()):
            return verdict
        hidden = Path(temporary) / "hidden.txt"
        auditor = Path(temporary) / "hide_newer.so"
        subprocess.run(["clang-22", "-shared", "-fPIC", "-O1", ROOT / "cmake/old_glibc/hide_newer.c", "-o", auditor], check=True)
        variables |= {"LD_AUDIT": str(auditor), "HIDDEN_SYMBOLS": str(hidden)}
        result = subprocess.run(list(map(str, commands[-1])), capture_output=True, text=True, env=variables, cwd=temporary)
        if result.returncode or not hidden.exists():
            return f"FAILED without what is newer than glibc 2.28:\n{result.stdout[-6000:]}{result.stderr[-2000:]}"
        names = ", ".join(sorted(set(hidden.read_text().split())))
    return f"{verdict}; without {names}: {result.stdout.strip().splitlines()[-1]}"


def main() -> int:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "out" / "wheels"
    if len(sys.argv) == 1:
        for path in folder.glob("*.whl"):
            path.unlink()
        subprocess.run([sys.executable, ROOT / "tools" / "make_wheel.py", folder, "--all"], check=True, stdout=sys.stderr)
    verdicts = []
    for wheel in sorted(folder.resolve().glob("*.whl")):
        began, interpreter = time.monotonic(), find_interpreter(wheel)
        if interpreter:
            verdict = check(wheel, interpreter)
        else:
            verdict = f"{'FAILED' if wheel.stem.endswith(platform.machine()) else 'not run'}: there is no interpreter"
        verdicts.append(verdict.split(":")[0])
        print(f"{wheel.name} ({wheel.stat().st_size / 1e6:.2f} MB), {time.monotonic() - began:.0f} s: {verdict}", flush=True)
    return int("FAILED" in verdicts or set(verdicts) <= {"not run"})


if __name__ == "__main__":
    sys.exit(main())

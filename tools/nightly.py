#!/usr/bin/env python3
"""Runs the checks that take too long for each commit, one after the other: `./dev nightly [name...] [--seed number] [--list]`.

Each check writes its output into out/nightly/<name>.txt and does not stop the others. The status is 1 if a check failed. Random programs
use a seed that changes every day; it is printed, and --seed repeats it.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pythons

ROOT = Path(__file__).resolve().parent.parent
LOGS = ROOT / "out" / "nightly"
SECONDS_OF_A_DAY = 86_400
# Emulated AMD GPUs, one of each family; the suites that run on them; those of random programs; the suites whose kernels are linked for ten.
AMD_TARGETS = ("gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1201")
AMD_SUITES = ["language", "simt", "data", "library", "memory"]
AMD_PROGRAM_TARGETS = ("gfx942", "gfx1100")
LINKED_SUITES = [*AMD_SUITES, "autodiff", "interop"]
VULKAN_SUITES = ["language", "data", "library", "simt", "autodiff", "interop"]
METAL_SUITES = ["language", "simt", "autodiff", "interop"]


# Every kernel has a line in the file; what LLVM has ended the process of is begun only.
LINK_AND_CHECK = """
lines=out/nightly/linked.txt
rm -f $lines
"$1" -m pytest -n 2 --link $lines "${@:2}"
test -s $lines && ! grep ' FAILED ' $lines && test $(grep -c ' begins ' $lines) = $(grep -vc ' begins ' $lines)
"""


class Skipped(Exception):
    """Why a check cannot run on this machine."""


def emulate_amd(target: str) -> list[str]:
    """Returns the beginning of a command that runs a module on an emulated AMD GPU."""
    return [sys.executable, "tests/emulators/gcn/run.py", target, "-m"]


def list_commands(seed: int) -> dict[str, list[str]]:
    """Returns the checks that are one command each."""
    python, first = sys.executable, ["--seed", str(seed)]
    return {
        "sanitizers": ["./dev", "sanitize"],
        "threads": ["./dev", "sanitize", "--threads"],
        "programs": [python, "-m", "tests.python.fuzz", "--count", "20000", *first],
        "gradients": [python, "-m", "tests.python.autodiff.compare_programs", "--count", "1000", *first],
        "tapes": [python, "-m", "tests.python.autodiff.random_tapes", "--count", "5000", *first],
        "loops": [python, "-m", "tests.python.language.random_loops", "--count", "2000", *first],
        "sparse-trees": [python, "-m", "tests.python.data.random_sparse_trees", "--count", "5000", *first],
        "amd-corpus": [python, "-m", "pytest", "tests/python/compile/test_amdgpu.py", "--every-target"],
        **{
            f"amd-{target}": [*emulate_amd(target), "pytest", "-n", "2", *(f"tests/python/{suite}" for suite in AMD_SUITES)]
            for target in AMD_TARGETS
        },
        **{
            f"amd-programs-{target}": ["env", "FUZZ_ARCH=amdgpu", *emulate_amd(target), "tests.python.fuzz", "--count", "1000", *first]
            for target in AMD_PROGRAM_TARGETS
        },
        "amd-links": ["bash", "-c", LINK_AND_CHECK, "bash", python, *(f"tests/python/{suite}" for suite in LINKED_SUITES)],
        "ranks": [python, "-m", "tests.python.distributed.kill_ranks", "--runs", "200", *first],
        "vulkan-control-flow": [python, "-m", "tests.python.vulkan.control_flow", "--count", "20000", *first],
        "wheel": ["bash", "tools/check_wheel.sh"],
        "wheels": [python, "tools/check_wheels.py"],
        "site": ["bash", "-c", f"./dev site --frames 5 && {python} -m pytest tests/site"],
        "metal-suites": [
            python,
            "tests/emulators/metal/run.py",
            "-m",
            "pytest",
            "-n",
            "2",
            *(f"tests/python/{suite}" for suite in METAL_SUITES),
        ],
        "vulkan-suites": [
            "env",
            "QD_ARCH=vulkan",
            python,
            "-m",
            "pytest",
            "--spirv-val",
            *(f"tests/python/{suite}" for suite in VULKAN_SUITES),
        ],
        "vulkan-programs": ["env", "FUZZ_ARCH=vulkan", python, "-m", "tests.python.fuzz", "--count", "1000", *first],
        "metal-programs": [
            *("env", "FUZZ_ARCH=metal", python, "tests/emulators/metal/run.py", "-m", "tests.python.fuzz", "--count", "1000", *first),
        ],
        "allocations": [python, "-m", "tests.python.host.allocation_failures", "--every", "10"],
    }


def find_interpreter(version: str) -> str:
    """Returns the path of an interpreter of this version."""
    found = pythons.find(version)
    if not found:
        raise Skipped("no interpreter with headers: neither on the path, nor of pyenv, uv or Debian")
    return str(found)


def test_with(version: str) -> tuple[list[str], dict[str, str]]:
    """Returns the command that runs the Python tests with an interpreter, in its own build folder and environment."""
    folder = ROOT / f"build-python{version}"
    variables = {"QD_BUILD": str(folder), "QD_VENV": str(folder / "venv")}
    chosen = ["tests/python", "--ignore=tests/python/packaging"]
    return [find_interpreter(version), "dev", "test", *chosen], variables


def list_checks(seed: int) -> Iterator[str]:
    yield from list_commands(seed)
    yield from (f"python{version}" for version in pythons.VERSIONS)


def run(name: str, seed: int) -> str:
    """Runs a check and returns its result."""
    command, variables = (test_with(name[6:])) if name.startswith("python") else (list_commands(seed)[name], {})
    with open(LOGS / f"{name}.txt", "w") as log:
        process = subprocess.run(command, cwd=ROOT, env=os.environ | variables, stdout=log, stderr=subprocess.STDOUT)
    return "passed" if process.returncode == 0 else f"FAILED with status {process.returncode}, see out/nightly/{name}.txt"


def main() -> int:
    parser = argparse.ArgumentParser(prog="./dev nightly", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="checks to run; all without names")
    parser.add_argument("--seed", type=int, default=int(time.time()) // SECONDS_OF_A_DAY % 10_000 * 100_000, help="first random program")
    parser.add_argument("--list", action="store_true", help="print the names of the checks")
    given = parser.parse_args()
    known = list(list_checks(given.seed))
    if unknown := set(given.names) - set(known):
        parser.error(f"there is no {', '.join(sorted(unknown))}; the checks are {', '.join(known)}")
    if given.list:
        print("\n".join(known))
        return 0
    LOGS.mkdir(parents=True, exist_ok=True)
    print(f"seed {given.seed}", flush=True)
    failed = False
    for name in given.names or known:
        began = time.monotonic()
        try:
            verdict = run(name, given.seed)
        except Skipped as reason:
            verdict = f"skipped: {reason}"
        failed |= verdict.startswith("FAILED")
        print(f"{name:12} {time.monotonic() - began:7.0f} s  {verdict}", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())

"""What tests compile for the processor, compiled and linked for AMD GPUs, too (pytest --link)."""

from __future__ import annotations

import struct
import warnings
from pathlib import Path
from typing import Any

import quadrants as qd

TARGETS = "gfx906 gfx908 gfx90a gfx942 gfx950 gfx1030 gfx1100 gfx1101 gfx1200 gfx1201".split()
# Members of the header of an ELF file: what it is for, and the version of its conventions.
MACHINE, ABI_VERSION, FLAGS = 18, 8, 48
AMD_GPU, CODE_OBJECT_5 = 224, 3
REFUSALS = (qd.QuadrantsCompilationError, ValueError)  # by name


def find_code(artifact: bytes) -> bytes:
    """The code object in a serialized artifact, where its length stands in front of it."""
    start = artifact.index(b"\x7fELF")
    return artifact[start : start + int.from_bytes(artifact[start - 8 : start], "little")]


def check_code(code: bytes) -> None:
    assert struct.unpack_from("<H", code, MACHINE)[0] == AMD_GPU
    assert code[ABI_VERSION] == CODE_OBJECT_5


class Linking:
    """Compiles each kernel for every target, and adds a line for each to a file: target, result, message."""

    def __init__(self, compile_plain: Any, log: Path, test: str) -> None:
        self.compile_plain, self.log, self.test = compile_plain, log, test

    def compile(self, *arguments: Any) -> Any:
        made = self.compile_plain(*arguments)
        *rest, options, _, _, mode = arguments
        if options.get("check_races"):  # which GPUs refuse
            return made
        for target in TARGETS:
            # The line is there before LLVM can end the process.
            self.write(target, "begins", "")
            with warnings.catch_warnings():  # which the test has seen
                warnings.simplefilter("ignore")
                self.write(target, *self.link(rest, {**options, "dump": "", "arch": "amdgpu"}, target, mode))
        return made

    def link(self, rest: list[Any], options: dict[str, Any], target: str, mode: Any) -> tuple[str, str]:
        try:
            artifact, _ = self.compile_plain(*rest, options, f"amdgpu:{target}", "", mode)
            if b"\x7fELF" in artifact:  # without tasks on the GPU there is none
                check_code(find_code(artifact))
            return "linked", ""
        except REFUSALS as problem:
            return "refused", str(problem)
        except Exception as problem:
            return "FAILED", f"{type(problem).__name__}: {problem}"

    def write(self, target: str, result: str, message: str) -> None:
        with self.log.open("a") as file:
            file.write(f"{target} {result} {self.test} {' '.join(message.split())[:300]}\n")

"""The reverse of gcn_decode.py, for tests: instructions as machine code, and code objects with other instructions than LLVM's."""

from __future__ import annotations

import re
import struct
import subprocess
import tempfile
from pathlib import Path

from gcn_decode import disassemble, read_object


def assemble(target: str, *lines: str) -> bytes:
    """The machine code of these instructions."""
    with tempfile.NamedTemporaryFile(suffix=".o") as made:
        processor, *settings = target.split(":")
        features = ",".join(["+wavefrontsize64", "-wavefrontsize32", *(setting[-1] + setting[:-1] for setting in settings)])
        command = ["llvm-mc-22", "-triple=amdgcn-amd-amdhsa", f"-mcpu={processor}", f"-mattr={features}", "-filetype=obj", "-o", made.name]
        subprocess.run(command, input="\n".join(lines) + "\n", text=True, check=True)
        data = Path(made.name).read_bytes()
    table, size, count = struct.unpack_from("<Q", data, 40)[0], *struct.unpack_from("<HH", data, 58)
    for i in range(count):
        _, kind, flags, _, offset, length = struct.unpack_from("<IIQQQQ", data, table + size * i)
        if kind == 1 and flags & 4 and length:  # of the program, with instructions
            return data[offset : offset + length]
    raise ValueError("no instructions")


def edit(target: str, code: bytes, pattern: str, replacement: str, which: int | None = 0) -> bytes:
    """A code object with another instruction in place of one whose text the pattern matches, or of all (`which` is None); raises
    `LookupError` if there is none.

    The replacement may refer to groups of the pattern. A shorter instruction is followed by s_nop.
    """
    edited, number = code, 0
    segments, size = struct.unpack_from("<Q", code, 32)[0], struct.unpack_from("<H", code, 56)[0]
    for i in range(size):
        kind, flags, offset, at, _, length = struct.unpack_from("<IIQQQQ", code, segments + 56 * i)
        if kind != 1 or not flags & 1:
            continue
        for place, count, text in disassemble(target, code[offset : offset + length], at):
            match = re.fullmatch(pattern, re.sub(r"\s+", " ", text))
            if not match:
                continue
            if which in (None, number):
                made = assemble(target, match.expand(replacement))
                made += assemble(target, "s_nop 0") * ((count - len(made)) // 4)
                if len(made) != count:
                    raise LookupError(f"{match.expand(replacement)} is longer than {text}")
                begin = offset + place - at
                edited = edited[:begin] + made + edited[begin + count :]
            number += 1
    if edited == code:
        raise LookupError(f"no instruction matches {pattern}")
    return edited


def halve_waves(code: bytes) -> bytes:
    """A code object whose first kernel asks for waves of 32 threads: bit 10 of the properties in its descriptor."""
    table, size, count = struct.unpack_from("<Q", code, 32)[0], *struct.unpack_from("<HH", code, 54)
    segments = [struct.unpack_from("<IIQQQQQQ", code, table + size * i) for i in range(count)]
    memory = bytearray(max(segment[3] + segment[6] for segment in segments if segment[0] == 1))
    for segment in segments:
        if segment[0] == 1:
            memory[segment[3] : segment[3] + segment[5]] = code[segment[2] : segment[2] + segment[5]]
    _, symbols, kernels = read_object(bytes(memory))
    at = symbols[kernels[0][".name"] + ".kd"] + 57
    (place,) = (segment[2] + at - segment[3] for segment in segments if segment[0] == 1 and 0 <= at - segment[3] < segment[5])
    return code[:place] + bytes([code[place] | 4]) + code[place + 1 :]

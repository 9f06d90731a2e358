"""Artifacts without the compiler: hand-written C kernels, and the bytes around them as src/artifact/serialize.cpp writes them."""

from __future__ import annotations

import shutil
import struct
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
SCALARS = ("u1", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f16", "f32", "f64")
DYNAMIC = -(1 << 63)
_STEPS = {"attribute": 0, "item": 1, "global": 2, "closure": 3}
_SITES = {"print": 0, "assert": 1, "bounds": 2, "overflow": 3, "division_by_zero": 4}
_DEPENDENCIES = {"value": 0, "function": 1, "type": 2, "identity": 3, "absent": 4}

Path_ = tuple[Any, ...]
"""(argument number or None for the kernel, (kind of step, name or index), ...)"""


@dataclass
class Input:
    """One input; with `extents` a tensor, else a value."""

    path: Path_
    offset: int
    scalar: str
    shape: tuple[int, ...] = ()
    extents: tuple[int, ...] | None = None
    strides: tuple[int, ...] = ()
    component_stride: int = 0
    is_field: bool = False
    is_written: bool = True
    is_updated: bool = False
    is_spread: bool = False
    may_alias: bool = False
    is_alone: bool = False
    many_axes: int = 0
    few_axes: int = 0
    name: str = "x"


@dataclass
class Task:
    """One launch of a grid: `iterations` is a number, or (scalar type, offset in the argument block)."""

    entry: str
    iterations: int | tuple[str, int] | None
    block_size: int = 128
    per_thread: int = 1
    most_blocks: int = 0
    branch: int = 0


@dataclass
class HandMade:
    """What `serialize` writes."""

    source: str
    inputs: list[Input] = field(default_factory=list)
    dependencies: list[tuple[str, Path_]] = field(default_factory=list)
    sites: list[tuple[str, list[Any], list[Any]]] = field(default_factory=list)
    results: list[tuple[str, tuple[int, ...], int]] = field(default_factory=list)
    argument_bytes: int = 512
    scratch_bytes: int = 0
    result_bytes: int = 64
    has_print: bool = False
    draws_random: bool = False
    cacheable: bool = True
    name: str = "hand_made"
    tasks: list[Task] = field(default_factory=list)

    @property
    def code(self) -> str:
        """The source, with what the stand-in for the driver asks it: how large the parameters of an entry are."""
        inline = f"{self.argument_bytes} <= QD_GPU_INLINE_ARGUMENTS ? {self.argument_bytes} : 0"
        return f"{self.source}\nconst uint64_t parameter_bytes = sizeof(QdGpuLaunch) + ({inline});"


def _compile(*arguments: str) -> None:
    compiler = shutil.which("clang-22") or shutil.which("cc")
    if not compiler:
        pytest.skip("needs a C compiler")
    subprocess.run([compiler, "-shared", "-fPIC", *arguments], check=True)


def build_library(source: str, folder: Path, cache: dict[str, bytes] = {}) -> bytes:  # noqa: B006
    """A shared object from the functions that a kernel consists of: `void qd_kernel(QdKernelContext *context)`, or entries of tasks."""
    if source not in cache:
        file = folder / f"kernel{len(cache)}.c"
        file.write_text(f'#include "runtime/kernel_abi.h"\n{source}\n')
        _compile("-O2", f"-I{ROOT / 'src'}", str(file), "-o", str(file.with_suffix(".so")))
        cache[source] = file.with_suffix(".so").read_bytes()
    return cache[source]


def write_library(library: bytes, folder: Path, cache: dict[bytes, Path] = {}) -> Path:  # noqa: B006
    """A file with the bytes of a library, for whoever wants a path."""
    if library not in cache:
        cache[library] = folder / f"library{len(cache)}.so"
        cache[library].write_bytes(library)
    return cache[library]


def _text(text: str) -> bytes:
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw


def _type(scalar: str, shape: tuple[int, ...]) -> bytes:
    rows, columns = (*shape, 1, 1)[:2]
    return struct.pack("<BBHH", SCALARS.index(scalar), len(shape), rows, columns)


def _path(path: Path_) -> bytes:
    root, *steps = path
    out = struct.pack("<BIQ", root is None, root or 0, len(steps))
    for kind, key in steps:
        is_index = isinstance(key, int)
        out += struct.pack("<B", _STEPS[kind]) + _text("" if is_index else key) + struct.pack("<q", key if is_index else 0)
    return out


def _integers(values: tuple[int, ...]) -> bytes:
    return struct.pack(f"<Q{len(values)}q", len(values), *values)


def _host_number(number: int | tuple[str, int] | None) -> bytes:
    if number is None:
        return struct.pack("<Q", 0)
    kind, scalar, value = (0, 4, number) if isinstance(number, int) else (1, SCALARS.index(number[0]), number[1])
    return struct.pack("<QBBq", 1, kind, scalar, value)


def _task(task: Task) -> bytes:
    sizes = struct.pack("<4I??", task.block_size, task.per_thread, task.most_blocks, task.branch, False, False)
    return _text(task.entry) + _host_number(task.iterations) + sizes + _host_number(None)


def serialize(made: HandMade, binary: bytes) -> bytes:
    """The bytes of an artifact."""
    out = struct.pack("<II", 0x41445131, 15) + _text(made.name) + _text("cuda" if made.tasks else "cpu")
    out += struct.pack("<Q", len(binary)) + binary + _text("")  # no folder for debuggers
    out += struct.pack("<Q", len(made.tasks)) + b"".join(map(_task, made.tasks))
    out += struct.pack("<Q", 0)  # no tasks are repeated
    out += struct.pack("<II", made.argument_bytes, made.scratch_bytes)
    out += struct.pack("<Q", len(made.inputs))
    for item in made.inputs:
        out += struct.pack("<B", item.extents is not None) + _path(item.path) + _text(item.name) + struct.pack("<I", item.offset)
        out += _type(item.scalar, item.shape) * 2 + _integers(item.extents or ()) + _integers(item.strides)
        out += struct.pack("<qQQ", item.component_stride, 0, 0)
        out += struct.pack("<6?", item.is_field, item.is_written, item.is_updated, item.is_spread, item.may_alias, item.is_alone)
        out += struct.pack("<II", item.many_axes, item.few_axes)
        out += struct.pack("<?Q", False, 0) * 2  # any elements are read and written
    out += struct.pack("<Q", len(made.dependencies))
    for kind, path in made.dependencies:
        out += struct.pack("<B", _DEPENDENCIES[kind]) + _path(path) + struct.pack("<Q", 0)
    out += struct.pack("<Q", len(made.sites))
    for kind, pieces, frames in made.sites:
        out += struct.pack("<BQ", _SITES[kind], len(pieces))
        for piece in pieces:
            text, scalar, shape = (piece, "i32", ()) if isinstance(piece, str) else piece
            out += _text(text) + struct.pack("<??", not isinstance(piece, str), False) + _type(scalar, shape)
        out += struct.pack("<Q", len(frames))
        for file, function, *numbers in frames:
            out += _text(file) + _text(function) + struct.pack("<4I", *numbers)
    out += struct.pack("<Q", len(made.results))
    for scalar, shape, offset in made.results:
        out += _type(scalar, shape) + struct.pack("<I", offset)
    return out + struct.pack("<I???QQI", made.result_bytes, made.has_print, made.draws_random, made.cacheable, 0, 0, 0)


def build_driver(folder: Path, *options: str) -> str:
    """The stand-in for the driver, as a library in the folder."""
    library = folder / "libfake.so"
    _compile("-O1", str(Path(__file__).with_name("fake_driver.c")), "-o", str(library), *options)
    return str(library)

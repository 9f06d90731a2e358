"""Artifacts without the compiler: hand-written C kernels, and descriptions of what they read and return."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import artifact_format
import pytest

ROOT = Path(__file__).resolve().parents[3]
DYNAMIC = -(1 << 63)
_STEPS = {"attribute": "Attribute", "item": "Item", "global": "FunctionGlobal", "closure": "FunctionClosure"}
_SITES = {"print": "Print", "assert": "Assert", "bounds": "Bounds", "overflow": "Overflow", "division_by_zero": "DivisionByZero"}
_DEPENDENCIES = {kind: kind.capitalize() for kind in ("value", "function", "type", "identity", "absent")}

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
    is_unaliased: bool = False
    many_axes: int = 0
    few_axes: int = 0
    name: str = "x"


@dataclass
class Task:
    """One launch of a grid: `iterations` is a number, (scalar type, offset in the argument block), or a list of these and operators in
    postfix order."""

    entry: str
    iterations: int | tuple[str, int] | list[Any] | None
    block_size: int = 128
    per_thread: int = 1
    most_blocks: int = 0
    branch: tuple[int, int] = (0, 0)
    """Its number, and that of the context."""


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
    repeats: list[tuple[Any, ...]] = field(default_factory=list)
    """First task, end, offset of the condition, and perhaps a branch."""
    ptx: str = ""
    """In place of the path of the library; contains the path at {library}."""

    @property
    def code(self) -> str:
        """The source, with what the stand-in for the driver asks it: how large the parameters of an entry are."""
        inline = f"sizeof(QdGpuLaunch) + {self.argument_bytes} <= 4096 ? {self.argument_bytes} : 0"
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


def _type(scalar: str, shape: tuple[int, ...]) -> dict[str, Any]:
    rows, columns = (*shape, 1, 1)[:2]
    return {"scalar": scalar.upper(), "rank": len(shape), "rows": rows, "columns": columns}


def _path(path: Path_) -> dict[str, Any]:
    root, *steps = path
    found = [{"kind": _STEPS[kind], "index" if isinstance(key, int) else "name": key} for kind, key in steps]
    return {"root": "Kernel" if root is None else "Argument", "argument": root or 0, "steps": found}


def _step(step: int | str | tuple[str, int]) -> dict[str, Any]:
    if isinstance(step, str):
        return {"kind": step}
    kind, scalar, value = ("Constant", "i64", step) if isinstance(step, int) else ("Argument", *step)
    return {"kind": kind, "type": scalar.upper(), "value": value}


def _host_number(number: int | tuple[str, int] | list[Any] | None) -> dict[str, Any]:
    steps = number if isinstance(number, list) else [] if number is None else [number]
    return {"steps": [_step(step) for step in steps]}


def _input(item: Input) -> dict[str, Any]:
    layout = {"element": _type(item.scalar, item.shape), "extents": item.extents or (), "strides": item.strides}
    layout["componentStride"] = item.component_stride
    flags = {"isField": item.is_field, "isWritten": item.is_written, "isUpdated": item.is_updated, "isSpread": item.is_spread}
    limits = {"mayAlias": item.may_alias, "isUnaliased": item.is_unaliased, "manyAxes": item.many_axes, "fewAxes": item.few_axes}
    anything = {"isEmpty": False}
    made = {"kind": "Value" if item.extents is None else "Tensor", "path": _path(item.path), "name": item.name, "offset": item.offset}
    return made | flags | limits | {"type": layout["element"], "layout": layout, "read": anything, "written": anything}


def _task(task: Task) -> dict[str, Any]:
    sizes = {"blockSize": task.block_size, "perThread": task.per_thread, "maxBlocks": task.most_blocks}
    return {"entry": task.entry, "iterations": _host_number(task.iterations), "branch": _branch(*task.branch), **sizes}


def _branch(number: int = 0, context: int = 0) -> dict[str, Any]:
    return {"number": number, "context": context}


def _repeat(first: int, end: int, slot: int, *branch: int) -> dict[str, Any]:
    return {"firstTask": first, "endTask": end, "slot": slot, "branch": _branch(*branch)}


def _site(kind: str, pieces: list[Any], frames: list[Any]) -> dict[str, Any]:
    texts = [
        {"text": piece} if isinstance(piece, str) else {"text": piece[0], "isOperand": True, "type": _type(piece[1], piece[2])}
        for piece in pieces
    ]
    names = ("file", "function", "line", "column", "endLine", "endColumn")
    return {"kind": _SITES[kind], "fragments": texts, "frames": [dict(zip(names, frame, strict=True)) for frame in frames]}


def serialize(made: HandMade, binary: bytes) -> bytes:
    """The bytes of an artifact."""
    artifact = {
        "kernel": made.name,
        "backend": "cuda" if made.tasks else "cpu",
        "binary": binary,
        "tasks": [_task(task) for task in made.tasks],
        "repeats": [_repeat(*repeat) for repeat in made.repeats],
        "argumentBytes": made.argument_bytes,
        "scratchBytes": made.scratch_bytes,
        "inputs": [_input(item) for item in made.inputs],
        "dependencies": [{"kind": _DEPENDENCIES[kind], "path": _path(path)} for kind, path in made.dependencies],
        "sites": [_site(*site) for site in made.sites],
        "results": [{"type": _type(scalar, shape), "offset": offset} for scalar, shape, offset in made.results],
        "resultBytes": made.result_bytes,
        "hasPrint": made.has_print,
        "drawsRandom": made.draws_random,
        "cacheable": made.cacheable,
    }
    return artifact_format.serialize(artifact)


class FakeDriver(ctypes.Structure):
    """What the stand-in for NVIDIA's driver counts, and what it is told: the fields of `fake` in fake_driver.c."""

    _fields_ = [
        (name, ctypes.c_int64)
        for name in (
            "bytes_in_use bytes_available allocations releases copies_in copies_out launches graph_launches graph_updates pins trims "
            "modules links edges loops rounds busy fault stream_waits link_failure"
        ).split()
    ]


def build_driver(folder: Path, *options: str) -> str:
    """The stand-in for the driver, as a library in the folder."""
    library = folder / "libfake.so"
    _compile("-O1", str(Path(__file__).with_name("fake_driver.c")), "-o", str(library), *options)
    return str(library)

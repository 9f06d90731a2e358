"""The IR of kernels before LLVM: as the frontend builds it, and lowered for each target."""

from __future__ import annotations

import inspect
import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import quadrants as qd
from quadrants import _compiler  # type: ignore[attr-defined]
from quadrants._base import options as _options  # type: ignore[attr-defined]
from quadrants._base.source import get_kernel_source
from quadrants._session import prepare as _prepare  # type: ignore[attr-defined]

# What a program of the corpus yields: kernels with their arguments.
Launches = Iterator[tuple[Any, ...]]
# Fixed processors: the IR does not depend on the machine that runs the corpus.
TARGETS = {"x64": "x64:x86-64-v3", "cuda": "cuda:sm_90"}
# Texts of checks name a file and a line, which say nothing about the code.
PLACE = re.compile(r"File \\22.*?\\22, line \d+")
MODES = {2: "_tangents", 3: "_adjoints", 5: "_adjoints_on_tape", 6: "_fused"}


class _Lowered(BaseException):
    """Ends the launch of a kernel after its IR was recorded."""


def find_programs(module: ModuleType) -> dict[str, Callable[[], Launches]]:
    """The public functions of a module of the corpus, by name."""
    functions = inspect.getmembers(module, inspect.isfunction)
    return {name: found for name, found in functions if found.__module__ == module.__name__ and not name.startswith("_")}


def record(program: Callable[[], Launches]) -> dict[str, dict[str, str]]:
    """The stages of each kernel that a program launches, by the kernel's name. Kernels are not compiled to the end and do not run."""
    kernels: dict[str, dict[str, str]] = {}
    qd.init(arch=qd.cpu, offline_cache=False, log_level="error")
    try:
        for kernel, *arguments in program():
            try:
                with mock.patch.object(_prepare, "compile_kernel", _lower):
                    kernel(*arguments)
            except _Lowered as lowered:
                name, stages = lowered.args
                count = sum(other.split("#")[0] == name for other in kernels)
                kernels[f"{name}#{count + 1}" if count else name] = stages
            else:
                raise RuntimeError(f"{kernel} was not compiled")
    finally:
        qd.reset()
    return kernels


def _lower(kernel: Any, arguments: tuple[Any, ...]) -> Any:
    """Takes the place of the function that a launch calls to compile a kernel."""
    # check_races is refused on GPUs.
    names = ["x64"] if _options.get("check_races") else list(TARGETS)
    built, lowered = {}, {}
    for name in names:
        built[name], lowered[name] = _dump(kernel, arguments, name)
    texts = list(dict.fromkeys(built.values()))
    raise _Lowered(kernel.__name__ + MODES.get(kernel.mode, ""), {"frontend": "\n".join(texts), **lowered})


def _dump(kernel: Any, arguments: tuple[Any, ...], name: str) -> list[str]:
    """The IR as the frontend builds it, and lowered."""
    source = get_kernel_source(kernel)
    with tempfile.TemporaryDirectory() as folder:
        options = _options.plain({**(_options.current or {}), "arch": name, "dump": folder, "stop_after": "lowered"})
        try:
            _compiler.compile(source, kernel.parameters, arguments, kernel.results, options, TARGETS[name], "", kernel.mode)
        except qd.QuadrantsCompilationError as error:
            if "stopped after stage 'lowered'" not in str(error):
                raise
        else:
            raise RuntimeError("the option stop_after had no effect")
        texts = [next(Path(folder).glob(f"*/{stage}.mlir")).read_text() for stage in ("1_frontend", "2_lowered")]
        return [PLACE.sub("File, line", text) for text in texts]

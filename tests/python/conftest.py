"""Options of the whole suite."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from quadrants._base.arch import GPU_NAMES


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--assemble", metavar="sm_90", help="also compile every kernel for this CUDA device, and assemble it with ptxas")
    parser.addoption("--link", metavar="FILE", help="also compile every kernel for ten AMD GPUs; a line for each in this file")
    parser.addoption("--every-target", action="store_true", help="compile the corpus for every AMD GPU, not for one of them in turn")
    parser.addoption("--spirv-val", action="store_true", help="with QD_ARCH=vulkan: check every kernel with spirv-val")
    parser.addoption("--emulate", action="store_true", help="with QD_ARCH=cuda: run kernels on an emulated device")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "host_memory: needs containers in the processor's memory: views by NumPy, or kernels that are interpreted"
    )

    config.addinivalue_line(
        "markers",
        "needs(*words, lanes=n, block=n): needs what some GPUs lack: the words of `LACKING`, long loops, deep nesting, so many "
        "threads in a subgroup, whole subgroups in a block of so many threads",
    )


# What no device of a backend does, whatever its driver says (docs/guide/gpu.md).
_GRIDS_LACK = {"race checks", "counted pages"}
_SHADERS_LACK = {*_GRIDS_LACK, "recursion", "checked recursion", "grid barriers", "forked children", "exported memory", "lazy memory"}
LACKING = {
    "cuda": {*_GRIDS_LACK, "forked children"},
    "amdgpu": {*_GRIDS_LACK, "forked children", "checked recursion", "lazy memory"},
    "vulkan": _SHADERS_LACK,
    "metal": _SHADERS_LACK | {"f64"},
}


def list_lacking(arch: str, words: set[str]) -> set[str]:
    """Returns those words that name what the device lacks."""
    lacking = LACKING.get(arch, set()) & words
    if arch == "amdgpu" and "GCN_TARGET" in os.environ:  # the emulator stops kernels whose blocks race
        lacking |= {"races"} & words
    if arch == "vulkan" and (own := {"long loops", "deep nesting", "f32 subnormals"} & words):
        from tests.python.vulkan import vulkan_device

        # NVIDIA's driver flushes subnormal f32, and offers no mode that keeps them.
        lacking |= own & ({"long loops", "deep nesting"} if vulkan_device.is_mesa_on_processor() else {"f32 subnormals"})
    return lacking


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Skips tests of what no device of the backend has, which the compiler refuses by name."""
    try:
        return (yield)
    except Exception as error:
        cause = error.__cause__ or error  # random programs are told with theirs
        lacks = r"this device has no (f64|atomic operations on 64 bits)|the shared arrays of this loop take \d+ bytes"
        refused = re.search(lacks, str(cause))
        if refused and os.environ.get("QD_ARCH") in ("metal", "vulkan") and not isinstance(cause, AssertionError):
            pytest.skip(refused[0])
        raise


def leave_out_the_interpreter(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of a test that runs with "cpu" and with "python" the second, which would be the same device again."""
    values: dict[tuple[str, str], set[str]] = {}
    found: dict[pytest.Item, list[tuple[tuple[str, str], str]]] = {}
    for item in items:
        callspec = getattr(item, "callspec", None)
        texts = {key: value for key, value in callspec.params.items() if isinstance(value, str)} if callspec else {}
        found[item] = [((item.nodeid.partition("[")[0], key), value) for key, value in texts.items()]
        if item.path.parent.name not in NAME_THEIR_PROCESSOR:
            for place, value in found[item]:
                values.setdefault(place, set()).add(value)
    again = [item for item in items if any(value == "python" and "cpu" in values.get(place, ()) for place, value in found[item])]
    config.hook.pytest_deselected(items=again)
    items[:] = [item for item in items if item not in set(again)]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With the name of a GPU in QD_ARCH the tests ask for what a GPU promises, which views by NumPy are no part of."""
    arch = os.environ.get("QD_ARCH", "")
    if arch not in GPU_NAMES:
        return
    leave_out_the_interpreter(config, items)
    needed = {item: {word for mark in item.iter_markers("needs") for word in mark.args} for item in items}
    lacking = list_lacking(arch, set().union(*needed.values()))
    for item in items:
        for word in sorted(needed[item] & lacking):
            item.add_marker(pytest.mark.skip(reason=f"{arch} has no {word}"))
        if item.get_closest_marker("host_memory"):
            item.add_marker(pytest.mark.skip(reason="neither NumPy nor the interpreter reaches a GPU's memory"))


# Tests of these folders are about the host, or about processors that they name themselves.
NAME_THEIR_PROCESSOR = {
    "cache",
    "compile",
    "docs",
    "frontend",
    "fuzz",
    "init",
    "interpreter",
    "launch",
    "packaging",
    "tools",
    "vulkan",
    "metal",
}


@pytest.fixture(autouse=True)
def _choose_processor(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.path.parent.name in NAME_THEIR_PROCESSOR and not request.config.getoption("--emulate"):
        monkeypatch.delenv("QD_ARCH", raising=False)


@pytest.fixture(autouse=True)
def _emulate(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With --emulate: `arch=qd.cuda` is this processor, and grids are loops over threads."""
    if request.config.getoption("--emulate"):
        import emulating

        emulating.start(monkeypatch, request.getfixturevalue("tmp_path_factory").mktemp("emulated"))


@pytest.fixture(autouse=True)
def _validate_every_kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """With --spirv-val: a test fails if spirv-val rejects a kernel that it compiles for Vulkan."""
    if not request.config.getoption("--spirv-val"):
        yield
        return
    from tests.python.vulkan import vulkan_device

    validation = vulkan_device.Validation(monkeypatch, request.getfixturevalue("tmp_path_factory").mktemp("spirv"))
    yield
    validation.finish()


@pytest.fixture(autouse=True)
def _assemble_every_kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """With --assemble: what a test compiles for the processor, it compiles for the device, too."""
    capability = request.config.getoption("--assemble")
    if not capability:
        yield
        return
    from assembling import assemble, find_ptx

    from quadrants import _compiler  # type: ignore[attr-defined]

    folder = request.getfixturevalue("tmp_path_factory").mktemp("assembled")
    compile_plain = _compiler.compile
    problems = []

    def compile_twice(*arguments: Any) -> Any:
        *rest, options, _, _, mode = arguments
        made = compile_plain(*arguments)
        try:
            artifact, _ = compile_plain(*rest, {**options, "dump": ""}, f"cuda:{capability}", "", mode)
            assemble(find_ptx(artifact), folder, capability)
        except Exception as problem:  # Ctrl-C and the like go on
            problems.append(problem)
        return made

    monkeypatch.setattr(_compiler, "compile", compile_twice)
    yield
    if problems:
        raise problems[0]


@pytest.fixture(autouse=True)
def _link_every_kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With --link: what a test compiles for the processor, it compiles and links for AMD GPUs, too. A failure is a line in the file."""
    if log := request.config.getoption("--link"):
        from linking import Linking

        from quadrants import _compiler  # type: ignore[attr-defined]

        monkeypatch.setattr(_compiler, "compile", Linking(_compiler.compile, Path(log).absolute(), request.node.nodeid).compile)

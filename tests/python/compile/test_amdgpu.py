"""Code objects for AMD GPUs, made without a device: what LLVM and lld make of the corpus, and what is refused by name."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from linking import FLAGS, TARGETS, Linking, check_code, find_code

import quadrants as qd
from quadrants import _compiler  # type: ignore[attr-defined]
from quadrants._base import options as _options  # type: ignore[attr-defined]
from quadrants._base.source import get_kernel_source, get_source
from quadrants._session import prepare as _prepare  # type: ignore[attr-defined]
from tests.corpus.__main__ import AREAS
from tests.corpus.recording import find_programs


@pytest.fixture(autouse=True)
def _cpu() -> Iterator[None]:
    qd.init(arch=qd.cpu, offline_cache=False, log_level="error")
    yield
    qd.reset()


def compile_for(target: str, kernel: Any, *arguments: Any, **more: Any) -> bytes:
    options = _options.plain({**(_options.current or {}), **more})
    prepared = _prepare.prepare(kernel, arguments)
    source = get_source(kernel.__wrapped__)
    artifact, _ = _compiler.compile(source, kernel.parameters, prepared, kernel.results, options, f"amdgpu:{target}")
    return find_code(artifact)


class _Compiled(BaseException):
    """Ends the launch of a kernel of the corpus."""


def compile_corpus(program: Callable[[], Iterator[tuple[Any, ...]]], choose: Callable[[], list[str]]) -> int:
    """Compiles each kernel of a program for the targets that `choose` names; returns how many code objects were made."""
    count = 0

    def compile_kernel(kernel: Any, arguments: tuple[Any, ...]) -> None:
        nonlocal count
        source = get_kernel_source(kernel)
        for target in [] if _options.get("check_races") else choose():  # which GPUs refuse
            options = _options.plain({**(_options.current or {}), "arch": "amdgpu"})
            name = f"amdgpu:{target}"
            artifact, _ = _compiler.compile(source, kernel.parameters, arguments, kernel.results, options, name, "", kernel.mode)
            check_code(find_code(artifact))
            count += 1
        raise _Compiled

    for kernel, *arguments in program():
        with mock.patch.object(_prepare, "compile_kernel", compile_kernel), pytest.raises(_Compiled):
            kernel(*arguments)
    return count


def test_every_kernel_of_the_corpus_becomes_a_code_object(request: pytest.FixtureRequest) -> None:
    """For one of the targets in turn, and for all of them with --every-target."""
    number = 0

    def choose() -> list[str]:
        nonlocal number
        number += 1
        return TARGETS if request.config.getoption("--every-target") else [TARGETS[number % len(TARGETS)]]

    made = 0
    for module in AREAS.values():
        for program in find_programs(module).values():
            qd.init(arch=qd.cpu, offline_cache=False, log_level="error")
            made += compile_corpus(program, choose)
    assert made > 100


@qd.kernel
def add_up(x: qd.types.ndarray(qd.f32, 1)) -> qd.f32:
    total = 0.0
    for i in x:
        total += x[i]
    return total


@pytest.mark.parametrize("target", TARGETS)
def test_code_objects_are_of_version_5_for_their_processor(target: str) -> None:
    check_code(compile_for(target, add_up, qd.ndarray(qd.f32, 10)))


def test_settings_of_the_processor_are_kept() -> None:
    x = qd.ndarray(qd.f32, 10)
    plain, off, on = (compile_for(f"gfx942{settings}", add_up, x) for settings in ("", ":sramecc+:xnack-", ":xnack+"))
    flags = [struct.unpack_from("<I", code, FLAGS)[0] for code in (plain, off, on)]
    assert [number >> 8 & 3 for number in flags] == [1, 2, 3]  # any, off, on


@pytest.mark.parametrize("target", ["gfx999", "sm_90", "gfx11", "gfx803", "hawaii"])
def test_unknown_processors_are_refused_by_name(target: str) -> None:
    with pytest.raises(ValueError, match=f"amdgpu: there is no GPU '{target}'"):
        compile_for(target, add_up, qd.ndarray(qd.f32, 10))


@pytest.mark.skipif(Path("/sys/class/kfd").exists(), reason="this machine has an AMD GPU")
def test_native_needs_a_gpu() -> None:
    with pytest.raises(RuntimeError, match="this machine has no AMD GPU"):
        compile_for("native", add_up, qd.ndarray(qd.f32, 10))


def make_shared(count: int) -> Any:
    @qd.kernel
    def kernel(x: qd.types.ndarray(qd.f32, 1)) -> None:
        qd.loop_config(block_dim=64)
        for i in x:
            tile = qd.simt.block.SharedArray((count,), qd.f32)
            tile[i % 64] = x[i]
            qd.simt.block.sync()
            x[i] = tile[63 - i % 64]

    return kernel


@pytest.mark.parametrize("target", ["gfx90a", "gfx1030"])
def test_blocks_share_at_most_64_kilobytes(target: str) -> None:
    x = qd.ndarray(qd.f32, 64)
    check_code(compile_for(target, make_shared(16384), x))
    with pytest.raises(qd.QuadrantsCompilationError, match="take 65552 bytes, a block has 65536"):
        compile_for(target, make_shared(16385), x)


def test_subgroups_reach_all_64_threads(tmp_path: Path) -> None:
    """gfx9 has an instruction; on later families it reaches 32 threads, so that words go through shared memory."""

    @qd.kernel
    def kernel(x: qd.types.ndarray(qd.i32, 1)) -> None:
        qd.loop_config(block_dim=64)
        for i in x:
            x[i] = qd.simt.subgroup.shuffle(x[i], qd.u32(63 - i % 64))

    for target, instruction in (("gfx942", "ds_bpermute_b32"), ("gfx1030", "ds_write_b32"), ("gfx1201", "ds_store_b32")):
        compile_for(target, kernel, qd.ndarray(qd.i32, 64), dump=str(tmp_path / target))
        (text,) = (path.read_text() for path in (tmp_path / target).rglob("4_asm.s"))
        assert instruction in text
        assert "permlane64" not in text
        assert ".wavefront_size: 64" in text


@pytest.mark.parametrize("target", ["gfx942", "gfx1201"])
def test_sums_of_f32_are_added_by_the_device(target: str, tmp_path: Path) -> None:
    @qd.kernel
    def kernel(x: qd.types.ndarray(qd.f32, 1), place: qd.types.ndarray(qd.i32, 1)) -> None:
        for i in place:
            x[place[i]] += 1.0

    compile_for(target, kernel, qd.ndarray(qd.f32, 8), qd.ndarray(qd.i32, 8), dump=str(tmp_path))
    (text,) = (path.read_text() for path in tmp_path.rglob("4_asm.s"))
    assert "global_atomic_add_f32" in text
    assert "cmpswap" not in text


@pytest.mark.parametrize("operation", ["llvm.pow.f64", "llvm.tan.f64", "llvm.sin.f32"])
def test_what_llvm_cannot_select_is_refused_by_name(operation: str, tmp_path: Path) -> None:
    """LLVM would end the process."""
    compile_for("gfx942", add_up, qd.ndarray(qd.f32, 10), dump=str(tmp_path))
    (dump,) = tmp_path.rglob("3_llvm.ll")
    kind = "double" if operation.endswith("f64") else "float"
    count = 2 if "pow" in operation else 1
    operands = ", ".join([f"{kind} %given"] * count)
    lines = [f"%given = load volatile {kind}, ptr null", f"%stray = call {kind} @{operation}({operands})"]
    lines.append(f"store volatile {kind} %stray, ptr null")
    text = dump.read_text().replace("entry:\n", "entry:\n  " + "\n  ".join(lines) + "\n", 1)
    types = ", ".join([kind] * count)
    edited = tmp_path / "3_llvm.ll"
    edited.write_text(f"{text}\ndeclare {kind} @{operation}({types})\n")
    with pytest.raises(RuntimeError, match=f"no instructions exist for {operation}"):
        compile_for("gfx942", add_up, qd.ndarray(qd.f32, 10), replay=str(edited))


def test_kernels_of_tests_are_linked_for_every_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What --link does: a line at the beginning and one with the result."""
    log = tmp_path / "linked.txt"
    compile_plain = _compiler.compile
    monkeypatch.setattr(_compiler, "compile", Linking(compile_plain, log, "this_test").compile)

    @qd.kernel
    def kernel(x: qd.types.ndarray(qd.f32, 1)) -> None:
        for i in x:
            x[i] += 1.0

    kernel(qd.ndarray(qd.f32, 10))
    lines = [line.split() for line in log.read_text().splitlines()]
    assert lines == [[target, result, "this_test"] for target in TARGETS for result in ("begins", "linked")]

    def fail(*arguments: Any) -> Any:
        if arguments[5].startswith("amdgpu:gfx90a"):
            raise RuntimeError("no instructions exist")
        return compile_plain(*arguments)

    monkeypatch.setattr(_compiler, "compile", Linking(fail, log, "another").compile)
    add_up(qd.ndarray(qd.f32, 10))
    (failed,) = (line for line in log.read_text().splitlines() if " FAILED " in line)
    assert failed == "gfx90a FAILED another RuntimeError: no instructions exist"

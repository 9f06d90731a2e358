"""The options that show the stages of a compile: dump, dump_kernel, stop_after, replay."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import quadrants as qd


@pytest.fixture(autouse=True)
def _reset() -> Iterator[None]:
    yield
    qd.reset()


def make_kernels() -> tuple[Any, Any, Any]:
    x = qd.field(qd.i32, shape=4)

    @qd.kernel
    def fill() -> None:
        for i in x:
            x[i] = 7

    @qd.kernel
    def other() -> None:
        for i in x:
            x[i] = 8

    return x, fill, other


def test_dump_writes_every_stage_of_the_named_kernel(tmp_path: Path) -> None:
    qd.init(arch=qd.cpu, offline_cache=False, dump=str(tmp_path), dump_kernel="fill")
    x, fill, other = make_kernels()
    fill()
    other()
    assert [folder.name for folder in tmp_path.iterdir()] == ["fill"]
    stages = {file.name: file.read_bytes() for file in (tmp_path / "fill").iterdir()}
    assert b"x[i] = 7" in stages["0_source.py"]
    assert b"qd.for parallel" in stages["1_frontend.mlir"]
    assert b"qd.task parallel" in stages["2_lowered.mlir"]
    assert b"define void @qd_kernel" in stages["3_llvm.ll"]
    assert b"qd_kernel:" in stages["4_asm.s"]
    assert b"lld" in stages["5_times.txt"]
    assert x.to_numpy().tolist() == [8, 8, 8, 8]


def test_stop_after_ends_the_compile_with_an_error_that_says_so(tmp_path: Path) -> None:
    qd.init(arch=qd.cpu, offline_cache=False, dump=str(tmp_path), stop_after="lowered")
    _, fill, _ = make_kernels()
    with pytest.raises(qd.QuadrantsCompilationError, match="stopped after stage 'lowered'"):
        fill()
    assert not (tmp_path / "fill" / "3_llvm.ll").exists()


@pytest.mark.parametrize("stage", ["1_frontend.mlir", "2_lowered.mlir", "3_llvm.ll"])
def test_replay_takes_an_edited_stage(tmp_path: Path, stage: str) -> None:
    qd.init(arch=qd.cpu, offline_cache=False, dump=str(tmp_path))
    _, fill, _ = make_kernels()
    fill()
    edited = tmp_path / stage
    edited.write_text((tmp_path / "fill" / stage).read_text().replace(" 7", " 9"))
    qd.reset()
    qd.init(arch=qd.cpu, offline_cache=False, replay=str(edited))
    x, fill, _ = make_kernels()
    fill()
    assert x.to_numpy().tolist() == [9, 9, 9, 9]


def test_variables_dump_into_a_folder_and_take_edited_stages_from_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options: dict[str, Any] = {"arch": qd.cpu, "debug_dump_path": str(tmp_path)}
    monkeypatch.setenv("QD_DUMP_IR", "1")
    with pytest.warns(UserWarning, match=r"\[warning_code=DUMP_IR_CACHE_MISMATCH\]"):
        qd.init(**options)
    make_kernels()[1]()
    monkeypatch.setenv("QD_DUMP_IR", "0")
    monkeypatch.setenv("QD_LOAD_IR", "1")
    stage = tmp_path / "fill" / "3_llvm.ll"
    stage.write_text(stage.read_text().replace(" 7", " 9"))
    with pytest.raises(ValueError, match="Caching must be disabled with QD_LOAD_IR:"):
        qd.init(**options)
    qd.init(**options, offline_cache=False, src_ll_cache=False)
    x, fill, other = make_kernels()
    fill()
    assert x.to_numpy().tolist() == [9, 9, 9, 9]
    other()  # there is no file for it
    assert not (tmp_path / "fill.1").exists()


def test_a_replay_that_does_not_parse_names_stage_and_kernel(tmp_path: Path) -> None:
    broken = tmp_path / "broken.mlir"
    broken.write_text("qd.kernel")
    qd.init(arch=qd.cpu, offline_cache=False, replay=str(broken))
    _, fill, _ = make_kernels()
    with pytest.raises((RuntimeError, qd.QuadrantsCompilationError), match=r"fill|broken\.mlir"):
        fill()


def test_sine_and_cosine_of_an_angle_share_most_of_their_work(tmp_path: Path) -> None:
    qd.init(arch=qd.cpu, offline_cache=False, dump=str(tmp_path), fast_math=False)
    x, y = qd.field(qd.f64, shape=64), qd.field(qd.f64, shape=64)

    @qd.kernel
    def one() -> None:
        for i in x:
            y[i] = qd.sin(x[i])

    @qd.kernel
    def both() -> None:
        for i in x:
            y[i] = qd.sin(x[i]) + qd.cos(x[i])

    one()
    both()
    products = [(tmp_path / name / "3_optimized.ll").read_text().count("@llvm.fma") for name in ("one", "both")]
    assert 0 < products[1] < 1.3 * products[0]

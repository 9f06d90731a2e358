"""The same path compiles for another processor: an object for arm64 gives the right numbers under an emulator."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

HERE = Path(__file__).parent
SOURCE = HERE.parents[2] / "src"
KERNEL = """
qd.kernel @waves [] attributes {argument_bytes = 16 : i32} {
  %x = qd.tensor_argument "x" at 0 position 0 : !qd.tensor<f32, [?], [], 4>
  %zero = qd.constant 0 : si32
  %end = qd.extent %x 0 : !qd.tensor<f32, [?], [], 4> -> si32
  %sum = qd.local : !qd.ref<f32>
  %nothing = qd.constant 0.0 : f32
  qd.store %nothing, %sum : !qd.ref<f32>
  qd.for parallel (%zero) to (%end) : (si32) to (si32) {
  ^body(%i: si32):
    %place = qd.element %x[%i] : !qd.tensor<f32, [?], [], 4>, si32 -> !qd.ref<f32>
    %value = qd.load %place : !qd.ref<f32>
    %old = qd.atomic add %sum, %value : !qd.ref<f32>
    %wave = qd.unary sin %value : f32 -> f32
    qd.store %wave, %place : !qd.ref<f32>
    qd.yield
  }
  %total = qd.load %sum : !qd.ref<f32>
  %first = qd.element %x[%zero] : !qd.tensor<f32, [?], [], 4>, si32 -> !qd.ref<f32>
  qd.store %total, %first : !qd.ref<f32>
}
"""
TOOLS = {"qd-opt": "qd-opt", "clang": "clang-22", "lld": "ld.lld-22", "emulator": "qemu-aarch64"}


@pytest.mark.skipif(not all(map(shutil.which, TOOLS.values())), reason="needs qd-opt, clang, lld and qemu-aarch64")
def test_a_kernel_compiled_for_arm64_computes_the_same(tmp_path: Path) -> None:
    source, kernel, machine, program = (tmp_path / name for name in ("kernel.mlir", "kernel.o", "machine.o", "program"))
    source.write_text(KERNEL)
    commands = [
        [TOOLS["qd-opt"], source, "--pipeline", "--target=arm64", "--emit=object", "-o", kernel],
        [
            TOOLS["clang"],
            "--target=aarch64-linux-gnu",
            "-O1",
            "-ffreestanding",
            "-c",
            HERE / "bare_machine.c",
            f"-I{SOURCE}",
            "-o",
            machine,
        ],
        [TOOLS["lld"], "-static", machine, kernel, "-o", program],
    ]
    for command in commands:
        subprocess.run(command, check=True)
    output = subprocess.run([TOOLS["emulator"], program], check=True, capture_output=True, timeout=60).stdout
    values = np.frombuffer(output, np.float32)
    assert values[0] == 4950
    np.testing.assert_allclose(values[1:], np.sin(np.arange(1, 100, dtype=np.float32)), rtol=0, atol=1e-6)

"""GPU kernels on the processor: the LLVM IR that would become PTX becomes a shared object, which a stand-in for the driver runs.

The stand-in (tests/python/launch/fake_driver.c) runs shared objects as kernels and takes a path for PTX; emulated_grid.c runs the threads.
So launch plans, grids, reductions and checks are tested where there is no GPU. What is not: PTX itself (`assembling.py`), order between
blocks.
"""

from __future__ import annotations

import itertools
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from assembling import find_ptx

HERE = Path(__file__).parent
# What LLVM calls what the device does → what emulated_grid.c calls it.
ROUTINES = {
    "read.ptx.sreg.tid.x": "thread",
    "read.ptx.sreg.ctaid.x": "block",
    "read.ptx.sreg.nctaid.x": "block_count",
    "barrier.cta.sync.aligned.all": "barrier",
    "read.ptx.sreg.ntid.x": "block_size",
    "bar.warp.sync": "subgroup_barrier",
    "membar.cta": "fence",
    "membar.gl": "fence",
    "shfl.sync.down.i32": "shuffle_down",
    "shfl.sync.idx.i32": "shuffle",
    "vote.ballot.sync": "ballot",
    **{f"redux.sync.{name}": f"combine_{name}" for name in ("add", "min", "max", "umin", "umax", "and", "or", "xor")},
    "activemask": "active",
    "cp.async.ca.shared.global.4": "copy_4",
    "cp.async.ca.shared.global.8": "copy_8",
    "cp.async.ca.shared.global.16": "copy_16",
    "cp.async.wait.all": "fence",
    "read.ptx.sreg.lanemask.lt": "lanes_before",
    "div.full.ftz": "divide",
    "rcp.approx.ftz.f": "reciprocal",
    "rsqrt.approx.ftz.f": "reciprocal_root",
}
# PTX's reductions as LLVM's atomic operations, by name and kind of number.
REDUCTIONS = {
    **{"addf": "fadd", "addu": "add", "mins": "min", "maxs": "max", "minu": "umin", "maxu": "umax"},
    **{"andb": "and", "orb": "or", "xorb": "xor"},
}
MOST_SHARED_BYTES = 227 << 10
# Threads of a subgroup of each target: that of GPUs, and one that is unlike them (src/backends/emulated).
SUBGROUPS = {"cuda": 32, "emulated": 64}


def translate(text: str) -> str:
    """LLVM IR for the device as IR for the processor: one address space, no attributes of the device, entries under other names."""
    text = re.sub(r"^target (triple|datalayout).*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"by(?:val|ref)\(\[\d+ x i64\]\)|\"target-(cpu|features)\"=\"[^\"]*\"|\bptx_kernel ", "", text)
    dynamic = f"internal global [{MOST_SHARED_BYTES} x i8] zeroinitializer"
    text = text.replace("external addrspace(3) global [0 x i8]", dynamic)
    text = re.sub(r",? addrspace\([135]\)", "", text).replace("addrspacecast", "bitcast")
    for theirs, ours in ROUTINES.items():
        text = text.replace(f"@llvm.nvvm.{theirs}(", f"@emulated_{ours}(")
    text = text.replace('asm sideeffect "", "=l,0"', 'asm sideeffect "", "=r,0"')
    text = re.sub(r'call void asm sideeffect "griddepcontrol[^\n]*', "", text)
    text = re.sub(r"call ((?:fastcc )?)void @qd_grid_barrier\(", r"call void @emulated_grid_barrier(", text)
    text += "declare void @emulated_grid_barrier(ptr, ptr, i32)\n"
    numbers = itertools.count()
    text = re.sub(
        r'call void asm sideeffect "red\.relaxed\.gpu\.global\.(\w+)\.([a-z])\d+ [^"]*", "[^"]*"\(ptr( \S+), (\w+ [^)]*)\)',
        lambda found: f"%red{next(numbers)} = atomicrmw {REDUCTIONS[found[1] + found[2]]} ptr{found[3]}, {found[4]} monotonic",
        text,
    )
    for count, name in ((2, "pair"), (4, "four")):
        text = re.sub(rf'asm sideeffect "red[^"]*\.v{count}\.f32[^"]*", "[^"]*"', f"@emulated_add_{name}", text)
        text += f"declare void @emulated_add_{name}(ptr{', float' * count})\n"
    # Several routines of LLVM's have one stand-in.
    declared = {re.search(r"@(\w+)", line)[1]: line for line in text.splitlines() if line.startswith("declare")}
    text = re.sub(r"^declare .*\n?", "", text, flags=re.MULTILINE) + "\n".join(declared.values()) + "\n"
    return re.sub(r"@(qd_task_\d+)\b", r"@thread_of_\1", text)


def build(text: str, folder: Path, subgroup: int) -> Path:
    """The shared object of a kernel, with entries that run whole grids."""
    words = re.search(r"by(?:val|ref)\(\[(\d+) x i64\]\)", text)
    text = translate(text)
    waits = int(any(f"@emulated_{name}" in text for name in ("barrier", "subgroup_barrier", "shuffle", "ballot", "active", "combine")))
    waits += text.count("@emulated_grid_barrier(") > 1  # calls beside the declaration
    grid = [f'#include "{HERE / "emulated_grid.c"}"', f"const unsigned long parameter_bytes = 8 * {words[1] if words else 0};"]
    for name in re.findall(r"^define void @thread_of_(qd_task_\d+)\(", text, flags=re.MULTILINE):
        parameters = "const void *launch, unsigned blocks, unsigned threads, unsigned shared"
        grid.append(f"Entry thread_of_{name};")
        grid.append(f"void {name}({parameters}) {{ emulate(thread_of_{name}, {waits}, launch, blocks, threads); }}")
    (folder / "kernel.ll").write_text(text)
    (folder / "grid.c").write_text("\n".join(grid) + "\n")
    library = folder / "kernel.so"
    sources = [folder / "kernel.ll", folder / "grid.c"]
    subprocess.run(
        ["clang-22", "-O1", "-w", "-march=native", "-shared", "-fPIC", f"-DSUBGROUP={subgroup}", *sources, "-o", library, "-lm"], check=True
    )
    return library


def start(monkeypatch: pytest.MonkeyPatch, folder: Path, target: str = "cuda") -> None:
    """From here on `arch=qd.cuda` is emulated, with code for this target. The disk cache must be off."""
    from quadrants import _compiler, _runtime  # type: ignore[attr-defined]

    driver = folder / "libdriver.so"
    if not driver.exists():
        if not shutil.which("clang-22"):
            pytest.skip("needs clang-22")
        source = HERE.parent / "launch" / "fake_driver.c"
        subprocess.run(["clang-22", "-O1", "-shared", "-fPIC", source, "-o", driver], check=True)
    monkeypatch.setenv("QD_CUDA_DRIVER", str(driver))
    compile_plain = _compiler.compile

    def compile_emulated(*arguments: Any) -> Any:
        *rest, options, wanted, _, mode = arguments
        if not wanted.startswith("cuda"):
            return compile_plain(*arguments)
        own = folder / str(len(list(folder.iterdir())))
        artifact, stages = compile_plain(*rest, {**options, "dump": str(own)}, wanted if target == "cuda" else target, "", mode)
        (dumped,) = own.iterdir()
        text = (dumped / "3_optimized.ll").read_text()
        library = build(text, own, SUBGROUPS[target])
        binary = find_ptx(artifact).encode() if target == "cuda" else text.encode()
        path = f"{library}\0".encode()
        return artifact.replace(len(binary).to_bytes(8, "little") + binary, len(path).to_bytes(8, "little") + path), stages

    monkeypatch.setattr(_compiler, "compile", compile_emulated)
    if target != "cuda":
        monkeypatch.setattr(_runtime, "device_limits", lambda: (SUBGROUPS[target], 48 << 10, False))

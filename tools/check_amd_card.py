#!/usr/bin/env python3
"""Checks on a machine with an AMD GPU what its emulator cannot show (docs/design/amdgpu.md): python tools/check_amd_card.py [check...]

The checks are loader, order, approximations, faults, memory, graphs, devices, torch and timing. Each runs in a process of its own, which
ends after --seconds (60), so that all of them take ten minutes at most. Each prints what it has found; the status is 1 if one failed.
HIP_VISIBLE_DEVICES chooses the GPU. On the emulator, with small sizes:
python tests/emulators/gcn/run.py gfx942 tools/check_amd_card.py --small
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import quadrants as qd

Array = qd.types.NDArray
IS_SMALL = "--small" in sys.argv


class Skipped(Exception):
    """Why a check cannot run on this machine."""


def start(**options: Any) -> None:
    qd.init(arch=qd.amdgpu, enable_fallback=False, offline_cache=False, log_level="error", **options)


def choose(small: int, large: int) -> int:
    return small if IS_SMALL else large


def expect(is_right: Any, what: str) -> None:
    if not is_right:
        raise AssertionError(what)


@qd.kernel
def double(x: Array[qd.f32, 1]) -> None:
    for i in x:
        x[i] = x[i] * 2.0


@qd.kernel
def add_up(x: Array[qd.i32, 1]) -> qd.i64:
    total = qd.i64(0)
    for i in x:
        total += qd.i64(x[i])
    return total


# --- The loader ---


@qd.real_func
def fibonacci(n: qd.i32) -> qd.i32:
    result = n
    if n > 1:
        result = fibonacci(n - 1) + fibonacci(n - 2)
    return result


@qd.kernel
def share(x: Array[qd.f32, 1]) -> None:
    qd.loop_config(block_dim=256)
    for i in x:
        tile = qd.simt.block.SharedArray((16384,), qd.f32)
        tile[i % 256 * 64] = x[i]
        qd.simt.block.sync()
        x[i] = tile[(255 - i % 256) * 64]


@qd.kernel
def compute(x: Array[qd.f64, 1], y: Array[qd.i32, 1]) -> None:
    for i in x:
        x[i] = qd.sin(x[i]) * qd.exp(-x[i]) + qd.sqrt(x[i])
        y[i] = fibonacci(i % 10)


def check_loader() -> None:
    """Code objects with math, 64 KiB of shared memory, calls with a stack, and prints."""
    start()
    values = np.linspace(0.1, 5, 1000)
    x, y = qd.ndarray(qd.f64, 1000), qd.ndarray(qd.i32, 1000)
    x.from_numpy(values)
    compute(x, y)
    np.testing.assert_allclose(x.to_numpy(), np.sin(values) * np.exp(-values) + np.sqrt(values), rtol=1e-13)
    numbers = [0, 1]
    while len(numbers) < 10:
        numbers.append(numbers[-1] + numbers[-2])
    expect((y.to_numpy() == np.resize(numbers, 1000)).all(), "recursive calls")
    tile = qd.ndarray(qd.f32, 512)
    tile.from_numpy(np.arange(512, dtype=np.float32))
    share(tile)
    expect((tile.to_numpy() == np.arange(512).reshape(2, 256)[:, ::-1].ravel()).all(), "64 KiB of shared memory")


# --- Memory order ---


@qd.kernel
def pass_on(x: Array[qd.i32, 1], rounds: qd.i32, count: qd.i32) -> None:
    qd.loop_config(block_dim=64)
    for i in range(count):
        for _ in range(rounds):
            value = x[(i + 64) % count]
            qd.simt.grid.sync()
            x[i] = value + 1
            qd.simt.grid.sync()


@qd.kernel
def count_all(x: Array[qd.i32, 1], bins: Array[qd.i32, 1], sums: Array[qd.f32, 1]) -> None:
    for i in x:
        bins[x[i]] += 1
        sums[x[i]] += 0.5


def check_order() -> None:
    """Values that blocks pass on through barriers of the grid, sums by the last block, contended atomic operations."""
    start()
    count, rounds = 256, choose(5, 2000)
    x = qd.ndarray(qd.i32, count)
    x.from_numpy(np.arange(count, dtype=np.int32))
    pass_on(x, rounds, count)
    expect((x.to_numpy() == (np.arange(count) + 64 * rounds) % count + rounds).all(), "blocks passed on stale values")
    rng = np.random.default_rng(1)
    for _ in range(choose(3, 1000)):
        values = rng.integers(-1000, 1000, rng.integers(1, choose(5000, 1_000_000))).astype(np.int32)
        y = qd.ndarray(qd.i32, len(values))
        y.from_numpy(values)
        expect(add_up(y) == values.sum(), f"a sum of {len(values)} numbers")
    places = rng.integers(0, 7, choose(5000, 10_000_000)).astype(np.int32)
    z, bins, sums = qd.ndarray(qd.i32, len(places)), qd.ndarray(qd.i32, 7), qd.ndarray(qd.f32, 7)
    z.from_numpy(places)
    count_all(z, bins, sums)
    expect((bins.to_numpy() == np.bincount(places, minlength=7)).all(), "atomic sums of i32")
    expect((sums.to_numpy() == np.bincount(places, minlength=7) / 2).all(), "atomic sums of f32")


# --- Approximations ---


@qd.kernel
def approximate(x: Array[qd.f32, 1], y: Array[qd.f32, 2]) -> None:
    for i in x:
        y[0, i] = 1.0 / x[i]
        y[1, i] = qd.sqrt(x[i])
        y[2, i] = qd.rsqrt(x[i])
        y[3, i] = qd.exp(qd.min(x[i], 80.0))
        y[4, i] = qd.log(x[i])
        y[5, i] = qd.sin(x[i])


def check_approximations() -> None:
    """The last bits of f32 functions, with fast math and without: at most 4 units and 2."""
    values = np.exp(np.random.default_rng(2).uniform(-20, 20, choose(1000, 1_000_000))).astype(np.float32)
    exact = values.astype(np.float64)
    expected = [1 / exact, np.sqrt(exact), 1 / np.sqrt(exact), np.exp(np.minimum(exact, 80)), np.log(exact), np.sin(exact)]
    for fast_math, limit in ((False, 2), (True, 4)):
        start(fast_math=fast_math)
        x, y = qd.ndarray(qd.f32, len(values)), qd.ndarray(qd.f32, (6, len(values)))
        x.from_numpy(values)
        approximate(x, y)
        for name, got, wanted in zip("1/x sqrt rsqrt exp log sin".split(), y.to_numpy(), expected, strict=True):
            units = float(np.max(np.abs(got - wanted) / np.spacing(np.maximum(np.abs(wanted), 1e-7).astype(np.float32))))
            print(f"  {name}: at most {units:.2f} units of the last place{' with fast math' if fast_math else ''}")
            expect(units <= limit or name in ("sin", "log") and fast_math, f"{name} is {units} units wrong")
        qd.reset()


# --- Faults and memory ---


@qd.kernel
def fill_from(x: Array[qd.i32, 1], at: qd.i32) -> None:
    for i in range(100):
        x[at + i] = i


@qd.kernel
def assert_small(n: qd.i32) -> None:
    for i in range(n):
        assert i < 5, "too many"


def check_faults() -> None:
    """Assertions, memory that ends, and an illegal address: an exception each, and no end of the process."""
    start(debug=True)
    for _ in range(2):
        try:
            assert_small(7)
            qd.sync()
        except qd.QuadrantsAssertionError:
            continue
        raise AssertionError("a failed assertion was not reported")
    qd.reset()
    start()
    try:
        kept = [qd.ndarray(qd.f32, 1 << 30) for _ in range(128)]
        raise AssertionError(f"{len(kept)} arrays of 4 GiB were allocated")
    except MemoryError as error:
        print(f"  {error}")
    try:
        fill_from(qd.ndarray(qd.i32, 100), 1 << 30)
        qd.sync()
        raise AssertionError("an illegal address was not reported")
    except RuntimeError as error:
        print(f"  {error}")


def check_memory() -> None:
    """Arrays that come and go, with the driver's pools and without."""
    for uses_pools in (True, False):
        start(enable_hip_mempool=uses_pools)
        for number in range(choose(20, 2000)):
            x = qd.ndarray(qd.f32, 1 + number * 97 % 10_000)
            x.fill(3.0)
            double(x)
            expect((x.to_numpy() == 6).all(), f"array {number}")
        qd.reset()


def check_graphs() -> None:
    """The same launches as graphs of HIP, which several versions have run wrongly."""
    start(hip_graph=True)
    x = qd.ndarray(qd.f32, 1000)
    for number in range(choose(5, 500)):
        x.fill(float(number))
        double(x)
        expect((x.to_numpy() == 2 * number).all(), f"launch {number}")


def check_devices() -> None:
    """The second GPU."""
    try:
        start(device_id=1)
    except RuntimeError as error:
        raise Skipped(str(error)) from None
    x = qd.ndarray(qd.f32, 1000)
    x.fill(1.0)
    double(x)
    expect((x.to_numpy() == 2).all() and x.__dlpack_device__() == (10, 1), "an array on the second GPU")


# --- PyTorch and times ---


def check_torch() -> None:
    """PyTorch for ROCm and kernels on the same memory, in the order of the default stream."""
    try:
        import torch
    except ImportError:
        raise Skipped("there is no PyTorch") from None
    if not torch.version.hip or not torch.cuda.is_available():
        raise Skipped("PyTorch is not for ROCm, or finds no GPU")
    start()
    given = torch.arange(1000, dtype=torch.float32, device="cuda")
    for _ in range(100):
        given += 1
        double(given)
        given /= 2
    expect((given.cpu() == torch.arange(1000) + 100).all(), "a tensor that PyTorch and kernels change in turn")
    x = qd.ndarray(qd.f32, 1000)
    x.fill(2.0)
    view = torch.from_dlpack(x)
    view *= 3
    double(x)
    expect(bool((view.cpu() == 12).all()), "an array that PyTorch changes")


def check_timing() -> None:
    """Times without a limit: the first launch, further ones, and memory."""

    def measure(run: Callable[[], Any], count: int) -> float:
        run()
        qd.sync()
        began = time.perf_counter()
        for _ in range(count):
            run()
        qd.sync()
        return (time.perf_counter() - began) / count

    start()
    small, large = qd.ndarray(qd.f32, 64), qd.ndarray(qd.f32, choose(4096, 1 << 28))
    began = time.perf_counter()
    double(small)
    qd.sync()
    print(f"  first launch, compiled: {(time.perf_counter() - began) * 1e3:.0f} ms")
    print(f"  launch: {measure(lambda: double(small), choose(5, 1000)) * 1e6:.1f} us")
    print(f"  8 bytes for each element: {large.shape[0] * 8 / measure(lambda: double(large), choose(2, 20)) / 1e9:.0f} GB/s")
    numbers = qd.ndarray(qd.i32, choose(4096, 1 << 28))
    print(f"  sum, 4 bytes for each element: {numbers.shape[0] * 4 / measure(lambda: add_up(numbers), choose(2, 20)) / 1e9:.0f} GB/s")


CHECKS: dict[str, Callable[[], None]] = {
    name.removeprefix("check_"): function for name, function in list(globals().items()) if name.startswith("check_")
}


def run(name: str, seconds: int) -> bool:
    """Runs a check in a process of its own; whether it has passed or was skipped."""
    began = time.monotonic()
    command = [sys.executable, __file__, name, "--here", *(["--small"] * IS_SMALL)]
    try:
        status = subprocess.run(command, timeout=seconds).returncode
        verdict = {0: "passed", 3: "skipped"}.get(status, f"FAILED with status {status}")
    except subprocess.TimeoutExpired:
        verdict = f"FAILED: it hung for {seconds} s"
    print(f"{name:15} {time.monotonic() - began:5.0f} s  {verdict}", flush=True)
    return not verdict.startswith("FAILED")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="checks to run; all without names")
    parser.add_argument("--seconds", type=int, default=60, help="time of each check")
    parser.add_argument("--small", action="store_true", help="sizes for the emulator")
    parser.add_argument("--here", action="store_true", help="in this process")
    given = parser.parse_args()
    if unknown := set(given.names) - set(CHECKS):
        parser.error(f"there is no {', '.join(sorted(unknown))}; the checks are {', '.join(CHECKS)}")
    if not given.here:
        return int(not all([run(name, given.seconds) for name in given.names or CHECKS]))
    try:
        CHECKS[given.names[0]]()
    except Skipped as reason:
        print(f"  {reason}")
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""What an installed wheel must do on any machine: `python -m pytest tests/smoke`, with NumPy and pytest only.

`tools/check_wheels.py` runs these tests with each Python and in roots with older C libraries. They use every part of the extension modules
that calls the C library: threads, files, exceptions, the compiler, its linker and memory.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import quadrants as qd

SCALARS = [qd.i8, qd.i16, qd.i32, qd.i64, qd.u8, qd.u16, qd.u32, qd.u64, qd.f16, qd.f32, qd.f64]


@pytest.fixture(autouse=True)
def _start(tmp_path: Path) -> None:
    qd.init(arch=qd.cpu, offline_cache_file_path=str(tmp_path / "cache"))


@qd.kernel
def double(values: qd.types.ndarray()):
    for i in values:
        values[i] = values[i] + values[i]


@qd.kernel
def add_up(values: qd.types.ndarray(dtype=qd.f64, ndim=1)) -> qd.f64:
    total = 0.0
    for i in values:
        total += values[i]
    return total


def test_the_package_is_the_installed_one() -> None:
    if "SMOKE_PREFIX" not in os.environ:
        pytest.skip("only where tools/check_wheels.py names the environment")
    assert Path(qd.__file__).is_relative_to(os.environ["SMOKE_PREFIX"])


@pytest.mark.parametrize("dtype", SCALARS, ids=str)
def test_every_scalar_type(dtype: object) -> None:
    values = qd.ndarray(dtype, 40)
    values.from_numpy(np.arange(40).astype(values.to_numpy().dtype))
    double(values)
    assert (values.to_numpy() == np.arange(40) * 2).all()


@pytest.mark.parametrize("name", ["exp", "log", "sin", "cos", "tanh", "sqrt", "atan2", "pow"])
def test_math_functions(name: str) -> None:
    function = getattr(qd, name)
    arguments = (0.7, 1.9) if name in {"atan2", "pow"} else (0.7,)

    @qd.kernel
    def one(x: qd.f64) -> qd.f64:
        return function(x)

    @qd.kernel
    def two(x: qd.f64, y: qd.f64) -> qd.f64:
        return function(x, y)

    assert math.isclose((two if len(arguments) == 2 else one)(*arguments), getattr(math, name)(*arguments), rel_tol=1e-12)


def test_sums_over_many_threads() -> None:
    assert add_up(np.ones(2_000_000)) == 2_000_000.0


def test_calls_from_python_threads() -> None:
    results: list[float] = []
    threads = [threading.Thread(target=lambda: results.append(add_up(np.ones(10_000)))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [10_000.0] * 8


def test_fields_and_vectors() -> None:
    position = qd.Vector.field(3, qd.f32, shape=100)

    @qd.kernel
    def move():
        for i in position:
            position[i] += qd.Vector([1.0, 2.0, 3.0]) * i

    move()
    assert (position.to_numpy()[7] == [7, 14, 21]).all()


def test_matrices() -> None:
    @qd.kernel
    def solve() -> qd.f64:
        a = qd.Matrix([[4.0, 1.0], [1.0, 3.0]], qd.f64)
        return (a.inverse() @ a).trace() + a.determinant()

    assert math.isclose(solve(), 13.0)


def test_structs() -> None:
    @qd.dataclass
    class Particle:
        mass: qd.f32
        place: qd.types.vector(2, qd.f32)

    particles = Particle.field(shape=10)

    @qd.kernel
    def fill() -> qd.f32:
        total = 0.0
        for i in particles:
            particles[i].mass = 2.0
            particles[i].place = qd.Vector([1.0, 1.0]) * i
        for i in particles:
            total += particles[i].mass * particles[i].place[1]
        return total

    assert fill() == 90.0


def test_serial_loops_and_branches() -> None:
    @qd.kernel
    def count_steps(start: qd.i64) -> qd.i32:
        steps, n = 0, start
        while n != 1:
            n = n // 2 if n % 2 == 0 else 3 * n + 1
            steps += 1
        return steps

    assert count_steps(27) == 111


def test_atomics() -> None:
    counts = qd.field(qd.i32, shape=4)

    @qd.kernel
    def count():
        for i in range(100_000):
            qd.atomic_add(counts[i % 4], 1)

    count()
    assert (counts.to_numpy() == 25_000).all()


def test_random_numbers() -> None:
    @qd.kernel
    def fill(values: qd.types.ndarray(dtype=qd.f32, ndim=1)):
        for i in values:
            values[i] = qd.random()

    values = np.zeros(100_000, np.float32)
    fill(values)
    assert abs(values.mean() - 0.5) < 0.01 and values.std() > 0.28


def test_clocks() -> None:
    @qd.kernel
    def measure(values: qd.types.ndarray(dtype=qd.f64, ndim=1)) -> qd.i64:
        begin = qd.clock_counter()
        for i in values:
            values[i] = qd.sin(values[i])
        return qd.clock_counter() - begin

    values = np.zeros(100_000)
    measure(values)
    assert 0 < measure(values) / qd.clock_freq_hz() < 10


def test_gradients() -> None:
    x, loss = qd.field(qd.f64, shape=3, needs_grad=True), qd.field(qd.f64, shape=(), needs_grad=True)

    @qd.kernel
    def square():
        for i in x:
            loss[None] += x[i] * x[i]

    x.from_numpy(np.array([1.0, 2.0, 3.0]))
    with qd.ad.Tape(loss):
        square()
    assert (x.grad.to_numpy() == [2.0, 4.0, 6.0]).all()


def test_sorting() -> None:
    keys = qd.ndarray(qd.i32, 10_000)
    given = np.random.default_rng(1).permutation(10_000).astype(np.int32)
    keys.from_numpy(given)
    qd.algorithms.sort(keys)
    assert (keys.to_numpy() == np.arange(10_000)).all()


def test_sparse_trees() -> None:
    x = qd.field(qd.f32)
    blocks = qd.root.pointer(qd.ij, 32)
    blocks.dense(qd.ij, 4).place(x)

    @qd.kernel
    def paint():
        for k in range(4):
            x[k * 30, k * 30] = 1.0

    @qd.kernel
    def count() -> qd.i32:
        total = 0
        for _i, _j in x:
            total += 1
        return total

    paint()
    assert count() == 4 * 16


def test_blocks_of_threads_wait_for_each_other() -> None:
    @qd.kernel
    def reverse(values: qd.types.ndarray(dtype=qd.i32, ndim=1)):
        qd.loop_config(block_dim=64)
        for i in range(128):
            shared = qd.simt.block.SharedArray(64, qd.i32)
            shared[i % 64] = values[i]
            qd.simt.block.sync()
            values[i] = shared[63 - i % 64]

    values = np.arange(128, dtype=np.int32)
    reverse(values)
    assert (values[:64] == np.arange(64)[::-1]).all()


PROGRAM = """
import sys
import quadrants as qd

qd.init(arch=qd.python if sys.argv[1] == "python" else qd.cpu, offline_cache_file_path=sys.argv[2])

@qd.kernel
def add_up(n: qd.i32) -> qd.i32:
    total = 0
    for i in range(n):
        total += i
    return total

print(add_up(10), "quadrants._compiler" in sys.modules)
"""


def run_program(folder: Path, processor: str) -> str:
    (folder / "program.py").write_text(PROGRAM)
    command = [sys.executable, str(folder / "program.py"), processor, str(folder / "kept")]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def test_a_second_process_takes_the_kernel_from_disk(tmp_path: Path) -> None:
    assert run_program(tmp_path, "cpu") == "45 True"
    assert run_program(tmp_path, "cpu") == "45 False"


def test_the_interpreter(tmp_path: Path) -> None:
    assert run_program(tmp_path, "python").startswith("45 ")


def test_exceptions_cross_the_compiler() -> None:
    @qd.kernel
    def wrong():
        missing_name  # noqa: F821

    for _ in range(3):
        with pytest.raises(qd.QuadrantsNameError, match="missing_name"):
            wrong()


def test_checks_in_debug_mode() -> None:
    qd.init(arch=qd.cpu, debug=True)
    values = qd.field(qd.i32, shape=4)

    @qd.kernel
    def read(at: qd.i32) -> qd.i32:
        return values[at]

    assert read(3) == 0
    with pytest.raises(AssertionError):
        read(4)


@pytest.mark.parametrize("words", [("diagnose",), ("explain", "QD305"), ("examples",), ("cache", "info")], ids=lambda words: words[0])
def test_commands(words: tuple[str, ...], tmp_path: Path) -> None:
    command = [sys.executable, "-m", "quadrants", *words]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, env={**os.environ, "HOME": str(tmp_path)})
    assert result.returncode == 0 and result.stdout.strip(), result.stderr


def test_a_fork_runs_kernels() -> None:
    assert add_up(np.ones(1000)) == 1000.0
    child = os.fork()
    if child == 0:
        os._exit(0 if add_up(np.ones(1000)) == 1000.0 else 1)
    assert os.waitpid(child, 0)[1] == 0

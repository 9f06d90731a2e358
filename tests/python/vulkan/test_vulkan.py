"""The Vulkan backend on a device, or on lavapipe, which is one."""

from __future__ import annotations

import math
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import quadrants as qd
from tests.python.vulkan import control_flow, sequence
from tests.python.vulkan.vulkan_device import Validation, count_cache_bytes, find_absence, needs_validator


@pytest.fixture(autouse=True)
def _need_device() -> None:
    if absence := find_absence():
        pytest.skip(absence)


@pytest.fixture
def device() -> Iterator[None]:
    qd.init(arch=qd.vulkan, enable_fallback=False, offline_cache=False, log_level="error")
    yield
    qd.reset()


@pytest.fixture
def validated(device: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """spirv-val checks each module that the test compiles; gives their sizes in words."""
    validation = Validation(monkeypatch, tmp_path)
    yield validation.sizes
    assert validation.sizes
    validation.finish()


def test_arrays_and_fields_hold_what_kernels_write(device: None) -> None:
    @qd.kernel
    def saxpy(y: qd.types.NDArray[qd.f32, 1], x: qd.types.NDArray[qd.f32, 1], a: qd.f32) -> None:
        for i in range(x.shape[0]):
            y[i] = y[i] + a * x[i]

    generator = np.random.default_rng(1)
    left, right = generator.random(1000, np.float32), generator.random(1000, np.float32)
    x, y = qd.ndarray(qd.f32, 1000), qd.ndarray(qd.f32, 1000)
    x.from_numpy(left)
    y.from_numpy(right)
    saxpy(y, x, 0.5)
    assert np.array_equal(y.to_numpy(), right + np.float32(0.5) * left)
    saxpy(right, left, 2.0)  # NumPy arrays are copied to the device and back
    assert np.allclose(right, y.to_numpy() + 1.5 * left)

    field = qd.field(qd.i32, shape=(30, 20))

    @qd.kernel
    def fill() -> None:
        for i, j in field:
            field[i, j] = i * 100 + j

    fill()
    assert np.array_equal(field.to_numpy(), np.arange(30)[:, None] * 100 + np.arange(20))


@needs_validator
def test_every_type_is_stored_and_computed(validated: list[int]) -> None:
    @qd.kernel
    def compute(x: qd.types.ndarray(ndim=1), y: qd.types.ndarray(ndim=1)) -> None:
        for i in range(x.shape[0]):
            y[i] = (x[i] + y[i]) * x[i] - y[i]

    for dtype in (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64, np.float16, np.float32, np.float64):
        x = (np.arange(40) % 7).astype(dtype)
        y = (np.arange(40) % 5).astype(dtype)
        expected = (x + y) * x - y
        compute(x, y)
        assert np.array_equal(y, expected), dtype


@needs_validator
def test_threads_of_a_block_share_memory(validated: list[int]) -> None:
    @qd.kernel
    def reverse(x: qd.types.NDArray[qd.f32, 1]) -> None:
        qd.loop_config(block_dim=64)
        for i in range(x.shape[0]):
            shared = qd.simt.block.SharedArray((64,), qd.f32)
            own = i % 64
            shared[own] = x[i]
            qd.simt.block.sync()
            x[i] = shared[63 - own]

    x = np.arange(256, dtype=np.float32)
    reverse(x)
    assert np.array_equal(x, np.arange(256, dtype=np.float32).reshape(4, 64)[:, ::-1].ravel())


@needs_validator
def test_atomic_operations_of_every_size(validated: list[int]) -> None:
    @qd.kernel
    def count(x: qd.types.ndarray(ndim=1)) -> None:
        for i in range(1000):
            qd.atomic_add(x[i % 3], 1)
            qd.atomic_max(x[3], i % 100)

    for dtype in (np.int8, np.uint16, np.int32, np.int64, np.float16, np.float32, np.float64):
        x = np.zeros(4, dtype)
        count(x)
        expected = np.array([334, 333, 333, 99], np.int64).astype(dtype)
        assert np.array_equal(x, expected), dtype


@needs_validator
def test_atomic_operations_of_several_sizes_in_the_copies_of_a_block(validated: list[int]) -> None:
    """Containers so small that each block sums in shared memory, which is one array for all of them."""
    fields = [qd.field(dtype, 4) for dtype in (qd.u8, qd.i16, qd.i32, qd.f32, qd.i64)]
    small, short, whole, real, large = fields
    pairs = qd.Struct.field({"a": qd.u8, "b": qd.u16, "c": qd.i64}, shape=3)

    @qd.kernel
    def count() -> None:
        for i in range(100000):
            small[i % 4] += 3
            short[i % 4] += i % 7
        for i in range(1000):
            small[i % 4] += 1
            whole[i % 4] += i
            real[i % 4] += 0.5
            large[i % 4] += i * 2**20
            pairs[i % 3].a += 1
            pairs[i % 3].b += 5
            pairs[i % 3].c += 2**33

    count()
    i, many = np.arange(1000), np.arange(100000)
    groups = i.reshape(-1, 4)
    assert small.to_numpy().tolist() == [(25000 * 3 + 250) % 256] * 4
    assert short.to_numpy().tolist() == (many % 7).reshape(-1, 4).sum(0).astype(np.int16).tolist()
    assert whole.to_numpy().tolist() == groups.sum(0).tolist()
    assert real.to_numpy().tolist() == [125.0] * 4
    assert large.to_numpy().tolist() == (groups.sum(0) * 2**20).tolist()
    a, b, c = (pairs.to_numpy()[name].tolist() for name in "abc")
    assert (a, b, c) == ([334 % 256, 333 % 256, 333 % 256], [1670, 1665, 1665], [334 * 2**33, 333 * 2**33, 333 * 2**33])


@needs_validator
def test_floats_and_integers_of_one_size_in_the_copies_of_a_block(validated: list[int]) -> None:
    """One array in shared memory, of integers: its sums of floats are loops."""
    real, whole = qd.field(qd.f32, 5), qd.field(qd.u32, 5)

    @qd.kernel
    def count() -> None:
        for i in range(100000):
            real[i % 5] += 0.25
            whole[i % 5] += i

    count()
    assert real.to_numpy().tolist() == [5000.0] * 5
    assert whole.to_numpy().tolist() == (np.arange(100000).reshape(-1, 5).sum(0) % 2**32).tolist()


@needs_validator
def test_some_threads_pass_fences_that_others_do_not_reach(validated: list[int]) -> None:
    x, v = qd.field(qd.i32, 3), qd.Vector.field(2, qd.i32, ())

    @qd.kernel
    def kernel() -> None:
        for i in x:
            qd.atomic_store(x[i], i + 1, order="acquire")
            old = qd.atomic_exchange(x[i], qd.atomic_load(x[i], order="acquire") + 1, order="acquire")
            qd.atomic_store(v[None][0], old)
        v[None] = qd.Vector([7, 1])

    kernel()
    assert x.to_numpy().tolist() == [2, 3, 4] and v.to_numpy().tolist() == [7, 1]


@needs_validator
def test_sums_return_values_checks_and_prints(validated: list[int], capfd: pytest.CaptureFixture[str]) -> None:
    @qd.kernel
    def total(n: qd.i32) -> qd.f64:
        sum = qd.f64(0)
        for i in range(n):
            sum += i * 0.5
        return sum

    assert total(10_000) == 10_000 * 9_999 / 4

    @qd.kernel
    def say(n: qd.i32) -> None:
        print("n is", n, 0.25)

    say(41)
    qd.sync()
    assert "n is 41 0.25" in capfd.readouterr().out
    qd.init(arch=qd.vulkan, enable_fallback=False, offline_cache=False, log_level="error", debug=True)
    x = qd.field(qd.i32, 5)

    @qd.kernel
    def write(at: qd.i32) -> None:
        x[at] = 1

    with pytest.raises(Exception, match="5"):
        write(5)
        qd.sync()
    write(4)
    assert x[4] == 1


@needs_validator
def test_functions_and_gradients(validated: list[int]) -> None:
    x, y = qd.field(qd.f32, 64, needs_grad=True), qd.field(qd.f32, (), needs_grad=True)

    @qd.kernel
    def energy() -> None:
        for i in x:
            y[None] += qd.sin(x[i]) * qd.exp(x[i])

    x.from_numpy(np.linspace(-1, 1, 64, dtype=np.float32))
    with qd.ad.Tape(loss=y):
        energy()
    values = x.to_numpy().astype(np.float64)
    assert math.isclose(y[None], (np.sin(values) * np.exp(values)).sum(), rel_tol=1e-5)
    assert np.allclose(x.grad.to_numpy(), (np.sin(values) + np.cos(values)) * np.exp(values), rtol=1e-5, atol=1e-6)


@needs_validator
def test_a_kernel_with_many_registers_and_local_arrays(validated: list[int]) -> None:
    F, U, P = (qd.Matrix.ndarray(5, 5, qd.f32, 40) for _ in range(3))

    @qd.kernel
    def decompose(F: qd.Tensor, U: qd.Tensor, P: qd.Tensor) -> None:
        for i in F:
            U[i], P[i] = qd.polar_decompose(F[i])

    numbers = np.random.default_rng(3).standard_normal((40, 5, 5)).astype(np.float32)
    F.from_numpy(numbers)
    decompose(F, U, P)
    assert np.allclose(U.to_numpy() @ P.to_numpy(), numbers, atol=1e-4)


@needs_validator
def test_a_value_is_chosen_on_two_paths_to_one_block(validated: list[int]) -> None:
    """LLVM's `structurizecfg` may take the truncated number for the result of both (the last operand of the power is 0 or 1)."""

    @qd.kernel
    def choose(x: qd.types.NDArray[qd.u8, 1], whole: qd.types.NDArray[qd.i32, 1], a: qd.f32, b: qd.f32) -> None:
        for _ in range(1):
            number = whole[1] if whole[0] > 0 else whole[2]
            exponent = (a > b and whole[3] * whole[4] > 5) or whole[5] != whole[6]
            x[0] = qd.cast(number ** (qd.cast(exponent, qd.i8) & 7), qd.u8)

    for more in (0, 1):
        for other in (0, 1):
            x = np.zeros(1, np.uint8)
            choose(x, np.array([0, 5, 0, 3, 3, 8, 8 + other], np.int32), float(more), 0.5)
            assert x[0] == (0 if more or other else 1)


@needs_validator
def test_numbers_that_llvm_reads_as_vectors_of_shorter_ones(validated: list[int]) -> None:
    """LLVM loads both members at once, and casts that to a vector of 16 bits."""
    counts, pairs = qd.Vector.ndarray(3, qd.u16, 17), qd.Vector.field(2, qd.u64, 17)
    counts.fill(0)
    pairs.from_numpy(np.full((17, 2), np.array([0x1234_5678_9ABC_0003, 0xFFFF_FFFF_FFFF_0005], np.uint64)))

    @qd.kernel
    def subtract(counts: qd.types.ndarray(dtype=qd.types.vector(3, qd.u16), ndim=1)) -> None:
        for i in range(17):
            qd.atomic_sub(counts[16 - i], qd.cast(pairs[9].grg, qd.u16))

    subtract(counts)
    assert np.array_equal(counts.to_numpy(), np.full((17, 3), [65536 - 5, 65536 - 3, 65536 - 5], np.uint16))


@needs_validator
@pytest.mark.parametrize("seed", [6001935, 6001950])
def test_random_programs_that_were_wrong(seed: int) -> None:
    """6001935: copies of a block hold floats and integers. 6001950: LLVM loads two numbers of 8 bits, of which the lowest bit is used, as
    16 bits.
    """
    command = [sys.executable, "-m", "tests.python.fuzz", "--seed", str(seed), "--count", "1", "--jobs", "1", "--no-reduce"]
    run = subprocess.run(command, cwd=Path(__file__).parents[3], env={**os.environ, "FUZZ_ARCH": "vulkan"}, capture_output=True, text=True)
    assert "1 programs, 0 failures, 0 refused" in run.stderr, run.stdout[-2000:] + run.stderr[-2000:]


@needs_validator
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_arithmetic_with_a_constant_zero(validated: list[int], dtype: Any) -> None:
    qd.init(arch=qd.vulkan, enable_fallback=False, offline_cache=False, fast_math=False)

    def fill(x: Any, y: Any, zero: Any, row: Any, i: Any) -> None:
        y[row + 0, i] = x[i] + zero
        y[row + 1, i] = x[i] - zero
        y[row + 2, i] = zero - x[i]
        y[row + 3, i] = x[i] * zero
        y[row + 4, i] = x[i] / zero
        y[row + 5, i] = zero / x[i]

    fill_compiled = qd.func(fill)

    @qd.kernel
    def compute(x: qd.types.ndarray(ndim=1), y: qd.types.ndarray(ndim=2)) -> None:
        for i in range(x.shape[0]):
            zero = qd.cast(0, x.dtype)
            fill_compiled(x, y, zero, 0, i)
            fill_compiled(x, y, -zero, 6, i)

    x = np.array([0.0, -0.0, 2.5, -2.5, np.inf, -np.inf, np.nan], dtype)
    y, expected = np.empty((12, len(x)), dtype), np.empty((12, len(x)), dtype)
    compute(x, y)
    with np.errstate(all="ignore"):
        for i in range(len(x)):
            fill(x, expected, dtype(0.0), 0, i)
            fill(x, expected, dtype(-0.0), 6, i)
    assert np.array_equal(y, expected, equal_nan=True)
    is_number = ~np.isnan(expected)
    assert np.array_equal(np.signbit(y[is_number]), np.signbit(expected[is_number]))


@needs_validator
def test_zeros_that_are_chosen_have_their_signs(validated: list[int]) -> None:
    @qd.kernel
    def choose(x: qd.types.NDArray[qd.f32, 1], y: qd.types.NDArray[qd.i32, 1]) -> None:
        for i in range(2):
            c = y[i] != 0
            x[7 * i] = -qd.cast(c, qd.i32)
            x[7 * i + 1] = -1.0 if c else 0.0
            x[7 * i + 2] = -0.0 if c else 1.0
            x[7 * i + 3] = 1.0 if c else -0.0
            x[7 * i + 4] = 0.0 if c else -1.0
            x[7 * i + 5] = -1.0 if c else -0.0
            x[7 * i + 6] = c

    x = np.zeros(14, np.float32)
    choose(x, np.array([0, 5], np.int32))
    expected = np.array([0, 0, 1, -0.0, -1, -0.0, 0, -1, -1, -0.0, 1, 0, -1, 1], np.float32)
    assert x.tobytes() == expected.tobytes(), x


@pytest.mark.parametrize("dtype", [np.int32, np.uint64, np.float64])
def test_sorts_around_the_keys_of_one_block(device: None, dtype: Any) -> None:
    for n in (512, 513, 2048, 2049, 2500, 3072, 3073, 4097):
        keys, values = np.random.default_rng(n).permutation(n).astype(dtype), np.arange(n)
        order = np.argsort(keys)
        qd.algorithms.sort(keys, values)
        assert np.array_equal(keys, np.arange(n)) and np.array_equal(values, order), n


def test_random_numbers_are_those_of_the_processor(device: None) -> None:
    @qd.kernel
    def draw(x: qd.types.NDArray[qd.f32, 1]) -> None:
        for i in range(x.shape[0]):
            x[i] = qd.random()

    here, there = np.zeros(100, np.float32), np.zeros(100, np.float32)
    qd.init(arch=qd.vulkan, enable_fallback=False, offline_cache=False, random_seed=7)
    draw(there)
    qd.init(arch=qd.cpu, offline_cache=False, random_seed=7)
    draw(here)
    assert np.array_equal(here, there)


@needs_validator
def test_what_the_driver_made_is_stored(tmp_path: Path) -> None:
    qd.init(arch=qd.vulkan, enable_fallback=False, offline_cache=True, offline_cache_file_path=str(tmp_path), log_level="error")
    sequence.add(np.zeros(4, np.int32), 1)
    qd.reset()
    (entry,) = [path for path in tmp_path.rglob("*") if b"QDEN" in (path.read_bytes() if path.is_file() else b"")]
    assert count_cache_bytes(entry.read_bytes()) > 0


def test_streams_are_one_sequence(device: None) -> None:
    sequence.check_streams()


def test_memory_is_copied_filled_and_used_again(device: None) -> None:
    sequence.check_memory()


def test_threads_read_while_others_launch(device: None) -> None:
    sequence.check_reads()


def test_programs_side_by_side() -> None:
    sequence.check_programs(qd.vulkan)


def test_random_control_flow(validated: list[int], tmp_path: Path) -> None:
    problems: list[str] = []
    assert control_flow.run_programs(1000, 12, tmp_path, problems.append) == 0, problems


# Bad input


LAYER = "VK_LAYER_KHRONOS_validation"
BUSY = """
import numpy as np
import quadrants as qd

qd.init(arch=qd.vulkan, enable_fallback=False, offline_cache=False)

@qd.kernel
def add(x: qd.types.ndarray(qd.f32, 1), y: qd.types.ndarray(qd.f32, 1)) -> qd.f32:
    total = 0.0
    for i in x:
        y[i] += x[i]
        total += y[i]
    return total

for size in (4, 1000, 300000):
    x = np.ones(size, np.float32)
    assert add(x, x) == 2 * size and x[-1] == 2
field, array = qd.field(qd.f32, 10000), qd.ndarray(qd.f32, 10000)
field.fill(2)
for _ in range(600):
    add(array, array)
array.copy_from(field)
assert array.to_numpy().sum() == field.to_numpy().sum() == 20000
qd.reset()
"""


@pytest.mark.skipif(not any(Path("/usr/share/vulkan/explicit_layer.d").glob("*khronos_validation*")), reason=f"no {LAYER}")
def test_the_validation_layer_has_no_objection(tmp_path: Path) -> None:
    settings = [f"khronos_validation.{line}" for line in ("report_flags = error,warn,info", "log_filename = stdout")]
    (tmp_path / "vk_layer_settings.txt").write_text("\n".join([*settings, "khronos_validation.debug_action = VK_DBG_LAYER_ACTION_LOG_MSG"]))
    (tmp_path / "busy.py").write_text(BUSY)
    synchronization = "VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT"
    variables = {"VK_INSTANCE_LAYERS": LAYER, "VK_LAYER_SETTINGS_PATH": str(tmp_path), "VK_LAYER_ENABLES": synchronization}
    command = [sys.executable, str(tmp_path / "busy.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env={**os.environ, **variables})
    assert done.returncode == 0, done.stderr
    assert "Khronos Validation Layer Active" in done.stdout and "SYNCHRONIZATION_VALIDATION" in done.stdout
    assert not any(word in done.stdout for word in ("VUID-", "SYNC-", "(ERROR", "(WARN")), done.stdout


def init_with(library: Path | str, **options: Any) -> None:
    qd.init(arch=qd.vulkan, vulkan_driver=str(library), enable_fallback=False, offline_cache=False, log_level="error", **options)


@pytest.fixture(scope="module")
def build_loader(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Returns a function that makes a loader of its own; each is opened once in a process."""
    compiler = shutil.which("clang-22") or shutil.which("cc")
    assert compiler

    def build() -> Path:
        library = tmp_path_factory.mktemp("loader") / "libvulkan.so.1"
        source = Path(__file__).with_name("fake_loader.c")
        subprocess.run([compiler, "-O1", "-shared", "-fPIC", str(source), "-o", str(library), "-ldl"], check=True, timeout=60)
        return library

    return build


def test_no_loader(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="there is no Vulkan loader"):
        init_with(tmp_path / "libvulkan.so.1")
    with pytest.raises(RuntimeError, match="is no Vulkan loader"):
        init_with("libm.so.6")
    with pytest.raises(RuntimeError, match="enable_vulkan is off"):
        qd.init(arch=qd.vulkan, enable_vulkan=False, enable_fallback=False)


def test_any_gpu_is_not_a_driver_that_runs_on_the_processor(capfd: pytest.CaptureFixture[str]) -> None:
    qd.init(arch=qd.vulkan, enable_fallback=False, offline_cache=False)
    if "is the processor, on which arch=qd.cpu is faster" not in capfd.readouterr().err:
        pytest.skip("the device is a GPU")
    qd.init(arch=[qd.vulkan, qd.cpu], offline_cache=False)
    assert qd.cfg.arch == qd.cpu


def test_a_device_that_does_not_exist() -> None:
    with pytest.raises(RuntimeError, match="there is no GPU number 99: Vulkan sees"):
        qd.init(arch=qd.vulkan, device_id=99, enable_fallback=False)


@pytest.mark.parametrize(("words", "text"), [("no_devices", "Vulkan has no device"), ("no_i64", "it lacks integers of 64 bits")])
def test_devices_that_cannot_be_used(words: str, text: str, build_loader: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_VULKAN", words)
    with pytest.raises(RuntimeError, match=text):
        init_with(build_loader())


def test_a_device_without_f64_refuses_it_at_its_line(build_loader: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_VULKAN", "no_f64")
    init_with(build_loader())

    @qd.kernel
    def halve(x: qd.types.ndarray(ndim=1)) -> None:
        for i in range(4):
            x[i] = x[i] / 2

    x = np.ones(4, np.float32)
    halve(x)
    assert x[0] == 0.5
    with pytest.raises(Exception, match="this device has no f64"):
        halve(np.ones(4))


@needs_validator
def test_functions_of_f32_need_no_f64(build_loader: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: Any) -> None:
    """Parts of them are computed in f64: in integers on a device without it. Prints take f64, too."""
    monkeypatch.setenv("FAKE_VULKAN", "no_f64")
    init_with(build_loader())
    validation = Validation(monkeypatch, tmp_path)
    functions = {"sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "exp": np.exp, "log": np.log, "tanh": np.tanh}
    x = np.concatenate([np.linspace(-3, 3, 500), [1e5, 1e10, 1e30, -1e20, 0, np.inf, np.nan]]).astype(np.float32)
    y = np.empty_like(x)
    for name, expected in functions.items():
        function = getattr(qd, name)

        @qd.kernel
        def map_all(x: qd.types.ndarray(dtype=qd.f32, ndim=1), y: qd.types.ndarray(dtype=qd.f32, ndim=1), function: qd.template()) -> None:
            for i in x:
                y[i] = function(x[i])

        map_all(x, y, function)
        with np.errstate(all="ignore"):
            wanted = expected(x.astype(np.float64)).astype(np.float32)
        np.testing.assert_array_max_ulp(y, wanted, 2)

    @qd.kernel
    def raise_all(x: qd.types.ndarray(dtype=qd.f32, ndim=1), y: qd.types.ndarray(dtype=qd.f32, ndim=1)) -> None:
        for i in x:
            y[i] = x[i] ** y[i]
        print("first", y[0])

    base, power = (np.random.default_rng(1).uniform(*range, 500).astype(np.float32) for range in ((0.1, 5), (-9, 9)))
    wanted = (base.astype(np.float64) ** power).astype(np.float32)
    raise_all(base, power)
    np.testing.assert_array_max_ulp(power, wanted, 2)
    qd.sync()
    assert f"first {wanted[0]:.5g}"[:10] in capfd.readouterr().out
    assert len(validation.sizes) > len(functions)


def test_a_lost_device_is_reported_and_the_next_init_works(build_loader: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    library = build_loader()
    init_with(library)
    x = qd.field(qd.i32, 4)
    x.fill(3)
    assert x[0] == 3
    monkeypatch.setenv("FAKE_VULKAN", "lost=1")
    with pytest.raises(RuntimeError, match="VK_ERROR_DEVICE_LOST"):
        x.fill(4)
        qd.sync()
    monkeypatch.delenv("FAKE_VULKAN")
    init_with(library)
    y = qd.field(qd.i32, 4)
    y.fill(5)
    assert y[3] == 5


def test_memory_that_ends(build_loader: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    init_with(build_loader())
    monkeypatch.setenv("FAKE_VULKAN", "no_memory")
    with pytest.raises(MemoryError, match=r"cannot allocate \d+ bytes on the GPU \(vulkan\)"):
        qd.ndarray(qd.f32, 100_000_000)
    monkeypatch.delenv("FAKE_VULKAN")
    assert qd.ndarray(qd.f32, 10)[9] == 0


@qd.real_func
def fibonacci(n: qd.i32) -> qd.i32:
    result = n
    if n > 1:
        result = fibonacci(n - 1) + fibonacci(n - 2)
    return result


def test_what_the_device_cannot_do_is_refused(device: None) -> None:
    @qd.kernel
    def recurse() -> qd.i32:
        return fibonacci(5)

    with pytest.raises(Exception, match="functions cannot call themselves"):
        recurse()

    @qd.kernel
    def share(x: qd.types.NDArray[qd.f64, 1]) -> None:
        qd.loop_config(block_dim=64)
        for i in range(64):
            shared = qd.simt.block.SharedArray((100_000,), qd.f64)
            shared[i] = x[i]
            qd.simt.block.sync()
            x[i] = shared[63 - i]

    with pytest.raises(Exception, match="a block has"):
        share(np.zeros(64))

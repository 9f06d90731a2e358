"""What the modules of SPIR-V say: parameters, and which accesses of memory other threads may see."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import quadrants as qd
from quadrants import _compiler  # type: ignore[attr-defined]
from tests.python.vulkan.vulkan_device import find_absence, needs_validator, validate, watch_modules

pytestmark = pytest.mark.skipif(bool(find_absence()), reason="no Vulkan device")

S_REM, S_MOD = 138, 139
TYPE_INT, TYPE_FLOAT, F_DIV = 21, 22, 136
SHIFT_LEFT, U_MOD, BITWISE_XOR, S_LESS_THAN, I_ADD = 196, 137, 198, 177, 128
ARITHMETIC = {*range(128, 145), *range(194, 202), 205}  # with sums, products, quotients, shifts, words of bits, counts of bits
LOAD, STORE, MEMBER_DECORATE, ACCESS_CHAIN, VARIABLE = 61, 62, 72, 65, 59
NON_PRIVATE, NON_WRITABLE, PUSH_CONSTANT = 0x20, 24, 9


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bytes]]:
    """The modules of the kernels that a test compiles."""
    found: list[bytes] = []
    watch_modules(monkeypatch, found.append)
    qd.init(arch=qd.vulkan, offline_cache=False, log_level="error")
    yield found
    qd.reset()


@pytest.fixture
def modules_of_careless_driver(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bytes]]:
    """The same, made for a device whose driver rounds neither quotients nor f16 as it should."""
    found: list[bytes] = []
    watch_modules(monkeypatch, found.append)
    compile_plain = _compiler.compile

    def compile_for_it(*arguments: Any) -> Any:
        return compile_plain(*(one.replace(",quotients", "").replace(",halves", "") if isinstance(one, str) else one for one in arguments))

    monkeypatch.setattr(_compiler, "compile", compile_for_it)
    qd.init(arch=qd.vulkan, offline_cache=False, fast_math=False, log_level="error")
    yield found
    qd.reset()


def read(module: bytes) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yields numbers and operands of the instructions."""
    words = struct.unpack(f"<{len(module) // 4}I", module)
    at = 5
    while at < len(words):
        count, number = words[at] >> 16, words[at] & 0xFFFF
        yield number, words[at + 1 : at + count]
        at += count


def list_accesses(module: bytes) -> list[int]:
    """Returns the masks of the accesses that have one: those of the device's and the block's memory."""
    masks = []
    for number, operands in read(module):
        rest = operands[3:] if number == LOAD else operands[2:] if number == STORE else ()
        masks += rest[:1]
    return masks


def test_arrays_that_are_read_only_are_constant(modules: list[bytes]) -> None:
    @qd.kernel
    def double(x: qd.types.ndarray(qd.f32, 1), out: qd.types.ndarray(qd.f32, 1)):
        for i in x:
            out[i] = 2 * x[i]

    out = np.zeros(1000, np.float32)
    double(np.arange(1000, dtype=np.float32), out)
    np.testing.assert_array_equal(out, 2 * np.arange(1000))
    (module,) = modules
    assert any(number == MEMBER_DECORATE and operands[2] == NON_WRITABLE for number, operands in read(module))
    assert not any(mask & NON_PRIVATE for mask in list_accesses(module))


def test_threads_that_wait_see_what_others_store(modules: list[bytes]) -> None:
    size = 64

    @qd.kernel
    def turn(x: qd.types.ndarray(qd.i32, 1)):
        qd.loop_config(block_dim=size)
        for i in range(size):
            x[i] = i
            qd.simt.block.sync()
            left = x[size - 1 - i]
            qd.simt.block.sync()
            x[i] = left

    x = np.zeros(size, np.int32)
    turn(x)
    np.testing.assert_array_equal(x, np.arange(size)[::-1])
    (module,) = modules
    assert any(mask & NON_PRIVATE for mask in list_accesses(module))


@pytest.mark.parametrize("count", [1, 30])
def test_parameters_are_pushed_or_in_memory(modules: list[bytes], count: int) -> None:
    """Thirty arrays do not fit into the constants that a device has for a launch."""
    arrays = [qd.ndarray(qd.i32, 5) for _ in range(count)]
    fields = [qd.field(qd.i32, 3) for _ in range(count)]

    @qd.kernel
    def write(first: qd.i8, factor: qd.f64, flag: qd.u1, members: qd.template()):
        for i in range(5):
            for k in qd.static(range(count)):
                members[k][i] = first + k * 10 + i + qd.cast(factor, qd.i32) + qd.cast(flag, qd.i32)
        for i in range(3):
            for k in qd.static(range(count)):
                fields[k][i] = k - i

    write(-3, 1000.0, True, arrays)
    for k in range(count):
        np.testing.assert_array_equal(arrays[k].to_numpy(), np.arange(5) + 10 * k + 998)
        np.testing.assert_array_equal(fields[k].to_numpy(), k - np.arange(3))
    for module in modules:
        pushed = {operands[1] for number, operands in read(module) if number == VARIABLE and operands[2] == PUSH_CONSTANT}
        chains = [operands for number, operands in read(module) if number == ACCESS_CHAIN and operands[2] in pushed]
        assert len(pushed) == 1 and chains


@pytest.mark.parametrize("dtype", [qd.i8, qd.u8, qd.i16, qd.u16], ids=str)
def test_every_quotient_of_short_integers(modules: list[bytes], dtype: Any) -> None:
    """All pairs of 8 bits; of 16 bits, divisors and dividends at the ends and beside multiples."""

    @qd.kernel
    def divide(
        a: qd.types.ndarray(dtype, 1),
        b: qd.types.ndarray(dtype, 1),
        quotient: qd.types.ndarray(dtype, 1),
        rest: qd.types.ndarray(dtype, 1),
        negative: qd.types.ndarray(qd.i32, 1),
    ):
        for i in a:
            quotient[i] = qd.raw_div(a[i], b[i])
            rest[i] = qd.raw_mod(a[i], b[i])
            negative[i] = -a[i]

    info = np.iinfo({qd.i8: np.int8, qd.u8: np.uint8, qd.i16: np.int16, qd.u16: np.uint16}[dtype])
    if info.bits == 8:
        numbers = divisors = np.arange(info.min, info.max + 1)
    else:
        divisors = np.unique(
            np.concatenate([np.arange(1, 300), 2 ** np.arange(15), [info.max, info.max - 1, 255, 257], [info.min, -1, -7]])
        )
        multiples = (np.arange(-300, 300)[:, None] * divisors).ravel()
        numbers = np.unique(np.concatenate([multiples, multiples - 1, [info.min, info.max]]))
        numbers = numbers[(numbers >= info.min) & (numbers <= info.max)]
        divisors = divisors[(divisors >= info.min) & (divisors <= info.max)]
        numbers = numbers[:: max(1, len(numbers) // 300)]
    x, y = (part.ravel().astype(info.dtype) for part in np.meshgrid(numbers, divisors[divisors != 0]))
    quotient, rest, negative = np.zeros_like(x), np.zeros_like(x), np.zeros(len(x), np.int32)
    divide(x, y, quotient, rest, negative)
    wide, by = x.astype(np.int64), y.astype(np.int64)
    expected = np.abs(wide) // np.abs(by) * np.sign(wide) * np.sign(by)
    np.testing.assert_array_equal(quotient, expected.astype(info.dtype))
    np.testing.assert_array_equal(rest, (wide - expected * by).astype(info.dtype))
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(negative, (-x).astype(np.int32))


@pytest.mark.parametrize("dtype", [qd.i8, qd.i16, qd.i32, qd.i64], ids=str)
def test_no_remainder_is_left_to_the_driver(modules: list[bytes], dtype: Any) -> None:
    """Vulkan defines OpSRem and OpSMod of numbers that are not negative only."""

    @qd.kernel
    def wrap(a: qd.types.ndarray(dtype, 1), b: qd.types.ndarray(dtype, 1), rests: qd.types.ndarray(dtype, 2)):
        for i in a:
            rests[i, 0], rests[i, 1], rests[i, 2] = a[i] % b[i], qd.raw_mod(a[i], b[i]), a[i] % 17

    numbers = np.arange(-100, 100)
    a, b = numbers.astype(np.dtype(str(dtype).replace("i", "int"))), np.where(numbers < 0, 7, -13)
    rests = np.zeros((200, 3), a.dtype)
    wrap(a, b.astype(a.dtype), rests)
    np.testing.assert_array_equal(rests, np.stack([a % b, np.fmod(a, b), a % 17], axis=1))
    (module,) = modules
    assert not {S_REM, S_MOD} & {number for number, _ in read(module)}


def test_short_integers_exist_in_memory_only(modules: list[bytes]) -> None:
    """NVIDIA's driver loses the wrap and the sign of values of 8 and 16 bits."""

    @qd.kernel
    def mix(a: qd.types.ndarray(qd.i8, 1), b: qd.types.ndarray(qd.u16, 1), results: qd.types.ndarray(qd.i32, 2)):
        for i in a:
            a[i] = (a[i] * a[i] - a[i]) >> 1
            b[i] += qd.cast(a[i], qd.u16) << 3
            results[i, 0], results[i, 1] = a[i], b[i]
            results[i, 2], results[i, 3] = qd.math.popcnt(a[i]), qd.math.clz(b[i])

    a, b = np.arange(-128, 128, dtype=np.int8), np.arange(65280, 65536).astype(np.uint16)
    results = np.zeros((256, 4), np.int32)
    expected = (a * a - a) >> 1
    raised = b + (expected.astype(np.uint16) << 3)
    mix(a, b, results)
    ones = [bin(value & 255).count("1") for value in expected.tolist()]
    zeros = [16 - value.bit_length() for value in raised.tolist()]
    np.testing.assert_array_equal(results, np.stack([expected, raised, ones, zeros], axis=1))
    (module,) = modules
    short = {operands[0] for number, operands in read(module) if number == TYPE_INT and operands[1] < 32}
    assert len(short) == 2
    assert not any(number in ARITHMETIC and operands[0] in short for number, operands in read(module))


@pytest.mark.parametrize("dtype", [qd.f32, qd.f64], ids=str)
def test_numbers_that_were_f16_are_rounded(modules_of_careless_driver: list[bytes], dtype: Any) -> None:
    """Also where the driver leaves out that f16 came between."""

    @qd.kernel
    def quantize(values: qd.types.ndarray(dtype, 1), out: qd.types.ndarray(dtype, 1)):
        for i in values:
            half = qd.cast(values[i], qd.f16)
            if values[i] > 3:
                half = qd.cast(-values[i], qd.f16)
            out[i] = half

    random = np.random.default_rng(0)
    element = np.dtype(str(dtype).replace("f", "float"))
    spread = random.standard_normal(20000) * 10.0 ** random.integers(-9, 7, 20000)
    ends = [0.0, -0.0, np.inf, -np.inf, np.nan, 65504, 65519.99, 65520, 2**-14, 2**-24, 2**-25, 3 * 2**-25, 1 + 2**-11, 1 + 3 * 2**-11]
    values = np.concatenate([spread, ends, -np.array(ends)]).astype(element)
    out = np.zeros_like(values)
    quantize(values, out)
    with np.errstate(over="ignore"):
        expected = np.where(values > 3, -values, values).astype(np.float16).astype(element)
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(np.signbit(out), np.signbit(expected))


def test_quotients_of_f64_are_not_narrowed(modules_of_careless_driver: list[bytes]) -> None:
    """LLVM computes a quotient of numbers that were f32, and become f32 again, as f32."""

    @qd.kernel
    def divide(a: qd.types.ndarray(qd.f32, 1), out: qd.types.ndarray(qd.f32, 1)):
        for i in a:
            out[i] = qd.cast(qd.cast(7, qd.f64) / qd.cast(a[i], qd.f64), qd.f32)

    a = np.random.default_rng(0).standard_normal(1000).astype(np.float32)
    out = np.zeros_like(a)
    divide(a, out)
    np.testing.assert_array_equal(out, (7 / a.astype(np.float64)).astype(np.float32))
    (module,) = modules_of_careless_driver
    wide = {operands[0] for number, operands in read(module) if number == TYPE_FLOAT and operands[1] == 64}
    quotients = [operands[0] for number, operands in read(module) if number == F_DIV]
    assert quotients and set(quotients) <= wide


@needs_validator
def test_what_a_compare_exchange_found_is_an_index(modules: list[bytes], tmp_path: Path) -> None:
    """LLVM freezes the pair of what was found and whether it was replaced."""

    @qd.kernel
    def exchange(x: qd.types.ndarray(qd.i32, 1), n: qd.i32) -> qd.i32:
        found = qd.atomic_cas(x[n % 3], x[0], 7)
        return x[found % 3] + found

    x = np.arange(3, dtype=np.int32)
    assert exchange(x, 1) == 2 and x.tolist() == [0, 1, 2]
    assert exchange(x, 3) == 7 and x.tolist() == [7, 1, 2]
    for module in modules:
        validate(module, tmp_path)


def test_lost_bits_are_hidden_from_the_driver(modules: list[bytes]) -> None:
    """NVIDIA's driver compares `x` with `5 >> 1` for `x << 1 < 5`, and adds remainders of 64 bits to addresses with wrong upper bits."""

    @qd.kernel
    def change(x: qd.types.ndarray(qd.i64, 1), y: qd.types.ndarray(qd.u64, 1), z: qd.types.ndarray(qd.u64, 1)):
        for i in x:
            if x[i] << 1 < 5:
                x[i] = 7
            z[y[i] % 3] = 1
            y[i] = (y[i] << 13) ^ y[i]

    x, y, z = np.array([1, 2**62, 3], np.int64), np.array([5, 2**63, 3], np.uint64), np.zeros(3, np.uint64)
    change(x, y, z)
    assert x.tolist() == [7, 7, 3] and z.tolist() == [1, 0, 1]

    readers: dict[int, list[int]] = {}  # of each id
    operators = {}
    for number, operands in read(modules[-1]):
        if number in (SHIFT_LEFT, U_MOD, BITWISE_XOR, S_LESS_THAN, I_ADD):
            operators[operands[1]] = number
            for one in operands[2:]:
                readers.setdefault(one, []).append(number)
    assert all(readers[one] == [BITWISE_XOR] for one, number in operators.items() if number == U_MOD)
    hidden = [one for one, number in operators.items() if number == BITWISE_XOR and S_LESS_THAN in readers.get(one, [])]
    assert len(hidden) == 1
    assert not any(S_LESS_THAN in readers.get(one, []) for one, number in operators.items() if number == SHIFT_LEFT)

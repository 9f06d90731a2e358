"""Quotients and remainders of numbers whose range a compiler can see: widened, masked and clamped ones, in loops and of arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import quadrants as qd

SHORT = [qd.i8, qd.u8, qd.i16, qd.u16]
WIDE = {qd.i32: np.int32, qd.u32: np.uint32, qd.i64: np.int64, qd.u64: np.uint64}
STORED = {qd.i8: np.int8, qd.u8: np.uint8, qd.i16: np.int16, qd.u16: np.uint16} | WIDE
DIVISORS = (3, 5, 17, 255)


@pytest.fixture(autouse=True)
def runtime(on_every_backend: Any) -> None:
    on_every_backend()


def make_numbers(dtype: Any, count: int = 4096) -> np.ndarray:
    """Random numbers of a type, and those at its ends."""
    info = np.iinfo(STORED[dtype])
    numbers = np.random.default_rng(7).integers(info.min, info.max, count, STORED[dtype], endpoint=True)
    ends = [info.min, info.min + 1, info.max, info.max - 1, 0, 1, 255, *DIVISORS]
    numbers[: len(ends)] = np.array([min(max(end, int(info.min)), int(info.max)) for end in ends], STORED[dtype])
    return numbers


@pytest.mark.parametrize("wide", WIDE)
@pytest.mark.parametrize("short", SHORT)
def test_widened_numbers(short: Any, wide: Any) -> None:
    if wide in (qd.u32, qd.u64) and short in (qd.i8, qd.i16):
        pytest.skip("negative numbers have no value there")

    @qd.kernel
    def divide(
        a: qd.types.ndarray(short, 1), b: qd.types.ndarray(short, 1), quotients: qd.types.ndarray(wide, 2), rests: qd.types.ndarray(wide, 2)
    ):
        for i in a:
            x, y = qd.cast(a[i], wide), qd.cast(b[i], wide)
            quotients[i, 0], rests[i, 0] = x // y, x % y
            for k, divisor in qd.static(enumerate(DIVISORS)):
                quotients[i, k + 1], rests[i, k + 1] = x // qd.cast(divisor, wide), x % qd.cast(divisor, wide)

    a, b = make_numbers(short), np.roll(make_numbers(short), 11)
    b[b == 0] = 1
    quotients, rests = (np.zeros((len(a), 5), WIDE[wide]) for _ in range(2))
    divide(a, b, quotients, rests)
    for column, divisors in enumerate([b.astype(WIDE[wide]), *(np.full(len(a), d, WIDE[wide]) for d in DIVISORS)]):
        np.testing.assert_array_equal(quotients[:, column], a.astype(WIDE[wide]) // divisors)
        np.testing.assert_array_equal(rests[:, column], a.astype(WIDE[wide]) % divisors)


@pytest.mark.parametrize("bits", [4, 8, 12, 15, 16, 17, 20, 23, 24, 25, 30])
@pytest.mark.parametrize("wide", WIDE)
def test_masked_and_clamped_numbers(wide: Any, bits: int) -> None:
    most = 2**bits - 1
    least = 0 if wide in (qd.u32, qd.u64) else -most

    @qd.kernel
    def divide(
        a: qd.types.ndarray(wide, 1), b: qd.types.ndarray(wide, 1), quotients: qd.types.ndarray(wide, 2), rests: qd.types.ndarray(wide, 2)
    ):
        for i in a:
            x, y = qd.max(qd.min(a[i], qd.cast(most, wide)), qd.cast(least, wide)), (b[i] & qd.cast(most, wide)) | qd.cast(1, wide)
            quotients[i, 0], rests[i, 0] = x // y, x % y
            masked = a[i] & qd.cast(most, wide)
            quotients[i, 1], rests[i, 1] = masked // y, masked % y
            for k, divisor in qd.static(enumerate(DIVISORS)):
                quotients[i, k + 2], rests[i, k + 2] = x // qd.cast(divisor, wide), x % qd.cast(divisor, wide)

    a, b = make_numbers(wide), np.roll(make_numbers(wide), 11)
    a[100:2000] = a[100:2000] % (2 * most + 1)
    if least:
        a[100:2000] -= most
    quotients, rests = (np.zeros((len(a), 6), WIDE[wide]) for _ in range(2))
    divide(a, b, quotients, rests)
    clamped, masked, divisors = np.clip(a, least, most), a & WIDE[wide](most), b & WIDE[wide](most) | WIDE[wide](1)
    pairs = [(clamped, divisors), (masked, divisors), *((clamped, WIDE[wide](divisor)) for divisor in DIVISORS)]
    for column, (dividends, by) in enumerate(pairs):
        np.testing.assert_array_equal(quotients[:, column], dividends // by)
        np.testing.assert_array_equal(rests[:, column], dividends % by)


@pytest.mark.parametrize("wide", WIDE)
@pytest.mark.parametrize("short", SHORT)
def test_arguments(short: Any, wide: Any) -> None:
    if wide in (qd.u32, qd.u64) and short in (qd.i8, qd.i16):
        pytest.skip("negative numbers have no value there")

    @qd.kernel
    def divide(a: short, b: short) -> qd.types.vector(4, wide):
        x, y = qd.cast(a, wide), qd.cast(b, wide)
        return qd.Vector([x // y, x % y, x // qd.cast(17, wide), x % qd.cast(17, wide)])

    for x, y in zip(make_numbers(short, 24).tolist(), np.roll(make_numbers(short, 24), 5).tolist(), strict=True):
        y = y or 7
        assert [int(value) for value in divide(x, y)] == [x // y, x % y, x // 17, x % 17]


SIGNS = {
    "a % 17": lambda a: a % 17,
    "a // 17": lambda a: a // 17,
    "1 if qd.raw_div(a, 3) < 0 else 0": lambda a: int(int(a / 3) < 0),
    "1 if qd.raw_mod(a, 3) < 0 else 0": lambda a: int(a - 3 * int(a / 3) < 0),
    "abs(qd.raw_div(a, 7))": lambda a: abs(int(a / 7)),
    "qd.max(qd.raw_mod(a, 7), 0)": lambda a: max(a - 7 * int(a / 7), 0),
}


@pytest.mark.parametrize("text", SIGNS)
def test_signs_of_widened_results(on_every_backend: Any, text: str) -> None:
    """What follows sees the sign of a quotient or remainder of 64 bits whose operands have 16."""
    on_every_backend(default_ip=qd.i64, fast_math=False)
    source = f"import quadrants as qd\ndef divide(a: qd.i16, out: qd.types.ndarray(qd.i64, 1)):\n    out[0] = {text}\n"
    divide = qd.kernel_from_source(source)
    out = np.zeros(1, np.int64)
    for a in (3, -7, -1, -32768, 32767, 0, 255, -17, 34):
        divide(a, out)
        assert out[0] == SIGNS[text](a), a

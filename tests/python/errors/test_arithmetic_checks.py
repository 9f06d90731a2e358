"""Integer arithmetic that leaves its range, in debug mode, compiled and interpreted."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import quadrants as qd
from quadrants._base.dtypes import to_numpy_dtype


@pytest.fixture(autouse=True, params=["cpu", "python"])
def start(request: pytest.FixtureRequest) -> Iterator[Callable[..., None]]:
    """Starts the runtime on one backend; call it to start again with other options."""

    def init(**options: Any) -> None:
        given = {"debug": True, "overflow": "raise", **options}
        qd.init(arch=getattr(qd, request.param), offline_cache=False, log_level="error", **given)

    init()
    yield init
    qd.reset()


@qd.kernel
def add(a: qd.i32, b: qd.i32) -> qd.i32:
    return a + b


@qd.kernel
def subtract_unsigned(a: qd.u8, b: qd.u8) -> qd.u8:
    return a - b


@qd.kernel
def multiply_long(a: qd.i64, b: qd.i64) -> qd.i64:
    return a * b


@qd.kernel
def shift_left(a: qd.i32, n: qd.i32) -> qd.i32:
    return a << n


@qd.kernel
def shift_right(a: qd.u32, n: qd.i32) -> qd.u32:
    return a >> n


@qd.kernel
def negate(a: qd.i32) -> qd.i32:
    return -a


@qd.kernel
def magnitude(a: qd.i64) -> qd.i64:
    return abs(a)


@qd.kernel
def divide(a: qd.i32, b: qd.i32) -> qd.i32:
    return a // b


@qd.kernel
def add_components(a: qd.i32, b: qd.i32) -> qd.i32:
    return qd.Vector([1, a, b]).sum()


@qd.kernel
def trace(a: qd.i32, b: qd.i32) -> qd.i32:
    return qd.Matrix([[a, 0], [0, b]]).trace()


@qd.kernel
def multiply_matrices(a: qd.i32, b: qd.i32) -> qd.i32:
    m = qd.Matrix([[a, b, 1], [b, a, 2]]) @ qd.Matrix([[1, a], [2, b], [3, 0]])
    return m[0, 0] + m[1, 1] // 4


@qd.kernel
def multiply_vector(a: qd.i32, b: qd.i32) -> qd.i32:
    v = qd.Matrix([[a, b], [1, 1]]) @ qd.Vector([a, b])
    return v[0] - v[1]


@qd.kernel
def to_i32(x: qd.f64) -> qd.i32:
    return qd.i32(x)


@qd.kernel
def single_to_i32(x: qd.f32) -> qd.i32:
    return qd.i32(x)


@qd.kernel
def to_u8(x: qd.f32) -> qd.u8:
    return qd.u8(x)


@pytest.mark.parametrize(
    "kernel, good, bad, message",
    [
        (add, (2**31 - 2, 1), (2**31 - 1, 1), r"Addition overflow: 2147483647 \+ 1 does not fit i32"),
        (add, (-(2**31), 0), (-(2**31), -1), "Addition overflow"),
        (subtract_unsigned, (3, 3), (3, 4), "Subtraction overflow: 3 - 4 does not fit u8"),
        (multiply_long, (2**31, 2**31), (2**32, 2**31), "Multiplication overflow"),
        (shift_left, (1, 30), (1, 31), "Shift left overflow: 1 << 31"),
        (shift_left, (0, 31), (0, 32), "Shift count out of range for 32 bits: 0 << 32"),
        (shift_right, (8, 31), (8, 40), "Shift count out of range for 32 bits: 8 >> 40"),
        (negate, (2**31 - 1,), (-(2**31),), "Negation overflow: -2147483648"),
        (magnitude, (1 - 2**63,), (-(2**63),), "Absolute value overflow"),
        (divide, (-(2**31), 1), (-(2**31), -1), "Division overflow"),
        (add_components, (2**31 - 3, 1), (2**31 - 2, 1), r"Addition overflow: 2147483647 \+ 1 does not fit i32"),
        (trace, (2**31 - 3, 2), (2**31 - 3, 3), r"Addition overflow: 2147483645 \+ 3 does not fit i32"),
        (multiply_matrices, (30000, 20000), (50000, 20000), "Multiplication overflow: .*50000"),
        (multiply_matrices, (30000, 20000), (35000, 35000), "Addition overflow"),
        (multiply_vector, (30000, 20000), (3, 70000), "Multiplication overflow: .*70000"),
        (to_i32, (-2147483648.9,), (-2147483649.0,), "Conversion out of range of i32: -2147483649"),
        (to_i32, (2147483647.9,), (2147483648.0,), "Conversion out of range of i32"),
        (single_to_i32, (-2147483648.0,), (2147483648.0,), "Conversion out of range of i32"),
        (single_to_i32, (0.0,), (float("nan"),), "Conversion out of range of i32: nan"),
        (to_u8, (-0.5,), (-1.0,), "Conversion out of range of u8"),
        (to_u8, (255.5,), (256.0,), "Conversion out of range of u8"),
    ],
)
def test_arithmetic_out_of_range_raises(kernel, good, bad, message):
    expected = kernel(*good)
    with pytest.raises(qd.QuadrantsAssertionError, match=message):
        kernel(*bad)
    assert kernel(*good) == expected


def test_overflow_names_the_line_of_the_function_and_of_its_call():
    @qd.func
    def twice(a: qd.i32):
        return a * 2

    @qd.kernel
    def k(a: qd.i32) -> qd.i32:
        return twice(a)

    with pytest.raises(qd.QuadrantsAssertionError, match=r"(?s)in k:.*return twice\(a\).*in twice:.*return a \* 2"):
        k(2**30)


def test_only_active_lanes_are_checked():
    x = qd.field(qd.i32, shape=100)

    @qd.kernel
    def k(limit: qd.i32):
        for i in x:
            if i < limit:
                x[i] = (2**31 - 50) + i

    k(50)
    assert x[49] == 2**31 - 1
    with pytest.raises(qd.QuadrantsAssertionError, match="2147483598 \\+ 50"):
        k(51)


def test_vectors_are_checked_in_every_component():

    @qd.kernel
    def k(v: qd.types.vector(3, qd.i32)) -> qd.i32:
        return (v + v).sum()

    assert k(qd.Vector([1, 2, 3])) == 12
    with pytest.raises(qd.QuadrantsAssertionError, match=r"Addition overflow: \[1, 2, 1073741824\]"):
        k(qd.Vector([1, 2, 2**30]))


@pytest.mark.parametrize("dtype", [qd.i8, qd.u8, qd.i16, qd.u16, qd.i32, qd.u32, qd.i64, qd.u64], ids=str)
def test_powers_are_checked_to_the_last_number_that_fits(dtype: Any):
    @qd.kernel
    def power(a: dtype, n: qd.i32) -> dtype:
        return a**n

    first, last = int(np.iinfo(to_numpy_dtype(dtype)).min), int(np.iinfo(to_numpy_dtype(dtype)).max)
    for exponent in (2, 3, 7, dtype.size * 8 - 1):
        root = int(round(last ** (1 / exponent)))
        for base in {root - 1, root, root + 1, 2, 1, 0, *((-root - 1, -root, -2, -1) if first < 0 else ())}:
            if not first <= base <= last:
                continue
            if first <= base**exponent <= last:
                assert power(base, exponent) == base**exponent
            else:
                with pytest.raises(qd.QuadrantsAssertionError, match=r"Power overflow: .* \*\* .* does not fit"):
                    power(base, exponent)


def test_powers_of_vectors_and_constant_exponents_are_checked():
    @qd.kernel
    def powers(v: qd.types.vector(2, qd.i32), n: qd.i32) -> qd.i32:
        return (v**n).sum()

    @qd.kernel
    def tenth(a: qd.i32) -> qd.i32:
        return a**10

    assert (powers(qd.Vector([3, 2]), 4), tenth(3)) == (97, 3**10)
    with pytest.raises(qd.QuadrantsAssertionError, match=r"Power overflow: \[2, 10\] \*\* "):
        powers(qd.Vector([2, 10]), 10)
    with pytest.raises(qd.QuadrantsAssertionError, match=r"Power overflow: 10 \*\* 10 does not fit i32"):
        tenth(10)


def test_negative_exponents_of_integers():
    @qd.kernel
    def power(a: qd.i32, n: qd.i32) -> qd.i32:
        return a**n

    @qd.kernel
    def cube_root(a: qd.i32) -> qd.i32:
        return a**-3

    with pytest.raises(qd.QuadrantsAssertionError, match=r"Negative exponent in pow\(int, int\) is not allowed"):
        power(10, -3)
    with pytest.raises(RuntimeError, match=r"Negative exponent in pow\(int, int\) is not allowed"):
        cube_root(10)


def test_overflow_is_printed_once_for_each_operator_of_a_line_and_launch_and_wraps(start, capfd):
    start(overflow="print")
    x = np.full(1000, 2**31 - 1, np.int32)

    @qd.kernel
    def k(x: qd.types.ndarray(dtype=qd.i32, ndim=1)):
        for i in x:
            x[i] = x[i] + 1 - 2

    k(x)
    qd.sync()
    printed = capfd.readouterr().out
    assert (x == 2**31 - 2).all()
    assert [printed.count(f"{word} overflow detected in File") for word in ("Addition", "Subtraction")] == [1, 1]
    assert "test_arithmetic_checks.py" in printed
    assert ", in k: 2147483647 + 1 does not fit i32\n    x[i] = x[i] + 1 - 2\n" in printed


@pytest.mark.parametrize("options", [{"debug": True, "overflow": "ignore"}, {"debug": False, "overflow": "raise"}])
def test_overflow_can_be_ignored(start, options, capfd):
    start(**options)
    assert add(2**31 - 1, 1) == -(2**31)
    assert capfd.readouterr().out == ""

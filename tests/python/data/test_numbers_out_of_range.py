"""Python numbers that an integer type does not hold: refused as arguments, elements, members and by `fill`; arrays are converted."""

import dataclasses
from fractions import Fraction

import numpy as np
import pytest

import quadrants as qd

INTEGERS = ["i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64"]


@pytest.fixture(params=["cpu", "python"], autouse=True)
def start(request):
    qd.init(arch=getattr(qd, request.param), offline_cache=False, log_level="error")
    yield
    qd.reset()


def limits(name):
    bits = int(name[1:])
    return (0, (1 << bits) - 1) if name[0] == "u" else (-1 << bits - 1, (1 << bits - 1) - 1)


def outside(name):
    low, high = limits(name)
    return [low - 1, high + 1, -1 << 70, 1 << 64, 10**30]


@pytest.mark.parametrize("name", INTEGERS)
def test_arguments(name):
    @qd.kernel
    def same(a: getattr(qd, name)) -> getattr(qd, name):
        return a

    for value in limits(name):
        assert same(value) == value
        assert same(np.array(value, f"{'uint' if name[0] == 'u' else 'int'}{name[1:]}")[()]) == value
    for value in outside(name):
        with pytest.raises(qd.QuadrantsRuntimeTypeError, match=f"'a' = {value} is out of the range of {name}"):
            same(value)
    assert same(1) == 1


@pytest.mark.parametrize("name", INTEGERS)
@pytest.mark.parametrize("make", [qd.field, qd.ndarray])
def test_elements_and_fills(make, name):
    dtype = getattr(qd, name)
    x, v = make(dtype, shape=2), make(qd.types.vector(2, dtype), shape=2)
    for value in limits(name):
        x[0], v[0], v[1][1] = value, [value, 1], value
        assert (x[0], v[0][0], v[1][1]) == (value, value, value)
        x.fill(value)
        v.fill([1, value])
        assert x[1] == value and v[1][1] == value
    x.fill(1)
    v.fill(1)
    for value in outside(name):
        for store in (
            lambda: x.fill(value),
            lambda: v.fill(value),
            lambda: v.fill([value, 1]),
            lambda: x.__setitem__(0, value),
            lambda: x.__setitem__(slice(None), value),
            lambda: v.__setitem__(0, [value, 1]),
            lambda: v.__setitem__(0, value),
            lambda: v[0].__setitem__(1, value),
            lambda: setattr(v[0], "x", value),
        ):
            with pytest.raises(OverflowError, match=f"is out of the range of {name}"):
                store()
    assert x.to_numpy().tolist() == [1, 1] and v.to_numpy().tolist() == [[1, 1], [1, 1]]


def test_floats_are_truncated_where_the_type_holds_them():
    x = qd.field(qd.i32, shape=2)
    x[0], x[1] = 2.9, -2.9
    assert x.to_numpy().tolist() == [2, -2]
    x.fill(-2147483648.9)
    assert x[1] == -(2**31)
    for value in (2147483648.0, -2147483649.0, float("inf"), float("nan"), np.float32(3e9)):
        for store in (lambda: x.fill(value), lambda: x.__setitem__(0, value), lambda: x.__setitem__(slice(None), value)):
            with pytest.raises(OverflowError, match="is out of the range of i32"):
                store()


def test_truth_takes_every_number():
    x = qd.field(qd.u1, shape=3)
    x[0], x[1], x[2] = 10**30, -1, 0.5
    assert x.to_numpy().tolist() == [True, True, True]

    @qd.kernel
    def same(a: qd.u1) -> qd.u1:
        return a

    assert same(2**64) == 1


def test_arrays_are_converted():
    x = qd.field(qd.u8, shape=2)
    x.from_numpy(np.array([300, -1]))
    assert x.to_numpy().tolist() == [44, 255]
    assert qd.cast(300, qd.u8) == 44


def test_vectors_and_structs_as_arguments():
    kind = qd.types.struct(a=qd.u8, b=qd.f32)

    @qd.kernel
    def first(v: qd.types.vector(2, qd.i8)) -> qd.i32:
        return v[0]

    @qd.kernel
    def member(s: kind) -> qd.i32:
        return s.a

    assert first([-128, 1]) == -128 and first(qd.Vector([127, 1])) == 127 and first(np.array([5, 6])) == 5
    for wrong in ([128, 0], qd.Vector([0, -129]), np.array([1, 1000])):
        with pytest.raises(qd.QuadrantsRuntimeTypeError, match="'v': .* is out of the range of i8"):
            first(wrong)
    assert member(kind(255, 1.0)) == 255
    with pytest.raises(OverflowError, match="256 is out of the range of u8"):
        kind(256, 1.0)
    with pytest.raises(qd.QuadrantsRuntimeTypeError, match="'s': -1 is out of the range of u8"):
        member({"a": -1, "b": 1.0})
    element = kind.field(shape=1)
    with pytest.raises(OverflowError, match="256 is out of the range of u8"):
        element[0].a = 256


def test_members_of_arguments():
    @dataclasses.dataclass
    class Options:
        count: qd.i16
        pair: qd.types.vector(2, qd.u8) = (1, 2)

    @qd.kernel
    def count(options: Options) -> qd.i32:
        return options.count + 0 * options.pair[1]

    assert count(Options(-32768)) == -32768
    for value in (32768, 10**20):
        with pytest.raises(qd.QuadrantsRuntimeTypeError, match=f"= {value} is out of the range of i16"):
            count(Options(value))
    with pytest.raises(qd.QuadrantsRuntimeTypeError, match="pair'.* is out of the range of u8"):
        count(Options(1, (1, 256)))
    assert count(Options(7)) == 7


def test_members_that_are_read_at_each_launch():
    @qd.data_oriented(template_primitives=False)
    class Counter:
        def __init__(self):
            self.value = 1

        @qd.kernel
        def get(self) -> qd.i32:
            return self.value

    counter = Counter()
    assert counter.get() == 1
    counter.value = 2**31
    with pytest.raises(qd.QuadrantsRuntimeTypeError, match="= 2147483648 is out of the range of i32"):
        counter.get()
    counter.value = 3
    assert counter.get() == 3


@pytest.mark.parametrize("arch", [qd.cpu, qd.python])
@pytest.mark.parametrize(
    "value, expected",
    [
        (Fraction(1, 4), 0.25),
        (np.array(0.25), 0.25),
        (np.array([0.25]), "cannot be converted into required type f32"),
        (np.complex64(1), "cannot be converted into required type f32"),
        (1j, "cannot be converted into required type f32"),
        ("1", "cannot be converted into required type f32"),
        (b"1", "cannot be converted into required type f32"),
        (10**400, "Argument 'x' is out of the range of f32"),
    ],
)
def test_the_first_launch_takes_the_same_numbers_as_later_ones(arch, value, expected):
    qd.init(arch=arch, offline_cache=False)

    @qd.kernel
    def same(x: qd.f32) -> qd.f32:
        return x

    for _ in range(2):
        if isinstance(expected, float):
            assert same(value) == expected
        else:
            with pytest.raises(qd.QuadrantsRuntimeTypeError, match=expected):
                same(value)
        assert same(1.5) == 1.5


def test_complex_numbers_and_arrays_are_not_stored():
    qd.init(arch=qd.cpu)
    for container in (qd.field(qd.f32, 2), qd.ndarray(qd.f64, 2)):
        for value in (np.complex64(1), 1j, np.array([1.0])):
            with pytest.raises(TypeError):
                container[0] = value
        container[1] = Fraction(1, 2)
        assert container.to_numpy().tolist() == [0, 0.5]

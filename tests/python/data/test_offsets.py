"""Fields whose indices do not begin at 0: host, kernels, loops, checks, copies."""

import copy
import itertools
import pickle

import numpy as np
import pytest

import quadrants as qd


@pytest.fixture(autouse=True, params=["cpu", "python"])
def start(request):
    def init(**options):
        qd.init(arch=getattr(qd, request.param), **{"offline_cache": False, "log_level": "error", **options})

    init()
    yield init
    qd.reset()


def test_host_indices_begin_at_the_offset():
    x = qd.field(qd.i32, shape=(2, 3), offset=(-1, 5))
    for i, j in itertools.product(range(-1, 1), range(5, 8)):
        x[i, j] = 10 * i + j
    assert x.shape == (2, 3)
    assert np.array_equal(x.to_numpy(), [[-5, -4, -3], [5, 6, 7]])
    for index in [(-2, 5), (1, 5), (0, 4), (0, 8)]:
        with pytest.raises(AssertionError, match=r"offset \(-1, 5\)"):
            x[index]


@pytest.mark.parametrize("order", ["ij", "ji"])
@pytest.mark.parametrize("offset", [(-1, 5), (3, -7), (0, 2)])
def test_loops_begin_at_the_offset(order, offset):
    x = qd.field(qd.i32, shape=(2, 3), offset=offset, order=order)
    total = qd.field(qd.i32, shape=())

    @qd.kernel
    def fill():
        for i, j in x:
            x[i, j] = i * 100 + j
        for I in qd.grouped(x):
            total[None] += x[I]

    fill()
    first, second = offset
    expected = np.add.outer(np.arange(first, first + 2) * 100, np.arange(second, second + 3))
    assert np.array_equal(x.to_numpy(), expected)
    assert total[None] == expected.sum()
    assert x[offset] == first * 100 + second


def test_elements_are_reached_by_computed_and_constant_indices():
    x = qd.Vector.field(3, qd.f32, shape=8, offset=-4)

    @qd.kernel
    def write(start: qd.i32, count: qd.i32):
        for k in range(start, start + count):
            x[k] = qd.Vector([k, 2 * k, 3 * k])
        x[-4].y = 100.0
        x[3] += 1.0

    write(-3, 6)
    expected = np.zeros((8, 3), np.float32)
    for k in range(-3, 3):
        expected[k + 4] = (k, 2 * k, 3 * k)
    expected[0, 1] = 100
    expected[7] += 1
    assert np.array_equal(x.to_numpy(), expected)


def test_indices_that_vary_from_lane_to_lane():
    x = qd.field(qd.i32, shape=100, offset=1_000_000)
    where = qd.field(qd.i32, shape=100)
    where.from_numpy((1_000_000 + np.random.default_rng(1).permutation(100)).astype(np.int32))

    @qd.kernel
    def scatter():
        for i in where:
            x[where[i]] = i

    scatter()
    assert np.array_equal(x.to_numpy()[where.to_numpy() - 1_000_000], np.arange(100))


def test_histogram_into_private_copies():
    counts = qd.field(qd.i32, shape=7, offset=-3)

    @qd.kernel
    def count(n: qd.i32):
        for i in range(n):
            counts[i % 7 - 3] += 1

    count(70_000)
    assert np.array_equal(counts.to_numpy(), np.full(7, 10_000))


@pytest.mark.parametrize("layout", [qd.Layout.AOS, qd.Layout.SOA], ids=str)
def test_struct_fields(layout):
    s = qd.Struct.field({"a": qd.i32, "v": qd.types.vector(2, qd.f32)}, shape=3, offset=10, layout=layout)

    @qd.kernel
    def fill():
        for i in s:
            s[i].a = i
            s[i].v = qd.Vector([i, -i])

    fill()
    assert np.array_equal(s.a.to_numpy(), [10, 11, 12])
    assert s[12].v[1] == -12
    s[11].v[0] = 7
    assert s.v.to_numpy().tolist() == [[10, -10], [7, -11], [12, -12]]


def test_constant_indices_are_checked_while_compiling():
    x = qd.field(qd.i32, shape=4, offset=-2)

    def kernel_of(index):
        @qd.kernel
        def read() -> qd.i32:
            return x[qd.static(index)]

        return read

    x.from_numpy(np.array([5, 6, 7, 8], np.int32))
    assert [kernel_of(index)() for index in range(-2, 2)] == [5, 6, 7, 8]
    for index in (-3, 2):
        with pytest.raises(IndexError, match=f"index {index} is out of range"):
            kernel_of(index)()


def test_checks_at_run_time_name_the_offset(start):
    start(debug=True)
    x = qd.field(qd.i32, shape=(4, 2), offset=(-2, 1))

    @qd.kernel
    def write(i: qd.i32, j: qd.i32):
        x[i, j] = 1

    @qd.kernel
    def write_unsigned(i: qd.u32):
        x[i, 1] = 1

    for index in itertools.product(range(-2, 2), range(1, 3)):
        write(*index)
    assert x.to_numpy().all()
    for index in [(-3, 1), (2, 1), (0, 0), (0, 3), (-(2**31), 1)]:
        with pytest.raises(AssertionError, match=r"of size \(4, 2\) offset \(-2, 1\) with indices \(" + f"{index[0]}, {index[1]}"):
            write(*index)
    with pytest.raises(AssertionError, match="offset"):
        write_unsigned(2**32 - 1)


def test_fields_that_differ_in_their_offset_only_have_kernels_of_their_own():
    @qd.kernel
    def fill(x: qd.template()):
        for i in x:
            x[i] = i

    fields = [qd.field(qd.i32, shape=3, offset=offset) for offset in (None, 0, 5, -5)]
    for x in fields:
        fill(x)
    assert [x[first] for x, first in zip(fields, (0, 0, 5, -5), strict=True)] == [0, 0, 5, -5]


def test_copies_and_shadows_keep_the_offset():
    x = qd.field(qd.f32, shape=3, offset=2, order="i", needs_grad=True)
    x.from_numpy(np.array([1, 2, 3], np.float32))
    for other in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x)):
        assert other[4] == 3
        with pytest.raises(AssertionError):
            other[0]
    x.grad[4] = 1
    assert x.grad.to_numpy().tolist() == [0, 0, 1]
    assert x[3:].to_numpy().tolist() == [2, 3] and x[-9:3].to_numpy().tolist() == [1] and x[::-1].offset == 2  # bounds are indices
    plain = qd.field(qd.f32, shape=3)
    plain.copy_from(x)  # elements correspond by their place
    assert plain.to_numpy().tolist() == [1, 2, 3]


def test_a_component_keeps_the_offset():
    x = qd.Vector.field(2, qd.i32, shape=2, offset=-1)
    x.from_numpy(np.array([[1, 2], [3, 4]], np.int32))
    part = x.get_scalar_field(1)
    assert (part[-1], part[0]) == (2, 4)


def test_offsets_beyond_32_bits_are_refused():
    for offset in (2**31, -(2**31) - 1, 2**31 - 2):
        with pytest.raises(qd.QuadrantsRuntimeError, match="32-bit"):
            qd.field(qd.i32, shape=4, offset=offset)

"""Quantized fields beyond packs: arrays in words, shared exponents, saturation, copies, reports, misuse."""

import copy
import pickle

import numpy as np
import pytest

import quadrants as qd

quant = qd.types.quant


@pytest.fixture(autouse=True, params=["cpu", "python"])
def runtime(request):
    qd.init(arch=request.param)
    yield request.param
    qd.reset()


def make_array(kind, outer=8, inner=4, bits=32, field=None):
    x = qd.field(kind) if field is None else field
    cells = qd.root.dense(qd.i, outer)
    cells.quant_array(qd.i, inner, max_num_bits=bits).place(x)
    return x, cells


def make_shared(*fractions, bits=32, shape=4, exp=5):
    fields = [qd.field(quant.float(exp=exp, frac=fraction)) for fraction in fractions]
    packed = qd.BitpackedFields(bits)
    packed.place(*fields, shared_exponent=True)
    qd.root.dense(qd.i, shape).place(packed)
    return fields


# quant_array


@pytest.mark.parametrize("neighbors", [1, 3])
def test_offsets_along_axes_that_words_do_not_divide(neighbors):
    x = qd.field(quant.int(8))
    qd.root.dense(qd.ij, (6, 2)).quant_array(qd.j, neighbors, max_num_bits=32).place(x, offset=(-6, 3))

    @qd.kernel
    def write(first: qd.i32, end: qd.i32):
        for i, j in qd.ndrange((-6, 0), (first, end)):
            x[i, j] = i * 2 + j

    write(3, 3 + 2 * neighbors)
    assert (x.to_numpy() == np.arange(-6, 0)[:, None] * 2 + np.arange(3, 3 + 2 * neighbors)).all()
    assert x[-1, 4] == 2


@pytest.mark.parametrize(("kind", "bits"), [(quant.int(8), 32), (quant.int(16, signed=False), 64), (quant.fixed(8, max_value=2.0), 16)])
@pytest.mark.parametrize("offset", [None, (-6, 3)])
def test_elements_of_whole_bytes_are_words_of_their_own(kind, bits, offset):
    across = bits // kind.bits
    x = qd.field(kind)
    qd.root.dense(qd.ij, (6, 2)).quant_array(qd.j, across, max_num_bits=bits).place(x, offset=offset)
    first, second = offset or (0, 0)

    @qd.kernel
    def add(scale: qd.f32):
        for i, j in qd.ndrange((first, first + 6), (second, second + 2 * across)):
            x[i, j] = (i - first) * 0.125 * scale
            x[i, j] += (j - second) * 0.125 * scale

    scale = 1.0 if kind.kind == "fixed" else 8.0
    add(scale)
    expected = (np.arange(6)[:, None] + np.arange(2 * across)) * 0.125 * scale
    assert np.allclose(x.to_numpy(), expected, atol=0.016)
    assert x.nbytes == 12 * bits // 8
    x[first + 5, second + 1] = 1
    expected[5, 1] = 1
    assert np.allclose(x.to_numpy(), expected, atol=0.016)
    x.from_numpy(expected.astype(x.to_numpy().dtype)[::-1].copy())
    assert np.allclose(x.to_numpy(), expected[::-1], atol=0.016) and abs(x[first, second + 1] - 1) < 0.016


def test_elements_of_an_array_share_words():
    x, cells = make_array(quant.int(5))
    assert x.shape == (32,) and cells._cell_size_bytes == 4

    @qd.kernel
    def write():
        for i in x:
            x[i] = i - 16

    @qd.kernel
    def total() -> qd.i32:
        sum = 0
        for i in range(32):
            sum += x[i] * i
        return sum

    write()
    expected = np.arange(32) - 16
    np.testing.assert_array_equal(x.to_numpy(), expected)
    assert total() == (expected * np.arange(32)).sum()
    x[5] = 33
    assert (x[4], x[5], x[6]) == (-12, 1, -10)
    with pytest.raises(IndexError, match="out of range"):
        x[32]


def test_an_array_along_two_axes():
    x = qd.field(quant.int(6))
    qd.root.dense(qd.ij, (3, 2)).quant_array(qd.ij, (2, 3), max_num_bits=64).place(x, offset=(-2, 4))
    assert x.shape == (6, 6)

    @qd.kernel
    def write():
        for i, j in x:
            x[i, j] = 3 * i - j

    @qd.kernel
    def write_grouped(y: qd.Template):
        for I in qd.grouped(y):  # noqa: E741
            y[I] += I[0]

    write()
    write_grouped(x)
    i, j = np.mgrid[-2:4, 4:10]
    np.testing.assert_array_equal(x.to_numpy(), 4 * i - j)
    assert x[-2, 9] == -17 and x[3, 4] == 8


def test_an_array_has_an_axis_of_its_own():
    x = qd.Vector.field(2, quant.fixed(4, max_value=8.0))
    qd.root.dense(qd.j, 3).quant_array(qd.i, 4, max_num_bits=32).place(x)

    @qd.kernel
    def write():
        for i, j in x:
            x[i, j] = [i - 2, j]

    write()
    i, j = np.mgrid[0:4, 0:3]
    np.testing.assert_array_equal(x.to_numpy(), np.stack([i - 2, j], -1))
    y = qd.field(quant.int(1, signed=False))
    qd.root.quant_array(qd.i, 8, max_num_bits=8).place(y)
    y[3] = 1
    assert y.to_numpy().tolist() == [0, 0, 0, 1, 0, 0, 0, 0]


def test_writes_of_neighbors_in_an_array_are_not_lost():
    x, _ = make_array(quant.int(8), outer=64)

    @qd.kernel
    def scatter():
        for i in range(25600):
            x[i * 7 % 256] += 1

    @qd.kernel
    def write_next():
        for i in range(256):
            x[255 - i] = i

    scatter()
    assert set(x.to_numpy()) == {100}
    write_next()
    np.testing.assert_array_equal(x.to_numpy(), (255 - np.arange(256)).astype(np.int8))


def test_a_loop_over_an_array_reads_and_writes_neighbors():
    x, _ = make_array(quant.int(4), outer=16, inner=8)
    y, _ = make_array(quant.int(6), outer=32, inner=4)
    z = qd.field(qd.i32, 128)

    @qd.kernel
    def work():
        for i in x:
            x[i] = i % 7
        for i in x:
            if i % 3 == 0:
                continue
            left = x[i - 1] if i > 0 else 0
            y[i] = left + x[i]
            z[i] = y[i] + 1
        for i in y:
            if i > 0:
                y[i - 1] += 20

    work()
    i = np.arange(128)
    expected = np.where(i % 3, np.where(i > 0, (i - 1) % 7, 0) + i % 7, 0)
    np.testing.assert_array_equal(z.to_numpy(), np.where(i % 3, expected + 1, 0))
    expected[:-1] += 20
    np.testing.assert_array_equal(y.to_numpy(), (expected + 32) % 64 - 32)


def test_loops_over_bits_take_whole_words():
    x, _ = make_array(quant.int(1, signed=False), outer=8, inner=32)
    y, _ = make_array(quant.int(1, signed=False), outer=8, inner=32)

    @qd.kernel
    def work():
        for i in range(256):
            x[i] = (i >> 2) & 1
        qd.loop_config(bit_vectorize=True)
        for i in x:
            y[i] = 1 - x[i]

    work()
    np.testing.assert_array_equal(y.to_numpy(), 1 - (np.arange(256) >> 2 & 1))


def test_what_cannot_be_in_an_array():
    with pytest.raises(RuntimeError, match="overflows: 36 bits used out of 32"):
        make_array(quant.int(9))
    with pytest.raises(RuntimeError, match="Only a QuantType"):
        make_array(qd.i32)
    with pytest.raises(RuntimeError, match="No primitive int type has 20 bits"):
        make_array(quant.int(4), bits=20)
    node = qd.root.dense(qd.i, 2).quant_array(qd.i, 4, max_num_bits=32)
    node.place(qd.field(quant.int(4)))
    with pytest.raises(RuntimeError, match="holds one field"):
        node.place(qd.field(quant.int(4)))
    with pytest.raises(RuntimeError, match="nothing but quantized fields"):
        node.dense(qd.i, 2)


# shared exponents


def test_the_largest_number_sets_a_shared_exponent():
    x, y, z = make_shared(9, 9, 9)

    @qd.kernel
    def write():
        for i in x:
            x[i] = 1.0
            y[i] = 100.0 * i
            z[i] = -0.3

    write()
    # 8 bits of a fraction without the sign: steps are 2 to the exponent, minus 7.
    steps = np.array([2.0**-7, 2.0**-1, 1.0, 2.0])
    np.testing.assert_array_equal(x.to_numpy(), np.trunc(1 / steps + 0.5) * steps)
    np.testing.assert_array_equal(y.to_numpy(), [0, 100, 200, 300])
    np.testing.assert_array_equal(z.to_numpy(), -np.trunc(0.3 / steps + 0.5) * steps)
    y[3] = 0.0
    assert (x[3], y[3], z[3]) == (2, 0, 0)
    x[3], z[3] = 0.0, 0.0
    assert (x[3], y[3], z[3]) == (0, 0, 0)


def test_updates_of_numbers_with_a_shared_exponent():
    x, y = make_shared(12, 12)

    @qd.kernel
    def add():
        for i in range(400):
            x[i % 4] += 1.0
            y[i % 4] -= 2.0

    add()
    assert x.to_numpy().tolist() == [100] * 4 and y.to_numpy().tolist() == [-200] * 4


def test_a_shared_exponent_of_a_vector_and_an_unsigned_number():
    v = qd.Vector.field(3, quant.float(exp=6, frac=13))
    w = qd.field(quant.float(exp=6, frac=13, signed=False))
    packed = qd.BitpackedFields(64)
    packed.place(v, w, shared_exponent=True)
    qd.root.place(packed)
    v[None] = [1.5, -2.25, 1000.0]
    w[None] = -4.0
    assert v[None].to_list() == [1.5, -2.25, 1000] and w[None] == 0
    w[None] = 1e30
    assert w[None] == (2**13 - 1) * 2.0 ** (63 - 31 - 12) and v[None].to_list() == [0, 0, 0]


# places


def test_a_field_with_a_shape_has_a_word_for_each_element():
    x = qd.field(quant.int(5), shape=4)
    v = qd.Vector.field(3, quant.int(30), shape=(2, 2))
    f = qd.field(quant.float(exp=5, frac=10), shape=())

    @qd.kernel
    def write():
        f[None] = 3.14159
        for i in x:
            x[i] = 20 + i
        for i, j in v:
            v[i, j] = [i, j, 1 << 29]

    write()
    assert f[None] == 3.140625 and x.to_numpy().tolist() == [-12, -11, -10, -9]
    assert v[1, 0].to_list() == [1, 0, -(1 << 29)]
    assert x.parent(2)._cell_size_bytes == 1 and v.parent(2)._cell_size_bytes == 12 and f.parent()._cell_size_bytes == 2


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_small_packs_at_the_root(bits):
    x = qd.field(quant.fixed(8, signed=False, scale=0.5))
    packed = qd.BitpackedFields(bits)
    packed.place(x)
    qd.root.place(packed)

    @qd.kernel
    def write():
        x[None] = 3.7
        x[None] += 1.0

    write()
    assert x[None] == 4.5


# saturation


@pytest.mark.parametrize(
    "kind, value, expected",
    [
        (quant.fixed(10, max_value=2.0), 5.0, 1.99609375),
        (quant.fixed(10, max_value=2.0), -9.0, -2.0),
        (quant.fixed(10, max_value=2.0), float("inf"), 1.99609375),
        (quant.fixed(10, signed=False, max_value=2.0), -1.0, 0.0),
        (quant.fixed(10, signed=False, max_value=2.0), 5.0, 1.998046875),
        (quant.fixed(32, scale=1.0), 1e20, 2147483648.0),
        (quant.fixed(32, signed=False, scale=1.0), 1e20, 4294967296.0),
        (quant.float(exp=5, frac=10), 1e9, 130944.0),
        (quant.float(exp=5, frac=10), -float("inf"), -130944.0),
        (quant.float(exp=5, frac=10, signed=False), -3.0, 0.0),
        (quant.float(exp=8, frac=10), float("inf"), float(np.float32((2 - 2**-9) * 2.0**127))),
        (quant.float(exp=5, frac=10), float("nan"), 0.0),
        (quant.fixed(10), float("nan"), 0.0),
    ],
)
def test_numbers_beyond_the_range_become_the_lowest_or_highest(kind, value, expected):
    x, y = qd.field(kind, shape=1), qd.field(kind, shape=1)

    @qd.kernel
    def write(value: qd.f32):
        y[0] = value

    x[0] = value
    write(value)
    assert x[0] == y[0] == expected


# copies


@pytest.mark.parametrize("kind", [quant.int(6), quant.fixed(6, max_value=32.0), quant.float(exp=4, frac=6)])
def test_copies_between_fields_and_arrays(kind):
    torch = pytest.importorskip("torch")
    x, y, z = qd.field(kind), qd.field(kind), qd.field(qd.f32, (4, 2))
    packed = qd.BitpackedFields(16)
    packed.place(x)
    qd.root.dense(qd.ij, (4, 2)).place(packed)
    qd.root.dense(qd.i, 2).quant_array(qd.ij, (2, 2), max_num_bits=64).place(y)
    values = np.arange(8).reshape(4, 2)
    x.from_numpy(values)
    assert x.to_numpy().dtype == z.to_numpy().dtype if kind.dtype is qd.f32 else np.int32
    np.testing.assert_array_equal(x.to_numpy(), values)
    np.testing.assert_array_equal(np.asarray(x), values)
    if y.shape != x.shape:
        assert y.shape == (4, 2)
    y.copy_from(x)
    z.copy_from(x)
    np.testing.assert_array_equal(y.to_numpy(), values)
    np.testing.assert_array_equal(z.to_numpy(), values)
    assert x.to_torch().tolist() == values.tolist()
    x.from_torch(torch.tensor(values + 1))
    np.testing.assert_array_equal(x.to_numpy(dtype=np.float64), values + 1)
    x.fill(3)
    assert set(x.to_numpy().flat) == {3}
    assert str(x) == str(x.to_numpy())
    out = np.zeros((4, 2), np.int64)
    x.to_numpy(out=out)
    assert set(out.flat) == {3}


def test_there_is_no_view():
    x = qd.field(quant.int(5), shape=4)
    for export in (lambda: x.to_numpy(copy=False), lambda: x.to_torch(copy=False), x.view, lambda: memoryview(x)):
        with pytest.raises(ValueError, match="Zero-copy not available"):
            export()
    with pytest.raises(BufferError, match="Only dense fields"):
        x.to_dlpack()
    with pytest.raises(ValueError, match="has no views"):
        x[1:3]


def test_copies_and_pickles_of_fields():
    x = qd.field(quant.fixed(6, max_value=2.0), shape=4, name="x")
    x.from_numpy(np.array([0.5, -1.0, 1.5, 7.0]))
    for twin in (copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert twin.to_numpy().tolist() == x.to_numpy().tolist() == [0.5, -1, 1.5, 1.9375]
        twin[0] = 0.0
        assert x[0] == 0.5


def test_vectors_as_arrays():
    v = qd.Vector.field(2, quant.int(4))
    make_array(None, inner=2, outer=2, field=v)
    v.from_numpy(np.array([[1, 2], [3, 4], [5, 6], [-7, -8]]))
    assert v.to_numpy().tolist() == [[1, 2], [3, 4], [5, 6], [-7, -8]]
    v.fill(qd.Vector([1, -1]))
    assert v.to_numpy().tolist() == [[1, -1]] * 4
    v[3][1] = 7
    assert v[3].to_list() == [1, 7] and v[2].to_list() == [1, -1]


def test_components_as_fields():
    v = qd.Vector.field(2, quant.int(4), shape=3)
    first = v.get_scalar_field(0)

    @qd.kernel
    def write():
        for i in v:
            v[i] = [i, -i]

    write()
    assert first.to_numpy().tolist() == [0, 1, 2] and first[2] == 2
    first[1] = 5
    assert v[1].to_list() == [5, -1]


# kernels, reports, misuse


def test_bounds_are_checked(runtime):
    qd.init(arch=runtime, debug=True)
    x, _ = make_array(quant.int(4))
    y = qd.field(quant.int(5), shape=4)

    @qd.kernel
    def read(i: qd.i32) -> qd.i32:
        return x[i]

    @qd.kernel
    def write(i: qd.i32):
        y[i] = 1

    assert read(31) == 0
    with pytest.raises(qd.QuadrantsAssertionError, match=r"Accessing field.*size \(32\).*indices \(32\)"):
        read(32)
    with pytest.raises(qd.QuadrantsAssertionError, match=r"Accessing field.*size \(4\).*indices \(-1\)"):
        write(-1)


def test_memory_is_reported_by_field():
    x, y = qd.field(quant.int(5), name="left"), qd.field(quant.int(11), name="right")
    packed = qd.BitpackedFields(16)
    packed.place(x, y)
    qd.root.dense(qd.i, 1000).place(packed)
    x[0] = 1
    (line,) = [line for line in qd.memory.report().splitlines() if "left" in line]
    assert "2.0 KiB" in line and "right" in line


def test_what_needs_a_whole_word_is_refused(runtime):
    x, _ = make_array(quant.int(4))
    y = qd.field(quant.int(5), shape=4)

    @qd.kernel
    def exchange():
        qd.atomic_cas(y[0], 0, 1)

    @qd.kernel
    def load() -> qd.i32:
        return qd.volatile_load(y[0])

    @qd.func
    def change(place: qd.template()):
        place += 1

    @qd.kernel
    def pass_on():
        for i in range(4):
            change(x[i])

    if runtime != "python":
        for kernel in (exchange, load, pass_on):
            with pytest.raises(qd.QuadrantsTypeError, match="part of a word|passed by value"):
                kernel()


def test_fields_are_printed(capfd):
    x = qd.field(quant.fixed(8, max_value=4.0), shape=3, name="x")

    @qd.kernel
    def show():
        x[1] = 1.5
        print(x[1], x.shape[0])

    show()
    qd.sync()
    assert capfd.readouterr().out.split() == ["1.500000", "3"]
    assert repr(x).startswith("<qd.field of f32, shape (3,), name 'x'") and x.nbytes == 3


def test_a_destroyed_tree():
    x = qd.field(quant.int(5))
    builder = qd.FieldsBuilder()
    builder.dense(qd.i, 4).place(x)
    tree = builder.finalize()
    x[0] = 3
    tree.destroy()
    with pytest.raises(RuntimeError, match="destroyed"):
        x[0]


def test_packs_in_sparse_nodes():
    x, y = qd.field(quant.int(6)), qd.field(quant.fixed(8))
    packed = qd.BitpackedFields(16)
    packed.place(x, y)
    blocks = qd.root.pointer(qd.i, 16)
    blocks.dense(qd.i, 4).place(packed)
    other = qd.field(quant.int(4))
    with pytest.raises(RuntimeError, match="quant_array is in dense nodes"):
        blocks.quant_array(qd.i, 4, max_num_bits=32).place(other)
    qd.root.place(other)

    @qd.kernel
    def write():
        x[9] = 5
        y[33] = 0.5

    @qd.kernel
    def count() -> qd.i32:
        cells = 0
        for i in x:
            cells += 1
            x[i] += 1
        return cells

    write()
    assert count() == 8 and (x[9], x[8], x[0], y[33], y[34]) == (6, 1, 0, 0.5, 0)
    x[63] = 3
    assert count() == 12 and x[63] == 4
    x.fill(2)
    assert x.to_numpy().sum() == 24


@pytest.mark.parametrize("place", ["shape", "tree"])
def test_gradients_pass_through_rounding(place, runtime):
    wanted = {"shape": 4, "needs_grad": True} if place == "shape" else {"needs_grad": True}
    x, y = qd.field(quant.fixed(16, max_value=4.0), **wanted), qd.field(quant.float(exp=6, frac=18), **wanted)
    loss = qd.field(qd.f32, shape=(), needs_grad=True)
    if place == "tree":
        cells = qd.root.dense(qd.i, 4)
        for field in (x, y):
            packed = qd.BitpackedFields(32)
            packed.place(field)
            cells.place(packed)
        qd.root.lazy_grad()

    @qd.kernel
    def square():
        for i in range(4):
            y[i] = x[i] * x[i]

    @qd.kernel
    def add():
        for i in range(4):
            loss[None] += 3.0 * y[i]

    x.from_numpy(0.5 * np.arange(4))
    if runtime == "python":
        with pytest.raises(RuntimeError, match="quantized"), qd.ad.Tape(loss):
            square()
        return
    with qd.ad.Tape(loss):
        square()
        add()
    assert loss[None] == 10.5
    np.testing.assert_array_equal(x.grad.to_numpy(), 3.0 * np.arange(4))


def test_numbers_that_round_to_zero_are_copied(recwarn):
    x, y = qd.field(qd.types.quant.fixed(8, max_value=2.0)), qd.field(qd.types.quant.int(8))
    packed = qd.BitpackedFields(max_num_bits=32)
    packed.place(x, y)
    qd.root.pointer(qd.i, 4).dense(qd.i, 4).place(packed)
    x[1] = 1.0
    values = np.zeros(16, np.float32)
    values[[1, 2]] = 0.001, 0.5  # x[1] becomes 0
    x.from_numpy(values)
    assert not recwarn.list and x[1] == 0 and x[2] == pytest.approx(0.5, abs=0.02)
    values[9] = 1.0
    with pytest.warns(UserWarning, match="1 elements that are not zero were not copied"):
        x.from_numpy(values)


@pytest.mark.parametrize("dtype", [qd.f32, qd.f64])
def test_numbers_out_of_range_saturate_under_checks_of_overflow(runtime, dtype):
    qd.init(arch=runtime, debug=True)
    x = qd.field(qd.types.quant.fixed(12, signed=False, compute=dtype))
    y = qd.field(qd.types.quant.fixed(13, max_value=2.0, compute=dtype))
    pack = qd.BitpackedFields(max_num_bits=32)
    pack.place(x, y)
    qd.root.dense(qd.i, 4).place(pack)

    @qd.kernel
    def write(numbers: qd.types.ndarray()):
        for i in x:
            x[i] = numbers[i]
            y[i] += numbers[i]

    write(np.array([-1.0, 0.5, 1e9, -1e9]))
    assert x.to_numpy().tolist() == [0.0, 0.5, 4095 / 4096, 0.0]
    assert y.to_numpy().tolist() == [-1.0, 0.5, 2 - 1 / 2048, -2.0]

"""Quantized types in packs: types, places, reads and writes from Python and in kernels, rounding, exchange with NumPy."""

import numpy as np
import pytest

import quadrants as qd

quant = qd.types.quant


@pytest.fixture(autouse=True, params=["cpu", "python"])
def runtime(request):
    qd.init(arch=request.param)
    yield request.param
    qd.reset()


def pack(*fields, bits=32, shape=8, **options):
    """Places quantized fields in one word for each cell, and returns the node with the cells."""
    packed = qd.BitpackedFields(max_num_bits=bits)
    packed.place(*fields, **options)
    cells = qd.root.dense(qd.i, shape)
    cells.place(packed)
    return cells


def stored(kind, values, bits=32):
    """What is read after each value was written: from Python, in a kernel, and through NumPy."""
    x, y, z = qd.field(kind), qd.field(kind), qd.field(kind)
    for field in (x, y, z):
        pack(field, bits=bits, shape=len(values))
    given = np.array(values, np.float64 if kind.dtype.is_real else np.int64)

    @qd.kernel
    def write(source: qd.types.NDArray):
        for i in y:
            y[i] = source[i]

    for i, value in enumerate(values):
        x[i] = value
    write(given.astype(np.float32 if kind.dtype is qd.f32 else given.dtype))
    z.from_numpy(given)
    read = [x[i] for i in range(len(values))]
    np.testing.assert_array_equal(y.to_numpy(), read)
    np.testing.assert_array_equal(z.to_numpy(), read)
    return read


# types


def test_types_have_bits_and_a_type_of_computation():
    assert quant.int(5).dtype is qd.i32 and quant.int(5, signed=False).dtype is qd.u32
    assert quant.int(5, compute=qd.i64).dtype is qd.i64
    assert quant.fixed(10).dtype is qd.f32 and quant.fixed(10, compute=qd.f64).dtype is qd.f64
    assert quant.fixed(10, max_value=2.0).scale == 2.0 / 512
    assert quant.fixed(10, signed=False, max_value=2.0).scale == 2.0 / 1024
    assert quant.fixed(10, max_value=2.0, scale=0.25).scale == 0.25
    assert quant.float(exp=5, frac=10).bits == 15
    assert quant.int(5) == quant.int(5) and hash(quant.int(5)) == hash(quant.int(5)) and quant.int(5) != quant.int(6)
    assert repr(quant.int(5)) == "quant.int(5, signed=True)"


def test_defaults_of_computation_are_those_of_the_runtime(runtime):
    kinds = quant.int(5), quant.int(5, signed=False), quant.float(exp=5, frac=30)
    qd.init(arch=runtime, default_ip=qd.i64, default_fp=qd.f64)
    assert [kind.dtype for kind in kinds] == [qd.i64, qd.u64, qd.f64]


@pytest.mark.parametrize(
    "make",
    [
        lambda: quant.int(0),
        lambda: quant.int(65),
        lambda: quant.fixed(8, scale=0.0),
        lambda: quant.float(exp=9, frac=10),
        lambda: quant.float(exp=0, frac=10),
        lambda: quant.int(5, compute=qd.f32).dtype,
        lambda: quant.fixed(5, compute=qd.i32).dtype,
        lambda: quant.float(exp=5, frac=30).dtype,
    ],
)
def test_impossible_types_are_refused(make):
    with pytest.raises(ValueError, match="quant"):
        make()


def test_only_fields_have_quantized_elements():
    with pytest.raises(ValueError, match="only fields have quantized elements"):
        qd.ndarray(quant.int(5), shape=3)


def test_quantized_types_are_extensions_that_are_enabled():
    assert qd.is_extension_enabled(qd.extension.quant) and qd.is_extension_enabled(qd.extension.quant_basic)


# packs


def test_fields_of_a_pack_share_a_word():
    x, y, z = qd.field(quant.int(5)), qd.field(quant.int(11, signed=False)), qd.field(quant.fixed(16, max_value=2.0))
    cells = pack(x, y, z)
    assert cells._cell_size_bytes == 4 and x.shape == (8,) and x.dtype is qd.i32 and z.dtype is qd.f32

    @qd.kernel
    def write():
        for i in range(8):
            x[i] = i - 4
            y[i] = 100 * i
            z[i] = 0.25 * i - 1.0

    @qd.kernel
    def sums() -> qd.types.vector(3, qd.f32):
        total = qd.Vector([0.0, 0.0, 0.0])
        for i in x:
            total += qd.Vector([x[i], y[i], z[i]])
        return total

    write()
    np.testing.assert_array_equal(x.to_numpy(), np.arange(8) - 4)
    np.testing.assert_array_equal(y.to_numpy(), np.arange(8) * 100)
    np.testing.assert_array_equal(z.to_numpy(), np.arange(8) * 0.25 - 1)
    assert sums().to_list() == [-4, 2800, -1]
    x[3], y[3], z[3] = 7, 2047, -2.0
    assert (x[3], y[3], z[3], y[2], x[4]) == (7, 2047, -2, 200, 0)


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_words_of_every_size(bits):
    half = bits // 2
    x, y = qd.field(quant.int(half)), qd.field(quant.int(half, signed=False))
    cells = pack(x, y, bits=bits)
    assert cells._cell_size_bytes == bits // 8
    lowest, highest = -(1 << half - 1), (1 << half) - 1

    @qd.kernel
    def write(low: qd.i32, high: qd.u32):
        for i in x:
            x[i] = low
            y[i] = high

    write(lowest, highest)
    assert set(x.to_numpy()) == {lowest} and set(y.to_numpy()) == {highest}


def test_a_number_of_64_bits():
    x, y = qd.field(quant.int(64, compute=qd.i64)), qd.field(quant.int(64, signed=False, compute=qd.u64))
    pack(x, bits=64), pack(y, bits=64)

    @qd.kernel
    def write():
        for i in range(8):
            x[i] = qd.i64(-(2**63)) + i
            y[i] = qd.u64(2**64 - 1) - qd.u64(i)

    write()
    assert x.to_numpy().tolist() == [-(2**63) + i for i in range(8)]
    assert y.to_numpy().tolist() == [2**64 - 1 - i for i in range(8)]
    x[0], y[0] = 2**63 - 1, 2**63
    assert (x[0], y[0]) == (2**63 - 1, 2**63)


def test_vectors_matrices_and_structs_in_a_pack():
    v, m = qd.Vector.field(3, quant.int(5)), qd.Matrix.field(2, 2, quant.fixed(4, max_value=8.0))
    s = qd.Struct.field({"a": quant.int(7), "b": quant.float(exp=5, frac=9)})
    pack(v, m, s, bits=64)

    @qd.kernel
    def write():
        for i in v:
            v[i] = [i, -i, 7]
            m[i] = [[1, 2], [3, i - 4]]
            s[i].a = i
            s[i].b = 0.5 * i
            v[i][2] += i
            m[i][0, 1] = -m[i][1, 0]
            v[i].xy -= 1

    write()
    i = np.arange(8)
    np.testing.assert_array_equal(v.to_numpy(), np.stack([i - 1, -i - 1, 7 + i], 1))
    np.testing.assert_array_equal(m.to_numpy()[5], [[1, -3], [3, 1]])
    np.testing.assert_array_equal(s.a.to_numpy(), i)
    np.testing.assert_array_equal(s.b.to_numpy(), 0.5 * i)
    v[2] = [15, -16, 3]
    assert v[2].to_list() == [15, -16, 3] and m[5].to_list() == [[1, -3], [3, 1]]
    v[2][1] = 33
    assert v[2].to_list() == [15, 1, 3] and s[2].b == 1


@pytest.mark.parametrize(
    "place, problem, text",
    [
        (lambda x: qd.BitpackedFields(8).place(x, qd.field(quant.int(5))), RuntimeError, "overflows: 10 bits used out of 8"),
        (lambda x: qd.BitpackedFields(32).place(qd.field(qd.i32)), RuntimeError, "Only a QuantType"),
        (lambda x: qd.BitpackedFields(12), RuntimeError, "No primitive int type has 12 bits"),
        (lambda x: qd.BitpackedFields(32).place(x, shared_exponent=True), qd.QuadrantsSyntaxError,
         "At least 2 fields need to be placed when shared_exponent=True"),
        (lambda x: qd.BitpackedFields(32).place(x, qd.field(quant.float(5, 9)), shared_exponent=True), RuntimeError, "same exp"),
    ],
)  # fmt: skip
def test_what_cannot_be_packed(place, problem, text):
    x = qd.field(quant.int(5))
    with pytest.raises(problem, match=text):
        place(x)
    qd.root.place(x)


def test_a_field_is_placed_once():
    x, y = qd.field(quant.int(5)), qd.field(quant.int(5))
    packed = qd.BitpackedFields(32)
    packed.place(x)
    with pytest.raises(RuntimeError, match="has been placed"):
        qd.BitpackedFields(32).place(x)
    with pytest.raises(RuntimeError, match="has been placed"):
        qd.root.dense(qd.i, 3).place(x)
    qd.root.dense(qd.i, 3).place(packed)
    with pytest.raises(RuntimeError, match="has been placed"):
        qd.root.dense(qd.i, 3).place(packed)
    with pytest.raises(RuntimeError, match="takes no more"):
        packed.place(y)
    qd.root.place(y)


# values


def test_integers_keep_their_lower_bits():
    assert stored(quant.int(5), [20, 33, -17, -1, 15, -16]) == [-12, 1, 15, -1, 15, -16]
    assert stored(quant.int(5, signed=False), [20, 33]) == [20, 1]


def test_fixed_numbers_are_rounded_to_the_nearest_step():
    assert stored(quant.fixed(10, max_value=2.0), [1.2345, 0.00195, 0.001954]) == [1.234375, 0, 0.00390625]
    assert stored(quant.fixed(10, scale=1.0), [0.5, 1.5, -0.5, -1.5, 0.49]) == [1, 2, -1, -2, 0]


def test_floats_are_rounded_to_the_nearest_number():
    assert stored(quant.float(exp=5, frac=10), [3.14159, 1 / 3, 1.00293, -1.5, 0.0]) == [3.140625, 0.33349609375, 1.00390625, -1.5, 0]
    assert stored(quant.float(exp=5, frac=10, signed=False), [3.14159, 1 / 3]) == [3.140625, 0.333251953125]
    assert stored(quant.float(exp=2, frac=5), [1.1, 1.9, 7.0, 0.6, 0.4]) == [1.125, 1.875, 7, 1, 0]


def test_a_float_of_f64():
    kind = quant.float(exp=8, frac=40, compute=qd.f64)
    x = qd.field(kind)
    pack(x, bits=64)

    @qd.kernel
    def write():
        for i in x:
            x[i] = 1.0 / (3.0 + i)

    write()
    np.testing.assert_allclose(x.to_numpy(), 1 / (3.0 + np.arange(8, dtype=np.float32)), rtol=1e-7)
    x[0] = 1 / 3
    assert 0 < abs(x[0] - 1 / 3) < 2.0**-41


def test_updates_of_each_kind():
    a, b, c = qd.field(quant.int(8)), qd.field(quant.fixed(12, max_value=8.0)), qd.field(quant.float(exp=5, frac=12))
    pack(a, bits=32), pack(b, c, bits=32)

    @qd.kernel
    def update() -> qd.types.vector(3, qd.f32):
        old = qd.Vector([0.0, 0.0, 0.0])
        for _ in range(1):
            a[1] += 5
            old[0] = qd.atomic_add(a[1], 3)
            b[1] += 0.5
            old[1] = qd.atomic_sub(b[1], 0.25)
            c[1] += 1.5
            old[2] = qd.atomic_max(c[1], 4.0)
        return old

    assert update().to_list() == [5, 0.5, 1.5]
    assert (a[1], b[1], c[1]) == (8, 0.25, 4)


def test_bitwise_updates_and_products():
    a = qd.field(quant.int(8, signed=False))
    b = qd.field(quant.int(8))
    pack(a, b, bits=16)

    @qd.kernel
    def update():
        for i in range(8):
            a[i] = 0b1100
            a[i] |= 0b0011
            a[i] &= 0b0110
            a[i] ^= 0b1000
            b[i] = 3
            b[i] *= -7
            b[i] //= 2

    update()
    assert set(a.to_numpy()) == {0b1110} and set(b.to_numpy()) == {-11}


def test_neighbors_in_a_word_are_not_lost():
    x, y = qd.field(quant.int(16)), qd.field(quant.int(16))
    pack(x, y, bits=32, shape=4)

    @qd.kernel
    def update():
        for i in range(20000):
            if i % 2 == 0:
                x[i % 4] += 1
            else:
                y[(i // 2) % 4] += 1

    update()
    assert x.to_numpy().sum() == 10000 and y.to_numpy().tolist() == [2500] * 4


def test_an_element_is_passed_to_functions():
    x, y = qd.field(quant.int(6)), qd.field(quant.int(10))
    pack(x, y)

    @qd.func
    def raise_by(place: qd.template(), amount):
        place += amount

    @qd.func
    def twice(value):
        return 2 * value

    @qd.kernel
    def work():
        for i in x:
            x[i] = i
            raise_by(x[i], 3)
            y[i] = twice(x[i])

    work()
    np.testing.assert_array_equal(x.to_numpy(), np.arange(8) + 3)
    np.testing.assert_array_equal(y.to_numpy(), 2 * np.arange(8) + 6)


def test_one_kernel_for_fields_of_different_types():
    x, y, z = qd.field(quant.int(6)), qd.field(quant.fixed(10, max_value=64.0)), qd.field(qd.f32, 8)
    pack(x, y)

    @qd.kernel
    def fill(target: qd.Template):
        for i in target:
            target[i] = 1.3 * i

    for field in (x, y, z):
        fill(field)
    np.testing.assert_array_equal(x.to_numpy(), (1.3 * np.arange(8)).astype(int))
    np.testing.assert_array_equal(y.to_numpy(), np.round(1.3 * np.arange(8) * 8) / 8)
    np.testing.assert_allclose(z.to_numpy(), 1.3 * np.arange(8), rtol=1e-6)


# sizes


def test_sizes_of_cells():
    x, y, z = qd.field(quant.int(16)), qd.field(quant.int(3)), qd.field(qd.f32)
    packed = qd.BitpackedFields(32)
    packed.place(x)
    cells = qd.root.dense(qd.i, 4)
    cells.place(packed)
    assert cells._cell_size_bytes == 4
    cells.place(z)
    assert cells._cell_size_bytes == 8
    assert str(x.parent()) == "qd.root => dense [4] => bit_struct [4]" and x.parent(2) is cells
    qd.root.dense(qd.i, 4).place(y)
    assert y.parent(2)._cell_size_bytes == 1

"""Data races between iterations that write quantized elements: a race is two writes of one element, not of one word."""

import pytest

import quadrants as qd

quant = qd.types.quant
pytestmark = pytest.mark.needs("race checks")


@pytest.fixture(autouse=True)
def _runtime():
    qd.init(arch=qd.cpu, check_races=True)
    yield
    qd.reset()


def make_pack():
    x, y = qd.field(quant.int(5)), qd.field(quant.fixed(11, max_value=4.0))
    packed = qd.BitpackedFields(max_num_bits=16)
    packed.place(x, y)
    qd.root.dense(qd.i, 64).place(packed)
    return x, y


def make_bits(count=64):
    x = qd.field(quant.int(1, signed=False))
    qd.root.dense(qd.i, count // 32).quant_array(qd.i, 32, max_num_bits=32).place(x)
    return x


def test_two_writes_of_a_member_of_a_pack_are_a_race():
    x, y = make_pack()

    @qd.kernel
    def write():
        for i in range(64):
            x[i] = i
            y[i // 2] = 1.0

    with pytest.raises(qd.QuadrantsAssertionError, match=r"element at bit 5 of a word, .*\[\d+\] is written by iteration .* by another"):
        write()
        qd.sync()


def test_two_writes_of_an_element_of_an_array_are_a_race():
    x = make_bits()

    @qd.kernel
    def write():
        for i in range(60):
            x[i + (i == 40)] = 1

    with pytest.raises(qd.QuadrantsAssertionError, match=r"element at bit 9 of a word, .*\[1\] is written"):
        write()
        qd.sync()


def test_a_race_between_iterations_over_one_word():
    x = make_bits()

    @qd.kernel
    def write():
        for i in x:
            if i == 3 or i == 5:
                x[2] = 1

    with pytest.raises(qd.QuadrantsAssertionError, match=r"element at bit 2 of a word, .*\[0\] is written by iteration \([35]\)"):
        write()
        qd.sync()


def test_a_write_beside_an_update_is_a_race():
    x, _ = make_pack()

    @qd.kernel
    def write():
        for i in range(64):
            if i == 9:
                x[7] = 1
            else:
                x[i] += 1

    with pytest.raises(qd.QuadrantsAssertionError, match=r"element at bit 0 of a word"):
        write()
        qd.sync()


def test_writes_of_neighbors_in_a_word_are_no_race():
    (x, y), bits = make_pack(), make_bits()

    @qd.kernel
    def write():
        for i in range(128):
            if i % 2 == 0:
                x[i // 2] = i // 2 % 16
            else:
                y[i // 2] = 0.5
        for i in range(64):
            bits[i] = 1
        for i in bits:
            bits[i] = bits[i] & (i >> 1)
        for i in range(640):
            x[i % 64] += 1

    write()
    qd.sync()
    assert [x[i] for i in (0, 5, 15)] == [10, 15, -7] and y[63] == 0.5
    assert bits.to_numpy().tolist() == [i >> 1 & 1 for i in range(64)]

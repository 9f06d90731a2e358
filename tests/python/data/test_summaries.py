"""Containers at prompts: texts, tables, sums, functions and operators of NumPy."""

import numpy as np
import pytest

import quadrants as qd


@pytest.fixture(autouse=True)
def runtime():
    qd.init(arch=qd.cpu, offline_cache=False, log_level="error")
    yield
    qd.reset()


NUMBERS = np.array([[1, 5, 2], [-3, 4, 0]])
MAKERS = [
    lambda: qd.field(qd.f32, (2, 3)),
    lambda: qd.ndarray(qd.i32, (2, 3)),
    lambda: qd.tensor(qd.f64, (2, 3)),
    lambda: qd.field(qd.i64, (2, 3), order="ji"),
]


def filled(make):
    made = make()
    made.from_numpy(NUMBERS)
    return made


@pytest.mark.parametrize("make", MAKERS)
def test_sums_and_extremes_are_those_of_numpy(make):
    x = filled(make)
    assert (x.sum(), x.mean(), x.min(), x.max()) == (9, 1.5, -3, 5)
    for name in ("sum", "mean", "min", "max"):
        assert np.allclose(getattr(x, name)(axis=1), getattr(NUMBERS, name)(axis=1))
        assert getattr(x, name)(axis=1).tolist() == getattr(np, name)(x, axis=1).tolist()
    assert np.sum(x, dtype=np.int8).dtype == np.int8 and x.sum(axis=0, keepdims=True).shape == (1, 3)


@pytest.mark.parametrize("make", MAKERS)
def test_functions_of_numpy(make):
    x = filled(make)
    results = [np.add(x, 1), 2 * NUMBERS + x, x + NUMBERS, np.where(x, 1, 0), np.concatenate([x, x]), np.hypot(x, 1), np.cumsum(x, 1)]
    n = NUMBERS
    expected = [n + 1, 3 * n, 2 * n, np.where(n, 1, 0), np.concatenate([n, n]), np.hypot(n, 1), np.cumsum(n, 1)]
    for result, values in zip(results, expected, strict=True):
        assert type(result) is np.ndarray and np.allclose(result, values)
    assert np.add.reduce(x, axis=None) == 9 and np.maximum.accumulate(x, axis=1)[0].tolist() == [1, 5, 5]


def test_a_container_receives_results():
    x, y = filled(MAKERS[0]), qd.ndarray(qd.f32, (2, 3))
    assert np.multiply(x, 2, out=y) is y and y.to_numpy().tolist() == (2 * NUMBERS).tolist()
    assert np.modf(y, out=(x, y)) == (x, y) and not x.to_numpy().any()
    np.add.at(y, ([0, 0], [1, 1]), 1)
    assert y[0, 1] == 12
    plain = np.ones((2, 3), np.float32)
    plain += y
    assert plain[0, 1] == 13


@pytest.mark.parametrize("make", MAKERS)
def test_functions_of_numpy_change_containers(make):
    x, n = filled(make), NUMBERS.copy()
    for each in (x, n):
        np.put(each, 1, 9)
        np.fill_diagonal(each, 7)
        np.putmask(each, NUMBERS < 0, 6)
    assert x.to_numpy().tolist() == n.tolist() == [[7, 9, 2], [6, 7, 0]]
    np.copyto(x, NUMBERS)
    assert x.to_numpy().tolist() == NUMBERS.tolist()
    given = np.ones((1, 3), x.to_numpy().dtype)
    assert np.concatenate([given, 2 * given], out=x) is x and x.to_numpy().tolist() == [[1] * 3, [2] * 3]


def test_tuples_of_axes_and_of_results():
    x, first, second = (qd.field(dtype, (2, 3)) for dtype in (qd.f32, qd.f32, qd.i32))
    x.fill(3)
    assert np.sum(x, axis=(0, 1)) == 18
    assert np.frexp(x, out=(first, second)) == (first, second)
    assert first.to_numpy().tolist() == [[0.75] * 3] * 2 and second.to_numpy().tolist() == [[2] * 3] * 2


def test_functions_of_numpy_see_elements_as_further_axes():
    x = qd.Vector.field(3, qd.f32, 4)
    assert np.shape(x) == (4, 3) and np.ndim(x) == 2 and np.size(x) == 12
    assert np.result_type(x) == np.float32 and np.array2string(x) == str(np.zeros((4, 3), np.float32))


def test_functions_of_numpy_that_cannot_change_a_container_say_what_to_write():
    with pytest.raises(ValueError, match=r"np.nan_to_num cannot change a container here: .* x.from_numpy\(np.nan_to_num"):
        np.nan_to_num(filled(MAKERS[0]), copy=False)


@pytest.mark.parametrize("make", MAKERS)
def test_operators_say_what_to_write(make):
    x = filled(make)
    kind = type(x).__name__
    with pytest.raises(TypeError, match=rf"for \+: '{kind}' and 'int': containers have no arithmetic .* x.to_numpy\(\) \+ 1"):
        x + 1
    with pytest.raises(TypeError, match=rf"for \*: 'float' and '{kind}'"):
        0.5 * x
    with pytest.raises(TypeError, match=f"for /: '{kind}' and '{kind}'"):
        x / x
    with pytest.raises(TypeError, match="for -:"):
        x -= 1


@pytest.mark.parametrize("make", MAKERS)
def test_comparisons_and_unary_operators_say_what_to_write(make):
    x = filled(make)
    assert (np.zeros((2, 3)) < x).tolist() == (NUMBERS > 0).tolist() and (x >= np.float32(2)).sum() == 3
    with pytest.raises(TypeError, match=r"for <: .* x.to_numpy\(\) < 1"):
        x < 1  # noqa: B015
    for refuse, how in ((lambda: -x, "-x.to_numpy()"), (lambda: abs(x), "abs(x.to_numpy())"), (lambda: ~x, "~x.to_numpy()")):
        with pytest.raises(TypeError, match="bad operand type") as caught:
            refuse()
        assert str(caught.value).endswith(f"compute with NumPy: {how}")


Inner = qd.types.struct(min=qd.f32, n=qd.i32)
STRUCTS = [
    lambda: qd.types.struct(inner=Inner, v=qd.types.vector(2, qd.f32)).field(shape=3),
    lambda: qd.types.struct(inner=Inner, v=qd.types.vector(2, qd.f32)).ndarray(3),
]


@pytest.mark.parametrize("make", STRUCTS)
def test_functions_of_numpy_on_structs(make):
    s = make()
    s.v.from_numpy(np.arange(6.0).reshape(3, 2))
    s.inner.min.fill(2)  # a member may have the name of a function
    joined = np.concatenate([s, s])
    assert joined.shape == (6,) and joined["inner"]["min"].sum() == 12 and np.shape(s) == (3,)
    assert np.sum(s.v) == 15 and np.add.reduce(s.inner.min) == 6
    changed = np.asarray(s).copy()
    changed["v"] += 1
    np.copyto(s, changed)
    assert np.sum(s.v) == 21


@pytest.mark.parametrize("make", STRUCTS)
def test_structs_that_have_ended_say_so(make):
    ended = make()
    qd.reset()
    with pytest.raises(qd.QuadrantsRuntimeError, match=r"created before qd.reset\(\)"):
        np.asarray(ended)


@pytest.mark.parametrize("make", STRUCTS)
def test_functions_of_numpy_that_do_not_know_structs_say_what_to_write(make):
    s = make()
    for name in ("sum", "mean", "max", "sin", "abs", "cumsum", "dot", "stack"):
        arguments = [[s, np.ones(3)]] if name == "stack" else [s, s] if name == "dot" else [s]
        with pytest.raises(
            TypeError, match=r"np\.\w+ cannot compute with structs: call it for each member, as in np\.\w+\(x\.inner\.min\)"
        ):
            getattr(np, name)(*arguments)
    for refuse in (lambda: np.ones(3) + s, lambda: np.add(s, 1), lambda: np.add.reduce(s), lambda: np.ones(3) < s):
        with pytest.raises(TypeError, match="cannot compute with structs"):
            refuse()
    for refuse in (lambda: s + 1, lambda: 2 * s, lambda: -s, lambda: s < 1, lambda: s @ s):
        with pytest.raises(TypeError, match=r"compute with NumPy: -?x.inner.min.to_numpy\(\)"):
            refuse()


def test_short_and_long_texts():
    assert repr(filled(MAKERS[1])) == "<qd.ndarray of i32, shape (2, 3):\n[[ 1  5  2]\n [-3  4  0]]>"
    assert repr(qd.field(qd.f32, shape=())) == "<qd.field of f32, shape (): 0.>"
    assert repr(qd.field(qd.u8, shape=5000)) == "<qd.field of u8, shape (5000,): [0 0 0 ... 0 0 0]>"
    assert repr(filled(MAKERS[2])).endswith("values=[[ 1.  5.  2.]\n        [-3.  4.  0.]])")
    assert str(NUMBERS) in repr(filled(MAKERS[3]))


def test_tables():
    x = qd.field(qd.f32, shape=(20, 2), name="<a>")
    x[19, 1] = 1 / 3
    table = x._repr_html_()
    assert "<code>qd.field of f32, shape (20, 2), name '&lt;a&gt;'</code>" in table
    assert table.count("<tr>") == 10 and "<tr><td>19</td><td>0</td><td>0.333333</td></tr>" in table and "<tr><td>…</td><td>…</td>" in table
    assert "<tr><td></td><td>0</td><td>0</td></tr>" in qd.ndarray(qd.i32, 2)._repr_html_()
    for plain in (qd.field(qd.f32, shape=()), qd.Vector.field(2, qd.f32, shape=3), qd.field(qd.f32), qd.ndarray(qd.f32, (0, 3))):
        assert plain._repr_html_().startswith("<pre>&lt;")
    assert "<code>Tensor(shape=(2,), dtype=f32, backend=NDARRAY)</code>" in qd.tensor(qd.f32, 2)._repr_html_()


def test_tables_of_views():
    x = filled(MAKERS[1])
    table = x[:, 1:]._repr_html_()
    assert "<code>BufferView(dtype=i32, offset=1, shape=(2, 2), strides=(3, 1))</code>" in table
    assert "<tr><td>0</td><td>5</td><td>2</td></tr>" in table
    assert qd.Vector.ndarray(2, qd.f32, 3)[1:]._repr_html_().startswith("<pre>BufferView(")


def test_tables_of_structs():
    x = qd.Struct.field({"m": qd.f32, "p": qd.types.struct(q=qd.i32)}, shape=2)
    x.p.q[1] = 7
    table = x._repr_html_()
    assert table.startswith("<p><code>qd.Struct.field of m=f32, ")
    assert "<b>m</b>" in table and "<b>q</b>" in table and "<tr><td></td><td>0</td><td>7</td></tr>" in table


def test_texts_change_nothing():
    declared = qd.field(qd.f32, name="later")
    qd.root.dense(qd.i, 3).place(declared)
    assert repr(declared) == "<qd.field of f32, shape (3,), name 'later'>" and declared._state == "unplaced"

"""Parts of arrays in kernels: `a[start:stop, ...]`, their size and elements."""

import re

import numpy as np
import pytest
from language_support import define

import quadrants as qd

pytestmark = pytest.mark.usefixtures("on_every_backend")

ARRAY = "qd.types.ndarray(dtype=qd.i32, ndim=1)"
PREAMBLE = """
@qd.func
def total(v):
    s = 0
    for i in range(v.size):
        s += v[i]
    return s

@qd.func
def double(v):
    for i in range(len(v)):
        v[i] *= 2
"""


def call(body, *arguments, annotation=ARRAY, returns="qd.i32"):
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    kernel = define(f"{PREAMBLE}\n@qd.kernel\ndef k(a: {annotation}, n: qd.i32) -> {returns}:\n{lines}")["k"]
    return kernel(*arguments)


def counted(size=10):
    array = qd.ndarray(qd.i32, shape=size)
    array.from_numpy(np.arange(size, dtype=np.int32))
    return array


@pytest.mark.parametrize(
    "expression, expected",
    [
        ("total(a[2:5])", 9),
        ("total(a[n:])", 42),
        ("total(a[:n])", 3),
        ("total(a[:])", 45),
        ("total(a[n:n])", 0),
        ("total(a[n:n + 4][1:3])", 9),
        ("total(a[2:9].subview(n, 2))", 11),
        ("a[n:][1]", 4),
        ("a[n:8][1:].size * 100 + a[n:8][1:].offset", 404),
        ("a[n:8].shape[0] + len(a[2:])", 13),
        ("total(a[qd.i8(1):n])", 3),
    ],
)
def test_views_of_arrays_are_read(expression, expected):
    assert call(f"return {expression}", counted(), 3) == expected


def test_views_of_numpy_arrays_are_read():
    assert call("return total(a[n:n + 4])", np.arange(20, dtype=np.int32)[::2], 3) == 6 + 8 + 10 + 12


@pytest.mark.parametrize(
    "body",
    [
        "w = a[n:7]\nfor i in w:\n    w[i] = w[i] * 2",
        "w = a[n:7]\nfor i in range(w.size):\n    w[i] *= 2",
        "w = a[n:][:7 - n]\nfor I in qd.grouped(w):\n    w[I] *= 2",
        "double(a[n:7])",
        "for k in range(1):\n    double(a[n:7])",
        "double(qd.static(a)[n:7])",
    ],
)
def test_views_are_written(body):
    array = counted()
    call(f"{body}\nreturn 0", array, 3)
    assert array.to_numpy().tolist() == [0, 1, 2, 6, 8, 10, 12, 7, 8, 9]


def test_elements_of_views_are_targets_of_atomics():
    array = counted()
    call("w = a[n:7]\nfor i in range(100):\n    w[i % 2] += 1\n    qd.atomic_max(w[2], i)\nreturn 0", array, 3)
    assert array.to_numpy().tolist() == [0, 1, 2, 53, 54, 99, 6, 7, 8, 9]


def test_views_of_vectors_have_components():
    array = qd.Vector.ndarray(2, qd.f32, shape=5)
    body = "w = a[n:]\nfor i in w:\n    w[i] = qd.Vector([i, 10.0])\n    w[i][1] += i\nreturn w[1].y"
    annotation = "qd.types.ndarray(dtype=qd.types.vector(2, qd.f32), ndim=1)"
    assert call(body, array, 3, annotation=annotation, returns="qd.f32") == 11.0
    assert array.to_numpy()[3:].tolist() == [[0.0, 10.0], [1.0, 11.0]]


@pytest.mark.parametrize(
    "expression, kind, text",
    [
        ("a[0:6:n].size", qd.QuadrantsSyntaxError, "the step of a slice is an integer other than 0 that is known while compiling"),
        ("a[0:6:0].size", qd.QuadrantsSyntaxError, "the step of a slice is an integer other than 0 that is known while compiling"),
        ("a[1.5:].size", qd.QuadrantsTypeError, "indices must be integers"),
        ("a[-3:].size", qd.QuadrantsSyntaxError, "Negative indices are not supported"),
        ("a[:-1].size", qd.QuadrantsSyntaxError, "Negative indices are not supported"),
        ("a[1:][-1]", qd.QuadrantsSyntaxError, "Negative indices are not supported"),
        ("a[1:][0, 1]", IndexError, "indexed with 2d indices"),
        ("a[1:].foo", qd.QuadrantsCompilationError, "foo"),
    ],
)
def test_wrong_uses_of_views_are_refused(expression, kind, text):
    with pytest.raises(kind, match=text):
        call(f"return {expression}", counted(), 3)


GRID = np.arange(24, dtype=np.int32).reshape(4, 6)
CONTAINERS = ["ndarray", "field", "numpy", "column-major", "strided"]


def grid(kind):
    if kind in ("numpy", "strided"):
        return np.array(GRID) if kind == "numpy" else np.repeat(GRID, 2, 1)[:, ::2]
    make = {"ndarray": qd.ndarray, "field": qd.field, "column-major": lambda *arguments: qd.tensor(*arguments, layout=(1, 0))}[kind]
    made = make(qd.i32, (4, 6))
    made.from_numpy(GRID)
    return made


@pytest.mark.parametrize("kind", CONTAINERS)
@pytest.mark.parametrize(
    "expression, expected",
    [
        ("total(a[n, :])", GRID[2].sum()),
        ("total(a[:, n])", GRID[:, 2].sum()),
        ("a[n, :][n + 1] + a[n, 1:][0]", GRID[2, 3] + GRID[2, 1]),
        ("total(a[1:n + 1, 3])", GRID[1:3, 3].sum()),
        ("total(a[n, ::2])", GRID[2, ::2].sum()),
        ("total(a[n, ::-1][:2])", GRID[2, ::-1][:2].sum()),
        ("total(a[:, 1:5][1:][n, 3:0:-2])", GRID[:, 1:5][1:][2, 3:0:-2].sum()),
        ("total(a[..., n][::-3])", GRID[..., 2][::-3].sum()),
        ("a[1:, n:].offset * 100 + a[1:, n:].size", 812),
        ("a[::2, ::-3].strides[0] * 100 + a[::2, ::-3].strides[1]", 1197),
        ("a[1:, n].shape[0] * 100 + len(a[:, 1:].shape) * 10 + a[1:].ndim", 322),
        ("a.size + len(a)", 28),
        ("total(qd.BufferView(a[n, :], 2, 3))", GRID[2, 2:5].sum()),
        ("total(a[n, :].subview(n, 1))", GRID[2, 2]),
    ],
)
def test_parts_of_containers_with_two_axes(kind, expression, expected):
    assert call(f"return {expression}", grid(kind), 2, annotation="qd.Tensor") == expected


@pytest.mark.parametrize("kind", CONTAINERS)
def test_columns_are_written_as_rows(kind):
    target, source = grid("numpy").T.copy(), grid(kind)
    body = "for j in range(6):\n    for i in range(4):\n        row, column = b[j, :], a[:, j]\n        row[i] = column[i] * n\nreturn 0"
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    define(f"@qd.kernel\ndef k(a: qd.Tensor, b: qd.types.ndarray(), n: qd.i32) -> qd.i32:\n{lines}")["k"](source, target, 3)
    assert (target == GRID.T * 3).all()


@pytest.mark.parametrize("kind", CONTAINERS)
def test_loops_over_parts(kind):
    array, expected = grid(kind), GRID.copy()
    body = "part = a[1:, ::n]\nfor i, j in part:\n    part[i, j] = -part[i, j]\nfor i, j in part[1:, 1:2]:\n    part[i, j] = 100\nreturn 0"
    call(body.replace("::n", "::2"), array, 2, annotation="qd.Tensor")
    expected[1:, ::2] *= -1
    expected[1:, ::2][1:, 1:2] = 100
    assert (np.asarray(array) == expected).all()


@pytest.mark.parametrize("view", ["a[:6]", "a[1:7:2]", "a[n:9]"])
def test_indices_of_views_are_i32_whatever_default_ip_is(on_every_backend, view):
    on_every_backend(default_ip=qd.i64)
    assert call(f"s = 0\nv = {view}\nfor i in v:\n    s += qd.bit_cast(i, qd.i32)\nreturn s", counted(), 7) in (15, 3, 1)


def test_views_of_containers_with_an_offset():
    for make in (qd.field, lambda *arguments, offset: qd.tensor(*arguments, offset=offset)):
        array = make(qd.i32, (4, 6), offset=(-1, 10))
        array.from_numpy(GRID)
        assert array[-1, 10] == 0 and array[2, 15] == 23
        assert call("return total(a[n, 12:14]) * 1000 + a[n - 1:, 12].offset", array, 1, annotation="qd.Tensor") == (14 + 15) * 1000 + 8
        body = "s = 0\nfor i, j in a:\n    s += i * j * a[i, j]\nreturn s + a[-1, n + 10]"
        wanted = (np.arange(-1, 3)[:, None] * np.arange(10, 16) * GRID).sum() + 1
        assert call(body, array, 1, annotation="qd.Tensor") == wanted
        with pytest.raises((IndexError, qd.QuadrantsSyntaxError)):
            call("return a[-2, 10]", array, 1, annotation="qd.Tensor")
        with pytest.raises(IndexError):
            array[-2, 10]


def test_too_few_indices_are_refused():
    for expression, array, text in [
        ("a[n]", grid("ndarray"), "2d ndarray indexed with 1d indices"),
        ("a[n][1]", grid("field"), "Field with dim 2 accessed with indices of dim 1"),
        ("a[1:][n]", grid("ndarray"), "2d view indexed with 1d indices"),
        ("a[:, 1][n, 1]", grid("ndarray"), "1d view indexed with 2d indices"),
    ]:
        with pytest.raises(IndexError, match=text):
            call(f"return {expression}", array, 1, annotation="qd.Tensor")
    with pytest.raises(qd.QuadrantsTypeError, match="a view has no value"):
        call("return a[n:] + 1", counted(), 1)


def test_debug_mode_checks_views(on_every_backend):
    on_every_backend(debug=True)
    assert call("return a[n:5][1]", counted(), 3) == 4

    def fails(body, text, array=None, annotation=ARRAY):
        with pytest.raises(qd.QuadrantsAssertionError, match=re.escape(text)):
            call(body, counted() if array is None else array, 3, annotation=annotation)

    fails("return a[n:5][n - 1]", "BufferView Out Of Range: kernel[k] tid=0, got index 2 (offset=3, size=2).")
    fails("return a[n:5][-n]", "got index -3 (offset=3, size=2).")
    fails("return a[n:12].size", "BufferView subview Out Of Range: kernel[k] tid=0, subview offset=3, subview size=9, parent size=10.")
    fails("return a[n:2].size", "subview offset=3, subview size=-1, parent size=10.")
    fails("return a[n + 8::-1].size", "subview offset=11, subview size=12, parent size=10.")
    fails("return a[n:5].subview(1, n).size", "subview offset=1, subview size=3, parent size=2.")
    fails("return qd.BufferView(a, n, 9).size", "BufferView construction out of range: offset=3, size=9, ndarray length=10.")
    fails("return a[n + 2]", "got index 5 (offset=4, size=5).", counted()[4:9], "qd.BufferView")
    fails("return a[1, :][n]", "got index 3 (offset=7, size=3).", grid("ndarray")[:, 1:4], "qd.BufferView")
    fails("return a[n, 4]", "got index (3, 4) (offset=1, shape=(4, 3)).", grid("ndarray")[:, 1:4], "qd.BufferView")
    fails("return a[n + 7]", "Out of bound access to ndarray at arg 0 with indices [10]", counted(), "qd.BufferView")
    assert call("return a[n:5][1]", counted(), 3) == 4  # launches go on


def test_failed_checks_of_views_list_the_calls(on_every_backend):
    on_every_backend(debug=True)
    preamble = "@qd.func\ndef inner(v, i):\n    return v[i]\n\n@qd.func\ndef outer(v, i):\n    return inner(v, i)\n"
    body = "    s = 0\n    for i in range(8):\n        s += outer(v, i)\n    return s\n"
    kernel = define(f"{preamble}\n@qd.kernel\ndef k(v: qd.BufferView) -> qd.i32:\n{body}")["k"]
    with pytest.raises(qd.QuadrantsAssertionError) as caught:
        kernel(counted()[2:9])
    text = str(caught.value)
    assert re.search(
        r"BufferView Out Of Range: kernel\[k\] tid=\d+, got index 7 \(offset=2, size=7\)\.\nCallstack:\nk \(<language test \d+>:13\)", text
    )
    assert re.search(r"\n  outer \(<language test \d+>:7\)\n    inner \(<language test \d+>:3\)(\n|$)", text)

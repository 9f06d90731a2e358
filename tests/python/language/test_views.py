"""Windows of arrays in kernels: `a[start:stop]`, their size and elements (spec 2 S21.4)."""

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
        ("a[0:6:2].size", qd.QuadrantsSyntaxError, "does not support an explicit step in kernels"),
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


def test_debug_mode_checks_views(on_every_backend):
    on_every_backend(debug=True)
    assert call("return a[n:5][1]", counted(), 3) == 4
    with pytest.raises(qd.QuadrantsAssertionError, match=r"BufferView Out Of Range: .*got index 2 \(offset=3, size=2\)\."):
        call("return a[n:5][n - 1]", counted(), 3)
    with pytest.raises(qd.QuadrantsAssertionError, match=r"subview offset=3, subview size=9, parent size=10\."):
        call("return a[n:12].size", counted(), 3)
    with pytest.raises(qd.QuadrantsAssertionError, match=r"subview offset=3, subview size=-1, parent size=10\."):
        call("return a[n:2].size", counted(), 3)

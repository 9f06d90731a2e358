"""Elements that an iteration stores and reads again: on the CPU they are variables of the iteration, stored once."""

import numpy as np
import pytest
from language_support import define
from random_loops import ANY, indent, integers, run_in_python

import quadrants as qd

LOOPS = """\
for i in range(n):
    x[i] += y[i]
    if x[i] > 4:
        x[i] = -x[i]

for i in range(n):
    x[i] = 0
    for j in range(y[i]):
        x[i] += j * y[i]
    y[i] = x[i]
    y[i] += 1

for i in range(n):
    if y[i] > 3:
        x[i] = 7
        y[i] = x[i]
    x[i] = x[i] * 2 + y[i]

for i in range(n):
    x[i] += 1
    if x[i] > 5:
        continue
    x[i] = x[i] * 3

for i in range(n - 1):
    x[i] += 1
    y[i] = x[i] + x[n - 1]
    y[i] *= 2

for i in range(n):
    z[i, 0] += z[i, 1]
    z[i, 1] = z[i, 0] - 2
    if z[i, 1] > 3:
        z[i, 2] = z[i, 1] + z[i, 0]
        z[i, 0] = y[i]

for i in range(n):
    for j in range(3):
        z[i, j] += x[i]
        z[i, j] ^= z[i, j] * y[i]

for i in range(n):
    z[i, 0] = 0
    for j in range(3):
        z[i, 0] += z[i, j]
    x[i] = z[i, 0]""".split("\n\n")


@pytest.mark.parametrize("n", [1, 5, 37])
@pytest.mark.parametrize("loop", LOOPS)
def test_loops_give_what_python_gives(loop, n, on_every_backend):
    code = "n = x.shape[0]\n" + loop
    kernel = define(f"@qd.kernel\ndef k(x: {ANY}, y: {ANY}, z: {ANY}):\n{indent(code)}")["k"]
    arrays = [integers(n), integers(n)[::-1].copy(), integers(n, 3)]
    expected = [array.copy() for array in arrays]
    kernel(*arrays)
    run_in_python(code, "xyz", expected)
    for ours, theirs in zip(arrays, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_arrays_on_one_memory(on_every_backend):
    kernel = define(
        f"@qd.kernel\ndef k(x: {ANY}, y: {ANY}):\n    for i in range(x.shape[0]):\n        x[i] += 1\n        y[i] += x[i]\n"
        "        x[i] += y[i]"
    )["k"]
    memory = integers(30)
    first = memory + 1
    kernel(memory, memory)
    np.testing.assert_array_equal(memory, 4 * first)
    apart, other = integers(30), integers(30)
    kernel(apart, other)
    np.testing.assert_array_equal(other, integers(30) + first)
    np.testing.assert_array_equal(apart, first + other)


@pytest.mark.parametrize("dtype", [qd.f32, qd.f64, qd.i8])
def test_components_and_members(dtype, on_every_backend):
    module = define(f"""\
v = qd.Vector.field(3, qd.{dtype}, 45)
m = qd.Matrix.field(2, 2, qd.{dtype}, (5, 9))
p = qd.types.struct(x=qd.types.vector(3, qd.{dtype}), v=qd.types.vector(3, qd.{dtype}), a=qd.{dtype}).field(shape=45)

@qd.kernel
def k():
    for i in v:
        for c in qd.static(range(2)):
            v[i][c] += 3
            if v[i][c] > 20:
                v[i][c] -= 20
    for i, j in m:
        m[i, j][0, 0] = i
        m[i, j][1, 1] = m[i, j][0, 0] + j
        m[i, j][1, 0] += m[i, j][1, 1]
    for i in p:
        p[i].x += p[i].v
        for c in qd.static(range(3)):
            if p[i].x[c] > 9:
                p[i].x[c] = 9
                p[i].v[c] = -p[i].v[c]
        p[i].a = p[i].x[0] + p[i].v[2]
""")
    numbers = np.arange(135).reshape(45, 3) % 30
    v, x, w = numbers.astype(module["v"].to_numpy().dtype), numbers % 7, numbers % 5
    module["v"].from_numpy(v)
    module["m"].from_numpy(np.ones((5, 9, 2, 2), v.dtype))
    module["p"].from_numpy({"x": x.astype(v.dtype), "v": w.astype(v.dtype), "a": np.zeros(45, v.dtype)})
    module["k"]()
    moved = numbers[:, :2] + 3
    np.testing.assert_array_equal(module["v"].to_numpy(), np.concatenate([np.where(moved > 20, moved - 20, moved), numbers[:, 2:]], axis=1))
    i, j = np.indices((5, 9))
    np.testing.assert_array_equal(module["m"].to_numpy(), np.moveaxis([[i, np.ones_like(i)], [1 + i + j, i + j]], (0, 1), (2, 3)))
    x, w = np.minimum(x + w, 9), np.where(x + w > 9, -w, w)
    found = module["p"].to_numpy()
    for name, expected in {"x": x, "v": w, "a": x[:, 0] + w[:, 2]}.items():
        np.testing.assert_array_equal(found[name], expected)

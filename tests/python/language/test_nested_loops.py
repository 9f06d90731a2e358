"""Loops inside of parallel loops, which become axes of them where lanes reach neighbors along the inner loop only."""

import random

import numpy as np
import pytest
from language_support import define, leave_out_long
from random_loops import ANY, indent, integers, run_in_python

import quadrants as qd

NESTS = [
    "for i in range(n):\n    for j in range(m):\n        x[i, j] = y[i, j] * 2 + z[j]",
    "for i in range(1, n - 1):\n    for j in range(2, m - 1):\n        x[i, j] = y[i + 1, j] - y[i - 1, j] + y[i, j - 1]",
    "for i in range(n):\n    first = y[i, 0]\n    if m > 3:\n        first = 5\n    for j in range(m):\n        x[i, j] += first + z[j]",
    "for i in range(n):\n    a = i * 3\n    b = a + z[i]\n    for j in range(m):\n        x[i, j] = a + b * j",
    # An element of the written array is read before the inner loop, and changed in it.
    "for i in range(n):\n    first = x[i, 0]\n    for j in range(m):\n        x[i, j] += first",
    "for i in range(n):\n    for j in range(m):\n        x[i, j] += x[i, 0]",
    "for i in range(n):\n    for j in range(1, m):\n        x[i, j] += x[i, j - 1]",
    "for i in range(n):\n    s = 0\n    for j in range(m):\n        s += y[i, j]\n        x[i, j] = s",
    "for i in range(n):\n    last = 0\n    for j in range(m):\n        last = y[i, j]\n    x[i, 0] = last",
    "for i in range(n):\n    for j in range(i):\n        x[i, j] = y[i, j] + i",
    "for i in range(n):\n    for j in range(z[i] % m):\n        x[i, j] = y[i, j] + i",
    "for i in range(n):\n    for j in range(m):\n        if y[i, j] == 3:\n            break\n        x[i, j] = i",
    "for i in range(n):\n    for j in range(m):\n        if y[i, j] == 3:\n            continue\n        x[i, j] = i + j",
    "for i in range(n):\n    for j in range(m):\n        for k in range(5):\n            x[i, j] = x[i, j] * 3 + y[i, k] & 63",
    "for i in range(n):\n    for k in range(4):\n        for j in range(m):\n            x[i, j] = x[i, j] * 3 + y[i, j] + k & 63",
    "for i in range(n):\n    for j in range(m):\n        x[i, m - 1 - j] = y[i, j]",
    "for i in range(n):\n    for j in range(m - 1, -1, -1):\n        x[i, j] = y[i, j]",
    "for i in range(n):\n    for j in range(0, m, 3):\n        x[i, j] = y[i, j]",
    "for i in range(n):\n    for j in range(m // (n - n + 2)):\n        x[i, j] = y[i, j] + 1",
    "for i in range(n):\n    for j in range(m):\n        k = 0\n        while k < y[i, j]:\n            k += 2\n        x[i, j] = k",
]
# Loops along rows with others beside them: from 16 iterations on they run in lanes of their own.
ROWS = """\
for i in range(n):
    s = 0
    for j in range(m):
        s += y[i, j]
    for j in range(m):
        x[i, j] = y[i, j] * 2 - s

for i in range(n):
    a, b = y[i, 0], 1000
    for j in range(m):
        a, b = max(a, y[i, j]), min(y[i, j], b)
    x[i, 0] = a * 100 + b

for i in range(n):
    s = 5
    for j in range(1, m - 1):
        s -= y[i, j - 1] * y[i, j + 1]
    x[i, 1] = s

for i in range(n):
    s, t = 0, 0
    for j in range(m):
        if y[i, j] > 2:
            s += z[j]
            continue
        t ^= y[i, j] + j
    x[i, 0], x[i, 1] = s, t

for i in range(n):
    s = 0
    for j in range(m):
        for k in range(y[i, j]):
            s += k
    x[i, 0] = s

for i in range(n):
    for j in range(m):
        x[i, j] = 0
    for k in range(3):
        a = y[i, k]
        for j in range(m):
            x[i, j] += a * z[j]

for i in range(n):
    if z[i] > 2:
        for j in range(m):
            x[i, j] = i + y[i, j]
    else:
        x[i, 0] = 7

for i in range(n):
    for k in range(4):
        if y[i, k] == 3:
            break
        for j in range(m):
            x[i, j] += k

for i in range(n):
    s = 0
    for j in range(m):
        s += y[i, j]
        x[i, 0] = s

for i in range(n):
    s = 0
    for j in range(m):
        s = s * 2 + y[i, j] & 63
    x[i, 0] = s

for i in range(n):
    s = 0
    for j in range(m):
        s += y[i, j]
        s += z[j]
    for j in range(m):
        s -= 1
    x[i, 0] = s

for i in range(n):
    s = 1
    for j in range(m):
        t = s
        s += y[i, j]
        x[i, j] = t
    x[i, 0] += s

for i in range(n):
    for j in range(2):
        x[i, j] = 1
    for j in range(m):
        x[i, j] += x[i, 0]
    for j in range(m):
        x[i, j] += z[j]

for i in range(n):
    at = z[i] % n
    s = 0
    for j in range(m):
        s += y[at, j]
    x[i, 2] = s

for i in range(n):
    for j in range(m):
        x[i, j] = y[i, j] + i
    x[i, 1] = x[i, m - 1] + x[i, 0]
    x[i, 0] = x[i, 1] * 2
    for j in range(1, m):
        x[i, j] += x[i, 0]

for i in range(n):
    if y[i, 0] > 3:
        x[i, 0] = 9
        continue
    s = x[i, 1]
    for j in range(m):
        s |= y[i, j] * 8
    if s > 16:
        x[i, 2] = s
        for j in range(2, m):
            x[i, j] -= s

for i in range(n):
    for k in range(z[i] % 4):
        s = 1
        for j in range(m - k):
            s *= 1 - (y[i, j] & 2)
        x[i, k] += s

for i in range(n):
    for j in range(m):
        x[i, j] = min(x[i, j], x[i, 3] + y[i, j])

for i in range(n):
    middle = m // 2
    for j in range(1, m):
        x[i, j] = x[i, j] * 3 + x[i, middle] + x[i, middle] & 63

for i in range(n):
    s = 0
    for j in range(m):
        s += x[i, m - 1]
        x[i, j] += 1
        x[i, j] ^= x[i, m - 1]
    x[i, 0] = s

for i in range(n):
    for j in range(2, m):
        x[i, j] += x[i, 1] * x[i, 0]

for i in range(n):
    for j in range(m - 2):
        x[i, j] += x[i, m - 1] - x[i, m - 2]

for i in range(n):
    for j in range(m):
        x[i, j] += x[i, 4]
        x[i, 4] = 3""".split("\n\n")
NESTS += ROWS
HEAD = "n, m = x.shape[0], x.shape[1]\n"


@pytest.mark.parametrize("shape", [(5, 40), (3, 21), (3, 7), (0, 9)])
@pytest.mark.parametrize("nest", NESTS)
def test_nests_give_what_python_gives(nest, shape, on_every_backend):
    kernel = define(f"@qd.kernel\ndef k(x: {ANY}, y: {ANY}, z: {ANY}):\n{indent(HEAD + nest)}")["k"]
    arrays = [integers(*shape), integers(*shape)[::-1].copy(), integers(max(shape))]
    expected = [array.copy() for array in arrays]
    kernel(*arrays)
    run_in_python(HEAD + nest, "xyz", expected)
    for ours, theirs in zip(arrays, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)


# Rows of a few elements, whose number is known: vectors of their own, if they fill them.
SHORT = [
    "for p in range(n):\n    for i in range(m):\n        for j in range(M):\n            s = 0\n            for k in range(M):\n"
    "                s += y[p, i, k] * z[p, k % m, j]\n            x[p, i, j] = s",
    "for p in range(n):\n    a = y[p, 0, 1]\n    for j in range(M):\n        x[p, 0, j] = z[p, 1, j] * a + j\n    x[p, 1, 0] += a",
    "for p in range(n):\n    for i in range(m):\n        for j in range(M):\n            x[p, i, j] += y[p, 0, i] * z[p, 0, j]",
    "for p in range(n):\n    for i in range(m):\n        for j in range(M):\n            x[p, i, j] = y[p, i, max(j - 1, 0)]",
    "for p in range(n):\n    for j in range(M):\n        if z[p, 0, j] > 2:\n            continue\n        x[p, 0, j] = y[p, 0, j]\n"
    "    for j in range(M):\n        x[p, 1, j] -= x[p, 0, j]",
]


@pytest.mark.parametrize("length", [4, 5, 8, 12, 16, 20])
@pytest.mark.parametrize("nest", SHORT)
def test_rows_of_a_known_length(nest, length, on_every_backend):
    code = HEAD + nest.replace("M", str(length))
    kernel = define(f"@qd.kernel\ndef k(x: {ANY}, y: {ANY}, z: {ANY}):\n{indent(code)}")["k"]
    arrays = [integers(5 * 2, length).reshape(5, 2, length) + shift for shift in (0, 1, 2)]
    expected = [array.copy() for array in arrays]
    kernel(*arrays)
    run_in_python(code, "xyz", expected)
    np.testing.assert_array_equal(arrays[0], expected[0])


def test_ends_that_are_variables_arguments_and_members(on_every_backend):
    module = define(f"""\
x = qd.field(qd.f32, (6, 50))

@qd.kernel
def k(a: {ANY}, m: qd.i64, f: qd.template()):
    end = m - 1
    for i in range(6):
        for j in range(end):
            x[i, j] = a[j] + qd.cast(i, qd.f32)
    for i in range(6):
        for j in range(x.shape[1]):
            for c in qd.static(range(2)):
                f[i, j][c] += x[i, j] + c
""")
    vectors = qd.Vector.field(2, qd.f32, (6, 50))
    a = np.arange(50, dtype=np.float32)
    for end in (50, 20, 1, 0):
        module["x"].fill(0)
        vectors.fill(1)
        module["k"](a, end, vectors)
        expected = np.where(np.arange(50) < end - 1, a + np.arange(6, dtype=np.float32)[:, None], 0)
        np.testing.assert_array_equal(module["x"].to_numpy(), expected)
        np.testing.assert_array_equal(vectors.to_numpy(), 1 + expected[..., None] + np.arange(2, dtype=np.float32))


def test_arrays_on_one_memory_keep_the_order_of_a_row(on_every_backend):
    nest = "for i in range(n):\n    for j in range(1, m):\n        y[i, j] = x[i, j - 1] + 1"
    kernel = define(f"@qd.kernel\ndef k(x: {ANY}, y: {ANY}):\n{indent(HEAD + nest)}")["k"]
    for make in (lambda a: (a, a.copy()), lambda a: (a, a), lambda a: (a[:, 1:], a[:, :-1]), lambda a: (a[:, :-1], a[:, 1:])):
        ours, theirs = make(integers(4, 40)), make(integers(4, 40))
        kernel(*ours)
        run_in_python(HEAD + nest, "xy", [*theirs])
        for array, expected in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(array, expected)


def test_random_numbers_and_gradients_are_those_of_the_loops_as_written(on_every_backend):
    draw = "x[i, j] = qd.random(qd.i32)"
    kernel = define(f"@qd.kernel\ndef k(x: {ANY}):\n    for i in range(4):\n        for j in range(20):\n            {draw}")["k"]
    x = np.zeros((4, 20), np.int32)
    kernel(x)
    assert len(np.unique(x)) == 80
    module = define(
        "x = qd.field(qd.f32, (4, 20), needs_grad=True)\ny = qd.field(qd.f32, (4, 20), needs_grad=True)\n@qd.kernel\ndef k():\n"
        "    for i in range(4):\n        for j in range(20):\n            y[i, j] = x[i, j] * x[i, j] * i"
    )
    module["x"].from_numpy(integers(4, 20).astype(np.float32))
    module["k"]()
    module["y"].grad.fill(1)
    module["k"].grad()
    np.testing.assert_array_equal(module["x"].grad.to_numpy(), 2 * integers(4, 20) * np.arange(4)[:, None])


DIFFERENTIATED = [
    "y[i, j] = x[i, j] * x[i, j] + z[j]",
    "y[i, j] += x[i, j] * z[i]",
    "loss[None] += x[i, j] * x[i, j] * z[j]",
    "for k in range(j % 3):\n    y[i, j] += x[i, k] * x[i, j]",
    "if x[i, j] > 3:\n    y[i, j] = x[i, j] * z[j]\nelse:\n    loss[None] += x[i, j]",
    "s = x[i, j]\nfor k in range(2):\n    s = s * x[i, j]\nloss[None] += s",
    "y[i, j] = x[i + 1, j] - x[i, j + 1] * x[i, j]",
]


@pytest.mark.parametrize("body", DIFFERENTIATED)
def test_gradients_of_nests_are_those_of_one_loop(body, on_every_backend):
    n, m = 6, 40
    gradients = {}
    for loops in ("for i, j in qd.ndrange(n, m):\n    {}", "for i in range(n):\n    for j in range(m):\n        {}"):
        indented = body.replace("\n", "\n" + loops.splitlines()[-1].replace("{}", ""))
        module = define(f"""\
n, m = {n}, {m}
x, y = [qd.field(qd.f64, (n + 1, m + 1), needs_grad=True) for _ in range(2)]
z, loss = qd.field(qd.f64, m, needs_grad=True), qd.field(qd.f64, (), needs_grad=True)

@qd.kernel
def k():
{indent(loops.format(indented))}
""")
        module["x"].from_numpy(integers(n + 1, m + 1).astype(np.float64))
        module["z"].from_numpy(integers(m).astype(np.float64))
        module["y"].grad.from_numpy(integers(n + 1, m + 1)[::-1].astype(np.float64).copy())
        module["loss"].grad[None] = 3
        module["k"]()
        module["k"].grad()
        gradients[loops] = [module[name].grad.to_numpy() for name in "xyz"]
    for one, nested in zip(*gradients.values(), strict=True):
        np.testing.assert_allclose(nested, one, rtol=1e-12)


def test_gradients_of_nests_over_arrays(on_every_backend):
    module = define(f"""\
@qd.kernel
def k(x: {ANY}, y: {ANY}, loss: {ANY}):
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            y[i, j] = x[i, j] * x[i, j]
    for i in range(y.shape[0]):
        for j in range(y.shape[1]):
            loss[0] += y[i, j] * y[i, j]
""")
    x, y, loss = (qd.ndarray(qd.f32, shape, needs_grad=True) for shape in ((5, 40), (5, 40), (1,)))
    x.from_numpy(integers(5, 40).astype(np.float32))
    with qd.ad.Tape(loss):
        module["k"](x, y, loss)
    np.testing.assert_array_equal(x.grad.to_numpy(), 4 * integers(5, 40).astype(np.float32) ** 3)


@pytest.mark.parametrize("dtype", ["f4", "f8", "i8", "u4", "i1", "f2"])
def test_rows_of_every_type_are_reduced(dtype, on_every_backend):
    define_kernel = f"""\
@qd.kernel
def k(x: {ANY}, out: {ANY}, m: qd.i32):
    for i in range(x.shape[0]):
        total, least, most = x[i, 0], x[i, 0], x[i, 0]
        for j in range(1, m):
            total += x[i, j]
            least = min(least, x[i, j])
            most = max(x[i, j], most)
        for j in range(m):
            x[i, j] -= least
        out[i, 0], out[i, 1], out[i, 2] = total, least, most
"""
    kernel = define(define_kernel)["k"]
    numbers = (np.arange(4 * 333).reshape(4, 333) * 7 % 11 % 4).astype(dtype)
    for m in (333, 100, 33, 32, 31, 2, 1):
        x, out = numbers.copy(), np.zeros((4, 3), numbers.dtype)
        kernel(x, out, m)
        row = numbers[:, :m]
        expected = np.stack([row.sum(1, dtype=numbers.dtype), row.min(1), row.max(1)], 1)
        np.testing.assert_array_equal(out, expected)
        np.testing.assert_array_equal(x[:, :m], row - row.min(1, keepdims=True))
        np.testing.assert_array_equal(x[:, m:], numbers[:, m:])


UPDATES = """\
for i in range(n):
    for j in range(m):
        total[0] += x[i, j]

for i in range(n):
    for j in range(m):
        total[x[i, j] % 8] += j

for i in range(n):
    for j in range(1, m):
        total[0] += x[i, j]
        total[1] -= x[i, j - 1]

for i in range(n):
    for j in range(m):
        total[j % 8] += x[i, j]
        x[i, j] += 1

for i in range(n):
    s = 0
    for j in range(m):
        s += x[i, j]
    total[2] += s
    total[i % 8] += 1

for i in range(n):
    for j in range(m):
        x[i, j] += total[3]
    for j in range(m):
        x[i, j] -= 1

for i in range(n):
    for j in range(m):
        total[i % 8] += x[i, j]""".split("\n\n")


@pytest.mark.parametrize("shape", [(5, 40), (40, 33), (3, 7), (0, 9)])
@pytest.mark.parametrize("nest", UPDATES)
def test_elements_of_all_iterations_are_updated(nest, shape, on_every_backend):
    kernel = define(f"@qd.kernel\ndef k(x: {ANY}, total: {ANY}):\n{indent(HEAD + nest)}")["k"]
    arrays = [integers(*shape), integers(8)]
    expected = [array.copy() for array in arrays]
    kernel(*arrays)
    run_in_python(HEAD + nest, ["x", "total"], expected)
    for ours, theirs in zip(arrays, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("shape", [(5, 40), (40, 33), (3, 7), (300, 64), (20_000, 32)])
def test_rows_update_elements_that_the_iterations_share(shape, on_every_backend):
    """Between the rows, an operation takes a value and changes it: once for each iteration, however many threads it has."""
    leave_out_long(2 * shape[0] * shape[1])
    x, columns, taken, seen = (qd.field(qd.i32, size) for size in (shape, shape[1], shape[0], shape[0]))

    @qd.kernel
    def k():
        for i in taken:
            s = 0
            for j in range(shape[1]):
                s += x[i, j]
            old = qd.atomic_add(taken[i], s)
            for j in range(shape[1]):
                columns[j] += x[i, j] * s + old
            seen[i] = old

    arrays = [integers(*shape), integers(shape[1]), integers(shape[0])]
    for field, array in zip((x, columns, taken), arrays, strict=True):
        field.from_numpy(array)
    sums, before = arrays[0].sum(1, dtype=np.int32), arrays[2]
    k()
    np.testing.assert_array_equal(columns.to_numpy(), arrays[1] + (arrays[0] * sums[:, None] + before[:, None]).sum(0, dtype=np.int32))
    np.testing.assert_array_equal(taken.to_numpy(), before + sums)
    np.testing.assert_array_equal(seen.to_numpy(), before)


def test_extrema_of_all_iterations_and_arrays_on_one_memory(on_every_backend):
    kernel = define(f"""\
@qd.kernel
def k(x: {ANY}, out: {ANY}):
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            qd.atomic_max(out[0], x[i, j])
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            qd.atomic_min(out[1], x[i, j])
            qd.atomic_add(out[2], 1)
""")["k"]
    x, out = integers(6, 50) + 3, np.array([0, 100, 0], np.int32)
    kernel(x, out)
    np.testing.assert_array_equal(out, [x.max(), x.min(), 300])
    counting = define(f"""\
@qd.kernel
def k(x: {ANY}, out: {ANY}):
    for i in range(1):
        for j in range(x.shape[1]):
            out[0] += x[i, j]
""")["k"]
    x = np.ones((1, 40), np.int32)
    counting(x, x[0])  # the sum changes the first element before it is read
    assert x[0, 0] == 2 + 39


@pytest.mark.parametrize("columns", [100, 33, 20])
def test_rows_of_fields_have_a_known_length(columns, on_every_backend):
    module = define(f"""\
x = qd.field(qd.f32, (7, {columns}))
v = qd.Vector.field(3, qd.f32, (7, {columns}), layout=qd.Layout.SOA)
lengths = qd.field(qd.f32, 7)

@qd.kernel
def k():
    for i in range(7):
        longest = 0.0
        for j in range({columns}):
            x[i, j] = v[i, j].dot(v[i, j])
        for j in range({columns}):
            longest = max(longest, x[i, j])
        lengths[i] = longest
""")
    numbers = np.arange(7 * columns * 3, dtype=np.float32).reshape(7, columns, 3) % 13
    module["v"].from_numpy(numbers)
    module["k"]()
    np.testing.assert_array_equal(module["x"].to_numpy(), (numbers**2).sum(-1))
    np.testing.assert_array_equal(module["lengths"].to_numpy(), (numbers**2).sum(-1).max(1))


@pytest.mark.parametrize("columns", [1, 2, 3, 5, 6, 8, 11, 15])
def test_short_rows_of_light_bodies(columns, on_every_backend):
    kernel = define(f"""\
@qd.kernel
def k(x: {ANY}, y: {ANY}, total: {ANY}, n: qd.i32):
    for i, j in qd.ndrange(n, {columns}):
        y[i, j] = x[i, j] * 2 + i
    for i, j in qd.ndrange((1, n), {columns}):
        if x[i, j] > 2:
            x[i, j] = y[i - 1, j] - j
        total[0] += x[i, j]
    for i in range(n):
        for j in range({columns}):
            y[i, j] += x[i, j]
""")["k"]
    for n in (3, 301):
        x, y, total = integers(n, columns), np.zeros((n, columns), np.int32), np.zeros(1, np.int32)
        doubled = x * 2 + np.arange(n, dtype=np.int32)[:, None]
        changed = x.copy()
        changed[1:] = np.where(x[1:] > 2, doubled[:-1] - np.arange(columns), x[1:])
        kernel(x, y, total, n)
        np.testing.assert_array_equal(x, changed)
        np.testing.assert_array_equal(y, doubled + changed)
        assert total[0] == changed[1:].sum()


def test_long_rows_can_be_interrupted_and_not_numbers_are_kept():
    qd.init(arch=qd.cpu, offline_cache=False, log_level="error")
    kernel = define(f"""\
@qd.kernel
def k(x: {ANY}, out: {ANY}):
    for i in range(x.shape[0]):
        total, most = 0.0, x[i, 0]
        for j in range(x.shape[1]):
            total += x[i, j]
            most = max(most, x[i, j])
        out[i, 0], out[i, 1] = total, most
""")["k"]
    x, out = np.ones((2, 200_003), np.float32), np.zeros((2, 2), np.float32)
    x[0, 150_000] = np.nan
    x[1, 70_000] = np.inf
    kernel(x, out)
    assert np.isnan(out[0, 0]) and out[0, 1] == 1
    np.testing.assert_array_equal(out[1], [np.inf, np.inf])
    qd.reset()


class NestMaker:
    """Nests of two or three loops whose statements access the row of the outermost index."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def place(self, writes: bool) -> str:
        rare = ["max(j - 1, 0)", "(j + 1) % m", "0", "m - 1 - j", "z[j] % m"]
        index = self.random.choice(rare) if self.random.random() < 0.1 else "j"
        return self.random.choice(
            ["x[i, {}]", "x[i, {}]", "w[i, {}]", *([] if writes else ["y[i, {}]", "z[{}]", "y[({}) % n, 0]"])]
        ).format(index)

    def statement(self, depth: int) -> str:
        value = f"({self.place(False)} * {self.random.randrange(1, 4)} + {self.random.choice([self.place(False), 'a', 'i', 'j'])}) & 63"
        roll = self.random.random()
        if depth and roll < 0.2:
            return f"if {value} > {self.random.randrange(60)}:\n{indent(self.statement(depth - 1))}"
        if depth and roll < 0.3:
            return f"for k{depth} in range({self.random.choice(['3', self.place(False) + ' % 4'])}):\n{indent(self.statement(depth - 1))}"
        return f"{self.place(True)} = {value}"

    def make(self) -> str:
        body = "\n".join(self.statement(2) for _ in range(self.random.randrange(1, 4)))
        for _ in range(self.random.randrange(2)):
            body = f"for k in range({self.random.choice(['2', 'n', 'i'])}):\n{indent(body)}"
        body = f"for j in range({self.random.choice(['m', '1, m', 'm - 1', 'i + 2', '17'])}):\n{indent(body)}"
        if self.random.random() < 0.3:
            body = f"for k0 in range(3):\n{indent(body)}"
        before = self.random.choice(["a = i * 2", "a = y[i, 0] + z[0]", "a = 1\nif z[i] > 3:\n    a = x[i, 0]", "a = x[i, 1]"])
        after = self.random.choice(["", "", "x[i, 0] = a & 63", "for j in range(m):\n    w[i, j] += a & 7"])
        if self.random.random() < 0.3:
            update = self.random.choice(["s += {}", "s = max(s, {})", "s -= {}\ns += j", "if z[j] > 3:\n    s ^= {}"])
            before += "\ns = a"
            after = f"for j in range(1, m):\n{indent(update.format(self.place(False)))}\nx[i, 1] = s & 63\n{after}"
        return HEAD + f"for i in range(n):\n{indent(before)}{indent(body)}{indent(after)}"


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_random_nests_give_what_python_gives(first, on_every_backend):
    for seed in range(first, first + 20):
        nest = NestMaker(seed).make()
        kernel = define(f"@qd.kernel\ndef k(x: {ANY}, y: {ANY}, z: {ANY}, w: {ANY}):\n{indent(nest)}")["k"]
        arrays = [integers(5, 37), integers(5, 37)[::-1].copy(), integers(37), integers(5, 37) + 1]
        expected = [array.copy() for array in arrays]
        kernel(*arrays)
        run_in_python(nest, "xyzw", expected)
        for ours, theirs in zip(arrays, expected, strict=True):
            np.testing.assert_array_equal(ours, theirs, err_msg=nest)


@pytest.mark.parametrize("length", [20, 30, 301])
@pytest.mark.parametrize("inner", ["if j > 3:\n    s += 1", "for k in range(7):\n    if j > 3:\n        s += 1"])
def test_lanes_behind_the_end_of_a_row_add_nothing(inner, length, on_every_backend):
    """Their conditions may hold, too."""
    module = define(f"""\
@qd.kernel
def sums(v: {ANY}, w: {ANY}):
    for i in range(20):
        s = 0
        for j in range(w.shape[1]):
{indent(indent(indent(inner)))}
            w[i, j] += 1
        v[i] = s
""")
    v, w = np.zeros(20, np.int32), np.zeros((20, length), np.int32)
    module["sums"](v, w)
    assert v.tolist() == [(length - 4) * (7 if "for" in inner else 1)] * 20


@pytest.mark.parametrize("columns", [8, 16, 32, 64])
def test_indices_in_rows_of_one_vector_are_not_constants(columns, on_every_backend):
    """The index of lane 0 is a constant where a row is one vector: products and steps are those of each lane."""
    module = define(f"""\
x = qd.field(qd.i32, (5, {columns}))

@qd.kernel
def k():
    for i, j in x:
        s = (j - 8) * (j - 8) + (3 - j) * (2 * j + i) - (j >> 1) * (j & 3)
        for t in range(0, 20, j + 1):
            s += t
        x[i, j] = s
""")
    module["k"]()
    i, j = np.indices((5, columns))
    steps = np.array([sum(range(0, 20, step + 1)) for step in range(columns)])
    np.testing.assert_array_equal(module["x"].to_numpy(), (j - 8) ** 2 + (3 - j) * (2 * j + i) - (j >> 1) * (j & 3) + steps)


def test_factors_of_a_matrix_in_registers(on_every_backend):
    """The bounds of inner loops depend on outer indices only; the first inner loops have no iteration."""

    @qd.kernel
    def factor(a: qd.types.ndarray(), lower: qd.types.ndarray()):
        for b in range(a.shape[0]):
            m = qd.Matrix.zero(qd.f32, 5, 5)
            for i in range(5):
                for j in range(i + 1):
                    m[i, j] = a[b, i, j]
            for j in range(5):
                for k in range(j):
                    m[j, j] -= m[j, k] * m[j, k]
                m[j, j] = qd.sqrt(m[j, j])
                for i in range(j + 1, 5):
                    for k in range(j):
                        m[i, j] -= m[i, k] * m[j, k]
                    m[i, j] /= m[j, j]
            for i in range(5):
                for j in range(5):
                    lower[b, i, j] = m[i, j]

    random = np.random.default_rng(4).uniform(-1, 1, (67, 5, 5)).astype(np.float32)
    a = random @ random.transpose(0, 2, 1) + 5 * np.eye(5, dtype=np.float32)
    lower = np.empty_like(a)
    factor(a, lower)
    np.testing.assert_allclose(lower, np.linalg.cholesky(a), atol=1e-5)

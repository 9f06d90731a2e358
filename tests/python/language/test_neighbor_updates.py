"""Loops that update neighboring elements: on the CPU each of these updates becomes a loop of its own, without atomic operations."""

import numpy as np
import pytest
from language_support import define
from random_loops import ANY, indent, integers, run_in_python

import quadrants as qd

LOOPS = """\
for i in range(n - 1):
    d = x[i + 1] - x[i]
    f[i] += d
    f[i + 1] -= d

for i in range(2, n - 2):
    for c in range(3):
        f[i - 2] += c
        g[i + 2] += x[i]
        g[i] -= x[i] * c

for i in range(n - 3):
    if x[i] > 4:
        f[i] += 1
        continue
    k = 0
    while k < x[i]:
        f[i + 3] += k
        k += 1

for i in range(n - 1):
    g[i] = x[i] * 2
    f[i] += g[i]
    f[i + 1] += g[i]

for i in range(n - 1):
    f[i] += g[i]
    f[i + 1] += g[i]
    g[i] = x[i] * 2

for i in range(n - 1):
    f[i] += g[i]
    f[i + 1] += 1
    g[i] += x[i]

for i in range(n - 1):
    for k in range(3):
        f[i] += g[i]
        f[i + 1] += g[i]
        g[i] = k

for i in range(n - 1):
    f[i] += 1
    f[i + 1] += f[i] * 0 + 2

for i in range(n - 1):
    f[i] += x[i]
    f[(i + 1) % n] += x[i]

for i in range(n - 1):
    f[i] += x[i]
    f[x[i]] += 1""".split("\n\n")


@pytest.mark.parametrize("count", [300, 3])
@pytest.mark.parametrize("loop", LOOPS)
def test_updates_give_what_python_gives(loop, count, on_every_backend):
    head = "n = x.shape[0]\n"
    kernel = define(f"@qd.kernel\ndef k(x: {ANY}, f: {ANY}, g: {ANY}):\n{indent(head + loop)}")["k"]
    arrays = [integers(count) % count, integers(count)[::-1].copy(), integers(count) + 1]
    expected = [array.copy() for array in arrays]
    kernel(*arrays)
    run_in_python(head + loop, "xfg", expected)
    for ours, theirs in zip(arrays, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("dtype", [qd.f32, qd.f64, qd.i64, qd.u8])
def test_springs_of_a_grid_of_vectors(dtype, on_every_backend):
    n, m = 9, 40
    x, f = (qd.Vector.field(2, dtype, shape=(n, m)) for _ in range(2))
    values = integers(n, m, 2)
    x.from_numpy(values.astype(x.to_numpy().dtype))

    @qd.kernel
    def pull() -> None:
        for i, j in qd.ndrange(n - 1, m - 1):
            down, right = x[i + 1, j] - x[i, j], x[i, j + 1] - x[i, j]
            f[i, j] += down + right
            f[i + 1, j] -= down
            f[i, j + 1] -= right

    pull()
    pull()
    values = values.astype(x.to_numpy().dtype)
    down, right = values[1:, :-1] - values[:-1, :-1], values[:-1, 1:] - values[:-1, :-1]
    expected = np.zeros_like(values)
    expected[:-1, :-1] += down + right
    expected[1:, :-1] -= down
    expected[:-1, 1:] -= right
    np.testing.assert_array_equal(f.to_numpy(), expected + expected)


def test_numbers_from_a_counter_are_each_given_once(on_every_backend):
    count, out, f = qd.ndarray(qd.i32, (1,)), qd.ndarray(qd.i32, (100,)), qd.ndarray(qd.i32, (101,))

    @qd.kernel
    def take(count: qd.types.ndarray(), out: qd.types.ndarray(), f: qd.types.ndarray()) -> None:
        for i in range(100):
            number = qd.atomic_add(count[0], 1)
            out[number] = i
            f[i] += number
            f[i + 1] += number

    take(count, out, f)
    assert sorted(out.to_numpy()) == list(range(100))
    assert f.to_numpy().sum() == 2 * sum(range(100))


def test_arrays_on_one_memory_are_updated_in_the_order_of_the_iteration(on_every_backend):
    f = np.zeros(200, np.int32)

    @qd.kernel
    def chain(f: qd.types.ndarray(), g: qd.types.ndarray()) -> None:
        for i in range(50):
            f[4 * i] += 1
            f[4 * i + 1] += g[4 * i]

    chain(f, f)
    assert f[:8].tolist() == [1, 1, 0, 0, 1, 1, 0, 0]


def test_gradients_of_stencils(on_every_backend):
    n = 20
    u, v = (qd.field(qd.f64, (n, n), needs_grad=True) for _ in range(2))

    @qd.kernel
    def step() -> None:
        for i in range(1, n - 1):
            for j in range(1, n - 1):
                v[i, j] = u[i, j] * u[i + 1, j] + 2.0 * u[i - 1, j] + u[i, j - 1] - u[i, j + 1]

    values, seeds = integers(n, n).astype(np.float64), integers(n, n)[::-1].astype(np.float64)
    u.from_numpy(values)
    step()
    v.grad.from_numpy(seeds.copy())
    step.grad()
    expected, inner = np.zeros((n, n)), seeds[1:-1, 1:-1]
    expected[1:-1, 1:-1] += inner * values[2:, 1:-1]
    expected[2:, 1:-1] += inner * values[1:-1, 1:-1]
    expected[:-2, 1:-1] += 2 * inner
    expected[1:-1, :-2] += inner
    expected[1:-1, 2:] -= inner
    np.testing.assert_array_equal(u.grad.to_numpy(), expected)
    assert not v.grad.to_numpy()[1:-1, 1:-1].any()

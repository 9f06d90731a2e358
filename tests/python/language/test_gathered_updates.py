"""Updates of elements that several iterations of a parallel loop share. They become sums (passes/gather_updates.cpp)."""

import random

import numpy as np
import pytest
from language_support import define, leave_out_long
from random_loops import ANY, indent, integers, run_in_python

import quadrants as qd

# `x` has as many elements as there are j, `y` is as long as there are i, `w` is i by j.
NESTS = """\
for i in range(n):
    for j in range(m):
        x[j] += y[i] * z[j]

for i in range(n):
    for j in range(m):
        if y[i] > z[j]:
            x[j] += 1
        x[j] -= y[i]

for i in range(n):
    t = y[i] + 1
    for j in range(m):
        x[j] += t * z[j]
        y[i] += 0 * t

for i in range(n):
    for j in range(m):
        if j + 1 < m:
            x[j + 1] += y[i]

for i in range(n):
    for j in range(1, m):
        x[j - 1] += y[i] - z[j]

for i in range(n):
    for j in range(m + 40):
        if j >= m:
            continue
        x[j] += y[i]

for i in range(n):
    for j in range(m):
        if y[i] == 3:
            break
        x[j] += 1

for i in range(n):
    for j in range(min(i, m)):
        x[j] += y[i]

for i in range(n):
    for j in range(m):
        x[z[j] % m] += y[i]

for i in range(n):
    for j in range(m):
        x[j] += w[i, j]

for i in range(n):
    for j in range(m):
        w[i, j] = 5
        x[j] += w[i, j] + z[j]

for i in range(n):
    for j in range(m):
        x[j] += y[i]
        z[j] += x[0] * 0 + 1

for i in range(n):
    s = 0
    for j in range(m):
        s += z[j]
        x[j] += s

for i in range(n):
    for j in range(m):
        for k in range(3):
            x[j] += y[i] * k + z[j]

for i in range(n):
    for k in range(2):
        for j in range(m):
            x[j] += y[i] + k
            z[j] -= y[i] * k

for i in range(n):
    for j in range(m):
        x[m - 1 - j] += y[i]

for i in range(n):
    for j in range(m - 1, -1, -1):
        y[i] += z[j]
    for j in range(m, 0, -3):
        w[i, 0] -= z[j - 1]

for i in range(n):
    for j in range(m - 1, -1, -1):
        x[j] += y[i]

for i in range(n):
    s = 0
    for j in range(m):
        x[j] += y[i]
        s += z[j]
    y[i] = s

for i in range(n):
    v = y[i]
    y[i] = 0
    for j in range(m):
        x[j] += v

for i in range(n):
    for j in range(m):
        w[i, 1] += z[j] * y[i]
        if z[j] > 3:
            w[i, 0] -= j

for i in range(n):
    for j in range(m):
        c = y[i] - z[j]
        while c > 0:
            x[j] += 1
            c -= 2

for i in range(n):
    for j in range(m):
        k = x[j]
        x[j] += y[i] - k * 0

for i in range(n):
    for j in range(m):
        for l in range(z[j]):
            x[j] += l
            w[i, 2] += l""".split("\n\n")
HEAD = "n, m = w.shape[0], w.shape[1]\n"


def make_arrays(n: int, m: int) -> list[np.ndarray]:
    return [integers(m), integers(n)[::-1].copy(), integers(m) % 5, integers(n, m)]


def compare(nest: str, arrays: list[np.ndarray]) -> None:
    kernel = define(f"@qd.kernel\ndef k(x: {ANY}, y: {ANY}, z: {ANY}, w: {ANY}):\n{indent(HEAD + nest)}")["k"]
    expected = [array.copy() for array in arrays]
    kernel(*arrays)
    run_in_python(HEAD + nest, "xyzw", expected)
    for ours, theirs in zip(arrays, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs, err_msg=nest)


@pytest.mark.parametrize("shape", [(30, 270), (300, 40), (0, 300), (300, 0), (5, 5)])
@pytest.mark.parametrize("nest", NESTS)
def test_updates_give_what_python_gives(nest, shape, on_every_backend):
    compare(nest, make_arrays(*shape))


@pytest.mark.parametrize("nest", NESTS)
def test_updates_of_fields(nest, on_every_backend):
    module = define(f"""\
x, y, z, w = qd.field(qd.i32, 270), qd.field(qd.i32, 30), qd.field(qd.i32, 270), qd.field(qd.i32, (30, 270))

@qd.kernel
def k():
{indent("n, m = 30, 270" + chr(10) + nest)}""")
    arrays = make_arrays(30, 270)
    for name, array in zip("xyzw", arrays, strict=True):
        module[name].from_numpy(array)
    module["k"]()
    run_in_python(HEAD + nest, "xyzw", arrays)
    for name, array in zip("xyzw", arrays, strict=True):
        np.testing.assert_array_equal(module[name].to_numpy(), array, err_msg=nest)


@pytest.mark.parametrize("count", [40, 1000])
def test_an_update_that_does_not_run_touches_no_memory(count, on_every_backend):
    """The element behind the end is never updated, so it must not be touched either."""
    module = define(f"""\
@qd.kernel
def k(x: {ANY}, y: {ANY}, end: qd.i32, m: qd.i32):
    for i in range(y.shape[0]):
        for j in range(m):
            if j < end:
                x[j] += y[i]
""")
    memory, y = np.full(1000, 7, np.int32), integers(count)
    module["k"](memory[:300], y, 300, 1000)
    np.testing.assert_array_equal(memory, np.where(np.arange(1000) < 300, 7 + y.sum(), 7))


def test_arrays_on_one_memory(on_every_backend):
    """`x` is read as `z` while it is updated: any order is right, but each update has to arrive."""
    nest = "for i in range(n):\n    for j in range(m):\n        x[j] += y[i] + 0 * z[j]"
    kernel = define(f"@qd.kernel\ndef k(x: {ANY}, y: {ANY}, z: {ANY}, w: {ANY}):\n{indent(HEAD + nest)}")["k"]
    x, y, _, w = make_arrays(30, 300)
    expected = x + y.sum()
    kernel(x, y, x, w)
    np.testing.assert_array_equal(x, expected)


# Sums that grids split: their terms, by what an iteration adds to x[j]. `y` is as long as there are i, `z` as there are j.
MANY_TERMS = {
    "x[j] += y[i] * z[j] - w[i, j]": lambda y, z, w: y * z - w,
    "if y[i] > z[j]:\n    x[j] += y[i]": lambda y, z, w: (y > z) * y,
    "for k in range(z[j]):\n    x[j] += y[i] * k + w[i, j]": lambda y, z, w: y * z * (z - 1) // 2 + z * w,
}


@pytest.mark.parametrize("kind", ["arrays", "fields"])
@pytest.mark.parametrize("shape", [(1000, 700), (260, 5000), (70000, 3), (7, 70000)])
@pytest.mark.parametrize("update", MANY_TERMS)
def test_many_updates(update, shape, kind, on_every_backend):
    leave_out_long(shape[0] * shape[1])
    extents = dict(zip("xyzw", (shape[1:], shape[:1], shape[1:], shape), strict=True))
    nest = f"for i in range(n):\n    for j in range(m):\n{indent(indent(update))}"
    arrays = make_arrays(*shape)
    x, y, z, w = arrays
    expected = x + MANY_TERMS[update](y[:, None], z, w).sum(0)
    if kind == "arrays":
        parameters = ", ".join(f"{name}: {ANY}" for name in extents)
        define(f"@qd.kernel\ndef k({parameters}):\n{indent(HEAD + nest)}")["k"](*arrays)
    else:
        fields = "".join(f"{name} = qd.field(qd.i32, {extent})\n" for name, extent in extents.items())
        module = define(f"{fields}\n@qd.kernel\ndef k():\n{indent(f'n, m = {shape}' + chr(10) + nest)}")
        for name, array in zip(extents, arrays, strict=True):
            module[name].from_numpy(array)
        module["k"]()
        x = module["x"].to_numpy()
    np.testing.assert_array_equal(x, expected.astype(np.int32))


@pytest.mark.parametrize("extent", [130, 40])
def test_sums_along_rows(extent, on_every_backend):
    """Neighboring sums have other rows: on grids, a subgroup of threads takes each."""
    module = define(f"""\
@qd.kernel
def k(x: {ANY}, y: {ANY}, z: {ANY}):
    for i, j in y:
        for k in range(z.shape[0]):
            x[i, k] += y[i, j] * z[k, j]
""")
    x, y, z = np.ones((70, 64), np.int32), integers(70, extent), integers(64, extent)
    module["k"](x, y, z)
    np.testing.assert_array_equal(x, 1 + y @ z.T)


@pytest.mark.parametrize("dtype", [qd.f64, qd.f32, qd.f16, qd.i64, qd.u8, qd.u32])
def test_types(dtype, on_every_backend):
    module = define("""\
def make(dtype):
    x, y, z = qd.field(dtype, (20, 300)), qd.field(dtype, (40, 300)), qd.field(dtype, (40, 20))

    @qd.kernel
    def k():
        for i, j in qd.ndrange(40, 300):
            for l in range(20):
                x[l, j] += y[i, j] * z[i, l]

    return x, y, z, k
""")
    x, y, z, k = module["make"](dtype)
    a, b = integers(40, 300) % 3, integers(40, 20) % 2
    y.from_numpy(a.astype(y.to_numpy().dtype))
    z.from_numpy(b.astype(z.to_numpy().dtype))
    x.fill(1)
    k()
    np.testing.assert_array_equal(x.to_numpy(), (1 + b.T @ a).astype(x.to_numpy().dtype))


def test_vectors_and_their_components(on_every_backend):
    module = define("""\
p, f = qd.Vector.field(3, qd.f64, 400), qd.Vector.field(3, qd.f64, 400)

@qd.kernel
def pairs():
    for i in range(400):
        for j in range(400):
            if i != j:
                r = p[i] - p[j]
                f[i] += r
                f[j] -= r * 2
                f[j][1] += r[0]
""")
    p = np.random.default_rng(1).random((400, 3))
    module["p"].from_numpy(p)
    module["pairs"]()
    r = p[:, None] - p[None]
    expected = r.sum(1) - 2 * r.sum(0)
    expected[:, 1] += r[..., 0].sum(0)
    np.testing.assert_allclose(module["f"].to_numpy(), expected, atol=1e-9)


@pytest.mark.parametrize(("count", "bins"), [(40, 3000), (3000, 40), (20000, 4096), (3000, 20000), (50000, 600000)])
@pytest.mark.parametrize("dtype", [qd.i32, qd.f64])
def test_few_and_many_updates_of_an_element(dtype, count, bins, on_every_backend):
    """Copies of the container, as many as pay, or atomic operations."""
    module = define(f"""\
@qd.kernel
def k(y: {ANY}, x: {ANY}, at: {ANY}):
    for i in at:
        y[at[i]] += x[i]
        y[(at[i] * 7 + 1) % y.shape[0]] -= x[i] * 2
""")
    numbers = np.random.default_rng(count)
    at = numbers.integers(0, bins, count).astype(np.int32)
    x = numbers.integers(0, 9, count).astype(np.int32 if dtype is qd.i32 else np.float64)
    y = np.ones(bins, x.dtype)
    expected = y.copy()
    np.add.at(expected, at, x)
    np.subtract.at(expected, (at * 7 + 1) % bins, 2 * x)
    module["k"](y, x, at)
    np.testing.assert_array_equal(y, expected)


def test_random_numbers_are_those_of_the_iteration(on_every_backend):
    """The same with and without assumptions: an iteration of two indices is not one of the first index alone."""
    results = []
    for level in (0, 3):
        on_every_backend(opt_level=level, random_seed=5)
        module = define("""\
y = qd.field(qd.i32, 300)

@qd.kernel
def k():
    for i, j in qd.ndrange(300, 40):
        for l in range(2):
            y[i] += qd.random(qd.i32) % 1000
""")
        module["k"]()
        results.append(module["y"].to_numpy())
    np.testing.assert_array_equal(*results)


def make_nest(seed: int) -> str:
    """Updates of `x`, `v`, `w` by what `a`, `b`, `c` and the indices are, so that the order of the iterations does not matter."""
    random_numbers = random.Random(seed)
    choose, roll = random_numbers.choice, random_numbers.random

    def make_value() -> str:
        return choose(["a[i]", "b[j]", "c[i, j]", "i", "j", "k", "t", "a[i] * b[j]", "c[i, k]"])

    def make_update() -> str:
        place = choose(["x[j]", "x[j]", "x[k]", "x[m - 1 - j]", "x[(j + k) % m]", "v[i]", "w[i, j]", "w[i, k]", "w[k, j]"])
        text = f"{place} {choose(['+=', '-='])} {make_value()} * {make_value()} & 255"
        return f"if {make_value()} > {choose([1, 2, 3])}:\n{indent(text)}" if roll() < 0.3 else text

    body = "\n".join(make_update() for _ in range(choose([1, 2, 3])))
    inner = f"for k in range({choose(['min(n, m)', 'min(n, 3)'])}):\n{indent(body)}" if roll() < 0.5 else f"k = 0\n{body}"
    before = choose(["t = 1", "t = a[i] * 2", "t = i\nif a[i] > 2:\n    t = 5", "t = 0\nfor k in range(3):\n    t += c[i, k]"])
    after = choose(["", "v[i] += t", "for j in range(m):\n    x[j] -= t"])
    return f"for i in range(n):\n{indent(before)}    for j in range(m):\n{indent(indent(inner))}{indent(after)}"


@pytest.mark.parametrize("seed", range(60))
def test_random_updates(seed, on_every_backend):
    nest = make_nest(seed)
    head = "n, m = c.shape[0], c.shape[1]\n"
    parameters = ", ".join(f"{name}: {ANY}" for name in "xvwabc")
    kernel = define(f"@qd.kernel\ndef k({parameters}):\n{indent(head + nest)}")["k"]
    n, m = random.Random(seed).choice([(20, 260), (260, 20), (30, 30)])
    arrays = [integers(*shape) for shape in ((m,), (n,), (n, m), (n,), (m,), (n, m))]
    expected = [array.copy() for array in arrays]
    kernel(*arrays)
    run_in_python(head + nest, "xvwabc", expected)
    for ours, theirs in zip(arrays, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs, err_msg=nest)

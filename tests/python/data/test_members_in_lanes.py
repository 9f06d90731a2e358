"""Lanes reach members of structs and elements at small distances: they read what lies between, and leave it as it is."""

import ctypes
import mmap

import numpy as np
import pytest

import quadrants as qd

N = 77  # several vectors and a remainder

pytestmark = pytest.mark.usefixtures("cpu")


@pytest.fixture
def cpu():
    qd.init(arch=qd.cpu, offline_cache=False, log_level="error")
    yield
    qd.reset()


@pytest.mark.parametrize("flagged", [False, True])
@pytest.mark.parametrize("dtype", [qd.f32, qd.f64, qd.i32, qd.i16, qd.i8])
@pytest.mark.parametrize("count", range(2, 10))
def test_members(count, dtype, flagged):
    """Every member changes by its neighbor, and the others keep their values."""
    names = [f"m{k}" for k in range(count)]
    cells = qd.types.struct(**dict.fromkeys(names, dtype)).field(shape=N)
    flags = qd.field(qd.i32, shape=N)
    values = np.random.default_rng(count).integers(-9, 9, (N, count))
    chosen = np.arange(N) % 3 != 1 if flagged else np.ones(N, bool)
    flags.from_numpy(chosen.astype(np.int32))
    cells.from_numpy({name: values[:, k] for k, name in enumerate(names)})

    @qd.kernel
    def change(first: qd.template(), last: qd.template()):
        for i in range(N):
            if flags[i] != 0:
                last[i] += 2 * first[i]
        for i in range(N):
            first[i] -= 1

    for first, last in ((0, count - 1), (count - 1, 0)):
        change(getattr(cells, names[first]), getattr(cells, names[last]))
        values[chosen, last] += 2 * values[chosen, first]
        values[:, first] -= 1
    assert np.array_equal(np.stack([cells.to_numpy()[name] for name in names], axis=1), values)


@pytest.mark.parametrize("dtype", [qd.f32, qd.f64])
def test_members_that_follow_each_other(dtype):
    """Each update reads what the one before has written."""
    cells = qd.types.struct(a=dtype, b=dtype, v=qd.types.vector(3, dtype)).field(shape=N)
    values = np.random.default_rng(1).integers(-9, 9, (5, N)).astype(np.float64)
    cells.from_numpy({"a": values[0], "b": values[1], "v": values[2:].T})

    @qd.kernel
    def change():
        for i in range(N):
            cells[i].a += cells[i].b
            cells[i].b += 2 * cells[i].a
            for k in range(3):
                cells[i].v[k] += cells[i].b
                if cells[i].v[k] < 0:
                    cells[i].v[k] = -cells[i].v[k]
                    cells[i].a += cells[i].v[(k + 1) % 3]

    change()
    a, b, v = values[0].copy(), values[1].copy(), values[2:].copy()
    a += b
    b += 2 * a
    for k in range(3):
        v[k] += b
        negative = v[k] < 0
        v[k] = np.abs(v[k])
        a[negative] += v[(k + 1) % 3][negative]
    result = cells.to_numpy()
    for name, expected in (("a", a), ("b", b), ("v", v.T)):
        assert np.array_equal(result[name], expected), name


@pytest.mark.parametrize("flagged", [False, True])
@pytest.mark.parametrize("length, before, after", [(2, 0, 1), (2, 1, 1), (2, 2, 2), (3, 0, 0), (3, 1, 0), (3, 0, 1), (3, 3, 0), (4, 0, 2)])
def test_vectors_in_structs(length, before, after, flagged):
    members = {f"b{k}": qd.f32 for k in range(before)} | {"v": qd.types.vector(length, qd.f32)} | {f"a{k}": qd.f32 for k in range(after)}
    cells = qd.types.struct(**members).field(shape=N)
    random = np.random.default_rng(length)
    values = {name: random.integers(-50, 50, (N, length) if name == "v" else N).astype(np.float32) for name in members}
    cells.from_numpy(values)

    @qd.kernel
    def change():
        for i in range(N):
            if not qd.static(flagged) or i % 5 > 1:
                cells[i].v = cells[i].v * 2.0 + cells[i].v[1]

    change()
    chosen = np.arange(N) % 5 > 1 if flagged else np.ones(N, bool)
    values["v"][chosen] = values["v"][chosen] * 2 + values["v"][chosen, 1:2]
    for name, value in cells.to_numpy().items():
        assert np.array_equal(value, values[name]), name


@pytest.mark.parametrize("distance", range(2, 10))
def test_elements_at_distances(distance):
    """Nothing before the first or after the last element is read: the pages there cannot be."""
    page = mmap.PAGESIZE
    memory = mmap.mmap(-1, 3 * page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    a = np.frombuffer(memory, np.float32, page // 4, page)
    a[:] = np.arange(a.size) % 97
    rounds = (a.size - 1) // distance + 1
    first = a.size - 1 - (rounds - 1) * distance

    @qd.kernel
    def double(x: qd.types.ndarray(dtype=qd.f32, ndim=1), first: qd.i32, rounds: qd.i32):
        for i in range(rounds):
            x[qd.static(distance) * i + first] *= 2.0

    expected = a.copy()
    expected[first::distance] *= 2
    for guard in (start, start + 2 * page):
        assert protect(guard, page, 0) == 0
    double(a, first, rounds)
    for guard in (start, start + 2 * page):
        assert protect(guard, page, mmap.PROT_READ | mmap.PROT_WRITE) == 0
    assert np.array_equal(a, expected)


@pytest.mark.parametrize("dtype", [qd.f32, qd.u8])
@pytest.mark.parametrize("first", [2, 3, 4, 8])
def test_rows_of_other_lengths(first, dtype):
    """Arrays of shape (n, 3) have a version of their own; the others run the general one."""
    array = qd.types.ndarray(dtype=dtype, ndim=2)
    images = qd.types.ndarray(dtype=dtype, ndim=3)

    @qd.kernel
    def change(a: array, b: images):
        for i in range(a.shape[0]):
            if a[i, 0] != 3:
                a[i, 1] = 2 * a[i, 0]
        for i, j in qd.ndrange(b.shape[0], b.shape[1]):
            b[i, j, 0] = b[i, j, 1]

    random = np.random.default_rng(first)
    for lengths in ((first, first), (3, 4), (5, first), (first, 2), (9, 3)):
        a = random.integers(0, 9, (N, lengths[0])).astype({qd.f32: np.float32, qd.u8: np.uint8}[dtype])
        b = random.integers(0, 9, (3, N, lengths[1])).astype(a.dtype)
        expected_a, expected_b = a.copy(), b.copy()
        changed = a[:, 0] != 3
        expected_a[changed, 1] = 2 * a[changed, 0]
        expected_b[:, :, 0] = b[:, :, 1]
        change(a, b)
        assert np.array_equal(a, expected_a)
        assert np.array_equal(b, expected_b)

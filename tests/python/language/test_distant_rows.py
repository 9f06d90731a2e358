"""Loops that walk along rows: the same numbers in one lane and in several, which the distance of the rows decides."""

import numpy as np
import pytest

import quadrants as qd

ROWS = 70
COLUMNS = [500, 512, 1024]  # rows of 2048 or 4096 bytes have one lane

F32 = qd.types.ndarray(dtype=qd.f32, ndim=2)


@pytest.fixture(autouse=True, params=["cpu", "python"])
def runtime(request, monkeypatch):
    monkeypatch.delenv("QD_ARCH", raising=False)
    qd.init(arch=getattr(qd, request.param), offline_cache=False, log_level="error")
    yield request.param
    qd.reset()


def make_rows(columns: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(-3, 4, (ROWS, columns)).astype(np.float32)


def as_containers(*arrays: np.ndarray, fields: bool):
    """The arrays, or fields with their values, and what reads the last one."""
    if not fields:
        return arrays, lambda: arrays[-1]
    made = tuple(qd.field(qd.f32, shape=array.shape) for array in arrays)
    for field, array in zip(made, arrays, strict=True):
        field.from_numpy(array)
    return made, made[-1].to_numpy


@pytest.mark.parametrize("fields", [False, True])
@pytest.mark.parametrize("columns", COLUMNS)
def test_running_sums(columns, fields):
    x = make_rows(columns)
    (a, b), read = as_containers(x, np.zeros_like(x), fields=fields)

    @qd.kernel
    def running(a: qd.Template if fields else F32, b: qd.Template if fields else F32) -> qd.f32:
        total = 0.0
        for i in range(ROWS):
            value = 1.0
            for j in range(columns):
                value = 0.5 * value + a[i, j]
                b[i, j] = value
            total += value
        return total

    expected = np.zeros(x.shape)
    last = np.ones(ROWS)
    for j in range(columns):
        last = 0.5 * last + x[:, j]
        expected[:, j] = last
    assert running(a, b) == pytest.approx(last.sum(), rel=1e-4)
    np.testing.assert_allclose(read(), expected, atol=1e-4)


@pytest.mark.parametrize("columns", COLUMNS)
def test_updates_by_color(columns):
    x = make_rows(columns)

    @qd.kernel
    def sweep(u: F32, color: qd.i32):
        for i in range(1, u.shape[0] - 1):
            for j in range(1, u.shape[1] - 1):
                if (i + j) % 2 == color:
                    u[i, j] = u[i - 1, j] + u[i + 1, j] - u[i, j - 1] + u[i, j + 1]

    @qd.kernel
    def sweep_in_steps(u: F32, color: qd.i32):
        for i in range(1, u.shape[0] - 1):
            for j in range(1 + (i + 1 + color) % 2, u.shape[1] - 1, 2):
                u[i, j] = u[i - 1, j] + u[i + 1, j] - u[i, j - 1] + u[i, j + 1]

    expected = x.copy()
    i, j = np.indices(x.shape)
    inside = (i > 0) & (i < ROWS - 1) & (j > 0) & (j < columns - 1)
    results = [x.copy(), x.copy()]
    for color in (0, 1):
        sums = np.roll(expected, 1, 0) + np.roll(expected, -1, 0) - np.roll(expected, 1, 1) + np.roll(expected, -1, 1)
        expected = np.where(inside & ((i + j) % 2 == color), sums, expected)
        sweep(results[0], color)
        sweep_in_steps(results[1], color)
    for result in results:
        assert np.array_equal(result, expected)


@pytest.mark.parametrize("columns", COLUMNS)
def test_elements_that_wait_for_the_one_before(columns):
    x = make_rows(columns)

    @qd.kernel
    def smooth(u: F32):
        for i in range(u.shape[0]):
            for j in range(1, u.shape[1]):
                u[i, j] = u[i, j] - u[i, j - 1]

    @qd.kernel
    def reverse(u: F32):
        for i in range(u.shape[0]):
            for j in range(u.shape[1] // 2):
                other = u.shape[1] - 1 - j
                first = u[i, j]
                u[i, j] = u[i, other]
                u[i, other] = first

    expected = x.copy()
    for j in range(1, columns):
        expected[:, j] -= expected[:, j - 1]
    smooth(x)
    assert np.array_equal(x, expected)
    reverse(x)
    assert np.array_equal(x, expected[:, ::-1])


def test_reports_say_why(runtime):
    if runtime == "python":
        pytest.skip("nothing is compiled")

    @qd.kernel
    def sums(a: F32):
        for i in range(a.shape[0]):
            value = 0.0
            for j in range(a.shape[1]):
                value += a[i, j]
                a[i, j] = value

    x = make_rows(100)
    expected = np.cumsum(x, axis=1)
    sums(x)
    assert np.array_equal(x, expected)
    assert qd.compile_report()[-1].loops[0].why_scalar == "its inner loops walk along rows that lie apart"

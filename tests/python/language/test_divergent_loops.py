"""Loops that lanes leave at different iterations, against plain Python: each function is compiled, and called as it is."""

from collections.abc import Iterator

import numpy as np
import pytest

import quadrants as qd

COUNT = 1003  # whole vectors and a rest


@pytest.fixture(autouse=True)
def on_cpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Lanes are the processor's."""
    monkeypatch.delenv("QD_ARCH", raising=False)
    qd.init(arch=qd.cpu, offline_cache=False)
    yield
    qd.reset()


def count_collatz(x):
    n = 0
    while x > 1:
        x = x // 2 if x % 2 == 0 else 3 * x + 1
        n += 1
    return n


def leave_early(x):
    """Lanes break, continue and wait; `a` and `b` are not read after the loop."""
    a, b, n = x, 3 * x, 0
    while a < 5000:
        a += 1 + b % 7
        if a % 11 == 3:
            continue
        b += a
        if b % 13 == 5:
            break
        n += b % 3
    return n


def loop_in_loop(x):
    """The inner loop begins anew with what only it reads, and what the outer loop keeps."""
    kept, total = x, 0
    for i in range(x % 5 + 1):
        part = kept + i
        while part > 2:
            kept += part % 2
            part = part // 3
            total += kept
        if part == 1:
            kept += 1
    return total + kept


def loop_in_a_branch(x):
    a, n = x, 1
    if x % 3 == 1:
        b = x
        while b > 0:
            if b % 2 == 1:
                if b % 5 == 2:
                    a += 1
                b -= 1
            b = b // 2
            n = n * 3 % 1009
    return a + n


def read_in_the_next_round(x):
    """Each loop has a value that the other one reads."""
    a, b, n = x % 17, x % 13, 0
    while a < 40:
        a += b % 3 + 1
        n += 1
    while b < 50:
        b += a % 4 + 1
        n += 1
    return 1000 * n + a + b


def chosen_elements(x):
    """Lanes that have left would have indices beyond the list."""
    list = qd.Vector([3, 1, 2, 2])
    k, n = x % 4, 0
    while k < 4:
        list[k] += x % 5
        if list[k] % 2 == 0:
            list[k] -= 1
        n += list[k]
        k += list[k] % 3 + 1
    return n


def find_factor(x):
    """The counter is the same in all lanes that are still in the loop."""
    k, found = 2, 0
    while k * k <= x:
        if x % k == 0:
            found = x // k
            break
        k += 1
    return found


def count_after_the_loop(x):
    """The counter is read behind the loop that some lanes leave early."""
    k = 2
    while k * k <= x:
        if x % k == 0:
            break
        k += 1
    return k


def leave_both_loops(x):
    """A break leaves the inner loop only; counters of both loops and of their rounds go on."""
    rounds, outer = 0, 0
    while outer < 6:
        inner, skipped = 0, 0
        while inner < 9:
            inner += 1
            if (x + inner) % 4 == outer % 4:
                skipped += 1
                continue
            if (x * inner) % 7 == 3:
                break
            rounds += inner - skipped
        outer += 1
        if rounds % 11 == 7:
            break
        rounds += outer * skipped
    return 100 * rounds + outer


def return_from_loops(x):
    """Lanes return from within two loops, while the counters of the others go on."""
    a = 0
    for i in range(5):
        b = i
        while b < 12:
            a += b % (i + 1)
            if (a + x) % 13 == 4:
                return 1000 * i + b
            b += 1
        a += b
    return a


@pytest.mark.parametrize("dtype", [qd.i32, qd.i64, qd.u32], ids=str)
@pytest.mark.parametrize(
    "function",
    [count_collatz, leave_early, loop_in_loop, loop_in_a_branch, read_in_the_next_round, chosen_elements]
    + [find_factor, count_after_the_loop, leave_both_loops, return_from_loops],
    ids=lambda f: f.__name__,
)
def test_lanes_that_leave_keep_what_is_read_later(function, dtype):
    x, y = qd.ndarray(dtype, COUNT), qd.ndarray(dtype, COUNT)
    x.from_numpy(np.arange(1, COUNT + 1, dtype=x.to_numpy().dtype))
    compiled = qd.func(function)

    @qd.kernel
    def run(y: qd.types.NDArray[dtype, 1], x: qd.types.NDArray[dtype, 1]):
        for i in y:
            y[i] = compiled(x[i])

    run(y, x)
    expected = [function(i) for i in range(1, COUNT + 1)]
    assert y.to_numpy().tolist() == expected


def test_elements_that_the_iteration_has_loaded_are_loaded_again_in_loops():
    x, y = qd.ndarray(qd.i32, COUNT), qd.ndarray(qd.i32, COUNT)
    values = np.random.default_rng(1).integers(1, 100, COUNT).astype(np.int32)
    x.from_numpy(values)

    @qd.kernel
    def run(y: qd.types.NDArray[qd.i32, 1], x: qd.types.NDArray[qd.i32, 1]):
        for i in y:
            rest, n = 1000 - x[i], 0
            while rest > 0:
                rest -= x[i]
                if n % 4 == 3:
                    x[i] += 1
                n += 1
            y[i] = n

    run(y, x)
    for value, got in zip(values.tolist(), y.to_numpy().tolist(), strict=True):
        rest, n = 1000 - value, 0
        while rest > 0:
            rest -= value
            value += n % 4 == 3
            n += 1
        assert got == n


@pytest.mark.parametrize("length", [3, 40])
def test_chains_of_elements_end_lane_by_lane(length):
    generator = np.random.default_rng(length)
    next = np.full(5000, -1, np.int32)
    for chain in np.split(generator.permutation(5000), 5000 // length * np.array([0.1, 0.5, 0.9]).astype(int)):
        next[chain[:-1]] = chain[1:]
    steps = qd.ndarray(qd.i32, COUNT)

    @qd.kernel
    def follow(steps: qd.types.NDArray[qd.i32, 1], next: qd.types.NDArray[qd.i32, 1]):
        for i in steps:
            at, n = i, 0
            while at >= 0 and n < 100:
                at = next[at]
                n += 1
            steps[i] = n

    follow(steps, next)
    for i, got in enumerate(steps.to_numpy().tolist()):
        at, n = i, 0
        while at >= 0 and n < 100:
            at, n = next[at], n + 1
        assert got == n


def test_functions_in_loops_that_need_both_vectors():
    """The library's routines are for one vector each; lanes of other types are as many."""
    x, y = qd.ndarray(qd.f32, COUNT), qd.ndarray(qd.f64, COUNT)
    x.from_numpy(np.linspace(0.5, 3, COUNT, dtype=np.float32))

    @qd.kernel
    def run(y: qd.types.NDArray[qd.f64, 1], x: qd.types.NDArray[qd.f32, 1]):
        for i in y:
            angle, n = x[i], 0
            while abs(qd.cos(angle) - angle) > 1e-4 and n < 100:
                angle = qd.cos(angle)
                n += 1
            y[i] = angle

    run(y, x)
    assert np.abs(y.to_numpy() - 0.739085).max() < 2e-4

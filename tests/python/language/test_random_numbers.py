"""Random numbers are the same on every backend: they depend on seed, launch, task and iteration only."""

import os

import numpy as np
import pytest

import quadrants as qd
from tests.python.language.language_support import DTYPES, define

ARCH = os.environ.get("QD_ARCH", "cpu")
SEED = 2**40 + 12345

SOURCE = """
x = qd.field(qd.f32, (4, 5))
z = qd.field(qd.i32, 60)

@qd.func
def several(n):
    total = qd.random()
    for _ in range(n):
        total += qd.random()
    return total

@qd.func
def loops(at: qd.template()):
    for i in range(3):
        z[at + i] = qd.random(qd.i32)

@qd.func
def leaves_early(at: qd.template(), n):
    for i in range(3):
        z[at + i] = qd.random(qd.i32)
        if n > 100:
            return i
    return 5

@qd.real_func
def last(n: qd.i32) -> qd.i32:
    k = 0
    for i in range(n):
        k = i
    return k

@qd.kernel
def mixed(n: qd.i32) -> qd.f32:
    total = qd.random()
    for i, j in x:
        if (i + j) % 2 == 0:
            x[i, j] = several(i)
        else:
            x[i, j] = qd.random() + qd.random()
    total += qd.random()
    if n > 3:
        for i in range(4):
            z[i] = qd.random(qd.i32)
        loops(4)
    for i in range(7, 10):
        z[i] = qd.random(qd.i32)
    qd.loop_config(serialize=True)
    for i in range(10, 13):
        z[i] = qd.random(qd.i32)
    k = 13
    while k < 15:
        z[k] = qd.random(qd.i32)
        for i in range(2):
            z[k] += qd.random(qd.i32)
        k += 1
    loops(15)
    for I in qd.grouped(qd.ndrange((2, 4), (0, 3))):
        z[18 + (I[0] - 2) * 3 + I[1]] = qd.random(qd.i32)
    for i, j in qd.ndrange(2, 3, axes=(1, 0)):
        z[24 + i * 3 + j] = qd.random(qd.i32)
    for k in qd.static(range(2)):
        for i in range(2):
            z[30 + 2 * k + i] = qd.random(qd.i32)
    for i in range(n, n):
        z[34] = 1
    for i in range(9, 1, -3):
        z[35 + i] = (qd.random(qd.i32) if n > 3 else 3) + qd.random(qd.i32)
    total += leaves_early(45, n) + last(3)
    if qd.static(True):
        for i in range(2):
            z[50 + i] = qd.random(qd.i32)
    for v in (1, 2):
        z[52 + v] = qd.random(qd.i32)
    for i in z:
        z[i] += qd.random(qd.i32)
    return total + qd.random()
"""


@pytest.fixture
def compare():
    """Calls a function compiled and interpreted, which gives the same arrays."""

    def run(make, **options):
        results = []
        for arch in (ARCH, "python"):
            qd.init(arch=arch, random_seed=SEED, offline_cache=False, log_level="error", **options)
            results.append([np.asarray(item) for item in make()])
        for given, expected in zip(*results, strict=True):
            np.testing.assert_array_equal(given, expected)
        return results[0]

    yield run
    qd.reset()


@pytest.mark.parametrize("dtype", DTYPES)
def test_numbers_of_every_type_are_the_same_when_interpreted(compare, dtype):
    def make():
        kind = getattr(qd, dtype)
        x = qd.field(kind, 100)

        @qd.kernel
        def fill():
            for i in x:
                x[i] = qd.random(kind)

        fill()
        first = x.to_numpy()
        fill()
        return first, x.to_numpy()

    first, second = compare(make)
    assert len(np.unique(first)) > (1 if dtype == "u1" else 50) and not np.array_equal(first, second)


@pytest.mark.parametrize("debug", [False, True])
def test_numbers_of_tasks_and_branches_are_the_same_when_interpreted(compare, debug):
    def make():
        made = define(SOURCE)
        results = []
        for n in (5, 2, 5):
            made["z"].fill(0)
            results += [made["mixed"](n), made["x"].to_numpy(), made["z"].to_numpy()]
        return results

    compare(make, debug=debug)


def test_numbers_of_repeated_tasks_are_the_same_when_interpreted(compare):
    def make():
        x, flag = qd.ndarray(qd.i32, 5), qd.ndarray(qd.i32, ())

        @qd.kernel(graph=True)
        def rounds(x: qd.types.ndarray(), flag: qd.types.ndarray()):
            before = qd.random(qd.i32)
            while qd.graph.do_while(flag):
                inside = qd.random(qd.i32)
                for i in range(1):
                    x[0] = before
                    x[1] = inside
                for i in range(1):
                    x[2] = qd.random(qd.i32)
                for i in range(1):
                    flag[()] -= 1
            for i in range(1):
                x[3] = qd.random(qd.i32)
            x[4] = qd.random(qd.i32)

        flag.fill(3)
        rounds(x, flag)
        return (x.to_numpy(),)

    assert len(set(compare(make)[0].tolist())) == 5


def test_launches_without_random_numbers_do_not_change_those_of_others(on_every_backend):
    @qd.kernel
    def draw() -> qd.u64:
        return qd.random(qd.u64)

    @qd.kernel
    def other(x: qd.template()):
        for i in x:
            x[i] = 1

    on_every_backend(random_seed=5)
    first = [draw() for _ in range(3)]
    qd.random_seed(5)
    x = qd.field(qd.f32, 4)
    second = []
    for _ in range(3):
        other(x)
        second.append(draw())
    assert first == second


@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_normal_numbers_are_nearly_the_same_when_interpreted(kind):
    found = []
    for arch in (ARCH, "python"):
        qd.init(arch=arch, random_seed=3, offline_cache=False)
        found.append(define(f"@qd.kernel\ndef draw() -> qd.{kind}:\n    return qd.randn(qd.{kind})\n")["draw"]())
    assert found[0] == pytest.approx(found[1], rel=1e-5)
    qd.reset()

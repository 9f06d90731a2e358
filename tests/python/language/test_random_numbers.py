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


NESTED = """
@qd.real_func
def several(n: qd.i32) -> qd.f32:
    total = qd.random()
    for _ in range(n):
        total += qd.random()
    return total

@qd.kernel(graph=True)
def rounds(x: qd.types.ndarray(), n: qd.types.ndarray(), outer: qd.types.ndarray(), inner: qd.types.ndarray()):
    x[11, 0] = qd.random()
    while qd.graph.do_while(outer):
        for i in range(4):
            x[n[()], i] = qd.random()
        x[n[()], 4] = qd.random()
        inner[()] = 2
        while qd.graph.do_while(inner):
            for i in range(5, 8):
                x[n[()], i] = qd.random()
            x[n[()], 8] = several(2)
            n[()] += 1
            inner[()] -= 1
        x[n[()] - 1, 9] = qd.random()
        outer[()] -= 1
    x[11, 1] = qd.random()
"""


def test_each_round_of_a_do_while_draws_other_numbers(compare):
    def make():
        rounds = define(NESTED)["rounds"]
        results = []
        for count in (4, 2):
            x, n, outer, inner = qd.ndarray(qd.f32, (12, 10)), *(qd.ndarray(qd.i32, ()) for _ in range(3))
            outer.fill(count)
            rounds(x, n, outer, inner)
            results.append(x.to_numpy())
        return results

    drawn = np.concatenate([found[found != 0] for found in compare(make)])
    assert len(drawn) == 2 * 2 + 6 * (5 + 2 * 4 + 1) == len(set(drawn.tolist()))


def test_statements_between_checkpoints_draw_different_numbers(compare):
    def make():
        x, flag = qd.ndarray(qd.f32, 10), qd.ndarray(qd.i32, ())

        @qd.kernel(graph=True, checkpoints=True)
        def draw(x: qd.types.ndarray(), flag: qd.types.ndarray()):
            with qd.checkpoint(1, yield_on=flag):
                first = qd.random()
                x[0] = qd.random()
                second = qd.random()
                x[1] = first
                x[2] = second
            for i in range(3, 5):
                x[i] = qd.random()
            with qd.checkpoint(2, yield_on=flag):
                x[5] = qd.random()
            x[6] = qd.random()

        draw(x, flag)
        before = x.to_numpy()
        flag.fill(1)
        draw(x, flag)
        draw.resume(x, flag, from_checkpoint=2)
        flag.fill(0)
        draw.resume(x, flag, from_checkpoint=2)
        return before, x.to_numpy()

    drawn = np.concatenate([found[:7] for found in compare(make)])
    assert 0 not in drawn and len(set(drawn.tolist())) == 12  # no launch that was resumed behind the loop ran it


def test_bounds_of_loops_between_checkpoints_draw_numbers_of_their_own(compare):
    def make():
        x, flag, rounds = qd.ndarray(qd.i32, 40), qd.ndarray(qd.i32, ()), qd.ndarray(qd.i32, ())

        @qd.kernel(graph=True, checkpoints=True)
        def draw(x: qd.types.ndarray(), flag: qd.types.ndarray(), rounds: qd.types.ndarray()):
            for i in range(qd.cast(10 * qd.random(), qd.i32) + 1):
                x[i] += qd.random(qd.i32)
            while qd.graph.do_while(rounds):
                with qd.checkpoint(1, yield_on=flag):
                    first = qd.random()
                    for i in range(10, qd.cast(10 * qd.random(), qd.i32) + 11):
                        x[i] += qd.random(qd.i32)
                    x[39] += qd.random(qd.i32) + qd.cast(100 * first, qd.i32)
                for i in range(20, qd.cast(10 * qd.random(), qd.i32) + 21):
                    x[i] += qd.random(qd.i32)
                rounds[None] -= 1
            for i in range(30, qd.cast(8 * qd.random(), qd.i32) + 31):
                x[i] += qd.random(qd.i32)

        found = []
        for yields, resumes in ((0, False), (1, False), (1, True), (0, True)):
            flag.fill(yields)
            rounds.fill(3)
            draw.resume(x, flag, rounds, from_checkpoint=1) if resumes else draw(x, flag, rounds)
            found.append(x.to_numpy())
        return np.array(found)

    compare(make)


@pytest.mark.parametrize("section", ["qd.graph.parallel", "qd.stream_parallel"])
def test_statements_around_and_in_sections_draw_different_numbers(compare, section):
    is_graph = section == "qd.graph.parallel"
    around = "with qd.graph.parallel_context():" if is_graph else "if qd.static(True):"
    alone = "{} = qd.random()" if is_graph else "pass"
    source = f"""
@qd.kernel(graph={is_graph})
def draw(x: qd.types.ndarray(), y: qd.types.ndarray()):
    {alone.format("x[0]")}
    {around}
        with {section}():
            x[1] = qd.random()
        with {section}():
            for i in range(2, 4):
                x[i] = qd.random()
            x[4] = qd.random()
    {alone.format("x[5]")}
    {around}
        with {section}():
            y[0] = qd.random()
            for i in range(1, 3):
                y[i] = qd.random()
    {alone.format("y[3]")}
"""

    def make():
        x, y = qd.ndarray(qd.f32, 6), qd.ndarray(qd.f32, 4)
        define(source)["draw"](x, y)
        return x.to_numpy(), y.to_numpy()

    drawn = np.concatenate(compare(make))
    assert len(set(drawn[drawn != 0].tolist())) == (10 if is_graph else 7)


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

"""What debug mode and the checks add, printing, and options that change the IR."""

from typing import Any

import quadrants as qd

from .graphs import make_count_down
from .recording import Launches


def _make_divide() -> Any:
    x = qd.field(qd.f32, 10)

    @qd.kernel
    def divide(n: qd.i32) -> qd.i32:
        total = 0
        for i in range(n):
            x[i] = qd.f32(n // i) / x[i + 1]
            assert x[i] < 5, f"{x[i]} of {i} is too large"
        for i in range(3):
            total += i << n
        return total

    return divide


def assertions_and_bounds() -> Launches:
    qd.init(arch=qd.cpu, offline_cache=False, log_level="error", debug=True)
    yield _make_divide(), 5


def assertions_without_debug() -> Launches:
    yield _make_divide(), 5


def overflows_that_raise() -> Launches:
    qd.init(arch=qd.cpu, offline_cache=False, log_level="error", debug=True, overflow="raise")
    yield _make_divide(), 5


def bounds_alone() -> Launches:
    qd.init(arch=qd.cpu, offline_cache=False, log_level="error", check_out_of_bound=True)
    yield _make_divide(), 5


def checks_for_nan() -> Launches:
    qd.init(arch=qd.cpu, offline_cache=False, log_level="error", check_nan=True)
    yield _make_divide(), 5


def checks_for_races() -> Launches:
    qd.init(arch=qd.cpu, offline_cache=False, log_level="error", check_races=True)
    yield _make_divide(), 5


def rounds_in_debug_mode() -> Launches:
    qd.init(arch=qd.cpu, offline_cache=False, log_level="error", debug=True)
    yield make_count_down(), qd.ndarray(qd.i32, 8), qd.ndarray(qd.i32, ())


def printing() -> Launches:
    x = qd.field(qd.f32, 10)

    @qd.kernel
    def show(n: qd.i32) -> None:
        for i in x:
            print(i, x[i], qd.Vector([i, 2 * i]), f"{x[i]:.3f}", sep="; ", end="\n")
        print("n is", n)

    yield show, 5


def without_private_reductions() -> Launches:
    qd.init(arch=qd.cpu, offline_cache=False, log_level="error", make_thread_local=False)
    x, total = qd.field(qd.f32, 10), qd.field(qd.f32, ())

    @qd.kernel
    def add() -> None:
        for i in x:
            total[None] += x[i]

    yield (add,)


def other_default_types() -> Launches:
    qd.init(arch=qd.cpu, offline_cache=False, log_level="error", default_fp=qd.f64, default_ip=qd.i64)

    @qd.kernel
    def mix(n: int, x: float) -> float:
        total = 0.0
        for i in range(n):
            total += i * x
        return total

    yield mix, 3, 0.5


def operands_that_are_always_evaluated() -> Launches:
    qd.init(arch=qd.cpu, offline_cache=False, log_level="error", short_circuit_operators=False)
    x = qd.field(qd.i32, 4)

    @qd.kernel
    def either(n: qd.i32) -> qd.i32:
        return n > 3 and x[n] > 2 or x[0] > 1

    yield either, 2

"""Kernels of many loops or of very long blocks: compiled in parts and in pieces, with the same results."""

import linecache
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import quadrants as qd


@pytest.fixture(autouse=True)
def _reset() -> Iterator[None]:
    yield
    qd.reset()


def define(name: str, body: list[str], **names: object) -> Any:
    """A kernel of these lines."""
    file = f"{name}_source.py"
    lines = ["@qd.kernel", f"def {name}():", *("    " + line for line in body)]
    linecache.cache[file] = (0, None, [line + "\n" for line in lines], file)
    namespace = {"qd": qd, **names}
    exec(compile("\n".join(lines), file, "exec"), namespace)
    return namespace[name]


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_a_kernel_of_many_loops_is_the_same_on_any_number_of_compile_threads(threads: int) -> None:
    qd.init(arch=qd.cpu, offline_cache=False, num_compile_threads=threads, fast_math=False)
    x = qd.field(qd.f64, shape=101)
    body = []
    for number in range(30):
        body += ["for i in x:", f"    x[i] = x[i] * 0.5 + qd.sin(x[i]) * {number}.0 if i > {number} else x[i] + 1.0"]
    define("many_loops", body, x=x)()
    expected, index = np.zeros(101), np.arange(101)
    for number in range(30):
        expected = np.where(index > number, expected * 0.5 + np.sin(expected) * number, expected + 1)
    np.testing.assert_allclose(x.to_numpy(), expected, rtol=1e-9, atol=1e-9)


def test_a_block_of_thousands_of_operations_is_cut_without_a_trace() -> None:
    qd.init(arch=qd.cpu, offline_cache=False)
    x = qd.field(qd.i32, shape=33)
    body = ["for i in x:", "    a = i"]
    for number in range(1500):
        body += [f"    a = (a * 5 + {number}) ^ (a >> 3)"]
    define("long_block", [*body, "    x[i] = a"], x=x)()
    expected = np.arange(33, dtype=np.int32)
    with np.errstate(over="ignore"):
        for number in range(1500):
            expected = (expected * np.int32(5) + np.int32(number)) ^ (expected >> np.int32(3))
    assert x.to_numpy().tolist() == expected.tolist()


def test_functions_stay_short_when_an_unrolled_kernel_doubles(tmp_path: Path) -> None:
    lengths = {}
    for stages in (400, 800):
        folder = tmp_path / str(stages)
        qd.init(arch=qd.cpu, offline_cache=False, unrolling_limit=0, piece_size=500, dump=str(folder))
        x = qd.field(qd.f32, shape=8)
        body = ["for i in x:", "    for k in qd.static(range(stages)):", "        x[i] = x[i] * 0.5 + k"]
        define("unrolled", body, x=x, stages=stages)()
        text = next(folder.rglob("3_llvm.ll")).read_text()
        lengths[stages] = [function.count("\n") for function in text.split("\ndefine ")[1:]]
    assert max(lengths[800]) < 1.1 * max(lengths[400])
    assert len(lengths[800]) > 1.5 * len(lengths[400])


def test_pieces_give_what_one_function_gives() -> None:
    """Locals, matrices with run-time indices, loops that are left early, calls, and random numbers across the borders of pieces."""
    body = [
        "for i in x:",
        "    table = qd.Matrix([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]])",
        "    total = 0.0",
        "    count = 0",
        "    for k in range(i + 5):",
        "        if k % 3 == 1:",
        "            continue",
        "        table[k % 3, i % 3] += helper(total + k)",
        "        total += table[(k + 1) % 3, k % 3] * 0.5",
        "        count += 1",
        "        if total > 40.0:",
        "            break",
        "        total -= helper(total)",
        "    x[i] = total + table.sum() + qd.random() + count",
    ]
    found = []
    for piece_size in (0, 1, 4, 20):
        qd.init(arch=qd.cpu, offline_cache=False, fast_math=False, piece_size=piece_size)
        x = qd.field(qd.f64, shape=37)

        @qd.func
        def helper(value: float) -> float:
            if value < 0:
                return -value
            halved = value * 0.5
            return halved + 1.0

        define("various", body, x=x, helper=helper)()
        found.append(x.to_numpy())
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])


def test_a_check_that_fails_within_a_piece_ends_the_kernel() -> None:
    qd.init(arch=qd.cpu, offline_cache=False, debug=True, piece_size=3)
    x = qd.field(qd.i32, shape=4)
    body = ["qd.loop_config(serialize=True)", "for i in range(6):", "    a = i * 2", "    b = a + 1", "    x[i] = a + b", "    x[3] = 7"]
    with pytest.raises(qd.QuadrantsAssertionError, match="4"):
        define("reaches_outside", body, x=x)()
    assert x.to_numpy().tolist() == [1, 5, 9, 7]

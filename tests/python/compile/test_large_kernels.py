"""Kernels of many loops or of very long blocks: compiled in parts and in pieces, with the same results."""

import linecache
from collections.abc import Iterator
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

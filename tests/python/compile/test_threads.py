"""Any thread may define and launch kernels; compiles run side by side."""

import threading
from collections.abc import Iterator

import numpy as np
import pytest

import quadrants as qd


@pytest.fixture(autouse=True)
def _runtime() -> Iterator[None]:
    qd.init(arch=qd.cpu, offline_cache=False)
    yield
    qd.reset()


def test_threads_compile_at_the_same_time() -> None:
    wrong: list[str] = []

    def work(number: int) -> None:
        try:
            for round_number in range(8):
                factor = number * 100 + round_number

                @qd.kernel
                def scale(a: qd.types.ndarray(dtype=qd.f32, ndim=1), k: qd.template()) -> qd.f32:
                    total = 0.0
                    for i in range(a.shape[0]):
                        a[i] = qd.sin(a[i]) * k
                        total += a[i]
                    return total

                values = np.linspace(0, 3, 1000, dtype=np.float32)
                expected = np.sin(values) * factor
                total = scale(values, factor)
                np.testing.assert_allclose(values, expected, rtol=1e-5, atol=1e-5)
                np.testing.assert_allclose(total, expected.sum(), rtol=1e-4)
        except Exception as problem:  # noqa: BLE001  (the test reports whatever happened in the thread)
            wrong.append(repr(problem))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_deeply_nested_expression_compiles() -> None:
    depth = 60
    source = "x[0] = " + "(" * depth + "x[0]" + " + 1)" * depth

    namespace = {"qd": qd, "x": qd.field(qd.i32, shape=1)}
    lines = ["@qd.kernel", "def deep():", f"    {source}"]
    import linecache

    linecache.cache["deep_source.py"] = (0, None, [line + "\n" for line in lines], "deep_source.py")
    exec(compile("\n".join(lines), "deep_source.py", "exec"), namespace)
    namespace["deep"]()  # type: ignore[operator]
    assert namespace["x"][0] == depth  # type: ignore[index]

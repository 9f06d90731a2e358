"""Any thread may define and launch kernels; compiles run side by side."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import quadrants as qd


@pytest.fixture(autouse=True)
def _runtime() -> Iterator[None]:
    qd.init(arch=qd.cpu, offline_cache=False)
    yield
    qd.reset()


def in_four_threads(work: Callable[[int], None]) -> None:
    """Calls `work` with 0…3 at the same time; raises what one of the calls raised."""
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))


def test_threads_compile_at_the_same_time() -> None:
    def work(number: int) -> None:
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

    in_four_threads(work)


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


def test_threads_define_launch_read_and_free() -> None:
    def work(number: int) -> None:
        for size in range(1, 9):
            field, array = qd.field(qd.i32, shape=size), qd.ndarray(qd.i64, size)

            @qd.kernel
            def fill(out: qd.types.ndarray(dtype=qd.i64, ndim=1)):
                for i in field:
                    field[i] = i * number
                    out[i] = field[i] + 1

            fill(array)
            assert [field[i] for i in range(size)] == [i * number for i in range(size)]
            assert array.to_numpy().tolist() == [i * number + 1 for i in range(size)]

    in_four_threads(work)


@pytest.mark.parametrize("way", ["global", "member", "argument", "reset"])
def test_containers_freed_while_a_kernel_uses_them_live_until_it_ends(way: str) -> None:
    held: dict[str, object] = {"x": qd.ndarray(qd.i32, 1_000_000) if way == "argument" else qd.field(qd.i32, shape=1_000_000)}
    begun = np.zeros(1, np.int32)

    @qd.data_oriented
    class Holder:
        def __init__(self) -> None:
            self.x = held["x"]

        @qd.kernel
        def count(self, begun: qd.types.ndarray(), rounds: qd.i32):
            begun[0] = 1
            qd.loop_config(serialize=True)
            for i in range(rounds):
                self.x[i % 1_000_000] += 1

    text = """
@qd.kernel
def count_global(begun: qd.types.ndarray(), rounds: qd.i32):
    begun[0] = 1
    qd.loop_config(serialize=True)
    for i in range(rounds):
        x[i % 1_000_000] += 1

@qd.kernel
def count_argument(begun: qd.types.ndarray(), rounds: qd.i32, x: qd.types.ndarray()):
    begun[0] = 1
    qd.loop_config(serialize=True)
    for i in range(rounds):
        x[i % 1_000_000] += 1
"""
    qd.kernel_from_source(text, held)
    holder = Holder()
    launch = {
        "global": lambda rounds: held["count_global"](begun, rounds),  # type: ignore[operator]
        "reset": lambda rounds: held["count_global"](begun, rounds),  # type: ignore[operator]
        "member": lambda rounds: holder.count(begun, rounds),
        "argument": lambda rounds: held["count_argument"](begun, rounds, held["x"]),  # type: ignore[operator]
    }[way]
    launch(1)  # compiled before
    begun[0] = 0
    thread = threading.Thread(target=launch, args=(400_000_000,))
    thread.start()
    while not begun[0] and thread.is_alive():
        pass
    if way == "reset":
        qd.reset()
    held["x"] = None
    holder.x = None
    others = [np.zeros(1_000_000, np.int32) for _ in range(4)]
    thread.join()
    assert not any(other.any() for other in others)

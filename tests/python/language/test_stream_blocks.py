"""`with qd.stream_parallel()`: blocks that may run at the same time. What they compute does not depend on it."""

import pytest
from language_support import define

import quadrants as qd

pytestmark = pytest.mark.usefixtures("on_every_backend")


def test_blocks_see_what_stands_before_them_and_are_seen_by_what_follows():
    x, y = qd.field(qd.i32, shape=100), qd.field(qd.i32, shape=100)

    @qd.kernel
    def work(start: qd.i32) -> qd.i32:
        """Blocks may follow a docstring and other statements."""
        for i in x:
            x[i] = start
        with qd.stream_parallel():
            first = 0
            for i in x:
                first += x[i]
            x[0] = first
        with qd.stream_parallel():
            for i in y:
                y[i] = 2 * i
            second = 1
            y[0] += second
        s = 0
        for i in y:
            s += y[i]
        return s + x[0]

    for start in range(3):
        assert work(start) == sum(range(0, 200, 2)) + 1 + 100 * start


def test_sums_of_blocks_do_not_mix():
    x = qd.field(qd.i32, shape=1000)
    sums = qd.field(qd.i32, shape=20)

    @qd.kernel
    def work():
        with qd.stream_parallel():
            for i in x:
                sums[0] += i
        with qd.stream_parallel():
            for i in x:
                sums[1] += 2 * i

    for rounds in range(1, 4):
        work()
        assert (sums[0], sums[1]) == (rounds * 499500, rounds * 999000)


@pytest.mark.parametrize("outer", ["qd.stream_parallel()", "qd.graph.parallel_context():\n        with qd.graph.parallel()"])
def test_blocks_inside_of_a_block_run_in_order(outer):
    x = qd.field(qd.i32, shape=100)
    lines = ["with qd.stream_parallel():", "    for i in x:", "        x[i] += n", "x[3] *= 2", "with qd.stream_parallel():"]
    body = "\n".join("            " + line for line in [*lines, "    for i in x:", "        x[i] = 3 * x[i] + x[i] // n"])
    work = define(f"@qd.kernel(graph=True)\ndef work(n: qd.i32):\n    with {outer}:\n{body}", x=x)["work"]
    for _ in range(2):
        work(5)
    assert x.to_numpy().tolist() == [67 if i != 3 else 236 for i in range(100)]


def test_only_kernels_have_blocks():
    @qd.func
    def inner(n):
        with qd.stream_parallel():
            pass

    @qd.kernel
    def work():
        inner(1)

    with pytest.raises(qd.QuadrantsSyntaxError, match="only be used inside @qd.kernel"):
        work()


def test_blocks_may_be_empty():
    @qd.kernel
    def work() -> qd.i32:
        with qd.stream_parallel():
            pass
        return 3

    assert work() == 3

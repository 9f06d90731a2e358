"""Recursion of real functions that has no end, or is deeper than the stack."""

import threading

import numpy as np
import pytest

import quadrants as qd

pytestmark = pytest.mark.usefixtures("on_every_backend")
# A GPU checks in debug mode at most. Else a kernel that runs out of its stack leaves a device that the process cannot use any more.
needs_the_host = pytest.mark.host_memory


def is_interpreted(request):
    return request.node.callspec.params["on_every_backend"] == "python"


A = qd.types.ndarray(dtype=qd.i32, ndim=1)


@qd.real_func
def depth(n: qd.i32) -> qd.i32:
    s = 0
    if n != 0:
        s = depth(n - 1) + 1
    return s


@qd.real_func
def both(n: qd.i32) -> qd.i32:
    return both(n + 1) + both(n + 2)


@qd.real_func
def even(n: qd.i32) -> qd.i32:
    r = 1
    if n != 0:
        r = odd(n - 1)
    return r


@qd.real_func
def odd(n: qd.i32) -> qd.i32:
    r = 0
    if n != 0:
        r = even(n - 1)
    return r


@qd.kernel
def serial(n: qd.i32) -> qd.i32:
    return depth(n)


@qd.kernel
def parallel(x: A, n: qd.i32):
    for i in x:
        x[i] = depth(n + i)


@qd.kernel
def branching() -> qd.i32:
    return both(1)


@qd.kernel
def mutual(n: qd.i32) -> qd.i32:
    return even(n)


@qd.kernel
def in_a_block(x: A, n: qd.i32):
    qd.loop_config(block_dim=32)
    for i in range(64):
        s = qd.simt.block.SharedArray((32,), qd.i32)
        s[i % 32] = depth(n + i)
        qd.simt.block.sync()
        x[i] = s[i % 32]


ENDLESS = {
    "serial": lambda: serial(-1),
    "too deep": lambda: serial(100_000_000),
    "parallel": lambda: parallel(np.zeros(1000, np.int32), -(2**30)),
    "branching": branching,
    "mutual": lambda: mutual(-1),
    "in a block": lambda: in_a_block(np.zeros(64, np.int32), -(2**30)),
}


@needs_the_host
@pytest.mark.parametrize("name", ENDLESS)
def test_recursion_without_an_end_raises_and_the_next_launch_is_right(name, request):
    if name == "in a block" and is_interpreted(request):
        pytest.skip("the interpreter has no blocks")
    for _ in range(2):
        with pytest.raises(RecursionError, match="maximum recursion depth exceeded"):
            ENDLESS[name]()
    x = np.zeros(50, np.int32)
    parallel(x, 3)
    assert serial(20) == 20 and mutual(11) == 0 and x.tolist() == list(range(3, 53))


@needs_the_host
def test_the_error_stands_at_the_call(request):
    if is_interpreted(request):
        pytest.skip("an exception of Python's own")
    with pytest.raises(RecursionError) as caught:
        serial(-1)
    text = str(caught.value)
    assert "s = depth(n - 1) + 1" in text and "in depth" in text and "in the kernel serial:" in text


@needs_the_host
def test_a_thread_has_the_depth_that_its_stack_allows():
    results = []

    def run():
        try:
            results.append(serial(-1))
        except RecursionError:
            results.append("RecursionError")
        results.append(serial(50))

    before = threading.stack_size(256 << 10)
    try:
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)
    assert results == ["RecursionError", 50]


@needs_the_host
def test_ten_thousand_levels_are_fine(request):
    if is_interpreted(request):
        pytest.skip("Python allows fewer")
    assert serial(10_000) == 10_000


@pytest.mark.needs("checked recursion")
def test_debug_mode_raises_on_gpus_too(on_every_backend):
    on_every_backend(debug=True)

    @qd.kernel
    def few_levels(x: A, n: qd.i32):
        for i in x:
            x[i] = depth(n + i % 3)

    x = qd.ndarray(qd.i32, 1000)
    for call in (lambda: serial(-1), branching, lambda: few_levels(x, -(2**30))):
        with pytest.raises(RecursionError, match="maximum recursion depth exceeded"):
            call()
    few_levels(x, 3)
    assert serial(5) == 5 and x.to_numpy().tolist() == [3 + i % 3 for i in range(1000)]

"""Serial loops, whose iterations run several at once where that shows nowhere (loop_config(serialize=True))."""

from collections.abc import Iterator

import numpy as np
import pytest
from language_support import define
from random_loops import compare_with_python, compile_loop, count_lanes, indent, integers, run_in_python, run_loops

import quadrants as qd
from quadrants._session import records as _records

ANY = "qd.types.ndarray()"


@pytest.fixture(autouse=True)
def on_cpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Vectors are the processor's: on a device such loops run on one thread, one iteration after the other."""
    monkeypatch.delenv("QD_ARCH", raising=False)
    qd.init(arch=qd.cpu, offline_cache=False)
    yield
    qd.reset()


OWN = [
    "for i in range(x.shape[0]):\n    x[i] = x[i] * 2 + y[0]",
    "for i in range(x.shape[0]):\n    j = i\n    if y[j] > 2:\n        x[j] += y[3]",
    "for i in range(x.shape[0]):\n    for k in range(y[i]):\n        if k == 3:\n            break\n        x[i] += k",
    "for i in range(20):\n    if x[i] == 3:\n        continue\n    x[i] = i + y[19 - i]",
    "for i in range(2, x.shape[0]):\n    n = 0\n    while n < y[i]:\n        n += 2\n    x[i] = n",
]


@pytest.mark.parametrize("loop", OWN)
def test_iterations_with_elements_of_their_own_run_side_by_side(loop):
    assert compare_with_python(compile_loop(loop, "xy"), loop, "xy", integers(20), integers(20)) > 1


DEPENDENT = [
    "for i in range(1, x.shape[0]):\n    x[i] = x[i - 1] + 1",
    "for i in range(x.shape[0] - 1):\n    x[i] = x[i + 1] + y[i]",
    "for i in range(x.shape[0]):\n    x[0] = x[0] * 3 + y[i] & 63",
    "for i in range(x.shape[0]):\n    x[y[i]] = i",
    "for i in range(x.shape[0]):\n    x[i] = y[i]\n    x[19] += 1",
    "for i in range(x.shape[0]):\n    if y[i] == 4:\n        break\n    x[i] = 9",
    "for i in range(x.shape[0]):\n    j = i\n    if y[i] > 3:\n        j = 2\n    x[j] = i",
    "n = 0\nfor i in range(x.shape[0]):\n    n += y[i]\n    x[i] = n",
    "for i in range(x.shape[0] - 1, -1, -1):\n    x[i] = y[i]",
]


@pytest.mark.parametrize("loop", DEPENDENT)
def test_iterations_that_meet_run_in_order(loop):
    head, _, rest = loop.rpartition("for i")
    kernel = compile_loop("for i" + rest, "xy", head=head)
    assert compare_with_python(kernel, loop, "xy", integers(20), integers(20)) == 1


UNDER_AN_IF = "if {}:\n{}else:\n    for i in range(x.shape[0]):\n        x[i] = i"


@pytest.mark.parametrize("holds", [True, False])
@pytest.mark.parametrize("loop, is_wide", [*((loop, True) for loop in OWN[:3]), *((loop, False) for loop in DEPENDENT[:4])])
def test_loops_alone_under_an_if_are_parallel_where_their_order_shows_nowhere(loop, is_wide, holds):
    text = UNDER_AN_IF.format(f"y[3] {'>' if holds else '<'} 0", indent(loop))
    kernel = define(f"@qd.kernel\ndef k(x: {ANY}, y: {ANY}):\n{indent(text)}")["k"]
    assert (compare_with_python(kernel, text, "xy", integers(20), integers(20)) > 1) == is_wide


def test_what_is_read_between_loops_under_an_if_keeps_them_in_order():
    text = (
        "if y[3] > 0:\n    for i in range(20):\n        x[i] = y[i]\n    if x[1] > 0:\n        for i in range(20):\n            x[i] += 1"
    )
    kernel = define(f"@qd.kernel\ndef k(x: {ANY}, y: {ANY}):\n{indent(text)}")["k"]
    assert compare_with_python(kernel, text, "xy", integers(20), integers(20)) == 1


def test_functions_are_followed():
    preamble = (
        "@qd.func\ndef fill(i, x: qd.template(), y: qd.template()):\n    for k in range(3):\n        x[k, i] += y[i, k] + look(y, k)\n"
        "@qd.func\ndef look(y: qd.template(), k):\n    return y[k, k]"
    )
    x, y, expected = integers(3, 17), integers(17, 3), integers(3, 17)
    assert count_lanes(compile_loop("for i in range(x.shape[1]):\n    fill(i, x, y)", "xy", preamble), x, y) > 1
    np.testing.assert_array_equal(x, expected + y.T + np.array([y[k, k] for k in range(3)])[:, None])
    elsewhere = preamble.replace("x[k, i] +=", "x[k, i - i % 2] +=")
    assert count_lanes(compile_loop("for i in range(x.shape[1]):\n    fill(i, x, y)", "xy", elsewhere), x, y) == 1


AXES = [
    ("for i, j in qd.ndrange(x.shape[0], x.shape[1]):\n    x[i, j] += y[j]", True),
    ("for i, j in qd.ndrange(x.shape[0], x.shape[1]):\n    y[j] = y[j] * 3 + x[i, j]", True),
    ("for i, j in qd.ndrange(x.shape[0], x.shape[1]):\n    for k in range(i, 3):\n        x[k, j] = x[k, j] * 3 + y[j]", True),
    ("for j, i in qd.ndrange(x.shape[1], x.shape[0]):\n    if i == 2:\n        continue\n    y[j] = y[j] * 3 + x[i, j]", True),
    ("for i, j in qd.ndrange(x.shape[0], x.shape[1]):\n    y[i] = y[i] * 3 + x[i, j] & 63", False),
    ("for i, j in qd.ndrange(x.shape[0], x.shape[1]):\n    x[i, j] = x[j % 3, i]", False),
    ("for j, i in qd.ndrange(x.shape[1], x.shape[0]):\n    x[3 - i, j] = x[i, j] + y[j]", True),
    # Far apart in memory.
    ("for i, j in qd.ndrange(x.shape[1], 3):\n    z[i, j % 2] = z[i, 2 - j] + 1", False),
]


@pytest.mark.parametrize("loop, is_wide", AXES)
def test_one_axis_with_elements_of_its_own_is_enough(loop, is_wide):
    arrays = [integers(4, 18), integers(18), integers(18, 3)]
    assert (compare_with_python(compile_loop(loop, "xyz"), loop, "xyz", *arrays) > 1) == is_wide


def test_short_loops_stay_serial_and_have_code_of_their_own():
    kernel = compile_loop("for i in range(x.shape[0]):\n    x[i] += 1", "x")
    _records.records.clear()  # of other tests: only so many are kept
    lanes = []
    for count in (3, 20, 5, 40, 8, 7):
        x = integers(count)
        kernel(x)
        np.testing.assert_array_equal(x, integers(count) + 1)
        lanes.append(len([*qd.compile_report()]))
    first = lanes[0]
    assert lanes == [first, first + 1, first + 1, first + 1, first + 1, first + 1]


SHIFT = "for i in range(1, y.shape[0]):\n    y[i] = x[i - 1] + 1"


def test_arrays_on_one_memory_run_in_order():
    kernel = compile_loop(SHIFT, "xy")
    for make in (lambda a: (a, a.copy()), lambda a: (a, a), lambda a: (a[2:], a[1:-1]), lambda a: (a[:-2], a[2:]), lambda a: (a.copy(), a)):
        x, y = make(integers(32))
        ours, theirs = make(integers(32))
        kernel(x, y)
        run_in_python(SHIFT, "xy", [ours, theirs])
        np.testing.assert_array_equal(x, ours)
        np.testing.assert_array_equal(y, theirs)


def test_views_that_grow_into_each_other_run_in_order():
    kernel = compile_loop(SHIFT, "xy")
    memory, expected = integers(64), integers(64)
    for whole, run in ((memory, kernel), (expected, lambda *arrays: run_in_python(SHIFT, "xy", list(arrays)))):
        run(whole[:10], whole[10:20])
        run(whole[:40], whole[10:40])  # the same addresses
    np.testing.assert_array_equal(memory, expected)


@pytest.mark.parametrize("make", [lambda: np.zeros(40, np.int32), lambda: qd.ndarray(qd.i32, 40)], ids=["numpy", "ndarray"])
def test_strides_that_lead_to_one_element_twice_run_in_order(make):
    kernel = compile_loop("for i in range(x.shape[0]):\n    x[i] = x[i] * 3 + i", "x")
    spread, repeated = make()[::2], np.zeros(10, np.int32)
    kernel(spread)  # the only array of the kernel: of a part of an ndarray, elements have memory of their own
    kernel(np.lib.stride_tricks.as_strided(repeated, (20,), (0,)))
    np.testing.assert_array_equal(np.asarray(spread), np.arange(20))
    expected = 0
    for i in range(20):
        expected = expected * 3 + i
    assert repeated[0] == np.int64(expected).astype(np.int32)


def test_two_names_for_one_field_run_in_order():
    module = define(
        "x = qd.field(qd.i32, (20,))\ny = qd.field(qd.i32, (20,))\n"
        "@qd.kernel\ndef k(x: qd.template(), y: qd.template()):\n    qd.loop_config(serialize=True)\n"
        "    for i in range(1, 20):\n        y[i] = x[i - 1] + 1"
    )
    module["k"](module["x"], module["y"])
    np.testing.assert_array_equal(module["y"].to_numpy(), [0] + [1] * 19)
    module["k"](module["x"], module["x"])
    np.testing.assert_array_equal(module["x"].to_numpy(), np.arange(20))


def test_what_loops_print_comes_in_order(capfd):
    kernel = compile_loop("for i in range(10):\n    x[i] = i\n    print(i)", "x")
    assert count_lanes(kernel, integers(10)) == 1
    qd.sync()
    assert capfd.readouterr().out.split() == [str(i) for i in range(10)]


def test_random_numbers_do_not_depend_on_the_length():
    kernel = compile_loop("for i in range(x.shape[0]):\n    x[i] = qd.random(qd.i32)", "x")
    draws = []
    for count in (5, 40):
        qd.init(arch=qd.cpu, random_seed=3, offline_cache=False)
        x = np.zeros(count, np.int32)
        kernel(x)
        draws.append(x[:5])
    np.testing.assert_array_equal(*draws)


def test_checked_loops_stop_at_the_first_failure():
    qd.init(arch=qd.cpu, debug=True, offline_cache=False)
    kernel = compile_loop("for i in range(x.shape[0]):\n    x[i] = 1\n    assert i < 10 or i % 2 == 0, f'{i}'", "x")
    x = np.zeros(40, np.int32)
    with pytest.raises(AssertionError, match="11"):
        kernel(x)
    np.testing.assert_array_equal(x, np.arange(40) < 12)


@pytest.mark.parametrize("first", range(0, 160, 20))
def test_random_loops_give_what_python_gives(first):
    assert run_loops(first, 20) > 2, "hardly any loop is widened: the test says nothing"

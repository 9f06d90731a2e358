"""`with qd.graph.parallel_context()` and its sections: what they compute does not depend on their order."""

import numpy as np
import pytest
from language_support import define

import quadrants as qd

pytestmark = pytest.mark.usefixtures("on_every_backend")
SYNTAX = qd.QuadrantsSyntaxError


def test_sections_see_what_stands_before_them_and_are_seen_by_what_follows():
    x, y, out = (qd.ndarray(qd.i32, shape=n) for n in (100, 50, 3))

    @qd.kernel(graph=True)
    def work(x: qd.types.NDArray[qd.i32, 1], y: qd.types.NDArray[qd.i32, 1], out: qd.types.NDArray[qd.i32, 1], extra: qd.template()):
        for i in x:
            x[i] = i
        with qd.graph.parallel_context():
            """Sections, whatever makes them."""
            with qd.graph.parallel():
                for i in x:
                    x[i] += 1
                for i in x:
                    out[0] += x[i]
            for k in qd.static(range(2)):
                with qd.graph.parallel():
                    for i in range(25):
                        y[25 * k + i] = k + 1
            if qd.static(extra):
                with qd.graph.parallel():
                    out[1] = 7
        for i in y:
            out[2] += y[i]

    for rounds, extra in ((1, False), (2, True)):
        work(x, y, out, extra)
        assert out.to_numpy().tolist() == [5050 * rounds, 7 * extra, 75 * rounds]


def test_sections_stand_in_repeated_rounds():
    total, left = qd.ndarray(qd.i32, shape=2), qd.ndarray(qd.i32, shape=())

    @qd.kernel(graph=True)
    def work(total: qd.types.NDArray[qd.i32, 1], left: qd.types.NDArray[qd.i32, 0]):
        while qd.graph.do_while(left):
            with qd.graph.parallel_context():
                with qd.graph.parallel():
                    for i in range(10):
                        total[0] += 1
                with qd.graph.parallel():
                    for i in range(10):
                        total[1] += 2
            left[None] -= 1

    left[None] = 4
    work(total, left)
    assert total.to_numpy().tolist() == [40, 80]


def test_a_section_repeats_tasks():
    x, y, flags = qd.ndarray(qd.i32, shape=40), qd.ndarray(qd.i32, shape=3), [qd.ndarray(qd.i32, shape=()) for _ in range(3)]

    @qd.kernel(graph=True)
    def work(
        x: qd.types.NDArray[qd.i32, 1],
        y: qd.types.NDArray[qd.i32, 1],
        outer: qd.types.NDArray[qd.i32, 0],
        first: qd.types.NDArray[qd.i32, 0],
        second: qd.types.NDArray[qd.i32, 0],
    ):
        while qd.graph.do_while(outer):
            first[None], second[None] = 3, 2
            with qd.graph.parallel_context():
                with qd.graph.parallel():
                    while qd.graph.do_while(first):
                        for i in x:
                            x[i] += 1
                        first[None] -= 1
                    y[0] += x[0]
                with qd.graph.parallel():
                    for i in range(5):
                        y[1] += 1
                    while qd.graph.do_while(second):
                        for i in range(7):
                            y[1] += 10
                        second[None] -= 1
            with qd.graph.parallel_context():
                with qd.graph.parallel():
                    for i in x:
                        y[2] += x[i]
            outer[None] -= 1

    for step in range(2):
        flags[0].fill(2)
        work(x, y, *flags)
        assert set(x.to_numpy()) == {6 * (step + 1)}
    assert y.to_numpy().tolist() == [3 + 6 + 9 + 12, 4 * (5 + 140), 40 * (3 + 6 + 9 + 12)]


RACES = {
    "stores of loops": ("for i in x:\n    x[i] = 1", "for i in range(2, 3):\n    x[i] = 2", r"x\[2\] is written"),
    "a serial store": ("x[1] = 1", "for i in x:\n    x[i] = 2", r"x\[1\] is written"),
    "an update and a store": ("for i in x:\n    x[i] = i", "for i in range(4):\n    x[3] += 1", r"x\[3\] is updated"),
    "repeated tasks": (
        "while qd.graph.do_while(flag):\n    for i in range(2):\n        x[i] = 1\n    flag[None] -= 1",
        "x[1] = 5",
        r"x\[1\] is written",
    ),
    "a vector": ("for i in v:\n    v[i] = [i, i]", "v[2][1] = 4", r"v\[2\] is written"),
}
NO_RACES = {
    "other elements": ("for i in range(2):\n    x[i] = 1", "for i in range(2, 4):\n    x[i] = 2"),
    "updates": ("for i in x:\n    x[0] += 1", "for i in x:\n    x[0] += 2"),
    "one section": ("for i in x:\n    x[i] = 1\nfor i in x:\n    x[i] = 2", "v[0] = [1, 2]"),
    "other components": ("v[0][0] = 1", "v[0][1] = 2"),
}


def run_sections(first, second, rounds=1):
    sections = [SECTION + "".join(f"        {line}\n" for line in text.splitlines()) for text in (first, second)]
    text = "with qd.graph.parallel_context():\n" + "".join("    " + each for each in sections)
    x, v, flag = qd.field(qd.i32, shape=4), qd.Vector.field(2, qd.i32, shape=3), qd.field(qd.i32, shape=())
    flag[None] = 3
    source = "@qd.kernel(graph=True)\ndef run():\n" + "".join(f"    {line}\n" for line in text.splitlines())
    kernel = define(source, x=x, v=v, flag=flag)["run"]
    for _ in range(rounds):
        kernel()
    return [*x.to_numpy().tolist(), *v.to_numpy().ravel().tolist()]


@pytest.mark.host_memory
@pytest.mark.parametrize("options", [{"debug": True}, {"check_races": True}])
def test_sections_that_write_one_element_are_reported(options):
    for first, second, message in RACES.values():
        qd.init(arch=qd.cpu, **options)
        with pytest.raises(qd.QuadrantsAssertionError, match=f"Data race: {message} by a section.*another one"):
            run_sections(first, second)
        qd.init(arch=qd.cpu)
        run_sections(first, second)
    for first, second in NO_RACES.values():
        qd.init(arch=qd.cpu, **options)
        checked = run_sections(first, second, rounds=2)
        qd.init(arch=qd.cpu)
        assert checked == run_sections(first, second, rounds=2)


@pytest.mark.host_memory
def test_writes_of_other_rounds_and_contexts_are_no_races():
    qd.init(arch=qd.cpu, debug=True)

    @qd.kernel(graph=True)
    def work(x: qd.types.NDArray[qd.i32, 1], left: qd.types.NDArray[qd.i32, 0]):
        while qd.graph.do_while(left):
            with qd.graph.parallel_context():
                with qd.graph.parallel():
                    x[left[None]] = 1
                with qd.graph.parallel():
                    x[left[None] - 1] = 2
            with qd.graph.parallel_context():
                with qd.graph.parallel():
                    x[5] = 3
                with qd.graph.parallel():
                    x[left[None] - 1] = 4
            left[None] -= 1

    x, left = qd.ndarray(qd.i32, 6), qd.ndarray(qd.i32, ())
    left.fill(4)
    work(x, left)
    assert x.to_numpy().tolist() == [4, 1, 1, 1, 1, 3]


@pytest.mark.host_memory
def test_one_array_under_two_names_is_one_container():
    qd.init(arch=qd.cpu, debug=True)

    @qd.kernel(graph=True)
    def work(x: qd.types.NDArray[qd.i32, 1], y: qd.types.NDArray[qd.i32, 1]):
        with qd.graph.parallel_context():
            with qd.graph.parallel():
                for i in x:
                    x[i] = 1
            with qd.graph.parallel():
                y[1] = 2

    x = qd.ndarray(qd.i32, 3)
    with pytest.raises(qd.QuadrantsAssertionError, match="Data race"):
        work(x, x)


def test_contexts_do_nothing_outside_of_kernels():
    with qd.graph.parallel_context(), qd.graph.parallel():
        values = np.ones(3)
    assert values.sum() == 3


CONTEXT, SECTION = "with qd.graph.parallel_context():\n    ", "with qd.graph.parallel():\n"
MISTAKES = [
    (CONTEXT + "x[0] = 1", r"may contain only 'with qd\.graph\.parallel"),
    (CONTEXT + "for i in range(x[0]):\n        " + SECTION + "            pass", r"may contain only 'with qd\.graph\.parallel"),
    (SECTION + "    pass", r"can only be used directly inside a qd\.graph\.parallel_context"),
    (CONTEXT + "with qd.graph.parallel_context():\n        pass", "regions cannot be nested"),
    (CONTEXT + SECTION + "        " + SECTION + "            pass", "sections cannot be nested"),
    (
        CONTEXT + "while qd.graph.do_while(flag):\n        " + SECTION + "            pass",
        r"may contain only 'with qd\.graph\.parallel",
    ),
    (CONTEXT + SECTION + "        while qd.graph.do_while(flag):\n            " + CONTEXT + "            pass", "regions cannot be nested"),
    ("with qd.graph.parallel_context(1):\n    pass", r"parallel_context\(\) takes no arguments"),
    (CONTEXT + "with qd.graph.parallel(n=1):\n        pass", r"parallel\(\) takes no arguments"),
    ("for i in range(2):\n    with qd.graph.parallel_context():\n        pass", "must be at the kernel top level"),
]


def make_kernel(body, x, flag):
    text = "@qd.kernel(graph=True)\ndef run():\n" + "".join(f"    {line}\n" for line in body.splitlines())
    return define(text, x=x, flag=flag)["run"]


@pytest.mark.parametrize("body, message", MISTAKES)
def test_mistakes(body, message):
    x, flag = qd.field(qd.i32, shape=3), qd.field(qd.i32, shape=())
    with pytest.raises(qd.QuadrantsCompilationError, match=message):
        make_kernel(body, x, flag)()


def test_the_kernel_is_a_graph():
    @qd.kernel
    def work():
        with qd.graph.parallel_context():
            pass

    with pytest.raises(SYNTAX, match=r"requires @qd\.kernel\(graph=True\)"):
        work()


def test_funcs_have_no_sections():
    @qd.func
    def inner():
        with qd.graph.parallel_context():
            pass

    @qd.kernel(graph=True)
    def work():
        inner()

    with pytest.raises(SYNTAX, match=r"can only be used inside @qd\.kernel, not @qd\.func"):
        work()


def test_former_spellings_warn():
    @qd.kernel(graph=True)
    def work(x: qd.types.NDArray[qd.i32, 1]):
        with qd.graph_parallel_context():
            with qd.graph_parallel():
                x[0] = 3

    x = np.zeros(1, np.int32)
    with pytest.warns(DeprecationWarning, match=r"qd\.graph_parallel_context\(\) is deprecated"):
        work(x)
    assert x[0] == 3

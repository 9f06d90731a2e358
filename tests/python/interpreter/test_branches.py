"""Long chains of branches, interpreted and compiled alike."""

import time

import pytest

import quadrants as qd

ARCHES = pytest.mark.parametrize("arch", [qd.cpu, qd.python])


def make_chain(first: str, branch: str, last: str, count: int):
    lines = ["@qd.kernel", "def chosen(x: qd.i32) -> qd.f32:", *first.splitlines(), "    if x == 0:", "        r = 1"]
    lines += [f"    elif x == {i}:\n        {branch.format(i)}" for i in range(1, count)]
    return qd.kernel_from_source("import quadrants as qd\n" + "\n".join([*lines, *last.splitlines(), "    return r"]))


@ARCHES
@pytest.mark.parametrize(
    "first, branch, last",
    [("    r = 0", "r = {} * 2", ""), ("", "r = {} * 2", "    else:\n        r = 2.5"), ("    r = 0", "r = qd.max({}, x) * 2", "")],
)
def test_time_grows_with_the_number_of_branches(arch, first, branch, last):
    qd.init(arch=arch)
    start = time.process_time()
    chosen = make_chain(first, branch, last, 600)
    assert [chosen(x) for x in (0, 1, 300, 599)] == [1, 2, 600, 1198] and chosen(600) == (2.5 if last else 0)
    assert time.process_time() - start < 15


@ARCHES
def test_variables_of_all_branches_have_one_type(arch):
    qd.init(arch=arch)

    @qd.kernel
    def halves(x: qd.i32) -> qd.f32:
        def choose(y):
            if y == 0:
                r = 1
            elif y == 1:
                r = 2
            elif y == 2:
                r = 2.5
            else:
                r = 3
            return r / 2

        if x < 0:
            s = 7
        elif (w := x + 1) == 3:
            s = w // 2
        else:
            s = w
        return choose(x) + 10 * s

    assert [halves(x) for x in (-1, 0, 1, 2, 3)] == [71.5, 10.5, 21, 11.25, 41.5]


@ARCHES
def test_deep_branches_with_loops(arch):
    qd.init(arch=arch)
    lines = ["import quadrants as qd", "@qd.kernel", "def count(x: qd.i32) -> qd.i32:", "    r = 0"]
    for depth in range(25):
        lines += [f"{'    ' * (depth + 1)}if x > {depth}:", f"{'    ' * (depth + 2)}r += qd.min(1, x)"]
    count = qd.kernel_from_source("\n".join([*lines, "    return r"]))
    assert [count(x) for x in (0, 12, 40)] == [0, 12, 25]

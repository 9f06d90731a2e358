"""Warnings of compilation, which interpreted kernels give too, each once for a place."""

import dataclasses
import warnings

import pytest
from language_support import define

import quadrants as qd

CAST = "Casting range_for boundary values from f32 to i32, which may cause numerical issues"
UNROLLED = "You are unrolling more than 32 iterations, so the compile time may be extremely long."


def plain(x):
    return x + 1


@qd.kernel
def doubtful(a: qd.i32, f: qd.f32) -> qd.i32:
    total = 0
    for _ in range(f):
        total += 1
    for _ in qd.static(range(33)):
        total += 1
    for _ in range(5, 2):
        total += 1
    for _ in qd.grouped(qd.ndrange((4, 1), 3)):
        total += 1
    for _ in range(3):
        total += plain(a)

    def own(x):
        return (lambda y: y)(x)

    return own(total)


def messages(kernel, *arguments):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = kernel(*arguments)
    line = doubtful.__wrapped__.__code__.co_firstlineno
    return result, [(warning.lineno - line, str(warning.message)) for warning in caught]


def test_warnings_name_the_line_and_are_given_once(on_every_backend):
    on_every_backend(debug=True)
    result, found = messages(doubtful, 1, 4.5)
    assert result == 4 + 33 + 6
    assert found == [
        (3, CAST),
        (5, UNROLLED),
        (7, "the range from 5 to 2 is empty: a loop downwards has a step of -1"),
        (9, "the range from 4 to 1 is empty: a loop downwards has a step of -1"),
        (12, 'Calling non-quadrants function "plain". Its body is compiled as if it were decorated with @qd.func.'),
    ]
    assert messages(doubtful, 2, 1.5) == (1 + 33 + 9, [])
    on_every_backend(unrolling_limit=0)
    assert [text for _, text in messages(doubtful, 1, 4.5)[1]] == [CAST, found[-1][1]]


@pytest.mark.parametrize(
    "call, remedy",
    [
        ("random.random()", "qd.random() draws numbers"),
        ("random.uniform(0, 1)", "qd.random() draws numbers"),
        ("np.random.rand()", "qd.random() draws numbers"),
        ("generator.random()", "qd.random() draws numbers"),
        ("time.time()", "qd.clock_counter() reads a clock"),
        ("datetime.datetime.now().year", "qd.clock_counter() reads a clock"),
        ("math.sqrt(4.0)", None),
        ("datetime.date(2020, 1, 1).day", None),
        ("qd.static(random.random())", None),
    ],
)
def test_functions_whose_results_change_are_called_once(on_every_backend, call, remedy):
    on_every_backend()
    head = "import datetime, math, random, time\nimport numpy as np\ngenerator = np.random.default_rng(1)\n"
    k = define(f"{head}@qd.kernel\ndef k() -> qd.f64:\n    return {call}\n")["k"]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert k() == k() or qd.cfg is None  # the interpreter calls it each time
    texts = [str(warning.message) for warning in caught]
    assert len(texts) == bool(remedy) and all(remedy in text and "its result is a constant" in text for text in texts)


@pytest.mark.parametrize("around, count", [("for _ in range(2):", 1), ("while n > 5:", 1), ("if n > 0:", 0), ("if qd.static(True):", 0)])
def test_the_name_of_a_loop_inside_of_another_loop_is_ignored(on_every_backend, around, count):
    module = define(
        f"@qd.kernel\ndef k(n: qd.i32):\n    {around}\n        qd.loop_config(name='inner')\n        for _ in range(n):\n            pass\n"
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        module["k"](3)
    assert [(each.category, each.lineno) for each in caught] == [(UserWarning, 5)] * count
    assert all('qd.loop_config(name="inner") is set on a loop inside of another loop' in str(each.message) for each in caught)


@qd.kernel
def mixed(a: qd.i32, b: qd.u32, c: qd.u16) -> qd.u32:
    x = a // b + a % b
    y = qd.max(a, b)
    small = a < b
    v = qd.Vector([a, a]) // qd.Vector([b, b])
    return x + y + qd.cast(small, qd.u32) + a * b + b // 2 + a // c + b % b + v[0]


@pytest.mark.parametrize("level, count", [("debug", 1), ("error", 0)])
def test_operators_that_mixed_signs_change_are_noted(on_every_backend, capfd, level, count):
    on_every_backend(log_level=level)
    mixed(-7, 2, 1)
    mixed(-7, 2, 1)
    lines = [line for line in capfd.readouterr().err.splitlines() if "taken as unsigned" in line]
    assert [line.split("] '")[1].split("'")[0] for line in lines] == ["//", "%", "max", "<", "//"] * count
    assert all("test_warnings.py:" in line and "'i32' and 'u32'" in line for line in lines)


@dataclasses.dataclass(frozen=True)
class Size:
    n: qd.i32


def test_a_dataclass_for_a_template_is_deprecated(on_every_backend):
    @qd.kernel
    def k(size: qd.template()) -> qd.i32:
        return size.n

    with pytest.warns(DeprecationWarning, match="qd.Template-annotated kernel parameter") as found:
        assert k(Size(3)) == 3
    assert found[0].filename == __file__


@pytest.mark.parametrize(
    "make", [lambda: qd.types.matrix(13, 12, qd.f32), lambda: qd.types.vector(145, qd.f32), lambda: qd.Vector([0] * 145)]
)
def test_large_vectors_are_warned_of(make):
    with pytest.warns(UserWarning, match="more than 144 are better kept in a field") as found:
        make()
    assert found[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        qd.types.matrix(12, 12, qd.f32)

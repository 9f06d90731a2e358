"""Several independent mistakes of a kernel come in one exception; what follows from a mistake is none."""

import pytest
from error_support import mistake

import quadrants as qd


@pytest.fixture(autouse=True)
def runtime():
    qd.init(arch=qd.cpu, offline_cache=False, log_level="error")
    yield
    qd.reset()


def found(body):
    """Line (from 1) and text of each mistake in the body of a kernel."""
    error, _ = mistake(body)
    first = error.source and error.line
    lines = body.splitlines()
    base = first - 1 - next(index for index, line in enumerate(lines) if line.strip() == error.source.strip())
    return [(one.line - base, one.summary) for one in [error, *error.others]]


def undefined(name):
    return f'Name "{name}" is not defined [QD101]'


@pytest.mark.parametrize(
    "body, expected",
    [
        ("x = first0\ny = n\nz = second", [(1, undefined("first0")), (3, undefined("second"))]),
        ("x = first0\ny = x + 1\nz = y * x\nprint(z)", [(1, undefined("first0"))]),
        ("x = first0\nx = 1\ny = x + second", [(1, undefined("first0")), (3, undefined("second"))]),
        ("x = first0\nx += 1", [(1, undefined("first0"))]),
        ("for i in range(n):\n    x = first0\n    y = second", [(2, undefined("first0")), (3, undefined("second"))]),
        ("for i in range(n):\n    x = first0\nz = second", [(2, undefined("first0")), (3, undefined("second"))]),
        ("if n > 0:\n    x = first0\nelse:\n    y = second", [(2, undefined("first0")), (4, undefined("second"))]),
        ("while n > first0:\n    x = 1\ny = second", [(1, undefined("first0")), (3, undefined("second"))]),
        ("for i in first0:\n    x = i\nfor i in range(3):\n    y = i + second", [(1, undefined("first0")), (4, undefined("second"))]),
        ("for i in qd.static(range(3)):\n    x = first0 + i", [(2, undefined("first0"))]),
        ("qd.static_assert(False, 'stop')\nx = second", [(1, "AssertionError: stop [QD602]")]),
        ("x = func2(first0, 1)\ny = forever(n)\nz = second", [(1, undefined("first0")), (3, undefined("second"))]),
    ],
)  # fmt: skip
def test_independent_mistakes_are_found_together(body, expected):
    assert [one for one in found(body) if "recursive" not in one[1]] == expected


def test_the_text_has_a_line_for_each():
    error, _ = mistake("x = first0\ny = field1[0, 0]")
    assert isinstance(error, qd.QuadrantsNameError)
    assert str(error).endswith(f"\nalso line {error.line + 1}: Field with dim 1 accessed with indices of dim 2 [QD401]")
    assert [type(one).__name__ for one in error.others] == ["QuadrantsIndexError"]


def test_ten_are_enough():
    error, _ = mistake("\n".join(f"x{number} = missing{number}" for number in range(30)))
    assert len(error.others) == 9


def test_a_wrong_return_is_not_a_missing_one():
    error, _ = mistake("@qd.kernel\ndef k() -> qd.i32:\n    return missing0\nk()")
    assert error.others == [] and "missing0" in str(error)

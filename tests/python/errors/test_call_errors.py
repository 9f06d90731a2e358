"""What a wrong call of a kernel raises: the user's lines only, and a code (spec 1 S16, P11)."""

import traceback
from collections.abc import Iterator

import numpy as np
import pytest

import quadrants as qd
from quadrants._errors import PACKAGE


@pytest.fixture(autouse=True)
def runtime() -> Iterator[None]:
    qd.init(arch=qd.cpu, offline_cache=False, log_level="error")
    yield
    qd.reset()


@qd.kernel
def scale(values: qd.types.NDArray[qd.f32, 1], factor: qd.f32):
    for i in values:
        values[i] *= factor


@qd.kernel
def wrong():
    undefined  # noqa: F821


@qd.kernel
def check(n: qd.i32):
    assert n > 0


VALUES = np.zeros(3, np.float32)
CALLS = [
    (scale, (VALUES,), qd.QuadrantsSyntaxError, "QD701"),
    (scale, (VALUES, 1.0, 2.0), qd.QuadrantsSyntaxError, "QD701"),
    (scale, (1, 1.0), qd.QuadrantsRuntimeTypeError, "QD702"),
    (scale, (VALUES, "two"), qd.QuadrantsRuntimeTypeError, "QD702"),
    (scale, (np.zeros(3), 1.0), ValueError, "QD702"),
    (scale, (np.zeros((3, 3), np.float32), 1.0), ValueError, "QD702"),
    (wrong, (), qd.QuadrantsNameError, "QD101"),
    (check, (0,), qd.QuadrantsAssertionError, None),
]


@pytest.mark.parametrize(("kernel", "arguments", "kind", "code"), CALLS)
def test_errors_show_the_call_and_no_line_of_the_package(kernel, arguments, kind, code):
    qd.init(arch=qd.cpu, debug=True, offline_cache=False, log_level="error")
    with pytest.raises(kind) as caught:
        kernel(*arguments)
    files = [frame.filename for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert files == [__file__]
    assert caught.value.code == code and caught.value.__cause__ is None


def test_print_full_traceback_keeps_every_frame():
    qd.init(arch=qd.cpu, print_full_traceback=True, offline_cache=False, log_level="error")
    with pytest.raises(qd.QuadrantsRuntimeTypeError) as caught:
        scale(1, 1.0)
    files = [frame.filename for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert files[0] == __file__ and any(file.startswith(PACKAGE) for file in files)


def test_lines_of_the_user_below_the_call_stay():
    @qd.data_oriented
    class Broken:
        @property
        def size(self) -> int:
            raise ValueError("no size yet")

        @qd.kernel
        def fill(self) -> qd.i32:
            return self.size

    with pytest.raises(Exception, match="no size yet") as caught:
        Broken().fill()
    files = {frame.filename for frame in traceback.extract_tb(caught.value.__traceback__)}
    assert files == {__file__}

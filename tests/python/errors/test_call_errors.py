"""What a wrong call of a kernel raises: the user's lines only, and a code."""

import traceback
from collections.abc import Iterator

import numpy as np
import pytest
from language_support import define

import quadrants as qd
from quadrants._base.errors import PACKAGE


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


STRUCTS = """
import dataclasses
A, B = qd.types.struct(i=qd.i32, f=qd.f32), qd.types.struct(x=qd.i32)
C, D = qd.types.struct(a=A), qd.types.struct(a=B)
@qd.kernel
def flat(a: A) -> qd.i32: return a.i
@qd.kernel
def nested(a: C) -> qd.i32: return a.a.i
@qd.data_oriented
class Solver: pass
@dataclasses.dataclass
class Inner:
    solver: Solver
@dataclasses.dataclass
class Outer:
    inner: Inner
    n: qd.i32
@qd.kernel
def holder(o: Outer) -> qd.i32: return o.n
@qd.func
def takes3(v: qd.math.vec3): return v[0]
@qd.kernel
def short(x: qd.f32) -> qd.f32: return takes3(qd.Vector([x, x]))
@qd.kernel
def local(x: qd.f32) -> qd.f32:
    v = qd.Vector([x, x])
    return qd.volatile_load(v)[0]
@qd.kernel(graph=True)
def no_flag():
    while qd.graph.do_while(nobody):
        for i in range(3): pass
@qd.kernel(graph=True)
def no_member(x: qd.types.ndarray(qd.i32, 0)):
    while qd.graph.do_while(x.nobody):
        for i in range(3): pass
def inside():
    @qd.kernel
    def k(x: qd.types.ndarray(qd.i32, 1)): pass
    k(qd.ndarray(qd.f32, 3))
def swizzled():
    v = qd.Vector([1.0, 2.0, 3.0])
    v.xy = [1, 2, 3]
"""


@pytest.mark.parametrize(
    ("call", "kinds", "text"),
    [
        ("flat(B(1))", ("QuadrantsRuntimeTypeError", "TypeError"), "cannot be converted into required type"),
        ("nested(D(B(1)))", ("QuadrantsRuntimeTypeError", "TypeError"), "cannot be converted into required type"),
        ("flat(1)", ("QuadrantsRuntimeTypeError", "TypeError"), "cannot be converted into required type"),
        ("holder(Outer(Inner(Solver()), 1))", ("QuadrantsSyntaxError",), "Outer.inner.solver is of a data_oriented class"),
        ("short(1.0)", ("QuadrantsSyntaxError", "QuadrantsTypeError"), "is expected to be a Matrix with n 3, but got 2"),
        ("local(1.0)", ("QuadrantsTypeError",), "function-scope local arrays"),
        ("no_flag()", ("QuadrantsSyntaxError",), "does not resolve to an ndarray kernel parameter"),
        ("no_member(qd.ndarray(qd.i32, ()))", ("QuadrantsSyntaxError",), "does not resolve to an ndarray kernel parameter"),
        ("inside()", ("TypeError",), "kernel inside.<locals>.k:"),
        ("swizzled()", ("QuadrantsRuntimeError", "ValueError"), "value len does not match the swizzle pattern=xy"),
    ],
)
def test_classes_of_errors_are_those_that_programs_catch(call: str, kinds: tuple[str, ...], text: str) -> None:
    qd.init(arch=qd.cpu, offline_cache=False, log_level="error")
    scope = define(STRUCTS)
    with pytest.raises(Exception) as caught:
        eval(call, scope)
    assert text in str(caught.value)
    assert set(kinds) <= {kind.__name__ for kind in type(caught.value).__mro__}
    qd.reset()


@pytest.mark.parametrize("arch", ["cpu", "python"])
def test_a_constant_index_outside_is_found_where_it_runs_if_indices_are_checked(arch: str) -> None:
    qd.init(arch=getattr(qd, arch), offline_cache=False, log_level="error", debug=True)
    x = qd.field(qd.i32, (8, 16))
    y = qd.field(qd.i32, 4, offset=2)

    @qd.kernel
    def write(which: qd.i32):
        if which == 1:
            x[3, 16] = 1
        if which == 2:
            y[6] = 1

    write(0)
    for which, text in ((1, "(8, 16) with indices (3, 16)"), (2, "with indices (6)")):
        with pytest.raises(qd.QuadrantsAssertionError) as caught:
            write(which)
        assert text in str(caught.value)
    qd.reset()


@pytest.mark.parametrize("expression", ["D", "e", "[D, 2.0][0]"])
def test_floats_from_outside_are_refused_on_request(expression: str) -> None:
    qd.init(arch=qd.cpu, offline_cache=False, log_level="error", raise_on_templated_floats=True)
    text = f"D = 1.5\ndef make(e):\n    @qd.kernel\n    def k() -> qd.f32: return {expression}\n    return k\n"
    with pytest.raises(qd.QuadrantsCompilationError, match="Not permitted to access floats as global values"):
        define(text)["make"](2.5)()
    qd.reset()

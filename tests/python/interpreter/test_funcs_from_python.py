"""Funcs that Python calls with `arch=qd.python`, and other names of kernels in Python scope."""

import bdb
import sys

import numpy as np
import pytest

import quadrants as qd

pytestmark = pytest.mark.usefixtures("interpreter")

Pair = qd.types.struct(a=qd.f32, v=qd.math.vec2)


@qd.func
def add(a, b):
    return a + b


@qd.func
def add_to(x: qd.template(), i, amount=2.0):
    x[i] += amount
    return x[i]


@qd.func
def sums(n):
    total = 0
    for i in range(n):
        total += i
    return total


@qd.real_func
def factorial(n: qd.i32) -> qd.i32:
    if n <= 1:
        return 1
    return n * factorial(n - 1)


@qd.data_oriented
class Counter:
    """Counts in a field."""

    def __init__(self):
        self.values = qd.field(qd.i32, 3)
        self.step = 3

    @qd.func
    def count(self, i):
        self.values[i] += self.step
        return self.values[i]

    @qd.kernel
    def run(self) -> qd.i32:
        return self.count(1)


def test_numbers():
    assert add(1, 2) == 3 and type(add(1, 2)) is int and add(a=1, b=0.5) == 1.5 and type(add(1, 0.5)) is float
    assert add(2**31 - 1, 1) == -(2**31)  # i32, as in a kernel
    assert sums(5) == 10 and factorial(5) == 120 and add(np.int64(1), np.float64(2)) == 3.0

    @qd.func
    def is_large(x):
        return x > 2

    assert is_large(3) is True


def test_containers_are_read_and_written():
    for x in (qd.field(qd.f32, 3), qd.ndarray(qd.f32, 3), qd.tensor(qd.f32, 3), np.zeros(3, np.float32), qd.field(qd.f32, 5)[1:4]):
        assert add_to(x, 1) == 2 and add_to(x, i=1, amount=3.0) == 5 and x[1] == 5 and type(add_to(x, 0)) is float

    @qd.func
    def total(rows: qd.types.ndarray(dtype=qd.math.vec2)):
        result = qd.math.vec2(0)
        for i in range(rows.shape[0]):
            result += rows[i]
        return result

    assert list(total(np.ones((3, 2), np.float32))) == [3, 3]
    f = qd.field(qd.f32, 3)
    assert qd.func(lambda_like)(f) is f


def lambda_like(x: qd.template()):
    return x


def test_methods():
    counter = Counter()
    assert counter.count(1) == 3 and counter.run() == 6 and counter.count(1) == 9 and counter.values[1] == 9


def test_vectors_structs_and_tuples():
    @qd.func
    def vector(x):
        return qd.Vector([x, x * 2])

    @qd.func
    def several(v):
        return 1, v * 2, 2.5

    @qd.func
    def pair(x) -> Pair:
        return Pair(a=x, v=qd.math.vec2(x, x + 1))

    made = vector(1.0)
    assert isinstance(made, qd.Vector) and list(made) == [1, 2] and made.dtype == qd.f32
    one, v, number = several(qd.Vector([1, 2]))
    assert (one, number) == (1, 2.5) and list(v) == [2, 4] and type(one) is int
    struct = pair(1)
    assert isinstance(struct, qd.Struct) and struct.a == 1 and list(struct.v) == [1, 2]

    @qd.func
    def twice(s):
        s.a *= 2
        return s

    assert twice(struct).a == 2 and struct.a == 1  # passed by value
    assert add(qd.Vector([1, 2]), 1).to_list() == [2, 3]


def test_arguments_by_reference():
    @qd.func
    def change(v: qd.template()):
        v[0] = 5

    @qd.func
    def change_struct(s: qd.template(), x):
        s.a += x
        s.v[1] = x

    for v in (qd.Vector([1.0, 2.0]), qd.Vector([1, 2], qd.i32), qd.Vector.field(2, qd.f32, 3)[1]):
        change(v)
        assert v[0] == 5
    field = qd.Vector.field(2, qd.f32, 3)
    change(field[2])
    assert field[2][0] == 5
    structs = Pair.field(2)
    for s in (Pair(a=1), structs[1], qd.Struct(a=1.0, v=qd.Vector([0.0, 0.0]))):
        before = s.a
        change_struct(s, 4)
        assert s.a == before + 4 and s.v[1] == 4
    assert structs.a[1] == 4 and structs.v[1][1] == 4 and structs.a[0] == 0


def test_types_and_objects_are_passed_as_they_are():
    @qd.func
    def convert(x, kind: qd.template()):
        return qd.cast(x, kind)

    @qd.func
    def is_field(kind: qd.template()):
        return qd.static(kind is qd.Field)

    @qd.func
    def pick(items: qd.template(), torch_like):
        return items[1] + torch_like[2]

    assert convert(2.7, qd.i32) == 2 and convert(2.5, qd.f64) == 2.5 and is_field(qd.Field) is True
    assert pick([1, 2, 3], (4, 5, 6)) == 8 and pick((1.0, np.float32(2)), [4, 5, 6]) == 8.0


def test_methods_of_structs():
    @qd.dataclass
    class Ball:
        radius: qd.f32

        @qd.func
        def area(self):
            return 2 * self.radius

        @qd.func
        def grow(self, by):
            self.radius += by

    ball = Ball(radius=2)
    assert ball.area() == 4
    ball.grow(1)
    assert ball.radius == 3 and ball.area() == 6


def test_debuggers_stop_in_it(monkeypatch):
    seen = []

    @qd.func
    def stopping(x):
        y = x * 2
        breakpoint()
        return y

    monkeypatch.setattr(sys, "breakpointhook", lambda: seen.append(sys._getframe(1).f_locals["y"].item()))
    assert stopping(4) == 8 and seen == [8]
    lines = []

    class Tracer(bdb.Bdb):
        def user_line(self, frame):
            if frame.f_code.co_name == "add":
                lines.append((frame.f_lineno, frame.f_locals["a"].item()))
            self.set_step()

    assert Tracer().runcall(add, 1, 2) == 3
    assert lines == [(add.function.__code__.co_firstlineno + 2, 1)]


def test_mistakes_have_the_lines_of_the_func():
    f = qd.field(qd.f32, 3)
    with pytest.raises(qd.QuadrantsAssertionError, match=r"test_funcs_from_python.py(?s:.*)Accessing field .* with indices \(7\)"):
        add_to(f, 7)
    assert add_to(f, 1) == 2
    with pytest.raises(qd.QuadrantsSyntaxError, match="Missing argument 'b'"):
        add(1)
    with pytest.raises(LookupError):  # of Python code

        @qd.func
        def failing(x):
            raise_lookup()
            return x

        failing(1)


def raise_lookup():
    raise LookupError("of the user")


def test_python_code_in_a_kernel_calls_no_func():
    def helper(x):
        return add(x, 1)

    @qd.kernel
    def work(x: qd.i32) -> qd.i32:
        return helper(x) + qd.static(add(1, 2))

    with pytest.raises(qd.QuadrantsCompilationError), pytest.warns(SyntaxWarning, match="helper"):
        work(1)
    assert add(1, 2) == 3


def test_other_processors_refuse():
    qd.init(arch=qd.cpu)
    for use in (lambda: add(1, 2), lambda: factorial(3), lambda: Counter().count(1)):
        with pytest.raises(qd.QuadrantsAssertionError, match="cannot be called from Python scope"):
            use()
    qd.reset()
    with pytest.raises(qd.QuadrantsAssertionError, match="cannot be called from Python scope"):
        add(1, 2)


def test_names_of_kernels_in_python_scope():
    assert (qd.f32(3), type(qd.f32(3))) == (3.0, float) and (qd.i32(3.7), type(qd.i32(3.7))) == (3, int)
    assert qd.cast(3.7, qd.i32) == 3 and list(qd.ndrange(2, 2)) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert qd.static(3) == 3 and qd.static(range(3)) == range(3)
    assert qd.math.isnan(float("nan")) and not qd.math.isinf(1.0) and qd.math.isinf(float("inf"))
    assert qd.loop_config(serialize=True) is None and qd.sync() is None
    assert [list(index) for index in qd.grouped(qd.ndrange(1, 2))] == [[0, 0], [0, 1]]
    f = qd.field(qd.f32, (1, 2), offset=(3, -1))
    assert [list(index) for index in qd.grouped(f)] == [[3, -1], [3, 0]]
    for index in qd.grouped(qd.Struct.field({"a": qd.f32}, shape=2)):
        f[3, -1] += index[0]
    assert f[3, -1] == 1
    for index in qd.grouped(f):
        f[index] = 2
    assert f.sum() == 4
    qd.init(arch=qd.cpu)
    with pytest.raises(NotImplementedError):
        qd.grouped(qd.field(qd.f32, 3))

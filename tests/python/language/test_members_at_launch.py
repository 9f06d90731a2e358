"""Numbers among the members of objects that are read at each launch: `template_primitives=False`, dataclasses."""

import dataclasses

import pytest

import quadrants as qd

pytestmark = pytest.mark.usefixtures("on_every_backend")


@dataclasses.dataclass
class Plain:
    n: int


@qd.data_oriented(template_primitives=False)
class Live:
    def __init__(self, n):
        self.n = n
        self.plain = Plain(5)

    @qd.kernel
    def double(self) -> qd.f32:
        return self.n * 2.0

    @qd.kernel
    def inner(self) -> qd.i32:
        return self.plain.n * 10


def is_compiled():
    return qd.cfg is not None and qd.cfg.arch != qd.python


def test_members_are_read_at_each_launch_without_another_version():
    live = Live(3)
    assert live.double() == 6
    for n, wanted in ((4, 8), (True, 2), (2**20, 2**21), (-1, -2)):
        live.n = n
        assert live.double() == wanted
    assert Live(7).double() == 14
    if is_compiled():
        assert Live.double.specialization_count == 1


def test_members_of_members_follow_the_outermost_object():
    live = Live(3)
    assert live.inner() == 50
    live.plain.n = 6
    assert live.inner() == 60
    live.plain = Plain(7)
    assert live.inner() == 70
    if is_compiled():
        assert Live.inner.specialization_count == 1


def test_a_member_that_was_an_integer_does_not_become_a_float():
    live = Live(3)
    assert live.double() == 6
    for value in (2.5, 2.0):
        live.n = value
        with pytest.raises(TypeError, match="would truncate"):
            live.double()
    live.n = 4
    assert live.double() == 8
    other = Live(2.5)  # of another object the type is another matter
    assert other.double() == 5
    other.n = 3
    assert other.double() == 6
    live.plain.n = 1
    assert live.inner() == 10


def test_objects_that_are_gone_say_nothing_about_types():
    for n in range(300):
        assert Live(n).double() == 2 * n
    assert Live(0.5).double() == 1


@qd.data_oriented
class Baked:
    def __init__(self):
        self.live = Live(3)
        self.plain = Plain(4)

    @qd.kernel
    def count(self) -> qd.i32:
        total = 0
        for i in qd.static(range(self.live.n + self.plain.n)):
            total += i
        return total


def test_members_of_a_baked_object_are_compile_time_values():
    baked = Baked()
    assert baked.count() == 21
    baked.live.n = 4
    assert baked.count() == 28


@qd.data_oriented(template_primitives=False)
class Static:
    def __init__(self):
        self.baked = Baked()
        self.n = 3

    @qd.kernel
    def loop(self) -> qd.i32:
        total = 0
        for i in qd.static(range(self.n)):
            total += i
        return total

    @qd.kernel
    def branch(self) -> qd.i32:
        total = 0
        if qd.static(self.baked.plain.n > 2):
            total += 1
        return total


@pytest.mark.parametrize("name", ["loop", "branch"])
def test_members_that_are_read_at_launch_are_not_static(name):
    with pytest.raises(qd.QuadrantsSyntaxError, match=r"runtime kernel argument and cannot be used inside qd.static\(\)"):
        getattr(Static(), name)()


@qd.kernel
def of_plain(x: Plain) -> qd.i32:
    return x.n * 2


def test_float_for_an_integer_member_of_a_dataclass_is_refused():
    for _ in range(2):
        with pytest.raises(qd.QuadrantsRuntimeTypeError, match=r"n \(type=<class 'float'>\) cannot be converted into required type i32"):
            of_plain(Plain(2.5))
        assert of_plain(Plain(3)) == 6
    if is_compiled():
        assert of_plain.specialization_count == 1


@qd.kernel
def of_template(x: qd.template()) -> qd.i32:
    total = 0
    for i in qd.static(range(x.n)):
        total += i
    return total


def test_members_of_a_template_dataclass_are_compile_time_values():
    assert of_template(Plain(3)) == 3 and of_template(Plain(4)) == 6


def test_members_that_are_said_to_be_stable_are_seen_when_they_are_rebound():
    @qd.data_oriented(stable_members=True)
    class Steady:
        def __init__(self):
            self.x, self.scale = qd.field(qd.i32, 3), 2

        @qd.kernel
        def fill(self):
            for i in self.x:
                self.x[i] = i * self.scale

    steady = Steady()
    steady.fill()
    first, steady.x, steady.scale = steady.x, qd.field(qd.i32, 4), 5
    steady.fill()
    assert (first.to_numpy().tolist(), steady.x.to_numpy().tolist()) == ([0, 2, 4], [0, 5, 10, 15])


def test_members_that_are_said_to_be_stable_are_checked_in_debug_mode(on_every_backend):
    @qd.data_oriented(stable_members=True)
    class Steady:
        def __init__(self):
            self.x, self.scale = qd.ndarray(qd.i32, 3), 2

        @qd.kernel
        def fill(self):
            for i in self.x:
                self.x[i] = i * self.scale

    on_every_backend(debug=True)
    steady, other = Steady(), Steady()
    other.x = qd.ndarray(qd.i32, 4)  # not launched yet
    for one in (steady, other):
        one.fill()
        one.fill()
    steady.scale, first = 3, steady.x
    for shape in (3, (3, 1)):
        steady.x = qd.ndarray(qd.i32, shape)
        with pytest.raises(qd.QuadrantsRuntimeError, match="'x' of a Steady was replaced after a launch"):
            steady.fill()
        other.fill()
    steady.x = first
    steady.fill()
    assert first.to_numpy().tolist() == [0, 3, 6]
    on_every_backend(debug=True)
    steady.x = qd.ndarray(qd.i32, 3)
    steady.fill()  # of another runtime
    assert steady.x.to_numpy().tolist() == [0, 3, 6]

"""Kernels and funcs as methods; dataclass arguments; annotations; captured values."""

import dataclasses

import numpy as np
import pytest
from language_support import define

import quadrants as qd

pytestmark = pytest.mark.usefixtures("on_every_backend")


@qd.data_oriented
class Solver:
    scale = 3

    def __init__(self, n):
        self.n = n
        self.x = qd.field(qd.i32, shape=n)
        self.gain = 2

    @qd.func
    def weight(self, i):
        return i * self.gain * self.scale

    @qd.kernel
    def step(self, offset: qd.i32) -> qd.i32:
        for i in self.x:
            self.x[i] += self.weight(i) + offset
        s = 0
        for i in range(self.n):
            s += self.x[i]
        return s


class Heavier(Solver):
    @qd.func
    def weight(self, i):
        return i * 100


def test_methods_of_a_class_see_its_members():
    solver = Solver(4)
    assert solver.step(1) == 6 * (0 + 1 + 2 + 3) + 4
    assert solver.step(0) == 2 * 36 + 4
    assert Solver(2).step(0) == 6


def test_changed_members_are_seen_by_the_next_launch():
    solver = Solver(3)
    assert solver.step(0) == 18
    solver.x.fill(0)
    solver.gain = 5
    assert solver.step(0) == 45
    solver.x = qd.field(qd.i32, shape=3)
    assert solver.step(1) == 48


def test_overridden_funcs_dispatch_by_the_object():
    assert Heavier(3).step(0) == 300


def test_objects_are_template_arguments_and_members():
    @qd.kernel
    def total(solver: qd.template()) -> qd.i32:
        s = solver.n * 1000
        for i in solver.x:
            s += solver.x[i]
        return s

    solver = Solver(3)
    solver.x.fill(2)
    assert total(solver) == 3006


def test_template_scalars_are_compile_time():
    @qd.kernel
    def work(n: qd.template(), x: qd.i32) -> qd.i32:
        s = 0
        for i in qd.static(range(n)):
            s += x * (i + 1)
        return s

    assert work(3, 1) == 6
    assert work(1, 5) == 5


def test_template_fields():
    @qd.kernel
    def fill(x: qd.template(), value: qd.i32):
        for I in qd.grouped(x):
            x[I] = value + I.sum()

    one, two = qd.field(qd.i32, shape=3), qd.field(qd.f32, shape=(2, 2))
    fill(one, 10)
    fill(two, 20)
    assert one.to_numpy().tolist() == [10, 11, 12]
    assert two.to_numpy().tolist() == [[20, 21], [21, 22]]


@dataclasses.dataclass
class Inner:
    x: qd.types.ndarray(dtype=qd.f32, ndim=1)
    scale: qd.f32


@dataclasses.dataclass
class Outer:
    inner: Inner
    n: qd.i32


def test_dataclass_arguments():
    @qd.func
    def apply(inner: Inner, i):
        inner.x[i] *= inner.scale

    @qd.kernel
    def work(o: Outer) -> qd.f32:
        for i in range(o.n):
            o.inner.x[i] += i
            apply(o.inner, i)
        return o.inner.scale / o.n

    x = qd.ndarray(qd.f32, shape=4)
    outer = Outer(Inner(x, 2), 3)
    assert work(outer) == pytest.approx(2 / 3)
    assert x.to_numpy().tolist() == [0, 2, 4, 0]
    outer.inner = Inner(x, 10)
    outer.n = 2
    assert work(outer) == 5
    assert x.to_numpy().tolist() == [0, 30, 4, 0]


def test_array_arguments_of_several_kinds():
    @qd.kernel
    def work(a: qd.types.ndarray(dtype=qd.f32, ndim=2), v: qd.types.ndarray(dtype=qd.types.vector(2, qd.i32), ndim=1)) -> qd.i32:
        for i, j in a:
            a[i, j] += i * a.shape[1] + j
        v[1] += 5
        v[0].y = 7
        return a.shape[0] * 100 + v.shape[0]

    a, v = np.zeros((2, 3), np.float32), np.zeros((2, 2), np.int32)
    assert work(a, v) == 202
    assert a.ravel().tolist() == [0, 1, 2, 3, 4, 5] and v.tolist() == [[0, 7], [5, 5]]
    host = qd.Vector.ndarray(2, qd.i32, shape=2)
    work(qd.ndarray(qd.f32, shape=(1, 1)), host)
    assert host.to_numpy().tolist() == [[0, 7], [5, 5]]


def test_optional_arrays():
    @qd.kernel
    def work(a: qd.types.NDArray[qd.i32, 1] | None, n: qd.i32) -> qd.i32:
        r = n
        if qd.static(a is not None):
            r += a[0]
        return r

    a = qd.ndarray(qd.i32, shape=1)
    a[0] = 5
    assert work(a, 1) == 6
    assert work(None, 1) == 1


G = 1


def test_captured_globals_are_never_stale():
    @qd.kernel
    def work() -> qd.i32:
        return G

    global G
    assert work() == 1
    G = 2
    assert work() == 2
    G = 1


def test_captured_closures_are_never_stale():
    value = 3

    @qd.kernel
    def work() -> qd.i32:
        return value * 2

    assert work() == 6
    value = 5
    assert work() == 10


def test_captured_numpy_values_are_constants():
    table = np.array([3, 5, 7])
    number = np.float64(0.5)

    @qd.kernel
    def work() -> qd.f32:
        s = 0
        for i in qd.static(range(3)):
            s += table[i] * (i + 1)
        return s + number

    assert work() == 3 + 10 + 21 + 0.5


CAPTURED = np.ones(3, np.float32)


@qd.kernel
def read_captured_array(i: qd.i32) -> qd.f32:
    return CAPTURED[i]


def test_captured_arrays_are_indexed_by_constants():
    with pytest.raises(qd.QuadrantsTypeError, match="in a kernel is constant and has constant indices, got i32"):
        read_captured_array(1)


@pytest.mark.parametrize("arguments, named", [((1, 2), {}), ((1,), {"b": 2}), ((), {"b": 2, "a": 1})])
def test_arguments_bind_by_position_and_name(arguments, named):
    @qd.kernel
    def work(a: qd.i32, b: qd.i32) -> qd.i32:
        return a * 10 + b

    assert work(*arguments, **named) == 12


def test_tuple_results():
    @qd.kernel
    def work(a: qd.i32) -> (qd.i32, qd.f32):
        return a + 1.7, a / 2

    assert work(3) == (4, 1.5)


def test_kernel_in_a_static_method():
    class Tools:
        @staticmethod
        @qd.kernel
        def double(x: qd.i32) -> qd.i32:
            return x * 2

    assert Tools.double(4) == 8


class Slanted(Solver):
    @qd.func
    def weight(self, i):
        return super().weight(i) + self.x.shape[0]


class SlantedTwice(Slanted):
    @qd.func
    def weight(self, i):
        return super().weight(i) * 2


def test_super_calls_the_method_of_the_next_class():
    assert Slanted(3).step(0) == 18 + 9
    assert SlantedTwice(3).step(0) == 2 * (18 + 9)


@dataclasses.dataclass
class Reading:
    value: qd.f32
    count: qd.i32 = 2


def test_dataclass_is_built_of_run_time_values():
    @qd.func
    def scaled(r, by):
        return Reading(r.value * by, count=r.count + 1)

    @qd.kernel
    def work(x: qd.f32) -> qd.f32:
        r = Reading(x)
        s = scaled(r, 2)
        return s.value * 100 + s.count

    assert work(1.5) == 303


@dataclasses.dataclass
class Sample:
    weight: qd.f32
    at: qd.types.vector(2, qd.i32)
    SCALE = 7

    @qd.func
    def total(self, by):
        return self.weight * by + self.at.sum() + self.SCALE

    @qd.func
    def move(self, x):
        self.at[0] = x

    @staticmethod
    @qd.func
    def twice(x):
        return x * 2


@dataclasses.dataclass
class Pair:
    first: Sample
    count: qd.i8


@qd.func
def heavier(sample):
    sample.weight += 100
    return sample.weight


@pytest.mark.parametrize(
    "body, expected",
    [
        ("s = Sample(1.5, [n, 2])\nreturn s.total(2) + s.twice(n)", 3 + 6 + 7 + 8),
        ("s = Sample(1.5, [1, 2])\ns.weight += 1\ns.at[1] = 9\nreturn s.total(2)", 5 + 10 + 7),  # of constants, too
        ("s = Sample(1.5, [n, 2])\nt = s\nt.move(50)\nt.weight = n\nreturn s.at[0] * 1000 + t.at[0] * 10 + s.weight", 4501.5),
        ("s = Sample(n, [n, 2])\nreturn heavier(s) + s.weight", 108),
        ("p = Pair(Sample(n, [n, 2]), 300)\np.first.weight += 1\np.count += 1\nreturn p.first.weight * 100 + p.count", 545),
        ("p = Pair(Sample(n, [n, 2]), 3)\np.first = Sample(8, [1, 1])\nreturn p.first.total(1)", 17),
        ("s = Sample(n, [1, 1]) if n > 9 else Sample(5, [1, 2])\nreturn s.weight", 5),
        ("s = [Sample(i, [n, 2]) for i in range(3)]\ns[1].weight = 50\nreturn s[0].weight + s[1].weight + s[2].weight", 52),
        ("return (Sample(n, [1, 2]) == Sample(4, [1, 2])) * 10 + (Sample(n, [1, 2]) != Sample(4, [1, 2]))", 10),
    ],
)
def test_dataclasses_of_values_are_structs_in_kernels(body, expected):
    names = {"Sample": Sample, "Pair": Pair, "heavier": heavier}
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    assert define(f"@qd.kernel\ndef k(n: qd.i32) -> qd.f32:\n{lines}", **names)["k"](4) == expected


@pytest.mark.parametrize(
    "arguments, text",
    [("1", "Missing argument 'at'"), ("1, [1, 2], 3", "Too many arguments"), ("n, [1, 2], x=3", "Unexpected argument 'x'")],
)
def test_dataclasses_are_constructed_with_their_members(arguments, text):
    kernel = define(f"@qd.kernel\ndef k(n: qd.i32):\n    s = Sample({arguments})", Sample=Sample)["k"]
    with pytest.raises(qd.QuadrantsSyntaxError, match=text):
        kernel(1)


@qd.data_oriented
class Counter:
    STEP = 4

    def __init__(self, n):
        self.n = n

    @classmethod
    @qd.func
    def stepped(cls, x):
        return x + cls.STEP

    @property
    @qd.func
    def twice(self):
        return self.n * 2

    @qd.kernel
    def work(self) -> qd.i32:
        return self.stepped(self.n) * 100 + self.twice


def test_funcs_are_class_methods_and_properties():
    assert Counter(3).work() == 706
    assert Counter(5).work() == 910


def test_methods_kept_elsewhere_belong_to_their_object():
    class Material:
        def __init__(self, gain):
            self.gain = gain

        @qd.func
        def scale(self, x):
            return x * self.gain

    @qd.data_oriented
    class Solver:
        def __init__(self):
            self.first = Material(2.0).scale
            self.all = [Material(3.0).scale, Material(5.0).scale]

        @qd.kernel
        def run(self, x: qd.f32) -> qd.f32:
            total = self.first(x)
            for i in qd.static(range(2)):
                total += self.all[i](x)
            return total

    solver = Solver()
    assert solver.run(1.0) == 10.0
    solver.all[1] = Material(7.0).scale
    assert solver.run(1.0) == 12.0
    solver.first = Material(1.0).scale
    assert solver.run(1.0) == 11.0


def test_containers_in_dicts_have_texts_and_integers_as_keys():
    @qd.data_oriented
    class Model:
        def __init__(self):
            self.fields = {"heat": qd.field(qd.i32, shape=3), 7: qd.field(qd.i32, shape=4), "factor": 2}

        @qd.kernel
        def add(self, key: qd.template()):
            for i in self.fields[key]:
                self.fields[key][i] += i * self.fields["factor"]

    model = Model()
    model.add("heat")
    model.add(7)
    model.fields["factor"] = 5
    model.add("heat")
    assert model.fields["heat"].to_numpy().tolist() == [0, 7, 14]
    assert model.fields[7].to_numpy().tolist() == [0, 2, 4, 6]
    before = model.fields["heat"]
    model.fields["heat"] = qd.field(qd.i32, shape=2)
    model.add("heat")
    assert before.to_numpy().tolist() == [0, 7, 14] and model.fields["heat"].to_numpy().tolist() == [0, 5]


GLOBAL_FIELDS = {}


def test_containers_in_a_dict_of_a_module_are_read_at_each_launch():
    GLOBAL_FIELDS.update(a=qd.field(qd.i32, shape=2), b=qd.field(qd.i32, shape=2))

    @qd.kernel
    def copy():
        for i in GLOBAL_FIELDS["a"]:
            GLOBAL_FIELDS["b"][i] = GLOBAL_FIELDS["a"][i] + 1

    copy()
    GLOBAL_FIELDS["a"] = qd.field(qd.i32, shape=2)
    GLOBAL_FIELDS["a"].fill(4)
    copy()
    assert GLOBAL_FIELDS["b"].to_numpy().tolist() == [5, 5]
    del GLOBAL_FIELDS["a"]
    with pytest.raises(Exception, match="a"):
        copy()

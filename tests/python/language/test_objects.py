"""Objects that kernels make of classes of the user's, from values of the run time; named tuples."""

import collections
import dataclasses
import functools  # noqa: F401 - texts of kernels use it
import operator  # noqa: F401
import typing

import numpy as np
import pytest
from language_support import define

import quadrants as qd

pytestmark = [pytest.mark.usefixtures("on_every_backend"), pytest.mark.filterwarnings("ignore:Calling non-quadrants function")]


@qd.data_oriented
class Ray:
    up = 100.0

    def __init__(self, o, d):
        self.o, self.d = o, d

    @qd.func
    def at(self, t):
        return self.o + t * self.d

    @qd.func
    def move(self, t):
        self.o += t * self.d

    def high(self):
        return self.o + self.up

    @property
    def twice(self):
        return self.o * 2


@qd.data_oriented
class Lens(Ray):
    def __init__(self, o, power=3.0, *, gain=1.0):
        super().__init__(o, 1.0)
        self.power = power
        self.power *= gain
        self.stops = [o * k for k in range(2)]
        self.stops.append(o * 2)

    @qd.func
    def total(self):
        s = self.at(self.power)
        for stop in qd.static(self.stops):
            s += stop
        return s


class Camera:
    """Without a decorator."""

    def __init__(self, ray, count):
        self.ray = ray
        self.count = count

    def shoot(self, t):
        s = 0.0
        for i in qd.static(range(self.count)):
            s += self.ray.at(t * i)
        return s


@qd.data_oriented
class Cell:
    def __init__(self, f, i):
        self.f, self.i = f, i

    @qd.func
    def get(self):
        return self.f[self.i]

    @qd.func
    def put(self, v):
        self.f[self.i] = v


@qd.data_oriented
@dataclasses.dataclass
class Hit:
    t: typing.Any
    normal: typing.Any = None
    count: int = 2
    tags: list = dataclasses.field(default_factory=list)

    def __post_init__(self):
        self.far = self.t * 10

    @qd.func
    def score(self):
        return self.t + self.far + self.count


@qd.func
def make_ray(t):
    return Ray(t, t * 2)


@qd.func
def far(ray, t):
    return ray.at(t)


@qd.func
def push(ray, t):
    ray.o += t


@qd.func
def nearest(a, b):
    if a.o < b.o:
        return a.o
    return b.o


@qd.func
def early(ray):
    if ray.o > 0.0:
        return 1.0
    return 2.0


@qd.func
def choose(t):
    if t > 1.0:
        return Ray(t, 1.0)
    return Ray(-t, 2.0)


@pytest.mark.parametrize(
    "body, expected",
    [
        ("r = Ray(qd.Vector([0.0, t]), qd.Vector([1.0, 2.0]))\nreturn r.at(t)[1]", 6),
        ("a = t\nr = Ray(a, a)\na += 10.0\nreturn r.o", 2),
        ("r = Ray(t, t)\nr.o = 5.0\nreturn r.o * 100 + t", 502),
        ("r = Ray(t, t)\nr.o += 5.0\nreturn r.o", 7),
        ("r = Ray(t, t)\nr.move(3.0)\nr.move(1.0)\nreturn r.o", 10),
        ("r = Ray(t, 1.0)\nif t > 1.0:\n    r.o = 50.0\n    r.move(2.0)\nreturn r.o", 52),
        ("r = Ray(t, 1.0)\nfor i in range(4):\n    r.move(1.0)\nreturn r.o", 6),
        ("r = Ray(3, t)\ns = 0.0\nfor i in qd.static(range(r.o)):\n    s += r.d\nreturn s", 6),
        ("r = Ray(t, t)\nreturn r.high() + r.twice + r.up", 206),
        ("rays = [Ray(t, 1.0), Ray(t * 2, 2.0)]\ns = 0.0\nfor r in qd.static(rays):\n    s += r.at(1.0)\nreturn s", 9),
        ("return make_ray(t).at(3.0)", 14),
        ("r = make_ray(t)\nr.o = 1.0\nq = make_ray(t * 2)\nreturn r.at(1.0) * 100 + q.at(1.0)", 512),
        ("return far(Ray(t, t), 3.0)", 8),
        ("r = Ray(t, t)\npush(r, 3.0)\nreturn r.o", 5),
        ("return nearest(Ray(t, 1.0), Ray(1.0, t))", 1),
        ("return choose(t).at(1.0) * 100 + choose(-t).at(1.0)", 304),
        ("r = choose(t)\nr.o += 1.0\nreturn r.o", 3),
        ("return Camera(Ray(t, 1.0), 3).shoot(2.0)", 12),
        ("c = Camera(Ray(t, 1.0), 3)\nc.ray.o = 10.0\nreturn c.shoot(2.0)", 36),
        ("return Lens(t).total() + Lens(t, t, gain=2.0).total()", 23),
        ("h = Hit(t)\nreturn h.score() + Hit(t=1.0, count=5, normal=t).score()", 40),
        ("r = Ray(t, t)\nr = Ray(t * 10, t)\nreturn r.o", 20),
        ("r = Ray(t, t)\nreturn 1.0 if isinstance(r, Ray) and hasattr(r, 'o') and not hasattr(r, 'z') else 0.0", 1),
        ("r = Ray(qd.Vector([t, 1.0]), 1.0)\nr.o[0] = 7.0\nr.o.y += 2.0\nreturn r.o.x * 10 + r.o.y", 73),
        ("r = Ray(t, 1.0)\nq = r\nq.o = 9.0\nreturn r.o", 9),
        ("r = Ray(qd.f64(t), qd.cast(t, qd.f64))\nr.o = qd.f64(t) * 2\nr.move(1.0)\nreturn qd.cast(r.o, qd.f32)", 6),
        ("return {'a': Ray(t, 1.0)}['a'].at(1.0)", 3),
    ],
)
def test_objects_of_classes_hold_values_of_the_run_time(body, expected):
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    scope = define(f"@qd.kernel\ndef k(t: qd.f32) -> qd.f32:\n{lines}", **globals())
    assert scope["k"](2.0) == expected


def test_objects_in_parallel_loops_are_of_each_iteration():
    x = qd.field(qd.f32, 100)

    @qd.kernel
    def k():
        for i in x:
            r = Ray(qd.Vector([1.0 * i, 2.0]), qd.Vector([1.0, 1.0]))
            if i % 2 == 1:
                r.o[0] = 100.0
            r.move(1.0)
            x[i] = r.at(0.5)[0]

    k()
    i = np.arange(100)
    np.testing.assert_array_equal(x.to_numpy(), np.where(i % 2, 100, i) + 1.5)


def test_iterations_add_to_the_members_of_an_object_of_the_kernel():
    @qd.kernel
    def k(n: qd.i32) -> qd.i32:
        r = Ray(n * 0, 1)
        for _ in range(n):
            r.o += 1
        return r.o

    assert k(10000) == 10000


def test_members_that_are_containers_and_objects_from_outside():
    x = qd.field(qd.f32, 4)
    host = Ray(1.0, 2.0)

    @qd.kernel
    def k(a: qd.types.ndarray(dtype=qd.f32, ndim=1)) -> qd.f32:
        s = 0.0
        for j in range(4):
            Cell(x, j).put(j * 2.0)
            Cell(a, j).put(j * 1.0)
        for j in range(4):
            s += Cell(x, j).get() + Cell(a, j).get()
        return s + Camera(host, 2).shoot(1.0)

    a = np.zeros(4, np.float32)
    assert k(a) == 12 + 6 + 1 + 3
    host.o = 10.0
    assert k(a) == 18 + 10 + 12
    x2, x = x, qd.field(qd.f32, 4)
    assert k(a) == 40 and x.to_numpy().tolist() == x2.to_numpy().tolist()


def test_a_changed_constant_of_the_class_is_seen():
    @qd.kernel
    def k(t: qd.f32) -> qd.f32:
        return Ray(t, t).high()

    assert k(1.0) == 101
    Ray.up = 200.0
    try:
        assert k(1.0) == 201
    finally:
        Ray.up = 100.0


@pytest.mark.parametrize(
    "body, kind, text",
    [
        ("return Ray(t, t).z", AttributeError, "'Ray' object has no attribute 'z'"),
        ("return Ray(t).o", qd.QuadrantsSyntaxError, "Missing argument 'd'"),
        ("r = Ray(t, 1)\nif t > 0.0:\n    r.d = t\nreturn r.d", qd.QuadrantsSyntaxError, "'d' is known while compiling"),
        ("r = Ray(t, 1)\nif t > 0.0:\n    r = Ray(t, 2)\nreturn r.d", qd.QuadrantsSyntaxError, "Recreating variables"),
        ("return Ray(t, 1)", qd.QuadrantsCompilationError, "cannot be converted into required type f32"),
        ("r = Ray(t, 1)\nr.d = r\nreturn early(r)", qd.QuadrantsCompilationError, "in a circle"),
    ],
)
def test_mistakes_with_objects_are_reported(body, kind, text):
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    scope = define(f"@qd.kernel\ndef k(t: qd.f32) -> qd.f32:\n{lines}", **globals())
    with pytest.raises(kind) as caught:
        scope["k"](1.0)
    assert text in str(caught.value)


@qd.data_oriented
class Dual:
    """A number with its derivative; most of what Python's operators call."""

    def __init__(self, v, d):
        self.v, self.d = v, d

    @qd.func
    def __add__(self, other):
        return Dual(self.v + other.v, self.d + other.d)

    def __radd__(self, number):
        return Dual(self.v + number, self.d)

    def __iadd__(self, other):
        self.v += other.v
        self.d += other.d
        return self

    def __mul__(self, other):
        if isinstance(other, Dual):
            return Dual(self.v * other.v, self.v * other.d + self.d * other.v)
        return NotImplemented

    def __rmul__(self, number):
        return Dual(self.v * number, self.d * number)

    def __matmul__(self, other):
        return self.v * other.v + self.d * other.d

    def __pow__(self, k: qd.template()):
        result = Dual(self.v, self.d)
        for _ in qd.static(range(k - 1)):
            result = result * self
        return result

    def __neg__(self):
        return Dual(-self.v, -self.d)

    def __pos__(self):
        return Dual(self.v, 0.0)

    def __invert__(self):
        return Dual(self.d, self.v)

    def __abs__(self):
        return abs(self.v) + abs(self.d)

    def __lt__(self, other):
        return self.v < other.v

    def __eq__(self, other):
        return self.v == other.v and self.d == other.d

    def __getitem__(self, k):
        return self.v if k == 0 else self.d

    def __setitem__(self, k: qd.template(), value):
        if qd.static(k == 0):
            self.v = value
        else:
            self.d = value

    def __len__(self):
        return 2

    def __bool__(self):
        return self.v > 0


class Heavier(Dual):
    """Its reflected method comes first."""

    def __radd__(self, other):
        return Dual(100.0 + other.v, self.d)


class Silent:
    """Nothing but members, and no methods that Python calls."""

    def __init__(self, v):
        self.v = v


UNIT = Dual(3.0, 1.0)


@pytest.mark.parametrize(
    "expression, expected",
    [
        ("(a + b).v * 10 + (a + b).d", 52),
        ("(1.0 + a).v", 3),
        ("(a * b).d", 5),
        ("(2.0 * a).v + (t * a).d", 6),
        ("a @ b", 7),
        ("(a**3).d", 12),
        ("(-a).v + (+a).d + (~a).v", -1),
        ("abs(-a)", 3),
        ("1.0 if a < b else 2.0", 1),
        ("1.0 if a > b else 2.0", 2),
        ("1.0 if a == a + Dual(t - t, t - t) else 2.0", 1),
        ("1.0 if a != b else 2.0", 1),
        ("a[0] + 10 * a[1]", 12),
        ("a[qd.cast(t, qd.i32) - 2]", 2),
        ("len(a)", 2),
        ("1.0 if a else 2.0", 1),
        ("1.0 if not a else 2.0", 2),
        ("(a + Heavier(t, 7.0)).v", 102),
        ("(a + UNIT).v + (UNIT * a).d", 10),
        ("UNIT[qd.cast(t, qd.i32)]", 1),
        ("operator.mul(a, b).v", 6),
        ("sum([a, b, a]).v", 7),
        ("functools.reduce(operator.add, [a, b, b]).v", 8),
    ],
)
def test_operators_on_objects_call_the_methods_of_their_class(expression, expected):
    source = f"@qd.kernel\ndef k(t: qd.f32) -> qd.f32:\n    a, b = Dual(t, 1.0), Dual(t + 1.0, 1.0)\n    return {expression}\n"
    assert define(source, **globals())["k"](2.0) == expected


def test_objects_are_changed_in_place_by_their_own_methods():
    @qd.kernel
    def k(x: qd.types.ndarray(qd.f32, 1)):
        for i in x:
            a, b = Dual(x[i], qd.f32(1.0)), Dual(2.0 * x[i], qd.f32(3.0))
            same = a
            a += b
            if a:
                a += b  # there is still one object
            a[0] = a[0] + 1.0
            b *= a
            b[1] = x[i]
            x[i] = same.v * 100 + b.d + (0 if b.v > 0 else 1000)

    x = np.array([1, 2, -1], np.float32)
    k(x)
    assert x.tolist() == [601, 1102, -201]


@pytest.mark.parametrize(
    "expression, symbol",
    [
        ("a + a", r"\+"),
        ("a < a", "<"),
        ("a == a", "=="),
        ("a @ a", None),
        ("-a", None),
        ("a[0]", None),
        ("t + a", r"\+"),
        ("Dual(t, t) * 2.0", r"\*"),
    ],
)
def test_operators_that_a_class_does_not_have_are_refused(expression, symbol):
    source = f"@qd.kernel\ndef k(t: qd.f32) -> qd.f32:\n    a = Silent(t)\n    {expression}\n    return t\n"
    text = rf"unsupported operand type\(s\) for '{symbol}'" if symbol else "Silent'>"
    with pytest.raises(qd.QuadrantsTypeError, match=text):
        define(source, **globals())["k"](2.0)


Pair = collections.namedtuple("Pair", ["pos", "mass"])


class Body(typing.NamedTuple):
    a: typing.Any
    b: typing.Any = 3.0

    def plain(self):
        return self.a * 2

    @qd.func
    def sum(self):
        return self.a + self.b


@qd.func
def make_pair(x):
    return Pair(x, x * 2)


@qd.func
def early_pair(x):
    if x > 1.0:
        return Pair(x, 1)
    return Pair(-x, 2)


@qd.func
def weight(pair):
    return pair.pos + pair.mass * 10


@pytest.mark.parametrize(
    "body, expected",
    [
        ("g = Pair(x, x * 2)\nreturn g.pos + g.mass * 10 + g[1] * 100", 442),
        ("g = Body(b=x, a=1.0)\nh = Body(x)\nreturn g.a + g.b * 10 + h.a * 100 + h.b * 1000", 3221),
        ("g = make_pair(x)\nreturn g.pos + g.mass * 10", 42),
        ("return make_pair(x).pos", 2),
        ("a, b = make_pair(x)\nreturn a + b * 10", 42),
        ("return early_pair(x).mass * 10 + early_pair(-x).mass", 12),
        ("g = Pair(Pair(x, 1.0), x * 2)\nreturn g.pos.pos + g.pos.mass + g.mass", 7),
        ("return weight(Pair(x, 2.0)) + weight(make_pair(x))", 64),
        ("g = Pair(x, 2.0)._replace(pos=5.0)\nreturn g.pos + g.mass", 7),
        ("return Body(x).plain() + Body(x).sum()", 9),
        ("s = 0.0\nfor v in qd.static(Pair(x, 2.0)):\n    s += v\nreturn s + len(Pair(x, x))", 6),
        ("g = Pair(qd.Vector([x, 1.0]), x)\nreturn g.pos.y + g.pos[0] + g.mass", 5),
    ],
)
def test_named_tuples_are_made_in_kernels(body, expected):
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    scope = define(f"@qd.kernel\ndef k(x: qd.f32) -> qd.f32:\n{lines}", **globals())
    assert scope["k"](2.0) == expected


def test_named_tuples_are_arguments_captures_and_members():
    g = Pair(qd.field(qd.f32, shape=3), 2.0)
    nested = Pair(Pair(g.pos, 1.0), np.float64(5.0))

    @qd.kernel
    def by_name(g: qd.template()):
        for i in range(3):
            g.pos[i] = g.mass

    @qd.kernel
    def by_index(g: qd.template()):
        for i in range(3):
            g[0][i] = g[1] + 1

    @qd.kernel
    def captured():
        for i in range(3):
            g.pos[i] = g.mass * 10

    @qd.kernel
    def inner():
        for i in range(3):
            nested.pos.pos[i] = nested.mass + nested.pos.mass

    def run(kernel, *arguments):
        kernel(*arguments)
        return nested.pos.pos.to_numpy().tolist()

    assert run(by_name, g) == [2] * 3 and run(by_index, g) == [3] * 3
    assert run(captured) == [20] * 3 and run(inner) == [6] * 3
    g = Pair(g.pos, 3.0)
    assert run(captured) == [30] * 3 and run(by_name, g) == [3] * 3


def test_both_arms_of_a_choice_by_an_object_have_one_type():
    @qd.kernel
    def is_less(v: qd.f64, count: qd.u64) -> qd.i32:
        chosen = count if Dual(v, 0.0) else v
        return -5 < chosen

    assert is_less(1.0, 3) == 1 and is_less(-1.0, 3) == 1


@qd.data_oriented
class Flipped:
    """A container whose items are stored backwards."""

    def __init__(self, count):
        self.items = qd.field(qd.i32, count)
        self.last = count - 1

    @qd.func
    def __getitem__(self, i):
        return self.items[self.last - i]

    @qd.func
    def __setitem__(self, i, value):
        self.items[self.last - i] = value


class Pending:
    """What `box[i] += value` adds to."""

    def __init__(self, box, at):
        self.box, self.at = box, at

    @qd.func
    def __iadd__(self, value):
        qd.atomic_add(self.box.items[self.at], value)
        return self


@qd.data_oriented
class Box:
    """A container without `__setitem__`, whose items can only be added to."""

    def __init__(self):
        self.items = qd.field(qd.i32, 4)

    @qd.func
    def __getitem__(self, i):
        return Pending(self, i % 4)


def test_items_of_objects_are_assigned_and_updated():
    flipped = Flipped(4)

    @qd.kernel
    def fill(target: qd.template()):
        for i in range(4):
            target[i] = i
            target[i] += 10
            target[i] **= 2
        target[3] -= 1  # an index that is known while compiling

    fill(flipped)
    assert flipped.items.to_numpy().tolist() == [168, 144, 121, 100]


def test_items_that_are_only_added_to():
    box = Box()

    @qd.kernel
    def add(target: qd.template()):
        for i in range(100):
            target[i] += i

    @qd.kernel
    def multiply(target: qd.template()):
        target[0] *= 2

    add(box)
    assert box.items.to_numpy().tolist() == [1200, 1225, 1250, 1275]
    with pytest.raises(qd.QuadrantsTypeError):
        multiply(box)


def test_indices_of_an_updated_item_are_evaluated_once():
    flipped, count = Flipped(4), qd.field(qd.i32, ())

    @qd.func
    def take():
        return qd.atomic_add(count[None], 1)

    @qd.kernel
    def add(target: qd.template()):
        target[take()] += 7

    add(flipped)
    assert count[None] == 1 and flipped.items.to_numpy().tolist() == [0, 0, 0, 7]

"""Struct types, struct fields, methods."""

import dataclasses
import warnings

import numpy as np
import pytest
from language_support import define, run

import quadrants as qd

pytestmark = pytest.mark.usefixtures("on_every_backend")

vec2 = qd.types.vector(2, qd.f32)


@qd.dataclass
class Particle:
    mass: qd.i32
    position: vec2

    @qd.func
    def move(self, amount):
        self.position += amount
        self.mass += 1
        return self.position.sum()


@qd.dataclass
class Pair:
    first: Particle
    weight: qd.f32


def test_construction_by_position_keyword_and_default():
    @qd.kernel
    def work() -> qd.f32:
        a = Particle(1, [2, 3])
        b = Particle(position=qd.Vector([4.0, 5.0]), mass=6.9)
        c = Particle()
        d = Particle(7, 0.5)
        return a.mass + a.position.y * 10 + b.mass * 100 + b.position[0] * 1000 + c.mass + c.position.sum() + d.position.sum() * 10000

    assert work() == 1 + 30 + 600 + 4000 + 10000


def test_assignment_copies():
    @qd.kernel
    def work() -> qd.f32:
        a = Particle(1, [2, 3])
        b = a
        b.mass = 5.9
        b.position.x = 7
        return a.mass + b.mass * 10 + a.position[0] * 100 + b.position[0] * 1000

    assert work() == 1 + 50 + 200 + 7000


CAPTURED = qd.types.struct(v=vec2, n=qd.i32)(v=[0.5, 2.0], n=3)


def test_assignment_copies_captured_structs():
    @qd.kernel
    def work() -> qd.types.vector(6, qd.f32):
        a = b = CAPTURED
        a.n = 7
        a.v += 1
        a.v[1] = 8
        c = CAPTURED + CAPTURED * 2
        c.n += 1
        return [a.n, a.v[0], a.v[1], b.n * 10 + b.v[0], c.n * 10 + c.v[1], qd.static(CAPTURED).n]

    assert work().to_list() == [7, 1.5, 8, 30.5, 106, 3]
    assert CAPTURED.to_dict() == {"v": [0.5, 2.0], "n": 3}


def test_methods_take_self_by_reference():
    @qd.kernel
    def work() -> qd.f32:
        a = Particle(1, [2, 3])
        total = a.move(10)
        return a.mass * 100 + total

    assert work() == 225


def test_funcs_take_structs_by_value_and_return_them():
    @qd.func
    def doubled(p):
        p.mass *= 2
        return p

    @qd.kernel
    def work() -> qd.i32:
        a = Particle(4, 0)
        b = doubled(a)
        return a.mass * 10 + b.mass

    assert work() == 48


@pytest.mark.parametrize("layout", [qd.Layout.AOS, qd.Layout.SOA])
def test_struct_fields(layout):
    particles = Particle.field(shape=4, layout=layout)

    @qd.kernel
    def work():
        for i in particles:
            particles[i].mass = i + 1
            particles[i].position = [i, 2 * i]
        particles[1].position.x += 5
        particles[2] = Particle(50, [1, 1])
        p = particles[3]
        p.mass = 1000
        particles[3].move(1)
        qd.atomic_add(particles[0].mass, 9)

    work()
    got = particles.to_numpy()
    np.testing.assert_array_equal(got["mass"], [10, 2, 50, 5])
    np.testing.assert_array_equal(got["position"], [[0, 0], [6, 2], [1, 1], [4, 7]])


def test_nested_structs():
    pairs = Pair.field(shape=2)

    @qd.kernel
    def work() -> qd.f32:
        p = Pair(Particle(1, 2), 0.5)
        p.first.position[1] = 9
        q = p.first
        q.mass = 100
        pairs[1] = p
        pairs[1].first.mass += 7
        return p.first.position.sum() + p.weight + p.first.mass + q.mass

    assert work() == 11 + 0.5 + 1 + 100
    assert pairs[1].first.mass == 8


def test_struct_arguments_and_results():
    @qd.kernel
    def work(p: Particle, k: qd.i32) -> Particle:
        p.mass *= k
        return p

    result = work(Particle(3, [1, 2]), 5)
    assert result.mass == 15 and result.position.to_list() == [1, 2]
    assert work({"mass": 2, "position": [0, 0]}, 2).mass == 4


def test_anonymous_structs():
    assert (
        run("s = qd.Struct(a=n, b=qd.Vector([1.0, 2.0]))\ns.a += 1\ns.b.y = 5\nreturn s.a + s.b.sum()", "qd.f32", n=("qd.i32", 3)) == 10.0
    )


@pytest.mark.parametrize(
    "expression, expected",
    [
        ("(-p).mass", -3),
        ("qd.Struct(p).mass", 3),
        ("sum([p[name] for name in qd.static(p.keys) if name == 'mass'])", 3),
        ("qd.static(n.dtype == qd.u8) + qd.static((n + qd.i16(1)).dtype == qd.i16) * 2", 3),
        ("len(n.element_shape) + p.position.element_shape[0]", 2),
    ],
)
def test_attributes_and_signs_of_values(expression, expected):
    body = f"p = Particle(3, [1, 2])\nreturn {expression}"
    preamble = "Particle = qd.types.struct(mass=qd.i32, position=qd.types.vector(2, qd.f32))"
    assert run(body, preamble=preamble, n=("qd.u8", 1)) == expected


def test_structs_compare_unpack_and_add():
    @qd.kernel
    def work() -> qd.i32:
        a = Particle(1, [2, 3])
        b = Particle(1, [2, 3])
        same = a == b
        b.position.x = 5
        mass, position = a + b
        return same * 1000 + (a != b) * 100 + mass * 10 + qd.cast(position[0], qd.i32)

    assert work() == 1127


def test_lists_of_structs_unroll():
    @qd.kernel
    def work() -> qd.i32:
        s = 0
        for p in qd.static([Particle(1, 0), Particle(2, 0)]):
            s = s * 10 + p.mass
        return s

    assert work() == 12


DEFAULTS = """
@qd.dataclass
class Base:
    a: qd.i32 = 3
    v: qd.types.vector(2, qd.f32)
    SCALE = 10

    @qd.func
    def scaled(self):
        return self.a * self.SCALE

    @staticmethod
    @qd.func
    def twice(x):
        return x * 2

@qd.dataclass
class Derived(Base):
    b: qd.i32 = -1
"""


@pytest.mark.parametrize(
    "expression, expected",
    [
        ("Base().a", 3),
        ("Derived(b=5).a + Derived().b", 2),
        ("Derived(n).scaled()", 70),
        ("Derived.twice(n) + Base().twice(1)", 16),
        ("Derived.SCALE * n", 70),
    ],
)
def test_members_have_defaults_and_types_have_constants(expression, expected):
    assert run(f"return {expression}", preamble=DEFAULTS, n=("qd.i32", 7)) == expected


def test_ternary_chooses_a_struct():
    @qd.kernel
    def pick(n: qd.i32) -> Pair:
        heavy = Pair(first=Particle(n, [1, 2]), weight=2.5)
        light = Pair(weight=n)
        chosen = heavy if n > 0 else light
        chosen.first.mass += 1  # a copy
        return chosen if heavy.first.mass == n else heavy

    assert pick(3).to_dict() == {"first": {"mass": 4, "position": [1.0, 2.0]}, "weight": 2.5}
    assert pick(-3).to_dict() == {"first": {"mass": 1, "position": [0.0, 0.0]}, "weight": -3.0}


def test_ternary_computes_the_chosen_struct_only():
    steps = qd.field(qd.i32, shape=2)
    many = Pair.field(shape=4)

    @qd.func
    def count(k: qd.template(), weight):
        steps[k] += 1
        return Pair(weight=weight)

    @qd.kernel
    def work():
        for i in range(4):
            many[i] = count(0, i) if i % 2 == 0 else count(1, -i)

    work()
    assert steps.to_numpy().tolist() == [2, 2]
    assert many.weight.to_numpy().tolist() == [0, -1, 2, -3]


def test_ternary_of_a_captured_struct():
    base = Particle(7, [1, 2])

    @qd.kernel
    def pick(n: qd.i32) -> qd.i32:
        return (base if n > 0 else Particle(mass=n)).mass

    assert (pick(1), pick(-1)) == (7, -1)


@pytest.mark.parametrize("other", ["qd.Struct(b=1)", "1", "qd.Struct(a=qd.Struct(c=2))"])
def test_ternary_needs_structs_of_one_kind(other):
    with pytest.raises(qd.QuadrantsTypeError, match="Member mismatch between structs|cannot convert"):
        run(f"x = qd.Struct(a=n) if n > 0 else {other}\nreturn x.a", n=("qd.i32", 1))


@dataclasses.dataclass
class Body:
    mass: qd.i32
    at: vec2 = dataclasses.field(default_factory=lambda: qd.Vector([0.0, 0.0]))

    @property
    def weight(self):
        return 10 * self.mass


@dataclasses.dataclass(frozen=True)
class Couple:
    body: Body
    distance: float
    particle: Particle


def test_kernel_returns_a_dataclass():
    @qd.kernel
    def make(n: qd.i32) -> Body:
        return Body(mass=n + 0.5, at=qd.Vector([1.5, n]))

    @qd.kernel
    def known() -> Body:
        return Body(3, qd.Vector([1.0, 2.0]))

    made = make(4)
    assert type(made) is Body and made.mass == 4 and made.weight == 40 and list(made.at) == [1.5, 4.0]
    assert known().mass == 3 and list(known().at) == [1.0, 2.0]


def test_kernel_returns_nested_dataclasses_among_others():
    @qd.kernel
    def make(n: qd.i32) -> tuple[Couple, qd.i32]:
        return Couple(body=Body(mass=n, at=[1, 2]), distance=n / 2, particle=Particle(n, [3, 4])), n + 1

    couple, following = make(5)
    assert type(couple) is Couple and type(couple.body) is Body
    assert (couple.body.mass, couple.distance, couple.particle.mass, following) == (5, 2.5, 5, 6)


def test_kernel_returns_a_dataclass_argument():
    @qd.kernel
    def back(body: Body) -> Body:
        return body

    returned = back(Body(6, qd.Vector([7.0, 8.0])))
    assert returned.mass == 6 and list(returned.at) == [7.0, 8.0]


def test_dataclasses_of_containers_are_no_results():
    @dataclasses.dataclass
    class Holder:
        values: qd.types.ndarray()

    with pytest.raises(qd.QuadrantsSyntaxError, match="Invalid data type .*Holder.*'values' is no value that a kernel can return"):

        @qd.kernel
        def wrong() -> Holder:
            return 1


Line = qd.types.struct(d=qd.math.vec3, n=qd.f32)
Part = qd.types.struct(line=Line, idx=qd.i32)


@qd.dataclass
class Two:
    a1: Particle
    a2: Particle


@pytest.mark.parametrize(
    "expression, expected",
    [
        ("Part(1)", {"line": {"d": [1, 1, 1], "n": 0}, "idx": 0}),
        ("Part(1, 2)", {"line": {"d": [1, 1, 1], "n": 0}, "idx": 2}),
        ("Part(idx=2)", {"line": {"d": [0, 0, 0], "n": 0}, "idx": 2}),
        ("Part(qd.Vector([1.0, 2.0, 3.0]))", {"line": {"d": [1, 2, 3], "n": 0}, "idx": 0}),
        ("Part(Line(1, 2), 3)", {"line": {"d": [1, 1, 1], "n": 2}, "idx": 3}),
        ("Part(Line(1, 2))", {"line": {"d": [1, 1, 1], "n": 2}, "idx": 0}),
        ("Part({'idx': 5})", {"line": {"d": [0, 0, 0], "n": 0}, "idx": 5}),
        ("Two(Particle(1, [2.0, 3.0]))", {"a1": {"mass": 1, "position": [2, 3]}, "a2": {"mass": 0, "position": [0, 0]}}),
        ("Two(Particle(1, [2.0, 3.0]), 4)", {"a1": {"mass": 1, "position": [2, 3]}, "a2": {"mass": 4, "position": [0, 0]}}),
        ("Two(a2=7)", {"a1": {"mass": 0, "position": [0, 0]}, "a2": {"mass": 7, "position": [0, 0]}}),
        ("Two(Two(1, 2))", {"a1": {"mass": 1, "position": [0, 0]}, "a2": {"mass": 2, "position": [0, 0]}}),
    ],
)
def test_numbers_and_structs_alone_go_down_to_the_first_member(expression, expected):
    scope = {"qd": qd, "Part": Part, "Line": Line, "Two": Two, "Particle": Particle}
    assert eval(expression, scope).to_dict() == expected
    kind = "Part" if expression.startswith("Part") else "Two"
    host = run(f"return {expression}", kind, preamble="from test_structs import Part, Line, Two, Particle")
    assert host.to_dict() == expected


def test_methods_name_their_class_and_what_is_defined_later():
    factor = 2.0

    @qd.dataclass
    class P:
        x: qd.f32

        @qd.func
        def twice(self):
            return P(self.x * factor)

        @qd.func
        def mixed(self, other: qd.template()):
            return P(mean(self.x, other.x))

        @staticmethod
        @qd.func
        def unit():
            return P(factor)

    @qd.dataclass
    class Q:
        p: P
        s: P

    @qd.func
    def mean(a, b):
        return (a + b) / 2

    @qd.func
    def through(p: P):
        return p.twice()

    f = P.field(shape=2)

    @qd.kernel
    def by_argument(p: P) -> qd.f32:
        return p.twice().twice().mixed(p).x

    @qd.kernel
    def by_member(q: Q) -> qd.f32:
        return q.p.twice().x + q.s.mixed(q.p).x + q.p.unit().x

    @qd.kernel
    def by_element() -> qd.f32:
        return f[1].twice().x + through(f[1]).x

    f[1].x = 5.0
    q = Q(P(1), P(3))
    assert (by_argument(P(3)), by_member(q), by_element()) == (7.5, 6, 20)
    factor = 3.0
    assert (by_argument(P(3)), by_member(q), by_element()) == (15, 8, 30)


def test_methods_of_dataclasses_read_what_is_around_them():
    factor = 2.0

    @dataclasses.dataclass
    class P:
        x: qd.f32

        @qd.func
        def scaled(self):
            return self.x * factor + helper(self.x)

    @qd.func
    def helper(x):
        return x

    @qd.kernel
    def k(p: P) -> qd.f32:
        return p.scaled() + P(x=p.x + 1).scaled()

    assert k(P(1.0)) == 9
    factor = 10.0
    assert k(P(1.0)) == 33


@pytest.mark.parametrize("decorator", ["@qd.func\n    ", ""])
def test_operators_of_dataclasses_are_their_methods(decorator):
    source = """
@dataclasses.dataclass
class Complex:
    x: qd.f32
    y: qd.f32

    @qd.func
    def __mul__(self, other):
        return Complex(self.x * other.x - self.y * other.y, self.x * other.y + self.y * other.x)

    @qd.func
    def __rmul__(self, number):
        return Complex(number * self.x, number * self.y)

    @qd.func
    def __neg__(self):
        return Complex(100 * self.x, self.y)

    @qd.func
    def __lt__(self, other):
        return self.x < other.x

    @qd.func
    def __eq__(self, other):
        return self.x == other.x

    @qd.func
    def __abs__(self):
        return qd.sqrt(self.x * self.x + self.y * self.y)

    @qd.func
    def __getitem__(self, i):
        return self.x if i == 0 else self.y

    @qd.func
    def __call__(self, scale):
        return scale * self.x

@qd.kernel
def k(o: qd.types.NDArray[qd.f32, 1]):
    for _ in range(1):
        a, b = Complex(1, 2), Complex(3, 4)
        c = a * b
        o[0], o[1] = c.x, c.y
        c *= a
        o[2], o[3] = c.x, c.y
        d = 10.0 * (-a) + b  # `+` adds the members
        o[4], o[5] = d.x, d.y
        o[6], o[7], o[8], o[9] = a < b, a == b, a != b, a == Complex(1, 7)
        o[10], o[11], o[12], o[13] = abs(b), b[1], b[0], b(5)
""".replace("@qd.func\n    ", decorator)
    result = np.zeros(14, np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        define(source, dataclasses=dataclasses)["k"](result)
    assert result.tolist() == [-5, 10, -25, 0, 1003, 24, 1, 0, 1, 1, 5, 4, 3, 15]


def test_dataclasses_are_members_of_struct_types():
    @dataclasses.dataclass
    class Box:
        low: qd.f32
        high: qd.f32

        @qd.func
        def contains(self, x):
            return self.low <= x <= self.high

    boxes = qd.types.struct(box=Box, number=qd.i32).field(shape=3)

    @qd.kernel
    def k(x: qd.f32) -> qd.i32:
        count = 0
        for i in boxes:
            boxes[i].box = Box(i, i + 1.5)
            boxes[i].number = i + 1
        for i in boxes:
            if boxes[i].box.contains(x):
                count += boxes[i].number
        return count

    assert [k(0.5), k(1.25), k(9.0)] == [1, 3, 0]

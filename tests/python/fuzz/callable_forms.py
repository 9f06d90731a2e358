"""What can be called without a decorator, objects of classes, and named tuples, for the generator."""

from __future__ import annotations

from .generator import Expression, Kind, Variable
from .program import Statement
from .vectors import VectorGenerator

PREAMBLE = """\
Both = collections.namedtuple("Both", ["first", "second"])
fs = [lambda p, q: p, lambda p, q: p + q, lambda p, q: q if p == q else q * q]
def twice(p, *, q):
    return p * q + p
def none_of(p, *rest):
    return rest[0] - p
class Scale:
    def __init__(self, k):
        self.k = k
    def __call__(self, p):
        return p * self.k
    def plus(self, p):
        return p + self.k
scale = Scale(3)
@qd.data_oriented
class Made:
    def __init__(self, a, b):
        self.a, self.b = a, b
        self.c = 1
        self.c += 1
    @qd.func
    def total(self):
        return self.a + self.b * self.c
    @qd.func
    def shift(self, k):
        self.a += k
        return self.b
    def plain(self, k):
        return self.b + k
    def __add__(self, other):
        return Made(self.a + other.b, self.b)
    def __rmul__(self, number):
        return Made(number * self.a, self.b)
    @qd.func
    def __lt__(self, other):
        return self.a < other.b
    def __getitem__(self, k):
        return self.a if k == 0 else self.b
    def __bool__(self):
        return self.a != self.b
    def __ixor__(self, k):
        self.a = k
        return self
@qd.func
def later(made):
    if made.a == made.b:
        return made.a
    return made.total()
@qd.func
def make(a, b):
    if a == b:
        return Made(b, a)
    return Made(b, a)
@qd.func
def both_of(a, b):
    return Both(b, a)""".splitlines()


class CallableGenerator(VectorGenerator):
    """Adds calls of Python's callables."""

    def called_form(self, depth: int) -> Expression:
        """A call with values of the run time."""
        x, y = self.runtime(depth), self.runtime(depth)
        common = Kind(self.promote(x.dtype, y.dtype))
        number_of = self.options["default_ip"]
        number = Kind(self.promote(x.dtype, number_of))
        pair = f"({x.text}, {y.text})"
        product = Kind(self.promote(common.dtype, x.dtype))
        either = Kind(self.promote(x.dtype, y.dtype, numeric=False))
        text, kind = self.random.choice(
            [
                (f"fs[0]{pair}", x.kind),
                (f"fs[1]{pair}", common),
                (f"functools.partial(fs[1], {x.text})({y.text})", common),
                (f"functools.partial(twice, q={y.text})({x.text})", product),
                (f"twice({x.text}, q={y.text})", product),
                (f"none_of{pair}", common),
                (f"operator.{self.random.choice(('add', 'sub', 'mul'))}{pair}", common),
                (f"functools.reduce(operator.add, [{x.text}, {y.text}, {x.text}])", product),
                (f"functools.reduce(fs[1], {pair})", common),
                (f"operator.{self.random.choice(('lt', 'eq', 'ge'))}{pair}", Kind("u1")),
                (f"scale({x.text})", number),
                (f"scale.plus({x.text})", number),
                (f"qd.func(fs[1]){pair}", common),
                (f"Made{pair}.plain({x.text})", common),
                (f"later(Made{pair})", Kind(self.promote(x.dtype, self.promote(x.dtype, self.promote(y.dtype, number_of)), numeric=False))),
                (f"(Made{pair} + Made{pair}).a", common),
                (f"({y.text} * Made{pair}).a", common),
                (f"(Made{pair} < make{pair})", Kind("u1")),
                (f"Made{pair}[{self.of_kind(Kind('i32'), 0)} & 1]", either),
                (f"({x.text} if Made{pair} else {y.text})", either),
                (f"make{pair}.b", x.kind),
                (f"make{pair}.a", y.kind),
                (f"Both{pair}.{self.random.choice(('first', 'first'))}", x.kind),
                (f"Both{pair}[1]", y.kind),
                (f"both_of{pair}.first", y.kind),
                (f"Both(Both{pair}, {x.text}).first.second", y.kind),
            ]
        )
        return Expression(text, kind)

    def named_object(self, depth: int) -> list[Statement]:
        """An object or named tuple with a name; the members of the object are variables."""
        name, x, y = self.fresh("o"), self.runtime(2), self.runtime(2)
        roll = self.random.random()
        if roll < 0.25:
            self.scopes[-1] += [Variable(f"{name}.first", x.kind, writable=False), Variable(f"{name}[1]", y.kind, writable=False)]
            return [Statement(f"{name} = Both({x.text}, {y.text})")]
        if roll < 0.5:
            x, y = y, x
        out = [Statement(f"{name} = Made({x.text}, {y.text})" if roll >= 0.5 else f"{name} = make({y.text}, {x.text})")]
        self.scopes[-1] += [Variable(f"{name}.a", x.kind), Variable(f"{name}.b", y.kind)]
        if self.random.random() < 0.2:
            out.append(Statement(f"{name} ^= {self.of_kind(x.kind, 1)}"))
        if self.random.random() < 0.4:
            amount, result = self.of_kind(x.kind, 1), self.fresh("y")
            out.append(Statement(f"{result} = {name}.shift({amount})"))
            self.scopes[-1].append(Variable(result, y.kind))
        return out

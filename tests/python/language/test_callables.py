"""What kernels call without a decorator: lambdas, partials, methods, objects, functions of other modules, functions without text."""

import copy  # noqa: F401 (for texts of kernels)
import functools
import math
import operator
import warnings

import numpy as np
import pytest
from language_support import define

import quadrants as qd

pytestmark = [pytest.mark.usefixtures("on_every_backend"), pytest.mark.filterwarnings("ignore:Calling non-quadrants function")]


def scale(x, factor=2.0):
    return x * factor


@qd.func
def combine(x, y, z=1.0):
    return x + y * 10 + z * 100


class Line:
    def __init__(self, slope):
        self.slope = slope

    def __call__(self, x):
        return x * self.slope

    def shifted(self, x, by):
        return x * self.slope + by

    @staticmethod
    def halved(x):
        return x / 2

    @classmethod
    def named(cls, x):
        return x + len(cls.__name__)


@functools.cache
def cached(x):
    return x + 1


def doubled(function):
    @functools.wraps(function)
    def wrapper(*arguments, **named):
        return function(*arguments, **named) * 2

    return wrapper


@doubled
def decorated(x):
    return x + 1


@doubled
@qd.func
def decorated_func(x):
    return qd.sin(x) + 1


def any_count(*values, **named):
    return values[0] + named.get("more", 0.0)


def make_adder(n):
    return lambda x: x + n


made = {}
exec(compile("def from_text(x, y=2.0):\n    return x * y + 1\n", "<nowhere to be found>", "exec"), made)
without_text = made["from_text"]
line = Line(3.0)
method = line.shifted
part = functools.partial(scale, factor=5.0)
part_of_func = functools.partial(combine, 1.0, z=3.0)
static = staticmethod(lambda x: x * 7)
second_item = operator.itemgetter(1)
one, other, third = lambda p: p + 1, lambda p: p * 2, lambda p, q=4.0: p - q
choose = lambda c, x, y: x if c > 0 else y  # noqa: E731
operators = {"+": lambda x: x + 1, "*": operator.neg}


@pytest.mark.parametrize(
    "expression, expected",
    [
        ("one(x)", 3.5),
        ("other(x)", 5.0),
        ("third(x) + third(x, 1.0) + third(q=x, p=1.0)", -1.5),
        ("choose(x, 1.0, 2.0) + choose(-x, 10.0, 20.0)", 21.0),
        ("make_adder(3)(x)", 5.5),
        ("line(x)", 7.5),
        ("line.shifted(x, 1.0)", 8.5),
        ("method(x, by=2.0)", 9.5),
        ("Line.halved(x) + line.halved(x)", 2.5),
        ("Line.named(x) + line.named(x)", 13.0),
        ("static(x)", 17.5),
        ("part(x)", 12.5),
        ("part(x, factor=2.0)", 5.0),
        ("part_of_func(x)", 326.0),
        ("functools.partial(combine, x)(1.0)", 112.5),
        ("cached(x)", 3.5),
        ("decorated(x)", 7.0),
        ("decorated_func(x * 0.0)", 2.0),
        ("any_count(x, more=x)", 5.0),
        ("without_text(x) + without_text(x, y=1.0)", 9.5),
        ("qd.func(scale)(x)", 5.0),
        ("functools.reduce(scale, [x, x, x])", 15.625),
        ("functools.reduce(combine, [x, 1.0])", 112.5),
        ("functools.reduce(lambda a, b: a - b, [x, x, 1.0])", -1.0),
        ("functools.reduce(operator.mul, [x, x])", 6.25),
        ("operator.add(x, 1) * operator.sub(x, 0.5) / operator.truediv(x, 2.0)", 5.6),
        ("operator.pow(x, 2) + operator.neg(x) + operator.pos(x) + operator.abs(-x)", 8.75),
        ("1.0 if operator.lt(x, 3.0) else 2.0", 1.0),
        ("second_item(qd.Vector([x, x * 2, 0.0]))", 5.0),
        ("operator.getitem(qd.Vector([x, 1.0]), 0) + operator.attrgetter('y')(qd.Vector([x, 1.0]))", 3.5),
        ("operator.add(qd.Vector([x, 1.0]), qd.Vector([x, 1.0])).sum()", 7.0),
        ("operators['+'](x) + operators['*'](x)", 1.0),
        ("[one, other][1](x)", 5.0),
        ("sum([f(x) for f in (one, other, line, part)])", 28.5),
        ("(lambda y: y + x)(1.0)", 3.5),
    ],
)
def test_callables_take_values_of_the_run_time(expression, expected):
    scope = define(f"@qd.kernel\ndef k(x: qd.f32) -> qd.f32:\n    return {expression}\n", **globals())
    assert scope["k"](2.5) == pytest.approx(expected, rel=1e-6)


class Reader:
    def __call__(self, x):
        return x[1]

    def method(self, x):
        return x[1]


def read_second(x):
    return x[1]


def write_second(x):
    x[1] += 1.0
    return x[1] - 1.0


reader, cached_read = Reader(), functools.lru_cache(read_second)


@pytest.mark.parametrize("make", [qd.field, qd.ndarray, lambda _, shape: np.zeros(shape, np.float32)])
@pytest.mark.parametrize(
    "expression",
    [
        "read_second(x)", "write_second(x)", "reader(x)", "reader.method(x)", "cached_read(x)", "functools.partial(read_second)(x)",
        "operator.getitem(x, 1)", "second_item(x)", "operator.itemgetter(1)(x)", "(lambda y: y[1])(x)", "read_second(x=x)",
    ],
)  # fmt: skip
def test_elements_of_containers_are_read_when_the_kernel_runs(expression, make):
    x = make(qd.f32, 3)
    annotation = "qd.template()" if isinstance(x, qd.Field) else "qd.types.ndarray()"
    scope = define(f"@qd.kernel\ndef k(x: {annotation}) -> qd.f32:\n    return {expression}\n", **globals())
    for value in (2.0, 5.0):
        x[1] = value
        assert scope["k"](x) == value
    assert x[1] == 5.0 + ("write" in expression)


@pytest.mark.parametrize("expression", ["np.max(x)", "np.sum(x)", "np.dot(x, x)", "np.asarray(x)[1]", "copy.copy(x)[1]"])
def test_functions_that_need_elements_of_containers_while_compiling_are_refused(expression):
    x = np.ones(3, np.float32)
    scope = define(f"@qd.kernel\ndef k(x: qd.types.ndarray()) -> qd.f32:\n    return {expression}\n", **globals())
    with pytest.raises(qd.QuadrantsCompilationError):
        scope["k"](x)


def test_containers_are_told_apart_while_compiling():
    x, y = qd.field(qd.f32, 3), qd.field(qd.f32, 3)
    names = {x: 1, y: 2}
    scope = define(
        "@qd.kernel\ndef k(f: qd.template()) -> qd.i32:\n    return names.get(f, 0) * 10 + operator.is_(f, x)\n",
        names=names,
        x=x,
        **globals(),
    )
    assert (scope["k"](x), scope["k"](y)) == (11, 20)


def test_operators_on_integers_are_those_of_the_language():
    @qd.kernel
    def k(a: qd.i32, b: qd.i32) -> qd.types.vector(6, qd.i32):
        quotient, rest = divmod(a, b)
        return qd.Vector(
            [
                operator.add(a, b) * operator.mul(a, b),
                operator.floordiv(a, b) * 100 + operator.mod(a, b),
                operator.lshift(a, b) + operator.rshift(a, 1) + operator.and_(a, b) + operator.or_(a, b) + operator.xor(a, b),
                operator.invert(a),
                quotient * 100 + rest,
                operator.ge(a, b) + operator.ne(a, b) + operator.eq(a, b),
            ]
        )

    assert k(7, 3).to_list() == [210, 201, 56 + 3 + 3 + 7 + 4, -8, 201, 2]
    assert k(-7, 3).to_list()[1] == -300 + 2


def test_callables_in_static_loops_and_as_template_arguments():
    functions = [lambda p: p + 1, lambda p: p * 2, line, functools.partial(scale, factor=3.0)]

    @qd.kernel
    def total(x: qd.f32) -> qd.f32:
        s = 0.0
        for f in qd.static(functions):
            s += f(x)
        return s

    @qd.kernel
    def apply(f: qd.template(), x: qd.f32) -> qd.f32:
        return f(x)

    assert total(2.0) == 3 + 4 + 6 + 6
    assert [apply(f, 2.0) for f in functions] == [3, 4, 6, 6]


def test_each_lambda_of_a_line_is_a_kernel_of_its_own():
    def make(f):
        @qd.kernel
        def k(a: qd.f32) -> qd.f32:
            return f(a)

        return k

    kernels = [make(f) for f in [lambda p: p + 1, lambda p: qd.cos(p * 0.0), lambda p: p]]
    nested = make((lambda a: lambda b: a * b)(3.0))
    long = make(lambda p: (
        p
        + 10
    ))  # fmt: skip
    assert [k(1.0) for k in [*kernels, nested, long]] == [2, 1, 1, 3, 11]


def test_what_a_callable_captures_is_never_stale():
    scope = define(
        "n = 2\n"
        "def make():\n"
        "    m = 10\n"
        "    def change(value):\n"
        "        nonlocal m\n"
        "        m = value\n"
        "    return (lambda x: x * n + m), change\n"
        "f, change = make()\n"
        "class C:\n"
        "    def __init__(self): self.k = 1\n"
        "    def __call__(self, x): return x + self.k\n"
        "    def constant(self, x): return x * self.k\n"
        "c = C()\n"
        "import functools\n"
        "p = functools.partial(lambda a, b, d=0: a + b + d, 5)\n"
        "@qd.kernel\n"
        "def k(x: qd.i32) -> qd.i32: return f(x)\n"
        "@qd.kernel\n"
        "def static() -> qd.i32: return f(1) + c.constant(100)\n"
        "@qd.kernel\n"
        "def call(x: qd.i32) -> qd.i32: return c(x)\n"
        "@qd.kernel\n"
        "def partly(x: qd.i32) -> qd.i32: return p(x)\n"
    )
    k, static, call, partly = (scope[name] for name in ("k", "static", "call", "partly"))
    assert (k(3), static(), call(1), partly(1)) == (16, 112, 2, 6)
    scope["n"] = 4
    assert (k(3), static()) == (22, 114)
    scope["change"](0)
    assert (k(3), static()) == (12, 104)
    scope["c"].k = 7
    assert (call(1), static()) == (8, 704)
    scope["p"] = functools.partial(scope["p"].func, 6)
    assert partly(1) == 7
    scope["p"] = functools.partial(scope["p"].func, 6, d=100)
    assert partly(1) == 107
    scope["f"] = lambda x: x - 1
    assert k(3) == 2


def test_members_that_are_functions():
    @qd.data_oriented
    class S:
        def __init__(self):
            self.f = lambda x: x * 7
            self.bound = line.shifted

        @qd.kernel
        def k(self, a: qd.f32) -> qd.f32:
            return self.f(a) + self.bound(a, 1.0)

    s = S()
    assert s.k(2.0) == 21
    s.f = lambda x: x * 8
    assert s.k(2.0) == 23
    s.bound = Line(1.0).shifted
    assert s.k(2.0) == 19


def test_a_plain_function_that_takes_a_func_is_compiled():
    def twice(f, x):
        return f(f(x))

    @qd.func
    def square(x):
        return x * x

    @qd.kernel
    def k(x: qd.f32) -> qd.f32:
        return twice(square, x) + twice(square, 2.0)

    assert k(2.0) == 32


def test_annotations_of_plain_functions_are_for_readers():
    def scaled(x: "list[float]", by: Line) -> "np.ndarray":  # noqa: F821
        return x * by.slope

    @qd.kernel
    def k(x: qd.f32) -> qd.f32:
        return scaled(x, line)

    assert k(2.0) == 6


@pytest.mark.parametrize(
    "expression, kind, text",
    [
        ("math.sin(x)", qd.QuadrantsTypeError, "Did you mean to use `qd.sin` instead of `math.sin`"),
        ("np.sqrt(x)", qd.QuadrantsTypeError, "Did you mean to use `qd.sqrt`"),
        ("operator.index(x)", qd.QuadrantsTypeError, "TypeError when calling `index`"),
        ("branches(x)", qd.QuadrantsTypeError, "has no truth value while Python runs this code"),
        ("operator.add(x, qd.Matrix([[1.0, 2.0], [3.0, 4.0]]) @ qd.Vector([x, x, x]))", qd.QuadrantsCompilationError, ""),
        ("qd.func(3)(x)", qd.QuadrantsCompilationError, "qd.func"),
    ],
)
def test_calls_that_are_refused(expression, kind, text):
    def branches(x, *_):
        return 1.0 if x > 0 else 2.0

    scope = define(
        f"import numpy as np\n@qd.kernel\ndef k(x: qd.f32) -> qd.f32:\n    return {expression}\n",
        math=math,
        operator=operator,
        branches=branches,
    )
    with pytest.raises(kind) as caught:
        scope["k"](1.0)
    assert text in str(caught.value)


def test_a_plain_function_is_warned_about():
    @qd.kernel
    def k(x: qd.f32) -> qd.f32:
        return scale(x)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        k(1.0)
    assert any('Calling non-quadrants function "scale"' in str(item.message) for item in caught)


@pytest.mark.parametrize(
    "annotation, returned, expression, expected",
    [
        ("qd.i32", "qd.Vector([1.5, x])", "f(x)[1]", 2.0),
        ("qd.i32", "(x, x * 2)", "f(x)[0] + f(x)[1] * 10", 52.0),
        ("qd.i32", "x", "f(x)", 2.0),
        ("qd.types.vector(3, qd.i32)", "qd.Vector([x, 3.7])", "f(x)[1] + f(x).n", 5.0),
        ("qd.types.vector(3, qd.f32)", "x", "f(x) + 1.0", 3.5),
        ("qd.types.vector(2, qd.i32)", "qd.Vector([x, 3.7])", "f(x).sum()", 5.0),
        ("None", "x", "f(x)", 2.5),
    ],
)
def test_the_annotation_of_an_inlined_func_casts_what_it_returns(annotation, returned, expression, expected):
    scope = define(
        f"@qd.func\ndef f(x) -> {annotation}:\n    return {returned}\n@qd.kernel\ndef k(x: qd.f32) -> qd.f32:\n    return {expression}\n"
    )
    assert scope["k"](2.5) == expected


def test_a_result_that_does_not_fit_its_annotation_is_logged(capfd):
    source = "@qd.func\ndef f(v) -> qd.i32:\n    return v\n@qd.kernel\ndef k(x: qd.f32) -> qd.i32:\n    return f({})[1]\n"
    for level, count in (("debug", 1), ("info", 0)):
        qd.set_logging_level(level)
        assert define(source.format("qd.Vector([x, 7.5])"))["k"](2.5) == 7
        qd.set_logging_level("error")
        assert capfd.readouterr().err.count("'f' is annotated to return 'i32' and returns") == count


def annotated(x: qd.f32, n: qd.i32) -> qd.f32:
    if n > 2:
        return x * n
    return 1.0


def test_a_function_becomes_a_real_func_inside_a_kernel():
    @qd.kernel
    def k(x: qd.f32) -> qd.f32:
        f = qd.real_func(annotated)
        return f(x, 3.7) * 100 + qd.real_func(annotated)(x, n=2)

    assert k(2.5) == 751


@pytest.mark.parametrize(
    "given, text",
    [
        ("scale", "'x' of scale is not"),
        ("lambda y: y", "qd.real_func takes a function that is defined outside of the kernel"),
        ("3", "qd.real_func takes a function that is defined outside of the kernel, got i32"),
        ("", "qd.real_func takes one function in kernels"),
    ],
)
def test_what_cannot_become_a_real_func_is_refused(given, text):
    scope = define(f"@qd.kernel\ndef k(x: qd.f32) -> qd.f32:\n    return qd.real_func({given})(x)\n", **globals())
    with pytest.raises(qd.QuadrantsCompilationError, match=text):
        scope["k"](1.0)


def test_the_annotation_of_a_real_func_has_to_fit():
    @qd.real_func
    def f(x: qd.f32) -> qd.i32:
        return qd.Vector([x, x])

    @qd.kernel
    def k(x: qd.f32) -> qd.i32:
        return f(x)

    with pytest.raises(qd.QuadrantsTypeError):
        k(1.0)

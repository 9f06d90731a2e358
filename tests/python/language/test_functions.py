"""Funcs: how arguments are passed, what comes back."""

import numpy as np
import pytest
from language_support import define, run

import quadrants as qd

pytestmark = pytest.mark.usefixtures("on_every_backend")


def test_scalars_and_vectors_are_passed_by_value():
    @qd.func
    def spoil(x, v):
        x += 10
        v[0] = 99
        return x + v[0]

    @qd.kernel
    def work() -> qd.i32:
        x = 1
        v = qd.Vector([2, 3])
        return spoil(x, v) * 1000 + x * 10 + v[0]

    assert work() == 110012


def test_template_parameters_are_passed_by_reference():
    x = qd.field(qd.i32, shape=4)

    @qd.func
    def bump(target: qd.template(), amount):
        target += amount

    @qd.kernel
    def work() -> qd.i32:
        y = 1
        v = qd.Vector([2, 3])
        bump(y, 10)
        bump(v[1], 20)
        bump(x[2], 30)
        return y * 100 + v[1]

    assert work() == 1123
    assert x.to_numpy().tolist() == [0, 0, 30, 0]


def test_references_pass_through_several_funcs():
    @qd.func
    def inner(x: qd.template()):
        x *= 3

    @qd.func
    def outer(x: qd.template()):
        inner(x)
        x += 1

    @qd.kernel
    def work() -> qd.i32:
        y = 2
        outer(y)
        return y

    assert work() == 7


def test_template_literal_stays_compile_time():
    @qd.func
    def power(x, n: qd.template()):
        result = x
        for _ in qd.static(range(n - 1)):
            result *= x
        return result

    @qd.kernel
    def work(x: qd.i32) -> qd.i32:
        return power(x, 4)

    assert work(3) == 81


def test_annotated_parameters_convert():
    @qd.func
    def take(x: qd.i32, v: qd.types.vector(2, qd.f32)):
        return x + v[0] / 2

    @qd.kernel
    def work() -> qd.f32:
        return take(2.7, qd.Vector([3, 4]))

    assert work() == 3.5


def test_containers_are_passed_by_reference():
    x = qd.field(qd.i32, shape=3)

    @qd.func
    def fill(target, value):
        for i in range(3):
            target[i] = value + i

    @qd.kernel
    def work(a: qd.types.ndarray(dtype=qd.i32, ndim=1)):
        fill(x, 10)
        fill(a, 20)

    array = qd.ndarray(qd.i32, shape=3)
    work(array)
    assert x.to_numpy().tolist() == [10, 11, 12]
    assert array.to_numpy().tolist() == [20, 21, 22]


def test_several_values_are_returned():
    @qd.func
    def both(a, b):
        return a + b, a - b

    @qd.kernel
    def work() -> qd.i32:
        s, d = both(7, 3)
        return s * 10 + d

    assert work() == 104


def test_defaults_and_keywords():
    @qd.func
    def scale(x, factor=3, offset=1):
        return x * factor + offset

    @qd.kernel
    def work(x: qd.i32) -> qd.i32:
        return scale(x) * 10000 + scale(x, offset=5) * 100 + scale(offset=0, x=x)

    assert work(2) == 71106


def test_return_annotation_converts():
    @qd.func
    def half(x) -> qd.i32:
        return x / 2

    @qd.kernel
    def work() -> qd.f32:
        return half(5) / 4

    assert work() == 0.5


@pytest.mark.parametrize("x, expected", [(5, 1), (-5, -1), (0, 0)])
def test_early_return_in_a_func(x, expected):
    @qd.func
    def sign(x):
        if x > 0:
            return 1
        if x < 0:
            return -1
        return 0

    @qd.kernel
    def work(x: qd.i32) -> qd.i32:
        return sign(x)

    assert work(x) == expected


def test_return_leaves_loops_of_a_func():
    @qd.func
    def first_multiple(n, k):
        for i in range(1, 100):
            j = 0
            while j < 10:
                if i * 10 + j > n and (i * 10 + j) % k == 0:
                    return i * 10 + j
                j += 1
        return -1

    @qd.kernel
    def work(n: qd.i32, k: qd.i32) -> qd.i32:
        return first_multiple(n, k)

    assert work(15, 7) == 21 and work(40, 9) == 45 and work(2000, 3) == -1


def test_real_func_returns_early_and_converts():
    @qd.real_func
    def clamp(n: qd.i32, top: qd.f32) -> qd.i32:
        if n > top:
            return top
        return n

    @qd.kernel
    def work(n: qd.i32) -> qd.i32:
        return clamp(n, 7.5)

    assert work(5) == 5 and work(100) == 7


@pytest.mark.needs("recursion")
def test_real_func_recurses():
    @qd.real_func
    def factorial(n: qd.i32) -> qd.i32:
        if n <= 1:
            return 1
        return n * factorial(n - 1)

    @qd.real_func
    def fibonacci(n: qd.i32) -> qd.i32:
        return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)

    @qd.kernel
    def work(n: qd.i32) -> qd.i32:
        return factorial(n) + fibonacci(n)

    assert work(7) == 5040 + 13


def test_pyfunc_is_callable_from_both_scopes():
    @qd.pyfunc
    def cube(x):
        return x * x * x

    @qd.kernel
    def work(x: qd.i32) -> qd.i32:
        return cube(x)

    assert work(3) == 27 and cube(3) == 27


def test_static_recursion_may_end_with_a_return():
    @qd.func
    def total(n: qd.template(), x):
        if qd.static(n == 0):
            if x > 0:
                return 1.5
            return 2
        return n + total(n - 1, x)

    @qd.kernel
    def work(x: qd.i32) -> qd.f32:
        return total(4, x)

    assert work(1) == 11.5 and work(-1) == 12


def test_static_recursion_ends():
    @qd.func
    def total(v, n: qd.template()):
        result = 0
        if qd.static(n > 0):
            result = v[n - 1] + total(v, n - 1)
        return result

    @qd.kernel
    def work() -> qd.i32:
        return total(qd.Vector([1, 2, 3]), 3)

    assert work() == 6


def test_func_with_a_loop_runs_at_the_top_level():
    x = qd.field(qd.i32, shape=1000)

    @qd.func
    def fill(value):
        for i in x:
            x[i] = value + i

    @qd.func
    def total():
        s = 0
        for i in x:
            s += x[i]
        return s

    @qd.kernel
    def work() -> qd.i32:
        fill(3)
        return total()

    assert work() == 3000 + 499500


def test_functions_are_values():
    @qd.func
    def apply(f: qd.template(), x):
        return f(x) + 1

    @qd.func
    def double(x):
        return x * 2

    @qd.kernel
    def work(x: qd.i32) -> qd.i32:
        return apply(double, x)

    assert work(5) == 11


def test_only_the_interpreter_calls_a_func_from_python():
    @qd.func
    def f(x):
        return x

    if qd.cfg is None:
        assert f(1) == 1
    else:
        with pytest.raises(AssertionError):
            f(1)


def test_unpacked_arguments():
    preamble = "@qd.func\ndef f(a, b, c):\n    return a * 100 + b * 10 + c"
    assert run("v = qd.Vector([2, 3])\nreturn f(n, *v)", preamble=preamble, n=("qd.i32", 1)) == 123
    assert run("return f(n, **{'c': 3, 'b': 2})", preamble=preamble, n=("qd.i32", 1)) == 123


@pytest.mark.parametrize("x, expected", [(5, 0.5), (-5, 1.25), (0, 1.5)])
def test_returns_have_their_common_type(x, expected):
    @qd.func
    def pick(x):
        if x > 0:
            return 1
        i = 0
        while i < 10:
            if x + i < 0:
                return 2.5
            i += 1
        return 3

    @qd.kernel
    def work(x: qd.i32) -> qd.f32:
        return pick(x) / 2

    assert work(x) == expected


def test_postponed_annotations_may_be_strings():
    module = define("""from __future__ import annotations
@qd.dataclass
class Pair:
    number: "qd.i32"
    vector: qd.types.vector(2, qd.f32)

@qd.real_func
def add(pair: "Pair", by: qd.i32) -> "qd.f32":
    return pair.vector[1] + by

@qd.kernel
def work(pair: "Pair", by: "qd.template()") -> "qd.f32":
    return add(pair, by) * pair.number
""")
    assert module["work"](module["Pair"](2, [0, 0.5]), 3) == 7


INNER_FUNCTIONS = [
    ("def f(x):\n    return x + n\nreturn f(2)", 12),
    ("y = 3\ndef f(x):\n    return x * y\ny = 4\nreturn f(4)", 16),
    ("def f(x, k=2):\n    return x * k\nreturn f(4) + f(1, k=5)", 13),
    ("def f(x):\n    if x > 3:\n        return 1\n    return 0\nreturn f(n) * 10 + f(1)", 10),
    ("def f(x):\n    x += 1\n    y = x * 2\n    return y\nx = 5\nreturn f(x) + x", 17),
    ("def f(x):\n    def g(y):\n        return y * n\n    return g(x) + 1\nreturn f(2)", 21),
    ("def f(x: qd.i32):\n    return x\nreturn f(2.75)", 2),
    ("f = lambda x, y: x * n + y\nreturn f(2, 1)", 21),
    ("return apply(lambda x: x * n, 4)", 41),
    ("s = 0\nfor i in range(4):\n    def add(x):\n        return x + i\n    s += add(n)\nreturn s", 46),
    ("def f(x):\n    if x > 3:\n        return qd.cast(3, qd.u8)\n    return x\nreturn f(n) + qd.cast(255, qd.u8)", 258),
    ("def f(x, *y, k=n):\n    if x < 3:\n        return k\n    return qd.cast(k + 250, qd.u8)\nreturn f(7, 2) + qd.cast(255, qd.u8)", 259),
    ("def f(x):\n    a[0] += x\nf(3)\nf(4)\nreturn a[0]", 7),
]


@pytest.mark.parametrize("body, expected", INNER_FUNCTIONS)
def test_functions_inside_functions_read_what_is_around_them(body, expected):
    a = np.zeros(1, np.int32)
    preamble = "@qd.func\ndef apply(f: qd.template(), x):\n    return f(x) + 1"
    assert run(body, preamble=preamble, n=("qd.i32", 10), a=("qd.types.ndarray()", a)) == expected


def test_loops_of_an_inner_function_are_tasks():
    x = qd.field(qd.i32, shape=8)

    @qd.kernel
    def work(n: qd.i32):
        def fill(value):
            for i in x:
                x[i] += value + n

        fill(1)
        fill(2)

    work(10)
    assert x.to_numpy().tolist() == [23] * 8


def test_real_func_writes_a_variable_that_it_takes_by_reference():
    preamble = "@qd.real_func\ndef count(x: qd.types.ref(qd.i32), by: qd.i32):\n    x += by"
    assert run("x = 1\ncount(x, 5)\ncount(x, n)\nreturn x", preamble=preamble, n=("qd.i32", 10)) == 16


TOP = "@qd.func(requires_top_level=True)\ndef op():\n    for i in range(4):\n        x[i] += 1\n@qd.func\ndef helper():\n    op()\n"


@pytest.mark.parametrize("body", ["op()", "helper()", "if qd.static(True):\n    op()", "for k in qd.static(range(1)):\n    helper()"])
def test_func_that_requires_the_top_level_is_called_there(body):
    assert run(f"{body}\nreturn x[2]", preamble="x = qd.field(qd.i32, 4)\n" + TOP) == 1


@pytest.mark.parametrize("n", [0, 2])
def test_returns_in_loops_that_never_run_count_for_the_type_of_the_result(n):
    preamble = """
@qd.func
def f(n):
    for i in range(n):
        if i % 2 == 0:
            y = qd.i64(1)
        else:
            y = qd.i8(1)
        return y
    while n > 2:
        return 1
    return 1
"""
    assert run("return f(n) + 2147483647", "qd.i64", preamble, n=("qd.i32", n)) == 2**31


def test_early_return_under_a_call_beside_a_loop():
    preamble = """@qd.func
def f(v, n):
    for i, item in enumerate(v):
        n += item
    if min(n, 10) > 5:
        return n
    return -n
"""
    body = "return f(qd.Vector([n, 1]), n)"
    assert run(body, preamble=preamble, n=("qd.i32", 4)) == 9
    assert run(body, preamble=preamble, n=("qd.i32", 1)) == -3


@pytest.mark.parametrize("decorator", ["qd.func", "qd.real_func", "qd.pyfunc"])
def test_parameters_that_are_given_by_name_or_by_position_only(decorator):
    preamble = f"""
@{decorator}
def f(a: qd.i32, /, b: qd.i32, *, c: qd.i32, d: qd.i32 = 1) -> qd.i32:
    return a * 1000 + b * 100 + c * 10 + d
"""
    body = "return f(n, 2, c=3) + f(n, c=5, b=4, d=2)"
    assert run(body, preamble=preamble, n=("qd.i32", 1)) == 1231 + 1452
    for call, text in [
        ("f(n, 2, 3)", "Missing argument 'c'"),
        ("f(n, 2, 3, c=4)", "Too many arguments"),
        ("f(a=n, b=2, c=3)", "by position"),
    ]:
        with pytest.raises(qd.QuadrantsSyntaxError, match=text):
            run(f"return {call}", preamble=preamble, n=("qd.i32", 1))


def test_kernel_parameters_that_are_given_by_name_or_by_position_only():
    k = define("@qd.kernel\ndef k(a: qd.i32, /, b: qd.i32, *, c: qd.i32) -> qd.i32:\n    return a * 100 + b * 10 + c\n")["k"]
    for _ in range(2):
        assert k(1, 2, c=3) == k(1, c=3, b=2) == 123
        with pytest.raises(qd.QuadrantsSyntaxError, match=r"(?s)Missing argument 'c'.*Too many arguments. Expected \(a : i32, b : i32\)"):
            k(1, 2, 3)
        with pytest.raises(qd.QuadrantsSyntaxError, match="Unexpected argument 'a'. It is given by position"):
            k(a=1, b=2, c=3)


def test_local_functions_have_parameters_that_are_given_by_name_only():
    body = "def f(a, *, b):\n    return a * 10 + b + n\nreturn f(1, b=2)"
    assert run(body, n=("qd.i32", 100)) == 112


def test_a_func_that_returns_on_some_paths_only_is_refused():
    for body in ("if x > 0:\n        return 1", "if x > 0:\n        return x", "while x > 0:\n        return qd.f32"):
        with pytest.raises(qd.QuadrantsCompilationError, match="does not return a value on every path|does not have a return statement"):
            run("return f(n)", preamble=f"@qd.func\ndef f(x):\n    {body}\n", n=("qd.i32", 0))


CHANGES = """
f = qd.field(qd.i32, 4)

@qd.func
def change(v: qd.template()):
    v = 50
    return 3

@qd.func
def pair(a, b):
    return a * 100 + b

@qd.func
def written(a: qd.template(), b):
    return a * 100 + b

@qd.dataclass
class S:
    a: qd.i32
    b: qd.i32

    @qd.func
    def plus(self, x, y):
        return self.a * 10000 + x * 100 + y
"""


@pytest.mark.parametrize(
    "expression, expected",
    [
        ("pair(x, change(x))", 103),
        ("pair(f[0], change(f[0]))", 3),
        ("pair(b=change(x), a=x)", 5003),
        ("pair(a=x, b=change(x))", 103),
        ("written(x, change(x))", 5003),  # another name for the variable
        ("max(x, change(x))", 3),
        ("S(x, change(x)).a", 1),
        ("qd.Vector([x, change(x)])[0]", 1),
        ("S(x, 2).plus(x, change(x))", 10103),
        ("s.plus(s.a, change(s.a))", 500703),  # of itself by reference
        ("pair(s.a, change(s.a))", 703),
        ("pair(v[1], change(v[1]))", 903),
        ("qd.atomic_add(x, change(x)) * 100 + x", 5053),
        ("(lambda a, b: a * 100 + b)(x, change(x))", 103),
        ("(x, change(x), x)[0] * 100 + x", 150),
    ],
)
def test_arguments_are_evaluated_from_left_to_right(expression, expected):
    assert run(f"x = n\ns = S(7, 8)\nv = qd.Vector([n, 9])\nreturn {expression}", preamble=CHANGES, n=("qd.i32", 1)) == expected


@pytest.mark.parametrize(
    "body, expected",
    [
        ("l = [n, 2]\nchange(l[0])\nreturn l[0] * 10 + l[1]", 502),
        ("l = [n, 2]\nm = [*l]\nk = l + [3]\nchange(l[0])\nl[0] += 1\nreturn l[0] * 100 + m[0] * 10 + k[0]", 5111),
        ("d = {'a': n}\nchange(d['a'])\nreturn d['a']", 50),
        ("l = [n, n + 1]\nfor i in range(10):\n    qd.atomic_add(l[0], i)\nreturn l[0] * 100 + qd.atomic_sub(l[1], 1) * 10 + l[1]", 4621),
        ("l = [n, 2]\nfor i in range(10):\n    qd.atomic_max(l[1], i)\nreturn l[1]", 9),
        ("l = [qd.Vector([n, 2]), qd.Vector([1, 2])]\nchange(l[0][1])\nl[1].x += 5\nreturn l[0][1] * 10 + l[1][0]", 506),
        ("l = [n, 2]\ntotal = 0\nfor x in l:\n    change(l[0])\n    l[1] = 7\n    total = total * 10 + x\nreturn total", 17),
    ],
)
def test_items_of_lists_are_taken_by_reference(body, expected):
    assert run(body, preamble=CHANGES, n=("qd.i32", 1)) == expected


@pytest.mark.parametrize(
    "body, expected",
    [
        ("def g(a: qd.i8):\n    return a\nreturn g(n)", 44),
        ("def g(a) -> qd.i8:\n    return a\nreturn g(n)", 44),
        ("def g(a: qd.f32, b: int = 2.5):\n    return a / 8 * b\nreturn g(n)", 75),
        ("def g(a: qd.template()):\n    a += 1\nx = n\ng(x)\ng(a=x)\nreturn x", 302),
        ("def g(k, a: qd.template()):\n    a += k\n    k += 1\nv = qd.Vector([n, 2])\ng(n, v[1])\nreturn v[1]", 302),
        ("def g(v: qd.types.vector(2, qd.i8)):\n    v[0] += 1\n    return v[0]\nw = [n, n]\nreturn g(w)", 45),
    ],
)
def test_functions_inside_kernels_obey_their_annotations(body, expected):
    assert run(body, n=("qd.i32", 300)) == expected


REAL = "@qd.real_func\ndef f(n: qd.i32) -> qd.i32:\n    {}\n"


@pytest.mark.parametrize(
    "body",
    [
        "for i in range(n):\n        if i > 3:\n            return 42",
        "while n > 0:\n        if n == 7:\n            n -= 1\n            continue\n        return n * 2",
        "if n > 3:\n        return 7",
        "while True:\n        if n > 5:\n            break\n        return n",
        "if n > 3:\n        return 7\n    else:\n        n += 1",
    ],
)
def test_a_real_function_returns_a_value_on_every_path(body):
    with pytest.raises(qd.QuadrantsCompilationError, match="'f' does not return a value on every path"):
        run("return f(n)", preamble=REAL.format(body), n=("qd.i32", 1))


@pytest.mark.parametrize(
    "body, n, expected",
    [
        ("if n > 3:\n        return 7\n    else:\n        return 8", 1, 8),
        ("m = n\n    while True:\n        m += 3\n        if m > 7:\n            return m", 1, 10),
        (
            "if n < 3:\n        while True:\n            for i in range(9):\n                break\n            return n\n    return 4",
            2,
            2,
        ),
    ],
)
def test_endless_loops_of_real_functions_need_no_return_after_them(body, n, expected):
    assert run("return f(n)", preamble=REAL.format(body), n=("qd.i32", n)) == expected
    assert run(body.replace("\n    ", "\n"), n=("qd.i32", n)) == expected


@pytest.mark.parametrize(
    "body, n, expected",
    [
        ("for i in range(10):\n        return n + 42", 0, 42),
        ("for i in range(n):\n        return 42", 1, 42),
        ("while n > 0:\n        return n * 2", 4, 8),
        ("while n:\n        if n > 3:\n            return 7\n        else:\n            while n:\n                return 8", 2, 8),
    ],
)
def test_real_functions_may_end_with_a_loop_that_returns_in_its_first_round(body, n, expected):
    source = f"{REAL.format(body)}\n@qd.kernel\ndef k(n: qd.i32) -> qd.i32:\n    return f(n)\n"
    kernel = define(source)["k"]
    assert kernel(n) == expected
    if "10" not in body:  # the loop has no round
        with pytest.raises(qd.QuadrantsAssertionError, match="'f' ended without a return"):
            kernel(0)
        assert kernel(n) == expected


@pytest.mark.parametrize("result", ["", " -> qd.i32"])
@pytest.mark.parametrize(
    "body",
    [
        "if n > 3:\n        return 7",
        "for i in range(n):\n        if i == 2:\n            return i",
        "while n > 0:\n        return n",
        "for i in range(n):\n        if i == 2:\n            return i\n    else:\n        n += 1",
        "while True:\n        if n > 5:\n            break\n        return n",
    ],
)
def test_a_func_that_misses_a_return_on_a_path_is_refused(body, result):
    with pytest.raises(qd.QuadrantsCompilationError, match="'f' does not return a value on every path"):
        run("return f(n)", preamble=f"@qd.func\ndef f(n){result}:\n    {body}\n", n=("qd.i32", 1))


@pytest.mark.parametrize("result", ["", " -> qd.i32"])
def test_a_func_may_end_with_an_endless_loop_that_returns(result):
    inner = "for i in range(9):\n            if i > n:\n                break"
    body = f"while True:\n        {inner}\n        n += 3\n        if n > 7:\n            return n"
    assert run("return f(n)", preamble=f"@qd.func\ndef f(n){result}:\n    {body}\n", n=("qd.i32", 2)) == 8


@pytest.mark.parametrize(
    "first, second, index, expected",
    [("(1, x)", "(2, x)", 0, [1, 2]), ("('a', x)", "('a', -x)", 1, [5, -3]), ("[x, [3, x]]", "[x, [4, x]]", "1][0", [3, 4])],
)
def test_numbers_in_returned_tuples_are_those_of_the_return_that_runs(first, second, index, expected):
    func = f"@qd.func\ndef f(x):\n    if x > 4:\n        return {first}\n    return {second}\n"
    assert [run(f"return f(x)[{index}]", preamble=func, x=("qd.i32", x)) for x in (5, 3)] == expected


def test_returns_that_differ_in_what_is_known_are_refused():
    func = "@qd.func\ndef f(x):\n    if x > 4:\n        return ('a', x)\n    return ('b', x)\n"
    with pytest.raises(qd.QuadrantsTypeError, match="differ in what is known while compiling"):
        run("return f(x)[1]", preamble=func, x=("qd.i32", 3))


def test_keyword_only_arguments_of_kernels_have_defaults():
    @qd.kernel
    def work(x: qd.types.ndarray(), *, step: qd.i32 = 3, scale: qd.i32 = 10) -> qd.i32:
        x[0] += step
        return x[0] * scale

    @qd.kernel
    def needs(x: qd.types.ndarray(), *, step: qd.i32, scale: qd.i32 = 10) -> qd.i32:
        return x[0] + step * scale

    x = np.zeros(1, np.int32)
    assert [work(x), work(x), work(x, step=1), work(x, scale=2), work(x)] == [30, 60, 70, 20, 130]
    assert needs(x, step=2) == 33
    with pytest.raises(qd.QuadrantsSyntaxError, match="Missing argument 'step'"):
        needs(x)
    with pytest.raises(qd.QuadrantsSyntaxError, match="Too many arguments"):
        work(x, 4)


def test_texts_of_annotations_before_a_captured_func_is_defined():
    @qd.kernel
    def work(x: "qd.i32") -> "qd.i32":
        def add(a: qd.i32 = 3):
            return later(a)

        return add(x) + add()

    @qd.func
    def later(x):
        return x + 1

    assert work(5) == 10

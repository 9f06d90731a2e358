"""`*args` and `**kwargs` of funcs."""

import pytest
from language_support import define

import quadrants as qd

pytestmark = pytest.mark.usefixtures("on_every_backend")


def test_a_func_takes_any_number_of_arguments():
    @qd.func
    def total(*values):
        result = 0.0
        for value in qd.static(values):
            result += value
        return result + len(values)

    @qd.kernel
    def k(x: qd.f32) -> qd.f32:
        pair = (x, x * 2)
        return total() + 10 * total(x) + 100 * total(*pair) + 1000 * total(1.0, *pair, 3)

    assert k(1.0) == 20 + 500 + 11000


def test_arguments_after_the_first_one_are_passed_on():
    @qd.func
    def digits(first, *rest):
        result = first
        if qd.static(len(rest) > 0):
            result = first * 10 ** len(rest) + digits(*rest)
        return result

    @qd.kernel
    def k(x: qd.i32) -> qd.i32:
        return digits(x, 2, x + 2)

    assert k(1) == 123


def test_keywords_without_a_parameter_are_a_dict():
    @qd.func
    def weigh(a, /, *rest, scale=1, **weights):
        result = a * scale
        for name, weight in qd.static(weights.items()):
            if qd.static(name != "a"):
                result += weight
            else:
                result += 1000 * weight
        return result + 100 * len(rest) + 10000 * len(weights)

    @qd.func
    def forward(*values, **named):
        return weigh(*values, **named)

    @qd.kernel
    def k(x: qd.i32) -> qd.i32:
        return forward(x, x, x, scale=3, a=x, b=5)

    assert k(2) == 6 + 2000 + 5 + 200 + 20000


def test_an_annotation_is_for_every_argument():
    @qd.func
    def add_to(target: qd.template(), amount):
        target += amount

    @qd.func
    def add_to_all(amount, *targets: qd.template()):
        for i in qd.static(range(len(targets))):
            add_to(targets[i], amount)

    @qd.func
    def halves(*values: qd.i32):
        return sum(values) / 2

    x = qd.field(qd.i32, shape=3)

    @qd.kernel
    def k(n: qd.i32) -> qd.f32:
        a = 1
        add_to_all(n, a, x[1], x[2])
        return halves(1.9, n, a)

    assert k(5) == (1 + 5 + 6) / 2
    assert x.to_numpy().tolist() == [0, 5, 5]


def test_arguments_are_copied_and_have_types():
    @qd.func
    def change(*values):
        first = values[0]
        first += 10
        return first + values[-1] // 2 + max(*values)

    @qd.kernel
    def k(n: qd.i32) -> qd.i32:
        x = n
        return 1000 * change(x, 7) + x

    assert k(2) == 22002


def test_methods_lambdas_and_inner_functions():
    @qd.data_oriented
    class Sum:
        def __init__(self):
            self.start = 3

        @qd.func
        def of(self, *values):
            return self.start + sum(values)

        @qd.kernel
        def k(self, n: qd.i32) -> qd.i32:
            def count(*values, **named):
                result = n
                for value in qd.static(values):
                    result += value // 2
                return result + 10 * len(named)

            last = lambda *values: values[-1] * len(values)  # noqa: E731
            return self.of(n, 1) + self.of() + 100 * count(n, 5, extra=n) + 10000 * last(1, n)

    assert Sum().k(4) == 8 + 3 + 100 * (4 + 2 + 2 + 10) + 80000


def test_containers_and_functions_are_arguments():
    @qd.func
    def square(x):
        return x * x

    @qd.func
    def apply(x, *functions):
        for function in qd.static(functions):
            x = function(x)
        return x

    @qd.func
    def sum_of_first(*arrays):
        result = 0
        for array in qd.static(arrays):
            result += array[0]
        return result

    x, y = qd.field(qd.i32, shape=2), qd.ndarray(qd.i32, (2,))
    x[0], y[0] = 3, 4

    @qd.kernel
    def k(n: qd.i32, y: qd.types.ndarray(qd.i32, 1)) -> qd.i32:
        return apply(n, square, square, lambda x: x + 1) * 100 + sum_of_first(x, y)

    assert k(2, y) == 1707


def test_several_returns_of_a_func_with_star_parameters():
    @qd.func
    def largest(*values):
        if qd.static(len(values) == 1):
            return values[0]
        rest = largest(*values[1:])
        if values[0] > rest:
            return values[0]
        return rest

    @qd.kernel
    def k(a: qd.i32, b: qd.f32) -> qd.f32:
        return largest(a, b, 3)

    assert [k(5, 2.5), k(1, 4.5), k(1, 2.5)] == [5, 4.5, 3]


@pytest.mark.parametrize("call, message", [("f()", "Missing argument 'a'"), ("f(1, a=2)", "Multiple values for argument 'a'")])
def test_mistakes_of_calls(call, message):
    module = define(f"@qd.func\ndef f(a, *values, **named):\n    return a\n\n@qd.kernel\ndef k() -> qd.i32:\n    return {call}")
    with pytest.raises(qd.QuadrantsSyntaxError, match=message):
        module["k"]()


@pytest.mark.parametrize("parameters", ["*values: qd.i32", "**values: qd.i32"])
@pytest.mark.parametrize("decorator", ["kernel", "real_func"])
def test_kernels_and_real_funcs_have_none(decorator, parameters):
    with pytest.raises(qd.QuadrantsSyntaxError, match="do not support variable"):
        define(f"@qd.{decorator}\ndef f({parameters}) -> qd.i32:\n    return 1")

"""What is refused when a function is decorated, and what a decorated function is."""

import functools
import os
import re
import traceback

import pytest

import quadrants as qd
from quadrants._language.parameters import bind, parse_parameters


def test_a_kernel_looks_like_its_function():
    @qd.kernel
    def add(a: qd.i32, b: qd.f32) -> qd.f32:
        """Adds."""
        return a + b

    assert add.__name__ == "add" and add.__doc__ == "Adds." and add.__wrapped__.__name__ == "add"


def bare(a):
    pass


def unknown(a: list):
    pass


def star(*args):
    pass


def double_star(**kwargs):
    pass


def union(a: int | float):
    pass


def unresolved(a: "NoSuchName"):  # noqa: F821
    pass


def ellipsis() -> tuple[qd.i32, ...]:
    pass


def bad_result() -> list:
    pass


def one_of_two() -> qd.i32 | qd.f32:
    return 1


def perhaps() -> qd.i32 | None:
    return 1


@pytest.mark.parametrize(
    "function, text",
    [
        (bare, "Quadrants kernels parameters must be type annotated"),
        (unknown, r"Invalid type annotation \(argument 0\) of Quadrants kernel: <class 'list'>"),
        (star, r"Quadrants kernels do not support variable positional parameters \(i.e., \*args\)"),
        (double_star, r"Quadrants kernels do not support variable keyword parameters \(i.e., \*\*kwargs\)"),
        (union, r"only support optional annotations of the form 'T \| None'"),
        (unresolved, "NoSuchName"),
        (ellipsis, "Ellipsis is not supported in return type annotations"),
        (bad_result, "Invalid data type <class 'list'>"),
        (one_of_two, r"Invalid data type .*i32(, | \| )f32.* kernels return values of one type"),
        (perhaps, "Invalid data type .*i32.* kernels return values of one type"),
    ],
)
def test_bad_signatures_are_refused(function, text):
    with pytest.raises(qd.QuadrantsSyntaxError, match=text):
        qd.kernel(function)


def test_a_kernel_is_the_innermost_decorator():
    @functools.wraps(bare)
    def wrapped(a: qd.i32):
        pass

    with pytest.raises(qd.QuadrantsSyntaxError, match="Cant put kernel in front of other annotations"):
        qd.kernel(wrapped)


def test_pure_is_deprecated():
    with pytest.warns(DeprecationWarning, match="Please use parameter `fastcache`"):
        qd.kernel(pure=True)(lambda_like())
    with pytest.warns(DeprecationWarning, match=r"use @qd.kernel\(fastcache=True\)"):
        assert isinstance(qd.pure(qd.kernel(lambda_like())), type(qd.kernel(lambda_like())))
    with pytest.raises(qd.QuadrantsTypeError, match="stands above @qd.kernel"):
        qd.pure(lambda_like())
    with pytest.raises(qd.QuadrantsSyntaxError, match="requires graph=True"):
        qd.kernel(checkpoints=True)


def lambda_like():
    def nothing():
        pass

    return nothing


def test_annotations_of_every_kind():
    class Local:
        pass

    def function(
        a: int, b: "qd.f64", c: qd.types.vector(2, float), d: qd.types.ndarray, e: "qd.types.NDArray[qd.f32, 2] | None",
        f: qd.template(), g: qd.Template, h: qd.Tensor | None, i: qd.types.struct(x=qd.i32),
    ):  # fmt: skip
        pass

    parameters = parse_parameters(function, "kernels", 1)
    assert [p.kind for p in parameters] == ["scalar", "scalar", "matrix", "array", "array", "template", "template", "tensor", "struct"]
    assert [p.optional for p in parameters] == [False] * 4 + [True, False, False, True, False]
    assert parameters[0].dtype is qd.i32 and parameters[1].dtype is qd.f64 and parameters[4].annotation.ndim == 2


@pytest.mark.parametrize(
    "arguments, keywords, text",
    [
        ((), {"m": 1}, r"Missing argument 'n'.\nUnexpected argument 'm'."),
        ((1,), {"n": 2}, "Multiple values for argument 'n'."),
        ((1, 2, 3), {}, r"Too many arguments. Expected \(n : i32, k : i32\), got \(1, 2, 3\)."),
    ],
)
def test_calls_that_do_not_fit_the_signature(arguments, keywords, text):
    def function(n: qd.i32, k: qd.i32 = 7):
        pass

    parameters = parse_parameters(function, "kernels", 1)
    assert bind(parameters, (1,), {}) == (1, 7) and bind(parameters, (), {"k": 2, "n": 1}) == (1, 2)
    with pytest.raises(qd.QuadrantsSyntaxError, match=text):
        bind(parameters, arguments, keywords)


def test_a_func_cannot_be_called_from_python():
    @qd.func
    def helper(x):
        return x

    with pytest.raises(qd.QuadrantsAssertionError, match="helper"):
        helper(1)
    with pytest.raises(AssertionError):
        helper(1)


def test_a_pyfunc_is_the_plain_function_in_python():
    @qd.pyfunc
    def helper(x, y=2):
        return x + y

    assert helper(1) == 3 and helper(1, y=5) == 6


def test_data_oriented_marks_the_class():
    @qd.data_oriented
    class A:
        pass

    assert A._data_oriented and A._qd_template_primitives


def test_ndarray_annotations_check_themselves():
    for options, kind, text in [
        ({"field_dim": 1}, ValueError, "already deprecated"),
        ({"boundary": "wrap"}, ValueError, "Invalid boundary argument"),
        ({"element_dim": 3}, ValueError, "Only scalars, vectors, and matrices are allowed"),
        ({"element_dim": 1, "element_shape": (2, 2)}, ValueError, "doesn't match specified dim"),
        ({"dtype": qd.types.vector(2, qd.f32), "element_dim": 1}, TypeError, "compound type"),
    ]:
        with pytest.raises(kind, match=text):
            qd.types.ndarray(**options)


WRONG_SIGNATURES = [
    ("a: qd.i32, «b»", "parameters must be type annotated"),
    ("«a: list»", "Invalid type annotation"),
    ("a: qd.i32, *«more»", "variable positional"),
    ("**«named»", "variable keyword"),
    ("«a: int | float»", "optional annotations"),
    ("«a: 'Missing'»", "cannot be evaluated"),
    ("a: qd.i32) -> («list»", "Invalid data type"),
]


@pytest.mark.parametrize("decorator", ["@qd.kernel", "@qd.kernel(graph=True)", "@qd.real_func", "@qd.func(is_real_function=True)"])
@pytest.mark.parametrize("signature, text", WRONG_SIGNATURES)
def test_wrong_signatures_are_shown_with_their_line(signature, text, decorator, tmp_path):
    body = f"def f({signature}):\n    pass\n".replace("-> («list»)", "-> «list»")
    lines = ["import quadrants as qd", decorator, *body.replace("«", "").replace("»", "").splitlines()]
    (tmp_path / "program.py").write_text("\n".join(lines))
    with pytest.raises(qd.QuadrantsSyntaxError) as caught:
        exec(compile("\n".join(lines), tmp_path / "program.py", "exec"), {})
    shown = str(caught.value).splitlines()
    first = body.splitlines()[0]
    marked = re.search("«(.*)»", first)
    assert shown[0] == f'File "{tmp_path / "program.py"}", line 3, in f:' and shown[1] == lines[2]
    assert shown[2] == " " * marked.start() + "^" * len(marked[1])
    assert text in shown[3] and shown[-1].startswith("help: ") and shown[-1].endswith("[QD708]") and caught.value.code == "QD708"
    assert count_own_frames(caught.value) == 1 and caught.value.__cause__ is caught.value.__context__ is None


def count_own_frames(error):
    """Frames of the package in a traceback: that of the decorator is one, since it is a function of Python."""
    package = os.path.dirname(qd.__file__)
    return sum(frame.filename.startswith(package) for frame in traceback.extract_tb(error.__traceback__))


@pytest.mark.parametrize(
    "decorator", [qd.kernel, qd.kernel(graph=True), qd.func, qd.func(requires_top_level=True), qd.real_func, qd.pyfunc]
)
def test_what_is_no_function_is_not_decorated(decorator):
    for wrong in (3, int, functools.partial(print)):
        with pytest.raises(qd.QuadrantsSyntaxError, match=r"(?s)decorates functions written.*help: .*\[QD708\]") as caught:
            decorator(wrong)
        assert count_own_frames(caught.value) == 1


def test_funcs_take_parameters_of_any_type():
    from typing import Any

    qd.init(arch=qd.cpu, offline_cache=False, log_level="error")

    @qd.func
    def twice(value: Any) -> Any:
        return value + value

    @qd.kernel
    def k() -> qd.f32:
        return twice(1) + twice(qd.Vector([0.5, 1.0])).sum()

    assert k() == 5.0
    with pytest.raises(qd.QuadrantsSyntaxError, match="Invalid type annotation"):

        @qd.kernel
        def wrong(value: Any):
            pass

    qd.reset()

"""What a kernel sees of its arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hand_made import DYNAMIC, HandMade, Input

import quadrants as qd
from quadrants import _runtime

COPY_ARGUMENTS = "void qd_kernel(QdKernelContext *c) { __builtin_memcpy(c->result, c->arguments, 8); }"
# Stores the extent of the first axis into the first element.
STORE_EXTENT = """
void qd_kernel(QdKernelContext *c) {
  const QdTensorArgument *x = (const QdTensorArgument *)c->arguments;
  ((float *)x->data)[0] = (float)x->extents_and_strides[0];
}
"""
ARRAY = Input((0,), 0, "f32", extents=(DYNAMIC,), component_stride=4)


@pytest.mark.parametrize(
    ("dtype", "value", "expected"),
    [
        ("i8", -128, -128),
        ("i32", 2_147_483_647, 2_147_483_647),
        ("u8", 255, 255),
        ("u64", 2**64 - 1, 2**64 - 1),
        ("i64", -(2**63), -(2**63)),
        ("u1", 2**40, True),
        ("i32", np.int16(-3), -3),
        ("i32", True, 1),
        ("u1", np.bool_(True), True),
        ("f16", 1.0009765625, 1.0009765625),
        ("f32", 0.1, float(np.float32(0.1))),
        ("f32", np.float64(2.5), 2.5),
        ("f64", 7, 7.0),
    ],
)
def test_scalars_are_converted_to_the_declared_type(compiler: Any, dtype: str, value: Any, expected: Any) -> None:
    annotation = getattr(qd, dtype)

    @qd.kernel
    def give_back(x: annotation) -> annotation:
        return x

    compiler.attach(give_back, HandMade(COPY_ARGUMENTS, [Input((0,), 0, dtype)], results=[(dtype, (), 0)]))
    result = give_back(value)
    assert result == expected
    assert type(result) is type(expected)


def test_float_for_an_integer_parameter_is_refused(compiler: Any) -> None:
    @qd.kernel
    def f(x: qd.i32) -> None:
        pass

    compiler.attach(f, HandMade("void qd_kernel(QdKernelContext *c) {}", [Input((0,), 0, "i32")]))
    f(1)
    with pytest.raises(qd.QuadrantsRuntimeTypeError, match="cannot be converted into required type i32"):
        f(1.5)


@pytest.mark.parametrize("make", [lambda: qd.ndarray(qd.f32, (5,)), lambda: np.zeros(5, np.float32)])
def test_arrays_of_any_length_run_the_same_code(compiler: Any, make: Any) -> None:
    @qd.kernel
    def f(x: qd.types.ndarray(dtype=qd.f32, ndim=1)) -> None:
        pass

    compiler.attach(f, HandMade(STORE_EXTENT, [ARRAY]))
    first, second = make(), qd.ndarray(qd.f32, (9,))
    f(first)
    f(second)
    assert (first[0], second[0], compiler.calls) == (5, 9, 1)


def test_read_only_array_that_the_kernel_writes_is_refused(compiler: Any) -> None:
    @qd.kernel
    def f(x: qd.types.ndarray(dtype=qd.f32, ndim=1)) -> None:
        pass

    compiler.attach(f, HandMade(STORE_EXTENT, [ARRAY]))
    array = np.zeros(5, np.float32)
    array.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        f(array)
    assert array[0] == 0


def test_vector_argument_is_stored_component_after_component(compiler: Any) -> None:
    vec2 = qd.types.vector(2, qd.f32)

    @qd.kernel
    def f(v: vec2) -> qd.f32:
        return v[1]

    source = "void qd_kernel(QdKernelContext *c) { __builtin_memcpy(c->result, c->arguments + 4, 4); }"
    compiler.attach(f, HandMade(source, [Input((0,), 0, "f32", shape=(2,))], results=[("f32", (), 0)]))
    assert f(qd.Vector([1.0, 2.5])) == 2.5
    assert f(qd.Vector([1, 7])) == 7


def test_wrong_number_of_arguments_is_refused(compiler: Any) -> None:
    @qd.kernel
    def f(x: qd.i32) -> None:
        pass

    compiler.attach(f, HandMade("void qd_kernel(QdKernelContext *c) {}", [Input((0,), 0, "i32")]))
    f(x=1)
    with pytest.raises(qd.QuadrantsSyntaxError, match="Missing argument 'x'"):
        f()
    with pytest.raises(qd.QuadrantsSyntaxError, match="Unexpected argument 'y'"):
        f(1, y=2)


def test_several_results_come_back_as_annotated(compiler: Any) -> None:
    vec2 = qd.types.vector(2, qd.i32)

    @qd.kernel
    def f() -> tuple[qd.f32, vec2]:
        return 1.5, vec2(3, 4)

    source = "void qd_kernel(QdKernelContext *c) { *(float *)c->result = 1.5f; int *v = (int *)(c->result + 8); v[0] = 3; v[1] = 4; }"
    compiler.attach(f, HandMade(source, results=[("f32", (), 0), ("i32", (2,), 8)]))
    scalar, vector = f()
    assert scalar == 1.5
    assert list(vector) == [3, 4]


def test_two_fields_of_one_layout_share_code_and_one_field_twice_does_not(compiler: Any) -> None:
    @qd.kernel
    def f(x: qd.template(), y: qd.template()) -> None:
        pass

    def make(arguments: tuple[Any, ...]) -> HandMade:
        shared = _runtime.may_overlap(*arguments)
        inputs = [
            Input((i,), 8 * i, "f32", extents=(4,), strides=(4,), component_stride=4, is_field=True, may_alias=shared) for i in (0, 1)
        ]
        return HandMade("void qd_kernel(QdKernelContext *c) { **(float **)c->arguments += 1; }", inputs)

    compiler.attach(f, make)
    x, y, z = (qd.field(qd.f32, (4,)) for _ in range(3))
    f(x, y)
    f(y, z)
    assert compiler.calls == 1
    f(x, x)
    assert compiler.calls == 2
    f(x, y)
    assert (compiler.calls, x[0], y[0]) == (2, 3, 1)


def test_code_for_many_elements_and_code_for_few_are_apart(compiler: Any) -> None:
    @qd.kernel
    def f(x: qd.types.NDArray[qd.f32, 2]) -> None:
        pass

    def make(arguments: tuple[Any, ...]) -> HandMade:
        is_many = arguments[0].shape[1] >= 8
        limits = {"many_axes": 2 * is_many, "few_axes": 2 * (not is_many)}
        inputs = [Input((0,), 0, "f32", extents=(DYNAMIC, DYNAMIC), component_stride=4, **limits)]
        return HandMade(f"void qd_kernel(QdKernelContext *c) {{ **(float **)c->arguments += {1 + 9 * is_many}; }}", inputs)

    compiler.attach(f, make)
    shapes = [(9, 3), (9, 7), (2, 8), (2, 20), (2, 7)]
    for make_array in (lambda shape: np.zeros(shape, np.float32), lambda shape: qd.ndarray(qd.f32, shape)):
        arrays = [make_array(shape) for shape in shapes]
        for array in arrays:
            f(array)
        assert [array[0, 0] for array in arrays] == [1, 1, 10, 10, 1]
    assert compiler.calls == 2


def test_an_array_that_has_to_be_alone_is(compiler: Any) -> None:
    @qd.kernel
    def f(x: qd.types.NDArray[qd.f32, 1], y: qd.types.NDArray[qd.f32, 1]) -> None:
        pass

    def make(arguments: tuple[Any, ...]) -> HandMade:
        shared = bool(_runtime.list_shared(list(arguments)))
        inputs = [Input((i,), 16 * i, "f32", extents=(DYNAMIC,), component_stride=4, is_unaliased=i == 0 and not shared) for i in (0, 1)]
        return HandMade(f"void qd_kernel(QdKernelContext *c) {{ **(float **)c->arguments += {100 if shared else 1}; }}", inputs)

    compiler.attach(f, make)
    x, y = np.zeros(40, np.float32), np.zeros(40, np.float32)
    f(x, y)
    assert (compiler.calls, x[0]) == (1, 1)
    f(x[:20], x[20:])
    assert (compiler.calls, x[0]) == (1, 2)
    f(x[:21], x[20:])  # from where the last ones were
    assert (compiler.calls, x[0]) == (2, 102)


def test_containers_that_share_memory_are_listed(compiler: Any) -> None:
    x, y = np.zeros(40, np.float32), qd.ndarray(qd.f32, 8)
    assert _runtime.list_shared([x[:20], y, x[20:]]) == []
    assert _runtime.list_shared([x[:20], y, x[19:], y, x[39:]]) == [0, 1, 2, 3, 4]
    with pytest.raises(TypeError):
        _runtime.list_shared(3)


def test_members_of_one_buffer_that_interleave_do_not_overlap() -> None:
    qd.init(offline_cache=False)
    point = qd.types.struct(a=qd.f32, b=qd.types.vector(3, qd.f32))
    field = point.field(shape=(8,))
    assert not _runtime.may_overlap(field.a, field.b)
    assert _runtime.may_overlap(field.b, field.b.get_scalar_field(1))
    assert _runtime.may_overlap(field.a, field.a.view())
    qd.reset()

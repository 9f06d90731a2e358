"""What the frontend emits: loops, places, instances of funcs, inputs (verified IR, not run)."""

import re
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import quadrants as qd

Emit = Callable[..., str]


def count(pattern: str, text: str) -> int:
    """How many lines hold the pattern."""
    return sum(bool(re.search(pattern, line)) for line in text.splitlines())


def make_fill(x: Any) -> Any:
    """A func with a loop over a container."""

    @qd.func
    def fill(value):
        for i in x:
            x[i] = value

    return fill


def test_outermost_loops_are_parallel_and_inner_ones_are_not(emit: Emit):
    @qd.kernel
    def k(n: qd.i32):
        for i in range(n):
            for j in range(3):
                pass
        if n > 0:
            n2 = n
            for i in range(n2):
                pass

    text = emit(k, 1)
    assert count(r"qd\.for parallel", text) == 1
    assert count(r"qd\.for \(", text) == 2


def test_loops_under_a_run_time_if_are_serial(emit: Emit):
    x = qd.field(qd.i32, shape=8)

    @qd.kernel
    def k(n: qd.i32):
        if n > 0:
            for i in range(n + 1):
                x[i] = 1
        else:
            for i, j in qd.ndrange(2, 2):
                x[i * j] = 3

    text = emit(k, 1)
    assert count(r"qd\.for parallel", text) == 0
    assert count(r"qd\.for", text) == 2


def test_an_assertion_without_an_effect_leaves_nothing_where_it_is_not_checked(emit: Emit):
    x = qd.field(qd.i32, shape=8)

    @qd.kernel
    def k(n: qd.i32, m: qd.i32):
        total = 0
        for i in x:
            assert x[i] * n > 3 and (x[i] < n or 7 // m > 2), f"{x[i]}"
            total = total + n
            assert total < 100
        assert total == n

    text = emit(k, 1, 2)
    assert count(r"qd\.(load|compare|if|assert|binary)", text) == 0
    assert count(r"qd\.atomic add", text) == 1


def test_loops_of_funcs_in_an_unrolled_loop_are_parallel(emit: Emit):
    x = qd.field(qd.i32, shape=4)

    fill = make_fill(x)

    @qd.kernel
    def k():
        for value in qd.static(range(3)):
            fill(value)

    assert count(r"qd\.for parallel", emit(k)) == 3


def test_loops_of_a_func_called_at_the_top_level_are_parallel(emit: Emit):
    x = qd.field(qd.i32, shape=4)

    fill = make_fill(x)

    @qd.kernel
    def k():
        fill(1)
        for i in x:
            fill(2)

    text = emit(k)
    assert count(r"qd\.for parallel", text) == 2
    assert count(r"qd\.func", text) == 1  # the nested call, whose loop is sequential


def test_a_func_is_emitted_once_for_each_combination_of_types(emit: Emit):
    @qd.func
    def twice(v):
        return v * 2

    @qd.kernel
    def k(a: qd.i32, b: qd.f32) -> qd.f32:
        return twice(a) + twice(a + 1) + twice(b)

    text = emit(k, 1, 1.0)
    assert count(r"qd\.func ", text) == 2
    assert count(r"qd\.call ", text) == 3


def test_template_arguments_make_instances(emit: Emit):
    @qd.func
    def power(v, n: qd.template()):
        result = v
        for _ in qd.static(range(n - 1)):
            result *= v
        return result

    @qd.kernel
    def k(a: qd.f32) -> qd.f32:
        return power(a, 2) + power(a, 3) + power(a, 2)

    text = emit(k, 1.0)
    assert count(r"qd\.func ", text) == 2


def test_variables_assigned_once_have_no_place(emit: Emit):
    @qd.kernel
    def k(a: qd.f32) -> qd.f32:
        once = a * 2
        twice = a
        twice = twice + once
        return twice

    assert count(r"qd\.local", emit(k, 1.0)) == 1


def test_update_of_an_outer_variable_in_a_parallel_loop_is_atomic(emit: Emit):
    @qd.kernel
    def k() -> qd.i32:
        total = 0
        for i in range(10):
            own = 0
            own += i
            total += own
        return total

    text = emit(k)
    assert count(r"qd\.atomic add", text) == 1
    assert count(r"qd\.binary add", text) == 1


@pytest.mark.parametrize(
    "operator, atomic", [("+=", "add"), ("-=", "sub"), ("*=", "mul"), ("&=", "bit_and"), ("|=", "bit_or"), ("^=", "bit_xor")]
)
def test_update_of_an_element_is_atomic(emit: Emit, operator: str, atomic: str, tmp_path: Any):
    file = tmp_path / "kernel.py"
    file.write_text(f"def k():\n    for i in x:\n        x[0] {operator} i\n")
    module: dict[str, Any] = {"x": qd.field(qd.i32, shape=4)}
    exec(compile(file.read_text(), str(file), "exec"), module)
    assert count(rf"qd\.atomic {atomic} ", emit(qd.kernel(module["k"]))) == 1


def test_untaken_branch_of_a_static_if_is_not_compiled(emit: Emit):
    @qd.kernel
    def k() -> qd.i32:
        result = 1
        if qd.static(False):
            result = undefined_name  # noqa: F821
        return result

    assert count(r"qd\.if", emit(k)) == 0


def test_a_container_is_one_input_however_often_it_is_used(emit: Emit):
    x = qd.field(qd.f32, shape=8)

    @qd.func
    def read(i):
        return x[i]

    @qd.kernel
    def k():
        for i in x:
            x[i] = read(i) + x[i]

    text = emit(k)
    assert set(re.findall(r'tensor_argument field "x" at (\d+)', text)) == {"0"}
    assert "argument_bytes = 8" in text


def test_members_that_are_not_read_are_not_passed(emit: Emit):
    import dataclasses

    @dataclasses.dataclass
    class State:
        a: qd.types.ndarray(dtype=qd.f32, ndim=1)
        b: qd.types.ndarray(dtype=qd.f32, ndim=1)
        scale: qd.f32

    @qd.kernel
    def k(state: State):
        state.a[0] = 1.0

    text = emit(k, State(qd.ndarray(qd.f32, shape=(4,)), qd.ndarray(qd.f32, shape=(4,)), 2.0))
    assert count(r"tensor_argument", text) == 1
    assert count(r"qd\.argument ", text) == 0


def test_arrays_of_numpy_have_dynamic_extents(emit: Emit):
    @qd.kernel
    def k(a: qd.types.ndarray(dtype=qd.types.vector(3, qd.f32), ndim=2)):
        a[0, 0] = 1.0

    assert "!qd.tensor<vector<3xf32>, [?, ?], [], 4>" in emit(k, np.zeros((2, 4, 3), np.float32))


def test_cheap_branches_of_a_ternary_become_a_select(emit: Emit):
    x = qd.field(qd.f32, shape=4)

    @qd.kernel
    def k(a: qd.f32, i: qd.i32) -> qd.f32:
        cheap = a * 2 if a > 0 else -a
        guarded = x[i] if i < 4 else 0.0
        return cheap + guarded

    text = emit(k, 1.0, 1)
    assert count(r"qd\.select", text) == 1
    assert count(r"qd\.if", text) == 1


def test_variable_of_both_branches_takes_the_common_type(emit: Emit):
    @qd.kernel
    def k(a: qd.i32) -> qd.f32:
        if a > 0:
            y = 1
        else:
            y = 2.5
        return y

    text = emit(k, 1)
    assert count(r"qd\.return %\d+ : f32", text) == 1


def test_time_to_emit_grows_linearly(emit: Emit, tmp_path: Any):
    def measure(statements: int) -> float:
        file = tmp_path / f"kernel_{statements}.py"
        body = "".join(f"    v = v * {index}.5 + a\n    if v > {index}.0:\n        v = v - 1.0\n" for index in range(statements))
        file.write_text(f"def k(a: f32) -> f32:\n    v = a\n{body}    return v\n")
        module: dict[str, Any] = {"f32": qd.f32}
        exec(compile(file.read_text(), str(file), "exec"), module)
        kernel = qd.kernel(module["k"])
        begin = time.process_time()
        emit(kernel, 1.0)
        return time.process_time() - begin

    measure(10)
    small = min(measure(500) for _ in range(3))
    large = min(measure(4000) for _ in range(2))
    assert large < 8 * small * 3


def test_read_only_arrays_are_refused_where_they_are_written():
    @qd.func
    def change(place: qd.template()):
        place = 2.0

    @qd.kernel
    def write(a: qd.types.ndarray(dtype=qd.f32, ndim=1)):
        change(a[0])

    @qd.kernel
    def read(a: qd.types.ndarray(dtype=qd.f32, ndim=1)) -> qd.f32:
        return a[0]

    qd.init(arch=qd.cpu, offline_cache=False, log_level="error")
    array = np.ones(3, np.float32)
    array.flags.writeable = False
    assert read(array) == 1.0
    with pytest.raises(ValueError, match="writes its argument 'a'"):
        write(array)
    assert array[0] == 1.0
    qd.reset()

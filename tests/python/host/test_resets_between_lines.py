"""qd.reset() between any two lines of the package, as another thread may call it: the operation works or raises QuadrantsRuntimeError."""

import copy
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest

import quadrants as qd

PACKAGE = str(Path(qd.__file__).parent)


@qd.kernel
def add(x: qd.types.ndarray(), v: qd.i64):
    for i in x:
        x[i] += v


@qd.kernel
def add_to_vectors(x: qd.types.ndarray(dtype=qd.math.vec3, ndim=1)):
    for i in x:
        x[i] += 1.0


def make_struct_ndarray():
    return qd.ndarray(qd.types.struct(a=qd.f32, b=qd.math.vec3), 4)


def make_vectors():
    return qd.Vector.ndarray(3, qd.f32, 4)


def make_scalars():
    return qd.ndarray(qd.i64, 10)


def make_field():
    field = qd.Matrix.field(2, 2, qd.f32, 3)
    field.fill(1)
    return field


OPERATIONS = {
    "launch": (make_scalars, lambda x: add(x, 5)),
    "launch with vectors": (make_vectors, add_to_vectors),
    "fill": (make_vectors, lambda x: x.fill([1, 2, 3])),
    "read": (make_vectors, lambda x: x[2]),
    "write": (make_vectors, lambda x: x.__setitem__(2, [1, 2, 3])),
    "write rows": (make_vectors, lambda x: x.__setitem__(slice(1, 3), np.ones((2, 3)))),
    "length": (make_scalars, len),
    "text": (make_scalars, lambda x: (repr(x), str(x))),
    "pickle": (make_scalars, pickle.dumps),
    "copy": (make_vectors, copy.copy),
    "from_numpy": (make_vectors, lambda x: x.from_numpy(np.zeros((4, 3)))),
    "to_numpy": (lambda: qd.ndarray(qd.bf16, 8), lambda x: x.to_numpy()),
    "to_numpy of structs": (make_struct_ndarray, lambda x: x.to_numpy()),
    "write a struct": (make_struct_ndarray, lambda x: x.__setitem__(1, {"a": 1.0, "b": [1, 2, 3]})),
    "write a field": (make_field, lambda x: x.__setitem__(1, [[1, 2], [3, 4]])),
    "convert a field": (make_field, lambda x: x.to_numpy(np.float64)),
    "make an ndarray": (lambda: None, lambda _: make_scalars()),
    "make a field": (lambda: None, lambda _: make_field()),
}


def begin():
    qd.init(arch=qd.cpu, offline_cache=False, cpu_max_num_threads=1)


def run_with_reset(operation, container, wanted, begins_again):
    """Runs an operation, resetting the runtime before line number `wanted`; returns how many of its lines began."""
    count = 0

    def watch_lines(frame, event, argument):
        nonlocal count
        if event == "line":
            count += 1
            if count == wanted:
                sys.settrace(None)
                qd.reset()
                if begins_again:
                    begin()
        return watch_lines

    before = sys.gettrace()
    sys.settrace(lambda frame, event, argument: watch_lines if frame.f_code.co_filename.startswith(PACKAGE) else None)
    try:
        operation(container)
    except qd.QuadrantsRuntimeError:
        pass
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize("begins_again", [False, True])
@pytest.mark.parametrize("name", OPERATIONS)
def test_a_reset_before_any_line_gives_the_result_or_a_runtime_error(name, begins_again):
    make, operation = OPERATIONS[name]
    wanted, count, problems = 0, 0, {}
    while count == wanted:  # until it ends before the line
        wanted += 1
        begin()
        container = make()
        try:
            count = run_with_reset(operation, container, wanted, begins_again)
        except Exception as problem:
            count = wanted
            problems.setdefault(f"{type(problem).__name__}: {problem}", []).append(wanted)
    assert not problems

"""Programs beside the one of the process: `qd.Program`."""

import gc

import numpy as np
import pytest

import quadrants as qd


@pytest.fixture(autouse=True)
def own_program():
    qd.init(arch=qd.cpu, log_level="error")
    yield
    qd.reset()


@qd.kernel
def double(x: qd.types.NDArray):
    for i in x:
        x[i] = x[i] * 2


@qd.kernel
def which() -> qd.f64:
    return 0.1


def make(values):
    array = qd.ndarray(qd.f32, len(values))
    array.from_numpy(np.array(values, np.float32))
    return array


@pytest.mark.parametrize("arch", [qd.cpu, qd.python])
def test_each_program_has_its_containers_and_options(arch):
    outer = make([1, 2])
    program = qd.Program(arch=arch, default_fp=qd.f64)
    assert qd.cfg.default_fp is qd.f32
    with program:
        inner = make([3, 4])
        double(inner)
        assert inner.to_numpy().tolist() == [6, 8]
        assert which() == 0.1
        assert outer.to_numpy().tolist() == [1, 2]
    double(outer)
    assert outer.to_numpy().tolist() == [2, 4]
    assert which() == np.float32(0.1)
    program.close()
    with pytest.raises(qd.QuadrantsRuntimeError, match="created before"):
        inner.to_numpy()
    assert outer.to_numpy().tolist() == [2, 4]


def test_kernels_keep_their_code_in_each_program():
    program = qd.Program(default_fp=qd.f64)
    for _ in range(3):
        with program:
            which()
            compiled = qd._runtime.statistics()["compiled"] + qd._runtime.statistics()["loaded"]
        which()
    assert compiled == 1
    assert len(which.specializations()) == 1


def test_the_own_program_ends_alone():
    program = qd.Program()
    with program:
        inner = make([1])
    outer = make([2])
    qd.reset()
    with pytest.raises(qd.QuadrantsRuntimeError, match="created before"):
        outer.to_numpy()
    with program:
        double(inner)
    assert inner.to_numpy().tolist() == [2]


def test_a_program_that_nobody_holds_ends():
    with qd.Program():
        inner = make([1])
    gc.collect()
    with pytest.raises(qd.QuadrantsRuntimeError, match="created before"):
        inner.to_numpy()


def test_programs_nest_and_leave_on_errors():
    first, second = qd.Program(random_seed=1), qd.Program(random_seed=2)
    with pytest.raises(ZeroDivisionError), first, second, first:
        assert qd.cfg.random_seed == 1
        raise ZeroDivisionError
    assert qd.cfg.random_seed == 0


def test_fields_that_wait_for_a_place_belong_to_their_program():
    x = qd.field(qd.i32)
    with qd.Program():
        y = qd.field(qd.i32)
        qd.root.dense(qd.i, 3).place(y)
        assert y.shape == (3,)
        which()
    qd.root.dense(qd.i, 2).place(x)
    which()
    assert x.shape == (2,)


def test_windows_end_with_the_program_of_their_container():
    outer = make([1, 2, 3])
    with qd.Program() as program:
        window = outer[1:]
        program.close()
    assert window.to_numpy().tolist() == [2, 3]


def test_options_are_checked_before_anything_starts():
    with pytest.raises(KeyError, match="Unrecognized keyword"):
        qd.Program(no_such_option=1)
    assert which() == np.float32(0.1)


def test_gradients_of_other_programs_are_not_cleared():
    x = qd.field(qd.f32, 2, needs_grad=True)
    x.grad.fill(5)
    with qd.Program():
        y, loss = qd.field(qd.f32, 2, needs_grad=True), qd.field(qd.f32, (), needs_grad=True)

        @qd.kernel
        def total():
            for i in y:
                loss[None] += 3 * y[i]

        with qd.ad.Tape(loss=loss):
            total()
        assert y.grad.to_numpy().tolist() == [3, 3]
    assert x.grad.to_numpy().tolist() == [5, 5]

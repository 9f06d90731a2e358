"""`x.fill(value)` in kernels, at each launch."""

import numpy as np
import pytest

import quadrants as qd


@pytest.fixture(autouse=True, params=["cpu", "python"])
def runtime(request):
    qd.init(arch=request.param)
    yield
    qd.reset()


@qd.kernel
def fill(x: qd.Tensor, value: qd.f32):
    x.fill(value)


@pytest.mark.parametrize(
    "make",
    [
        lambda: qd.field(qd.f32, shape=(2, 3)),
        lambda: qd.field(qd.f32, shape=()),
        lambda: qd.field(qd.f32, shape=3, offset=2),
        lambda: qd.ndarray(qd.f32, (2, 3)),
        lambda: qd.tensor(qd.f32, (2, 3), layout=(1, 0)),
        lambda: np.zeros((2, 3), np.float32),
    ],
    ids=["field", "0-d", "offset", "ndarray", "tensor", "array"],
)
def test_numbers(make):
    x = make()
    for value in (2, 3):
        fill(x, value)
        assert (np.asarray(x) == value).all()


def test_vectors_and_conversions():
    v, i = qd.Vector.field(2, qd.f32, shape=3), qd.field(qd.i32, shape=3)

    @qd.kernel
    def run(a: qd.f32):
        v.fill(qd.Vector([a, a + 1]))
        i.fill(a)

    for a in (1.5, 7.5):
        run(a)
        assert v.to_numpy().tolist() == [[a, a + 1]] * 3 and i.to_numpy().tolist() == [int(a)] * 3


def test_other_host_methods_are_refused_on_the_compiler():
    s = qd.Struct.field({"a": qd.f32}, shape=3)

    @qd.kernel
    def run():
        s.copy_from(s)

    if qd.cfg is not None:
        with pytest.raises(qd.QuadrantsSyntaxError, match="'copy_from' is host API"):
            run()

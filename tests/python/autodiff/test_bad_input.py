"""Derivatives that cannot be had: what is said, and where mathematics says zero."""

from __future__ import annotations

import gc
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from autodiff_support import define_layer, differences, make_layer_arrays, numbers, scalar_loss

import quadrants as qd
from quadrants._base import device

everywhere = pytest.mark.usefixtures("on_every_backend")


@pytest.fixture
def _compiled() -> Iterator[None]:
    qd.init(arch=qd.cpu, default_fp=qd.f64, offline_cache=False, log_level="error")
    yield
    qd.reset()


def refusal(error: Any, *parts: str) -> None:
    """The message has all parts in this order: line, operation, remedy."""
    text = str(error.value)
    assert re.search(".*".join(map(re.escape, parts)), text, re.DOTALL), text


@everywhere
@pytest.mark.parametrize(
    ("make", "name"),
    [(lambda: qd.Vector.field(2, qd.f64, shape=(), needs_grad=True), "MatrixField"), (lambda: [1.0], "list"), (lambda: 1.0, "float")],
)
def test_loss_that_is_no_scalar(make: Any, name: str):
    with pytest.raises(qd.QuadrantsRuntimeError) as error, qd.ad.Tape(make()):
        pass
    refusal(error, "must be a 0-D field, i.e. scalar", name)


@everywhere
def test_gradient_that_can_reach_nothing():
    x, y = qd.field(qd.f64, shape=2, name="x"), qd.field(qd.f64, shape=(), name="y")

    @qd.kernel
    def run():
        for i in x:
            y[None] += x[i] * x[i]

    with pytest.warns(UserWarning, match="has no gradients to compute"):
        run.grad()
    assert y[None] == 0.0
    with qd.ad.Tape(scalar_loss()):
        run()
    assert y[None] == 0.0


@everywhere
def test_container_without_storage_is_a_constant_among_others():
    x, weights, loss = numbers([1.0, 2.0]), qd.field(qd.f64, shape=2), scalar_loss()
    weights.fill(3.0)

    @qd.kernel
    def run():
        for i in x:
            loss[None] += weights[i] * x[i]

    with qd.ad.Tape(loss):
        run()
    assert x.grad.to_numpy().tolist() == [3.0, 3.0]


@everywhere
def test_integers_on_the_path_have_derivative_zero():
    x, loss = numbers([1.5, 2.5]), scalar_loss()

    @qd.kernel
    def run():
        for i in x:
            whole = qd.cast(x[i], qd.i32)
            loss[None] += whole * 2.0 + qd.cast(whole, float) * x[i]

    with qd.ad.Tape(loss):
        run()
    assert x.grad.to_numpy().tolist() == [1.0, 2.0]


@everywhere
@pytest.mark.needs("f64")
def test_random_numbers_on_the_path():
    x, loss = numbers([1.0]), scalar_loss()

    @qd.kernel
    def run():
        for i in x:
            loss[None] += qd.random(float) * x[i]

    with pytest.raises((qd.QuadrantsCompilationError, qd.QuadrantsRuntimeError)) as error, qd.ad.Tape(loss):
        run()
    refusal(error, "run", "random numbers cannot be drawn again", "into a container", "QD951")


@pytest.mark.usefixtures("_compiled")
@pytest.mark.needs("f64")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_keys_that_are_sorted():
    keys, loss = numbers([3.0, 1.0, 2.0]), scalar_loss()

    @qd.kernel
    def run():
        for i in keys:
            loss[None] += keys[i] * i

    with pytest.raises(qd.QuadrantsCompilationError) as error, qd.ad.Tape(loss):
        qd.algorithms.parallel_sort(keys)
        run()
    if device.HAS_GRIDS:
        refusal(error, "threads that work together have no gradients", "help:", "QD952")
    else:
        refusal(error, "is not known any more when gradients are computed", "help:", "QD951")


@pytest.mark.usefixtures("_compiled")
@pytest.mark.parametrize(
    ("statement", "what"),
    [
        ("qd.atomic_mul(loss[None], x[i])", "an atomic mul"),
        ("loss[None] += qd.atomic_add(x[i], 1.0) ** 2", "what an atomic operation returned"),
    ],
)
def test_operations_without_derivative(statement: str, what: str):
    x, loss = numbers([1.0, 2.0]), scalar_loss()
    run = qd.kernel_from_source(f"def run():\n    for i in x:\n        {statement}\n", {"x": x, "loss": loss})
    with pytest.raises(qd.QuadrantsCompilationError) as error:
        run.grad()
    refusal(error, statement, what, "help:")


@everywhere
def test_nan_flows_as_ieee_says():
    x, loss = numbers([-1.0, 4.0, np.inf]), scalar_loss()

    @qd.kernel
    def run():
        for i in x:
            loss[None] += qd.sqrt(x[i])

    with qd.ad.Tape(loss):
        run()
    assert np.isnan(loss[None])
    np.testing.assert_array_equal(x.grad.to_numpy(), [np.nan, 0.25, 0.0])


@everywhere
def test_branch_that_is_not_taken_makes_no_nan():
    x, loss = numbers([0.0, 4.0]), scalar_loss()

    @qd.kernel
    def run():
        for i in x:
            loss[None] += qd.select(x[i] > 0.0, qd.sqrt(x[i]), 0.0)

    with qd.ad.Tape(loss):
        run()
    assert x.grad.to_numpy().tolist() == [0.0, 0.25]


@pytest.mark.host_memory
@pytest.mark.usefixtures("_compiled")
def test_tape_without_memory():
    """The copy of what a call overwrites does not fit: the call, the container and the bytes are named, and nothing is lost."""
    import resource

    count = 1 << 24
    x, loss = qd.field(qd.f64, shape=count, needs_grad=False), scalar_loss()
    scale = numbers(2.0)
    x.fill(1.0)

    @qd.kernel
    def read():
        for i in x:
            loss[None] += scale[None] * x[i]

    @qd.kernel
    def overwrite():
        for i in x:
            x[i] = 5.0

    read(), read.grad(), overwrite()
    x.fill(1.0)
    limit = resource.getrlimit(resource.RLIMIT_AS)
    with pytest.raises(MemoryError) as error, qd.ad.Tape(loss):
        read()
        gc.collect()  # what earlier tests leave would make room later
        pages = int(open("/proc/self/statm").read().split()[0])
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (16 << 20), limit[1]))
        try:
            overwrite()
        finally:
            resource.setrlimit(resource.RLIMIT_AS, limit)
    refusal(error, "the tape has no memory to keep what kernel", "overwrite overwrites in 'x'", str(8 * count))
    assert x[0] == 1.0
    with qd.ad.Tape(loss):
        read()
        overwrite()
    assert scale.grad[None] == count


@everywhere
def test_forward_mode_inside_of_a_tape_is_refused():
    x, loss = numbers([1.0]), scalar_loss()
    with pytest.raises(RuntimeError, match="enter the tape inside of the forward mode"), qd.ad.Tape(loss), qd.ad.FwdMode(loss, x):
        pass
    with pytest.raises(RuntimeError, match="another forward mode"), qd.ad.FwdMode(loss, x), qd.ad.FwdMode(loss, x):
        pass


def test_iterations_of_a_parallel_loop_that_read_what_others_write(_compiled: None):
    o, x = numbers(np.zeros((8, 2))), numbers(0.5)

    @qd.func
    def before(i: int):
        return o[i - 1, 0]

    @qd.kernel
    def run():
        for i in range(1, 8):
            o[i, 0] = before(i) + x[None]

    run()
    with pytest.raises((qd.QuadrantsCompilationError, RuntimeError)) as error:
        run.grad()
    refusal(error, "return o[i - 1, 0]", "cross-iteration read-after-write: element of 'o'", "serialize=True")


@pytest.mark.parametrize(
    "body",
    [
        "qd.loop_config(serialize=True)\n    for i in range(1, 8):\n        o[i, 0] = o[i - 1, 0] + x[None]",
        "for i in range(1, 8):\n        if i % 2 == 1:\n            o[i, 0] = o[i - 1, 0] + x[None]",
        "for i in range(1, 8):\n        o[i, 1] = o[i - 1, 0] + x[None]",
        "for i in range(4):\n        o[i + 4, 0] = o[i, 0] + x[None]",
        "for i, j in qd.ndrange(4, 2):\n        o[i + 4, j] = o[i, 1 - j] + x[None]",
    ],
)
def test_iterations_of_a_parallel_loop_that_keep_to_themselves(_compiled: None, body: str):
    o, x, loss = numbers(np.zeros((8, 2))), numbers(0.5), scalar_loss()
    run = qd.kernel_from_source(f"def run():\n    {body}\n", {"o": o, "x": x, "qd": qd})

    @qd.kernel
    def add():
        for i, j in o:
            loss[None] += o[i, j]

    def program() -> None:
        o.fill(0)
        run()
        add()

    slopes = differences(program, loss, x)
    with qd.ad.Tape(loss):
        program()
    np.testing.assert_allclose(x.grad[None], slopes[()], rtol=1e-6)


@qd.kernel
def square(x: qd.types.ndarray(ndim=1), y: qd.types.ndarray(ndim=1)):
    for i in x:
        y[i] = x[i] ** 2


@everywhere
def test_tensors_whose_gradient_is_expanded():
    torch = pytest.importorskip("torch")
    x, y = torch.full((3,), 2.0, requires_grad=True), torch.zeros(3, requires_grad=True)
    y.grad = torch.ones(1).expand(3)
    with pytest.raises(ValueError, match="share memory|read-only"):
        square.grad(x, y)
    y.grad, x.grad = torch.ones(3), None
    square.grad(x, y)
    assert x.grad.tolist() == [4.0, 4.0, 4.0]


@everywhere
def test_gradients_of_bf16_are_right_or_refused():
    x, y = (qd.ndarray(qd.bf16, 3, needs_grad=True) for _ in range(2))
    x.fill(2)
    y.grad.fill(1)
    if qd.cfg is None:
        with pytest.raises(qd.QuadrantsRuntimeError, match="gradients of type bf16"):
            square.grad(x, y)
    else:
        square.grad(x, y)
        assert x.grad.to_numpy().tolist() == [4.0, 4.0, 4.0]


@pytest.mark.host_memory
@pytest.mark.usefixtures("_compiled")
def test_gradients_without_memory_for_what_they_keep():
    """The gradient of a layer keeps a number for each result until it adds them up."""
    import resource

    layer = define_layer()
    small, large = make_layer_arrays(300, 300, 20), make_layer_arrays(6000, 1000, 1)
    large[2].grad.fill(1.0)
    large[0].fill(1.0)
    layer.grad(*small)
    pages = int(open("/proc/self/statm").read().split()[0])
    limit = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (8 << 20), limit[1]))
    try:
        with pytest.raises(MemoryError, match="48000000 bytes"):
            layer.grad(*large)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limit)
    layer.grad(*large)
    assert large[1].grad[0, 0] == 6000

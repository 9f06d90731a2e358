"""Kernels as functions of JAX, through its foreign-function interface on the CPU."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

import quadrants as qd

jax = pytest.importorskip("jax")
jax.config.update("jax_enable_x64", True)
# JAX has the operators on the processor.
pytestmark = [pytest.mark.usefixtures("on_every_backend"), pytest.mark.host_memory]


def _wave() -> Any:
    @qd.ad.jax_op(outputs="y")
    @qd.kernel
    def wave(x: qd.types.ndarray(dtype=qd.f64), scale: float, y: qd.types.ndarray(dtype=qd.f64)):
        """A sine."""
        for I in qd.grouped(x):
            y[I] = qd.sin(x[I]) * scale

    return wave


def _input(*shape: int) -> Any:
    return jax.numpy.linspace(-1.0, 1.0, int(np.prod(shape))).reshape(shape)


def test_forward_and_backward():
    wave, x = _wave(), _input(2, 3)
    np.testing.assert_allclose(wave(x, 2.0), 2 * np.sin(x))
    np.testing.assert_allclose(jax.grad(lambda x: wave(x, 2.0).sum())(x), 2 * np.cos(x))


def test_gradient_against_differences():
    wave = _wave()
    importlib.import_module("jax.test_util").check_grads(lambda x: wave(x, 2.0), (_input(2, 3),), order=1, modes=["rev"])


def test_compiled_with_what_is_around_it():
    wave, x = _wave(), _input(5)
    loss = jax.jit(jax.value_and_grad(lambda x: (wave(x * 2.0, scale=3.0) ** 2).sum()))
    value, gradient = loss(x)
    np.testing.assert_allclose(value, (9 * np.sin(2 * x) ** 2).sum())
    np.testing.assert_allclose(gradient, 2 * 3 * np.sin(2 * x) * 3 * np.cos(2 * x) * 2)


def test_several_outputs_inputs_and_types():
    @qd.ad.jax_op(outputs={"y": "x", "total": lambda x, order: jax.ShapeDtypeStruct((1,), np.float64)})
    @qd.kernel
    def run(
        x: qd.types.ndarray(dtype=qd.f64),
        order: qd.types.ndarray(dtype=qd.i32),
        total: qd.types.ndarray(dtype=qd.f64),
        y: qd.types.ndarray(dtype=qd.f64),
    ):
        for i in x:
            y[i] = x[order[i]] ** 2
            total[0] += x[i]

    x, order = _input(3), jax.numpy.array([2, 0, 1], np.int32)

    def loss(x: Any) -> Any:
        y, total = run(x, order)
        return (y * jax.numpy.arange(3.0)).sum() + 5.0 * total[0]

    np.testing.assert_allclose(run(x, order)[1], [0.0], atol=1e-12)
    np.testing.assert_allclose(jax.grad(loss)(x), 2 * x * np.array([1.0, 2.0, 0.0]) + 5.0)


def test_batches():
    wave, x = _wave(), _input(4, 3)
    np.testing.assert_allclose(jax.vmap(lambda row: wave(row, 2.0))(x), 2 * np.sin(x))


def test_gradients_of_numbers_are_refused():
    wave, x = _wave(), _input(3)
    for loss in (lambda scale: wave(x, scale).sum(), lambda scale: jax.jit(wave)(x, scale * 2).sum()):
        with pytest.raises(TypeError, match="wave: scale is a number, which has no gradient: pass it through jax.lax.stop_gradient"):
            jax.grad(loss)(2.0)
    both = jax.grad(lambda x: wave(x, jax.lax.stop_gradient(x[2])).sum())(x)
    np.testing.assert_allclose(both, np.cos(x) * x[2])


def test_calls_give_every_parameter_once():
    wave, x = _wave(), _input(3)
    for call, message in ((lambda: wave(x), "Missing argument 'scale'"), (lambda: wave(x, 1.0, x), "Too many arguments")):
        with pytest.raises(qd.QuadrantsSyntaxError, match=message):
            call()


def test_what_a_kernel_raises_arrives():
    @qd.ad.jax_op(outputs="y")
    @qd.kernel
    def refuses(x: qd.types.ndarray(dtype=qd.f64), y: qd.types.ndarray(dtype=qd.f64)):
        for i in x:
            y[i] = x[i]

    with pytest.raises(Exception, match="refuses"):
        jax.block_until_ready(refuses(_input(2, 2)))


def test_outputs_are_parameters():
    with pytest.raises(qd.QuadrantsTypeError, match="has no array 'z' to return"):

        @qd.ad.jax_op(outputs="z")
        @qd.kernel
        def run(x: qd.types.ndarray(dtype=qd.f64)):
            x[0] = 1.0

"""Gradients against differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import quadrants as qd


def differences(run: Callable[[], None], loss: Any, container: Any, step: float = 1e-6) -> np.ndarray:
    """The derivative of `loss[None]` after `run()` with respect to each number of a container: central differences."""
    start = container.to_numpy()
    slopes = np.zeros(start.shape)

    def loss_at(index: tuple[int, ...], change: float) -> float:
        moved = start.copy()
        moved[index] += change
        container.from_numpy(moved)
        loss[None] = 0
        run()
        return float(loss[None])

    for index in np.ndindex(start.shape):
        slopes[index] = (loss_at(index, step) - loss_at(index, -step)) / (2 * step)
    container.from_numpy(start)
    return slopes


def run_before_gradient(kernel: Any, reset: Callable[[], None], loss: Any, container: Any) -> np.ndarray:
    """The differences of a kernel that overwrites what it reads; afterwards it has run, and only the gradient of the loss is set."""

    def run() -> None:
        reset()
        kernel()

    slopes = differences(run, loss, container)
    qd.ad.clear_all_gradients()
    run()
    loss.grad[None] = 1.0
    return slopes


def check(run: Callable[[], None], loss: Any, *containers: Any, tolerance: float = 2e-6, forward: bool = True) -> None:
    """Compares both modes (or reverse alone) with differences; `run` only adds to the loss, and sets what else it writes."""
    expected = [differences(run, loss, container) for container in containers]
    with qd.ad.Tape(loss):
        run()
    for container, slopes in zip(containers, expected, strict=True):
        np.testing.assert_allclose(container.grad.to_numpy(), slopes, rtol=tolerance, atol=tolerance)
    random = np.random.default_rng(0)
    for container, slopes in zip(containers, expected, strict=True):
        if not (forward and container.has_dual()):
            continue
        seed = random.standard_normal(slopes.shape)
        loss[None] = 0
        with qd.ad.FwdMode(loss, container, seed):
            run()
        np.testing.assert_allclose(loss.dual[None], np.sum(seed * slopes), rtol=tolerance, atol=tolerance * max(1, slopes.size))


def scalar_loss() -> Any:
    """A 0-d field with both shadows."""
    return qd.field(qd.f64, shape=(), needs_grad=True, needs_dual=True)


def numbers(values: Any, element: Any = None) -> Any:
    """A field with both shadows that holds these numbers; `element` is a vector or matrix type for the last axes."""
    array = np.asarray(values, np.float64)
    rank = 0 if element is None else element.ndim
    made = qd.field(element or qd.f64, shape=array.shape[: array.ndim - rank], needs_grad=True, needs_dual=True)
    made.from_numpy(array)
    return made


def define_layer() -> Any:
    """A kernel that computes `y = tanh(x @ w.T)` of arrays, by a loop for each result."""

    @qd.kernel
    def layer(x: qd.types.ndarray(), w: qd.types.ndarray(), y: qd.types.ndarray()):
        for b, i in y:
            s = 0.0
            for j in range(w.shape[1]):
                s += w[i, j] * x[b, j]
            y[b, i] = qd.tanh(s)

    return layer


def make_layer_arrays(batch: int, n: int, m: int) -> list[Any]:
    """Arrays of f64 with gradients for the layer: `batch` times `m` numbers, weights, and `batch` times `n` results."""
    return [qd.ndarray(qd.f64, size, needs_grad=True) for size in ((batch, m), (n, m), (batch, n))]

"""Operators of torch under its function transforms: `torch.vmap`, `torch.func`, forward mode and second derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import quadrants as qd

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.usefixtures("on_every_backend")


@pytest.fixture
def scaled_sine(on_every_backend: Any) -> Callable[..., Any]:
    @qd.ad.torch_op(outputs="y")
    @qd.kernel
    def scaled_sine(x: qd.types.ndarray(dtype=qd.f64), scale: float, y: qd.types.ndarray(dtype=qd.f64)):
        for I in qd.grouped(x):
            y[I] = qd.sin(x[I]) * scale

    return lambda x: scaled_sine(x, 2.0)


@pytest.fixture
def dot(on_every_backend: Any) -> Callable[..., Any]:
    @qd.ad.torch_op(outputs={"total": lambda a, b: a.new_empty(()), "larger": "a"})
    @qd.kernel
    def dot(
        a: qd.types.ndarray(dtype=qd.f64, ndim=1),
        b: qd.types.ndarray(dtype=qd.f64, ndim=1),
        total: qd.types.ndarray(dtype=qd.f64, ndim=0),
        larger: qd.types.ndarray(dtype=qd.f64, ndim=1),
    ):
        for i in a:
            total[None] += a[i] * b[i]
            larger[i] = qd.max(a[i], b[i])

    return dot


ROWS = torch.linspace(-1.0, 1.0, 12, dtype=torch.float64).reshape(3, 4)


def expect(found: Any, expected: Any) -> None:
    torch.testing.assert_close(found, expected)


def test_vmap_maps_over_any_axis(scaled_sine):
    expect(torch.vmap(scaled_sine)(ROWS), 2 * torch.sin(ROWS))
    expect(torch.vmap(scaled_sine, in_dims=1, out_dims=1)(ROWS), 2 * torch.sin(ROWS))
    expect(torch.vmap(torch.vmap(scaled_sine))(ROWS[None]), 2 * torch.sin(ROWS[None]))


def test_vmap_with_several_results_and_inputs_that_all_rows_share(dot):
    total, larger = torch.vmap(dot, in_dims=(0, None))(ROWS, ROWS[0])
    expect(total, ROWS @ ROWS[0])
    expect(larger, torch.maximum(ROWS, ROWS[0]))


def test_gradients_of_functions(scaled_sine, dot):
    expect(torch.func.grad(lambda x: scaled_sine(x).sum())(ROWS), 2 * torch.cos(ROWS))
    expect(torch.func.jacrev(scaled_sine)(ROWS[0]), torch.diag(2 * torch.cos(ROWS[0])))
    of_first, of_second = torch.func.grad(lambda a, b: dot(a, b)[0], argnums=(0, 1))(ROWS[0], ROWS[1])
    expect(of_first, ROWS[1])
    expect(of_second, ROWS[0])
    results, pull_back = torch.func.vjp(scaled_sine, ROWS)
    expect(results, 2 * torch.sin(ROWS))
    expect(pull_back(ROWS)[0], 2 * torch.cos(ROWS) * ROWS)


def test_gradients_of_each_row_and_of_all_rows(scaled_sine):
    of_row = torch.func.grad(lambda x: scaled_sine(x).sum())
    expect(torch.vmap(of_row)(ROWS), 2 * torch.cos(ROWS))
    expect(torch.func.grad(lambda x: torch.vmap(scaled_sine)(x).sum())(ROWS), 2 * torch.cos(ROWS))
    x = ROWS.clone().requires_grad_()
    torch.vmap(scaled_sine)(x).sum().backward()
    expect(x.grad, 2 * torch.cos(ROWS))


def test_forward_mode_is_refused(scaled_sine):
    def with_dual_numbers() -> None:
        with torch.autograd.forward_ad.dual_level():
            scaled_sine(torch.autograd.forward_ad.make_dual(ROWS, ROWS))

    for compute in (
        lambda: torch.func.jvp(scaled_sine, (ROWS,), (ROWS,)),
        lambda: torch.func.jacfwd(scaled_sine)(ROWS[0]),
        with_dual_numbers,
    ):
        with pytest.raises(qd.QuadrantsRuntimeError, match=r"scaled_sine: operators have no forward mode \(jvp\) in torch. Use reverse"):
            compute()


def test_second_derivatives_are_refused(scaled_sine):
    x = ROWS.clone().requires_grad_()
    (first,) = torch.autograd.grad(scaled_sine(x).sum(), x, create_graph=True)
    expect(first.detach(), 2 * torch.cos(ROWS))
    with pytest.raises(qd.QuadrantsRuntimeError, match="scaled_sine: second derivatives are not available. Write the gradient as a kernel"):
        torch.autograd.grad(first.sum(), x)
    twice = torch.func.jacrev(torch.func.jacrev(lambda x: scaled_sine(x).sum()))
    with pytest.raises(qd.QuadrantsRuntimeError, match="second derivatives"):
        twice(ROWS[0])


def test_vmap_over_no_rows(scaled_sine, dot):
    none = ROWS[:0]
    expect(torch.vmap(scaled_sine)(none), none)
    total, larger = torch.vmap(dot, in_dims=(0, None))(none, ROWS[0])
    assert (total.shape, larger.shape) == ((0,), (0, 4))
    expect(torch.vmap(torch.func.grad(lambda x: scaled_sine(x).sum()))(none), none)


def test_vmap_over_numbers_and_their_gradients_are_refused():
    @qd.ad.torch_op(outputs="y")
    @qd.kernel
    def scale(x: qd.types.ndarray(dtype=qd.f64), factor: float, y: qd.types.ndarray(dtype=qd.f64)):
        for i in x:
            y[i] = x[i] * factor

    expect(scale(ROWS[0], torch.tensor(2.0)), 2 * ROWS[0])
    with pytest.raises(TypeError, match="scale: factor is a number, over which vmap cannot map: make it an array without axes"):
        torch.vmap(scale, in_dims=(None, 0))(ROWS[0], torch.ones(3))
    for differentiate in (
        lambda: scale(ROWS[0], torch.tensor(2.0, requires_grad=True)),
        lambda: torch.func.grad(lambda factor: scale(ROWS[0], factor).sum())(torch.tensor(2.0)),
    ):
        with pytest.raises(TypeError, match="scale: factor is a number, which has no gradient: pass it detached"):
            differentiate()
    with torch.no_grad():
        expect(scale(ROWS[0], torch.tensor(2.0, requires_grad=True)), 2 * ROWS[0])


def test_gradients_in_batches_are_refused(scaled_sine):
    with pytest.raises(qd.QuadrantsRuntimeError, match=r"scaled_sine: gradients in batches .* Use torch.func.jacrev"):
        torch.autograd.functional.jacobian(scaled_sine, ROWS[0], vectorize=True)

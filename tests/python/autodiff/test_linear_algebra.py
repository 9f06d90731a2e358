"""Derivatives of matrix functions in both modes, also where values repeat."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from autodiff_support import check, numbers, scalar_loss

import quadrants as qd

pytestmark = pytest.mark.usefixtures("on_every_backend")


def _random(n: int, seed: int = 0, symmetric: bool = False) -> np.ndarray:
    made = np.random.default_rng(seed).uniform(-1, 1, (n, n)) + 2 * np.eye(n)
    return made + made.T if symmetric else made


def _run(text: str, start: np.ndarray, **more: Any) -> tuple[Any, Any, Any]:
    """A kernel that adds `f`, which the text computes from the matrix A, to a loss."""
    n = len(start)
    a, loss = numbers(start[None], qd.types.matrix(n, n, qd.f64)), scalar_loss()
    weight = np.random.default_rng(9).uniform(-1, 1, (n, n))
    lines = [*text.splitlines(), "loss[None] += f"]
    source = "def run():\n    for i in a:\n        A = a[i]\n" + "".join(f"        {line}\n" for line in lines)
    names = {"a": a, "loss": loss, "W": qd.Matrix(weight.tolist(), qd.f64), "w": qd.Vector(weight[0].tolist(), qd.f64), **more}
    return qd.kernel_from_source(source, names), loss, a


def _dot(matrix: str) -> str:
    return f"M = {matrix}\nf = 0.0\nfor r in qd.static(range(A.n)):\n    for c in qd.static(range(A.n)):\n        f += M[r, c] * W[r, c]"


@pytest.mark.parametrize("n", [2, 3, 4, 5])
@pytest.mark.parametrize("function", ["inverse", "determinant"])
def test_inverse_and_determinant(function: str, n: int):
    check(*_run(_dot("A.inverse()") if function == "inverse" else "f = A.determinant()", _random(n)))


@pytest.mark.parametrize("n", [2, 3, 4])
def test_singular_values_and_vectors(n: int):
    start = _random(n) + np.diag(np.arange(n))
    for result in ("S", "U", "V", "U @ S @ S @ V.transpose()"):
        check(*_run("U, S, V = qd.svd(A)\n" + _dot(result), start))


@pytest.mark.parametrize("n", [2, 3, 4])
def test_polar_decomposition(n: int):
    for result in ("R", "P", "R @ P @ P"):
        check(*_run("R, P = qd.polar_decompose(A)\n" + _dot(result), _random(n)))


@pytest.mark.parametrize("n", [2, 3, 4])
def test_symmetric_eigenvalues_and_vectors(n: int):
    symmetric = "B = (A + A.transpose()) * 0.5\n"
    check(*_run(symmetric + "values, Q = qd.sym_eig(B)\nf = values.dot(w)", _random(n, symmetric=True)))
    check(*_run(symmetric + "values, Q = qd.sym_eig(B)\n" + _dot("Q"), _random(n, symmetric=True)))


def test_eigenvalues_of_a_general_matrix():
    check(*_run("values, vectors = qd.eig(A)\nf = values[0, 0] * 2.0 + values[1, 0] + vectors[0, 0]", np.array([[2.0, 1.0], [0.5, -1.0]])))


@pytest.mark.parametrize("size", [2, 3, 4])
def test_solve(size: int):
    check(*_run("x = qd.solve(A, w)\nf = x.dot(x)", _random(size)))


def test_nearest_positive_matrix():
    check(*_run(_dot("qd.make_spd((A + A.transpose()) * 0.5)"), np.diag([1.0, -2.0, 3.0]) + 0.1 * _random(3, 2)))


@pytest.mark.parametrize("text", ["U, S, V = qd.svd(A)\n", "R, U = qd.polar_decompose(A)\n"])
def test_repeated_singular_values_give_finite_gradients(text: str):
    run, loss, a = _run(text + _dot("U"), np.eye(3))
    with qd.ad.Tape(loss):
        run()
    assert np.isfinite(a.grad.to_numpy()).all()


def test_polar_decomposition_of_the_identity():
    check(*_run("R, P = qd.polar_decompose(A)\n" + _dot("R @ P"), np.eye(3)))
    check(*_run("R, P = qd.polar_decompose(A)\n" + _dot("R"), np.eye(3)))


def test_sum_of_repeated_eigenvalues():
    check(*_run("values, Q = qd.sym_eig((A + A.transpose()) * 0.5)\nf = values.sum()", np.eye(3) * 2))
    check(*_run(_dot("qd.make_spd((A + A.transpose()) * 0.5)"), np.eye(3) * 2))


def test_norm_of_zero_has_gradient_zero():
    x, loss = numbers([[0.0, 0.0, 0.0]], qd.types.vector(3, qd.f64)), scalar_loss()

    @qd.kernel
    def run():
        loss[None] += x[0].norm()

    with qd.ad.Tape(loss):
        run()
    assert x.grad.to_numpy().tolist() == [[0.0, 0.0, 0.0]]


def test_results_are_the_same_while_differentiating():
    run, loss, a = _run("U, S, V = qd.svd(A)\n" + _dot("U"), _random(3))
    run()
    before = loss[None]
    loss[None] = 0
    a.dual.fill(0)
    with qd.ad.FwdMode(loss, a, np.ones(9)):
        run()
    assert loss[None] == before

"""Krylov methods for systems whose matrix is a kernel: conjugate gradients and BiCGSTAB.

Each iteration is one launch beside the products: the loops of a kernel run one after the other, and its scalars stay in the memory of the
device. The host reads the residual after every iteration on the processor, and after some on a GPU, where it would have to wait.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import quadrants as qd

from .._base.arch import GPU_NAMES
from .._base.errors import QuadrantsRuntimeError, QuadrantsTypeError

Vector = qd.Tensor
ITERATIONS_BETWEEN_READS = 8  # on GPUs


class LinearOperator:
    """A linear map of fields or ndarrays: `kernel(x, product)` stores the product with its first argument in its second one."""

    def __init__(self, kernel: Callable[[Any, Any], None]):
        self._kernel = kernel

    def matvec(self, x: Any, product: Any) -> None:
        """Store the product of the operator and `x` in `product`, two containers of the same dtype (f32 or f64) and shape.

        Raises `QuadrantsTypeError` and `QuadrantsRuntimeError` if they differ.
        """
        _require_alike(x, product)
        self._kernel(x, product)


def _require_alike(first: Any, second: Any) -> None:
    """Raises unless both are scalar containers of f32 or f64 with the same dtype and shape."""
    for container in (first, second):
        if not isinstance(container, (qd.ScalarField, qd.Ndarray)) or getattr(container, "element_shape", ()):
            raise QuadrantsTypeError(f"the vectors of a solver are scalar fields or ndarrays, got {type(container).__name__}")
        if container.dtype not in (qd.f32, qd.f64):
            raise QuadrantsTypeError(f"the vectors of a solver have the type f32 or f64, got {container.dtype}")
    if first.dtype != second.dtype:
        raise QuadrantsTypeError(f"Dtype mismatch: {first.dtype} and {second.dtype}")
    if tuple(first.shape) != tuple(second.shape):
        raise QuadrantsRuntimeError(f"Dimension mismatch: the shapes are {tuple(first.shape)} and {tuple(second.shape)}")


# --- Conjugate gradients (Hestenes and Stiefel, "Methods of Conjugate Gradients for Solving Linear Systems", 1952)
#
# `state` has the squared norm of the residual, the squared tolerance, a flag: an iteration broke down; and with a preconditioner M, where
# directions come from z = M r (Golub and Van Loan, "Matrix Computations", chapter 11.5), the product of r and z.


@qd.kernel
def _start(b: Vector, r: Vector, p: Vector, product: Vector, state: Vector, tol: qd.f64):
    norm = b.dtype(0)
    for at in qd.grouped(b):
        r[at] = b[at] - product[at]
        p[at] = r[at]
        norm += r[at] * r[at]
    state[0], state[1], state[2], state[3] = norm, tol * tol, 0, norm


@qd.kernel
def _step_cg(x: Vector, r: Vector, p: Vector, product: Vector, state: Vector, is_plain: qd.template()):
    """Moves along p, and without a preconditioner (`is_plain`) sets the next direction."""
    curvature, after = x.dtype(0), x.dtype(0)
    for at in qd.grouped(x):
        curvature += p[at] * product[at]
    before = qd.cast(state[qd.static(0 if is_plain else 3)], x.dtype)
    runs = state[0] > state[1] and curvature != 0
    alpha = before / curvature if runs else x.dtype(0)
    for at in qd.grouped(x):
        x[at] += alpha * p[at]
        r[at] -= alpha * product[at]
        after += r[at] * r[at]
    if qd.static(is_plain):
        beta = after / before if runs else x.dtype(0)
        for at in qd.grouped(x):
            p[at] = r[at] + beta * p[at]
    if state[0] > state[1] and curvature == 0:
        state[2] = 1
    state[0] = after


@qd.kernel
def _turn_cg(r: Vector, z: Vector, p: Vector, state: Vector, is_first: qd.template()):
    """Sets the next direction."""
    product = r.dtype(0)
    for at in qd.grouped(r):
        product += r[at] * z[at]
    before = qd.cast(state[3], r.dtype)
    beta = product / before if before != 0 else r.dtype(0)
    for at in qd.grouped(r):
        p[at] = z[at] + (r.dtype(0) if qd.static(is_first) else beta * p[at])
    state[3] = product


def conjugate_gradients(apply: Any, b: Any, x: Any, tol: float, maxiter: int, report: Any = None, precondition: Any = None) -> bool:
    """Solves A x = b for a symmetric positive definite A, beginning with x; `apply(v, w)` stores A v in w. Returns whether |b - A x| ≤ tol.

    `report(iteration, residual)` is called when the host reads a residual. `precondition(v, w)` stores the product of an approximate
    inverse and v in w.
    """
    r, p, product = (make_like(b) for _ in range(3))
    z = r if precondition is None else make_like(b)
    state = qd.ndarray(qd.f64, 4)

    def turn(is_first: bool) -> None:
        if precondition is not None:
            precondition(r, z)
            _turn_cg(r, z, p, state, is_first)

    def step() -> None:
        apply(p, product)
        _step_cg(x, r, p, product, state, precondition is None)
        turn(False)

    apply(x, product)
    _start(b, r, p, product, state, tol)
    turn(True)
    return _iterate(step, state, tol, maxiter, report)


def _iterate(step: Any, state: Any, tol: float, maxiter: int, report: Any) -> bool:
    """Repeats a step until the residual is below the tolerance; returns whether it is."""
    config = qd.cfg  # None: kernels are interpreted
    between = ITERATIONS_BETWEEN_READS if config is not None and config.arch.name in GPU_NAMES else 1
    done = 0
    while True:
        residual = float(state[0]) ** 0.5
        if report:
            report(done, residual)
        if residual <= tol:
            return True
        if done >= maxiter or state[2] or residual != residual:
            return False
        for _ in range(min(between, maxiter - done)):
            step()
            done += 1


# --- BiCGSTAB (van der Vorst, "Bi-CGSTAB: A Fast and Smoothly Converging Variant of Bi-CG for the Solution of Nonsymmetric Linear Systems",
# 1992)
#
# `state` is that of conjugate gradients, with rho in place of its last element, followed by alpha.


@qd.kernel
def _halve_bicgstab(r: Vector, shadow: Vector, v: Vector, state: Vector):
    """Replaces r by s = r - alpha v."""
    projection = r.dtype(0)
    for at in qd.grouped(r):
        projection += shadow[at] * v[at]
    runs = state[0] > state[1] and projection != 0
    alpha = qd.cast(state[3], r.dtype) / projection if runs else r.dtype(0)
    for at in qd.grouped(r):
        r[at] -= alpha * v[at]
    state[4] = alpha
    if state[0] > state[1] and projection == 0:
        state[2] = 1


@qd.kernel
def _step_bicgstab(x: Vector, r: Vector, shadow: Vector, p: Vector, v: Vector, t: Vector, state: Vector):
    ts, tt = x.dtype(0), x.dtype(0)
    for at in qd.grouped(r):
        ts += t[at] * r[at]
        tt += t[at] * t[at]
    runs = state[0] > state[1] and state[2] == 0
    omega = ts / tt if runs and tt > 0 else x.dtype(0)
    alpha, rho, norm = qd.cast(state[4], x.dtype), x.dtype(0), x.dtype(0)
    for at in qd.grouped(x):
        x[at] += alpha * p[at] + omega * r[at]
        r[at] -= omega * t[at]
        rho += shadow[at] * r[at]
        norm += r[at] * r[at]
    before = qd.cast(state[3], x.dtype)
    beta = rho / before * (alpha / omega) if runs and before != 0 and omega != 0 else x.dtype(0)
    for at in qd.grouped(p):
        p[at] = r[at] + beta * (p[at] - omega * v[at])
    if runs and norm > state[1] and (before == 0 or omega == 0):
        state[2] = 1
    state[0], state[3] = norm, rho


def bicgstab(apply: Any, b: Any, x: Any, tol: float, maxiter: int, report: Any = None) -> bool:
    """Solves A x = b for a regular A, beginning with x; the arguments are those of `conjugate_gradients`."""
    r, shadow, p, v, t = (make_like(b) for _ in range(5))
    state = qd.ndarray(qd.f64, 5)
    apply(x, v)
    _start(b, r, p, v, state, tol)
    shadow.copy_from(r)

    def step() -> None:
        apply(p, v)
        _halve_bicgstab(r, shadow, v, state)
        apply(r, t)
        _step_bicgstab(x, r, shadow, p, v, t, state)

    return _iterate(step, state, tol, maxiter, report)


def make_like(container: Any) -> Any:
    """Returns a zero container of the same kind, dtype, shape and offset."""
    if isinstance(container, qd.Ndarray):
        return qd.ndarray(container.dtype, container.shape)
    return qd.field(container.dtype, container.shape, offset=container._offset)


def find_product(operator: Any, name: str) -> Any:
    """Returns the function that multiplies with an operator; raises for another object, which is the argument `name`."""
    if not isinstance(operator, LinearOperator):
        raise QuadrantsTypeError(f"{name} must be a LinearOperator, got {type(operator).__name__}")
    return operator.matvec


def _solve(method: Any, A: Any, b: Any, x: Any, tol: float, maxiter: int, quiet: bool, *more: Any) -> bool:
    product = find_product(A, "A")
    _require_alike(b, x)
    report = None if quiet else lambda iteration, residual: print(f"iteration {iteration}: residual {residual:.6e}")
    return method(product, b, x, tol, maxiter, report, *more)


def MatrixFreeCG(
    A: LinearOperator,
    b: Any,
    x: Any,
    tol: float = 1e-6,
    maxiter: int = 5000,
    quiet: bool = True,
    preconditioner: LinearOperator | None = None,
) -> bool:
    """Solve A x = b by conjugate gradients, for a symmetric positive definite operator, in place.

    Args:
        A: the operator.
        b: the right side: a scalar field or ndarray of f32 or f64, with any number of axes.
        x: where the iteration begins, and then the solution; dtype and shape are those of b.
        tol: the residual |b - A x| at which the iteration ends.
        maxiter: maximum number of iterations.
        quiet: whether to print no residuals.
        preconditioner: an operator close to the inverse of A, symmetric and positive definite, such as a `Jacobi`.
    Returns:
        Whether the residual is at most `tol`.
    Raises:
        QuadrantsTypeError: A or the preconditioner is no operator, or dtypes differ.
        QuadrantsRuntimeError: shapes differ.

    Source: Hestenes and Stiefel, "Methods of Conjugate Gradients for Solving Linear Systems" (1952).
    """
    precondition = None if preconditioner is None else find_product(preconditioner, "preconditioner")
    return _solve(conjugate_gradients, A, b, x, tol, maxiter, quiet, precondition)


def MatrixFreeBICGSTAB(A: LinearOperator, b: Any, x: Any, tol: float = 1e-6, maxiter: int = 5000, quiet: bool = True) -> bool:
    """Solve A x = b by the stabilized method of biconjugate gradients, for any regular operator, in place.

    Args:
        A: the operator.
        b: the right side: a scalar field or ndarray of f32 or f64, with any number of axes.
        x: where the iteration begins, and then the solution; dtype and shape are those of b.
        tol: the residual |b - A x| at which the iteration ends.
        maxiter: maximum number of iterations.
        quiet: whether to print no residuals.
    Returns:
        Whether the residual is at most `tol`.
    Raises:
        QuadrantsTypeError: A is no operator, or dtypes differ.
        QuadrantsRuntimeError: shapes differ.

    Source: van der Vorst, "Bi-CGSTAB: A Fast and Smoothly Converging Variant of Bi-CG for the Solution of Nonsymmetric Linear Systems"
    (1992).
    """
    return _solve(bicgstab, A, b, x, tol, maxiter, quiet)

"""Small linear algebra in registers: decompositions and solvers for one matrix per iteration, written in the kernel language.

All functions are branch-free where lanes could diverge, so that loops of them are fully vectorized: comparisons select values, and sweeps
have a fixed count. `dt` is the data type of the computation, by default that of the operand (integers: default_fp).
"""

from typing import Any

import quadrants as qd

from ._base.imports import load as _load
from ._base.namespaces import list_public as _list_public
from ._library import linalg_basics as _basics
from ._library.eigenvalues import eig  # noqa: F401 (a name of this module)
from ._library.factorizations import cholesky, lu, qr, solve_spd  # noqa: F401 (names of this module)

__path__: list[str] = []  # `lang._paths` creates the modules below it


def _sweeps(dtype: Any, size: int) -> int:
    """Returns the number of Jacobi sweeps after which only rounding errors remain: convergence is quadratic, so f64 needs only one or two
    more.
    """
    return (4 if dtype.size <= 4 else 5) + (size > 3) * 2


def _rounding(dtype: Any) -> float:
    """Returns the relative difference below which numbers count as equal."""
    return 1e-13 if dtype.size > 4 else 1e-6 if dtype.size == 4 else 1e-2


# --- Derivatives
#
# Kernels that compute derivatives do not differentiate iterations: the result for the constant matrix (`detached`) gets first-order terms
# of `_change(A)`, which is zero and has the derivative of A. In the basis of singular vectors or eigenvectors these terms divide by
# differences of singular values or eigenvalues (Giles, "Collected matrix derivative results for forward and reverse mode algorithmic
# differentiation", 2008). Where these are equal, the vectors have no derivative, and the term is zero; smooth results are computed without
# a division by the difference.


@qd.pyfunc
def _change(A):
    return A - _basics.detached(A)


@qd.pyfunc
def _quotient(x, y, small):
    """Returns x / y; zero if y consists only of rounding errors, below `small`."""
    is_zero = qd.abs(y) <= small
    return qd.select(is_zero, 0.0, x) / qd.select(is_zero, 1.0, y)


# --- Singular values
#
# One-sided Jacobi (Hestenes): rotate pairs of columns of B = A V until all are orthogonal. It never forms A^T A, so small singular values
# retain their relative accuracy. Sorting and the QR step that follows are those of McAdams, Selle, Tamstorf, Teran, Sifakis, "Computing the
# Singular Value Decomposition of 3x3 matrices with minimal branching and elementary floating point operations" (2011): Givens rotations
# give an orthonormal U even if columns of B vanish, and leave the sign of det A in the last diagonal entry.


@qd.pyfunc
def _turn_columns(M: qd.template(), p: qd.template(), q: qd.template(), c, s):
    """Rotates the columns p and q of a matrix, in place."""
    for i in qd.static(range(M.n)):
        x, y = M[i, p], M[i, q]
        M[i, p], M[i, q] = c * x - s * y, s * x + c * y


@qd.pyfunc
def _rotation(f, d):
    """Returns cosine and sine of the rotation by less than a right angle that makes a product f zero; d is the
    difference of the squares.
    """
    t = qd.select(d < 0, -2.0, 2.0) * f / qd.max(qd.abs(d) + qd.sqrt(d * d + 4.0 * f * f), _basics.TINY)
    c = qd.rsqrt(1.0 + t * t)
    return c, t * c


@qd.pyfunc
def _givens(x, y):
    """Returns cosine and sine of the rotation that maps (x, y) to (r, 0); the identity if both are zero."""
    r2 = x * x + y * y
    inv = qd.rsqrt(qd.max(r2, _basics.TINY))
    zero = r2 < _basics.TINY
    return qd.select(zero, 1.0, x * inv), qd.select(zero, 0.0, y * inv)


@qd.pyfunc
def _column(A, j: qd.template()):
    return qd.Vector([A[i, j] for i in qd.static(range(A.n))])


@qd.pyfunc
def _separate(B: qd.template(), V: qd.template(), p: qd.template(), q: qd.template()):
    """Makes two columns orthogonal by a rotation, which V accumulates."""
    a, b = _column(B, p), _column(B, q)
    c, s = _rotation(a.dot(b), b.norm_sqr() - a.norm_sqr())
    _turn_columns(B, p, q, c, s)
    _turn_columns(V, p, q, c, s)


@qd.pyfunc
def _order(B: qd.template(), V: qd.template(), p: qd.template(), q: qd.template()):
    """Moves the longer column first: (a, b) becomes (b, -a), which is a rotation, too."""
    swap = _column(B, p).norm_sqr() < _column(B, q).norm_sqr()
    c, s = qd.select(swap, 0.0, 1.0), qd.select(swap, -1.0, 0.0)
    _turn_columns(B, p, q, c, s)
    _turn_columns(V, p, q, c, s)


@qd.pyfunc
def _clear_below(B: qd.template(), U: qd.template(), p: qd.template(), q: qd.template()):
    """Makes B[q, p] zero by a rotation of rows, which U accumulates."""
    c, s = _givens(B[p, p], B[q, p])
    for j in qd.static(range(B.n)):
        x, y = B[p, j], B[q, j]
        B[p, j], B[q, j] = c * x + s * y, c * y - s * x
    _turn_columns(U, p, q, c, -s)


@qd.pyfunc
def _for_pairs(step: qd.template(), M: qd.template(), N: qd.template()):
    """Calls `step(M, N, p, q)` for all columns p < q: unrolled for small matrices, else in loops, because code size grows with the fourth
    power.
    """
    if qd.static(M.n <= 3):
        for p in qd.static(range(M.n)):
            for q in qd.static(range(p + 1, M.n)):
                step(M, N, p, q)
    else:
        qd.loop_config(serialize=True)
        for p in range(qd.static(M.n)):
            for q in range(p + 1, qd.static(M.n)):
                step(M, N, p, q)


@qd.pyfunc
def _svd_of(A):
    n = qd.static(A.n)
    B, k = _basics.normalize(A)
    U, V = _basics.identity(n, qd.static(A.dtype)), _basics.identity(n, qd.static(A.dtype))
    qd.loop_config(serialize=True)
    for _ in range(qd.static(_sweeps(A.dtype, n) if A.n > 2 else 1)):
        _for_pairs(_separate, B, V)
    _for_pairs(_order, B, V)
    _for_pairs(_clear_below, B, U)  # QR decomposition of B: U is the product of the rotations
    S = qd.Matrix([[B[i, j] * k if i == j else 0.0 for j in qd.static(range(n))] for i in qd.static(range(n))], qd.static(A.dtype))
    if qd.static(A.n == 2):  # singular values are not negative: U has the sign
        flip = qd.select(S[1, 1] < 0, -1.0, 1.0)
        S[1, 1] *= flip
        U[0, 1], U[1, 1] = U[0, 1] * flip, U[1, 1] * flip
    return U, S, V


@qd.pyfunc
def svd(A, dt: qd.template() = None):
    """Return the singular value decomposition (U, S, V) of a square matrix up to 6x6: A = U S V^T, S diagonal and descending.

    U and V are rotations, and the last entry of S has the sign of det A. For 2x2, S is not negative, and U may be a reflection. `dt` is the
    data type of the computation, by default that of `A`.
    """
    qd.static(_basics.require(A.n == A.m and A.n <= 6, "SVD only supports 2×2 and 3×3 matrices, and as an extension up to 6×6."))
    M = qd.cast(A, qd.static(_basics.compute_type(A.dtype, dt)))
    U, S, V = _svd_of(_basics.detached(M))
    if qd.static(_basics.is_differentiated()):
        P = U.transpose() @ _change(M) @ V
        X, Y, Z = P * 0.0, P * 0.0, P * 0.0  # terms of U, S and V, in their bases
        small = S[0, 0] * S[0, 0] * qd.static(_rounding(M.dtype))
        for i in qd.static(range(A.n)):
            X[i, i], Y[i, i], Z[i, i] = 0.0, P[i, i], 0.0
            for j in qd.static(range(A.n)):
                if qd.static(i != j):
                    gap = S[j, j] * S[j, j] - S[i, i] * S[i, i]
                    X[i, j] = _quotient(S[j, j] * P[i, j] + S[i, i] * P[j, i], gap, small)
                    Z[i, j] = _quotient(S[i, i] * P[i, j] + S[j, j] * P[j, i], gap, small)
        return U + U @ X, S + Y, V + V @ Z
    return U, S, V


@qd.pyfunc
def polar_decompose(A, dt: qd.template() = None):
    """Return the polar decomposition (R, P) of a square matrix up to 6x6: A = R P, R orthogonal (from 3x3 on: a rotation), P symmetric.

    `dt` is the data type of the computation, by default that of `A`.
    """
    qd.static(
        _basics.require(A.n == A.m and A.n <= 6, "Polar decomposition only supports 2×2 and 3×3 matrices, and as an extension up to 6×6.")
    )
    M = qd.cast(A, qd.static(_basics.compute_type(A.dtype, dt)))
    U, S, V = _svd_of(_basics.detached(M))
    if qd.static(_basics.is_differentiated()):
        P = U.transpose() @ _change(M) @ V
        X, Y = P * 0.0, P * 0.0
        small = S[0, 0] * qd.static(_rounding(M.dtype))
        for i in qd.static(range(A.n)):
            for j in qd.static(range(A.n)):
                if qd.static(i != j):
                    X[i, j] = _quotient(P[i, j] - P[j, i], S[i, i] + S[j, j], small)
                    Y[i, j] = _quotient(S[i, i] * P[i, j] + S[j, j] * P[j, i], S[i, i] + S[j, j], small)
                else:
                    X[i, j], Y[i, j] = 0.0, P[i, j]
        return (U + U @ X) @ V.transpose(), V @ (S + Y) @ V.transpose()
    return U @ V.transpose(), V @ S @ V.transpose()


# --- Eigenvalues


@qd.pyfunc
def _rotate(M: qd.template(), Q: qd.template(), p: qd.template(), q: qd.template()):
    """Does one two-sided Jacobi rotation: M[p, q] becomes zero, Q accumulates the rotations."""
    c, s = _rotation(M[p, q], M[q, q] - M[p, p])
    # `_turn_columns` is not used: with run-time p and q, its body would evaluate them repeatedly.
    for k in qd.static(range(M.n)):
        x, y = M[k, p], M[k, q]
        M[k, p], M[k, q] = c * x - s * y, s * x + c * y
    for k in qd.static(range(M.n)):
        x, y = M[p, k], M[q, k]
        M[p, k], M[q, k] = c * x - s * y, s * x + c * y
        z, w = Q[k, p], Q[k, q]
        Q[k, p], Q[k, q] = c * z - s * w, s * z + c * w


@qd.pyfunc
def sym_eig(A, dt: qd.template() = None):
    """Return the eigenvalues of a symmetric matrix A up to 12x12, ascending, and the matrix whose columns are the unit eigenvectors.

    `dt` is the data type of the computation, by default that of `A`.
    """
    qd.static(
        _basics.require(
            A.n == A.m and A.n <= 12, "Symmetric eigen decomposition supports sizes up to 6×6, and as an extension up to 12×12."
        )
    )
    M = qd.cast(A, qd.static(_basics.compute_type(A.dtype, dt)))
    values, Q = _sym_eig_of(_basics.detached(M))
    if qd.static(_basics.is_differentiated()):
        P = _symmetric(Q.transpose() @ _change(M) @ Q)
        X = P * 0.0
        small = qd.abs(values).max() * qd.static(_rounding(M.dtype))
        for i in qd.static(range(A.n)):
            X[i, i] = 0.0
            for j in qd.static(range(A.n)):
                if qd.static(i != j):
                    X[i, j] = _quotient(P[i, j], values[j] - values[i], small)
        return values + qd.Vector([P[i, i] for i in qd.static(range(A.n))]), Q + Q @ X
    return values, Q


@qd.pyfunc
def _symmetric(A):
    return (A + A.transpose()) * 0.5


@qd.pyfunc
def _sym_eig_of(A):
    T = qd.static(A.dtype)
    n = qd.static(A.n)
    M, scale = _basics.normalize(A)
    Q = _basics.identity(n, T)
    qd.loop_config(serialize=True)
    for _ in range(qd.static(_sweeps(T, n))):
        _for_pairs(_rotate, M, Q)
    values = qd.Vector([M[i, i] for i in qd.static(range(n))])
    for i in qd.static(range(n)):  # compare-exchange of neighbors: n passes sort
        for j in qd.static(range(i % 2, n - 1, 2)):
            swap = values[j] > values[j + 1]
            x, y = values[j], values[j + 1]
            values[j], values[j + 1] = qd.select(swap, y, x), qd.select(swap, x, y)
            for k in qd.static(range(n)):
                z, w = Q[k, j], Q[k, j + 1]
                Q[k, j], Q[k, j + 1] = qd.select(swap, w, z), qd.select(swap, z, w)
    return values * scale, Q


@qd.pyfunc
def make_spd(A, dt: qd.template() = None):
    """Return the nearest symmetric matrix without negative eigenvalues (in the Frobenius norm) to the symmetric matrix A.

    `dt` is the data type of the computation, by default that of `A`.
    """
    M = qd.cast(A, qd.static(_basics.compute_type(A.dtype, dt)))
    values, Q = _sym_eig_of(_basics.detached(M))
    if qd.static(_basics.is_differentiated()):
        P = _symmetric(Q.transpose() @ _change(M) @ Q)
        small = qd.abs(values).max() * qd.static(_rounding(M.dtype))
        X = P * 0.0
        for i in qd.static(range(A.n)):
            for j in qd.static(range(A.n)):
                step = qd.max(values[i], 0.0) - qd.max(values[j], 0.0)
                slope = _quotient(step, values[i] - values[j], small)
                equal = qd.abs(values[i] - values[j]) <= small
                X[i, j] = P[i, j] * qd.select(equal, qd.select(values[i] > 0, 1.0, 0.0), slope)
        return Q @ X @ Q.transpose() + _clamp_eigenvalues(values, Q)
    return _clamp_eigenvalues(values, Q)


@qd.pyfunc
def _clamp_eigenvalues(values, Q):
    scaled = Q * 1.0  # a copy, also in Python scope
    for i in qd.static(range(Q.n)):
        for j in qd.static(range(Q.n)):
            scaled[i, j] = Q[i, j] * qd.max(values[j], 0.0)
    return scaled @ Q.transpose()


# --- Linear systems


@qd.pyfunc
def solve(A, b, dt: qd.template() = None, check: qd.template() = False):
    """Return the vector (or matrix) x with A x = b, by elimination with row pivots; not finite if A is singular.

    Args:
        A: a square matrix of at most 6x6.
        b: a vector, or a matrix of several right sides, with as many rows.
        dt: data type of the computation, by default that of `A`.
        check: whether to return (x, whether all pivots are non-zero); debug mode then does not stop at a zero pivot.
    """
    qd.static(_basics.require(A.n == A.m, "Only square matrix is supported"))
    qd.static(_basics.require(A.n <= 6, "Only 2×2 and 3×3 matrices are supported, and as an extension up to 6×6"))
    qd.static(_basics.require(A.m == b.n, "Matrix and Vector dimension dismatch"))
    T = qd.static(_basics.compute_type(A.dtype, dt))
    n, columns = qd.static(A.n, b.m)
    M = qd.cast(A, T)
    is_regular = True
    X = qd.Matrix([[b[i] if qd.static(b.ndim == 1) else b[i, j] for j in qd.static(range(columns))] for i in qd.static(range(n))], T)
    for k in qd.static(range(n)):
        for r in qd.static(range(k + 1, n)):
            swap = qd.abs(M[r, k]) > qd.abs(M[k, k])
            for j in qd.static(range(k, n)):
                x, y = M[k, j], M[r, j]
                M[k, j], M[r, j] = qd.select(swap, y, x), qd.select(swap, x, y)
            for j in qd.static(range(columns)):
                x, y = X[k, j], X[r, j]
                X[k, j], X[r, j] = qd.select(swap, y, x), qd.select(swap, x, y)
        if qd.static(check):
            is_regular = is_regular and M[k, k] != 0
        else:
            assert M[k, k] != 0, "Matrix is singular in linear solve."
        for r in qd.static(range(n)):
            if qd.static(r != k):
                f = M[r, k] / M[k, k]
                for j in qd.static(range(k + 1, n)):
                    M[r, j] -= f * M[k, j]
                for j in qd.static(range(columns)):
                    X[r, j] -= f * X[k, j]
    for k in qd.static(range(n)):
        for j in qd.static(range(columns)):
            X[k, j] /= M[k, k]
    x = X if qd.static(b.ndim > 1) else qd.Vector([X[i, 0] for i in qd.static(range(n))])
    if qd.static(check):
        return x, is_regular
    return x


@qd.pyfunc
def _eliminate(M: qd.template(), R: qd.template()):
    """Makes M diagonal by row operations, which are applied to R, too; returns the sign of the row exchanges."""
    n = qd.static(M.n)
    sign = qd.one(M[0, 0])
    qd.loop_config(serialize=True)
    for k in range(n):
        best = _basics.find_pivot(M, k)
        if best != k:
            sign = -sign
            for j in range(n):
                M[k, j], M[best, j] = M[best, j], M[k, j]
                R[k, j], R[best, j] = R[best, j], R[k, j]
        for r in range(n):
            if r != k and M[k, k] != 0:
                f = M[r, k] / M[k, k]
                for j in range(n):
                    M[r, j] -= f * M[k, j]
                    R[r, j] -= f * R[k, j]
    return sign


# For each column of a 4x4 matrix: the other columns p < q < r, and the numbers of the minors (q, r), (p, r), (p, q).
_OTHERS = ((1, 2, 3, 5, 4, 3), (0, 2, 3, 5, 2, 1), (0, 1, 3, 4, 2, 0), (0, 1, 2, 3, 1, 0))


@qd.pyfunc
def _minors(A, i: qd.template()):
    """Returns the six 2x2 determinants of the rows i and i + 1 of a 4x4 matrix."""
    return qd.Vector([A[i, j] * A[i + 1, k] - A[i, k] * A[i + 1, j] for j in qd.static(range(4)) for k in qd.static(range(j + 1, 4))])


@qd.pyfunc
def _cofactors(A, i: qd.template()):
    """Returns row i of the cofactors of a 3x3 matrix."""
    return qd.Vector([A[i - 2, j - 2] * A[i - 1, j - 1] - A[i - 2, j - 1] * A[i - 1, j - 2] for j in qd.static(range(3))])


@qd.pyfunc
def determinant(A):
    """Return the determinant of the square matrix A: in closed form up to 4x4, by elimination with row pivots beyond."""
    if qd.static(A.n == 1):
        return A[0, 0]
    elif qd.static(A.n == 2):
        return A[0, 0] * A[1, 1] - A[0, 1] * A[1, 0]
    elif qd.static(A.n == 3):
        return A[0, :].dot(_cofactors(A, 0))
    elif qd.static(A.n == 4):
        s, c = _minors(A, 0), _minors(A, 2)
        return s[0] * c[5] - s[1] * c[4] + s[2] * c[3] + s[3] * c[2] - s[4] * c[1] + s[5] * c[0]
    elif qd.static(_basics.is_differentiated()):
        M = qd.cast(A, qd.static(_basics.compute_type(A.dtype, None)))
        known = _basics.detached(M)
        value = _product_of_pivots(known)
        return value + value * (_eliminated_inverse(known) @ _change(M)).trace()
    return _product_of_pivots(qd.cast(A, qd.static(_basics.compute_type(A.dtype, None))))


@qd.pyfunc
def _product_of_pivots(A):
    M = A * 1.0
    R = _basics.identity(qd.static(A.n), qd.static(A.dtype))
    product = _eliminate(M, R)
    qd.loop_config(serialize=True)
    for k in range(qd.static(A.n)):
        product *= M[k, k]
    return product


@qd.pyfunc
def inverse(A):
    """Return the inverse of a square matrix: by cofactors up to 4x4, by elimination with row pivots up to 16x16; not finite if A is
    singular.
    """
    T = qd.static(_basics.compute_type(A.dtype, None))
    M = qd.cast(A, T)
    if qd.static(A.n == 1):
        return 1.0 / M
    elif qd.static(A.n == 2):
        return qd.Matrix([[M[1, 1], -M[0, 1]], [-M[1, 0], M[0, 0]]]) * (1.0 / determinant(M))
    elif qd.static(A.n == 3):
        columns = [_cofactors(M, i) for i in qd.static(range(3))]
        return qd.Matrix.cols(columns) * (1.0 / M[0, :].dot(columns[0]))
    elif qd.static(A.n == 4):
        # Rows 1, 0 use the minors of the rows below them; rows 3, 2 use those above.
        s, c = _minors(M, 0), _minors(M, 2)
        rows = [
            [M[j ^ 1, p] * m[qr] - M[j ^ 1, q] * m[pr] + M[j ^ 1, r] * m[pq] for j, m in ((0, c), (1, c), (2, s), (3, s))]
            for p, q, r, qr, pr, pq in qd.static(_OTHERS)
        ]
        signs = qd.Matrix([[1.0 - (i + j) % 2 * 2 for j in qd.static(range(4))] for i in qd.static(range(4))], T)
        return qd.Matrix(rows) * signs * (1.0 / determinant(M))
    elif qd.static(_basics.is_differentiated()):
        R = _eliminated_inverse(_basics.detached(M))
        return R - R @ _change(M) @ R
    return _eliminated_inverse(M)


@qd.pyfunc
def _eliminated_inverse(A):
    M = A * 1.0
    R = _basics.identity(qd.static(A.n), qd.static(A.dtype))
    _eliminate(M, R)
    qd.loop_config(serialize=True)
    for k in range(qd.static(A.n)):
        for j in range(qd.static(A.n)):
            R[k, j] /= M[k, k]
    return R


@qd.pyfunc
def randn(dt: qd.template() = None):
    """Return a random number of type `dt` from the standard normal distribution (Box and Muller)."""
    T = qd.static(_basics.compute_type(None, dt))
    u = 1.0 - qd.random(T)  # in (0, 1]: its logarithm is finite
    return qd.sqrt(-2.0 * qd.log(u)) * qd.cos(6.283185307179586 * qd.random(T))


# Solvers of large systems are loaded when one of their names is first used.
_SOLVERS = {
    "block_matrix": "BlockSparseMatrix",
    "builder": "SparseMatrixBuilder",
    "differentiable": "solve_sparse",
    "matrix_free": "LinearOperator MatrixFreeBICGSTAB MatrixFreeCG",
    "preconditioners": "BlockJacobi Jacobi",
    "solvers": "SparseCG SparseSolver",
    "sparse_matrix": "SparseMatrix",
}
_MODULES = {name: module for module, names in _SOLVERS.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'quadrants.linalg' has no attribute {name!r}")
    value = globals()[name] = getattr(_load(f"quadrants._solvers.{_MODULES[name]}"), name)
    return value


__all__ = sorted([*_list_public(globals(), "Any"), *_MODULES])


__dir__ = __all__.copy

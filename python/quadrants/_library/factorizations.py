"""Triangular and orthogonal factors of small matrices, in loops over local arrays: the code size is independent of the matrix size."""

import quadrants as qd

from . import linalg_basics as _basics


@qd.pyfunc
def cholesky(A, dt: qd.template() = None):
    """Return the lower triangular L with L transposed(L) = A, for a symmetric positive definite matrix up to 16x16; not finite for others.

    `dt` is the data type of the computation, by default that of `A`.
    """
    qd.static(_basics.require(A.n == A.m, "Only square matrix is supported"))
    T = qd.static(_basics.compute_type(A.dtype, dt))
    n = qd.static(A.n)
    M = qd.cast(A, T)
    L = qd.Matrix.zero(T, n, n)
    qd.loop_config(serialize=True)
    for j in range(n):
        pivot = M[j, j]
        for k in range(j):
            pivot -= L[j, k] * L[j, k]
        L[j, j] = qd.sqrt(pivot)
        for i in range(j + 1, n):
            rest = M[i, j]
            for k in range(j):
                rest -= L[i, k] * L[j, k]
            L[i, j] = rest / L[j, j]
    return L


@qd.pyfunc
def solve_spd(A, b, dt: qd.template() = None):
    """Return the vector x with A x = b, for a symmetric positive definite matrix up to 16x16, by Cholesky; not finite for others.

    `dt` is the data type of the computation, by default that of `A`.
    """
    qd.static(_basics.require(A.m == b.n, "Matrix and Vector dimension dismatch"))
    L = cholesky(A, dt)
    x = qd.cast(b, qd.static(_basics.compute_type(A.dtype, dt)))
    n = qd.static(A.n)
    qd.loop_config(serialize=True)
    for i in range(n):
        for k in range(i):
            x[i] -= L[i, k] * x[k]
        x[i] /= L[i, i]
    qd.loop_config(serialize=True)
    for step in range(n):
        i = n - 1 - step
        for k in range(i + 1, n):
            x[i] -= L[k, i] * x[k]
        x[i] /= L[i, i]
    return x


@qd.pyfunc
def qr(A, dt: qd.template() = None):
    """Return (Q, R) with A = Q R for a matrix up to 16x16: Q square and orthogonal, R upper triangular with a diagonal that is not
    negative.

    Uses Householder reflections (Golub, Van Loan, "Matrix Computations", algorithm 5.2.1). With full column rank, the columns of Q are
    unique; a column that depends on those before it has 0 on the diagonal of R. `dt` is the data type of the computation, by default that
    of `A`.
    """
    qd.static(_basics.require(A.n <= 16 and A.m <= 16, "QR decomposition supports sizes up to 16×16."))
    T = qd.static(_basics.compute_type(A.dtype, dt))
    rows, columns = qd.static(A.n, A.m)
    R, was_lifted = _basics.lift(qd.cast(A, T))
    Q = _basics.identity(rows, T)
    mirror = qd.Vector.zero(T, rows)
    qd.loop_config(serialize=True)
    for k in range(qd.static(min(A.n - 1, A.m))):
        largest = qd.zero(R[0, 0])
        for i in range(k, rows):
            largest = qd.max(largest, qd.abs(R[i, k]))
        unit = qd.select(largest > 0, largest, 1.0)  # squares of the quotients stay in range
        square = qd.zero(R[0, 0])
        for i in range(k, rows):
            mirror[i] = R[i, k] / unit
            square += mirror[i] * mirror[i]
        length = qd.sqrt(square)
        first = mirror[k]
        mirror[k] = first + qd.select(first < 0, -length, length)
        weight = qd.select(square > 0, 1.0, 0.0) / qd.select(square > 0, length * (length + qd.abs(first)), 1.0)
        for j in range(k, columns):
            part = qd.zero(R[0, 0])
            for i in range(k, rows):
                part += mirror[i] * R[i, j]
            for i in range(k, rows):
                R[i, j] -= part * weight * mirror[i]
        for j in range(rows):
            part = qd.zero(R[0, 0])
            for i in range(k, rows):
                part += mirror[i] * Q[j, i]
            for i in range(k, rows):
                Q[j, i] -= part * weight * mirror[i]
        for i in range(k + 1, rows):
            R[i, k] = 0.0
    qd.loop_config(serialize=True)
    for k in range(qd.static(min(A.n, A.m))):
        sign = qd.select(R[k, k] < 0, -1.0, 1.0)
        for j in range(k, columns):
            R[k, j] *= sign
        for j in range(rows):
            Q[j, k] *= sign
    return Q, _basics.lower(R, was_lifted)


@qd.pyfunc
def lu(A, dt: qd.template() = None):
    """Return (P, L, U) with A = P L U for a square matrix up to 16x16: P a permutation, L unit lower triangular, U upper triangular.

    Row pivoting bounds the entries of L by 1; U has a 0 on its diagonal if A is singular. `dt` is the data type of the computation, by
    default that of `A`.
    """
    qd.static(_basics.require(A.n == A.m, "Only square matrix is supported"))
    qd.static(_basics.require(A.n <= 16, "LU decomposition supports sizes up to 16×16."))
    T = qd.static(_basics.compute_type(A.dtype, dt))
    n = qd.static(A.n)
    U, was_lifted = _basics.lift(qd.cast(A, T))
    P, L = _basics.identity(n, T), qd.Matrix.zero(T, n, n)
    qd.loop_config(serialize=True)
    for k in range(n):
        best = _basics.find_pivot(U, k)
        if best != k:
            for j in range(n):
                U[k, j], U[best, j] = U[best, j], U[k, j]
                L[k, j], L[best, j] = L[best, j], L[k, j]
                P[j, k], P[j, best] = P[j, best], P[j, k]
        L[k, k] = 1.0
        for i in range(k + 1, n):
            if U[k, k] != 0:
                L[i, k] = U[i, k] / U[k, k]
                for j in range(k + 1, n):
                    U[i, j] -= L[i, k] * U[k, j]
            U[i, k] = 0.0
    return P, L, _basics.lower(U, was_lifted)

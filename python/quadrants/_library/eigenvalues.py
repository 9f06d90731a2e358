"""Eigenvalues and eigenvectors of general matrices. Complex numbers are pairs (re, im), complex matrices are pairs of matrices."""

from typing import Any

import quadrants as qd

from . import linalg_basics as _basics

_STEPS = 30  # limit for each eigenvalue; two or three are usual


def _epsilon(dtype: Any) -> float:
    """Returns twice the largest relative rounding error."""
    return 2.0 ** -_basics.float_format(dtype)[1]


@qd.pyfunc
def eig(A, dt: qd.template() = None):
    """Return the eigenvalues and eigenvectors of a square matrix up to 6x6, computed in the data type `dt` (default: that of `A`).

    The rows of the first result are (Re, Im), by descending real part; of a conjugate pair, the one above the real axis is first. The
    columns of the second are the unit eigenvectors (re0, im0, re1, im1, ...). Both have derivatives for 2x2 matrices.
    """
    qd.static(_basics.require(A.n == A.m and A.n <= 6, "Eigen solver only supports 2×2 matrices, and as an extension up to 6×6."))
    M = qd.cast(A, qd.static(_basics.compute_type(A.dtype, dt)))
    if qd.static(A.n == 2):
        return _eig_of_two(M)
    qd.static(_basics.require(not _basics.is_differentiated(), "Eigenvalues of general matrices have derivatives up to 2×2 only."))
    return _eig_of_general(M)


@qd.pyfunc
def _eigenvector(a, b, c, d, re, im, axis: qd.template()):
    """Returns a unit vector (re0, im0, re1, im1) in the kernel of [[a, b], [c, d]] - (re + i im); the axis for a
    multiple of the identity.
    """
    first, second = b * b + (re - a) * (re - a) + im * im, c * c + (re - d) * (re - d) + im * im
    take = first >= second
    v = qd.Vector([qd.select(take, b, re - d), qd.select(take, 0.0, im), qd.select(take, re - a, c), qd.select(take, im, 0.0)])
    length = v.norm()
    axes = qd.Vector([1.0 - axis, 0.0, axis * 1.0, 0.0])
    return qd.select(length > 0, v / qd.max(length, _basics.TINY), axes)


@qd.pyfunc
def _eig_of_two(M):
    """Computes the closed form for 2x2 matrices."""
    exponent = _basics.find_exponent(M)
    N = qd.ldexp(M, -exponent)  # squares stay in range
    a, b, c, d = N[0, 0], N[0, 1], N[1, 0], N[1, 1]
    middle, half = 0.5 * (a + d), 0.5 * (a - d)
    square = half * half + b * c
    root = qd.sqrt(qd.abs(square))
    if qd.static(_basics.is_differentiated()):  # equal eigenvalues have no derivative
        root = qd.select(square == 0, 0.0, qd.sqrt(qd.select(square == 0, 1.0, qd.abs(square))))
    real = square >= 0
    spread, im = qd.select(real, root, 0.0), qd.select(real, 0.0, root)
    v = _eigenvector(a, b, c, d, middle + spread, im, 0)
    w = _eigenvector(a, b, c, d, middle - spread, -im, 1)
    values = qd.ldexp(qd.Matrix([[middle + spread, im], [middle - spread, -im]]), exponent)
    return values, qd.Matrix([[v[0], w[0]], [v[1], w[1]], [v[2], w[2]], [v[3], w[3]]])


# --- Beyond 2x2
#
# Rotations reduce the matrix to Hessenberg form, steps of the explicitly shifted complex QR algorithm to triangular form; back substitution
# gives its eigenvectors (Golub, Van Loan, "Matrix Computations", 7.4 to 7.6). All transformations are unitary, so rounding errors do not
# grow.


@qd.pyfunc
def _conjugate_product(x, y):
    """Returns x times the conjugate of y."""
    return qd.Vector([x[0] * y[0] + x[1] * y[1], x[1] * y[0] - x[0] * y[1]])


@qd.pyfunc
def _root(z):
    """Returns a square root, without cancellation."""
    size = z.norm()
    large = qd.sqrt(0.5 * (size + qd.abs(z[0])))
    small = 0.5 * z[1] / qd.max(large, _basics.TINY)
    flipped = z[0] < 0
    return qd.Vector([qd.select(flipped, small, large), qd.select(flipped, large, small)])


@qd.pyfunc
def _at(R: qd.template(), I: qd.template(), i, j):  # noqa: E741
    return qd.Vector([R[i, j], I[i, j]])


@qd.pyfunc
def _make_hessenberg(M: qd.template(), Z: qd.template()):
    """Clears the entries below the first subdiagonal by rotations of rows and columns, which Z accumulates."""
    n = qd.static(M.n)
    qd.loop_config(serialize=True)
    for k in range(n - 2):
        for i in range(k + 2, n):
            length = qd.sqrt(M[k + 1, k] * M[k + 1, k] + M[i, k] * M[i, k])
            c, s = qd.select(length > 0, M[k + 1, k] / qd.max(length, _basics.TINY), 1.0), M[i, k] / qd.max(length, _basics.TINY)
            for j in range(n):
                x, y = M[k + 1, j], M[i, j]
                M[k + 1, j], M[i, j] = c * x + s * y, c * y - s * x
            for j in range(n):
                x, y = M[j, k + 1], M[j, i]
                M[j, k + 1], M[j, i] = c * x + s * y, c * y - s * x
                x, y = Z[j, k + 1], Z[j, i]
                Z[j, k + 1], Z[j, i] = c * x + s * y, c * y - s * x


@qd.pyfunc
def _turn_pair(R: qd.template(), I: qd.template(), i, k, j, m, c, s):  # noqa: E741
    """Replaces the elements a at (i, k) and b at (j, m) by c a + s b and c b - conj(s) a."""
    a, b = _at(R, I, i, k), _at(R, I, j, m)
    first, second = a * c + qd.math.cmul(s, b), b * c - _conjugate_product(a, s)
    R[i, k], I[i, k] = first[0], first[1]
    R[j, m], I[j, m] = second[0], second[1]


@qd.pyfunc
def _shift(R: qd.template(), I: qd.template(), hi):  # noqa: E741
    """Returns the eigenvalue of the last 2x2 block that is nearer to its last entry (Wilkinson)."""
    a, b, c, d = _at(R, I, hi - 1, hi - 1), _at(R, I, hi - 1, hi), _at(R, I, hi, hi - 1), _at(R, I, hi, hi)
    half, product = (a - d) * 0.5, qd.math.cmul(b, c)
    root = _root(qd.math.cmul(half, half) + product)
    divisor = half + qd.select(half.dot(root) < 0, -root, root)
    square = divisor.norm_sqr()
    return d - qd.select(square > 0, _conjugate_product(product, divisor) / qd.max(square, _basics.TINY), product)


@qd.pyfunc
def _step(R: qd.template(), I: qd.template(), X: qd.template(), Y: qd.template(), lo, hi, shift):  # noqa: E741
    """Does one QR step on the rows lo to hi of the Hessenberg matrix R + i I; X + i Y accumulates the rotations."""
    n = qd.static(R.n)
    cosines = qd.Vector.zero(qd.static(R.dtype), n)
    sines = qd.Matrix.zero(qd.static(R.dtype), n, 2)
    for k in range(lo, hi + 1):
        R[k, k] -= shift[0]
        I[k, k] -= shift[1]
    for k in range(lo, hi):
        x, y = _at(R, I, k, k), _at(R, I, k + 1, k)
        size = x.norm()
        length = qd.max(qd.sqrt(size * size + y.norm_sqr()), _basics.TINY)
        unit = qd.select(size > 0, x / qd.max(size, _basics.TINY), qd.Vector([1.0, 0.0]))
        cosines[k] = size / length
        s = _conjugate_product(unit, y) / length
        sines[k, 0], sines[k, 1] = s[0], s[1]
        for j in range(k, n):
            _turn_pair(R, I, k, j, k + 1, j, cosines[k], s)
    for k in range(lo, hi):
        s = qd.Vector([sines[k, 0], -sines[k, 1]])
        for i in range(qd.min(k + 2, hi + 1)):
            _turn_pair(R, I, i, k, i, k + 1, cosines[k], s)
        for i in range(n):
            _turn_pair(X, Y, i, k, i, k + 1, cosines[k], s)
    for k in range(lo, hi + 1):
        R[k, k] += shift[0]
        I[k, k] += shift[1]


@qd.pyfunc
def _make_triangular(R: qd.template(), I: qd.template(), X: qd.template(), Y: qd.template()):  # noqa: E741
    """Repeats steps on the last rows that are not decoupled yet, until all are."""
    epsilon = qd.static(_epsilon(R.dtype))
    hi, count = R.n - 1, 0
    qd.loop_config(serialize=True)
    for _ in range(qd.static(_STEPS * R.n)):
        lo = hi
        while lo > 0:
            size = _at(R, I, lo, lo - 1).norm()
            if size <= epsilon * (_at(R, I, lo, lo).norm() + _at(R, I, lo - 1, lo - 1).norm()) or size < _basics.TINY:
                R[lo, lo - 1], I[lo, lo - 1] = 0.0, 0.0
                break
            lo -= 1
        if lo == hi:
            hi, count = hi - 1, 0
            if hi <= 0:
                break
        else:
            shift = _shift(R, I, hi)
            count += 1
            if count % 10 == 0:  # an exceptional shift, in case the steps cycle
                shift[0] += qd.abs(R[hi, hi - 1]) + qd.abs(I[hi, hi - 1])
            _step(R, I, X, Y, lo, hi, shift)


@qd.pyfunc
def _solve_triangular(R: qd.template(), I: qd.template(), j, smallest):  # noqa: E741
    """Returns the eigenvector of the upper triangular matrix R + i I for its diagonal element j, as rows (re, im)."""
    y = qd.Matrix.zero(qd.static(R.dtype), qd.static(R.n), 2)
    y[j, 0] = 1.0
    for step in range(j):
        i = j - 1 - step
        total = qd.Vector([0.0, 0.0], qd.static(R.dtype))
        for k in range(i + 1, j + 1):
            total += qd.math.cmul(_at(R, I, i, k), qd.Vector([y[k, 0], y[k, 1]]))
        gap = _at(R, I, j, j) - _at(R, I, i, i)
        near = gap.norm() < smallest  # equal eigenvalues: an approximate eigenvector
        divisor = qd.select(near, qd.Vector([smallest, 0.0]), gap)
        quotient = _conjugate_product(total, divisor) / divisor.norm_sqr()
        y[i, 0], y[i, 1] = quotient[0], quotient[1]
        size = qd.max(quotient.norm(), 1.0)  # squares stay in range
        for k in range(i, j + 1):
            y[k, 0], y[k, 1] = y[k, 0] / size, y[k, 1] / size
    return y


@qd.pyfunc
def _normalize(V: qd.template(), j):
    """Scales the vector to length one, with its largest component real and positive."""
    n = qd.static(V.m)
    largest = qd.Vector([0.0, 0.0], qd.static(V.dtype))
    for i in range(n):
        component = qd.Vector([V[2 * i, j], V[2 * i + 1, j]])
        # The margin exceeds rounding errors, so that the first of equal components is selected.
        largest = qd.select(component.norm() > largest.norm() * qd.static(1 + 64 * _epsilon(V.dtype)), component, largest)
    size = largest.norm()
    square = qd.zero(size)
    for i in range(2 * n):
        square += (V[i, j] / size) * (V[i, j] / size)
    unit = largest / (size * size * qd.sqrt(square))
    for i in range(n):
        turned = _conjugate_product(qd.Vector([V[2 * i, j], V[2 * i + 1, j]]), unit)
        V[2 * i, j], V[2 * i + 1, j] = turned[0], turned[1]


@qd.pyfunc
def _sort(values: qd.template(), V: qd.template(), tolerance):
    """Sorts by descending real part, then by imaginary part, by exchanges of neighbors."""
    n = qd.static(V.m)
    qd.loop_config(serialize=True)
    for last in range(n - 1):
        for j in range(n - 1 - last):
            difference = values[j + 1, 0] - values[j, 0]
            if difference > tolerance or (qd.abs(difference) <= tolerance and values[j + 1, 1] > values[j, 1]):
                for k in qd.static(range(2)):
                    values[j, k], values[j + 1, k] = values[j + 1, k], values[j, k]
                for k in range(2 * n):
                    V[k, j], V[k, j + 1] = V[k, j + 1], V[k, j]


@qd.pyfunc
def _eig_of_general(A):
    n, T = qd.static(A.n), qd.static(A.dtype)
    R, scale = _basics.normalize(A)
    X = _basics.identity(n, T)
    I, Y = R * 0.0, R * 0.0  # noqa: E741
    _make_hessenberg(R, X)
    _make_triangular(R, I, X, Y)
    tolerance = qd.static(8 * A.n * _epsilon(A.dtype))
    values, V = qd.Matrix.zero(T, n, 2), qd.Matrix.zero(T, 2 * n, n)
    qd.loop_config(serialize=True)
    for j in range(n):
        y = _solve_triangular(R, I, j, qd.static(_epsilon(A.dtype)))
        for i in range(n):
            total = qd.Vector([0.0, 0.0], T)
            for k in range(j + 1):
                total += qd.math.cmul(_at(X, Y, i, k), qd.Vector([y[k, 0], y[k, 1]]))
            V[2 * i, j], V[2 * i + 1, j] = total[0], total[1]
        _normalize(V, j)
        values[j, 0] = R[j, j]
        values[j, 1] = qd.select(qd.abs(I[j, j]) <= tolerance, 0.0, I[j, j])
    _sort(values, V, tolerance)
    return values * scale, V

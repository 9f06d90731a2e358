"""Helpers of the modules of small linear algebra."""

from typing import Any

import quadrants as qd

from .._base.dtypes import find_dtype
from .._base.errors import QuadrantsCompilationError
from .._language.builtins import TABLE

is_differentiated = TABLE["is_differentiated"]

TINY = 1e-30  # a smaller divisor counts as zero; matrices are scaled to entries of size one first


def compute_type(dtype: Any, dt: Any) -> Any:
    """Returns the data type of the computation: `dt`, else the operand's own, else default_fp."""
    if dt is not None:
        return find_dtype(dt)
    return dtype if dtype is not None and dtype.is_real else find_dtype(float)


def require(condition: bool, text: str) -> None:
    """Raises QuadrantsCompilationError with the text unless the condition holds."""
    if not condition:
        raise QuadrantsCompilationError(text)


@qd.pyfunc
def identity(n: qd.template(), dt: qd.template()):
    """Returns the n x n identity matrix."""
    return qd.Matrix([[float(i == j) for j in qd.static(range(n))] for i in qd.static(range(n))], dt)


@qd.pyfunc
def detached(A):
    """Returns the same numbers as constants for derivatives: bits have no derivative."""
    if qd.static(is_differentiated()):
        bits = qd.static({2: qd.i16, 4: qd.i32, 8: qd.i64}[A.dtype.size])
        return qd.bit_cast(qd.bit_cast(A, bits), A.dtype)
    return A * 1.0


def float_format(dtype: Any) -> tuple[Any, int, int, int]:
    """Returns the integer type of the bits, the number of mantissa bits, the bias of the exponent, and the power of two that makes
    subnormal numbers normal.
    """
    return {2: (qd.i16, 10, 15, 12), 4: (qd.i32, 23, 127, 64), 8: (qd.i64, 52, 1023, 512)}[dtype.size]


@qd.pyfunc
def find_exponent(A):
    """Returns the exponent of the largest entry, a constant for derivatives; the lowest one for subnormal numbers and zeros."""
    bits, mantissa, bias, _ = qd.static(float_format(A.dtype))
    return qd.cast((qd.bit_cast(qd.abs(A).max(), bits) >> mantissa) - bias, qd.i32)


@qd.pyfunc
def lift(A):
    """Returns (2^n A, True) if entries that matter beside the largest one may be subnormal, else (A, False): reciprocals of subnormal
    numbers overflow, and quotients of CUDA with fast_math take them for zeros.
    """
    _, mantissa, bias, power = qd.static(float_format(A.dtype))
    is_small = find_exponent(A) <= qd.static(min(mantissa + 2 - bias, -power))  # -power: squares stay in the range of f16
    M = A * 1.0
    if is_small:  # no factor: with fast_math it would be combined with the reciprocal of another one
        M = qd.ldexp(A, power)
    return M, is_small


@qd.pyfunc
def lower(A, was_lifted):
    """Undoes `lift`."""
    M = A * 1.0
    if was_lifted:
        M = qd.ldexp(A, qd.static(-float_format(A.dtype)[3]))
    return M


@qd.pyfunc
def normalize(A):
    """Returns (A divided by its largest magnitude, that magnitude), so that squares stay in range. A zero matrix is divided by 1.

    The magnitude is a constant for derivatives: the result of a computation on the first, multiplied by the second, does not depend on it.
    """
    M, _ = lift(A)
    k, scale = qd.abs(detached(M)).max(), qd.abs(detached(A)).max()
    return M / qd.select(k > 0, k, 1.0), qd.select(scale > 0, scale, 1.0)


@qd.pyfunc
def find_pivot(M: qd.template(), k):
    """Returns the row, from k on, whose entry in column k is the largest."""
    best = k
    for i in range(k + 1, qd.static(M.n)):
        if qd.abs(M[i, k]) > qd.abs(M[best, k]):
            best = i
    return best

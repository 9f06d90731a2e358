"""What the modules of small linear algebra share."""

from __future__ import annotations

from typing import Any

import quadrants as qd

from ._dtypes import find_dtype
from ._errors import QuadrantsCompilationError

TINY = 1e-30  # below it a divisor counts as zero; matrices are scaled to entries of size one first


def compute_type(dtype: Any, dt: Any) -> Any:
    """Data type to compute in: `dt`, else the operand's own, else default_fp."""
    if dt is not None:
        return find_dtype(dt)
    return dtype if dtype is not None and dtype.is_real else find_dtype(float)


def require(condition: bool, text: str) -> None:
    """Raises QuadrantsCompilationError with the text unless the condition holds."""
    if not condition:
        raise QuadrantsCompilationError(text)


@qd.pyfunc
def identity(n: qd.template(), dt: qd.template()):
    """The n x n identity matrix."""
    return qd.Matrix([[float(i == j) for j in qd.static(range(n))] for i in qd.static(range(n))], dt)


@qd.pyfunc
def scale(A):
    """Largest magnitude of the entries, 1 for a zero matrix: dividing by it keeps squares in range."""
    largest = qd.abs(A).max()
    return qd.select(largest > 0, largest, 1.0)


@qd.pyfunc
def find_pivot(M: qd.template(), k):
    """The row, from k on, whose entry in column k is the largest."""
    best = k
    for i in range(k + 1, qd.static(M.n)):
        if qd.abs(M[i, k]) > qd.abs(M[best, k]):
            best = i
    return best

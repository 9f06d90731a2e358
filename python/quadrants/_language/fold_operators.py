"""The operators of reductions and scans, as funcs that can be passed as arguments."""

from __future__ import annotations

from .builtins import TABLE
from .func import func

_max, _min = TABLE["max"], TABLE["min"]


@func
def add(a, b):
    """Returns the sum of `a` and `b`."""
    return a + b


@func
def mul(a, b):
    """Returns the product of `a` and `b`."""
    return a * b


@func
def minimum(a, b):
    """Returns the smaller one of `a` and `b`."""
    return _min(a, b)


@func
def maximum(a, b):
    """Returns the larger one of `a` and `b`."""
    return _max(a, b)


@func
def bit_and(a, b):
    """Returns the bits that are set in both `a` and `b`."""
    return a & b


@func
def bit_or(a, b):
    """Returns the bits that are set in `a` or `b`."""
    return a | b


@func
def bit_xor(a, b):
    """Returns the bits that are set in exactly one of `a` and `b`."""
    return a ^ b


BY_NAME = {
    "add": (add, "sum"), "mul": (mul, "product"), "min": (minimum, "minimum"), "max": (maximum, "maximum"),
    "and": (bit_and, "bits that all have"), "or": (bit_or, "bits that any has"), "xor": (bit_xor, "bits that an odd number has"),
}  # fmt: skip
"""The operators by the names of their functions, with descriptions of their results."""

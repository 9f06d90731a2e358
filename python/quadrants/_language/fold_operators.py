"""The operators of reductions and scans, as functions to hand on."""

from __future__ import annotations

from .builtins import TABLE
from .func import func

_max, _min = TABLE["max"], TABLE["min"]


@func
def add(a, b):
    """The sum."""
    return a + b


@func
def mul(a, b):
    """The product."""
    return a * b


@func
def minimum(a, b):
    """The smaller one."""
    return _min(a, b)


@func
def maximum(a, b):
    """The larger one."""
    return _max(a, b)


@func
def bit_and(a, b):
    """The bits that both have."""
    return a & b


@func
def bit_or(a, b):
    """The bits that one has."""
    return a | b


@func
def bit_xor(a, b):
    """The bits that just one has."""
    return a ^ b


BY_NAME = {
    "add": (add, "sum"), "mul": (mul, "product"), "min": (minimum, "minimum"), "max": (maximum, "maximum"),
    "and": (bit_and, "bits that all have"), "or": (bit_or, "bits that any has"), "xor": (bit_xor, "bits that an odd number has"),
}  # fmt: skip
"""The operators by the names that functions have for them, with what folding with them gives."""

"""The operators of reductions and scans."""

from __future__ import annotations

import operator

from .builtins import TABLE

BY_NAME = {
    "add": (operator.add, "sum"), "mul": (operator.mul, "product"), "min": (TABLE["min"], "minimum"), "max": (TABLE["max"], "maximum"),
    "and": (operator.and_, "bits that all have"), "or": (operator.or_, "bits that any has"),
    "xor": (operator.xor, "bits that an odd number has"),
}  # fmt: skip
"""The operators by the names of their functions, with descriptions of their results."""

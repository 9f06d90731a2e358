"""`qd.types`: data types, compound types and annotations."""

from ._dtypes import *  # noqa: F403 (the names of the data types)
from ._dtypes import is_integral, is_real, is_signed
from ._struct import struct
from ._types import NDArray, Template, is_tensor, matrix, ndarray, template, vector

__all__ = ["NDArray", "Template", "is_integral", "is_real", "is_signed", "is_tensor", "matrix", "ndarray", "struct", "template", "vector"]

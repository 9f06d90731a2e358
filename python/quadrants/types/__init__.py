"""`qd.types`: data types, compound types and annotations."""

from types import SimpleNamespace

from .._buffer_view import BufferView, BufferViewType
from .._dtypes import *  # noqa: F403 (the names of the data types)
from .._dtypes import DATA_TYPES, is_integral, is_real, is_signed
from .._struct import struct
from .._types import NDArray, Template, is_tensor, matrix, ndarray, ref, template, vector

__all__ = [
    "BufferView", "BufferViewType", "NDArray", "Template", "is_integral", "is_real", "is_signed", "is_tensor", "matrix", "ndarray", "ref",
    "struct", "template", "vector",
]  # fmt: skip

# The scalar types in lists: all_types, real_types, integer_types.
primitive_types = SimpleNamespace(
    all_types=list(DATA_TYPES),
    real_types=[dtype for dtype in DATA_TYPES if dtype.is_real],
    integer_types=[dtype for dtype in DATA_TYPES if dtype.is_integral],
    **{dtype.name: dtype for dtype in DATA_TYPES},
)

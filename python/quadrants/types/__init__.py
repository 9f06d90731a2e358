"""`qd.types`: data types, compound types and annotations."""

from .._base import dtypes as _dtypes
from .._base.dtypes import *  # noqa: F403 (the names of the data types)
from .._base.dtypes import is_integral, is_real, is_signed
from .._containers.buffer_view import BufferView, BufferViewType
from .._values.struct import struct
from .._values.types import NDArray, Template, is_tensor, matrix, ndarray, ref, sparse_matrix_builder, template, vector
from . import primitive_types, quant

__all__ = [
    "BufferView", "BufferViewType", "NDArray", "Template", "is_integral", "is_real", "is_signed", "is_tensor", "matrix", "ndarray",
    "primitive_types", "quant", "ref", "sparse_matrix_builder", "struct", "template", "vector",
]  # fmt: skip


def __dir__() -> list[str]:
    """Lists the public names, with the data types."""
    return [*__all__, *_dtypes.__all__]

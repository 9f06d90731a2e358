"""Conversions of data types from and to other packages."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from typing import Any

from .._base.dtypes import find_dtype, to_dtype, to_numpy_dtype, to_torch_dtype

__all__ = ["cook_dtype", "dtype_to_torch_dtype", "has_clangpp", "has_pytorch", "is_data_oriented", "to_numpy_type", "to_pytorch_type"]
__all__ += ["to_quadrants_type"]

cook_dtype = to_dtype
to_pytorch_type = dtype_to_torch_dtype = to_torch_dtype


def to_numpy_type(dtype: Any) -> type:
    """Returns the NumPy scalar type with the same values."""
    return to_numpy_dtype(to_dtype(dtype)).type


def to_quadrants_type(dtype: Any) -> Any:
    """Returns the data type that a NumPy or torch type means, and any other value unchanged."""
    found = find_dtype(dtype)
    return dtype if found is None else found


def has_pytorch() -> bool:
    """Returns whether torch can be imported."""
    return "torch" in sys.modules or importlib.util.find_spec("torch") is not None


def has_clangpp() -> bool:
    """Returns whether there is a `clang++` to run."""
    return shutil.which("clang++") is not None


def is_data_oriented(obj: Any) -> bool:
    """Returns whether an object is of a class decorated with `qd.data_oriented`."""
    return getattr(obj, "_data_oriented", False)


__dir__ = __all__.copy

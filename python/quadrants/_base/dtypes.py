"""Data types of scalars, and the conversions of values that are stored in them."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._runtime import DataType, bf16, f16, f32, f64, i8, i16, i32, i64, u1, u8, u16, u32, u64
from . import options as _options

__all__ = [
    "bf16", "bfloat16", "f16", "f32", "f64", "float16", "float32", "float64", "i8", "i16", "i32", "i64", "int8", "int16",
    "int32", "int64", "u1", "u8", "u16", "u32", "u64", "uint1", "uint8", "uint16", "uint32", "uint64",
]  # fmt: skip

float16, float32, float64, bfloat16 = f16, f32, f64, bf16
int8, int16, int32, int64 = i8, i16, i32, i64
uint1, uint8, uint16, uint32, uint64 = u1, u8, u16, u32, u64

DATA_TYPES = (bf16, f16, f32, f64, i8, i16, i32, i64, u1, u8, u16, u32, u64)
_NAMES = {dtype.name: dtype for dtype in DATA_TYPES}
_LONG = {"i": "int", "u": "uint", "f": "float"}
BF16_BITS = np.dtype("V2")  # elements of type bf16, which NumPy does not support: two opaque bytes
_UNLIKE = {u1: np.dtype(bool), bf16: np.dtype(np.float32)}
_NUMPY = {dtype: _UNLIKE.get(dtype) or np.dtype(_LONG[dtype.name[0]] + dtype.name[1:]) for dtype in DATA_TYPES}
_FROM_NUMPY = {BF16_BITS: bf16, **{numpy: dtype for dtype, numpy in _NUMPY.items() if dtype is not bf16}}


class StoredType:
    """A type of elements that are stored in another form: `dtype` is the data type that kernels compute with."""

    dtype: DataType


def is_integral(dtype: Any) -> bool:
    """Return whether the data type `dtype` is an integer type; `u1` is one."""
    return to_dtype(dtype).is_integral


def is_real(dtype: Any) -> bool:
    """Return whether the data type `dtype` is a floating-point type."""
    return to_dtype(dtype).is_real


def is_signed(dtype: Any) -> bool:
    """Return whether the data type `dtype` has negative values."""
    return to_dtype(dtype).is_signed


def find_dtype(value: Any) -> DataType | None:
    """Returns the data type that `value` means, or None. Accepts data types, `int`, `float`, `bool`, NumPy and torch types, and names."""
    if isinstance(value, DataType):
        return value
    if value is bool:
        return u1
    if value is int:
        return _options.get("default_ip") or i32
    if value is float:
        return _options.get("default_fp") or f32
    if isinstance(value, StoredType):
        return value.dtype
    if isinstance(value, str):
        if value == "uint":
            return _options.get("default_up") or u32
        name = value if value in _NAMES else value.replace("uint", "u").replace("int", "i").replace("float", "f")
        return _NAMES.get(name)
    if isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, np.generic)):
        return from_numpy_dtype(np.dtype(value))
    if type(value).__module__ == "torch":
        return u1 if str(value) == "torch.bool" else find_dtype(str(value).removeprefix("torch."))
    return None


def to_dtype(value: Any) -> DataType:
    """Same as `find_dtype`, but raises `ValueError` if `value` means no data type."""
    dtype = find_dtype(value)
    if dtype is None:
        raise ValueError(f"Invalid data type {value!r}")
    return dtype


def to_numpy_dtype(dtype: Any) -> np.dtype:
    """Returns the NumPy data type with the same values; `u1` becomes bool, `bf16` becomes float32."""
    if isinstance(dtype, np.dtype):
        return dtype
    found = find_dtype(dtype)
    return _NUMPY[found] if found is not None else np.dtype(dtype)


def to_memory_dtype(dtype: DataType) -> np.dtype:
    """Returns the NumPy data type of elements in memory."""
    return BF16_BITS if dtype is bf16 else to_numpy_dtype(dtype)


def from_numpy_dtype(dtype: np.dtype) -> Any:
    """Returns the data type of the elements of a NumPy array, or None if kernels do not support it."""
    found = _FROM_NUMPY.get(dtype)
    return bf16 if found is None and dtype.name == "bfloat16" else found  # "bfloat16" is a type of the package ml_dtypes


def import_torch() -> Any:
    """Returns the module `torch`. It is optional and loaded only for programs that use torch tensors."""
    try:
        import torch
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise ModuleNotFoundError("torch is not installed: pip install 'quadrants[torch]'", name="torch") from None
    return torch


def to_torch_dtype(dtype: Any) -> Any:
    """Returns the torch data type with the same values."""
    found, torch = to_dtype(dtype), import_torch()
    return {u1: torch.bool, bf16: torch.bfloat16}.get(found) or getattr(torch, to_numpy_dtype(found).name)


def to_numbers(elements: np.ndarray) -> np.ndarray:
    """Converts bf16 elements to f32, which NumPy supports; returns other arrays unchanged."""
    return from_bf16(elements) if elements.dtype == BF16_BITS else elements


def from_bf16(bits: np.ndarray) -> np.ndarray:
    """Returns the elements of a bf16 array as f32."""
    words = bits.view(np.uint16).astype(np.uint32)
    words <<= 16  # in place: one element stays an array
    return words.view(np.float32)


def to_bf16(numbers: Any) -> np.ndarray:
    """Converts numbers to elements of a bf16 array: rounded to the nearest f32, then to the nearest bf16, ties to even."""
    single = np.asarray(numbers, np.float32)
    bits = single.view(np.uint32)
    rounded = np.where(np.isnan(single), bits | 0x400000, bits + 0x7FFF + (bits >> 16 & 1))
    return np.asarray(rounded >> 16, np.uint16).view(BF16_BITS)


def wrap_integer(value: int, dtype: DataType) -> int:
    """Returns `value` as it is stored in `dtype`: 0 or 1 for `u1`, else modulo two to the number of bits."""
    if dtype is u1:
        return int(bool(value))
    bits = 8 * dtype.size
    value = int(value) & ((1 << bits) - 1)
    return value - (1 << bits) if dtype.is_signed and value >> (bits - 1) else value


def to_array(values: Any, dtype: DataType) -> np.ndarray:
    """Returns numbers for elements of type `dtype` as an array without loss: NumPy alone converts a mix of large and small integers to
    floats.
    """
    array = np.asarray(values)
    if array.dtype == np.float64 and dtype.is_integral and isinstance(values, (list, tuple)):
        exact = np.array(values, object)
        return exact if all(isinstance(item, int) for item in exact.flat) else array
    return array


def check_range(values: Any, dtype: DataType) -> None:
    """Raises OverflowError if numbers, or their integral parts, are out of the range of an integer type."""
    array = to_array(values, dtype)
    if not dtype.is_integral or dtype is u1 or array.dtype.kind == "b" or np.can_cast(array.dtype, _NUMPY[dtype]):
        return
    lowest = -(1 << 8 * dtype.size - 1) if dtype.is_signed else 0
    whole = np.trunc(array) if array.dtype.kind == "f" else array
    is_inside = np.asarray((whole >= lowest) & (whole < lowest + (1 << 8 * dtype.size)), bool)  # False for NaN
    if not is_inside.all():
        raise OverflowError(f"{array[~is_inside].flat[0]} is out of the range of {dtype}")


def converted(values: np.ndarray, dtype: DataType) -> np.ndarray:
    """Returns a new array with `values` converted to type `dtype`."""
    array = np.empty(values.shape, to_numpy_dtype(dtype))
    store(array, ..., values)
    return array


def store(array: np.ndarray, key: Any, value: Any) -> None:
    """`array[key] = value` with the language's conversions: floats truncate, integers wrap, `u1` stores truth.

    Raises OverflowError for numbers and lists of numbers that are out of range, as NumPy does; arrays are converted.
    """
    kind = array.dtype.kind
    if not isinstance(value, (int, float)):
        _check_numbers(np.asarray(value), value, array.dtype)
    if kind in "iu" and not isinstance(value, np.ndarray):
        check_range(value, _FROM_NUMPY[array.dtype])
    if kind in "iu" and not isinstance(value, (int, float)):
        value = to_array(value, _FROM_NUMPY[array.dtype])
        if value.dtype == object:  # integers wider than 64 bits
            value = np.vectorize(lambda item: wrap_integer(int(item), _FROM_NUMPY[array.dtype]), otypes=[array.dtype])(value)
    with np.errstate(invalid="ignore", over="ignore"):
        if kind == "V":
            array[key] = to_bf16(value)
            return
        if kind in "iu" and array.dtype.itemsize < 8 and np.asarray(value).dtype.kind == "f":
            value = np.asarray(value).astype(np.int64)  # truncates first and wraps afterwards, as kernels do
        array[key] = np.asarray(value).astype(array.dtype, casting="unsafe")


def _check_numbers(values: np.ndarray, given: Any, wanted: np.dtype) -> None:
    if values.dtype == object:
        wrong = [type(item).__name__ for item in values.flat if not isinstance(item, (int, float, np.number, np.bool_))]
    else:
        wrong = [str(values.dtype)] if values.dtype.kind in "cSUmM" or values.dtype.names else []
    if wrong:
        what = f"an array of {wrong[0]}" if values.ndim else f"a {type(given).__name__}"
        raise TypeError(f"cannot store {what} as {wanted.name}: numbers are expected")


def to_shape(shape: Any) -> tuple[int, ...]:
    """Returns a shape argument as a tuple of Python integers; raises `TypeError` if an item is no integer."""
    items = tuple(shape) if isinstance(shape, (tuple, list, np.ndarray)) else (shape,)
    for item in items:
        if isinstance(item, bool) or not hasattr(item, "__index__"):
            raise TypeError(f"a shape consists of integers, got {item!r}")
    return tuple(item.__index__() for item in items)

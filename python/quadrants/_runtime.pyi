"""The extension module that every process loads: data types, memory, containers, kernels, the runtime."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

class DataType:
    name: str
    size: int
    is_real: bool
    is_integral: bool
    is_signed: bool
    def to_string(self) -> str: ...
    def __call__(self, value: Any) -> Any: ...

f16: DataType
f32: DataType
f64: DataType
i8: DataType
i16: DataType
i32: DataType
i64: DataType
u1: DataType
u8: DataType
u16: DataType
u32: DataType
u64: DataType

OPERATORS: str

class Buffer:
    nbytes: int
    address: int
    def __init__(self, nbytes: int) -> None: ...

class _Container:
    shape: tuple[int, ...]
    element_shape: tuple[int, ...]
    dtype: DataType
    _qd_layout: tuple[Any, ...]
    _offset: tuple[int, ...] | None
    _buffer: Buffer
    _byte_offset: int
    _address: int
    _state: str
    def __init__(
        self,
        dtype: DataType,
        element_shape: Sequence[int],
        shape: Sequence[int] | None,
        strides: Sequence[int] | None = None,
        component_stride: int | None = None,
        buffer: Buffer | None = None,
        byte_offset: int = 0,
        offset: Sequence[int] | None = None,
    ) -> None: ...
    def view(self) -> np.ndarray[Any, Any]: ...
    def __getitem__(self, key: Any) -> Any: ...
    def __setitem__(self, key: Any, value: Any) -> None: ...

class FieldBase(_Container): ...
class NdarrayBase(_Container): ...

class TensorBase:
    _impl: Any
    def __init__(self, impl: Any) -> None: ...

class Kernel:
    function: Callable[..., Any]
    parameters: list[Any]
    results: list[Any] | None
    name: str
    specialisation_count: int
    def __init__(self, function: Callable[..., Any], parameters: Sequence[Any], results: Any = None, name: str | None = None) -> None: ...
    def __call__(self, *arguments: Any, **keywords: Any) -> Any: ...
    def __getattr__(self, name: str) -> Any: ...
    def __setattr__(self, name: str, value: Any) -> None: ...

def init(options: dict[str, Any], interpreter: Callable[..., Any] | None = None) -> None: ...
def reset() -> None: ...
def sync() -> None: ...
def set_options(options: dict[str, Any]) -> None: ...
def option_table() -> list[tuple[str, str, Any, str, bool, str]]: ...
def log(level: str, message: str, place: str = "") -> None: ...
def set_log_level(level: str) -> None: ...
def is_logged(level: str) -> bool: ...
def memory_use() -> dict[str, int]: ...
def count_containers() -> dict[str, int]: ...
def cache_scope() -> str: ...
def statistics() -> dict[str, int]: ...
def may_overlap(first: Any, second: Any) -> bool: ...

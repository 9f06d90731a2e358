# Written by tools/write_stub.py.
# ruff: noqa
from typing import Any, Protocol, TypeAlias
bf16: TypeAlias = float
bfloat16: TypeAlias = float
f16: TypeAlias = float
f32: TypeAlias = float
f64: TypeAlias = float
float16: TypeAlias = float
float32: TypeAlias = float
float64: TypeAlias = float
i8: TypeAlias = int
i16: TypeAlias = int
i32: TypeAlias = int
i64: TypeAlias = int
int8: TypeAlias = int
int16: TypeAlias = int
int32: TypeAlias = int
int64: TypeAlias = int
u1: TypeAlias = bool
u8: TypeAlias = int
u16: TypeAlias = int
u32: TypeAlias = int
u64: TypeAlias = int
uint1: TypeAlias = bool
uint8: TypeAlias = int
uint16: TypeAlias = int
uint32: TypeAlias = int
uint64: TypeAlias = int
from .._containers.buffer_view import BufferView as BufferView
from .._containers.buffer_view import BufferViewType as BufferViewType
from .._base.dtypes import is_integral as is_integral
from .._base.dtypes import is_real as is_real
from .._base.dtypes import is_signed as is_signed
from .._values.types import is_tensor as is_tensor
from .._values.types import matrix as matrix
from .._values.types import ref as ref
from .._values.types import sparse_matrix_builder as sparse_matrix_builder
from .._values.struct import struct as struct
from .._values.types import vector as vector
from . import primitive_types as primitive_types
from . import quant as quant
if False:
    NDArray: Any
else:
    class NDArray(Protocol):  # type: ignore[no-redef]
        def __class_getitem__(cls, items: Any) -> Any: ...
        @property
        def shape(self) -> Any: ...
        def __getitem__(self, index: Any, /) -> Any: ...
        def __setitem__(self, index: Any, value: Any, /) -> None: ...
        def __iter__(self) -> Any: ...
        def __len__(self) -> int: ...
Template: TypeAlias = Any
def template(element_type: Any = ..., ndim: int | None = ...) -> Any: ...
def ndarray(dtype: Any = ..., ndim: int | None = ..., element_dim: int | None = ..., element_shape: Any = ..., field_dim: int | None = ...,
            needs_grad: bool | None = ..., boundary: str = ..., shape: Any = ...) -> Any: ...

# Written by tools/write_stub.py.
# ruff: noqa
from . import _runtime as _runtime
from typing import Any
from ._base.options import Config
from .types import bf16 as bf16
from .types import bfloat16 as bfloat16
from .types import f16 as f16
from .types import f32 as f32
from .types import f64 as f64
from .types import float16 as float16
from .types import float32 as float32
from .types import float64 as float64
from .types import i8 as i8
from .types import i16 as i16
from .types import i32 as i32
from .types import i64 as i64
from .types import int8 as int8
from .types import int16 as int16
from .types import int32 as int32
from .types import int64 as int64
from .types import u1 as u1
from .types import u8 as u8
from .types import u16 as u16
from .types import u32 as u32
from .types import u64 as u64
from .types import uint1 as uint1
from .types import uint8 as uint8
from .types import uint16 as uint16
from .types import uint32 as uint32
from .types import uint64 as uint64
from .types import Template as Template
from .types import template as template
from . import types as types
from ._base.arch import Arch as Arch
from ._base.errors import QuadrantsAssertionError as QuadrantsAssertionError
from ._base.errors import QuadrantsCompilationError as QuadrantsCompilationError
from ._base.errors import QuadrantsNameError as QuadrantsNameError
from ._base.errors import QuadrantsRuntimeError as QuadrantsRuntimeError
from ._base.errors import QuadrantsRuntimeTypeError as QuadrantsRuntimeTypeError
from ._base.errors import QuadrantsSyntaxError as QuadrantsSyntaxError
from ._base.errors import QuadrantsTypeError as QuadrantsTypeError
from ._containers.axes import axes as axes
from ._containers.buffer_view import BufferView as BufferView
from ._containers.field import Field as Field
from ._containers.field import MatrixField as MatrixField
from ._containers.field import ScalarField as ScalarField
from ._containers.field import field as field
from ._containers.layout_tree import SNode as SNode
from ._containers.ndarray import MatrixNdarray as MatrixNdarray
from ._containers.ndarray import Ndarray as Ndarray
from ._containers.ndarray import ScalarNdarray as ScalarNdarray
from ._containers.ndarray import VectorNdarray as VectorNdarray
from ._containers.ndarray import from_dlpack as from_dlpack
from ._containers.ndarray import ndarray as ndarray
from ._containers.struct_field import StructField as StructField
from ._containers.tensor import Backend as Backend
from ._containers.tensor import MatrixTensor as MatrixTensor
from ._containers.tensor import Tensor as Tensor
from ._containers.tensor import VectorTensor as VectorTensor
from ._containers.tensor import tensor as tensor
from ._containers.tensor import wrap as wrap
from ._containers.unfinished_trees import FieldsBuilder as FieldsBuilder
from ._containers.unfinished_trees import root as root
from ._language.func import func as func
from ._language.func import pyfunc as pyfunc
from ._language.func import real_func as real_func
from ._language.kernel import data_oriented as data_oriented
from ._language.kernel import kernel as kernel
from ._language.kernel import kernel_from_source as kernel_from_source
from ._session.init import CRITICAL as CRITICAL
from ._session.init import DEBUG as DEBUG
from ._session.init import ERROR as ERROR
from ._session.init import INFO as INFO
from ._session.init import TRACE as TRACE
from ._session.init import WARN as WARN
from ._session.init import clock_freq_hz as clock_freq_hz
from ._session.init import cpu as cpu
from ._session.init import dump_compile_config as dump_compile_config
from ._session.init import extension as extension
from ._session.init import gpu as gpu
from ._session.init import init as init
from ._session.init import is_extension_enabled as is_extension_enabled
from ._session.init import is_logging_effective as is_logging_effective
from ._session.init import random_seed as random_seed
from ._session.init import reset as reset
from ._session.init import set_logging_level as set_logging_level
from ._session.init import sync as sync
from ._session.init import __version__ as __version__
from ._session.init import __version_str__ as __version_str__
from ._values.matrix import Matrix as Matrix
from ._values.matrix import Vector as Vector
from ._values.struct import Struct as Struct
from ._values.struct import dataclass as dataclass
from ._values.types import Layout as Layout
from ._values.types import ref as ref
from . import ad as ad
from . import algorithms as algorithms
from . import distributed as distributed
from . import experimental as experimental
from . import graph as graph
from . import gui as gui
from . import interop as interop
from . import linalg as linalg
from . import math as math
from . import memory as memory
from . import profiler as profiler
from . import simt as simt
from . import sparse as sparse
from . import tools as tools
from ._quantized.fields import BitpackedFields as BitpackedFields
from .types.enums import DeviceCapability as DeviceCapability
from ._session.streams import Event as Event
from .types.enums import Format as Format
from ._viz.gui import GUI as GUI
from ._language.checkpoints import GraphStatus as GraphStatus
from .lang.mesh import Mesh as Mesh
from .lang.mesh import MeshInstance as MeshInstance
from ._session.program import Program as Program
from ._session.streams import Stream as Stream
from ._library.math_functions import acosh as acosh
from ._sparse.trees import activate as activate
from ._sparse.trees import append as append
from ._library.math_functions import asinh as asinh
from ._library.math_functions import atanh as atanh
from ._session.disk_cache import cache_info as cache_info
from ._library.math_functions import cbrt as cbrt
from .linalg import cholesky as cholesky
from ._session.disk_cache import clear_cache as clear_cache
from ._session.reports import compile_report as compile_report
from ._library.math_functions import copysign as copysign
from ._session.streams import create_event as create_event
from ._session.streams import create_stream as create_stream
from ._sparse.trees import deactivate as deactivate
from ._sparse.host import deactivate_all_snodes as deactivate_all_snodes
from .linalg import eig as eig
from ._session.reports import explain_recompiles as explain_recompiles
from ._library.math_functions import expm1 as expm1
from ._library.indices import get_addr as get_addr
from ._library.math_functions import hypot as hypot
from ._sparse.trees import is_active as is_active
from ._sparse.trees import length as length
from ._containers.files import load as load
from ._library.math_functions import log10 as log10
from ._library.math_functions import log1p as log1p
from .linalg import lu as lu
from .linalg import make_spd as make_spd
from .lang.mesh import mesh_local as mesh_local
from .lang.mesh import mesh_patch_idx as mesh_patch_idx
from .simt._tiles import outer as outer
from ._session.perf_dispatch import perf_dispatch as perf_dispatch
from .linalg import polar_decompose as polar_decompose
from .lang.former import pure as pure
from .linalg import qr as qr
from .linalg import randn as randn
from ._library.indices import rescale_index as rescale_index
from ._containers.files import save as save
from .linalg import solve as solve
from .linalg import solve_spd as solve_spd
from .types import sparse_matrix_builder as sparse_matrix_builder
from .linalg import svd as svd
from .linalg import sym_eig as sym_eig
from ._session.streams import use_stream as use_stream
from ._containers.axes import Axis
i: list[Axis]
j: list[Axis]
k: list[Axis]
l: list[Axis]
ij: list[Axis]
ik: list[Axis]
il: list[Axis]
jk: list[Axis]
jl: list[Axis]
kl: list[Axis]
ijk: list[Axis]
ijl: list[Axis]
ikl: list[Axis]
jkl: list[Axis]
ijkl: list[Axis]
x64: Arch
arm64: Arch
cuda: Arch
metal: Arch
vulkan: Arch
amdgpu: Arch
python: Arch
x86_64: Arch
cfg: Config | None
def abs(x: Any) -> Any: ...
def sqrt(x: Any) -> Any: ...
def rsqrt(x: Any) -> Any: ...
def sin(x: Any) -> Any: ...
def cos(x: Any) -> Any: ...
def tan(x: Any) -> Any: ...
def asin(x: Any) -> Any: ...
def acos(x: Any) -> Any: ...
def atan(x: Any) -> Any: ...
def sinh(x: Any) -> Any: ...
def cosh(x: Any) -> Any: ...
def tanh(x: Any) -> Any: ...
def exp(x: Any) -> Any: ...
def exp2(x: Any) -> Any: ...
def log(x: Any) -> Any: ...
def log2(x: Any) -> Any: ...
def erf(x: Any) -> Any: ...
def erfc(x: Any) -> Any: ...
def floor(x: Any, dtype: Any = ...) -> Any: ...
def ceil(x: Any, dtype: Any = ...) -> Any: ...
def round(x: Any, dtype: Any = ...) -> Any: ...
def trunc(x: Any, dtype: Any = ...) -> Any: ...
def atan2(x1: Any, x2: Any) -> Any: ...
def raw_div(x1: Any, x2: Any) -> Any: ...
def raw_mod(x1: Any, x2: Any) -> Any: ...
def bit_shr(x1: Any, x2: Any) -> Any: ...
def pow(base: Any, exponent: Any) -> Any: ...
def ldexp(x: Any, n: Any) -> Any: ...
def fma(x: Any, y: Any, z: Any) -> Any: ...
def max(*args: Any) -> Any: ...
def min(*args: Any) -> Any: ...
def atomic_add(x: Any, y: Any, *, order: Any = ..., scope: Any = ...) -> Any: ...
def atomic_sub(x: Any, y: Any, *, order: Any = ..., scope: Any = ...) -> Any: ...
def atomic_mul(x: Any, y: Any, *, order: Any = ..., scope: Any = ...) -> Any: ...
def atomic_min(x: Any, y: Any, *, order: Any = ..., scope: Any = ...) -> Any: ...
def atomic_max(x: Any, y: Any, *, order: Any = ..., scope: Any = ...) -> Any: ...
def atomic_and(x: Any, y: Any, *, order: Any = ..., scope: Any = ...) -> Any: ...
def atomic_or(x: Any, y: Any, *, order: Any = ..., scope: Any = ...) -> Any: ...
def atomic_xor(x: Any, y: Any, *, order: Any = ..., scope: Any = ...) -> Any: ...
def atomic_exchange(x: Any, y: Any, *, order: Any = ..., scope: Any = ...) -> Any: ...
def frexp(x: Any) -> Any: ...
def select(cond: Any, x1: Any, x2: Any) -> Any: ...
def cast(obj: Any, dtype: Any) -> Any: ...
def bit_cast(obj: Any, dtype: Any) -> Any: ...
def zero(x: Any) -> Any: ...
def one(x: Any) -> Any: ...
def random(dtype: Any = ...) -> Any: ...
def clock_counter() -> Any: ...
def static(x: Any, *xs: Any, max_unroll: Any = ...) -> Any: ...
def static_assert(cond: Any, msg: Any = ...) -> Any: ...
def static_print(*args: Any, sep: Any = ..., end: Any = ..., file: Any = ...) -> Any: ...
def ndrange(*args: Any, axes: Any = ...) -> Any: ...
def grouped(x: Any) -> Any: ...
def zip(*args: Any) -> Any: ...
def loop_config(*, block_dim: Any = ..., parallelize: Any = ..., grid_dim: Any = ..., min_blocks: Any = ..., max_registers: Any = ..., serialize: Any = ..., persistent: Any = ..., block_dim_adaptive: Any = ..., bit_vectorize: Any = ..., name: Any = ...) -> Any: ...
def stream_parallel() -> Any: ...
def assume_in_range(val: Any, base: Any, low: Any, high: Any) -> Any: ...
def loop_unique(val: Any, covers: Any = ...) -> Any: ...
def block_local(*args: Any) -> Any: ...
def cache_read_only(*args: Any) -> Any: ...
def no_activate(*args: Any) -> Any: ...
def stop_grad(x: Any) -> Any: ...
def atomic_cas(x: Any, expected: Any, desired: Any, *, order: Any = ..., scope: Any = ...) -> Any: ...
def atomic_load(x: Any, *, order: Any = ..., scope: Any = ...) -> Any: ...
def atomic_store(x: Any, y: Any, *, order: Any = ..., scope: Any = ...) -> Any: ...
def volatile_load(target: Any) -> Any: ...
def graph_do_while(flag: Any) -> Any: ...
def checkpoint(cp_id: Any, yield_on: Any) -> Any: ...
def graph_parallel_context() -> Any: ...
def graph_parallel() -> Any: ...
def global_thread_idx() -> Any: ...

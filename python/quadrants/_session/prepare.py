"""The Python part of a launch without compiled code: checks the arguments, then compiles the kernel."""

from __future__ import annotations

import contextlib
import operator
import os
import sys
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from .. import _runtime
from .._base import logging as _logging
from .._base import options as _options
from .._base.dtypes import check_range, to_dtype, wrap_integer
from .._base.errors import QuadrantsRuntimeTypeError, QuadrantsSyntaxError, warn
from .._base.imports import load
from .._base.namespaces import is_dataclass
from .._base.source import get_kernel_source
from .._containers import foreign as _foreign
from .._containers import unfinished_trees
from .._containers.buffer_view import BufferView
from .._containers.container import ContainerMethods
from .._containers.device_arrays import find_device_array
from .._containers.field import Field
from .._containers.interop import element_dtype, find_array
from .._containers.ndarray import Ndarray, from_device
from .._containers.struct_field import StructField, StructNdarray
from .._language.parameters import Parameter, array_members, find_object_member
from .._values.matrix import Matrix, unwrap
from .._values.struct import Struct
from .._values.types import MatrixType, NdarrayType


def _load_compiler() -> ModuleType:
    """Loads the compiler's module on demand: it is most of the size of this package."""
    if "quadrants._compiler" not in sys.modules:
        # Loading it touches pages in the whole file: reading an uncached file in one go halves the time.
        with contextlib.suppress(OSError, AttributeError), open(_runtime.__file__.replace("_runtime", "_compiler"), "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_WILLNEED)
    return load("quadrants._compiler")


def compile_kernel(kernel: Any, arguments: tuple[Any, ...]) -> tuple[bytes, list[tuple[str, float]]]:
    """Returns the serialized artifact of a kernel for these arguments, and the compiler's stages with their seconds.

    Loads the compiler: processes that find all kernels on disk never call it.
    """
    if _options.get("print_non_pure") and not kernel.is_pure:
        print(f"[NOT_PURE] kernel not declared with fastcache=True: {kernel.__qualname__}")
    if _options.get("show_compiling"):
        code = kernel.function.__code__
        _logging.info(f"compiling kernel {kernel.name} ({code.co_filename}:{code.co_firstlineno})")
    options = _options.plain(_options.current or {})
    place = _runtime.target(), _runtime.cache_scope()
    coverage: Any = sys.modules.get("quadrants._session.coverage")
    without_probes = coverage.without_probes() if coverage is not None and kernel.mode else contextlib.nullcontext()
    # Only cells of a notebook have a line that shows the progress.
    shown = load("quadrants._session.progress").shown_in_notebook(kernel.name) if "IPython" in sys.modules else contextlib.nullcontext()
    with without_probes, shown:
        source = get_kernel_source(kernel)
        if _options.get("print_ir"):
            print(_load_compiler().frontend_ir(source, kernel.parameters, arguments, kernel.results, options, kernel.mode)[0])
        return _load_compiler().compile(source, kernel.parameters, arguments, kernel.results, options, *place, kernel.mode)


def prepare(kernel: Any, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """Returns the arguments, checked against their annotations, in the form that launches accept."""
    _options.check_runtime()
    unfinished_trees.check_all_placed()
    prepared = []
    for position, (parameter, value) in enumerate(zip(kernel.parameters, arguments, strict=True)):
        value = value._impl if isinstance(value, _runtime.TensorBase) else value
        if parameter.optional and value is None:
            prepared.append(None)
            continue
        if position == 0 and kernel._is_classkernel and parameter.annotation is None:
            cls = value if isinstance(value, type) else type(value)
            if not getattr(cls, "_data_oriented", False):
                raise QuadrantsSyntaxError(f"Please decorate class {cls.__name__} with @qd.data_oriented")
        prepared.append(_fit(kernel, parameter, position, value))
    return tuple(prepared)


def _fit(kernel: Any, parameter: Parameter, position: int, value: Any) -> Any:
    if _foreign.is_tensor(value):
        _foreign.make_gradient(value)
    if isinstance(value, (Ndarray, StructNdarray)):
        _ = value._live_shape  # raises if it has no memory
    try:
        prepared = _PREPARE[parameter.kind](parameter, position, value)
    except (TypeError, ValueError) as problem:
        if parameter.kind in ("array", "view", "tensor", "template"):
            problem.args = (_in_context(str(problem), kernel, parameter, value),)
        raise
    for member, given in array_members(value, parameter.name) if parameter.kind == "dataclass" else ():
        given = given._impl if isinstance(given, _runtime.TensorBase) else given
        # Members that a kernel does not use may be None, and fields are accepted as arrays.
        if given is not None and not isinstance(given, (Field, StructField)):
            _fit(kernel, member, position, given)
    return prepared


def _in_context(message: str, kernel: Any, parameter: Parameter, value: Any) -> str:
    """Returns the message with the kernel, the argument and its annotation."""
    given = type(value).__name__
    with contextlib.suppress(Exception):  # the value may have no type or shape, or raise when they are read
        given += f" of {_provided(value) if isinstance(value, ContainerMethods) else value.dtype} with shape {tuple(value.shape)}"
    head = f"exception while trying to ensure compiled kernel {kernel.__qualname__}:"
    return f"{head}\n{message} ({parameter.name} is a {given}; its annotation is {parameter.annotation or 'qd.template()'!r})"


def _refuse(position: int, value: Any, wanted: Any, parameter: Parameter) -> Exception:
    remedy = "; annotate fields with qd.template() or qd.Tensor" if isinstance(value, (Field, StructField)) else ""
    reason = f"cannot be converted into required type {wanted} (parameter {parameter.name!r}){remedy}"
    return QuadrantsRuntimeTypeError(f"Argument ({position},) (type={type(value)}) {reason}")


def _invalid(parameter: Parameter, problem: str) -> Exception:
    return ValueError(f"Invalid value for argument {parameter.name} - {problem}")


def _fits(wanted: Sequence[int | None], shape: Sequence[int]) -> bool:
    """Whether a shape matches the wanted one, where None matches any extent."""
    return len(wanted) == len(shape) and all(want in (None, have) for want, have in zip(wanted, shape, strict=True))


def _prepare_scalar(parameter: Parameter, position: int, value: Any) -> Any:
    dtype: Any = parameter.dtype
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    try:
        if dtype.is_real:
            return float("" if isinstance(value, (str, bytes, bytearray, np.ndarray, np.complexfloating)) else value)
        number = int(value) if isinstance(value, np.bool_) else operator.index(value)
    except (TypeError, ValueError, RuntimeError):
        raise _refuse(position, value, dtype, parameter) from None
    except OverflowError:
        raise QuadrantsRuntimeTypeError(f"Argument {parameter.name!r} is out of the range of {dtype}") from None
    if dtype.name != "u1" and wrap_integer(number, dtype) != number:
        raise QuadrantsRuntimeTypeError(f"Argument {parameter.name!r} = {number} is out of the range of {dtype}")
    return value


def _prepare_matrix(parameter: Parameter, position: int, value: Any) -> Any:
    kind: MatrixType = parameter.annotation
    try:
        array = np.asarray(unwrap(value))
    except ValueError:
        raise _refuse(position, value, kind, parameter) from None
    if isinstance(value, (str, bytes, Struct, ContainerMethods)) or array.dtype.kind not in "fiub" or array.ndim == 0:
        raise _refuse(position, value, kind, parameter)
    if kind.ndim == 1 and array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if not _fits(kind.shape, array.shape):
        expected = f"an element of shape {kind.shape} is expected"
        raise QuadrantsRuntimeTypeError(f"Argument {parameter.name!r}: {expected}, got one of shape {array.shape}")
    if kind.dtype is not None and kind.dtype.is_integral:
        if array.dtype.kind == "f":
            raise _refuse(position, value, kind.dtype, parameter)
        with as_argument(parameter.name):
            check_range(array, kind.dtype)
    return value if isinstance(value, Matrix) and value.ndim == kind.ndim else Matrix(array, kind.dtype)


def _prepare_struct(parameter: Parameter, position: int, value: Any) -> Any:
    if not isinstance(value, (dict, Struct)):
        raise _refuse(position, value, parameter.annotation, parameter)
    entries = value if isinstance(value, dict) else value.entries
    if set(entries) != set(parameter.annotation.members):
        members = f"members {', '.join(entries)} given, {', '.join(parameter.annotation.members)} expected"
        raise QuadrantsRuntimeTypeError(f"Argument {type(value)} cannot be converted into required type {parameter.annotation} ({members})")
    try:
        with as_argument(parameter.name):
            return parameter.annotation(value)
    except (QuadrantsSyntaxError, TypeError, ValueError) as problem:
        if isinstance(problem, QuadrantsRuntimeTypeError):
            raise
        wanted = f"cannot be converted into required type {parameter.annotation}"
        raise QuadrantsRuntimeTypeError(f"Argument {type(value)} {wanted} ({problem})") from None


@contextlib.contextmanager
def as_argument(name: str) -> Iterator[None]:
    """Reports a number out of range as a wrong argument."""
    try:
        yield
    except OverflowError as error:
        raise QuadrantsRuntimeTypeError(f"Argument {name!r}: {error}") from None


def _prepare_template(parameter: Parameter, position: int, value: Any) -> Any:
    if isinstance(value, Ndarray) and not isinstance(value, BufferView):
        remedy = "please annotate your kernel using `qd.types.ndarray(...)` instead"
        raise QuadrantsRuntimeTypeError(f"Ndarray shouldn't be passed in via `qd.template()`, {remedy}")
    if isinstance(value, float) and _options.get("raise_on_templated_floats"):
        raise ValueError("Floats not allowed as templated types.")
    if is_dataclass(type(value)) and not hasattr(type(value), "_data_oriented"):
        text = f"parameter {parameter.name!r}: a dataclass that is passed to a qd.Template-annotated kernel parameter is a constant"
        warn(f"{text}. Annotate it with {type(value).__name__}, and its members are read at each launch", DeprecationWarning)
    return value


def _prepare_tensor(parameter: Parameter, position: int, value: Any) -> Any:
    if isinstance(value, (Field, Ndarray, StructField)):
        return value
    return value if (external := _find_external(parameter, value)) is None else external


def _prepare_dataclass(parameter: Parameter, position: int, value: Any) -> Any:
    if not isinstance(value, parameter.annotation):
        expected = f"an instance of {parameter.annotation.__name__} is expected"
        raise QuadrantsRuntimeTypeError(f"Argument {parameter.name!r}: {expected}, got {type(value).__name__}")
    if (member := find_object_member(parameter.annotation, parameter.annotation.__name__)) is not None:
        raise QuadrantsSyntaxError(f"{member} is of a data_oriented class: pass the object as an argument annotated qd.template()")
    return value


def _prepare_array(parameter: Parameter, position: int, value: Any) -> Any:
    wanted = parameter.annotation
    if isinstance(value, StructNdarray):
        if wanted.dtype not in (None, value._type):
            raise _invalid(parameter, f"required element type: {wanted.dtype}, but {value._type} is provided")
        _check_ndim(parameter, value)
        return value
    if isinstance(value, (Field, StructField, np.generic)):
        raise _refuse(position, value, parameter.annotation, parameter)
    if isinstance(value, Ndarray):
        _check_ndarray(parameter, value)
        return value
    external = _find_external(parameter, value)
    if external is None:
        raise QuadrantsRuntimeTypeError(
            f"Invalid type for argument {parameter.name}, got {value!r}: an ndarray or a NumPy array is expected"
        )
    return external


def _prepare_view(parameter: Parameter, position: int, value: Any) -> Any:
    if isinstance(value, (Ndarray, Field)):
        _check_ndarray(parameter, value)
        return value
    external = None if isinstance(value, (StructField, np.generic)) else _find_external(parameter, value)
    if external is None:
        raise QuadrantsRuntimeTypeError(f"Argument {parameter.name} expects a BufferView, got {type(value).__name__}")
    return external


def _find_external(parameter: Parameter, value: Any) -> Any:
    """Returns an array of another library, checked, or None. A torch tensor with a gradient stays a tensor."""
    found = find_device_array(value, parameter.name)
    array = find_array(value, parameter.name) if found is None else found.make_stand_in()
    if array is None:
        return None
    has_grad = _has_gradient(value)
    element_shape = _check_external(parameter, array, has_grad)
    if has_grad:
        return value
    return array if found is None else from_device(found, element_shape)


def _has_gradient(value: Any) -> bool:
    """Whether `value` is a torch tensor, as launches read it, with a gradient."""
    is_of_torch = hasattr(type(value), "__dlpack_c_exchange_api__")
    # Torch warns when the gradient of another tensor is read.
    return is_of_torch and _foreign.requires_grad(value) and _foreign.grad_of(value) is not None


def _provided(value: ContainerMethods) -> str:
    shape = " ".join(map(str, value.element_shape))
    return f"[Tensor ({shape}) {value.dtype}]" if value.element_shape else str(value.dtype)


def _check_ndim(parameter: Parameter, value: Ndarray | Field | StructNdarray) -> None:
    shape = value._live_shape  # another thread may have reset the runtime since the last line
    if parameter.annotation.ndim not in (None, len(shape)):
        given = f"{len(shape)}d ndarray with shape {shape}"
        raise _invalid(parameter, f"required ndim={parameter.annotation.ndim}, but {given} is provided")
    _check_extents(parameter, parameter.annotation, shape)


def _check_extents(parameter: Parameter, annotation: NdarrayType, shape: tuple[int, ...]) -> None:
    if annotation.shape is not None and not _fits(annotation.shape, shape):
        raise _invalid(parameter, f"required shape={annotation.shape}, but one of shape {shape} is provided")


def _check_ndarray(parameter: Parameter, value: Ndarray | Field) -> None:
    annotation = parameter.annotation
    wanted = annotation.dtype
    if isinstance(wanted, MatrixType):
        if not _fits(wanted.shape, value.element_shape) or wanted.dtype not in (None, value._dtype):
            raise _invalid(parameter, f"required element type: {wanted}, but {_provided(value)} is provided")
    elif wanted is not None and (value.element_shape or value._dtype is not to_dtype(wanted)):
        raise TypeError(f"Expect element type {to_dtype(wanted)} for argument {parameter.name}, but get {_provided(value)}")
    _check_ndim(parameter, value)
    if annotation.needs_grad and not value.has_grad():
        raise _invalid(parameter, "required needs_grad=True, but False is provided")


def _check_external(parameter: Parameter, array: np.ndarray, has_grad: bool) -> tuple[int, ...]:
    """Returns the shape of the elements of an array of another library: its last axes."""
    annotation = parameter.annotation or _ANY
    given, wanted = element_dtype(array, parameter.name), annotation.dtype
    scalar, element_shape = (wanted.dtype, wanted.shape) if isinstance(wanted, MatrixType) else (wanted, ())
    if scalar is not None and to_dtype(scalar) is not given:
        remedy = f"convert it, or write {given} in the annotation"
        raise _invalid(parameter, f"required array has dtype={to_dtype(scalar)}, array with dtype={given} is provided: {remedy}")
    if max(array.shape, default=0) >= 2**31:
        raise _invalid(parameter, f"extents are at most 2147483647, array of shape {array.shape} is provided")
    element_dim = len(element_shape)
    if annotation.ndim is not None and array.ndim != annotation.ndim + element_dim:
        elements = f" element_dim={element_dim}" if element_dim else ""
        raise _invalid(parameter, f"required array has ndim={annotation.ndim}{elements}, array with {array.ndim} dimensions is provided")
    rank = array.ndim - element_dim
    _check_extents(parameter, annotation, array.shape[:rank])
    have = array.shape[rank:]
    if not _fits(element_shape, have):
        raise _invalid(parameter, f"required element_shape={element_shape}, array with element shape of {have} is provided")
    if annotation.needs_grad and not has_grad:
        raise _invalid(parameter, "required needs_grad=True, but the array has no gradient")
    packed = np.empty(have, np.int8).strides
    if array.size and array.strides[rank:] != tuple(step * array.itemsize for step in packed):
        where = f"those of argument {parameter.name} have strides {array.strides}"
        raise ValueError(f"Non contiguous numpy arrays are not supported as elements: {where}")
    if not array.flags.aligned:
        raise ValueError(f"the elements of argument {parameter.name} are not aligned: pass a copy")
    return have


_ANY = NdarrayType()  # requirements on the argument of a tensor parameter
_PREPARE = {
    "scalar": _prepare_scalar,
    "matrix": _prepare_matrix,
    "struct": _prepare_struct,
    "template": _prepare_template,
    "tensor": _prepare_tensor,
    "dataclass": _prepare_dataclass,
    "array": _prepare_array,
    "view": _prepare_view,
}

"""The package's own objects as the interpreter sees them: containers, host vectors and structs, types, funcs, arguments and results."""

from __future__ import annotations

import dataclasses
import difflib
import inspect
import itertools
import operator
import weakref
from collections.abc import Iterable, Iterator
from types import MethodType
from typing import Any

import numpy as np

from quadrants import _func, _parameters, _runtime, _types
from quadrants._buffer_view import BufferView
from quadrants._dtypes import BF16_BITS, DATA_TYPES, bf16, f32, from_bf16, to_bf16, to_dtype, to_memory_dtype, to_numpy_dtype
from quadrants._errors import (
    QuadrantsAttributeError,
    QuadrantsCompilationError,
    QuadrantsReturnTypeError,
    QuadrantsRuntimeTypeError,
    QuadrantsSyntaxError,
    QuadrantsTypeError,
)
from quadrants._interop import find_array
from quadrants._matrix import Matrix
from quadrants._snode import SNode
from quadrants._source import get_source
from quadrants._struct import Struct, StructField, StructType

from . import scalars, values
from .rewrite import Rewriter, TypesRewriter, rewrite
from .scalars import NAMES, cast, typed
from .tracking import Memory
from .values import StructValue, Tensor, Vec, new_place, read, write

CONTAINERS = (_runtime.FieldBase, _runtime.NdarrayBase, StructField)
TYPES = (_types.DataType, _types.MatrixType, StructType)  # what constructs a typed value when called
_NUMPY_DTYPES = {dtype: to_numpy_dtype(dtype) for dtype in DATA_TYPES}
_MAX_DEPTH = 200
_rewritten: weakref.WeakKeyDictionary[Any, dict[type[Rewriter], Any]] = weakref.WeakKeyDictionary()
_as_funcs: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
_depth = 0
_ROLES = {"template": "place", "struct": "value"}


def dtype_of(kind: Any) -> Any:
    """The NumPy dtype of a data type of the language, or None."""
    if isinstance(kind, _types.DataType):
        return _NUMPY_DTYPES[kind]
    found = None if isinstance(kind, TYPES) else _types.find_dtype(kind)
    return None if found is None else _NUMPY_DTYPES[found]


def check_dtype(kind: Any) -> np.dtype:
    """As `dtype_of`; raises for what is no data type."""
    found = dtype_of(kind)
    if found is None:
        raise QuadrantsTypeError(f"Invalid data type {kind!r}")
    return found


# containers and constants


def tensor_of(container: Any, label: str = "", shape: tuple[int, ...] | None = None, owner: Any = None) -> Tensor:
    """The memory of a container, or of an array argument whose batch shape is `shape`; `owner` is what has its gradient."""
    if isinstance(container, np.ndarray):
        memory = scalars.memory(container, owner, f"argument {label}")
        return Tensor(memory, container.shape if shape is None else shape, label, dynamic=True)
    if isinstance(container, StructField):
        members = {name: tensor_of(member) for name, member in container.field_dict.items()}
        origin = next(iter(members.values())).origin
        return Tensor(members, container.shape, "struct", container.struct_methods, origin=origin)
    if not label and getattr(container, "_primal", None) == "grad":
        scalars.refuse_gradients()
    view = container.view()
    dynamic = isinstance(container, _runtime.NdarrayBase)
    kind = values.HostView if isinstance(container, BufferView) else Tensor
    memory = scalars.memory(view, container, container._name or f"argument {label}")
    tensor = kind(memory, container.shape, label or f"S<{NAMES[view.dtype]}>", dynamic=dynamic, origin=container._offset)
    tensor.owner = container
    return tensor


def cells(node: SNode) -> Iterator[tuple[int, ...]]:
    """The indices of all cells of a node, the last axis fastest."""
    return itertools.product(*(range(*ends) for ends in node._box))


def constant(value: Any) -> Any:
    """Host vectors and structs as values of the kernel, a copy; the container behind a `qd.Tensor`; anything else as it is."""
    if isinstance(value, _runtime.TensorBase):
        return value._impl
    if isinstance(value, Matrix):
        dtype = dtype_of(value.dtype) if value.dtype is not None else None
        return Vec(cast(value._array, dtype).copy()) if dtype is not None else values.make_vector(value._array.tolist(), None)
    if isinstance(value, Struct):
        if value._type is not None:
            return struct_of(value._type, (), value.entries)
        return StructValue({name: new_place(constant(item)) for name, item in value.entries.items()})
    return value


def with_plain_numbers(value: Any) -> Any:
    """A list, tuple or dict from outside, with Python's numbers for NumPy's; itself where it has none."""
    if isinstance(value, np.generic):
        return value.item()
    if type(value) in (list, tuple):
        items = [with_plain_numbers(item) for item in value]
        return value if all(map(operator.is_, items, value)) else type(value)(items)
    if type(value) is dict:
        made = {key: with_plain_numbers(item) for key, item in value.items()}
        return value if all(made[key] is value[key] for key in value) else made
    return value


def closest(name: str, candidates: Iterable[str]) -> str | None:
    """The name that a misspelled one may mean, or None."""
    near = difflib.get_close_matches(name, [candidate for candidate in candidates if not candidate.startswith("_")], 1)
    return near[0] if near else None


def member(base: Any, name: str, rule: str | None = None) -> Any:
    """An attribute of a Python object; scalar members of dataclass arguments (`rule` "annotated") have their annotated type."""
    base = base.owner if isinstance(base, Tensor) else base
    try:
        value = getattr(base, name)
    except AttributeError as error:
        text = str(error)
        if dataclasses.is_dataclass(base):
            members = ", ".join(field.name for field in dataclasses.fields(base))
            text = f"type object '{type(base).__name__}' has no attribute '{name}' (members: {members})"
        near = closest(name, dir(base)) if "did you mean" not in text else None
        text += f"; did you mean '{near}'?" if near else ""
        raise QuadrantsAttributeError(text) from None
    if dataclasses.is_dataclass(base) and not isinstance(base, type):
        annotation = _annotations(type(base)).get(name)
        dtype = dtype_of(annotation)
        if dtype is not None and scalars.is_number(value) and (rule == "annotated" or not isinstance(value, (bool, int, float))):
            if isinstance(value, float) and dtype.kind in "biu":
                given = f"{type(base).__name__}.{name} (type={type(value)})"
                raise QuadrantsRuntimeTypeError(f"Argument {given} cannot be converted into required type {NAMES[dtype]}")
            return np.array(cast_argument(value, dtype))
        if isinstance(annotation, (_types.MatrixType, StructType)):
            return convert(constant(value), annotation)
        if isinstance(annotation, _types.NdarrayType) or annotation is BufferView:
            return with_known_extents(array_argument(value, annotation, name), annotation)
    return value


def companion(base: Any, name: str) -> Any:
    """The gradient or tangent of a container, or None; arrays of other libraries must have one."""
    owner = base.owner if isinstance(base, Tensor) else base
    if not isinstance(owner, CONTAINERS) and not hasattr(owner, name):
        raise without_companion(base, name)
    return getattr(owner, name)


def without_companion(base: Any, name: str) -> Exception:
    """What is wrong with the use of a gradient or tangent that a container does not have."""
    storage = "gradient" if name == "grad" else "tangent"
    why = f"Gradient .{name} has not been placed, check whether `needs_{name}=True`"
    return QuadrantsTypeError(f"argument {getattr(base, 'label', '')} has no {storage}: {why}")


def members_rule(base: Any) -> str | None:
    """What numbers among the members of an object are, and of those that it reaches: "baked" or read at each "launch"; None: its class
    does not say."""
    bakes = getattr(type(base), "_qd_template_primitives", None)
    return None if bakes is None else "baked" if bakes else "launch"


def has_members(value: Any) -> bool:
    """Whether a member is an object whose members follow the rule of its owner."""
    return not isinstance(value, type) and (dataclasses.is_dataclass(value) or hasattr(type(value), "_qd_template_primitives"))


def _annotations(owner: Any) -> dict[str, Any]:
    try:
        return inspect.get_annotations(owner, eval_str=True)
    except Exception:  # an annotation may name what only a checker of types imports
        return {}


def describe(parameter: Any, value: Any) -> str:
    """What a kernel is compiled for: the type of an argument, or its value where it is one that is known while compiling."""
    if parameter.kind in ("scalar", "matrix", "struct"):
        return str(parameter.annotation)
    if isinstance(value, CONTAINERS):
        value = tensor_of(value)
    if not isinstance(value, Tensor):
        return type(value).__name__ if parameter.kind == "dataclass" or hasattr(value, "__dlpack__") else repr(value)
    dtype = "struct" if isinstance(value.data, dict) else NAMES[value.data.dtype]
    extents = str(("any",) * len(value.shape) if value.dynamic else value.shape).replace("'", "")
    return f"{'array' if value.dynamic else 'field'} of {dtype} {extents}"


# types and conversions


def convert(value: Any, kind: Any) -> Any:
    """A value converted to a type of the language; types that say nothing about values leave it alone."""
    dtype = dtype_of(kind)
    if kind is bf16:
        return values.elementwise(lambda x: from_bf16(to_bf16(x))[()], "cast", convert(value, f32))
    if dtype is not None:
        if isinstance(value, np.generic):
            return cast(value, dtype)
        if isinstance(value, StructValue):
            raise QuadrantsTypeError(f"cannot convert '{value.tensor_type()}' to {NAMES[dtype]}")
        return values.elementwise(lambda x: cast(x, dtype), "cast", typed(value, dtype) if scalars.is_number(value) else value)
    if isinstance(kind, _types.MatrixType):
        return _to_matrix(value, kind)
    if isinstance(kind, StructType):
        if dataclasses.is_dataclass(value):
            value = {field.name: member(value, field.name) for field in dataclasses.fields(value)}
        return struct_of(kind, (), value.members if isinstance(value, StructValue) else value)
    return value


def _to_matrix(value: Any, kind: Any) -> Vec:
    value = values.as_vector(value)
    if not isinstance(value, Vec):
        raise QuadrantsTypeError(f"is expected to be a Matrix, but got {scalars.type_name(value)}")
    if value.data.ndim != kind.ndim:
        raise QuadrantsTypeError(f"is expected to be a Matrix with ndim {kind.ndim}, but got {value.data.ndim}")
    for name, extent, wanted in zip("nm", value.data.shape, kind.shape, strict=False):
        if wanted not in (None, extent):
            raise QuadrantsTypeError(f"is expected to be a Matrix with {name} {wanted}, but got {extent}")
    return Vec((value if kind.dtype is None else convert(value, kind.dtype)).data.copy())


def _statics(kind: StructType) -> dict[str, Any]:
    return {name: staticmethod(value) for name, value in kind.statics.items()}


def zero(kind: Any) -> Any:
    """A zeroed place of a type."""
    if isinstance(kind, StructType):
        return StructValue({name: zero(member_type) for name, member_type in kind.members.items()}, {**kind.methods, **_statics(kind)})
    is_matrix = isinstance(kind, _types.MatrixType)
    made = np.zeros(kind.shape if is_matrix else (), to_memory_dtype(to_dtype(kind.dtype if is_matrix else kind)))
    made = values.Rounding.of(made) if made.dtype == BF16_BITS else made
    return Vec(made) if is_matrix else made if isinstance(made, values.Rounding) else scalars.adopt(made)


def struct_of(kind: Any, positional: tuple[Any, ...], named: Any) -> StructValue:
    """A struct value: members by position, then by name; the rest is zero."""
    given = {**kind.defaults, **dict(zip(kind.members, positional, strict=False)), **dict(named)}
    unknown = [name for name in given if name not in kind.members]
    if unknown or len(positional) > len(kind.members):
        raise QuadrantsSyntaxError(f"{kind.name} has the members {list(kind.members)}, got {unknown or len(positional)}")
    result = zero(kind)
    for name, value in given.items():
        value = constant(value)
        write(result.members[name], convert(value, kind.members[name]) if dataclasses.is_dataclass(value) else value)
    return result


def construct(kind: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """A call of a type inside a kernel."""
    if isinstance(kind, StructType):
        return struct_of(kind, arguments, keywords)
    if isinstance(kind, _types.MatrixType):
        return _construct_matrix(kind, arguments)
    if len(arguments) != 1 or keywords:
        raise QuadrantsSyntaxError("A primitive type can only decorate a single expression.")
    value, dtype = arguments[0], dtype_of(kind)
    if not scalars.is_number(value):
        raise QuadrantsSyntaxError("A primitive type cannot decorate an expression with a compound type.")
    if isinstance(value, np.generic) or kind is bf16:
        return convert(value, kind)
    text = "literals must be annotated with a {} type. For type casting, use `qd.cast`."
    if isinstance(value, bool):
        return cast(np.bool_(value), dtype)
    if isinstance(value, float) and dtype.kind != "f":
        raise QuadrantsTypeError("Floating-point " + text.format("floating-point"))
    if isinstance(value, int) and dtype.kind == "f" and int(dtype.type(value)) != value:
        raise QuadrantsTypeError("Integer " + text.format("integer"))
    if isinstance(value, int) and dtype.kind in "iu" and not scalars.fits(value, dtype):
        raise QuadrantsTypeError(f"Integer literal {value} exceeded the range of specified dtype: {NAMES[dtype]}")
    return dtype.type(value)


def construct_dataclass(host: Any, kind: StructType, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> StructValue:
    """A call of a dataclass inside a kernel: a struct with its members."""
    given = {**dict(zip(kind.members, arguments, strict=False)), **keywords}
    if len(arguments) > len(kind.members):
        raise QuadrantsSyntaxError(f"Too many arguments for {host!r}")
    for name in given:
        if name not in kind.members:
            raise QuadrantsSyntaxError(f"Unexpected argument '{name}'.")
    for field in dataclasses.fields(host):
        if field.name not in given and field.default is dataclasses.MISSING:
            raise QuadrantsSyntaxError(f"Missing argument '{field.name}'.")
        given.setdefault(field.name, field.default)
    return struct_of(kind, (), given)


def _construct_matrix(kind: Any, arguments: tuple[Any, ...]) -> Vec:
    def flatten(value: Any) -> list[Any]:
        if isinstance(value, (list, tuple)):
            return [number for item in value for number in flatten(item)]
        made = convert(value, kind.dtype)
        return list(made.data.reshape(-1)) if isinstance(made, Vec) else [made]

    flat, count = flatten(arguments), int(np.prod(kind.shape))
    if len(flat) not in (1, count):
        raise QuadrantsSyntaxError(f"{kind!r} takes {count} values, got {len(flat)}")
    return Vec(np.resize(np.stack(flat), kind.shape))


# functions


def is_func(value: Any) -> bool:
    """True for `@qd.func` functions and methods."""
    # Since Python 3.13 a class method binds what it holds by itself.
    return isinstance(value, (_func.Func, _func.BoundFunc)) or isinstance(getattr(value, "__func__", None), _func.Func)


def as_func(function: Any) -> Any:
    """A function of Python as if it were decorated with `@qd.func`."""
    if function not in _as_funcs:
        _as_funcs[function] = _func.Func(function)
    return _as_funcs[function]


def bind(method: Any, struct: Any) -> Any:
    """A method of a struct type with its struct; what is static stays as it is."""
    if isinstance(method, staticmethod):
        return method.__func__
    return _func.BoundFunc(method, struct) if isinstance(method, _func.Func) else method.__get__(struct)


def parts_of(func: Any) -> tuple[Any, tuple[Any, ...]]:
    """The func itself, and the object that it is bound to."""
    if isinstance(func, MethodType):
        return func.__func__, (func.__self__,)
    return (func.func, (func.instance,)) if isinstance(func, _func.BoundFunc) else (func, ())


def by_reference(callee: Any) -> Any:
    """Which arguments a callee takes by reference: a predicate of a position or keyword."""
    name = getattr(callee, "_qd_builtin", None)
    if name is not None:
        return lambda position: position == 0 and name.startswith("atomic_")
    if not is_func(callee):
        return lambda _: False
    func, bound = parts_of(callee)
    parameters = enumerate(func.parameters[len(bound) :])
    return {
        key for position, parameter in parameters if parameter.kind in ("template", "ref") for key in (position, parameter.name)
    }.__contains__


def executable(function: Any, parameters: Any, others: str, evaluator: Any, rewriter: type[Rewriter] = Rewriter) -> Any:
    """The rewritten form of a function; `others` is the role of its parameters that are neither templates nor structs."""
    forms = _rewritten.setdefault(function, {})
    if rewriter not in forms:
        roles = {parameter.name: _ROLES.get(parameter.kind, others) for parameter in parameters}
        forms[rewriter] = rewrite(get_source(function), roles, by_reference, evaluator, others == "parameter", rewriter)
    return forms[rewriter]


def call_func(evaluator: Any, callee: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """A call of a func: copies what it takes by value, passes places for what it takes by reference."""
    global _depth  # under the lock of the launch
    func, bound = parts_of(callee)
    if func.requires_top_level and evaluator.nested:
        name = getattr(func, "__name__", func.name)
        raise QuadrantsSyntaxError(f"`{name}` is decorated with requires_top_level=True and must be called at the top level")
    given: Any = (*bound, *arguments)
    if keywords or len(given) != len(func.parameters) or any(parameter.is_named for parameter in func.parameters):
        given = _parameters.bind(func.parameters, given, keywords)
    passed = [_passed(evaluator, parameter, value) for parameter, value in zip(func.parameters, given, strict=False)]
    if evaluator.dry and func.is_real_function:  # a recursion whose end is not computed would not end
        return _zero_result(func.results)
    if _depth >= _MAX_DEPTH and not func.is_real_function:
        raise QuadrantsCompilationError(f"recursive call of the func {func.name}: use qd.real_func for recursion")
    _depth += 1
    try:
        result = executable(func.function, func.parameters, "value", evaluator)(*passed)
        if func.results is not None:
            return converted_result(result, func.results)
        if func.is_real_function and result is not None:
            raise QuadrantsSyntaxError("A function with a return value must be annotated with a return type, e.g. def func() -> qd.f32")
        visit_returns = executable(func.function, func.parameters, "value", evaluator, TypesRewriter)
        return evaluator.common_result(result, visit_returns, passed) if visit_returns else result
    finally:
        _depth -= 1


def _passed(evaluator: Any, parameter: Any, value: Any) -> Any:
    if parameter.kind in ("template", "ref"):
        return read(value) if evaluator.dry else value  # nothing is stored when only types are wanted
    value = read(value)
    if parameter.kind in ("array", "view") and (tensor := evaluator.tensor(value)) is not None:
        return _checked_array(parameter, tensor)
    if parameter.kind in ("scalar", "matrix", "struct"):
        value = convert(value, parameter.annotation)
    return typed(value) if isinstance(value, (bool, int, float)) else value


def passed_as(evaluator: Any, name: str, annotation: Any, value: Any) -> Any:
    """An argument for a parameter with an annotation."""
    kind, annotation, _ = _parameters._classify(annotation)
    return _passed(evaluator, _parameters.Parameter(name, kind or "value", annotation), value)


def _checked_array(parameter: Any, tensor: Tensor) -> Tensor:
    wanted, rank = parameter.annotation, len(tensor.shape)
    if not isinstance(tensor.data, dict):
        element, have = wanted.dtype, tensor.data.dtype
        scalar = element.dtype if isinstance(element, _types.MatrixType) else element
        is_other = scalar is not None and not isinstance(scalar, StructType) and to_memory_dtype(to_dtype(scalar)) != have
        if is_other or wanted.ndim not in (None, rank):
            raise QuadrantsTypeError(
                f"Argument {parameter.name} with element '{NAMES[have]}' and {rank} axes is not recognized. {wanted!r} is expected"
            )
    return tensor.clamped(wanted)


def _zero_result(results: list[Any] | None) -> Any:
    if results is None:
        return None
    made = [read(zero(kind)) for kind in results]
    return tuple(made) if len(made) > 1 else made[0]


def converted_result(value: Any, results: list[Any]) -> Any:
    """A returned value, or a tuple of them, in the annotated types."""
    if value is None:
        raise QuadrantsReturnTypeError("the function does not return a value on every path")
    if len(results) == 1 and not isinstance(value, tuple):
        return _converted_item(value, results[0])
    count = len(value) if isinstance(value, (tuple, list)) else 1
    if count != len(results):
        raise QuadrantsSyntaxError(f"the return annotation has {len(results)} values, the return statement {count}")
    return tuple(map(_converted_item, value, results))


def _converted_item(value: Any, kind: Any) -> Any:
    """A returned value in its annotated type: of a matrix the shape is that of the annotation, and no float becomes an integer."""
    given, is_matrix = values.as_vector(value), isinstance(kind, _types.MatrixType)
    if isinstance(given, Vec) and is_matrix:
        if given.data.ndim != kind.ndim:
            raise QuadrantsReturnTypeError(f"Return matrix ndim mismatch, expecting={kind.ndim}, got={given.data.ndim}.")
        if given.data.shape != kind.shape:
            raise QuadrantsReturnTypeError(f"Return matrix shape mismatch, expecting={kind.shape}, got={given.data.shape}.")
    wanted = dtype_of(kind.dtype if is_matrix else kind)
    narrows = isinstance(given, Vec) and wanted is not None and wanted.kind in "biu" and given.data.dtype.kind == "f"
    if wanted is not None and (isinstance(given, Vec) != is_matrix or narrows):
        raise QuadrantsReturnTypeError(f"Return (type={scalars.type_name(given)}) cannot be converted into required type {NAMES[wanted]}")
    return convert(given, kind)


# arguments and results


def cast_argument(value: Any, dtype: np.dtype) -> Any:
    """A scalar argument in its parameter's type: integers wrap, floats are rounded."""
    if dtype.kind == "f" or dtype == scalars.U1:
        return dtype.type(value)
    return np.array(int(value) & (2 ** (8 * dtype.itemsize) - 1), np.uint64).astype(dtype)[()]


def array_argument(value: Any, annotation: Any, label: str) -> Any:
    """An array argument; the annotation says how many axes belong to the elements."""
    if isinstance(value, (_runtime.NdarrayBase, _runtime.FieldBase)):
        return without_gradient(tensor_of(value, label).clamped(annotation), annotation)
    if isinstance(value, StructField) or (array := find_array(value, label)) is None:
        return value
    element = getattr(annotation, "dtype", None)
    rank = element.ndim if isinstance(element, _types.MatrixType) else 0
    tensor = tensor_of(array, label, array.shape[: array.ndim - rank], value).clamped(annotation)
    tensor.owner = value
    return without_gradient(tensor, annotation)


def without_gradient(tensor: Tensor, annotation: Any) -> Tensor:
    """A tensor whose gradient is ignored if its annotation says `needs_grad=False`."""
    if getattr(annotation, "needs_grad", None) is False and isinstance(tensor.data, Memory) and tensor.data.companions:
        tensor.data.companions = (None, *tensor.data.companions[1:])
    return tensor


def with_known_extents(tensor: Any, annotation: Any) -> Any:
    """An array argument; the extents that its annotation says are compile-time numbers."""
    if isinstance(tensor, Tensor):
        shape = getattr(annotation, "shape", None)
        tensor.known = shape if isinstance(shape, tuple) else None
    return tensor


def argument(parameter: Any, position: int, value: Any) -> Any:
    """A kernel argument as the kernel sees it."""
    kind = parameter.kind
    if kind == "scalar":
        return convert(cast_argument(value, dtype_of(parameter.annotation)), parameter.annotation)
    if kind == "matrix":
        vector = convert(
            constant(value) if not isinstance(value, np.ndarray) else values.make_vector(value.tolist(), None), parameter.annotation
        )
        vector.data = vector.data.view(values.Immutable)
        vector.data.parameter = parameter.name
        vector.data.flags.writeable = False
        return vector
    if kind == "struct":
        return struct_of(parameter.annotation, (), value if isinstance(value, dict) else value.entries)
    if kind not in ("array", "tensor", "view"):
        return with_plain_numbers(value) if kind == "template" else value
    return with_known_extents(array_argument(value, parameter.annotation, str(position)), parameter.annotation)


def result(value: Any, results: list[Any] | None) -> tuple[Any, ...] | None:
    """A returned value as its scalars in order, which the kernel's `build_result` puts together."""
    if results is None and value is not None:
        text = "A kernel with a return value must be annotated with a return type, e.g. def func() -> qd.f32"
        raise QuadrantsSyntaxError(text)
    if results is None:
        return None
    if value is None:
        raise QuadrantsSyntaxError("Kernel has a return type but does not have a return statement")
    value = converted_result(value, results)
    return tuple(scalar for item in (value if isinstance(value, tuple) else (value,)) for scalar in _scalars_of(item))


def _scalars_of(value: Any) -> list[Any]:
    if isinstance(value, StructValue):
        return [scalar for item in value.members.values() for scalar in _scalars_of(item)]
    return value.data.reshape(-1).tolist() if isinstance(value, Vec) else [read(value).item()]

"""Converts the objects of the package for the interpreter: containers, host vectors and structs, types, funcs, arguments and results."""

from __future__ import annotations

import ast
import dataclasses
import functools
import itertools
import operator
import weakref
from collections.abc import Iterator
from types import MethodType
from typing import Any

import numpy as np

from quadrants import _runtime
from quadrants._base import dtypes
from quadrants._base.errors import QuadrantsAssertionError, QuadrantsRuntimeError, QuadrantsRuntimeTypeError
from quadrants._base.source import get_source
from quadrants._containers.buffer_view import BufferView
from quadrants._containers.interop import find_array
from quadrants._containers.layout_tree import SNode
from quadrants._containers.struct_field import StructField
from quadrants._language import func as _func
from quadrants._language import parameters as _parameters
from quadrants._session.prepare import as_argument
from quadrants._values import types as _types
from quadrants._values.matrix import Matrix, unwrap
from quadrants._values.struct import Struct, StructType

from . import scalars, values
from .recorder import find_copy
from .rewrite import rewrite
from .scalars import NAMES, cast, typed
from .shadow_memory import Memory
from .values import StructValue, Tensor, Vec, new_place, read, write

CONTAINERS = (_runtime.FieldBase, _runtime.NdarrayBase, StructField)
TYPES = (_types.DataType, _types.MatrixType, StructType)  # types that construct a typed value when called
_NUMPY_DTYPES = {dtype: dtypes.to_numpy_dtype(dtype) for dtype in dtypes.DATA_TYPES}
_rewritten: weakref.WeakKeyDictionary[Any, dict[str, Any]] = weakref.WeakKeyDictionary()
_as_funcs: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
_ROLES = {"template": "place", "struct": "value"}


def dtype_of(kind: Any) -> Any:
    """Returns the NumPy dtype of a data type of the language, or None."""
    found = kind if isinstance(kind, _types.DataType) else None if isinstance(kind, TYPES) else _types.find_dtype(kind)
    return None if found is None else _NUMPY_DTYPES[found]


# containers and constants


def tensor_of(container: Any, label: str = "", shape: tuple[int, ...] | None = None, owner: Any = None) -> Tensor:
    """Returns the memory of a container, or of an array argument with the batch shape `shape`; `owner` has its gradient."""
    if isinstance(container, np.ndarray):
        memory = scalars.memory(container, owner, f"argument {label}")
        return Tensor(memory, container.shape if shape is None else shape, label, dynamic=True)
    if isinstance(container, StructField):
        members = {name: tensor_of(member) for name, member in container.field_dict.items()}
        origin = next(iter(members.values())).origin
        return Tensor(members, container.shape, "struct", container.struct_methods, origin=origin)
    if not label and getattr(container, "_primal", None) == "grad":
        scalars.refuse_gradients()
    if container._quant is not None and scalars.options.recorder is not None:
        raise QuadrantsRuntimeError("arch=qd.python does not differentiate kernels that use quantized fields")
    view = find_copy(container)
    if view is None:
        view = container.view() if container._cells is None and container._quant is None else container._fetch()
    dynamic = isinstance(container, _runtime.NdarrayBase)
    memory = scalars.memory(view, container, container._name or f"argument {label}")
    tensor = Tensor(memory, container.shape, label or f"S<{NAMES[view.dtype]}>", dynamic=dynamic, origin=container._offset)
    tensor.owner = container
    return tensor


def cells(node: SNode) -> Iterator[tuple[int, ...]]:
    """Yields the indices of all cells of a node, the last axis fastest, or of the active cells."""
    if node._loop is not None:
        return values.active_indices(node._loop)
    return itertools.product(*(range(*ends) for ends in node._box))


def constant(value: Any) -> Any:
    """Converts host vectors and structs to values of the kernel, as copies; returns the container of a `qd.Tensor`, and other values
    unchanged.
    """
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


def rebuild(value: Any, items: Any) -> Any:
    """Returns a list, tuple or named tuple like `value` with other items."""
    make: Any = getattr(value, "_make", list if isinstance(value, list) else tuple)
    return make(items)


def with_plain_numbers(value: Any) -> Any:
    """Returns a list, tuple or dict from outside with Python numbers instead of NumPy's; the same object if it has none."""
    if isinstance(value, np.generic):
        return value.item()
    if type(value) in (list, tuple) or hasattr(value, "_make"):
        items = [with_plain_numbers(item) for item in value]
        return value if all(map(operator.is_, items, value)) else rebuild(value, items)
    if type(value) is dict:
        made = {key: with_plain_numbers(item) for key, item in value.items()}
        return value if all(made[key] is value[key] for key in value) else made
    return value


def member(base: Any, name: str, rule: str | None = None) -> Any:
    """Reads an attribute of a Python object; scalar members of dataclass arguments (`rule` "annotated") have their annotated type."""
    base = base.owner if isinstance(base, Tensor) else base
    value = getattr(base, name, None) if name in ("grad", "dual") else getattr(base, name)
    if dataclasses.is_dataclass(base) and not isinstance(base, type):
        annotation = _parameters.get_hints(type(base)).get(name)
        annotation = annotation if value is None else _parameters.without_none(annotation)
        dtype = dtype_of(annotation)
        if dtype is not None and scalars.is_number(value) and (rule == "annotated" or not isinstance(value, (bool, int, float))):
            if isinstance(value, float) and dtype.kind in "biu":
                given = f"{type(base).__name__}.{name} (type={type(value)})"
                raise QuadrantsRuntimeTypeError(f"Argument {given} cannot be converted into required type {NAMES[dtype]}")
            return np.array(cast_argument(name, value, dtype))
        if isinstance(annotation, (_types.MatrixType, StructType)):
            if isinstance(annotation, _types.MatrixType) and annotation.dtype is not None:
                with as_argument(name):
                    dtypes.check_range(unwrap(value), annotation.dtype)
            return convert(constant(value), annotation)
        if isinstance(annotation, _types.NdarrayType) or annotation is BufferView:
            return array_argument(value, annotation, name)
    return value


def members_rule(base: Any) -> str | None:
    """Returns how number members of an object, and of objects reachable from it, are treated: "baked" or read at each "launch"; None if its
    class does not define it."""
    bakes = getattr(type(base), "_qd_template_primitives", None)
    return None if bakes is None else "baked" if bakes else "launch"


def has_members(value: Any) -> bool:
    """Whether a member is an object whose members follow the rule of its owner."""
    return not isinstance(value, type) and (dataclasses.is_dataclass(value) or hasattr(type(value), "_qd_template_primitives"))


def describe(parameter: Any, value: Any) -> str:
    """Returns what a kernel is specialized for: the type of an argument, or its value if that is known at compile time."""
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
    """Converts a value to a type of the language; types without an effect on values return it unchanged."""
    dtype = dtype_of(kind)
    if kind is dtypes.bf16:
        return values.elementwise(lambda x: dtypes.from_bf16(dtypes.to_bf16(x))[()], convert(value, dtypes.f32))
    if dtype is not None:
        if isinstance(value, np.generic):
            return cast(value, dtype)
        return values.elementwise(lambda x: cast(x, dtype), typed(value, dtype) if scalars.is_number(value) else value)
    if isinstance(kind, _types.MatrixType):
        value = values.as_vector(value)
        return Vec((value if kind.dtype is None else convert(value, kind.dtype)).data.copy())
    if isinstance(kind, StructType):
        if dataclasses.is_dataclass(value):
            value = {field.name: member(value, field.name) for field in dataclasses.fields(value)}
        return struct_of(kind, (), value.members if isinstance(value, StructValue) else value)
    return value


def zero(kind: Any) -> Any:
    """Returns a zeroed place of a type."""
    if isinstance(kind, StructType):
        statics = {name: staticmethod(value) for name, value in kind.statics.items()}
        return StructValue({name: zero(member_type) for name, member_type in kind.members.items()}, {**kind.methods, **statics})
    is_matrix = isinstance(kind, _types.MatrixType)
    made = np.zeros(kind.shape if is_matrix else (), dtypes.to_memory_dtype(dtypes.to_dtype(kind.dtype if is_matrix else kind)))
    made = values.Rounding.of(made) if made.dtype == dtypes.BF16_BITS else made
    return Vec(made) if is_matrix else made if isinstance(made, values.Rounding) else scalars.adopt(made)


def struct_of(kind: Any, positional: tuple[Any, ...], named: Any) -> StructValue:
    """Returns a struct value. Members are given by position, then by name; the rest is zero. A single struct or dict
    gives members by name.
    """
    members = kind.members
    if len(positional) == 1 and not named and (entries := _entries(positional[0])) is not None:
        is_first = entries and isinstance(next(iter(members.values()), None), StructType) and not set(entries) & set(members)
        positional, named = (positional, {}) if is_first else ((), entries)
    given = {**kind.defaults, **dict(zip(members, positional, strict=False)), **dict(named)}
    result = zero(kind)
    for name, element in members.items():
        if isinstance(element, StructType):
            value = given.get(name, {})
            items = value if isinstance(value, (list, tuple)) else (value,)
            result.members[name] = struct_of(element, tuple(items), {})
        elif name in given:
            value = constant(given[name])
            write(result.members[name], convert(value, element) if dataclasses.is_dataclass(value) else value)
    return result


def _entries(value: Any) -> dict[str, Any] | None:
    """Returns the members of a struct, dict or dataclass; None for other values."""
    value = constant(value)
    if isinstance(value, StructValue):
        return value.members
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: member(value, field.name) for field in dataclasses.fields(value)}
    return value if isinstance(value, dict) else None


def construct(kind: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """Evaluates the call of a type inside a kernel."""
    if isinstance(kind, StructType):
        return struct_of(kind, arguments, keywords)
    if isinstance(kind, _types.MatrixType):
        parts = [convert(value, kind.dtype) for value in _flatten(arguments)]
        numbers = [number for part in parts for number in (part.data.reshape(-1) if isinstance(part, Vec) else [part])]
        return Vec(np.resize(np.stack(numbers), kind.shape))
    is_literal = type(arguments[0]) in (bool, int, float) and kind is not dtypes.bf16  # np.float64 is a float for isinstance
    return dtype_of(kind).type(arguments[0]) if is_literal else convert(arguments[0], kind)


def _flatten(value: Any) -> list[Any]:
    return [number for item in value for number in _flatten(item)] if isinstance(value, (list, tuple)) else [value]


# functions


def is_func(value: Any) -> bool:
    """Whether `value` is a `@qd.func` function or method."""
    # Since Python 3.13, a class method binds its function itself.
    return isinstance(value, (_func.Func, _func.BoundFunc)) or isinstance(getattr(value, "__func__", None), _func.Func)


def as_func(function: Any) -> Any:
    """Returns a Python function as if it were decorated with `@qd.func`; None if Python has to run it."""
    if isinstance(function, _func.Func):
        return function
    if function not in _as_funcs:
        _as_funcs[function] = _func.as_func(function)
    return _as_funcs[function]


def bind(method: Any, struct: Any) -> Any:
    """Binds a method of a struct type to its struct; static methods are returned unchanged."""
    if isinstance(method, staticmethod):
        return method.__func__
    return _func.BoundFunc(method, struct) if isinstance(method, _func.Func) else method.__get__(struct)


def parts_of(func: Any) -> tuple[Any, tuple[Any, ...]]:
    """Returns the func itself and the objects to which it is bound."""
    if isinstance(func, MethodType):
        return func.__func__, (func.__self__,)
    return (func.func, (func.instance,)) if isinstance(func, _func.BoundFunc) else (func, ())


def by_reference(callee: Any) -> Any:
    """Returns a predicate of a position or keyword: whether a callee takes that argument by reference."""
    name = getattr(callee, "_qd_builtin", None)
    if name is not None:
        return lambda position: position == 0 and name.startswith("atomic_")
    if (references := getattr(callee, "_qd_references", None)) is not None:  # a function inside the kernel
        return references.__contains__
    if isinstance(callee, functools.partial):
        inner = by_reference(callee.func)
        return lambda key: inner(key + len(callee.args) if isinstance(key, int) else key)
    if not is_func(callee):
        return lambda _: False
    func, bound = parts_of(callee)
    parameters = func.parameters[len(bound) :]

    def is_reference(key: Any) -> bool:
        stars = 2 if isinstance(key, str) else 1
        found = (p.kind for position, p in enumerate(parameters) if key in (position, p.name) or p.stars == stars)
        return next(found, "") in ("template", "ref")

    return is_reference


def executable(function: Any, parameters: Any, others: str, evaluator: Any, wanted: str = "") -> Any:
    """Returns the form of a function that is `wanted`; `others` is the role of parameters that are neither templates nor structs."""
    forms = _rewritten.setdefault(function, {})
    if wanted not in forms:
        roles = {parameter.name: _ROLES.get(parameter.kind, others) for parameter in parameters}
        forms[wanted] = rewrite(get_source(function), roles, by_reference, evaluator, wanted)
    return forms[wanted]


def call_func(evaluator: Any, callee: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """Calls a func: copies arguments that it takes by value, passes places for those that it takes by reference."""
    func, bound = parts_of(callee)
    given: Any = (*bound, *arguments)
    if keywords or len(given) != len(func.parameters) or any(parameter.is_named for parameter in func.parameters):
        given = _parameters.bind(func.parameters, given, keywords)
    keeps_numbers = func.__name__ in ("__init__", "__post_init__")  # constructors

    def convert_one(parameter: Any, value: Any, stars: int) -> Any:
        if stars == 1:
            return tuple([convert_one(parameter, item, 0) for item in value])
        if stars:
            return {name: convert_one(parameter, item, 0) for name, item in value.items()}
        stays = keeps_numbers and parameter.annotation is None and not values.is_runtime(value)
        return value if stays else passed(evaluator, parameter, value)

    given = [convert_one(parameter, value, parameter.stars) for parameter, value in zip(func.parameters, given, strict=False)]
    if evaluator.dry and func.is_real_function:  # the end of a recursion is not computed, so it would not terminate
        return _zero_result(func)
    if func.is_real_function and not _runtime.has_stack():
        raise RecursionError(f"maximum recursion depth exceeded: the stack of the thread has no room for one more call of {func.name}")
    nested = evaluator.random.nested
    evaluator.random.nested += func.is_real_function or _returns_early(func.function)  # then its loops are no tasks
    result = executable(func.function, func.parameters, "value", evaluator)(*given)
    evaluator.random.nested = nested
    if result is None and func.results is not None:  # the func ended with a loop
        if not evaluator.dry:
            raise QuadrantsAssertionError(f"{func.name!r} ended without a return")
        return _zero_result(func)
    if func.results is not None:
        return converted_result(result, func.results) if func.is_real_function else cast_result(result, func.results)
    visit_returns = executable(func.function, func.parameters, "value", evaluator, "returns")
    return evaluator.common_result(result, visit_returns, given) if visit_returns else result


@functools.lru_cache(512)
def _returns_early(function: Any) -> bool:
    """Whether a return is under a branch or loop."""
    tree = get_source(function).tree
    return any(isinstance(node, ast.Return) and node not in tree.body for node in ast.walk(tree))


def _zero_result(func: Any) -> Any:
    made = [read(zero(kind)) for kind in func.results or ()]
    return tuple(made) if len(made) > 1 else made[0] if made else None


def passed(evaluator: Any, parameter: Any, value: Any) -> Any:
    """Converts an argument of a func."""
    if parameter.kind in ("template", "ref"):
        return read(value) if evaluator.dry else value  # nothing is stored when only types are computed
    value = read(value)
    if parameter.kind in ("array", "view") and (tensor := evaluator.tensor(value)) is not None:
        return tensor.clamped(parameter.annotation)
    if parameter.kind in ("scalar", "matrix", "struct"):
        value = convert(value, parameter.annotation)
    stays = isinstance(value, int) and not scalars.fits(value, scalars.options.default_ip)  # what it meets gives it its type
    return typed(value) if isinstance(value, (bool, int, float)) and not stays else value


def converted_result(value: Any, results: list[Any]) -> Any:
    """Converts a returned value, or a tuple of them, to the annotated types."""
    if len(results) == 1 and not isinstance(value, tuple):
        return convert(values.as_vector(value), results[0])
    return tuple(convert(values.as_vector(item), kind) for item, kind in zip(value, results, strict=True))


def cast_result(value: Any, results: list[Any]) -> Any:
    """Converts the result of an inlined func: numbers get the annotated types, regardless of the shape."""
    kind = results[0]
    if len(results) > 1 or isinstance(kind, StructType) or value is None:
        return converted_result(value, results)
    if isinstance(value, tuple) and not isinstance(kind, _types.MatrixType) and len(value) > 1:
        items = [cast_result(item, results) for item in value]
        return rebuild(value, items)
    value = values.as_vector(value)
    is_fitting = not isinstance(kind, _types.MatrixType) or (isinstance(value, Vec) and value.data.shape == kind.shape)
    wanted = kind if is_fitting else kind.dtype
    return value if wanted is None else convert(value, wanted)


# arguments and results


def cast_argument(name: str, value: Any, dtype: np.dtype) -> Any:
    """Converts a scalar argument to its parameter's type: floats are rounded, integers must be in its range."""
    if dtype.kind == "f":
        return dtype.type(value)
    number, kind = int(value), dtypes.from_numpy_dtype(dtype)
    if dtype.kind != "b" and dtypes.wrap_integer(number, kind) != number:
        raise QuadrantsRuntimeTypeError(f"Argument '{name}' = {number} is out of the range of {kind}")
    return dtype.type(number)


def array_argument(value: Any, annotation: Any, label: str) -> Any:
    """Converts an array argument; the annotation defines the number of element axes, the known extents, and whether there is a gradient."""
    if isinstance(value, (_runtime.NdarrayBase, _runtime.FieldBase)):
        tensor = tensor_of(value, label)
    elif isinstance(value, StructField):
        if getattr(annotation, "boundary", None) != "clamp":
            return value
        tensor = tensor_of(value)
        tensor.owner = value
    elif (array := find_copy(value) if scalars.options.copies is not None else find_array(value, label)) is None:
        return value
    else:
        element = getattr(annotation, "dtype", None)
        rank = element.ndim if isinstance(element, _types.MatrixType) else 0
        tensor = tensor_of(array, label, array.shape[: array.ndim - rank], value)
        tensor.owner = value
    tensor = tensor.clamped(annotation)
    if getattr(annotation, "needs_grad", None) is False and isinstance(tensor.data, Memory) and tensor.data.shadows:
        tensor.data.shadows = (None, *tensor.data.shadows[1:])
    shape = getattr(annotation, "shape", None)
    tensor.known = shape if isinstance(shape, tuple) else None
    return tensor


def argument(parameter: Any, position: int, value: Any) -> Any:
    """Converts a kernel argument to the value that the kernel uses."""
    kind = "template" if value is None else parameter.kind
    if kind == "scalar":
        return convert(cast_argument(parameter.name, value, dtype_of(parameter.annotation)), parameter.annotation)
    if kind in ("matrix", "struct"):
        return convert(constant(value), parameter.annotation)
    if kind not in ("array", "tensor", "view"):
        return with_plain_numbers(value) if kind == "template" else value
    return array_argument(value, parameter.annotation, str(position))


def result(value: Any, results: list[Any]) -> tuple[Any, ...]:
    """Returns the scalars of a returned value in order, for the kernel's `build_result`."""
    value = converted_result(value, results)
    return tuple(scalar for item in (value if isinstance(value, tuple) else (value,)) for scalar in _scalars_of(item))


def _scalars_of(value: Any) -> list[Any]:
    if isinstance(value, StructValue):
        return [scalar for item in value.members.values() for scalar in _scalars_of(item)]
    return value.data.reshape(-1).tolist() if isinstance(value, Vec) else [read(value).item()]

"""Calls of funcs from Python scope: converts their arguments for the interpreter, and their results for Python."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from quadrants._base.dtypes import from_numpy_dtype, store
from quadrants._containers.interop import find_array
from quadrants._language.kernel import _build_value
from quadrants._values.matrix import Matrix
from quadrants._values.struct import Struct, StructType
from quadrants._values.types import make_element

from . import host_objects, values
from .values import StructValue, Tensor, Vec, View, read


def call(evaluator: Any, func: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """Calls a func and returns its value as Python sees that of a kernel. Host vectors and structs that it takes by reference get what it
    has written.
    """
    is_reference = host_objects.by_reference(func)
    parameters = {key: parameter for place, parameter in enumerate(func.parameters) for key in (place, parameter.name)}
    written: list[Callable[[], None]] = []

    def convert(key: Any, value: Any) -> Any:
        parameter = parameters.get(key)
        if parameter is not None and parameter.kind != "template" and dataclasses.is_dataclass(value):
            evaluator.owners[id(value)] = (value, "annotated")
        return _to_place(value, written) if is_reference(key) else _to_value(value, getattr(parameter, "annotation", None), str(key))

    given = tuple([convert(place, value) for place, value in enumerate(arguments)])
    result = host_objects.call_func(evaluator, func, given, {name: convert(name, value) for name, value in keywords.items()})
    for write in written:
        write()
    kinds = func.results or ()
    if isinstance(result, tuple) and len(kinds) == len(result):
        return tuple([_to_host(evaluator, item, kind) for item, kind in zip(result, kinds, strict=True)])
    return _to_host(evaluator, result, kinds[0] if kinds else None)


def _to_value(value: Any, annotation: Any, label: str) -> Any:
    """Converts an argument that a func takes by value, or an array."""
    if isinstance(value, (type, *host_objects.CONTAINERS)):
        return value
    if (value := host_objects.constant(host_objects.with_plain_numbers(value))) is None or isinstance(value, (Vec, StructValue)):
        return value
    return value if find_array(value, label) is None else host_objects.array_argument(value, annotation, label)


def _to_place(value: Any, written: list[Callable[[], None]]) -> Any:
    """Converts an argument that a func takes by reference. The functions in `written` store what the func has written to copies."""
    if isinstance(value, Matrix) and value.dtype is not None and value._array.dtype == host_objects.dtype_of(value.dtype):
        return Vec(value._array)
    place = _to_value(value, None, "")
    if isinstance(value, (Matrix, Struct)):
        before = read(place)
        written.append(lambda: _store(value, place, before))
    return place


def _store(target: Any, place: Any, before: Any) -> None:
    """Stores the components of a host vector or struct that a func has changed."""
    if isinstance(target, Matrix):
        if not np.array_equal(place.data, before.data):
            store(target._array, ..., place.data)
        return
    for name, member in place.members.items():
        item = target[name]
        if isinstance(item, (Matrix, Struct)):
            _store(item, member, before.members[name])
        elif read(member) != read(before.members[name]):
            target[name] = read(member).item()


def _to_host(evaluator: Any, value: Any, kind: Any = None) -> Any:
    """Converts a result: run-time values become Python numbers, host vectors and structs."""
    if isinstance(value, (list, tuple)):
        return host_objects.rebuild(value, [_to_host(evaluator, item) for item in value])
    if isinstance(value, dict):
        return {key: _to_host(evaluator, item) for key, item in value.items()}
    if isinstance(value, View):
        return _to_host(evaluator, value.parent)[tuple(value.key)]
    if isinstance(value, Tensor):
        return value.owner
    if id(value) in evaluator.made:
        vars(value).update({name: _to_host(evaluator, item) for name, item in vars(value).items()})
        return value
    if not values.is_runtime(value):
        return value
    kind = kind if isinstance(kind, StructType) and isinstance(value, StructValue) else _type_of(value)
    return _build_value(kind, iter(host_objects._scalars_of(value)))


def _type_of(value: Any) -> Any:
    """Returns the type of a run-time value."""
    if isinstance(value, StructValue):
        return StructType("struct", value.methods, **{name: _type_of(member) for name, member in value.members.items()})
    elements = value.data if isinstance(value, Vec) else value
    return make_element(elements.shape, from_numpy_dtype(elements.dtype))

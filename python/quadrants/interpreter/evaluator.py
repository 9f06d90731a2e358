"""Runtime of the rewritten code: operators, assignments and calls on typed values, with accesses and loops (accesses.py, loops.py).

Some code runs only to compute types: the operand that `and` skips, the arm that a ternary does not select. Then `dry` is above zero and
nothing is stored, printed or checked; loops run at most once, and an index out of range reads some element.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import operator
import re
from collections.abc import Callable, Set
from typing import Any, NamedTuple

import numpy as np

from quadrants._base.errors import QuadrantsAssertionError, QuadrantsSyntaxError
from quadrants._containers.container import ContainerMethods
from quadrants._language import parameters as _parameters
from quadrants._language.builtins import Builtin
from quadrants._library import indices as _indices
from quadrants._values.struct import value_type_of

from . import host_objects, intrinsics, objects, scalars, values
from .loops import Loops
from .scalars import PYTHON, cast, options, typed
from .values import StructValue, Tensor, Vec, is_place, is_runtime, read

# `op=` that is atomic on shared places: the right operand is converted to the target's type.
_CAST_RIGHT = {"add", "sub", "bit_and", "bit_or", "bit_xor"}
_PYTHON_UNARY = {"neg": operator.neg, "pos": operator.pos, "logical_not": operator.not_, "bit_not": operator.invert, "abs": abs}
_ABOUT_OBJECTS = (isinstance, hasattr, type)


class Evaluator(Loops):
    """The runtime half of the interpreter; the process has one, used under its lock."""

    def binary(self, name: str, left: Any, right: Any) -> Any:
        """Evaluates a binary operator; between compile-time values it is Python's operator."""
        if isinstance(left, list):
            made = PYTHON[name][1](left, right) if name in ("add", "mul") and not is_runtime(right) else None
            if isinstance(made, list):
                return self.copies(made)
        if name in ("is", "is_not"):
            return operator.is_(*(value.owner if isinstance(value, Tensor) else value for value in (left, right))) == (name == "is")
        if name in ("in", "not_in"):
            found = self.contains(right, left)
            return found if name == "in" else self.unary("logical_not", found)
        is_special = objects.has_own_operators(left) or objects.has_own_operators(right)
        if is_special and not (objects.is_known(self, left) and objects.is_known(self, right)):
            result = objects.call_operator(self, name, left, right)
            if result is not NotImplemented:
                return result
        if name == "matmul":
            return intrinsics.matmul(left, right)
        if is_runtime(left) or is_runtime(right) or isinstance(left, values.Index) or isinstance(right, values.Index):
            return values.binary(name, left, right)
        return PYTHON[name][1](left, right) if name in PYTHON else values.binary(name, left, right)

    def contains(self, items: Any, value: Any) -> Any:
        """Evaluates `value in items`."""
        if (found := objects.call_special(self, items, "__contains__", value)) is not NotImplemented:
            return found
        if objects.is_known(self, items) and not is_runtime(value):
            return (value.owner if isinstance(value, Tensor) else value) in items
        if isinstance(items, (range, map)):
            return typed(value.item() in items)
        if isinstance(items, (dict, Set)) and any(map(is_runtime, items)):
            return typed(value in items)
        items = [Vec(row) if row.ndim else row for row in items.data] if isinstance(items, Vec) else items
        same = [self.binary("eq", value, item) for item in items]
        return typed(any(each.data.all() if isinstance(each, Vec) else bool(each) for each in same))

    def unary(self, name: str, value: Any) -> Any:
        """Evaluates a unary operator."""
        is_special = objects.has_own_operators(value) and not objects.is_known(self, value)
        if is_special and (result := objects.call_unary(self, name, value)) is not NotImplemented:
            return result
        if not is_runtime(value) and not (isinstance(value, (list, tuple)) and any(map(is_runtime, value))):
            return _PYTHON_UNARY[name](value)
        return value if name == "pos" else values.unary(name, value)

    def first_link(self, name: str, left: Any, right: Any) -> Any:
        """Evaluates the first comparison of a chain."""
        self.links.append(left)
        return self.next_link(name, right)

    def next_link(self, name: str, right: Any) -> Any:
        """Evaluates a further comparison of a chain; its left operand is the right one of the comparison before."""
        left, self.links[-1] = self.links[-1], right
        return self.binary(name, left, right)

    def end_chain(self, result: Any) -> Any:
        """Returns the value of a chain of comparisons."""
        self.links.pop()
        return result

    def begin_logic(self, kind: str, left: Any) -> Any:
        """Takes the left operand of `and` or `or`; decides whether the right one is evaluated only for its type."""
        known = not is_runtime(left)
        skip = (known or options.short_circuit_operators) and not isinstance(left, Vec) and bool(left) == (kind == "or")
        self.skipped.append((skip, known))
        self.dry += skip
        return left

    def reaches(self) -> bool:
        """Whether an operand is evaluated at all: not if a compile-time value skips it."""
        return not all(self.skipped[-1])

    def end_logic(self, kind: str, left: Any, right: Any) -> Any:
        """Returns the value of `and` or `or`."""
        skip, known = self.skipped.pop()
        self.dry -= skip
        if known and (skip or not isinstance(right, Vec)):
            return left if skip else right
        name = "bit_and" if kind == "and" else "bit_or"
        if isinstance(left, Vec) or isinstance(right, Vec):
            return values.binary(name, *(values.binary("ne", side, 0) for side in (left, right)))
        if not options.short_circuit_operators:
            return values.binary(name, left, right)
        return self.chosen(left, right) if skip else self.chosen(right, left)

    def begin_choice(self, condition: Any) -> None:
        """Takes the condition of a ternary; the arm that it does not select is evaluated only for its type."""
        condition = self.truth_value(condition)
        skip = not condition
        self.skipped.append((skip, not is_runtime(condition)))
        self.dry += skip

    def other_choice(self) -> None:
        """Called between the arms of a ternary."""
        skip, known = self.skipped[-1]
        self.skipped[-1] = (not skip, known)
        self.dry += -1 if skip else 1

    def end_choice(self, _: None, first: Any, __: None, second: Any) -> Any:
        """Returns the value of a ternary."""
        skipped_second, known = self.skipped.pop()
        self.dry -= skipped_second
        chosen, other = (first, second) if skipped_second else (second, first)
        return chosen if known else self.chosen(chosen, other)

    def chosen(self, value: Any, other: Any) -> Any:
        """Returns the result of a run-time condition: a value in the common type of both arms, or one of two ranges."""
        if all(isinstance(side, (range, map)) for side in (value, other)):
            return map(scalars.as_i64, value) if isinstance(other, map) else value
        if isinstance(value, StructValue) or isinstance(other, StructValue):
            return _unify_structs(value, other)
        value, other = read(value), read(other)
        hint = values.dtype_of(other)
        return _unify(typed(value, hint) if scalars.is_number(value) else values.as_vector(value, hint), values.as_vector(other))

    def declare(self, value: Any) -> Any:
        """Returns the first value of a variable, which fixes its type."""
        if isinstance(value, values.Index):
            return values.as_vector(value)
        return typed(value) if scalars.is_number(value) else read(value)

    def each(self, items: Any, convert: Callable[[Any], Any]) -> Any:
        """Converts the arguments in a `*args` or `**kwargs` of a function inside a kernel."""
        return {name: convert(item) for name, item in items.items()} if isinstance(items, dict) else tuple(map(convert, items))

    def passed(self, name: str, annotation: Any, value: Any) -> Any:
        """Converts an argument of a function inside a kernel to its annotation."""
        kind, annotation, _ = _parameters._classify(annotation)
        return host_objects.passed(self, _parameters.Parameter(name, kind or "value", annotation), value)

    def place_of(self, value: Any) -> Any:
        """Returns a place for a variable whose reference is taken."""
        return scalars.place(value) if isinstance(value, np.generic) else value

    def write(self, place: Any, value: Any) -> None:
        """Stores a value, unless only types are computed."""
        if not self.dry:
            values.write(place, value)

    def assign(self, target: Any, value: Any) -> Any:
        """Converts the value of a later assignment to the type of the variable."""
        if isinstance(target, np.generic):
            return cast(typed(value, target.dtype), target.dtype)
        if is_runtime(target):
            self.write(target, value)
            return target
        return self.declare(value)

    def join_types(self, value: Any, other: Callable[..., tuple[Any, ...]], position: int, *variables: Any) -> Any:
        """Returns a variable that both branches of an `if` declare, in the common type; `other` is the branch that was not taken."""
        self.dry += 1
        found = read(other(*variables)[position])
        self.dry -= 1
        return self.unify(found, value)

    def unify(self, other: Any, value: Any) -> Any:
        """Converts a variable to the common type with its value on another path."""
        unified = _unify(read(value), read(other)) if is_runtime(other) else value
        return self.place_of(unified) if is_place(value) else unified

    def _augmented(self, op: str, target: Any, value: Any, shared: bool) -> Any:
        """Returns the new value of `target op= value`; on a shared place, the operation is atomic."""
        if isinstance(target, StructValue):
            return objects.call_in_place(self, op, target, value)
        if isinstance(target, (Vec, np.generic)) and (op in _CAST_RIGHT or (shared and op == "mul")):
            value = values.as_type_of(target, value)
            if shared:
                return scalars.unchecked(self.binary, op, target, value)
        return self.binary(op, target, value)

    def augment(self, op: str, target: Any, value: Any) -> Any:
        """Evaluates `name op= value`."""
        if objects.has_own_operators(target) and not isinstance(target, StructValue):
            return objects.call_in_place(self, op, target, value)
        if isinstance(target, list) and op == "add" and isinstance(value, (list, tuple)):  # other names of the list see it
            target += self.binary("add", [], list(value))
            return target
        if not is_runtime(target):
            return PYTHON[op][1](target, value)
        return self.assign(target, self._augmented(op, read(target), value, shared=False))

    def augment_place(self, op: str, place: Any, value: Any) -> None:
        """Evaluates `base[index] op= value` and `base.name op= value`."""
        self.write(place, self._augmented(op, self.read_for_update(place), value, shared=True))

    def augment_member(self, op: str, base: Any, name: str, value: Any) -> None:
        """Evaluates `base.name op= value`."""
        place = self.member(base, name)
        if id(base) in self.made and not is_runtime(place):
            objects.set_member(self, base, name, objects.call_in_place(self, op, place, value))
        else:
            self.augment_place(op, place, value)

    def item(self, base: Any, index: Any) -> Any:
        """Returns an item of a list or dict that is assigned; a number becomes a run-time value."""
        value = self.entry(base, index)
        return typed(value) if isinstance(value, (bool, int, float)) else value

    def augment_item(self, op: str, base: Any, index: Any, value: Any) -> None:
        """Evaluates `base[index] op= value`; an item of a list or dict behaves as a variable."""
        if isinstance(base, (list, dict)):
            known = self.item(base, index)
            self._store_item(base, index, known, self.augment(op, known, value))
        elif (item := objects.call_special(self, base, "__getitem__", index)) is not NotImplemented:
            objects.call_special(self, base, "__setitem__", index, objects.call_in_place(self, op, item, value))
        else:
            self.augment_place(op, self.element(base, index), value)

    def _store_item(self, base: Any, index: Any, known: Any, value: Any) -> None:
        """Assigns an item of a list or dict; code that runs only for types leaves values unchanged, because their types do not change."""
        if not (self.dry and is_runtime(known)):
            base[index] = value

    def read_for_update(self, place: Any) -> Any:
        """Reads a place that an augmented assignment is about to update."""
        if options.recorder is None:
            return read(place)
        with options.recorder.updating():
            return read(place)

    def store_element(self, value: Any, base: Any, index: Any) -> None:
        """Evaluates `base[index] = value`."""
        if isinstance(base, list) and isinstance(index, slice):
            positions, items = range(len(base))[index], self.copies(list(value))
            for position, item in zip(positions, items, strict=False):
                self.store_element(item, base, position)
            if len(positions) != len(items):
                base[index] = items
            return
        if isinstance(base, (list, dict)):
            known = self.item(base, index) if isinstance(base, list) or index in base else None
            self._store_item(base, index, known, self.assign(known, value) if is_runtime(known) else value)
            return
        if objects.call_special(self, base, "__setitem__", index, value) is NotImplemented:
            self.write(self.element(base, index), value)

    def store_member(self, value: Any, base: Any, name: str) -> None:
        """Evaluates `base.name = value` and `v.xy = value`."""
        if id(base) in self.made:
            return objects.set_member(self, base, name, value)
        self.write(self.member(base, name), value)

    def unpack(self, value: Any, count: int, starred: int | None) -> list[Any]:
        """Splits a value into copies of its components for several targets."""
        if isinstance(value, Vec):
            value = list(value.data.reshape(-1))
        elif isinstance(value, StructValue):
            value = list(value.members.values())
        elif isinstance(value, np.ndarray) and value.ndim:
            value = list(map(self.captured, value))
        parts = [read(item) for item in value]
        if starred is not None:
            tail = len(parts) - (count - starred - 1)
            parts[starred:tail] = [parts[starred:tail]]
        return parts

    def returned(self, value: Any, keeps_numbers: bool, shares: bool) -> Any:
        """Returns the result of a func: a copy, unless it `shares` lists and dicts, and typed, unless it `keeps_numbers` that are known."""
        if shares and isinstance(value, (list, dict)):
            return value
        if isinstance(value, (tuple, list)):
            items = [self.returned(item, keeps_numbers, shares) for item in value]
            return host_objects.rebuild(value, items)
        if type(value) is dict:
            return dict(value)
        return typed(value) if isinstance(value, (bool, int, float)) and not keeps_numbers else read(value)

    def note_result(self, value: Any) -> None:
        """Records the result of one `return` of a func; only its type is used."""
        self.noted.append(value)

    def common_result(self, result: Any, visit_returns: Callable[..., None], passed: list[Any]) -> Any:
        """Converts the result of a func to the common type of all its returns."""
        key = (visit_returns, *map(_type_key, passed))
        if key not in self.results:
            noted = self.list_results(visit_returns, *map(read, passed))
            self.results[key] = (passed, noted)  # the arguments stay alive as long as their identities are keys
        return functools.reduce(_unify_results, self.results[key][1], result)

    def list_results(self, visit_returns: Callable[..., None], *arguments: Any, **keywords: Any) -> list[Any]:
        """Lists values with the types of all returns of a function."""
        outer, self.noted = self.noted, []
        self.dry += 1
        visit_returns(*arguments, **keywords)
        self.dry -= 1
        noted, self.noted = self.noted, outer
        return noted

    def both(self, place: Any) -> Any:
        """Prepares an argument of a callee that is not known yet: a place, and its value before later arguments may change it."""
        return _PlaceAndValue(place, read(place)) if is_runtime(place) else place

    def call(self, function: Any, *arguments: Any, **keywords: Any) -> Any:
        """Calls any object that a kernel may call. Arguments may be places; only funcs and atomics use them as places."""
        if _PlaceAndValue in map(type, (*arguments, *keywords.values())):
            wanted = host_objects.by_reference(function)
            arguments = tuple(_choose(value, wanted(position)) for position, value in enumerate(arguments))
            keywords = {key: _choose(value, wanted(key)) for key, value in keywords.items()}
        name = getattr(function, "_qd_builtin", None)
        if (references := getattr(function, "_qd_references", None)) is not None:
            arguments = tuple([value if position in references else read(value) for position, value in enumerate(arguments)])
            keywords = {key: value if key in references else read(value) for key, value in keywords.items()}
            visit_returns = getattr(function, "_qd_returns", None)
            if visit_returns is None:
                return function(*arguments, **keywords)
            results = [] if self.dry else [function(*arguments, **keywords)]
            visit_returns.__defaults__, visit_returns.__kwdefaults__ = function.__defaults__, function.__kwdefaults__
            return functools.reduce(_unify_results, results + self.list_results(visit_returns, *arguments, **keywords))
        if isinstance(function, StructValue):
            function = host_objects.bind(function.methods["__call__"], function)
        if name is None and host_objects.is_func(function):
            return host_objects.call_func(self, function, arguments, keywords)
        if id(function) in self.made:
            return self.call(objects.member(self, function, "__call__"), *arguments, **keywords)
        if name is None and isinstance(getattr(function, "__self__", None), ContainerMethods) and function.__name__ == "fill":
            return host_objects.call_func(self, host_objects.bind(_indices.fill, function.__self__), arguments, keywords)
        if name is not None and name.startswith("atomic_"):
            return intrinsics.atomic(self, name, *arguments, **keywords)
        arguments = tuple([value[()] if is_place(value) else value for value in arguments])
        keywords = {key: read(value) if is_place(value) else value for key, value in keywords.items()} if keywords else keywords
        if name is not None:
            meaning = intrinsics.BY_NAME.get(name)
            if meaning is None:
                raise QuadrantsSyntaxError(f"qd.{name} is not supported by arch=qd.python")
            if keywords and isinstance(function, Builtin):
                arguments, keywords = function.place(arguments, keywords)
            return meaning(self, *arguments, **keywords)
        if isinstance(function, host_objects.TYPES):
            return host_objects.construct(function, arguments, keywords)
        if isinstance(function, type) and dataclasses.is_dataclass(function) and (kind := value_type_of(function)) is not None:
            return host_objects.struct_of(kind, (), objects.bind_fields(function, arguments, keywords))
        if objects.decorates(function):
            return objects.declare_func(*arguments)
        if objects.is_instance_class(function, arguments, keywords):
            return objects.construct(self, function, arguments, keywords)
        if function in _ABOUT_OBJECTS:
            arguments = tuple([value.owner if isinstance(value, Tensor) else value for value in arguments])
        if function in (abs, len) and objects.has_own_operators(arguments[0]) and not objects.is_known(self, arguments[0]):
            if (result := objects.call_special(self, arguments[0], f"__{function.__name__}__")) is not NotImplemented:
                return result
        meaning = intrinsics.PYTHON.get(function) if isinstance(function, (type, type(len))) else None
        if meaning is not None:
            return meaning(self, *arguments, **keywords)
        if host_objects.is_func(own := inspect.getattr_static(type(function), "__call__", None)):
            return host_objects.call_func(self, host_objects.bind(own, function), arguments, keywords)
        if (result := objects.call_wrapped(self, function, arguments, keywords)) is not None:
            return result[0]
        return intrinsics.call_plain(self, function, arguments, keywords)

    def percent(self, text: str, value: Any) -> str:
        """Evaluates `"..." % value`."""
        pattern = r"%([-+ #0]*[0-9]*(?:\.[0-9]+)?)(?:([diuxXoeEfFgGa])|[rs])"
        escaped = (re.sub("[{}]", r"\g<0>\g<0>", part) for part in text.split("%%"))
        braces = "%".join(re.sub(pattern, r"{:\1\2}", part) for part in escaped)
        return intrinsics.format_text(braces, *(value if isinstance(value, tuple) else (value,)))

    def assertion_failed(self, message: Any, *indices: Any) -> None:
        """Raises the error of an `assert`; `indices`: names of the enclosing loops' indices, each before its value."""
        shown = intrinsics.format_text(", ".join(["{} = {}"] * (len(indices) // 2)), *indices)
        raise QuadrantsAssertionError(f"{message} ({shown})" if shown else message)


class _PlaceAndValue(NamedTuple):
    """A place and its earlier value."""

    place: Any
    value: Any


def _choose(argument: Any, by_reference: bool) -> Any:
    return argument if type(argument) is not _PlaceAndValue else argument.place if by_reference else argument.value


def _type_key(value: Any) -> Any:
    if isinstance(value, StructValue):
        return tuple((name, _type_key(member)) for name, member in value.members.items())
    if isinstance(value, (tuple, dict)):
        return (type(value), *map(_type_key, value.items() if isinstance(value, dict) else value))
    value = value[()] if is_place(value) else value
    if is_runtime(value):
        return (value.data.shape, value.data.dtype) if isinstance(value, Vec) else value.dtype
    return (type(value), value) if isinstance(value, (int, float, str)) else id(value)


def _unify_results(result: Any, other: Any) -> Any:
    if isinstance(result, tuple) and isinstance(other, tuple) and len(result) == len(other):
        items = tuple(map(_unify_results, result, other))
        return host_objects.rebuild(result, items)
    return result if result is None or other is None else _unify(result, other)


def _unify(chosen: Any, other: Any) -> Any:
    """Returns `chosen` in the common type of both values."""
    if isinstance(chosen, np.generic) and isinstance(other, np.generic):
        return _common(chosen, other)
    if not (is_runtime(chosen) or is_runtime(other)):
        return chosen
    if isinstance(chosen, StructValue) or isinstance(other, StructValue):
        return _unify_structs(chosen, other)
    chosen, other = values.as_vector(chosen), values.as_vector(other)
    if not all(isinstance(value, Vec) or scalars.is_number(value) for value in (chosen, other)):
        return chosen
    return values.elementwise(lambda x, y: np.broadcast_arrays(_common(x, y), y)[0].copy() if np.ndim(y) else _common(x, y), chosen, other)


def _unify_structs(chosen: Any, other: Any) -> StructValue:
    members = {name: values.new_place(_unify(read(value), read(other.members[name]))) for name, value in chosen.members.items()}
    return StructValue(members, chosen.methods)


def _common(chosen: Any, other: Any) -> Any:
    return cast(chosen, scalars.promote(chosen.dtype, other.dtype))

"""Struct types, and struct values in Python scope."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import operator
import sys
import typing
import weakref
from collections.abc import Iterator, MutableMapping
from typing import Any

import numpy as np

from .._base.dtypes import check_range, to_numpy_dtype, wrap_integer
from .._base.errors import QuadrantsSyntaxError
from .._base.namespaces import is_dataclass
from .._base.source import caller_locals, evaluate_annotation
from . import types as _types
from .matrix import KernelClass, Matrix, from_components, unwrap
from .types import Layout, MatrixType, StructTypeBase, UnpackedVectorType, find_element

_METHODS = "__struct_methods"


_value_types: weakref.WeakKeyDictionary[type, Any] = weakref.WeakKeyDictionary()


def value_type_of(host: type) -> StructType | None:
    """Returns the struct type of a dataclass that kernels construct as a value; None if a member is no value, or if Python has to construct
    it.
    """
    if host not in _value_types:
        import dataclasses  # imported only for such classes

        made = None
        if not hasattr(host, "__post_init__") and all(field.default_factory is dataclasses.MISSING for field in dataclasses.fields(host)):
            with contextlib.suppress(QuadrantsSyntaxError, NameError):
                made = StructType.of_dataclass(host)
        _value_types[host] = made
    return _value_types[host]


_WORDS = "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift neg pos invert abs lt le gt ge eq ne".split()
_OPERATORS = {f"__{side}{word}__" for side in ("", "r", "i") for word in [*_WORDS, "getitem", "setitem", "contains", "len", "call"]}


def _find_methods(host: type, members: dict[str, Any]) -> dict[str, Any]:
    """Returns the funcs and constants of a class; values of its struct type have them in kernels."""
    found = {name: value for cls in reversed(host.__mro__[:-1]) for name, value in vars(cls).items() if name not in members}
    return {
        name: value
        for name, value in found.items()
        if isinstance(value, staticmethod)
        or hasattr(type(value), "_qd_func")
        or not (name.startswith("__") or hasattr(value, "__get__"))
        or (name in _OPERATORS and getattr(getattr(value, "__code__", None), "co_filename", "<string>") != "<string>")
    }


class StructType(StructTypeBase):
    """A struct type: named members that are scalars, vectors, matrices or structs."""

    def __init__(self, name: str = "struct", methods: dict[str, Any] | None = None, /, **members: Any):
        expanded: dict[str, Any] = {}
        for member, element in members.items():
            element = StructType.of_dataclass(element) if is_dataclass(element) else element
            if not isinstance(element, UnpackedVectorType) and find_element(element) is None:
                raise ValueError(f"Invalid data type {element!r} of struct member {member!r}")
            parts = element.expand(member) if isinstance(element, UnpackedVectorType) else {member: element}
            if clash := sorted({*parts} & {*expanded, *(members if len(parts) > 1 else ())}):
                raise QuadrantsSyntaxError(f"{clash[0]!r} is a component of the member {member!r} with unpacked=True, and a member too")
            expanded.update(parts)
        self.name = name
        # Static methods and constants are attributes of the type and of its values.
        statics = {key: value for key, value in (methods or {}).items() if isinstance(value, staticmethod) or not hasattr(value, "__get__")}
        self.statics = {key: getattr(value, "__func__", value) for key, value in statics.items()}
        self.methods = {key: value for key, value in (methods or {}).items() if key not in self.statics}
        self.defaults: dict[str, Any] = {}
        self.host: type | None = None  # the dataclass that this type was made from
        self._place: tuple[str, str] | None = None  # module and qualified name of the class that this type was made from
        self._members = expanded

    @classmethod
    def of_dataclass(cls, host: type) -> StructType:
        """Returns the struct type with the members of a class made by `dataclasses.dataclass`; values of the type that Python receives are
        instances of the class.

        Raises:
            QuadrantsSyntaxError: a member is neither scalar, vector, matrix, struct nor such a dataclass.
        """
        import dataclasses

        members, hints = {}, typing.get_type_hints(host)
        for field in dataclasses.fields(host):
            element = hints[field.name]
            if field.init and is_dataclass(element):
                members[field.name] = cls.of_dataclass(element)
            elif field.init and find_element(element) is not None:
                members[field.name] = element
            else:
                raise QuadrantsSyntaxError(f"Invalid data type {host!r}: its member {field.name!r} is no value that a kernel can return")
        made = cls(host.__name__, _find_methods(host, members), **members)
        made.host = host
        return made

    @property
    def __match_args__(self) -> tuple[str, ...]:
        """The members that positional patterns of `match` refer to. A struct matches a class if it has all members of the class."""
        return tuple(self._members)

    @property
    def members(self) -> dict[str, Any]:
        """The types of the members by name, in order of declaration."""
        return {name: find_element(element) for name, element in self._members.items()}

    def __getattr__(self, name: str) -> Any:
        statics = self.__dict__.get("statics", {})
        if name not in statics:
            raise AttributeError(f"{self.__dict__.get('name', 'struct type')!r} has no attribute {name!r}")
        return statics[name]

    def __call__(self, *values: Any, **named: Any) -> Struct:
        """Returns a struct value. Members are given by position, then by name; the others are zero.

        A single struct or dict sets the members with the same names, or else the first member. A single number also sets the first member;
        in nested structs, the first number.
        """
        members = self.members
        if len(values) == 1 and not named and isinstance(values[0], (dict, Struct)):
            source = dict(values[0] if isinstance(values[0], dict) else values[0].entries)
            is_nested = isinstance(next(iter(members.values()), None), StructType)
            if not (source and is_nested and not set(source) & set(members)):
                values, named = (), source
        if len(values) > len(members):
            raise QuadrantsSyntaxError(f"{self.name} has {len(members)} members, got {len(values)} values")
        given = dict(zip(members, values, strict=False))
        for name, value in named.items():
            if name not in members or name in given:
                reason = "is given twice" if name in given else f"is no member of {self.name} (members: {', '.join(members)})"
                raise QuadrantsSyntaxError(f"{name!r} {reason}")
            given[name] = value
        values_of = {name: given[name] if name in given else self._default(name, element) for name, element in members.items()}
        return Struct._of(self, {name: _convert(element, values_of[name]) for name, element in members.items()})

    def _default(self, name: str, element: Any) -> Any:
        return self.defaults.get(name, element() if isinstance(element, StructType) else 0)

    def filled_with_scalar(self, value: Any) -> Struct:
        """Returns a struct value whose components are all `value`."""
        return Struct._of(self, {name: _convert(element, value) for name, element in self.members.items()})

    def cast(self, struct: Any) -> Struct:
        """Returns another struct value converted to the members of this type."""
        return self(struct)

    def field(self, shape: Any = None, name: str = "<Struct>", offset: Any = None, **options: Any) -> Any:
        """Returns a field of these structs; the options needs_grad, needs_dual, layout and order are those of `qd.field`.

        `layout` stores the members interleaved (AOS) or each leaf in an array of its own (SOA).
        """
        return _types.constructors.field(self, shape, name=name, offset=offset, **options)

    def ndarray(
        self, shape: Any, needs_grad: bool = False, layout: Layout = Layout.AOS, *, needs_dual: bool = False, offset: Any = None
    ) -> Any:
        """Returns an ndarray of these structs, with the members interleaved (AOS) or each leaf in an array of its own (SOA).

        `needs_grad` and `needs_dual` allocate adjoints and tangents; `offset` is the lowest index of each axis.
        """
        return _types.constructors.ndarray(self, shape, needs_grad, needs_dual, layout is Layout.SOA, offset)

    def tensor(self, shape: Any, **options: Any) -> Any:
        """Returns a tensor of this `shape` of these structs; the options are those of `qd.tensor`."""
        return _types.constructors.tensor(self, shape, **options)

    @property
    def dtype(self) -> dict[str, Any]:
        """The same as `members`."""
        return self.members

    def __copy__(self) -> StructType:
        return self

    def __deepcopy__(self, memo: Any) -> StructType:
        return self

    def __reduce_ex__(self, protocol: Any) -> Any:
        # A class of a module is pickled by reference, like all classes; this preserves its methods.
        if self._place is not None and _find_global(*self._place) is self:
            return _find_global, self._place
        return super().__reduce_ex__(protocol)

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        """Returns the bases of `class B(A)` if A is a struct type: a class that stores A."""
        return (type(self.name, (), {"_qd_struct_type": self}),)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StructType) and self.members == other.members and list(self._members) == list(other._members)

    def __hash__(self) -> int:
        return hash(tuple(self._members))

    def __repr__(self) -> str:
        members = ", ".join(f"{name}={element}" for name, element in self.members.items())
        return f"<qd.StructType {members}, struct_methods={self.methods}>"


def _find_global(module: str, name: str) -> Any:
    """Returns the object with this qualified name in a module, or None."""
    with contextlib.suppress(AttributeError, ImportError):
        return operator.attrgetter(name)(importlib.import_module(module))
    return None


def _convert(element: Any, value: Any) -> Any:
    """Converts the value of a member to the type of the member."""
    if isinstance(element, StructType):
        return element(*value) if isinstance(value, (list, tuple)) else element(value)
    if isinstance(element, MatrixType):
        value = unwrap(value)
        return from_components(element, tuple(value) if isinstance(value, (list, tuple, np.ndarray)) else (value,))
    if isinstance(value, (list, tuple, dict, Matrix, Struct, str)):
        raise TypeError(f"a member of type {element} cannot be set to {value!r}")
    if element.is_integral:
        check_range(value, element)
        return wrap_integer(int(value), element)
    return to_numpy_dtype(element).type(value).item()


class Struct(metaclass=KernelClass):
    """A struct value: `qd.Struct(a=1, b=...)`, the result of calling a struct type, or an element of a struct field (a view)."""

    _entries: MutableMapping[str, Any]
    _type: StructType | None

    def __init__(self, entries: dict[str, Any] | None = None, /, **members: Any):
        self._bind(None, {**(entries or {}), **members})

    def _bind(self, kind: StructType | None, entries: MutableMapping[str, Any]) -> Struct:
        object.__setattr__(self, "_type", kind)
        object.__setattr__(self, "_entries", entries)
        return self

    @classmethod
    def _of(cls, kind: StructType | None, entries: MutableMapping[str, Any]) -> Struct:
        return object.__new__(cls)._bind(kind, entries)

    @property
    def entries(self) -> dict[str, Any]:
        """Names and values of the members."""
        return dict(self._entries)

    @property
    def keys(self) -> list[str]:
        """Returns the names of the members."""
        return list(self._entries)

    @property
    def items(self) -> Any:
        """Returns pairs of name and value of the members."""
        return self.entries.items()

    @property
    def methods(self) -> dict[str, Any]:
        """The methods of the struct type."""
        return {} if self._type is None else self._type.methods

    def to_dict(self, include_methods: bool = False, include_ndim: bool = False) -> dict[str, Any]:
        """Return the members as plain Python values: numbers, lists, dicts.

        `include_methods` adds the methods under "__struct_methods", `include_ndim` the number of axes of each vector and matrix under
        "__matrix_ndim"; both also for nested structs.
        """
        made = {name: _plain(value, include_methods, include_ndim) for name, value in self.entries.items()}
        if include_methods:
            made[_METHODS] = dict(self.methods)
        if include_ndim:
            made["__matrix_ndim"] = {name: value.ndim for name, value in self.entries.items() if isinstance(value, Matrix)}
        return made

    def __getitem__(self, name: str) -> Any:
        return self._entries[name]

    def __setitem__(self, name: str, value: Any) -> None:
        self._entries[name]  # raises for a member that does not exist
        self._entries[name] = value if self._type is None else _convert(self._type.members[name], value)

    def __copy__(self) -> Struct:
        """Copies the value, even if this is an element of a container."""
        entries = {name: value.__copy__() if isinstance(value, (Matrix, Struct)) else value for name, value in self.entries.items()}
        return self._of(self._type, entries)

    def __reduce__(self) -> Any:
        return self._of, (self._type, self.entries)

    def __getattr__(self, name: str) -> Any:
        if name in ("_entries", "_type"):
            raise AttributeError(name)
        if not name.startswith("__"):
            if name in self._entries:
                return self._entries[name]
            if name in self.methods:
                return self.methods[name].__get__(self, type(self))
            if f"_{name}0" in self._entries:
                return _UnpackedVector(self, name)
            if self._type is not None and name in self._type.statics:
                return self._type.statics[name]
        raise AttributeError(f"struct has no attribute {name!r} (members: {', '.join(self.keys)})")

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self._entries:
            raise AttributeError(f"struct has no attribute {name!r} (members: {', '.join(self.keys)})")
        self[name] = value

    def __eq__(self, other: object) -> Any:
        return isinstance(other, Struct) and self.to_dict() == other.to_dict()

    __hash__ = object.__hash__

    def __iter__(self) -> Iterator[Any]:
        return iter(self.entries.values())

    def __repr__(self) -> str:
        # The members of an element of a container are read from it, and it may have no memory any more.
        is_alive = getattr(self._entries, "is_alive", True)
        return str(self.to_dict()) if is_alive else f"<qd.Struct of {', '.join(self.keys)}, ended by qd.reset()>"

    @staticmethod
    def field(members: dict[str, Any], methods: dict[str, Any] | None = None, *arguments: Any, **options: Any) -> Any:
        """Return a field of structs with these `members` (name to type) and `methods` (name to func); `arguments` and `options` are those
        of `StructType.field`.
        """
        return StructType("struct", methods, **members).field(*arguments, **options)


class _UnpackedVector:
    """A vector member whose components are separate members."""

    def __init__(self, struct: Struct, name: str):
        self._struct, self._name = struct, name

    def __getitem__(self, index: int) -> Any:
        if f"_{self._name}{index}" not in self._struct._entries:
            raise IndexError(f"component {index} of the unpacked vector {self._name!r} is out of bounds")
        return self._struct[f"_{self._name}{index}"]

    def __setitem__(self, index: int, value: Any) -> None:
        self[index]  # raises for a component that does not exist
        self._struct[f"_{self._name}{index}"] = value


def _plain(value: Any, include_methods: bool, include_ndim: bool) -> Any:
    if isinstance(value, Struct):
        return value.to_dict(include_methods, include_ndim)
    return value.to_list() if isinstance(value, Matrix) else value


def struct(**members: Any) -> StructType:
    """Return a struct type with these members; the key ``__struct_methods`` attaches methods."""
    methods = members.pop(_METHODS, None)
    return StructType("struct", methods, **members)


def dataclass(cls: type) -> StructType:
    """Return the struct type of a class `cls`: annotated names are members, their values are defaults, functions are methods.

    Other attributes are constants, and members of base classes come first. Raises `QuadrantsSyntaxError` for a default that cannot be
    converted to the type of its member.
    """
    members: dict[str, Any] = {}
    methods: dict[str, Any] = {}
    defaults: dict[str, Any] = {}
    scope = {**vars(sys.modules.get(cls.__module__, _types)), **caller_locals(1)}
    for base in reversed(cls.__mro__[:-1]):
        for inherited, own in zip(_inherited(base), (members, methods, defaults), strict=True):
            own.update(inherited)
        for name, annotation in inspect.get_annotations(base).items():  # Python 3.14 evaluates them when it is asked
            members[name] = evaluate_annotation(annotation, scope)
        for name, value in base.__dict__.items():
            if name in members:
                defaults[name] = value
            elif not name.startswith("__"):
                methods[name] = value
    methods.pop("_qd_struct_type", None)
    kind = StructType(cls.__name__, methods, **members)
    kind._place = cls.__module__, cls.__qualname__
    for name, value in defaults.items():
        try:
            _convert(kind.members[name], value)
        except (TypeError, ValueError) as error:
            raise QuadrantsSyntaxError(f"the default of member {name!r} of {cls.__name__} does not fit: {error}") from error
    kind.defaults = defaults
    return kind


def _inherited(base: type) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    kind = base.__dict__.get("_qd_struct_type")
    if kind is None:
        return {}, {}, {}
    statics = {name: staticmethod(value) for name, value in kind.statics.items()}
    return kind._members, {**kind.methods, **statics}, kind.defaults

"""Fields and ndarrays of structs: a container for each member."""

from __future__ import annotations

import math
from collections import UserDict
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, NoReturn

import numpy as np

from .. import _runtime
from .._base.dtypes import bf16, to_memory_dtype
from .._base.namespaces import forwarded
from .._values.struct import Struct, StructType
from .container import ContainerSpec, Copies, Shadows
from .summaries import ArrayOperands, escape


class _FieldElement(UserDict[str, Any]):
    """The entries of an element of a struct field: reading and assigning a member accesses the field."""

    def __init__(self, members: dict[str, Any], index: Any):
        self.data, self._index = members, index

    def __getitem__(self, name: str) -> Any:
        return self.data[name][self._index]

    def __setitem__(self, name: str, value: Any) -> None:
        self.data[name][self._index] = value

    @property
    def is_alive(self) -> bool:
        """Whether the members can be read: no reset has ended them."""
        return all(getattr(member, "_first_leaf", member)._state != "dead" for member in self.data.values())


class StructField(Shadows, Copies, ArrayOperands):
    """A field of structs: one field for each member, available as attributes and through `field_dict`."""

    def __init__(
        self, field_dict: dict[str, Any], struct_methods: dict[str, Any] | None = None, name: str = "<Struct>", is_primal: bool = True
    ):
        self._is_primal = is_primal
        if not field_dict:
            raise ValueError("a struct field needs at least one member")
        self.field_dict, self.struct_methods, self.name = dict(field_dict), dict(struct_methods or {}), name
        members = {key: _element_of(member) for key, member in field_dict.items()}
        self._type = StructType("struct", self.struct_methods, **members)

    @property
    def keys(self) -> list[str]:
        """Returns the names of the members."""
        return list(self.field_dict)

    _first_leaf: Any = property(lambda self: next(self._leaves()))
    shape: tuple[int, ...] = forwarded("_first_leaf.shape", "The extents.")
    _live_shape: tuple[int, ...] = forwarded("_first_leaf._live_shape")
    layout: tuple[int, ...] | None = forwarded(
        "_first_leaf.layout", "The axes from the outermost in memory to the innermost, or None if they are in index order."
    )
    snode: Any = forwarded("_first_leaf.snode", "The place of the first member in its tree of nodes.")

    @property
    def _offset(self) -> tuple[int, ...]:
        """Lowest index of each axis."""
        return self._first_leaf._offset or (0,) * len(self.shape)

    @property
    def dtype(self) -> StructType:
        """The struct type of the elements."""
        return self._type

    def get_member_field(self, key: str) -> Any:
        """Return the field of the member `key`."""
        return self.field_dict[key]

    def __getattr__(self, name: str) -> Any:
        members = self.__dict__.get("field_dict", {})
        if name not in members:
            raise AttributeError(f"struct field has no attribute {name!r} (members: {', '.join(members)})")
        return members[name]

    def __getitem__(self, index: Any) -> Any:
        # Raises for an index outside of the shape now, not at the first access of a member.
        first = next(iter(self.field_dict.values()))[index]
        if not isinstance(first, (StructField, _runtime.NdarrayBase)):
            return Struct._of(self._type, _FieldElement(self.field_dict, index))
        view = StructNdarray({name: member[index] for name, member in self.field_dict.items()}, self.struct_methods, self.name)
        view._type = self._type
        return view

    def __setitem__(self, index: Any, value: Any) -> None:
        entries = value.entries if isinstance(value, Struct) else getattr(value, "field_dict", value)
        for member, item in self._read_members(entries):
            member[index] = item

    def _read_members(self, values: Any) -> Iterator[tuple[Any, Any]]:
        """Pairs each member with its value; all are read before the first is assigned, so that a missing one changes nothing."""
        try:
            parts = [values[name] for name in self.field_dict]
        except (KeyError, ValueError, IndexError, TypeError):
            got = f"members {[*values]}" if isinstance(values, dict) else type(values).__name__
            raise KeyError(f"a dict or structured array with the members {self.keys} is expected, got {got}") from None
        return zip(self.field_dict.values(), parts, strict=True)

    def __iter__(self) -> Any:
        raise NotImplementedError("Struct for is only available in Quadrants scope. In Python, loop over np.ndindex(x.shape)")

    def _shadow(self, which: str) -> StructField | None:
        shadows = {name: getattr(member, which) for name, member in self.field_dict.items()} if self._is_primal else {}
        found = {name: shadow for name, shadow in shadows.items() if shadow is not None}
        return StructField(found, self.struct_methods, f"{self.name}.{which}", is_primal=False) if found else None

    def _has(self, which: str) -> bool:
        return any(member._has(which) for member in self.field_dict.values())

    def parent(self, n: int = 1) -> Any:
        """Return the n-th node above the first member."""
        return self._first_leaf.parent(n)

    def fill(self, val: Any) -> None:
        """Assign the number `val` to every component of every member."""
        for member in self.field_dict.values():
            member.fill(val)

    def copy_from(self, other: StructField) -> None:
        """Copy the elements of `other`, a struct field; raises `AssertionError` unless it has the same members."""
        if not isinstance(other, StructField) or set(other.keys) != set(self.keys):
            raise AssertionError(f"copy_from needs a struct field with the members {self.keys}")
        for name, member in self.field_dict.items():
            member.copy_from(other.field_dict[name])

    def to_numpy(self, *, copy: bool | None = True) -> dict[str, Any]:
        """Return a (nested) dict of NumPy arrays by member name; `copy` as for `qd.Field.to_numpy`."""
        return {name: member.to_numpy(copy=copy) for name, member in self.field_dict.items()}

    def from_numpy(self, array_dict: dict[str, Any]) -> None:
        """Copy from `array_dict`, a (nested) dict with an array for every member, or a structured array, both of shape `shape`."""
        for member, array in self._read_members(array_dict):
            member.from_numpy(array)

    def to_torch(self, device: Any = None, *, copy: bool | None = True) -> dict[str, Any]:
        """Return a (nested) dict of torch tensors by member name; `device` and `copy` as for `qd.Field.to_torch`."""
        return {name: member.to_torch(device, copy=copy) for name, member in self.field_dict.items()}

    def from_torch(self, array_dict: dict[str, Any]) -> None:
        """Copy from `array_dict`, a (nested) dict with a tensor for every member."""
        self.from_numpy(array_dict)

    def to_dlpack(self, versioned: bool = False) -> NoReturn:
        """Raise `NotImplementedError`, also for `versioned`: a struct field has no single data type. Export its members."""
        raise NotImplementedError(f"DLPack has no structs: export the members ({', '.join(self.field_dict)}) one by one")

    def _leaves(self) -> Iterator[Any]:
        """Yields the member fields, including those of nested structs."""
        for member in self.field_dict.values():
            yield from member._leaves() if isinstance(member, StructField) else (member,)

    def _cell_type(self, **size: int) -> np.dtype:
        """Returns the NumPy type of a struct with the offsets of its members in the first cell, padded up to `itemsize`."""
        start = self._first_leaf._address
        members = self.field_dict.values()
        formats = [m._cell_type() if isinstance(m, StructField) else (to_memory_dtype(m._dtype), m.element_shape) for m in members]
        offsets = [next(m._leaves())._address - start for m in members]
        return np.dtype({"names": self.keys, "formats": formats, "offsets": offsets, **size})  # type: ignore[call-overload]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """Returns a structured array: a view if the members are interleaved in one cell, else a copy."""
        first, shape = self._first_leaf, self._live_shape
        if (
            math.prod(shape)
            and first._has_view
            and first.parent() is not None
            and all(leaf.parent() is first.parent() and not leaf._is_soa and leaf._dtype is not bf16 for leaf in self._leaves())
        ):
            is_whole = first.snode._offset_bytes_in_parent_cell == 0  # an element is the whole cell, including its padding
            kind = self._cell_type(itemsize=first.parent()._cell_size_bytes) if is_whole else self._cell_type()
            place = {"shape": shape, "strides": first._qd_layout.strides, "typestr": f"|V{kind.itemsize}", "version": 3}
            place["data"] = (first._address, False)
            result = np.asarray(SimpleNamespace(__array_interface__=place, owner=first._buffer)).view(kind)
        else:
            members = {name: np.asarray(member) for name, member in self.field_dict.items()}
            result = np.empty(shape, [(name, array.dtype, array.shape[len(shape) :]) for name, array in members.items()])
            for name, array in members.items():
                result[name] = array
        return np.array(result, dtype) if copy or dtype is not None else result

    def _numbers(self) -> np.ndarray:
        return self.__array__()

    @property
    def _part(self) -> str:  # type: ignore[override]
        name, member = next(iter(self.field_dict.items()))
        return f".{name}{member._part}"

    def _description(self) -> tuple[str, Any, tuple[int, ...], ContainerSpec]:
        first = self._first_leaf
        factory, _, shape, recipe = first._description()
        is_soa = any(leaf.parent() is not first.parent() for leaf in self._leaves())
        recipe = recipe._replace(is_soa=is_soa, needs_grad=self.has_grad(), needs_dual=self.has_dual(), name=self.name)
        return "struct ndarray" if factory == "ndarray" else factory, self._type, shape, recipe

    def __repr__(self) -> str:
        members = ", ".join(f"{name}={element!r}" for name, element in self._type.members.items())
        kind = "ndarray" if isinstance(self, StructNdarray) else "field"
        return f"<qd.Struct.{kind} of {members}, {self._first_leaf._where()}>"

    def _repr_html_(self) -> str:
        """Returns the table of each member, below the members and the shape."""
        parts = [f"<p><b>{name}</b></p>{member._repr_html_()}" for name, member in self.field_dict.items()]
        return f"<p><code>{escape(repr(self)[1:-1])}</code></p>{''.join(parts)}"


class StructNdarray(StructField):
    """An ndarray of structs: one ndarray for each member."""


def _element_of(field: Any) -> Any:
    return field._type if isinstance(field, StructField) else field._element_type

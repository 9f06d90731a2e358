"""Resolves names, members and elements of kernels for the interpreter, and holds the state of its run."""

from __future__ import annotations

import builtins
import contextlib
import enum
import functools
import sys
import weakref
from typing import Any, NamedTuple

import numpy as np

from quadrants._base.errors import QuadrantsAssertionError, QuadrantsTypeError
from quadrants._base.imports import load
from quadrants._language.kernel import require_stable
from quadrants._library import indices as _indices

from . import host_objects, intrinsics, objects, scalars, values
from .random_numbers import RandomNumbers
from .scalars import options, typed
from .values import StructValue, Tensor, Vec, is_place, is_runtime, read

_OF_CONTAINERS = ("fill", "size", "offset", "strides", "subview", "ndim", "_offset", "_compacts")


class _ListAt(NamedTuple):
    """A list of a field in a dynamic node: `x`, or `x[i]` without the axis of the list."""

    node: Any
    place: list[Any]

    def method(self, evaluator: Any, name: str) -> Any:
        """Returns `append`, `length` or `deactivate` of the list."""
        function = getattr(load("quadrants._sparse.trees"), name)
        return lambda *values: evaluator.call(function, self.node, self.place, *values)


def _list_of(tensor: Tensor | None) -> Any:
    """Returns the node of a field of lists, or None."""
    while tensor is not None and isinstance(tensor.data, dict):
        tensor = next(iter(tensor.data.values()))
    return None if tensor is None else getattr(tensor.owner, "_list", None)


class Accesses:
    """Reads of a kernel: names from outside, members, elements, slices."""

    def __init__(self) -> None:
        self.kernel: Any = None  # the running kernel
        self.integer_members: weakref.WeakKeyDictionary[Any, dict[tuple[int, str], Any]] = weakref.WeakKeyDictionary()
        self.random = RandomNumbers()
        self.reset()

    def reset(self) -> None:
        """Clears the state of the previous launch."""
        self.dry = 0
        # For each enclosing operator: whether an operand is skipped, and whether that was known at compile time.
        self.skipped: list[tuple[bool, bool]] = []
        self.links: list[Any] = []  # for each enclosing chain of comparisons: the left operand of the next link
        self.noted: list[Any] = []
        self.awaited: int | None = None  # the label of the checkpoint from which the launch resumes, until it is reached
        self.suspended: int | None = None  # the label of the checkpoint that has suspended the launch
        self.has_checkpoints = False
        self.results: dict[Any, tuple[Any, list[Any]]] = {}
        self.tensors: dict[int, tuple[Any, Tensor]] = {}
        self.outside: dict[int, tuple[Any, Any]] = {}  # lists and dicts from outside, and their counterparts in kernels
        self.owners: dict[int, tuple[Any, str]] = {}  # objects, and how their number members are treated
        self.made: dict[int, Any] = {}  # objects of the user's classes that the kernel has made

    def skips_assertions(self, is_checked: bool) -> bool:
        """Whether `assert` has no effect; with `is_checked`, it has one without debug=True, too."""
        return not (options.debug or is_checked) or self.dry > 0

    read = staticmethod(read)
    convert = staticmethod(host_objects.convert)
    slice = staticmethod(builtins.slice)
    formatted = staticmethod(intrinsics.format_field)

    def truth(self, value: Any) -> bool:
        """Evaluates a condition."""
        return bool(self.truth_value(value))

    def truth_value(self, value: Any) -> Any:
        """Returns what a condition is evaluated from: for objects that the kernel has made, the result of their own method."""
        is_special = objects.is_class_of_user(type(value)) and not objects.is_known(self, value)
        return objects.truth_of(self, value) if is_special else value

    def captured(self, value: Any) -> Any:
        """Converts a value from outside the kernel: scalars become compile-time numbers, host vectors and structs constants."""
        if isinstance(value, np.generic) or is_place(value):
            return value.item()
        if isinstance(value, (list, tuple, dict)):
            if id(value) not in self.outside:
                self.outside[id(value)] = (value, host_objects.with_plain_numbers(value))
            return self.outside[id(value)][1]
        return host_objects.constant(value)

    def outer(self, name: str) -> Any:
        """Reads a name that is no variable here although the function has one of that name elsewhere."""
        return self.captured(sys._getframe(1).f_globals.get(name, getattr(builtins, name, None)))

    def tensor(self, value: Any) -> Tensor | None:
        """Returns the elements of a container, or None for anything else."""
        if isinstance(value, Tensor):
            return value
        known = self.tensors.get(id(value))
        if known is None and isinstance(value, host_objects.CONTAINERS):
            known = self.tensors[id(value)] = (value, host_objects.tensor_of(value))
        return known[1] if known else None

    def member(self, base: Any, name: str) -> Any:
        """Returns the place of a member or component, or the attribute of a compile-time object."""
        if isinstance(base, _ListAt):
            return base.method(self, name)
        if name in ("append", "length", "deactivate"):
            if (listed := _list_of(self.tensor(base))) is not None:
                return _ListAt(listed, []).method(self, name)
        if (
            name in ("dtype", "element_shape", "n", "m")
            and isinstance(base, Tensor)
            and not isinstance(base.owner, host_objects.CONTAINERS)
        ):
            item = np.empty(base.data.shape[len(base.shape) :], base.data.dtype)  # an element of an array of another library
            base = Vec(item) if item.ndim else item
        if isinstance(base, Vec):
            part = values.swizzle(base, name)
            return part if part is not None else intrinsics.vector_attribute(self, base, name)
        if isinstance(base, StructValue):
            if name in base.members:
                return base.members[name]
            if name in base.methods:
                return host_objects.bind(base.methods[name], base)
            if name == "keys":
                return tuple(base.members)
            components = (f"_{name}{k}" for k in range(len(base.members)))  # the members of an unpacked vector
            return tuple(base.members[part] for part in components if part in base.members)
        if name in ("dtype", "element_shape") and (isinstance(base, np.generic) or is_place(base)):
            return () if name == "element_shape" else host_objects.dtypes.from_numpy_dtype(np.asarray(base).dtype)
        if id(base) in self.made:
            return objects.member(self, base, name)
        fields = getattr(base, "_fields", ()) if isinstance(base, tuple) else ()
        if name in fields:
            return self.element(base, fields.index(name))
        tensor = self.tensor(base) if name in _OF_CONTAINERS else None
        if name == "_offset" and tensor is not None:
            return tuple(tensor.origin or (0,) * len(tensor.shape))
        if name == "_compacts" and tensor is not None:
            return False
        if tensor is not None and name in _OF_CONTAINERS[1:]:
            return intrinsics.part_attribute(tensor, name)
        if name == "grad" and self.tensor(base) is not None:
            scalars.refuse_gradients()
        if isinstance(base, values.View) and name in ("grad", "dual"):
            shadow = self.tensor(self.member(base.parent, name))
            if shadow is not None:
                return values.view_of(shadow, base.key)
        if name == "fill" and tensor is not None and not isinstance(tensor.data, dict):
            return host_objects.bind(_indices.fill, base)
        if name == "shape" and isinstance(base, Tensor) and base.dynamic:
            known = base.known or (None,) * len(base.shape)
            return tuple(np.int32(extent) if constant is None else constant for extent, constant in zip(base.shape, known, strict=True))
        if isinstance(base, str) and name == "format":
            return functools.partial(intrinsics.format_text, base)
        getter = getattr(getattr(type(base), name, None), "fget", None)
        if host_objects.is_func(getter):
            return host_objects.call_func(self, getter, (base,), {})
        rule = self.owners[id(base)][1] if id(base) in self.owners else host_objects.members_rule(base)
        value = host_objects.member(base, name, rule)
        if options.debug and hasattr(type(base), "_qd_stable_members") and isinstance(value, host_objects.CONTAINERS):
            require_stable(base, name)
        if rule is not None and host_objects.has_members(value):
            self.owners[id(value)] = (value, rule)
        if rule == "launch" and isinstance(value, (bool, int, float)) and not isinstance(value, enum.Enum):
            self.check_member_type(base, name, value)
            return np.array(host_objects.cast_argument(name, value, options.default_fp if isinstance(value, float) else options.default_ip))
        if isinstance(base, Tensor) and name == "grad" and value is not None and not isinstance(value, host_objects.CONTAINERS):
            return host_objects.tensor_of(host_objects.find_array(value, name), name, base.shape)
        return value if is_place(value) else self.captured(value)

    def check_member_type(self, base: Any, name: str, value: Any) -> None:
        """Raises for a float in a member that was an integer when the kernel first read it."""
        known, key = self.integer_members.setdefault(self.kernel, {}), (id(base), name)
        if isinstance(value, int):
            with contextlib.suppress(TypeError):  # an object without weak references is not recorded
                known[key] = weakref.ref(base)
        elif key in known and known[key]() is base:
            text = f"'{name}' of a data_oriented(template_primitives=False) object was an integer when it was launched first and is"
            advice = "Keep the type of the member, or use the default template_primitives=True"
            raise QuadrantsTypeError(f"{text} a float now: to coerce it would truncate. {advice}")

    def list_or_element(self, base: Any, index: Any) -> Any:
        """Returns the list at an index, for `x[i].append`, or an element."""
        listed, places = _list_of(self.tensor(base)), values.flat_indices(index)
        if listed is not None and len(places) == len(listed._own_shape):
            return _ListAt(listed, places)
        return self.element(base, index)

    def element(self, base: Any, index: Any) -> Any:
        """Returns the place of an element or component, or the item of a compile-time container."""
        tensor = self.tensor(base)
        if tensor is not None and (listed := _list_of(tensor)) is not None:
            places = values.flat_indices(index)
            if len(places) == len(listed._own_shape) < len(tensor.shape):
                return _ListAt(listed, places)
        if tensor is not None:
            return values.tensor_element(tensor, index, lenient=self.dry > 0)
        if isinstance(base, (list, tuple)) and isinstance(index, np.generic):
            base = values.make_vector(base, None)
        if isinstance(base, Vec):
            return values.component(base, index, lenient=self.dry > 0)
        if isinstance(base, StructValue) and isinstance(index, str):
            return base.members[index]
        if objects.has_own_operators(base) and not (objects.is_known(self, base) and objects.is_known(self, index)):
            item = objects.call_special(self, base, "__getitem__", index)
            if item is not NotImplemented:
                return item
        item = self.entry(base, index)
        if isinstance(base, np.ndarray):
            return self.captured(item)
        return item if is_runtime(item) else host_objects.constant(item)

    def entry(self, base: Any, index: Any) -> Any:
        """Returns an item of a Python object; the missing key of a dict fails the launch, but code that runs for types gets an item."""
        if type(base) is not dict or index in base:
            return base[index]
        if not self.dry:
            raise QuadrantsAssertionError(f"the dict has no key {index}")
        return next(iter(base.values()))

    def item_place(self, base: Any, index: Any, is_atomic: bool) -> Any:
        """Same as `element`, for a reference: a run-time number in a list or dict gets a place; with `is_atomic`, every number."""
        item = self.element(base, index)
        if is_atomic and isinstance(item, (bool, int, float)):
            item = typed(item)
        if isinstance(base, (list, dict)) and isinstance(item, np.generic) and not is_runtime(index):
            item = base[index] = scalars.place(item)
        return item

    def copies(self, items: Any) -> Any:
        """Returns copies of the items of a list for another one."""
        return list(map(read, items)) if isinstance(items, (list, tuple)) else items

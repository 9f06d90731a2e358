"""Methods common to fields and ndarrays: filling, copying, conversion to and from NumPy and torch."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from .. import _runtime
from .._base.dtypes import BF16_BITS, DataType, check_range, store, to_array, to_dtype, to_memory_dtype, to_numbers
from .._base.errors import QuadrantsShapeError
from .._base.namespaces import forwarded
from .._values.matrix import Matrix, unwrap, view_of
from .._values.types import MatrixType
from .interop import InteropMethods, as_array, load_device_copies
from .summaries import Summaries, to_text


def scalar_dtype(element: Any) -> DataType:
    """Returns the data type of the components of an element type."""
    return to_dtype(element.dtype if isinstance(element, MatrixType) else element)


def element_shape_of(element: Any) -> tuple[int, ...]:
    """Returns the extents of an element: () for a scalar, (n,) for a vector, (n, m) for a matrix."""
    shape = element.shape if isinstance(element, MatrixType) else ()
    if None in shape:
        raise ValueError(f"the elements of a container need a known shape, got {element!r}")
    return shape


class WrittenBack(np.ndarray):
    """A copy of an element that is on a device or has type bf16; assignments to it, or to a part of it, also update the element: they call
    `_flush`. The interpreter's elements of sparse and quantized fields are such arrays, too.
    """

    _flush: Callable[[], None] | None = None

    def __array_finalize__(self, source: Any) -> None:
        if self.base is not None:  # a part, not a result of arithmetic
            self._flush = getattr(source, "_flush", None)

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key, value)
        if self._flush is not None:
            self._flush()


def attach(container: Any, which: str, shadow: Any) -> None:
    """Makes a container the gradient ("grad") or tangent ("dual") of another one."""
    shadow._mark_shadow(1 if which == "grad" else 2)
    shadow._primal = which
    setattr(container, which, shadow)


class Shadows:
    """Shadows: containers of the same shape, which a class makes in `_shadow` at their first use."""

    _shadow: Callable[[str], Any]
    _has: Callable[[str], bool]  # whether the shadow exists and has memory

    @functools.cached_property
    def grad(self) -> Any:
        """The adjoints, a container of the same shape, or None. The adjoints of a field have memory if `needs_grad` or
        a tree allocated it.
        """
        return self._shadow("grad")

    @functools.cached_property
    def dual(self) -> Any:
        """The tangents, a container of the same shape, or None. The tangents of a field have memory if `needs_dual` or
        a tree allocated it.
        """
        return self._shadow("dual")

    _placed_grad = property(lambda self: self.grad if self._has("grad") else None)
    _placed_dual = property(lambda self: self.dual if self._has("dual") else None)

    def has_grad(self) -> bool:
        """Return whether adjoints are allocated."""
        return self._has("grad")

    def has_dual(self) -> bool:
        """Return whether tangents are allocated."""
        return self._has("dual")


def leaves_of(items: Any) -> Iterator[Any]:
    """Yields the fields, also of structs, in lists of them. Raises `ValueError` for anything else."""
    for item in items:
        item = getattr(item, "_impl", item)  # a `qd.Tensor` is replaced by its implementation
        if isinstance(item, (list, tuple)):
            yield from leaves_of(item)
        elif isinstance(item, _runtime.FieldBase):
            yield item
        elif hasattr(item, "field_dict"):
            yield from leaves_of(item.field_dict.values())
        else:
            raise ValueError(f"{item!r} cannot be placed: a field is expected")


class Extents:
    """Size of a tensor or view; `_live_shape` is its shape, and raises after a reset.

    Methods read `_live_shape` and `_dtype`, since another thread may reset the runtime between any two of their lines.
    """

    _live_shape: tuple[int, ...]
    element_shape: tuple[int, ...]
    dtype: Any

    @property
    def ndim(self) -> int:
        """Number of axes, without the axes of elements."""
        return len(self._live_shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self._live_shape)

    @property
    def nbytes(self) -> int:
        """Size of all elements in bytes."""
        return self.size * math.prod(self.element_shape) * self.dtype.size


class ContainerSpec(NamedTuple):
    """Describes how to make a container, apart from its element type and shape."""

    layout: tuple[int, ...] | None = None
    """The axes, outermost in memory first; None: in order."""
    is_soa: bool = False
    """The components of elements, or the members of structs, are in blocks of their own."""
    needs_grad: bool = False
    needs_dual: bool = False
    offset: Any = None
    """Lowest index of each axis; None: 0."""
    name: str = ""
    """For reports and messages."""


class Copies:
    """Implements copy and pickle: makes another container from the same description and copies the elements."""

    copy_from: Callable[[Any], None]
    to_numpy: Callable[[], Any]

    def _description(self) -> tuple[str, Any, tuple[int, ...], ContainerSpec]:
        """The arguments of `restore`: a name in `MAKERS`, element type, shape, spec."""
        raise NotImplementedError

    def __deepcopy__(self, memo: Any) -> Any:
        twin = restore(*self._description())
        twin.copy_from(self)
        return twin

    def __copy__(self) -> Any:
        return self.__deepcopy__({})  # a shallow copy would be a second owner of the memory that looks like a copy

    def __reduce__(self) -> Any:
        return (restore, (*self._description(), self.to_numpy()))


made_hooks: list[Callable[[Any], None]] = []
"""Called with each new container. The interpreter adds one (interpreter/tensors.py)."""

MAKERS: dict[str, Callable[[Any, Any, ContainerSpec], Any]] = {}
"""Functions that make containers from a description, by the names in pickles; the modules that define them add them."""


def restore(factory: str, element: Any, shape: Any, recipe: ContainerSpec, data: Any = None) -> Any:
    """Makes a container from its description, and copies `data` into it."""
    made = MAKERS[factory](element, shape, recipe)
    if data is not None:
        made.from_numpy(data)
    return made


class ContainerMethods(InteropMethods, Shadows, Copies, Summaries):
    """Methods of every container. The bound base class implements the memory (`view`) and the fast element access."""

    _element_type: Any
    _order: tuple[int, ...] | None = None
    _needs_grad = _needs_dual = False  # declared before the memory is allocated
    _primal: str | None = None  # for a gradient or tangent: its name in messages
    _is_soa = False  # components in blocks of their own
    _cells: Any = None  # in a sparse node: its cells, the digits of their numbers, the loop over them, a list of elements
    _cell_digits: Any = ()
    _loop: Any = None
    _list: Any = None
    _leaf: Any = None  # the node of a tree in which the container is placed
    _whole: Any = None  # the field of vectors or matrices of which this is a component, if the components are placed one by one
    _name = ""
    _shown_name = ""  # the name that the program set
    _kind: str  # the noun in its repr, a format of the container

    layout: tuple[int, ...] | None = forwarded(
        "_order", "The axes from the outermost in memory to the innermost, or None if they are in index order."
    )
    snode: Any = forwarded("_leaf", "The place of the container in a tree of nodes, or None.")
    _snode = snode

    def _has(self, which: str) -> bool:
        shadow = vars(self).get(which)
        return shadow is not None and shadow._is_placed()

    def _is_placed(self) -> bool:
        return self._leaf is not None or self._state != "unplaced"

    def parent(self, n: int = 1) -> Any:
        """Return the n-th node above: 1 is the array of cells with the elements; None above the root."""
        return None if self._leaf is None else self._leaf.parent(n)

    def _leaves(self) -> Iterator[Any]:
        yield self  # a struct field yields several

    def _place_declared_parts(self) -> None:
        """Allocates fields of components that were created before there was memory."""

    @_runtime.fast_fill
    def fill(self, val: Any) -> None:
        """Set every element to `val`: a number for every component, or one element as a list, vector or matrix.

        Raises `ValueError` for an element of another shape.
        """
        value = unwrap(val)
        if isinstance(value, (list, tuple, np.ndarray)):
            value = to_array(value, self._dtype)
            if value.shape not in ((), self.element_shape):
                raise ValueError(f"fill needs a number or an element of shape {self.element_shape}, got one of shape {value.shape}")
            if value.dtype.kind in "iufO":
                check_range(value, self._dtype)
        element = np.empty(self.element_shape, to_memory_dtype(self._dtype))
        store(element, ..., value)
        if self._cells is not None:
            self._cells.fill(self, element)
        elif not (self._try_fill(element) or (self._device is not None and load_device_copies().fill(self, element))):
            self._overwrite(np.broadcast_to(element, self._live_shape + self.element_shape))

    @_runtime.fast_copy_from
    def copy_from(self, other: Any) -> None:
        """Copy the elements of `other`, a container, NumPy array or torch tensor of the same shape, with the conversions of an assignment.

        Raises `TypeError` (fields) or `AssertionError` (ndarrays) for another shape.
        """
        if isinstance(other, (int, float, str)) or other is None:
            problem = TypeError if self._noun == "field" else AssertionError  # the classes that programs for the reference catch
            raise problem(f"Cannot copy from a non-{self._noun} object ({type(other).__name__})")
        if self._try_copy(other) or (self._device is not None and load_device_copies().copy_from_device(self, other)):
            return
        source, own = as_array(other), self._live_shape + self.element_shape
        if source.shape != own:
            raise QuadrantsShapeError(f"copy_from shape mismatch: {source.shape} does not match the source {self._noun} shape {own}")
        self._overwrite(source)

    def __str__(self) -> str:
        return str(self.to_numpy(copy=None))

    def _head(self) -> str:
        what = f"{self._kind.format(self)} of {scalar_dtype(self._element_type)}"
        return f"{what}, {self._where()}{f', name {self._shown_name!r}' if self._shown_name else ''}"

    def _where(self) -> str:
        """Returns the shape, or why there is none, for people to read."""
        if self._state == "dead":
            return "ended by qd.reset()"
        return f"shape {self.shape}" if self._is_placed() else "not placed"

    def __repr__(self) -> str:
        values = to_text(self, "")
        return f"<{self._head()}:\n{values}>" if "\n" in values else f"<{self._head()}: {values}>" if values else f"<{self._head()}>"

    def _description(self) -> tuple[str, Any, tuple[int, ...], ContainerSpec]:
        factory = "field" if isinstance(self, _runtime.FieldBase) else "ndarray"
        recipe = ContainerSpec(self._order, self._is_soa, self.has_grad(), self.has_dual(), self._offset, self._name)
        return factory, self._element_type, self._live_shape, recipe

    def _activate(self, index: tuple[int, ...]) -> None:
        """Activates the cell of an element of a sparse node."""
        self._cells.reach(self._cells.encode(self._cell_digits, index))

    # -- access to elements that are no scalars; the bound class calls these methods with a checked index

    def _element(self, index: tuple[int, ...]) -> Matrix:
        """Returns the vector or matrix at `index`; assignments to it change the container."""
        part = self._fetch(index)
        if self._device is not None or part.dtype == BF16_BITS or self._cells is not None:
            numbers = to_numbers(part) if self._cells is None else to_numbers(part).copy()
            shown = numbers.view(WrittenBack)
            shown._flush = functools.partial(self._write_back, part, numbers, index)
            return view_of(shown, self._dtype, True)
        return view_of(part, self._dtype, True)

    def _write_back(self, part: np.ndarray, numbers: np.ndarray, index: tuple[int, ...]) -> None:
        if self._cells is not None:
            self._activate(tuple(place + first for place, first in zip(index, self._offset or (0,) * len(index), strict=True)))
        if numbers is not part:
            store(part, ..., numbers)
        self._flush(part, index)

    def _set_element(self, index: tuple[int, ...], value: Any) -> None:
        """Assigns a vector or matrix element; a number is assigned to every component."""
        item = to_array(unwrap(value), self._dtype)
        if item.shape not in ((), self.element_shape):
            raise ValueError(f"an element of shape {self.element_shape} cannot be set to a value of shape {item.shape}")
        check_range(item, self._dtype)
        part = self._fetch(index, True)
        store(part, ..., item)
        self._flush(part, index)

    def _assign_row(self, value: Any) -> bool:
        """Assigns `container[index] = value` for an incomplete index, called on that row; returns False unless there is a value for each
        element.
        """
        shape = (*value.shape, *value.element_shape) if isinstance(value, ContainerMethods) else np.shape(unwrap(value))
        if shape != (*self._live_shape, *self.element_shape):
            return False
        self._assign(value)
        return True

    def _assign(self, value: Any) -> None:
        """Assigns `container[slices] = value`, called on the subview that the slices select."""
        elements = self._fetch(None, True)
        store(elements, ..., unwrap(value))
        self._flush(elements)

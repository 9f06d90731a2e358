"""Fields: containers whose layout is part of the compiled code."""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any

import numpy as np

from .. import _runtime
from .._base import options as _options
from .._base.compat import HostAccess
from .._base.dtypes import to_shape
from .._base.errors import QuadrantsRuntimeError, QuadrantsSyntaxError
from .._base.imports import load
from .._base.namespaces import forwarded
from .._values.quantized import quant_of, refuse_quantized
from .._values.struct import StructType
from .._values.types import Layout, find_element
from . import unfinished_trees
from .axes import check_extents, row_major_strides, to_origin
from .container import MAKERS, ContainerMethods, ContainerSpec, attach, element_shape_of, made_hooks, scalar_dtype
from .layout_tree import SNode
from .ndarray import MatrixNdarray, ScalarNdarray, VectorNdarray
from .struct_field import StructField, StructNdarray

_numbers = itertools.count()


class Field(ContainerMethods, _runtime.FieldBase):
    """A dense container of scalars, vectors or matrices, made by `qd.field`, `qd.Vector.field` or `qd.Matrix.field`."""

    _noun = "field"
    _may_run_backward = False
    vars: tuple[ScalarField, ...]

    def _shadow(self, which: str) -> Any:
        is_second = self._primal == "grad" and which == "dual"  # the tangent of a gradient
        if (self._primal is not None and not is_second) or not self.dtype.is_real:
            return None
        if self._whole is None:
            made = _declare(self._element_type, f"{self._name}.{which}", self._order, self._is_soa, (type(self),) * 3)
        else:  # the component of the shadow
            made = next(other for part, other in zip(self._whole.vars, getattr(self._whole, which).vars, strict=True) if part is self)
        made._shown_name = f"{self._shown_name}.{which}".lstrip(".")
        attach(self, which, made)
        return made

    def __len__(self) -> int:
        """Return the number of elements of the list, for a field in a `dynamic` node of the root."""
        node = self._leaf and self._leaf._above
        if node is None or node._kind != "dynamic" or node._own_shape:
            raise TypeError(f"object of type '{type(self).__name__}' has no len(): see its shape")
        return unfinished_trees.count_items(node)

    def __bool__(self) -> bool:
        return True

    @property
    def host_accessors(self) -> list[HostAccess]:
        """Element access as functions, for each component."""
        return [HostAccess(component) for component in self.vars]

    def _unplaced_shape(self) -> tuple[int, ...]:
        """Returns `shape` before the tree is finalized, without finalizing it."""
        if self._leaf is None:
            unfinished_trees.require_memory(self)
        return self._leaf.shape  # type: ignore[union-attr]

    def _why_unplaced(self) -> str:
        if self._primal is not None:
            return f"Gradient {self._name} has not been placed, check whether `needs_{self._primal}=True`"
        remedy = "give it one, as in qd.field(qd.f32, shape=(2, 3)), or place it in qd.root"
        return f"{self._name!r} was declared without a shape and is not placed: {remedy}"

    def __str__(self) -> str:
        return super().__str__() if self._is_placed() else "<Field: Definition of this field is incomplete>"

    def __iter__(self) -> Any:
        raise NotImplementedError("Struct for is only available in Quadrants scope. In Python, loop over np.ndindex(x.shape)")


class ScalarField(Field):
    """A field of scalars."""

    _kind = "qd.field"

    @property
    def vars(self) -> tuple[ScalarField]:
        """The field itself, as its only component."""
        return (self,)


class MatrixField(Field):
    """A field of vectors (`ndim` 1) or matrices (`ndim` 2)."""

    n: int = forwarded("_element_type.n", "Number of rows of an element.")
    m: int = forwarded("_element_type.m", "Number of columns of an element; 1 for a vector.")
    ndim: int = forwarded("_element_type.ndim", "Number of axes of an element.")
    ptr: Any = forwarded("snode", "The node in which the first component is placed.")
    _squeezes_columns = True
    _kind = "{0.n}x{0.m} qd.Matrix.field"

    @_runtime.fast_to_numpy
    def to_numpy(  # type: ignore[override]
        self, keep_dims: bool = False, dtype: Any = None, *, copy: bool | None = True, out: np.ndarray | None = None
    ) -> np.ndarray:
        """Return the elements as a NumPy array; one-column elements as vectors unless `keep_dims`. `dtype`, `copy` and `out` as for
        `qd.Field.to_numpy`.
        """
        self._warn_of_lists()
        return self._export(keep_dims, dtype, copy, out)

    @_runtime.fast_to_torch
    def to_torch(  # type: ignore[override]
        self, device: Any = None, keep_dims: bool = False, *, copy: bool | None = True, dtype: Any = None, out: Any = None
    ) -> Any:
        """Return the elements as a torch tensor; one-column elements as vectors unless `keep_dims`. `device`, `copy`, `dtype` and `out`
        as for `qd.Field.to_torch`.
        """
        return self._export_torch(device, copy, keep_dims, dtype, out)

    @functools.cached_property
    def vars(self) -> tuple[ScalarField, ...]:
        """The fields of the components, row by row, on the same memory."""
        make = self._make_component if self._is_placed() else self._declare_component
        return tuple(make(row, column) for row in range(self.n) for column in range(self.m))

    def get_scalar_field(self, *indices: int) -> ScalarField:
        """Return the field of one component on the same memory, also in kernels. `indices` are its row and, for matrices, its column.

        Raises `IndexError` if there is no such component.

        The components of a field that is not placed may be placed one by one, in nodes of the same shape.
        """
        row, column = (*indices, 0)[:2]
        if not (0 <= row < self.n and 0 <= column < self.m):
            raise IndexError(f"component {indices} is out of range for elements of shape {self.element_shape}")
        return self.vars[row * self.m + column]

    def _make_component(self, row: int, column: int) -> ScalarField:
        own = self._qd_layout
        place = self._byte_offset + (row * self.m + column) * own.component_stride
        made = ScalarField(self.dtype, (), own.extents, own.strides, self.dtype.size, self._buffer, place, self._offset, own.tilings)
        made._element_type, made._name, made._order, made._leaf = self.dtype, f"{self._name}[{row}, {column}]", self._order, self._leaf
        if self._cells is not None:
            made._cells, made._cell_digits, made._loop = self._cells, self._cell_digits, self._loop
            made._mark_sparse()
        made._shown_name = made._name if self._shown_name else ""
        for hook in made_hooks:
            hook(made)
        if self.has_grad():
            made.grad = self.grad.vars[row * self.m + column]  # type: ignore[union-attr]
        return made

    def _declare_component(self, row: int, column: int) -> ScalarField:
        """Returns the field of a component before there is memory."""
        made = _declare(self.dtype, f"{self._name}[{row}, {column}]", None, False, (ScalarField,))
        made._shown_name = made._name if self._shown_name else ""
        made._whole, made._needs_grad, made._needs_dual = self, self._needs_grad, self._needs_dual
        return made

    def _place_declared_parts(self) -> None:
        own = self._qd_layout
        for number, part in enumerate(self.__dict__.get("vars", ())):
            place = self._byte_offset + number * own.component_stride
            part._place(own.extents, own.strides, self.dtype.size, self._buffer, place, self._offset, own.tilings)
            part._leaf, part._order = self._leaf, self._order

    def _place_parts(self) -> None:
        """Allocates the field when the trees of all components are finalized: each component is in a block of its own."""
        parts = self.vars
        leaves = [part._leaf for part in parts if part._leaf is not None and part._leaf._tree._is_final]
        if len(leaves) < len(parts):
            return
        leaf = leaves[0]
        if len(shapes := sorted({each.shape for each in leaves})) > 1:
            raise QuadrantsRuntimeError(f"Members of the following field have different shapes {shapes}: {self._name!r}")
        if len({each._offset for each in leaves}) > 1:
            raise QuadrantsRuntimeError(f"the components of {self._name!r} are placed with different offsets")
        strides = row_major_strides(leaf.shape, self.dtype.size)
        block = self.dtype.size * math.prod(leaf.shape)
        self._leaf, self._is_soa = leaf, True
        self._place(leaf.shape, strides, block, None, 0, leaf._offset, ())
        for number, part in enumerate(parts):
            part._place(leaf.shape, strides, self.dtype.size, self._buffer, self._byte_offset + number * block, leaf._offset, ())


def field(
    dtype: Any,
    shape: Any = None,
    order: str | None = None,
    name: str = "",
    offset: Any = None,
    needs_grad: bool = False,
    needs_dual: bool = False,
    layout: Layout = Layout.AOS,
) -> Any:
    """Return a zero-filled field of scalars, vectors, matrices or structs.

    Args:
        dtype: data type, or vector, matrix or struct type, of the elements.
        shape: an integer or a tuple of integers. Without it the field is only declared, and has to be placed in a tree (`qd.root`) before
            use.
        order: the axes from the outermost in memory to the innermost, as letters: "ji" is column-major. Default: row-major.
        name: name in messages and reports.
        offset: lowest index of each axis, an integer or a tuple of integers. Default: 0.
        needs_grad: whether to allocate adjoints, for floating-point elements.
        needs_dual: whether to allocate tangents, for floating-point elements.
        layout: `qd.Layout.SOA` stores each component of vectors and matrices, or each member of structs, in a block of its own.
    Raises:
        QuadrantsSyntaxError: `order` or `offset` without `shape`.
        ValueError: an invalid data type.
        TypeError: a shape that does not consist of integers.
    """
    if shape is None:
        for keyword, value in (("order", order), ("offset", offset)):
            if value is not None:
                raise QuadrantsSyntaxError(f"shape cannot be None when {keyword} is set")
    axes = None if order is None else _parse_order(order, len(to_shape(shape)))
    return make_field(dtype, shape, ContainerSpec(axes, layout is Layout.SOA, needs_grad, needs_dual, offset, name))


def make_field(element: Any, shape: Any, recipe: ContainerSpec, kinds: tuple[type, ...] | None = None) -> Any:
    """Makes a container with a tree of its own; `kinds` are the classes of its scalar, vector and matrix leaves, by default fields."""
    axes, is_soa, needs_grad, needs_dual, offset, name = recipe
    _options.check_runtime()
    if find_element(element) is None:
        raise ValueError(f"Invalid data type {element!r}")
    extents = () if shape is None else to_shape(shape)
    check_extents(extents)
    origin = to_origin(offset, extents)
    kinds = kinds or (ScalarField, MatrixField, MatrixField)
    made = _declare(element, name, axes, is_soa, kinds)
    leaves = list(made._leaves())
    for leaf in leaves:
        if (needs_grad or needs_dual) and not leaf.dtype.is_real:
            raise QuadrantsRuntimeError(
                f"{leaf.dtype} is not supported for field with `needs_grad=True` or `needs_dual=True`. It is the type of {leaf._name}"
            )
    if shape is None:
        for leaf in leaves:
            leaf._needs_grad, leaf._needs_dual = needs_grad, needs_dual
            unfinished_trees.declare(leaf)
        return made
    for which, wanted in (("grad", needs_grad), ("dual", needs_dual)):
        if wanted and not issubclass(kinds[0], Field):  # the shadows of fields are declared at their first use
            for leaf, shadow in zip(leaves, _declare(element, which, axes, is_soa, kinds)._leaves(), strict=True):
                attach(leaf, which, shadow)
    if needs_grad and needs_dual and not issubclass(kinds[0], Field):
        for leaf, shadow in zip(leaves, _declare(element, "dual", axes, is_soa, kinds)._leaves(), strict=True):
            attach(leaf.grad, "dual", shadow)
    tree = SNode("root", None)
    tree._tree.face = unfinished_trees.root
    shadows = (made.grad if needs_grad else None, made.dual if needs_dual else None, made.grad.dual if needs_grad and needs_dual else None)
    for source in (made, *shadows):
        parts = [] if source is None else [[leaf] for leaf in source._leaves()] if is_soa else [list(source._leaves())]
        for part in parts:
            _add_arrays(tree, axes, extents).put(part, origin)
    unfinished_trees.finalize(tree)
    return made


def _make_struct_ndarray(element: StructType, shape: Any, recipe: ContainerSpec) -> StructNdarray:
    if shape is None:
        raise QuadrantsRuntimeError("None is not a valid shape for ndarray")
    return make_field(element, shape, recipe, (ScalarNdarray, VectorNdarray, MatrixNdarray))


def _add_arrays(tree: SNode, axes: tuple[int, ...] | None, extents: tuple[int, ...]) -> SNode:
    """Adds an array of cells with these extents; an order of axes makes one node per axis."""
    if axes is None:
        return tree.dense(tuple(range(len(extents))), extents)
    for axis in axes:
        tree = tree.dense(axis, extents[axis])
    return tree


def _declare(element: Any, name: str, axes: tuple[int, ...] | None, is_soa: bool, kinds: tuple[type, ...]) -> Any:
    """Makes a container, or a struct of containers, without memory."""
    if isinstance(element, StructType):
        parts = {key: _declare(kind, f"{name}.{key}".lstrip("."), axes, False, kinds) for key, kind in element.members.items()}
        struct = StructField if issubclass(kinds[0], Field) else StructNdarray
        made = struct(parts, element.methods, name or "<Struct>")
        made._type = element
        return made
    dtype, element_shape = scalar_dtype(element), element_shape_of(element)
    kind: Any = kinds[len(element_shape)]
    quant = quant_of(element)
    if quant is not None:
        if not issubclass(kind, Field):
            refuse_quantized(quant)
        kind = load("quadrants._quantized.fields").kind_for(element)
    made = kind.__new__(kind)
    (_runtime.FieldBase if issubclass(kind, Field) else _runtime.NdarrayBase).__init__(made, dtype, element_shape, None)
    made._quant = quant
    made._element_type, made._name = element, name or f"tmp{next(_numbers)}"
    made._shown_name = name.removeprefix("<Struct>").lstrip(".")
    made._order, made._is_soa = axes, is_soa and math.prod(element_shape) > 1
    for hook in made_hooks:
        hook(made)
    return made


def declare_field(element: Any, name: str, recipe: ContainerSpec) -> Any:
    """Makes a field of scalars, vectors or matrices without memory, as a part of another one."""
    return _declare(element, name, recipe.layout, False, (ScalarField, MatrixField, MatrixField))


def _parse_order(order: str, rank: int) -> tuple[int, ...] | None:
    if len(order) != rank:
        raise QuadrantsSyntaxError(f"The dimensionality of shape and order must be the same ({rank} != {len(order)})")
    if len(set(order)) != rank:
        raise QuadrantsSyntaxError(f"The axes in order must be different, got {order!r}")
    axes = tuple(ord(letter) - ord("i") for letter in order)
    if sorted(axes) != list(range(rank)):
        raise QuadrantsSyntaxError(f"Invalid axis in order={order!r} of a field with {rank} axes")
    return axes if list(axes) != list(range(rank)) else None


MAKERS.update({"field": make_field, "declared field": declare_field, "struct ndarray": _make_struct_ndarray})

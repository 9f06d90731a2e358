"""Fields: containers whose layout is part of the kernels that use them."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from . import _options, _runtime, _types
from ._container import ContainerMethods, element_shape_of, row_major_strides, scalar_dtype
from ._dtypes import find_dtype, i32, to_shape
from ._errors import QuadrantsRuntimeError, QuadrantsSyntaxError
from ._struct import StructField, StructType, place_members
from ._types import Layout, MatrixType

_numbers = itertools.count()


class Field(ContainerMethods, _runtime.FieldBase):
    """A dense container of scalars, vectors or matrices. Make one with `qd.field`, `qd.Vector.field` or `qd.Matrix.field`."""

    _noun = "field"
    _name = ""
    grad: Field | None
    dual: Field | None

    def __iter__(self) -> Any:
        raise NotImplementedError("Struct for is only available in Quadrants scope.")

    def _like(self) -> Field:
        return field(self._element_type, self.shape, self._order_text(), layout=self._component_layout)

    def _order_text(self) -> str | None:
        return None if self._order is None else "".join(chr(ord("i") + axis) for axis in self._order)

    def __reduce__(self) -> Any:
        return (_restore, (self._element_type, self.shape, self._order_text(), self.to_numpy()))

    _component_layout = Layout.AOS


class ScalarField(Field):
    """A field of scalars."""

    def __repr__(self) -> str:
        return "<qd.field>"


class MatrixField(Field):
    """A field of vectors (`ndim` 1) or matrices (`ndim` 2)."""

    @property
    def n(self) -> int:
        """Rows of an element."""
        return self._element_type.n

    @property
    def m(self) -> int:
        """Columns of an element; 1 of a vector."""
        return self._element_type.m

    @property
    def ndim(self) -> int:
        """Axes of an element."""
        return self._element_type.ndim

    def to_numpy(self, keep_dims: bool = False, dtype: Any = None, *, copy: bool | None = True, out: Any = None) -> np.ndarray:  # type: ignore[override]
        """Elements as a NumPy array; one-column elements as vectors unless `keep_dims`."""
        result = super().to_numpy(dtype, copy=copy, out=out)
        if self.m != 1 or out is not None:
            return result
        return result.reshape((*self.shape, self.n, 1) if keep_dims else (*self.shape, self.n))

    def get_scalar_field(self, *indices: int) -> ScalarField:
        """The field of one component, on the same memory."""
        row, column = (*indices, 0)[:2]
        if not (0 <= row < self.n and 0 <= column < self.m):
            raise IndexError(f"component {indices} is out of range for elements of shape {self.element_shape}")
        _, _, _, extents, strides, component_stride = self._qd_layout
        offset = (row * self.m + column) * component_stride
        return _make(self.dtype, extents, strides, self.dtype.size, self._buffer, self._byte_offset + offset, self._order)

    def __repr__(self) -> str:
        return f"<{self.n}x{self.m} qd.Matrix.field>"


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
    """A zero-filled field of scalars, vectors, matrices or structs.

    `order` lists the axes from the outermost in memory to the innermost ("ji" is column-major); `layout=qd.Layout.SOA` puts the components
    of vectors and matrices, or the members of structs, into blocks of their own.
    """
    if isinstance(dtype, StructType):
        return dtype.field(shape, name or "<Struct>", offset, needs_grad, needs_dual, layout, order)
    axes, extents = _check_shape(dtype, shape, order, offset)
    dtype_of_parts = scalar_dtype(dtype)
    if (needs_grad or needs_dual) and not dtype_of_parts.is_real:
        raise QuadrantsRuntimeError(f"{dtype_of_parts} is not supported for field with `needs_grad=True` or `needs_dual=True`.")
    made = [_allocate(dtype, extents, axes, layout) for _ in range(1 + needs_grad + needs_dual)]
    result = made.pop(0)
    result._name = name or f"tmp{next(_numbers)}"
    result.grad = made.pop(0) if needs_grad else None
    result.dual = made.pop(0) if needs_dual else None
    return result


def _check_shape(dtype: Any, shape: Any, order: str | None, offset: Any) -> tuple[tuple[int, ...] | None, tuple[int, ...]]:
    _options.check_runtime()
    if not isinstance(dtype, MatrixType) and find_dtype(dtype) is None:
        raise ValueError(f"Invalid data type {dtype!r}")
    if shape is None:
        for keyword, value in (("order", order), ("offset", offset)):
            if value is not None:
                raise QuadrantsSyntaxError(f"shape cannot be None when {keyword} is set")
        raise QuadrantsRuntimeError("Field has no allocation: give shape=, placing fields in a tree of nodes is not supported")
    extents = to_shape(shape)
    if any(extent < 0 for extent in extents):
        raise QuadrantsRuntimeError(f"Every dimension of a Quadrants field should be positive, got {extents}")
    if len(extents) > 12:
        raise QuadrantsRuntimeError(f"Too many dimensions: a field has at most 12, got {len(extents)}")
    if offset is not None:
        origin = to_shape(offset)
        if len(origin) != len(extents):
            raise QuadrantsSyntaxError(f"The dimensionality of shape and offset must be the same ({len(extents)} != {len(origin)})")
        if any(origin):
            raise QuadrantsRuntimeError("a field whose indices start elsewhere than at 0 (offset=) is not supported")
    return _parse_order(order, len(extents)), extents


def _parse_order(order: str | None, rank: int) -> tuple[int, ...] | None:
    if order is None:
        return None
    if len(order) != rank:
        raise QuadrantsSyntaxError(f"The dimensionality of shape and order must be the same ({rank} != {len(order)})")
    if len(set(order)) != rank:
        raise QuadrantsSyntaxError(f"The axes in order must be different, got {order!r}")
    axes = tuple(ord(letter) - ord("i") for letter in order)
    if sorted(axes) != list(range(rank)):
        raise QuadrantsSyntaxError(f"Invalid axis in order={order!r} of a field with {rank} axes")
    return axes if list(axes) != list(range(rank)) else None


def _allocate(element: Any, shape: tuple[int, ...], order: tuple[int, ...] | None, layout: Layout) -> Field:
    item = scalar_dtype(element).size
    count = math.prod(element_shape_of(element))
    if layout is Layout.SOA and count > 1:
        block = item * math.prod(shape)
        made = _make(element, shape, row_major_strides(shape, item, order), block, None, 0, order)
        made._component_layout = Layout.SOA
        return made
    strides = row_major_strides(shape, item * count, order)
    return _make(element, shape, strides, item, None, 0, order)


def _make(
    element: Any,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    component_stride: int,
    buffer: Any,
    byte_offset: int,
    order: tuple[int, ...] | None,
) -> Any:
    kind = MatrixField if isinstance(element, MatrixType) else ScalarField
    made = kind(scalar_dtype(element), element_shape_of(element), shape, strides, component_stride, buffer, byte_offset)
    made._element_type, made._order, made._name, made.grad, made.dual = element, order, f"tmp{next(_numbers)}", None, None
    return made


def _restore(element: Any, shape: tuple[int, ...], order: str | None, data: np.ndarray) -> Any:
    made = field(element, shape, order)
    made.from_numpy(data)
    return made


def _struct_field(
    kind: StructType,
    shape: Any = None,
    name: str = "<Struct>",
    offset: Any = None,
    needs_grad: bool = False,
    needs_dual: bool = False,
    layout: Layout = Layout.AOS,
    order: str | None = None,
) -> StructField:
    axes, extents = _check_shape(i32, shape, order, offset)
    if needs_grad or needs_dual:
        for member, element in kind.leaves():
            if not scalar_dtype(element).is_real:
                raise QuadrantsRuntimeError(
                    f"{scalar_dtype(element)} (member {member}) is not supported for field with `needs_grad=True` or `needs_dual=True`."
                )

    def build() -> StructField:
        def leaf(element: Any, cell: int | None, place: int, buffer: Any) -> Field:
            if cell is None:
                return _allocate(element, extents, axes, Layout.AOS)
            item = scalar_dtype(element).size
            return _make(element, extents, row_major_strides(extents, cell, axes), item, buffer, place, axes)

        return place_members(kind, math.prod(extents), layout, leaf, name)

    result = build()
    result.grad = build() if needs_grad else None
    result.dual = build() if needs_dual else None
    return result


_types.factories["field"] = field
_types.factories["struct_field"] = _struct_field

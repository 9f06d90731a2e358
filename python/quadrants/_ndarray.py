"""Ndarrays: containers whose shape and address are data to kernels."""

from __future__ import annotations

from typing import Any

from . import _runtime, _types
from ._container import ContainerMethods, check_runtime, element_shape_of, scalar_dtype
from ._dtypes import find_dtype
from ._errors import QuadrantsRuntimeError
from ._types import Layout, MatrixType


class Ndarray(ContainerMethods, _runtime.NdarrayBase):
    """A dense row-major array of scalars, vectors or matrices. Make one with `qd.ndarray`."""

    _noun = "ndarray"
    grad: Ndarray | None = None

    @property
    def element_type(self) -> Any:
        """Data type, or vector or matrix type, of an element."""
        return self._element_type

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a 0-d ndarray has no length")
        return self.shape[0]

    def __iter__(self) -> Any:
        return (self[index] if len(self.shape) == 1 else self.view()[index] for index in range(len(self)))

    def _like(self) -> Ndarray:
        return ndarray(self._element_type, self.shape)

    def __reduce__(self) -> Any:
        return (_restore, (self._element_type, self.shape, self.to_numpy()))


class ScalarNdarray(Ndarray):
    """An ndarray of scalars."""

    def __repr__(self) -> str:
        return "<qd.ndarray>"


class VectorNdarray(Ndarray):
    """An ndarray of vectors."""

    def __repr__(self) -> str:
        return f"<{self.element_shape[0]} {Layout.AOS} qd.Vector.ndarray>"


class MatrixNdarray(Ndarray):
    """An ndarray of matrices."""

    def __repr__(self) -> str:
        return f"<{self.element_shape[0]}x{self.element_shape[1]} {Layout.AOS} qd.Matrix.ndarray>"


_CLASSES = (ScalarNdarray, VectorNdarray, MatrixNdarray)
_NOUNS = ("ndarray", "Vector.ndarray", "Matrix.ndarray")


def ndarray(dtype: Any, shape: Any, needs_grad: bool = False) -> Any:
    """A zero-filled ndarray of scalars, vectors or matrices."""
    check_runtime()
    if not isinstance(dtype, MatrixType):
        found = find_dtype(dtype)
        if found is None:
            raise QuadrantsRuntimeError(f"{dtype!r} is not supported as ndarray element type")
        dtype = found
    extents = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    for extent in extents:
        if isinstance(extent, bool) or not hasattr(extent, "__index__") or not 0 <= extent.__index__() <= 2**31 - 1:
            raise QuadrantsRuntimeError(f"{shape!r} is not a valid shape for ndarray")
    rank = dtype.ndim if isinstance(dtype, MatrixType) else 0
    if needs_grad and not scalar_dtype(dtype).is_real:
        what = "ndarray with `needs_grad=True`" if rank == 0 else f"{_NOUNS[rank]} with needs_grad=True"
        raise QuadrantsRuntimeError(f"{scalar_dtype(dtype)} is not supported for {what}")
    made = _make(dtype, rank, tuple(extent.__index__() for extent in extents))
    made.grad = _make(dtype, rank, made.shape) if needs_grad else None
    return made


def _make(element: Any, rank: int, shape: tuple[int, ...]) -> Any:
    dtype = scalar_dtype(element)
    made = _CLASSES[rank](dtype, element_shape_of(element), shape, None, dtype.size, None, 0)
    made._element_type = element
    return made


def _restore(element: Any, shape: tuple[int, ...], data: Any) -> Any:
    made = ndarray(element, shape)
    made.from_numpy(data)
    return made


_types.factories["ndarray"] = ndarray

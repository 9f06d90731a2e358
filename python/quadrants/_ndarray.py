"""Ndarrays: containers whose shape and address are data to kernels."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from . import _options, _runtime, _types
from ._container import ContainerMethods, element_shape_of, scalar_dtype
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

    def _allocate(self, element: Any, shape: Any) -> None:
        _options.check_runtime()
        if not isinstance(element, MatrixType):
            found = find_dtype(element)
            if found is None:
                raise QuadrantsRuntimeError(f"{element!r} is not supported as ndarray element type")
            element = found
        extents = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
        for extent in extents:
            if isinstance(extent, bool) or not hasattr(extent, "__index__") or not 0 <= extent.__index__() <= 2**31 - 1:
                raise QuadrantsRuntimeError(f"{shape!r} is not a valid shape for ndarray")
        dtype = scalar_dtype(element)
        super().__init__(dtype, element_shape_of(element), tuple(extent.__index__() for extent in extents), None, dtype.size, None, 0)
        self._element_type = element

    def get_type(self) -> SimpleNamespace:
        """What the array holds, as an annotation would say it: element_type, shape, layout, needs_grad."""
        return SimpleNamespace(element_type=self._element_type, shape=self.shape, layout=Layout.AOS, needs_grad=self.has_grad())

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

    def __init__(self, dtype: Any, shape: Any):
        self._allocate(dtype, shape)

    def __repr__(self) -> str:
        return "<qd.ndarray>"


class VectorNdarray(Ndarray):
    """An ndarray of vectors."""

    def __init__(self, n: int, dtype: Any, shape: Any):
        self._allocate(_types.vector(n, dtype), shape)

    def __repr__(self) -> str:
        return f"<{self.element_shape[0]} {Layout.AOS} qd.Vector.ndarray>"


class MatrixNdarray(Ndarray):
    """An ndarray of matrices."""

    def __init__(self, n: int, m: int, dtype: Any, shape: Any):
        self._allocate(_types.matrix(n, m, dtype), shape)

    def __repr__(self) -> str:
        return f"<{self.element_shape[0]}x{self.element_shape[1]} {Layout.AOS} qd.Matrix.ndarray>"


_CLASSES = (ScalarNdarray, VectorNdarray, MatrixNdarray)
_NEEDS_GRAD = ("ndarray with `needs_grad=True`", "Vector.ndarray with needs_grad=True", "Matrix.ndarray with needs_grad=True")


def ndarray(dtype: Any, shape: Any, needs_grad: bool = False) -> Any:
    """A zero-filled ndarray of scalars, vectors or matrices."""
    rank = dtype.ndim if isinstance(dtype, MatrixType) else 0
    parts = (*dtype.shape, dtype.dtype) if isinstance(dtype, MatrixType) else (dtype,)
    made = _CLASSES[rank](*parts, shape)
    if needs_grad:
        if not made.dtype.is_real:
            raise QuadrantsRuntimeError(f"{made.dtype} is not supported for {_NEEDS_GRAD[rank]}")
        made.grad = _CLASSES[rank](*parts, shape)
    return made


def _restore(element: Any, shape: tuple[int, ...], data: Any) -> Any:
    made = ndarray(element, shape)
    made.from_numpy(data)
    return made


_types.factories["ndarray"] = ndarray

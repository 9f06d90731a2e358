"""Ndarrays: containers whose shape and address kernels read at each launch."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np

from .. import _runtime
from .._base import options as _options
from .._base.compat import HostAccess
from .._base.dtypes import DataType, find_dtype
from .._base.errors import QuadrantsRuntimeError
from .._base.namespaces import forwarded
from .._values import types as _types
from .._values.quantized import refuse_quantized
from .._values.types import Layout, MatrixType, StructTypeBase, make_element
from .axes import row_major_strides, to_origin
from .container import MAKERS, ContainerMethods, ContainerSpec, attach, element_shape_of, made_hooks, restore, scalar_dtype
from .device_arrays import DeviceArray, find_device_array
from .interop import element_dtype, find_array


class Ndarray(ContainerMethods, _runtime.NdarrayBase):
    """A dense row-major array of scalars, vectors or matrices, made by `qd.ndarray`."""

    _noun = "ndarray"
    grad: Any = None  # an ndarray of the same shape, or None
    dual: Any = None

    element_type: Any = forwarded("_element_type", "The data type, or vector or matrix type, of an element.")

    @property
    def arr(self) -> Ndarray | None:
        """The array itself while it has memory, None after `qd.reset()`."""
        return self if self._state == "alive" else None

    @property
    def host_accessor(self) -> HostAccess:
        """Element access as functions."""
        return HostAccess(self)

    def _allocate(self, element: Any, shape: Any, layout: tuple[int, ...] | None = None, is_soa: bool = False, offset: Any = None) -> None:
        _options.check_runtime()
        for hook in made_hooks:
            hook(self)
        self._element_type, self._order, self._is_soa = element, layout, is_soa
        if type(shape) is int and 0 <= shape < 2**31 and type(element) is DataType and offset is None and not layout:
            # The usual case first: algorithms make such an array for each call.
            super().__init__(element, (), (shape,), (element.size,), element.size, None, 0, None)
            return
        if not isinstance(element, MatrixType):
            found = find_dtype(element)
            if found is None:
                raise QuadrantsRuntimeError(f"{element!r} is not supported as ndarray element type")
            element = found
        given = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
        for extent in given:
            if isinstance(extent, bool) or not hasattr(extent, "__index__") or not 0 <= extent.__index__() <= 2**31 - 1:
                raise QuadrantsRuntimeError(f"{shape!r} is not a valid shape for ndarray")
        extents = tuple(extent.__index__() for extent in given)
        dtype, element_shape = scalar_dtype(element), element_shape_of(element)
        is_soa = is_soa and math.prod(element_shape) > 1
        item = dtype.size if is_soa else dtype.size * math.prod(element_shape)
        component = dtype.size * (max(1, math.prod(extents)) if is_soa else 1)
        origin = to_origin(offset, extents)
        super().__init__(dtype, element_shape, extents, row_major_strides(extents, item, layout), component, None, 0, origin)
        self._element_type = element

    def get_type(self) -> SimpleNamespace:
        """Return the type of the array in the terms of an annotation: element_type, shape, layout, needs_grad."""
        return SimpleNamespace(element_type=self._element_type, shape=self.shape, layout=Layout.AOS, needs_grad=self.has_grad())

    def __len__(self) -> int:
        if not (shape := self._live_shape):
            raise TypeError("a 0-d ndarray has no length")
        return shape[0]

    def __iter__(self) -> Any:
        return (self[index] for index in range(len(self)))

    def __reduce__(self) -> Any:
        _, _, shape, recipe = self._description()
        payload = {"version": 1, "shape": shape, "element_type": self._dtype.name, "element_shape": self.element_shape}
        return (unpickle, ({**payload, **recipe._asdict(), "data": self.to_numpy()},))


class ScalarNdarray(Ndarray):
    """An ndarray of scalars."""

    _kind = "qd.ndarray"

    def __init__(self, dtype: Any, arr_shape: Any):
        self._allocate(dtype, arr_shape)


class VectorNdarray(Ndarray):
    """An ndarray of vectors."""

    _kind = f"{{0.n}} {Layout.AOS} qd.Vector.ndarray"

    def __init__(self, n: int, dtype: Any, shape: Any):
        self._allocate(_types.vector(n, dtype), shape)

    n: int = forwarded("_element_type.n", "Number of components of an element.")


class MatrixNdarray(Ndarray):
    """An ndarray of matrices."""

    _kind = f"{{0.n}}x{{0.m}} {Layout.AOS} qd.Matrix.ndarray"

    def __init__(self, n: int, m: int, dtype: Any, shape: Any):
        self._allocate(_types.matrix(n, m, dtype), shape)

    n: int = forwarded("_element_type.n", "Number of rows of an element.")
    m: int = forwarded("_element_type.m", "Number of columns of an element.")


_CLASSES = (ScalarNdarray, VectorNdarray, MatrixNdarray)
_NEEDS_GRAD = ("ndarray with `needs_grad=True`", "Vector.ndarray with needs_grad=True", "Matrix.ndarray with needs_grad=True")


def ndarray(dtype: Any, shape: Any, needs_grad: bool = False, needs_dual: bool = False) -> Any:
    """Return a zero-filled ndarray of scalars, vectors, matrices or structs.

    Args:
        dtype: data type, or vector, matrix or struct type, of the elements.
        shape: an integer or a tuple of integers.
        needs_grad: whether to allocate adjoints, for floating-point elements.
        needs_dual: whether to allocate tangents, for floating-point elements.
    Raises:
        QuadrantsRuntimeError: an invalid type or shape, or no runtime.
    """
    if type(dtype) is DataType and not (needs_grad or needs_dual):
        return ScalarNdarray(dtype, shape)
    return make_ndarray(dtype, shape, ContainerSpec(needs_grad=needs_grad, needs_dual=needs_dual))


def from_dlpack(obj: Any, element: Any = None, *, grad: Any = None) -> Ndarray:
    """Return an ndarray on the memory of an array of another library, which it keeps allocated.

    A read-only array gives a read-only ndarray.

    Args:
        obj: a NumPy array, a torch tensor, or an object with DLPack, the array interface or the buffer protocol; arrays on a GPU need
            DLPack or the CUDA array interface.
        element: a vector or matrix type for the last axes. Default: scalar elements.
        grad: a second array, of the same shape and data type, for the adjoints.
    Raises:
        TypeError: `obj` is no array, or its data type is none that kernels support.
        ValueError: the shapes do not fit, or the elements are not aligned.
    """
    on_device = find_device_array(obj, "obj")
    array = find_array(obj, "obj") if on_device is None else on_device.make_stand_in()
    if array is None:
        raise TypeError(f"from_dlpack takes an array, got {type(obj).__name__}")
    dtype = element_dtype(array, "obj")
    if not (array.flags.aligned if on_device is None else on_device.address % dtype.size == 0):
        raise ValueError("the elements of obj are not aligned: pass a copy")
    element = dtype if element is None else element
    shape = element.shape if isinstance(element, MatrixType) else ()
    rank = array.ndim - len(shape)
    if array.shape[rank:] != shape or any(
        have != dtype.size * math.prod(shape[axis + 1 :]) for axis, have in enumerate(array.strides[rank:])
    ):
        raise ValueError(f"elements of type {element} are expected, got an array of shape {array.shape} and strides {array.strides}")
    buffer, place = _runtime.Buffer.borrow(array) if on_device is None else on_device.borrow()
    made = _on_memory(array, element, buffer, place)
    if grad is not None:
        attach(made, "grad", from_dlpack(grad, element))
        if (made.grad.shape, made.grad.dtype) != (made.shape, dtype):
            raise ValueError(f"gradients of {dtype} {made.shape} are expected, got {made.grad.dtype} {made.grad.shape}")
    return made


def from_device(array: DeviceArray, element_shape: tuple[int, ...] = ()) -> Ndarray:
    """Returns an ndarray on the memory of an array on the GPU, and references its owner. The last axes are those of `element_shape`."""
    element = make_element(element_shape, element_dtype(array.make_stand_in(), "obj"))
    return _on_memory(array, element, *array.borrow())


def _on_memory(array: DeviceArray | np.ndarray, element: Any, buffer: _runtime.Buffer, place: int) -> Ndarray:
    stand_in = array if isinstance(array, np.ndarray) else array.make_stand_in()
    dtype, shape = element_dtype(stand_in, "obj"), element_shape_of(element)
    rank = len(array.shape) - len(shape)
    made = _CLASSES[len(shape)].__new__(_CLASSES[len(shape)])
    _runtime.NdarrayBase.__init__(made, dtype, shape, array.shape[:rank], array.strides[:rank], dtype.size, buffer, place)
    made._element_type = element
    for hook in made_hooks:
        hook(made)
    return made


def make_ndarray(element: Any, shape: Any, recipe: ContainerSpec) -> Any:
    """Same as `ndarray`, for any order of axes in memory and the other properties of a spec."""
    if isinstance(element, StructTypeBase):
        return MAKERS["struct ndarray"](element, shape, recipe)
    refuse_quantized(element)
    layout, is_soa, needs_grad, needs_dual, offset, name = recipe
    rank = element.ndim if isinstance(element, MatrixType) else 0

    def make() -> Any:
        made = _CLASSES[rank].__new__(_CLASSES[rank])
        made._allocate(element, shape, layout, is_soa, offset)
        return made

    made = make()
    made._name = made._shown_name = name
    if (needs_grad or needs_dual) and not made.dtype.is_real:
        raise QuadrantsRuntimeError(f"{made.dtype} is not supported for {_NEEDS_GRAD[rank]}")
    if needs_grad:
        attach(made, "grad", make())
    if needs_dual:
        attach(made, "dual", make())
    if needs_grad and needs_dual:
        attach(made.grad, "dual", make())
    return made


def unpickle(payload: dict[str, Any]) -> Any:
    """Restores the ndarray of a pickled dict: version, shape, element_type, element_shape, data, and the layout in memory."""
    if _options.current is None:
        raise QuadrantsRuntimeError("qd.init() must be called before unpickling ndarrays")
    dtype = find_dtype(payload.get("element_type"))
    if payload.get("version") != 1 or dtype is None:
        raise ValueError(
            f"a pickled ndarray of version {payload.get('version')} with elements {payload.get('element_type')!r} cannot be read"
        )
    element = make_element(payload["element_shape"], dtype)
    recipe = ContainerSpec(**{name: payload[name] for name in ContainerSpec._fields if name in payload})
    return restore("ndarray", element, payload["shape"], recipe, payload["data"])


MAKERS["ndarray"] = make_ndarray

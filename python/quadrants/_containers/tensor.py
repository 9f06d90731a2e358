"""`qd.Tensor`: one interface for fields and ndarrays, so that a program selects between them in one line."""

from __future__ import annotations

import enum
from typing import Any

from .. import _runtime
from .._base.namespaces import forwarded
from .._values import types as _types
from .._values.types import MatrixType
from .container import ContainerMethods, ContainerSpec, Copies, Extents, Shadows, made_hooks
from .field import Field, field, make_field
from .interop import find_any_array
from .ndarray import Ndarray, from_dlpack, make_ndarray
from .struct_field import StructField, StructNdarray
from .summaries import Summaries, to_text


class Backend(enum.IntEnum):
    """Implementation of a tensor: a field (its layout is part of kernels) or an ndarray (kernels read its shape and address at each
    launch).
    """

    FIELD = 0
    NDARRAY = 1


class Tensor(Shadows, Extents, Copies, Summaries, _runtime.TensorBase):
    """A field or an ndarray behind one interface; kernels accept it wherever they accept its implementation.

    Also an annotation for parameters of kernels and funcs and for dataclass members: a tensor, field, ndarray, NumPy array or
    torch tensor.
    """

    def __init__(self, impl: Any):
        if not isinstance(impl, (Field, Ndarray, StructField)):
            raise TypeError(f"{type(self).__name__}(impl) requires an Ndarray or Field; got {type(impl).__name__}")
        rank = {VectorTensor: 1, MatrixTensor: 2}.get(type(self))
        if rank is not None and len(getattr(impl, "element_shape", ())) != rank:
            what = "vector" if rank == 1 else "matrix"
            raise TypeError(f"{type(self).__name__} requires a {what}-element impl; got {type(impl).__name__}")
        super().__init__(impl)
        for hook in made_hooks:
            hook(self)

    @staticmethod
    def from_dlpack(obj: Any, element: Any = None, *, grad: Any = None) -> Tensor:
        """Return a tensor on the memory of an array of another library, which it keeps allocated; `obj`, `element` and `grad` as for
        `qd.from_dlpack`.
        """
        return wrap(from_dlpack(obj, element, grad=grad))

    def _unwrap(self) -> Any:
        return self._impl

    @property
    def backend(self) -> Backend:
        """Whether the implementation is a field or an ndarray."""
        return Backend.NDARRAY if isinstance(self._impl, (Ndarray, StructNdarray)) else Backend.FIELD

    shape: tuple[int, ...] = forwarded("_impl.shape", "Extents, without the axes of elements.")
    element_shape: tuple[int, ...] = forwarded("_impl.element_shape", "() of scalars, (n,) of vectors, (n, m) of matrices.")
    dtype = forwarded("_impl.dtype", "Scalar type of the elements.")
    layout: tuple[int, ...] | None = forwarded("_impl.layout", "Axes from the outermost in memory to the innermost; None: in order.")
    _live_shape: tuple[int, ...] = forwarded("_impl._live_shape", "The shape, or the reason why there is no memory.")

    @property
    def strides(self) -> tuple[int, ...]:
        """Distance of neighbors along each axis, counted in scalars."""
        return tuple(step // self._impl._dtype.size for step in self._impl._qd_layout.strides)

    def _shadow(self, which: str) -> Tensor | None:
        found = getattr(self._impl, which)
        return None if found is None else wrap(found)

    def _has(self, which: str) -> bool:
        return self._impl._has(which)

    def fill(self, value: Any) -> None:
        """Set every element to `value`: a number for every component, or one element as a list, vector or matrix."""
        self._impl.fill(value)

    def copy_from(self, other: Any) -> None:
        """Copy the elements of `other`, a tensor, container, NumPy array or torch tensor of the same shape, with the conversions of an
        assignment.
        """
        self._impl.copy_from(other._impl if isinstance(other, Tensor) else other)

    def to_numpy(self, *arguments: Any, **options: Any) -> Any:
        """Return the elements as a NumPy array; `arguments` and `options` are those of `qd.Field.to_numpy` or `qd.Ndarray.to_numpy`: dtype,
        copy, out.
        """
        return self._impl.to_numpy(*arguments, **options)

    def from_numpy(self, arr: Any) -> None:
        """Copy the elements of `arr`, an array of shape `shape + element_shape`, with the conversions of an assignment."""
        self._impl.from_numpy(arr)

    def to_torch(self, *arguments: Any, **options: Any) -> Any:
        """Return the elements as a torch tensor; `arguments` and `options` are those of `qd.Field.to_torch` or `qd.Ndarray.to_torch`:
        device, copy.
        """
        return self._impl.to_torch(*arguments, **options)

    def from_torch(self, arr: Any) -> None:
        """Copy the elements of `arr`, a torch tensor; same as `from_numpy`."""
        self._impl.from_torch(arr)

    def to_dlpack(self, versioned: bool = False) -> Any:
        """Return a DLPack capsule of the memory; `versioned` requests version 1."""
        return self._impl.to_dlpack(versioned)

    def __getattr__(self, name: str) -> Any:
        if name in _PROTOCOLS:
            return getattr(self._impl, name)
        raise AttributeError(f"'{type(self).__name__}' object has no attribute {name!r}")

    def __array__(self, *arguments: Any, **options: Any) -> Any:
        return self._impl.__array__(*arguments, **options)

    def __getitem__(self, key: Any) -> Any:
        return self._impl[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        self._impl[key] = value

    def __len__(self) -> int:
        if not (shape := self._live_shape):
            raise TypeError("a 0-d tensor has no length")
        return shape[0]

    def __iter__(self) -> Any:
        return iter(self._impl)

    def __deepcopy__(self, memo: Any) -> Tensor:
        import copy

        return type(self)(copy.deepcopy(self._impl, memo))

    def __reduce__(self) -> Any:
        return (type(self), (self._impl,))

    def _head(self) -> str:
        layout = f", layout={self.layout}" if self.layout is not None else ""
        return f"Tensor(shape={self.shape}, dtype={self.dtype}, backend={self.backend.name}{layout})"

    def __repr__(self) -> str:
        values = "" if isinstance(self._impl, StructField) else to_text(self._impl, "values=")
        return f"{self._head()[:-1]}, values={values})" if values else self._head()


_PROTOCOLS = ("__array_interface__", "__cuda_array_interface__", "__dlpack__", "__dlpack_device__")


class VectorTensor(Tensor):
    """A tensor of vectors."""


class MatrixTensor(Tensor):
    """A tensor of matrices."""


_CLASSES = (Tensor, VectorTensor, MatrixTensor)


def wrap(impl: Any) -> Tensor:
    """Return a tensor with the existing container `impl` as its implementation: a `VectorTensor`, a `MatrixTensor`, else a `Tensor`.

    For an array of another library, the implementation is an ndarray on its memory, as for `Tensor.from_dlpack`.
    """
    if not isinstance(impl, (ContainerMethods, StructField, Tensor)) and (array := find_any_array(impl, "impl")) is not None:
        impl = from_dlpack(array)
    return _CLASSES[len(getattr(impl, "element_shape", ())) if isinstance(impl, ContainerMethods) else 0](impl)


def tensor(
    dtype: Any,
    shape: Any,
    *,
    backend: Any = Backend.NDARRAY,
    layout: Any = None,
    needs_grad: bool = False,
    needs_dual: bool = False,
    element_layout: str = "AOS",
    offset: Any = None,
    name: str = "",
    **more: Any,
) -> Tensor:
    """Return a zero-filled tensor of scalars, vectors, matrices or structs.

    Args:
        dtype: data type, or vector, matrix or struct type, of the elements.
        shape: an integer or a tuple of integers.
        backend: `qd.Backend.FIELD` or `qd.Backend.NDARRAY`: the implementation.
        layout: the axes from the outermost in memory to the innermost: (1, 0) is column-major. Default: row-major.
        needs_grad: whether to allocate adjoints, for floating-point elements.
        needs_dual: whether to allocate tangents, for floating-point elements.
        element_layout: "AOS", or "SOA" to store each component of the elements in a block of its own.
        offset: lowest index of each axis, an integer or a tuple of integers. Default: 0.
        name: name in messages and reports.
        more: none; other keywords raise `TypeError`.
    Raises:
        TypeError: an unknown keyword, or `dtype` is a container.
        ValueError: an invalid backend, layout or element type.
    """
    if isinstance(dtype, (Tensor, ContainerMethods, StructField)):
        raise TypeError(f"qd.tensor() allocates a new tensor; to wrap an existing {type(dtype).__name__}, use qd.wrap(impl) instead")
    if "order" in more:
        raise TypeError("qd.tensor(...) does not accept order=; pass layout=(...) instead")
    if more:
        raise TypeError(f"qd.tensor() got unexpected keyword argument(s) {list(more)}; accepted: {', '.join(sorted(_OPTIONS))}")
    if not isinstance(backend, int) or backend not in tuple(Backend):
        raise ValueError(f"backend={backend!r} is not a valid qd.Backend; expected one of qd.Backend.FIELD, qd.Backend.NDARRAY")
    if element_layout not in ("AOS", "SOA"):
        raise ValueError(f"element_layout={element_layout!r} is neither 'AOS' nor 'SOA'")
    rank = len(shape) if isinstance(shape, (tuple, list)) else 1
    axes = _check_layout(layout, rank)
    make = make_ndarray if backend == Backend.NDARRAY else make_field
    return wrap(make(dtype, shape, ContainerSpec(axes, element_layout == "SOA", needs_grad, needs_dual, offset, name)))


_OPTIONS = ("backend", "dtype", "element_layout", "layout", "name", "needs_dual", "needs_grad", "offset", "shape")


def _check_layout(layout: Any, rank: int) -> tuple[int, ...] | None:
    if layout is None:
        return None
    axes = tuple(layout)
    if len(axes) != rank:
        raise ValueError(f"layout has {len(axes)} entries but shape has {rank} dimensions; they must match")
    if not all(isinstance(axis, int) for axis in axes) or sorted(axes) != list(range(rank)):
        raise ValueError(f"layout={layout!r} is not a permutation of range({rank})")
    return None if axes == tuple(range(rank)) else axes


def _with_layout(array: Any, layout: Any) -> Any:
    """Returns an ndarray on the memory of `array`, whose axes in memory are the axes `layout` of the result, outermost first.

    Programs for the reference call it; `qd.tensor(layout=)` makes such a container in the first place.
    """
    axes = _check_layout(layout, len(array.shape))
    if axes is None:
        return array
    memory = array.to_numpy(copy=False)
    inverse = sorted(range(len(axes)), key=axes.__getitem__)
    return from_dlpack(memory.transpose([*inverse, *range(len(axes), memory.ndim)]), getattr(array, "element_type", None))


def _compound_tensor(element: MatrixType, shape: Any, **options: Any) -> Tensor:
    if "order" in options:
        name = "Vector" if element.ndim == 1 else "Matrix"
        raise TypeError(f"qd.{name}.tensor(...) does not accept order=; pass layout=(...) instead")
    return tensor(element, shape, **options)


def _compound_ndarray(
    element: Any, shape: Any, needs_grad: bool = False, needs_dual: bool = False, is_soa: bool = False, offset: Any = None
) -> Any:
    return make_ndarray(element, shape, ContainerSpec(None, is_soa, needs_grad, needs_dual, offset))


_types.constructors.field, _types.constructors.ndarray, _types.constructors.tensor = field, _compound_ndarray, _compound_tensor

"""Vector and matrix types, and the annotations of kernel arguments."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from typing import Any

from .._base.compat import CallableShape as _Shape
from .._base.dtypes import DataType, StoredType, find_dtype, to_dtype
from .._base.errors import QuadrantsSyntaxError, warn


class Constructors:
    """The constructors of values and containers of a type, which the modules that import the types register."""

    value: Callable[..., Any]
    field: Callable[..., Any]
    ndarray: Callable[..., Any]
    tensor: Callable[..., Any]


constructors = Constructors()


class Layout(enum.Enum):
    """Layout of the components of elements: interleaved (AOS), or each component in a block of its own (SOA)."""

    AOS = 1
    SOA = 2
    NULL = 3


def is_tensor(dtype: Any) -> bool:
    """Return whether `dtype` is a vector or matrix type."""
    return isinstance(dtype, MatrixType)


def find_element(value: Any) -> Any:
    """Returns the element type that `value` means, or None: vector, matrix, struct and quantized types unchanged, else `find_dtype`."""
    return value if isinstance(value, (MatrixType, StructTypeBase, StoredType)) else find_dtype(value)


def check_size(count: int) -> None:
    """Warns about vectors and matrices so large that an array suits better."""
    if count > 144:
        text = f"kernels hold all {count} components of a vector or matrix at once, and take the longer to compile the more there are"
        warn(f"{text}: more than 144 are better kept in a field or an array", UserWarning)


class OptionalType:
    """Annotation `T | None`: an argument that may be None."""

    __slots__ = ("inner",)

    def __init__(self, inner: Any):
        self.inner = inner

    @classmethod
    def combine(cls, inner: Any, other: Any) -> OptionalType:
        """Returns `inner | other`, which must be `T | None`."""
        if other is not None and other is not type(None):
            raise QuadrantsSyntaxError("Quadrants kernels only support optional annotations of the form 'T | None'")
        return cls(inner)


class Annotation:
    """An annotation of parameters; `annotation | None` accepts None too."""

    __slots__ = ()

    def __or__(self, other: Any) -> OptionalType:
        return OptionalType.combine(self, other)

    __ror__ = __or__


class MatrixType(Annotation):
    """A vector or matrix type: a constructor, an annotation, and an element type of containers."""

    __slots__ = ("_dtype", "m", "n", "ndim")

    def __init__(self, n: int | None, m: int | None, dtype: Any, ndim: int):
        if dtype is not None and find_dtype(dtype) is None:
            raise ValueError(f"Invalid data type {dtype!r}")
        for name, extent in (("n", n), ("m", m)):
            if extent is not None and (not hasattr(extent, "__index__") or extent < 1):
                raise ValueError(f"{name} of a vector or matrix type must be a positive integer, got {extent!r}")
        self.n, self.m, self.ndim, self._dtype = n, m, ndim, dtype
        check_size((n or 1) * (m or 1))

    @property
    def dtype(self) -> DataType | None:
        """Scalar type of the components; `int` and `float` follow the defaults of the current `init`."""
        return None if self._dtype is None else find_dtype(self._dtype)

    def element_type(self) -> DataType | None:
        """The same as `dtype`, for programs that read it from the element types of ndarrays."""
        return self.dtype

    @property
    def shape(self) -> _Shape:
        """The extents: (n,) for a vector, (n, m) for a matrix."""
        return _Shape((self.n,) if self.ndim == 1 else (self.n, self.m))

    def __call__(self, *values: Any):
        """Returns a host vector or matrix: from one scalar (fill), from all components, or from smaller vectors and scalars."""
        return constructors.value(self, values)

    def field(self, **options: Any):
        """Returns a field with elements of this type; the options are those of `qd.field`."""
        return constructors.field(self, **options)

    def ndarray(self, shape: Any, needs_grad: bool = False):
        """Returns an ndarray of this `shape` with elements of this type; `needs_grad` allocates adjoints."""
        return constructors.ndarray(self, shape, needs_grad)

    def _key(self) -> tuple[Any, ...]:
        return (self.ndim, self.n, self.m, self.dtype)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MatrixType) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key()[:3])  # the data type may follow the defaults, but a hash must not change

    def __repr__(self) -> str:
        name = getattr(self.dtype, "name", None)
        return f"VectorType[{self.n}, {name}]" if self.ndim == 1 else f"MatrixType[{self.n},{self.m}, {name}]"


class UnpackedVectorType:
    """Type of a struct member r whose components are separate members `_r0`, `_r1`, ..."""

    __slots__ = ("dtype", "n")

    def __init__(self, n: Any, dtype: Any):
        if not isinstance(n, int) or n < 1 or find_dtype(dtype) is None:
            raise QuadrantsSyntaxError(f"a vector type with unpacked=True needs a length and a data type, got {n!r} and {dtype!r}")
        self.n, self.dtype = n, dtype

    def expand(self, name: str) -> dict[str, Any]:
        """Returns the members that replace the member `name`."""
        return {f"_{name}{number}": self.dtype for number in range(self.n)}

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise QuadrantsSyntaxError("a vector type with unpacked=True is the type of a struct member and nothing else")

    __call__ = field = ndarray = tensor = _refuse

    def __repr__(self) -> str:
        return f"VectorType[{self.n}, {find_dtype(self.dtype)}, unpacked=True]"


def vector(n: int | None = None, dtype: Any = None, *, unpacked: bool = False) -> Any:
    """Return the type of vectors with `n` components of type `dtype`. `unpacked` makes each component a scalar member of a struct."""
    return UnpackedVectorType(n, dtype) if unpacked else MatrixType(n, 1, dtype, 1)


def matrix(n: int | None = None, m: int | None = None, dtype: Any = None) -> MatrixType:
    """Return the type of `n` x `m` matrices with components of type `dtype`."""
    return MatrixType(n, m, dtype, 2)


def make_element(shape: tuple[int | None, ...], dtype: Any) -> Any:
    """Returns the element type with components of this shape: the data type for (), a vector type for (n,), a matrix type for (n, m)."""
    make: Any = (lambda scalar: scalar, vector, matrix)[len(shape)]
    return make(*shape, dtype)


class Template(Annotation):
    """Annotation of a compile-time argument of any type: the kernel is specialized to its value. Arguments are accepted and ignored."""

    def __init__(self, element_type: Any = object, ndim: int | None = None):
        self.element_type, self.ndim = element_type, ndim

    def __class_getitem__(cls, _: Any) -> type[Template]:
        return cls

    def __repr__(self) -> str:
        return "Template()"


template = Template


def sparse_matrix_builder() -> Template:
    """Return the annotation of a kernel's parameter that is a `qd.linalg.SparseMatrixBuilder`."""
    return Template()


class ref:
    """Annotation of a `real_func` parameter: a scalar variable of the caller that the function may assign."""

    def __init__(self, tp: Any):
        self.dtype = to_dtype(tp)

    def __repr__(self) -> str:
        return f"ref({self.dtype})"


class NdarrayType(Annotation):
    """Annotation of an array argument: a `qd.ndarray`, a NumPy array or a torch tensor.

    `shape` has an extent or None for each axis. A given extent is checked at the launch and makes `x.shape[k]` a compile-time constant.
    """

    __slots__ = ("boundary", "dtype", "layout", "ndim", "needs_grad", "shape")

    def __init__(
        self,
        dtype: Any = None,
        ndim: int | None = None,
        element_dim: int | None = None,
        element_shape: Iterable[int] | None = None,
        field_dim: int | None = None,
        needs_grad: bool | None = None,
        boundary: str = "unsafe",
        shape: Iterable[int | None] | None = None,
    ):
        self.shape = None if shape is None else tuple(shape)
        if ndim is not None and (not isinstance(ndim, int) or ndim < 0):
            raise ValueError(f"ndim of an ndarray annotation is a number of axes, got {ndim!r}")
        if self.shape is not None:
            if any(extent is not None and (not isinstance(extent, int) or extent < 0) for extent in self.shape):
                raise ValueError(f"the shape of an ndarray annotation has a number or None for each axis, got {self.shape}")
            if ndim not in (None, len(self.shape)):
                raise ValueError(f"Both ndim and shape are specified, but shape {self.shape} doesn't match ndim={ndim}")
            ndim = len(self.shape)
        if field_dim is not None:
            raise ValueError("The field_dim argument for ndarray is already deprecated. Please use ndim instead.")
        if boundary not in ("unsafe", "clamp"):
            raise ValueError(f"Invalid boundary argument: {boundary!r}; one of 'unsafe', 'clamp' is expected")
        components: tuple[int | None, ...] = (None,) * (element_dim or 0) if element_shape is None else tuple(element_shape)
        if not 0 <= (element_dim or 0) <= 2 or len(components) > 2:
            raise ValueError("Only scalars, vectors, and matrices are allowed as elements of ndarray")
        if element_dim not in (None, len(components)):
            mismatch = f"shape {components} doesn't match specified dim {element_dim}"
            raise ValueError(f"Both element_shape and element_dim are specified, but {mismatch}")
        if isinstance(dtype, MatrixType) and (element_shape is not None or element_dim is not None):
            raise TypeError(f"element_dim and element_shape do not go together with the compound type {dtype}")
        if dtype is not None and find_element(dtype) is None:
            raise ValueError(f"Invalid data type {dtype!r}")
        dtype = dtype if dtype in (None, int, float) else find_element(dtype)
        if components:
            dtype = make_element(components, dtype)
        self.dtype, self.ndim, self.needs_grad, self.boundary, self.layout = dtype, ndim, needs_grad, boundary, Layout.AOS

    def __class_getitem__(cls, items: Any) -> NdarrayType:
        return cls(*items) if isinstance(items, tuple) else cls(items)

    def __repr__(self) -> str:
        shape = "" if self.shape is None else f", shape={self.shape}"
        return f"NdarrayType(dtype={self.dtype}, ndim={self.ndim}, layout={self.layout}, needs_grad={self.needs_grad}{shape})"


ndarray = NDArray = NdarrayType


class StructTypeBase(Annotation):
    """Base class of `StructType`, so that annotations need no import of it."""

    __slots__ = ()

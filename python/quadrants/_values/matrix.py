"""Vectors and matrices in Python scope: small NumPy arrays with the names and methods of the kernel language."""

from __future__ import annotations

import builtins
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from .. import _runtime
from .._base.dtypes import DataType, converted, from_numpy_dtype, store, to_dtype, to_numpy_dtype
from .._base.errors import QuadrantsComponentsError, QuadrantsRuntimeError, QuadrantsSyntaxError, QuadrantsTypeError
from .._base.namespaces import forwarded
from . import types as _types
from .types import MatrixType, check_size

_SWIZZLES = ("xyzw", "rgba", "stpq")


class KernelClass(type):
    """Metaclass of classes that are builtins in kernels: the class has the attribute `_qd_builtin`, its instances do not."""

    @property
    def _qd_builtin(cls) -> str:
        return cls.__name__


class MatrixClass(KernelClass):
    """Metaclass of vectors and matrices: the class has the swizzles, such as `xy`, of which an instance has those that fit its size."""

    def __getattr__(cls, name: str) -> Any:
        if not name or _find_swizzle(name) is None:
            raise AttributeError(f"type object {cls.__name__!r} has no attribute {name!r}")
        return property(
            lambda vector: getattr(vector, name), lambda vector, value: setattr(vector, name, value), doc=f"({', '.join(name)})"
        )

    def __dir__(cls) -> list[str]:
        return [
            *super().__dir__(),
            *map("".join, (word for size in range(1, 5) for group in _SWIZZLES for word in product(group, repeat=size))),
        ]


def _find_swizzle(name: str) -> list[int] | None:
    if len(name) <= 4:
        for group in _SWIZZLES:
            positions = [group.find(letter) for letter in name]
            if min(positions) >= 0:
                return positions
    return None


def _swizzle(array: np.ndarray, name: str) -> list[int] | None:
    """Returns the component numbers of a swizzle such as ``xz``, or None if `name` is no swizzle of a vector."""
    positions = _find_swizzle(name) if array.ndim == 1 else None
    if positions and max(positions) >= len(array):
        group = next(g for g in _SWIZZLES if name[0] in g)
        has, got = tuple(group[: len(array)]), tuple(name)
        raise QuadrantsSyntaxError(f"vec{len(array)} only has attributes={has}, got={got}")
    return positions


def unwrap(value: Any) -> Any:
    """Returns the NumPy array of a host vector or matrix, and any other value unchanged."""
    return value._array if isinstance(value, Matrix) else value


class Matrix(NDArrayOperatorsMixin, metaclass=MatrixClass):  # type: ignore[misc]  # no ABC but in its stub
    """A matrix, or a vector if its storage has one axis. Elements of containers are views: assignments to them change the container."""

    __slots__ = ("_array", "_is_element", "_truth", "dtype")
    __hash__ = object.__hash__  # type: ignore[assignment]
    _array: np.ndarray
    dtype: DataType | None
    _is_element: bool  # of a container: components are Python numbers, as elements that are scalars
    _truth: Any  # only of a comparison's result: `np.all` or `np.any`, applied by `bool()`

    def __init__(self, arr: Any, dt: Any = None):
        rows = unwrap(arr)
        if isinstance(rows, (list, tuple)):
            rows = [unwrap(row) for row in rows]
        elif not hasattr(rows, "__array__"):
            raise QuadrantsTypeError("An Matrix/Vector can only be initialized with an array-like object")
        dtype = None if dt is None else to_dtype(dt)
        try:
            source = np.array(rows if isinstance(rows, list) else np.asarray(rows))
        except ValueError as error:
            raise QuadrantsTypeError("the rows of a matrix must have equal lengths") from error
        if source.ndim not in (1, 2) or source.size == 0:
            raise QuadrantsTypeError(f"An Matrix/Vector can only be initialized with one or two axes of elements, got shape {source.shape}")
        if dtype is not None:
            source = converted(source, dtype)
        elif isinstance(arr, (np.ndarray, Matrix)):
            dtype = _explicit(source.dtype)
        check_size(source.size)
        _set(self, source if source.dtype.kind in "fiub" else converted(source, _runtime.f64), dtype)

    # -- shape

    @property
    def n(self) -> int:
        """Number of rows."""
        return self._array.shape[0]

    @property
    def m(self) -> int:
        """Number of columns; 1 for a vector."""
        return self._array.shape[1] if self._array.ndim == 2 else 1

    ndim: int = forwarded("_array.ndim", "1 for a vector, 2 for a matrix.")
    entries: np.ndarray = forwarded(
        "_array", "The components as the NumPy array that stores them; assignments to it change the vector or matrix."
    )

    def get_shape(self) -> tuple[int, ...]:
        """Return the extents: (n,) for a vector, (n, m) for a matrix."""
        return self._array.shape

    shape = property(get_shape)

    def __len__(self) -> int:
        return len(self._array)

    # -- elements

    def __getitem__(self, key: Any) -> Any:
        if self._is_element and isinstance(key, int) and self._array.ndim == 1:
            return self._array.item(key)  # several times faster than through a number of NumPy
        item = self._array[_position(key)]
        if isinstance(item, np.ndarray) and item.ndim:
            return _make(item, self.dtype, self._is_element)
        return item.item() if self._is_element else item

    def __setitem__(self, key: Any, value: Any) -> None:
        store(self._array, _position(key), unwrap(value))

    def __iter__(self) -> Iterator[Any]:
        return (self[index] for index in range(len(self._array)))

    def __getattr__(self, name: str) -> Any:
        positions = _swizzle(self._array, name) if not name.startswith("_") else None
        if positions is None:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute {name!r}")
        if len(positions) > 1:
            return _make(self._array[positions], self.dtype)
        return self._array.item(positions[0]) if self._is_element else self._array[positions[0]]

    def __setattr__(self, name: str, value: Any) -> None:
        positions = _swizzle(self._array, name)
        if positions is None:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute {name!r} that can be written")
        given = unwrap(value)
        if len(positions) > 1 and np.ndim(given) and len(given) != len(positions):
            raise QuadrantsComponentsError(f"value len does not match the swizzle pattern={name}: {len(given)} components are given")
        store(self._array, positions[0] if len(positions) == 1 else positions, given)

    def fill(self, value: Any) -> None:
        """Assign the number `value` to every component."""
        store(self._array, ..., value)

    def to_list(self) -> list[Any]:
        """Return the components as a (nested) list of Python numbers."""
        return self._array.tolist()

    def to_numpy(self) -> np.ndarray:
        """Return a new NumPy array of shape (n,) or (n, m) with the components."""
        return self._array.copy()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:

        return np.array(self._array, dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: tuple[Any, ...] = (), **options: Any) -> Any:
        """Applies operators and NumPy functions to components at the same position, or to each component and a number."""
        given, shapes = [], []
        for value in inputs:
            if not isinstance(value, _OPERANDS) or method == "at":
                return NotImplemented
            given.append(value._array if isinstance(value, Matrix) else value)
            if not isinstance(value, (int, float)):
                shapes.append(np.shape(given[-1]))
        if method == "__call__" and ufunc.signature is None and len(shapes) > 1 and shapes[0] != shapes[1] and () not in shapes:
            raise QuadrantsTypeError(f"{ufunc.__name__}: operands of shapes {' and '.join(map(str, shapes))} do not go together")
        with np.errstate(all="ignore"):
            result = getattr(ufunc, method)(*given, **options)
        result = wrap(result, *inputs) if method == "__call__" else result
        for target in out:  # the target of an operator such as +=
            store(unwrap(target), ..., unwrap(result))
        return out[0] if out else result

    def _compare(self, other: object, ufunc: Any, truth: Any) -> Any:
        """Compares component by component; values of different shapes are not equal."""
        if not isinstance(other, _OPERANDS):
            return NotImplemented
        if np.shape(unwrap(other)) not in ((), self._array.shape):
            return ufunc is np.not_equal
        result = ufunc(self, other)
        object.__setattr__(result, "_truth", truth)
        return result

    def __eq__(self, other: object) -> Any:
        return self._compare(other, np.equal, np.all)

    def __ne__(self, other: object) -> Any:
        return self._compare(other, np.not_equal, np.any)

    def __str__(self) -> str:
        return str(self._array)

    __repr__ = __str__

    def __copy__(self) -> Matrix:
        return _make(self._array.copy(), self.dtype)

    def __reduce__(self) -> Any:
        return (_make, (self._array.copy(), self.dtype))

    def __bool__(self) -> bool:
        truth = getattr(self, "_truth", None)
        if self._array.size != 1 and truth is None:
            raise QuadrantsTypeError("a vector or matrix is no condition: use any() or all()")
        return bool((truth or np.all)(self._array))

    def __matmul__(self, other: Any) -> Any:
        return _matmul(self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return _matmul(other, self)

    # -- methods

    def transpose(self) -> Matrix:
        """Return the transposed matrix, a copy. Raises `QuadrantsTypeError` for a vector."""
        if self._array.ndim == 1:
            raise QuadrantsTypeError(
                "`transpose()` cannot apply to a vector. If you want something like "
                "`a @ b.transpose()`, write `a.outer_product(b)` instead."
            )
        return _make(self._array.T.copy(), self.dtype)

    T = property(transpose, doc="The same as `transpose()`.")

    def cast(self, dtype: Any) -> Matrix:
        """Return a copy with the components converted to the data type `dtype`."""
        return cast(self, dtype)

    def sum(self, axis: Any = None, **options: Any) -> Any:
        """Return the sum of all components, or those along `axis`; `options` as for `np.sum`."""
        return self._array.sum(axis, **options)

    def max(self, axis: Any = None, **options: Any) -> Any:
        """Return the largest component, or those along `axis`; `options` as for `np.max`."""
        return self._array.max(axis, **options)

    def min(self, axis: Any = None, **options: Any) -> Any:
        """Return the smallest component, or those along `axis`; `options` as for `np.min`."""
        return self._array.min(axis, **options)

    def any(self, axis: Any = None, **options: Any) -> Any:
        """Return whether any component is non-zero, of all or along `axis`; `options` as for `np.any`."""
        found = self._array.any(axis, **options)
        return found if np.ndim(found) else bool(found)

    def all(self, axis: Any = None, **options: Any) -> Any:
        """Return whether every component is non-zero, of all or along `axis`; `options` as for `np.all`."""
        found = self._array.all(axis, **options)
        return found if np.ndim(found) else bool(found)

    def norm_sqr(self) -> Any:
        """Return the sum of the squares of the components."""
        return (self._array * self._array).sum()

    def norm(self, eps: float = 0) -> Any:
        """Return the square root of `norm_sqr() + eps`."""
        return np.sqrt(self.norm_sqr() + eps)

    def norm_inv(self, eps: float = 0) -> Any:
        """Return one over the square root of `norm_sqr() + eps`."""
        return 1 / np.sqrt(self.norm_sqr() + eps)

    def normalized(self, eps: float = 0) -> Matrix:
        """Return the vector divided by its norm plus `eps`."""
        return self / (self.norm() + eps)

    def dot(self, other: Any) -> Any:
        """Return the sum of the products of the components of this vector and `other`, of equal length."""
        return np.dot(self._array, np.asarray(unwrap(other)))

    def cross(self, other: Any) -> Any:
        """Return the cross product with a vector of equal length: a number for two components, a vector for three.

        Raises `QuadrantsTypeError` for other lengths.
        """
        a, b = self._array, np.asarray(unwrap(other))
        if a.shape != b.shape or a.shape not in ((2,), (3,)):
            raise QuadrantsTypeError(f"Cross product: only dimension < 4 is supported, got shape {a.shape}")
        return a[0] * b[1] - a[1] * b[0] if len(a) == 2 else wrap(np.cross(a, b), self, other)

    def outer_product(self, other: Any) -> Matrix:
        """Return the matrix of all products of a component of this vector and one of `other`."""
        return wrap(np.outer(self._array, np.asarray(unwrap(other))), self, other)

    def frobenius_inner(self, other: Any) -> Any:
        """Return the sum of the products of the components of this matrix and `other`, of equal shape."""
        return (self._array * np.asarray(unwrap(other))).sum()

    def trace(self) -> Any:
        """Return the sum of the diagonal. Raises `QuadrantsTypeError` if the matrix is not square."""
        self._check_square("Trace")
        return np.trace(self._array)

    def determinant(self) -> Any:
        """Return the determinant, an integer for integer components. Raises `QuadrantsTypeError` if the matrix is not square."""
        self._check_square("Determinant")
        value = np.linalg.det(self._array.astype(np.result_type(self._array, np.float32)))
        return self._array.dtype.type(round(value)) if self._array.dtype.kind in "iu" else value

    def inverse(self) -> Matrix:
        """Return the inverse of a square matrix as floats; all components are infinite or NaN if it is singular.

        Raises `QuadrantsTypeError` if the matrix is not square or has more than 16 rows.
        """
        self._check_square("Inverse")
        if self.n > 16:
            raise QuadrantsTypeError(f"Inverse: only dimension < 17 is supported, got shape {self.shape}")
        try:
            return wrap(np.linalg.inv(self._array.astype(np.result_type(self._array, np.float32))), self)
        except np.linalg.LinAlgError:
            return wrap(np.full(self.shape, np.inf), self)

    def _check_square(self, what: str) -> None:
        if self._array.ndim != 2 or self.n != self.m:
            raise QuadrantsTypeError(f"{what}: expected a square matrix, got shape {self.shape}")

    # -- constructors

    @staticmethod
    def zero(dt: Any, n: int, m: int | None = None) -> Matrix:
        """Return a vector of `n` or a matrix of `n` x `m` zeros of type `dt`."""
        return _make(np.zeros(n if m is None else (n, m), to_numpy_dtype(to_dtype(dt))), to_dtype(dt))

    @staticmethod
    def one(dt: Any, n: int, m: int | None = None) -> Matrix:
        """Return a vector of `n` or a matrix of `n` x `m` ones of type `dt`."""
        return _make(np.ones(n if m is None else (n, m), to_numpy_dtype(to_dtype(dt))), to_dtype(dt))

    @staticmethod
    def unit(n: int, i: int, dt: Any = None) -> Matrix:
        """Return the vector of `n` components of type `dt` (default: int) whose component `i` is one and all others zero."""
        dtype = to_dtype(int if dt is None else dt)
        return _make(np.eye(n, dtype=to_numpy_dtype(dtype))[i].copy(), dtype)

    @staticmethod
    def identity(dt: Any, n: int) -> Matrix:
        """Return the `n` x `n` identity matrix of type `dt`."""
        return _make(np.eye(n, dtype=to_numpy_dtype(to_dtype(dt))), to_dtype(dt))

    @staticmethod
    def diag(dim: int, val: Any) -> Matrix:
        """Return the `dim` x `dim` matrix with the number `val` on its diagonal and zeros elsewhere."""
        return Matrix(np.eye(dim, dtype=np.asarray(val).dtype) * val)

    @staticmethod
    def rows(rows: Sequence[Any]) -> Matrix:
        """Return the matrix with these `rows`, sequences of equal length."""
        return Matrix([list(row) for row in rows])

    @staticmethod
    def cols(cols: Sequence[Any]) -> Matrix:
        """Return the matrix with these columns (`cols`), sequences of equal length."""
        return Matrix([list(col) for col in cols]).transpose()

    @staticmethod
    def field(n: int, m: int, dtype: Any, *arguments: Any, ndim: int | None = None, **options: Any) -> Any:
        """Return a field of `n` x `m` matrices.

        Args:
            n: number of rows.
            m: number of columns.
            dtype: data type of the components, or nested lists with this type for each component.
            arguments: further arguments of `qd.field`, beginning with `shape`.
            ndim: 2, the number of axes of a matrix.
            options: keyword arguments of `qd.field`.
        """
        assert ndim in (None, 2), f"a matrix has two axes, got ndim={ndim}"
        return _types.constructors.field(_types.matrix(n, m, _common_dtype(dtype, (n, m))), *arguments, **options)

    @staticmethod
    def ndarray(n: int, m: int, dtype: Any, shape: Any, needs_grad: bool = False) -> Any:
        """Return an ndarray of this `shape` of `n` x `m` matrices of type `dtype`; `needs_grad` allocates adjoints."""
        return _types.constructors.ndarray(_types.matrix(n, m, dtype), shape, needs_grad)

    @staticmethod
    def tensor(n: int, m: int, dtype: Any, shape: Any, **options: Any) -> Any:
        """Return a tensor of this `shape` of `n` x `m` matrices of type `dtype`; the options are those of `qd.tensor`."""
        return _types.constructors.tensor(_types.matrix(n, m, dtype), shape, **options)


class Vector(Matrix):
    """A vector: a `Matrix` with one axis."""

    __slots__ = ()

    @staticmethod
    def field(n: int, dtype: Any, *arguments: Any, ndim: int = 1, **options: Any) -> Any:  # type: ignore[override]
        """Return a field of vectors.

        Args:
            n: number of components.
            dtype: data type of the components, or a list with this type for each component.
            arguments: further arguments of `qd.field`, beginning with `shape`.
            ndim: 1, the number of axes of a vector.
            options: keyword arguments of `qd.field`.
        """
        assert ndim == 1, f"a vector has one axis, got ndim={ndim}"
        return _types.constructors.field(_types.vector(n, _common_dtype(dtype, (n,))), *arguments, **options)

    @staticmethod
    def ndarray(n: int, dtype: Any, shape: Any, needs_grad: bool = False) -> Any:  # type: ignore[override]
        """Return an ndarray of this `shape` of vectors with `n` components of type `dtype`; `needs_grad` allocates adjoints."""
        return _types.constructors.ndarray(_types.vector(n, dtype), shape, needs_grad)

    @staticmethod
    def tensor(n: int, dtype: Any, shape: Any, **options: Any) -> Any:  # type: ignore[override]
        """Return a tensor of this `shape` of vectors with `n` components of type `dtype`; the options are those of `qd.tensor`."""
        return _types.constructors.tensor(_types.vector(n, dtype), shape, **options)


_OPERANDS = (Matrix, np.ndarray, np.generic, int, float, list, tuple)


def _common_dtype(dtype: Any, shape: tuple[int, ...]) -> Any:
    """Returns the data type of components whose types are given one by one, in lists of the element's shape."""
    if not isinstance(dtype, (list, tuple)):
        return dtype
    rows = [list(row) if isinstance(row, (list, tuple)) else row for row in dtype]
    given = np.array(rows, object)
    assert given.shape == shape, f"the data types of the components have shape {given.shape}, the element has {shape}"
    if len({to_dtype(item) for item in given.flat}) != 1:
        raise QuadrantsRuntimeError("Member fields of a matrix field must have the same compute type")
    return given.flat[0]


_put_array, _put_dtype, _put_is_element = (Matrix.__dict__[name].__set__ for name in ("_array", "dtype", "_is_element"))


def _set(matrix: Matrix, array: np.ndarray, dtype: DataType | None, is_element: bool = False) -> None:
    _put_array(matrix, array)
    _put_dtype(matrix, dtype)
    _put_is_element(matrix, is_element)


def _make(array: np.ndarray, dtype: DataType | None, is_element: bool = False) -> Matrix:
    matrix = object.__new__(Vector if array.ndim == 1 else Matrix)
    _set(matrix, array, dtype, is_element)
    return matrix


view_of = _make  # `view_of(array, dtype, is_element)`: a vector or matrix that stores its components in `array`


def _explicit(dtype: np.dtype) -> DataType | None:
    """Returns the data type of an array, or None for int64 and float64: Python numbers have these types without naming them."""
    return None if dtype in (np.float64, np.int64) else from_numpy_dtype(dtype)


def wrap(result: Any, *operands: Any) -> Any:
    """Returns a NumPy result: a host vector or matrix if it has one or two axes, with a data type if an operand has one."""
    if not isinstance(result, np.ndarray) or result.ndim not in (1, 2):
        return result
    typed = builtins.any(isinstance(x, Matrix) and x.dtype is not None for x in operands)
    return _make(result, from_numpy_dtype(result.dtype) if typed else None)


def _position(key: Any) -> Any:
    return tuple(key) if isinstance(key, list) else key


def _matmul(lhs: Any, rhs: Any) -> Any:
    a, b = np.asarray(unwrap(lhs)), np.asarray(unwrap(rhs))
    if a.ndim == 0 or b.ndim == 0 or a.shape[-1] != b.shape[0]:
        raise QuadrantsTypeError(f"dimension mismatch between {a.shape} and {b.shape} for matrix multiplication")
    return wrap(a @ b, lhs, rhs)


def cast(value: Any, dtype: Any) -> Any:
    """Returns `value` converted to `dtype`: integers truncate and wrap to their width, `u1` is 0 or 1."""
    target = to_dtype(dtype)
    source = np.asarray(unwrap(value))
    out = converted(source, target)
    return _make(out, target) if isinstance(value, Matrix) else out.item() if source.ndim == 0 else out


def from_components(kind: MatrixType, values: tuple[Any, ...]) -> Matrix:
    """Implements the call of a vector or matrix type: from one scalar (fill), all components, or smaller vectors and scalars."""
    flat = [item for value in values for item in np.asarray(unwrap(value)).reshape(-1).tolist()]
    shape = tuple(extent if extent is not None else -1 for extent in kind.shape)
    count = (kind.n or len(flat)) * (kind.m or 1)
    if len(values) == 1 and len(flat) == 1 and np.ndim(unwrap(values[0])) == 0:
        flat = flat * count
    if len(flat) != count and -1 not in shape:
        raise QuadrantsSyntaxError(f"{kind!r} takes {count} components, got {len(flat)}")
    array = np.array(flat).reshape(shape)
    return _make(array if kind.dtype is None else converted(array, kind.dtype), kind.dtype)


_types.constructors.value = from_components

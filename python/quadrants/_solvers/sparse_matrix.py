"""Sparse matrices: storage by rows, arithmetic, and the exchange with SciPy, torch and CuPy."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

import quadrants as qd

from .._base.dtypes import find_dtype, to_numpy_dtype
from .._base.errors import QuadrantsRuntimeError, QuadrantsRuntimeTypeError, QuadrantsShapeError, QuadrantsTypeError
from .compressed_rows import Rows, compress, count_unsorted, multiply

STORAGE_FORMATS = ("col_major", "row_major")


def check_dtype(dtype: Any) -> Any:
    """Returns a data type of sparse matrices; raises for any other."""
    kind = find_dtype(dtype)
    if kind is not qd.f32 and kind is not qd.f64:
        raise QuadrantsRuntimeTypeError(f"Unsupported sparse matrix data type: {dtype}: use f32 or f64")
    return kind


def check_format(storage_format: Any) -> None:
    """Raises for an unknown storage format."""
    if storage_format not in STORAGE_FORMATS:
        raise QuadrantsTypeError(f"storage_format must be one of {', '.join(map(repr, STORAGE_FORMATS))}, got {storage_format!r}")


def check_extents(height: Any, width: Any) -> tuple[int, int]:
    """Returns the numbers of rows and columns; raises unless both are positive integers whose indices fit i32."""
    for name, extent in (("rows", height), ("columns", width)):
        if not isinstance(extent, (int, np.integer)) or not 0 < extent < 2**31 - 1:
            raise ValueError(f"the number of {name} of a sparse matrix must be a positive integer below 2^31 - 1, got {extent!r}")
    return int(height), int(width)


def import_scipy(what: str) -> Any:
    """Returns `scipy.sparse`, or raises `ImportError` that says what needs it."""
    try:
        import scipy.sparse
    except ImportError as error:
        raise ImportError(f"{what} needs SciPy: pip install 'quadrants[solvers]'") from error
    return scipy.sparse


class SparseMatrix:
    """A matrix of which most entries are 0, stored by rows (CSR): `offsets`, `columns` and `values` are ndarrays.

    Make one with `SparseMatrixBuilder.build`, `from_scipy` or `build_from_ndarray`; `SparseMatrix(n, m)` has no entries.

    Args:
        n: number of rows.
        m: number of columns; by default as many.
        sm: another sparse matrix, or a SciPy matrix, to copy; its shape replaces n and m.
        dtype: type of the entries, f32 or f64.
        storage_format: "col_major" or "row_major", for programs that name one; the matrix is stored by rows.
    Raises:
        RuntimeError: another dtype.
        QuadrantsTypeError: another storage format.
        ValueError: a size that is not positive.
    """

    def __init__(
        self,
        n: int | None = None,
        m: int | None = None,
        sm: Any = None,
        dtype: Any = None,
        storage_format: str = "col_major",
        *,
        rows: Rows | None = None,
    ):
        check_format(storage_format)
        if sm is not None:
            source = sm if isinstance(sm, SparseMatrix) else SparseMatrix.from_scipy(sm)
            source = source.astype(source.dtype if dtype is None else dtype)
            n, m, rows, dtype = source.n, source.m, source.rows, source.dtype
        self.dtype = check_dtype(qd.f32 if dtype is None else dtype)
        self.n, self.m = check_extents(n, m or n)
        self.rows = rows or Rows.empty(self.n, self.dtype)

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of rows and columns."""
        return self.n, self.m

    @property
    def nnz(self) -> int:
        """The number of stored entries."""
        return self.rows.columns.shape[0]

    # Exchange

    @classmethod
    def from_scipy(cls, matrix: Any, copy: bool = True) -> SparseMatrix:
        """Return the sparse matrix with the entries of `matrix`, a matrix or array of `scipy.sparse`, in f32 or f64 (other types become
        f64). With `copy` (a bool) False it shares the memory of a CSR matrix whose rows are sorted, if types and device allow.

        Raises `ImportError` without SciPy.
        """
        compressed = import_scipy("SparseMatrix.from_scipy").csr_matrix(matrix)
        if not compressed.has_canonical_format:
            compressed = compressed.copy()  # the caller's matrix stays as it is
            compressed.sum_duplicates()
        kind = qd.f32 if compressed.dtype == np.float32 else qd.f64
        rows = make_rows(compressed.indptr, compressed.indices, compressed.data, kind, copy)
        return cls(*map(int, compressed.shape), dtype=kind, rows=rows)

    @classmethod
    def from_torch(cls, tensor: Any, copy: bool = True) -> SparseMatrix:
        """Return the sparse matrix with the entries of `tensor`, a tensor of torch in CSR layout, in f32 or f64. With `copy` (a bool)
        False it shares the tensor's memory if the indices are i32 and kernels run on its device.

        Raises `QuadrantsTypeError` for another layout, `RuntimeError` for another dtype, `ValueError` unless the columns of rows ascend.
        """
        if str(getattr(tensor, "layout", "")) != "torch.sparse_csr":
            raise QuadrantsTypeError(f"the tensor must have the layout torch.sparse_csr, use its to_sparse_csr(); got {type(tensor)}")
        return cls._from_arrays(tensor.crow_indices(), tensor.col_indices(), tensor.values().detach(), tensor.shape, copy)

    @classmethod
    def from_cupy(cls, matrix: Any, copy: bool = True) -> SparseMatrix:
        """Return the sparse matrix with the entries of `matrix`, a `csr_matrix` of `cupyx.scipy.sparse` in f32 or f64. With `copy` (a
        bool) False it shares the memory of the matrix on CUDA.

        Raises `RuntimeError` for another dtype, `ValueError` unless the columns of rows ascend.
        """
        return cls._from_arrays(matrix.indptr, matrix.indices, matrix.data, matrix.shape, copy)

    @classmethod
    def _from_arrays(cls, offsets: Any, columns: Any, values: Any, shape: Any, copy: bool) -> SparseMatrix:
        kind = check_dtype(values.dtype)
        rows = make_rows(offsets, columns, values, kind, copy)
        if count_unsorted(rows.offsets, rows.columns):
            raise ValueError("the columns of each row must ascend, each of them once: sort the entries and add up duplicates first")
        return cls(*map(int, shape), dtype=kind, rows=rows)

    def to_scipy(self, copy: bool = True) -> Any:
        """Return the matrix as `scipy.sparse.csr_matrix`; with `copy` (a bool) False it shares the memory of this matrix if
        the device allows. Raises `ImportError` without SciPy.
        """
        return import_scipy("SparseMatrix.to_scipy").csr_matrix(self.rows.to_scipy(copy), shape=self.shape, copy=False)

    def to_torch(self, copy: bool = True) -> Any:
        """Return the matrix as a tensor of torch in CSR layout; with `copy` (a bool) False it shares the memory of this matrix."""
        import torch

        parts = [part.to_torch(copy=copy) for part in self.rows]
        return torch.sparse_csr_tensor(*parts, size=self.shape, check_invariants=False)

    def to_cupy(self) -> Any:
        """Return the matrix as `cupyx.scipy.sparse.csr_matrix`, which shares the memory of this matrix on CUDA."""
        from_dlpack = importlib.import_module("cupy").from_dlpack
        parts = tuple(from_dlpack(part) for part in reversed(self.rows))
        return importlib.import_module("cupyx.scipy.sparse").csr_matrix(parts, shape=self.shape)

    def to_numpy(self) -> np.ndarray:
        """Return the dense matrix as a NumPy array."""
        rows, columns, values = self._list_triplets()
        dense = np.zeros(self.shape, values.dtype)
        dense[rows, columns] = values
        return dense

    def astype(self, dtype: Any) -> SparseMatrix:
        """Return a copy whose entries have the type `dtype`, f32 or f64."""
        kind = check_dtype(dtype)
        return SparseMatrix(self.n, self.m, dtype=kind, rows=make_rows(*(part.to_numpy() for part in self.rows), dtype=kind))

    def build_from_ndarray(self, ndarray: Any) -> None:
        """Replace the entries by those of `ndarray`, a 1-D array of triplets: row, column, value, row, …; equal indices add up.

        Raises `QuadrantsRuntimeError` if the number of elements is not divisible by 3, `IndexError` for indices outside of the matrix.
        """
        flat = np.asarray(ndarray.to_numpy() if hasattr(ndarray, "to_numpy") else ndarray)
        if flat.ndim != 1 or flat.size % 3:
            raise QuadrantsRuntimeError(f"the number of elements of the triplets must be divisible by 3, got the shape {flat.shape}")
        triplets = flat.reshape(-1, 3)
        self.rows = self._compress(triplets[:, 0], triplets[:, 1], triplets[:, 2])

    def _compress(self, rows: Any, columns: Any, values: Any) -> Rows:
        parts = make_part(qd.i32, rows), make_part(qd.i32, columns), make_part(self.dtype, values)
        return compress(*parts, parts[0].shape[0], self.n, self.m)

    def mmwrite(self, path: str) -> None:
        """Write the matrix to the file `path` (a text) in the Matrix Market format. Raises `ImportError` without SciPy."""
        import_scipy("SparseMatrix.mmwrite")
        import scipy.io

        scipy.io.mmwrite(path, self.to_scipy(copy=False))

    # Entries

    def _find(self, index: Any) -> tuple[int, int, int | None]:
        """Returns row, column and the position of the entry, None if it is not stored."""
        row, column = index
        for name, value, extent in (("row", row, self.n), ("column", column, self.m)):
            if not 0 <= value < extent:
                raise IndexError(f"{name} {value} is outside of the {self.n}x{self.m} matrix")
        begin, end = int(self.rows.offsets[row]), int(self.rows.offsets[row + 1])
        columns = self.rows.columns.to_numpy(copy=None)
        at = begin + int(np.searchsorted(columns[begin:end], column))
        return row, column, at if at < end and columns[at] == column else None

    def __getitem__(self, index: tuple[int, int]) -> float:
        at = self._find(index)[2]
        return 0.0 if at is None else self.rows.values[at]

    def __setitem__(self, index: tuple[int, int], value: float) -> None:
        row, column, at = self._find(index)
        if at is not None:
            self.rows.values[at] = value
            return
        rows, columns, values = self._list_triplets()
        self.rows = self._compress(np.append(rows, row), np.append(columns, column), np.append(values, value))

    def _list_triplets(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        rows = np.repeat(np.arange(self.n, dtype=np.int32), np.diff(self.rows.offsets.to_numpy()))
        return rows, self.rows.columns.to_numpy(), self.rows.values.to_numpy()

    def __str__(self) -> str:
        texts = [[f"{value:.4g}" for value in row] for row in self.to_numpy()]
        width = max(len(text) for row in texts for text in row)
        return "\n".join("[" + ", ".join(text.rjust(width) for text in row) + "]" for row in texts)

    def __repr__(self) -> str:
        return f"<{self.n}x{self.m} sparse matrix of {self.dtype}, {self.nnz} entries>"

    # Arithmetic

    def transpose(self) -> SparseMatrix:
        """Return the transpose."""
        rows, columns, values = self._list_triplets()
        made = SparseMatrix(self.m, self.n, dtype=self.dtype)
        made.rows = made._compress(columns, rows, values)
        return made

    def _require_shape(self, other: SparseMatrix) -> None:
        if self.shape != other.shape:
            raise QuadrantsShapeError(f"Dimension mismatch between sparse matrices {self.shape} and {other.shape}")

    def _combine(self, other: Any, sign: int) -> Any:
        if not isinstance(other, SparseMatrix):
            return NotImplemented
        self._require_shape(other)
        first, second = self._list_triplets(), other._list_triplets()
        made = SparseMatrix(self.n, self.m, dtype=qd.f64 if qd.f64 in (self.dtype, other.dtype) else qd.f32)
        values = np.concatenate([first[2], sign * second[2]])
        made.rows = made._compress(np.append(first[0], second[0]), np.append(first[1], second[1]), values)
        return made

    def __add__(self, other: Any) -> Any:
        return self._combine(other, 1)

    def __sub__(self, other: Any) -> Any:
        return self._combine(other, -1)

    def __neg__(self) -> SparseMatrix:
        return self * -1.0

    def __mul__(self, other: Any) -> Any:
        """The product with a number, or entry by entry with a matrix."""
        if isinstance(other, SparseMatrix):
            self._require_shape(other)
            return SparseMatrix.from_scipy(self.to_scipy(copy=False).multiply(other.to_scipy(copy=False)))
        if not isinstance(other, (int, float, np.number)):
            return NotImplemented
        made = self.astype(self.dtype)
        values = made.rows.values.to_numpy()
        made.rows.values.from_numpy(values * values.dtype.type(other))
        return made

    __rmul__ = __mul__

    def __matmul__(self, other: Any) -> Any:
        if isinstance(other, SparseMatrix):
            if self.m != other.n:
                raise QuadrantsShapeError(f"Dimension mismatch between sparse matrices {self.shape} and {other.shape}")
            return SparseMatrix.from_scipy(self.to_scipy(copy=False) @ other.to_scipy(copy=False))
        vector = read_vector(other)
        if vector is None:
            raise QuadrantsRuntimeError(
                f"Sparse matrix-matrix/vector multiplication does not support {type(other)}: "
                "use a SparseMatrix, a scalar field, an ndarray, a NumPy array or a tensor of torch"
            )
        if vector.shape != (self.m,):
            raise QuadrantsShapeError(f"Dimension mismatch: a {self.n}x{self.m} matrix and a vector of the shape {tuple(vector.shape)}")
        return self._multiply(other, vector)

    def _multiply(self, given: Any, vector: Any) -> Any:
        """Returns the product with a vector, in a container like the given one; a field gives a NumPy array."""
        if isinstance(given, qd.Ndarray):
            result: Any = qd.ndarray(self.dtype, self.n)
        elif isinstance(vector, np.ndarray):
            result = np.zeros(self.n, to_numpy_dtype(self.dtype))
        else:
            result = vector.new_zeros(self.n)
        multiply(*self.rows, vector, result)
        return result


def check_matrix(matrix: Any) -> None:
    """Raises for anything but a `SparseMatrix`."""
    if not isinstance(matrix, SparseMatrix):
        raise QuadrantsTypeError(f"the matrix must be a SparseMatrix, got {type(matrix)}")


def check_square(matrix: Any) -> None:
    """Raises for anything but a square `SparseMatrix`."""
    check_matrix(matrix)
    if matrix.n != matrix.m:
        raise QuadrantsShapeError(f"the matrix of a system must be square, got {matrix.n}x{matrix.m}")


def read_vector(value: Any) -> Any:
    """Returns a 1-D array of numbers that kernels read: an ndarray, a NumPy array or a tensor of torch; None for other objects."""
    if isinstance(value, qd.ScalarField):
        return value.to_numpy()
    if isinstance(value, (qd.Ndarray, np.ndarray)) or type(value).__module__.partition(".")[0] == "torch":
        return value
    return None


def make_part(dtype: Any, values: Any, copy: bool = True) -> Any:
    """Returns an array of another library as an ndarray: a view if `copy` is False and memory and type allow, else a copy."""
    if not copy and find_dtype(values.dtype) is dtype and 0 not in values.shape:
        try:
            return qd.from_dlpack(values)
        except (TypeError, ValueError, BufferError):  # on another device, read-only, or not packed
            pass
    made = qd.ndarray(dtype, tuple(values.shape))
    if 0 not in values.shape:
        made.from_numpy(values)
    return made


def make_rows(offsets: Any, columns: Any, values: Any, dtype: Any, copy: bool = True) -> Rows:
    """Returns the arrays of another library as rows with values of a data type; see `make_part`."""
    return Rows(*(make_part(kind, part, copy) for kind, part in ((qd.i32, offsets), (qd.i32, columns), (dtype, values))))

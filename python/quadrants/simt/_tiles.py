"""`qd.simt.Tile8x8`, `Tile16x16`, `Tile32x32`, `Tile64x64`: matrices in the registers of neighboring threads (register tiles).

A tile of N x N numbers is distributed over N neighboring threads, one row each, in the N registers `r`. All lanes of a subgroup execute a
statement about tiles together; if a tile has more rows than a subgroup has lanes, all threads of the block do, and exchange numbers through
shared memory. The frontend translates slices of arrays and `qd.outer` in such statements
(`frontend/register_tiles.cpp`) and calls the functions of this module.
"""

import functools
from typing import Any

import quadrants as qd

from .._base import device as _device
from .._base.dtypes import find_dtype
from .._base.errors import QuadrantsTypeError
from .._language.builtins import Builtin
from .._language.fold_operators import BY_NAME as _OPERATORS
from .._language.func import specialize
from .._values.struct import StructType
from ._primitives import block_sync, exchange_array, group_sync, pin, reshuffle, shuffle, thread_idx

outer = Builtin(
    "outer",
    "a b",
    "qd.outer(a, b): the products a[i] * b[j], on the right side of `tile += ...` and `tile -= ...`. Each lane gives that of its row: "
    "a number, or a slice of a column such as `x[i:j, c]`.",
)


@qd.func
def _row(size: qd.template()):
    return thread_idx() & qd.static(size - 1)


def _is_large(size: int) -> bool:
    """Whether the rows of a tile are on several subgroups."""
    return size > _device.SUBGROUP_SIZE


@qd.func
def _get(value, row, size: qd.template(), again: qd.template() = False):
    """The value of the thread that has a row of the tile; `again`: of the same value as the previous time, without another wait."""
    result = value
    if qd.static(_is_large(size)):
        room = exchange_array(value.dtype)
        if qd.static(not again):
            block_sync()
            room[thread_idx()] = value
            block_sync()
        result = room[(thread_idx() & qd.static(-size)) + row]
    else:
        result = qd.static(reshuffle if again else shuffle)(value, (thread_idx() & qd.static(_device.SUBGROUP_SIZE - size)) + row)
    return result


@qd.func
def _zeros(dtype: qd.template() = None, *, size: qd.template()):
    """A tile of zeros; `dtype`: f32 or f64, by default that of floats."""
    return qd.static(_make_tile(size, dtype))()


@qd.func
def _eye(dtype: qd.template() = None, *, size: qd.template()):
    """The identity; `dtype`: f32 or f64, by default that of floats."""
    tile = qd.static(_make_tile(size, dtype))()
    _set_eye(tile, size)
    return tile


@qd.func
def _set_eye(tile: qd.template(), size: qd.template()):
    """Makes the tile the identity."""
    row = _row(size)
    for column in qd.static(range(size)):
        tile.r[column] = qd.select(row == column, 1, 0)


@qd.func
def _load(tile: qd.template(), part, size: qd.template()):
    """The tile gets what an array holds; the rest stays."""
    row = _row(size)
    if row < part.shape[0]:
        for column in qd.static(range(size)):
            if column < part.shape[1]:
                tile.r[column] = part[row, column]


@qd.func
def _store(tile: qd.template(), part, size: qd.template()):
    """An array gets what the tile holds."""
    # Other lanes may still read the shared memory, and may next read what this one writes.
    wait = qd.static(block_sync if _is_large(size) else group_sync)
    wait()
    row = _row(size)
    if row < part.shape[0]:
        for column in qd.static(range(size)):
            if column < part.shape[1]:
                part[row, column] = tile.r[column]
    wait()


@qd.func
def _read(tile: qd.template(), part, size: qd.template()):
    """The number of a lane's row in a slice of an array; 0 beyond its end."""
    row = _row(size)
    value = qd.cast(0, part.dtype)
    if row < part.shape[0]:
        value = part[row]
    return value


@qd.func
def _add_outer(tile: qd.template(), a, b, size: qd.template(), dtype: qd.template()):
    """Adds the products of two vectors."""
    own, other = qd.cast(a, dtype), qd.cast(b, dtype)
    for column in qd.static(range(size)):
        factor = _get(other, column, size, qd.static(column > 0))
        tile.r[column] = pin(tile.r[column] + own * factor)


@qd.func
def _subtract_outer(tile: qd.template(), a, b, size: qd.template(), dtype: qd.template()):
    """Subtracts the products of two vectors."""
    _add_outer(tile, -qd.cast(a, dtype), b, size, dtype)


@qd.func
def _multiply(tile: qd.template(), a: qd.template(), b: qd.template(), size: qd.template(), dtype: qd.template()):
    """The tile becomes the product of the tiles `a` and `b`, of which it may be one."""
    result = qd.static(_make_tile(size, dtype))()
    for column in qd.static(range(size)):
        for k in qd.static(range(size)):
            factor = _get(b.r[column], k, size, qd.static(k > 0))
            result.r[column] = pin(result.r[column] + a.r[k] * factor)
    for column in qd.static(range(size)):
        tile.r[column] = result.r[column]


@qd.func
def _transpose(tile: qd.template(), size: qd.template()):
    """Rows and columns change places."""
    # Exchanges blocks of 1, 2, 4, ... rows and columns across the diagonal of blocks of twice the size.
    row = _row(size)
    for step in qd.static([step for step in (1, 2, 4, 8, 16, 32) if step < size]):
        is_lower = (row & step) != 0
        for column in qd.static([column for column in range(size) if not column & step]):
            sent = qd.select(is_lower, tile.r[column], tile.r[column + step])
            got = _get(sent, row ^ step, size)
            if is_lower:
                tile.r[column] = got
            else:
                tile.r[column + step] = got


@qd.func
def _cholesky(tile: qd.template(), eps, size: qd.template(), dtype: qd.template()):
    """The lower triangle becomes L, where L Lᵀ is the symmetric matrix whose lower triangle the tile held: pivots are the roots of what
    remains, or of `eps` where that is larger. Each lane gives the `eps` of its own row. The upper triangle is left with anything.
    """
    row, floor = _row(size), qd.cast(eps, dtype)
    for k in qd.static(range(size)):
        pivot = _get(qd.sqrt(qd.max(tile.r[k], floor)), k, size)
        own = qd.select(row == k, pivot, tile.r[k] / pivot)
        tile.r[k] = own
        for column in qd.static(range(k + 1, size)):
            tile.r[column] -= own * _get(own, column, size, qd.static(column > k + 1))


@qd.func
def _ldlt(tile: qd.template(), size: qd.template()):
    """The strictly lower triangle becomes that of L, with ones on its diagonal, and the diagonal D, where L D Lᵀ is the symmetric matrix
    whose lower triangle the tile held. The upper triangle is left with anything.
    """
    row = _row(size)
    for k in qd.static(range(size)):
        scaled = tile.r[k]
        own = scaled / _get(scaled, k, size)
        for column in qd.static(range(k + 1, size)):
            tile.r[column] -= own * _get(scaled, column, size, True)
        tile.r[k] = qd.select(row == k, scaled, own)


@qd.func
def _solve_triangular(
    tile: qd.template(), other: qd.template(), lower: qd.template() = True, trans: qd.template() = False, *, size: qd.template()
):
    """The tile `other` becomes the X with X Tᵀ = other, or with X T = other where `trans`. T is the lower triangle of this tile, or the
    upper one where not `lower`.
    """
    for step in qd.static(range(size)):
        k = qd.static(step if lower != trans else size - 1 - step)
        other.r[k] /= _get(tile.r[k], k, size)
        for j in qd.static(range(k + 1, size) if lower != trans else range(k)):
            factor = _get(tile.r[j], k, size) if qd.static(trans) else _get(tile.r[k], j, size, True)
            other.r[j] = pin(other.r[j] - other.r[k] * factor)


@qd.func
def _fold_rows(tile: qd.template(), size: qd.template(), op: qd.template()):
    """The {what} of each row, one number for each thread."""
    result = tile.r[0]
    for column in qd.static(range(1, size)):
        result = op(result, tile.r[column])
    return result


@qd.func
def _broadcast_row(tile: qd.template(), row, size: qd.template()):
    """All rows become one of them, whose number all threads give."""
    for column in qd.static(range(size)):
        tile.r[column] = _get(tile.r[column], row, size)


_METHODS = {
    "eye_": _set_eye, "cholesky_": _cholesky, "ldlt_": _ldlt, "solve_triangular_": _solve_triangular, "matmul_": _multiply,
    "transpose_": _transpose, "broadcast_row_": _broadcast_row, "_load": _load, "_store": _store, "_read": _read, "_add_outer": _add_outer,
    "_subtract_outer": _subtract_outer,
}  # fmt: skip


class TileType(StructType):
    """The struct type of a tile's registers."""

    is_tile = True


@functools.cache
def _tile_type(size: int, dtype: Any) -> TileType:
    methods: dict[str, Any] = {"SIZE": size}
    for name, general in _METHODS.items():
        wanted = {parameter.name for parameter in general.parameters}
        fixed = {key: value for key, value in (("size", size), ("dtype", dtype)) if key in wanted}
        methods[name] = specialize(general, name, general.__doc__, **fixed)
    for name, key in (("sum_rows", "add"), ("min_rows", "min"), ("max_rows", "max")):
        op, what = _OPERATORS[key]
        methods[name] = specialize(_fold_rows, name, _fold_rows.__doc__.format(what=what), size=size, op=op)
    return TileType(f"Tile{size}x{size}", methods, r=qd.types.vector(size, dtype, unpacked=True))


def _make_tile(size: int, dtype: Any) -> TileType:
    """Returns the type of tiles of `size` rows and columns and data type `dtype`, by default default_fp; one object per type.

    Raises:
        QuadrantsTypeError: `dtype` is no floating-point type.
    """
    scalar = find_dtype(float if dtype is None else dtype)
    if scalar is None or not scalar.is_real:
        raise QuadrantsTypeError(f"tiles hold floats such as qd.f32 or qd.f64, got dtype={dtype!r}")
    return _tile_type(size, scalar)


class _Tile:
    """Base of the classes of tiles; in kernels, `zeros(dtype=None)` and `eye(dtype=None)` make a tile."""

    SIZE = 0
    zeros: Any
    eye: Any

    def __init_subclass__(cls, size: int):
        cls.SIZE = size
        cls.zeros = specialize(_zeros, "zeros", _zeros.__doc__, size=size)
        cls.eye = specialize(_eye, "eye", _eye.__doc__, size=size)


class Tile8x8(_Tile, size=8):
    """An 8 x 8 matrix, one row on each of 8 lanes."""


class Tile16x16(_Tile, size=16):
    """A 16 x 16 matrix, one row on each of 16 lanes."""


class Tile32x32(_Tile, size=32):
    """A 32 x 32 matrix, one row on each of 32 lanes."""


class Tile64x64(_Tile, size=64):
    """A 64 x 64 matrix, one row on each of 64 threads."""

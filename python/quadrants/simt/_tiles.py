"""Matrices in the registers of neighbouring lanes, as names: programs hand them to functions that only other backends compile."""

from __future__ import annotations

from typing import Any, NoReturn

from .._errors import QuadrantsSyntaxError


class _Tile:
    SIZE = 0

    @classmethod
    def zeros(cls, *, dtype: Any = None) -> NoReturn:
        """Raises QuadrantsSyntaxError, whatever the `dtype`: no backend holds tiles in registers."""
        raise QuadrantsSyntaxError(f"{cls.__name__} requires a GPU backend with register tiles")

    eye = zeros


class Tile16x16(_Tile):
    """A 16 x 16 matrix, one row on each of 16 lanes."""

    SIZE = 16


class Tile32x32(_Tile):
    """A 32 x 32 matrix, one row on each of 32 lanes."""

    SIZE = 32

"""A canvas of pixels on which shapes are drawn; coordinates are columns from the left and rows from the top, in pixels.

Small discs, of which simulations draw thousands, are drawn by NumPy with smooth edges; all other shapes and texts by Pillow.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .extras import need

_SMALL = 8.0  # pixels; the cost of a disc in NumPy grows with its area


def to_rgb(color: Any, count: int) -> np.ndarray:
    """Returns `count` colors as (count, 3) bytes; `color` is 0xRRGGBB, or one such number for each."""
    values = np.asarray(color)
    if values.dtype.kind not in "iu":
        raise TypeError(f"a color is an integer such as 0xFF8800, or an array of them, got {color!r}")
    if values.ndim and values.shape != (count,):
        raise ValueError(f"{count} colors are expected, one for each shape, got an array of shape {values.shape}")
    values = np.broadcast_to(values, (count,)).astype(np.int64)
    return np.stack([values >> 16 & 255, values >> 8 & 255, values & 255], 1).astype(np.uint8)


def as_tuple(rgb: np.ndarray) -> tuple[int, ...]:
    return tuple(int(part) for part in rgb)


class Canvas:
    """Pixels of `width` columns and `height` rows, cleared to one color."""

    def __init__(self, width: int, height: int, background: int):
        self.width, self.height = width, height
        self._pixels: np.ndarray | None = None  # the pixels are here, or in the image below
        self._image: Any = None
        self._pencil: Any = None
        self.clear(background)

    def clear(self, color: int) -> None:
        """Sets all pixels to a color 0xRRGGBB."""
        self._pixels, self._image = np.empty((self.height, self.width, 3), np.uint8), None
        self._pixels[:] = to_rgb(color, 1)[0]

    def get_pixels(self) -> np.ndarray:
        """Returns the pixels as (height, width, 3) bytes, which may be changed."""
        if self._pixels is None:
            self._pixels, self._image = np.array(self._image), None
        return self._pixels

    def set_pixels(self, pixels: np.ndarray) -> None:
        """Copies the pixels of an image in the order of files: (height, width) or (height, width, 3 or 4)."""
        self._pixels, self._image = np.empty((self.height, self.width, 3), np.uint8), None
        self._pixels[:] = pixels[:, :, None] if pixels.ndim == 2 else pixels[:, :, :3]

    def _draw(self) -> Any:
        if self._image is None:
            self._image = need("PIL.Image", "drawing").fromarray(self.get_pixels())
            self._pencil, self._pixels = need("PIL.ImageDraw", "drawing").Draw(self._image), None
        return self._pencil

    def draw_discs(self, centers: np.ndarray, radii: np.ndarray, colors: np.ndarray) -> None:
        """Draws a disc around each center; later ones cover earlier ones."""
        if not len(centers):
            return
        if radii.max() > _SMALL:
            draw = self._draw()
            for (x, y), radius, color in zip(centers.tolist(), radii.tolist(), colors, strict=True):
                draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=as_tuple(color))
            return
        kept = np.isfinite(centers).all(1)
        kept &= (centers > -_SMALL).all(1) & (centers < (self.width + _SMALL, self.height + _SMALL)).all(1)
        (x, y), radii, colors = centers[kept].T.astype(np.float32), radii[kept].astype(np.float32), colors[kept].astype(np.float32)
        pixels, columns, rows = self.get_pixels().reshape(-1, 3), np.floor(x).astype(np.int32), np.floor(y).astype(np.int32)
        reach = math.ceil(radii.max(initial=0.0) + 0.5)
        for down in range(-reach, reach + 1):
            row, dy = rows + down, rows + (down + 0.5) - y
            for right in range(-reach, reach + 1):
                column, dx = columns + right, columns + (right + 0.5) - x
                cover = radii + 0.5 - np.sqrt(dx * dx + dy * dy)
                (seen,) = np.nonzero((cover > 0) & (column >= 0) & (column < self.width) & (row >= 0) & (row < self.height))
                share, place = np.minimum(cover[seen, None], 1), row[seen] * self.width + column[seen]
                pixels[place] = pixels[place] * (1 - share) + colors[seen] * share + 0.5

    def draw_lines(self, begins: np.ndarray, ends: np.ndarray, width: float, colors: np.ndarray) -> None:
        """Draws a line of `width` pixels from each begin to its end."""
        draw, thickness = self._draw(), max(1, round(width))
        for begin, end, color in zip(begins.tolist(), ends.tolist(), colors, strict=True):
            draw.line((*begin, *end), fill=as_tuple(color), width=thickness)

    def draw_polygons(self, corners: np.ndarray, colors: np.ndarray) -> None:
        """Fills polygons; `corners` has the shape (polygons, corners, 2)."""
        draw = self._draw()
        for polygon, color in zip(corners.reshape(len(corners), -1).tolist(), colors, strict=True):
            draw.polygon(polygon, fill=as_tuple(color))

    def draw_text(self, text: str, place: tuple[float, float], size: float, color: np.ndarray) -> None:
        """Writes a text with its upper left corner at `place`; `size` is the height of its letters in pixels."""
        font = need("PIL.ImageFont", "text").load_default(size)
        self._draw().text(place, text, fill=as_tuple(color), font=font)

"""Images and animations as files and in notebooks.

An image is an array of shape (width, height) or (width, height, channels) with its first element at the lower left, so that `image[i, j]`
is the pixel at column i, counted from the left, and row j, counted from the bottom.
"""

from __future__ import annotations

import io
import operator
import os
from types import TracebackType
from typing import Any

import numpy as np

from .._containers.interop import as_array
from .extras import need, writing


def to_numbers(value: Any) -> np.ndarray:
    """Returns a container, an array of another library, or a list of numbers as a NumPy array."""
    return as_array(getattr(value, "_impl", value))


def to_image(value: Any) -> np.ndarray:
    """Returns an image as an array of NumPy; raises `ValueError` if it has another shape than images have."""
    values = to_numbers(value)
    if values.ndim not in (2, 3) or (values.ndim == 3 and not 1 <= values.shape[2] <= 4):
        raise ValueError(f"an image has the shape (width, height) or (width, height, 1 to 4), got {values.shape}")
    if values.size == 0:
        raise ValueError(f"an image has at least one pixel, got the shape {values.shape}")
    return values


def to_bytes(image: Any) -> np.ndarray:
    """Returns an image as bytes, in the order of files: (height, width) or (height, width, 3 or 4), the top row first.

    Raises `TypeError` or `ValueError` if it is none.
    """
    values = to_image(image)
    kind = values.dtype.kind
    if kind == "f":
        values = (np.clip(np.nan_to_num(values.astype(np.float32, copy=False)), 0, 1) * 255 + 0.5).astype(np.uint8)
    elif kind == "b":
        values = values.astype(np.uint8) * 255
    elif kind == "u":
        values = (values >> (8 * values.itemsize - 8)).astype(np.uint8)
    else:
        raise TypeError(
            f"images consist of floats from 0 to 1 or of unsigned integers, got {values.dtype}: convert it, as with .astype(np.uint8)"
        )
    if values.ndim == 3 and values.shape[2] < 3:
        missing = 3 - values.shape[2]
        more = np.repeat(values, missing, 2) if missing == 2 else np.zeros_like(values[:, :, :1])
        values = np.concatenate([values, more], 2)
    return np.ascontiguousarray(values.swapaxes(0, 1)[::-1])


def imread(filename: Any, channels: int = 0) -> np.ndarray:
    """Return the image in a file as an array of bytes, of shape (width, height, channels) or (width, height).

    Args:
        filename: its path; the formats are those of imageio.
        channels: 1, 3 or 4 converts to gray, to colors, to colors and opacity; 0 keeps what the file has.
    Raises:
        FileNotFoundError: there is no such file.
        ModuleNotFoundError: imageio is missing; the text says how to install it.
    """
    imageio = need("imageio.v3", "qd.tools.imread")
    modes = {0: None, 1: "L", 3: "RGB", 4: "RGBA"}
    if channels not in modes:
        raise ValueError(f"channels is 0, 1, 3 or 4, got {channels!r}")
    mode = {} if channels == 0 else {"mode": modes[channels]}
    try:
        values = imageio.imread(os.fspath(filename), index=0, **mode)
    except OSError as error:
        if error.errno is not None or isinstance(error, FileNotFoundError):
            raise
        raise OSError(f"cannot read {os.fspath(filename)!r}: it is no image of a format that Pillow knows") from None
    return np.ascontiguousarray(values[::-1].swapaxes(0, 1))


def imwrite(img: Any, filename: Any) -> None:
    """Write the image `img` to the file `filename`, whose ending selects the format.

    `img` is a container, NumPy array or torch tensor of shape (width, height) or (width, height, channels): floats from 0 to 1, or
    unsigned integers over their whole range. Raises `TypeError` or `ValueError` for others, `OSError` if the file cannot be written.
    """
    imageio, name = need("imageio.v3", "qd.tools.imwrite"), os.fspath(filename)
    if os.path.splitext(name)[1].lower() not in need("PIL.Image", "qd.tools.imwrite").registered_extensions():
        raise ValueError(f"the name of an image ends with its format, such as .png, got {name!r}")
    with writing(name):
        imageio.imwrite(name, to_bytes(img), plugin="pillow")


def imresize(img: Any, w: int, h: int | None = None) -> np.ndarray:
    """Return the image `img` scaled to `w` columns and `h` rows (default: as many), with the type of its elements.

    Enlarged images consist of larger pixels, smaller ones of averages. Raises `ValueError` for a size without pixels.
    """
    values = to_image(img)
    size = (operator.index(w), operator.index(w if h is None else h))
    if min(size) < 1:
        raise ValueError(f"an image has at least one pixel, got {size}")
    for axis in (0, 1):
        old, new = values.shape[axis], size[axis]
        if new >= old:
            values = values.take(np.arange(new) * old // new, axis)
        else:
            starts = np.arange(new + 1) * old // new
            sums = np.add.reduceat(values, starts[:-1], axis, dtype=np.float64)
            counts = np.diff(starts).reshape(-1, *[1] * (values.ndim - 1 - axis))
            values = (sums / counts).astype(values.dtype)
    return values


def to_png(img: Any) -> bytes:
    """Returns the image as the bytes of a PNG file."""
    made = io.BytesIO()
    need("PIL.Image", "a picture").fromarray(to_bytes(img)).save(made, "PNG")
    return made.getvalue()


def stretch(values: np.ndarray) -> np.ndarray:
    """Returns numbers mapped linearly to 0 … 1, from the least finite one to the largest."""
    numbers = values.astype(np.float64)
    finite = numbers[np.isfinite(numbers)]
    least, most = (finite.min(), finite.max()) if finite.size else (0.0, 1.0)
    return np.asarray((numbers - least) / ((most - least) or 1.0))


class Picture:
    """An image that notebooks show: a cell whose last expression is one displays it. `png` is the file as bytes."""

    def __init__(self, png: bytes):
        self.png = png

    def _repr_png_(self) -> bytes:
        return self.png

    def __repr__(self) -> str:
        return f"<picture, {len(self.png)} bytes: a notebook shows it; .save('picture.png') writes a file, qd.tools.imshow opens a window>"

    def save(self, filename: Any) -> None:
        """Write the picture as a PNG file with the name `filename`."""
        with writing(filename), open(filename, "wb") as file:
            file.write(self.png)


def show(img: Any, size: int = 256, normalize: bool | None = None) -> Picture:
    """Return a picture of an image for notebooks, which display it.

    Args:
        img: a 2-D container or array of scalars, or of vectors of up to four components.
        size: least number of pixels of its longer side: small images are enlarged by a whole number.
        normalize: whether to map the least value to black and the largest to white. Default: for signed integers, and for floats outside
            of 0 to 1.
    Returns:
        A `Picture`; its `save` writes a file.
    Raises:
        ValueError: another shape.
        ModuleNotFoundError: Pillow is missing; the text says how to install it.
    """
    values = to_image(img)
    if normalize is None:
        normalize = values.dtype.kind == "i" or (values.dtype.kind == "f" and not (0 <= values.min() <= values.max() <= 1))
    values = stretch(values) if normalize else values
    if max(values.shape[:2]) < size:
        values = values.repeat(size // max(values.shape[:2]), 0).repeat(size // max(values.shape[:2]), 1)
    return Picture(to_png(values))


class VideoWriter:
    """Writes frames to an animation: a GIF with Pillow, other formats (mp4, webm, mkv) with imageio and ffmpeg.

    Use it in a `with` statement, or call `close`.
    """

    def __init__(self, filename: Any, fps: float = 25.0):
        """Begins the animation `filename` with `fps` frames per second."""
        if not fps > 0:
            raise ValueError(f"fps is a positive number, got {fps!r}")
        self.filename, self.fps, self.count = os.fspath(filename), fps, 0
        self._frames: list[Any] = []
        self._writer: Any = None
        self._size: tuple[int, ...] | None = None
        self._is_closed = False
        is_gif = self.filename.lower().endswith(".gif")
        need("PIL.Image" if is_gif else "imageio_ffmpeg", f"a video like {self.filename!r}{' (GIF needs Pillow only)' * (not is_gif)}")
        with writing(filename), open(self.filename, "ab"):
            pass  # a file that cannot be written is reported now, not after the simulation
        if not is_gif:
            options = {"fps": fps, "macro_block_size": 2}
            self._writer = need("imageio.v2", "qd.tools.VideoWriter").get_writer(self.filename, format="FFMPEG", mode="I", **options)

    def write(self, img: Any) -> None:
        """Append the image `img`, as for `imwrite`; raises `ValueError` if it is not as large as the first one."""
        if self._is_closed:
            raise ValueError(f"the animation {self.filename!r} is closed")
        pixels = to_bytes(img)
        self._size = self._size or pixels.shape[:2]
        if pixels.shape[:2] != self._size:
            (height, width), (h, w) = self._size, pixels.shape[:2]
            raise ValueError(f"all frames have the size of the first one, {width} x {height} pixels; this one has {w} x {h}")
        self.count += 1
        if self._writer is not None:
            self._writer.append_data(pixels if pixels.ndim == 2 else pixels[:, :, :3])
            return
        frame = need("PIL.Image", "a GIF").fromarray(pixels).convert("RGB")
        self._frames.append(frame.quantize(256, method=2, dither=0))  # one byte for each pixel until the file is written

    def close(self) -> None:
        """Complete the file; further calls do nothing. Without a frame there is no file."""
        if self._writer is not None:
            self._writer.close()
        elif self._frames:
            first, *others = self._frames
            with writing(self.filename):
                first.save(self.filename, "GIF", save_all=True, append_images=others, duration=max(20, round(1000 / self.fps)), loop=0)
        elif self.count == 0 and os.path.exists(self.filename) and not os.path.getsize(self.filename):
            os.remove(self.filename)
        self._frames, self._writer, self._is_closed = [], None, True

    def __enter__(self) -> VideoWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()

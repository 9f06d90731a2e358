"""`qd.tools`: images and animations, files for other programs (PLY, VTK), and information for problem reports."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path
from typing import Any

import numpy as np

from ._base.imports import load as _load
from ._base.namespaces import list_public as _list_public
from ._containers.container import ContainerMethods
from ._containers.interop import as_array
from ._session.init import Arch, __version_str__, cpu
from ._viz.gui import imshow as imshow
from ._viz.images import Picture as Picture
from ._viz.images import VideoWriter as VideoWriter
from ._viz.images import imread as imread
from ._viz.images import imresize as imresize
from ._viz.images import imwrite as imwrite
from ._viz.images import show as show

__path__: list[str] = []  # `lang._paths` creates the modules below it
_PLY_TYPES = {
    "char": "i1", "uchar": "u1", "short": "i2", "ushort": "u2", "int": "i4", "uint": "u4", "float": "f4", "double": "f8",
    "int8": "i1", "uint8": "u1", "int16": "i2", "uint16": "u2", "int32": "i4", "uint32": "u4", "float32": "f4", "float64": "f8",
}  # fmt: skip


class PLYWriter:
    """Collects channels of vertices and faces, and writes them as a PLY file.

    `face_type` is "tri" or "quad". Data are NumPy arrays with one entry for each vertex or face; raises AssertionError for another number.
    """

    def __init__(self, num_vertices: int, num_faces: int = 0, face_type: str = "tri", comment: str = "created by PLYWriter"):
        assert num_vertices > 0, "num_vertices should be greater than 0"
        assert num_faces >= 0, "num_faces cannot be less than 0"
        assert face_type in ("tri", "quad"), "Only tri and quad faces are supported"
        self.num_vertices, self.num_faces, self.comment = num_vertices, num_faces, comment
        self.corners = 3 if face_type == "tri" else 4
        self._vertices: list[tuple[str, str, np.ndarray]] = []
        self._faces: list[tuple[str, str, np.ndarray]] = []
        self._indices: np.ndarray | None = None

    def add_vertex_channel(self, key: str, data_type: str, data: Any) -> None:
        """Add a property of the vertices: its name `key`, its PLY type `data_type` ("float", "int", ...), and `data`, one value each."""
        self._vertices.append(_channel(key, data_type, data, self.num_vertices, "vertex"))

    def add_face_channel(self, key: str, data_type: str, data: Any) -> None:
        """Add a property of the faces: its name `key`, its PLY type `data_type` ("float", "int", ...), and `data`, one value each."""
        self._faces.append(_channel(key, data_type, data, self.num_faces, "face"))

    def _add_floats(self, keys: str, *columns: Any) -> None:
        for key, column in zip(keys.split(), columns, strict=True):
            self.add_vertex_channel(key, "float", column)

    def add_vertex_pos(self, x: Any, y: Any, z: Any) -> None:
        """Add the positions of the vertices, with the components `x`, `y` and `z`."""
        self._add_floats("x y z", x, y, z)

    def add_vertex_normal(self, nx: Any, ny: Any, nz: Any) -> None:
        """Add the normals of the vertices, with the components `nx`, `ny` and `nz`."""
        self._add_floats("nx ny nz", nx, ny, nz)

    def add_vertex_vel(self, vx: Any, vy: Any, vz: Any) -> None:
        """Add the velocities of the vertices, with the components `vx`, `vy` and `vz`."""
        self._add_floats("vx vy vz", vx, vy, vz)

    def add_vertex_color(self, r: Any, g: Any, b: Any) -> None:
        """Add the colors of the vertices: red `r`, green `g` and blue `b`, 0 to 1."""
        self._add_floats("red green blue", r, g, b)

    def add_vertex_alpha(self, alpha: Any) -> None:
        """Add the opacities of the vertices: `alpha`, 0 to 1."""
        self._add_floats("Alpha", alpha)

    def add_vertex_rgba(self, r: Any, g: Any, b: Any, a: Any) -> None:
        """Add the colors and opacities of the vertices: red `r`, green `g`, blue `b` and opacity `a`, 0 to 1."""
        self._add_floats("red green blue Alpha", r, g, b, a)

    def add_vertex_id(self) -> None:
        """Add the number of each vertex."""
        self.add_vertex_channel("id", "int", np.arange(self.num_vertices))

    def add_vertex_piece(self, piece: Any) -> None:
        """Add `piece`, the number of the part to which each vertex belongs."""
        self.add_vertex_channel("piece", "int", piece)

    def add_faces(self, indices: Any) -> None:
        """Add the vertices of each face, one row or one run of 3 or 4 indices for each."""
        indices = np.asarray(indices)
        assert indices.size == self.num_faces * self.corners, "The dimension of the face vertices is not correct"
        self._indices = indices.reshape(self.num_faces, self.corners)

    def add_face_id(self) -> None:
        """Add the number of each face."""
        self.add_face_channel("id", "int", np.arange(self.num_faces))

    def add_face_piece(self, piece: Any) -> None:
        """Add `piece`, the number of the part to which each face belongs."""
        self.add_face_channel("piece", "int", piece)

    def _header(self, kind: str) -> str:
        lines = ["ply", f"format {kind} 1.0", f"comment {self.comment}", f"element vertex {self.num_vertices}"]
        lines += [f"property {kind} {key}" for key, kind, _ in self._vertices]
        if self.num_faces:
            lines += [f"element face {self.num_faces}", "property list uchar int vertex_indices"]
            lines += [f"property {kind} {key}" for key, kind, _ in self._faces]
        return "\n".join([*lines, "end_header", ""])

    def _tables(self) -> list[np.ndarray]:
        """Returns records of vertices and of faces, packed as in a binary file."""
        assert {"x", "y", "z"} <= {key for key, _, _ in self._vertices}, "The vertices need positions: call add_vertex_pos"
        assert self.num_faces == 0 or self._indices is not None, "The faces need vertices: call add_faces"
        tables = [_records(self._vertices, self.num_vertices)]
        if self._indices is not None and self.num_faces:
            corners = [("count", "uchar", np.full(self.num_faces, self.corners))]
            corners += [(f"corner{k}", "int", self._indices[:, k]) for k in range(self.corners)]
            tables.append(_records(corners + self._faces, self.num_faces))
        return tables

    def export(self, path: Any) -> None:
        """Write a binary PLY file, little-endian, with the name `path`."""
        Path(path).write_bytes(self._header("binary_little_endian").encode() + b"".join(table.tobytes() for table in self._tables()))

    def export_ascii(self, path: Any) -> None:
        """Write a PLY file of text with the name `path`."""
        rows = [" ".join(map(str, row.tolist())) + " " for table in self._tables() for row in table]
        Path(path).write_text("\n".join([self._header("ascii") + rows[0], *rows[1:], ""]))

    def export_frame(self, series_num: int, path: Any) -> None:
        """Write the binary file of one frame: `path` (with or without .ply), an underscore and the number `series_num` with six digits."""
        self.export(_frame_path(series_num, path))

    def export_frame_ascii(self, series_num: int, path: Any) -> None:
        """Write the text file of one frame; `series_num` and `path` give its name as for `export_frame`."""
        self.export_ascii(_frame_path(series_num, path))


def _channel(key: str, data_type: str, data: Any, count: int, what: str) -> tuple[str, str, np.ndarray]:
    values = np.asarray(data)
    assert data_type in _PLY_TYPES, f"{data_type!r} is no PLY type; one of {', '.join(_PLY_TYPES)} is expected"
    assert values.size == count, f"The dimension of the {what} channel is not correct"
    return key, data_type, values.reshape(count)


def _records(channels: list[tuple[str, str, np.ndarray]], count: int) -> np.ndarray:
    table = np.empty(count, [(f"{number}{key}", "<" + _PLY_TYPES[kind]) for number, (key, kind, _) in enumerate(channels)])
    for number, (key, _, values) in enumerate(channels):
        table[f"{number}{key}"] = values
    return table


def _frame_path(series_num: int, path: Any) -> str:
    return f"{str(path).removesuffix('.ply')}_{series_num:06d}.ply"


_VTK_TYPES = {"float": ">f4", "double": ">f8", "int": ">i4", "long": ">i8", "unsigned_int": ">u4", "unsigned_long": ">u8"}


def write_vtk(scalar_field: Any, filename: Any) -> None:
    """Write a 2-D or 3-D `scalar_field` as a legacy VTK image (`filename`.vtk), point data "Data", big-endian.

    It may be any container of scalars, a NumPy array or a torch tensor. Raises TypeError for others, ValueError for other shapes.
    """
    given = getattr(scalar_field, "_impl", scalar_field)
    if isinstance(given, ContainerMethods) and given.element_shape:
        raise ValueError(f"The input field must be a 2D or 3D scalar field, got elements of shape {given.element_shape}")
    values = as_array(given)
    if values.dtype.kind not in "fiub":
        raise TypeError(f"The input field must be a 2D or 3D scalar field, got a {type(given).__name__} of {values.dtype}")
    if values.ndim not in (2, 3):
        raise ValueError(f"The input field must be a 2D or 3D scalar field, got {values.ndim} axes")
    extents = " ".join(map(str, (*values.shape, 1)[:3]))
    kind = "float double".split()[values.itemsize >= 8] if values.dtype.kind == "f" else "int long".split()[values.itemsize == 8]
    if values.dtype.kind == "u" and values.itemsize >= 4:
        kind = f"unsigned_{kind}"
    stored = values.astype(_VTK_TYPES[kind])
    header = f"""# vtk DataFile Version 3.0
Quadrants field
BINARY
DATASET STRUCTURED_POINTS
DIMENSIONS {extents}
ORIGIN 0 0 0
SPACING 1 1 1
POINT_DATA {values.size}
SCALARS Data {kind} 1
LOOKUP_TABLE default
"""
    path = str(filename).removesuffix(".vtk") + ".vtk"
    Path(path).write_bytes(header.encode() + stored.tobytes(order="F"))  # the first axis varies fastest in VTK


def diagnose() -> None:
    """Print versions, platform, processors and settings for a problem report."""
    print(f"quadrants: {__version_str__}\npython: {sys.version}\nplatform: {platform.platform()}\nnumpy: {np.__version__}")
    torch = sys.modules.get("torch")
    print(f"torch: {getattr(torch, '__version__', 'not imported')}\ncpus: {os.cpu_count()}")
    print("\n".join(f"{arch.name}: {arch in (cpu, Arch.python)}" for arch in Arch))
    print("\n".join(f"{name}={value}" for name, value in sorted(os.environ.items()) if name.startswith("QD_")))


diagnose.main = diagnose  # type: ignore[attr-defined]  # the name that programs for the reference call


__all__ = _list_public(globals(), "Any", "Arch", "ContainerMethods", "Path", "as_array", "cpu")


__dir__ = __all__.copy


def __getattr__(name: str) -> Any:
    if name in ("np2ply", "vtk"):
        return _load(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

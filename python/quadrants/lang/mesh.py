"""Names of meshes: loops over the elements of a mesh need an extension that no backend supports."""

from __future__ import annotations

from typing import Any, NoReturn

from .._base.errors import QuadrantsRuntimeError

__all__ = ["Mesh", "MeshInstance", "mesh_local", "mesh_patch_idx"]


def _refuse(name: str) -> NoReturn:
    """Raises: meshes are not supported."""
    raise QuadrantsRuntimeError(f"qd.{name}: the current backend doesn't support MeshQuadrants extension; qd.is_extension_enabled tells")


class Mesh:
    """A kind of mesh: raises `QuadrantsRuntimeError`, because no backend supports `qd.extension.mesh`."""

    def __init__(self, *_: Any, **__: Any) -> None:
        _refuse(type(self).__name__)

    @staticmethod
    def load_meta(filename: str) -> NoReturn:
        """Read what the file `filename` tells of a mesh: raises `QuadrantsRuntimeError`, because no backend supports meshes."""
        _refuse("Mesh.load_meta")


class MeshInstance(Mesh):
    """A mesh to loop over: raises `QuadrantsRuntimeError`, because no backend supports `qd.extension.mesh`."""


class _TetMesh(Mesh):
    """A kind of mesh of tetrahedra: raises `QuadrantsRuntimeError`."""


def mesh_local(*fields: Any) -> NoReturn:
    """Hint that neighbors read `fields` of a mesh: raises `QuadrantsRuntimeError`, because no backend supports `qd.extension.mesh`."""
    _refuse("mesh_local")


def mesh_patch_idx() -> NoReturn:
    """Number of the part of a mesh that a thread works on: raises `QuadrantsRuntimeError`, because no backend supports
    `qd.extension.mesh`.
    """
    _refuse("mesh_patch_idx")


__dir__ = __all__.copy

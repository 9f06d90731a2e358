"""`qd.sparse`: grids of structs. No backend supports inactive cells, so every cell of a grid exists."""

from __future__ import annotations

from typing import Any

from ._base.namespaces import list_public as _list_public
from ._containers.field import field
from ._containers.struct_field import StructField
from ._values.struct import StructType


def grid(field_dict: dict[str, Any], shape: Any) -> StructField:
    """Return a zero-filled grid of structs with the members `field_dict` (name to type) and this `shape`, 1 to 12 axes."""
    return field(StructType("struct", None, **field_dict), shape)


def usage(grid: StructField) -> float:
    """Return the fraction of the cells of a grid that is active: 1.0, because every cell exists."""
    grid.shape  # noqa: B018 (a grid without memory is refused)
    return 1.0


__all__ = _list_public(globals(), "Any", "StructField", "StructType", "field")


__dir__ = __all__.copy

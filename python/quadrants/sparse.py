"""`qd.sparse`: grids of structs whose cells are active after a write."""

from __future__ import annotations

import math
from typing import Any

from ._base.dtypes import to_shape as _to_shape
from ._base.namespaces import list_public as _list_public
from ._containers.axes import axes as _axes
from ._containers.field import field
from ._containers.struct_field import StructField
from ._containers.unfinished_trees import FieldsBuilder as _FieldsBuilder
from ._values.struct import StructType

__path__: list[str] = []  # `lang._paths` creates the modules below it


def grid(field_dict: dict[str, Any], shape: Any) -> StructField:
    """Return a grid of structs with the members `field_dict` (name to type) and this `shape`, 1 to 12 axes. A write activates a cell; the
    cells that are not active read as zero, and loops over the grid do not visit them.
    """
    extents = _to_shape(shape)
    made = field(StructType("struct", None, **field_dict))
    tree = _FieldsBuilder()
    tree.bitmasked(_axes(*range(len(extents))), extents).place(made)
    tree.finalize()
    return made


def usage(grid: StructField) -> float:
    """Return the fraction of the cells of a grid that is active."""
    cells = grid.parent()._cells
    return cells.observe() / math.prod(grid.shape)


__all__ = _list_public(globals(), "Any", "StructField", "StructType", "field", "math")


__dir__ = __all__.copy

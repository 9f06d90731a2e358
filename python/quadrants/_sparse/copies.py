"""Copies of arrays into the active cells of sparse fields."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

import quadrants as qd

from .._base.dtypes import store, to_memory_dtype


@qd.kernel
def _copy_active(target: qd.Template, source: qd.types.NDArray, scale: qd.Template):
    for I in qd.grouped(target):  # noqa: E741
        at = (I - qd.Vector(qd.static(list(target._loop.origin)))) * qd.static(scale)
        if qd.static(len(target.element_shape) == 0):
            target[I] = source[at]
        else:
            for place in qd.static(qd.grouped(qd.ndrange(*target.element_shape))):
                target[I][place] = source[at, place]


def overwrite(field: Any, source: np.ndarray) -> None:
    """Assigns the elements in active cells. Warns of other elements that are not zero."""
    converted = np.empty(source.shape, to_memory_dtype(field.dtype))
    store(converted, ..., source)
    _copy_active(field, converted, 1)
    lost = int(np.count_nonzero((converted != 0) & (field.to_numpy() == 0)))
    if lost:
        warnings.warn(
            f"{lost} elements that are not zero were not copied to the field {field._name!r}: their cells are inactive", stacklevel=4
        )


def fill(field: Any, element: np.ndarray) -> None:
    """Assigns one element to all elements in active cells."""
    _copy_active(field, element[(None,) * len(field.shape)], 0)

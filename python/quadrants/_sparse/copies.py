"""Copies of arrays into the active cells of sparse fields."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

import quadrants as qd

from .._base import options as _options
from .._base.dtypes import store, to_memory_dtype


@qd.func
def _copy_cell(target: qd.template(), source: qd.template(), scale: qd.template(), copies_zeros: qd.template(), I):  # noqa: E741
    """Assigns the element of a cell, and returns how many of its numbers are not zero."""
    copied = qd.cast(0, qd.i64)
    at = (I - qd.Vector(qd.static(list(target._loop.origin)))) * qd.static(scale)
    if qd.static(len(target.element_shape) == 0):
        copied += qd.cast(source[at] != 0, qd.i64)
        if qd.static(copies_zeros) or source[at] != 0:
            target[I] = source[at]
    else:
        for place in qd.static(qd.grouped(qd.ndrange(*target.element_shape))):
            copied += qd.cast(source[at, place] != 0, qd.i64)
            if qd.static(copies_zeros) or source[at, place] != 0:
                target[I][place] = source[at, place]
    return copied


@qd.kernel
def _copy_active(target: qd.Template, source: qd.types.NDArray, scale: qd.Template):
    for I in qd.grouped(target):  # noqa: E741
        _copy_cell(target, source, scale, True, I)


@qd.kernel
def _copy_and_count(target: qd.Template, source: qd.types.NDArray) -> qd.i64:
    copied = qd.cast(0, qd.i64)
    for I in qd.grouped(target):  # noqa: E741
        copied += _copy_cell(target, source, 1, True, I)
    return copied


@qd.kernel
def _activate_and_copy(target: qd.Template, source: qd.types.NDArray, copies_zeros: qd.Template):
    for at in qd.grouped(qd.ndrange(*target.shape)):
        _copy_cell(target, source, 1, copies_zeros, at + qd.Vector(qd.static(list(target._loop.origin))))


def overwrite(field: Any, source: np.ndarray) -> None:
    """Assigns the elements in active cells. Warns of other elements that are not zero, unless the option `sparse_import` activates their
    cells ("nonzero"), or all cells ("all").
    """
    converted = np.empty(source.shape, to_memory_dtype(field.dtype))
    store(converted, ..., source)
    which = (_options.current or {})["sparse_import"]
    if which == "nonzero":
        _copy_active(field, converted, 1)  # elements of active cells become zero, too
    if which != "active":
        return _activate_and_copy(field, converted, which == "all")
    # The count is a result, for which the host waits.
    if (lost := np.count_nonzero(converted) - _copy_and_count(field, converted)) > 0:
        warnings.warn(
            f"{lost} elements that are not zero were not copied to the field {field._name!r}: their cells are inactive", stacklevel=4
        )


def fill(field: Any, element: np.ndarray) -> None:
    """Assigns one element to all elements in active cells. The adjoints of inactive ones, to which gradients add, become zero."""
    if field._primal is not None:
        field._clear()
    _copy_active(field, element[(None,) * len(field.shape)], 0)

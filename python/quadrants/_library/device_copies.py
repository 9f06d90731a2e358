"""Copies to and from containers on a GPU by kernels there: of other layouts, strides and data types, and of other libraries."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np

import quadrants as qd

from .. import _runtime
from .._base.dtypes import find_dtype
from .._containers import foreign as _foreign
from .._containers.axes import row_major_strides
from .._containers.device_arrays import DeviceArray, describe_container, find_device_array, get_device

_Array = qd.types.ndarray()  # of any type, rank and strides

# The host moves fewer bytes in the time that a launch takes.
_FEW = 1 << 15
# Kernels are unrolled over up to so many components of an element.
_UNROLLED = 16


@qd.kernel
def _copy_elements(target: _Array, source: _Array):
    for i in qd.grouped(target):
        target[i] = source[i]


@qd.kernel
def _scatter_components(target: _Array, source: _Array):
    for i in qd.grouped(target):
        if qd.static(math.prod(target.element_shape) <= _UNROLLED):
            for place in qd.static(qd.grouped(qd.ndrange(*target.element_shape))):
                target[i][place] = source[i, place]
        else:
            for place in qd.grouped(qd.ndrange(*target.element_shape)):
                target[i][place] = source[i, place]


@qd.kernel
def _gather_components(target: _Array, source: _Array):
    for i in qd.grouped(source):
        if qd.static(math.prod(source.element_shape) <= _UNROLLED):
            for place in qd.static(qd.grouped(qd.ndrange(*source.element_shape))):
                target[i, place] = source[i][place]
        else:
            for place in qd.grouped(qd.ndrange(*source.element_shape)):
                target[i, place] = source[i][place]


@qd.kernel
def _spread_element(target: _Array, element: _Array):
    for i in qd.grouped(target):
        if qd.static(len(target.element_shape) == 0):
            target[i] = element[()]
        else:
            for place in qd.grouped(qd.ndrange(*target.element_shape)):
                target[i][place] = element[place]


def _is_plain(container: Any) -> bool:
    """Whether the elements have addresses that strides describe, and a kernel of ours may write them: while a tape records, it would be
    recorded.
    """
    layout = container._qd_layout
    is_dense = container._cells is None and container._quant is None and not layout.tilings and bool(layout.extents)
    return is_dense and _runtime.current_tape() is None


def _count_bytes(container: Any) -> int:
    return math.prod(container._qd_layout.extents + container.element_shape) * container._dtype.size


def _as_argument(container: Any) -> Any:
    return container[:] if isinstance(container, _runtime.FieldBase) else container


def _scatter(container: Any, source: Any) -> None:
    (_scatter_components if container.element_shape else _copy_elements)(_as_argument(container), source)


def copy_from_device(container: Any, given: Any) -> bool:
    """Copies a container or another library's array on the same GPU, of the same shape; False if it is none, or needs the host."""
    if not _is_plain(container):
        return False
    if isinstance(given, (_runtime.FieldBase, _runtime.NdarrayBase)):
        return _copy_container(container, given)
    array = _find_array(given)
    if array is None or tuple(array.shape) != container._qd_layout.extents + container.element_shape:
        return False
    if find_dtype(array.dtype) is None or _runtime.may_overlap(container, array):
        return False
    _scatter(container, array)
    return True


def _copy_container(container: Any, source: Any) -> bool:
    if source._device != container._device or not _is_plain(source) or source._qd_layout.extents != container._qd_layout.extents:
        return False
    if source.element_shape != container.element_shape or _runtime.may_overlap(container, source):
        return False
    _copy_elements(_as_argument(container), _as_argument(source))
    return True


def _find_array(given: Any) -> Any:
    """Returns an array of another library on the GPU that kernels run on, as kernels take it; None for anything else."""
    if not _foreign.is_tensor(given):
        return None if find_device_array(given, "the array") is None else qd.from_dlpack(given)
    if given.device.type == "cpu" or given.layout is not sys.modules["torch"].strided or given.is_neg() or given.is_conj():
        return None
    return _foreign.plain_tensor(given) if get_device(given) == DeviceArray.get_own_device() else None


def copy_from_host(container: Any, source: np.ndarray) -> bool:
    """Copies an array of the host that has the shape of `container`; False if the host is faster, or kernels lack its type."""
    if not _is_plain(container) or find_dtype(source.dtype) is None or _count_bytes(container) < _FEW:
        return False
    _scatter(container, np.ascontiguousarray(source))
    return True


def fill(container: Any, element: np.ndarray) -> bool:
    """Assigns an array of `element_shape` to all elements; False if the host is faster."""
    if not _is_plain(container) or _count_bytes(container) < _FEW:
        return False
    _spread_element(_as_argument(container), element)
    return True


def _gather(container: Any, target: Any) -> None:
    (_gather_components if container.element_shape else _copy_elements)(target, _as_argument(container))


def copy_to_tensor(container: Any, tensor: Any) -> bool:
    """Copies the elements to a tensor on the same GPU, of the same shape; False if a kernel cannot."""
    if not _is_plain(container):
        return False
    _gather(container, tensor)
    return True


def pack(container: Any) -> Any:
    """Returns a container of scalars with the elements row by row; None if they lie so already, or the host is faster."""
    if not _is_plain(container) or _count_bytes(container) < _FEW:
        return None
    shape, strides = describe_container(container)
    if strides == row_major_strides(shape, container._dtype.size):
        return None
    packed = qd.ndarray(container._dtype, shape)
    _gather(container, packed)
    return packed

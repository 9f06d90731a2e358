"""Copies between containers and arrays under names that programs import; new programs use the methods of containers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ._interop import as_array


def _copy_out(container: Any, arr: Any, *_: Any) -> None:
    target = as_array(arr)  # on the CPU a torch tensor's own memory
    target[...] = container.to_numpy(copy=None).reshape(target.shape)


def _copy_in(arr: Any, container: Any, *_: Any) -> None:
    container.from_numpy(np.reshape(as_array(arr), container.shape + container.element_shape))


def _fill(container: Any, val: Any) -> None:
    container.fill(val)


def _copy(dst: Any, src: Any) -> None:
    dst.copy_from(src)


fill_field = fill_ndarray = fill_ndarray_matrix = field_fill_python_scope = _fill
tensor_to_ext_arr = ndarray_to_ext_arr = matrix_to_ext_arr = ndarray_matrix_to_ext_arr = _copy_out
ext_arr_to_tensor = ext_arr_to_ndarray = ext_arr_to_matrix = ext_arr_to_ndarray_matrix = _copy_in
tensor_to_tensor = ndarray_to_ndarray = _copy


def clear_gradients(variables: Any) -> None:
    """Set the adjoints of these fields to zero."""
    for variable in variables:
        if variable.has_grad():
            variable.grad.fill(0)


def snode_deactivate(snode: Any) -> None:
    """Deactivate the cells of a node that can be."""
    snode.deactivate_all()


snode_deactivate_dynamic: Callable[[Any], None] = snode_deactivate


def blit_from_field_to_field(dst: Any, src: Any, offset: int, size: int) -> None:
    """Copy the first `size` elements of one field to another, from `offset` on."""
    elements = dst.to_numpy()
    elements[offset : offset + size] = src.to_numpy()[:size]
    dst.from_numpy(elements)


def arr_vulkan_layout_to_arr_normal_layout(vk_arr: Any, normal_arr: Any) -> None:
    """Copy a flat image stored row by row from the top into an array indexed by column and row from the bottom."""
    target = normal_arr.to_numpy(copy=False) if hasattr(normal_arr, "to_numpy") else as_array(normal_arr)
    width, height = target.shape
    target[...] = np.reshape(as_array(vk_arr), (height, width))[::-1].T


arr_vulkan_layout_to_field_normal_layout = arr_vulkan_layout_to_arr_normal_layout

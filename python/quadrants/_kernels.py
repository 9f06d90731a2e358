"""Copies, and stages of sorts and sums, under names that programs import; new programs use methods of containers and `qd.algorithms`."""

from collections.abc import Callable
from typing import Any

import numpy as np

import quadrants as qd

from ._containers.interop import as_array
from .algorithms._blocks import at

_BLOCK = 64  # number of elements that `scan_add_inclusive` sums separately


def _copy_out(container: Any, arr: Any, *_: Any) -> None:
    target = as_array(arr)  # on the CPU, the memory of a torch tensor itself
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
    """Deactivate the cells of a node that can be deactivated."""
    snode.deactivate_all()


snode_deactivate_dynamic: Callable[[Any], None] = snode_deactivate


def blit_from_field_to_field(dst: Any, src: Any, offset: int, size: int) -> None:
    """Copy the first `size` elements of the field `src` to the field `dst`, beginning with the element `offset`."""
    elements = dst.to_numpy()
    elements[offset : offset + size] = src.to_numpy()[:size]
    dst.from_numpy(elements)


def arr_vulkan_layout_to_arr_normal_layout(vk_arr: Any, normal_arr: Any) -> None:
    """Copy a flat image stored row by row from the top into an array indexed by column and row from the bottom."""
    target = normal_arr.to_numpy(copy=False) if hasattr(normal_arr, "to_numpy") else as_array(normal_arr)
    width, height = target.shape
    target[...] = np.reshape(as_array(vk_arr), (height, width))[::-1].T


arr_vulkan_layout_to_field_normal_layout = arr_vulkan_layout_to_arr_normal_layout


@qd.kernel
def sort_stage(keys: qd.Template, use_values: int, values: qd.Template, N: int, p: int, k: int, invocations: int):
    """Do one step of an odd-even merge sort of the first `N` keys: with sorted runs of `p` elements, compare elements at distance `k`.

    With `use_values`, the elements of `values` move along. The step processes `invocations` groups of 2k elements.
    """
    for group in range(invocations):
        first = k % p + group * 2 * k
        for i in range(first, first + qd.min(k, N - first - k)):
            a, b = at(keys, i), at(keys, i + k)
            if i // (2 * p) == (i + k) // (2 * p) and keys[a] > keys[b]:
                keys[a], keys[b] = keys[b], keys[a]
                if use_values != 0:
                    c, d = at(values, i), at(values, i + k)
                    values[c], values[d] = values[d], values[c]


@qd.kernel
def scan_add_inclusive(arr_in: qd.Template, in_beg: qd.i32, in_end: qd.i32, single_block: qd.Template, inclusive_add: qd.Template):
    """Replace the elements of each block of 64 in `arr_in[in_beg:in_end]` by the sums of the elements up to them.

    Unless `single_block` is set, the sum of block b is stored at `arr_in[in_end + b]`. `inclusive_add` is the sum within a subgroup on
    other runtimes; it does not change the results here.
    """
    for block in range((in_end - in_beg + _BLOCK - 1) // _BLOCK):
        total = qd.cast(0, arr_in.dtype)
        for i in range(in_beg + block * _BLOCK, qd.min(in_beg + (block + 1) * _BLOCK, in_end)):
            place = at(arr_in, i)
            total += arr_in[place]
            arr_in[place] = total
        if qd.static(not single_block):
            arr_in[at(arr_in, in_end + block)] = total


@qd.kernel
def uniform_add(arr_in: qd.Template, in_beg: qd.i32, in_end: qd.i32):
    """Add to each block of 64 in `arr_in[in_beg:in_end]` except the first one the sum of the blocks before it, `arr_in[in_end + block -
    1]`.
    """
    for i in range(in_beg + _BLOCK, in_end):
        arr_in[at(arr_in, i)] += arr_in[at(arr_in, in_end + (i - in_beg) // _BLOCK - 1)]


@qd.func
def subgroup_inclusive_add_warp_i32(val: qd.Template):
    """Return the sum of `val` over the lanes of the subgroup up to this one."""
    return qd.simt.subgroup.inclusive_add(val)  # type: ignore[attr-defined]  # one of those made from a table


warp_shfl_up_i32 = subgroup_inclusive_add_warp_i32

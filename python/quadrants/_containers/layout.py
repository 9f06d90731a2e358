"""Where the elements of a container are in its memory."""

from __future__ import annotations

from typing import NamedTuple


class ContainerLayout(NamedTuple):
    """`container._qd_layout`, made by `launch/containers/tensor_object.cpp` and read by the compiler. Strides are in bytes."""

    dtype_name: str
    element_shape: tuple[int, ...]
    extents: tuple[int, ...]
    strides: tuple[int, ...]
    component_stride: int
    origin: tuple[int, ...]  # lowest index of each axis; () for zeros
    tilings: tuple[int, ...]  # axis, length and jump of each

"""Kernels that pack the border of a part into a message and unpack it: copies and additions of boxes, of any type, rank and strides."""

from __future__ import annotations

import quadrants as qd


@qd.kernel
def copy_box(to: qd.types.ndarray(), of: qd.types.ndarray()):
    for index in qd.grouped(to):
        to[index] = of[index]


@qd.kernel
def add_box(to: qd.types.ndarray(), of: qd.types.ndarray()):
    for index in qd.grouped(to):
        to[index] += of[index]

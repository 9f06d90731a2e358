"""Indices of containers that divide the same space into cells of different sizes."""

from __future__ import annotations

import quadrants as qd


@qd.pyfunc
def rescale_index(a: qd.template(), b: qd.template(), I):  # noqa: E741 (the name that index vectors have)
    """The index of the cell of `b` in which the cell `I` of `a` lies: divided along axes where `a` has more cells, else multiplied.

    `a` and `b` are fields or nodes of a tree, `I` an index vector; the extents of one are multiples of those of the other.
    """
    return qd.Vector(
        [
            I[k] // qd.static(max(1, a.shape[k] // b.shape[k])) * qd.static(max(1, b.shape[k] // a.shape[k]))
            for k in qd.static(range(min(len(a.shape), len(b.shape))))
        ]
    )

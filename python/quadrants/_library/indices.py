"""Maps indices between containers that divide one space into cells of different sizes, and computes addresses."""

import quadrants as qd


@qd.pyfunc
def rescale_index(a: qd.template(), b: qd.template(), I):  # noqa: E741 (the usual name of index vectors)
    """Return the index of the cell of `b` that contains the cell `I` of `a`: divided along axes where `a` has more cells, else multiplied.

    `a` and `b` are fields or nodes of a tree, `I` is an index vector; the extents of one are multiples of the extents of the other.
    """
    return qd.Vector(
        [
            I[k] // qd.static(max(1, a.shape[k] // b.shape[k])) * qd.static(max(1, b.shape[k] // a.shape[k]))
            for k in qd.static(range(min(len(a.shape), len(b.shape))))
        ]
    )


@qd.func
def get_addr(f: qd.template(), I):  # noqa: E741
    """Return the address in bytes, a u64, of the element `I` of the field `f`; `I` is an index vector or a list of indices."""
    address = qd.u64(f._address)
    for k in qd.static(range(len(f.shape))):
        address += qd.u64(qd.i64(_from_origin(f, I, k)) * qd.static(f._qd_layout.strides[k]))
    for t in qd.static(range(0, len(f._qd_layout.tilings), 3)):  # axis, length and jump of a blocked layout
        tile = _from_origin(f, I, qd.static(f._qd_layout.tilings[t])) // qd.static(f._qd_layout.tilings[t + 1])
        address += qd.u64(qd.i64(tile) * qd.static(f._qd_layout.tilings[t + 2]))
    return address


@qd.func
def _from_origin(f: qd.template(), I, k: qd.template()):  # noqa: E741
    return I[k] - qd.static(f._offset[k])


@qd.func
def fill(x: qd.template(), value):
    """`x.fill(value)` in kernels: assigns `value` to every element of a field or array."""
    for I in qd.grouped(x):  # noqa: E741
        x[I] = value

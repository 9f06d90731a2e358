"""Functions of `qd.math` that are composed of builtins. Operands are scalars or vectors; integers become floats, as for builtins."""

import quadrants as qd

__all__ = [
    "bit_reverse", "ctz", "faceforward", "quat_conjugate", "quat_from_axis_angle", "quat_from_matrix",
    "quat_mul", "quat_rotate", "quat_to_matrix", "rot_axis_angle", "rotl", "rotr", "saturate",
]  # fmt: skip


@qd.pyfunc
def saturate(x):
    """Return x clamped to [0, 1]."""
    return qd.min(1.0, qd.max(0.0, x))


@qd.pyfunc
def faceforward(n, i, nref):
    """Return the normal n, turned so that it faces against i: -n if i and nref point in the same direction."""
    return qd.select(nref.dot(i) < 0, 1.0, -1.0) * n


@qd.func
def ctz(x):
    """Return the number of trailing zero bits of the integer x, i32; for 0 the width of its type."""
    lowest = qd.math.ffs(x)
    return qd.select(lowest == 0, qd.math.clz(qd.zero(x)), lowest - 1)


@qd.func
def rotl(x, n):
    """Return the integer x with its bits rotated by n positions towards the highest bit."""
    width = qd.math.clz(qd.zero(x))
    count = qd.i32(n) & (width - 1)
    moved = qd.bit_shr(x, (width - count) & (width - 1))
    return qd.select(count == 0, x, (x << qd.cast(count, qd.i32)) | moved)


@qd.func
def rotr(x, n):
    """Return the integer x with its bits rotated by n positions towards the lowest bit."""
    return rotl(x, qd.math.clz(qd.zero(x)) - (qd.i32(n) & (qd.math.clz(qd.zero(x)) - 1)))


@qd.func
def bit_reverse(x):
    """Return the integer x with its bits in reverse order."""
    width = qd.math.clz(qd.zero(x))
    result, rest = qd.zero(x), x
    qd.loop_config(serialize=True)
    for _ in range(width):
        result = (result << 1) | (rest & 1)
        rest = qd.bit_shr(rest, 1)
    return result


# --- Rotations as column-vector matrices and unit quaternions (w, x, y, z); angles turn counter-clockwise about their axis


@qd.pyfunc
def rot_axis_angle(axis, angle):
    """Return the 3x3 matrix that rotates column vectors by `angle` (radians) about an axis of any length (Rodrigues)."""
    return quat_to_matrix(quat_from_axis_angle(axis, angle))


@qd.pyfunc
def quat_from_axis_angle(axis, angle):
    """Return the unit quaternion (w, x, y, z) of a rotation by `angle` (radians) about an axis of any length."""
    n = axis * (qd.sin(angle / 2) / axis.norm())
    return qd.Vector([qd.cos(angle / 2), n[0], n[1], n[2]])


@qd.pyfunc
def quat_mul(p, q):
    """Return the product of two quaternions (w, x, y, z): the rotation q, then p."""
    u, v = qd.Vector([p[1], p[2], p[3]]), qd.Vector([q[1], q[2], q[3]])
    r = p[0] * v + q[0] * u + u.cross(v)
    return qd.Vector([p[0] * q[0] - u.dot(v), r[0], r[1], r[2]])


@qd.pyfunc
def quat_conjugate(q):
    """Return the conjugate of the quaternion q, (w, x, y, z): for a unit quaternion, the inverse rotation."""
    return qd.Vector([q[0], -q[1], -q[2], -q[3]])


@qd.pyfunc
def quat_rotate(q, v):
    """Return the 3-vector v rotated by the unit quaternion q, (w, x, y, z)."""
    u = qd.Vector([q[1], q[2], q[3]])
    t = 2 * u.cross(v)
    return v + q[0] * t + u.cross(t)


@qd.pyfunc
def quat_to_matrix(q):
    """Return the 3x3 matrix that rotates column vectors as the unit quaternion q, (w, x, y, z), does."""
    w, x, y, z = q[0], q[1], q[2], q[3]
    first = [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)]
    second = [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)]
    return qd.Matrix([first, second, [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)]])


@qd.pyfunc
def quat_from_matrix(m):
    """Return the unit quaternion (w, x, y, z), w not negative, of m, a 3x3 matrix that rotates column vectors (Shepperd's choice of the
    largest).
    """
    trace = m[0, 0] + m[1, 1] + m[2, 2]
    # Each row is the quaternion times four times one of its components.
    w = [1 + trace, m[2, 1] - m[1, 2], m[0, 2] - m[2, 0], m[1, 0] - m[0, 1]]
    x = [w[1], 1 - trace + 2 * m[0, 0], m[0, 1] + m[1, 0], m[0, 2] + m[2, 0]]
    y = [w[2], x[2], 1 - trace + 2 * m[1, 1], m[1, 2] + m[2, 1]]
    rows = qd.Matrix([w, x, y, [w[3], x[3], y[3], 1 - trace + 2 * m[2, 2]]])
    best, largest = rows[0, :], rows[0, 0]
    for i in qd.static(range(1, 4)):
        best = qd.select(rows[i, i] > largest, rows[i, :], best)
        largest = qd.max(rows[i, i], largest)
    best = best / best.norm()
    return qd.select(best[0] < 0, -1.0, 1.0) * best

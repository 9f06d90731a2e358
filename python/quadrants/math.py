"""`qd.math`: functions and types with the names of shading languages, for kernels and for Python. Operands are scalars or vectors."""

import math as _math

import quadrants as qd

from ._base.namespaces import list_public as _list_public
from ._language.builtins import TABLE as _TABLE
from ._language.builtins import elementwise as _elementwise
from ._library.math_functions import *  # noqa: F403 (more names of this module)
from ._values.types import matrix as _matrix
from ._values.types import vector as _vector

_NAMES = (
    "abs acos acosh asin asinh atan atan2 atanh cbrt ceil clz copysign cos cosh erf erfc exp exp2 expm1 ffs floor fma hypot isinf isnan "
    "ldexp log log10 log1p log2 max min popcnt pow round rsqrt sin sinh sqrt tan tanh trunc"
)
globals().update({name: _TABLE[name] for name in _NAMES.split()})
pi, e, inf, nan = _math.pi, _math.e, _math.inf, _math.nan

vec2, vec3, vec4 = (_vector(n, float) for n in (2, 3, 4))
ivec2, ivec3, ivec4 = (_vector(n, int) for n in (2, 3, 4))
uvec2, uvec3, uvec4 = (_vector(n, "uint") for n in (2, 3, 4))
mat2, mat3, mat4 = (_matrix(n, n, float) for n in (2, 3, 4))
__path__: list[str] = []  # `lang._paths` creates the modules below it


@qd.pyfunc
def mix(x, y, a):
    """Return x if a is 0, y if a is 1, and values in between by linear interpolation."""
    return x * (1.0 - a) + y * a


lerp = mix


@qd.pyfunc
def clamp(x, xmin, xmax):
    """Return x clamped to [xmin, xmax]."""
    return qd.min(xmax, qd.max(xmin, x))


@qd.pyfunc
def step(edge, x):
    """Return 1 if x is not below the edge, else 0."""
    return qd.select(x >= edge, 1.0, 0.0)


@qd.pyfunc
def fract(x):
    """Return x minus the largest integer that is not greater."""
    return x - qd.floor(x)


@qd.func
def smoothstep(edge0, edge1, x):
    """Return the Hermite interpolation between 0 at edge0 and 1 at edge1, at x."""
    t = clamp((x - edge0) / (edge1 - edge0), 0.0, 1.0)
    return t * t * (3.0 - 2.0 * t)


@qd.pyfunc
def sign(x):
    """Return the sign of x, -1, 0 or 1, as a float; 0 for a NaN."""
    return qd.select(x > 0, 1.0, 0.0) - qd.select(x < 0, 1.0, 0.0)


@qd.func
def mod(x, y):
    """Return x - y floor(x / y), as a float."""
    return x - y * qd.floor(x / y)


# NumPy's numbers divide by zero as those of kernels do, Python's raise.
smoothstep.host, mod.host = _elementwise(smoothstep.function), _elementwise(mod.function)


@qd.pyfunc
def degrees(x):
    """Return the angle x, in radians, in degrees."""
    return x * (180.0 / _math.pi)


@qd.pyfunc
def radians(x):
    """Return the angle x, in degrees, in radians."""
    return x * (_math.pi / 180.0)


@qd.pyfunc
def dot(x, y):
    """Return the sum of the products of the components of the vectors x and y."""
    return x.dot(y)


@qd.pyfunc
def cross(x, y):
    """Return the cross product of the vectors x and y, which have three components."""
    return x.cross(y)


@qd.pyfunc
def outer(x, y):
    """Return the matrix of the products of a component of the vector x and one of the vector y."""
    return x.outer_product(y)


@qd.pyfunc
def any(x):
    """Return whether a component of x is non-zero, u1."""
    return x.any()


@qd.pyfunc
def all(x):
    """Return whether all components of x are non-zero, u1."""
    return x.all()


@qd.pyfunc
def length(x):
    """Return the Euclidean norm of the vector x."""
    return x.norm()


@qd.pyfunc
def distance(x, y):
    """Return the Euclidean norm of the difference of the vectors x and y."""
    return (x - y).norm()


@qd.pyfunc
def normalize(v, eps=0.0):
    """Return the vector v divided by its norm plus eps."""
    return v / (v.norm() + eps)


@qd.pyfunc
def reflect(x, n):
    """Return x mirrored at the plane with unit normal n."""
    return x - 2.0 * x.dot(n) * n


@qd.pyfunc
def refract(x, n, eta):
    """Return the direction of the refracted ray, zero for total reflection; x and n are unit vectors, eta is the ratio of refractive
    indices.
    """
    d = x.dot(n)
    k = 1.0 - eta * eta * (1.0 - d * d)
    return qd.select(k >= 0.0, 1.0, 0.0) * (eta * x - (eta * d + qd.sqrt(qd.max(k, 0.0))) * n)


@qd.pyfunc
def determinant(m):
    """Return the determinant of the square matrix m."""
    return m.determinant()


@qd.pyfunc
def inverse(mat):
    """Return the inverse of the square matrix mat."""
    return mat.inverse()


@qd.pyfunc
def eye(n: qd.template()):
    """Return the n x n identity matrix."""
    return qd.Matrix([[float(i == j) for j in qd.static(range(n))] for i in qd.static(range(n))])


@qd.pyfunc
def vdir(ang):
    """Return the unit vector at the angle `ang` (radians)."""
    return qd.Vector([qd.cos(ang), qd.sin(ang)])


@qd.pyfunc
def fns(mask, base, offset):
    """Return the position of a set bit of a u32 mask: the offset-th one at or above `base`, for offset < 0 at or below it; for 0, `base`
    itself.

    0xFFFFFFFF if there is none.
    """
    found = qd.cast(-1, qd.u32)
    position, missing = qd.cast(base, qd.i32), qd.max(abs(offset), 1)
    end = qd.select(offset < 0, -1, qd.select(offset > 0, qd.max(position, 32), position + 1))
    while position != end and missing > 0:
        if position < 32 and (qd.cast(mask, qd.u32) >> qd.cast(position, qd.u32)) & 1 != 0:
            missing -= 1
            if missing == 0:
                found = qd.cast(position, qd.u32)
        position += qd.select(offset < 0, -1, 1)
    return found


# --- Complex numbers: vectors (re, im)


@qd.pyfunc
def cmul(z1, z2):
    """Return the product of the complex numbers z1 and z2, vectors (re, im)."""
    return qd.Vector([z1[0] * z2[0] - z1[1] * z2[1], z1[0] * z2[1] + z1[1] * z2[0]])


@qd.pyfunc
def cconj(z):
    """Return the conjugate of the complex number z, a vector (re, im)."""
    return qd.Vector([z[0], -z[1]])


@qd.pyfunc
def cinv(z):
    """Return one over the complex number z, a vector (re, im)."""
    return cconj(z) / z.dot(z)


@qd.pyfunc
def cdiv(z1, z2):
    """Return the quotient of the complex numbers z1 and z2, vectors (re, im)."""
    return cmul(z1, cconj(z2)) / z2.dot(z2)


@qd.pyfunc
def cexp(z):
    """Return the exponential of the complex number z, a vector (re, im)."""
    return qd.exp(z[0]) * vdir(z[1])


@qd.pyfunc
def clog(z):
    """Return the principal logarithm of the complex number z, a vector (re, im)."""
    return qd.Vector([qd.log(z.norm()), qd.atan2(z[1], z[0])])


@qd.pyfunc
def cpow(z, n):
    """Return the complex number z, a vector (re, im), to the power of the real number n; 0 stays 0."""
    r = z.norm()
    return qd.select(r > 0.0, 1.0, 0.0) * qd.pow(qd.select(r > 0.0, r, 1.0), n) * vdir(n * qd.atan2(z[1], z[0]))


@qd.pyfunc
def csqrt(z):
    """Return the principal square root of the complex number z, a vector (re, im)."""
    return cpow(z, 0.5)


# --- Rotations and other transforms. Columns are vectors, except that `rot_by_axis` turns row vectors.


@qd.pyfunc
def rotation2d(ang):
    """Return the 2x2 matrix of a counter-clockwise rotation by `ang` (radians)."""
    c, s = qd.cos(ang), qd.sin(ang)
    return qd.Matrix([[c, -s], [s, c]])


@qd.pyfunc
def rot_by_axis(axis, ang):
    """Return the 4x4 matrix that rotates row vectors by `ang` (radians) about an axis."""
    c, s = qd.cos(ang), qd.sin(ang)
    n = axis / axis.norm()
    t = (1.0 - c) * n
    x = [c + t[0] * n[0], t[0] * n[1] + s * n[2], t[0] * n[2] - s * n[1], 0.0]
    y = [t[1] * n[0] - s * n[2], c + t[1] * n[1], t[1] * n[2] + s * n[0], 0.0]
    z = [t[2] * n[0] + s * n[1], t[2] * n[1] - s * n[0], c + t[2] * n[2], 0.0]
    return qd.Matrix([x, y, z, [0.0, 0.0, 0.0, 1.0]])


@qd.pyfunc
def rot_yaw_pitch_roll(yaw, pitch, roll):
    """Return the 4x4 matrix of three angles (radians): yaw about y, pitch about x, roll about z."""
    ch, sh, cp, sp, cb, sb = qd.cos(yaw), qd.sin(yaw), qd.cos(pitch), qd.sin(pitch), qd.cos(roll), qd.sin(roll)
    x = [ch * cb + sh * sp * sb, sb * cp, ch * sp * sb - sh * cb, 0.0]
    y = [sh * sp * cb - ch * sb, cb * cp, sb * sh + ch * sp * cb, 0.0]
    return qd.Matrix([x, y, [sh * cp, -sp, ch * cp, 0.0], [0.0, 0.0, 0.0, 1.0]])


@qd.pyfunc
def rotation3d(ang_x, ang_y, ang_z):
    """Return the 4x4 matrix of three angles (radians) about the axes: `rot_yaw_pitch_roll(ang_z, ang_x, ang_y)`."""
    return rot_yaw_pitch_roll(ang_z, ang_x, ang_y)


@qd.pyfunc
def translate(dx, dy, dz):
    """Return the 4x4 matrix that translates points by (dx, dy, dz)."""
    return qd.Matrix([[1.0, 0.0, 0.0, dx], [0.0, 1.0, 0.0, dy], [0.0, 0.0, 1.0, dz], [0.0, 0.0, 0.0, 1.0]])


@qd.pyfunc
def scale(sx, sy, sz):
    """Return the 4x4 matrix that scales along the axes by sx, sy and sz."""
    return qd.Matrix([[sx, 0.0, 0.0, 0.0], [0.0, sy, 0.0, 0.0], [0.0, 0.0, sz, 0.0], [0.0, 0.0, 0.0, 1.0]])


__all__ = _list_public(globals())


__dir__ = __all__.copy

"""`qd.math`: functions and types with the names that shading languages have, for kernels and for Python."""

from __future__ import annotations

import math as _math

import quadrants as qd

from ._builtins import TABLE as _TABLE
from ._types import matrix as _matrix
from ._types import vector as _vector

acos, asin, atan, atan2, ceil, clz, cos, cosh = (_TABLE[name] for name in "acos asin atan atan2 ceil clz cos cosh".split())
exp, exp2, ffs, floor, isinf, isnan, log, log2 = (_TABLE[name] for name in "exp exp2 ffs floor isinf isnan log log2".split())
max, min, popcnt, pow, round, rsqrt, sin, sinh = (_TABLE[name] for name in "max min popcnt pow round rsqrt sin sinh".split())
sqrt, tan, tanh, trunc = (_TABLE[name] for name in "sqrt tan tanh trunc".split())
pi, e, inf, nan = _math.pi, _math.e, _math.inf, _math.nan

vec2, vec3, vec4 = (_vector(n, float) for n in (2, 3, 4))
ivec2, ivec3, ivec4 = (_vector(n, int) for n in (2, 3, 4))
uvec2, uvec3, uvec4 = (_vector(n, "uint") for n in (2, 3, 4))
mat2, mat3, mat4 = (_matrix(n, n, float) for n in (2, 3, 4))


@qd.pyfunc
def mix(x, y, a):
    """x where a is 0, y where a is 1, linear between."""
    return x * (1.0 - a) + y * a


@qd.pyfunc
def clamp(x, xmin, xmax):
    """x limited to [xmin, xmax]."""
    return qd.min(xmax, qd.max(xmin, x))


@qd.pyfunc
def step(edge, x):
    """1 where x is not below the edge, else 0."""
    return qd.select(x >= edge, 1.0, 0.0)


@qd.pyfunc
def fract(x):
    """The part of x above the largest integer not above it."""
    return x - qd.floor(x)


@qd.pyfunc
def smoothstep(edge0, edge1, x):
    """Hermite interpolation between 0 at edge0 and 1 at edge1."""
    t = clamp((x - edge0) / (edge1 - edge0), 0.0, 1.0)
    return t * t * (3.0 - 2.0 * t)


@qd.pyfunc
def sign(x):
    """-1, 0 or 1, as a float; 0 for a NaN."""
    return qd.select(x > 0, 1.0, 0.0) - qd.select(x < 0, 1.0, 0.0)


@qd.pyfunc
def mod(x, y):
    """x - y floor(x / y), as a float."""
    return x - y * qd.floor(x / y)


@qd.pyfunc
def degrees(x):
    """Radians to degrees."""
    return x * (180.0 / _math.pi)


@qd.pyfunc
def radians(x):
    """Degrees to radians."""
    return x * (_math.pi / 180.0)


@qd.pyfunc
def dot(x, y):
    """Sum of the products of the components."""
    return x.dot(y)


@qd.pyfunc
def cross(x, y):
    """Cross product."""
    return x.cross(y)


@qd.pyfunc
def length(x):
    """Euclidean norm."""
    return x.norm()


@qd.pyfunc
def distance(x, y):
    """Euclidean norm of the difference."""
    return (x - y).norm()


@qd.pyfunc
def normalize(v, eps=0.0):
    """The vector divided by its norm plus eps."""
    return v / (v.norm() + eps)


@qd.pyfunc
def reflect(x, n):
    """x mirrored at the plane with unit normal n."""
    return x - 2.0 * x.dot(n) * n


@qd.pyfunc
def refract(x, n, eta):
    """Direction of the refracted ray, zero on total reflection; x and n are unit vectors."""
    d = x.dot(n)
    k = 1.0 - eta * eta * (1.0 - d * d)
    return qd.select(k >= 0.0, 1.0, 0.0) * (eta * x - (eta * d + qd.sqrt(qd.max(k, 0.0))) * n)


@qd.pyfunc
def determinant(m):
    """Determinant of a square matrix."""
    return m.determinant()


@qd.pyfunc
def inverse(m):
    """Inverse of a square matrix."""
    return m.inverse()


@qd.pyfunc
def eye(n: qd.template()):
    """The n x n identity matrix."""
    return qd.Matrix([[float(i == j) for j in qd.static(range(n))] for i in qd.static(range(n))])


@qd.pyfunc
def vdir(angle):
    """The unit vector at an angle."""
    return qd.Vector([qd.cos(angle), qd.sin(angle)])

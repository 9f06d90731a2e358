# Written by tools/write_stub.py.
# ruff: noqa
from typing import Any
from ._builtins import Builtin
from ._types import MatrixType
acos: Builtin
asin: Builtin
atan: Builtin
atan2: Builtin
ceil: Builtin
clz: Builtin
cos: Builtin
cosh: Builtin
exp: Builtin
exp2: Builtin
ffs: Builtin
floor: Builtin
isinf: Builtin
isnan: Builtin
log: Builtin
log2: Builtin
max: Builtin
min: Builtin
popcnt: Builtin
pow: Builtin
round: Builtin
rsqrt: Builtin
sin: Builtin
sinh: Builtin
sqrt: Builtin
tan: Builtin
tanh: Builtin
trunc: Builtin
pi: float
e: float
inf: float
nan: float
vec2: MatrixType
vec3: MatrixType
vec4: MatrixType
ivec2: MatrixType
ivec3: MatrixType
ivec4: MatrixType
uvec2: MatrixType
uvec3: MatrixType
uvec4: MatrixType
mat2: MatrixType
mat3: MatrixType
mat4: MatrixType
def mix(x: Any, y: Any, a: Any) -> Any: ...
def clamp(x: Any, xmin: Any, xmax: Any) -> Any: ...
def step(edge: Any, x: Any) -> Any: ...
def fract(x: Any) -> Any: ...
def smoothstep(edge0: Any, edge1: Any, x: Any) -> Any: ...
def sign(x: Any) -> Any: ...
def mod(x: Any, y: Any) -> Any: ...
def degrees(x: Any) -> Any: ...
def radians(x: Any) -> Any: ...
def dot(x: Any, y: Any) -> Any: ...
def cross(x: Any, y: Any) -> Any: ...
def length(x: Any) -> Any: ...
def distance(x: Any, y: Any) -> Any: ...
def normalize(v: Any, eps: Any = ...) -> Any: ...
def reflect(x: Any, n: Any) -> Any: ...
def refract(x: Any, n: Any, eta: Any) -> Any: ...
def determinant(m: Any) -> Any: ...
def inverse(m: Any) -> Any: ...
def eye(n: Any) -> Any: ...
def vdir(angle: Any) -> Any: ...

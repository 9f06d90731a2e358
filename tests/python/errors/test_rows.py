"""The messages that are promised, row by row: class, text and the place of the carets.

rows/expressions.txt and rows/control.txt are kernels or their bodies, with the culprit between « and »; rows/containers.txt are statements.
"""

import pytest
from error_support import OF_THE_INSIDE, complaint, rows
from language_support import define

import quadrants as qd

KERNELS = rows("rows/expressions.txt") + rows("rows/control.txt")
STATEMENTS = rows("rows/containers.txt")

# What the statements find around them.
CONTAINERS = """
x1, x2, x0 = qd.field(qd.i32, 4), qd.field(qd.i32, (3, 4)), qd.field(qd.f32, ())
v1, m1 = qd.Vector.field(3, qd.f32, 4), qd.Matrix.field(2, 2, qd.f32, 4)
n1, n2 = qd.ndarray(qd.i32, 4), qd.ndarray(qd.f32, (3, 4))
nv, nm = qd.Vector.ndarray(3, qd.f32, 4), qd.Matrix.ndarray(2, 2, qd.f32, 4)
S = qd.types.struct(a=qd.i32, v=qd.types.vector(2, qd.f32))
s1 = S.field(shape=4)
"""
for name, annotation in {
    "takes_1d": "qd.types.ndarray(qd.f32, 1)",
    "takes_2d": "qd.types.NDArray[qd.f32, 2]",
    "takes_any": "qd.types.ndarray()",
    "takes_vectors": "qd.types.ndarray(qd.types.vector(3, qd.f32), 1)",
    "takes_matrices": "qd.types.ndarray(qd.types.matrix(2, 2, qd.f32), 2)",
    "takes_gradients": "qd.types.ndarray(qd.f32, 1, needs_grad=True)",
    "takes_template": "qd.template()",
    "takes_number": "qd.i32",
    "takes_vector": "qd.types.vector(3, qd.i32)",
    "takes_struct": "S",
}.items():
    CONTAINERS += f"\n@qd.kernel\ndef {name}({'n' if name == 'takes_number' else 'a'}: {annotation}):\n    pass\n"


@pytest.fixture(autouse=True)
def runtime():
    qd.init(arch=qd.cpu, offline_cache=False, log_level="error")
    yield
    qd.reset()


@pytest.mark.parametrize("body, kind, fragment", [row[1:] for row in KERNELS], ids=[row[0] for row in KERNELS])
def test_kernel(body, kind, fragment):
    assert complaint(body, kind, fragment) == ""


@pytest.mark.parametrize("line, kind, fragment", [row[1:] for row in STATEMENTS], ids=[row[0] for row in STATEMENTS])
def test_statement(line, kind, fragment):
    module = define(CONTAINERS)
    with pytest.raises(kind) as caught:
        exec(line, module)
    message = str(caught.value)
    assert fragment in message and message
    assert not OF_THE_INSIDE.search(message) and len(message.splitlines()) <= 12

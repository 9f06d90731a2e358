"""The messages that are promised, row by row: class, text and the place of the carets.

rows/expressions.txt, rows/control.txt and, for debug mode, rows/debug.txt are kernels or their bodies, with the culprit between « and »;
the other files are statements.
"""

import pytest
from error_support import OF_THE_INSIDE, complaint, rows
from language_support import define

import quadrants as qd

KERNELS = rows("rows/expressions.txt") + rows("rows/control.txt")
STATEMENTS = rows("rows/containers.txt") + rows("rows/host.txt")
OF_TORCH = rows("rows/torch.txt")
OF_DEBUG = rows("rows/debug.txt")

# What the statements find around them.
CONTAINERS = """
x1, x2, x0 = qd.field(qd.i32, 4), qd.field(qd.i32, (3, 4)), qd.field(qd.f32, ())
v1, m1 = qd.Vector.field(3, qd.f32, 4), qd.Matrix.field(2, 2, qd.f32, 4)
n1, n2 = qd.ndarray(qd.i32, 4), qd.ndarray(qd.f32, (3, 4))
nv, nm = qd.Vector.ndarray(3, qd.f32, 4), qd.Matrix.ndarray(2, 2, qd.f32, 4)
S = qd.types.struct(a=qd.i32, v=qd.types.vector(2, qd.f32))
s1 = S.field(shape=4)
read_only = np.ones(3, np.float32)
read_only.flags.writeable = False
misaligned = np.zeros(13, np.uint8)[1:].view(np.float32)

@qd.kernel
def doubles(a: qd.types.ndarray(qd.f32, 1)):
    for i in a:
        a[i] *= 2

@qd.kernel
def total(a: qd.types.ndarray(qd.f32, 1)) -> qd.f32:
    sum = 0.0
    for i in a:
        sum += a[i]
    return sum
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
    "takes_float": "qd.f32",
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


@pytest.mark.parametrize("body, kind, fragment", [row[1:] for row in OF_DEBUG], ids=[row[0] for row in OF_DEBUG])
def test_check_of_debug_mode(body, kind, fragment):
    qd.init(arch=qd.cpu, offline_cache=False, log_level="error", debug=True)
    assert complaint(body, kind, fragment) == ""


def check_statement(line, kind, fragment, **names):
    module = define(CONTAINERS, **names)
    with pytest.raises(kind) as caught:
        exec(line, module)
    message = str(caught.value)
    assert fragment in message and message
    assert not OF_THE_INSIDE.search(message) and len(message.splitlines()) <= 12


# With QD_ARCH=cuda another reason comes first.
OF_THE_HOST = ("to_numpy: dtype", "init: arch")


@pytest.mark.parametrize(
    "line, kind, fragment",
    [pytest.param(*row[1:], id=row[0], marks=[pytest.mark.host_memory] * (row[0] in OF_THE_HOST)) for row in STATEMENTS],
)
def test_statement(line, kind, fragment):
    check_statement(line, kind, fragment)


OF_ARGUMENTS = [row for row in STATEMENTS if row[0].startswith("array argument: ") and " host" not in row[0]]


@pytest.mark.parametrize("line, kind, fragment", [row[1:] for row in OF_ARGUMENTS], ids=[row[0] for row in OF_ARGUMENTS])
def test_arguments_that_do_not_fit_are_shown_with_their_annotation(line, kind, fragment):
    """The message begins with the kernel and names the argument, what it is, and its annotation."""
    with pytest.raises(kind) as caught:
        exec(line, define(CONTAINERS))
    name = line.split("(")[0]
    first, second, last = str(caught.value).splitlines()
    assert last.startswith("help: ") and last.endswith(f"[{caught.value.code}]")
    assert first == f"exception while trying to ensure compiled kernel {name}:" and fragment in second
    assert "(a is a " in second and "its annotation is " in second and ("shape" in second or "np." not in line.replace("np.float32(1)", ""))


@pytest.mark.parametrize("line, kind, fragment", [row[1:] for row in OF_TORCH], ids=[row[0] for row in OF_TORCH])
def test_statement_with_torch_tensors(line, kind, fragment):
    check_statement(line, kind, fragment, torch=pytest.importorskip("torch"))


@pytest.mark.parametrize(
    "call, result",
    [
        ("total(read_only)", 3),
        ("total(np.broadcast_to(np.float32(1), (3,)))", 3),
        ("total(np.ones(6, np.float32)[::-2])", 3),
        ("total(np.zeros(0, np.float32))", 0),
        ("doubles(np.zeros(0, np.float32))", None),
        ("takes_2d(np.zeros((3, 0), np.float32))", None),
        ("total(memoryview(np.ones(3, np.float32)))", 3),
        ("takes_float(float('nan'))", None),
        ("n1.from_numpy(np.ones(4, '>f4'))", None),
        ("qd.field(qd.f32, (0, 3)).fill(1)", None),
    ],
)
def test_odd_values_that_are_fine(call, result):
    assert eval(call, define(CONTAINERS)) == result


TENSORS = ["ones", "ones * 2", "ones.requires_grad_()", "ones[::2]", "ones[:0]", "ones[:1].expand(3)", "nn.Parameter(ones)"]


@pytest.mark.parametrize("call", TENSORS)
def test_tensors_that_can_be_read(call):
    torch = pytest.importorskip("torch")
    module = define(CONTAINERS)
    tensor = eval(call, {"ones": torch.ones(4), "nn": torch.nn})
    assert module["total"](tensor) == float(tensor.detach().sum())
    if tensor.requires_grad:
        assert not tensor.grad.any()
    else:
        assert tensor.grad is None

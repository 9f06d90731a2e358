"""What kernels refuse: the class of the error, a part of its text, and the line that it names."""

import sys

import pytest
from error_support import PREAMBLE
from language_support import define, run

import quadrants as qd

pytestmark = pytest.mark.usefixtures("on_every_backend")

SYNTAX, TYPE, NAME, ANY = qd.QuadrantsSyntaxError, qd.QuadrantsTypeError, qd.QuadrantsNameError, qd.QuadrantsCompilationError
V2, V3 = "v = qd.Vector([1, 2])\n", "w = qd.Vector([1, 2, 3])\n"

# (last line is the wrong one, class, part of the message)
BODIES = [
    # names and scopes
    ("y = undefined_name", NAME, 'Name "undefined_name" is not defined'),
    ("if n > 0:\n    z = 1\ny = z", NAME, 'Name "z" is not defined'),
    ("for i in range(3):\n    z = i\ny = z", NAME, 'Name "z" is not defined'),
    ("n = 5", SYNTAX, 'Kernel argument "n" is immutable in the kernel'),
    ("n += 5", SYNTAX, 'Kernel argument "n" is immutable in the kernel'),
    (
        "i = 1\nfor i in range(3):\n    pass",
        SYNTAX,
        "Variable 'i' is already declared in the outer scope and cannot be used as loop variable",
    ),
    ("for i in range(3):\n    i = 5", SYNTAX, "loop variable"),
    ("for i in range(3):\n    i += 5", SYNTAX, "loop variable"),
    ("x = qd.static(1)\nx = 2", SYNTAX, "Variable 'x' cannot be assigned. Maybe it is not a Quadrants object?"),
    ("x = 1\nx = qd.static(2)", SYNTAX, "Recreating variables is not allowed"),
    ("x = 1\nx: qd.f32 = 2", SYNTAX, "Static assign cannot have type overloading"),
    ("x: qd.f32 = qd.static(2)", SYNTAX, "Static assign cannot be used on annotated assignment"),
    ("captured += 1", ANY, "captured value is constant"),
    ("counter = 1\ny = countr", NAME, 'did you mean "counter"'),
    ("y = capturd", NAME, 'did you mean "captured"'),
    ("y = qd.math.nromalize(n)", AttributeError, "did you mean 'normalize'"),
    # statements
    ("try:\n    pass\nexcept Exception:\n    pass", SYNTAX, 'Unsupported node "Try"'),
    *([("try:\n    pass\nexcept* ValueError:\n    pass", SYNTAX, 'Unsupported node "TryStar"')] if sys.version_info >= (3, 11) else []),
    *([("type X = int", SYNTAX, 'Unsupported node "TypeAlias"')] if sys.version_info >= (3, 12) else []),
    ("raise ValueError()", SYNTAX, 'Unsupported node "Raise"'),
    ("import math", SYNTAX, 'Unsupported node "Import"'),
    ("global captured", SYNTAX, 'Unsupported node "Global"'),
    ("class A:\n    pass", SYNTAX, 'Unsupported node "ClassDef"'),
    ("@qd.kernel\ndef inner():\n    pass", SYNTAX, "Function definition is not allowed in 'qd.kernel'"),
    ("inner = 1\ndef inner():\n    pass", SYNTAX, "Recreating variables is not allowed"),
    ("for i in range(3):\n    break", SYNTAX, "Cannot break in the outermost loop"),
    ("for i in range(3):\n    if n > i:\n        return", SYNTAX, "Return inside non-static if/for is not supported"),
    ("for i in qd.static(range(3)):\n    if n > 1:\n        break", SYNTAX, "You are trying to `break` a static `for` loop"),
    ("for i in qd.static(range(3)):\n    if n > 1:\n        continue", SYNTAX, "You are trying to `continue` a static `for` loop"),
    ("for i, j in qd.grouped(field2):\n    pass", SYNTAX, "Group for should have 1 loop target, found 2"),
    ("for i in qd.grouped(qd.grouped(field2)):\n    pass", SYNTAX, "'qd.grouped' cannot be nested"),
    ("for i in qd.grouped(qd.static(field2)):\n    pass", SYNTAX, "'qd.static' is not allowed inside 'qd.grouped'"),
    ("for i in qd.static(qd.grouped(field2)):\n    pass", SYNTAX, "Only 'qd.ndrange' is allowed in"),
    ("for i in range(stop=3):\n    pass", SYNTAX, "Range should have 1 or 2 arguments"),
    ("captured_vector[1] = 5", SYNTAX, "captured value is constant"),
    ("captured_vector.x = 5", SYNTAX, "captured value is constant"),
    ("captured_list[1] = 5", SYNTAX, "captured value is constant"),
    ("if n > 0:\n    tasks(field1)", SYNTAX, "`tasks` is decorated with requires_top_level=True and must be called at the top level"),
    ("for i in range(3):\n    calls_tasks(field1)", SYNTAX, "`tasks` is decorated with requires_top_level=True"),
    ("x = n\nwhile x > 0:\n    tasks(field1)", SYNTAX, "`tasks` is decorated with requires_top_level=True"),
    ("x = real_without_type(n)", SYNTAX, "A function with a return value must be annotated with a return type"),
    ("yield n", SYNTAX, 'Unsupported node "Yield"'),
    ("a, b = qd.Vector([1, 2, 3])", SYNTAX, "The number of targets is not equal to value length"),
    ("a, b = n", SYNTAX, "Cannot unpack type:"),
    ("with print(1):\n    pass", SYNTAX, "'with' in Quadrants kernels only supports qd.stream_parallel()"),
    ("with print(1), print(2):\n    pass", SYNTAX, "'with' in Quadrants kernels only supports a single context manager"),
    ("with print(1) as a:\n    pass", SYNTAX, "'with ... as ...' is not supported in Quadrants kernels"),
    ("for i in range(2):\n    with qd.stream_parallel():\n        pass", SYNTAX, "at the top of a kernel"),
    ("with qd.stream_parallel(2):\n    pass", SYNTAX, r"qd.stream_parallel\(\) takes no arguments"),
    ("with field1:\n    pass", SYNTAX, "'with' in Quadrants kernels requires a call expression"),
    ("a, b = qd.Matrix([[1, 2], [3, 4]])", SYNTAX, "Matrices with more than one columns cannot be unpacked"),
    ("other_kernel(n)", SYNTAX, "Kernels cannot call other kernels. I.e., nested kernels are not allowed."),
    # literals and types
    ("x = 3000000000", TYPE, "exceeded the range of default_ip: i32"),
    ("x = qd.u8(300)", TYPE, "Integer literal 300 exceeded the range of specified dtype: u8"),
    ("x = qd.i32(1.5)", TYPE, "Floating-point literals must be annotated with a floating-point type. For type casting, use `qd.cast`."),
    ("x = qd.i32(n, n)", SYNTAX, "A primitive type can only decorate a single expression."),
    ("x = qd.i32(qd.Vector([1, 2]))", SYNTAX, "A primitive type cannot decorate an expression with a compound type."),
    ("x = 'text'", TYPE, "Invalid constant scalar data type: <class 'str'>"),
    ("x = f & 1", TYPE, r"unsupported operand type\(s\) for '&': 'f32' and 'i32'"),
    ("x = f << 1", TYPE, r"unsupported operand type\(s\) for '<<': 'f32' and 'i32'"),
    ("x = ~f", TYPE, "'bit_not' takes integral inputs only, however 'f32' is provided"),
    ("x = qd.math.popcnt(f)", TYPE, "takes integral inputs only"),
    ("x = qd.bit_cast(f, qd.i64)", TYPE, "bit_cast"),
    ("x = n ** -1", ANY, r"Negative exponent in pow\(int, int\) is not allowed"),
    # vectors
    ("x = qd.Vector(3)", TYPE, "An Matrix/Vector can only be initialized with an array-like object"),
    (V2 + V3 + "x = v + w", TYPE, r"unsupported operand type\(s\) for '\+': '\[Tensor \(2\) i32\]' and '\[Tensor \(3\) i32\]'"),
    (V2 + V3 + "v = w", TYPE, r"cannot assign '\[Tensor \(3\) i32\]' to '\[Tensor \(2\) i32\]'"),
    (V2 + "x = 1\nx = v", TYPE, "cannot assign"),
    (V2 + "if v:\n    pass", TYPE, r"conditions must be an integer; found \[Tensor \(2\) i32\]"),
    (V2 + "x = v.z", SYNTAX, r"vec2 only has attributes=\('x', 'y'\), got=\('z',\)"),
    (V2 + "x = v[0, 1]", ANY, "Expected 1 indices, got 2."),
    (V2 + "x = v[f]", TYPE, "indices must be integers, however 'f32' is provided as index 0"),
    (V2 + "x = v[5]", ANY, "out of range"),
    (V2 + "x = v.transpose()", TYPE, r"`transpose\(\)` cannot apply to a vector"),
    ("m = qd.Matrix([[1, 2], [3, 4]])\nx = m @ qd.Vector([1, 2, 3])", TYPE, "dimension mismatch"),
    ("x = qd.Matrix([[1, 2, 3], [4, 5, 6]]).inverse()", TYPE, r"expected a square matrix, got shape \(2, 3\)"),
    (V2 + "x = 1 if v > 0 else 2", SYNTAX, 'Please use "qd.select" instead.'),
    (V2 + V3 + "x = v if n > 0 else w", ANY, "Cannot broadcast tensor to tensor"),
    ("field1[0] = captured_array", TYPE, "Only 0-dimensional numpy array can be used to initialize a scalar expression"),
    ("Q = 1\nmatch n:\n    case Q():\n        pass", TYPE, "called match pattern must be a class"),
    # containers
    ("x = field1[1, 2]", ANY, "Field with dim 1 accessed with indices of dim 2"),
    ("x = field2[1]", ANY, "Field with dim 2 accessed with indices of dim 1"),
    ("x = field1[f]", TYPE, "indices must be integers"),
    ("x = field1[9]", ANY, "out of range"),
    ("qd.atomic_add(n, 1)", SYNTAX, "cannot use a non-writable target as the first operand of 'atomic_add'"),
    ("qd.atomic_add(field1, 1)", SYNTAX, "cannot use a Field directly as the first operand of 'atomic_add'"),
    ("qd.atomic_cas(field1, 1, 2)", SYNTAX, "cannot use a Field directly as the first operand of 'atomic_cas'"),
    (V2 + "qd.atomic_cas(v, 1, 2)", TYPE, r"'atomic_cas' on tensor \(vector / matrix\) destinations is not supported"),
    ("qd.atomic_and(fieldf[0], 1)", TYPE, "requires integer operands"),
    # loops
    ("for i in range(1, 2, 3, 4):\n    pass", ANY, "Range should have"),
    ("for i in field2:\n    pass", SYNTAX, r"Number of struct-for indices does not match loop variable dimensionality \(1 != 2\)"),
    ("for i in qd.ndrange(2, 3):\n    pass", SYNTAX, "Ndrange for loop with number of the loop variables not equal to the dimension"),
    ("for i in n:\n    pass", ANY, "Cannot loop over the object"),
    ("for i, j in qd.ndrange(2, 3, axes=(1, 1)):\n    pass", SYNTAX, r"qd.ndrange\(axes=\(1, 1\)\) is not a permutation of range\(2\)"),
    ("for i in qd.ndrange(2.5):\n    pass", TYPE, r"Every argument of ndrange should be an integer scalar or a tuple/list of \(int, int\)"),
    ("qd.loop_config(nonsense=1)", TYPE, "got an unexpected keyword argument"),
    # static scope
    ("if qd.static(n > 1):\n    pass", ANY, "Input to qd.static must be compile-time constants or global pointers"),
    ("if n is 1:\n    pass", SYNTAX, 'Operator "is" in Quadrants scope is not supported'),
    ("if n in fieldf:\n    pass", TYPE, "cannot search"),
    ("qd.static_assert(n > 1)", TYPE, "Static assert with non-static condition"),
    # calls
    ("func2(n)", SYNTAX, "Missing argument 'b'."),
    ("func2(n, 1, 2)", SYNTAX, "Too many arguments."),
    ("func2(n, c=2)", SYNTAX, "Unexpected argument 'c'."),
    ("func2(n, 1, a=2)", SYNTAX, "Multiple values for argument 'a'."),
    ("forever(n)", ANY, "recursive"),
    ("math.sin(f)", TYPE, "Did you mean to use `qd.sin` instead of `math.sin`?"),
    ("takes_vec3(qd.Vector([1, 2]))", TYPE, "is expected to be a Matrix with n 3, but got 2"),
    ("x = S(1, 2, 3)", SYNTAX, "S"),
    ("x = S(c=2)", SYNTAX, "c"),
    ("s = S(1)\nx = s.zz", ANY, "has no attribute 'zz'"),
]


@pytest.mark.parametrize("body, kind, text", BODIES, ids=[body.splitlines()[-1] for body, _, _ in BODIES])
def test_mistake_is_refused_with_its_line(body, kind, text):
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    module = define(f"{PREAMBLE}\n@qd.kernel\ndef k(n: qd.i32, f: qd.f32):\n{lines}")
    with pytest.raises(kind, match=text) as caught:
        module["k"](1, 1.5)
    assert ", in k:" in str(caught.value) and "^" in str(caught.value)
    assert "Traceback" not in str(caught.value) and len(str(caught.value).splitlines()) <= 12


@pytest.mark.parametrize(
    "signature, body, text",
    [
        ("(n: qd.i32)", "return n", "A kernel with a return value must be annotated with a return type"),
        ("(n: qd.i32) -> qd.i32", "x = n", "Kernel has a return type but does not have a return statement"),
        ("(n: qd.i32) -> qd.types.vector(3, qd.i32)", "return qd.Vector([1, 2])", r"shape mismatch, expecting=\(3,\), got=\(2,\)"),
        ("(n: qd.i32) -> qd.types.vector(2, qd.i32)", "return qd.Vector([1.5, 2])", "cannot be converted into required type"),
        ("(n: qd.i32) -> qd.types.matrix(2, 2, qd.i32)", "return qd.Vector([1, 2])", "Return matrix ndim mismatch"),
        ("(n: qd.i32) -> qd.i32", "return qd.Vector([1, 2])", "cannot be converted into required type i32"),
        ("(n: qd.i32) -> (qd.i32, qd.i32)", "return n", "2"),
    ],
)
def test_results_fit_their_annotation(signature, body, text):
    module = define(f"@qd.kernel\ndef k{signature}:\n    {body}\n")
    with pytest.raises(qd.QuadrantsCompilationError, match=text):
        module["k"](1)


@pytest.mark.parametrize("use", ["qd.mesh_patch_idx()", "qd.mesh_local(x)"])
def test_meshes_are_refused(use):
    with pytest.raises(qd.QuadrantsRuntimeError, match="doesn't support MeshQuadrants extension"):
        run(f"{use}\nreturn 0", preamble="x = qd.field(qd.i32, shape=4)")
    for call in (qd.Mesh, qd.MeshInstance, qd.lang.mesh._TetMesh, lambda: qd.Mesh.load_meta("mesh.json")):
        with pytest.raises(qd.QuadrantsRuntimeError, match="doesn't support MeshQuadrants extension"):
            call()
    assert not qd.is_extension_enabled(qd.extension.mesh)


def test_error_in_a_func_names_the_func_and_its_caller():
    module = define(
        "@qd.func\ndef inner(v):\n    return v + undefined_name\n\n@qd.kernel\ndef k(n: qd.i32):\n    x = 1\n    y = inner(n)\n"
    )
    with pytest.raises(qd.QuadrantsNameError, match=r"(?s)line 8, in k:.*inner\(n\).*line 3, in inner:.*undefined_name.*\^") as caught:
        module["k"](1)
    assert caught.value.line == 3 and caught.value.kernel_name == "k"


@pytest.mark.parametrize(
    "arguments, named, text",
    [
        ((), {}, "Missing argument 'n'."),
        ((1, 2), {}, "Too many arguments."),
        ((1,), {"m": 2}, "Unexpected argument 'm'."),
        ((1,), {"n": 2}, "Multiple values"),
    ],
)
def test_wrong_calls_are_refused(arguments, named, text):
    module = define("@qd.kernel\ndef k(n: qd.i32):\n    pass\n")
    with pytest.raises(qd.QuadrantsSyntaxError, match=text):
        module["k"](*arguments, **named)


@pytest.mark.parametrize("value", [1.5, "1", None, [1]])
def test_wrong_scalars_are_refused(value):
    module = define("@qd.kernel\ndef k(n: qd.i32):\n    pass\n")
    with pytest.raises(qd.QuadrantsRuntimeTypeError, match="cannot be converted into required type i32"):
        module["k"](value)


def test_a_failing_specialization_does_not_poison_others():
    module = define("@qd.kernel\ndef k(n: qd.template()) -> qd.i32:\n    qd.static_assert(n > 1, 'small')\n    return n\n")
    with pytest.raises(qd.QuadrantsCompilationError, match="small"):
        module["k"](1)
    assert module["k"](2) == 2


def test_static_arms_may_hold_mistakes_that_are_not_taken():
    assert run("return 1 if qd.static(True) else undefined_name") == 1


@pytest.mark.parametrize("call", ["qd.init()", "qd.field(qd.i32, shape=1)", "qd.reset()", "x.to_numpy()", "x.copy_from(x)"])
def test_functions_of_the_host_are_named(call):
    with pytest.raises(qd.QuadrantsSyntaxError, match="host API.*cannot be called in kernels"):
        run(f"{call}\nreturn 0", preamble="x = qd.field(qd.i32, shape=4)")


@pytest.mark.parametrize(
    "body, construct",
    [("if f:\n    pass", "if"), ("while f:\n    pass", "while"), ("x = 1 if f else 2", "if"), ("x = n > 0 and f and n > 1", "and")],
)
def test_strict_conditions_refuse_floats(on_every_backend, body, construct):
    run(f"f = 0.0\n{body}", None, n=("qd.i32", 1))
    on_every_backend(strict_conditions=True)
    with pytest.raises(TYPE, match="conditions must be an integer; found f32"):
        run(f"f = 0.0\n{body}", None, n=("qd.i32", 1))
    with pytest.raises(TYPE, match="'logic_not' takes integral inputs only, however 'f32' is provided"):
        run("f = 0.0\nx = not f", None)


def test_captured_floats_are_refused_where_they_are_not_wanted(on_every_backend):
    assert run("return captured", "qd.f32", "captured = 0.5\n") == 0.5
    on_every_backend(raise_on_templated_floats=True)
    with pytest.raises(ANY, match="Not permitted to access floats as global values"):
        run("return captured", "qd.f32", "captured = 0.5\n")


OBJECTS = """
import dataclasses

@qd.data_oriented
class Solver:
    def __init__(self):
        self.count, self.array = 1, qd.ndarray(qd.i32, 2)

    @qd.kernel
    def counts(self) -> qd.i32:
        return self.count

    @qd.kernel
    def reads(self) -> qd.i32:
        return self.array[0]

@dataclasses.dataclass
class Group:
    count: qd.i32
    array: qd.types.NDArray[qd.i32, 1]

@qd.kernel
def counts(group: Group) -> qd.i32:
    return group.count

@qd.kernel
def reads(group: Group) -> qd.i32:
    return group.array[0]
"""


@pytest.mark.parametrize("name", ["count", "array"])
def test_deleted_members_are_missing_attributes(name):
    module = define(OBJECTS)
    solver, group = module["Solver"](), module["Group"](1, qd.ndarray(qd.i32, 2))
    launches = {"count": (solver.counts, lambda: module["counts"](group)), "array": (solver.reads, lambda: module["reads"](group))}
    for launch, owner in zip(launches[name], (solver, group), strict=True):
        value = launch()
        delattr(owner, name)
        with pytest.raises(AttributeError, match=f"has no attribute '{name}'") as caught:
            launch()
        assert isinstance(caught.value, ANY)
        setattr(owner, name, 1 if name == "count" else qd.ndarray(qd.i32, 2))
        assert launch() == value

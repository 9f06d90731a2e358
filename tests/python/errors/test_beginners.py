"""Mistakes that newcomers make: each message names the place, the reason, and what to do instead.

A program marks the line that is wrong with a comment. The place is a source location in the text of the error, or the user's innermost
line in its traceback. The reason and the remedy are parts of the text.
"""

import re
import traceback

import numpy as np
import pytest

import quadrants as qd

NAMES = {
    "KERNEL": "@qd.kernel\ndef k(n: qd.i32, v: qd.math.vec3, a: qd.types.NDArray[qd.f32, 1]) -> qd.i32:\n    ",
    "CALL": "\nk(1, [1, 2, 3], np.zeros(3, np.float32))",
}
MISTAKES = {
    "no runtime": (
        "qd.reset()\nqd.field(qd.f32, shape=3)  # wrong",
        "there is no runtime", "call qd.init(arch=...) once, before fields are made",
    ),
    "a parameter without a type": (
        "@qd.kernel\ndef k(n):  # wrong\n    pass",
        "must be type annotated ('n' of k is not)", "annotate numbers with qd.f32, arrays with qd.types.NDArray[qd.f32, 1]",
    ),
    "a list for an array": (
        "@qd.kernel\ndef k(a: qd.types.NDArray[qd.f32, 1]):\n    a[0] = 1\nk([1.0, 2.0])  # wrong",
        "Invalid type for argument a", "an ndarray or a NumPy array is expected",
    ),
    "an array of another type": (
        "@qd.kernel\ndef k(a: qd.types.NDArray[qd.f32, 1]):\n    a[0] = 1\nk(np.zeros(3))  # wrong",
        "required array has dtype=f32, array with dtype=f64 is provided", "convert it, or write f64 in the annotation",
    ),
    "too few arguments": (
        "@qd.kernel\ndef k(a: qd.i32, b: qd.i32):\n    pass\nk(1)  # wrong",
        "Missing argument 'b'", "the call must give every parameter once",
    ),
    "a kernel that calls a kernel": (
        "@qd.kernel\ndef inner():\n    pass\n@qd.kernel\ndef k():\n    inner()  # wrong\nk()",
        "nested kernels are not allowed", "make the inner one a @qd.func",
    ),
    "a function of NumPy in a kernel": (
        "@qd.kernel\ndef k():\n    x[0] = np.sin(x[1])  # wrong\nk()",
        "a run-time value cannot be passed to a non-quadrants function", "Did you mean to use `qd.sin` instead of `numpy.sin`?",
    ),
    "an assignment to an argument": (
        "@qd.kernel\ndef k(n: qd.i32):\n    n += 1  # wrong\nk(1)",
        'argument "n" is immutable', "copy it into a variable of another name",
    ),
    "a return in a parallel loop": (
        "@qd.kernel\ndef k() -> qd.i32:\n    for i in x:\n        return i  # wrong\n    return 0\nk()",
        "not supported in parallel loops", "set a flag in a field, or make the loop serial with qd.loop_config(serialize=True)",
    ),
    "a break in a parallel loop": (
        "@qd.kernel\ndef k():\n    for i in x:\n        break  # wrong\nk()",
        "its iterations run in parallel", "qd.loop_config(serialize=True) makes it serial",
    ),
    "a name with a spelling mistake": (
        "@qd.kernel\ndef k():\n    x[0] = valeu  # wrong\nk()",
        'Name "valeu" is not defined', "assign it before this line",
    ),
    "a function of the package with a spelling mistake": (
        "qd.sqtr(2)  # wrong",
        "module 'quadrants' has no attribute 'sqtr'", "did you mean 'sqrt'?",
    ),
    "a variable of one branch": (
        "@qd.kernel\ndef k():\n    if x[0] > 1:\n        y = 1\n    x[0] = y  # wrong\nk()",
        'Name "y" is not defined on every path', "give it a value before the `if`, or in both branches",
    ),
    "arithmetic on a whole field, in a kernel": (
        "@qd.kernel\ndef k():\n    y = x + 1  # wrong\nk()",
        "unsupported operand type(s) for '+'", "index containers",
    ),
    "arithmetic on a whole field, in Python": (
        "y = x + 1  # wrong",
        "containers have no arithmetic of their own", "compute with NumPy: x.to_numpy() + 1",
    ),
    "one index for two axes": (
        "@qd.kernel\ndef k():\n    m[0] = 1  # wrong\nk()",
        "Field with dim 2 accessed with indices of dim 1", "use f[i, j]: all indices in one bracket",
    ),
    "an index that is no integer": (
        "@qd.kernel\ndef k():\n    for i in range(4):\n        x[i / 2] = 1  # wrong\nk()",
        "indices must be integers, however 'f32' is provided", "cast it with int(...)",
    ),
    "an exception handler": (
        "@qd.kernel\ndef k():\n    try:  # wrong\n        x[0] = 1\n    except ValueError:\n        pass\nk()",
        'Unsupported node "Try": kernels know no exceptions', "test with `if`, `assert`, or store a flag in a field",
    ),
    "recursion": (
        "@qd.func\ndef f(n):\n    return f(n - 1)  # wrong\n@qd.kernel\ndef k() -> qd.i32:\n    return f(3)\nk()",
        "a func is compiled into its caller, so it cannot call itself", "use a loop, or @qd.real_func",
    ),
    "no annotation of the result": (
        "@qd.kernel\ndef k():\n    return 1  # wrong\nk()",
        "must be annotated with a return type", "e.g. def func() -> qd.f32",
    ),
    "a field that a kernel makes": (
        "@qd.kernel\ndef k():\n    y = qd.field(qd.f32, shape=3)  # wrong\nk()",
        "it cannot be called in kernels", "call it in Python, before or after the kernel",
    ),
    "an unrolled loop of unknown length": (
        "@qd.kernel\ndef k(n: qd.i32):\n    for i in qd.static(range(n)):  # wrong\n        x[i] = 1\nk(3)",
        "cannot be interpreted as an integer", "pass it as qd.template(), take it from a global, or do without qd.static",
    ),
    "a loop over a number": (
        "@qd.kernel\ndef k(n: qd.i32):\n    for i in n:  # wrong\n        x[i] = 1\nk(3)",
        "Cannot loop over the object i32", "loop over range",
    ),
    "a component that a vector does not have": (
        "@qd.kernel\ndef k():\n    v = qd.Vector([1.0, 2.0])\n    x[0] = v.z  # wrong\nk()",
        "only has attributes=('x', 'y'), got=('z',)", "vectors have x y z w",
    ),
    "a vector as a condition": (
        "@qd.kernel\ndef k():\n    v = qd.Vector([1.0, 2.0])\n    if v > 1:  # wrong\n        x[0] = 1\nk()",
        "conditions must be an integer", "reduce vectors with .any() or .all()",
    ),
    "another type for a variable": (
        "@qd.kernel\ndef k():\n    y = 1\n    y = qd.Vector([1, 2])  # wrong\nk()",
        "cannot assign '[Tensor (2) i32]' to 'i32'", "a variable keeps the type of its first assignment: use another name",
    ),
    "a field without a shape": (
        "y = qd.field(qd.f32)\ny[0] = 1  # wrong",
        "was declared without a shape and is not placed", "give it one, as in qd.field(qd.f32, shape=(2, 3))",
    ),
    "an array of another shape": (
        "x.from_numpy(np.zeros(7))  # wrong",
        "(4,) expected, but (7,) provided", "pass an array with 4 numbers in this shape",
    ),
    "a loss without a gradient": (
        "with qd.ad.Tape(qd.field(qd.f32, ())):  # wrong\n    pass",
        "Gradients of loss are not allocated", "please use qd.field(..., needs_grad=True)",
    ),
    "an option with a spelling mistake": (
        "qd.init(arch=qd.cpu, debg=True)  # wrong",
        "Unrecognized keyword argument(s) for qd.init: debg", "did you mean: debg -> debug?",
    ),
    "an index outside of a container": (
        "x[10] = 1  # wrong",
        "index [10] out of range", "for shape (4,)",
    ),
    "an array that a kernel makes with NumPy": (
        'KERNELb = np.zeros(3)\n    b[0] = 1  # wrong\n    return nCALL',
        'a NumPy array in a kernel is constant', 'small arrays of a kernel are made by qd.Vector and qd.Matrix',
    ),
    "an array plus a number": (
        'KERNELa += 1  # wrong\n    return nCALL',
        'Kernel argument "a" is immutable', 'assign the elements of the container',
    ),
    "a list that grows at run time": (
        'KERNELnumbers = []\n    for i in range(n):\n        numbers.append(i)  # wrong\n    return nCALL',
        "'append' would change a list", 'use a local variable, or keep what changes in a field or an array [QD104]',
    ),
    "an array of NumPy as a member": (
        "@qd.data_oriented\nclass A:\n    def __init__(self):\n        self.a = np.zeros(4)\n    @qd.kernel\n    def k(self):\n"
        "        for i in range(4):\n            x[i] = self.a[i]  # wrong\nA().k()",
        "an array of NumPy or torch in a kernel is constant", "pass it as an argument annotated with qd.types.NDArray[...]",
    ),
    "an exception": (
        'KERNELif n < 0:\n        raise ValueError("negative")  # wrong\n    return nCALL',
        'Unsupported node "Raise": kernels know no exceptions', "test with `if`, `assert`, or store a flag in a field",
    ),
    "a global variable": (
        'KERNELglobal x  # wrong\n    return nCALL',
        'Unsupported node "Global": kernels change no variables of Python', "return the value, or keep it in a field or an array",
    ),
    "an import in a kernel": (
        'KERNELimport math  # wrong\n    return nCALL',
        'Unsupported node "Import"', "import at the top of the file",
    ),
    "a generator": (
        'KERNELyield n  # wrong\n    return nCALL',
        'Unsupported node "Yield": a kernel runs to its end', "return the values, or store them in a field or an array",
    ),
    "an argument that was left out": (
        "@qd.kernel\ndef k(a: qd.types.NDArray[qd.f32, 1] | None) -> qd.f32:\n    return a[0]  # wrong\nk(None)",
        "None has no elements: the argument was left out", "guard its use with qd.static(x is not None)",
    ),
    "a field for an array": (
        "@qd.kernel\ndef k(a: qd.types.NDArray[qd.f32, 1]):\n    a[0] = 1\nk(x)  # wrong",
        "cannot be converted into required type", "annotate fields with qd.template() or qd.Tensor",
    ),
    "an array of complex numbers": (
        "@qd.kernel\ndef k(a: qd.types.ndarray()):\n    a[0] = 1\nk(np.zeros(3, np.complex64))  # wrong",
        "unsupported array dtype complex64 for argument a", "convert it by .astype(...)",
    ),
    "a part of an array as a value": (
        'KERNELa[0:2] = 5  # wrong\n    return nCALL',
        "a view has no value", "read or write its elements by an index",
    ),
    "a list as a result": (
        "@qd.kernel\ndef k() -> list:  # wrong\n    return [1, 2]",
        "Invalid data type <class 'list'>", "kernels return numbers, vectors, structs and tuples",
    ),
    "a class decorator on a function": (
        "@qd.data_oriented  # wrong\ndef f():\n    pass",
        "qd.data_oriented decorates classes", "got function",
    ),
    "a method of vectors with a spelling mistake": (
        'KERNELreturn v.nrom() > 1  # wrongCALL',
        "has no attribute 'nrom'", "did you mean 'norm'?",
    ),
    "a function with a spelling mistake": (
        'KERNELreturn qd.sqr(n)  # wrongCALL',
        "has no attribute 'sqr'", "did you mean 'sqrt'?",
    ),
    "a variable of a loop after the loop": (
        'KERNELfor i in range(n):\n        last = i\n    return last  # wrongCALL',
        'Name "last" is not defined here', 'the block that assigns it, in line 4',
    ),
    "a loop over an array with numbers": (
        'KERNELfor i, x in enumerate(a):  # wrong\n        n = i\n    return nCALL',
        'cannot iterate over', 'loop over its indices, `for i in x`',
    ),
    "the maximum of NumPy": (
        'KERNELreturn np.maximum(n, 3)  # wrongCALL',
        'a run-time value cannot be passed', 'Did you mean to use `max` instead of `numpy.maximum`?',
    ),
    "where of NumPy": (
        'KERNELreturn np.clip(n, 0, 3)  # wrongCALL',
        'a run-time value cannot be passed', 'Did you mean to use `qd.math.clamp` instead of',
    ),
    "a func without a result": (
        '@qd.func\ndef f(x):\n    y = x\nKERNELreturn f(n) + 1  # wrongCALL',
        "unsupported operand type(s) for '+'", 'the result without a return',
    ),
    "a comparison with None": (
        'KERNELreturn n == None  # wrongCALL',
        "unsupported operand type(s) for '=='", 'None is compared with `is`',
    ),
    "a method without its object": (
        "@qd.data_oriented\nclass A:\n    @qd.func\n    def f(self, x):\n        return x\n    @qd.kernel\n"
        "    def k(self) -> qd.i32:\n        return f(3)  # wrong\nA().k()",
        'Name "f" is not defined', 'did you mean "self.f"?',
    ),
}  # fmt: skip


@pytest.fixture
def names():
    qd.init(arch=qd.cpu, offline_cache=False, log_level="error")
    yield {"qd": qd, "np": np, "x": qd.field(qd.f32, shape=4), "m": qd.field(qd.f32, shape=(3, 3))}
    qd.reset()


@pytest.mark.parametrize("mistake", MISTAKES)
def test_place_reason_and_remedy(mistake, names, tmp_path):
    text, reason, remedy = MISTAKES[mistake]
    for name, meaning in NAMES.items():
        text = text.replace(name, meaning)
    program = tmp_path / "program.py"
    program.write_text(text)
    line = next(number for number, each in enumerate(text.splitlines(), 1) if "# wrong" in each)
    with pytest.raises(Exception) as caught:
        exec(compile(program.read_text(), str(program), "exec"), names)
    message = str(caught.value)
    places = [int(found) for found in re.findall(rf'File "{re.escape(str(program))}", line (\d+)', message)]
    if not places:
        places = [frame.lineno for frame in traceback.extract_tb(caught.value.__traceback__) if frame.filename == str(program)][-1:]
    assert line in places and reason in message and remedy in message, message


def test_there_are_enough():
    assert len(MISTAKES) >= 24

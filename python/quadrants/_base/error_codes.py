"""Families of mistakes: each has a stable code, a page docs/errors/<code>.md, and a line with the remedy."""

from __future__ import annotations

import re
from typing import NamedTuple


class Family(NamedTuple):
    """Mistakes with the same remedy. `pattern` is searched in the text of the message, without its source lines."""

    code: str
    pattern: str
    remedy: str


FAMILIES = tuple(
    Family(*row)
    for row in [
        ("QD708", r"parameters must be type annotated|^Invalid type annotation|do not support variable (positional|keyword)|"
         r"optional annotations of the form|^the annotation .* cannot be evaluated|^Invalid data type .* in the return annotation|"
         r"^Ellipsis is not|^Cant put|decorates functions written",
         "annotate numbers with qd.f32, arrays with qd.types.NDArray[qd.f32, 1], fields with qd.template(), or use a dataclass"),
        ("QD705", r"when calling `(?!range`)", "run-time values go to functions of qd and qd.math, operators and funcs only"),
        # derivatives
        ("QD951", r"not known any more when|Breaks the global data access rule|drawn again when gradients|is not known when gradients",
         "a kernel reads again what its gradient needs: give each step a place of its own, or split the kernel"),
        ("QD952", r"cannot be differentiated|have no gradients|has no gradients to",
         "hide it with qd.ad.no_grad or qd.ad.grad_replaced, or write it with operations that have one"),
        # names and scopes
        ("QD953", r"Gradient \S* ?has not been placed",
         "allocate it (needs_grad=True, or a .grad of the torch tensor), or guard its use with qd.static(x.grad is not None)"),
        ("QD102", r"is not defined (on every path|after the loop)", "give it a value before the `if`, or in both branches"),
        ("QD101", r'^Name ".*" is not defined|only variables of the same block can be deleted',
         "assign it before this line in the same or an outer block, or define it outside the kernel"),
        ("QD103", r"is immutable in the kernel|an unannotated parameter is read-only",
         "copy it into a variable of another name and change that"),
        ("QD104", r"captured value is constant|NumPy.* in a kernel is constant|would change a list or dict",
         "use a local variable, or keep what changes in a field or an array"),
        ("QD105", r"the loop variable '|as loop variable", "give the loop variable and the variable names of their own"),
        ("QD106", r"Maybe it is not a Quadrants object|Recreating variables|^Static assign",
         "use a new name: what qd.static, a list or a function is bound to stays, and a variable keeps its type"),
        # statements
        ("QD201", r"^Unsupported node|Function definition is not allowed",
         "move it out of the kernel, or write it with if, for, while, assignments and calls of funcs"),
        ("QD202", r"'with'|'with \.\.\. as", "kernels have no context managers of Python"),
        ("QD203", r"kernel with a return value must be annotated|has a return type but does not have|values? by its annotation|"
         r"return annotation|a value on every path", "let the annotation behind -> and the return statements agree in number and types"),
        ("QD204", r"^Return inside non-static|^Cannot break in the outermost|parallel loop",
         "iterations run in parallel: set a flag in a field, or make the loop serial with qd.loop_config(serialize=True)"),
        ("QD205", r"a static `for` loop, but", "make the condition static, or drop qd.static from the loop"),
        ("QD206", r"^The number of targets|^Cannot unpack|be unpacked|starred",
         "unpack vectors, tuples and lists into as many targets as they have items"),
        ("QD207", r"host API|cannot be called in kernels|Quadrants-scope",
         "call it in Python, before or after the kernel, and pass the result in"),
        ("QD210", r"stops in a frame of Python",
         "qd.init(arch=qd.python) runs kernels as Python: debuggers stop in them and show their variables"),
        ("QD209", r"^Cannot find source code", "put the function into a file, or give its text to qd.kernel_from_source"),
        ("QD208", r"not an lvalue|can(not)? be assigned$|variables can be declared|"
         r"annotation is no data type|declaration needs a value", "assign variables, elements of containers, members and components"),
        # types
        ("QD311", r"^Return \(type=|^Return matrix", "return a value of the annotated type, or cast it"),
        ("QD301", r"^Invalid constant scalar data type|Only 0-dimensional numpy array",
         "kernels compute with numbers, vectors, matrices and structs; containers are indexed first: x[i]"),
        ("QD302", r"exceeded the range", "name a type that holds it, such as qd.i64(...)"),
        ("QD303", r"^unsupported operand type|bad operand type|cannot compare|cannot reduce|not supported between instances",
         "bring both sides to numbers of one shape: index containers, cast with qd.cast, build vectors of equal length"),
        ("QD304", r"cannot assign|^Member mismatch|cannot take the components",
         "a variable keeps the type of its first assignment: use another name, or index or build the value to its shape"),
        ("QD305", r"conditions must be|has no truth value|in a chain$|Please use .qd.select",
         "reduce vectors with .any() or .all(), compare containers by elements, choose components with qd.select"),
        ("QD306", r"takes integral inputs only|takes real inputs only|integer operands|"
         r"Negative exponent|bit_cast needs", "cast the operands with qd.cast"),
        ("QD307", r"^A primitive type|literals must be annotated|^Invalid data type",
         "write qd.i32(x) for one number, qd.cast(x, qd.i32) for vectors and for floats that become integers"),
        ("QD308", r"can only be initialized|components, got|rows of a matrix|an empty list has no type|list of vectors|"
         r"is expected to be a Matrix", "give one number for all components, or as many as the type has"),
        ("QD309", r"dimension mismatch|square matrix|cannot apply to a vector|dimension < |vectors of one length|needs two vectors|"
         r"Cannot broadcast", "the shapes stand in the message: transpose, slice or build the operands to match"),
        ("QD310", r"is expected, got a struct|indexed with the name of a member", "use its members: s.name"),
        # elements
        ("QD402", r"out of range|out of bounds|^Negative indices",
         "indices run from 0 to the extent - 1; where the extent is known while compiling, -1 is the last"),
        ("QD401", r"accessed with indices of dim|indexed with \d+d|^Expected \d+ indices|cannot be indexed|"
         r"is not subscriptable", "give one index for each axis in one bracket: x[i, j]"),
        ("QD403", r"indices must be integers|has no key|has items of one type|extended slice",
         "cast it with int(...), or use a compile-time constant for lists and dicts"),
        ("QD404", r"variables in slice|slice step|step of a slice|with one axis \(1D\)|a view (has no value|is of an array)",
         "slices of vectors and steps are constants; elements of a view are read with an index"),
        ("QD405", r"only has attributes", "vectors have x y z w (also r g b a, s t p q) up to their length"),
        ("QD406", r"has no attribute|has no method|is no member of", "check the spelling; dir(...) in Python lists what there is"),
        # loops
        ("QD501", r"^Cannot loop over|cannot iterate|qd.grouped needs|non static inlined if|"
         r"qd.static needs an iterable|is not iterable|'qd.grouped'|'qd.ndrange'|'qd.static' (cannot|is not)",
         "loop over range, qd.ndrange, a container, qd.grouped of these, or qd.static of a Python iterable"),
        ("QD502", r"loop variable dimensionality|number of the loop variables|loop target|target of a loop",
         "give one name for each axis, or use qd.grouped and one name"),
        ("QD503", r"^Range should have|argument of ndrange|qd.ndrange\(axes|bounds of a loop|must not be zero|"
         r"^a loop has at most",
         "bounds are integers: range(begin, end, step), qd.ndrange(n, (begin, end))"),
        ("QD504", r"loop_config|block_dim|got an unexpected keyword argument",
         "options are keywords with compile-time values, on the line before the loop"),
        # compile time
        ("QD602", r"AssertionError|static assertion failed", "the assertion names what this kernel needs"),
        ("QD603", r'^Operator "is"|^"In"|^"NotIn"|^.in. searches|^cannot search', "compare with ==; `in` searches lists and ranges"),
        ("QD601", r"compile-time|[Kk]nown while compiling|run-time value cannot be interpreted|non-static condition|"
         r"cannot be used inside qd.static|when calling `range`",
         "pass it as qd.template(), take it from a global, or do without qd.static"),
        # calls
        ("QD701", r"^Missing argument|^Unexpected argument|^Multiple values|^Too many arguments|"
         r"^Cannot take|given twice|members, got|takes \d.* arguments?|takes no arguments|missing \d+ required|positional arguments? but",
         "the call must give every parameter once"),
        ("QD702", r"is not recognized|needs a dict|^Invalid (value|type) for argument|cannot be converted into required type|"
         r"^Expect element type|shouldn't be passed in via|an (instance|element) of .* is expected",
         "pass what the annotation of the parameter says"),
        ("QD703", r"nested kernels are not allowed", "make the inner one a @qd.func"),
        ("QD704", r"recursive", "use a loop, or @qd.real_func for recursion at run time"),
        ("QD706", r"cannot be called|is not callable", "check the name: a variable or object stands where a function should"),
        ("QD707", r"non-writable target|cannot use a .* as the first operand",
         "the first operand is an element, such as x[i], or a variable"),
        ("QD801", r"^Expected \d+ positional|^Keyword '|doesn't match|f-string|^format\(\)|assert info|^print\(\)|field numbering",
         "formats stand in print and assert; their fields and values agree in number, name and type"),
        ("QD902", r"^there is no runtime", "call qd.init(arch=...) once, before fields are made and kernels are called"),
        ("QD901", r"^[A-Z]\w*Error: ", "it runs while the kernel is compiled, on compile-time values"),
    ]
)  # fmt: skip


def find_family(message: str) -> Family | None:
    """Returns the first family whose pattern occurs in the text of a message, or None."""
    return next((family for family in FAMILIES if re.search(family.pattern, message, re.MULTILINE)), None)

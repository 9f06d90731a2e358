"""Random typed programs of the kernel language whose results do not depend on the order of parallel iterations.

What is kept out, because the language leaves it open: the sign of zero of `max` and `min`, bits of a NaN, transcendental functions, float
sums across parallel iterations. In a parallel loop an iteration writes elements of its own index only; what iterations share is changed by
commutative integer atomics whose results nobody reads, or is a variable from outside of the loop that they reduce, however that is written.
"""

from __future__ import annotations

import os
import random
from dataclasses import dataclass

from .program import Program

INTEGERS = ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")
HAS_F64 = os.environ.get("FUZZ_ARCH") != "metal"
HAS_SUBNORMALS = os.environ.get("FUZZ_ARCH") != "vulkan"  # of f32: drivers may flush them
FLOATS = ("f16", "f32", "f64") if HAS_F64 else ("f16", "f32")
BITS = {name: 1 if name == "u1" else int(name[1:]) for name in ("u1", *INTEGERS, *FLOATS)}


@dataclass(frozen=True)
class Kind:
    """A type: a scalar, a vector or matrix when it has a shape, or a struct of the program."""

    dtype: str
    shape: tuple[int, ...] = ()

    @property
    def is_struct(self) -> bool:
        return self in (STRUCT, INNER)


@dataclass(frozen=True)
class Expression:
    """Source text with its type; a literal is compile-time."""

    text: str
    kind: Kind
    literal: bool = False

    @property
    def dtype(self) -> str:
        return self.kind.dtype


@dataclass
class Variable:
    """A visible name.

    Shared variables belong to the task around a parallel loop: only reductions may change them. Static ones are compile-time integers.
    """

    name: str
    kind: Kind
    writable: bool = True
    shared: bool = False
    static: bool = False


@dataclass
class Container:
    """A field or array of the program, with the axes of its shape. `text` is how the kernel calls it, `make` what it is in Python."""

    name: str
    kind: Kind
    shape: tuple[int, ...]
    make: str = "field"
    text: str = ""
    offset: tuple[int, ...] = ()
    narrow: bool = False  # elements that are f32 in kernels are bf16 in memory
    use: str = "free"  # in a parallel loop: read (anywhere), own (the iteration's elements), atomic, none
    parent: str = ""  # of a window: what it is of

    @property
    def stored(self) -> Kind:
        """The type of the elements in memory."""
        return Kind("bf16", self.kind.shape) if self.narrow else self.kind


@dataclass(frozen=True)
class Function:
    """A func: the types of its parameters, which of them it takes by reference, and whether it has a compile-time one called `c`, too."""

    name: str
    kinds: list[Kind]
    by_reference: list[bool]
    result: Kind | tuple[Kind, ...]
    constant: bool = False
    depth: bool = False  # a real function that calls itself as often as its last argument says
    defaults: int = 0  # how many of its last parameters are given by name, or not at all


STRUCT, INNER = Kind("S"), Kind("R")  # the second may be a member of the first


class Generator:
    """Makes one program from one seed."""

    def __init__(self, seed: int, options: dict[str, str]) -> None:
        self.random = random.Random(seed)
        self.options = options
        self.uses_torch = seed % 200 < 25
        self.program = Program(options)
        self.scopes: list[list[Variable]] = [[]]
        self.containers: list[Container] = []
        self.functions: list[Function] = []
        self.local_functions: list[list[Function]] = [[]]  # of each scope
        self.structs: dict[Kind, dict[str, Kind]] = {}
        self.first_writable = 0  # scope: inside a lambda or inner function only its own variables can be written, and no element
        self.names = 0
        self.own_index: str | None = None  # set in parallel loops
        self.own_shape: tuple[int, ...] = ()
        self.loops: list[str] = []
        self.ordered = 0  # run-time branches around: loops there run in order
        self.returns: Kind | None = None
        self.returned: list[str] = []  # types of the returns of the func that is being made
        self.passing = "plain"  # how the kernel gets its containers: by name, in a dataclass, in an object whose method it is

    # types

    def promote(self, left: str, right: str, numeric: bool = True) -> str:
        """Common type of two operands."""
        if left == right:
            return self.options["default_ip"] if left == "u1" and numeric else left
        if "u1" in (left, right):
            return right if left == "u1" else left
        floats = [dtype for dtype in (left, right) if dtype in FLOATS]
        return max(floats or (left, right), key=lambda dtype: (BITS[dtype], dtype[0] == "u"))

    def real(self, dtype: str) -> str:
        return dtype if dtype in FLOATS else self.options["default_fp"]

    def any_dtype(self) -> str:
        return self.random.choice(("i32", "i32", "f32", "f32", *INTEGERS, *FLOATS))

    def any_kind(self, depth: int = 0) -> Kind:
        roll = self.random.random()
        if roll < 0.7:
            return Kind(self.any_dtype())
        if roll < 0.93 or depth:
            return Kind(self.any_dtype(), (self.random.choice((2, 2, 3, 4)),))
        return Kind(self.any_dtype(), self.random.choice(((2, 2), (2, 3), (3, 3))))

    def annotation(self, kind: Kind) -> str:
        if kind.is_struct:
            return kind.dtype
        if not kind.shape:
            return f"qd.{kind.dtype}"
        word = "vector" if len(kind.shape) == 1 else "matrix"
        return f"qd.types.{word}({', '.join(map(str, kind.shape))}, qd.{kind.dtype})"

    def members_of(self, kind: Kind) -> list[tuple[str, Kind]]:
        """Paths of the members of a struct and of its structs, with their types."""
        return [
            (path, member)
            for name, own in self.structs[kind].items()
            for path, member in [(name, own), *((f"{name}.{path}", deep) for path, deep in (self.members_of(own) if own.is_struct else []))]
        ]

    def leaf_of(self, text: str, kind: Kind) -> Expression:
        """A member that is no struct."""
        path, member = self.random.choice([(path, member) for path, member in self.members_of(kind) if not member.is_struct])
        return Expression(f"{text}.{path}", member)

    def fresh(self, prefix: str) -> str:
        self.names += 1
        return f"{prefix}{self.names}"

    def visible(self, writable: bool = False) -> list[Variable]:
        every = [variable for scope in self.scopes[self.first_writable if writable else 0 :] for variable in scope]
        if writable:
            return [variable for variable in every if variable.writable and not (variable.shared and self.own_index)]
        reduced = self.own_index is not None
        return [variable for variable in every if not (reduced and variable.shared and variable.writable)]

    # expressions

    def literal(self, floating: bool) -> Expression:
        if floating:
            value = self.random.choice((0.5, 1.0, 2.0, -1.5, 0.1, 3.25, -7.75, 100.0, 1e-3))
            return Expression(repr(value), Kind(self.options["default_fp"]), literal=True)
        value = self.random.choice((0, 1, 2, 3, 5, 7, 10, 100, 255, 1000, -1, -3, -8, 65536, 2**31 - 1, -(2**31)))
        return Expression(f"({value})" if value < 0 else str(value), Kind(self.options["default_ip"]), literal=True)

    def typed_literal(self, dtype: str) -> Expression:
        if dtype in FLOATS:
            return Expression(f"qd.{dtype}({self.literal(True).text})", Kind(dtype))
        top = 2 ** (BITS[dtype] - (dtype[0] == "i")) - 1
        value = self.random.choice((0, 1, 2, 7, 100, top, top // 2))
        return Expression(f"qd.{dtype}({value})", Kind(dtype))

    def clamped(self, expression: Expression, low: float = -100.0) -> Expression:
        """A float within the range of every integer type, most of the time: outside they saturate."""
        if self.random.random() < 0.4:
            return expression
        return Expression(
            f"qd.max(qd.min({expression.text}, 100.5), {low})", Kind(self.promote(expression.dtype, self.options["default_fp"]))
        )

    def to_dtype(self, expression: Expression, dtype: str) -> Expression:
        """A cast whose value the language defines."""
        shape = expression.kind.shape
        if expression.dtype in FLOATS and dtype not in FLOATS and dtype != "u1":
            expression = self.clamped(expression, 0.25 if dtype[0] == "u" else -100.5)
        return Expression(f"qd.cast({expression.text}, qd.{dtype})", Kind(dtype, shape))

    def assignable(self, expression: Expression, dtype: str) -> Expression:
        """An expression that may be stored as `dtype`, often by an implicit conversion."""
        if expression.dtype in FLOATS and dtype not in FLOATS:
            return self.clamped(expression, 0.25 if dtype[0] == "u" else -100.5)
        return expression

    def scalar(self, depth: int, dtype: str | None = None) -> Expression:
        """An expression of any scalar type, or of `dtype`."""
        if dtype is not None:
            made = self.scalar(depth)
            return made if made.dtype == dtype and not made.literal else self.to_dtype(made, dtype)
        if depth <= 0 or self.random.random() < 0.15:
            return self.leaf()
        make = self.random.choice(
            (self.arithmetic, self.arithmetic, self.arithmetic, self.bits, self.shift, self.comparison, self.unary, self.conversion,
             self.choice, self.logic, self.of_vector, self.of_vector, self.extreme, self.call, self.power, self.counting,
             self.in_python, self.truncating, self.python_form, self.of_library)
        )  # fmt: skip
        return make(depth - 1)

    def leaf(self) -> Expression:
        variables = [variable for variable in self.visible() if not variable.kind.is_struct]
        roll = self.random.random()
        if roll < 0.5 and variables:
            variable = self.random.choice(variables)
            return self.component(Expression(variable.name, variable.kind, literal=variable.static))
        if roll < 0.62:
            structs = [variable for variable in self.visible() if variable.kind.is_struct]
            if structs:
                struct = self.random.choice(structs)
                return self.component(self.leaf_of(struct.name, struct.kind))
        if roll < 0.8:
            element = self.element()
            if element is not None:
                return self.component(element)
        return self.typed_literal(self.any_dtype()) if roll > 0.93 else self.literal(self.random.random() < 0.4)

    def fresh_vector(self, depth: int, shape: tuple[int, ...]) -> Expression:
        """A vector or matrix of new scalars."""
        raise NotImplementedError

    def vector(self, depth: int, shape: tuple[int, ...] | None = None) -> Expression:
        """A vector or matrix expression."""
        raise NotImplementedError

    def of_vector(self, depth: int) -> Expression:
        """A scalar of vectors."""
        raise NotImplementedError

    def python_form(self, depth: int) -> Expression:
        """A scalar by Python's own means."""
        raise NotImplementedError

    def component(self, expression: Expression) -> Expression:
        """A scalar of a vector or matrix."""
        shape = expression.kind.shape
        if not shape:
            return expression
        indices = ", ".join(self.index(extent) for extent in shape)
        if len(shape) == 1 and self.random.random() < 0.4:
            return Expression(f"{expression.text}.{'xyzw'[self.random.randrange(shape[0])]}", Kind(expression.dtype))
        return Expression(f"{expression.text}[{indices}]", Kind(expression.dtype))

    def index(self, extent: int, may_be_static: bool = True) -> str:
        """An index within range: a constant, or a value, which a static variable of Python may give."""
        if self.random.random() < 0.5 or not self.visible():
            return str(self.random.randrange(extent))
        integers = [variable for variable in self.visible() if variable.kind.dtype in INTEGERS and not variable.kind.shape]
        integers = [variable for variable in integers if may_be_static or not variable.static]
        if not integers:
            return str(self.random.randrange(extent))
        return f"qd.cast({self.random.choice(integers).name} % {extent}, qd.i32)"

    def element(self, write: bool = False) -> Expression | None:
        """An element of a container that this place may read, or write."""
        allowed = [c for c in self.containers if self.may_access(c, write)]
        if not allowed:
            return None
        text, kind = self.whole_element(self.random.choice(allowed))
        return self.leaf_of(text, kind) if kind.is_struct else Expression(text, kind)

    def whole_element(self, container: Container) -> tuple[str, Kind]:
        """Text and type of an element of a container."""
        if self.own_index is not None and container.use == "own":
            return f"{container.text}[{self.own_index}]", container.kind
        starts = container.offset or (0,) * len(container.shape)
        indices = [self.index(extent) for extent in container.shape]
        shifted = [f"{index} + ({start})" if start else index for index, start in zip(indices, starts, strict=True)]
        return f"{container.text}[{', '.join(shifted) or 'None'}]", container.kind

    def struct_elements(self, write: bool = False) -> list[str]:
        """Elements of struct fields that this place may read, or write."""
        return [self.whole_element(c)[0] for c in self.containers if c.kind == STRUCT and self.may_access(c, write)]

    def may_access(self, container: Container, write: bool) -> bool:
        if write and self.first_writable:
            return False
        if self.own_index is None:
            return container.use == "free"
        return container.use == "own" if write else container.use in ("own", "read")

    def runtime(self, depth: int) -> Expression:
        """A scalar that is no literal."""
        made = self.scalar(depth)
        return made if not made.literal else self.typed_literal(made.dtype)

    def integer(self, depth: int) -> Expression:
        made = self.runtime(depth)
        return made if made.dtype in INTEGERS else self.to_dtype(made, self.random.choice(INTEGERS))

    def floating(self, depth: int) -> Expression:
        made = self.runtime(depth)
        return made if made.dtype in FLOATS else self.to_dtype(made, self.random.choice(FLOATS))

    def condition(self, depth: int) -> Expression:
        return self.comparison(depth) if self.random.random() < 0.8 else self.runtime(depth)

    def arithmetic(self, depth: int) -> Expression:
        left, right, op = self.runtime(depth), self.scalar(depth), self.random.choice("+ - * + - * / // %".split())
        if self.random.random() < 0.3:
            left, right = right, left
        dtype = self.promote(self.real(left.dtype), self.real(right.dtype)) if op == "/" else self.promote(left.dtype, right.dtype)
        return Expression(f"({left.text} {op} {right.text})", Kind(dtype))

    def bits(self, depth: int) -> Expression:
        left, right = self.integer(depth), self.integer(depth)
        return Expression(f"({left.text} {self.random.choice('&|^')} {right.text})", Kind(self.promote(left.dtype, right.dtype)))

    def shift(self, depth: int) -> Expression:
        left, right = self.integer(depth), self.integer(depth)
        if self.random.random() < 0.2:
            return Expression(f"qd.bit_shr({left.text}, {right.text})", left.kind)
        return Expression(f"({left.text} {self.random.choice(('<<', '>>'))} {right.text})", left.kind)

    def power(self, depth: int) -> Expression:
        base, exponent = self.integer(depth), self.integer(depth)
        return Expression(f"({base.text} ** ({exponent.text} & 7))", base.kind)

    def counting(self, depth: int) -> Expression:
        return Expression(f"qd.math.{self.random.choice(('popcnt', 'clz', 'ffs'))}({self.integer(depth).text})", Kind("i32"))

    def in_python(self, depth: int) -> Expression:
        """A call of a function of Python's own."""
        word = self.random.choice(("int", "float", "bool", "sum", "max", "min", "any", "divmod", "abs", "round"))
        if word in ("int", "float", "bool"):
            made = self.runtime(depth)
            if word == "int":
                made = self.assignable(made, "i32")
            default = self.options["default_fp" if word == "float" else "default_ip"]
            return Expression(f"{word}({made.text})", Kind("u1" if word == "bool" else default))
        if word == "divmod":
            left, right = self.integer(depth), self.integer(depth)
            return Expression(f"divmod({left.text}, {right.text})[{self.random.randrange(2)}]", Kind(self.promote(left.dtype, right.dtype)))
        if word == "round":
            return Expression(f"round({self.clamped(self.floating(depth)).text})", Kind(self.options["default_ip"]))
        if word == "abs":
            made = self.integer(depth)
            return Expression(f"abs({made.text})", made.kind)
        items = [self.integer(depth) for _ in range(self.random.choice((2, 3)))]
        texts = ", ".join(item.text for item in items)
        dtype = items[0].dtype
        for item in items[1:]:
            dtype = self.promote(dtype, item.dtype)
        if word in ("max", "min"):
            return Expression(f"{word}({texts})", Kind(dtype))
        return Expression(f"{word}([{texts}])", Kind("u1" if word == "any" else dtype))

    def of_library(self, depth: int) -> Expression:
        """A func of `qd.math`, or a number of the type of another."""
        made, kind = self.floating(depth), self.integer(depth)
        one, other = self.to_dtype(self.scalar(depth), made.dtype).text, self.typed_literal(made.dtype).text
        forms = [
            (f"qd.math.clamp({made.text}, {other}, {one})", made.dtype),
            (f"qd.math.clamp({kind.text}, {self.typed_literal(kind.dtype).text}, {self.typed_literal(kind.dtype).text})", kind.dtype),
            (f"qd.math.step({made.text}, {one})", made.dtype),
            (f"qd.math.sign({made.text})", made.dtype),
            (f"qd.zero({kind.text})", kind.dtype),
            (f"qd.one({made.text})", made.dtype),
        ]
        text, dtype = self.random.choice(forms)
        return self.to_dtype(Expression(text, Kind(made.dtype if dtype == made.dtype else dtype)), dtype)

    def truncating(self, depth: int) -> Expression:
        """A division that rounds toward zero."""
        left, right = self.integer(depth), self.integer(depth)
        return Expression(
            f"qd.raw_{self.random.choice(('div', 'mod'))}({left.text}, {right.text})", Kind(self.promote(left.dtype, right.dtype))
        )

    def comparison(self, depth: int) -> Expression:
        left, right = self.runtime(depth), self.scalar(depth)
        op = self.random.choice("< <= > >= == !=".split())
        if self.random.random() < 0.1:
            third = self.scalar(depth)
            return Expression(f"({left.text} {op} {right.text} < {third.text})", Kind("u1"))
        return Expression(f"({left.text} {op} {right.text})", Kind("u1"))

    def unary(self, depth: int) -> Expression:
        made = self.runtime(depth)
        numeric = self.options["default_ip"] if made.dtype == "u1" else made.dtype
        if made.dtype in FLOATS:
            form = self.random.choice(("-{}", "abs({})", "qd.floor({})", "qd.ceil({})", "qd.round({})", "qd.sqrt(abs({}))"))
            return Expression(f"({form.format(made.text)})", made.kind)
        form = self.random.choice(("-{}", "~{}", "abs({})", "(not {})"))
        dtype = "u1" if "not" in form else made.dtype if form[0] == "~" else numeric
        return Expression(f"({form.format(made.text)})", Kind(dtype))

    def conversion(self, depth: int) -> Expression:
        made = self.runtime(depth)
        if made.dtype in ("i32", "u32", "i64", "u64") and (HAS_F64 or made.dtype != "i64") and self.random.random() < 0.15:
            twin = {"i32": "f32" if HAS_SUBNORMALS else "u32", "u32": "i32", "i64": "f64", "u64": "i64"}[made.dtype]
            return Expression(f"qd.bit_cast({made.text}, qd.{twin})", Kind(twin))
        return self.to_dtype(made, self.any_dtype())

    def choice(self, depth: int) -> Expression:
        condition, first, second = self.condition(depth), self.scalar(depth), self.scalar(depth)
        dtype = self.promote(first.dtype, second.dtype, numeric=False)
        if self.random.random() < 0.4:
            return Expression(f"qd.select({self.comparison(depth).text}, {first.text}, {second.text})", Kind(dtype))
        return Expression(f"({first.text} if {condition.text} else {second.text})", Kind(dtype))

    def logic(self, depth: int) -> Expression:
        left, right = self.comparison(depth), self.comparison(depth)
        if self.random.random() < 0.3:
            left, right = self.integer(depth), self.integer(depth)
        dtype = self.promote(left.dtype, right.dtype, numeric=False)
        return Expression(f"({left.text} {self.random.choice(('and', 'or'))} {right.text})", Kind(dtype))

    def extreme(self, depth: int) -> Expression:
        word = self.random.choice(("max", "min", "qd.max", "qd.min"))
        if self.random.random() < 0.5:
            left, right = self.integer(depth), self.integer(depth)
        else:
            left, right = self.floating(depth), self.literal(True)
        return Expression(f"{word}({left.text}, {right.text})", Kind(self.promote(left.dtype, right.dtype)))

    def call(self, depth: int) -> Expression:
        """A call of a func with a scalar result."""
        callable_ = [
            f
            for f in [*self.functions, *(f for scope in self.local_functions for f in scope)]
            if isinstance(f.result, Kind) and not f.result.shape and not f.result.is_struct and not any(f.by_reference)
        ]
        if not callable_:
            return self.arithmetic(depth)
        function = self.random.choice(callable_)
        return Expression(f"{function.name}({', '.join(self.arguments_of(function, depth))})", function.result)

    def arguments_of(self, function: Function, depth: int) -> list[str]:
        """Arguments of a func that takes all by value, some by name."""
        given = [self.of_kind(parameter, depth) for parameter in function.kinds]
        for position in range(len(given) - function.defaults, len(given)):
            given[position] = f"p{position}={given[position]}" if self.random.random() < 0.6 else ""
        given = [text for text in given if text]
        if function.defaults:
            return given
        if function.constant or function.depth:
            return [*given, str(self.random.randrange(4))]
        if self.random.random() < 0.15 and function in self.functions:
            given[-1] = f"p{len(given) - 1}={given[-1]}"
        return given

    def of_kind(self, kind: Kind, depth: int) -> str:
        """Text of a value of this type."""
        if kind.is_struct:
            structs = [variable.name for variable in self.visible() if variable.kind == STRUCT] + self.struct_elements()
            if kind == INNER:
                structs = [f"{name}.r" for name in structs] if INNER in self.structs[STRUCT].values() else []
                structs += [variable.name for variable in self.visible() if variable.kind == INNER]
            if structs and self.random.random() < 0.6:
                return self.random.choice(structs)
            makers = [function for function in self.functions if function.result == kind and not any(function.by_reference)]
            roll = self.random.random() if depth > 0 else 1
            if roll < 0.15:
                word = "({1} if {0} else {2})" if self.random.random() < 0.5 else "qd.select({0}, {1}, {2})"
                return word.format(self.comparison(depth - 1).text, self.of_kind(kind, depth - 1), self.of_kind(kind, depth - 1))
            if roll < 0.4 and makers:
                function = self.random.choice(makers)
                return f"{function.name}({', '.join(self.arguments_of(function, depth - 1))})"
            return f"{kind.dtype}({', '.join(self.of_kind(member, min(depth, 1)) for member in self.structs[kind].values())})"
        if kind.shape:
            made = self.vector(depth, kind.shape)
            return made.text if made.dtype == kind.dtype else self.to_dtype(made, kind.dtype).text
        return self.scalar(depth, kind.dtype).text

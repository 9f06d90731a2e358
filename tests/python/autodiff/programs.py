"""Random differentiable programs: a module's text for each seed, with all constructs that issue gradients have to pass through.

`Program(seed).text` defines `make()`, which allocates the containers `x` (numbers), `v` (vectors), `m` (matrices), `y` (numbers that one
kernel stores and the next one reads) and `loss`, and gives a `run` that only depends on `x`, `v` and `m`. Values stay of order one, so that
differences have digits: what grows is passed through bounded functions.

A construct is one method; the lists of names choose among them.
"""

from __future__ import annotations

import random

SIZE = 3
_FLOATS = """constant variable element neighbor component argument unary unary binary binary product quotient power ternary select call dot
    norm cast integer_part extremum determinant trace indirect member own own own""".split()
_VECTORS = "build load scaled sum elementwise cross normalized transformed chosen called".split()
_MATRICES = "load outer product transposed inverse".split()
_STATEMENTS = """declare declare declare_vector assign assign augment augment component_store branch branch static_loop constant_loop
    argument_loop field_loop nested_loop while_loop while_break continue_loop accumulate swizzle integer overwrite overwrite
    overwrite overwrite_vector overwrite_twice count""".split()
_UNARY = ["qd.sin({})", "qd.cos({})", "qd.tanh({})", "qd.exp(-({0}) * ({0}))", "qd.sqrt(1.5 + qd.sin({}))", "qd.log(2.5 + qd.cos({}))",
          "abs({})", "-({})", "qd.atan2({}, 1.5)", "1.0 / (1.0 + ({0}) * ({0}))", "qd.asin(0.9 * qd.sin({}))", "qd.tan(0.5 * qd.tanh({}))",
          "qd.rsqrt(1.0 + ({0}) ** 2)", "qd.math.smoothstep(-2.0, 2.0, {})", "qd.floor({0}) * 0.1 + ({0})"]  # fmt: skip


_BEGIN = """
    @qd.kernel
    def begin():
        for i in x:
            for k in qd.static(range(3)):
                t1[i, k] = 0.3 * x[i] + 0.2 * k
                t2[i, k] = 0.2 * x[i] - 0.3 * k
            u1[i], u2[i] = 0.4 * v[i], 0.6 * v[i]
            s1[i].a, s1[i].b, s2[i].a, s2[i].b = x[i], 0.5 * x[i], 0.3, -0.4 * x[i]
            r1[i], r2[i], n1[i], n2[i] = 0.7, 0.4, i, i + 1
    @qd.func
    def put(f, i, k, value):
        f[i, k] = value
        return f[i, k]
    @qd.func
    def put_twice(f, i, k, value):
        old = put(f, i, k, value)
        return put(f, i, k, qd.sin(old) * 0.8) * old
    @qd.func
    def change(place: qd.template(), value):
        place = place * value
        return place
"""


class Program:
    """One program."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.depth = 0
        self.scopes: list[dict[str, str]] = [{}]
        self.names = 0
        self.loops = 0
        self.in_kernel = False
        self.index = "0"
        self.own = ""  # what the names of the containers end with that each iteration overwrites its elements of
        self.known = True  # which of these an iteration reads and writes is known while compiling
        self.text = self.module()

    # -- text

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def block(self, head: str, *statements: str, body: int = 0) -> None:
        """A head with `body` random statements, then the given ones."""
        self.line(head)
        self.depth += 1
        self.scopes.append({})
        for _ in range(body):
            self.statement()
        for text in statements:
            self.line(text)
        if not body and not statements:
            self.line("pass")
        self.scopes.pop()
        self.depth -= 1

    def name(self, kind: str) -> str:
        self.names += 1
        return f"{kind[0]}{self.names}"

    def variables(self, kind: str) -> list[str]:
        return [name for scope in self.scopes for name, its in scope.items() if its == kind]

    def declare_as(self, kind: str, value: str) -> str:
        name = self.name(kind)
        self.line(f"{name} = {value}")
        self.scopes[-1][name] = kind
        return name

    # -- expressions

    def number(self) -> str:
        return repr(round(self.random.uniform(-1.5, 1.5), 2))

    def float(self, depth: int = 2) -> str:
        choice = self.random.choice(_FLOATS if depth else ["constant", "variable", "variable", "element", "component"])
        return getattr(self, f"float_{choice}")(depth - 1)

    def float_constant(self, _: int) -> str:
        return self.number()

    def float_variable(self, _: int) -> str:
        found = self.variables("float")
        return self.random.choice(found) if found else self.number()

    def float_element(self, _: int) -> str:
        return f"x[{self.index}]" if self.in_kernel else self.float_variable(0)

    def float_neighbor(self, _: int) -> str:
        return f"x[({self.index} + {self.random.randrange(1, 3)}) % {SIZE}]" if self.in_kernel else self.float_variable(0)

    def float_indirect(self, _: int) -> str:
        return f"x[order[{self.index}]]" if self.in_kernel else self.float_variable(0)

    def float_component(self, _: int) -> str:
        found = self.variables("vector")
        key = self.random.choice(["[0]", ".y", ".z", f"[{self.integer()} % 3]"])
        if found and self.random.random() < 0.7:
            return self.random.choice(found) + key
        return f"v[{self.index}]{key}" if self.in_kernel else self.number()

    def float_argument(self, _: int) -> str:
        return "scale" if self.in_kernel else self.number()

    def float_unary(self, depth: int) -> str:
        return self.random.choice(_UNARY).format(self.float(max(depth, 0)))

    def float_binary(self, depth: int) -> str:
        return f"({self.float(max(depth, 0))} {self.random.choice('+-')} {self.float(max(depth, 0))})"

    def float_product(self, depth: int) -> str:
        return f"qd.tanh({self.float(max(depth, 0))}) * {self.float(max(depth, 0))}"

    def float_quotient(self, depth: int) -> str:
        return f"({self.float(max(depth, 0))}) / (2.0 + qd.sin({self.float(max(depth, 0))}))"

    def float_power(self, depth: int) -> str:
        base = f"(1.2 + 0.5 * qd.sin({self.float(max(depth, 0))}))"
        return f"{base} ** {self.random.choice(['2', '3', '0.5', f'(0.3 * qd.cos({self.float(0)}))'])}"

    def float_ternary(self, depth: int) -> str:
        return f"({self.float(max(depth, 0))} if {self.condition()} else {self.float(max(depth, 0))})"

    def float_select(self, depth: int) -> str:
        return f"qd.select({self.condition()}, {self.float(max(depth, 0))}, {self.float(max(depth, 0))})"

    def float_call(self, depth: int) -> str:
        return f"first({self.float(max(depth, 0))}, {self.float(0)})" if self.in_kernel else self.float_unary(depth)

    def float_dot(self, depth: int) -> str:
        return f"qd.tanh({self.vector(max(depth, 0))}.dot({self.vector(0)}))"

    def float_norm(self, depth: int) -> str:
        return f"({self.vector(max(depth, 0))} * 0.3 + 1.1).{self.random.choice(['norm()', 'norm_sqr()', 'sum()', 'max()', 'norm_inv()'])}"

    def float_cast(self, depth: int) -> str:
        return f"qd.cast({self.integer()}, float) * 0.25 * {self.float(max(depth, 0))}"

    def float_integer_part(self, depth: int) -> str:
        return f"(({self.float(max(depth, 0))}) - qd.cast({self.float(0)} * 3.0, int) * 0.1)"

    def float_extremum(self, depth: int) -> str:
        return f"qd.{self.random.choice(['max', 'min'])}({self.float(max(depth, 0))}, {self.float(0)})"

    def float_determinant(self, depth: int) -> str:
        return f"qd.tanh(({self.matrix(max(depth, 0))}).determinant())"

    def float_trace(self, depth: int) -> str:
        return f"({self.matrix(max(depth, 0))}).trace() * 0.4"

    def float_member(self, _: int) -> str:
        found = self.variables("pair")
        return f"{self.random.choice(found)}.a" if found else self.number()

    def place(self) -> str:
        """An element, or a component of one, that this iteration alone reads and writes."""
        row = "I[0]" if self.index == "I" else self.index
        column = self.column()
        return self.random.choice(
            [f"t{self.own}[{row}, {column}]"] * 3
            + [
                f"u{self.own}[{row}][{column}]",
                f"u{self.own}[{row}].x",
                f"s{self.own}[{row}].a",
                f"s{self.own}[{row}].b",
                f"r{self.own}[{row}]",
            ]
        )

    def column(self) -> str:
        return self.random.choice(["0", "1", "2"] if self.known else ["1", *[f"{self.integer()} % 3"] * 3])

    def float_own(self, _: int) -> str:
        return f"qd.tanh({self.place()})" if self.own else self.float_variable(0)

    def vector(self, depth: int = 1) -> str:
        return getattr(self, f"vector_{self.random.choice(_VECTORS if depth else ['build', 'load', 'load'])}")(depth - 1)

    def vector_build(self, _: int) -> str:
        return f"qd.Vector([{self.float(0)}, {self.float(0)}, {self.float(0)}])"

    def vector_load(self, _: int) -> str:
        found = self.variables("vector")
        if found and self.random.random() < 0.6:
            return self.random.choice(found)
        return f"v[{self.index}]" if self.in_kernel else self.vector_build(0)

    def vector_scaled(self, depth: int) -> str:
        return f"({self.vector(max(depth, 0))} * qd.tanh({self.float(0)}))"

    def vector_sum(self, depth: int) -> str:
        return f"({self.vector(max(depth, 0))} {self.random.choice('+-')} {self.vector(0)})"

    def vector_elementwise(self, depth: int) -> str:
        return f"qd.{self.random.choice(['sin', 'cos', 'tanh'])}({self.vector(max(depth, 0))})"

    def vector_cross(self, depth: int) -> str:
        return f"qd.tanh({self.vector(max(depth, 0))}).cross(qd.tanh({self.vector(0)}))"

    def vector_normalized(self, depth: int) -> str:
        return f"(qd.tanh({self.vector(max(depth, 0))}) + 1.5).normalized()"

    def vector_transformed(self, depth: int) -> str:
        return f"({self.matrix(max(depth, 0))} @ qd.tanh({self.vector(0)}))"

    def vector_chosen(self, depth: int) -> str:
        return f"qd.select({self.condition()}, {self.vector(max(depth, 0))}, {self.vector(0)})"

    def vector_called(self, depth: int) -> str:
        return f"second({self.vector(max(depth, 0))}, {self.float(0)})" if self.in_kernel else self.vector_build(0)

    def matrix(self, depth: int = 1) -> str:
        return getattr(self, f"matrix_{self.random.choice(_MATRICES if depth else ['load', 'outer'])}")(depth - 1)

    def matrix_load(self, _: int) -> str:
        return f"m[{self.index}]" if self.in_kernel else self.matrix_outer(0)

    def matrix_outer(self, _: int) -> str:
        # Alone it has the determinant 0 but for rounding, whose sign floor and comparisons would show.
        return f"(qd.tanh({self.vector(0)}).outer_product(qd.tanh({self.vector(0)})) + eye)"

    def matrix_product(self, depth: int) -> str:
        return f"({self.matrix(max(depth, 0))} @ {self.matrix(0)})"

    def matrix_transposed(self, depth: int) -> str:
        return f"({self.matrix(max(depth, 0))}).transpose()"

    def matrix_inverse(self, _: int) -> str:
        return f"(eye * 3.0 + qd.tanh({self.matrix(0)}) * 0.5).inverse()"

    def integer(self) -> str:
        found = [*self.variables("integer"), *self.variables("loop")]
        found += ["i", "count", "amount[i]"] if self.in_kernel and self.index == "i" else []
        found += [f"n{self.own}[{self.index}]"] if self.own else []
        return self.random.choice(found) if found else str(self.random.randrange(1, 4))

    def condition(self) -> str:
        kind = self.random.randrange(3)
        if kind == 0:
            return f"{self.integer()} % 2 == {self.random.randrange(2)}"
        if kind == 1:
            return f"({self.float(0)} {self.random.choice('<>')} {self.float(0)} and {self.integer()} < 3)"
        return f"{self.float(0)} {self.random.choice('<>')} {self.number()}"

    # -- statements

    def statement(self) -> None:
        deep = self.depth > 4 or self.loops > 1
        getattr(self, f"do_{self.random.choice(['declare', 'assign', 'augment'] if deep else _STATEMENTS)}")()

    def do_declare(self) -> None:
        self.declare_as("float", self.float())

    def do_declare_vector(self) -> None:
        self.declare_as("vector", self.vector(2))

    def do_assign(self) -> None:
        found = self.variables("float")
        self.line(f"{self.random.choice(found)} = qd.tanh({self.float()})") if found else self.do_declare()

    def do_augment(self) -> None:
        found = self.variables("float")
        op = self.random.choice(["+=", "-=", "*="])
        value = f"qd.cos({self.float()})" if op == "*=" else self.float()
        self.line(f"{self.random.choice(found)} {op} {value}") if found else self.do_declare()

    def do_component_store(self) -> None:
        found = self.variables("vector")
        key = self.random.choice(["[1]", ".x", f"[{self.integer()} % 3]"])
        self.line(
            f"{self.random.choice(found)}{key} {self.random.choice(['=', '+='])} {self.float(1)}"
        ) if found else self.do_declare_vector()

    def do_swizzle(self) -> None:
        found = self.variables("vector")
        self.line(f"{self.random.choice(found)}.xz = [{self.float(0)}, {self.float(0)}]") if found else self.do_declare_vector()

    def do_integer(self) -> None:
        self.declare_as("integer", f"{self.integer()} + {self.random.randrange(3)}")

    def do_branch(self) -> None:
        self.block(f"if {self.condition()}:", body=self.random.randrange(1, 3))
        if self.random.random() < 0.6:
            self.block("else:", body=1)

    def loop(self, head: str, *tail: str, body: int = 2) -> None:
        self.loops += 1
        self.block(head, *tail, body=body)
        self.loops -= 1

    def do_static_loop(self) -> None:
        self.loop(f"for {self.name('k')} in qd.static(range(2)):", body=1)

    def do_constant_loop(self) -> None:
        self.loop(f"for {self.name('k')} in range({self.random.randrange(1, 4)}):")

    def do_argument_loop(self) -> None:
        self.loop(f"for {self.name('k')} in range({'count' if self.in_kernel else 2}):")

    def do_field_loop(self) -> None:
        self.loop(f"for {self.name('k')} in range({f'amount[{self.index}]' if self.in_kernel else 2}):")

    def do_nested_loop(self) -> None:
        outer = self.name("k")
        self.line(f"for {outer} in range(3):")
        self.depth += 1
        self.scopes.append({outer: "loop"})
        self.loop(f"for {self.name('k')} in range({outer}):", body=1)
        self.scopes.pop()
        self.depth -= 1

    def do_while_loop(self) -> None:
        counter = self.declare_as("integer", "0")
        self.scopes[-1][counter] = "counter"
        self.loop(f"while {counter} < {self.random.choice(['3', self.integer()])}:", f"{counter} += 1", body=1)

    def do_while_break(self) -> None:
        counter = self.declare_as("integer", "0")
        self.scopes[-1][counter] = "counter"
        self.loop("while True:", f"{counter} += 1", f"if {counter} > 2 or {self.condition()}:", "    break", body=1)

    def do_continue_loop(self) -> None:
        found = self.variables("float")
        if not found:
            return self.do_declare()
        target = self.random.choice(found)
        skip = self.name("k")
        self.line(f"for {skip} in range(4):")
        self.line(f"    if {skip} == 1 or {self.condition()}:")
        self.line("        continue")
        self.line(f"    {target} = {target} * 0.6 + 0.3 * qd.sin({self.float(0)})")
        if self.random.random() < 0.5:
            self.line(f"    if {skip} == 2:")
            self.line("        break")

    def do_accumulate(self) -> None:
        if self.in_kernel:
            self.line(self.random.choice(["loss[None] += {}", "qd.atomic_add(loss[None], {})", "loss[None] -= {}"]).format(self.float()))
        else:
            self.do_declare()

    def do_overwrite(self) -> None:
        if not self.own:
            return self.do_assign()
        value = f"qd.tanh({self.float()})"
        if self.random.random() < 0.6:
            return self.line(f"{self.place()} {self.random.choice(['=', '=', '=', '+=', '*='])} {value}")
        row = "I[0]" if self.index == "I" else self.index
        column = self.column()
        call = self.random.choice(["put(t{0}, {1}, {2}, {3})", "put_twice(t{0}, {1}, {2}, {3})", "change(t{0}[{1}, {2}], {3})"])
        self.declare_as("float", call.format(self.own, row, column, value))

    def do_overwrite_vector(self) -> None:
        if not self.own:
            return self.do_declare_vector()
        self.line(f"u{self.own}[{self.index}] {self.random.choice(['=', '=', '+='])} qd.tanh({self.vector(2)})")
        self.declare_as("vector", f"u{self.own}[{self.index}]")

    def do_overwrite_twice(self) -> None:
        if not self.own:
            return self.do_declare()
        place = self.place()
        self.line(f"{place} = qd.tanh({self.float()})")
        name = self.declare_as("float", f"{place} * {self.float(0)}")
        self.line(f"{place} = qd.sin({name})")

    def do_count(self) -> None:
        if not self.own:
            return self.do_integer()
        self.line(f"n{self.own}[{self.index}] = (n{self.own}[{self.index}] + {self.random.randrange(1, 3)}) % 5")

    # -- the module

    def function(self, name: str, result: str) -> None:
        """A func of a number (or vector) and a number."""
        self.line("@qd.func")
        self.line(f"def {name}(p, q):")
        self.depth += 1
        self.scopes.append({"p": "vector" if result == "vector" else "float", "q": "float"})
        value = self.vector if result == "vector" else self.float
        for _ in range(self.random.randrange(1, 3)):
            self.statement()
        if self.random.random() < 0.5:
            self.block(f"if q > {self.number()}:", f"return {value(1)}")
        self.line(f"return {value(1)}")
        self.scopes.pop()
        self.depth -= 1
        self.line("")

    def kernel(self, name: str, stores: bool) -> None:
        self.line("@qd.kernel")
        self.line(f"def {name}(count: int, scale: float):")
        self.depth += 1
        self.in_kernel = True
        head = self.random.choice(
            [f"for i in range({SIZE}):", "for i in x:", f"for i, j in qd.ndrange({SIZE}, 2):", "for I in qd.grouped(x):"]
        )
        self.index = "I" if "I in" in head else "i"
        self.own = "" if "ndrange" in head else "1" if stores else "2"
        self.line(head)
        self.depth += 1
        self.scopes.append({})
        self.line("eye = qd.Matrix([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])")
        self.known = not self.own or self.random.random() < 0.5
        if not self.known and self.random.random() < 0.5:  # what is read of these is what the iteration has written
            column = self.name("k")
            self.line(f"for {column} in range(3):")
            self.line(f"    t{self.own}[{'I[0]' if self.index == 'I' else 'i'}, {column}] = 0.4 * x[{self.index}] + 0.1 * {column}")
        for _ in range(self.random.randrange(2, 6)):
            self.statement()
        if stores and "ndrange" not in head:
            self.line(f"y[{self.index}] = {self.float()}")
            self.line(f"loss[None] += y[{self.index}] * {self.float(0)}")
        else:
            self.line(f"loss[None] += {self.float()}{'' if stores else f' * y[{self.index}]'}")
        self.scopes.pop()
        self.depth -= 2
        self.in_kernel, self.own = False, ""
        self.line("")

    def module(self) -> str:
        self.line("import quadrants as qd")
        self.line("")
        self.line("eye = qd.Matrix([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])")
        self.line("def make():")
        self.depth += 1
        self.line(f"x = qd.field(qd.f64, shape={SIZE}, needs_grad=True, needs_dual=True)")
        self.line(f"y = qd.field(qd.f64, shape={SIZE}, needs_grad=True, needs_dual=True)")
        self.line(f"v = qd.Vector.field(3, qd.f64, shape={SIZE}, needs_grad=True, needs_dual=True)")
        self.line(f"m = qd.Matrix.field(3, 3, qd.f64, shape={SIZE}, needs_grad=True, needs_dual=True)")
        self.line("loss = qd.field(qd.f64, shape=(), needs_grad=True, needs_dual=True)")
        self.line(f"order, amount = qd.field(qd.i32, shape={SIZE}), qd.field(qd.i32, shape={SIZE})")
        for number in "12":
            self.line(f"t{number} = qd.field(qd.f64, shape=({SIZE}, 3), needs_grad=True, needs_dual=True)")
            self.line(f"u{number} = qd.Vector.field(3, qd.f64, shape={SIZE}, needs_grad=True, needs_dual=True)")
            self.line(f"s{number} = qd.Struct.field({{'a': qd.f64, 'b': qd.f64}}, shape={SIZE}, needs_grad=True, needs_dual=True)")
            self.line(f"r{number} = qd.ndarray(qd.f64, shape={SIZE}, needs_grad=True, needs_dual=True)")
            self.line(f"n{number} = qd.field(qd.i32, shape={SIZE})")
        self.lines += _BEGIN.strip("\n").split("\n")
        self.line("")
        self.function("first", "float")
        self.function("second", "vector")
        self.kernel("store", True)
        self.kernel("use", False)
        self.line("def run():")
        self.line("    begin()")
        self.line("    store(2, 0.7)")
        self.line("    use(3, -0.4)")
        self.line("return x, v, m, y, order, amount, loss, run")
        return "\n".join(self.lines) + "\n"

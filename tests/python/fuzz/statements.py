"""Statements, funcs and whole programs for the generator."""

from __future__ import annotations

from .generator import FLOATS, INTEGERS, STRUCT, Container, Generator, Kind, Variable
from .program import Program, Statement


class ProgramGenerator(Generator):
    """Adds control flow and everything around it."""

    def make(self) -> Program:
        """The whole program."""
        self.make_types()
        self.make_containers()
        for _ in range(self.random.choice((0, 1, 1, 2, 3))):
            self.make_function()
        self.make_kernel()
        return self.program

    # surroundings

    def make_types(self) -> None:
        self.members = {
            "a": Kind(self.any_dtype()),
            "b": Kind(self.any_dtype()),
            "v": Kind(self.any_dtype(), (self.random.choice((2, 3)),)),
        }
        lines = ["@qd.dataclass", "class S:", *(f"    {name}: {self.annotation(kind)}" for name, kind in self.members.items())]
        self.program.types = [*lines, "    @qd.func", "    def grow(self, k):", "        self.a += k", "        return self.v.sum()"]

    def make_containers(self) -> None:
        length = self.random.choice((1, 5, 16, 17, 33, 64))
        for number in range(self.random.choice((2, 3, 4))):
            kind = Kind(self.any_dtype()) if self.random.random() < 0.7 else Kind(self.any_dtype(), (self.random.choice((2, 3)),))
            shape = (length,) if number == 0 or self.random.random() < 0.6 else (length, self.random.choice((2, 3, 7)))
            name = f"x{number}"
            self.containers.append(Container(name, kind, shape))
            data = self.data_of(kind.dtype, (*shape, *kind.shape))
            make = self.random.choice(("field", "ndarray")) if not kind.shape else "field"
            element = f"qd.{kind.dtype}" if not kind.shape else f"{kind.shape[0]}, qd.{kind.dtype}"
            maker = f"qd.{make}" if not kind.shape else "qd.Vector.field"
            self.program.containers.append((name, f"{maker}({element}, shape={shape}) <- {data}"))
            self.program.results.append(f"{name}.to_numpy()")

    def data_of(self, dtype: str, shape: tuple[int, ...]) -> str:
        numpy = f"np.{'float' if dtype in FLOATS else 'uint' if dtype[0] == 'u' else 'int'}{dtype[1:]}"
        if dtype in FLOATS:
            return f"(values.integers(-40, 40, {shape}) / 8).astype({numpy})"
        if self.random.random() < 0.5:
            return f"values.integers({0 if dtype[0] == 'u' else -9}, 9, {shape}).astype({numpy})"
        return f"values.integers(np.iinfo({numpy}).min, np.iinfo({numpy}).max, {shape}, {numpy}, endpoint=True)"

    def make_function(self) -> None:
        name = self.fresh("f")
        kinds = [self.any_kind(1) if self.random.random() < 0.85 else STRUCT for _ in range(self.random.choice((1, 2, 2, 3)))]
        by_reference = [self.random.random() < 0.2 for _ in kinds]
        if any(by_reference):
            by_reference = [flag and kind != STRUCT for flag, kind in zip(by_reference, kinds, strict=True)]
        result = Kind(self.any_dtype()) if self.random.random() < 0.75 else self.any_kind(1)
        parameters = [Variable(f"p{k}", kind) for k, kind in enumerate(kinds)]
        texts = []
        for parameter, reference in zip(parameters, by_reference, strict=True):
            annotated = not reference and self.random.random() < 0.3
            texts.append(parameter.name + (": qd.template()" if reference else f": {self.annotation(parameter.kind)}" if annotated else ""))
        hidden, self.containers = self.containers, []
        self.scopes, self.returns = [list(parameters)], result
        body = self.block(self.random.choice((1, 2, 3)), 1)
        body.append(Statement(f"return {self.of_kind(result, 2)}"))
        for dtype in self.returned:  # returns of other types promote the result
            result = Kind(self.promote(result.dtype, dtype, numeric=False))
        self.scopes, self.returns, self.containers, self.returned = [[]], None, hidden, []
        self.program.functions += [Statement("@qd.func"), Statement(f"def {name}({', '.join(texts)}):", body)]
        self.functions.append((name, kinds, by_reference, result))

    def make_kernel(self) -> None:
        parameters = [Variable(f"n{k}", Kind(self.any_dtype()), writable=False) for k in range(self.random.choice((1, 2, 3)))]
        arrays = [name for name, expression in self.program.containers if expression.startswith("qd.ndarray")]
        signature = [f"{v.name}: qd.{v.kind.dtype}" for v in parameters]
        kinds = {c.name: c for c in self.containers}
        signature += [f"{name}: qd.types.ndarray(dtype=qd.{kinds[name].kind.dtype}, ndim={len(kinds[name].shape)})" for name in arrays]
        result = Kind(self.any_dtype()) if self.random.random() < 0.8 else Kind(self.any_dtype(), (2,))
        self.scopes = [list(parameters)]
        body: list[Statement] = []
        for _ in range(self.random.choice((2, 3, 4))):
            body += self.parallel_loop() if self.random.random() < 0.5 else self.statement(2)
            if self.random.random() < 0.1:
                body.append(Statement(f"if {self.comparison(2).text}:", [Statement(f"return {self.of_kind(result, 1)}")]))
        body.append(Statement(f"return {self.of_kind(result, 2)}"))
        head = f"def k({', '.join(signature)}) -> {self.annotation(result)}:"
        self.program.functions += [Statement("@qd.kernel"), Statement(head, body)]
        for values in ((3, 5, 2), (-7, 100, 1)):
            given = [str(value if v.kind.dtype in INTEGERS else value / 4) for v, value in zip(parameters, values, strict=False)]
            self.program.launches.append(f"k({', '.join([*given, *arrays])})")

    # statements

    def block(self, count: int, depth: int, *variables: Variable) -> list[Statement]:
        """Statements in a scope of their own."""
        self.scopes.append(list(variables))
        out = [statement for _ in range(count) for statement in self.statement(depth)]
        self.scopes.pop()
        return out

    def statement(self, depth: int) -> list[Statement]:
        simple = [self.declare, self.declare, self.assign, self.assign, self.augment, self.augment, self.store, self.store, self.effect]
        nested = [self.branch, self.branch, self.joined, self.counted_loop, self.while_loop, self.unrolled_loop]
        return self.random.choice(simple + nested if depth > 0 else simple)(depth)

    def joined(self, depth: int) -> list[Statement]:
        """A variable that both branches declare, perhaps with different types."""
        name, first, second = self.fresh("y"), self.runtime(2), self.runtime(2)
        branches = []
        for made in (first, second):
            before = self.block(self.random.choice((0, 1)), depth - 1)
            branches.append([*before, Statement(f"{name} = {made.text}")])
        out = [Statement(f"if {self.condition(2).text}:", branches[0]), Statement("else:", branches[1])]
        self.scopes[-1].append(Variable(name, Kind(self.promote(first.dtype, second.dtype, numeric=False))))
        return out

    def declare(self, depth: int) -> list[Statement]:
        name = self.fresh("y")
        roll = self.random.random()
        if roll < 0.15:
            text, kind = self.of_kind(STRUCT, 2), STRUCT
        elif roll < 0.4:
            made = self.vector(2, self.random.choice((None, None, (2, 2), (2, 3))))
            text, kind = made.text, made.kind
        elif roll < 0.55:
            kind = Kind(self.any_dtype())
            self_text = self.assignable(self.scalar(3), kind.dtype).text
            self.scopes[-1].append(Variable(name, kind))
            return [Statement(f"{name}: qd.{kind.dtype} = {self_text}")]
        else:
            made = self.runtime(3)
            text, kind = made.text, made.kind
        self.scopes[-1].append(Variable(name, kind))
        return [Statement(f"{name} = {text}")]

    def targets(self) -> list[tuple[str, Kind]]:
        """Places that may be written here."""
        places = [(variable.name, variable.kind) for variable in self.visible(writable=True)]
        places += [(f"{name}.{member}", kind) for name, owner in places if owner == STRUCT for member, kind in self.members.items()]
        element = self.element(write=True)
        if element is not None:
            places.append((element.text, element.kind))
        return places

    def assign(self, depth: int) -> list[Statement]:
        places = self.targets()
        if not places:
            return self.declare(depth)
        target, kind = self.random.choice(places)
        if kind == STRUCT:
            return [Statement(f"{target} = {self.of_kind(STRUCT, 2)}")]
        if kind.shape and self.random.random() < 0.6:
            return [Statement(f"{target} = {self.assignable(self.vector(2, kind.shape), kind.dtype).text}")]
        if len(kind.shape) == 1 and self.random.random() < 0.3:
            target, kind = f"{target}.{self.random.choice('xyzw'[: kind.shape[0]])}", Kind(kind.dtype)
        elif kind.shape:
            indices = ", ".join(self.index(extent) for extent in kind.shape)
            target, kind = f"{target}[{indices}]", Kind(kind.dtype)
        return [Statement(f"{target} = {self.assignable(self.scalar(3), kind.dtype).text}")]

    def store(self, depth: int) -> list[Statement]:
        element = self.element(write=True)
        if element is None:
            return self.assign(depth)
        if element.kind.shape:
            return [Statement(f"{element.text} = {self.assignable(self.vector(2, element.kind.shape), element.dtype).text}")]
        return [Statement(f"{element.text} = {self.assignable(self.scalar(3), element.dtype).text}")]

    def augment(self, depth: int) -> list[Statement]:
        places = [(target, kind) for target, kind in self.targets() if kind != STRUCT]
        if not places:
            return self.declare(depth)
        target, kind = self.random.choice(places)
        ops = ["+=", "-=", "*="] + (["&=", "|=", "^=", "<<=", ">>=", "//=", "%="] if kind.dtype in INTEGERS else ["/="])
        right = self.vector(1, kind.shape) if kind.shape and self.random.random() < 0.6 else self.scalar(2)
        op = self.random.choice(ops)
        if right.dtype != kind.dtype or right.literal:
            right = self.to_dtype(right, kind.dtype)
        return [Statement(f"{target} {op} {right.text}")]

    def effect(self, depth: int) -> list[Statement]:
        """A call for its effect: an atomic, a method, a func that writes its argument."""
        roll = self.random.random()
        structs = [variable.name for variable in self.visible(writable=True) if variable.kind == STRUCT]
        if roll < 0.3 and structs:
            name = self.fresh("y")
            numeric = self.promote(self.members["v"].dtype, self.members["v"].dtype)
            argument = self.scalar(1, self.members["a"].dtype).text
            self.scopes[-1].append(Variable(name, Kind(numeric)))
            return [Statement(f"{name} = {self.random.choice(structs)}.grow({argument})")]
        writers = [f for f in self.functions if any(f[2]) and f[3] != STRUCT]
        if roll < 0.6 and writers:
            return self.call_writer(*self.random.choice(writers)) or self.assign(depth)
        places = [(target, kind) for target, kind in self.targets() if kind.dtype in INTEGERS and not kind.shape]
        if not places:
            return self.assign(depth)
        target, kind = self.random.choice(places)
        name = self.fresh("y")
        word = self.random.choice(("add", "sub", "min", "max", "and", "or", "xor", "exchange"))
        value = self.scalar(1, kind.dtype).text
        self.scopes[-1].append(Variable(name, kind))
        return [Statement(f"{name} = qd.atomic_{word}({target}, {value})")]

    def call_writer(self, function: str, kinds: list[Kind], by_reference: list[bool], result: Kind) -> list[Statement] | None:
        arguments, taken = [], set()
        for kind, reference in zip(kinds, by_reference, strict=True):
            if not reference:
                arguments.append(self.of_kind(kind, 1))
                continue
            places = [target for target, have in self.targets() if have == kind and target.split("[")[0].split(".")[0] not in taken]
            if not places:
                return None
            arguments.append(self.random.choice(places))
            taken.add(arguments[-1].split("[")[0].split(".")[0])
        name = self.fresh("y")
        self.scopes[-1].append(Variable(name, result))
        return [Statement(f"{name} = {function}({', '.join(arguments)})")]

    def branch(self, depth: int) -> list[Statement]:
        out = [Statement(f"if {self.condition(2).text}:", self.block(self.random.choice((1, 2)), depth - 1) + self.leave())]
        if self.random.random() < 0.3:
            out.append(Statement(f"elif {self.condition(1).text}:", self.block(1, depth - 1)))
        if self.random.random() < 0.5:
            out.append(Statement("else:", self.block(self.random.choice((1, 2)), depth - 1)))
        return out

    def leave(self) -> list[Statement]:
        """Sometimes a way out of the loop or func around."""
        roll = self.random.random()
        if roll < 0.2 and self.loops:
            return [Statement("continue" if self.loops[-1] == "parallel" or roll < 0.1 else "break")] if self.loops[-1] != "static" else []
        if roll > 0.85 and self.returns is not None:
            if self.returns.shape or self.returns == STRUCT or roll > 0.95:
                return [Statement(f"return {self.of_kind(self.returns, 1)}")]
            made = self.scalar(1)
            self.returned.append(made.dtype)
            return [Statement(f"return {made.text}")]
        return []

    def counted_loop(self, depth: int) -> list[Statement]:
        """A loop that runs in order. Where it may stand at the top of the kernel, also through a call, it has to be told so."""
        name = self.fresh("i")
        serial = [Statement("qd.loop_config(serialize=True)")] if self.own_index is None else []
        bounds = self.random.choice(("4", "2, 5", "6, 0, -2", "3", "-2, 2"))
        self.loops.append("sequential")
        body = self.block(self.random.choice((1, 2)), depth - 1, Variable(name, Kind("i32"), writable=False))
        self.loops.pop()
        return [*serial, Statement(f"for {name} in range({bounds}):", body)]

    def while_loop(self, depth: int) -> list[Statement]:
        name = self.fresh("w")
        self.loops.append("sequential")
        body = self.block(self.random.choice((1, 2)), depth - 1, Variable(name, Kind("i32"), writable=False))
        self.loops.pop()
        head = f"while {name} < {self.random.choice((2, 4))} and {self.comparison(1).text}:"
        return [Statement(f"{name}: qd.i32 = 0"), Statement(head, [Statement(f"{name} += 1"), *body])]

    def unrolled_loop(self, depth: int) -> list[Statement]:
        name = self.fresh("s")
        self.loops.append("static")
        kind = Kind(self.options["default_ip"])
        body = self.block(self.random.choice((1, 2)), depth - 1, Variable(name, kind, writable=False, static=True))
        self.loops.pop()
        if self.random.random() < 0.3:
            body.append(Statement(f"if qd.static({name} % 2 == 0):", self.block(1, 0)))
        return [Statement(f"for {name} in qd.static(range({self.random.choice((2, 3))})):", body)]

    def parallel_loop(self) -> list[Statement]:
        """A loop at the top of the kernel; decides first what its iterations may do with each container and variable."""
        driver = self.random.choice(self.containers)
        rank = len(driver.shape)
        names = [self.fresh("i") for _ in range(rank)]
        for container in self.containers:
            same = container.shape == driver.shape
            integer = container.kind.dtype in INTEGERS
            container.use = self.random.choice(("own", "own", "read") if same else ("read", "atomic") if integer else ("read",))
        forms = {
            "struct": f"for {', '.join(names)} in {driver.name}:",
            "ndrange": f"for {', '.join(names)} in qd.ndrange({', '.join(map(str, driver.shape))}):",
            "range": f"for {names[0]} in range({driver.shape[0]}):",
            "grouped": f"for {names[0]} in qd.grouped({driver.name}):",
        }
        form = self.random.choice([form for form in forms if form != "range" or rank == 1])
        kind = Kind("i32", (rank,)) if form == "grouped" else Kind("i32")
        variables = [Variable(name, kind, writable=False) for name in (names[:1] if form == "grouped" else names)]
        total = Variable(self.fresh("t"), Kind(self.random.choice(("i32", "i64", "u32"))))
        shared = [variable for scope in self.scopes for variable in scope]
        for variable in shared:
            variable.shared = True
        self.own_index = variables[0].name if form == "grouped" else ", ".join(names)
        self.loops.append("parallel")
        body = self.block(self.random.choice((1, 2, 3)), 2, *variables)
        self.scopes.append(variables)
        body.append(self.reduction(total))
        self.scopes.pop()
        self.loops.pop()
        self.own_index = None
        for variable in shared:
            variable.shared = False
        for container in self.containers:
            container.use = "free"
        self.scopes[-1].append(total)
        return [Statement(f"{total.name} = qd.{total.kind.dtype}(0)"), Statement(forms[form], body)]

    def reduction(self, total: Variable) -> Statement:
        """What all iterations combine: into a variable, or into some element."""
        atomics = [container for container in self.containers if container.use == "atomic"]
        if atomics and self.random.random() < 0.6:
            container = self.random.choice(atomics)
            target, kind = f"{container.name}[{', '.join(self.index(extent) for extent in container.shape)}]", container.kind
        else:
            target, kind = total.name, total.kind
        value = self.scalar(2, kind.dtype).text
        if kind.shape or self.random.random() < 0.5:
            return Statement(f"{target} {self.random.choice(('+=', '-='))} {value}")
        return Statement(f"qd.atomic_{self.random.choice(('add', 'max', 'min', 'xor'))}({target}, {value})")

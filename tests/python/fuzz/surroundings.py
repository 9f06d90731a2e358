"""Everything around the statements: types, containers, funcs, the kernel and its arguments."""

from __future__ import annotations

from .generator import FLOATS, STRUCT, Container, Function, Kind, Variable
from .program import Program, Statement
from .statements import StatementGenerator


class ProgramGenerator(StatementGenerator):
    """Makes whole programs."""

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
        if self.random.random() < 0.3:
            self.members["m"] = Kind(self.any_dtype(), (2, 2))
        lines = ["@qd.dataclass", "class S:", *(f"    {name}: {self.annotation(kind)}" for name, kind in self.members.items())]
        self.program.types = [*lines, "    @qd.func", "    def grow(self, k):", "        self.a += k", "        return self.v.sum()"]

    def make_containers(self) -> None:
        self.passing = self.random.choice(("plain", "plain", "dataclass", "object"))
        length = self.random.choice((1, 5, 16, 17, 33))
        for number in range(self.random.choice((2, 3, 4))):
            kind = self.any_kind() if self.random.random() < 0.85 else STRUCT
            shape: tuple[int, ...] = (length,)
            if number > 0 and self.random.random() < 0.4:
                shape = (length, self.random.choice((2, 3, 7))) if self.random.random() < 0.8 else ()
            makes = (
                ["field"]
                if kind == STRUCT or not shape
                else ["field", "ndarray"]
                if self.passing == "object"
                else ["field", "ndarray", "numpy"]
            )
            container = Container(f"x{number}", kind, shape, self.random.choice(makes))
            if container.make == "field" and shape and self.random.random() < 0.15:
                container.offset = (-3, 2)[: len(shape)] if number % 2 else (5, 0)[: len(shape)]
            holder = {"dataclass": "d." if container.make != "field" else "", "object": "self."}.get(self.passing, "")
            container.text = holder + container.name
            self.containers.append(container)
            self.program.containers.append((container.name, self.setup_of(container)))
            self.program.results.append(container.name + (".to_numpy()" if container.make != "numpy" else ""))

    def setup_of(self, container: Container) -> list[str]:
        """The lines that make and fill a container."""
        name, kind, shape = container.name, container.kind, container.shape
        if kind == STRUCT:
            data = ", ".join(f'"{key}": {self.data_of(member.dtype, (*shape, *member.shape))}' for key, member in self.members.items())
            layout = self.random.choice(("", ", layout=qd.Layout.SOA"))
            offset = f", offset={container.offset}" if container.offset else ""
            return [f"{name} = S.field(shape={shape}{layout}{offset})", f"{name}.from_numpy({{{data}}})"]
        data = self.data_of(kind.dtype, (*shape, *kind.shape))
        if container.make == "numpy":
            return [f"{name} = {data}"]
        owner = "qd." + {0: "", 1: "Vector.", 2: "Matrix."}[len(kind.shape)]
        order = ', order="ji"' if container.make == "field" and len(shape) == 2 and self.random.random() < 0.3 else ""
        order += f", offset={container.offset}" if container.offset else ""
        extents = "".join(f"{extent}, " for extent in kind.shape)
        return [f"{name} = {owner}{container.make}({extents}qd.{kind.dtype}, shape={shape}{order})", f"{name}.from_numpy({data})"]

    def data_of(self, dtype: str, shape: tuple[int, ...]) -> str:
        numpy = f"np.{'float' if dtype in FLOATS else 'uint' if dtype[0] == 'u' else 'int'}{dtype[1:]}"
        if dtype in FLOATS:
            return f"np.asarray(values.integers(-40, 40, {shape}) / 8).astype({numpy})"
        if self.random.random() < 0.5:
            return f"values.integers({0 if dtype[0] == 'u' else -9}, 9, {shape}).astype({numpy})"
        return f"values.integers(np.iinfo({numpy}).min, np.iinfo({numpy}).max, {shape}, {numpy}, endpoint=True)"

    def make_function(self) -> None:
        name = self.fresh("f")
        kinds = [self.any_kind(1) if self.random.random() < 0.85 else STRUCT for _ in range(self.random.choice((1, 2, 2, 3)))]
        several = self.random.random() < 0.2
        by_reference = [self.random.random() < 0.2 and kind != STRUCT and not several for kind in kinds]
        result: Kind | tuple[Kind, ...] = Kind(self.any_dtype()) if self.random.random() < 0.75 else self.any_kind(1)
        parameters = [Variable(f"p{k}", kind) for k, kind in enumerate(kinds)]
        texts = []
        for parameter, reference in zip(parameters, by_reference, strict=True):
            annotated = not reference and self.random.random() < 0.3
            texts.append(parameter.name + (": qd.template()" if reference else f": {self.annotation(parameter.kind)}" if annotated else ""))
        constant = self.random.random() < 0.25
        if constant:
            texts.append("c: qd.template()")
            parameters.append(Variable("c", Kind(self.options["default_ip"]), writable=False, static=True))
        hidden, self.containers = self.containers, []
        self.scopes, self.returns = [list(parameters)], None if several else result
        body = self.block(self.random.choice((1, 2, 3)), 1)
        if constant and self.random.random() < 0.5:
            body.append(Statement("if qd.static(c > 1):", self.block(1, 0)))
        if several:
            result = (Kind(self.any_dtype()), self.any_kind(1))
            body.append(Statement(f"return {self.of_kind(result[0], 2)}, {self.of_kind(result[1], 1)}"))
        else:
            body.append(Statement(f"return {self.of_kind(result, 2)}"))
        for dtype in self.returned:  # returns of other types promote the result
            result = Kind(self.promote(result.dtype, dtype, numeric=False))
        self.scopes, self.returns, self.containers, self.returned = [[]], None, hidden, []
        self.program.functions += [Statement("@qd.func"), Statement(f"def {name}({', '.join(texts)}):", body)]
        self.functions.append(Function(name, kinds, by_reference, result, constant))

    def array_annotation(self, container: Container) -> str:
        kind = container.kind
        return f"qd.types.ndarray(dtype={self.annotation(kind)}, ndim={len(container.shape)})"

    def make_kernel(self) -> None:
        parameters = [Variable(f"n{k}", self.parameter_kind(), writable=False) for k in range(self.random.choice((1, 2, 3)))]
        signature = [f"{v.name}: {self.annotation(v.kind)}" for v in parameters]
        arrays = [container for container in self.containers if container.make != "field"]
        given, construct = [], ""
        if self.random.random() < 0.25:
            signature.append("c: qd.template()")
            parameters.append(Variable("c", Kind(self.options["default_ip"]), writable=False, static=True))
            given.append("2")
        if self.passing == "plain":
            fields = [c for c in self.containers if c.make == "field" and self.random.random() < 0.3]
            signature += [f"{c.name}: {self.array_annotation(c)}" for c in arrays] + [f"{c.name}: qd.template()" for c in fields]
            given += [container.name for container in [*arrays, *fields]]
        elif self.passing == "dataclass" and arrays:
            lines = [f"    {c.name}: {self.array_annotation(c)}" for c in arrays]
            frozen = self.random.choice(("", "(frozen=True)"))
            self.program.types += [f"@dataclasses.dataclass{frozen}", "class D:", *lines, "    scale: qd.i32"]
            parameters.append(Variable("d.scale", Kind("i32"), writable=False))
            signature.append("d: D")
            given.append(f"D({', '.join(c.name for c in arrays)}, 3)")
        result = Kind(self.any_dtype()) if self.random.random() < 0.7 else self.random.choice((STRUCT, self.any_kind(1)))
        self.scopes = [list(parameters)]
        body: list[Statement] = []
        for _ in range(self.random.choice((2, 3, 4))):
            body += self.parallel_loop() if self.random.random() < 0.5 else self.statement(2)
            if self.random.random() < 0.1:
                body.append(Statement(f"if {self.comparison(2).text}:", [Statement(f"return {self.of_kind(result, 1)}")]))
        pair = self.random.random() < 0.15
        body.append(Statement(f"return {self.of_kind(result, 2)}" + (f", {self.of_kind(result, 1)}" if pair else "")))
        if pair:
            body = [statement for statement in body if not (statement.body and statement.body[0].text.startswith("return"))]
        annotation = f"tuple[{self.annotation(result)}, {self.annotation(result)}]" if pair else self.annotation(result)
        if self.passing == "object":
            makers = [f"self.{c.name} = {c.name}" for c in self.containers]
            method = Statement(f"def k(self, {', '.join(signature)}) -> {annotation}:", body)
            start = Statement("def __init__(self):", [Statement(text) for text in makers])
            self.program.functions += [Statement("@qd.data_oriented"), Statement("class C:", [start, Statement("@qd.kernel"), method])]
        else:
            self.program.functions += [Statement("@qd.kernel"), Statement(f"def k({', '.join(signature)}) -> {annotation}:", body)]
        for values in ((3, 5, 2), (-7, 100, 1)):
            arguments = [self.argument(v.kind, value) for v, value in zip(parameters, values, strict=False) if v.name[0] == "n"]
            self.program.launches.append(f"{'C().k' if self.passing == 'object' else 'k'}({', '.join([*arguments, *given])})")

    def parameter_kind(self) -> Kind:
        roll = self.random.random()
        return STRUCT if roll < 0.1 else self.any_kind() if roll < 0.3 else Kind(self.any_dtype())

    def argument(self, kind: Kind, value: int) -> str:
        """A kernel argument in Python."""
        if kind == STRUCT:
            return f"S({', '.join(f'{name}={self.argument(member, value)}' for name, member in self.members.items())})"
        number = str((value if kind.dtype[0] != "u" else abs(value)) if kind.dtype not in FLOATS else value / 4)
        return f"{self.annotation(kind)}({number})" if kind.shape else number

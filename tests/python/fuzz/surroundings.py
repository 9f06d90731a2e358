"""Everything around the statements: types, containers, funcs, the kernel and its arguments."""

from __future__ import annotations

import os

from .callable_forms import PREAMBLE
from .generator import FLOATS, INNER, STRUCT, Container, Function, Kind, Variable
from .loops import LoopGenerator
from .program import Program, Statement

RECURSION = os.environ.get("FUZZ_ARCH") not in ("vulkan", "metal")

# Types that torch has, too.
TORCH = ("i8", "i16", "i32", "i64", "u8", "f16", "f32", "f64")


class ProgramGenerator(LoopGenerator):
    """Makes whole programs. One process in eight loads torch."""

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
        members = {
            "a": Kind(self.any_dtype()),
            "b": Kind(self.any_dtype()),
            "v": Kind(self.any_dtype(), (self.random.choice((2, 3)),)),
        }
        if self.random.random() < 0.3:
            members["m"] = Kind(self.any_dtype(), (2, 2))
        if self.random.random() < 0.3:
            members["r"] = INNER
        self.structs = {INNER: {"p": Kind(self.any_dtype()), "q": self.any_kind(1)}, STRUCT: members}
        for kind, own in self.structs.items():
            lines = [f"    {name}: {self.annotation(member)}" for name, member in own.items()]
            self.program.types += ["@qd.dataclass", f"class {kind.dtype}:", *lines]
        self.program.types += ["    @qd.func", "    def grow(self, k):", "        self.a += k", "        return self.v.sum()"]
        self.program.types += PREAMBLE
        self.program.types += ["@qd.func", "def item_of(v, k):", "    return v[k % v.size]"]

    def make_containers(self) -> None:
        self.passing = self.random.choice(("plain", "plain", "dataclass", "object"))
        length = self.random.choice((1, 3, 5, 9, 16, 17, 17, 33))
        for number in range(self.random.choice((2, 3, 4))):
            kind = self.any_kind() if self.random.random() < 0.85 else STRUCT
            shape: tuple[int, ...] = (length,)
            if number > 0 and self.random.random() < 0.4:
                shape = (length, self.random.choice((2, 3, 5))) if self.random.random() < 0.8 else ()
            container = Container(f"x{number}", kind, shape, self.random.choice(self.makes_of(kind, shape)))
            container.narrow = kind.dtype == "f32" and container.make != "numpy" and self.random.random() < 0.3
            if container.make == "field" and shape and self.random.random() < 0.15:
                container.offset = (-3, 2)[: len(shape)] if number % 2 else (5, 0)[: len(shape)]
            holder = {"dataclass": "d." if container.make != "field" else "", "object": "self."}.get(self.passing, "")
            container.text = holder + container.name
            self.containers.append(container)
            self.program.containers.append((container.name, self.setup_of(container)))
            self.program.results.append(self.result_of(container))

    def makes_of(self, kind: Kind, shape: tuple[int, ...]) -> list[str]:
        """What Python may make for the elements of a container."""
        if not shape:
            return ["field"] if kind.is_struct else ["field", "ndarray", "ndarray"]
        if kind.is_struct:
            return ["field", "ndarray"]
        makes = ["field", "ndarray", "tensor"] + ["numpy"] * (self.passing != "object")
        if len(shape) == 1 and shape[0] > 1:
            makes.append("view")
        if self.uses_torch and self.passing == "plain" and kind.dtype in TORCH:
            makes += ["torch", "torch"]
        return makes

    def result_of(self, container: Container) -> str:
        """What `run` gives of a container: all its memory."""
        whole = container.name + "_all" if container.make in ("view", "numpy", "torch") else container.name
        return whole + {"numpy": "", "torch": ".float().numpy()" if container.narrow else ".numpy()"}.get(container.make, ".to_numpy()")

    def setup_of(self, container: Container) -> list[str]:
        """The lines that make and fill a container."""
        name, kind, shape = container.name, container.kind, container.shape
        offset = f", offset={container.offset}" if container.offset else ""
        if kind.is_struct:
            layout = self.random.choice(("", ", layout=qd.Layout.SOA"))
            return [f"{name} = S.{container.make}(shape={shape}{layout}{offset})", f"{name}.from_numpy({self.struct_data(kind, shape)})"]
        if container.make in ("numpy", "torch"):
            return self.external_setup(container)
        owner = "qd." + {0: "", 1: "Vector.", 2: "Matrix."}[len(kind.shape)]
        extents, options = "".join(f"{extent}, " for extent in kind.shape), offset
        if container.make == "view":
            begin = self.random.randrange(3)
            length = shape[0] + begin + self.random.randrange(3)
            data = self.data_of(kind.dtype, (length, *kind.shape))
            make = f"{name}_all = {owner}ndarray({extents}qd.{container.stored.dtype}, shape={length})"
            return [f"global {name}_all", make, f"{name}_all.from_numpy({data})", f"{name} = {name}_all[{begin}:{begin + shape[0]}]"]
        if container.make == "field" and len(shape) == 2 and self.random.random() < 0.3:
            options += ', order="ji"'
        if container.make == "tensor":
            options += f", backend=qd.Backend.{self.random.choice(('FIELD', 'NDARRAY'))}"
            options += ", layout=(1, 0)" if len(shape) == 2 and self.random.random() < 0.5 else ""
        make = f"{name} = {owner}{container.make}({extents}qd.{container.stored.dtype}, shape={shape}{options})"
        return [make, f"{name}.from_numpy({self.data_of(kind.dtype, (*shape, *kind.shape))})"]

    def external_setup(self, container: Container) -> list[str]:
        """A NumPy array or torch tensor, perhaps a part of a larger one or a transposed one."""
        name, kind, shape = container.name, container.kind, container.shape
        whole, part = shape, ""
        roll = self.random.random()
        if roll < 0.3:
            whole, part = (2 * shape[0] + 1, *shape[1:]), "[1::2]"
        elif roll < 0.45 and container.make == "numpy":
            part = "[::-1]"
        elif roll < 0.7 and len(shape) == 2:
            axes = ", ".join(map(str, (1, 0, *range(2, 2 + len(kind.shape)))))
            whole, part = (shape[1], shape[0]), f".transpose({axes})" if container.make == "numpy" else f".permute({axes})"
        data = self.data_of(kind.dtype, (*whole, *kind.shape))
        data = data if container.make == "numpy" else f"torch.from_numpy({data})" + ".to(torch.bfloat16)" * container.narrow
        return [f"global {name}_all", f"{name}_all = {data}", f"{name} = {name}_all{part}"]

    def struct_data(self, kind: Kind, shape: tuple[int, ...]) -> str:
        """A dict with an array for each member, and one like it for each struct among them."""
        items = [
            f'"{key}": ' + (self.struct_data(member, shape) if member.is_struct else self.data_of(member.dtype, (*shape, *member.shape)))
            for key, member in self.structs[kind].items()
        ]
        return f"{{{', '.join(items)}}}"

    def data_of(self, dtype: str, shape: tuple[int, ...]) -> str:
        numpy = f"np.{'float' if dtype in FLOATS else 'uint' if dtype[0] == 'u' else 'int'}{dtype[1:]}"
        if dtype in FLOATS:
            return f"np.asarray(values.integers(-40, 40, {shape}) / 8).astype({numpy})"
        if self.random.random() < 0.5:
            return f"values.integers({0 if dtype[0] == 'u' else -9}, 9, {shape}).astype({numpy})"
        return f"values.integers(np.iinfo({numpy}).min, np.iinfo({numpy}).max, {shape}, {numpy}, endpoint=True)"

    def make_function(self) -> None:
        name = self.fresh("f")
        kinds = [
            self.any_kind(1) if self.random.random() < 0.85 else self.random.choice((STRUCT, INNER))
            for _ in range(self.random.choice((1, 2, 2, 3)))
        ]
        several = self.random.random() < 0.2
        real = not several and self.random.random() < 0.25
        by_reference = [self.random.random() < 0.2 and not (kind.is_struct or several or real) for kind in kinds]
        roll = self.random.random()
        result: Kind | tuple[Kind, ...] = Kind(self.any_dtype()) if roll < 0.7 else self.any_kind(1) if roll < 0.85 else STRUCT
        parameters = [Variable(f"p{k}", kind) for k, kind in enumerate(kinds)]
        texts = []
        for parameter, reference in zip(parameters, by_reference, strict=True):
            annotated = real or (not reference and self.random.random() < 0.3)
            texts.append(parameter.name + (": qd.template()" if reference else f": {self.annotation(parameter.kind)}" if annotated else ""))
        constant, recursive = not real and self.random.random() < 0.25, real and self.random.random() < 0.5 and RECURSION
        last = parameters[-1]
        has_default = not (real or constant or by_reference[-1] or last.kind.shape or last.kind.is_struct) and self.random.random() < 0.4
        if has_default:
            texts[-1] = f"*, {last.name}: {self.annotation(last.kind)} = {self.argument(last.kind, 3)}"
        if recursive:
            texts.append("depth: qd.i32")
            parameters.append(Variable("depth", Kind("i32"), writable=False))
        if constant:
            texts.append("c: qd.template()")
            parameters.append(Variable("c", Kind(self.options["default_ip"]), writable=False, static=True))
        hidden, self.containers = self.containers, []
        self.scopes, self.local_functions, self.returns = [list(parameters)], [[]], None if several else result
        again = [self.of_kind(kind, 1) for kind in kinds]
        body = self.block(self.random.choice((1, 2, 3)), 1)
        if constant and self.random.random() < 0.5:
            body.append(Statement("if qd.static(c > 1):", self.block(1, 0)))
        if recursive:
            body += [
                Statement("if depth <= 0:", [Statement(f"return {self.of_kind(result, 1)}")]),
                Statement(f"y = {name}({', '.join(again)}, depth - 1)"),
            ]
            self.scopes[-1].append(Variable("y", result))
        if several:
            result = (Kind(self.any_dtype()), self.any_kind(1))
            body.append(Statement(f"return {self.of_kind(result[0], 2)}, {self.of_kind(result[1], 1)}"))
        else:
            body.append(Statement(f"return {self.of_kind(result, 2)}"))
        for dtype in () if real else self.returned:  # returns of other types promote the result
            result = Kind(self.promote(result.dtype, dtype, numeric=False))
        self.scopes, self.returns, self.containers, self.returned = [[]], None, hidden, []
        arrow = f" -> {self.annotation(result)}" if real else ""
        decorator = Statement("@qd.real_func" if real else "@qd.func")
        self.program.functions += [decorator, Statement(f"def {name}({', '.join(texts)}){arrow}:", body)]
        self.functions.append(Function(name, kinds, by_reference, result, constant, recursive, int(has_default)))

    def array_annotation(self, container: Container) -> str:
        kind = container.stored
        if container.make == "tensor":
            return "qd.Tensor"
        if container.make == "view":
            return self.random.choice(("qd.BufferView", f"qd.BufferView[{self.annotation(kind)}]"))
        return f"qd.types.ndarray(dtype={self.annotation(kind)}, ndim={len(container.shape)})"

    def make_kernel(self) -> None:
        parameters = [Variable(f"n{k}", self.parameter_kind(), writable=False) for k in range(self.random.choice((1, 2, 3)))]
        signature = [f"{v.name}: {self.annotation(v.kind)}" for v in parameters]
        arrays = [container for container in self.containers if container.make != "field"]
        given = []
        if self.random.random() < 0.25:
            signature.append("c: qd.template()")
            parameters.append(Variable("c", Kind(self.options["default_ip"]), writable=False, static=True))
            given.append("constant")
        if self.random.random() < 0.2:
            signature.append("o: " + self.random.choice(("qd.types.NDArray[qd.i32, 1] | None", "qd.Tensor | None")))
            given.append("optional")
        if self.passing == "plain":
            fields = [c for c in self.containers if c.make == "field" and self.random.random() < 0.3]
            signature += [f"{c.name}: {self.array_annotation(c)}" for c in arrays] + [f"{c.name}: qd.template()" for c in fields]
            given += [container.name for container in [*arrays, *fields]]
        elif self.passing == "dataclass" and arrays:
            frozen = self.random.choice(("", "(frozen=True)"))
            inner = [container for container in arrays if self.random.random() < 0.3]
            for container in inner:
                container.text = f"d.e.{container.name}"
            outer = [container for container in arrays if container not in inner]
            for name, members in (("E", inner), ("D", outer)):
                lines = [f"    {c.name}: {self.array_annotation(c)}" for c in members] + ["    e: E"] * (name == "D")
                self.program.types += [f"@dataclasses.dataclass{frozen}", f"class {name}:", *lines, "    scale: qd.i32"]
            parameters += [Variable("d.scale", Kind("i32"), writable=False), Variable("d.e.scale", Kind("i32"), writable=False)]
            signature.append("d: D")
            given.append(f"D({', '.join(c.name for c in outer)}{', ' * bool(outer)}E({', '.join([*(c.name for c in inner), '5'])}), 3)")
        read_at_launch = self.random.random() < 0.5  # the numbers of the object
        if self.passing == "object":
            numbers = {"count": Kind(self.options["default_ip"]), "gain": Kind(self.options["default_fp"])}
            parameters += [Variable(f"self.{name}", kind, False, static=not read_at_launch) for name, kind in numbers.items()]
            scaled = Kind(self.promote("f32", self.options["default_fp"]))
            self.functions.append(Function("self.scaled", [Kind("f32")], [False], scaled))
        result = Kind(self.any_dtype()) if self.random.random() < 0.7 else self.random.choice((STRUCT, self.any_kind(1)))
        self.scopes, self.local_functions = [list(parameters)], [[]]
        body: list[Statement] = []
        if "optional" in given:
            name = self.fresh("y")
            body += [Statement("if qd.static(o is None):", [Statement(f"{name} = qd.i32(7)")])]
            body += [Statement("else:", [Statement(f"{name} = o[{self.index(3)}]")])]
            # A loop that assigned it would make one of its own.
            self.scopes[-1].append(Variable(name, Kind("i32"), writable=False))
        for _ in range(self.random.choice((2, 3, 4))):
            body += self.take_window() if self.random.random() < 0.2 else []
            body += self.parallel_loop() if self.random.random() < 0.5 else self.statement(2)
            if self.random.random() < 0.1:
                body.append(Statement(f"if {self.comparison(2).text}:", [Statement(f"return {self.of_kind(result, 1)}")]))
        pair = self.random.random() < 0.15
        body.append(Statement(f"return {self.of_kind(result, 2)}" + (f", {self.of_kind(result, 1)}" if pair else "")))
        if pair:
            body = [statement for statement in body if not (statement.body and statement.body[0].text.startswith("return"))]
        annotation = f"tuple[{self.annotation(result)}, {self.annotation(result)}]" if pair else self.annotation(result)
        if self.passing == "object":
            makers = [f"self.{c.name} = {c.name}" for c in self.containers if not c.parent] + ["self.count, self.gain = count, gain"]
            func = [Statement("@qd.func"), Statement("def scaled(self, p0: qd.f32):", [Statement("return p0 * self.gain")])]
            method = Statement(f"def k(self, {', '.join(signature)}) -> {annotation}:", body)
            start = Statement("def __init__(self, count, gain):", [Statement(text) for text in makers])
            decorator = Statement("@qd.data_oriented" + "(template_primitives=False)" * read_at_launch)
            self.program.functions += [decorator, Statement("class C:", [start, *func, Statement("@qd.kernel"), method])]
        else:
            self.program.functions += [Statement("@qd.kernel"), Statement(f"def k({', '.join(signature)}) -> {annotation}:", body)]
        known = {"constant": ("2", "5"), "optional": ("None", "np.arange(4, 7, dtype=np.int32)")}
        for number, values in enumerate(((3, 5, 2), (-7, 100, 1))):
            chosen = [known[text][number] if text in known else text for text in given]
            arguments = [self.argument(v.kind, value) for v, value in zip(parameters, values, strict=False) if v.name[0] == "n"]
            kernel = ("C(3, 0.5).k", "C(2, -0.75).k")[number] if self.passing == "object" else "k"
            self.program.launches.append(f"{kernel}({', '.join([*arguments, *chosen])})")

    def parameter_kind(self) -> Kind:
        roll = self.random.random()
        return STRUCT if roll < 0.1 else self.any_kind() if roll < 0.3 else Kind(self.any_dtype())

    def argument(self, kind: Kind, value: int) -> str:
        """A kernel argument in Python."""
        if kind.is_struct:
            members = [f"{name}={self.argument(member, value)}" for name, member in self.structs[kind].items()]
            return f"{kind.dtype}({', '.join(members)})"
        number = str((value if kind.dtype[0] != "u" else abs(value)) if kind.dtype not in FLOATS else value / 4)
        return f"{self.annotation(kind)}({number})" if kind.shape else number

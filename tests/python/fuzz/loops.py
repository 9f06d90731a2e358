"""Loops for the generator: those that run in order, parallel ones, and what the iterations of these combine."""

from __future__ import annotations

from .generator import INTEGERS, Container, Kind, Variable
from .program import Statement
from .statements import Form, StatementGenerator


class LoopGenerator(StatementGenerator):
    """Adds loops."""

    def nested_forms(self) -> list[Form]:
        forms = [*super().nested_forms(), self.counted_loop, self.extreme_loop, self.while_loop, self.unrolled_loop]
        return [*forms, self.nested_ndrange, self.items_loop, self.container_loop]

    def in_order(self) -> list[Statement]:
        """What tells a loop to run in order where it may be an outermost one, also through a call."""
        is_inner = self.own_index is not None or self.ordered
        return [] if is_inner else [Statement("qd.loop_config(serialize=True)")]

    def rounds(self, kind: str, count: int, depth: int, *variables: Variable) -> list[Statement]:
        """The body of a loop."""
        self.loops.append(kind)
        body = self.block(count, depth - 1, *variables)
        self.loops.pop()
        return body

    def some_rounds(self) -> int:
        return self.random.choice((1, 2))

    def small_bound(self, dtype: str) -> str:
        """A bound from 0 to 3 that is known at run time."""
        return f"qd.cast({self.integer(1).text} & 3, qd.{dtype})"

    def counter(self, *bounds: str) -> Kind:
        """The type of a counter between bounds of these types."""
        return Kind("i64" if {"i64", "u64", "u32"} & set(bounds) else "i32")

    def counted_loop(self, depth: int) -> list[Statement]:
        """A loop over a range that runs in order."""
        name, dtype = self.fresh("i"), self.random.choice(("i32", "i32", *INTEGERS))
        form = self.random.choice(("4", "2, 5", "6, 0, -2", "3", "-2, 2", "{}", "{}, 3", "0, {}, 2"))
        values = f"range({form.format(self.small_bound(dtype))})"
        if self.random.random() < 0.15:
            values = f"(range({self.random.choice(('2', '1, 3'))}) if {self.comparison(1).text} else {values})"
        counter = Variable(name, self.counter(dtype if "{}" in form else "i32"), writable=False)
        head, body = self.in_order(), self.rounds("sequential", self.some_rounds(), depth, counter)
        return [*head, Statement(f"for {name} in {values}:", body), *self.otherwise(depth)]

    def extreme_loop(self, depth: int) -> list[Statement]:
        """A loop that runs in order between bounds at the ends of a type, a few rounds or none, with steps that may differ, too."""
        name, dtype = self.fresh("i"), self.random.choice(("i32", "i32", "i64"))
        a, b = self.small_bound(dtype), self.small_bound(dtype)
        five, seven = (f"qd.{dtype}({number})" for number in (5, 7))  # a literal may be wider
        top = f"qd.{dtype}({2**31 - 1 if dtype == 'i32' else 2**63 - 1})"
        bounds = [
            f"{top} - {a}, {top}",
            f"{top} - {seven} + {a}, {top}, {five} + {b}",
            f"{top} - {a}, -{top} + {b}",
            f"-{top} + {a}, {top} - {b}, {seven} - {five} - {top}",
            f"-{top} + {a}, -{top} - qd.{dtype}(1), -1",
            f"-{top} - qd.{dtype}(1), -{top} + {a}, qd.{dtype}(1) + {b}",
            f"({top} - {a} if {self.comparison(1).text} else {top} - {five}), {top}",
            f"-{top}, -{top} + ({a} if {self.comparison(1).text} else -qd.{dtype}(1))",
            f"{top} - {a}, {top} - {seven}, {five} - {seven} - {b}",
        ]
        head, values = self.in_order(), f"range({self.random.choice(bounds)})"
        body = self.rounds("sequential", self.some_rounds(), depth, Variable(name, Kind(dtype), writable=False))
        return [*head, Statement(f"for {name} in {values}:", body), *self.otherwise(depth)]

    def otherwise(self, depth: int) -> list[Statement]:
        """Sometimes an `else` of a loop."""
        return [Statement("else:", self.block(1, depth - 1))] if self.random.random() < 0.15 else []

    def while_loop(self, depth: int) -> list[Statement]:
        name = self.fresh("w")
        body = self.rounds("sequential", self.some_rounds(), depth, Variable(name, Kind("i32"), writable=False))
        head, limit = [Statement(f"{name} += 1")], self.random.choice((2, 4))
        if self.random.random() < 0.3:
            head.append(Statement(f"if {name} > {limit}:", [Statement("break")]))
            return [Statement(f"{name}: qd.i32 = 0"), Statement("while True:", [*head, *body]), *self.otherwise(depth)]
        header = Statement(f"while {name} < {limit} and {self.comparison(1).text}:", [*head, *body])
        return [Statement(f"{name}: qd.i32 = 0"), header, *self.otherwise(depth)]

    def items_loop(self, depth: int) -> list[Statement]:
        """A loop over the items of vectors and lists, which is unrolled."""
        names = [self.fresh("i") for _ in range(2)]
        first, second = (self.vector(1, (extent,)) for extent in (self.random.choice((2, 3)), 3))
        if " if " in first.text:  # only ranges are chosen at run time
            first = self.fresh_vector(1, first.kind.shape)
        one, other = (Variable(name, Kind(vector.dtype), writable=False) for name, vector in zip(names, (first, second), strict=True))
        number = Variable(names[0], Kind(self.options["default_ip"]), writable=False, static=True)
        forms = [
            (f"for {names[0]} in {first.text}:", [one]),
            (f"for {names[0]}, {names[1]} in zip({first.text}, {second.text}):", [one, other]),
            (f"for {names[0]}, {names[1]} in enumerate({second.text}):", [number, other]),
            (f"for {names[0]} in reversed(range(3)):", [number]),
            (
                f"for {names[0]}, {names[1]} in qd.static(qd.ndrange(2, (1, 3))):",
                [number, Variable(names[1], number.kind, False, False, True)],
            ),
            (f"for {names[0]} in [{self.runtime(1).text}]:", []),
        ]
        header, variables = self.random.choice(forms)
        return [Statement(header, self.rounds("static", self.some_rounds(), depth, *variables))]

    def container_loop(self, depth: int) -> list[Statement]:
        """A loop over a container, or a part of one, that runs in order inside another loop."""
        known = [c for c in self.containers if 0 < len(c.shape) < 3 and c.use in ("read", "own") and c.make != "numpy" and c.shape[0] < 17]
        if not known or self.own_index is None:
            return self.counted_loop(depth)
        container = self.random.choice(known)
        names = [self.fresh("i") for _ in container.shape]
        part = (
            f"[{', '.join(['1:3'] * len(names))}]" if not (container.offset or container.make == "view" or container.kind.is_struct) else ""
        )
        body = self.rounds("sequential", 1, depth, *(Variable(name, Kind("i32"), writable=False) for name in names))
        return [Statement(f"for {', '.join(names)} in {container.text}{part}:", body)]

    def nested_ndrange(self, depth: int) -> list[Statement]:
        """A product of ranges that runs in order, and its forms."""
        names, dtypes = [self.fresh("i"), self.fresh("i")], [self.random.choice(("i32", *INTEGERS)) for _ in range(2)]
        forms = [self.random.choice(choices) for choices in (("2", "(1, 3)", "(-1, 1)", "{}", "(-1, {}, 2)"), ("3", "(0, 2)", "({}, 2)"))]
        texts = [form.format(self.small_bound(dtype)) for form, dtype in zip(forms, dtypes, strict=True)]
        grouped, axes = self.random.random() < 0.3, self.random.choice(("", "", ", axes=(1, 0)"))
        counter = self.counter(*(dtype for form, dtype in zip(forms, dtypes, strict=True) if "{}" in form))
        kind, writable = Kind(counter.dtype, (2,)) if grouped else counter, self.random.random() < 0.5
        variables = [Variable(name, kind, writable=writable) for name in (names[:1] if grouped else names)]
        text = f"qd.ndrange({', '.join(texts)}{axes})"
        head = f"for {names[0]} in qd.grouped({text}):" if grouped else f"for {', '.join(names)} in {text}:"
        return [*self.in_order(), Statement(head, self.rounds("sequential", self.some_rounds(), depth, *variables))]

    def unrolled_loop(self, depth: int) -> list[Statement]:
        """A loop over what is known while compiling, perhaps left when that says so."""
        name, kind = self.fresh("s"), Kind(self.options["default_ip"])
        body = self.rounds("static", self.some_rounds(), depth, Variable(name, kind, writable=False, static=True))
        if self.random.random() < 0.3:
            leave = [Statement(self.random.choice(("break", "continue")))] if self.random.random() < 0.4 else []
            condition = Statement(f"if qd.static({name} % 2 == 0):", self.block(1, 0) + leave)
            body.insert(self.random.randrange(len(body) + 1) if leave else len(body), condition)
        items = self.random.choice(("range(2)", "range(3)", "(3, 1)", "[0, 5, 2]", "range(4, 0, -2)"))
        return [Statement(f"for {name} in qd.static({items}):", body)]

    def parallel_loop(self) -> list[Statement]:
        """A loop at the top of the kernel; decides first what its iterations may do with each container and variable."""
        driver = self.random.choice([container for container in self.containers if container.shape])
        for container in self.containers:
            same = (container.shape, container.offset) == (driver.shape, driver.offset)
            integer = container.kind.dtype in INTEGERS  # of structs nothing is shared
            container.use = self.random.choice(("own", "own", "read") if same else ("read", "atomic") if integer else ("read",))
        self.separate_windows(driver)
        header, variables, own_index = self.parallel_header(driver)
        total = Variable(self.fresh("t"), Kind(self.random.choice(("i32", "i64", "u32"))))
        shared = [variable for scope in self.scopes for variable in scope]
        for variable in shared:
            variable.shared = True
        self.own_index = own_index
        self.loops.append("parallel")
        outer_functions, self.local_functions = self.local_functions, [[]]  # they may read what is shared
        body = self.block(self.random.choice((1, 2, 3)), 2, *variables)
        self.scopes.append(variables)
        body += self.reduction(total)
        self.scopes.pop()
        self.loops.pop()
        self.local_functions = outer_functions
        self.own_index = None
        for variable in shared:
            variable.shared = False
        for container in self.containers:
            container.use = "free"
        self.scopes[-1].append(total)
        loop = Statement(header, body)
        if self.random.random() < 0.1:  # a condition that can be read beforehand
            loop = Statement(f"if {total.name} {self.random.choice(('==', '>', '<='))} 0:", [loop])
        return [Statement(f"{total.name} = qd.{total.kind.dtype}(0)"), loop]

    def parallel_header(self, driver: Container) -> tuple[str, list[Variable], str]:
        """A header with an iteration for each element of a container, its variables, and the index of the element."""
        rank = len(driver.shape)
        names = [self.fresh("i") for _ in range(rank)]
        if rank == 1 and not driver.offset and self.random.random() < 0.2:
            return self.counter_header(names[0], driver.shape[0])
        starts = driver.offset or (0,) * rank
        ranges = ", ".join(f"({start}, {start + extent})" for start, extent in zip(starts, driver.shape, strict=True))
        sizes = ranges if driver.offset else ", ".join(map(str, driver.shape))
        forms = {
            "struct": f"for {', '.join(names)} in {driver.text}:",
            "ndrange": f"for {', '.join(names)} in qd.ndrange({sizes}):",
            "range": f"for {names[0]} in range({starts[0]}, {starts[0] + driver.shape[0]}):",
            "grouped": f"for {names[0]} in qd.grouped({driver.text}):",
            "grouped ndrange": f"for {names[0]} in qd.grouped(qd.ndrange({sizes})):",
            "turned ndrange": f"for {', '.join(names)} in qd.ndrange({ranges}, axes=(1, 0)):",
        }
        if rank == 1 and not driver.offset and driver.make not in ("field", "view"):
            forms["slice"] = f"for {names[0]} in {driver.text}[{self.random.choice(('1:', ':4', '2:9', '::2'))}]:"
        twins = [c.text for c in self.containers if (c.shape, c.offset, c.use) == (driver.shape, (), "own") and c.make != "numpy"]
        if len(twins) > 1:
            forms["zip"] = f"for {', '.join(names)} in qd.zip({', '.join(twins[:2])}):"
        left_out = {"range"} if rank == 2 else {"turned ndrange"} if rank == 1 else {"range", "turned ndrange"}
        if driver.make == "numpy":
            left_out |= {"struct", "grouped", "zip"}
        form = self.random.choice([form for form in forms if form not in left_out])
        if form.startswith("grouped"):
            return forms[form], [Variable(names[0], Kind("i32", (rank,)), writable=False)], names[0]
        return forms[form], [Variable(name, Kind("i32"), writable=False) for name in names], ", ".join(names)

    def counter_header(self, name: str, extent: int) -> tuple[str, list[Variable], str]:
        """A header whose counter goes to an end of its type, up or down, or in steps: the index follows from it."""
        dtype = self.random.choice(("i32", "i64"))
        top, many, one, three, zero = (f"qd.{dtype}({n})" for n in (2 ** (31 if dtype == "i32" else 63) - 1, extent, 1, 3, 0))
        bounds, index = self.random.choice(
            [
                (f"{top} - {many}, {top}", f"{top} - {one} - {name}"),
                (f"-{top} + {many}, -{top}, -1", f"{name} + {top} - {one}"),
                (f"{zero}, {many} * {three}, {self.small_bound(dtype)} * {zero} + {three}", f"{name} // 3"),
            ]
        )
        return f"for {name} in range({bounds}):", [Variable(name, Kind(dtype), writable=False)], index

    def separate_windows(self, driver: Container) -> None:
        """In a parallel loop one memory is accessed by one name, or only read."""
        for container in self.containers:
            if not container.parent:
                continue
            family = [c for c in self.containers if container.parent in (c.name, c.parent)]
            if driver in family:
                keep = driver
            elif all(c.use in ("own", "read") for c in family) and self.random.random() < 0.6:
                keep = None
            else:
                keep = self.random.choice(family)
            for member in family:
                member.use = ("read" if member.use != "none" else "none") if keep is None else member.use if member is keep else "none"

    def take_window(self) -> list[Statement]:
        """A part of an array, or of a part of one, under a name of its own."""
        arrays = [c for c in self.containers if c.make in ("ndarray", "numpy", "torch", "view") and self.is_line(c) and c.shape[0] > 4]
        if not arrays:
            return []
        array, name, first = self.random.choice(arrays), self.fresh("v"), self.random.randrange(3)
        count = self.random.randrange(2, array.shape[0] - first + 1)
        bounds = self.random.choice((f"[{first}:{first + count}]", f"[{first}:][:{count}]", f"[{first}::2]", "[::-1]", "[::-1][1::3]"))
        count = len(eval(f"range({array.shape[0]}){bounds}"))
        window = Container(name, array.kind, (count,), "view", name, parent=array.parent or array.name)
        self.containers.append(window)
        return [Statement(f"{name} = {array.text}{bounds}")]

    def reduction(self, total: Variable) -> list[Statement]:
        """What all iterations combine: into a variable, or into an element of one or two containers."""
        atomics = [container for container in self.containers if container.use == "atomic"]
        if atomics and self.random.random() < 0.6:
            chosen = self.random.sample(atomics, min(len(atomics), self.random.choice((1, 2))))
            return [statement for container in chosen for statement in self.update(*self.whole_element(container))]
        if self.random.random() < 0.6:
            return self.assigned_reduction(total.name, self.of_kind(total.kind, 2))
        return self.update(total.name, total.kind)

    def update(self, target: str, kind: Kind) -> list[Statement]:
        """An update that does not depend on the order of the iterations."""
        value = self.of_kind(kind, 2)
        if kind.shape or self.random.random() < 0.5:
            return [Statement(f"{target} {self.random.choice(('+=', '-='))} {value}")]
        return [Statement(f"qd.atomic_{self.random.choice(('add', 'max', 'min', 'xor'))}({target}, {value})")]

    def assigned_reduction(self, total: str, value: str) -> list[Statement]:
        """A reduction that is written as a read and a write."""
        name = self.fresh("v")
        forms = ["{0} = {0} + {1}", "{0} = {1} + {0}", "{0} = {0} - {1}", "{0} = {0} * {1}", "{0} = {0} ^ {1}", "{0} = {1} | {0}"]
        forms += ["{0} = {0} + {1} * 3 - {1}", "{0} = max({0}, {1})", "{0} = qd.min({1}, {0})", "{0} = {1} if {1} > {0} else {0}"]
        forms += ["{0} = qd.select({0} > {1}, {1}, {0})"]
        out = [Statement(f"{name} = {value}")]
        if self.random.random() < 0.3:
            comparison = self.random.choice(("{1} > {0}", "{0} <= {1}", "{0} > {1}", "{1} < {0}")).format(total, name)
            return [*out, Statement(f"if {comparison}:", [Statement(f"{total} = {name}")])]
        update = Statement(self.random.choice(forms).format(total, name))
        return [*out, Statement(f"if {self.condition(1).text}:", [update]) if self.random.random() < 0.3 else update]

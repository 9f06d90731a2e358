"""Statements for the generator."""

from __future__ import annotations

from collections.abc import Callable

from .generator import INNER, INTEGERS, STRUCT, Function, Kind, Variable
from .program import Statement
from .python_forms import PythonGenerator

Form = Callable[[int], list[Statement]]


class StatementGenerator(PythonGenerator):
    """Adds assignments, calls for their effect, and branches."""

    # statements

    def block(self, count: int, depth: int, *variables: Variable) -> list[Statement]:
        """Statements in a scope of their own."""
        self.scopes.append(list(variables))
        self.local_functions.append([])
        out = [statement for _ in range(count) for statement in self.statement(depth)]
        self.local_functions.pop()
        self.scopes.pop()
        return out

    def statement(self, depth: int) -> list[Statement]:
        return self.random.choice(self.simple_forms() + (self.nested_forms() if depth > 0 else []))(depth)

    def simple_forms(self) -> list[Form]:
        """What makes statements without a block. What stands here twice is made twice as often."""
        forms: list[Form] = [self.declare, self.declare, self.assign, self.assign, self.augment, self.augment, self.store, self.exchange]
        forms += [self.effect, self.several_targets, self.part_of_vector, self.chain, self.matrix_row, self.struct_operation]
        return [*forms, self.named_list, self.unchecked, self.named_object]

    def nested_forms(self) -> list[Form]:
        """What makes statements with blocks."""
        return [self.branch, self.branch, self.joined, self.match, self.local_function]

    def unchecked(self, depth: int) -> list[Statement]:
        """An assertion, which is not checked: what its condition does is left."""
        places = [(target, kind) for target, kind in self.targets() if kind.dtype in INTEGERS and not kind.shape]
        if not places or self.random.random() < 0.3:
            return [Statement(f"assert {self.condition(2).text}, 'not checked'")]
        target, kind = self.random.choice(places)
        effect = f"qd.atomic_{self.random.choice(('add', 'max', 'xor'))}({target}, {self.of_kind(kind, 1)}) > {self.runtime(1).text}"
        form = self.random.choice(("{0}", "{1} and {0}", "{0} or {1}", "not ({0})"))
        return [Statement(f"assert {form.format(effect, self.comparison(1).text)}")]

    def named_list(self, depth: int) -> list[Statement]:
        """A list or dict whose items are variables, each of its own type; or a copy of one with another item."""
        name, items = self.fresh("l"), [self.vector(1) if self.random.random() < 0.2 else self.runtime(2) for _ in range(2)]
        keys, text = ["0", "1"], f"[{items[0].text}, {items[1].text}]"
        if self.random.random() < 0.3:
            keys, text = ['"a"', '"b"'], f'{{"a": {items[0].text}, "b": {items[1].text}}}'
        self.scopes[-1] += [Variable(f"{name}[{key}]", item.kind) for key, item in zip(keys, items, strict=True)]
        out = [Statement(f"{name} = {text}")]
        if text[0] == "[" and self.random.random() < 0.4:
            other, last = self.fresh("l"), self.runtime(1)
            form = self.random.choice(("[*{}, {}]", "{} + [{}]"))
            out.append(Statement(f"{other} = {form.format(name, last.text)}"))
            self.scopes[-1] += [Variable(f"{other}[{position}]", item.kind) for position, item in enumerate((*items, last))]
        return out

    def chain(self, depth: int) -> list[Statement]:
        """A chain of comparisons that has an effect as far as it is evaluated."""
        places = [(target, kind) for target, kind in self.targets() if kind.dtype in INTEGERS and not kind.shape]
        if not places:
            return self.declare(depth)
        (target, kind), name = self.random.choice(places), self.fresh("y")
        links = [self.runtime(1).text, f"qd.atomic_{self.random.choice(('add', 'max', 'xor'))}({target}, {self.of_kind(kind, 1)})"]
        links += [self.scalar(1).text, self.runtime(1).text][: self.random.choice((0, 1, 2))]
        self.random.shuffle(links)
        ops = [self.random.choice("< <= > >= == !=".split()) for _ in links[1:]]
        text = links[0] + "".join(f" {op} {link}" for op, link in zip(ops, links[1:], strict=True))
        self.scopes[-1].append(Variable(name, Kind("u1")))
        return [Statement(f"{name} = {text}")]

    def matrix_row(self, depth: int) -> list[Statement]:
        """A store to a row of a matrix, or to an element of a row."""
        places = [(target, kind) for target, kind in self.targets() if not kind.is_struct and len(kind.shape) == 2]
        if not places:
            return self.declare(depth)
        target, kind = self.random.choice(places)
        row = f"{target}[{self.random.randrange(kind.shape[0])}]"
        if self.random.random() < 0.5:
            return [Statement(f"{row} {self.random.choice(('=', '+='))} {self.of_kind(Kind(kind.dtype, kind.shape[1:]), 1)}")]
        return [Statement(f"{row}[{self.index(kind.shape[1])}] {self.random.choice(('=', '*='))} {self.of_kind(Kind(kind.dtype), 1)}")]

    def struct_operation(self, depth: int) -> list[Statement]:
        """The members of a struct as variables, or a struct changed member by member."""
        kind = self.random.choice((STRUCT, INNER))
        if self.random.random() < 0.5:
            names = [self.fresh("y") for _ in self.structs[kind]]
            value = self.of_kind(kind, 1)
            self.scopes[-1] += [Variable(name, member) for name, member in zip(names, self.structs[kind].values(), strict=True)]
            return [Statement(f"{', '.join(names)} = {value}")]
        places = [(target, have) for target, have in self.targets() if have == kind]
        if not places:
            return self.declare(depth)
        target = self.random.choice(places)[0]
        return [Statement(f"{target} {self.random.choice(('+=', '-=', '*='))} {self.of_kind(kind, 1)}")]

    def joined(self, depth: int) -> list[Statement]:
        """A variable that both branches declare, perhaps with different types."""
        name, first, second = self.fresh("y"), self.runtime(2), self.runtime(2)
        branches = []
        for made in (first, second):
            before = self.block(self.random.choice((0, 1)), depth - 1)
            branches.append([*before, Statement(f"{name} = {made.text}")])
        out = [Statement(f"if {self.condition(2).text}:", branches[0]), Statement("else:", branches[1])]
        if self.random.random() < 0.2:  # one that is stored before it is read is a new variable
            made = self.runtime(2)
            self.scopes[-1].append(Variable(name, made.kind))
            return [*out, Statement(f"{name} = {made.text}")]
        self.scopes[-1].append(Variable(name, Kind(self.promote(first.dtype, second.dtype, numeric=False))))
        return [*out, Statement(f"{name} = {name}")]

    def declare(self, depth: int) -> list[Statement]:
        name = self.fresh("y")
        roll = self.random.random()
        if roll < 0.15:
            kind = self.random.choice((STRUCT, STRUCT, INNER))
            text = self.of_kind(kind, 2)
            if self.random.random() < 0.15:
                text = f"({text} {self.random.choice('+-*')} {self.of_kind(kind, 1)})"
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

    def several_targets(self, depth: int) -> list[Statement]:
        """Chained, unpacking and starred assignments; a swap; a func with several results."""
        roll = self.random.random()
        if roll < 0.25:
            made, names = self.runtime(2), [self.fresh("y"), self.fresh("y")]
            self.scopes[-1] += [Variable(name, made.kind) for name in names]
            return [Statement(f"{names[0]} = {names[1]} = {made.text}")]
        if roll < 0.45:
            scalars = [v for v in self.visible(writable=True) if not v.kind.is_struct and not v.kind.shape]
            pairs = [(a.name, b.name) for a in scalars for b in scalars if a.name < b.name and a.kind == b.kind]
            if pairs:
                left, right = self.random.choice(pairs)
                return [Statement(f"{left}, {right} = {right}, {left}")]
        several = [f for f in self.functions if isinstance(f.result, tuple)]
        if roll < 0.75 and several:
            function = self.random.choice(several)
            names = [self.fresh("y") for _ in function.result]
            text = f"{', '.join(names)} = {function.name}({', '.join(self.arguments_of(function, 1))})"
            self.scopes[-1] += [Variable(name, kind) for name, kind in zip(names, function.result, strict=True)]
            return [Statement(text)]
        first, rest = self.runtime(1), self.vector(1, (3,))
        names = [self.fresh("y") for _ in range(4)]
        text = f"{names[0]}, ({', '.join(names[1:])}) = {first.text}, {rest.text}"
        if self.random.random() < 0.3:
            text = f"{names[0]}, {names[1]}, *{names[2]} = {first.text}, *{rest.text}"
            self.scopes[-1] += [Variable(names[0], first.kind), Variable(names[1], Kind(rest.dtype))]
            return [Statement(text)]
        self.scopes[-1] += [Variable(names[0], first.kind)] + [Variable(name, Kind(rest.dtype)) for name in names[1:]]
        return [Statement(text)]

    def part_of_vector(self, depth: int) -> list[Statement]:
        """Stores to some components: by letters, or to a slice."""
        places = [(target, kind) for target, kind in self.targets() if not kind.is_struct and len(kind.shape) == 1]
        if not places:
            return self.declare(depth)
        target, kind = self.random.choice(places)
        extent = kind.shape[0]
        count = self.random.randrange(1, extent + 1)
        if self.random.random() < 0.6:
            part = "." + "".join(self.random.sample("xyzw"[:extent], count))
        else:
            first = self.random.randrange(extent - count + 1)
            part = f"[{first}:{first + count}]"
        shape = (count,) if count > 1 or part[0] == "[" else ()
        value = self.of_kind(Kind(kind.dtype, shape), 1)
        return [Statement(f"{target}{part} {self.random.choice(('=', '=', '+=', '*='))} {value}")]

    def targets(self) -> list[tuple[str, Kind]]:
        """Places that may be written here."""
        places = [(variable.name, variable.kind) for variable in self.visible(writable=True)]
        places += [(f"{name}.{path}", kind) for name, owner in places if owner.is_struct for path, kind in self.members_of(owner)]
        element = self.element(write=True)
        if element is not None:
            places.append((element.text, element.kind))
        return places

    def assign(self, depth: int) -> list[Statement]:
        places = self.targets()
        if not places:
            return self.declare(depth)
        target, kind = self.random.choice(places)
        elements = self.struct_elements(write=True)
        if elements and self.random.random() < 0.2:
            target, kind = self.random.choice(elements), STRUCT
        if kind.is_struct:
            return [Statement(f"{target} = {self.of_kind(kind, 2)}")]
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

    def exchange(self, depth: int) -> list[Statement]:
        """An element is stored to after it was read, and what was read goes to a variable then."""
        element = self.element(write=True)
        if element is None:
            return self.assign(depth)
        name, shape = self.fresh("y"), element.kind.shape
        value = self.assignable(self.vector(2, shape) if shape else self.scalar(2), element.dtype)
        out = [Statement(f"{name} = {element.text}"), Statement(f"{element.text} = {value.text}")]
        takers = [variable.name for variable in self.visible(writable=True) if variable.kind == element.kind]
        self.scopes[-1].append(Variable(name, element.kind))
        return [*out, Statement(f"{self.random.choice(takers)} = {name}")] if takers else out

    def augment(self, depth: int) -> list[Statement]:
        places = [(target, kind) for target, kind in self.targets() if not kind.is_struct]
        if not places:
            return self.declare(depth)
        target, kind = self.random.choice(places)
        ops = ["+=", "-=", "*="] + (["&=", "|=", "^=", "<<=", ">>=", "//=", "%="] if kind.dtype in INTEGERS else ["/="])
        right = self.vector(1, kind.shape) if kind.shape and self.random.random() < 0.6 else self.scalar(2)
        op = self.random.choice(ops)
        if right.dtype != kind.dtype or right.literal:
            right = self.to_dtype(right, kind.dtype)
        if len(kind.shape) == 2 and kind.shape[0] == kind.shape[1] and self.random.random() < 0.2:
            op, right = "@=", self.to_dtype(self.vector(1, kind.shape), kind.dtype)
        return [Statement(f"{target} {op} {right.text}")]

    def effect(self, depth: int) -> list[Statement]:
        """A call for its effect: an atomic, a method, a func that writes its argument."""
        roll = self.random.random()
        structs = [variable.name for variable in self.visible(writable=True) if variable.kind == STRUCT]
        structs += self.struct_elements(write=True)
        if roll < 0.3 and structs:
            name = self.fresh("y")
            numeric = self.promote(*[self.structs[STRUCT]["v"].dtype] * 2)
            argument = self.scalar(1, self.structs[STRUCT]["a"].dtype).text
            self.scopes[-1].append(Variable(name, Kind(numeric)))
            return [Statement(f"{name} = {self.random.choice(structs)}.grow({argument})")]
        known = [*self.functions, *(function for local in self.local_functions for function in local)]
        writers = [f for f in known if any(f.by_reference) and isinstance(f.result, Kind) and not f.result.is_struct]
        if roll < 0.6 and writers:
            return self.call_writer(self.random.choice(writers)) or self.assign(depth)
        places = [(target, kind) for target, kind in self.targets() if kind.dtype in INTEGERS]
        if not places:
            return self.assign(depth)
        target, kind = self.random.choice(places)
        name = self.fresh("y")
        word = self.random.choice(("add", "sub", "mul", "min", "max", "and", "or", "xor", "exchange", "cas"))
        value = self.of_kind(kind, 1)
        if word == "cas":
            if kind.shape or kind.dtype in ("i8", "i16", "u8", "u16"):
                return self.assign(depth)
            value = f"{self.random.choice((target, self.of_kind(kind, 0)))}, {value}"
        if self.random.random() < 0.2:
            return [Statement(f"qd.atomic_{word}({target}, {value})")]
        self.scopes[-1].append(Variable(name, kind))
        return [Statement(f"{name} = qd.atomic_{word}({target}, {value})")]

    def call_writer(self, function: Function) -> list[Statement] | None:
        arguments, taken = [], set()
        for position, (kind, reference) in enumerate(zip(function.kinds, function.by_reference, strict=True)):
            if not reference:
                is_named = position >= len(function.kinds) - function.defaults
                arguments.append(f"p{position}={self.of_kind(kind, 1)}" if is_named else self.of_kind(kind, 1))
                continue
            places = [target for target, have in self.targets() if have == kind and target.split("[")[0].split(".")[0] not in taken]
            if not places:
                return None
            arguments.append(self.random.choice(places))
            taken.add(arguments[-1].split("[")[0].split(".")[0])
        name = self.fresh("y")
        arguments += ["2"] * function.constant
        self.scopes[-1].append(Variable(name, function.result))
        return [Statement(f"{name} = {function.name}({', '.join(arguments)})")]

    def branch(self, depth: int) -> list[Statement]:
        test = self.condition(2).text
        if self.random.random() < 0.1:
            name, made = self.fresh("y"), self.integer(1)
            test = f"({name} := {made.text}) > {self.literal(False).text}"
            self.scopes[-1].append(Variable(name, made.kind))
        self.ordered += 1
        out = [Statement(f"if {test}:", self.block(self.random.choice((1, 2)), depth - 1) + self.leave())]
        if self.random.random() < 0.3:
            out.append(Statement(f"elif {self.condition(1).text}:", self.block(1, depth - 1)))
        if self.random.random() < 0.5:
            out.append(Statement("else:", self.block(self.random.choice((1, 2)), depth - 1)))
        self.ordered -= 1
        return out

    def leave(self) -> list[Statement]:
        """Sometimes a way out of the loop or func around."""
        roll = self.random.random()
        if roll < 0.2 and self.loops:
            return [Statement("continue" if self.loops[-1] == "parallel" or roll < 0.1 else "break")] if self.loops[-1] != "static" else []
        if roll > 0.85 and self.returns is not None:
            if self.returns.shape or self.returns.is_struct or roll > 0.95:
                return [Statement(f"return {self.of_kind(self.returns, 1)}")]
            made = self.scalar(1)
            self.returned.append(made.dtype)
            return [Statement(f"return {made.text}")]
        return []

    def match(self, depth: int) -> list[Statement]:
        """A choice by the value of an integer, or of two; by the type of a number, the members of a struct, or some items of a list."""
        if self.random.random() < 0.3:
            subject, patterns = self.random.choice(
                [
                    (self.runtime(1).text, ("int()", "float()", "bool()", "int() | bool()")),
                    (self.of_kind(STRUCT, 1), ("S(a=3)", "S(3)", "S(b=1, a=0)", "S()")),
                    (f"[{', '.join(self.integer(1).text for _ in range(3))}]", ("[3, *_]", "[*_, 1]", "[0, *_, 7]", "[_, _]", "[_, 5, _]")),
                ]
            )
            chosen = self.random.sample(patterns, self.random.choice((1, 2)))
            return [Statement(f"match {subject}:", [Statement(f"case {p}:", self.block(1, depth - 1)) for p in chosen])]
        pair = self.random.random() < 0.3
        subject = f"{self.integer(2).text}, {self.integer(1).text}" if pair else self.integer(2).text
        cases = []
        for _ in range(self.random.choice((1, 2, 3))):
            number, other = (self.random.choice(("0", "1", "3", "7", "-1", "100")) for _ in range(2))
            pattern = f"({number}, {self.random.choice(('_', other))})" if pair else self.random.choice((number, f"{number} | {other}"))
            guard = f" if {self.comparison(1).text}" if self.random.random() < 0.3 else ""
            cases.append(Statement(f"case {pattern}{guard}:", self.block(1, depth - 1) + self.leave()))
        if self.random.random() < 0.6:
            cases.append(Statement("case _:", self.block(1, depth - 1)))
        return [Statement(f"match {subject}:", cases)]

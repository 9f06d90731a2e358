"""Python's own containers, comprehensions, lambdas and inner functions for the generator."""

from __future__ import annotations

from .callable_forms import CallableGenerator
from .generator import INTEGERS, STRUCT, Container, Expression, Function, Kind, Variable
from .program import Statement


class PythonGenerator(CallableGenerator):
    """Adds what Python arranges while the kernel is compiled."""

    def python_form(self, depth: int) -> Expression:
        forms = [self.comprehension, self.list_item, self.dict_item, self.immediate_lambda, self.struct_comparison, self.window_item]
        forms += [self.sorted_item, self.made_dict_item, self.part_of_runtime_dict, self.called_form, self.called_form]
        return self.random.choice(forms)(depth)

    def inside(self, *variables: Variable) -> Inside:
        """A scope of its own, where what is outside cannot be written."""
        return Inside(self, variables)

    def static_integer(self) -> Variable:
        """A compile-time number of an unrolled loop or comprehension."""
        return Variable(self.fresh("s"), Kind(self.options["default_ip"]), writable=False, static=True)

    def comprehension(self, depth: int) -> Expression:
        """A sum, an extreme or a vector of what a comprehension makes."""
        variable = self.static_integer()
        with self.inside(variable):
            item = self.runtime(min(depth, 1)) if self.random.random() < 0.5 else self.integer(min(depth, 1))
        text = f"{item.text} for {variable.name} in {self.random.choice(('range(1, 3)', '(3, 0)', '[2, 5]', 'range(4, 0, -2)'))}"
        if self.random.random() < 0.2:
            text += f" if {variable.name} > 0"
        form = self.random.choice(("sum([{}])", "sum({})", "max([{}])", "min({})", "any([{}])", "map"))
        if form == "map":
            return Expression(f"sum(map(lambda {variable.name}: {item.text}, (1, 3)))", self.summed(item))
        if "any" in form:
            return Expression(form.format(text), Kind("u1"))
        if "sum" in form:
            return Expression(form.format(text), self.summed(item))
        if item.dtype not in INTEGERS:
            return Expression(f"qd.Vector([{text}])[{self.random.randrange(2 if '(3, 0)' not in text else 1)}]", Kind(item.dtype))
        return Expression(form.format(text), Kind(item.dtype))

    def summed(self, item: Expression) -> Kind:
        return Kind(self.promote(item.dtype, item.dtype))

    def list_item(self, depth: int) -> Expression:
        """An item of a list or tuple: a known index keeps its type, one of the run time gives the common type."""
        items = [self.runtime(depth) for _ in range(self.random.choice((2, 3)))]
        brackets = self.random.choice(("[{}]", "({})"))
        text, index = brackets.format(", ".join(item.text for item in items)), self.index(len(items), may_be_static=False)
        if index.isdigit():
            return Expression(f"{text}[{index}]", items[int(index)].kind)
        dtype = items[0].dtype
        for item in items[1:]:
            dtype = self.promote(dtype, item.dtype, numeric=False)
        return Expression(f"{text}[{index}]", Kind(dtype))

    def dict_item(self, depth: int) -> Expression:
        items = {key: self.runtime(depth) for key in ("a", "b")}
        text = ", ".join(f'"{key}": {item.text}' for key, item in items.items())
        key = self.random.choice("ab")
        return Expression(f'{{{text}}}["{key}"]', items[key].kind)

    def sorted_item(self, depth: int) -> Expression:
        """An integer of a sorted list."""
        dtype = self.random.choice(INTEGERS)
        items = ", ".join(self.scalar(depth, dtype).text for _ in range(3))
        turned = self.random.choice(("", ", reverse=True"))
        return Expression(f"sorted([{items}]{turned})[{self.index(3)}]", Kind(dtype))

    def made_dict_item(self, depth: int) -> Expression:
        """An item of what a comprehension makes, by a key that is known."""
        variable = self.static_integer()
        with self.inside(variable):
            item = self.integer(min(depth, 1))
        kept = self.random.choice(("", f" if {variable.name} in {{1, 3}}"))
        return Expression(f"{{{variable.name}: {item.text} for {variable.name} in (1, 2, 3){kept}}}[{self.random.choice('13')}]", item.kind)

    def part_of_runtime_dict(self, depth: int) -> Expression:
        """A part of a dict or set with keys that are known at run time only, of which some are often equal."""
        dtype = self.random.choice(INTEGERS)
        keys = [f"({self.scalar(min(depth, 1), 'i32').text} & {self.random.choice((0, 1, 3))})" for _ in range(4)]
        values = [self.scalar(min(depth, 1), dtype).text for _ in range(4)]
        pairs = "{" + ", ".join(map("{}: {}".format, keys[:3], values)) + "}"
        forms = [f"sum({pairs}.values())", f"max({pairs}.values())", f"{pairs}.get({keys[3]}, {values[3]})"]
        counts = [f"len({pairs})", f"sum({pairs})", f"len({{{', '.join(values)}}})", f"min({{{', '.join(keys)}}})"]
        return self.random.choice([Expression(form, Kind(dtype)) for form in forms] + [Expression(count, Kind("i32")) for count in counts])

    def parameters(self, count: int) -> list[Variable]:
        return [Variable(self.fresh("q"), self.any_kind(1), writable=False) for _ in range(count)]

    def immediate_lambda(self, depth: int) -> Expression:
        """A lambda that is called where it stands; it reads what is around."""
        parameters = self.parameters(self.random.choice((1, 2)))
        given = ", ".join(self.of_kind(parameter.kind, min(depth, 1)) for parameter in parameters)
        with self.inside(*parameters):
            made = self.runtime(depth)
        return Expression(f"(lambda {', '.join(p.name for p in parameters)}: {made.text})({given})", made.kind)

    def struct_comparison(self, depth: int) -> Expression:
        """Two structs, member by member. NaNs are equal to nothing, in any order."""
        return Expression(f"({self.of_kind(STRUCT, 1)} {self.random.choice(('==', '!='))} {self.of_kind(STRUCT, 1)})", Kind("u1"))

    def window_item(self, depth: int) -> Expression:
        """An element of a window that is made where it is used, or given to a func."""
        arrays = [c for c in self.containers if c.make in ("ndarray", "numpy", "torch", "view") and self.is_line(c) and c.shape[0] > 4]
        if not arrays:
            return self.arithmetic(depth)
        array = self.random.choice(arrays)
        begin = self.index(4)
        window = self.random.choice((f"{array.text}[{begin}:5]", f"{array.text}[{begin}:]", f"{array.text}[:5]", f"{array.text}[0:5][1:]"))
        if self.random.random() < 0.3:
            return Expression(f"{window}.size", Kind("i32"))
        if self.random.random() < 0.5:
            return self.component(Expression(f"{window}[0]", array.kind))
        return self.component(Expression(f"item_of({window}, {self.of_kind(Kind('i32'), 1)})", array.kind))

    def is_line(self, container: Container) -> bool:
        """Whether a container has one axis and elements that are no structs, and may be accessed anywhere."""
        return len(container.shape) == 1 and not container.kind.is_struct and container.use in ("free", "read") and not container.offset

    def local_function(self, depth: int) -> list[Statement]:
        """A function inside the kernel or func, or a lambda with a name; later statements call it."""
        name, parameters = self.fresh("g"), self.parameters(self.random.choice((1, 2)))
        kinds, by_reference = [parameter.kind for parameter in parameters], [False] * len(parameters)
        header = ", ".join(parameter.name for parameter in parameters)
        if self.random.random() < 0.5:
            with self.inside(*parameters):
                made = self.runtime(2)
            self.local_functions[-1].append(Function(name, kinds, by_reference, made.kind))
            return [Statement(f"{name} = lambda {header}: {made.text}")]
        by_reference = [self.random.random() < 0.25 for _ in parameters]
        marks = [
            ": qd.template()" if reference else f": {self.annotation(kind)}" if self.random.random() < 0.3 else ""
            for kind, reference in zip(kinds, by_reference, strict=True)
        ]
        header = ", ".join(f"{parameter.name}{mark}" for parameter, mark in zip(parameters, marks, strict=True))
        outer, self.returned = (self.returns, self.returned, self.loops), []
        result = Kind(self.any_dtype())
        self.returns, self.loops = result, []
        with self.inside(*[Variable(p.name, p.kind) for p in parameters]):
            body = self.block(self.random.choice((1, 2)), min(depth, 1))
            body.append(Statement(f"return {self.of_kind(result, 2)}"))
        for dtype in self.returned:
            result = Kind(self.promote(result.dtype, dtype, numeric=False))
        self.returns, self.returned, self.loops = outer
        self.local_functions[-1].append(Function(name, kinds, by_reference, result))
        return [Statement(f"def {name}({header}):", body)]


class Inside:
    """While it is open, only its own variables can be written, and no container."""

    def __init__(self, generator: PythonGenerator, variables: tuple[Variable, ...]) -> None:
        self.generator, self.variables = generator, list(variables)

    def __enter__(self) -> None:
        self.generator.scopes.append(self.variables)
        self.outer_depth, self.generator.first_writable = self.generator.first_writable, len(self.generator.scopes) - 1

    def __exit__(self, *_: object) -> None:
        self.generator.scopes.pop()
        self.generator.first_writable = self.outer_depth

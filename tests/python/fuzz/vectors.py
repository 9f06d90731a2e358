"""Expressions of vectors and matrices for the generator."""

from __future__ import annotations

from .generator import FLOATS, INTEGERS, Expression, Generator, Kind


class VectorGenerator(Generator):
    """Adds what makes vectors and what makes scalars of them."""

    def vector(self, depth: int, shape: tuple[int, ...] | None = None) -> Expression:
        """A vector or matrix expression."""
        known = [Expression(v.name, v.kind) for v in self.visible() if v.kind.shape and shape in (None, v.kind.shape)]
        element = self.element()
        if element is not None and element.kind.shape and shape in (None, element.kind.shape):
            known.append(element)
        if known and (depth <= 0 or self.random.random() < 0.4):
            return self.random.choice(known)
        shape = shape or (self.random.choice((2, 3, 4)),)
        if depth <= 0 or self.random.random() < 0.3:
            return self.fresh_vector(depth, shape)
        forms = [
            self.vector_arithmetic,
            self.vector_arithmetic,
            self.vector_arithmetic,
            self.vector_unary,
            self.vector_cast,
            self.vector_choice,
            self.vector_logic,
        ]
        forms += (
            [self.swizzled, self.sliced, self.matrix_times_vector, self.crossed] if len(shape) == 1 else [self.matrix_product, self.turned]
        )
        return self.random.choice(forms)(depth - 1, shape)

    def fresh_vector(self, depth: int, shape: tuple[int, ...]) -> Expression:
        """A vector or matrix of new scalars."""
        dtype = self.any_dtype()
        count = 1
        for extent in shape:
            count *= extent
        items = [self.scalar(min(depth, 1), dtype).text for _ in range(count)]
        roll = self.random.random()
        if roll < 0.15:
            return Expression(f"{self.annotation(Kind(dtype, shape))}({', '.join(items)})", Kind(dtype, shape))
        if roll < 0.25:
            return Expression(f"{self.annotation(Kind(dtype, shape))}({items[0]})", Kind(dtype, shape))
        if len(shape) == 1:
            return Expression(f"qd.Vector([{', '.join(items)}])", Kind(dtype, shape))
        rows = [f"[{', '.join(items[k : k + shape[1]])}]" for k in range(0, count, shape[1])]
        if roll < 0.4:
            columns = [f"[{', '.join(items[k :: shape[1]])}]" for k in range(shape[1])]
            return Expression(f"qd.Matrix.cols([{', '.join(columns)}])", Kind(dtype, shape))
        return Expression(f"qd.Matrix([{', '.join(rows)}])", Kind(dtype, shape))

    def vector_arithmetic(self, depth: int, shape: tuple[int, ...]) -> Expression:
        left = self.vector(depth, shape)
        right = self.vector(depth, shape) if self.random.random() < 0.6 else self.scalar(depth)
        op = self.random.choice("+ - * / // %".split())
        dtype = self.promote(self.real(left.dtype), self.real(right.dtype)) if op == "/" else self.promote(left.dtype, right.dtype)
        if left.dtype in INTEGERS and right.dtype in INTEGERS and self.random.random() < 0.3:
            op, dtype = self.random.choice("&|^"), self.promote(left.dtype, right.dtype)
        return Expression(f"({left.text} {op} {right.text})", Kind(dtype, shape))

    def vector_unary(self, depth: int, shape: tuple[int, ...]) -> Expression:
        made = self.vector(depth, shape)
        if made.dtype in FLOATS:
            form = self.random.choice(("-{}", "abs({})", "qd.floor({})", "qd.sqrt(abs({}))"))
            return Expression(f"({form.format(made.text)})", made.kind)
        form = self.random.choice(("-{}", "abs({})"))
        return Expression(f"({form.format(made.text)})", Kind(self.promote(made.dtype, made.dtype), shape))

    def vector_cast(self, depth: int, shape: tuple[int, ...]) -> Expression:
        made, dtype = self.vector(depth, shape), self.any_dtype()
        if self.random.random() < 0.3 and not (made.dtype in FLOATS and dtype not in FLOATS):
            return Expression(f"{made.text}.cast(qd.{dtype})", Kind(dtype, shape))
        return self.to_dtype(made, dtype)

    def vector_logic(self, depth: int, shape: tuple[int, ...]) -> Expression:
        """`and`, `or` of integers, component by component; one side may be a number."""
        operands = [
            self.to_dtype(self.vector(depth, shape), self.random.choice(INTEGERS)).text for _ in range(self.random.choice((2, 2, 3)))
        ]
        if self.random.random() < 0.3:
            operands[self.random.randrange(len(operands))] = self.scalar(depth, self.random.choice(INTEGERS)).text
        text = f" {self.random.choice(('and', 'or'))} ".join(operands)
        return self.to_dtype(Expression(f"({text})", Kind("u1", shape)), self.random.choice(INTEGERS))

    def vector_condition(self, depth: int, shape: tuple[int, ...]) -> Expression:
        """A vector of truths."""
        left, op = self.vector(depth, shape), self.random.choice("< <= > >= == !=".split())
        right = self.vector(depth, shape) if self.random.random() < 0.6 else self.scalar(depth)
        return Expression(f"({left.text} {op} {right.text})", Kind("u1", shape))

    def vector_choice(self, depth: int, shape: tuple[int, ...]) -> Expression:
        first, second = self.vector(depth, shape), self.vector(depth, shape)
        kind = Kind(self.promote(first.dtype, second.dtype, numeric=False), shape)
        roll = self.random.random()
        if roll < 0.5:
            return Expression(f"qd.select({self.vector_condition(depth, shape).text}, {first.text}, {second.text})", kind)
        if roll < 0.7:
            return Expression(f"qd.select({self.comparison(depth).text}, {first.text}, {second.text})", kind)
        return Expression(f"({first.text} if {self.comparison(depth).text} else {second.text})", kind)

    def swizzled(self, depth: int, shape: tuple[int, ...]) -> Expression:
        if not 2 <= shape[0] <= 4:  # one letter is a scalar
            return self.sliced(depth, shape)
        made = self.named_vector(depth, self.random.choice((2, 3, 4)))
        letters = self.random.choice(("xyzw", "rgba", "stpq"))[: made.kind.shape[0]]
        chosen = "".join(self.random.choice(letters) for _ in range(shape[0]))
        return Expression(f"{made.text}.{chosen}", Kind(made.dtype, shape))

    def named_vector(self, depth: int, extent: int) -> Expression:
        made = self.vector(depth, (extent,))
        return made if made.text[-1] != ")" or made.text.startswith("qd.Vector(") else self.fresh_vector(depth, (extent,))

    def sliced(self, depth: int, shape: tuple[int, ...]) -> Expression:
        extent = shape[0] + self.random.choice((0, 1, 2))
        if self.random.random() < 0.3:
            return self.row(depth, shape)
        made, first = self.named_vector(depth, extent), self.random.randrange(extent - shape[0] + 1)
        integers = [v.name for v in self.visible() if v.kind.dtype in INTEGERS and not v.kind.shape and not v.static]
        if integers and self.random.random() < 0.4:  # it begins where run time says
            first = f"{self.random.choice(integers)} % {extent - shape[0] + 1}"
            return Expression(f"{made.text}[{first} : {first} + {shape[0]}]", Kind(made.dtype, shape))
        return Expression(f"{made.text}[{first}:{first + shape[0]}]", Kind(made.dtype, shape))

    def row(self, depth: int, shape: tuple[int, ...]) -> Expression:
        """A row or column of a matrix."""
        extent, is_row = self.random.choice((2, 3)), self.random.random() < 0.6
        made = self.vector(depth, (extent, *shape) if is_row else (*shape, extent))
        if made.text[-1] == ")" and not made.text.startswith("qd.Matrix("):
            made = self.fresh_vector(depth, made.kind.shape)
        index = self.index(extent) if is_row else f":, {self.random.randrange(extent)}"
        return Expression(f"{made.text}[{index}]", Kind(made.dtype, shape))

    def matrix_times_vector(self, depth: int, shape: tuple[int, ...]) -> Expression:
        inner = self.random.choice((2, 3))
        left, right = self.vector(depth, (shape[0], inner)), self.vector(depth, (inner,))
        return Expression(f"({left.text} @ {right.text})", Kind(self.promote(left.dtype, right.dtype), shape))

    def crossed(self, depth: int, shape: tuple[int, ...]) -> Expression:
        if self.random.random() < 0.3:
            made = self.vector(depth, shape)
            return Expression(f"{made.text}.normalized()", Kind(self.real(made.dtype), shape))
        if shape != (3,):
            return self.vector_arithmetic(depth, shape)
        left, right = self.vector(depth, shape), self.vector(depth, shape)
        return Expression(f"{left.text}.cross({right.text})", Kind(self.promote(left.dtype, right.dtype), shape))

    def matrix_product(self, depth: int, shape: tuple[int, ...]) -> Expression:
        inner = self.random.choice((2, 3))
        left, right = self.vector(depth, (shape[0], inner)), self.vector(depth, (inner, shape[1]))
        return Expression(f"({left.text} @ {right.text})", Kind(self.promote(left.dtype, right.dtype), shape))

    def turned(self, depth: int, shape: tuple[int, ...]) -> Expression:
        if shape[0] == shape[1] and self.random.random() < 0.3:
            made = self.vector(depth, shape)
            return Expression(f"{made.text}.inverse()", Kind(self.real(made.dtype), shape))
        if self.random.random() < 0.5:
            made = self.vector(depth, (shape[1], shape[0]))
            return Expression(f"{made.text}.transpose()", Kind(made.dtype, shape))
        left, right = self.vector(depth, (shape[0],)), self.vector(depth, (shape[1],))
        return Expression(f"{left.text}.outer_product({right.text})", Kind(self.promote(left.dtype, right.dtype), shape))

    def of_vector(self, depth: int) -> Expression:
        """A scalar of vectors."""
        vector = self.vector(depth)
        numeric = self.promote(vector.dtype, vector.dtype)
        form = self.random.choice(("component", "component", "sum", "dot", "extreme", "norm_sqr", "truth", "trace", "determinant", "norm"))
        if form == "truth":
            return Expression(f"{self.vector_condition(depth, vector.kind.shape).text}.{self.random.choice(('any', 'all'))}()", Kind("u1"))
        if form in ("trace", "determinant"):
            extent = self.random.choice((2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 5))
            square = self.vector(depth, (extent, extent))
            result = self.real(square.dtype) if form == "determinant" and extent > 4 else self.promote(square.dtype, square.dtype)
            return Expression(f"{square.text}.{form}()", Kind(result))
        if form == "norm":
            # Not norm_inv: within its bounds it may be on either side of an integer.
            return Expression(f"{vector.text}.{self.random.choice(('norm()', 'norm(0.5)'))}", Kind(self.real(vector.dtype)))
        if form == "dot" and len(vector.kind.shape) == 1:
            other = self.vector(depth, vector.kind.shape)
            return Expression(f"{vector.text}.dot({other.text})", Kind(self.promote(vector.dtype, other.dtype)))
        if form == "extreme" and vector.dtype in INTEGERS:
            return Expression(f"{vector.text}.{self.random.choice(('max', 'min'))}()", Kind(vector.dtype))
        if form in ("sum", "norm_sqr"):
            return Expression(f"{vector.text}.{form}()", Kind(numeric))
        return self.component(vector)

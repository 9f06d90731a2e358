"""Rewrites the expressions of a kernel or func, and resolves each name in it.

A name is declared by its first assignment and is visible until the block ends. A local whose reference may be taken (an argument of an
atomic or of a func that takes it by reference) is stored in a place.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any, NamedTuple

from quadrants._base.source import FunctionSource, all_arguments, is_debugger
from quadrants._language.checkpoints import MISSING, Names
from quadrants._values.matrix import Matrix

BINARY = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.FloorDiv: "floor_div", ast.Mod: "mod", ast.Pow: "pow",
    ast.LShift: "shl", ast.RShift: "shr", ast.BitAnd: "bit_and", ast.BitOr: "bit_or", ast.BitXor: "bit_xor", ast.MatMult: "matmul",
}  # fmt: skip
_UNARY = {ast.USub: "neg", ast.UAdd: "pos", ast.Not: "logical_not", ast.Invert: "bit_not"}
_COMPARE = {
    ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.Eq: "eq", ast.NotEq: "ne", ast.In: "in", ast.NotIn: "not_in",
    ast.Is: "is", ast.IsNot: "is_not",
}  # fmt: skip


literal: Callable[[Any], ast.expr] = ast.Constant  # a constant of the generated code
place: Callable[[Any, ast.AST], Any] = ast.copy_location


def load(name: str) -> ast.expr:
    """Returns the read of a name."""
    return ast.Name(name, ast.Load())


def helper(name: str, *arguments: ast.expr, at: ast.AST, keywords: list[ast.keyword] | None = None) -> ast.expr:
    """Returns a call of an `Evaluator` method with the source location of `at`."""
    return place(ast.Call(ast.Attribute(load("_qd"), name, ast.Load()), list(arguments), keywords or []), at)


class Joined(NamedTuple):
    """A variable that both branches of an `if` declare: its role, and the code that converts it to the common type at the end of each
    branch.
    """

    role: str
    ends: list[tuple[Any, ast.expr]]

    def merge(self, scope: dict[str, Any], name: str) -> str:
        """Makes it one variable, and returns its role."""
        for assignment, value in self.ends:
            assignment.value = value
        scope[name] = self.role
        return self.role


class ExpressionRewriter(ast.NodeTransformer):
    """Rewrites the expressions of one function. `by_reference(callee)` returns which arguments a resolved callee takes by reference."""

    def __init__(
        self, source: FunctionSource, roles: dict[str, str], by_reference: Callable[[Any], Any], references: set[str], wanted: str
    ) -> None:
        self.function: Any = source.function
        self.captured = Names(self.function).get  # the value of a name outside of the function, or MISSING
        self.by_reference = by_reference
        self.references = references
        self.scopes: list[dict[str, Any]] = [{**roles, **{name: "place" for name in references if roles.get(name) == "value"}}]
        names = [node for node in ast.walk(source.tree) if isinstance(node, ast.Name)]
        # Where each name occurs last.
        self.last: dict[str, Any] = {name: (line, column) for line, column, name in sorted((n.lineno, n.col_offset, n.id) for n in names)}
        self.stored = {*roles, *(name.id for name in names if isinstance(name.ctx, ast.Store))}  # Python's locals, in any block
        self.function_depth = 0  # number of functions inside this one
        self.wanted = wanted  # for code that runs only for types: the types of its `variables` or of its `returns`
        self.temporaries = 0

    def role(self, name: str, stored: bool = False) -> str | None:
        """Returns the role of a visible local: value, place, or fixed (parameters of kernels, loop variables); None for other names.

        A variable that both branches of an `if` declare is a single one if it is read next; if it is `stored` first, it is a new variable.
        """
        scope = next((scope for scope in reversed(self.scopes) if name in scope), {})
        role = scope.get(name)
        return role if not isinstance(role, Joined) else None if stored else role.merge(scope, name)

    def resolve(self, node: ast.AST) -> Any:
        """Returns the object that a captured name or its attribute refers to now, or MISSING."""
        if isinstance(node, ast.Name):
            return MISSING if self.role(node.id) else self.captured(node.id)
        if isinstance(node, ast.Attribute):
            base = self.resolve(node.value)
            return MISSING if base is MISSING or isinstance(base, Matrix) else getattr(base, node.attr, MISSING)
        return MISSING

    def builtin_name(self, node: ast.AST) -> str | None:
        """Returns the name of the builtin that a callee expression refers to."""
        found = self.resolve(node)
        return getattr(found, "_qd_builtin", None) if found is not MISSING else None

    def is_static_call(self, node: ast.AST) -> bool:
        """Whether a node is `qd.static(...)`."""
        return isinstance(node, ast.Call) and self.builtin_name(node.func) == "static"

    def temporary(self) -> str:
        """Returns a fresh name of the generated code."""
        self.temporaries += 1
        return f"_qd_{self.temporaries}"

    def visit_Name(self, node: ast.Name) -> ast.expr:
        role = self.role(node.id)
        if role is not None:
            return helper("read", node, at=node) if role == "place" else node
        if node.id in self.stored or self.captured(node.id) is MISSING:
            return helper("outer", literal(node.id), at=node)
        return helper("captured", node, at=node)

    def visit_place(self, node: ast.expr) -> ast.expr:
        """Returns the place of an expression, or its value if it has none."""
        if isinstance(node, ast.Name) and self.role(node.id) is not None:
            return node
        if isinstance(node, ast.Subscript):
            return helper("element", self.visit_place(node.value), self.index(node.slice), at=node)
        if isinstance(node, ast.Attribute) and self.resolve(node) is MISSING:
            base = node.value
            if isinstance(base, ast.Subscript) and node.attr in ("append", "length", "deactivate"):
                owner = helper("list_or_element", self.visit_place(base.value), self.index(base.slice), at=base)
            else:
                owner = self.visit_place(base)
            return helper("member", owner, literal(node.attr), at=node)
        return self.visit(node)

    def index(self, node: ast.expr) -> ast.expr:
        """Rewrites an index, with slices as objects."""
        if isinstance(node, ast.Slice):
            bounds = [self.visit(bound) if bound else literal(None) for bound in (node.lower, node.upper, node.step)]
            return helper("slice", *bounds, at=node)
        if isinstance(node, ast.Tuple):
            return place(ast.Tuple([self.index(item) for item in node.elts], ast.Load()), node)
        return self.visit(node)

    def visit_Attribute(self, node: ast.Attribute | ast.Subscript) -> ast.expr:
        if self.resolve(node) is not MISSING:
            return helper("captured", node, at=node)
        return helper("read", self.visit_place(node), at=node)

    visit_Subscript = visit_Attribute

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        if isinstance(node.left, ast.Constant) and isinstance(node.left.value, str) and isinstance(node.op, ast.Mod):
            return helper("percent", node.left, self.visit(node.right), at=node)
        return helper("binary", literal(BINARY[type(node.op)]), self.visit(node.left), self.visit(node.right), at=node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        if isinstance(node.operand, ast.Constant) and isinstance(node.op, ast.USub):
            return node
        return helper("unary", literal(_UNARY[type(node.op)]), self.visit(node.operand), at=node)

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        operands = [self.visit(item) for item in (node.left, *node.comparators)]
        names = [literal(_COMPARE[type(op)]) for op in node.ops]
        if len(names) == 1:
            return helper("binary", names[0], *operands, at=node)
        # Like `and`, with the right operand of each link saved for the next one.
        result = helper("first_link", names[0], *operands[:2], at=node)
        for name, operand in zip(names[1:], operands[2:], strict=True):
            left = helper("begin_logic", literal("and"), result, at=node)
            link = self.if_reached(helper("next_link", name, operand, at=node))
            result = helper("end_logic", literal("and"), left, link, at=node)
        return helper("end_chain", result, at=node)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        """`a and b and c` associates to the left; an operand that Python would skip is evaluated only for its type."""
        kind = "and" if isinstance(node.op, ast.And) else "or"
        result = self.visit(node.values[0])
        for operand in node.values[1:]:
            left = helper("begin_logic", literal(kind), result, at=node)
            result = helper("end_logic", literal(kind), left, self.if_reached(self.visit(operand)), at=node)
        return result

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        arguments = [helper("begin_choice", self.visit(node.test), at=node), self.if_reached(self.visit(node.body))]
        return helper("end_choice", *arguments, helper("other_choice", at=node), self.if_reached(self.visit(node.orelse)), at=node)

    def if_reached(self, value: ast.expr) -> ast.expr:
        """Rewrites an operand that is not evaluated at all if a compile-time value decides."""
        return place(ast.IfExp(helper("reaches", at=value), value, literal(None)), value)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> ast.expr:
        value = self.stored_value(node.target, self.visit(node.value))
        return helper("read", ast.NamedExpr(ast.Name(node.target.id, ast.Store()), value), at=node)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        callee = self.resolve(node.func)
        if isinstance(node.func, ast.Name) and node.func.id == "super" and callee is super:
            return node  # finds its class and object in the frame of the caller
        if callee is not MISSING and is_debugger(callee):
            return node
        name = getattr(callee, "_qd_builtin", None) if callee is not MISSING else None
        stays = name is not None or isinstance(callee, (type, type(len)))  # these callees are unchanged inside kernels
        function = node.func if stays else (self.visit_place if callee is MISSING else self.visit)(node.func)
        wanted = self.by_reference(callee) if callee is not MISSING else (lambda _: True)
        later = [*node.args, *(item.value for item in node.keywords)]
        last = max((i for i, item in enumerate(later) for node in ast.walk(item) if isinstance(node, (ast.Call, ast.NamedExpr))), default=0)

        def argument(position: int, item: ast.expr, by_reference: bool) -> ast.expr:
            value = self.argument(item, by_reference, name is not None and name.startswith("atomic_"))
            is_both = by_reference and callee is MISSING and position < last and not isinstance(item, ast.Starred)
            return helper("both", value, at=item) if is_both else value

        arguments = [argument(position, item, wanted(position)) for position, item in enumerate(node.args)]
        keywords = [
            ast.keyword(item.arg, argument(position, item.value, item.arg is not None and wanted(item.arg)))
            for position, item in enumerate(node.keywords, len(arguments))
        ]
        return helper("call", function, *arguments, at=node, keywords=keywords)

    def argument(self, node: ast.expr, by_reference: bool, is_atomic: bool = False) -> ast.expr:
        """Rewrites an argument, as a place if the callee takes a reference; with `is_atomic`, also for numbers."""
        if not by_reference or isinstance(node, ast.Starred):
            return self.visit(node)
        if isinstance(node, ast.Name) and self.role(node.id) in ("value", "place"):
            self.references.add(node.id)
        if isinstance(node, ast.Subscript):
            return helper("item_place", self.visit_place(node.value), self.index(node.slice), literal(is_atomic), at=node)
        return self.visit_place(node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.expr:
        parts = [self.visit(part) for part in node.values]
        return place(ast.Call(ast.Attribute(literal(""), "join", ast.Load()), [ast.List(parts, ast.Load())], []), node)

    def visit_FormattedValue(self, node: ast.FormattedValue) -> ast.expr:
        return helper("formatted", self.visit(node.value), self.visit(node.format_spec) if node.format_spec else literal(""), at=node)

    def _visit_comprehension(self, node: Any) -> ast.expr:
        self.scopes.append({})
        for generator in node.generators:
            generator.iter = helper("static_items", self.visit(generator.iter), at=generator.iter)
            self.scopes[-1].update(self.names_of(generator.target))
            generator.ifs = [self.visit(test) for test in generator.ifs]
        if isinstance(node, ast.DictComp):
            node.key, node.value = self.visit(node.key), self.item(node.value)
        else:
            node.elt = self.item(node.elt)
        names, assigned = self.scopes.pop(), (part.target.id for part in ast.walk(node) if isinstance(part, ast.NamedExpr))
        self.scopes[-1].update((name, names[name]) for name in assigned if name in names)
        return node

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _visit_comprehension

    def visit_Dict(self, node: ast.Dict) -> ast.expr:
        keys = [key and self.visit(key) for key in node.keys]
        values = [self.item(value) if key else self.visit(value) for key, value in zip(node.keys, node.values, strict=True)]
        return place(ast.Dict(keys, values), node)

    def visit_List(self, node: ast.List | ast.Tuple) -> ast.expr:
        return place(type(node)([self.item(value) for value in node.elts], node.ctx), node)

    visit_Tuple = visit_List

    def item(self, node: ast.expr) -> ast.expr:
        """Rewrites an item of a list, tuple or dict, which is copied."""
        value = self.visit(node)
        if isinstance(node, ast.Starred):
            value.value = helper("copies", value.value, at=node)
        return value if isinstance(node, (ast.Constant, ast.Starred)) else helper("read", value, at=node)

    def visit_defaults(self, arguments: ast.arguments) -> None:
        """Rewrites the default values of an inner function."""
        arguments.defaults = [helper("read", self.visit(value), at=value) for value in arguments.defaults]
        arguments.kw_defaults = [value and helper("read", self.visit(value), at=value) for value in arguments.kw_defaults]

    def visit_Lambda(self, node: ast.Lambda) -> ast.expr:
        self.visit_defaults(node.args)
        self.scopes.append({argument.arg: "fixed" for argument in all_arguments(node.args)})
        node.body = self.visit(node.body)
        self.scopes.pop()
        return node

    def names_of(self, target: ast.expr) -> dict[str, str]:
        """Returns the names of a loop or comprehension target with their roles."""
        return {node.id: "fixed" for node in ast.walk(target) if isinstance(node, ast.Name)}

    def stored_value(self, target: ast.Name, value: ast.expr, static: bool = False) -> ast.expr:
        """Returns the value that an assignment binds to a name: a new variable, or the existing one with a new value."""
        role = self.role(target.id, stored=True)
        if static:
            self.scopes[-1][target.id] = "fixed"
            return value
        if role is not None:
            return helper("assign", load(target.id), value, at=target)
        self.scopes[-1][target.id] = "place" if target.id in self.references else "value"
        declared = helper("declare", value, at=target)
        return helper("place_of", declared, at=target) if target.id in self.references else declared

"""Rewrites the syntax tree of a kernel or func into Python that computes with typed values.

Every node keeps its place in the user's file, so that breakpoints, coverage and tracebacks work. Control flow stays Python's; operators,
accesses, calls and assignments become calls of the `Evaluator`, bound to the name `_qd`. Variables stay Python locals. Which variable a
name means is decided here: a name is declared by its first assignment and is known until the block ends.

A local whose reference may be taken (an argument of an atomic or of a func that takes it by reference) is kept in a place.
"""

from __future__ import annotations

import ast
import builtins
import copy
import pickle
import warnings
from collections.abc import Callable
from types import CellType, CodeType, FunctionType
from typing import Any, NamedTuple, NoReturn

from quadrants._errors import QuadrantsNameError, QuadrantsSyntaxError
from quadrants._source import FunctionSource

MISSING = object()
_BINARY = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.FloorDiv: "floor_div", ast.Mod: "mod", ast.Pow: "pow",
    ast.LShift: "shl", ast.RShift: "shr", ast.BitAnd: "bit_and", ast.BitOr: "bit_or", ast.BitXor: "bit_xor", ast.MatMult: "matmul",
}  # fmt: skip
_UNARY = {ast.USub: "neg", ast.UAdd: "pos", ast.Not: "logical_not", ast.Invert: "bit_not"}
_COMPARE = {ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.Eq: "eq", ast.NotEq: "ne"}
_OBJECT_TESTS = {ast.In: "In", ast.NotIn: "In", ast.Is: "is", ast.IsNot: "is not"}
_REFUSED = (
    ast.Try, ast.Raise, ast.Import, ast.ImportFrom, ast.Global, ast.Nonlocal, ast.ClassDef, ast.Yield, ast.YieldFrom, ast.Await,
    ast.AsyncFor, ast.AsyncWith, ast.AsyncFunctionDef, ast.pattern,
    *(getattr(ast, newer) for newer in ("TryStar", "TypeAlias") if hasattr(ast, newer)),
)  # fmt: skip


def literal(value: Any) -> ast.expr:
    """A constant of the generated code."""
    return ast.Constant(value)


class Joined(NamedTuple):
    """A variable after an `if` whose branches made it: its role, and what gives it the common type at the end of each branch."""

    role: str
    ends: list[tuple[Any, ast.expr]]

    def settle(self, scope: dict[str, Any], name: str) -> str:
        """Makes it one variable."""
        for assignment, value in self.ends:
            assignment.value = value
        scope[name] = self.role
        return self.role


class Rewriter(ast.NodeTransformer):
    """Rewrites one function. `by_reference(function, position)` says which arguments a resolved callee takes by reference."""

    def __init__(self, source: FunctionSource, roles: dict[str, str], by_reference: Callable[[Any], Any], references: set[str]) -> None:
        self.function: Any = source.function
        self.file = source.file
        self.by_reference = by_reference
        self.kind = "qd.kernel" if "parameter" in roles.values() else "qd.func"
        self.references = references
        taken = {name: "place" for name, role in roles.items() if role == "value" and name in references}
        self.scopes: list[dict[str, Any]] = [{**roles, **taken}]
        self.names = [node for node in ast.walk(source.tree) if isinstance(node, ast.Name)]
        self.stored = {*roles, *(name.id for name in self.names if isinstance(name.ctx, ast.Store))}  # Python's locals, whatever the block
        self.static_depth = 0
        self.function_depth = 0  # functions inside this one
        self.run_time_depth = 0  # run-time loops and branches around the statement
        self.wanted = ""  # what code that runs for its types only is looked at for: the types of its `variables`, of its `returns`
        self.temporaries = 0

    def role(self, name: str, stored: bool = False) -> str | None:
        """What a visible local is: value, place, parameter, loop, object; None for any other name.

        A variable that both branches of an `if` made is one if it is read next; one that is `stored` first is a new variable.
        """
        scope = next((scope for scope in reversed(self.scopes) if name in scope), {})
        role = scope.get(name)
        return role if not isinstance(role, Joined) else None if stored else role.settle(scope, name)

    def resolve(self, node: ast.AST) -> Any:
        """The object that a captured name or an attribute of one means now, or MISSING."""
        if isinstance(node, ast.Name):
            return MISSING if self.role(node.id) else self.captured(node.id)
        if isinstance(node, ast.Attribute):
            base = self.resolve(node.value)
            return MISSING if base is MISSING else getattr(base, node.attr, MISSING)
        return MISSING

    def captured(self, name: str) -> Any:
        """The value of a name outside the function."""
        code = self.function.__code__
        if name in code.co_freevars:
            try:
                return self.function.__closure__[code.co_freevars.index(name)].cell_contents
            except ValueError:  # not assigned yet
                return MISSING
        return self.function.__globals__.get(name, getattr(builtins, name, MISSING))

    def builtin_name(self, node: ast.AST) -> str | None:
        """Name of the language's own function that a callee expression means."""
        found = self.resolve(node)
        return getattr(found, "_qd_builtin", None) if found is not MISSING else None

    def is_static_call(self, node: ast.AST) -> bool:
        """True for `qd.static(...)`."""
        return isinstance(node, ast.Call) and self.builtin_name(node.func) == "static"

    def helper(self, name: str, *arguments: ast.expr, at: ast.AST, keywords: list[ast.keyword] | None = None) -> ast.expr:
        """A call of an `Evaluator` method, standing where `at` stands."""
        function = ast.Attribute(ast.Name("_qd", ast.Load()), name, ast.Load())
        return _place(ast.Call(function, list(arguments), keywords or []), at)

    def fail(self, message: str, node: ast.AST, error: type[Exception] = QuadrantsSyntaxError) -> NoReturn:
        """Raises a mistake at `node`."""
        mistake: Any = error(message)
        place = (node.lineno, node.col_offset, node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]
        mistake._qd_frame = (self.file, self.function.__name__, *place)
        raise mistake

    def temporary(self) -> str:
        """A fresh name of the generated code."""
        self.temporaries += 1
        return f"_qd_{self.temporaries}"

    def visit_Name(self, node: ast.Name) -> ast.expr:
        role = self.role(node.id)
        if role in ("value", "loop", "object", "parameter"):
            return node
        if role is not None:
            return self.helper("read", node, at=node)
        if node.id in self.stored or self.captured(node.id) is MISSING:
            return self.helper("outer", literal(node.id), at=node)
        return self.helper("captured", node, at=node)

    def visit_place(self, node: ast.expr) -> ast.expr:
        """The place that an expression names; for anything else its value."""
        if isinstance(node, ast.Name) and self.role(node.id) is not None:
            return node
        if isinstance(node, ast.Subscript):
            return self.helper("element", self.visit_place(node.value), self.index(node.slice), at=node)
        if isinstance(node, ast.Attribute) and self.resolve(node) is MISSING:
            return self.helper("member", self.visit_place(node.value), literal(node.attr), at=node)
        return self.visit(node)

    def index(self, node: ast.expr) -> ast.expr:
        """An index, with slices as objects."""
        if isinstance(node, ast.Slice):
            bounds = [self.visit(bound) if bound else literal(None) for bound in (node.lower, node.upper, node.step)]
            return self.helper("slice", *bounds, literal(_known_length(node)), at=node)
        if isinstance(node, ast.Tuple):
            return _place(ast.Tuple([self.index(item) for item in node.elts], ast.Load()), node)
        return self.visit(node)

    def visit_Attribute(self, node: ast.Attribute | ast.Subscript) -> ast.expr:
        if self.resolve(node) is not MISSING:
            return self.helper("captured", node, at=node)
        return self.helper("read", self.visit_place(node), at=node)

    visit_Subscript = visit_Attribute

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        if isinstance(node.left, ast.Constant) and isinstance(node.left.value, str):
            return self.helper("percent", node.left, self.visit(node.right), at=node)
        return self.helper("binary", literal(_BINARY[type(node.op)]), self.visit(node.left), self.visit(node.right), at=node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        if isinstance(node.operand, ast.Constant) and isinstance(node.op, ast.USub):
            return node
        return self.helper("unary", literal(_UNARY[type(node.op)]), self.visit(node.operand), at=node)

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        operands = [self.visit(item) for item in (node.left, *node.comparators)]
        if any(type(op) in _OBJECT_TESTS for op in node.ops):
            kind = _OBJECT_TESTS[next(type(op) for op in node.ops if type(op) in _OBJECT_TESTS)]
            operands = [self.helper("object_operand", literal(kind), operand, at=node) for operand in operands]
            return _place(ast.Compare(operands[0], node.ops, operands[1:]), node)
        names = ast.Tuple([literal(_COMPARE[type(op)]) for op in node.ops], ast.Load())
        return self.helper("compare", names, *operands, at=node)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        """`a and b and c` associates to the left; an operand that Python would skip is computed only for its type."""
        if self.static_depth:
            return self.generic_visit(node)
        kind = "and" if isinstance(node.op, ast.And) else "or"
        result = self.visit(node.values[0])
        for operand in node.values[1:]:
            left = self.helper("begin_logic", literal(kind), result, at=node)
            result = self.helper("end_logic", literal(kind), left, self.if_reached(operand), at=node)
        return result

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        if self.is_static_call(node.test) or self.static_depth:
            return self.generic_visit(node)
        arguments = [self.helper("begin_choice", self.visit(node.test), at=node), self.if_reached(node.body)]
        return self.helper("end_choice", *arguments, self.helper("other_choice", at=node), self.if_reached(node.orelse), at=node)

    def if_reached(self, node: ast.expr) -> ast.expr:
        """An operand that is not even looked at where a compile-time value decides."""
        return _place(ast.IfExp(self.helper("reaches", at=node), self.visit(node), literal(None)), node)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> ast.expr:
        value = self.stored_value(node.target, self.visit(node.value))
        return self.helper("read", ast.NamedExpr(ast.Name(node.target.id, ast.Store()), value), at=node)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        callee = self.resolve(node.func)
        if isinstance(node.func, ast.Name) and node.func.id == "super" and callee is super:
            return node  # finds its class and object in the frame of the caller
        if callee is breakpoint or getattr(callee, "__module__", None) == "pdb":
            return node
        name = getattr(callee, "_qd_builtin", None) if callee is not MISSING else None
        self.static_depth += name in ("static", "static_assert", "static_print")
        stays = name is not None or isinstance(callee, (type, type(len)))  # it is itself inside kernels, too
        function = node.func if stays else (self.visit_place if callee is MISSING else self.visit)(node.func)
        wanted = self.by_reference(callee) if callee is not MISSING else (lambda _: True)
        arguments = [self.argument(item, wanted(position)) for position, item in enumerate(node.args)]
        keywords = [ast.keyword(item.arg, self.argument(item.value, item.arg is not None and wanted(item.arg))) for item in node.keywords]
        self.static_depth -= name in ("static", "static_assert", "static_print")
        return self.helper("call", function, *arguments, at=node, keywords=keywords)

    def argument(self, node: ast.expr, by_reference: bool) -> ast.expr:
        """An argument, as a place where the callee wants one."""
        if not by_reference or isinstance(node, ast.Starred):
            return self.visit(node)
        if isinstance(node, ast.Name) and self.role(node.id) in ("value", "place"):
            self.references.add(node.id)
        return self.visit_place(node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.expr:
        parts: list[ast.expr] = []
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                spec = self.visit(part.format_spec) if part.format_spec else literal("")
                parts.append(self.helper("formatted", self.visit(part.value), spec, at=part))
            else:
                parts.append(part)
        return _place(ast.Call(ast.Attribute(literal(""), "join", ast.Load()), [ast.List(parts, ast.Load())], []), node)

    def _visit_comprehension(self, node: Any) -> ast.expr:
        self.scopes.append({})
        for generator in node.generators:
            generator.iter = self.helper("static_items", self.visit(generator.iter), at=generator.iter)
            self.declare_targets(generator.target, "object")
            generator.ifs = [self.known("the filter of a comprehension", self.visit(test)) for test in generator.ifs]
        if isinstance(node, ast.DictComp):
            node.key, node.value = self.known("the keys of a dict", self.visit(node.key)), self.visit(node.value)
        else:
            node.elt = self.visit(node.elt)
        if isinstance(node, ast.SetComp):
            node.elt = self.known("the items of a set", node.elt)
        self.scopes.pop()
        return node

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _visit_comprehension

    def known(self, what: str, value: ast.expr) -> ast.expr:
        """A value that is no run-time value."""
        return self.helper("known", literal(what), value, at=value)

    def visit_Set(self, node: ast.Set) -> ast.expr:
        node.elts = [
            self.visit(item) if isinstance(item, ast.Starred) else self.known("the items of a set", self.visit(item)) for item in node.elts
        ]
        return node

    def visit_Dict(self, node: ast.Dict) -> ast.expr:
        node.keys = [key and self.known("the keys of a dict", self.visit(key)) for key in node.keys]
        node.values = [self.visit(value) for value in node.values]
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.expr:
        self.scopes.append({argument.arg: "object" for argument in node.args.args})
        node.body = self.visit(node.body)
        self.scopes.pop()
        return node

    def declare_targets(self, target: ast.expr, role: str) -> None:
        """Declares the names of a loop or comprehension target."""
        for node in ast.walk(target):
            if isinstance(node, ast.Name):
                if role == "loop" and self.role(node.id, stored=True) not in (None, "object"):
                    text = f"Variable '{node.id}' is already declared in the outer scope and cannot be used as loop variable"
                    self.fail(text, target)
                self.scopes[-1][node.id] = role

    def stored_value(self, target: ast.Name, value: ast.expr, static: bool = False) -> ast.expr:
        """What an assignment to a name binds: a new variable, or the old one with a new value."""
        role = self.role(target.id, stored=True)
        if role is None or (static and target.id not in self.scopes[-1]):
            self.scopes[-1][target.id] = "object" if static else "place" if target.id in self.references else "value"
            if static:
                return value
            declared = self.helper("declare", value, at=target)
            return self.helper("place_of", declared, at=target) if target.id in self.references else declared
        self.check_assignable(target, role)
        if static:
            self.fail("Recreating variables is not allowed", target)
        return self.helper("assign", ast.Name(target.id, ast.Load()), value, at=target)

    def check_assignable(self, target: ast.Name, role: str) -> None:
        """Loop variables, kernel arguments and compile-time objects keep what they are."""
        if role == "loop":
            self.fail(f"'{target.id}' is a loop variable and cannot be assigned", target)
        if role == "parameter":
            text = f'Kernel argument "{target.id}" is immutable in the kernel.'
            self.fail(f"{text} If you want to change its value, please create a new variable.", target)
        if role == "object":
            self.fail(f"Variable '{target.id}' cannot be assigned. Maybe it is not a Quadrants object?", target)

    def store(self, target: ast.expr, value: ast.expr, static: bool = False) -> list[ast.stmt]:
        """Statements that assign a rewritten value to a target."""
        if isinstance(target, ast.Name):
            return [_place(ast.Assign([ast.Name(target.id, ast.Store())], self.stored_value(target, value, static)), target)]
        if static and not isinstance(target, (ast.Tuple, ast.List)):
            self.fail("Static assign cannot be used on elements in arrays", target)
        if isinstance(target, ast.Subscript):
            call = self.helper("store_element", value, self.visit_place(target.value), self.index(target.slice), at=target)
            return [_place(ast.Expr(call), target)]
        if isinstance(target, ast.Attribute):
            call = self.helper("store_member", value, self.visit_place(target.value), literal(target.attr), at=target)
            return [_place(ast.Expr(call), target)]
        if not isinstance(target, (ast.Tuple, ast.List)):
            self.fail(f'Unsupported node "{type(target).__name__}"', target)
        name = self.temporary()
        starred = [position for position, item in enumerate(target.elts) if isinstance(item, ast.Starred)]
        unpacked = self.helper("unpack", value, literal(len(target.elts)), literal(starred[0] if starred else None), at=target)
        out: list[ast.stmt] = [_place(ast.Assign([ast.Name(name, ast.Store())], unpacked), target)]
        for position, item in enumerate(target.elts):
            part = _place(ast.Subscript(ast.Name(name, ast.Load()), literal(position), ast.Load()), target)
            out += self.store(item.value if isinstance(item, ast.Starred) else item, part, static)
        return out

    def visit_Assign(self, node: ast.Assign) -> list[ast.stmt]:
        static = self.is_static_call(node.value)
        value = self.visit(node.value)
        if len(node.targets) == 1:
            return self.store(node.targets[0], value, static)
        name = self.temporary()
        out: list[ast.stmt] = [_place(ast.Assign([ast.Name(name, ast.Store())], value), node)]
        for target in node.targets:
            out += self.store(target, _place(ast.Name(name, ast.Load()), node), static)
        return out

    def visit_AnnAssign(self, node: ast.AnnAssign) -> list[ast.stmt]:
        if node.value is None:
            self.fail("an annotated variable needs a value", node)
        if self.is_static_call(node.value):
            self.fail("Static assign cannot be used on annotated assignment", node)
        if isinstance(node.target, ast.Name) and self.role(node.target.id, stored=True):
            self.fail("Static assign cannot have type overloading", node)
        return self.store(node.target, self.helper("convert", self.visit(node.value), self.visit(node.annotation), at=node))

    def visit_AugAssign(self, node: ast.AugAssign) -> list[ast.stmt]:
        op = literal(_BINARY[type(node.op)])
        if isinstance(node.target, ast.Name):
            role = self.role(node.target.id)
            if role is None:
                known = self.captured(node.target.id) is not MISSING
                text = f'"{node.target.id}": captured value is constant' if known else f'Name "{node.target.id}" is not defined'
                self.fail(text, node.target, QuadrantsSyntaxError if known else QuadrantsNameError)
            self.check_assignable(node.target, role)
            changed = self.helper("augment", op, ast.Name(node.target.id, ast.Load()), self.visit(node.value), at=node)
            return [_place(ast.Assign([ast.Name(node.target.id, ast.Store())], changed), node)]
        return [_place(ast.Expr(self.helper("augment_place", op, self.visit_place(node.target), self.visit(node.value), at=node)), node)]

    def visit_Delete(self, node: ast.Delete) -> ast.stmt:
        for target in node.targets:
            if not isinstance(target, ast.Name) or target.id not in self.scopes[-1]:
                self.fail("only variables of the same block can be deleted", node)
            del self.scopes[-1][target.id]
        return _place(ast.Pass(), node)

    def block(self, body: list[ast.stmt], scope: dict[str, str] | None = None) -> tuple[list[ast.stmt], dict[str, str]]:
        """Rewrites the statements of a block; gives them with the names that it declared."""
        self.scopes.append(scope or {})
        out: list[ast.stmt] = []
        for statement in body:
            result = self.visit(statement)
            out += result if isinstance(result, list) else [result]
            if isinstance(statement, ast.Return):
                break
        return out or [_place(ast.Pass(), body[0])] if body else [], self.scopes.pop()

    def only_types(self) -> bool:
        """Whether the code here runs for its types: both branches of each `if`, each loop once, past every jump."""
        return bool(self.wanted) and not self.function_depth

    def visit_If(self, node: ast.If) -> list[ast.stmt]:
        static = self.is_static_call(node.test)
        if self.only_types() and not static:
            return self.visit_both(node)
        test = self.helper("truth", self.visit(node.test), at=node.test)
        parts = (node.body, node.orelse)
        nodes = [[inner for top in part for inner in ast.walk(top)] for part in parts]
        stored = [{name.id for name in inside if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)} for inside in nodes]
        originals = [_copy(part) if stored[0] & stored[1] else part for part in parts]
        leaves = [_leaves(part) for part in parts]
        self.run_time_depth += not static
        blocks = [self.block(part) for part in parts]
        self.run_time_depth -= not static
        out: list[ast.stmt] = [_place(ast.If(test, blocks[0][0], blocks[1][0]), node)]
        # A name that every way through declares is known afterwards; a way that leaves the block need not declare it.
        ways = [names for (_, names), left in zip(blocks, leaves, strict=True) if not left]
        end = (node.end_lineno, node.end_col_offset)
        used = {name.id for name in self.names if (name.lineno, name.col_offset) > end}
        combine = set.union if static else set.intersection  # of a compile-time `if` one branch is the only way
        joined = sorted(combine(*(set(names) for names in ways)) & used) if ways and (node.orelse or static) else []
        ends: list[tuple[Any, ast.expr]] = []
        if joined and not static and len(ways) == 2:
            out[:0] = [self.join(node, joined, blocks[way][0], originals[1 - way], ends) for way in (0, 1)]
        for name in joined:
            found: list[tuple[Any, Any]] = [(names, names[name]) for names in ways if name in names]
            roles = [role.settle(names, name) if isinstance(role, Joined) else role for names, role in found]
            self.scopes[-1].setdefault(name, Joined(roles[0], [item for item in ends if item[0].targets[0].id == name]))
        return out

    def join(
        self, node: ast.If, names: list[str], taken: list[ast.stmt], other: list[ast.stmt], ends: list[tuple[Any, ast.expr]]
    ) -> ast.stmt:
        """Ends one branch by giving the joined variables their common type: the other branch, as a function, is run for its types."""
        function = self.temporary()
        parameters = sorted({name for scope in self.scopes for name in scope})
        result = ast.Return(ast.Tuple([ast.Name(name, ast.Load()) for name in names], ast.Load()))
        arguments = ast.arguments([], [ast.arg(name) for name in parameters], None, [], [], None, [])
        for position, name in enumerate(names):
            variables = [ast.Name(item, ast.Load()) for item in (name, function)]
            locals_ = [ast.Name(parameter, ast.Load()) for parameter in parameters]
            value = self.helper("join_types", *variables, literal(position), *locals_, at=node)
            taken.append(_place(ast.Assign([ast.Name(name, ast.Store())], ast.Name(name, ast.Load())), node))
            ends.append((taken[-1], value))
        outer, self.wanted = self.wanted, "variables"
        body = self.block(other)[0]
        self.wanted = outer
        return _place(ast.FunctionDef(function, arguments, [*body, result], [], None), node)

    def visit_both(self, node: ast.If) -> list[ast.stmt]:
        """The branches of an `if` one after the other, for their types; a variable that both make gets the common one."""
        out: list[ast.stmt] = [_place(ast.Expr(self.visit(node.test)), node)]
        ways = [(*self.block(part), _leaves(part)) for part in (node.body, node.orelse)]
        (first, one, first_leaves), (second, other, second_leaves) = sorted(ways, key=lambda way: not way[2])
        kept = {} if first_leaves else {name: self.temporary() for name in one if name in other}
        out += [*first, *(self.set_name(variable, ast.Name(name, ast.Load()), node) for name, variable in kept.items()), *second]
        for name, variable in kept.items():
            common = self.helper("unify", ast.Name(variable, ast.Load()), ast.Name(name, ast.Load()), at=node)
            out.append(self.set_name(name, common, node))
        for name in () if second_leaves else other if first_leaves else kept:
            role = other[name]
            self.scopes[-1].setdefault(name, Joined(role.role if isinstance(role, Joined) else role, []))
        return out

    @staticmethod
    def set_name(name: str, value: ast.expr, at: ast.AST) -> ast.stmt:
        """`name = value`."""
        return _place(ast.Assign([ast.Name(name, ast.Store())], value), at)

    def visit_While(self, node: ast.While) -> Any:
        if self.only_types():
            return [_place(ast.Expr(self.visit(node.test)), node), *self.block(node.body)[0], *self.block(node.orelse)[0]]
        if isinstance(node.test, ast.Call) and self.builtin_name(node.test.func) == "graph_do_while":
            return self.visit_repeat(node, node.test)
        test = self.helper("loop_truth", self.visit(node.test), at=node.test)
        self.run_time_depth += 1
        body = self.block(node.body)[0]
        self.run_time_depth -= 1
        return _place(ast.While(test, body, self.block(node.orelse)[0]), node)

    def visit_repeat(self, node: ast.While, call: ast.Call) -> ast.stmt:
        """`while qd.graph.do_while(flag):` as a loop over the rounds."""
        if self.run_time_depth:
            name = "qd.graph.do_while()"
            self.fail(f"{name} must be at the kernel top level or directly in the body of another {name}", call)
        if getattr(call.func, "attr", getattr(call.func, "id", "")) == "graph_do_while":
            text = "qd.graph_do_while() is deprecated and will be removed; use qd.graph.do_while() instead."
            warnings.warn_explicit(text, DeprecationWarning, self.file, call.lineno)
        flag = [self.visit_place(item) for item in call.args]
        rounds = self.helper(
            "rounds", *flag, at=call, keywords=[ast.keyword(item.arg, self.visit_place(item.value)) for item in call.keywords]
        )
        body = self.block(node.body)[0]
        return _place(ast.For(ast.Name(self.temporary(), ast.Store()), rounds, body, self.block(node.orelse)[0]), node)

    def visit_Break(self, node: ast.stmt) -> ast.stmt:
        return _place(ast.Pass(), node) if self.only_types() else node

    visit_Continue = visit_Break

    def visit_For(self, node: ast.For) -> ast.stmt:
        static = self.is_static_call(node.iter)
        count = len(node.target.elts) if isinstance(node.target, (ast.Tuple, ast.List)) else 0
        if static:
            items = self.helper("static_items", self.visit(node.iter), at=node.iter)
        elif isinstance(node.iter, ast.Subscript):
            part = (self.visit_place(node.iter.value), self.index(node.iter.slice))
            items = self.helper("iterate_slice", *part, literal(count), at=node.iter)
        else:
            iterable = self.visit(node.iter)
            iterable = self.helper("range_choice", iterable, at=node.iter) if isinstance(node.iter, ast.IfExp) else iterable
            items = self.helper("iterate", iterable, literal(count), at=node.iter)
        self.scopes.append({})
        self.declare_targets(node.target, "object" if static else "loop")
        self.run_time_depth += not static
        body = self.block(node.body, self.scopes.pop())[0]
        self.run_time_depth -= not static
        return _place(ast.For(node.target, items, body, self.block(node.orelse)[0]), node)

    def visit_Assert(self, node: ast.Assert) -> ast.stmt:
        message = self.visit(node.msg) if node.msg else literal(ast.unparse(node.test))
        test = ast.BoolOp(ast.Or(), [self.helper("skips_assertions", at=node), self.helper("truth", self.visit(node.test), at=node.test)])
        return _place(ast.Assert(_place(test, node), self.helper("assertion_failed", message, at=node)), node)

    def visit_With(self, node: ast.With) -> None:
        text = "'with' in Quadrants kernels only supports qd.stream_parallel()"
        if len(node.items) != 1:
            text = "'with' in Quadrants kernels only supports a single context manager"
        elif node.items[0].optional_vars is not None:
            text = "'with ... as ...' is not supported in Quadrants kernels"
        elif not isinstance(node.items[0].context_expr, ast.Call):
            text = "'with' in Quadrants kernels requires a call expression"
        self.fail(text, node)

    def visit_Return(self, node: ast.Return) -> ast.stmt:
        value = self.helper("returned", self.visit(node.value) if node.value else literal(None), at=node)
        if not self.only_types():
            return _place(ast.Return(value), node)
        return _place(ast.Expr(self.helper("note_result", value, at=node) if self.wanted == "returns" else value), node)

    def visit_Expr(self, node: ast.Expr) -> ast.stmt:
        node.value = node.value if isinstance(node.value, ast.Constant) else self.visit(node.value)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.stmt:
        if node.decorator_list or node.args.vararg or node.args.kwarg:
            self.fail(f"Function definition is not allowed in '{self.kind}' with decorators, *args or **kwargs.", node)
        if self.role(node.name):
            self.fail("Recreating variables is not allowed", node)
        parameters = [argument.arg for argument in (*node.args.posonlyargs, *node.args.args)]
        own = {*parameters, *(item.id for item in ast.walk(node) if isinstance(item, ast.Name) and isinstance(item.ctx, ast.Store))}
        self.scopes[-1][node.name] = "object"
        outer, self.scopes = self.scopes, [{name: role for name, role in scope.items() if name not in own} for scope in self.scopes]
        self.function_depth += 1
        roles = {name: "place" if name in self.references else "value" for name in parameters}
        body = self.block(node.body, dict(roles))[0]
        self.function_depth -= 1
        self.scopes = outer
        for name, role in roles.items():
            value = self.helper("declare", ast.Name(name, ast.Load()), at=node)
            value = self.helper("place_of", value, at=node) if role == "place" else value
            body.insert(0, _place(ast.Assign([ast.Name(name, ast.Store())], value), node))
        for argument in (*node.args.posonlyargs, *node.args.args):
            argument.annotation = None
        return _place(ast.FunctionDef(node.name, node.args, body, [], None), node)

    def visit(self, node: ast.AST) -> Any:
        if isinstance(node, _REFUSED):
            self.fail(f'Unsupported node "{type(node).__name__}"', node)
        return super().visit(node)


def _place(node: Any, at: ast.AST) -> Any:
    return ast.copy_location(node, at)


def _copy(tree: Any) -> Any:
    return pickle.loads(pickle.dumps(tree))  # several times as fast as `deepcopy`


def _known_length(node: ast.Slice) -> int:
    """The length of a slice such as `i:i + 2`, which begins anywhere; 0 where the text does not tell."""

    def split(bound: ast.expr) -> tuple[str, int]:
        if isinstance(bound, ast.BinOp) and isinstance(bound.op, (ast.Add, ast.Sub)) and isinstance(bound.right, ast.Constant):
            offset = bound.right.value
            if isinstance(offset, int):
                return ast.dump(bound.left), offset if isinstance(bound.op, ast.Add) else -offset
        return ast.dump(bound), 0

    if node.lower is None or node.upper is None or node.step is not None:
        return 0
    (first, start), (last, stop) = split(node.lower), split(node.upper)
    return stop - start if first == last and "Call(" not in first else 0


def _leaves(body: list[ast.stmt]) -> bool:
    """True when a block never reaches its end."""
    last = body[-1] if body else None
    if isinstance(last, ast.If):
        return bool(last.orelse) and _leaves(last.body) and _leaves(last.orelse)
    return isinstance(last, (ast.Return, ast.Break, ast.Continue))


class TypesRewriter(Rewriter):
    """Makes the function that visits every `return`, to learn what types there are."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.wanted = "returns"


def rewrite(
    source: FunctionSource, roles: dict[str, str], by_reference: Callable[[Any], Any], evaluator: Any, rewriter: type[Rewriter] = Rewriter
) -> FunctionType | None:
    """The function that computes what `source` says. Its globals and closure are the user's own, so captured values are never stale.

    For types None where there is but one `return`: they are its own.
    """
    if rewriter is TypesRewriter and sum(isinstance(node, ast.Return) for node in ast.walk(source.tree)) < 2:
        return None
    function: Any = source.function
    references: set[str] = set()
    body: list[ast.stmt] = []
    known = -1
    while len(references) != known:  # once more when it turned out which locals need places
        known = len(references)
        body = rewriter(source, roles, by_reference, references).block(_copy(source.tree.body))[0]
    tree = copy.copy(source.tree)
    arguments = _copy(tree.args)
    arguments.args += arguments.kwonlyargs  # all are given by position
    for argument in (*arguments.posonlyargs, *arguments.args):
        argument.annotation = None
    arguments.defaults, arguments.kwonlyargs, arguments.kw_defaults = [], [], []
    entry = [_place(_parameter_place(name), tree) for name in sorted(references & set(roles))]
    inner = _place(ast.FunctionDef("_qd_function", arguments, entry + body, [], None), tree)
    outer_names = ["_qd", *function.__code__.co_freevars]
    outer = ast.FunctionDef(
        "_qd_factory", ast.arguments([], [ast.arg(name) for name in outer_names], None, [], [], None, []), [inner], [], None
    )
    module = ast.fix_missing_locations(ast.Module([_place(outer, tree)], []))
    factory = next(item for item in compile(module, source.file, "exec", optimize=0).co_consts if isinstance(item, CodeType))
    code = next(item for item in factory.co_consts if isinstance(item, CodeType)).replace(co_name=tree.name)
    cells: dict[str, CellType] = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=False))
    cells["_qd"] = CellType(evaluator)
    return FunctionType(code, function.__globals__, function.__name__, None, tuple(cells[name] for name in code.co_freevars))


def _parameter_place(name: str) -> ast.stmt:
    function = ast.Attribute(ast.Name("_qd", ast.Load()), "place_of", ast.Load())
    return ast.Assign([ast.Name(name, ast.Store())], ast.Call(function, [ast.Name(name, ast.Load())], []))

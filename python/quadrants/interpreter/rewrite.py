"""Rewrites the syntax tree of a kernel or func into Python that computes with typed values.

Every node keeps its place in the user's file, so that breakpoints, coverage and tracebacks work. Control flow stays Python's; operators,
accesses, calls and assignments become calls of the `Evaluator`, bound to the name `_qd`. Variables stay Python locals.
`expressions` has what stands inside statements.
"""

from __future__ import annotations

import ast
import copy
import warnings
from collections.abc import Callable
from types import CellType, CodeType, FunctionType
from typing import Any

from quadrants._errors import QuadrantsNameError, QuadrantsSyntaxError
from quadrants._matrix import Matrix
from quadrants._source import FunctionSource
from quadrants._types import Template

from .expressions import BINARY, MISSING, ExpressionRewriter, Joined, copy_tree, literal, place

_REFUSED = (
    ast.Try, ast.Raise, ast.Import, ast.ImportFrom, ast.Global, ast.Nonlocal, ast.ClassDef, ast.Yield, ast.YieldFrom, ast.Await,
    ast.AsyncFor, ast.AsyncWith, ast.AsyncFunctionDef, ast.pattern,
    *(getattr(ast, newer) for newer in ("TryStar", "TypeAlias", "TemplateStr") if hasattr(ast, newer)),
)  # fmt: skip


class Rewriter(ExpressionRewriter):
    """Rewrites the statements of one function."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.loops: list[tuple[str, int]] = []  # around: the kind of each, and the nesting where it stands
        self.is_in_stream_block = False
        self.sections = ""  # "around": directly in a qd.graph.parallel_context(); "inside": in one of its sections
        self.is_serial = False  # what loop_config says of the next loop
        source: FunctionSource = given[0]
        # What one `return` gives stays as it is, and what is annotated is converted.
        self.keeps_numbers = source.tree.returns is not None or sum(isinstance(node, ast.Return) for node in ast.walk(source.tree)) < 2
        self.local_results: list[ast.expr | None] = []  # return annotations of the functions around inside this one
        self.alternatives = 0  # code that runs for its types: run-time branches and loops around

    def store(self, target: ast.expr, value: ast.expr, static: bool = False) -> list[ast.stmt]:
        """Statements that assign a rewritten value to a target."""
        if isinstance(target, ast.Name):
            return [place(ast.Assign([ast.Name(target.id, ast.Store())], self.stored_value(target, value, static)), target)]
        if static and not isinstance(target, (ast.Tuple, ast.List)):
            self.fail("Static assign cannot be used on elements in arrays", target)
        if isinstance(target, (ast.Subscript, ast.Attribute)) and isinstance(self.resolve(target.value), (list, dict, Matrix)):
            self.fail(f"'{ast.unparse(target.value)}' cannot be changed: a captured value is constant", target)
        if isinstance(target, ast.Subscript):
            call = self.helper("store_element", value, self.visit_place(target.value), self.index(target.slice), at=target)
            return [place(ast.Expr(call), target)]
        if isinstance(target, ast.Attribute):
            call = self.helper(
                "store_member", value, self.visit_place(target.value), *map(literal, (target.attr, ast.unparse(target))), at=target
            )
            return [place(ast.Expr(call), target)]
        if not isinstance(target, (ast.Tuple, ast.List)):
            self.fail(f'Unsupported node "{type(target).__name__}"', target)
        name = self.temporary()
        starred = [position for position, item in enumerate(target.elts) if isinstance(item, ast.Starred)]
        unpacked = self.helper("unpack", value, literal(len(target.elts)), literal(starred[0] if starred else None), at=target)
        out: list[ast.stmt] = [place(ast.Assign([ast.Name(name, ast.Store())], unpacked), target)]
        for position, item in enumerate(target.elts):
            part = place(ast.Subscript(ast.Name(name, ast.Load()), literal(position), ast.Load()), target)
            out += self.store(item.value if isinstance(item, ast.Starred) else item, part, static)
        return out

    def visit_Assign(self, node: ast.Assign) -> list[ast.stmt]:
        static = self.is_static_call(node.value)
        value = self.visit(node.value)
        if len(node.targets) == 1:
            return self.store(node.targets[0], value, static)
        name = self.temporary()
        out: list[ast.stmt] = [place(ast.Assign([ast.Name(name, ast.Store())], value), node)]
        for target in node.targets:
            out += self.store(target, place(ast.Name(name, ast.Load()), node), static)
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
        op = literal(BINARY[type(node.op)])
        if isinstance(node.target, ast.Name):
            role = self.role(node.target.id)
            if role is None:
                known = self.captured(node.target.id) is not MISSING
                text = f'"{node.target.id}": captured value is constant' if known else f'Name "{node.target.id}" is not defined'
                self.fail(text, node.target, QuadrantsSyntaxError if known else QuadrantsNameError)
            self.check_assignable(node.target, role)
            changed = self.helper("augment", op, ast.Name(node.target.id, ast.Load()), self.visit(node.value), at=node)
            return [place(ast.Assign([ast.Name(node.target.id, ast.Store())], changed), node)]
        if isinstance(node.target, ast.Subscript):
            item = (self.visit_place(node.target.value), self.index(node.target.slice))
            return [place(ast.Expr(self.helper("augment_item", op, *item, self.visit(node.value), at=node)), node)]
        return [place(ast.Expr(self.helper("augment_place", op, self.visit_place(node.target), self.visit(node.value), at=node)), node)]

    def visit_Delete(self, node: ast.Delete) -> ast.stmt:
        for target in node.targets:
            if not isinstance(target, ast.Name) or target.id not in self.scopes[-1]:
                self.fail("only variables of the same block can be deleted", node)
            del self.scopes[-1][target.id]
        return place(ast.Pass(), node)

    def block(self, body: list[ast.stmt], scope: dict[str, str] | None = None) -> tuple[list[ast.stmt], dict[str, str]]:
        """Rewrites the statements of a block; gives them with the names that it declared."""
        self.scopes.append(scope or {})
        out: list[ast.stmt] = []
        for statement in body:
            result = self.visit(statement)
            out += result if isinstance(result, list) else [result]
            if isinstance(statement, ast.Return):
                break
        return out or [place(ast.Pass(), body[0])] if body else [], self.scopes.pop()

    def only_types(self) -> bool:
        """Whether the code here runs for its types: both branches of each `if`, each loop once, past every jump."""
        return bool(self.wanted) and not self.function_depth

    def visit_If(self, node: ast.If) -> list[ast.stmt]:
        static = self.is_static_call(node.test)
        if self.only_types() and not static:
            return self.visit_both(node)
        is_nesting = self.is_of_run_time(node.test)
        test = self.helper("truth", self.visit(node.test), at=node.test)
        parts = (node.body, node.orelse)
        nodes = [[inner for top in part for inner in ast.walk(top)] for part in parts]
        stored = [{name.id for name in inside if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)} for inside in nodes]
        originals = [copy_tree(part) if stored[0] & stored[1] else part for part in parts]
        leaves = [_leaves(part) for part in parts]
        self.nesting += is_nesting
        blocks = [self.block(part) for part in parts]
        self.nesting -= is_nesting
        out: list[ast.stmt] = [place(ast.If(test, blocks[0][0], blocks[1][0]), node)]
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
            taken.append(place(ast.Assign([ast.Name(name, ast.Store())], ast.Name(name, ast.Load())), node))
            ends.append((taken[-1], value))
        outer, self.wanted = self.wanted, "variables"
        body = self.block(other)[0]
        self.wanted = outer
        return place(ast.FunctionDef(function, arguments, [*body, result], [], None), node)

    def visit_both(self, node: ast.If) -> list[ast.stmt]:
        """The branches of an `if` one after the other, for their types; a variable that both make gets the common one."""
        out: list[ast.stmt] = [place(ast.Expr(self.visit(node.test)), node)]
        self.alternatives += 1
        ways = [(*self.block(part), _leaves(part)) for part in (node.body, node.orelse)]
        self.alternatives -= 1
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
        return place(ast.Assign([ast.Name(name, ast.Store())], value), at)

    def is_of_run_time(self, node: ast.expr) -> bool:
        """Whether a variable decides: other values may be known while compiling, which only running tells."""
        names = [inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)]
        return not self.is_static_call(node) and any(self.role(name) in ("value", "loop", "parameter") for name in names)

    def loop_kind(self, node: ast.For) -> str:
        """How the compiler runs a loop: in parallel, in order, or written out for items that it knows.

        Of variables and of members of arguments nothing is known.
        """
        is_serial, self.is_serial = self.is_serial, False
        items = node.iter.body if isinstance(node.iter, ast.IfExp) else node.iter
        is_call = isinstance(items, ast.Call)
        found = self.resolve(items.func if is_call else items)  # type: ignore[attr-defined]
        is_range = found is range or getattr(found, "_qd_builtin", None) in ("ndrange", "grouped", "zip")
        if not (is_range if is_call else hasattr(found, "shape")):
            is_known = found is not MISSING or isinstance(items, (ast.Tuple, ast.List, ast.Set, ast.Dict))
            return "unrolled" if is_call or (is_known and not self.is_of_run_time(items)) else "unknown"
        if not self.is_kernel or is_serial or self.nesting or self.function_depth:
            return "serial"
        return "unknown" if any(kind == "unknown" for kind, _ in self.loops) else "parallel"

    def looped(self, kind: str, body: list[ast.stmt], scope: dict[str, str] | None = None) -> list[ast.stmt]:
        """The body of a loop."""
        self.loops.append((kind, self.nesting))
        self.nesting += kind in ("parallel", "serial")
        self.alternatives += kind != "unrolled"
        rewritten = self.block(body, scope)[0]
        self.alternatives -= kind != "unrolled"
        self.nesting = self.loops.pop()[1]
        return rewritten

    def visit_While(self, node: ast.While) -> Any:
        if self.only_types():
            return [place(ast.Expr(self.visit(node.test)), node), *self.looped("serial", node.body), *self.block(node.orelse)[0]]
        if isinstance(node.test, ast.Call) and self.builtin_name(node.test.func) == "graph_do_while":
            return self.visit_repeat(node, node.test)
        test = self.helper("loop_truth", self.visit(node.test), at=node.test)
        return place(ast.While(test, self.looped("serial", node.body), self.block(node.orelse)[0]), node)

    def visit_repeat(self, node: ast.While, call: ast.Call) -> ast.stmt:
        """`while qd.graph.do_while(flag):` as a loop over the rounds."""
        if self.nesting:
            name = "qd.graph.do_while()"
            self.fail(f"{name} must be at the kernel top level or directly in the body of another {name}", call)
        if self.sections == "inside":
            self.fail("qd.graph.do_while() cannot appear inside a qd.graph.parallel() section", call)
        if getattr(call.func, "attr", getattr(call.func, "id", "")) == "graph_do_while":
            text = "qd.graph_do_while() is deprecated and will be removed; use qd.graph.do_while() instead."
            warnings.warn_explicit(text, DeprecationWarning, self.file, call.lineno)
        flag = [self.visit_place(item) for item in call.args]
        rounds = self.helper(
            "rounds", *flag, at=call, keywords=[ast.keyword(item.arg, self.visit_place(item.value)) for item in call.keywords]
        )
        body = self.block(node.body)[0]
        return place(ast.For(ast.Name(self.temporary(), ast.Store()), rounds, body, self.block(node.orelse)[0]), node)

    def visit_Break(self, node: ast.stmt) -> ast.stmt:
        word = type(node).__name__.lower()
        kind, nesting = self.loops[-1] if self.loops else ("serial", 0)
        if kind == "parallel" and word == "break":
            self.fail("Cannot break in the outermost loop: its iterations run in parallel", node)
        if kind == "unrolled" and self.nesting > nesting:
            text = f"You are trying to `{word}` a static `for` loop, but the `{word}` statement is inside a non-static `if`."
            self.fail(text, node)
        return place(ast.Pass(), node) if self.only_types() else node

    visit_Continue = visit_Break

    def visit_For(self, node: ast.For) -> ast.stmt:
        static = self.is_static_call(node.iter)
        kind = self.loop_kind(node)
        count = len(node.target.elts) if isinstance(node.target, (ast.Tuple, ast.List)) else 0
        if static and node.iter.args and self.is_static_call(node.iter.args[0]):  # type: ignore[attr-defined]
            self.fail("'qd.static' cannot be nested", node.iter)
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
        body = self.looped("unrolled" if static else kind, node.body, self.scopes.pop())
        return place(ast.For(node.target, items, body, self.block(node.orelse)[0]), node)

    def visit_Assert(self, node: ast.Assert) -> ast.stmt:
        message = self.visit(node.msg) if node.msg else literal(ast.unparse(node.test))
        test = ast.BoolOp(ast.Or(), [self.helper("skips_assertions", at=node), self.helper("truth", self.visit(node.test), at=node.test)])
        return place(ast.Assert(place(test, node), self.helper("assertion_failed", message, at=node)), node)

    def visit_With(self, node: ast.With) -> ast.stmt:
        call = node.items[0].context_expr
        name = self.builtin_name(call.func) if isinstance(call, ast.Call) else None
        text = "'with' in Quadrants kernels only supports qd.stream_parallel(), qd.graph.parallel_context() and qd.graph.parallel()"
        if len(node.items) != 1:
            text = "'with' in Quadrants kernels only supports a single context manager"
        elif node.items[0].optional_vars is not None:
            text = "'with ... as ...' is not supported in Quadrants kernels"
        elif not isinstance(call, ast.Call):
            text = "'with' in Quadrants kernels requires a call expression"
        elif name == "stream_parallel":
            return self.visit_stream_block(node)
        elif name in ("graph_parallel_context", "graph_parallel"):
            return self.visit_sections(node, call, f"qd.graph.{name.removeprefix('graph_')}()")
        self.fail(text, node)

    def visit_stream_block(self, node: ast.With) -> ast.stmt:
        if not self.is_kernel:
            self.fail("qd.stream_parallel() can only be used inside @qd.kernel", node)
        if self.is_in_stream_block or self.sections:
            self.fail("Nested stream_parallel blocks are not supported", node)
        if self.nesting:
            self.fail("qd.stream_parallel() stands at the top of a kernel, not inside of 'if', 'for' or 'while'", node)
        self.is_in_stream_block = True
        body = self.block(node.body)[0]
        self.is_in_stream_block = False
        return place(ast.If(literal(True), body, []), node)

    def visit_sections(self, node: ast.With, call: ast.Call, name: str) -> ast.stmt:
        """`with qd.graph.parallel_context():` and `with qd.graph.parallel():`, one after the other."""
        if not self.is_kernel:
            self.fail(f"{name} can only be used inside @qd.kernel, not @qd.func", call)
        if call.args or call.keywords:
            self.fail(f"{name} takes no arguments", call)
        spelled = getattr(call.func, "attr", getattr(call.func, "id", ""))
        if spelled.startswith("graph_"):
            text = f"qd.{spelled}() is deprecated and will be removed; use {name} instead."
            warnings.warn_explicit(text, DeprecationWarning, self.file, call.lineno)
        before = self.sections
        if name == "qd.graph.parallel()":
            if before != "around":
                text = "sections cannot be nested" if before else "can only be used directly inside a qd.graph.parallel_context() block"
                self.fail(f"{name} {text}", node)
            self.sections = "inside"
            body = self.block(node.body)[0]
        else:
            if before or self.is_in_stream_block:
                self.fail(f"{name} regions cannot be nested", node)
            if self.nesting:
                where = "at the kernel top level or directly in the body of qd.graph.do_while()"
                self.fail(f"{name} must be {where}, not inside of 'if', 'for' or 'while'", node)
            self.sections = "around"
            body = [place(ast.Expr(self.helper("require_graph", literal(name), at=call)), node), *self.block(node.body)[0]]
        self.sections = before
        return place(ast.If(literal(True), body, []), node)

    def is_section(self, node: ast.stmt) -> bool:
        """Whether a statement is a section, or a static loop or branch around some."""
        if isinstance(node, (ast.For, ast.If)):
            return self.is_static_call(node.iter if isinstance(node, ast.For) else node.test)
        return isinstance(node, (ast.Pass, ast.With)) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))

    def visit_Return(self, node: ast.Return) -> Any:
        if any(kind == "parallel" for kind, _ in self.loops) and not self.function_depth:
            self.fail("Return inside non-static if/for is not supported in parallel loops", node)
        keeps_numbers = self.keeps_numbers and not self.function_depth
        value = self.helper("returned", self.visit(node.value) if node.value else literal(None), literal(keeps_numbers), at=node)
        if self.function_depth and (annotation := self.local_results[-1]) is not None:
            value = self.helper("convert", value, copy_tree(annotation), at=node)
        if not self.only_types():
            return place(ast.Return(value), node)
        noted = place(ast.Expr(self.helper("note_result", value, at=node) if self.wanted == "returns" else value), node)
        # Where compile-time conditions alone lead, nothing behind it is looked at.
        return [noted, place(ast.Return(None), node)] if self.wanted == "returns" and not self.alternatives else noted

    def visit_Expr(self, node: ast.Expr) -> ast.stmt:
        if isinstance(node.value, ast.Call) and self.builtin_name(node.value.func) == "loop_config":
            options = {item.arg: getattr(item.value, "value", None) for item in node.value.keywords}
            self.is_serial = options.get("serialize") is True or options.get("parallelize") == 1
        node.value = node.value if isinstance(node.value, ast.Constant) else self.visit(node.value)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        if node.decorator_list or node.args.vararg or node.args.kwarg:
            inside = "qd.kernel" if self.is_kernel else "qd.func"
            self.fail(f"Function definition is not allowed in '{inside}' with decorators, *args or **kwargs.", node)
        if self.role(node.name):
            self.fail("Recreating variables is not allowed", node)
        arguments = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
        parameters = [argument.arg for argument in arguments]
        own = {*parameters, *(item.id for item in ast.walk(node) if isinstance(item, ast.Name) and isinstance(item.ctx, ast.Store))}
        self.scopes[-1][node.name] = "object"
        annotations = {argument.arg: self.visit(argument.annotation) for argument in arguments if argument.annotation}
        results = node.returns and self.visit(node.returns)
        references = {argument.arg for argument in arguments if argument.annotation and self.is_template(argument.annotation)}
        outer, self.scopes = self.scopes, [{name: role for name, role in scope.items() if name not in own} for scope in self.scopes]
        self.function_depth += 1
        self.local_results.append(results)
        roles = {name: "place" if name in self.references | references else "value" for name in parameters}
        body = self.block(node.body, dict(roles))[0]
        self.local_results.pop()
        self.function_depth -= 1
        self.scopes = outer
        for name, role in roles.items():
            value: ast.expr = ast.Name(name, ast.Load())
            if name in references:
                continue
            if name in annotations:
                value = self.helper("passed", literal(name), annotations[name], value, at=node)
            value = self.helper("declare", value, at=node)
            value = self.helper("place_of", value, at=node) if role == "place" else value
            body.insert(0, place(ast.Assign([ast.Name(name, ast.Store())], value), node))
        for argument in arguments:
            argument.annotation = None
        made = place(ast.FunctionDef(node.name, node.args, body, [], None), node)
        if not references:
            return made
        keys = {key for key in enumerate(parameters) if key[1] in references}
        marked = ast.Attribute(ast.Name(node.name, ast.Load()), "_qd_references", ast.Store())
        numbers = ast.Tuple([literal(part) for key in sorted(keys) for part in key], ast.Load())
        return [made, place(ast.Assign([marked], numbers), node)]

    def is_template(self, annotation: ast.expr) -> bool:
        """Whether a parameter inside a kernel is annotated with `qd.template()`."""
        return self.resolve(annotation.func if isinstance(annotation, ast.Call) else annotation) is Template

    def visit(self, node: ast.AST) -> Any:
        if self.sections == "around" and isinstance(node, ast.stmt) and not self.is_section(node):
            text = "may contain only 'with qd.graph.parallel():' blocks, and static loops and branches around them"
            self.fail(f"qd.graph.parallel_context() {text}", node)
        if isinstance(node, _REFUSED):
            self.fail(f'Unsupported node "{type(node).__name__}"', node)
        return super().visit(node)


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
    source: FunctionSource,
    roles: dict[str, str],
    by_reference: Callable[[Any], Any],
    evaluator: Any,
    is_kernel: bool,
    rewriter: type[Rewriter] = Rewriter,
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
        body = rewriter(source, roles, by_reference, references, is_kernel).block(copy_tree(source.tree.body))[0]
    tree = copy.copy(source.tree)
    arguments = copy_tree(tree.args)
    arguments.args += arguments.kwonlyargs  # all are given by position
    for argument in (*arguments.posonlyargs, *arguments.args):
        argument.annotation = None
    arguments.defaults, arguments.kwonlyargs, arguments.kw_defaults = [], [], []
    entry = [place(_parameter_place(name), tree) for name in sorted(references & set(roles))]
    inner = place(ast.FunctionDef("_qd_function", arguments, entry + body, [], None), tree)
    outer_names = ["_qd", *function.__code__.co_freevars]
    outer = ast.FunctionDef(
        "_qd_factory", ast.arguments([], [ast.arg(name) for name in outer_names], None, [], [], None, []), [inner], [], None
    )
    module = ast.fix_missing_locations(ast.Module([place(outer, tree)], []))
    factory = next(item for item in compile(module, source.file, "exec", optimize=0).co_consts if isinstance(item, CodeType))
    code = next(item for item in factory.co_consts if isinstance(item, CodeType)).replace(co_name=tree.name)
    cells: dict[str, CellType] = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=False))
    cells["_qd"] = CellType(evaluator)
    return FunctionType(code, function.__globals__, function.__name__, None, tuple(cells[name] for name in code.co_freevars))


def _parameter_place(name: str) -> ast.stmt:
    function = ast.Attribute(ast.Name("_qd", ast.Load()), "place_of", ast.Load())
    return ast.Assign([ast.Name(name, ast.Store())], ast.Call(function, [ast.Name(name, ast.Load())], []))

"""Rewrites the syntax tree of a kernel or func into Python code that computes with typed values.

Every node has its source location in the user's file, so that breakpoints, coverage and tracebacks work. Control flow remains Python's;
operators, accesses, calls and assignments become calls of the `Evaluator`, bound to the name `_qd`. Variables remain Python locals.
`expressions` rewrites the expressions inside statements.
"""

from __future__ import annotations

import ast
import copy
from collections import ChainMap
from collections.abc import Callable
from types import CellType, CodeType, FunctionType
from typing import Any

from quadrants._base.source import FunctionSource, all_arguments, copy_tree
from quadrants._language.checkpoints import HIDDEN, MISSING, Names, changes_data, get_argument
from quadrants._values.types import Template

from .expressions import BINARY, ExpressionRewriter, Joined, helper, literal, load, place


def _has_one_return(tree: ast.AST) -> bool:
    return sum(isinstance(node, ast.Return) for node in ast.walk(tree)) < 2


def set_name(name: str, value: ast.expr, at: ast.AST) -> ast.stmt:
    """Returns `name = value`."""
    return place(ast.Assign([ast.Name(name, ast.Store())], value), at)


class Rewriter(ExpressionRewriter):
    """Rewrites the statements of one function."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        source: FunctionSource = given[0]
        # A returned value is unchanged unless it is annotated; then it is converted.
        self.keeps_numbers = source.tree.returns is not None or _has_one_return(source.tree)
        self.local_results: list[ast.expr | None] = []  # return annotations of the enclosing functions inside this one
        self.have_one_return = [self.keeps_numbers]  # this function and those inside
        self.is_gated = HIDDEN in given[1] and not self.wanted  # statements of the kernel's top level, which a resumed launch may skip
        self.indices: list[str] = []  # of the enclosing loops
        self.alternatives = 0  # in code that runs for types: number of enclosing run-time branches and loops
        self.is_nested = False  # in a run-time branch or loop that has told the evaluator

    def store(self, target: Any, value: ast.expr, static: bool = False) -> list[ast.stmt]:
        """Returns statements that assign a rewritten value to a target."""
        if isinstance(target, ast.Name):
            return [set_name(target.id, self.stored_value(target, value, static), target)]
        if isinstance(target, ast.Subscript):
            return [self.statement("store_element", value, self.visit_place(target.value), self.index(target.slice), at=target)]
        if isinstance(target, ast.Attribute):
            return [self.statement("store_member", value, self.visit_place(target.value), literal(target.attr), at=target)]
        name = self.temporary()
        starred = [position for position, item in enumerate(target.elts) if isinstance(item, ast.Starred)]
        unpacked = helper("unpack", value, literal(len(target.elts)), literal(starred[0] if starred else None), at=target)
        out: list[ast.stmt] = [set_name(name, unpacked, target)]
        for position, item in enumerate(target.elts):
            part = place(ast.Subscript(load(name), literal(position), ast.Load()), target)
            out += self.store(item.value if isinstance(item, ast.Starred) else item, part, static)
        return out

    def statement(self, name: str, *arguments: ast.expr, at: ast.AST) -> ast.stmt:
        """Returns a call of an `Evaluator` method as a statement."""
        return place(ast.Expr(helper(name, *arguments, at=at)), at)

    def visit_Assign(self, node: ast.Assign) -> list[ast.stmt]:
        parts = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
        static = all(map(self.is_static_call, parts))
        value = self.visit(node.value)
        if len(node.targets) == 1:
            return self.store(node.targets[0], value, static)
        name = self.temporary()
        out: list[ast.stmt] = [set_name(name, value, node)]
        for target in node.targets:
            out += self.store(target, place(load(name), node), static)
        return out

    def visit_AnnAssign(self, node: ast.AnnAssign) -> list[ast.stmt]:
        return self.store(node.target, helper("convert", self.visit(node.value), self.visit(node.annotation), at=node))  # type: ignore[arg-type]

    def visit_AugAssign(self, node: ast.AugAssign) -> list[ast.stmt]:
        op = literal(BINARY[type(node.op)])
        if isinstance(node.target, ast.Name):
            self.role(node.target.id)
            changed = helper("augment", op, load(node.target.id), self.visit(node.value), at=node)
            return [set_name(node.target.id, changed, node)]
        if isinstance(node.target, ast.Subscript):
            item = (self.visit_place(node.target.value), self.index(node.target.slice))
            return [self.statement("augment_item", op, *item, self.visit(node.value), at=node)]
        if isinstance(node.target, ast.Attribute) and self.resolve(node.target) is MISSING:
            place_of = (self.visit_place(node.target.value), literal(node.target.attr))
            return [self.statement("augment_member", op, *place_of, self.visit(node.value), at=node)]
        return [self.statement("augment_place", op, self.visit_place(node.target), self.visit(node.value), at=node)]

    def visit_Delete(self, node: ast.Delete) -> ast.stmt:
        subscripts = [target for target in node.targets if isinstance(target, ast.Subscript)]
        items = [place(ast.Subscript(self.visit_place(item.value), self.visit(item.slice), ast.Del()), item) for item in subscripts]
        for target in node.targets:
            if isinstance(target, ast.Name):
                del self.scopes[-1][target.id]
        return place(ast.Delete(items) if items else ast.Pass(), node)

    def block(self, body: list[ast.stmt], scope: dict[str, str] | None = None) -> tuple[list[ast.stmt], dict[str, str]]:
        """Rewrites the statements of a block; returns them with the names that it declared."""
        self.scopes.append(scope or {})
        out: list[ast.stmt] = []
        for statement in body:
            result = self.visit_gated(statement) if self.is_gated else self.visit(statement)
            out += result if isinstance(result, list) else [result]
            if isinstance(statement, ast.Return):
                break
        return out or [place(ast.Pass(), body[0])] if body else [], self.scopes.pop()

    def visit_gated(self, node: ast.stmt) -> Any:
        """Rewrites a statement of a kernel with checkpoints: one that changes data runs only if its position has been reached."""
        is_repeated = (
            isinstance(node, ast.While) and isinstance(node.test, ast.Call) and self.builtin_name(node.test.func) == "graph_do_while"
        )
        is_unrolled = isinstance(node, (ast.For, ast.If)) and self.is_static_call(node.iter if isinstance(node, ast.For) else node.test)
        if isinstance(node, (ast.With, ast.Return)) or is_repeated or is_unrolled:
            return self.visit(node)
        changes = changes_data(node, Names(self.function))
        self.is_gated = False
        result = self.visit(node)
        self.is_gated = True
        body = result if isinstance(result, list) else [result]
        return place(ast.If(helper("runs", literal(isinstance(node, ast.For)), at=node), body, []), node) if changes and body else result

    def nested(self, node: ast.stmt, rewrite: Callable[[], list[ast.stmt]]) -> list[ast.stmt]:
        """Returns the code of a run-time branch or loop. Loops in it, and in funcs that it calls, are no tasks of the kernel."""
        if self.is_nested:
            return rewrite()
        self.is_nested = True
        out = rewrite()
        self.is_nested = False
        begin, end = (self.statement("nest", literal(change), at=node) for change in (1, -1))
        return [begin, place(ast.Try(out, [], [], [end]), node)]

    def only_types(self) -> bool:
        """Whether this code runs for types: both branches of each `if`, each loop once, past every jump."""
        return bool(self.wanted) and not self.function_depth

    def visit_If(self, node: ast.If) -> list[ast.stmt]:
        static = self.is_static_call(node.test)
        if self.only_types() and not static:
            return self.visit_both(node)
        links = [node]  # with its `elif` branches: a variable of all branches gets one common type
        while not static and len(rest := links[-1].orelse) == 1 and isinstance(rest[0], ast.If) and not self.is_static_call(rest[0].test):
            links.append(rest[0])
        is_nest = not static and any(isinstance(inner, (ast.For, ast.Call)) for inner in ast.walk(node))
        return self.nested(node, lambda: self.branches(links, static)) if is_nest else self.branches(links, static)

    def branches(self, links: list[ast.If], static: bool) -> list[ast.stmt]:
        """Rewrites an `if` and its `elif` branches."""
        node, parts = links[0], [*(link.body for link in links), links[-1].orelse]
        reaching = [position for position, part in enumerate(parts) if not _leaves(part)]  # paths that reach the end
        may_join = not static and len(reaching) > 1 and parts[-1]
        used = {name for name, last in self.last.items() if last > (node.end_lineno, node.end_col_offset)}
        stored = [{name for top in parts[position] for name in _stored(top) & used} for position in reaching]
        original = copy_tree(node) if may_join and set.intersection(*stored).difference(*self.scopes) else node
        tests, blocks = [], []
        for link in links:
            self.scopes += [{}] * (link is not node)
            tests.append(helper("truth", self.visit(link.test), at=link.test))
            blocks.append(self.block(link.body))
        blocks.append(self.block(parts[-1]))
        in_tests = [self.scopes.pop() for _ in links[1:]][::-1]
        code = blocks[-1][0]
        for link, test, block in zip(links[::-1], tests[::-1], blocks[-2::-1], strict=True):
            code = [place(ast.If(test, block[0], code), link)]
        # A name that every path declares is visible afterwards; a path that leaves the block need not declare it.
        paths = [ChainMap(blocks[position][1], *in_tests[:position]) for position in reaching]
        combine = set.union if static else set.intersection  # a compile-time `if` has only one path
        joined = sorted(combine(*map(set, paths)) & used) if paths and (parts[-1] or static) else []
        ends: list[tuple[Any, ast.expr]] = []
        if joined and may_join:
            code.insert(0, self.join(original, joined, [blocks[position][0] for position in reaching], ends))
        for name in joined:
            found: list[tuple[Any, Any]] = [(names, names[name]) for names in paths if name in names]
            roles = [role.merge(names, name) if isinstance(role, Joined) else role for names, role in found]
            self.scopes[-1].setdefault(name, Joined(roles[0], [item for item in ends if item[0].targets[0].id == name]))
        return code

    def join(self, node: ast.If, names: list[str], branches: list[list[ast.stmt]], ends: list[tuple[Any, ast.expr]]) -> ast.stmt:
        """Ends branches by converting joint variables to their common type: all of them run, as a function, for their types."""
        function = self.temporary()
        parameters = sorted({name for scope in self.scopes for name in scope})
        result = ast.Return(ast.Tuple([load(name) for name in names], ast.Load()))
        arguments = ast.arguments([], [ast.arg(name) for name in parameters], None, [], [], None, [])
        for body in branches:
            for position, name in enumerate(names):
                value = helper("join_types", load(name), load(function), literal(position), *map(load, parameters), at=node)
                body.append(set_name(name, load(name), node))
                ends.append((body[-1], value))
        outer, (self.wanted, self.function_depth) = (self.wanted, self.function_depth), ("variables", 0)
        body = self.block([node])[0]
        self.wanted, self.function_depth = outer
        return place(ast.FunctionDef(function, arguments, [*body, result], [], None), node)

    def visit_both(self, node: ast.If) -> list[ast.stmt]:
        """Rewrites the branches of an `if` to run one after the other, for their types; a variable of both gets the common type."""
        out: list[ast.stmt] = [place(ast.Expr(self.visit(node.test)), node)]
        self.alternatives += 1
        paths = [(*self.block(part), _leaves(part)) for part in (node.body, node.orelse)]
        self.alternatives -= 1
        (first, one, first_leaves), (second, other, second_leaves) = sorted(paths, key=lambda path: not path[2])
        saved = {} if first_leaves else {name: self.temporary() for name in one if name in other}
        out += [*first, *(set_name(variable, load(name), node) for name, variable in saved.items()), *second]
        for name, variable in saved.items():
            common = helper("unify", load(variable), load(name), at=node)
            out.append(set_name(name, common, node))
        for name in () if second_leaves else other if first_leaves else saved:
            role = other[name]
            self.scopes[-1].setdefault(name, Joined(role.role if isinstance(role, Joined) else role, []))
        return out

    def is_unrolled(self, items: ast.expr) -> bool:
        """Whether the compiler unrolls a loop: one over compile-time items."""
        is_call = isinstance(items, ast.Call)
        found = self.resolve(items.func if is_call else items)  # type: ignore[attr-defined]
        if found is range or hasattr(found, "shape") or getattr(found, "_qd_builtin", None) in ("ndrange", "grouped", "zip"):
            return False
        return is_call or found is not MISSING or isinstance(items, (ast.Tuple, ast.List, ast.Set, ast.Dict))

    def looped(self, body: list[ast.stmt], scope: dict[str, str] | None = None, unrolled: bool = False) -> list[ast.stmt]:
        """Rewrites the body of a loop."""
        self.alternatives += not unrolled
        rewritten = self.block(body, scope)[0]
        self.alternatives -= not unrolled
        return rewritten

    def visit_While(self, node: ast.While) -> Any:
        if self.only_types():
            return [place(ast.Expr(self.visit(node.test)), node), *self.looped(node.body), *self.block(node.orelse)[0]]
        if isinstance(node.test, ast.Call) and self.builtin_name(node.test.func) == "graph_do_while":
            flag = [*node.test.args, *(item.value for item in node.test.keywords)][0]
            rounds = helper("rounds", self.visit_place(flag), at=node.test)
            body = self.block(node.body)[0]
            return place(ast.For(ast.Name(self.temporary(), ast.Store()), rounds, body, self.block(node.orelse)[0]), node)
        test = helper("loop_truth", self.visit(node.test), at=node.test)
        return self.nested(node, lambda: [place(ast.While(test, self.looped(node.body), self.block(node.orelse)[0]), node)])

    def visit_Break(self, node: ast.stmt) -> ast.stmt:
        return place(ast.Pass(), node) if self.only_types() else node

    visit_Continue = visit_Break

    def visit_For(self, node: ast.For) -> ast.stmt:
        static = self.is_static_call(node.iter)
        count = len(node.target.elts) if isinstance(node.target, (ast.Tuple, ast.List)) else 0
        unrolled = static or self.is_unrolled(node.iter)
        if static:
            items = helper("static_items", self.visit(node.iter), at=node.iter)
        elif isinstance(node.iter, ast.Subscript):
            part = (self.visit_place(node.iter.value), self.index(node.iter.slice))
            items = helper("iterate_slice", *part, literal(count), at=node.iter)
        else:
            items = helper("iterate", self.visit(node.iter), literal(count), at=node.iter)
        names = self.names_of(node.target)
        if not unrolled:  # variables of an ndrange can be assigned
            names = {name: "place" if name in self.references else "value" for name in names}
        placed = [name for name, role in names.items() if role == "place"]
        self.indices += names
        body = self.looped(node.body, names, unrolled)
        del self.indices[len(self.indices) - len(names) :]
        body = [*(set_name(name, helper("place_of", load(name), at=node.target), node.target) for name in placed), *body]
        return place(ast.For(node.target, items, body, self.block(node.orelse)[0]), node)

    def visit_Assert(self, node: ast.Assert) -> ast.stmt:
        message = self.visit(node.msg) if node.msg else literal(ast.unparse(node.test))
        is_checked = getattr(self.function, "__module__", "") == "quadrants._sparse.trees"
        test = ast.BoolOp(
            ast.Or(), [helper("truth", self.visit(node.test), at=node.test), helper("skips_assertions", literal(is_checked), at=node)]
        )
        indices = [part for name in self.indices for part in (literal(name), load(name))]
        return place(ast.Assert(place(test, node), helper("assertion_failed", message, *indices, at=node)), node)

    def visit_With(self, node: ast.With) -> ast.stmt | list[ast.stmt]:
        """Rewrites `with qd.stream_parallel():` and sections of graphs, which run one after the other, and checkpoints."""
        call: Any = node.items[0].context_expr
        if isinstance(call, ast.Call) and self.builtin_name(call.func) == "checkpoint":
            name = self.temporary()
            label = set_name(name, self.visit(get_argument(call, 0, "cp_id")), node)
            flag = self.visit_place(get_argument(call, 1, "yield_on"))
            body, declared = self.block(node.body)
            self.scopes[-1].update(declared)
            return [label, self.statement("resume_at", load(name), at=node), *body, self.statement("suspend", load(name), flag, at=node)]
        body, end = self.block(node.body)[0], self.statement("section", at=node)
        is_section = not (isinstance(call, ast.Call) and self.builtin_name(call.func) == "graph_parallel_context")
        return place(ast.If(literal(True), [self.statement("section", at=node), *body, end] if is_section else body, []), node)

    def visit_Return(self, node: ast.Return) -> Any:
        keeps_numbers = self.keeps_numbers and not self.function_depth
        result, shares = self.visit(node.value) if node.value else literal(None), literal(self.have_one_return[-1])
        value = helper("returned", result, literal(keeps_numbers), shares, at=node)
        if self.function_depth and (annotation := self.local_results[-1]) is not None:
            value = helper("convert", value, copy_tree(annotation), at=node)
        if not self.only_types():
            return place(ast.Return(value), node)
        noted = place(ast.Expr(helper("note_result", value, at=node) if self.wanted == "returns" else value), node)
        # Code behind a jump under compile-time conditions only is not evaluated.
        return [noted, place(ast.Return(None), node)] if self.wanted == "returns" and not self.alternatives else noted

    def visit_Expr(self, node: ast.Expr) -> ast.stmt:
        node.value = node.value if isinstance(node.value, ast.Constant) else self.visit(node.value)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        if node.returns or _has_one_return(node):
            return self.define(node)
        other = copy_tree(node)
        other.name, other.args.defaults, other.args.kw_defaults = self.temporary(), [], [None] * len(node.args.kwonlyargs)
        for_types = copy.copy(self)
        for_types.wanted, for_types.function_depth, for_types.alternatives, for_types.keeps_numbers = "returns", -1, 0, False
        marked = ast.Attribute(load(node.name), "_qd_returns", ast.Store())
        return [*self.define(node), *for_types.define(other), place(ast.Assign([marked], load(other.name)), node)]

    def define(self, node: ast.FunctionDef) -> list[ast.stmt]:
        """Rewrites a function inside this one, and marks its parameters that are references."""
        self.visit_defaults(node.args)
        arguments = all_arguments(node.args)
        parameters = [argument.arg for argument in arguments]
        own = {*parameters, *_stored(node)}
        self.scopes[-1][node.name] = "fixed"
        annotations = {argument.arg: self.visit(argument.annotation) for argument in arguments if argument.annotation}
        results = node.returns and self.visit(node.returns)
        references = {argument.arg for argument in arguments if argument.annotation and self.is_template(argument.annotation)}
        outer, self.scopes = self.scopes, [{name: role for name, role in scope.items() if name not in own} for scope in self.scopes]
        self.function_depth += 1
        is_nested, self.is_nested = self.is_nested, False
        self.local_results.append(results)
        self.have_one_return.append(_has_one_return(node))
        roles = {name: "place" if name in self.references | references else "value" for name in parameters}
        body = self.block(node.body, dict(roles))[0]
        self.have_one_return.pop()
        self.local_results.pop()
        self.function_depth -= 1
        self.is_nested = is_nested
        self.scopes = outer
        for name, role in roles.items():
            if name in references:
                continue
            is_starred = [starred is not None and starred.arg == name for starred in (node.args.vararg, node.args.kwarg)]
            value: ast.expr = load("_qd_item" if any(is_starred) else name)
            if name in annotations:
                value = helper("passed", literal(name), annotations[name], value, at=node)
            value = helper("declare", value, at=node)
            if any(is_starred):
                value = helper(
                    "each", load(name), ast.Lambda(ast.arguments([], [ast.arg("_qd_item")], None, [], [], None, []), value), at=node
                )
            value = helper("place_of", value, at=node) if role == "place" else value
            body.insert(0, set_name(name, value, node))
        for argument in arguments:
            argument.annotation = None
        made = place(ast.FunctionDef(node.name, node.args, body, [], None), node)
        keys = {key for key in enumerate(parameters) if key[1] in references}
        marked = ast.Attribute(load(node.name), "_qd_references", ast.Store())
        numbers = ast.Tuple([literal(part) for key in sorted(keys) for part in key], ast.Load())
        return [made, place(ast.Assign([marked], numbers), node)]

    def is_template(self, annotation: ast.expr) -> bool:
        """Whether a parameter inside a kernel is annotated with `qd.template()`."""
        return self.resolve(annotation.func if isinstance(annotation, ast.Call) else annotation) is Template


def _stored(node: ast.AST) -> set[str]:
    """Returns the names that a statement assigns."""
    return {name.id for name in ast.walk(node) if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)}


def _leaves(body: list[ast.stmt]) -> bool:
    """Whether a block never reaches its end."""
    last = body[-1] if body else None
    if isinstance(last, ast.If):
        return bool(last.orelse) and _leaves(last.body) and _leaves(last.orelse)
    return isinstance(last, (ast.Return, ast.Break, ast.Continue))


def rewrite(
    source: FunctionSource, roles: dict[str, str], by_reference: Callable[[Any], Any], evaluator: Any, wanted: str
) -> FunctionType | None:
    """Returns the function that computes `source`. Its globals and closure are those of the user's function, so captured values are
    current.

    With `wanted` "returns", it visits every `return` to find all types; it returns None if there is only one `return`.
    """
    if wanted and sum(isinstance(node, ast.Return) for node in ast.walk(source.tree)) < 2:
        return None
    function: Any = source.function
    references: set[str] = set()
    body: list[ast.stmt] = []
    known = -1
    while len(references) != known:  # repeat when further locals need places
        known = len(references)
        body = Rewriter(source, roles, by_reference, references, wanted).block(copy_tree(source.tree.body))[0]
    tree = copy.copy(source.tree)
    arguments = copy_tree(tree.args)
    arguments = ast.arguments([], all_arguments(arguments), None, [], [], None, [])  # all are passed by position
    arguments.args += [ast.arg(HIDDEN)] if HIDDEN in roles else []
    for argument in arguments.args:
        argument.annotation = None
    entry = [set_name(name, helper("place_of", load(name), at=tree), tree) for name in sorted(references & set(roles))]
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

"""`match` statements as chains of `if`, which are all that the compiler and the interpreter see."""

from __future__ import annotations

import ast
from typing import Any


class MatchLowering(ast.NodeTransformer):
    """Rewrites the `match` statements of a function. Patterns of classes and mappings stay: nodes that are refused where they stand."""

    def __init__(self) -> None:
        self.count = 0

    def visit_Match(self, node: ast.Match) -> list[ast.stmt]:
        self.generic_visit(node)
        before: list[ast.stmt] = []
        subject: ast.expr = node.subject
        if not isinstance(subject, ast.Name):
            name = f"_qd_match_{self.count}"
            self.count += 1
            before = [_at(node.subject, ast.Assign([_at(node.subject, ast.Name(name, ast.Store()))], subject))]
            subject = _at(node.subject, ast.Name(name, ast.Load()))
        chain: list[ast.stmt] = []
        for case in reversed(node.cases):
            tests, captures = _read_pattern(case.pattern, subject)
            if case.guard:
                tests.append(_Substitution(captures).visit(case.guard))
            binds = [_at(case.pattern, ast.Assign([ast.Name(name, ast.Store())], value)) for name, value in captures.items()]
            chain = [_at(case.pattern, ast.If(_all(tests, case.pattern), [*binds, *case.body], chain))] if tests else [*binds, *case.body]
        return [ast.fix_missing_locations(statement) for statement in (*before, *chain)]


class _Substitution(ast.NodeTransformer):
    """A guard is tested before its names are bound: it gets what they will stand for."""

    def __init__(self, captures: dict[str, ast.expr]):
        self.captures = captures

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self.captures.get(node.id, node)


def _read_pattern(pattern: ast.pattern, subject: ast.expr) -> tuple[list[Any], dict[str, ast.expr]]:
    """What must hold, in order, and what the names of a pattern stand for."""
    match pattern:
        case ast.MatchValue() | ast.MatchSingleton():
            value = pattern.value if isinstance(pattern.value, ast.expr) else ast.Constant(pattern.value)
            return [_at(pattern, ast.Compare(subject, [ast.Eq()], [_at(pattern, value)]))], {}
        case ast.MatchAs():
            tests, captures = _read_pattern(pattern.pattern, subject) if pattern.pattern else ([], {})
            return tests, {**captures, pattern.name: subject} if pattern.name else captures
        case ast.MatchOr():
            ways = [_read_pattern(way, subject) for way in pattern.patterns]
            if all(tests and not captures for tests, captures in ways):
                return [_at(pattern, ast.BoolOp(ast.Or(), [_all(tests, pattern) for tests, _ in ways]))], {}
            return ([] if not any(captures for _, captures in ways) else [pattern]), {}
        case ast.MatchSequence() if not any(isinstance(part, ast.MatchStar) for part in pattern.patterns):
            length = ast.Call(ast.Name("len", ast.Load()), [subject], [])
            tests = [_at(pattern, ast.Compare(length, [ast.Eq()], [ast.Constant(len(pattern.patterns))]))]
            captures = {}
            for position, part in enumerate(pattern.patterns):
                item = _at(part, ast.Subscript(subject, ast.Constant(position), ast.Load()))
                inner, names = _read_pattern(part, item)
                tests += inner
                captures.update(names)
            return tests, captures
    return [pattern], {}


def _all(tests: list[Any], at: ast.AST) -> Any:
    return tests[0] if len(tests) == 1 else _at(at, ast.BoolOp(ast.And(), tests))


def _at(at: ast.AST, node: Any) -> Any:
    """The node, standing where `at` stands."""
    return ast.fix_missing_locations(ast.copy_location(node, at))

"""Rewrites `match` statements into chains of `if`; the compiler and the interpreter do not see `match`."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Any


class MatchLowering(ast.NodeTransformer):
    """Rewrites the `match` statements of a function.

    A pattern becomes a list of tests, evaluated from left to right, and a mapping from its names to expressions. The test of a class
    pattern is `isinstance(subject, class, True)`, where run-time numbers are instances of `int`, `float` and `bool`, and vectors are
    sequences.
    """

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
    """Replaces names by expressions. A guard is tested before the names of its pattern are bound, so it gets their expressions."""

    def __init__(self, captures: dict[str, ast.expr]):
        self.captures = captures

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self.captures.get(node.id, node)


# Classes whose one positional pattern is the subject itself (PEP 634).
_OF_THEMSELVES = frozenset("bool bytearray bytes dict float frozenset int list set str tuple".split())


def _read_pattern(pattern: ast.pattern, subject: ast.expr) -> tuple[list[Any], dict[str, ast.expr]]:
    """Returns the tests of a pattern, in order, and the expressions that its names stand for."""
    match pattern:
        case ast.MatchValue() | ast.MatchSingleton():
            value = pattern.value if isinstance(pattern.value, ast.expr) else ast.Constant(pattern.value)
            return [_fill(pattern, "S == VALUE", S=subject, VALUE=_at(pattern, value))], {}
        case ast.MatchAs():
            tests, captures = _read_pattern(pattern.pattern, subject) if pattern.pattern else ([], {})
            return tests, {**captures, pattern.name: subject} if pattern.name else captures
        case ast.MatchOr():
            return _read_alternatives(pattern, subject)
        case ast.MatchSequence():
            return _read_sequence(pattern, subject)
        case ast.MatchMapping():
            tests = [_fill(pattern, "isinstance(S, dict)", S=subject)]
            tests += [_fill(pattern, "KEY in S", KEY=key, S=subject) for key in pattern.keys]
            items = [_fill(pattern, "S[KEY]", S=subject, KEY=key) for key in pattern.keys]
            tests, captures = _read_parts(tests, zip(pattern.patterns, items, strict=True))
            if pattern.rest:
                others = "{key: value for key, value in S.items() if key not in KEYS}"
                captures[pattern.rest] = _fill(pattern, others, S=subject, KEYS=ast.List(pattern.keys, ast.Load()))
            return tests, captures
        case ast.MatchClass():
            of, count = pattern.cls, len(pattern.patterns)
            members = [_fill(pattern, f"getattr(S, OF.__match_args__[{position}])", S=subject, OF=of) for position in range(count)]
            if isinstance(of, ast.Name) and of.id in _OF_THEMSELVES and count == 1:
                members = [subject]
            members += [_fill(pattern, f"S.{name}", S=subject) for name in pattern.kwd_attrs]
            tests = [_fill(pattern, "isinstance(S, OF, True)", S=subject, OF=of)]
            return _read_parts(tests, zip([*pattern.patterns, *pattern.kwd_patterns], members, strict=True))
    raise TypeError(f"unknown pattern {type(pattern).__name__}")


def _read_parts(tests: list[Any], parts: Iterable[tuple[ast.pattern, ast.expr]]) -> tuple[list[Any], dict[str, ast.expr]]:
    """Appends the tests of the patterns for parts of a subject to `tests`."""
    captures: dict[str, ast.expr] = {}
    for part, subject in parts:
        inner, names = _read_pattern(part, _at(part, subject))
        tests += inner
        captures.update(names)
    return tests, captures


def _read_alternatives(pattern: ast.MatchOr, subject: ast.expr) -> tuple[list[Any], dict[str, ast.expr]]:
    """Reads an or-pattern: each name gets the expression of the first alternative that matches."""
    alternatives = [_read_pattern(alternative, subject) for alternative in pattern.patterns]
    conditions = [_all(tests, pattern) if tests else _at(pattern, ast.Constant(True)) for tests, _ in alternatives]
    captures = alternatives[-1][1]
    for condition, (_, names) in reversed(list(zip(conditions, alternatives, strict=True))[:-1]):
        captures = {name: _at(pattern, ast.IfExp(condition, value, captures[name])) for name, value in names.items()}
    return [_at(pattern, ast.BoolOp(ast.Or(), conditions))] if all(tests for tests, _ in alternatives) else [], captures


def _read_sequence(pattern: ast.MatchSequence, subject: ast.expr) -> tuple[list[Any], dict[str, ast.expr]]:
    """Reads the items of a sequence pattern; a starred pattern gets the remaining items."""
    parts = pattern.patterns
    star = next((position for position, part in enumerate(parts) if isinstance(part, ast.MatchStar)), None)
    items: list[tuple[ast.pattern, ast.expr]] = []
    rest: dict[str, ast.expr] = {}
    for position, part in enumerate(parts):
        behind = len(parts) - position - 1
        if isinstance(part, ast.MatchStar):
            if part.name:
                rest[part.name] = _fill(part, f"S[{position} : len(S) - {behind}]" if behind else f"S[{position}:]", S=subject)
        else:
            is_behind = star is not None and position > star
            items.append((part, _fill(part, f"S[len(S) - {behind + 1}]" if is_behind else f"S[{position}]", S=subject)))
    tests = [_fill(pattern, "isinstance(S, (list, tuple, range), True)", S=subject)]
    tests.append(_fill(pattern, f"len(S) == {len(parts)}" if star is None else f"len(S) >= {len(parts) - 1}", S=subject))
    tests, captures = _read_parts(tests, items)
    return tests, {**captures, **rest}


def _fill(at: ast.AST, text: str, **parts: ast.expr) -> ast.expr:
    """Parses the expression `text`, replaces its names by these expressions, and gives it the source location of `at`."""
    made = ast.parse(text, mode="eval").body
    for node in ast.walk(made):
        ast.copy_location(node, at)
    return _Substitution(parts).visit(made)


def _all(tests: list[Any], at: ast.AST) -> Any:
    return tests[0] if len(tests) == 1 else _at(at, ast.BoolOp(ast.And(), tests))


def _at(at: ast.AST, node: Any) -> Any:
    """Gives the node the source location of `at`."""
    return ast.fix_missing_locations(ast.copy_location(node, at))

"""`match` statements as chains of `if`, which are all that the compiler and the interpreter see."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Any


class MatchLowering(ast.NodeTransformer):
    """Rewrites the `match` statements of a function.

    A pattern becomes tests, which are done from left to right, and what its names stand for. `isinstance(subject, of, True)` is the test
    of a class pattern: numbers of the run time are instances of `int`, `float` and `bool` there, and vectors are sequences.
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
    """A guard is tested before its names are bound: it gets what they will stand for."""

    def __init__(self, captures: dict[str, ast.expr]):
        self.captures = captures

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self.captures.get(node.id, node)


# Classes whose one positional pattern is the subject itself (PEP 634).
_OF_THEMSELVES = frozenset("bool bytearray bytes dict float frozenset int list set str tuple".split())


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
            return _read_alternatives(pattern, subject)
        case ast.MatchSequence():
            return _read_sequence(pattern, subject)
        case ast.MatchMapping():
            tests = [_call(pattern, "isinstance", subject, _name("dict"))]
            tests += [_at(pattern, ast.Compare(key, [ast.In()], [subject])) for key in pattern.keys]
            tests, captures = _read_parts(
                tests, zip(pattern.patterns, [ast.Subscript(subject, key, ast.Load()) for key in pattern.keys], strict=True)
            )
            return tests, {**captures, pattern.rest: _rest_of(pattern, subject)} if pattern.rest else captures
        case ast.MatchClass():
            of = pattern.cls
            names = [
                ast.Subscript(ast.Attribute(of, "__match_args__", ast.Load()), ast.Constant(position), ast.Load())
                for position in range(len(pattern.patterns))
            ]
            members: list[ast.expr] = [_call(pattern, "getattr", subject, name) for name in names]
            if isinstance(of, ast.Name) and of.id in _OF_THEMSELVES and len(members) == 1:
                members = [subject]
            members += [ast.Attribute(subject, name, ast.Load()) for name in pattern.kwd_attrs]
            tests = [_call(pattern, "isinstance", subject, of, ast.Constant(True))]
            return _read_parts(tests, zip([*pattern.patterns, *pattern.kwd_patterns], members, strict=True))
    raise TypeError(f"unknown pattern {type(pattern).__name__}")


def _read_parts(tests: list[Any], parts: Iterable[tuple[ast.pattern, ast.expr]]) -> tuple[list[Any], dict[str, ast.expr]]:
    """`tests`, then those of patterns for parts of a subject."""
    captures: dict[str, ast.expr] = {}
    for part, subject in parts:
        inner, names = _read_pattern(part, _at(part, subject))
        tests += inner
        captures.update(names)
    return tests, captures


def _read_alternatives(pattern: ast.MatchOr, subject: ast.expr) -> tuple[list[Any], dict[str, ast.expr]]:
    """One of several patterns: a name is what the first that fits says."""
    ways = [_read_pattern(way, subject) for way in pattern.patterns]
    conditions = [_all(tests, pattern) if tests else _at(pattern, ast.Constant(True)) for tests, _ in ways]
    captures = ways[-1][1]
    for condition, (_, names) in reversed(list(zip(conditions, ways, strict=True))[:-1]):
        captures = {name: _at(pattern, ast.IfExp(condition, value, captures[name])) for name, value in names.items()}
    return [_at(pattern, ast.BoolOp(ast.Or(), conditions))] if all(tests for tests, _ in ways) else [], captures


def _read_sequence(pattern: ast.MatchSequence, subject: ast.expr) -> tuple[list[Any], dict[str, ast.expr]]:
    """Items one by one; a starred pattern gets those that are left."""
    parts = pattern.patterns
    length = _call(pattern, "len", subject)
    star = next((position for position, part in enumerate(parts) if isinstance(part, ast.MatchStar)), None)
    least = ast.Constant(len(parts) - (star is not None))
    items: list[tuple[ast.pattern, ast.expr]] = []
    rest: dict[str, ast.expr] = {}
    for position, part in enumerate(parts):
        from_end = len(parts) - position
        if isinstance(part, ast.MatchStar):
            stop = ast.BinOp(length, ast.Sub(), ast.Constant(from_end - 1))
            kept = ast.Subscript(subject, ast.Slice(ast.Constant(position), stop if from_end > 1 else None), ast.Load())
            rest = {part.name: _at(part, kept)} if part.name else {}
            continue
        index: ast.expr = ast.Constant(position)
        if star is not None and position > star:
            index = ast.BinOp(length, ast.Sub(), ast.Constant(from_end))
        items.append((part, ast.Subscript(subject, index, ast.Load())))
    compare: ast.cmpop = ast.Eq() if star is None else ast.GtE()
    sequences: list[ast.expr] = [_name("list"), _name("tuple"), _name("range")]
    is_sequence = _call(pattern, "isinstance", subject, ast.Tuple(sequences, ast.Load()), ast.Constant(True))
    tests, captures = _read_parts([is_sequence, _at(pattern, ast.Compare(length, [compare], [least]))], items)
    return tests, {**captures, **rest}


def _rest_of(pattern: ast.MatchMapping, subject: ast.expr) -> ast.expr:
    """What a mapping has beside the keys of a pattern."""
    items = ast.Call(ast.Attribute(subject, "items", ast.Load()), [], [])
    others = ast.Compare(_name("key"), [ast.NotIn()], [ast.List(pattern.keys, ast.Load())])
    target = ast.Tuple([ast.Name("key", ast.Store()), ast.Name("value", ast.Store())], ast.Store())
    return _at(pattern, ast.DictComp(_name("key"), _name("value"), [ast.comprehension(target, items, [others], 0)]))


def _name(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())


def _call(at: ast.AST, name: str, *arguments: ast.expr) -> ast.expr:
    return _at(at, ast.Call(_name(name), list(arguments), []))


def _all(tests: list[Any], at: ast.AST) -> Any:
    return tests[0] if len(tests) == 1 else _at(at, ast.BoolOp(ast.And(), tests))


def _at(at: ast.AST, node: Any) -> Any:
    """The node, standing where `at` stands."""
    return ast.fix_missing_locations(ast.copy_location(node, at))

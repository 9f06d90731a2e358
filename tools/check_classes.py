#!/usr/bin/env python3
"""Refuses classes with too many methods or data members: such a class is about several subjects, which share its state.

Data members that a macro declares from a list count as one, since the list is one subject. What a base class or a member's class declares
counts there. Prints one line per class and exits with status 1 if there is one.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MOST_METHODS = 80
MOST_MEMBERS = 20

# Comments, texts and preprocessor lines with their continuations say nothing about members.
NOISE = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])+\'|^[ \t]*#(?:\\\n|[^\n])*',
    re.DOTALL | re.MULTILINE,
)
CLASS = re.compile(r"\b(?<!enum )(?:class|struct)\s+(?:\[\[[^]]*\]\]\s*)?([\w:]+)(?:\s+final)?\s*(?::[^;{}()]*)?\{")
# A macro that declares members from a list stands on a line of its own, without a semicolon.
LIST = re.compile(r"^[ \t]*[A-Z][A-Z0-9_]*\([^;{}\n]*\)[ \t]*$", re.MULTILINE)
# Statements of a class that declare neither a method nor a data member.
OTHER = re.compile(
    r"^(?:(?:public|private|protected)\s*:\s*)*(?:template\s*<.*>\s*)?(?:using|typedef|friend|static_assert|enum\b.*\}$|(?:class|struct|union)\s+[\w:]+$)",
    re.DOTALL,
)
ACCESS = re.compile(r"\b(?:public|private|protected)\s*:")
FUNCTION_POINTER = re.compile(r"\(\s*(?:\w+::)?\*\s*(?:const\s*)?\w*\s*\)\s*\(")


def split_body(text: str, start: int) -> Iterator[str]:
    """Yields the statements of a class whose body begins at `start`; what stands in braces is left out."""
    statement, depth, kind = "", 0, ""
    for i in range(start, len(text)):
        letter = text[i]
        if depth == 0 and letter in "{}" and statement.count("(") > statement.count(")"):
            continue  # the default of a parameter
        if letter == "{":
            if depth == 0:
                kind = statement
            depth += 1
        elif letter == "}":
            if depth == 0:
                return
            depth -= 1
            if depth == 0:
                statement = kind + "{}"
                # The body of a function ends its declaration; an initializer or a nested class does not.
                if is_function(kind):
                    yield statement
                    statement = ""
        elif depth == 0 and letter == ";":
            yield statement
            statement = ""
        elif depth == 0:
            statement += letter


def drop_nested(statement: str) -> str:
    """Returns the statement without what stands in brackets of any kind, which may contain commas and parentheses of its own."""
    before = ""
    while before != statement:
        before = statement
        statement = re.sub(r"<[^<>()]*>|<[^<>]*\([^<>()]*\)[^<>]*>|\[[^\[\]]*\]|\{[^{}]*\}", " ", statement)
    return statement


def is_function(statement: str) -> bool:
    """Tells whether a statement of a class declares or defines a function."""
    declaration = drop_nested(statement)
    if "operator" in declaration:
        return True
    declaration = declaration.split("=")[0]
    return (
        "(" in declaration and not FUNCTION_POINTER.search(declaration) and not re.match(r"\s*(?:enum|class|struct|union)\b", declaration)
    )


def count_statement(statement: str) -> tuple[int, int]:
    """Returns how many methods and data members a statement of a class declares."""
    statement = ACCESS.sub("", statement).strip()
    if not statement or OTHER.match(statement) or re.match(r"(?:class|struct|union)\s+[\w:]+[^;]*\{\}$", statement, re.DOTALL):
        return 0, 0
    if re.match(r"static\b.*\bconstexpr\b", statement, re.DOTALL) and not is_function(statement):
        return 0, 0  # a constant
    if is_function(statement):
        return 1, 0
    plain = re.sub(r"\([^()]*\)", " ", re.sub(r"\([^()]*\)", " ", drop_nested(statement)))
    return 0, plain.count(",") + 1


def count_cpp(text: str) -> Iterator[tuple[int, str, int, int]]:
    """Yields line, name, methods and data members of each class of a source file."""
    plain = LIST.sub("auto list;", NOISE.sub(lambda match: "\n" * match[0].count("\n"), text))
    for match in CLASS.finditer(plain):
        counts = [count_statement(statement) for statement in split_body(plain, match.end())]
        yield plain.count("\n", 0, match.start()) + 1, match[1], sum(methods for methods, _ in counts), sum(data for _, data in counts)


def count_python(text: str) -> Iterator[tuple[int, str, int, int]]:
    """Yields line, name, methods and attributes of objects of each class of a Python module."""
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.ClassDef):
            continue
        methods = [part for part in node.body if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef)]
        # Annotations declare members of objects, but not of the class, and not what a function makes in their place.
        declared = [part for part in node.body if isinstance(part, ast.AnnAssign) and not isinstance(part.value, ast.Call)]
        members = {ast.unparse(part.target) for part in declared if not ast.unparse(part.annotation).startswith("ClassVar")}
        for method in methods:
            own = method.args.args[0].arg if method.args.args else ""
            members |= {
                part.attr
                for part in ast.walk(method)
                if isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store)
                and isinstance(part.value, ast.Name) and part.value.id == own
            }  # fmt: skip
        yield node.lineno, node.name, len(methods), len(members)


def check(name: str, text: str) -> Iterator[str]:
    """Yields one message per class of a file that has too much."""
    for line, found, methods, members in (count_python if name.endswith(".py") else count_cpp)(text):
        if methods > MOST_METHODS:
            yield f"{name}:{line}: {found} has {methods} methods, more than {MOST_METHODS}: make a class for each subject"
        if members > MOST_MEMBERS:
            yield f"{name}:{line}: {found} has {members} data members, more than {MOST_MEMBERS}: make a struct for each subject"


def main() -> int:
    paths = [path for suffix in ("h", "cpp") for path in (ROOT / "src").rglob(f"*.{suffix}")] + [*(ROOT / "python").rglob("*.py")]
    messages = [message for path in sorted(paths) for message in check(path.relative_to(ROOT).as_posix(), path.read_text())]
    print("\n".join(messages), end="\n" if messages else "")
    return int(bool(messages))


if __name__ == "__main__":
    sys.exit(main())

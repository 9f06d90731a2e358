"""Finds the text of functions that have no source file: passed to `exec`, typed at Python's prompt, given to `-c`, or read from stdin."""

from __future__ import annotations
import __future__

import ast
import contextlib
import os
import stat
import sys
from collections.abc import Iterator
from types import CodeType
from typing import Any

_FUTURE_FLAGS = sum(getattr(__future__, name).compiler_flag for name in __future__.all_feature_names if name != "nested_scopes")


def find_typed_text(code: CodeType) -> str | None:
    """Returns the text that a function without a file was compiled from, or None. The text compiles to exactly this code."""
    if code.co_filename == "<string>":
        texts = _command()
    elif code.co_filename == "<stdin>":
        texts = _statements(code) if hasattr(sys, "ps1") else _input()
    else:
        return None
    return next((text for text in texts if compiles_to(text, code)), None)


def find_statement(function: Any) -> list[str]:
    """Returns the lines of the statement at the prompt that defines a function, which Python 3.13 and newer keep; no lines otherwise."""
    import inspect  # which knows where they are

    with contextlib.suppress(OSError, TypeError):
        return inspect.findsource(function)[0] if function.__code__.co_filename.startswith("<stdin-") else []
    return []


def find_running_text(code: CodeType) -> str | None:
    """Returns the text that is being executed and defines `code`, or None. `exec` and notebooks usually hold it in a variable."""
    head = f"def {code.co_name}"
    frame = sys._getframe(1)
    while frame is not None:
        values: list[object] = list(frame.f_code.co_consts)
        with contextlib.suppress(Exception):  # the locals of a class body may be any mapping
            values += frame.f_locals.values()
        for value in values:
            text = value.decode(errors="replace") if type(value) is bytes else value
            if type(text) is str and head in text and compiles_to(text, code):
                return text
        frame = frame.f_back  # type: ignore[assignment]
    return None


def _command() -> Iterator[str]:
    for argument in sys.orig_argv[1:]:
        texts = [argument] if not argument.startswith("-") else [argument.partition("c")[2]]  # `-c text`, or `-ctext`
        yield from (text for text in texts if "def " in text)
        if any(text[:1].isspace() for text in texts):
            import textwrap  # imported only here: most programs do not need it

            yield from map(textwrap.dedent, texts)  # Python 3.14 dedents the text, too


def _input() -> Iterator[str]:
    status = os.fstat(0)
    if stat.S_ISREG(status.st_mode):  # text that was read from a pipe is lost
        yield os.pread(0, status.st_size, 0).decode(errors="replace")


def _statements(code: CodeType) -> Iterator[str]:
    """Definitions of functions of this name in the history of the prompt, the latest one first."""
    history = sys.modules.get("readline")
    if history is None:
        return
    lines = [history.get_history_item(number) or "" for number in range(1, history.get_current_history_length() + 1)]
    for position in reversed(range(len(lines))):
        if not lines[position].startswith(f"def {code.co_name}"):
            continue
        first = position
        while first > 0 and lines[first - 1].startswith("@"):
            first -= 1
        last = next((k for k in range(position + 1, len(lines)) if not lines[k].startswith((" ", "\t", ")", "#"))), len(lines))
        yield "\n".join(lines[first:last]) + "\n"


def compiles_to(text: str, code: CodeType) -> bool:
    """Whether `text` defines `code`, at its top level or, as in IPython's `%%timeit`, in the body of a function."""

    def holds(outer: CodeType) -> bool:
        return any(isinstance(inner, CodeType) and (inner == code or holds(inner)) for inner in outer.co_consts)

    flags = code.co_flags & _FUTURE_FLAGS
    try:
        tree = ast.parse(text, code.co_filename)
        if holds(compile(tree, code.co_filename, "exec", flags, dont_inherit=True)):
            return True
        shell = ast.parse("def body(): pass")
        shell.body[0].body = tree.body  # type: ignore[attr-defined]
        return holds(compile(shell, code.co_filename, "exec", flags, dont_inherit=True))
    except (SyntaxError, ValueError, RecursionError):
        return False

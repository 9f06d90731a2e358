"""The text of functions that stand in no file: typed at Python's prompt, behind `-c`, or redirected to its input."""

from __future__ import annotations
import __future__

import os
import stat
import sys
from collections.abc import Iterator
from types import CodeType

_FUTURE_FLAGS = sum(getattr(__future__, name).compiler_flag for name in __future__.all_feature_names if name != "nested_scopes")


def find_typed_text(code: CodeType) -> str | None:
    """The text that a function without a file was compiled from, or None. What comes back compiles to exactly this code."""
    if code.co_filename == "<string>":
        texts = _command()
    elif code.co_filename == "<stdin>":
        texts = _statements(code) if hasattr(sys, "ps1") else _input()
    else:
        return None
    return next((text for text in texts if _compiles_to(text, code)), None)


def _command() -> Iterator[str]:
    if "-c" in sys.orig_argv:
        yield sys.orig_argv[sys.orig_argv.index("-c") + 1]


def _input() -> Iterator[str]:
    status = os.fstat(0)
    if stat.S_ISREG(status.st_mode):  # what was read from a pipe is gone
        yield os.pread(0, status.st_size, 0).decode(errors="replace")


def _statements(code: CodeType) -> Iterator[str]:
    """Definitions of functions of this name in the history of the prompt, the latest first."""
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


def _compiles_to(text: str, code: CodeType) -> bool:
    def holds(outer: CodeType) -> bool:
        return any(isinstance(inner, CodeType) and (inner == code or holds(inner)) for inner in outer.co_consts)

    try:
        return holds(compile(text, code.co_filename, "exec", code.co_flags & _FUTURE_FLAGS, dont_inherit=True))
    except (SyntaxError, ValueError):
        return False

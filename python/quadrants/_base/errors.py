"""Exception classes, and the text of a compile-time or run-time error that points at the user's line."""

from __future__ import annotations

import linecache
import os
import sys
import warnings
from collections.abc import Sequence
from types import FrameType, TracebackType
from typing import Any

from .imports import load

Frame = tuple[str, str, int, int, int, int]
"""file, function, line, column, end line, end column: lines from 1, columns from 0 in UTF-8 bytes, as in Python's ``ast``."""


class QuadrantsCompilationError(Exception):
    """An error found while a kernel is compiled."""


class QuadrantsSyntaxError(QuadrantsCompilationError, SyntaxError):
    """A construct that kernels do not support, or one at the wrong position."""


class QuadrantsNameError(QuadrantsCompilationError, NameError):
    """A name that is not defined where it is used."""


class QuadrantsIndexError(QuadrantsCompilationError, IndexError):
    """A wrong number of indices, or a constant index that is out of range."""


class QuadrantsAttributeError(QuadrantsCompilationError, AttributeError):
    """A member that the object does not have."""


class QuadrantsTypeError(QuadrantsCompilationError, TypeError):
    """An operation on operands whose types do not support it."""


class QuadrantsSourceError(QuadrantsCompilationError, OSError):
    """A kernel or func whose source text cannot be found."""


class QuadrantsArgumentTypeError(QuadrantsSyntaxError, QuadrantsTypeError):
    """A matrix argument whose type differs from the parameter of the func. Programs for the reference catch it as a syntax error."""


class QuadrantsRuntimeError(RuntimeError):
    """Misuse found while the program runs."""


class OverwrittenError(QuadrantsRuntimeError):
    """A gradient needs a value that its kernel has overwritten."""


class QuadrantsAssertionError(QuadrantsRuntimeError, AssertionError):
    """A failed assertion or run-time check of a kernel."""


class QuadrantsRuntimeTypeError(QuadrantsRuntimeError, TypeError):
    """A kernel argument that does not fit its annotation."""


class QuadrantsReturnTypeError(QuadrantsTypeError, QuadrantsRuntimeTypeError):
    """A returned value that does not fit the return annotation of its kernel."""


class QuadrantsMemoryError(QuadrantsRuntimeError, MemoryError):
    """Memory that the device cannot allocate."""


class QuadrantsShapeError(ValueError, AssertionError):
    """Containers with different shapes that must be equal. Programs for the reference catch either of its bases."""


class QuadrantsComponentsError(QuadrantsRuntimeError, ValueError):
    """A vector whose number of components differs from that of the assignment's target."""


class QuadrantsBoundsError(QuadrantsAssertionError, IndexError):
    """An element access from Python outside the shape of a container."""


class NegativeExponentError(QuadrantsCompilationError, QuadrantsRuntimeError):
    """An integer raised to a negative integer power that is known at compile time."""


class GradientError(QuadrantsCompilationError, OverwrittenError):
    """A kernel whose gradient cannot be computed, found while the gradient is compiled."""


class OverwrittenPrimalError(GradientError):
    """An overwritten primal that is detected while the gradient runs."""


_CLASSES = {value.__name__: value for value in list(globals().values()) if isinstance(value, type) and issubclass(value, Exception)}
PACKAGE = os.path.dirname(os.path.dirname(__file__))
"""Folder of this package: its own lines explain nothing to a user."""
_MAX_LINES = 12
_MAX_SOURCE_LINES = 3
_BLOCK_HEADS = ("for ", "while ", "if ", "def ", "with ", "match ", "async ", "class ", "else", "elif ")


def _underline(line: str, first: int, last: int) -> tuple[str, str]:
    """Returns a source line and its carets. A tab takes four columns in both. `first` and `last` are byte offsets."""
    raw = line.encode()
    before, marked = raw[:first].decode(errors="replace"), raw[first:last].decode(errors="replace")
    carets = " " * len(before.expandtabs(4)) + "^" * max(1, len(marked.expandtabs(4)))
    return line.expandtabs(4), carets


def _source_block(frame: Frame) -> list[str]:
    file, function, line, column, end_line, end_column = frame
    out = [f'File "{file}", line {line}, in {function}:']
    text = linecache.getline(file, line).rstrip("\n")
    if not text:
        return out
    if text.lstrip().startswith(_BLOCK_HEADS) and end_line > line:
        end_line = line  # underline only the header of a statement with a body
        end_column = len(text.rstrip().encode())
    for number in range(line, min(end_line, line + _MAX_SOURCE_LINES - 1) + 1):
        text = linecache.getline(file, number).rstrip("\n")
        size = len(text.rstrip().encode())
        first = column if number == line else len(text) - len(text.lstrip())
        out += _underline(text, first, end_column if number == end_line else size)
    if end_line >= line + _MAX_SOURCE_LINES:
        out.append(f"... ({end_line - line - _MAX_SOURCE_LINES + 1} more lines)")
    return out


def _format(message: str, frames: Sequence[Frame]) -> str:
    """Returns the source lines of the frames and the message: the outermost frame, and as many of the innermost ones as fit into twelve
    lines.
    """
    blocks, text = [_source_block(frame) for frame in frames], message.split("\n")
    for shown in range(len(blocks), 1, -1):
        left_out = [f"... ({len(blocks) - shown} more calls)"] if shown < len(blocks) else []
        lines = [*blocks[0], *left_out, *(line for block in blocks[len(blocks) - shown + 1 :] for line in block), *text]
        if len(lines) <= _MAX_LINES:
            return "\n".join(lines)
    return "\n".join([line for block in blocks[-1:] for line in block] + text)


def _with_place(error: Exception, frames: Sequence[Frame]) -> Exception:
    if not frames:
        return error
    file, _, line, column, end_line, end_column = frames[-1]
    source = linecache.getline(file, line).rstrip("\n")
    vars(error).update(file=file, line=line, end_line=end_line, col=column, end_col=end_column, source=source, kernel_name=frames[0][1])
    return error


def _find_family(message: str) -> Any:
    return load("quadrants._base.error_codes").find_family(message)


def _format_site(*site: Any) -> str:
    return load("quadrants._base.format").format_site(*site)


def compile_error(class_name: str, message: str, frames: Sequence[Frame], others: Sequence[Exception] = ()) -> Exception:
    """Returns the exception for a mistake at ``frames`` (outermost first): source lines with carets, ``message``, and what to do about it.

    Its attribute ``code`` names the page of docs/errors that explains mistakes of this family, or is None if there is none. ``others`` are
    further mistakes of the same kernel: the text has one line for each, and the attribute ``others`` holds them all.
    """
    of_user = [frame for frame in frames if not frame[0].startswith(PACKAGE)] or frames
    kind = _CLASSES.get(class_name, QuadrantsCompilationError)
    family = None if issubclass(kind, AssertionError) else _find_family(message)
    if kind is QuadrantsCompilationError and family is not None and family.code in ("QD951", "QD952"):
        kind = GradientError
    summary = message.split("\n", 1)[0] + (f" [{family.code}]" if family else "")
    if family is not None:
        message += f"\nhelp: {family.remedy} [{family.code}]"
    text = _format(message, of_user)
    for other in others:
        text += f"\nalso line {other.line}: {other.summary}"  # type: ignore[attr-defined]
    error: Any = _with_place(kind(text), of_user)
    _name_page(error, family.code if family else None)
    error.code, error.summary, error.others = family.code if family else None, summary, list(others)
    return error


def finish_call_error(error: BaseException, traceback: TracebackType | None) -> TracebackType | None:
    """Returns the traceback of an error that leaves the call of a kernel, without the frames of this package, which are no part of the
    mistake.

    Sets the attribute `code` of the error if its message belongs to a family. Errors of other classes, which may be defects of Quadrants,
    and errors that Python code of the user raises keep all their frames.
    """
    if not isinstance(error, (*_CLASSES.values(), ValueError, TypeError)) and not hasattr(error, "kernel_name"):
        return traceback
    frames = []
    is_ours = True
    while traceback is not None:
        is_ours = traceback.tb_frame.f_code.co_filename.startswith(PACKAGE)
        if not is_ours:
            frames.append(traceback)
        traceback = traceback.tb_next
    for frame in reversed(frames):
        traceback = TracebackType(traceback, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    error.__traceback__ = traceback  # which Python 3.14 leaves as it is if none is given when the error is raised again
    if not hasattr(error, "code"):
        add_help(error, is_ours)
    return traceback


def _name_page(error: BaseException, code: str | None) -> None:
    """Lets tracebacks say how to show the page of a code, below the text of the error."""
    if code is not None and sys.version_info >= (3, 11):
        error.add_note(f"`python -m quadrants explain {code}` shows an example and its remedy")


def add_help(error: Any, is_ours: bool = True) -> Any:
    """Sets the code of an error and appends the line with the remedy. Texts of assertions and of errors from other code stay unchanged."""
    family = _find_family(str(error))
    error.code = family.code if family else None
    _name_page(error, error.code)
    if family is not None and is_ours and error.args and not isinstance(error, AssertionError):
        text = f"{error}\nhelp: {family.remedy} [{family.code}]"
        error.args = (text, *error.args[1:])
        if isinstance(error, SyntaxError):
            error.msg = text
    return error


def user_frame() -> FrameType:
    """Returns the innermost frame outside of this package."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(PACKAGE):
        frame = frame.f_back
    return frame


def warn(text: str, category: type[Warning]) -> None:
    """Issues a warning at the user's line."""
    frame = user_frame()
    registry = frame.f_globals.setdefault("__warningregistry__", {})
    warnings.warn_explicit(text, category, frame.f_code.co_filename, frame.f_lineno, registry=registry)


def runtime_error(site: tuple[Any, bytes], frames: Sequence[Frame], has_call_stack: bool = False, is_recursion: bool = False) -> Exception:
    """Returns the exception for a check that failed while a kernel ran: `site` as for `format_site`, ``frames`` as for `compile_error`."""
    message = name_kernel(_format_site(*site), frames) + (call_stack(frames) if has_call_stack else "")
    kind = RecursionError if is_recursion else QuadrantsAssertionError
    return _with_place(kind(_format(message, frames)), frames)


def overwritten_primal_error(site: tuple[Any, bytes], frames: Sequence[Frame]) -> Exception:
    """Returns the exception for a gradient that needs an element which was overwritten after it was read."""
    return compile_error(OverwrittenPrimalError.__name__, _format_site(*site), frames)


def name_kernel(message: str, frames: Sequence[Frame]) -> str:
    """Returns the text of an index out of range with the kernel, the outermost of the frames; other texts unchanged."""
    for start, kernel in (("Accessing field", "(kernel={}) "), ("Out of bound access to ndarray", "[kernel={}] ")):
        if frames and message.startswith(start):
            return kernel.format(frames[0][1]) + message
    return message


def call_stack(frames: Sequence[Frame]) -> str:
    """Returns the lines of a call stack, outermost call first; consecutive frames of one function are merged."""
    chain = [frame for frame, before in zip(frames, (None, *frames), strict=False) if before is None or frame[:2] != before[:2]]
    lines = [f"{'  ' * depth}{function} ({file}:{line})" for depth, (file, function, line, *_) in enumerate(chain)]
    return "\nCallstack:\n" + "\n".join(lines)

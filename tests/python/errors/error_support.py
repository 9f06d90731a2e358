"""Wrong kernels as text: the culprit stands between « and », and so a test knows what the carets must mark."""

from __future__ import annotations

import builtins
import re
import warnings
from pathlib import Path
from typing import Any

from language_support import define

import quadrants as qd
from quadrants._base import errors as _errors

FOLDER = Path(__file__).parent


def paragraphs(name: str) -> list[str]:
    """The paragraphs of the text files that a pattern names."""
    return [text for file in sorted(FOLDER.glob(name)) for text in file.read_text().strip().split("\n\n")]


def rows(name: str) -> list[tuple[str, str, type[Exception], str]]:
    """The rows of a file: name, source, class and part of the message. Their first line has all but the source."""
    found = []
    for text in paragraphs(name):
        head, source = text.split("\n", 1)
        row, kind, fragment = (part.strip() for part in head.split("|", 2))
        found.append((row, source, getattr(_errors, kind, None) or getattr(builtins, kind), fragment))
    return found


# What the bodies of wrong kernels find around them.
PREAMBLE = """
import dataclasses, enum, math
captured = 1
captured_vector = qd.Vector([1, 2])
captured_list = [1, 2, 3]
captured_array = np.arange(4)

class Plain:
    member = 1

class Color(enum.Enum):
    red = 1

@qd.dataclass
class S:
    a: qd.i32
    v: qd.types.vector(2, qd.f32)

@qd.dataclass
class T:
    a: qd.i32

@dataclasses.dataclass
class Group:
    number: qd.i32
    ratio: qd.f32

@qd.data_oriented
class Solver:
    size = 3

    def __init__(self):
        self.count, self.scale = 1, 2.0

    @qd.func
    def helper(self, x):
        return x + self.count

vec2, vec3, mat22 = qd.types.vector(2, qd.f32), qd.types.vector(3, qd.f32), qd.types.matrix(2, 2, qd.f32)
field0, field1, field2, fieldf = qd.field(qd.i32, ()), qd.field(qd.i32, 4), qd.field(qd.i32, (4, 4)), qd.field(qd.f32, 4)
vectors, structs = qd.Vector.field(2, qd.f32, 4), S.field(shape=4)

def plain(x):
    return x

@qd.kernel
def other_kernel(n: qd.i32):
    pass

@qd.func
def func2(a, b):
    return a + b

@qd.func
def typed(a: qd.i32, b: qd.f32 = 1.0):
    return a + b

@qd.func
def forever(n):
    return forever(n) + 1

@qd.func
def calls_kernel(n):
    other_kernel(n)

@qd.func
def nothing(a):
    pass

@qd.func
def by_reference(x: qd.template()):
    x += 1

@qd.func
def takes_vec3(v: qd.types.vector(3, qd.i32)):
    return v.sum()

@qd.func
def takes_mat22(m: qd.types.matrix(2, 2, qd.f32)):
    return m.trace()

@qd.real_func
def real_without_type(n: qd.i32):
    return n

@qd.func(requires_top_level=True)
def tasks(a: qd.template()):
    for i in a:
        a[i] += 1

@qd.func
def calls_tasks(a: qd.template()):
    tasks(a)

@qd.func
def takes_array(a: qd.types.ndarray(qd.f32, 1)):
    return a[0]
"""

SIGNATURE = "(n: qd.i32, f: qd.f32, a: qd.types.ndarray(qd.f32, 2), g: Group)"
CALL = "k(1, 1.5, qd.ndarray(qd.f32, (2, 2)), Group(1, 2.0))"

OF_THE_INSIDE = re.compile(r"Traceback|\.cpp|\.h:|mlir|LLVM|nanobind|nb::|0x[0-9a-f]{6}|\bqd\.\w+ op\b|internal error|_compiler|std::")


def module_of(body: str) -> str:
    """The text of a module that compiles the body as a kernel; a text that defines its own `k` stays as it is."""
    if "@qd.kernel" in body:
        return PREAMBLE + body
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return f"{PREAMBLE}\n@qd.kernel\ndef k{SIGNATURE}:\n{lines}\n{CALL}\n"


def without_marks(text: str) -> tuple[str, tuple[int, int, int] | None]:
    """The text without « and », and the line and columns (from 1 and 0) that they enclose; None when there are none."""
    if "«" not in text:
        return text, None
    before, marked, _ = re.split("[«»]", text)
    line, column = before.count("\n") + 1, len(before) - before.rfind("\n") - 1
    return before + marked + text[text.index("»") + 1 :], (line, column, column + len(marked))


def mistake(body: str, **names: Any) -> tuple[Exception | None, tuple[int, int, int] | None]:
    """The exception that a wrong kernel ends in, and the place that it should name."""
    text, place = without_marks(module_of(body))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python's own opinion of wrong programs
            define(text, **names)
    except Exception as error:
        return error, place
    return None, place


def complaint(body: str, kind: type[Exception], fragment: str) -> str:
    """What is wrong with how a mistake is reported; nothing when it is as it should be."""
    error, place = mistake(body)
    if error is None:
        return "no exception"
    message = str(error)
    if not isinstance(error, kind):
        return f"{type(error).__name__} instead of {kind.__name__}: {message}"
    if fragment not in message:
        return f"{fragment!r} is not in: {message}"
    return report_complaint(error) or place_complaint(error, place)


def report_complaint(error: Exception) -> str:
    """Checks what every message keeps to: short, with place and carets, in the words of the user."""
    message = str(error)
    if len(message.splitlines()) > 12:
        return f"more than twelve lines: {message}"
    if inside := OF_THE_INSIDE.search(message):
        return f"speaks of the inside ({inside.group()}): {message}"
    if isinstance(error, qd.QuadrantsCompilationError) and not re.search(r'File "[^"]+", line \d+, in \w+:\n.*\n *\^+\n', message):
        return f"no place: {message}"
    return ""


def place_complaint(error: Exception, place: tuple[int, int, int] | None) -> str:
    """Checks that the innermost carets stand under the marked text."""
    if place is None:
        return ""
    found = (getattr(error, "line", None), getattr(error, "col", None), getattr(error, "end_col", None))
    if found[:2] == place[:2] and error.end_line > error.line:  # a statement with a body: its header is shown
        return ""
    return "" if found == place else f"carets at {found} instead of {place}: {error}"

"""Returns the syntax tree of a function object, with the line numbers and columns of its file."""

from __future__ import annotations

import ast
import contextlib
import gc
import itertools
import linecache
import operator
import re
import sys
import weakref
from collections.abc import Callable
from types import CellType, CodeType, FunctionType
from typing import Any

from .errors import QuadrantsSourceError, QuadrantsSyntaxError
from .imports import load


class FunctionSource:
    """The source of a function, as the compiler reads it: `lines` are those of the whole file.

    `is_graph`, `has_checkpoints`: whether a kernel was declared with graph=True, and with checkpoints=True.
    """

    # A named tuple takes ten times as long to define, at each import of the package.
    __slots__ = ("file", "function", "has_checkpoints", "is_graph", "lines", "name", "tree")

    def __init__(self, function: Callable[..., Any], tree: ast.FunctionDef, file: str, lines: list[str], name: str):
        self.function, self.tree, self.file, self.lines, self.name = function, tree, file, lines, name
        self.is_graph = self.has_checkpoints = False


_sources: dict[int, tuple[weakref.ref[CodeType], tuple[ast.FunctionDef, str, list[str]]]] = {}
_texts = itertools.count(1)


class _Text:
    """A text that is in no file, its name in `linecache`, and the ids of the code objects that it defines."""

    def __init__(self, text: str, file: str):
        self.text, self.file = text, file
        self.users: dict[int, weakref.ref[CodeType]] = {}


_stored: list[_Text] = []
_SHARED = ("<string>", "<stdin>")  # names that many texts share
_HEADER = r"\s*(@|def\b|async\s+def\b)"


def get_source(function: Callable[..., Any], is_kernel: bool = False) -> FunctionSource:
    """Returns the source of a Python function.

    Raises `QuadrantsSourceError`, an `OSError`, if it has none (text from a pipe, a deleted file).
    """
    code = function.__code__
    if is_kernel and code.co_name == "<lambda>":
        raise QuadrantsSyntaxError('Unsupported node "Lambda": write the kernel as a function with `def`')
    key = id(code)
    found = _sources.get(key)
    if found is None or found[0]() is not code:
        found = _sources[key] = (weakref.ref(code, lambda _: _sources.pop(key, None)), _read_source(function, code))
    tree, file, lines = found[1]
    if (coverage := sys.modules.get("quadrants._session.coverage")) is not None:
        tree = coverage.with_probes(function, tree, file, is_kernel)
    return FunctionSource(function, tree, file, lines, function.__qualname__)


def get_kernel_source(kernel: Any) -> FunctionSource:
    """Returns the source of a kernel, with the way in which it was declared."""
    source = get_source(kernel.__wrapped__, is_kernel=True)
    source.is_graph, source.has_checkpoints = kernel.use_graph, kernel.has_checkpoints
    return source


def _typed_text() -> Any:
    return load("quadrants._base.typed_text")  # only text without a file needs it


def note_text(code: CodeType) -> None:
    """Stores the text of a function that is being defined by text without a file, for the lifetime of the function."""
    file = code.co_filename
    if file.startswith("<") and (file not in linecache.cache or file in _SHARED):
        if (text := _typed_text().find_running_text(code)) is not None:
            _store_for(code, text)


def _store_for(code: CodeType, text: str) -> _Text:
    """Stores the text until the last function in it is freed."""
    stored = next((known for known in _stored if known.text == text), None)
    if stored is None:
        stored = _Text(text, store_text(code.co_filename, text))
        _stored.append(stored)

    # At the end of Python, names of modules are None.
    def forget(_: Any, stored: _Text = stored, key: int = id(code), texts: Any = _stored, cache: Any = linecache.cache) -> None:
        del stored.users[key]
        if not stored.users:
            texts.remove(stored)
            cache.pop(stored.file, None)

    stored.users[id(code)] = weakref.ref(code, forget)
    return stored


def _find_lines(function: Callable[..., Any], code: CodeType) -> tuple[str, list[str]]:
    """Returns the name and the lines of the text that defines a function; no lines if the text cannot be found."""
    file = code.co_filename
    stored = next((known for known in _stored if id(code) in known.users), None)
    if stored is None:
        linecache.checkcache(file)  # the file may have changed since it was read
        # `getlines` hides a MemoryError.
        lines = linecache.getlines(file, function.__globals__) or linecache.updatecache(file, function.__globals__)
        if lines and (file not in _SHARED or _typed_text().compiles_to("".join(lines), code)):
            return file, lines
        texts = (known.text for known in _stored)
        text = next((text for text in texts if _typed_text().compiles_to(text, code)), None) or _typed_text().find_typed_text(code)
        if text is None:
            return file, _typed_text().find_statement(function)
        stored = _store_for(code, text)
    return stored.file, stored.text.splitlines(keepends=True)


def get_text(function: FunctionType) -> str:
    """Returns the current text of a function in its file, from the first decorator to the last line with code; empty without a source."""
    code = function.__code__
    linecache.checkcache(code.co_filename)
    return "".join(linecache.getlines(code.co_filename, function.__globals__)[code.co_firstlineno - 1 : _last_line(code)])


def _last_line(code: CodeType) -> int:
    last = max(filter(None, map(operator.itemgetter(2), code.co_lines())), default=0)
    return max([code.co_firstlineno, last, *(_last_line(inner) for inner in code.co_consts if isinstance(inner, CodeType))])


def _read_source(function: Callable[..., Any], code: CodeType) -> tuple[ast.FunctionDef, str, list[str]]:
    file, lines = _find_lines(function, code)
    first = code.co_firstlineno
    if code.co_name == "<lambda>":
        return _read_lambda(code, lines), file, lines
    failure = f"Cannot find source code for Object {function!r} (file {file!r}, line {first})"
    if not lines or first > len(lines) or not re.match(_HEADER, lines[first - 1]):
        raise QuadrantsSourceError(failure)
    # Blank lines before the text give the tree the line numbers of the file; `if 1:` preserves the columns of an indented function.
    indent = lines[first - 1][: len(lines[first - 1]) - len(lines[first - 1].lstrip())]
    head = "\n" * (first - 1) if not indent else "\n" * (first - 2) + "if 1:\n"
    error: SyntaxError | None = None
    for end in _candidate_ends(lines, first, len(indent.expandtabs())):
        try:
            tree = _parse(head + "".join(lines[first - 1 : end]), file)
        except SyntaxError as problem:
            error = problem  # the block continues: a string or bracket spans lines with less indentation than the function
            continue
        node: Any = tree.body[0].body[0] if indent else tree.body[0]  # type: ignore[attr-defined]
        if isinstance(node, ast.AsyncFunctionDef):
            raise QuadrantsSyntaxError('Unsupported node "AsyncFunctionDef"')
        if not isinstance(node, ast.FunctionDef) or node.name != code.co_name:
            raise QuadrantsSourceError(failure)
        if any(line.lstrip().startswith("match ") for line in lines[first - 1 : end]):
            node = load("quadrants._base.match").MatchLowering().visit(node)
        return node, file, lines
    raise QuadrantsSourceError(failure) from error


def copy_tree(tree: Any) -> Any:
    """Copies a syntax tree or a list of trees. Only fields and locations are copied, because other libraries attach attributes to nodes.

    Nodes without fields, such as `ast.Load()`, are not copied: Python shares each of them between all trees.
    """
    if isinstance(tree, list):
        return [copy_tree(item) if isinstance(item, ast.AST) else item for item in tree]
    if not tree._fields and not tree._attributes:
        return tree
    made = tree.__new__(type(tree))
    members = vars(made)
    for name in tree._fields:
        value = getattr(tree, name, None)
        members[name] = copy_tree(value) if isinstance(value, (ast.AST, list)) else value
    members.update({name: getattr(tree, name) for name in tree._attributes if hasattr(tree, name)})  # new nodes have no location yet
    return made


_lambdas: dict[str, tuple[list[str], dict[int, list[ast.Lambda]]]] = {}  # for each file: its lines, and its lambdas by first line


def is_debugger(function: Any) -> bool:
    """Whether a function stops in its caller's frame, as debuggers and consoles do (called by frontend/calls/python_calls.cpp)."""
    package = str(getattr(function, "__module__", "")).split(".")[0]
    name = getattr(function, "__name__", "")
    return package in ("pdb", "bdb", "ipdb", "pudb", "debugpy", "pydevd", "code") or name in ("breakpoint", "breakpointhook", "set_trace")


def all_arguments(given: ast.arguments) -> list[ast.arg]:
    """Returns the parameters of a function in order."""
    some = [*given.posonlyargs, *given.args, given.vararg, *given.kwonlyargs, given.kwarg]
    return [argument for argument in some if argument is not None]


def lambda_body(node: ast.Lambda) -> list[ast.stmt]:
    """Returns the body of a lambda as the statements of a function."""
    return [ast.copy_location(ast.Return(node.body), node.body)]


def _read_lambda(code: CodeType, lines: list[str]) -> ast.FunctionDef:
    """Returns a lambda as a function with a `return`. Lambdas that begin on one line are distinguished by columns."""
    known = _lambdas.get(code.co_filename)
    if known is None or known[0] != lines:
        found: dict[int, list[ast.Lambda]] = {}
        with contextlib.suppress(SyntaxError):
            for node in ast.walk(_parse("".join(lines), code.co_filename)):
                if isinstance(node, ast.Lambda):
                    found.setdefault(node.lineno, []).append(node)
        known = _lambdas[code.co_filename] = (lines, found)
    fitting = [node for node in known[1].get(code.co_firstlineno, ()) if _is_lambda(code, node)]
    if not fitting:
        raise QuadrantsSourceError(f"Cannot find the text of the lambda in line {code.co_firstlineno} of {code.co_filename!r}")
    node = fitting[-1]  # the innermost
    tree = ast.FunctionDef("<lambda>", node.args, lambda_body(node), [], None)
    return ast.copy_location(tree, node)


def _is_lambda(code: CodeType, node: ast.Lambda) -> bool:
    """Whether `code` may be the code of this lambda."""
    if sys.version_info < (3, 11):  # code knows its lines only
        constants = compile(ast.Expression(node), code.co_filename, "eval").co_consts
        return any(_list_contents(each) == _list_contents(code) for each in constants if isinstance(each, CodeType))
    body: Any = node.body
    places: list[Any] = [place for place in code.co_positions() if None not in place and place[2:] != (0, 0)]
    first, last = min((place[0], place[2]) for place in places), max((place[1], place[3]) for place in places)
    return (body.lineno, body.col_offset) <= first and last <= (body.end_lineno, body.end_col_offset)


def _list_contents(code: CodeType) -> tuple[object, ...]:
    """Returns what two codes of one text have in common, wherever their free variables are."""
    constants = [each for each in code.co_consts if not isinstance(each, CodeType)]
    return code.co_varnames, constants, {*code.co_names, *code.co_freevars}


def store_text(name: str, text: str) -> str:
    """Stores a text that is in no file under a name like `name`, so that Python, its debugger and error messages find its lines."""
    file = f"<{name.strip('<>')} {next(_texts)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    return file


def _parse(text: str, file: str) -> ast.Module:
    """Calls `ast.parse` without the cycle collector, which would traverse the growing tree repeatedly."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(text, file)
    finally:
        if was_enabled:
            gc.enable()


def _candidate_ends(lines: list[str], first: int, indent: int):
    """Numbers of lines at which the function may end: before each line that is indented no deeper than its header, shortest block first."""
    in_body = False
    for number in range(first - 1, len(lines)):
        text = lines[number].strip()
        if not text or text.startswith("#"):
            continue
        shallow = len(lines[number].expandtabs()) - len(lines[number].expandtabs().lstrip()) <= indent
        if in_body and shallow:
            yield number
        elif shallow and re.match(r"def\b|async\s+def\b", text):
            in_body = True
    yield len(lines)


def list_captured(function: Any) -> dict[str, Any]:
    """Returns the variables of outer functions that a function captures, by name; those that are not assigned yet are missing."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=False)
    return {name: cell.cell_contents for name, cell in cells if cell != CellType()}


def evaluate_annotation(annotation: Any, *scopes: dict[str, Any]) -> Any:
    """Returns the object that an annotation stands for. A postponed annotation may be the source text of a string."""
    for _ in range(2):
        annotation = eval(annotation, *scopes) if isinstance(annotation, str) else annotation
    return annotation


def caller_locals(depth: int) -> dict[str, Any]:
    """Returns the locals of the function that applies the decorator, so that annotations given as strings may name its local classes."""
    try:
        return sys._getframe(depth + 1).f_locals
    except ValueError:
        return {}

"""Checkpoints of graph kernels: the status that a launch returns, `kernel.resume`, and what the source says about its checkpoints."""

from __future__ import annotations

import ast
import builtins
import dataclasses
from types import FunctionType
from typing import Any, NamedTuple

from .._base.errors import QuadrantsRuntimeError
from .._base.source import get_source, list_captured
from .builtins import ATOMIC_NAMES
from .parameters import Parameter

# Numbers that are no labels, also in src/frontend/statements/checkpoints.cpp.
START = -(2**63)
"""Argument: the launch begins at the start. Status: it was not suspended."""
UNKNOWN, NONE = START + 1, START + 2
"""Status: no checkpoint has the label of the argument; the kernel has no checkpoints."""
HIDDEN = "_qd_from_checkpoint"


@dataclasses.dataclass(frozen=True, repr=False)
class GraphStatus:
    """What a launch of a kernel with checkpoints returns."""

    yielded: bool
    """Whether a checkpoint suspended the launch."""
    checkpoint: int | None = None
    """The label of that checkpoint, or None; `kernel.resume` takes it."""

    def __repr__(self) -> str:
        return f"GraphStatus(yielded={self.yielded}{f', checkpoint={self.checkpoint!r}' if self.yielded else ''})"


def make_parameter(scalar: Any) -> Parameter:
    """Returns the hidden parameter of a kernel with checkpoints: the label from which a launch resumes, of the type `scalar`."""
    parameter = Parameter(HIDDEN, "scalar", scalar, START)
    parameter.is_named = True
    return parameter


def read_status(kernel: Any, build: Any, flat: tuple[Any, ...]) -> Any:
    """Returns what a call returns: a status, or the value of a kernel that has no checkpoint. `build` assembles that value."""
    status, *values = flat
    if status == START:
        return _PASSED
    if status == NONE:
        return None if not values else build(tuple(values)) if build else values[0]
    if status == UNKNOWN:
        raise QuadrantsRuntimeError(f"from_checkpoint does not match any qd.checkpoint(cp_id=...) in kernel '{kernel.__name__}'.")
    return GraphStatus(True, next((label for label in _list_labels(kernel) if label == status), status))


_PASSED = GraphStatus(False)


def resume(kernel: Any, arguments: tuple[Any, ...], keywords: dict[str, Any] | None) -> Any:
    """Implements `kernel.resume`."""
    keywords = dict(keywords or {})
    if "from_checkpoint" not in keywords:
        raise TypeError("resume() missing 1 required keyword-only argument: 'from_checkpoint'")
    wanted = keywords.pop("from_checkpoint")
    if not isinstance(wanted, int):
        expected = "an int or IntEnum value, the label of a qd.checkpoint(cp_id, ...) of the kernel"
        raise QuadrantsRuntimeError(f"from_checkpoint= must be {expected} (`checkpoint` of the GraphStatus of a launch); got {wanted!r}.")
    labels = _list_labels(kernel)
    if not kernel.has_checkpoints or (wanted not in labels and _UNRESOLVED not in labels):
        text = f"from_checkpoint={wanted!r} does not match any qd.checkpoint(cp_id=...) in kernel '{kernel.__name__}'."
        raise QuadrantsRuntimeError(f"{text} Available cp_id labels (source-declaration order): {labels!r}.")
    return kernel(*arguments, **keywords, **{HIDDEN: int(wanted)})


# --- What the source says ---


class Checkpoint(NamedTuple):
    """A checkpoint in the source, or a loop outside of checkpoints."""

    label: Any  # None for a loop
    flag: str | None  # as written


class Level(NamedTuple):
    """A do_while in the source."""

    flag: str
    outer: int  # number of the loop around it, or -1


MISSING = object()


class _Unresolved:
    def __repr__(self) -> str:
        return "<computed while the kernel is compiled>"


_UNRESOLVED: Any = _Unresolved()


class Names:
    """The values that names and members have in the scope of a function."""

    def __init__(self, function: FunctionType):
        self.scopes: Any = (list_captured(function), function.__globals__, vars(builtins))

    def get(self, name: str) -> Any:
        """Returns the value of a name, or `MISSING`."""
        return next((scope[name] for scope in self.scopes if name in scope), MISSING)

    def find(self, node: ast.AST) -> Any:
        """Returns the value of a name, member or constant, or `MISSING`."""
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
            return -node.operand.value  # type: ignore[operator]
        if isinstance(node, ast.Attribute):
            owner = self.find(node.value)
            return MISSING if owner is MISSING else getattr(owner, node.attr, MISSING)
        return self.get(node.id) if isinstance(node, ast.Name) else MISSING

    def find_builtin(self, node: ast.AST) -> str | None:
        """Returns the name of the builtin that a call calls."""
        return getattr(self.find(node.func), "_qd_builtin", None) if isinstance(node, ast.Call) else None


class Scan:
    """Lists the checkpoints and do_while loops of a kernel in the order of the source."""

    def __init__(self, kernel: Any):
        self.names = Names(kernel.function)
        self.checkpoints: list[Checkpoint] = []
        self.levels: list[Level] = []
        self._visit(get_source(kernel.function, is_kernel=True).tree.body, -1)

    def _visit(self, body: list[ast.stmt], level: int, is_inside: bool = False) -> None:
        for node in body:
            if isinstance(node, ast.With):
                call = node.items[0].context_expr
                if is_checkpoint := self.names.find_builtin(call) == "checkpoint":
                    self._add(call)
                self._visit(node.body, level, is_inside or is_checkpoint)
            elif isinstance(node, ast.While) and self.names.find_builtin(node.test) == "graph_do_while":
                self.levels.append(Level(ast.unparse(get_argument(node.test, 0, "flag")), level))
                self._visit(node.body, len(self.levels) - 1, is_inside)
            elif isinstance(node, ast.If) or (isinstance(node, ast.For) and self.names.find_builtin(node.iter) == "static"):
                self._visit([*node.body, *node.orelse], level, is_inside)
            elif isinstance(node, (ast.For, ast.While)) and not is_inside:
                self.checkpoints.append(Checkpoint(None, None))

    def _add(self, call: Any) -> None:
        label, flag = self.names.find(get_argument(call, 0, "cp_id")), get_argument(call, 1, "yield_on")
        self.checkpoints.append(Checkpoint(label if isinstance(label, int) else _UNRESOLVED, ast.unparse(flag)))


def get_argument(call: Any, position: int, name: str) -> ast.expr:
    """Returns the argument of a call that is given by position or name."""
    found = next((keyword.value for keyword in call.keywords if keyword.arg == name), None)
    return found or (call.args[position] if position < len(call.args) else ast.Constant(None))


def _list_labels(kernel: Any) -> list[Any]:
    return [each.label for each in Scan(kernel).checkpoints if each.flag is not None]


def changes_data(node: ast.AST, names: Names, depth: int = 0) -> bool:
    """Whether a statement may do more than compute values and assign variables; `depth` is the number of calls around it."""
    for inner in ast.walk(node):
        if isinstance(inner, (ast.Subscript, ast.Attribute)) and not isinstance(inner.ctx, ast.Load):
            return True
        if isinstance(inner, ast.Assert) or (isinstance(inner, ast.Call) and _calls_more(inner, names, depth)):
            return True
    return False


def _calls_more(call: ast.Call, names: Names, depth: int) -> bool:
    callee = names.find(call.func)
    if (builtin := getattr(callee, "_qd_builtin", None)) is not None:
        return builtin in ATOMIC_NAMES
    if getattr(builtins, getattr(callee, "__name__", ""), None) is callee:
        return callee is print
    function = getattr(callee, "function", callee)
    if not isinstance(function, FunctionType) or depth > 8:
        return True
    body = get_source(function).tree.body
    return any(changes_data(statement, Names(function), depth + 1) for statement in body)

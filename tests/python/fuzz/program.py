"""Text of a generated program: statements with nested blocks, so that a reducer can leave some out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass
class Statement:
    """One line, and the block that it heads."""

    text: str
    body: list[Statement] | None = None

    def lines(self, indent: int) -> Iterator[str]:
        """The source lines."""
        yield "    " * indent + self.text
        if self.body is not None:
            yield from block_lines(self.body, indent + 1)


def block_lines(body: list[Statement], indent: int) -> Iterator[str]:
    """The source lines of a block."""
    for statement in body:
        yield from statement.lines(indent)
    if not body:
        yield "    " * indent + "pass"


@dataclass
class Program:
    """A module with types, containers, funcs and one kernel; `run()` launches it and gives everything that it computed."""

    options: dict[str, str]
    types: list[str] = field(default_factory=list)
    containers: list[tuple[str, list[str]]] = field(default_factory=list)
    functions: list[Statement] = field(default_factory=list)
    launches: list[str] = field(default_factory=list)
    results: list[str] = field(default_factory=list)

    def blocks(self) -> Iterator[list[Statement]]:
        """Every block of statements, outer ones first."""
        pending = [function.body for function in self.functions if function.body is not None]
        while pending:
            block = pending.pop(0)
            yield block
            pending += [statement.body for statement in block if statement.body is not None]

    def source(self) -> str:
        """The module as text; it needs nothing but the package."""
        names = ", ".join(name for name, _ in self.containers)
        lines = [f"import {name}" for name in ("collections", "dataclasses", "functools", "operator")]
        lines += ["import numpy as np", "import quadrants as qd"]
        if any("torch." in line for _, setup in self.containers for line in setup):
            lines.append("import torch")
        lines += ["", *self.types, ""]
        lines += [f"{name} = None" for name, _ in self.containers]
        for function in self.functions:
            lines += [*([""] if function.text.startswith("@") else []), *function.lines(0)]
        lines += ["", "def setup():", *([f"    global {names}"] if names else []), "    values = np.random.default_rng(1)"]
        lines += [f"    {line}" for _, setup in self.containers for line in setup]
        lines += ["", "def run():", "    results = []"]
        lines += [f"    results.append({launch})" for launch in self.launches]
        lines += [f"    results.append({result})" for result in self.results]
        return "\n".join([*lines, "    return results", ""])

"""Reports of compilations, made from `records`: `qd.compile_report`, `qd.explain_recompiles`."""

from __future__ import annotations

from typing import Any, NamedTuple

from .._containers.summaries import escape
from . import records as _records


class Loop(NamedTuple):
    """How a parallel loop, or a serial loop that runs several iterations at once, was compiled."""

    place: str
    """"file:line"."""
    lanes: int
    """Number of iterations that run in one vector."""
    why_scalar: str
    """Why there is only one lane; empty if there are more."""
    registers: int
    """Number of reductions in registers."""
    copies: int
    """Number of containers of which chunks of iterations update private copies."""
    chunk: int
    """Number of iterations that are enough work for a thread; 0 if one thread runs all."""

    def __str__(self) -> str:
        found = f"{self.lanes} lanes" if self.lanes > 1 else f"scalar: {self.why_scalar or 'one lane'}"
        private = [f"{count} {what}" for count, what in ((self.registers, "sums in registers"), (self.copies, "private copies")) if count]
        return f"loop {self.place}: {', '.join([found, *private, f'chunks of {self.chunk}' if self.chunk else 'one thread'])}"


class LoopCheckpoints(NamedTuple):
    """The checkpoints of the gradient of a sequential loop, which runs the iterations in reverse order and recomputes each."""

    place: str
    """"file:line"."""
    states: int
    """Maximum number of iterations whose variables are saved at their start, per iteration of an enclosing parallel loop; 0: no derivative
    needs them."""
    nbytes: int
    """Memory of these checkpoints in bytes."""
    keeps_all: bool
    """Whether every iteration has a checkpoint. Otherwise the iterations between two checkpoints are recomputed."""

    def __str__(self) -> str:
        size = f"{self.states} states in {self.nbytes} bytes"
        some = f"keeps all {size}" if self.keeps_all else f"keeps at most {size}, computes again what lies between"
        kept = some if self.states else "keeps nothing"
        return f"back through loop {self.place}: {kept}"


class Version(NamedTuple):
    """One compiled version of a kernel."""

    kernel: str
    """Qualified name."""
    place: str
    """"file:line" of its definition."""
    miss: str
    """Why the version was compiled instead of loaded from disk; empty if it was found there."""
    seconds: float
    """Seconds from the call that needed the version until it could run."""
    stages: tuple[tuple[str, float], ...]
    """Stages of the compilation with their seconds; empty if the version was found on disk."""
    operations: int
    """Operations of the lowered intermediate representation."""
    nbytes: int
    """Size of the machine code and the data for the loader, in bytes."""
    loops: tuple[Loop, ...]
    """The parallel loops."""
    checkpoints: tuple[LoopCheckpoints, ...]
    """For a gradient: the sequential loops that it traverses in reverse."""
    reads: dict[str, str]
    """Dependencies by name, with their values. Names of captured values begin with "global"."""
    definition: Any
    """Weak reference to the kernel: a redefined function is another kernel."""
    runtime: int
    """Number of the `qd.init` that it belongs to."""
    finished: float
    """`time.perf_counter()` when it could run."""

    def __str__(self) -> str:
        stages = ", ".join(f"{name} {seconds * 1000:.1f}" for name, seconds in self.stages)
        below = [*([f"ms: {stages}"] if stages else []), *map(str, self.loops), *map(str, self.checkpoints)]
        return "\n    ".join([_records.describe(self), *below])


class Recompile(NamedTuple):
    """The reason for a further version of a kernel."""

    kernel: str
    """Qualified name."""
    place: str
    """"file:line" of its definition."""
    number: int
    """Number of the version; the first version has number 1."""
    differences: tuple[tuple[str, str, str], ...]
    """(name, before, now) of each difference from the most similar earlier version."""

    def __str__(self) -> str:
        return f"    version {self.number}: " + "; ".join(f"{name}: {before} → {now}" for name, before, now in self.differences)


class CompileReport(tuple[Version, ...]):
    """The versions of all kernels in the order of their creation; its text is a table."""

    def __repr__(self) -> str:
        compiled = [version.seconds for version in self if version.miss]
        head = f"{len(self)} versions: {len(compiled)} compiled in {sum(compiled):.3f} s, {len(self) - len(compiled)} from disk"
        return "\n".join([head, *map(str, self)])

    def _repr_html_(self) -> str:
        rows = [
            (each.kernel, each.place, f"{each.seconds * 1000:.1f}", each.miss or "from disk", each.operations, each.nbytes, len(each.loops))
            for each in self
        ]
        return _to_table(("kernel", "place", "ms", "compiled because", "operations", "bytes", "loops"), rows)


def _to_table(heads: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    """Returns a table for notebooks."""
    lines = [f"<tr>{''.join(f'<th>{head}</th>' for head in heads)}</tr>"]
    lines += [f"<tr>{''.join(f'<td>{escape(str(cell))}</td>' for cell in row)}</tr>" for row in rows]
    return f"<table>{''.join(lines)}</table>"


class RecompileReport(tuple[Recompile, ...]):
    """Every version of a kernel after its first; its text has one paragraph per kernel."""

    def __repr__(self) -> str:
        lines: list[str] = []
        for item in self:
            if (head := f"{item.kernel} ({item.place})") not in lines:
                lines.append(head)
            lines.append(str(item))
        return "\n".join(lines) or "every kernel has one version"

    def _repr_html_(self) -> str:
        rows = [(each.kernel, each.place, each.number, *difference) for each in self for difference in each.differences]
        return _to_table(("kernel", "place", "version", "input", "before", "now"), rows)


def _make_version(record: Any) -> Version:
    loops = tuple(Loop(f"{file}:{line}", *rest) for file, line, *rest in record.loops)
    checkpoints = tuple(LoopCheckpoints(f"{file}:{line}", *rest) for file, line, *rest in record.checkpoints)
    return Version(**{**vars(record), "loops": loops, "checkpoints": checkpoints})


def compile_report() -> CompileReport:
    """Return all versions of kernels that this process compiled or loaded from disk.

    The result is a tuple of `Version`s in the order of their creation: stages with their times, why a version was not found on disk, its
    size, how each parallel loop was compiled, and the checkpoints of sequential loops. Printed, it is a table. The latest 2000 versions
    are stored, also beyond `qd.reset`.

    Example: `print(qd.compile_report())`
    """
    return CompileReport(map(_make_version, _records.records.copy()))


def explain_recompiles() -> RecompileReport:
    """Return why kernels have more than one version: which argument, global, type, shape or static value changed, from what to what.

    The result is a tuple of `Recompile`s, one for each version of a kernel except its first. Printed, it has one paragraph per kernel.

    Example: `print(qd.explain_recompiles())`
    """
    versions: dict[tuple[str, str], list[Any]] = {}
    found = []
    for version in _records.records.copy():
        earlier = versions.setdefault((version.kernel, version.place), [])
        if earlier:
            differences = _records.find_differences(earlier, version)
            found.append(Recompile(version.kernel, version.place, len(earlier) + 1, tuple(differences)))
        earlier.append(version)
    return RecompileReport(sorted(found, key=lambda item: (item.place, item.kernel)))

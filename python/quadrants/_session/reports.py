"""Reports of compilations: `qd.compile_report`, `qd.explain_recompiles`. The launcher records each version of a kernel when it makes it."""

from __future__ import annotations

import re
import reprlib
import time
import weakref
from collections import Counter, deque
from collections.abc import Sequence
from typing import Any, NamedTuple

from .. import _runtime
from .._base import logging as _logging
from .._containers.summaries import escape

_MANY = 64
_MAX_RECORDS = 2000


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
        origin = f"compiled ({self.miss})" if self.miss else "from disk"
        head = f"{_head(self)}: {self.seconds * 1000:.1f} ms, {origin}; {self.operations} operations, {self.nbytes} bytes"
        stages = ", ".join(f"{name} {seconds * 1000:.1f}" for name, seconds in self.stages)
        return "\n    ".join([head, *([f"ms: {stages}"] if stages else []), *map(str, self.loops), *map(str, self.checkpoints)])


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
            if (head := _head(item)) not in lines:
                lines.append(head)
            lines.append(str(item))
        return "\n".join(lines) or "every kernel has one version"

    def _repr_html_(self) -> str:
        rows = [(each.kernel, each.place, each.number, *difference) for each in self for difference in each.differences]
        return _to_table(("kernel", "place", "version", "input", "before", "now"), rows)


_records: deque[Version] = deque(maxlen=_MAX_RECORDS)


def compile_report() -> CompileReport:
    """Return all versions of kernels that this process compiled or loaded from disk.

    The result is a tuple of `Version`s in the order of their creation: stages with their times, why a version was not found on disk, its
    size, how each parallel loop was compiled, and the checkpoints of sequential loops. Printed, it is a table. The latest 2000 versions
    are stored, also beyond `qd.reset`.

    Example: `print(qd.compile_report())`
    """
    return CompileReport(_records)


def explain_recompiles() -> RecompileReport:
    """Return why kernels have more than one version: which argument, global, type, shape or static value changed, from what to what.

    The result is a tuple of `Recompile`s, one for each version of a kernel except its first. Printed, it has one paragraph per kernel.

    Example: `print(qd.explain_recompiles())`
    """
    versions: dict[tuple[str, str], list[Version]] = {}
    found = []
    for version in _records:
        earlier = versions.setdefault((version.kernel, version.place), [])
        if earlier:
            # The latest of the most similar versions.
            differences = min((_compare(before, version) for before in reversed(earlier)), key=len)
            found.append(Recompile(version.kernel, version.place, len(earlier) + 1, tuple(differences)))
        earlier.append(version)
    return RecompileReport(sorted(found, key=lambda item: (item.place, item.kernel)))


def _head(item: Version | Recompile) -> str:
    return f"{item.kernel} ({item.place})"


def _compare(before: Version, now: Version) -> list[tuple[str, str, str]]:
    if before.runtime != now.runtime:
        return [("the runtime", "an earlier qd.init", "this one")]
    found = [(name, before.reads[name], text) for name, text in now.reads.items() if before.reads.get(name, text) != text]
    if before.definition is not now.definition:
        found.append(("the kernel", "an earlier definition", "defined again"))
    one_sided = [
        (name, before.reads.get(name, "not read"), now.reads.get(name, "not read"))
        for name in sorted(before.reads.keys() ^ now.reads.keys())
    ]
    return found or one_sided or [("the arguments", "of an earlier call", "not the same")]


def record(
    kernel: Any,
    runtime: int,
    stages: Sequence[tuple[str, float]] | None,
    miss: str,
    seconds: float,
    nbytes: int,
    operations: int,
    loops: Sequence[tuple[Any, ...]],
    checkpoints: Sequence[tuple[Any, ...]],
    reads: Sequence[tuple[str, str, Any, bytes]],
) -> Version:
    """Called by the launcher for each new version; `stages` is None for a version that was found on disk."""
    code = kernel.function.__code__
    named = {_name(kernel, path): _describe(kind, value, digest) for path, kind, value, digest in reads}
    miss = "" if stages is None else _with_names(kernel, miss)
    made = [Loop(f"{file}:{line}", *rest) for file, line, *rest in loops]
    kept = [LoopCheckpoints(f"{file}:{line}", *rest) for file, line, *rest in checkpoints]
    place = f"{code.co_filename}:{code.co_firstlineno}"
    version = Version(kernel.name, place, miss, seconds, tuple(stages or ()), operations, nbytes, tuple(made), tuple(kept), named,
                      weakref.ref(kernel), runtime, time.perf_counter())  # fmt: skip
    if _runtime.is_logged("debug"):
        _log(version)
    _records.append(version)
    if kernel.specialization_count == _MANY:
        _warn_about_many(version)
    return version


def _log(version: Version) -> None:
    """Logs what the cache and the compiler did for a version that is not recorded yet, and why the version is needed."""
    earlier = [other for other in _records if (other.kernel, other.place) == (version.kernel, version.place)]
    differences = min((_compare(before, version) for before in reversed(earlier)), key=len) if earlier else []
    why = "".join(f"; {name}: {before} → {now}" for name, before, now in differences)
    _logging.debug(f"kernel {str(version).splitlines()[0]}; version {len(earlier) + 1}{why}")


def _warn_about_many(version: Version) -> None:
    """Logs one line if values of arguments or globals that are baked into the code cause many versions."""
    alike = [other.reads for other in _records if other.definition is version.definition and other.runtime == version.runtime]
    counts = Counter({name: len({reads.get(name) for reads in alike}) for name in version.reads})
    name, count = counts.most_common(1)[0] if counts else ("its arguments", 1)
    _logging.warn(
        f"kernel {_head(version)} is compiled for the {len(alike)}th time: {name} had {count} values, and is a constant of the code; "
        "qd.explain_recompiles() lists them"
    )


def _with_names(kernel: Any, text: str) -> str:
    """Replaces argument numbers by names."""
    return re.sub(r"\bargument (\d+)", lambda match: f"argument {kernel.parameters[int(match[1])].name}", text)


def _name(kernel: Any, path: str) -> str:
    return _with_names(kernel, path) if path.startswith("argument ") else f"global {path}"


def _describe(kind: str, value: Any, digest: bytes) -> str:
    """Returns a dependency's value as a text; equal values have equal texts."""
    if kind in ("input", "absent"):
        return value if kind == "input" else "absent"
    if kind == "type":
        return (value if isinstance(value, type) else type(value)).__qualname__
    if kind == "identity" or not digest:
        return f"{type(value).__qualname__} at {id(value):#x}"
    text = getattr(value, "__qualname__", "") if kind == "function" else " ".join(reprlib.repr(value).split())
    is_whole = isinstance(value, (bool, int, float, str, _runtime.DataType)) and "..." not in text
    return text if is_whole else f"{text} #{digest[:3].hex()}"

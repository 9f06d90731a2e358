"""Records of the versions of kernels: the launcher stores them here, and `reports.py`, which most programs never load, reads them."""

from __future__ import annotations

import reprlib
import time
import weakref
from collections import Counter, deque
from types import SimpleNamespace
from typing import Any

from .. import _runtime
from .._base import logging as _logging

_MANY = 64
_MAX_RECORDS = 2000

records: deque[Any] = deque(maxlen=_MAX_RECORDS)
"""For each version the fields of a `reports.Version`, with its loops and checkpoints as the launcher describes them."""


def record(
    kernel: Any, epoch: int, stages: Any, miss: str, seconds: float, nbytes: int, operations: int, loops: Any, checkpoints: Any, reads: Any
) -> dict[str, str]:
    """Called by the launcher for each new version: `stages` is a list of (name, seconds), or None for a version that was found on disk;
    `loops` and `checkpoints` are lists of tuples (file, line, facts), `reads` is one of (path, kind, value, digest).

    Returns what the version reads: its dependencies by name, with their values.
    """
    code = kernel.function.__code__
    named = {
        _with_name(kernel, path) if path.startswith("argument ") else f"global {path}": _describe(kind, value, digest)
        for path, kind, value, digest in reads
    }
    made = SimpleNamespace(
        kernel=kernel.name, place=f"{code.co_filename}:{code.co_firstlineno}", miss="" if stages is None else _with_name(kernel, miss),
        seconds=seconds, stages=tuple(stages or ()), operations=operations, nbytes=nbytes, loops=loops, checkpoints=checkpoints,
        reads=named, definition=weakref.ref(kernel), runtime=epoch, finished=time.perf_counter(),
    )  # fmt: skip
    if _runtime.is_logged("debug"):
        _log(made)
    records.append(made)
    if kernel.specialization_count == _MANY:
        _warn_about_many(made)
    return named


def describe(version: Any) -> str:
    """Returns the main facts of a version on one line."""
    origin = f"compiled ({version.miss})" if version.miss else "from disk"
    size = f"{version.operations} operations, {version.nbytes} bytes"
    return f"{version.kernel} ({version.place}): {version.seconds * 1000:.1f} ms, {origin}; {size}"


def find_differences(earlier: list[Any], version: Any) -> list[tuple[str, str, str]]:
    """Returns (name, before, now) of each difference from the latest of the most similar earlier versions; nothing if there is none."""
    return min((_compare(before, version) for before in reversed(earlier)), key=len, default=[])


def _compare(before: Any, now: Any) -> list[tuple[str, str, str]]:
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


def _log(version: Any) -> None:
    """Logs what the cache and the compiler did for a version that is not recorded yet, and why the version is needed."""
    earlier = [other for other in records.copy() if (other.kernel, other.place) == (version.kernel, version.place)]
    why = "".join(f"; {name}: {before} → {now}" for name, before, now in find_differences(earlier, version))
    _logging.debug(f"kernel {describe(version)}; version {len(earlier) + 1}{why}")


def _warn_about_many(version: Any) -> None:
    """Logs one line if values of arguments or globals that are baked into the code cause many versions."""
    alike = [other.reads for other in records.copy() if other.definition is version.definition and other.runtime == version.runtime]
    counts = Counter({name: len({reads.get(name) for reads in alike}) for name in version.reads})
    name, count = counts.most_common(1)[0] if counts else ("its arguments", 1)
    _logging.warn(
        f"kernel {version.kernel} ({version.place}) is compiled for the {len(alike)}th time: {name} had {count} values, and is a constant "
        "of the code; qd.explain_recompiles() lists them"
    )


def _with_name(kernel: Any, text: str) -> str:
    """Replaces the number of an argument by its name. Not with `re`, whose first pattern takes 0.1 ms."""
    before, word, rest = text.partition("argument ")
    steps = rest.lstrip("0123456789")
    number = rest.removesuffix(steps)
    return f"{before}{word}{kernel.parameters[int(number)].name}{steps}" if number else text


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

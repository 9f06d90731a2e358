"""`qd.perf_dispatch`: measures several implementations of one function and calls the fastest for the given arguments."""

from __future__ import annotations

import functools
import hashlib
import inspect
import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from .. import _runtime
from .._base import options as _options
from .._base.errors import QuadrantsRuntimeError, QuadrantsSyntaxError
from .._containers.snapshots import Memories
from .disk_cache import find_folder
from .streams import Event

NUM_FIRST_WARMUP = 1
NUM_WARMUP = 0
NUM_ACTIVE = 1
DEFAULT_REPEAT_AFTER_COUNT = 300


def _parse_force_map(text: str) -> dict[str, str]:
    """Parses QD_PERFDISPATCH_FORCE, "dispatcher:implementation,…". Raises ValueError."""
    choices = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        dispatcher, colon, implementation = (part.strip() for part in entry.partition(":"))
        if not (dispatcher and colon and implementation):
            raise ValueError(f"Malformed entry {entry!r} in QD_PERFDISPATCH_FORCE: expected 'dispatcher:implementation'")
        choices[dispatcher] = implementation
    return choices


_wants_names = os.environ.get("QD_PERFDISPATCH_FORCE", "").strip() == "?"
_FORCE_MAP = {} if _wants_names else _parse_force_map(os.environ.get("QD_PERFDISPATCH_FORCE", ""))
_ANY_FORCE_ACTIVE = bool(_FORCE_MAP) or _wants_names
_PRINTS_CHOICES = os.environ.get("QD_PERFDISPATCH_PRINT_DEBUG") == "1"


_Key = tuple[Hashable, tuple[int, ...]]  # what `get_geometry_hash` returned, and the implementations that accept the arguments


class DispatchImpl:
    """One implementation: a kernel or a Python function, and the predicate that decides which arguments it accepts."""

    __name__: str

    def __init__(self, function: Callable[..., Any], is_compatible: Callable[..., bool] | None):
        self.function, self.is_compatible = function, is_compatible
        functools.update_wrapper(self, function)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self.function(*arguments, **named)


class PerformanceDispatcher:
    """Calls the fastest of the registered implementations; made by `perf_dispatch`."""

    __qualname__: str
    num_first_warmup: int
    """Number of untimed calls of each implementation before the first decision."""
    num_warmup: int
    """Number of untimed calls of each implementation before a later decision."""
    num_active: int
    """Number of timed calls of each implementation."""
    repeat_after_count: int
    """Number of calls after which the implementations are measured again; 0: never."""
    repeat_after_seconds: float
    """Seconds after which the implementations are measured again; 0: never."""

    def __init__(self, prototype: Any, get_geometry_hash: Callable[..., Hashable], verify: bool, persist: bool, **schedule: Any):
        self.name = prototype.__name__
        self._parameters = list(inspect.signature(prototype).parameters)
        self._get_geometry_hash, self._verify, self._persist = get_geometry_hash, verify, persist
        vars(self).update(schedule)
        self._implementations: list[DispatchImpl] = []
        self._all: tuple[int, ...] = ()  # the implementations, if each accepts all arguments
        self._races: dict[_Key, Iterator[tuple[int, dict[int, float] | None]]] = {}
        self._winners: dict[_Key, int] = {}
        self._lock = threading.Lock()
        self._has_reported = False
        functools.update_wrapper(self, prototype)

    def register(self, impl: Any = None, *, is_compatible: Callable[..., bool] | None = None) -> Any:
        """Add an implementation: a kernel or a Python function with the parameters of the prototype.

        `is_compatible` takes the arguments of a call and returns whether this implementation accepts them. Raises QuadrantsSyntaxError if
        the parameters differ.
        """
        if impl is None:
            return functools.partial(self.register, is_compatible=is_compatible)
        for expected, found in zip([*self._parameters, None], [*inspect.signature(impl).parameters, None], strict=False):
            if expected != found:
                raise QuadrantsSyntaxError(
                    f"perf_dispatch '{self.name}' has parameter {expected!r} where '{impl.__name__}' has {found!r} "
                    "(error code: PERFDISPATCH_ANNOTATION_SEQUENCE_MISMATCH)"
                )
        if _PRINTS_CHOICES or _ANY_FORCE_ACTIVE:
            print(f"perf_dispatch '{self.name}': registered '{impl.__name__}'")
        self._implementations.append(DispatchImpl(impl, is_compatible))
        self._all = () if any(one.is_compatible for one in self._implementations) else tuple(range(len(self._implementations)))
        return self._implementations[-1]

    def __reduce__(self) -> str:
        return self.__qualname__  # pickled by reference, like functions

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        compatible = self._all or tuple(
            position
            for position, implementation in enumerate(self._implementations)
            if implementation.is_compatible is None or implementation.is_compatible(*arguments, **named)
        )
        if not compatible:
            raise QuadrantsRuntimeError(f"No suitable functions were found. perf_dispatch '{self.name}' has {self._list_names()}")
        forced = self._find_forced(compatible) if _ANY_FORCE_ACTIVE else None
        if forced is not None or len(compatible) == 1:
            return self._implementations[compatible[0] if forced is None else forced](*arguments, **named)
        key = self._get_geometry_hash(*arguments, **named), compatible
        if _runtime.current_tape() is not None:  # nothing is measured: the calls are recorded, and may run later
            return self._implementations[self._winners.get(key, compatible[-1])](*arguments, **named)
        with self._lock:
            race = self._races.get(key)
            position, seconds = next(race or self._races.setdefault(key, self._race(key)))
        if race is None and self._verify:
            return self._compare(compatible, arguments, named)
        if seconds is None:
            return self._implementations[position].function(*arguments, **named)
        begin, end = Event(), Event()
        begin.record(named.get("qd_stream"))
        result = self._implementations[position](*arguments, **named)
        end.record(named.get("qd_stream"))
        end.synchronize()
        with self._lock:
            seconds[position] += begin.elapsed_ms(end)
        return result

    def _compare(self, compatible: tuple[int, ...], arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Calls all implementations with the same contents of memory; the last call serves. Raises if they leave other values."""
        bound = dict(zip(self._parameters, arguments, strict=False)) | named
        memories = Memories(tuple(value for _, value in _list_values(bound, [])))
        result, expected = None, dict[str, np.ndarray]()
        for position in compatible:
            memories.restore()
            result = self._implementations[position](*arguments, **named)
            found = {name: _copy(value) for name, value in _list_values(bound | {"the result": result}, [])}
            for name, value in found.items():
                if (difference := _find_difference(value, expected.get(name, value))) is not None:
                    first, other = (self._implementations[number].__name__ for number in (compatible[0], position))
                    raise QuadrantsRuntimeError(f"perf_dispatch '{self.name}': '{other}' and '{first}' differ: {name}{difference}")
            expected = expected or found
        return result

    def _list_names(self) -> str:
        return f"available implementations: {[implementation.__name__ for implementation in self._implementations]}"

    def _find_forced(self, compatible: tuple[int, ...]) -> int | None:
        wanted = _FORCE_MAP.get(self.name)
        found = next((position for position in compatible if self._implementations[position].__name__ == wanted), None)
        if not self._has_reported:
            self._has_reported = True
            print(f"perf_dispatch '{self.name}': {self._list_names()}")
            if found is not None:
                print(f"perf_dispatch '{self.name}': forced to '{wanted}'")
            elif wanted is not None:
                print(f"perf_dispatch '{self.name}': warning: '{wanted}' is not among them, measuring instead")
        return found

    def _find_record(self, key: _Key) -> Path | None:
        """Returns the file that stores the decision for arguments of this kind on this device, or None."""
        if not (self._persist and _options.get("offline_cache")):
            return None
        place = self.__module__, self.__qualname__, _runtime.target(), _runtime.statistics()["threads"]
        names = [self._implementations[position].__name__ for position in key[1]]
        digest = hashlib.sha256(repr((place, key[0], names)).encode()).hexdigest()
        return find_folder(_options.current or {}) / "kernels-dispatch" / digest[:2] / digest

    def _race(self, key: _Key) -> Iterator[tuple[int, dict[int, float] | None]]:
        """Yields, for each call with one geometry, the implementation that serves it, and the dictionary for its seconds or None."""
        warmup, compatible = self.num_first_warmup, key[1]
        record = self._find_record(key)
        known = record.read_text() if record is not None and record.exists() else None
        winner = next((position for position in compatible if self._implementations[position].__name__ == known), None)
        if winner is not None:
            yield from self._serve(key, winner, 0)
        while True:
            # The implementation that was registered last comes first, as in the reference.
            for position in compatible[::-1] * warmup:
                yield position, None
            seconds: dict[int, float] = defaultdict(float)
            for position in compatible[::-1] * max(1, self.num_active):
                yield position, seconds
            winner = min(seconds or compatible, key=seconds.__getitem__)  # excludes an implementation that only raised
            if _PRINTS_CHOICES:
                chosen = self._implementations[winner].__name__
                print(f"perf_dispatch '{self.name}': chose '{chosen}' out of {len(seconds)} registered functions.")
            if record is not None:
                record.parent.mkdir(parents=True, exist_ok=True)
                record.write_text(self._implementations[winner].__name__)
            yield from self._serve(key, winner, 1)
            warmup = self.num_warmup

    def _serve(self, key: _Key, winner: int, calls: int) -> Iterator[tuple[int, None]]:
        """Yields the winner until the implementations are to be measured again; `calls`: of those since the decision, already made."""
        self._winners[key], decided_at = winner, time.monotonic()
        while not (0 < self.repeat_after_count <= calls) and not (0 < self.repeat_after_seconds <= time.monotonic() - decided_at):
            calls += 1
            yield winner, None


def _list_values(members: Any, seen: list[Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yields the containers, arrays and numbers in values and in the members of objects, with their names."""
    for name, value in members.items():
        if hasattr(value, "to_numpy") or hasattr(value, "cpu") or isinstance(value, (np.ndarray, np.generic, int, float)):
            yield prefix + name, value
        elif isinstance(value, (list, tuple)):
            yield from _list_values({f"[{number}]": item for number, item in enumerate(value)}, seen, prefix + name)
        elif {"_data_oriented", "__dataclass_fields__"} & {*dir(type(value))} and not any(value is known for known in seen):
            seen.append(value)
            yield from _list_values(vars(value), seen, f"{prefix}{name}.")


def _copy(value: Any) -> Any:
    value = value.to_numpy() if hasattr(value, "to_numpy") else value.detach().cpu().numpy() if hasattr(value, "cpu") else value
    return np.concatenate([np.ravel(_copy(part)) for part in value.values()]) if isinstance(value, dict) else np.array(value)


def _find_difference(found: np.ndarray, expected: Any) -> str | None:
    """Returns the first difference as text, or None. Floats agree to half of their digits, compared with the largest of the array."""
    if found.shape != expected.shape:
        return f" has shape {found.shape}, not {expected.shape}"
    same = found == expected
    if found.dtype.kind == "f":
        tolerance = np.finfo(found.dtype).eps ** 0.5
        scale = np.max(np.abs(expected), initial=0, where=np.isfinite(expected))
        same = np.isclose(found, expected, tolerance, tolerance * scale, equal_nan=True)
    where = np.argwhere(~same)
    return f"{where[0].tolist() or ''} is {found[tuple(where[0])]}, not {expected[tuple(where[0])]}" if len(where) else None


def perf_dispatch(
    *,
    get_geometry_hash: Callable[..., Hashable],
    first_warmup: int = NUM_FIRST_WARMUP,
    warmup: int = NUM_WARMUP,
    active: int = NUM_ACTIVE,
    repeat_after_count: int | None = None,
    repeat_after_seconds: float | None = None,
    verify: bool = False,
    persist: bool = False,
) -> Callable[[Callable[..., Any]], PerformanceDispatcher]:
    """Make a function that calls the fastest of the implementations that are registered with it.

    The decorated function defines the name and the parameters; its body is not used. Every implementation in turn serves some calls; then
    the one with the lowest mean time serves all. Each call runs one implementation.

    Args:
        get_geometry_hash: function of the arguments; for each of its values, the implementations are measured separately.
        first_warmup: untimed calls of each implementation before the first measurement.
        warmup: untimed calls of each implementation before later measurements.
        active: timed calls of each implementation, 1 or more.
        repeat_after_count: calls after which the implementations are measured again, 300 if `repeat_after_seconds` is not given either;
            0 or less: never.
        repeat_after_seconds: seconds after which they are measured again; 0 or less: never.
        verify: let the first call with a geometry run all implementations, with the same contents of all containers, and compare what they
            return and what they leave in the arguments and in the members of objects among them.
        persist: store decisions in the disk cache, for later processes on such a device.
    Returns:
        A decorator, which returns the function. Its method `register` registers an implementation.
    Raises:
        QuadrantsRuntimeError: at a call, if no implementation accepts the arguments, or if `verify` finds that two differ.

    QD_PERFDISPATCH_FORCE="dispatcher:implementation,…" selects implementations, "?" lists their names;
    QD_PERFDISPATCH_PRINT_DEBUG=1 prints each selection.
    """
    if repeat_after_count is None:
        repeat_after_count = DEFAULT_REPEAT_AFTER_COUNT if repeat_after_seconds is None else 0

    schedule = {"num_first_warmup": first_warmup, "num_warmup": warmup, "num_active": active}
    schedule |= {"repeat_after_count": repeat_after_count, "repeat_after_seconds": repeat_after_seconds or 0.0}
    return lambda prototype: PerformanceDispatcher(prototype, get_geometry_hash, verify, persist, **schedule)

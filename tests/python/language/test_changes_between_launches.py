"""What a kernel reads is changed between two launches, by every route that Python has, after launches that found it unchanged."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import types
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import pytest

import quadrants as qd

pytestmark = pytest.mark.usefixtures("on_every_backend")

# After so many launches a guard relies on being told of changes.
SETTLED = 5
DECORATE = qd.data_oriented(template_primitives=False)
LIMIT = 1
OTHER = 0
settings = types.ModuleType("settings")
settings.limit = 1


def join(name: str) -> str:
    """Returns an equal string that is not interned."""
    return "".join([name[:1], name[1:]])


def make_class(base: type = object, meta: type = type) -> Any:
    @DECORATE
    class Read(base, metaclass=meta):  # type: ignore[misc]
        def __init__(self) -> None:
            self.n, self.other = 1, 2

        @qd.kernel
        def read(self) -> qd.i32:
            return self.n * 10 + self.other

    return Read


def expect(read: Callable[[], int], value: int) -> None:
    for _ in range(SETTLED):
        assert read() == value


def add_property(it: Any, value: int) -> None:
    type(it).n = property(lambda self: value)


def hide(it: Any, value: int) -> None:
    """Gives the class the value behind the object's own, and waits until that is settled, too."""
    type(it).n, type(it).other = value, 2
    it.n, it.other = -1, 2
    expect(it.read, -8)


def delete(it: Any, value: int) -> None:
    hide(it, value)
    del it.n


def pop(it: Any, value: int) -> None:
    hide(it, value)
    assert vars(it).pop("n") == -1


def pop_item(it: Any, value: int) -> None:
    hide(it, value)
    while "n" in vars(it):
        vars(it).popitem()


def clear(it: Any, value: int) -> None:
    hide(it, value)
    vars(it).clear()


def refill(it: Any, value: int) -> None:
    entries = vars(it)
    entries.clear()
    entries.update(n=value, other=2)


def merge(it: Any, value: int) -> None:
    entries = vars(it)
    entries |= {"n": value}


def add_default(it: Any, value: int) -> None:
    vars(it).pop("n", None)
    vars(it).setdefault("n", value)


def set_class(it: Any, value: int) -> None:
    it.__class__ = type("Other", (type(it),), {"n": property(lambda self: value)})


ROUTES: dict[str, Callable[[Any, int], object]] = {
    "setattr": lambda it, value: setattr(it, "n", value),
    "object.__setattr__": lambda it, value: object.__setattr__(it, "n", value),
    "another string": lambda it, value: setattr(it, join("n"), value),
    "item": lambda it, value: vars(it).__setitem__("n", value),
    "item of another string": lambda it, value: vars(it).__setitem__(join("n"), value),
    "update": lambda it, value: vars(it).update(n=value),
    "new dictionary": lambda it, value: setattr(it, "__dict__", {"n": value, "other": 2}),
    "ordered dictionary": lambda it, value: setattr(it, "__dict__", OrderedDict(n=value, other=2)),
    "merge": merge,
    "default": add_default,
    "refill": refill,
    "clear": clear,
    "delete": delete,
    "pop": pop,
    "popitem": pop_item,
    "property": add_property,
    "class": set_class,
}


@pytest.mark.parametrize("route", ROUTES)
def test_member(route: str) -> None:
    it = make_class()()
    expect(it.read, 12)
    for value in (5, 6, 7):
        ROUTES[route](it, value)
        expect(it.read, value * 10 + 2)


def test_all_routes_in_turn_on_one_object() -> None:
    it = make_class()()
    for round_ in range(3):
        for i, route in enumerate([name for name in ROUTES if name not in ("ordered dictionary", "property", "class")]):
            ROUTES[route](it, 20 * round_ + i)
            expect(it.read, (20 * round_ + i) * 10 + 2)


def test_class_attributes() -> None:
    class Top:
        n = 1

    class Middle(Top):
        pass

    class Elsewhere(Middle):
        n = 40

    cls = make_class(Middle)
    it = cls()
    del it.n
    expect(it.read, 12)
    Top.n = 3
    expect(it.read, 32)
    Middle.n = 4
    expect(it.read, 42)
    Middle.n = 5
    expect(it.read, 52)
    del Middle.n
    expect(it.read, 32)
    type.__setattr__(cls, "n", 6)
    expect(it.read, 62)
    del cls.n
    expect(it.read, 32)
    cls.__bases__ = (Elsewhere,)
    expect(it.read, 402)
    it.n = 7
    expect(it.read, 72)


def test_properties_come_and_go() -> None:
    cls = make_class()
    it = cls()
    for value in range(3):
        expect(it.read, 12)
        cls.n = property(lambda self, value=value: 50 + value)
        expect(it.read, 502 + 10 * value)
        del cls.n
    cls.__getattribute__ = lambda self, name: 8 if name == "n" else object.__getattribute__(self, name)
    expect(it.read, 82)
    del cls.__getattribute__
    expect(it.read, 12)


def test_slots() -> None:
    @DECORATE
    class Slots:
        __slots__ = ("n", "other", "__weakref__")

        @qd.kernel
        def read(self) -> qd.i32:
            return self.n * 10 + self.other

    it, other = Slots(), Slots()
    for value in range(1, 5):
        it.n, it.other, other.n, other.other = value, 2, value, 3
        expect(it.read, value * 10 + 2)
        expect(other.read, value * 10 + 3)


def test_metaclass_that_orders_bases() -> None:
    class Meta(type):
        def mro(cls) -> list[type]:
            return super().mro()

    class First:
        n = 1

    class Second:
        n = 2

    # A class above both, so that the layouts of the bases agree.
    cls = make_class(type("Base", (First,), {}), Meta)
    it = cls()
    del it.n
    expect(it.read, 12)
    for value, base in ((2, Second), (1, First), (2, Second)):
        cls.__bases__ = (type("Base", (base,), {}),)
        expect(it.read, value * 10 + 2)
        base.n = value + 4
        expect(it.read, (value + 4) * 10 + 2)
        base.n = value


def test_class_that_changes_very_often() -> None:
    cls = make_class()
    it = cls()
    del it.n
    for value in range(1500):
        cls.n = value
        assert it.read() == value * 10 + 2


def test_several_objects_and_kernels() -> None:
    cls = make_class()

    @qd.kernel
    def read_too(it: qd.template()) -> qd.i32:
        return it.n + it.other

    objects = [cls() for _ in range(4)]
    for step in range(30):
        for number, it in enumerate(objects):
            for _ in range(1 + step % 3):
                assert it.read() == it.n * 10 + it.other
                assert read_too(it) == it.n + it.other
            if step % (number + 1) == 0:
                it.n += 1
            if step % 7 == number:
                vars(it)["other"] += 1
    assert len({it.n for it in objects}) > 1


def test_objects_that_come_and_go() -> None:
    cls = make_class()
    for value in range(60):
        it = cls()
        it.n = value
        expect(it.read, value * 10 + 2)
        if value % 3:
            vars(it).update(n=value + 1)
            expect(it.read, value * 10 + 12)
    kept = vars(it)
    del it
    kept["n"] = 3
    it = cls()
    it.__dict__ = kept
    expect(it.read, 32)
    kept["n"] = 4
    expect(it.read, 42)


def test_shared_dictionary() -> None:
    cls = make_class()
    it, other = cls(), cls()
    other.__dict__ = vars(it)
    expect(it.read, 12)
    expect(other.read, 12)
    it.n = 5
    expect(other.read, 52)
    other.n = 6
    expect(it.read, 62)


def test_changes_while_a_launch_reads() -> None:
    cls = make_class()
    first, last = cls(), cls()

    def change(self: Any) -> int:
        first.n += 1  # read already by this launch, which goes on with the old value
        assert cls().read() == 12
        last.other += 1
        return 7

    Changing = type("Changing", (), {"p": property(change)})

    @qd.kernel
    def read(a: qd.template(), b: qd.template(), c: qd.template()) -> qd.i32:
        return a.n * 100 + b.p * 10 + c.other

    changing = DECORATE(Changing)()
    for _ in range(2 * SETTLED):
        before = first.n, last.other
        result = read(first, changing, last)
        assert first.n > before[0]
        assert result // 100 in range(before[0], first.n + 1)
        assert result % 10 in [other % 10 for other in range(before[1], last.other + 1)] or result % 100 != 70


def test_classes_and_objects_are_released() -> None:
    cls = make_class()
    it = cls()
    expect(it.read, 12)
    seen = weakref.ref(cls), weakref.ref(it)
    del it
    gc.collect()
    assert seen[1]() is None
    del cls
    gc.collect()
    assert seen[0]() is None


@qd.kernel
def read_global() -> qd.i32:
    return LIMIT * 2


@qd.kernel
def read_setting() -> qd.i32:
    return settings.limit * 2


def replace_global(value: int) -> None:
    del globals()["LIMIT"]
    globals()["LIMIT"] = value


def merge_globals(value: int) -> None:
    names = globals()
    names |= {"LIMIT": value}


GLOBAL_ROUTES: dict[str, Callable[[int], object]] = {
    "item": lambda value: globals().__setitem__("LIMIT", value),
    "another string": lambda value: globals().__setitem__(join("LIMIT"), value),
    "setattr": lambda value: setattr(sys.modules[__name__], "LIMIT", value),
    "update": lambda value: globals().update(LIMIT=value),
    "merge": merge_globals,
    "exec": lambda value: exec("global LIMIT\nLIMIT = value", globals(), {"value": value}),
    "delete": replace_global,
}


@pytest.mark.parametrize("route", GLOBAL_ROUTES)
def test_global(route: str) -> None:
    try:
        for value in (2, 3, 2):
            GLOBAL_ROUTES[route](value)
            for other in range(SETTLED):
                globals()["OTHER"] = other
                assert read_global() == value * 2
    finally:
        globals()["LIMIT"] = 1


class Computed:
    def __init__(self, value: int) -> None:
        self.half = value // 2, value % 2

    @property
    def limit(self) -> int:
        return self.half[0] * 2 + self.half[1]

    @limit.setter
    def limit(self, value: int) -> None:
        self.half = value // 2, value % 2


SETTING_ROUTES: dict[str, Callable[[int], object]] = {
    "setattr": lambda value: setattr(settings, "limit", value),
    "update": lambda value: vars(settings).update(limit=value),
    "clear": lambda value: (vars(settings).clear(), setattr(settings, "limit", value)),
    "other module": lambda value: globals().__setitem__("settings", types.ModuleType("settings", "")) or setattr(settings, "limit", value),
    "object": lambda value: globals().__setitem__("settings", types.SimpleNamespace(limit=value)),
    "property": lambda value: globals().__setitem__("settings", Computed(value)),
}


@pytest.mark.parametrize("route", SETTING_ROUTES)
def test_member_of_a_module(route: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "settings", types.ModuleType("settings"))
    settings.limit = 1
    expect(read_setting, 2)
    for value in (2000, 3001, 2000):
        SETTING_ROUTES[route](value)
        expect(read_setting, value * 2)
        settings.limit = 4
        expect(read_setting, 8)


@pytest.mark.needs("forked children")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_changes_in_a_forked_child() -> None:
    it = make_class()()
    expect(it.read, 12)
    child = os.fork()
    if not child:
        status = 1
        try:
            it.n = 3
            expect(it.read, 32)
            globals()["LIMIT"] = 5
            expect(read_global, 10)
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    expect(it.read, 12)


NO_WATCHERS = """
import ctypes, sys
sys.path.insert(0, sys.argv[1])
kept = []
for add in (ctypes.pythonapi.PyDict_AddWatcher, ctypes.pythonapi.PyType_AddWatcher):
    kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p)
    kept.append(kind(lambda *arguments: 0))
    try:
        while True:
            add(kept[-1])
    except RuntimeError:
        pass
import pytest
sys.exit(pytest.main(["-q", "-x", "-p", "no:cacheprovider", "-k", "not forked and not watchers_left", sys.argv[2]]))
"""


@pytest.mark.skipif(sys.version_info < (3, 12), reason="has no watchers")
def test_without_watchers_left() -> None:
    if qd.cfg is None or qd.cfg.arch == qd.python:
        return
    run = subprocess.run([sys.executable, "-c", NO_WATCHERS, os.path.dirname(__file__), __file__], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout[-2000:] + run.stderr[-2000:]

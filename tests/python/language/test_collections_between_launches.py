"""Collections of fields and functions, and collections of other classes than list and dict, that change between launches."""

import array
import collections
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from language_support import define

import quadrants as qd

pytestmark = pytest.mark.usefixtures("on_every_backend")


def make(count: int = 2) -> list[Any]:
    return [qd.field(qd.i32, 2) for _ in range(count)]


def contents(fields: Any) -> list[int]:
    return [int(field[0]) for field in fields]


OWNED: dict[str, int] = {}


def make_proxy() -> Any:
    OWNED.clear()
    OWNED["a"] = 1
    return types.MappingProxyType(OWNED)


# The collection, how it changes, and an expression with its value before and after.
VALUES: dict[str, tuple[Callable[[], Any], Callable[[Any], Any], str, int, int]] = {
    "set": (lambda: {1, 2}, lambda it: it.add(7), "len(it)", 2, 3),
    "items of a set": (lambda: {1, 2}, lambda it: it.add(0), "sorted(it)[0]", 1, 0),
    "membership in a set": (lambda: {1, 2}, lambda it: it.discard(2), "1 if qd.static(2 in it) else 0", 1, 0),
    "OrderedDict": (lambda: collections.OrderedDict(a=1), lambda it: it.update(a=7), "it['a']", 1, 7),
    "defaultdict": (lambda: collections.defaultdict(int, a=1), lambda it: it.update(a=7), "it['a']", 1, 7),
    "Counter": (lambda: collections.Counter("ab"), lambda it: it.update("a"), "it['a']", 1, 2),
    "deque": (lambda: collections.deque([1, 2]), lambda it: it.rotate(), "it[0]", 1, 2),
    "length of a deque": (lambda: collections.deque([1, 2]), lambda it: it.append(3), "len(it)", 2, 3),
    "array": (lambda: array.array("i", [1, 2]), lambda it: it.append(3), "len(it)", 2, 3),
    "item of an array": (lambda: array.array("i", [1, 2]), lambda it: it.reverse(), "it[0]", 1, 2),
    "bytearray": (lambda: bytearray([1, 2]), lambda it: it.reverse(), "it[0]", 1, 2),
    "length of a list of fields": (make, lambda it: it.pop(), "len(it)", 2, 1),
    "longer list of fields": (make, lambda it: it.append(it[0]), "len(it)", 2, 3),
    "truth of a list of fields": (make, lambda it: it.clear(), "1 if qd.static(bool(it)) else 0", 1, 0),
    "negation of a dict of fields": (lambda: {"a": make()[0]}, lambda it: it.clear(), "1 if qd.static(not it) else 0", 0, 1),
    "keys of an OrderedDict of fields": (
        lambda: collections.OrderedDict(a=make()[0]),
        lambda it: it.update(b=it["a"]),
        "sum([1 for name in qd.static(it)])",
        1,
        2,
    ),
    "UserDict": (lambda: collections.UserDict(a=1), lambda it: it.update(a=7), "it['a']", 1, 7),
    "keys of a UserDict": (lambda: collections.UserDict(a=1), lambda it: it.update(b=7), "sum([1 for name in qd.static(it)])", 1, 2),
    "default of a UserDict": (lambda: collections.UserDict(a=1), lambda it: it.update(b=7), "it.get('b', 3)", 3, 7),
    "UserDict of fields": (
        lambda: collections.UserDict(a=make()[0]),
        lambda it: it.update(a=qd.field(qd.i32, 3)),
        "it['a'].shape[0]",
        2,
        3,
    ),
    "membership in a UserDict of fields": (
        lambda: collections.UserDict(a=make()[0]),
        lambda it: it.update(b=it["a"]),
        "1 if qd.static('b' in it) else 0",
        0,
        1,
    ),
    "UserList": (lambda: collections.UserList([1, 2]), lambda it: it.reverse(), "it[0]", 1, 2),
    "length of a UserList": (lambda: collections.UserList([1, 2]), lambda it: it.append(2), "len(it)", 2, 3),
    "ChainMap": (lambda: collections.ChainMap({}, {"a": 1}), lambda it: it.maps[1].update(a=7), "it['a']", 1, 7),
    "hidden item of a ChainMap": (lambda: collections.ChainMap({}, {"a": 1}), lambda it: it.update(a=7), "it['a']", 1, 7),
    "membership in a ChainMap": (
        lambda: collections.ChainMap({}, {"a": 1}),
        lambda it: it.clear(),
        "1 if qd.static('a' in it) else 0",
        1,
        1,
    ),
    "proxy": (make_proxy, lambda it: OWNED.update(a=7), "it['a']", 1, 7),
    "items of a proxy": (make_proxy, lambda it: OWNED.update(b=7), "sum([value for name, value in qd.static(it.items())])", 1, 8),
    "length of nested lists": (lambda: [make(1)], lambda it: it[0].append(it[0][0]), "len(it[0])", 1, 2),
    "length of a list of functions": (lambda: [abs], lambda it: it.append(abs), "len(it)", 1, 2),
}


@pytest.mark.parametrize("name", VALUES)
def test_collection_that_changes(name: str):
    construct, change, expression, before, after = VALUES[name]
    it = construct()
    read = define(f"@qd.kernel\ndef read() -> qd.i32:\n    return {expression}", it=it)["read"]
    assert [read() for _ in range(5)] == [before] * 5
    change(it)
    assert [read() for _ in range(5)] == [after] * 5


def test_loop_over_the_length_of_a_member_sees_a_new_field():
    @qd.data_oriented
    class Parts:
        def __init__(self):
            self.fields = make()

        @qd.kernel
        def add(self):
            for n in qd.static(range(len(self.fields))):
                for i in self.fields[n]:
                    self.fields[n][i] += n + 1

    parts = Parts()
    parts.add()
    parts.fields.append(make(1)[0])
    parts.add()
    assert contents(parts.fields) == [2, 4, 3]
    parts.fields = tuple(parts.fields[1:])
    parts.add()
    assert contents(parts.fields) == [5, 5]


def test_deque_of_fields_rotates():
    fields = make(3)
    history = collections.deque(fields)

    @qd.kernel
    def step(time: qd.i32):
        for i in history[0]:
            history[0][i] = 10 * time + history[-1][i]

    @qd.kernel
    def count():
        for field in qd.static(history):
            for i in field:
                field[i] += 1

    for time in range(5):
        step(time)
        history.rotate()
    assert contents(fields) == [40, 20, 60]
    count()
    history.append(make(1)[0])
    count()
    assert contents(history)[-1] == 1


def test_deque_of_fields_on_a_tape():
    history = collections.deque(qd.field(qd.f64, 3, needs_grad=True) for _ in range(3))
    x, loss = qd.field(qd.f64, 3, needs_grad=True), qd.field(qd.f64, (), needs_grad=True)
    x.fill(1.2)

    @qd.kernel
    def start():
        for i in x:
            history[0][i] = x[i]

    @qd.kernel
    def step():
        for i in x:
            history[1][i] = history[0][i] * history[0][i]

    @qd.kernel
    def end():
        for i in x:
            loss[None] += history[0][i]

    with qd.ad.Tape(loss):
        start()
        for _ in range(4):
            step()
            history.rotate(-1)
        end()
    np.testing.assert_allclose(x.grad.to_numpy(), 16 * 1.2**15)


def test_parts_and_sums_of_lists_of_fields():
    fields, others = make(3), make(1)

    @qd.kernel
    def add():
        for field in qd.static(fields[1:]):
            for i in field:
                field[i] += 1
        for field in qd.static(fields[::-2] + others):
            for i in field:
                field[i] += 10

    add()
    assert contents(fields + others) == [10, 1, 11, 10]
    fields.append(make(1)[0])
    add()
    assert contents(fields + others) == [10, 12, 12, 11, 20]


def test_a_captured_list_and_run_time_values_are_joined():
    numbers = [1, 2]

    @qd.kernel
    def join(x: qd.i32) -> qd.i32:
        joined = numbers + [x, x + 1]
        return len(joined) * 1000 + joined[1] * 100 + joined[3]

    assert join(5) == 4206
    numbers.append(7)
    assert join(5) == 5205


@pytest.mark.parametrize("use", ["len(it)", "len(qd.static(it.keys()))", "1 if qd.static(bool(it)) else 0"])
def test_wrapper_of_fields_is_used_by_its_keys_only(use: str):
    if qd.cfg is None:
        pytest.skip("the interpreter reads them at each call")
    read = define(f"@qd.kernel\ndef read() -> qd.i32:\n    return {use}", it=collections.ChainMap({"a": make()[0]}))["read"]
    with pytest.raises(qd.QuadrantsTypeError, match="'ChainMap' of other than numbers"):
        read()


def scale(x: int, factor: int = 2, *, offset: int = 1):
    return x * factor + offset


def scale_more(x: int, factor: int = 2, *, offset: int = 1):
    return x * factor * 100 + offset


CHANGES: dict[str, tuple[Callable[[Any], Any], int]] = {
    "defaults": (lambda it: setattr(it, "__defaults__", (5,)), 16),
    "named defaults": (lambda it: setattr(it, "__kwdefaults__", {"offset": 4}), 10),
    "one named default": (lambda it: it.__kwdefaults__.update(offset=5), 11),
    "code": (lambda it: setattr(it, "__code__", scale_more.__code__), 601),
}


@pytest.mark.parametrize("owner", ["it", "holder.it", "holders[0].it"])
@pytest.mark.parametrize("name", CHANGES)
def test_function_that_gets_other_code_or_defaults(name: str, owner: str):
    change, after = CHANGES[name]
    it = types.FunctionType(scale.__code__, globals(), "it", (2,))
    it.__kwdefaults__ = {"offset": 1}
    holder = types.SimpleNamespace(it=it)
    source = f"@qd.kernel\ndef read() -> qd.i32:\n    return {owner}(3)"
    read = define(source, it=it, holder=holder, holders=[holder])["read"]
    assert [read() for _ in range(5)] == [7] * 5
    change(it)
    assert [read() for _ in range(5)] == [after] * 5


class Raising:
    def __len__(self):
        raise ZeroDivisionError("length")

    def __bool__(self):
        raise ZeroDivisionError("truth")

    def __iter__(self):
        raise ZeroDivisionError("items")

    @property
    def part(self):
        raise ZeroDivisionError("part")


@pytest.mark.parametrize("use", ["len(it)", "sum(it)", "1 if bool(it) else 0", "1 if it else 0", "it.part", "qd.static(len(it))"])
def test_object_that_raises_while_it_is_read(use: str):
    read = define(f"@qd.kernel\ndef read() -> qd.i32:\n    return {use}", it=Raising())["read"]
    with pytest.raises(qd.QuadrantsCompilationError, match=r"return .*(\n.*)*(length|truth|items|part)") as caught:
        read()
    assert isinstance(caught.value.__cause__, ZeroDivisionError)

"""When a launch needs other code than the one before: whatever the code looked at is looked at again."""

from __future__ import annotations

import gc
import sys
import time
import types
import weakref
from typing import Any

import pytest
from hand_made import DYNAMIC, HandMade, Input

import quadrants as qd

NOTHING = "void qd_kernel(QdKernelContext *c) {}"
COUNT_UP = "void qd_kernel(QdKernelContext *c) { **(float **)c->arguments += 1; }"
LIMIT = 3
TABLE = [1, 2]


def test_changed_global_is_seen_and_its_return_is_remembered(compiler: Any) -> None:
    @qd.kernel
    def f() -> None:
        pass

    compiler.attach(f, HandMade(NOTHING, dependencies=[("value", (None, ("global", "LIMIT")))]))
    counts = []
    for value in (3, 3, 4, 3, 4, 3.0):
        globals()["LIMIT"] = value
        f()
        counts.append(compiler.calls)
    globals()["LIMIT"] = 3
    assert counts == [1, 1, 2, 2, 2, 3]


def test_list_changed_in_place_is_seen(compiler: Any) -> None:
    @qd.kernel
    def f() -> None:
        pass

    compiler.attach(f, HandMade(NOTHING, dependencies=[("value", (None, ("global", "TABLE")))]))
    f()
    TABLE.append(3)
    f()
    TABLE.pop()
    f()
    assert compiler.calls == 2


def test_changed_closure_cell_is_seen(compiler: Any) -> None:
    step = 1

    @qd.kernel
    def f() -> None:
        step  # noqa: B018

    compiler.attach(f, HandMade(NOTHING, dependencies=[("value", (None, ("closure", "step")))]))
    f()
    step = 2
    f()
    step = 1
    f()
    assert compiler.calls == 2


def test_changed_attribute_of_a_module_is_seen(compiler: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("settings")
    module.size = 8  # type: ignore[attr-defined]
    monkeypatch.setitem(globals(), "settings", module)

    @qd.kernel
    def f() -> None:
        pass

    compiler.attach(f, HandMade(NOTHING, dependencies=[("value", (None, ("global", "settings"), ("attribute", "size")))]))
    f()
    module.size = 9  # type: ignore[attr-defined]
    f()
    f()
    assert compiler.calls == 2


def test_changed_global_of_a_called_function_is_seen(compiler: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    other = types.ModuleType("other")
    exec("N = 1\ndef stage(): return N\n", other.__dict__)
    monkeypatch.setitem(globals(), "stage", other.stage)

    @qd.kernel
    def f() -> None:
        pass

    stage = (None, ("global", "stage"))
    compiler.attach(f, HandMade(NOTHING, dependencies=[("function", stage), ("value", (*stage, ("global", "N")))]))
    f()
    other.N = 2  # type: ignore[attr-defined]
    f()
    f()
    assert compiler.calls == 2


def test_name_that_appears_is_seen(compiler: Any) -> None:
    @qd.data_oriented
    class Model:
        @qd.kernel
        def f(self) -> None:
            pass

    compiler.attach(Model.f, HandMade(NOTHING, dependencies=[("type", (0,)), ("absent", (0, ("attribute", "extra")))]))
    plain, extended = Model(), Model()
    extended.extra = 1  # type: ignore[attr-defined]
    plain.f()
    plain.f()
    assert compiler.calls == 1
    compiler.attach(Model.f, HandMade(NOTHING, dependencies=[("value", (0, ("attribute", "extra")))]))
    extended.f()
    plain.f()
    assert compiler.calls == 2


def test_rebound_member_is_used_at_the_next_launch(compiler: Any) -> None:
    @qd.data_oriented
    class Model:
        def __init__(self) -> None:
            self.x = qd.ndarray(qd.f32, (4,))

        @qd.kernel
        def f(self) -> None:
            pass

    def make(arguments: tuple[Any, ...]) -> HandMade:
        dtype = arguments[0].x.dtype.name
        member = Input((0, ("attribute", "x")), 0, dtype, extents=(DYNAMIC,), component_stride=4)
        return HandMade(COUNT_UP, [member], [("type", (0,))])

    compiler.attach(Model.f, make)
    model = Model()
    old = model.x
    model.f()
    model.x = qd.ndarray(qd.f32, (7,))
    model.f()
    assert (old[0], model.x[0], compiler.calls) == (1, 1, 1)
    model.x = qd.ndarray(qd.i32, (4,))
    model.f()
    assert compiler.calls == 2
    model.x = old
    model.f()
    assert (old[0], compiler.calls) == (2, 2)


def test_property_added_to_the_class_takes_over_from_the_instance(compiler: Any) -> None:
    @qd.data_oriented
    class Model:
        def __init__(self) -> None:
            self.n = 1

        @qd.kernel
        def f(self) -> None:
            pass

    compiler.attach(Model.f, HandMade(NOTHING, dependencies=[("value", (0, ("attribute", "n")))]))
    model = Model()
    model.f()
    model.f()
    Model.n = property(lambda self: 2)  # type: ignore[assignment]
    model.f()
    assert compiler.calls == 2


def test_members_are_found_in_slots_and_class_attributes(compiler: Any) -> None:
    @qd.data_oriented
    class Model:
        __slots__ = ("x",)
        n = 5

        @qd.kernel
        def f(self) -> None:
            pass

    member = Input((0, ("attribute", "x")), 0, "f32", extents=(DYNAMIC,), component_stride=4)
    compiler.attach(Model.f, HandMade(COUNT_UP, [member], [("value", (0, ("attribute", "n")))]))
    model = Model()
    model.x = qd.ndarray(qd.f32, (4,))
    for _ in range(3):
        model.f()
    assert (model.x[0], compiler.calls) == (3, 1)
    Model.n = 6
    model.f()
    assert compiler.calls == 2


def test_replaced_method_is_seen(compiler: Any) -> None:
    @qd.data_oriented
    class Model:
        @qd.func
        def weight(self) -> None:
            return 1

        @qd.kernel
        def f(self) -> None:
            pass

    compiler.attach(Model.f, HandMade(NOTHING, dependencies=[("type", (0,)), ("function", (0, ("attribute", "weight")))]))
    first, second = Model(), Model()
    for model in (first, second, first):
        model.f()
    assert compiler.calls == 1

    @qd.func
    def weight(self) -> None:
        return 2

    Model.weight = weight
    first.f()
    assert compiler.calls == 2


def test_equal_template_values_share_code(compiler: Any) -> None:
    @qd.kernel
    def f(n: qd.template()) -> None:
        pass

    compiler.attach(f, HandMade(NOTHING, dependencies=[("value", (0,))]))
    for value in (1000, int("1000"), (1, "a"), tuple([1, "a"]), 1000, 2.0, True):
        f(value)
    assert compiler.calls == 4


def test_reset_drops_code_and_containers(compiler: Any) -> None:
    @qd.kernel
    def f(x: qd.types.ndarray(dtype=qd.f32, ndim=1)) -> None:
        pass

    compiler.attach(f, HandMade(COUNT_UP, [Input((0,), 0, "f32", extents=(DYNAMIC,), component_stride=4)]))
    dead = qd.ndarray(qd.f32, (4,))
    f(dead)
    qd.reset()
    with pytest.raises(qd.QuadrantsRuntimeError, match=r"qd\.init\(\)"):
        f(dead)
    qd.init(offline_cache=False)
    with pytest.raises(qd.QuadrantsRuntimeError, match="created before"):
        f(dead)
    alive = qd.ndarray(qd.f32, (4,))
    f(alive)
    assert (alive[0], compiler.calls) == (1, 2)


def test_class_with_a_kernel_is_collected(compiler: Any) -> None:
    def use() -> weakref.ref[Any]:
        @qd.data_oriented
        class Model:
            @qd.kernel
            def f(self) -> None:
                pass

        compiler.attach(Model.f, HandMade(NOTHING, dependencies=[("type", (0,))]))
        Model().f()
        return weakref.ref(Model)

    model = use()
    gc.collect()
    assert model() is None


def test_reset_gives_back_what_code_took(compiler: Any) -> None:
    @qd.kernel
    def f() -> None:
        pass

    compiler.attach(f, HandMade(NOTHING))

    def mapped() -> int:
        with open("/proc/self/maps") as maps:
            return sum("quadrants-kernel" in line for line in maps)

    for _ in range(50):
        qd.init(offline_cache=False)
        f()
    assert mapped() <= 8


def test_kernel_holds_no_containers(compiler: Any) -> None:
    @qd.kernel
    def f(x: qd.types.ndarray(dtype=qd.f32, ndim=1)) -> None:
        pass

    compiler.attach(f, HandMade(COUNT_UP, [Input((0,), 0, "f32", extents=(DYNAMIC,), component_stride=4)]))
    array = qd.ndarray(qd.f32, (4,))
    before = sys.getrefcount(array)
    f(array)
    assert sys.getrefcount(array) == before


def test_thousands_of_versions_are_told_apart_without_trying_them_all(compiler: Any) -> None:
    @qd.kernel
    def f(n: qd.template(), x: qd.types.ndarray(dtype=qd.f32, ndim=1)) -> None:
        pass

    array = Input((1,), 0, "f32", extents=(DYNAMIC,), component_stride=4)
    compiler.attach(f, HandMade(COUNT_UP, [array], dependencies=[("value", (0,))]))
    x = qd.ndarray(qd.f32, (1,))

    def measure(values: list[int]) -> float:
        best = float("inf")
        for _ in range(5):
            began = time.perf_counter()
            for value in values:
                f(value, x)
            best = min(best, time.perf_counter() - began)
        return best

    for value in range(4):
        f(value, x)
    few = measure([0, 3, 1, 2] * 50)
    for value in range(2000):
        f(value, x)
    measure(list(range(0, 2000, 10)))  # each is found by trying once
    many = measure(list(range(0, 2000, 10)))
    assert compiler.calls == 2000
    assert many < 20 * few, (few, many)


def test_versions_with_one_hash_are_told_apart(compiler: Any) -> None:
    @qd.kernel
    def f(n: qd.template()) -> None:
        pass

    compiler.attach(f, HandMade(NOTHING, dependencies=[("value", (0,))]))
    # Lists have no hash of their own here; a number and the truth value compare equal.
    values = [[i] for i in range(20)] + [0, 1, True, False, 1.0, -1, -2, (1,), (True,), "1"]
    for _ in range(3):
        for value in values:
            f(value)
    assert compiler.calls == len(values)


def test_of_very_many_versions_the_ones_launched_least_recently_are_dropped(compiler: Any) -> None:
    @qd.kernel
    def f(n: qd.template()) -> None:
        pass

    compiler.attach(f, HandMade(NOTHING, dependencies=[("value", (0,))]))
    for n in range(2048):
        f(n)
    f(0)
    assert (f.specialization_count, compiler.calls) == (2048, 2048)
    f(2048)
    assert f.specialization_count == 1537
    for n in (0, 2048, 2047, 1000):
        f(n)
    assert compiler.calls == 2049
    f(1)
    assert compiler.calls == 2050
    f(1)
    assert compiler.calls == 2050

"""Funcs that objects store, bound to themselves or to another object: which one a launch calls."""

import pytest

import quadrants as qd
from quadrants import _runtime

pytestmark = pytest.mark.usefixtures("on_every_backend")


class Material:
    """Chooses its funcs when it is made; the class has no attribute of these names."""

    def __init__(self, weight):
        self.weight = weight
        self.respond = self._respond_twice if weight > 1 else self._respond_once

    @qd.func
    def _respond_once(self, x):
        return self.weight * x

    @qd.func
    def _respond_twice(self, x):
        return self.weight * x * 2


class Declared(Material):
    respond = None


class Dynamic(Material):
    """The class answers for attributes itself, as those of pydantic do."""

    def __getattr__(self, name):
        raise AttributeError(name)


class Overridden(Material):
    @qd.func
    def respond(self, x):
        return -x


class Undecorated(Material):
    def _respond_once(self, x):
        return self.weight * x

    def _respond_twice(self, x):
        return self.weight * x * 2


@qd.data_oriented
class Solver:
    def __init__(self, *materials):
        self.materials = list(materials)

    @qd.kernel
    def run(self) -> qd.i32:
        total = 0
        for k in qd.static(range(len(self.materials))):
            total += 100**k * self.materials[k].respond(x=3)
        return total


@pytest.mark.parametrize("kind", [Material, Declared, Dynamic, Overridden, Undecorated])
def test_objects_store_one_of_their_funcs(kind):
    solver = Solver(kind(1), kind(2))
    first, second = solver.materials
    assert solver.run() == 3 + 100 * 12
    first.respond = first._respond_twice
    assert solver.run() == 6 + 100 * 12
    second.respond = second._respond_once
    assert solver.run() == 6 + 100 * 6


@pytest.mark.parametrize("kind", [Material, Declared, Dynamic, Overridden, Undecorated])
def test_objects_store_funcs_of_others(kind):
    solver = Solver(kind(1), kind(2))
    first, second = solver.materials
    assert solver.run() == 3 + 100 * 12
    first.respond = second._respond_once
    assert solver.run() == 6 + 100 * 12
    first.respond = first._respond_once
    assert solver.run() == 3 + 100 * 12


def test_a_stored_func_takes_the_place_of_that_of_the_class():
    material = Overridden(1)
    del material.respond
    solver = Solver(material)
    assert solver.run() == -3
    material.respond = material._respond_twice
    assert solver.run() == 6
    del material.respond
    assert solver.run() == -3


def test_a_version_is_used_again_and_comes_from_the_disk(tmp_path):
    if qd.cfg is None:
        pytest.skip("the interpreter compiles nothing")
    arch = qd.cfg.arch
    for compiled in (1, 0):
        qd.init(arch=arch, offline_cache=True, offline_cache_file_path=str(tmp_path))
        solver = Solver(Material(1), Dynamic(2))
        for _ in range(3):
            assert solver.run() == 3 + 100 * 12
        counts = _runtime.statistics()
        assert (counts["compiled"], counts["loaded"]) == (compiled, 1 - compiled)
        assert Solver.run.specialization_count == 1

"""Annotations as values and not as texts: Python 3.14 evaluates them when a program first asks, which `from __future__` would hide."""

import dataclasses

import numpy as np
import pytest

import quadrants as qd


@pytest.fixture(autouse=True)
def _start(tmp_path):
    qd.init(arch=qd.cpu, offline_cache_file_path=str(tmp_path / "cache"))


@qd.dataclass
class Sphere:
    center: qd.math.vec3
    radius: qd.f32 = 1.0

    @qd.func
    def volume(self) -> qd.f32:
        return 4.0 / 3.0 * qd.math.pi * self.radius**3


@qd.dataclass
class Colored(Sphere):
    color: qd.u8


@dataclasses.dataclass
class Arrays:
    positions: qd.types.NDArray[qd.f32, 1]
    factor: qd.f32


def test_members_of_structs():
    spheres = Colored.field(shape=2)
    assert list(Colored.members) == ["center", "radius", "color"] and Sphere().radius == 1
    spheres[1] = Colored(center=[1.0, 2.0, 3.0], radius=2.0, color=7)

    @qd.kernel
    def total() -> qd.f32:
        found = 0.0
        for i in spheres:
            found += spheres[i].volume() * spheres[i].color
        return found

    assert abs(total() - 7 * 4 / 3 * np.pi * 8) < 1e-2


def test_members_of_arguments():
    @qd.kernel
    def scale(arrays: Arrays, offset: qd.f32 = 1.0):
        for i in arrays.positions:
            arrays.positions[i] = arrays.positions[i] * arrays.factor + offset

    values = np.arange(3, dtype=np.float32)
    scale(Arrays(values, 2.0))
    assert values.tolist() == [1, 3, 5]


def test_structs_as_results():
    @dataclasses.dataclass
    class Extremes:
        least: qd.f32
        most: qd.f32

    @qd.kernel
    def find(values: qd.types.NDArray[qd.f32, 1]) -> Extremes:
        least, most = values[0], values[0]
        for i in values:
            qd.atomic_min(least, values[i])
            qd.atomic_max(most, values[i])
        return Extremes(least, most)

    found = find(np.array([3, -1, 2], np.float32))
    assert (found.least, found.most) == (-1, 3) and isinstance(found, Extremes)


def test_objects_with_kernels():
    @qd.data_oriented
    class Counter:
        step: int = 2

        def __init__(self):
            self.count = qd.field(qd.i32, shape=())

        @qd.kernel
        def advance(self, times: qd.i32) -> qd.i32:
            self.count[None] += self.step * times
            return self.count[None]

    assert Counter().advance(3) == 6

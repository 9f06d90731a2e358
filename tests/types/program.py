"""A program as users write them, for type checkers: `./dev types` finds no mistake in it, and every type is the one that it expects."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from typing_extensions import assert_type

import quadrants as qd

qd.init(arch=qd.cpu, debug=True)
x = qd.field(qd.f32, shape=(4, 4))
velocities = qd.Vector.field(3, qd.f32, shape=4)
counts = qd.ndarray(qd.i32, shape=10)


@qd.dataclass
class Particle:
    mass: qd.f32
    is_alive: qd.u1


@dataclasses.dataclass
class State:
    values: qd.types.NDArray[qd.f32, 1]
    steps: qd.i32


@qd.func
def twice(value: Any) -> Any:
    return value * 2


@qd.kernel
def scale(values: qd.types.NDArray[qd.f32, 1], factor: qd.f32) -> qd.f32:
    for i in range(values.shape[0]):
        values[i] *= factor
    for i, j in x:
        x[i, j] = qd.sin(x[i, j]) + twice(factor)
    for i, j in qd.ndrange(3, (1, 4)):
        qd.atomic_add(x[i, j], 1.0)
    first: qd.f32 = values[0] + qd.cast(1, qd.f32)
    return first


@qd.kernel(fastcache=True)
def advance(state: State, axis: qd.Template) -> None:
    for i in range(state.steps):
        state.values[i] = velocities[i][axis] + qd.math.pi
    particle = Particle(1.0, True)  # type: ignore[call-arg]  # mypy does not see what decorates a class
    print(particle.mass)


@qd.data_oriented
class Solver:
    def __init__(self, size: int):
        self.rest = qd.field(qd.f64, shape=size)

    @qd.kernel
    def step(self, dt: qd.f64) -> qd.f64:
        total = 0.0
        for i in self.rest:
            total += self.rest[i] * dt
        return total


values = np.zeros(3, np.float32)
assert_type(scale(values, 2.0), float)
assert_type(scale(values, factor=2.0), float)
assert_type(Solver(10).step(0.1), float)
assert_type(scale.specializations(), list[dict[str, str]])
advance(State(values, 1), 0)
assert_type(qd.compile_report()[0].seconds, float)
assert_type(qd.explain_recompiles()[0].differences, tuple[tuple[str, str, str], ...])
assert_type(counts.to_numpy(copy=False), Any)
scale(values)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
scale(values, "two")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]

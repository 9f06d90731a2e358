"""Particles in a class, with structs, blocks of layout and random numbers, for type checkers."""

from __future__ import annotations

from typing import Any

import numpy as np

import quadrants as qd

qd.init(arch=qd.cpu)
vec3 = qd.types.vector(3, qd.f32)
Particle = qd.types.struct(position=vec3, velocity=vec3, mass=qd.f32)


@qd.data_oriented
class Particles:
    def __init__(self, count: int, dt: float = 1e-3) -> None:
        self.count, self.dt = count, dt
        self.particles = Particle.field(shape=count)
        self.grid = qd.field(qd.i32)
        qd.root.dense(qd.ij, (8, 8)).dense(qd.ij, 4).place(self.grid)
        self.energy = qd.tensor(qd.f64, (), backend=qd.Backend.FIELD)

    @qd.kernel
    def start(self) -> None:
        for i in range(self.count):
            self.particles[i].position = vec3(qd.random(), qd.random(), 0.0)
            self.particles[i].mass = 1.0

    @qd.func
    def force(self, index: Any) -> Any:
        return -self.particles[index].position * self.particles[index].mass

    @qd.kernel
    def step(self, gravity: qd.f32) -> qd.f32:
        fastest = 0.0
        for i in range(self.count):
            self.particles[i].velocity += self.dt * (self.force(i) - vec3(0.0, gravity, 0.0))
            qd.atomic_max(fastest, self.particles[i].velocity.norm())
        return fastest

    def positions(self) -> np.ndarray[Any, Any]:
        return np.asarray(self.particles.position)


scene = Particles(100)
scene.start()
speeds: list[float] = [scene.step(9.8) for _ in range(10)]
with qd.Program(arch=qd.cpu):
    qd.sync()

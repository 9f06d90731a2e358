"""Containers of every kind and layout, and the ways in which a kernel comes by them."""

import dataclasses

import numpy as np

import quadrants as qd

from .recording import Launches


def copies_between_arrays() -> Launches:
    @qd.kernel
    def copy(x: qd.types.ndarray(qd.f32, 1), y: qd.types.ndarray(qd.f32, 1)) -> None:
        for i in x:
            y[i] = x[i]

    yield copy, qd.ndarray(qd.f32, 100), qd.ndarray(qd.f32, 100)


def copies_between_fields_of_several_types() -> Launches:
    fields = [qd.field(dtype, 100) for dtype in (qd.f16, qd.f32, qd.f64, qd.i8, qd.i32, qd.i64, qd.u8, qd.u64)]

    @qd.kernel
    def convert() -> None:
        for i in range(100):
            for k in qd.static(range(7)):
                fields[k + 1][i] = fields[k][i]

    yield (convert,)


def strided_and_offset_fields() -> Launches:
    columns = qd.field(qd.f32, shape=(8, 16), order="ji")
    shifted = qd.field(qd.f32, shape=(8, 16), offset=(-4, 2))

    @qd.kernel
    def transpose() -> None:
        for i, j in columns:
            columns[i, j] += shifted[i - 4, j + 2]

    yield (transpose,)


def trees_with_shared_cells_and_tiles() -> Launches:
    position, mass, neighbors, tiled = qd.Vector.field(3, qd.f32), qd.field(qd.f32), qd.field(qd.i32), qd.field(qd.f64)
    particle = qd.root.dense(qd.i, 100)
    particle.place(position, mass)
    particle.dense(qd.j, 8).place(neighbors)
    qd.root.dense(qd.ij, 4).dense(qd.ij, 8).place(tiled)

    @qd.kernel
    def push() -> None:
        for i in particle:
            for k in range(8):
                position[i] += position[neighbors[i, k]] / mass[i]
        for i, j in tiled:
            tiled[i, j] = i * 32 + j

    yield (push,)


def vectors_and_matrices_in_arrays() -> Launches:
    @qd.kernel
    def turn(matrices: qd.types.ndarray(qd.types.matrix(2, 2, qd.f32), 1), points: qd.types.ndarray(qd.types.vector(2, qd.f32), 1)) -> None:
        for i in points:
            points[i] = matrices[i] @ points[i]
            matrices[i][0, 1] += points[i].x

    yield turn, qd.Matrix.ndarray(2, 2, qd.f32, 10), qd.Vector.ndarray(2, qd.f32, 10)


def soa_vectors() -> Launches:
    velocity = qd.Vector.field(3, qd.f32, 64, layout=qd.Layout.SOA)

    @qd.kernel
    def damp(factor: qd.f32) -> None:
        for i in velocity:
            velocity[i] *= factor

    yield damp, 0.5


def structs_in_fields_and_arrays() -> Launches:
    body = qd.types.struct(mass=qd.f64, at=qd.types.vector(3, qd.f32))
    field = body.field(shape=10)

    @qd.kernel
    def shift(items: qd.types.ndarray(dtype=body, ndim=1), by: qd.f32) -> None:
        for i in items:
            items[i].mass += 1.0
            items[i].at += by
            field[i] = items[i]

    yield shift, body.ndarray(10), 0.25


def numpy_arrays_of_several_ranks() -> Launches:
    @qd.kernel
    def add(planes: qd.types.ndarray(), rows: qd.types.ndarray(), total: qd.types.ndarray(qd.f64, 0)) -> None:
        for i, j, k in planes:
            total[None] += planes[i, j, k] * rows[i, j]

    yield add, np.zeros((2, 3, 4), np.float32), np.zeros((2, 3), np.int16), np.zeros((), np.float64)


def tensors_of_both_backends() -> Launches:
    @qd.kernel
    def advect(temperature: qd.Tensor, velocity: qd.Tensor, dt: qd.f32) -> None:
        for i, j in temperature:
            temperature[i, j] += dt * velocity[i, j].norm()

    for backend in (qd.Backend.NDARRAY, qd.Backend.FIELD):
        yield advect, qd.tensor(qd.f32, (3, 4), backend=backend), qd.Vector.tensor(2, qd.f32, (3, 4), backend=backend), 0.5


def views_and_slices() -> Launches:
    heat = qd.field(qd.f32, shape=(16, 16))

    @qd.kernel
    def inner(a: qd.types.ndarray(qd.f32, 2), low: qd.i32, high: qd.i32) -> qd.f32:
        total = 0.0
        for row, column in heat[1:-1, ::2]:
            heat[row, column] += a[row, column]
        for column in heat[0]:
            total += heat[0, column]
        part = a[low:high, 3]
        for i in range(part.shape[0]):
            total += part[i]
        return total

    yield inner, qd.ndarray(qd.f32, (16, 16)), 2, 5


def templates_of_fields() -> Launches:
    fields = qd.field(qd.f32, 8), qd.field(qd.i64, (4, 4))

    @qd.kernel
    def increment(x: qd.template(), by: qd.template()) -> None:
        for index in qd.grouped(x):
            x[index] += by

    yield increment, fields[0], 2.0
    yield increment, fields[1], 3


def dataclasses_of_arrays() -> Launches:
    @dataclasses.dataclass
    class Particles:
        position: qd.types.NDArray[qd.f32, 1]
        velocity: qd.types.NDArray[qd.f32, 1]
        drag: qd.f32

    @qd.kernel
    def move(particles: Particles, dt: qd.f32) -> None:
        for i in range(particles.position.shape[0]):
            particles.velocity[i] *= 1.0 - particles.drag * dt
            particles.position[i] += dt * particles.velocity[i]

    yield move, Particles(np.zeros(3, np.float32), np.ones(3, np.float32), drag=0.5), 0.1


def members_of_objects() -> Launches:
    @qd.data_oriented
    class Wave:
        def __init__(self, size: int) -> None:
            self.speed = 2.0
            self.height, self.change = qd.field(qd.f32, shape=size), qd.field(qd.f32, shape=size)

        @qd.func
        def curvature(self, i):
            return self.height[i - 1] - 2.0 * self.height[i] + self.height[i + 1]

        @qd.kernel
        def step(self, dt: qd.f32) -> None:
            for i in range(1, self.height.shape[0] - 1):
                self.change[i] += dt * self.speed * self.curvature(i)
            for i in self.height:
                self.height[i] += dt * self.change[i]

    yield Wave(64).step, 0.1


def numbers_of_objects_at_launch() -> Launches:
    @qd.data_oriented(template_primitives=False)
    class Counter:
        def __init__(self) -> None:
            self.steps, self.scale = 3, 0.5

        @qd.kernel
        def scaled(self) -> qd.f32:
            return self.steps * self.scale

    yield (Counter().scaled,)


def indices_of_other_cells() -> Launches:
    coarse, fine = qd.field(qd.i32), qd.field(qd.i32)
    block = qd.root.dense(qd.ij, (2, 3))
    block.place(coarse)
    block.dense(qd.axes(0, 1), 4).place(fine)

    @qd.kernel
    def number() -> None:
        for index in qd.grouped(fine):
            fine[index] = coarse[qd.rescale_index(fine, coarse, index)]

    yield (number,)


def sparse_trees_activate_and_visit() -> Launches:
    x, y = qd.field(qd.f32), qd.field(qd.f32)
    block = qd.root.pointer(qd.ij, 16)
    block.dense(qd.ij, 8).place(x, y)
    lists = qd.root.dense(qd.i, 8).dynamic(qd.j, 64, chunk_size=8)
    items = qd.field(qd.i32)
    lists.place(items)

    @qd.kernel
    def step() -> None:
        for i, j in x:
            x[i, j] = x[i, j] * 0.5
        for i, j in x:
            y[i, j] = x[i, j + 1]
        for i, j in block:
            if x[i * 8, j * 8] == 0.0:
                qd.deactivate(block, [i, j])
        for i in range(100):
            x[i, 3] += 1.0
            items[i % 8].append(i)

    yield (step,)

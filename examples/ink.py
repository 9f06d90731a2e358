"""A drop of ink in a stirred box: particles that split where the flow stretches them, and merge where they crowd.

The particles are in lists (`dynamic` nodes), one for each cell of a sparse grid; each step writes them into the lists of the cells to which
they have moved. The flow is the swirling deformation of LeVeque ("High-Resolution Conservative Algorithms for Advection in Incompressible
Flow", SIAM J. Numer. Anal., 1996): it draws the drop out into a thread, and after half of the time turns it back. A particle carries the
vector along which the flow has stretched it; when that is longer than a cell, two take its place.

    python examples/ink.py --out out/ink.png --steps 120
"""

import argparse
from pathlib import Path

import numpy as np
from PIL import Image
from tqdm import tqdm

import quadrants as qd

CAPACITY = 256  # particles that a cell may hold
CROWD = 24  # particles from which on those of a cell merge

Particle = qd.types.struct(at=qd.math.vec2, stretch=qd.math.vec2, mass=qd.f32)


@qd.data_oriented
class Ink:
    """Particles in the cells of a grid of `size`² cells."""

    def __init__(self, size: int = 128, period: float = 4.0):
        self.size, self.period = size, period
        self.now, self.following = self.make_lists(), self.make_lists()

    def make_lists(self):
        """Returns particles in lists, of which cells without particles take no memory."""
        particles = Particle.field()
        cells = qd.root.pointer(qd.ij, self.size // 8).dense(qd.ij, 8)
        cells.dynamic(qd.k, CAPACITY, chunk_size=16).place(particles)
        return particles

    @qd.func
    def add(self, lists: qd.template(), at, stretch, mass):
        """Appends a particle to the list of its cell."""
        cell = qd.max(0, qd.min(self.size - 1, qd.cast(at * self.size, qd.i32)))
        lists[cell.x, cell.y].append(Particle(at=at, stretch=stretch, mass=mass))

    @qd.kernel
    def drop(self, count: qd.i32, radius: qd.f32):
        """Puts a round drop of mass 1 into the box."""
        for n in range(count):
            r, angle = radius * qd.sqrt((n + 0.5) / count), n * 2.399963  # the golden angle: seeds of a sunflower
            at = qd.Vector([0.5 + r * qd.cos(angle), 0.75 + r * qd.sin(angle)])
            self.add(self.now, at, qd.Vector([radius, 0.0]) * qd.sqrt(3.14 / count), 1.0 / count)

    @qd.func
    def velocity(self, at, time):
        """Velocity of the flow, which vanishes at the walls."""
        u = qd.math.pi * at
        sines = qd.sin(u) * qd.sin(u)
        return qd.cos(qd.math.pi * time / self.period) * qd.Vector([-sines.x * qd.sin(2 * u.y), sines.y * qd.sin(2 * u.x)])

    @qd.kernel
    def move(self, now: qd.template(), following: qd.template(), time: qd.f32, dt: qd.f32):
        """Moves the particles by the flow, with its velocity in the middle of the step; those that are too long split."""
        for i, j, k in now:
            p = now[i, j, k]
            middle = p.at + 0.5 * dt * self.velocity(p.at, time)
            at = p.at + dt * self.velocity(middle, time + 0.5 * dt)
            ahead = p.at + p.stretch
            middle = ahead + 0.5 * dt * self.velocity(ahead, time)
            stretch = ahead + dt * self.velocity(middle, time + 0.5 * dt) - at
            if stretch.norm() > 1.0 / self.size:
                self.add(following, at - 0.25 * stretch, 0.5 * stretch, 0.5 * p.mass)
                self.add(following, at + 0.25 * stretch, 0.5 * stretch, 0.5 * p.mass)
            else:
                self.add(following, at, stretch, p.mass)

    @qd.kernel
    def merge(self, now: qd.template(), cells: qd.template(), following: qd.template()):
        """Copies the particles; in crowded cells, pairs become one."""
        for i, j in cells:
            count = now[i, j].length()
            pairs = qd.max(0, qd.min(count // 2, count - CROWD))
            for k in range(pairs):
                a, b = now[i, j, 2 * k], now[i, j, 2 * k + 1]
                mass = a.mass + b.mass
                self.add(following, (a.mass * a.at + b.mass * b.at) / mass, a.stretch, mass)
            for k in range(2 * pairs, count):
                p = now[i, j, k]
                self.add(following, p.at, p.stretch, p.mass)

    @qd.kernel
    def measure(self, now: qd.template()) -> qd.types.vector(2, qd.f32):
        """Number of particles, and their mass."""
        count, mass = 0.0, 0.0
        for i, j, k in now:
            count += 1.0
            mass += now[i, j, k].mass
        return [count, mass]

    @qd.kernel
    def draw(self, now: qd.template(), image: qd.types.ndarray(dtype=qd.f32, ndim=2)):
        """Adds the mass of each particle to a pixel."""
        for i, j, k in now:
            pixel = qd.cast(now[i, j, k].at * image.shape[0], qd.i32)
            image[image.shape[0] - 1 - pixel.y, pixel.x] += now[i, j, k].mass

    def step(self, time: float, dt: float) -> None:
        """Advances by `dt` seconds."""
        self.following.parent(3).deactivate_all()
        self.move(self.now, self.following, time, dt)
        self.now.parent(3).deactivate_all()
        self.merge(self.following, self.following.parent(2), self.now)


def main() -> None:
    """Runs the program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("out/ink.png"), help="image to write")
    parser.add_argument("--size", type=int, default=256, help="cells along each axis, a multiple of 8")
    parser.add_argument("--steps", type=int, default=120, help="steps of a sixtieth of a second")
    options = parser.parse_args()
    qd.init(arch=qd.cpu)
    ink = Ink(options.size)
    ink.drop(4000, 0.15)
    for step in tqdm(range(options.steps)):
        ink.step(step / 60, 1 / 60)
    image = np.zeros((2 * options.size, 2 * options.size), np.float32)
    ink.draw(ink.now, image)
    light = np.exp(-image / np.quantile(image[image > 0], 0.9))
    options.out.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.uint8(255 * (0.08 + 0.92 * light))).save(options.out)
    count, mass = ink.measure(ink.now)
    print(f"{count:.0f} particles of mass {mass:.4f}")
    print(ink.now.parent()._tree)


if __name__ == "__main__":
    main()

"""Smoke in a domain of 512³ cells, of which only those around the smoke have memory.

The grid has three levels: blocks of blocks of 8³ cells. The velocity is given: a rising vortex ring, whose stream function has the form of
Hill's spherical vortex (Hill, "On a Spherical Vortex", 1894). Each step activates the blocks around smoke, moves it by tracing the flow
backwards (Stam, "Stable Fluids", SIGGRAPH 1999), and deactivates the blocks that it has left.

    python examples/smoke.py --out out/smoke.png --steps 60
"""

import argparse
from pathlib import Path

import numpy as np
from PIL import Image
from tqdm import tqdm

import quadrants as qd

THRESHOLD = 1e-3


@qd.data_oriented
class Smoke:
    """Density on a sparse grid of `size`³ cells, and how it moves."""

    def __init__(self, size: int = 512):
        self.size, self.block = size, 8
        self.density, self.moved = qd.field(qd.f32), qd.field(qd.f32)
        self.coarse = qd.root.pointer(qd.ijk, size // 64)
        self.blocks = self.coarse.pointer(qd.ijk, 8)
        self.blocks.dense(qd.ijk, 8).place(self.density, self.moved)
        self.largest = qd.field(qd.f32)  # density in each block
        self.blocks.place(self.largest)

    @qd.func
    def velocity(self, at, time):
        """Cells per second at a place: up inside of a rising ball and back around it."""
        center = self.size * qd.Vector([0.5, 0.3 + 0.1 * time, 0.5])
        r = (at - center) / (0.12 * self.size)
        distance2 = r.dot(r)
        around = qd.exp(-distance2)
        swirl = qd.Vector([-r.x * r.y, r.x * r.x + r.z * r.z - 1.0, -r.z * r.y])
        return 0.1 * self.size * (qd.Vector([0.0, 1.0, 0.0]) * around - swirl * around)

    @qd.kernel
    def emit(self, radius: qd.f32):
        """Puts a ball of smoke near the ground."""
        center = self.size * qd.Vector([0.5, 0.25, 0.5])
        low, high = qd.cast(center - radius, qd.i32), qd.cast(center + radius + 1.0, qd.i32)
        for i, j, k in qd.ndrange((low[0], high[0]), (low[1], high[1]), (low[2], high[2])):
            distance = (qd.Vector([i, j, k]) + 0.5 - center).norm()
            if distance < radius:
                self.density[i, j, k] = 1.0

    @qd.kernel
    def grow(self):
        """Activates the neighbors of blocks with smoke."""
        count = self.size // self.block
        for i, j, k in self.blocks:
            if self.largest[i, j, k] > THRESHOLD:
                for a, b, c in qd.static(qd.ndrange((-1, 2), (-1, 2), (-1, 2))):
                    at = qd.Vector([i + a, j + b, k + c])
                    if at.min() >= 0 and at.max() < count:
                        qd.activate(self.blocks, at)

    @qd.func
    def sample(self, at):
        """Density between the centers of cells, by trilinear interpolation."""
        place = qd.max(0.0, qd.min(self.size - 1.001, at - 0.5))
        low = qd.cast(place, qd.i32)
        part = place - low
        total = 0.0
        for a, b, c in qd.static(qd.ndrange(2, 2, 2)):
            weight = (part.x if a else 1 - part.x) * (part.y if b else 1 - part.y) * (part.z if c else 1 - part.z)
            total += (
                weight * self.density[qd.min(low.x + a, self.size - 1), qd.min(low.y + b, self.size - 1), qd.min(low.z + c, self.size - 1)]
            )
        return total

    @qd.kernel
    def move(self, time: qd.f32, dt: qd.f32):
        """Traces the flow back from each active cell."""
        for i, j, k in self.density:
            at = qd.Vector([i, j, k]) + 0.5
            middle = at - 0.5 * dt * self.velocity(at, time)
            self.moved[i, j, k] = self.sample(at - dt * self.velocity(middle, time))
        for i, j, k in self.density:
            self.density[i, j, k] = self.moved[i, j, k]

    @qd.kernel
    def measure(self):
        """Finds the largest density in each block."""
        for i, j, k in self.blocks:
            largest = 0.0
            for a, b, c in qd.ndrange(8, 8, 8):
                largest = qd.max(largest, self.density[i * 8 + a, j * 8 + b, k * 8 + c])
            self.largest[i, j, k] = largest

    @qd.kernel
    def prune(self):
        """Deactivates the blocks without smoke."""
        for i, j, k in self.blocks:
            if self.largest[i, j, k] <= THRESHOLD:
                qd.deactivate(self.blocks, [i, j, k])

    @qd.kernel
    def project(self, image: qd.types.ndarray(dtype=qd.f32, ndim=2)):
        """Adds up the density along the lines of sight."""
        for i, j, k in self.density:
            image[self.size - 1 - j, i] += self.density[i, j, k]

    @qd.kernel
    def total(self) -> qd.f32:
        """Sum of the density."""
        mass = 0.0
        for i, j, k in self.density:
            mass += self.density[i, j, k]
        return mass

    def step(self, time: float, dt: float) -> None:
        """Advances by `dt` seconds."""
        self.measure()
        self.grow()
        self.move(time, dt)
        self.measure()
        self.prune()


def main() -> None:
    """Runs the program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("out/smoke.png"), help="image to write")
    parser.add_argument("--size", type=int, default=512, help="cells along each axis, a multiple of 64")
    parser.add_argument("--steps", type=int, default=60, help="steps of a thirtieth of a second")
    options = parser.parse_args()
    qd.init(arch=qd.cpu)
    smoke = Smoke(options.size)
    smoke.emit(0.06 * options.size)
    for step in tqdm(range(options.steps)):
        smoke.step(step / 30, 1 / 30)
    image = np.zeros((options.size, options.size), np.float32)
    smoke.project(image)
    light = np.exp(-image / (0.05 * options.size))
    options.out.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.uint8(255 * (0.08 + 0.92 * (1 - light)))).save(options.out)
    print(smoke.blocks._tree)


if __name__ == "__main__":
    main()

"""Decaying vortices by the lattice Boltzmann method (D2Q9, one relaxation time), divided among the processes of a program.

The method and its viscosity are those of T. Krüger et al., "The Lattice Boltzmann Method", Springer 2017, chapters 3 and 4. The vortices of
Taylor and Green decay at a known rate. The result has the same bits for any number of processes.

    torchrun --nproc-per-node 2 examples/lattice_boltzmann.py
"""

import argparse
import math
from typing import Any

import numpy as np

import quadrants as qd

VELOCITIES = ((0, 0), (1, 0), (0, 1), (-1, 0), (0, -1), (1, 1), (-1, 1), (-1, -1), (1, -1))
WEIGHTS = (4 / 9,) + (1 / 9,) * 4 + (1 / 36,) * 4
SPEED = 0.05  # the highest at the start, in cells per step

Populations = qd.types.NDArray[qd.types.vector(9, qd.f32), 2]
Index = qd.types.vector(2, qd.i32)


@qd.func
def get_equilibrium(density: qd.f32, flow):
    result = qd.Vector.zero(qd.f32, 9)
    for q in qd.static(range(9)):
        along = VELOCITIES[q][0] * flow[0] + VELOCITIES[q][1] * flow[1]
        result[q] = WEIGHTS[q] * density * (1.0 + 3.0 * along + 4.5 * along * along - 1.5 * flow.norm_sqr())
    return result


@qd.kernel
def stir(populations: Populations, offset: Index, cells: qd.i32):
    """Begins with vortices; the element 0 of a part is the cell `offset` of the whole."""
    for i, j in populations:
        x, y = 2.0 * math.pi * (i + offset[0]) / cells, 2.0 * math.pi * (j + offset[1]) / cells
        flow = SPEED * qd.Vector([-qd.cos(x) * qd.sin(y), qd.sin(x) * qd.cos(y)])
        density = 1.0 - 0.75 * SPEED * SPEED * (qd.cos(2.0 * x) + qd.cos(2.0 * y))
        populations[i, j] = get_equilibrium(density, flow)


@qd.kernel
def stream_and_collide(old: Populations, new: Populations, first: Index, end: Index, rate: qd.f32):
    """One step for the cells of a box: takes the populations that arrive, and relaxes them toward equilibrium."""
    for i, j in qd.ndrange((first[0], end[0]), (first[1], end[1])):
        arrived = qd.Vector.zero(qd.f32, 9)
        flow = qd.Vector([0.0, 0.0])
        for q in qd.static(range(9)):
            arrived[q] = old[i - VELOCITIES[q][0], j - VELOCITIES[q][1]][q]
            flow += arrived[q] * qd.Vector([VELOCITIES[q][0], VELOCITIES[q][1]])
        density = arrived.sum()
        new[i, j] = arrived + rate * (get_equilibrium(density, flow / density) - arrived)


class Fluid:
    """The part of one process of a periodic box."""

    def __init__(self, cells: int, viscosity: float, parts: tuple[int, int] | None = None):
        self.part = qd.distributed.Decomposition((cells, cells), periodic=True, parts=parts)
        self.rate = 1.0 / (3.0 * viscosity + 0.5)
        element = qd.types.vector(9, qd.f32)
        self.old, self.new = self.part.tensor(element), self.part.tensor(element)
        self.halos = {id(x): qd.distributed.Halo(x, decomposition=self.part) for x in (self.old, self.new)}
        stir(self.old, self.part.offset, cells)
        self.halos[id(self.old)].exchange()

    def step(self) -> None:
        """Updates the cells next to other parts first, and the others while the border is on its way."""
        for box in self.part.rim:
            stream_and_collide(self.old, self.new, *zip(*box, strict=True), self.rate)
        halo = self.halos[id(self.new)]
        halo.start()
        stream_and_collide(self.old, self.new, *zip(*self.part.interior, strict=True), self.rate)
        halo.finish()
        self.old, self.new = self.new, self.old

    def compute_flow(self) -> np.ndarray | None:
        """Returns the velocities of all cells on rank 0, None on the others."""
        populations = self.part.gather(self.old)
        return None if populations is None else populations @ np.float32(VELOCITIES) / populations.sum(-1, keepdims=True)


def run(cells: int, steps: int, viscosity: float = 0.05, parts: Any = None) -> np.ndarray | None:
    """Returns the velocities after some steps on rank 0, None on the others."""
    fluid = Fluid(cells, viscosity, parts)
    for _ in range(steps):
        fluid.step()
    return fluid.compute_flow()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", type=int, default=128, help="cells along each side of the box")
    parser.add_argument("--steps", type=int, default=200)
    given = parser.parse_args()
    world = qd.distributed.init(arch=qd.gpu, log_level="error")
    flow = run(given.cells, given.steps)
    if flow is not None:
        expected = SPEED * math.exp(-2.0 * 0.05 * (2.0 * math.pi / given.cells) ** 2 * given.steps)
        print(f"{world.size} processes: highest speed {np.abs(flow).max():.6f}, {expected:.6f} by theory")


if __name__ == "__main__":
    main()

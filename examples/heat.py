"""The heat equation in a box of cells, divided among the processes of a program. The result has the same bits for any number of them.

python examples/heat.py
torchrun --nproc-per-node 2 examples/heat.py --cells 96
mpirun -n 2 python examples/heat.py --cells 96
"""

import argparse
from typing import Any

import numpy as np

import quadrants as qd

RATE = 0.15
Grid = qd.types.NDArray[qd.f32, 3]
Index = qd.types.vector(3, qd.i32)


@qd.kernel
def heat_balls(temperature: Grid, first: Index, end: Index, offset: Index, cells: qd.i32):
    """Heats the cells of a box that lie in two balls. The element 0 of a part is the cell `offset` of the whole."""
    for index in qd.grouped(qd.ndrange((first[0], end[0]), (first[1], end[1]), (first[2], end[2]))):
        place = (index + offset + 0.5) / cells
        if (place - qd.Vector([0.3, 0.4, 0.5])).norm() < 0.15:
            temperature[index] = 100.0
        if (place - qd.Vector([0.7, 0.6, 0.45])).norm() < 0.2:
            temperature[index] = 60.0


@qd.kernel
def diffuse(old: Grid, new: Grid, first: Index, end: Index, rate: qd.f32):
    """One step for the cells of a box."""
    for i, j, k in qd.ndrange((first[0], end[0]), (first[1], end[1]), (first[2], end[2])):
        around = old[i - 1, j, k] + old[i + 1, j, k] + old[i, j - 1, k] + old[i, j + 1, k] + old[i, j, k - 1] + old[i, j, k + 1]
        new[i, j, k] = old[i, j, k] + rate * (around - 6.0 * old[i, j, k])


class Heat:
    """The part of one process. The walls of the box are cold."""

    def __init__(self, shape: tuple[int, int, int], parts: tuple[int, int, int] | None = None):
        self.part = qd.distributed.Decomposition(shape, parts=parts)
        self.old, self.new = self.part.tensor(qd.f32), self.part.tensor(qd.f32)
        self.halos = {id(x): qd.distributed.Halo(x, decomposition=self.part, corners=False) for x in (self.old, self.new)}
        heat_balls(self.old, *zip(*self.part.own, strict=True), self.part.offset, max(shape))
        self.halos[id(self.old)].exchange()

    def step(self) -> None:
        """Updates the cells next to other parts first, and the others while the border is on its way."""
        for box in self.part.rim:
            diffuse(self.old, self.new, *zip(*box, strict=True), RATE)
        halo = self.halos[id(self.new)]
        halo.start()
        diffuse(self.old, self.new, *zip(*self.part.interior, strict=True), RATE)
        halo.finish()
        self.old, self.new = self.new, self.old


def run(shape: tuple[int, int, int], steps: int, parts: Any = None) -> np.ndarray | None:
    """Returns the temperature of the whole box on rank 0, None on the others."""
    heat = Heat(shape, parts)
    for _ in range(steps):
        heat.step()
    return heat.part.gather(heat.old)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", type=int, default=64, help="cells along each axis of the box")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--out", help="file for the temperature, in NumPy's format")
    given = parser.parse_args()
    world = qd.distributed.init(arch=qd.gpu, log_level="error")
    temperature = run((given.cells,) * 3, given.steps)
    if temperature is not None:
        print(f"{world.size} processes: {temperature.max():.3f} at most, {temperature.mean():.6f} on average")
        if given.out:
            np.save(given.out, temperature)


if __name__ == "__main__":
    main()

"""A drop of fluid made of material points, in a box that is divided among the processes of a program: particles move between them.

The method is MLS-MPM (Y. Hu et al., "A Moving Least Squares Material Point Method with Displacement Discontinuity and Two-Way Rigid Body
Coupling", SIGGRAPH 2018). A part stores two more rows of nodes on each side. Particles add to them, `Halo.add` adds them to the
neighbor's nodes, and `Halo.exchange` brings the sums back.

    torchrun --nproc-per-node 2 examples/migrating_particles.py
"""

import argparse

import numpy as np

import quadrants as qd

STIFFNESS, GRAVITY, WALL = 400.0, 9.8, 3
# A particle is one vector, so that it is sent as it is: position, velocity, affine velocity (four numbers), volume ratio.
Particle = qd.types.vector(9, qd.f32)
Particles = qd.types.NDArray[Particle, 1]
Node = qd.types.vector(3, qd.f32)  # momentum and mass
Nodes = qd.types.NDArray[Node, 2]


@qd.func
def get_weights(place):
    """The corner of the 3 x 3 nodes around a place, the distance from it, and the weights along both axes."""
    base = qd.floor(place - 0.5, qd.i32)
    distance = place - base
    return base, distance, [0.5 * (1.5 - distance) ** 2, 0.75 - (distance - 1.0) ** 2, 0.5 * (distance - 0.5) ** 2]


@qd.kernel
def add_to_nodes(particles: Particles, nodes: Nodes, count: qd.i32, offset: qd.i32, dt: qd.f32, cells: qd.i32):
    for p in range(count):
        particle = particles[p]
        place = qd.Vector([particle[0], particle[1]]) * cells
        velocity, affine = qd.Vector([particle[2], particle[3]]), qd.Matrix([[particle[4], particle[5]], [particle[6], particle[7]]])
        base, distance, weights = get_weights(place)
        mass = 1.0 / (2.0 * cells) ** 2
        pressure = -dt * 4.0 * cells * cells * mass * STIFFNESS * (particle[8] - 1.0) * particle[8]
        for i, j in qd.static(qd.ndrange(3, 3)):
            apart = (qd.Vector([i, j]) - distance) / cells
            weight = weights[i][0] * weights[j][1]
            momentum = weight * (mass * velocity + mass * (affine @ apart) + pressure * apart)
            nodes[base[0] + i - offset, base[1] + j] += qd.Vector([momentum[0], momentum[1], weight * mass])


@qd.kernel
def move_nodes(nodes: Nodes, offset: qd.i32, dt: qd.f32, cells: qd.i32):
    """Momentum becomes velocity; walls stop it."""
    for i, j in nodes:
        node = nodes[i, j]
        if node[2] > 0:
            velocity = qd.Vector([node[0], node[1]]) / node[2]
            velocity[1] -= dt * GRAVITY
            row = i + offset
            if (row < WALL and velocity[0] < 0) or (row > cells - WALL and velocity[0] > 0):
                velocity[0] = 0.0
            if (j < WALL and velocity[1] < 0) or (j > cells - WALL and velocity[1] > 0):
                velocity[1] = 0.0
            nodes[i, j] = qd.Vector([velocity[0], velocity[1], node[2]])


@qd.kernel
def take_from_nodes(particles: Particles, nodes: Nodes, count: qd.i32, offset: qd.i32, dt: qd.f32, cells: qd.i32):
    for p in range(count):
        place = qd.Vector([particles[p][0], particles[p][1]])
        base, distance, weights = get_weights(place * cells)
        velocity, affine = qd.Vector([0.0, 0.0]), qd.Matrix([[0.0, 0.0], [0.0, 0.0]])
        for i, j in qd.static(qd.ndrange(3, 3)):
            node = nodes[base[0] + i - offset, base[1] + j]
            share = weights[i][0] * weights[j][1] * qd.Vector([node[0], node[1]])
            velocity += share
            affine += 4.0 * cells * share.outer_product(qd.Vector([i, j]) - distance)
        place += dt * velocity
        volume = particles[p][8] * (1.0 + dt * affine.trace())
        particles[p] = qd.Vector(
            [place[0], place[1], velocity[0], velocity[1], affine[0, 0], affine[0, 1], affine[1, 0], affine[1, 1], volume]
        )


@qd.kernel
def sort_by_part(
    particles: Particles, stay: Particles, below: Particles, above: Particles, counts: qd.types.NDArray[qd.i32, 1],
    count: qd.i32, first: qd.i32, end: qd.i32, cells: qd.i32
):  # fmt: skip
    """Particles of the rows `first` to `end` stay; the others go to the part below or above."""
    for k in range(3):
        counts[k] = 0
    for p in range(count):
        row = qd.floor(particles[p][0] * cells, qd.i32)
        if row < first:
            below[qd.atomic_add(counts[0], 1)] = particles[p]
        elif row >= end:
            above[qd.atomic_add(counts[2], 1)] = particles[p]
        else:
            stay[qd.atomic_add(counts[1], 1)] = particles[p]


class Drop:
    """The part of one process: rows of nodes, and the particles among them."""

    def __init__(self, cells: int, capacity: int, dt: float):
        self.cells, self.dt, self.count = cells, dt, 0
        self.part = qd.distributed.Decomposition((cells, cells), width=2, axes=[0])
        self.nodes = self.part.tensor(Node)
        self.halo = qd.distributed.Halo(self.nodes, decomposition=self.part)
        self.particles, self.stay, self.below, self.above = (qd.ndarray(Particle, capacity) for _ in range(4))
        self.counts = qd.ndarray(qd.i32, 3)
        self.world = qd.distributed.get_world()

    def take(self, particles: np.ndarray) -> None:
        """Adds those of these particles that lie in the rows of this part."""
        rows = np.floor(particles[:, 0] * np.float32(self.cells)).astype(int)
        first = self.part.start[0]
        self._append(particles[(rows >= first) & (rows < first + self.part.extent[0])])

    def _append(self, particles: np.ndarray) -> None:
        if self.count + len(particles) > self.particles.shape[0]:
            raise RuntimeError(f"room for {self.particles.shape[0]} particles, and there are {self.count + len(particles)}")
        if len(particles):
            self.particles[self.count : self.count + len(particles)].from_numpy(particles)
            self.count += len(particles)

    def step(self) -> None:
        offset = self.part.offset[0]
        self.nodes.fill(0)
        add_to_nodes(self.particles, self.nodes, self.count, offset, self.dt, self.cells)
        self.halo.add()
        self.halo.exchange()
        move_nodes(self.nodes, offset, self.dt, self.cells)
        take_from_nodes(self.particles, self.nodes, self.count, offset, self.dt, self.cells)
        self.migrate()

    def migrate(self) -> None:
        """Sends the particles that left to the neighbors. In a step a particle moves by less than a row."""
        first = self.part.start[0]
        sorted_out = (self.particles, self.stay, self.below, self.above, self.counts)
        sort_by_part(*sorted_out, self.count, first, first + self.part.extent[0], self.cells)
        counts = self.counts.to_numpy()
        self.particles, self.stay, self.count = self.stay, self.particles, int(counts[1])
        parts: list[np.ndarray | None] = [None] * self.world.size
        for side, leaving, number in ((-1, self.below, counts[0]), (1, self.above, counts[2])):
            if number:
                parts[self.part.find_neighbor(0, side)] = leaving[0:number].to_numpy()  # type: ignore[call-overload]
        for arrived in self.world.all_to_all(parts):
            self._append(arrived)

    def measure(self) -> tuple[int, float]:
        """Returns the number of particles of all parts, and their kinetic and potential energy."""
        own = self.particles.to_numpy()[: self.count].astype(np.float64)
        energy = 0.5 * (own[:, 2:4] ** 2).sum() + GRAVITY * own[:, 1].sum()
        return int(self.world.all_reduce(self.count)), float(self.world.all_reduce(energy)) / (2.0 * self.cells) ** 2


def make_drop(cells: int) -> np.ndarray:
    """Returns four particles in each cell of a square that moves sideways."""
    line = (np.arange(2 * int(0.3 * cells)) + 0.5) / (2 * cells)
    particles = np.zeros((len(line) ** 2, 9), np.float32)
    particles[:, :2] = np.stack(np.meshgrid(line + 0.25, line + 0.4, indexing="ij"), -1).reshape(-1, 2)
    particles[:, 2] = 2.0
    particles[:, 8] = 1.0
    return particles


def run(cells: int, steps: int) -> dict[str, float]:
    """Returns number and energy of the particles at the beginning and at the end, and how many changed their part."""
    everything = make_drop(cells)
    drop = Drop(cells, len(everything), 0.1 / (cells * 20.0))
    drop.take(everything)
    count, energy = drop.measure()
    before = drop.count
    for _ in range(steps):
        drop.step()
    moved = int(drop.world.all_reduce(abs(drop.count - before)))
    end_count, end_energy = drop.measure()
    return {"count": count, "energy": energy, "end_count": end_count, "end_energy": end_energy, "moved": moved}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", type=int, default=64)
    parser.add_argument("--steps", type=int, default=400)
    given = parser.parse_args()
    world = qd.distributed.init(arch=qd.gpu, log_level="error")
    result = run(given.cells, given.steps)
    if world.rank == 0:
        print(f"{world.size} processes: {result}")


if __name__ == "__main__":
    main()

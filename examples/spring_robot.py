"""A robot of masses and springs learns to walk: its muscles are springs with oscillating rest lengths, which gradients optimize.

The body is a row of boxes on the ground. Each spring's rest length oscillates as a weighted sum of sines; the weights are learned.
The loss is minus the distance that the body moves. Gradients through the simulation replace trial and error, as in Y. Hu et al.,
"DiffTaichi: Differentiable programming for physical simulation", ICLR 2020 (mass-spring simulator).

    python examples/spring_robot.py --out out/spring_robot.png
"""

import argparse
import math
from pathlib import Path

import numpy as np
from loss_plot import save_loss_plot

import quadrants as qd

BOXES, SIZE = 3, 0.1
GRAVITY, STIFFNESS, DAMPING, STRENGTH = -4.8, 600.0, 6.0, 0.25
WAVES, FREQUENCY = 6, 12.0


def build_body() -> tuple[np.ndarray, np.ndarray]:
    """Positions of the masses, and the pairs that springs join: sides and diagonals of the boxes."""
    masses = np.array([[0.1 + SIZE * column, 0.02 + SIZE * row] for column in range(BOXES + 1) for row in range(2)])
    distance = np.abs(masses[:, None] - masses[None])
    near = (distance <= 1.01 * SIZE).all(-1)
    pairs = np.argwhere(np.triu(near, 1))
    return masses, pairs.astype(np.int32)


class SpringRobot:
    """The body over `steps` steps of `dt` seconds."""

    def __init__(self, steps: int = 400, dt: float = 0.004):
        self.masses, self.pairs = build_body()
        self.steps, self.dt = steps, dt
        shape = (steps + 1, len(self.masses))
        self.position = qd.Vector.field(2, qd.f64, shape=shape, needs_grad=True)
        self.velocity = qd.Vector.field(2, qd.f64, shape=shape, needs_grad=True)
        self.force = qd.Vector.field(2, qd.f64, shape=shape, needs_grad=True)
        self.weight = qd.field(qd.f64, shape=(len(self.pairs), WAVES), needs_grad=True)
        self.ends = qd.Vector.field(2, qd.i32, shape=len(self.pairs))
        self.rest = qd.field(qd.f64, shape=len(self.pairs))
        self.loss = qd.field(qd.f64, shape=(), needs_grad=True)
        self.ends.from_numpy(self.pairs)
        self.rest.from_numpy(np.linalg.norm(self.masses[self.pairs[:, 0]] - self.masses[self.pairs[:, 1]], axis=1))
        self.pull, self.move, self.measure = self._make_kernels()

    def _make_kernels(self):
        position, velocity, force, weight = self.position, self.velocity, self.force, self.weight
        ends, rest, loss, dt, steps, count = self.ends, self.rest, self.loss, self.dt, self.steps, len(self.masses)

        @qd.kernel
        def pull(t: int):
            for s in rest:
                signal = 0.0
                for k in range(WAVES):
                    signal += weight[s, k] * qd.sin(FREQUENCY * t * dt + 2.0 * math.pi / WAVES * k)
                a, b = ends[s][0], ends[s][1]
                along = position[t, b] - position[t, a]
                length = along.norm()
                direction = along / length
                approach = (velocity[t, b] - velocity[t, a]).dot(direction)
                pulls = (STIFFNESS * (length - rest[s] * (1.0 + STRENGTH * qd.tanh(signal))) + DAMPING * approach) * direction
                force[t, a] += pulls
                force[t, b] -= pulls

        @qd.kernel
        def move(t: int):
            for i in range(count):
                new = velocity[t, i] + dt * (force[t, i] + qd.Vector([0.0, GRAVITY]))
                if position[t, i].y + dt * new.y < 0.0:
                    new = qd.Vector([0.0, 0.0], qd.f64)  # masses that touch the ground stick to it
                velocity[t + 1, i] = new
                position[t + 1, i] = position[t, i] + dt * new

        @qd.kernel
        def measure():
            for i in range(count):
                loss[None] -= (position[steps, i].x - position[0, i].x) / count

        return pull, move, measure

    def evaluate(self) -> tuple[float, np.ndarray]:
        """The loss, minus the distance that the body moved, and its gradient with respect to the weights."""
        start = np.zeros(self.position.shape + (2,))
        start[0] = self.masses
        self.position.from_numpy(start)
        self.velocity.fill(0.0)
        self.force.fill(0.0)
        with qd.ad.Tape(self.loss):
            for t in range(self.steps):
                self.pull(t)
                self.move(t)
            self.measure()
        return self.loss[None], self.weight.grad.to_numpy()

    def learn(self, iterations: int, rate: float = 0.2) -> list[float]:
        """Descends along the normalized gradient; returns the loss of each iteration."""
        weights = 0.05 * np.random.default_rng(0).standard_normal(self.weight.shape)
        losses = []
        for _ in range(iterations):
            self.weight.from_numpy(weights)
            loss, gradient = self.evaluate()
            losses.append(loss)
            weights = weights - rate * gradient / (np.linalg.norm(gradient) + 1e-12)
        return losses


def main() -> None:
    """Trains the robot and draws the loss."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out/spring_robot.png"))
    parser.add_argument("--iterations", type=int, default=60)
    arguments = parser.parse_args()
    qd.init(arch=qd.cpu, default_fp=qd.f64)
    losses = SpringRobot().learn(arguments.iterations)
    save_loss_plot(losses, arguments.out, "minus the way of the robot")
    print(f"the robot walks {-min(losses):.3f} m instead of {-losses[0]:.3f} m; {arguments.out}")


if __name__ == "__main__":
    main()

"""Estimates the velocities and masses of bodies from observed positions: fits a simulation with gradients.

A star and planets attract each other (softened Newtonian gravity, symplectic Euler steps). The positions at some times are known. The
loss is the mean square distance to them; a tape over all steps computes its gradient, and Adam (D. P. Kingma and J. Ba,
"Adam: a method for stochastic optimization", ICLR 2015) minimizes it. Units: astronomical units, years, solar masses.

    python examples/orbit_fit.py --out out/orbit_fit.png
"""

import argparse
import math
from pathlib import Path

import numpy as np
from loss_plot import save_loss_plot

import quadrants as qd

GRAVITY = 4 * math.pi**2  # the gravitational constant in these units
SOFTENING = 1e-3
ORBITS = ((0.0, 0.0, 1.0), (1.0, 0.3, 1e-3), (1.8, 2.1, 3e-3), (2.9, 4.4, 1e-3))  # distance, angle, mass


class OrbitFit:
    """The simulation over `steps` steps of `dt` years, and its misfit to observations at every `every`-th step."""

    def __init__(self, steps: int = 200, dt: float = 0.005, every: int = 20):
        self.bodies, self.steps, self.dt, self.every = len(ORBITS), steps, dt, every
        shape = (steps + 1, self.bodies)
        self.position = qd.Vector.field(2, qd.f64, shape=shape, needs_grad=True)
        self.velocity = qd.Vector.field(2, qd.f64, shape=shape, needs_grad=True)
        self.mass = qd.field(qd.f64, shape=self.bodies, needs_grad=True)
        self.seen = qd.Vector.field(2, qd.f64, shape=shape)
        self.misfit = qd.field(qd.f64, shape=(), needs_grad=True)
        self.advance, self.compare = self._make_kernels()
        self._observe()

    def _make_kernels(self):
        position, velocity, mass, seen, misfit = self.position, self.velocity, self.mass, self.seen, self.misfit
        bodies, dt, every, count = self.bodies, self.dt, self.every, self.steps // self.every * self.bodies

        @qd.kernel
        def advance(t: int):
            for i in range(bodies):
                pull = qd.Vector([0.0, 0.0], qd.f64)
                for j in range(bodies):
                    if i != j:
                        away = position[t, j] - position[t, i]
                        pull += GRAVITY * mass[j] * away / (away.norm_sqr() + SOFTENING**2) ** 1.5
                velocity[t + 1, i] = velocity[t, i] + dt * pull
                position[t + 1, i] = position[t, i] + dt * (velocity[t, i] + dt * pull)

        @qd.kernel
        def compare():
            for k, i in qd.ndrange(count // bodies, bodies):
                t = (k + 1) * every
                misfit[None] += (position[t, i] - seen[t, i]).norm_sqr() / count

        return advance, compare

    def _observe(self) -> None:
        """Simulates the true system, and stores the positions of its bodies as observations."""
        angle = np.array([orbit[1] for orbit in ORBITS])
        distance = np.array([orbit[0] for orbit in ORBITS])
        speed = np.sqrt(GRAVITY / np.where(distance > 0, distance, np.inf))
        direction = np.stack([np.cos(angle), np.sin(angle)], 1)
        self.true_velocity = speed[:, None] * np.stack([-direction[:, 1], direction[:, 0]], 1)
        self.true_mass = np.array([orbit[2] for orbit in ORBITS])
        self.start = distance[:, None] * direction
        self.load(self.true_velocity, self.true_mass)
        self.run()
        self.seen.copy_from(self.position)

    def load(self, velocity: np.ndarray, mass: np.ndarray) -> None:
        """Sets the initial state and the masses of the bodies."""
        for container, first in ((self.position, self.start), (self.velocity, velocity)):
            whole = np.zeros((self.steps + 1, self.bodies, 2))
            whole[0] = first
            container.from_numpy(whole)
        self.mass.from_numpy(mass)

    def run(self) -> None:
        """Simulates all steps."""
        for t in range(self.steps):
            self.advance(t)

    def evaluate(self) -> tuple[float, np.ndarray, np.ndarray]:
        """The misfit, and its gradients with respect to the initial velocities and the masses."""
        with qd.ad.Tape(self.misfit):
            self.run()
            self.compare()
        return self.misfit[None], self.velocity.grad.to_numpy()[0], self.mass.grad.to_numpy()

    def fit(self, iterations: int, rate: float = 0.03) -> list[float]:
        """Minimizes from wrong velocities and equal planet masses; returns the misfit of each iteration. The star's mass is known."""
        guess = [self.true_velocity * (1 + 0.05 * np.cos(np.arange(self.bodies)))[:, None], np.full(self.bodies, 2e-3)]
        guess[1][0] = self.true_mass[0]
        scales = [np.full_like(guess[0], rate), np.full_like(guess[1], rate * 1e-2)]
        scales[1][0] = 0.0
        mean, square = [np.zeros_like(part) for part in guess], [np.zeros_like(part) for part in guess]
        losses = []
        for k in range(1, iterations + 1):
            self.load(*guess)
            loss, *gradients = self.evaluate()
            losses.append(loss)
            slow = 0.5 * (1 + math.cos(math.pi * k / iterations))  # smaller steps toward the end
            for part, gradient in enumerate(gradients):
                mean[part] = 0.9 * mean[part] + 0.1 * gradient
                square[part] = 0.99 * square[part] + 0.01 * gradient**2
                step = mean[part] / (1 - 0.9**k) / (np.sqrt(square[part] / (1 - 0.99**k)) + 1e-12)
                guess[part] = guess[part] - slow * scales[part] * step
        self.found_velocity, self.found_mass = guess
        return losses


def main() -> None:
    """Runs the fit and draws the misfit."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out/orbit_fit.png"))
    parser.add_argument("--iterations", type=int, default=300)
    arguments = parser.parse_args()
    qd.init(arch=qd.cpu, default_fp=qd.f64)
    problem = OrbitFit()
    losses = problem.fit(arguments.iterations)
    save_loss_plot(losses, arguments.out, "misfit of the orbits")
    print(f"misfit {losses[0]:.2e} -> {losses[-1]:.2e} au^2; {arguments.out}")
    print("masses", problem.found_mass.round(5), "true", problem.true_mass)


if __name__ == "__main__":
    main()

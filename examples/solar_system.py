"""The Sun, eight planets and a belt of asteroids, over centuries.

The planets start from state vectors at the epoch J2000.0, made from the Keplerian elements that E. M. Standish and J. G. Williams publish
("Keplerian Elements for Approximate Positions of the Major Planets", JPL Solar System Dynamics, table 1). Time steps use the fourth-order
symplectic integrator of H. Yoshida, "Construction of higher order symplectic integrators", Physics Letters A 150, 1990. Units: astronomical
units, days, solar masses.

    python examples/solar_system.py --out out/solar_system.gif
"""

import argparse
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw
from tqdm import tqdm

import quadrants as qd

GAUSS = 0.01720209895  # the Gaussian gravitational constant: its square is G in these units
YEAR = 365.25


@dataclass(frozen=True)
class Planet:
    """Elements at J2000.0: semi-major axis (au), eccentricity, inclination, mean longitude, longitude of perihelion, longitude of the
    ascending node (degrees), and the Sun's mass over the planet's."""

    name: str
    axis: float
    eccentricity: float
    inclination: float
    longitude: float
    perihelion: float
    node: float
    inverse_mass: float


PLANETS = (
    Planet("Mercury", 0.38709927, 0.20563593, 7.00497902, 252.25032350, 77.45779628, 48.33076593, 6023600.0),
    Planet("Venus", 0.72333566, 0.00677672, 3.39467605, 181.97909950, 131.60246718, 76.67984255, 408523.71),
    Planet("Earth", 1.00000261, 0.01671123, -0.00001531, 100.46457166, 102.93768193, 0.0, 328900.56),
    Planet("Mars", 1.52371034, 0.09339410, 1.84969142, -4.55343205, -23.94362959, 49.55953891, 3098708.0),
    Planet("Jupiter", 5.20288700, 0.04838624, 1.30439695, 34.39644051, 14.72847983, 100.47390909, 1047.3486),
    Planet("Saturn", 9.53667594, 0.05386179, 2.48599187, 49.95424423, 92.59887831, 113.66242448, 3497.898),
    Planet("Uranus", 19.18916464, 0.04725744, 0.77263783, 313.23810451, 170.95427630, 74.01692503, 22902.98),
    Planet("Neptune", 30.06992276, 0.00859048, 1.77004347, -55.12002969, 44.96476227, 131.78422574, 19412.24),
)


def get_state(planet: Planet) -> tuple[np.ndarray, np.ndarray]:
    """Heliocentric position (au) and velocity (au/day) of a planet at J2000.0, in the plane of the ecliptic."""
    e = planet.eccentricity
    mean_anomaly = math.radians((planet.longitude - planet.perihelion) % 360.0)
    anomaly = mean_anomaly
    for _ in range(20):
        anomaly -= (anomaly - e * math.sin(anomaly) - mean_anomaly) / (1.0 - e * math.cos(anomaly))
    motion = math.sqrt(GAUSS**2 * (1.0 + 1.0 / planet.inverse_mass) / planet.axis**3)
    root = math.sqrt(1.0 - e * e)
    rate = motion / (1.0 - e * math.cos(anomaly))
    flat_x = planet.axis * np.array([math.cos(anomaly) - e, root * math.sin(anomaly), 0.0])
    flat_v = planet.axis * rate * np.array([-math.sin(anomaly), root * math.cos(anomaly), 0.0])

    def turn(angle: float, a: int, b: int) -> np.ndarray:
        matrix = np.eye(3)
        matrix[a, a] = matrix[b, b] = math.cos(math.radians(angle))
        matrix[b, a] = math.sin(math.radians(angle))
        matrix[a, b] = -matrix[b, a]
        return matrix

    to_ecliptic = turn(planet.node, 0, 1) @ turn(planet.inclination, 1, 2) @ turn(planet.perihelion - planet.node, 0, 1)
    return to_ecliptic @ flat_x, to_ecliptic @ flat_v


@qd.data_oriented
class SolarSystem:
    """Massive bodies that attract each other, and massless bodies that are attracted by them.

    Args:
        n_asteroids: massless bodies, spread over the main belt.
        step_days: length of a step, in days.
    """

    def __init__(self, n_asteroids: int = 2000, step_days: float = 4.0, seed: int = 1) -> None:
        self.n_massive = len(PLANETS) + 1
        self.n = self.n_massive + n_asteroids
        self.x = qd.Vector.field(3, qd.f64, self.n)
        self.v = qd.Vector.field(3, qd.f64, self.n)
        self.mass = qd.field(qd.f64, self.n_massive)
        self.energy_total = qd.field(qd.f64, ())
        positions, velocities, masses = np.zeros((self.n, 3)), np.zeros((self.n, 3)), np.zeros(self.n_massive)
        masses[0] = 1.0
        for k, planet in enumerate(PLANETS, start=1):
            positions[k], velocities[k] = get_state(planet)
            masses[k] = 1.0 / planet.inverse_mass
        generator = np.random.default_rng(seed)
        radius, angle = generator.uniform(2.1, 3.3, n_asteroids), generator.uniform(0.0, 2.0 * math.pi, n_asteroids)
        speed = GAUSS / np.sqrt(radius)
        positions[self.n_massive :, :2] = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
        velocities[self.n_massive :, :2] = np.stack([-speed * np.sin(angle), speed * np.cos(angle)], axis=1)
        massive = slice(0, self.n_massive)
        positions -= masses @ positions[massive] / masses.sum()
        velocities -= masses @ velocities[massive] / masses.sum()
        self.x.from_numpy(positions)
        self.v.from_numpy(velocities)
        self.mass.from_numpy(masses)
        cube = 2.0 ** (1.0 / 3.0)
        outer = 1.0 / (2.0 - cube)
        self.substeps = [step_days * outer, -step_days * outer * cube, step_days * outer]

    @qd.kernel
    def drift(self, days: qd.f64):
        for i in self.x:
            self.x[i] += days * self.v[i]

    @qd.kernel
    def kick(self, days: qd.f64):
        for i in self.x:
            position = self.x[i]
            pull = qd.Vector([0.0, 0.0, 0.0], qd.f64)
            for j in range(self.n_massive):
                if i != j:
                    d = self.x[j] - position
                    r2 = d.dot(d)
                    pull += d * (self.mass[j] / (r2 * qd.sqrt(r2)))
            self.v[i] += days * GAUSS**2 * pull

    @qd.kernel
    def sum_energy(self):
        self.energy_total[None] = 0.0
        for i in range(self.n_massive):
            potential = qd.cast(0.0, qd.f64)
            for j in range(self.n_massive):
                if j > i:
                    potential -= self.mass[j] / (self.x[j] - self.x[i]).norm()
            self.energy_total[None] += self.mass[i] * (0.5 * self.v[i].norm_sqr() + GAUSS**2 * potential)

    def energy(self) -> float:
        """Total energy of the massive bodies, in solar masses au² / day²."""
        self.sum_energy()
        return self.energy_total[None]

    def step(self) -> None:
        """One step of the fourth-order integrator: three leapfrog steps of different lengths."""
        for days in self.substeps:
            self.drift(0.5 * days)
            self.kick(days)
            self.drift(0.5 * days)


def find_periods(step_days: float, years: float, names: list[str]) -> dict[str, float]:
    """Sidereal periods in days: the mean over the complete orbits of each named planet in `years`."""
    system = SolarSystem(0, step_days)
    rows = [1 + [planet.name for planet in PLANETS].index(name) for name in names]
    angles = []
    for _ in range(int(years * YEAR / step_days)):
        x = system.x.to_numpy()
        angles.append(np.arctan2(x[rows, 1] - x[0, 1], x[rows, 0] - x[0, 0]))
        system.step()
    turned = np.unwrap(np.array(angles), axis=0)
    turned -= turned[0]
    days = np.arange(len(angles)) * step_days
    turns = np.floor(turned[-1] / (2.0 * math.pi))
    return {name: np.interp(2.0 * math.pi * turns[k], turned[:, k], days) / turns[k] for k, name in enumerate(names)}


def draw(system: SolarSystem, size: int, scale: float) -> Image.Image:
    """The system seen from the north, `scale` pixels per square root of an astronomical unit."""
    x = system.x.to_numpy()[:, :2]
    radius = np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-9)
    places = size / 2 + x / np.sqrt(radius) * scale * np.array([1.0, -1.0])
    picture = Image.new("RGB", (size, size), (8, 10, 24))
    canvas = ImageDraw.Draw(picture)
    for k, (column, row) in enumerate(places[::-1]):
        body = len(places) - 1 - k
        width = 4.0 if body == 0 else 2.2 if body < system.n_massive else 0.4
        color = (255, 210, 90) if body == 0 else (140, 200, 255) if body < system.n_massive else (120, 110, 100)
        canvas.ellipse([column - width, row - width, column + width, row + width], fill=color)
    return picture


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("out/solar_system.gif"))
    parser.add_argument("--years", type=float, default=30.0)
    parser.add_argument("--frames", type=int, default=150)
    parser.add_argument("--asteroids", type=int, default=2000)
    args = parser.parse_args()
    qd.init(arch=qd.cpu, log_level="error", default_fp=qd.f64)
    step_days = 4.0
    system = SolarSystem(args.asteroids, step_days)
    steps = max(1, round(args.years * YEAR / step_days / args.frames))
    start, images = system.energy(), []
    for _ in tqdm(range(args.frames), desc="integrating", unit="frame"):
        for _ in range(steps):
            system.step()
        images.append(draw(system, 480, 42.0))
    print(f"relative energy drift after {steps * args.frames * step_days / YEAR:.0f} years: {abs(system.energy() / start - 1.0):.1e}")
    args.out.parent.mkdir(parents=True, exist_ok=True)
    images[0].save(args.out, save_all=True, append_images=images[1:], duration=40, loop=0)
    print(f"wrote {args.out}")


if __name__ == "__main__":
    main()

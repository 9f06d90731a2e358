"""Material-point fluid and jelly, seeded from the silhouette of a photograph.

A photographer made of jelly and a block of water fall into a box. The moving-least-squares material point method of Hu et al., "A Moving
Least Squares Material Point Method with Displacement Discontinuity and Two-Way Rigid Body Coupling", ACM Trans. Graph. 37(4), 2018.

    python examples/mpm.py --out out/mpm.gif
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image
from tqdm import tqdm

import quadrants as qd

WATER, JELLY = 0, 1
COLORS = np.array([[66, 135, 245], [237, 108, 89]], np.uint8)


def find_silhouette(photo: np.ndarray, level: int = 60) -> np.ndarray:
    """The largest dark region of a gray photograph, as a mask of the same shape."""
    from skimage.measure import label, regionprops

    regions = label(photo < level)
    largest = max(regionprops(regions), key=lambda region: region.area)
    return regions == largest.label


def seed_scene(n_jelly: int, n_water: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Positions in the unit square (n, 2) and materials (n,) of the scene: the silhouette above, a block of water below."""
    from skimage.data import camera

    rows, columns = np.nonzero(find_silhouette(camera()))
    generator = np.random.default_rng(seed)
    chosen = generator.integers(0, rows.size, n_jelly)
    jitter = generator.random((n_jelly, 2))
    height = 512.0
    jelly = np.stack([(columns[chosen] + jitter[:, 0]) / height, 1.0 - (rows[chosen] + jitter[:, 1]) / height], axis=1)
    jelly = jelly * 0.55 + np.array([0.22, 0.38])
    water = generator.random((n_water, 2)) * np.array([0.88, 0.22]) + np.array([0.06, 0.05])
    materials = np.concatenate([np.full(n_jelly, JELLY), np.full(n_water, WATER)])
    return np.concatenate([jelly, water]).astype(np.float32), materials.astype(np.int32)


@qd.data_oriented
class Scene:
    """Particles, and the grid through which they interact; lengths in units of the box, time in seconds.

    Args:
        positions: float32 (n, 2), inside the unit square.
        materials: int32 (n,), WATER or JELLY.
        n_grid: cells along each side of the box.
    """

    def __init__(self, positions: np.ndarray, materials: np.ndarray, n_grid: int = 128, gravity: float = 9.8) -> None:
        n = positions.shape[0]
        self.n_particles, self.n_grid, self.gravity = n, n_grid, gravity
        self.dx, self.dt = 1.0 / n_grid, 1.0e-4 * 128 / n_grid
        self.particle_volume = (self.dx * 0.5) ** 2
        self.particle_mass = self.particle_volume * 1.0
        self.stiffness, self.shear, self.bulk = 400.0, 350.0, 600.0
        self.x = qd.Vector.field(2, qd.f32, n)
        self.v = qd.Vector.field(2, qd.f32, n)
        self.C = qd.Matrix.field(2, 2, qd.f32, n)
        self.F = qd.Matrix.field(2, 2, qd.f32, n)
        self.J = qd.field(qd.f32, n)
        self.material = qd.field(qd.i32, n)
        self.grid_v = qd.Vector.field(2, qd.f32, (n_grid, n_grid))
        self.grid_m = qd.field(qd.f32, (n_grid, n_grid))
        self.x.from_numpy(positions)
        self.material.from_numpy(materials)
        self.reset()

    @qd.kernel
    def reset(self):
        for p in self.x:
            self.v[p] = qd.Vector([0.0, -1.0])
            self.C[p] = qd.Matrix([[0.0, 0.0], [0.0, 0.0]])
            self.F[p] = qd.Matrix([[1.0, 0.0], [0.0, 1.0]])
            self.J[p] = 1.0

    @qd.func
    def stress(self, p):
        """Kirchhoff stress of particle p times its volume: a weakly compressible fluid, or neo-Hookean jelly."""
        result = qd.Matrix([[0.0, 0.0], [0.0, 0.0]])
        if self.material[p] == WATER:
            pressure = self.stiffness * (self.J[p] - 1.0)
            result = qd.Matrix([[pressure, 0.0], [0.0, pressure]])
        else:
            F = self.F[p]
            J = F.determinant()
            identity = qd.Matrix([[1.0, 0.0], [0.0, 1.0]])
            result = self.shear * (F @ F.transpose() - identity) + identity * self.bulk * (J - 1.0) * J
        return result * self.particle_volume

    @qd.kernel
    def clear_grid(self):
        for i, j in self.grid_m:
            self.grid_v[i, j] = qd.Vector([0.0, 0.0])
            self.grid_m[i, j] = 0.0

    @qd.kernel
    def particles_to_grid(self):
        for p in self.x:
            base = qd.cast(self.x[p] / self.dx - 0.5, qd.i32)
            fx = self.x[p] / self.dx - qd.cast(base, qd.f32)
            w = [0.5 * (1.5 - fx) ** 2, 0.75 - (fx - 1.0) ** 2, 0.5 * (fx - 0.5) ** 2]
            force = -self.dt * 4.0 / self.dx**2 * self.stress(p)
            affine = force + self.particle_mass * self.C[p]
            for i, j in qd.static(qd.ndrange(3, 3)):
                offset = qd.Vector([i, j])
                dpos = (qd.cast(offset, qd.f32) - fx) * self.dx
                weight = w[i][0] * w[j][1]
                self.grid_v[base + offset] += weight * (self.particle_mass * self.v[p] + affine @ dpos)
                self.grid_m[base + offset] += weight * self.particle_mass

    @qd.kernel
    def move_grid(self):
        for i, j in self.grid_m:
            if self.grid_m[i, j] > 0.0:
                v = self.grid_v[i, j] / self.grid_m[i, j]
                v[1] -= self.dt * self.gravity
                if i < 3 and v[0] < 0.0:
                    v[0] = 0.0
                if i > self.n_grid - 4 and v[0] > 0.0:
                    v[0] = 0.0
                if j < 3 and v[1] < 0.0:
                    v[1] = 0.0
                if j > self.n_grid - 4 and v[1] > 0.0:
                    v[1] = 0.0
                self.grid_v[i, j] = v

    @qd.kernel
    def grid_to_particles(self):
        for p in self.x:
            base = qd.cast(self.x[p] / self.dx - 0.5, qd.i32)
            fx = self.x[p] / self.dx - qd.cast(base, qd.f32)
            w = [0.5 * (1.5 - fx) ** 2, 0.75 - (fx - 1.0) ** 2, 0.5 * (fx - 0.5) ** 2]
            new_v = qd.Vector([0.0, 0.0])
            new_C = qd.Matrix([[0.0, 0.0], [0.0, 0.0]])
            for i, j in qd.static(qd.ndrange(3, 3)):
                offset = qd.Vector([i, j])
                dpos = (qd.cast(offset, qd.f32) - fx) * self.dx
                weight = w[i][0] * w[j][1]
                g = self.grid_v[base + offset]
                new_v += weight * g
                new_C += 4.0 * weight * g.outer_product(dpos) / self.dx**2
            self.v[p] = new_v
            self.C[p] = new_C
            self.x[p] += self.dt * new_v
            self.J[p] *= 1.0 + self.dt * new_C.trace()
            self.F[p] = (qd.Matrix([[1.0, 0.0], [0.0, 1.0]]) + self.dt * new_C) @ self.F[p]

    def step(self) -> None:
        """Advances the scene by `dt`."""
        self.clear_grid()
        self.particles_to_grid()
        self.move_grid()
        self.grid_to_particles()


def draw(scene: Scene, size: int) -> Image.Image:
    """The particles as an image of size × size pixels."""
    x, material = scene.x.to_numpy(), scene.material.to_numpy()
    columns = np.clip((x[:, 0] * size).astype(int), 0, size - 1)
    rows = np.clip(((1.0 - x[:, 1]) * size).astype(int), 0, size - 1)
    pixels = np.full((size, size, 3), 250, np.uint8)
    pixels[rows, columns] = COLORS[material]
    return Image.fromarray(pixels)


def measure_start() -> tuple[float, float]:
    """Seconds from starting Python to the end of the first step, with an empty cache folder and with the filled one."""
    seconds = []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(2):
            begin = time.perf_counter()
            subprocess.run(
                [sys.executable, os.path.abspath(__file__), "--frames", "0"],
                check=True,
                env=os.environ | {"QD_OFFLINE_CACHE_FILE_PATH": folder},
                stdout=subprocess.DEVNULL,
            )
            seconds.append(time.perf_counter() - begin)
    return seconds[0], seconds[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="animated GIF to write")
    parser.add_argument("--frames", type=int, default=120)
    parser.add_argument("--steps", type=int, default=80, help="steps for each frame")
    parser.add_argument("--particles", type=int, default=60000)
    parser.add_argument("--grid", type=int, default=128)
    parser.add_argument("--start", action="store_true", help="also measure cold and warm start")
    args = parser.parse_args()

    qd.init(arch=qd.cpu, log_level="error")
    scene = Scene(*seed_scene(args.particles // 2, args.particles // 2), n_grid=args.grid)
    scene.step()
    qd.sync()
    images, seconds = [], 0.0
    for _ in tqdm(range(args.frames), desc="simulating", unit="frame", disable=args.frames == 0):
        begin = time.perf_counter()
        for _ in range(args.steps):
            scene.step()
        qd.sync()
        seconds += time.perf_counter() - begin
        images.append(draw(scene, 320))
    if images:
        print(f"{scene.n_particles * args.steps * args.frames / seconds / 1e6:.1f} million particle steps per second")
    if args.out and images:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        images[0].save(args.out, save_all=True, append_images=images[1:], duration=40, loop=0)
        print(f"wrote {args.out}")
    if args.start:
        cold, warm = measure_start()
        print(f"cold start {cold:.2f} s, warm start {warm:.2f} s (Python, imports and scene included)")


if __name__ == "__main__":
    main()

"""Charges in a bowl repel each other until they form a crystal: a kernel computes the energy, and JAX follows its slope downhill.

`jax.grad` asks for the kernel's own gradient, and `jax.lax.scan` repeats the steps in one program of XLA, which calls the kernel on its own
memory. The bowl is a parabola, and the charges obey Coulomb's law. Needs jax.

    python examples/crystal.py --out out/crystal.png
"""

import argparse
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from PIL import Image, ImageDraw

import quadrants as qd


@qd.ad.jax_op(outputs={"energy": lambda points: jax.ShapeDtypeStruct((), points.dtype)})
@qd.kernel
def measure(points: qd.types.NDArray[qd.f32, 2], energy: qd.types.NDArray[qd.f32, 0]):
    """Adds up the energy of charges at these points, of shape (n, 2): that of their heights, and of each pair."""
    for i in range(points.shape[0]):
        total = 0.5 * (points[i, 0] * points[i, 0] + points[i, 1] * points[i, 1])
        for j in range(points.shape[0]):
            if i != j:
                x, y = points[i, 0] - points[j, 0], points[i, 1] - points[j, 1]
                total += 0.5 / qd.sqrt(x * x + y * y)
        energy[None] += total


def cool(count: int, steps: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Returns the points at rest, of shape (count, 2), and the energies on the way there."""
    start = np.random.default_rng(seed).normal(0, 0.5 * count ** (1 / 3), (count, 2)).astype(np.float32)

    def descend(state, friction):
        points, speed = state
        energy, slope = jax.value_and_grad(measure)(points)
        slope = slope / jnp.maximum(1.0, jnp.linalg.norm(slope, axis=1, keepdims=True) / 20)  # close pairs would fly off
        speed = (1 - friction) * speed - 0.02 * slope
        return (points + 0.1 * speed, speed), energy

    friction = jnp.linspace(0.002, 0.05, steps, dtype=jnp.float32)
    run = jax.jit(lambda points: jax.lax.scan(descend, (points, jnp.zeros_like(points)), friction))
    (points, _), energies = run(jnp.asarray(start))
    return np.asarray(points), np.asarray(energies)


def draw(points: np.ndarray, size: int) -> Image.Image:
    """Returns a picture of the points, colored by their number of neighbors: 6 in a crystal without flaws."""
    image = Image.new("RGB", (size, size), (17, 24, 32))
    pencil = ImageDraw.Draw(image)
    away = np.linalg.norm(points[:, None] - points, axis=-1) + 1e9 * np.eye(len(points))
    neighbors = (away < 1.35 * np.sort(away, 1)[:, :6].mean(1, keepdims=True)).sum(1)
    scale, radius = 0.47 * size / np.linalg.norm(points, axis=1).max(), 0.28 * away.min(1).mean()
    for (x, y), count in zip(points.tolist(), neighbors.tolist(), strict=True):
        color = {5: (240, 120, 60), 6: (90, 170, 230), 7: (240, 210, 80)}.get(count, (150, 150, 150))
        box = [size / 2 + scale * each for each in (x - radius, -y - radius, x + radius, -y + radius)]
        pencil.ellipse(box, fill=color)
    return image


def main() -> None:
    """Cools and draws the charges."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("out/crystal.png"), help="picture to write")
    parser.add_argument("--charges", type=int, default=250)
    parser.add_argument("--steps", type=int, default=1500)
    options = parser.parse_args()
    qd.init(arch=qd.cpu)
    points, energies = cool(options.charges, options.steps)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    draw(points, 400).save(options.out)
    print(f"energy of a charge: {energies[0] / options.charges:.3f} at the start, {energies[-1] / options.charges:.3f} at rest")


if __name__ == "__main__":
    main()

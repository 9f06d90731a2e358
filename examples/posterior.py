"""Draws samples of a curved probability density with many independent chains, and shows how often each place was visited.

The chains follow N. Metropolis et al., "Equation of State Calculations by Fast Computing Machines", J. Chem. Phys. 21(6), 1953. The density
is that of H. Haario et al., "Adaptive proposal distribution for random walk Metropolis algorithm", Comput. Stat. 14, 1999: a normal
distribution, bent along a parabola, whose moments are known.

    python examples/posterior.py --out out/posterior.png
"""

import argparse
from pathlib import Path

import numpy as np
from PIL import Image

import quadrants as qd

BEND = 0.5
LOW, HIGH = (-3.2, -2.5), (3.2, 3.9)  # corners of the picture


@qd.func
def log_density(x, y):
    """The logarithm of the density at a place, up to a constant."""
    return -0.5 * (x * x + 4.0 * (y - BEND * (x * x - 1.0)) ** 2)


@qd.kernel
def sample(chains: int, steps: int, skipped: int, counts: qd.types.NDArray[qd.f32, 2], sums: qd.types.NDArray[qd.f64, 1]):
    """Adds the places of all chains, after their first steps, to the counts, and their powers to the sums: x, y, x², y², accepted."""
    for chain in range(chains):
        x, y = qd.randn(qd.f32), qd.randn(qd.f32)
        level = log_density(x, y)
        for step in range(steps):
            new_x, new_y = x + 0.9 * qd.randn(qd.f32), y + 0.9 * qd.randn(qd.f32)
            new_level = log_density(new_x, new_y)
            if qd.log(qd.random()) < new_level - level:
                x, y, level = new_x, new_y, new_level
                sums[4] += 1.0
            if step >= skipped:
                sums[0] += x
                sums[1] += y
                sums[2] += x * x
                sums[3] += y * y
                column = int(qd.floor((x - LOW[0]) / (HIGH[0] - LOW[0]) * counts.shape[1]))
                row = int(qd.floor((HIGH[1] - y) / (HIGH[1] - LOW[1]) * counts.shape[0]))
                if 0 <= row < counts.shape[0] and 0 <= column < counts.shape[1]:
                    counts[row, column] += 1.0


def run(chains: int, steps: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the counts, and the means of x, y, x², y² with the share of accepted steps."""
    counts, sums, skipped = np.zeros((size, size), np.float32), np.zeros(5), steps // 5
    sample(chains, steps, skipped, counts, sums)
    return counts, sums / chains / np.array([steps - skipped] * 4 + [steps])


def main() -> None:
    """Draws the samples."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("out/posterior.png"), help="picture to write")
    parser.add_argument("--chains", type=int, default=20_000)
    parser.add_argument("--steps", type=int, default=1_000, help="steps of each chain")
    parser.add_argument("--size", type=int, default=320, help="width and height in pixels")
    options = parser.parse_args()
    qd.init(arch=qd.cpu)
    counts, means = run(options.chains, options.steps, options.size)
    light = (counts / counts.max())[:, :, None] ** (0.9, 0.5, 0.3)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.uint8(255 * light)).save(options.out)
    exact = (0.0, 0.0, 1.0, 0.25 + 2 * BEND**2)
    for name, found, expected in zip(("x", "y", "x²", "y²"), means, exact, strict=False):
        print(f"mean of {name}: {found:.4f}, exact {expected:.4f}")
    print(f"{means[4]:.0%} of the steps were accepted")


if __name__ == "__main__":
    main()
